//! Histograms: how far elements lie apart, and how far both sides lie from the truth.

use std::fmt::Write;

use maud::{Markup, html};

use super::{Axis, Frame, counts_axis, few, figure, legend, log_share, round};
use crate::numerics::picture::{Distances, Histogram};

/// The size of the area.
const SIZE: [f64; 2] = [236.0, 168.0];

/// The buckets that a chart shows: from the first to the last that holds something.
struct Shown {
    first: usize,
    last: usize,
}

impl Shown {
    /// Those of `histograms`, and `more` buckets; at least eight.
    fn of(histograms: &[&Histogram], more: &[usize]) -> Shown {
        let held = |bucket: &usize| histograms.iter().any(|one| one.counts[*bucket] > 0);
        let last = (0..Histogram::BUCKETS).rev().find(held);
        let first = (1..Histogram::BUCKETS).find(held);
        let ends = more.iter().copied().filter(|&bucket| bucket > 0);
        let low = first.into_iter().chain(ends.clone()).min().unwrap_or(1).saturating_sub(1);
        let high = last.into_iter().chain(ends).max().unwrap_or(1).max(low + 8);
        let high = high.min(Histogram::BUCKETS - 1);
        Shown { first: low.min(high - 8), last: high }
    }

    fn buckets(&self) -> f64 {
        (self.last - self.first + 1) as f64
    }

    /// Where `bucket` begins.
    fn at(&self, bucket: usize) -> f64 {
        bucket.saturating_sub(self.first) as f64 / self.buckets()
    }

    /// The bucket that holds zeros comes first, whichever others are shown.
    fn place(&self, bucket: usize) -> usize {
        bucket.max(self.first)
    }

    fn axis(&self, label: &str) -> Axis {
        let wide = 1.0 / self.buckets();
        let mut ticks = vec![(0.5 * wide, "0".to_owned())];
        let step = ((self.last - self.first) / 5).max(1);
        let end = self.last.min(Histogram::BUCKETS - 2);
        let marks = (self.first + 1..=end).filter(|bucket| (bucket + 1).is_multiple_of(step));
        // A mark stands at the upper bound of its bucket.
        ticks.extend(marks.map(|bucket| (self.at(bucket) + wide, bound(Histogram::bound(bucket)))));
        if self.last == Histogram::BUCKETS - 1 {
            ticks.retain(|(share, _)| *share < 0.85);
            ticks.push((1.0 - 0.5 * wide, "not finite".to_owned()));
        }
        Axis { label: label.to_owned(), ticks }
    }
}

fn bound(ulps: f64) -> String {
    match ulps {
        f64::INFINITY => "not finite".to_owned(),
        1e4.. => few(ulps).replace(" k", "k").replace(" M", "M").replace(" G", "G"),
        _ => super::short(ulps, 2),
    }
}

/// How far the elements of both sides lie apart, with the band of noise.
pub(in crate::report::html) fn distances(name: &str, found: &Distances, unit: &str) -> Markup {
    let Distances { within, beyond, band } = found;
    let ends: Vec<usize> = band.iter().flatten().copied().collect();
    let shown = Shown::of(&[within, beyond], &ends);
    let most = within.counts.iter().chain(&beyond.counts).copied().max().unwrap_or(1);
    let frame = Frame {
        x: shown.axis(&format!("distance ({unit})")),
        y: counts_axis(most),
        width: SIZE[0],
        height: SIZE[1],
    };
    let inside = html! {
        @if let Some([low, high]) = band {
            @let (from, to) = (shown.at(*low), shown.at(high + 1));
            rect class="band" x=(round(frame.x(from))) y=(round(frame.y(1.0)))
                width=(round((to - from) * SIZE[0])) height=(round(SIZE[1])) {}
        }
        path class="bar-within" d=(bars(&frame, &shown, within, most, [0.08, 0.92])) {}
        // Narrower, so that both are seen where a bucket holds both.
        path class="bar-beyond" d=(bars(&frame, &shown, beyond, most, [0.28, 0.72])) {}
    };
    let (inner, outer) = (total(within), total(beyond));
    let alt = format!("Histogram of {name}: {inner} elements within noise, {outer} beyond it");
    let mut keys = vec![("bar-within", format!("within noise: {}", few(inner as f64)))];
    if outer > 0 {
        keys.push(("bar-beyond", format!("beyond noise: {}", few(outer as f64))));
    }
    if band.is_some() {
        keys.push(("band", "where noise ends, for nine tenths of the elements".to_owned()));
    }
    figure("How far: distances of the elements", &frame.svg(&alt, &inside), &legend(&keys))
}

