//! Says where in a tensor a class of elements lies, along its named dimensions.
//!
//! A region is a product of selections, one for each dimension, perhaps narrowed by a mask among
//! the inputs. A location never claims an element outside the class: where the class does not
//! fill its region, it says how much of it the class is.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::bitmap::Bitmap;
use crate::tensor::{Dim, TensorView, unravel};

/// Single indices that a selection lists before it falls back to their range.
const LISTED: usize = 8;
/// Elements that a location keeps as examples.
const EXAMPLES: usize = 4;
/// Rows and columns of a block map, at most.
const MAP: [usize; 2] = [8, 32];

/// An input that tells rows of the output apart, such as the mask of a loss.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// The input's name.
    pub name: &'a str,
    /// The input; what counts is whether an element is 0.
    pub view: TensorView<'a>,
    /// For each of its dimensions, the output's dimension of the same size name, in rising order.
    pub dims: &'a [usize],
}

/// Which indices of one dimension belong to a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Selection {
    /// All of them.
    All,
    /// These, both ends included.
    Range {
        /// The first index.
        first: usize,
        /// The last index.
        last: usize,
    },
    /// Those with this remainder.
    Modulo {
        /// What they are divided by.
        modulus: usize,
        /// What is left.
        remainder: usize,
    },
    /// Exactly these.
    List(Vec<usize>),
}

/// The selection along one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Term {
    /// The dimension's name, or `dim 2` where it has none.
    pub dim: String,
    /// Its size.
    pub size: usize,
    /// Which of its indices.
    pub selection: Selection,
}

/// The part of a mask that a region lies in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MaskTerm {
    /// The mask's name.
    pub name: String,
    /// Whether the region lies where the mask is 0, or where it is not.
    pub zero: bool,
}

/// Where a class of elements lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Location {
    /// Elements in the class.
    pub elements: u64,
    /// Elements in the region; equal to `elements` where the class is exactly the region.
    pub region_elements: u64,
    /// One term for each dimension, outermost first. All elements of the class lie in all terms.
    pub terms: Vec<Term>,
    /// The mask that narrows the region further, if one does.
    pub mask: Option<MaskTerm>,
    /// Rows (all dimensions but the last, taken together) that hold an element of the class.
    pub rows: u64,
    /// Rows of the region.
    pub region_rows: u64,
    /// The first elements of the class, by their index along each dimension.
    pub first: Vec<Vec<usize>>,
}

impl Selection {
    /// Whether `index` is selected.
    pub fn contains(&self, index: usize) -> bool {
        match self {
            Selection::All => true,
            Selection::Range { first, last } => (*first..=*last).contains(&index),
            Selection::Modulo { modulus, remainder } => index % modulus == *remainder,
            Selection::List(list) => list.contains(&index),
        }
    }

    /// The selection of exactly the indices that are `touched`, or of the range around them.
    fn around(touched: &[bool]) -> Selection {
        let list: Vec<usize> = (0..touched.len()).filter(|&index| touched[index]).collect();
        let (Some(&first), Some(&last)) = (list.first(), list.last()) else {
            return Selection::List(list);
        };
        if list.len() == touched.len() {
            return Selection::All;
        }
        if last - first + 1 == list.len() {
            return Selection::Range { first, last };
        }
        let modulus = list[1] - first;
        let even = list.windows(2).all(|pair| pair[1] - pair[0] == modulus);
        if even && list.len() > 2 && first < modulus && last + modulus >= touched.len() {
            return Selection::Modulo { modulus, remainder: first };
        }
        match list.len() {
            ..=LISTED => Selection::List(list),
            _ if first == 0 && last + 1 == touched.len() => Selection::All,
            _ => Selection::Range { first, last },
        }
    }
}

impl Location {
    /// Whether the class is exactly the region.
    pub fn is_exact(&self) -> bool {
        self.elements == self.region_elements
    }

    /// Whether the element at `index` lies in the region. `masks` are those given to [`locate`].
    ///
    /// # Panics
    /// If `index` has another rank than the tensor, or lies outside of it.
    pub fn contains(&self, index: &[usize], masks: &[Mask]) -> bool {
        let in_terms = self.terms.iter().zip(index).all(|(term, &i)| term.selection.contains(i));
        let in_mask = self.mask.as_ref().is_none_or(|term| {
            let mask = masks.iter().find(|mask| mask.name == term.name);
            mask.is_none_or(|mask| mask.is_zero_at(index) == term.zero)
        });
        in_terms && in_mask
    }
}

