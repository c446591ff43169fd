//! A map of an output: rows by the last dimension, each cell in the shade of its worst element.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::iter::once;
use std::ops::Range;

use maud::{Markup, html};

use super::{Axis, Frame, render_figure, render_figure_legend};
use crate::numbers::format_noun_count;
use replay_base::tensor::{Dim, unravel_index};
use replay_numerics::picture::{Map, Picture, Shade};
use replay_numerics::slices::{IndexSelection, Location, Term};

/// The width of the area.
const WIDTH: f64 = 236.0;
/// The height of a map with many rows, and of a row at most.
const HEIGHT: [f64; 2] = [168.0, 24.0];
/// The most framed bands of rows; of more, a single frame reaches from the first to the last.
const BANDS: usize = 48;

/// The map of an output with dimensions `dims`, with the wrong slice framed.
pub(in crate::html) fn draw_heat_map(
    name: &str,
    picture: &Picture,
    dims: &[Dim],
    wrong: Option<&Location>,
) -> Markup {
    let map = &picture.map;
    if map.cells.len() < 2 {
        return html! {};
    }
    let height = HEIGHT[0].min(HEIGHT[1] * map.height as f64);
    let frame = Frame { x: columns_axis(map, dims), y: rows_axis(map, dims), width: WIDTH, height };
    let cell_width = WIDTH / map.width as f64;
    let cell_height = height / map.height as f64;
    let left = frame.x(0.0);
    let top = frame.y(1.0);
    let drawing = html! {
        g class="cells" transform={ "translate(" (left) " " (top) ") scale(" (cell_width) " " (cell_height) ")" } {
            @for (shade, path) in trace_shade_paths(map) {
                path class=(shade_class(shade)) d=(path) { title { (shade_label(shade)) } }
            }
            @if let Some(location) = wrong {
                @let frames = draw_region_frames(map, location, dims);
                @if !frames.is_empty() { path class="frame" d=(frames) { title { "the slice that is wrong" } } }
            }
        }
    };
    let title = "Where: the worst of each cell";
    render_figure(
        title,
        &frame.svg(&describe_heat_map(name, map), &drawing),
        &render_shade_legend(map, wrong),
    )
}

/// The classes of the colours of shades.
pub(crate) fn shade_class(shade: Shade) -> &'static str {
    match shade {
        Shade::Same => "s-same",
        Shade::Near => "s-near",
        Shade::Within => "s-within",
        Shade::Beyond => "s-beyond",
        Shade::Far => "s-far",
        Shade::Great => "s-great",
        Shade::Most => "s-most",
        Shade::Infinite => "s-inf",
        Shade::Nan => "s-nan",
        Shade::Dependent => "s-dependent",
        Shade::Unwritten => "s-unwritten",
    }
}

/// What the colours of shades mean.
pub(crate) fn shade_label(shade: Shade) -> &'static str {
    match shade {
        Shade::Same => "the same bits",
        Shade::Near => "up to 1 × noise",
        Shade::Within => "up to 8 × noise: within",
        Shade::Beyond => "up to 100 × noise",
        Shade::Far => "up to 10,000 × noise",
        Shade::Great => "up to 1,000,000 × noise",
        Shade::Most => "more than that",
        Shade::Infinite => "Inf",
        Shade::Nan => "NaN",
        Shade::Dependent => "depends on poison",
        Shade::Unwritten => "unwritten",
    }
}

fn count_shades(map: &Map) -> BTreeMap<Shade, usize> {
    let mut present = BTreeMap::new();
    for shade in &map.cells {
        *present.entry(*shade).or_insert(0) += 1;
    }
    present
}

fn render_shade_legend(map: &Map, wrong: Option<&Location>) -> Markup {
    let present = count_shades(map);
    let mut keys: Vec<(&str, String)> =
        present.keys().map(|&shade| (shade_class(shade), shade_label(shade).to_owned())).collect();
    if wrong.is_some_and(|location| !is_everywhere(location)) {
        keys.push(("key-frame", "the slice that is wrong".to_owned()));
    }
    render_figure_legend(&keys)
}