fn total(histogram: &Histogram) -> u64 {
    histogram.counts.iter().sum()
}

fn bars(frame: &Frame, shown: &Shown, of: &Histogram, most: u64, [from, to]: [f64; 2]) -> String {
    let wide = SIZE[0] / shown.buckets();
    let mut path = String::new();
    for (bucket, &count) in of.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let left = frame.x(shown.at(shown.place(bucket))) + from * wide;
        let tall = log_share(count, most) * SIZE[1];
        let (width, foot) = (round((to - from) * wide), round(frame.y(0.0)));
        let _ = write!(path, "M{} {foot}v-{1}h{width}v{1}z", round(left), round(tall));
    }
    path
}

/// The errors of both sides against the truth, before and after.
pub(in crate::report::html) fn errors(
    name: &str,
    before: Option<&Histogram>,
    after: Option<&Histogram>,
    unit: &str,
) -> Markup {
    let all: Vec<&Histogram> = [before, after].into_iter().flatten().collect();
    if all.is_empty() {
        return html! {};
    }
    let shown = Shown::of(&all, &[]);
    let most = all.iter().flat_map(|one| &one.counts).copied().max().unwrap_or(1);
    let frame = Frame {
        x: shown.axis(&format!("error ({unit})")),
        y: counts_axis(most),
        width: SIZE[0],
        height: SIZE[1],
    };
    let inside = html! {
        @if let Some(before) = before { path class="line-before" d=(steps(&frame, &shown, before, most)) {} }
        @if let Some(after) = after { path class="line-after" d=(steps(&frame, &shown, after, most)) {} }
    };
    let median = |one: &Histogram| bound(Histogram::bound(middle(one)));
    let mut keys = Vec::new();
    if let Some(before) = before {
        keys.push(("key-before", format!("before, half at most {}", median(before))));
    }
    if let Some(after) = after {
        let when = if before.is_some() { "after" } else { "this replay" };
        keys.push(("key-after", format!("{when}, half at most {}", median(after))));
    }
    let told: Vec<String> = keys.iter().map(|(_, words)| format!("{words} {unit}")).collect();
    let alt = format!("Errors of {name}: {}", told.join("; "));
    figure("Errors of elements", &frame.svg(&alt, &inside), &legend(&keys))
}

/// The bucket that holds the median.
fn middle(of: &Histogram) -> usize {
    let (all, mut below) = (total(of), 0);
    let holds = |bucket: &usize| {
        below += of.counts[*bucket];
        2 * below >= all
    };
    (0..of.counts.len()).find(holds).unwrap_or(0)
}

/// The outline of a histogram.
fn steps(frame: &Frame, shown: &Shown, of: &Histogram, most: u64) -> String {
    let foot = round(frame.y(0.0));
    let mut path = format!("M{} {foot}", round(frame.x(0.0)));
    for bucket in shown.first..=shown.last {
        let held = match bucket == shown.first {
            true => of.counts[..=bucket].iter().sum(),
            false => of.counts[bucket],
        };
        let high = round(frame.y(log_share(held, most)));
        let _ = write!(path, "V{high}H{}", round(frame.x(shown.at(bucket + 1))));
    }
    path + "V" + &foot
}