impl Mask<'_> {
    /// Whether the mask is 0 for the output's element at `index`.
    fn is_zero_at(&self, index: &[usize]) -> bool {
        let at = self.dims.iter().zip(self.view.shape);
        let linear = at.fold(0, |linear, (&dim, &size)| linear * size + index[dim]);
        self.view.get_f64(linear) == 0.0
    }

    /// Whether the mask's dimensions are dimensions of an output of this shape.
    fn fits(&self, shape: &[usize]) -> bool {
        let sizes = self.dims.iter().zip(self.view.shape);
        self.dims.len() == self.view.shape.len()
            && self.dims.windows(2).all(|pair| pair[0] < pair[1])
            && sizes.into_iter().all(|(&dim, &size)| shape.get(dim) == Some(&size))
            && self.view.len() == self.view.shape.iter().product::<usize>()
    }
}

/// What is known of a class before its region is chosen.
struct Class {
    shape: Vec<usize>,
    touched: Vec<Vec<bool>>,
    elements: u64,
    rows: u64,
    first: Vec<Vec<usize>>,
    /// Per mask, whether the class has elements where it is zero and where it is not.
    sides: Vec<[bool; 2]>,
}

/// Locates the elements of `class` in a tensor with dimensions `dims`; none where it is empty.
///
/// Masks that do not fit the dimensions are passed over. Of all regions that hold the class, the
/// smallest is told.
pub fn locate(class: &Bitmap, dims: &[Dim], masks: &[Mask]) -> Option<Location> {
    let shape: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
    if class.len() != shape.iter().product::<usize>() {
        return None;
    }
    let masks: Vec<&Mask> = masks.iter().filter(|mask| mask.fits(&shape)).collect();
    let class = survey(class, shape, &masks);
    if class.elements == 0 {
        return None;
    }
    let terms: Vec<Term> = dims.iter().zip(&class.touched).enumerate().map(term).collect();
    let mut best = region(&class, &terms, None);
    for (mask, sides) in masks.iter().zip(&class.sides) {
        let zero = match sides {
            [true, false] => true,
            [false, true] => false,
            _ => continue,
        };
        let terms = without_redundant(terms.clone(), mask, zero);
        let narrowed = region(&class, &terms, Some((mask, zero)));
        if narrowed.region_elements < best.region_elements {
            best = narrowed;
        }
    }
    Some(best)
}

/// The indices of a dimension that are touched, as a term.
pub(super) fn term((at, (dim, touched)): (usize, (&Dim, &Vec<bool>))) -> Term {
    let name = dim.name.clone().unwrap_or_else(|| format!("dim {at}"));
    Term { dim: name, size: dim.size, selection: Selection::around(touched) }
}

/// Goes once through the elements of a class.
fn survey(class: &Bitmap, shape: Vec<usize>, masks: &[&Mask]) -> Class {
    let mut found = Class {
        touched: shape.iter().map(|&size| vec![false; size]).collect(),
        elements: 0,
        rows: 0,
        first: Vec::new(),
        sides: vec![[false; 2]; masks.len()],
        shape,
    };
    let row_size = found.shape.last().copied().unwrap_or(1).max(1);
    let mut row = None;
    for linear in class.ones() {
        let index = unravel(linear, &found.shape);
        for (touched, &i) in found.touched.iter_mut().zip(&index) {
            touched[i] = true;
        }
        for (sides, mask) in found.sides.iter_mut().zip(masks) {
            sides[usize::from(!mask.is_zero_at(&index))] = true;
        }
        if row != Some(linear / row_size) {
            row = Some(linear / row_size);
            found.rows += 1;
        }
        found.elements += 1;
        if found.first.len() < EXAMPLES {
            found.first.push(index);
        }
    }
    found
}

/// The terms, without those that the side of the mask implies already.
fn without_redundant(mut terms: Vec<Term>, mask: &Mask, zero: bool) -> Vec<Term> {
    let inside = count_in_mask(&terms, mask, zero);
    for &dim in mask.dims {
        let selection = std::mem::replace(&mut terms[dim].selection, Selection::All);
        if count_in_mask(&terms, mask, zero) != inside {
            terms[dim].selection = selection;
        }
    }
    terms
}