/// The map in words.
fn describe_heat_map(name: &str, map: &Map) -> String {
    let shades: Vec<String> = count_shades(map)
        .into_iter()
        .rev()
        .map(|(shade, cells)| {
            format!("{} {}", format_noun_count(cells as u64, "cell"), shade_label(shade))
        })
        .collect();
    let rows = format_noun_count(map.rows as u64, "row");
    let columns = format_noun_count(map.columns as u64, "column");
    format!("Map of {name}, {rows} by {columns}: {}", shades.join(", "))
}

/// A path for each present shade but the least: runs of cells, in units of cells.
fn trace_shade_paths(map: &Map) -> BTreeMap<Shade, String> {
    let mut paths: BTreeMap<Shade, String> = BTreeMap::new();
    for (row, cells) in map.cells.chunks(map.width).enumerate() {
        let mut start_column = 0;
        for run in cells.chunk_by(|a, b| a == b) {
            if run[0] > Shade::Same {
                let path = paths.entry(run[0]).or_default();
                let _ = write!(path, "M{start_column} {row}h{0}v1h-{0}z", run.len());
            }
            start_column += run.len();
        }
    }
    paths
}

fn columns_axis(map: &Map, dims: &[Dim]) -> Axis {
    let last = dims.last();
    let name = last.and_then(|dim| dim.name.clone()).unwrap_or_else(|| "last dimension".to_owned());
    let last_cell = map.width - 1;
    let middle_cell = map.width / 2;
    let marks = [
        (0, Map::first(0, map.columns, map.width)),
        (middle_cell, Map::first(middle_cell, map.columns, map.width)),
        (last_cell, map.columns - 1),
    ];
    let mut ticks: Vec<(f64, String)> = Vec::new();
    for (cell, index) in marks {
        ticks.push(((cell as f64 + 0.5) / map.width as f64, index.to_string()));
    }
    ticks.dedup_by_key(|(share, _)| (*share * 1e6) as u64);
    Axis { label: format!("{name} (index)"), ticks }
}

fn rows_axis(map: &Map, dims: &[Dim]) -> Axis {
    let leading = &dims[..dims.len().saturating_sub(1)];
    let shape: Vec<usize> = leading.iter().map(|dim| dim.size).collect();
    let names: Vec<&str> = leading.iter().map(|dim| dim.name.as_deref().unwrap_or("dim")).collect();
    let label = if names.is_empty() { "all".to_owned() } else { names.join(", ") };
    let mut cells = vec![0, map.height / 2, map.height - 1];
    cells.dedup();
    cells.retain(|_| !shape.is_empty());
    let mut ticks = Vec::new();
    for cell in cells {
        let share = 1.0 - (cell as f64 + 0.5) / map.height as f64;
        let index = unravel_index(Map::first(cell, map.rows, map.height), &shape);
        let index: Vec<String> = index.iter().map(usize::to_string).collect();
        ticks.push((share, index.join(",")));
    }
    Axis { label, ticks }
}

fn is_everywhere(location: &Location) -> bool {
    location.terms.iter().all(|term| matches!(term.selection, IndexSelection::All))
}

/// The outlines of the region of `location`, in units of cells; none where it is everything.
fn draw_region_frames(map: &Map, location: &Location, dims: &[Dim]) -> String {
    let Some((last, leading)) = location.terms.split_last() else { return String::new() };
    if is_everywhere(location) || location.terms.len() != dims.len() {
        return String::new();
    }
    let columns =
        in_cells(&combine_term_ranges(std::slice::from_ref(last)), map.columns, map.width);
    let rows = match leading {
        [] => once(0..map.height).collect(),
        leading => in_cells(&combine_term_ranges(leading), map.rows, map.height),
    };
    let mut path = String::new();
    for row in &rows {
        for column in &columns {
            let x = column.start;
            let y = row.start;
            let width = column.len();
            let height = row.len();
            let _ = write!(path, "M{x} {y}h{width}v{height}h-{width}z");
        }
    }
    path
}

