//! A curve in a line of characters.

/// The characters, from the least value to the greatest.
const HEIGHTS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Where there is no value.
const NOTHING: char = ' ';
/// Where a value is not finite.
const NOT_FINITE: char = '!';
/// Values over more than this factor are drawn by their logarithms.
const DECADES: f64 = 100.0;

/// `values` in at most `width` characters; one for several values shows the greatest of them.
pub(super) fn draw_sparkline(values: &[Option<f64>], width: usize) -> String {
    let count = values.len();
    let columns = count.min(width.max(1));
    let finite_values: Vec<f64> =
        values.iter().flatten().copied().filter(|x| x.is_finite()).collect();
    let least = finite_values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = finite_values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let scale = if least > 0.0 && most / least > DECADES {
        HeightScale { least: least.ln(), most: most.ln(), is_log: true }
    } else {
        HeightScale { least, most, is_log: false }
    };
    let mut line = String::new();
    for column in 0..columns {
        let range = column * count / columns..(column + 1) * count / columns;
        line.push(scale.draw_column(&values[range]));
    }
    line
}

/// The ends of a scale; their logarithms if it is logarithmic.
struct HeightScale {
    least: f64,
    most: f64,
    is_log: bool,
}

impl HeightScale {
    fn draw_column(&self, values: &[Option<f64>]) -> char {
        if values.iter().flatten().any(|x| !x.is_finite()) {
            return NOT_FINITE;
        }
        let Some(top) = values.iter().flatten().copied().reduce(f64::max) else { return NOTHING };
        let top = if self.is_log { top.ln() } else { top };
        let span = self.most - self.least;
        // A constant is a line in the middle.
        let part = if span > 0.0 { (top - self.least) / span } else { 0.5 };
        HEIGHTS[((part * HEIGHTS.len() as f64) as usize).min(HEIGHTS.len() - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn drawn(values: &[f64], width: usize) -> String {
        draw_sparkline(&values.iter().map(|x| Some(*x)).collect::<Vec<_>>(), width)
    }

    #[test]
    fn a_line_shows_what_rises_what_is_missing_and_what_is_not_finite() {
        assert_eq!(drawn(&[0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0], 20), "▁▂▃▄▅▆▇█");
        assert_eq!(drawn(&[2.0; 3], 20), "▅▅▅");
        assert_eq!(draw_sparkline(&[Some(1.0), None, Some(f64::NAN), Some(2.0)], 20), "▁ !█");
        assert_eq!(draw_sparkline(&[], 20), "");
    }

    #[test]
    fn a_spike_is_seen_however_many_steps_a_column_has() {
        let mut values = vec![1.0; 1000];
        values[517] = 3.0;
        let line = drawn(&values, 40);
        assert_eq!(line.chars().count(), 40);
        assert_eq!(line.chars().filter(|c| *c == '█').count(), 1);
    }

    #[test]
    fn what_spans_decades_is_drawn_by_its_logarithm() {
        assert_eq!(drawn(&[1.0, 10.0, 100.0, 1000.0], 20), "▁▃▆█");
    }
}
