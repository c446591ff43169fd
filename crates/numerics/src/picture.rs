//! What a picture of an output shows, reduced while its elements are still there: a map of the worst
//! elements, distances in units in the last place, pairs of values, errors against an oracle.
//!
//! A picture is bounded in size, whatever the tensor's. Its parts do not depend on the number of
//! threads: they are counts and maxima.

#[cfg(test)]
mod tests;

use rayon::prelude::*;
use serde::{Deserialize, Serialize};

use super::compare::compare_element;
use super::constants::NOISE_FACTOR;
use super::measure::{ulp, value_distance};
use super::noise::NoiseRef;
use replay_base::summary::{POISON_A, POISON_B};
use replay_base::tensor::TensorView;

/// Cells of a map, at most: down and across.
pub const CELLS: [usize; 2] = [24, 48];
/// Pairs of values that are kept of all elements, and of those beyond noise.
const PAIRS: [usize; 2] = [160, 60];
/// Elements of one task.
const BLOCK: usize = 1 << 16;

/// How far the elements of a cell lie off, or what they are instead of numbers; ordered from best to
/// worst.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub enum Shade {
    /// The same bits, or nothing to compare with.
    #[default]
    #[serde(rename = "s")]
    Same,
    /// At most the noise.
    #[serde(rename = "n")]
    Near,
    /// Within the noise that a verdict allows.
    #[serde(rename = "w")]
    Within,
    /// Beyond it, less than 100 times the noise.
    #[serde(rename = "b")]
    Beyond,
    /// Up to 10,000 times the noise.
    #[serde(rename = "f")]
    Far,
    /// Up to 1,000,000 times the noise.
    #[serde(rename = "g")]
    Great,
    /// More than that; integers that differ.
    #[serde(rename = "m")]
    Most,
    #[serde(rename = "i")]
    Infinite,
    /// Not a number.
    #[serde(rename = "x")]
    Nan,
    /// Depends on memory that nobody wrote.
    #[serde(rename = "p")]
    Dependent,
    /// Never written.
    #[serde(rename = "u")]
    Unwritten,
}

impl Shade {
    /// All of them, from best to worst.
    pub const ALL: [Shade; 11] = [
        Shade::Same,
        Shade::Near,
        Shade::Within,
        Shade::Beyond,
        Shade::Far,
        Shade::Great,
        Shade::Most,
        Shade::Infinite,
        Shade::Nan,
        Shade::Dependent,
        Shade::Unwritten,
    ];

    /// The shade of an element that lies `ratio` times its noise off.
    pub fn from_ratio(ratio: f64) -> Shade {
        match ratio {
            ..=1.0 => Shade::Near,
            ..=NOISE_FACTOR => Shade::Within,
            ..=100.0 => Shade::Beyond,
            ..=1e4 => Shade::Far,
            ..=1e6 => Shade::Great,
            _ => Shade::Most,
        }
    }
}

/// Counts by powers of two.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BinaryHistogram {
    /// One for each bucket; see [`BinaryHistogram::bound`].
    pub counts: Vec<u64>,
}

/// The exponent of the least bucket's upper bound.
const LEAST: i32 = -10;

impl BinaryHistogram {
    /// The number of buckets.
    pub const BUCKETS: usize = 54;

    fn new() -> BinaryHistogram {
        BinaryHistogram { counts: vec![0; BinaryHistogram::BUCKETS] }
    }

    /// The bucket of `value`, which is not negative: the first holds 0, the last what is not finite.
    fn bucket(value: f64) -> usize {
        match value {
            0.0 => 0,
            _ if !value.is_finite() => BinaryHistogram::BUCKETS - 1,
            _ => {
                let last_bucket = BinaryHistogram::BUCKETS as i32 - 2;
                (value.log2().ceil() as i32 - LEAST + 1).clamp(1, last_bucket) as usize
            }
        }
    }

    /// The upper bound of a bucket, which belongs to it; infinite for the last.
    pub fn bound(bucket: usize) -> f64 {
        match bucket {
            0 => 0.0,
            _ if bucket + 1 >= BinaryHistogram::BUCKETS => f64::INFINITY,
            _ => 2f64.powi(bucket as i32 - 1 + LEAST),
        }
    }

