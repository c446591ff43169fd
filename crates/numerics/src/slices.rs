//! Locates a class of elements in a tensor, along its named dimensions.
//!
//! A region is a product of selections, one for each dimension; a mask among the inputs may narrow
//! it. A location never claims an element outside the class: where the class does not fill its
//! region, the location gives its share.

mod location_text;

#[cfg(test)]
mod tests;

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::bitmap::Bitmap;
use replay_base::scratch::{Scratch, ScratchError};
use replay_base::tensor::{Dim, TensorView, unravel_index};

pub(super) use self::location_text::describe_term;
pub use self::location_text::has_shape;
pub use self::location_text::{block_map, describe_location};

/// Single indices that a selection lists before it falls back to their range.
const LISTED: usize = 8;
/// Elements that a location keeps as examples.
const EXAMPLES: usize = 4;

/// An input that tells rows of the output apart, such as the mask of a loss.
#[derive(Clone, Copy, Debug)]
pub struct Mask<'a> {
    /// The input's name.
    pub name: &'a str,
    /// The input; only whether an element is 0 matters.
    pub view: TensorView<'a>,
    /// For each of its dimensions, the output's dimension of the same size name, in rising order.
    pub dims: &'a [usize],
}

/// The indices of one dimension that belong to a region.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum IndexSelection {
    /// All indices.
    All,
    /// A range, both ends included.
    Range {
        /// The first index.
        first: usize,
        /// The last index.
        last: usize,
    },
    /// The indices with one remainder.
    Modulo {
        /// The divisor.
        modulus: usize,
        /// The remainder.
        remainder: usize,
    },
    /// Exactly these.
    List(Vec<usize>),
}

/// The selection along one dimension.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Term {
    /// The dimension's name, or `dim 2` where it has none.
    pub dim: String,
    /// Its size.
    pub size: usize,
    /// The selected indices.
    pub selection: IndexSelection,
}

/// The part of a mask that a region lies in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct MaskTerm {
    /// The mask's name.
    pub name: String,
    /// True if the region lies where the mask is 0, false if it lies where the mask is not 0.
    pub zero: bool,
}

/// Where a class of elements lies.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
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

impl IndexSelection {
    /// Whether `index` is selected.
    pub fn contains(&self, index: usize) -> bool {
        match self {
            IndexSelection::All => true,
            IndexSelection::Range { first, last } => (*first..=*last).contains(&index),
            IndexSelection::Modulo { modulus, remainder } => index % modulus == *remainder,
            IndexSelection::List(list) => list.contains(&index),
        }
    }

    /// The number of selected indices below `size`.
    pub(super) fn count_below(&self, size: usize) -> u64 {
        let count = match self {
            IndexSelection::All => size,
            IndexSelection::Range { first, last } => size.min(last + 1).saturating_sub(*first),
            IndexSelection::Modulo { modulus, remainder } => {
                size.saturating_sub(*remainder).div_ceil(*modulus)
            }
            IndexSelection::List(list) => list.iter().filter(|&&index| index < size).count(),
        };
        count as u64
    }

    /// The selection of exactly the indices that are `touched`, or of the range around them.
    fn around(touched: &Bitmap) -> IndexSelection {
        let list: Vec<usize> = touched.ones().take(LISTED + 1).collect();
        let (Some(&first), Some(last)) = (list.first(), touched.last()) else {
            return IndexSelection::List(list);
        };
        let count = touched.count() as usize;
        if count == touched.len() {
            return IndexSelection::All;
        }
        if last - first + 1 == count {
            return IndexSelection::Range { first, last };
        }
        let modulus = list[1] - first;
        let ends = first < modulus && last + modulus >= touched.len();
        if count > 2 && ends && touched.ones().zip((first..).step_by(modulus)).all(|(a, b)| a == b)
        {
            return IndexSelection::Modulo { modulus, remainder: first };
        }
        match count {
            ..=LISTED => IndexSelection::List(list),
            _ if first == 0 && last + 1 == touched.len() => IndexSelection::All,
            _ => IndexSelection::Range { first, last },
        }
    }
}

impl Location {
    /// Whether the class is exactly the region.
    pub fn is_exact(&self) -> bool {
        self.elements == self.region_elements
    }

    /// Whether the element at `index` lies in the region. `masks` are those given to [`locate_elements`].
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
        let sized_dims = self.dims.iter().zip(self.view.shape);
        let linear = sized_dims.fold(0, |linear, (&dim, &size)| linear * size + index[dim]);
        self.view.get_f64(linear) == 0.0
    }

    /// Whether the mask's dimensions belong to an output of this shape.
    fn fits(&self, shape: &[usize]) -> bool {
        let sizes = self.dims.iter().zip(self.view.shape);
        self.dims.len() == self.view.shape.len()
            && self.dims.windows(2).all(|pair| pair[0] < pair[1])
            && sizes.into_iter().all(|(&dim, &size)| shape.get(dim) == Some(&size))
            && self.view.len() == self.view.shape.iter().product::<usize>()
    }
}

/// Facts about a class, gathered before its region is chosen.
struct ElementClass {
    shape: Vec<usize>,
    touched: Vec<Bitmap>,
    elements: u64,
    rows: u64,
    first: Vec<Vec<usize>>,
    /// Per mask, whether the class has elements where it is zero and where it is not.
    sides: Vec<[bool; 2]>,
}