/// The region of these terms, narrowed by one side of a mask, with its elements counted.
fn region(class: &Class, terms: &[Term], mask: Option<(&Mask, bool)>) -> Location {
    let selected = |dim: usize| -> u64 {
        let term = &terms[dim];
        (0..term.size).filter(|&index| term.selection.contains(index)).count() as u64
    };
    let masked = |dim: &usize| mask.is_some_and(|(mask, _)| mask.dims.contains(dim));
    let in_mask = mask.map_or(1, |(mask, zero)| count_in_mask(terms, mask, zero));
    let count =
        |dims: usize| -> u64 { (0..dims).filter(|dim| !masked(dim)).map(selected).product() };
    let rank = class.shape.len();
    let last_is_masked = rank > 0 && masked(&(rank - 1));
    let region_elements = in_mask * count(rank);
    // A mask over the last dimension does not select rows, so any row of the terms may be meant.
    let region_rows = if last_is_masked {
        (0..rank - 1).map(selected).product()
    } else {
        in_mask * count(rank.saturating_sub(1))
    };
    Location {
        elements: class.elements,
        region_elements,
        terms: terms.to_vec(),
        mask: mask.map(|(mask, zero)| MaskTerm { name: mask.name.to_owned(), zero }),
        rows: class.rows,
        region_rows,
        first: class.first.clone(),
    }
}

/// The mask's elements on one side of it that lie in the terms.
fn count_in_mask(terms: &[Term], mask: &Mask, zero: bool) -> u64 {
    let inside = |linear: &usize| {
        let index = unravel(*linear, mask.view.shape);
        let selects = |(&dim, &i): (&usize, &usize)| terms[dim].selection.contains(i);
        mask.dims.iter().zip(&index).all(selects)
    };
    let side = |linear: &usize| (mask.view.get_f64(*linear) == 0.0) == zero;
    (0..mask.view.len()).filter(side).filter(inside).count() as u64
}

/// The location in words, such as `head 1..3`, `vocab >= 1024` or
/// `7168 of 7616 elements where mask != 0, in 224 of 224 rows, first at batch 0, seq 1, vocab 0`.
pub fn describe(location: &Location) -> String {
    let mut parts: Vec<String> = location.terms.iter().filter_map(describe_term).collect();
    if let Some(mask) = &location.mask {
        let relation = if mask.zero { "=" } else { "!=" };
        parts.push(format!("rows with {} {relation} 0", mask.name));
    }
    let region = if parts.is_empty() { "everywhere".to_owned() } else { parts.join(", ") };
    if location.is_exact() {
        return region;
    }
    let mut text = format!("{} of {} elements", location.elements, location.region_elements);
    if !parts.is_empty() {
        let _ = write!(text, " of {region}");
    }
    if location.terms.len() > 1 {
        let _ = write!(text, ", in {} of {} rows", location.rows, location.region_rows);
    }
    let examples: Vec<String> =
        location.first.iter().map(|index| describe_index(&location.terms, index)).collect();
    if location.elements as usize == examples.len() {
        let _ = write!(text, ": {}", examples.join("; "));
    } else if let Some(first) = examples.first() {
        let _ = write!(text, ", first at {first}");
    }
    text
}

/// A term in words; none where it selects all.
pub(super) fn describe_term(term: &Term) -> Option<String> {
    let name = &term.dim;
    Some(match &term.selection {
        Selection::All => return None,
        Selection::Range { first, last } if first == last => format!("{name} {first}"),
        Selection::Range { first, last } if last + 1 == term.size && term.size > 8 => {
            format!("{name} >= {first}")
        }
        Selection::Range { first: 0, last } if term.size > 8 => format!("{name} <= {last}"),
        Selection::Range { first, last } => format!("{name} {first}..{last}"),
        Selection::Modulo { modulus, remainder } => format!("{name} % {modulus} = {remainder}"),
        Selection::List(list) => {
            let list: Vec<String> = list.iter().map(usize::to_string).collect();
            format!("{name} {}", list.join("+"))
        }
    })
}