    /// The least bucket below which `share` of the counts lie.
    fn quantile(&self, share: f64) -> Option<usize> {
        let total_count: u64 = self.counts.iter().sum();
        let mut count_below = 0;
        (0..self.counts.len()).find(|&bucket| {
            count_below += self.counts[bucket];
            total_count > 0 && count_below as f64 >= share * total_count as f64
        })
    }

    fn merge(&mut self, other: &BinaryHistogram) {
        self.counts
            .iter_mut()
            .zip(&other.counts)
            .for_each(|(own_count, other_count)| *own_count += other_count);
    }
}

/// The worst of each block of rows and of the last dimension.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Map {
    /// Rows of the tensor: all dimensions but the last, taken together.
    pub rows: usize,
    /// Its last dimension.
    pub columns: usize,
    /// Cells down.
    pub height: usize,
    /// Cells across.
    pub width: usize,
    /// The cells, row by row.
    pub cells: Vec<Shade>,
}

impl Map {
    fn blank(view: &TensorView) -> Map {
        let columns = view.shape.last().copied().unwrap_or(1);
        let rows = view.len().checked_div(columns).unwrap_or(0);
        let [height, width] = [rows.min(CELLS[0]), columns.min(CELLS[1])];
        Map { rows, columns, height, width, cells: vec![Shade::Same; height * width] }
    }

    /// The cell of element `index`.
    fn cell(&self, index: usize) -> usize {
        let row = index / self.columns;
        let column = index % self.columns;
        let line = find_cell(row, self.rows, self.height);
        line * self.width + find_cell(column, self.columns, self.width)
    }

    /// The first index, of `size`, that lies in `cell` of `cells`.
    pub fn first(cell: usize, size: usize, cells: usize) -> usize {
        (cell as u128 * size as u128).div_ceil(cells.max(1) as u128) as usize
    }
}

/// The cell, out of `cells`, of `position` out of `size`.
fn find_cell(position: usize, size: usize, cells: usize) -> usize {
    (position as u128 * cells as u128 / size as u128) as usize
}

/// Elements that are no numbers, or that nobody wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Classes {
    /// Not a number.
    pub nan: u64,
    pub inf: u64,
    /// Never written.
    pub unwritten: u64,
    /// Dependent on memory that nobody wrote.
    pub dependent: u64,
}

/// How far the elements of two sides lie apart, in units in the last place; in units for integers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distances {
    /// Elements within noise.
    pub within: BinaryHistogram,
    /// Elements beyond it.
    pub beyond: BinaryHistogram,
    /// Where noise ends for most elements: buckets that hold the ends of the middle nine tenths.
    pub band: Option<[usize; 2]>,
}

/// One element of both sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ValuePair {
    /// The trusted side's value.
    pub base: f32,
    /// The other side's.
    pub got: f32,
    /// Whether it is beyond noise.
    pub beyond: bool,
}

/// What a picture of one output shows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Picture {
    /// Where elements lie off.
    pub map: Map,
    /// What is no number.
    pub classes: Classes,
    /// How far they lie off, if there is something to compare with.
    pub distances: Option<Distances>,
    /// Values of both sides, spread over the tensor, the worst among them.
    pub pairs: Vec<ValuePair>,
    /// The errors of the trusted side against the oracle, in units in the last place.
    pub base_errors: Option<BinaryHistogram>,
    /// Those of the other side.
    pub got_errors: Option<BinaryHistogram>,
}

/// An output, and what it is held against.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    pub got: TensorView<'a>,
    /// The same of a replay on other poison, where memory that nobody wrote shows.
    pub again: Option<TensorView<'a>>,
    /// The trusted side, and the noise of both.
    pub base: Option<(TensorView<'a>, NoiseRef<'a>)>,
    /// The truth, in any format.
    pub oracle: Option<TensorView<'a>>,
}

/// The worst element of a cell.
#[derive(Clone, Copy, Default)]
struct WorstInCell {
    shade: Shade,
    ratio: f64,
    index: usize,
}

/// What some of the elements come to.
struct PicturePart {
    cells: Vec<WorstInCell>,
    classes: Classes,
    within: BinaryHistogram,
    beyond: BinaryHistogram,
    noise: BinaryHistogram,
    errors: [BinaryHistogram; 2],
}