/// Locates the elements of `class` in a tensor with dimensions `dims`; none where it is empty.
///
/// Masks that do not fit the dimensions are ignored. The location is the smallest region that holds
/// the class.
///
/// # Errors
/// [`ScratchError`] if there is no room for a bit for each index of each dimension.
pub fn locate_elements(
    class: &Bitmap,
    dims: &[Dim],
    masks: &[Mask],
    scratch: &Scratch,
) -> Result<Option<Location>, ScratchError> {
    let shape: Vec<usize> = dims.iter().map(|dim| dim.size).collect();
    if class.len() != shape.iter().product::<usize>() {
        return Ok(None);
    }
    let masks: Vec<&Mask> = masks.iter().filter(|mask| mask.fits(&shape)).collect();
    let class = survey_elements(class, shape, &masks, scratch)?;
    if class.elements == 0 {
        return Ok(None);
    }
    let terms: Vec<Term> =
        dims.iter().zip(&class.touched).enumerate().map(dimension_term).collect();
    let mut best = measure_region(&class, &terms, None);
    for (mask, sides) in masks.iter().zip(&class.sides) {
        let zero = match sides {
            [true, false] => true,
            [false, true] => false,
            _ => continue,
        };
        let terms = without_redundant(terms.clone(), mask, zero);
        let narrowed = measure_region(&class, &terms, Some((mask, zero)));
        if narrowed.region_elements < best.region_elements {
            best = narrowed;
        }
    }
    Ok(Some(best))
}

/// The touched indices of a dimension, as a term.
pub(super) fn dimension_term((axis, (dim, touched)): (usize, (&Dim, &Bitmap))) -> Term {
    let name = dim.name.clone().unwrap_or_else(|| format!("dim {axis}"));
    Term { dim: name, size: dim.size, selection: IndexSelection::around(touched) }
}

/// Gathers the facts about `class`, row by row.
fn survey_elements(
    class: &Bitmap,
    shape: Vec<usize>,
    masks: &[&Mask],
    scratch: &Scratch,
) -> Result<ElementClass, ScratchError> {
    let empty_bitmaps = shape.iter().map(|&size| Bitmap::in_scratch(scratch, size, |_| false));
    let mut touched = empty_bitmaps.collect::<Result<Vec<Bitmap>, _>>()?;
    let mut sides = vec![[false; 2]; masks.len()];
    let mut rows = 0;
    let row_size = shape.last().copied().unwrap_or(1).max(1);
    for start in (0..class.len()).step_by(row_size) {
        let row = start..start + row_size;
        if !class.has_any_in(row.clone()) {
            continue;
        }
        rows += 1;
        let first = unravel_index(start, &shape);
        if let Some((touched_columns, touched_rows)) = touched.split_last_mut() {
            touched_rows.iter_mut().zip(&first).for_each(|(touched, &i)| touched.insert(i));
            touched_columns.insert_all(class, row.clone());
        }
        for (sides, mask) in sides.iter_mut().zip(masks) {
            add_sides(sides, mask, class, row.clone(), &first);
        }
    }
    let first = class.ones().take(EXAMPLES).map(|linear| unravel_index(linear, &shape)).collect();
    Ok(ElementClass { elements: class.count(), touched, rows, first, sides, shape })
}

/// Adds to `sides` on which sides of `mask` the elements of `class` in `row` lie; `first` is the row's first index along
/// each dimension.
fn add_sides(
    sides: &mut [bool; 2],
    mask: &Mask,
    class: &Bitmap,
    row: Range<usize>,
    first: &[usize],
) {
    let mut index = first.to_vec();
    let has_columns = mask.dims.last().is_some_and(|&dim| dim + 1 == index.len());
    for linear in class.ones_in(row.clone()) {
        if *sides == [true, true] {
            return;
        }
        if let Some(column) = index.last_mut() {
            *column = linear - row.start;
        }
        sides[usize::from(!mask.is_zero_at(&index))] = true;
        if !has_columns {
            return;
        }
    }
}

/// The terms, without those that the side of the mask implies already.
fn without_redundant(mut terms: Vec<Term>, mask: &Mask, zero: bool) -> Vec<Term> {
    let count_inside = count_in_mask(&terms, mask, zero);
    for &dim in mask.dims {
        let selection = std::mem::replace(&mut terms[dim].selection, IndexSelection::All);
        if count_in_mask(&terms, mask, zero) != count_inside {
            terms[dim].selection = selection;
        }
    }
    terms
}

/// The region of these terms, narrowed by one side of a mask, with its elements counted.
fn measure_region(class: &ElementClass, terms: &[Term], mask: Option<(&Mask, bool)>) -> Location {
    let selected = |dim: usize| -> u64 {
        let term = &terms[dim];
        term.selection.count_below(term.size)
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

/// The mask's elements in the terms that are on one side of it.
fn count_in_mask(terms: &[Term], mask: &Mask, zero: bool) -> u64 {
    let on_side = (0..mask.view.len()).filter(|&linear| (mask.view.get_f64(linear) == 0.0) == zero);
    let inside = on_side.filter(|&linear| {
        let index = unravel_index(linear, mask.view.shape);
        mask.dims.iter().zip(&index).all(|(&dim, &i)| terms[dim].selection.contains(i))
    });
    inside.count() as u64
}