/// The selected indices of dimensions taken together, as ranges.
fn combine_term_ranges(terms: &[Term]) -> Vec<Range<usize>> {
    let size: usize = terms.iter().map(|term| term.size).product();
    let whole_terms =
        terms.iter().rev().take_while(|term| matches!(term.selection, IndexSelection::All));
    let (outer, inner) = terms.split_at(terms.len() - whole_terms.count());
    let inner: usize = inner.iter().map(|term| term.size).product();
    let Some((last, outer_terms)) = outer.split_last() else { return once(0..size).collect() };
    let mut starts = vec![0];
    for term in outer_terms {
        let next = starts.iter().flat_map(|&start| {
            let selected = (0..term.size).filter(|&index| term.selection.contains(index));
            selected.take(BANDS + 1).map(move |index| start * term.size + index)
        });
        starts = next.take(BANDS + 1).collect();
    }
    let ranges = list_term_ranges(last);
    let all_bands = starts.iter().flat_map(|&start| {
        let first_block = start * last.size;
        ranges
            .iter()
            .map(move |run| (first_block + run.start) * inner..(first_block + run.end) * inner)
    });
    let all_bands: Vec<Range<usize>> = all_bands.take(BANDS + 1).collect();
    match (all_bands.len(), all_bands.first()) {
        (..=BANDS, _) | (_, None) => all_bands,
        (_, Some(first)) => once(first.start..size).collect(),
    }
}

/// The selected indices of one dimension, as ranges.
fn list_term_ranges(term: &Term) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for index in (0..term.size).filter(|&index| term.selection.contains(index)) {
        let is_full = runs.len() > BANDS;
        match runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ if is_full => break,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

/// The cell of `index`, where `size` indices share `cells`.
fn cell_of(index: usize, size: usize, cells: usize) -> usize {
    (index as u128 * cells as u128 / size.max(1) as u128) as usize
}

/// The cells touched by `ranges` of indices, adjacent ones as one.
fn in_cells(ranges: &[Range<usize>], size: usize, cells: usize) -> Vec<Range<usize>> {
    let mut touched: Vec<Range<usize>> = Vec::new();
    for range in ranges.iter().filter(|range| !range.is_empty()) {
        let next = cell_of(range.start, size, cells)..cell_of(range.end - 1, size, cells) + 1;
        match touched.last_mut() {
            Some(last) if next.start <= last.end => last.end = last.end.max(next.end),
            _ => touched.push(next),
        }
    }
    touched
}

#[cfg(test)]
mod tests {
    use super::*;

    fn term(size: usize, selection: IndexSelection) -> Term {
        Term { dim: "d".to_owned(), size, selection }
    }

    #[test]
    fn the_frame_goes_around_the_cells_of_the_slice() {
        let heads = term(4, IndexSelection::Range { first: 1, last: 2 });
        let all = || term(3, IndexSelection::All);
        let one = |range: Range<usize>| vec![range.start, range.end];
        let told = |ranges: Vec<Range<usize>>| ranges.into_iter().map(one).collect::<Vec<_>>();
        assert_eq!(told(combine_term_ranges(&[all(), heads.clone()])), [[1, 3], [5, 7], [9, 11]]);
        assert_eq!(told(combine_term_ranges(&[heads.clone(), all()])), [[3, 9]]);
        assert_eq!(told(combine_term_ranges(&[all(), all()])), [[0, 9]]);
        let odd = term(1000, IndexSelection::Modulo { modulus: 2, remainder: 1 });
        assert_eq!(told(combine_term_ranges(&[odd])), [[1, 1000]], "too many to be told apart");
        assert_eq!(told(in_cells(&[0..1, 50..60, 60..61], 100, 10)), [[0, 1], [5, 7]]);
        assert_eq!(told(in_cells(&[0..1, 99..100], 100, 10)), [[0, 1], [9, 10]]);
    }
}
