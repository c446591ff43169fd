//! A location in words, and as a picture.

use std::fmt::Write as _;

use rayon::prelude::*;

use super::{IndexSelection, Location, Term};
use crate::bitmap::Bitmap;

/// Rows and columns of a block map, at most.
const MAP: [usize; 2] = [8, 32];

/// The location in words, such as `head 1..3`, `vocab >= 1024` or
/// `7168 of 7616 elements where mask != 0, in 224 of 224 rows, first at batch 0, seq 1, vocab 0`.
pub fn describe_location(location: &Location) -> String {
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

/// A term in words; none if it selects all indices.
pub(crate) fn describe_term(term: &Term) -> Option<String> {
    let name = &term.dim;
    Some(match &term.selection {
        IndexSelection::All => return None,
        IndexSelection::Range { first, last } if first == last => format!("{name} {first}"),
        IndexSelection::Range { first, last } if last + 1 == term.size && term.size > 8 => {
            format!("{name} >= {first}")
        }
        IndexSelection::Range { first: 0, last } if term.size > 8 => format!("{name} <= {last}"),
        IndexSelection::Range { first, last } => format!("{name} {first}..{last}"),
        IndexSelection::Modulo { modulus, remainder } => {
            format!("{name} % {modulus} = {remainder}")
        }
        IndexSelection::List(list) => {
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
/// characters, each of which gives the share of a block's elements that belong to the class.
///
/// ` ` none, `.` up to a quarter, `:` up to a half, `+` more, `#` all. Empty for an empty tensor.
pub fn block_map(class: &Bitmap, shape: &[usize]) -> String {
    let columns = shape.last().copied().unwrap_or(1);
    if class.is_empty() || columns == 0 || !class.len().is_multiple_of(columns) {
        return String::new();
    }
    let rows = class.len() / columns;
    let [height, width] = [rows.min(MAP[0]), columns.min(MAP[1])];
    let lines: Vec<String> = (0..height)
        .into_par_iter()
        .map(|y| {
            let mut filled = vec![0; width];
            for row in find_block_start(y, rows, height)..find_block_start(y + 1, rows, height) {
                for (x, filled) in filled.iter_mut().enumerate() {
                    let first = row * columns + find_block_start(x, columns, width);
                    let end = row * columns + find_block_start(x + 1, columns, width);
                    *filled += class.count_in(first..end);
                }
            }
            let tall = block_size(y, rows, height);
            let shades = filled.iter().enumerate();
            let shades = shades
                .map(|(x, &count)| fill_character(count, tall * block_size(x, columns, width)));
            shades.collect()
        })
        .collect();
    lines.join("\n")
}

/// Whether a map differs from place to place; a uniform map says nothing.
pub fn has_shape(map: &str) -> bool {
    let mut shades = map.chars().filter(|c| *c != '\n');
    let first = shades.next();
    shades.any(|shade| Some(shade) != first)
}

/// The number of indices in `block`.
fn block_size(block: usize, size: usize, blocks: usize) -> u64 {
    (find_block_start(block + 1, size, blocks) - find_block_start(block, size, blocks)) as u64
}

/// The first index in `block`.
fn find_block_start(block: usize, size: usize, blocks: usize) -> usize {
    (block as u128 * size as u128).div_ceil(blocks as u128) as usize
}

fn fill_character(filled: u64, total: u64) -> char {
    match filled {
        0 => ' ',
        _ if filled == total => '#',
        _ if filled * 4 <= total => '.',
        _ if filled * 2 <= total => ':',
        _ => '+',
    }
}