impl Picture {
    /// The picture of `scene`. Sides of another shape than the output are left out.
    pub fn draw(scene: &Scene<'_>) -> Picture {
        let has_same_shape = |tensor: &TensorView| tensor.shape == scene.got.shape;
        let is_comparable =
            |tensor: &TensorView| has_same_shape(tensor) && tensor.dtype == scene.got.dtype;
        let scene = Scene {
            got: scene.got,
            again: scene.again.filter(is_comparable),
            base: scene.base.filter(|(base, noise)| {
                is_comparable(base) && noise.check_len(scene.got.len()).is_ok()
            }),
            oracle: scene
                .oracle
                .filter(|oracle| has_same_shape(oracle) && scene.got.dtype.is_float()),
        };
        let map = Map::blank(&scene.got);
        if scene.got.is_empty() || map.cells.is_empty() {
            return Picture { map, ..Picture::default() };
        }
        let blocks = scene.got.len().div_ceil(BLOCK);
        let cells = map.cells.len();
        let parts = (0..blocks).into_par_iter().fold(
            || PicturePart::new(cells),
            |mut part, block| {
                let elements = block * BLOCK..scene.got.len().min((block + 1) * BLOCK);
                elements.for_each(|index| part.add(&scene, index, map.cell(index)));
                part
            },
        );
        let part = parts.reduce_with(PicturePart::merged).expect("there is a block");
        scene.picture(map, part)
    }
}

impl Scene<'_> {
    fn picture(&self, mut map: Map, part: PicturePart) -> Picture {
        map.cells = part.cells.iter().map(|worst| worst.shade).collect();
        let pairs = self.pairs(&part.cells);
        let ends = part.noise.quantile(0.05).zip(part.noise.quantile(0.95));
        let [base_errors, got_errors] = part.errors;
        Picture {
            map,
            classes: part.classes,
            distances: self.base.map(|_| Distances {
                within: part.within,
                beyond: part.beyond,
                band: ends.map(|(low, high)| [low, high]),
            }),
            pairs,
            base_errors: self.base.and(self.oracle).map(|_| base_errors),
            got_errors: self.oracle.map(|_| got_errors),
        }
    }

    /// Elements at equal distances, and the worst of cells that lie beyond noise.
    fn pairs(&self, cells: &[WorstInCell]) -> Vec<ValuePair> {
        let Some((base, noise)) = &self.base else { return Vec::new() };
        let mut wrong: Vec<&WorstInCell> =
            cells.iter().filter(|worst| worst.shade >= Shade::Beyond).collect();
        wrong.sort_by(|a, b| b.ratio.total_cmp(&a.ratio).then(a.index.cmp(&b.index)));
        let spread = spread_indices(self.got.len(), PAIRS[0]);
        let wrong = spread_over(&wrong, PAIRS[1]).map(|worst| worst.index);
        let mut chosen: Vec<usize> = spread.chain(wrong).collect();
        chosen.sort_unstable();
        chosen.dedup();
        let pairs = chosen.into_iter().map(|index| {
            let beyond = compare_element(base, &self.got, noise, index)
                .is_some_and(|element| element.is_beyond());
            ValuePair {
                base: base.get_f64(index) as f32,
                got: self.got.get_f64(index) as f32,
                beyond,
            }
        });
        pairs.filter(|pair| pair.base.is_finite() && pair.got.is_finite()).collect()
    }

    /// Whether nobody wrote element `index`, and whether it depends on memory that nobody wrote.
    fn memory(&self, index: usize) -> (bool, bool) {
        let Some(repeated_output) = &self.again else { return (false, false) };
        let unwritten = POISON_A.is_in(&self.got, index) && POISON_B.is_in(repeated_output, index);
        let size = self.got.dtype.size();
        let bytes = index * size..(index + 1) * size;
        (unwritten, !unwritten && self.got.bytes[bytes.clone()] != repeated_output.bytes[bytes])
    }
}

/// At most `most_indices` of `0..len`, at equal distances.
fn spread_indices(len: usize, most_indices: usize) -> impl Iterator<Item = usize> {
    let chosen = len.min(most_indices);
    (0..chosen).map(move |position| (position as u128 * len as u128 / chosen as u128) as usize)
}