fn describe_index(terms: &[Term], index: &[usize]) -> String {
    let parts = terms.iter().zip(index).map(|(term, i)| format!("{} {i}", term.dim));
    parts.collect::<Vec<_>>().join(", ")
}

/// A map of a class in a 2-D view (rows are all dimensions but the last): at most 8 lines of 32
/// characters, each telling the share of a block's elements that belong to the class.
///
/// ` ` none, `.` up to a quarter, `:` up to a half, `+` more, `#` all. Empty for an empty tensor.
pub fn block_map(class: &Bitmap, shape: &[usize]) -> String {
    let columns = shape.last().copied().unwrap_or(1);
    if class.is_empty() || columns == 0 || !class.len().is_multiple_of(columns) {
        return String::new();
    }
    let rows = class.len() / columns;
    let [height, width] = [rows.min(MAP[0]), columns.min(MAP[1])];
    let mut filled = vec![0u64; height * width];
    for linear in class.ones() {
        let (row, column) = (linear / columns, linear % columns);
        filled[block_of(row, rows, height) * width + block_of(column, columns, width)] += 1;
    }
    let line = |y: usize| -> String {
        let tall = block_size(y, rows, height);
        let share = |x: usize| shade(filled[y * width + x], tall * block_size(x, columns, width));
        (0..width).map(share).collect()
    };
    (0..height).map(line).collect::<Vec<_>>().join("\n")
}

/// The block, out of `blocks`, that holds `index` out of `size`.
fn block_of(index: usize, size: usize, blocks: usize) -> usize {
    ((index as u128 * blocks as u128) / size as u128) as usize
}

/// The number of indices in `block`.
fn block_size(block: usize, size: usize, blocks: usize) -> u64 {
    let start = |block: usize| (block as u128 * size as u128).div_ceil(blocks as u128);
    (start(block + 1) - start(block)) as u64
}

