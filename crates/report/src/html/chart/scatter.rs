//! Values of both sides against each other.

use std::fmt::Write;

use maud::{Markup, html};

use super::{
    Axis, Frame, format_coordinate, format_short_number, render_figure, render_figure_legend,
};
use replay_numerics::picture::ValuePair;

/// The size of the area.
const SIZE: [f64; 2] = [236.0, 168.0];

/// A scale, linear around 0 and logarithmic far from it.
struct SymlogScale {
    /// Where it turns from one to the other.
    turn: f64,
    low: f64,
    high: f64,
}

impl SymlogScale {
    fn fit(pairs: &[ValuePair]) -> SymlogScale {
        let mut sizes: Vec<f64> =
            pairs.iter().map(|pair| f64::from(pair.base.abs().max(pair.got.abs()))).collect();
        sizes.retain(|size| *size > 0.0);
        sizes.sort_by(f64::total_cmp);
        let turn = sizes.get(sizes.len() / 2).copied().unwrap_or(1.0);
        let mut low = 0.0_f64;
        let mut high = 0.0_f64;
        for value in pairs.iter().flat_map(|pair| [pair.base, pair.got]) {
            let bent = (f64::from(value) / turn).asinh();
            low = low.min(bent);
            high = high.max(bent);
        }
        // Points at the edge are seen whole.
        let space = 0.04 * (high - low).max(1e-9);
        SymlogScale { turn, low: low - space, high: high + space }
    }

    fn share(&self, value: f64) -> f64 {
        ((value / self.turn).asinh() - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> Vec<(f64, String)> {
        let size = 10f64.powf(self.turn.log10().ceil());
        let sizes = (0..12).map(|power| size * 10f64.powi(power));
        let mut values: Vec<f64> = sizes.flat_map(|size| [-size, size]).collect();
        values.push(0.0);
        values.retain(|value| (0.0..=1.0).contains(&self.share(*value)));
        values.sort_by(f64::total_cmp);
        let mut ticks = Vec::new();
        let mut last = f64::NEG_INFINITY;
        for value in values {
            let share = self.share(value);
            if share - last > 0.14 {
                ticks.push((share, format_short_number(value, 2)));
                last = share;
            }
        }
        ticks
    }
}

/// The values of both sides of an output against each other.
pub(in crate::html) fn draw_scatter_chart(name: &str, pairs: &[ValuePair]) -> Markup {
    if pairs.len() < 2 {
        return html! {};
    }
    let scale = SymlogScale::fit(pairs);
    let frame = Frame {
        x: Axis {
            label: "before (value, bent towards a log scale)".to_owned(),
            ticks: scale.ticks(),
        },
        y: Axis { label: "after (value)".to_owned(), ticks: scale.ticks() },
        width: SIZE[0],
        height: SIZE[1],
    };
    let mut points_within = String::new();
    let mut points_beyond = String::new();
    for pair in pairs {
        let x = format_coordinate(frame.x(scale.share(pair.base.into())));
        let y = format_coordinate(frame.y(scale.share(pair.got.into())));
        let path = if pair.beyond { &mut points_beyond } else { &mut points_within };
        let _ = write!(path, "M{x} {y}h0");
    }
    let drawing = html! {
        path class="equal" d={
            "M" (format_coordinate(frame.x(0.0))) " " (format_coordinate(frame.y(0.0))) "L" (format_coordinate(frame.x(1.0))) " " (format_coordinate(frame.y(1.0)))
        } {}
        path class="points-within" d=(points_within) {}
        path class="points-beyond" d=(points_beyond) {}
    };
    let wrong = pairs.iter().filter(|pair| pair.beyond).count();
    let alt = format!(
        "Values of {name} after against before, {} of its elements: {wrong} beyond noise, off the line of \
         equal values",
        pairs.len()
    );
    let mut keys = vec![("bar-within", "within noise".to_owned())];
    if wrong > 0 {
        keys.push(("bar-beyond", "beyond noise".to_owned()));
    }
    let title = format!("Before against after: {} elements", pairs.len());
    render_figure(&title, &frame.svg(&alt, &drawing), &render_figure_legend(&keys))
}