fn spread_over<'a, T>(items: &'a [&'a T], most_items: usize) -> impl Iterator<Item = &'a T> {
    spread_indices(items.len(), most_items).map(|index| items[index])
}

impl PicturePart {
    fn new(cells: usize) -> PicturePart {
        PicturePart {
            cells: vec![WorstInCell::default(); cells],
            classes: Classes::default(),
            within: BinaryHistogram::new(),
            beyond: BinaryHistogram::new(),
            noise: BinaryHistogram::new(),
            errors: [BinaryHistogram::new(), BinaryHistogram::new()],
        }
    }

    fn add(&mut self, scene: &Scene<'_>, index: usize, cell: usize) {
        let value = scene.got.get_f64(index);
        let (shade, ratio) = self.compare(scene, index);
        let (unwritten, dependent) = scene.memory(index);
        let class = match () {
            () if unwritten => Some((Shade::Unwritten, &mut self.classes.unwritten)),
            () if dependent => Some((Shade::Dependent, &mut self.classes.dependent)),
            () if value.is_nan() => Some((Shade::Nan, &mut self.classes.nan)),
            () if value.is_infinite() => Some((Shade::Infinite, &mut self.classes.inf)),
            () => None,
        };
        let shade = class.map_or(shade, |(class, count)| {
            *count += 1;
            class
        });
        let worst = &mut self.cells[cell];
        if (shade, ratio) > (worst.shade, worst.ratio) {
            *worst = WorstInCell { shade, ratio, index };
        }
        if let Some(oracle) = &scene.oracle {
            self.err(scene, oracle.get_f64(index), index, value);
        }
    }

    /// How far element `index` lies off the trusted side.
    fn compare(&mut self, scene: &Scene<'_>, index: usize) -> (Shade, f64) {
        let Some((base, noise)) = &scene.base else { return (Shade::Same, 0.0) };
        let dtype = base.dtype;
        let old = base.get_f64(index);
        let units = |distance: f64| match ulp(dtype, old) {
            ulp if ulp > 0.0 => distance / ulp,
            _ => distance,
        };
        if dtype.is_float() && old.is_finite() {
            let noise = NOISE_FACTOR * noise.sum_at(dtype, index, old, scene.got.get_f64(index));
            self.noise.counts[BinaryHistogram::bucket(units(noise))] += 1;
        }
        let Some(element) = compare_element(base, &scene.got, noise, index) else {
            self.within.counts[0] += 1;
            return (Shade::Same, 0.0);
        };
        let counted = if element.is_beyond() { &mut self.beyond } else { &mut self.within };
        counted.counts[BinaryHistogram::bucket(units(element.distance))] += 1;
        (Shade::from_ratio(element.ratio), element.ratio)
    }

    /// Counts the errors of both sides at `index`, where the truth is `truth`.
    fn err(&mut self, scene: &Scene<'_>, truth: f64, index: usize, got: f64) {
        let unit = ulp(scene.got.dtype, truth);
        let base = scene.base.map(|(base, _)| base.get_f64(index));
        for (errors, value) in self.errors.iter_mut().zip([base, Some(got)]) {
            let Some(value) = value else { continue };
            let error = value_distance(truth, value);
            let error = if unit > 0.0 { error / unit } else { error };
            errors.counts[BinaryHistogram::bucket(error)] += 1;
        }
    }

    fn merged(mut self, other: PicturePart) -> PicturePart {
        for (own_cell, other_cell) in self.cells.iter_mut().zip(other.cells) {
            let order =
                (own_cell.shade, own_cell.ratio).partial_cmp(&(other_cell.shade, other_cell.ratio));
            let earlier = other_cell.index < own_cell.index;
            match order {
                Some(std::cmp::Ordering::Less) => *own_cell = other_cell,
                Some(std::cmp::Ordering::Equal) if earlier && other_cell.shade > Shade::Same => {
                    *own_cell = other_cell;
                }
                _ => {}
            }
        }
        self.classes.nan += other.classes.nan;
        self.classes.inf += other.classes.inf;
        self.classes.unwritten += other.classes.unwritten;
        self.classes.dependent += other.classes.dependent;
        self.within.merge(&other.within);
        self.beyond.merge(&other.beyond);
        self.noise.merge(&other.noise);
        self.errors
            .iter_mut()
            .zip(&other.errors)
            .for_each(|(own_errors, other_errors)| own_errors.merge(other_errors));
        self
    }
}