fn shade(filled: u64, total: u64) -> char {
    match filled {
        0 => ' ',
        _ if filled == total => '#',
        _ if filled * 4 <= total => '.',
        _ if filled * 2 <= total => ':',
        _ => '+',
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::tensor::DType;

    fn dims(sizes: &[(&str, usize)]) -> Vec<Dim> {
        sizes.iter().map(|&(name, size)| Dim { name: Some(name.to_owned()), size }).collect()
    }

    fn class(sizes: &[(&str, usize)], belongs: impl Fn(&[usize]) -> bool + Sync) -> Bitmap {
        let shape: Vec<usize> = sizes.iter().map(|&(_, size)| size).collect();
        Bitmap::from_fn(shape.iter().product(), |i| belongs(&unravel(i, &shape)))
    }

    fn told(
        sizes: &[(&str, usize)],
        masks: &[Mask],
        belongs: impl Fn(&[usize]) -> bool + Sync,
    ) -> String {
        let location = locate(&class(sizes, belongs), &dims(sizes), masks);
        location.map_or("nowhere".to_owned(), |location| describe(&location))
    }

    const HEADS: &[(&str, usize)] = &[("batch", 2), ("head", 4), ("seq", 16)];
    const LOGITS: &[(&str, usize)] = &[("batch", 2), ("seq", 4), ("vocab", 2004)];

    #[test]
    fn planted_slices_are_named() {
        insta::assert_snapshot!(told(HEADS, &[], |i| i[1] > 0), @"head 1..3");
        insta::assert_snapshot!(told(HEADS, &[], |i| i[1] == 2), @"head 2");
        insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] >= 1024), @"vocab >= 1024");
        insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] < 5), @"vocab <= 4");
        insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] % 2 == 1), @"vocab % 2 = 1");
        insta::assert_snapshot!(told(HEADS, &[], |i| i[0] == 1 && i[2] % 8 == 3),
            @"batch 1, seq 3+11");
        insta::assert_snapshot!(told(HEADS, &[], |i| i[1] == 0 && i[2] >= 12),
            @"head 0, seq >= 12");
        insta::assert_snapshot!(told(HEADS, &[], |_| true), @"everywhere");
        insta::assert_snapshot!(told(HEADS, &[], |_| false), @"nowhere");
        insta::assert_snapshot!(told(&[], &[], |_| true), @"everywhere");
    }

    #[test]
    fn what_is_no_slice_is_counted_and_shown_by_example() {
        insta::assert_snapshot!(told(HEADS, &[], |i| i == [0, 1, 5] || i == [1, 3, 2]),
            @"2 of 8 elements of head 1+3, seq 2+5, in 2 of 4 rows: batch 0, head 1, seq 5; batch 1, head 3, seq 2");
        insta::assert_snapshot!(told(LOGITS, &[], |i| i[2] != i[1]),
            @"16024 of 16032 elements, in 8 of 8 rows, first at batch 0, seq 0, vocab 1");
    }

    #[test]
    fn rows_are_told_by_the_mask_that_selects_them() {
        let bytes = [1, 1, 0, 1, 0, 0, 1, 1];
        let view = TensorView { dtype: DType::U8, shape: &[2, 4], bytes: &bytes };
        let masks = [Mask { name: "mask", view, dims: &[0, 1] }];
        let zero = |i: &[usize]| bytes[i[0] * 4 + i[1]] == 0;
        insta::assert_snapshot!(told(LOGITS, &masks, zero), @"rows with mask = 0");
        insta::assert_snapshot!(told(LOGITS, &masks, |i| !zero(i) && i[2] >= 34),
            @"vocab >= 34, rows with mask != 0");
        insta::assert_snapshot!(told(LOGITS, &masks, |i| !zero(i) && i[2] != 7),
            @"10015 of 10020 elements of rows with mask != 0, in 5 of 5 rows, first at batch 0, seq 0, vocab 0");
    }

    #[test]
    fn a_block_map_shows_shares() {
        let sizes = [("row", 4), ("column", 64)];
        let map =
            block_map(&class(&sizes, |i| i[1] >= 32 || (i[0] == 1 && i[1] % 2 == 0)), &[4, 64]);
        insta::assert_snapshot!(map.replace(' ', "-"), @r"
        ----------------################
        ::::::::::::::::################
        ----------------################
        ----------------################
        ");
        assert_eq!(block_map(&Bitmap::from_fn(0, |_| true), &[3, 0]), "");
    }

    fn selections() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize, usize)>)> {
        prop::collection::vec(1usize..9, 0..4).prop_flat_map(|shape| {
            let one = |&size: &usize| (0..size, 0..size, 1usize..4);
            let each: Vec<_> = shape.iter().map(one).collect();
            (Just(shape), each)
        })
    }

    proptest! {
        #[test]
        fn a_product_of_selections_is_found_exactly((shape, picks) in selections()) {
            let picked = |index: &[usize]| index.iter().zip(&picks).all(|(&i, &(a, b, step))| {
                i >= a.min(b) && i <= a.max(b) && (i - a.min(b)).is_multiple_of(step)
            });
            let dims: Vec<Dim> = shape.iter().map(|&size| Dim { name: None, size }).collect();
            let len = shape.iter().product();
            let class = Bitmap::from_fn(len, |i| picked(&unravel(i, &shape)));
            let location = locate(&class, &dims, &[]).unwrap();
            prop_assert!(location.is_exact());
            for i in 0..len {
                prop_assert_eq!(location.contains(&unravel(i, &shape), &[]), class.contains(i));
            }
        }

        #[test]
        fn no_claim_goes_beyond_the_class(bits in prop::collection::vec(any::<bool>(), 60),
                                          mask in prop::collection::vec(0u8..2, 12)) {
            let shape = [3usize, 4, 5];
            let class = Bitmap::from_fn(60, |i| bits[i] && mask[i / 5] == 1);
            let view = TensorView { dtype: DType::U8, shape: &[3, 4], bytes: &mask };
            let masks = [Mask { name: "mask", view, dims: &[0, 1] }];
            let dims: Vec<Dim> = shape.iter().map(|&size| Dim { name: None, size }).collect();
            let Some(location) = locate(&class, &dims, &masks) else {
                prop_assert_eq!(class.count(), 0);
                return Ok(());
            };
            let region: Vec<usize> =
                (0..60).filter(|&i| location.contains(&unravel(i, &shape), &masks)).collect();
            prop_assert_eq!(region.len() as u64, location.region_elements);
            prop_assert!(class.ones().all(|i| region.contains(&i)));
            if location.is_exact() {
                prop_assert!(region.iter().all(|&i| class.contains(i)));
            }
        }
    }
}
