//! Histograms: how far elements lie apart, and how far both sides lie from the truth.

use std::fmt::Write;

use maud::{Markup, html};

use super::{
    Axis, Frame, abbreviate_count, counts_axis, format_coordinate, log_share, render_figure,
    render_figure_legend,
};
use replay_numerics::picture::{BinaryHistogram, Distances};

/// The size of the area.
const SIZE: [f64; 2] = [236.0, 168.0];

/// The buckets of a chart: from the first to the last filled one.
struct BucketRange {
    first: usize,
    last: usize,
}

impl BucketRange {
    /// Those of `histograms`, and `extra_buckets` buckets; at least eight.
    fn from_histograms(histograms: &[&BinaryHistogram], extra_buckets: &[usize]) -> BucketRange {
        let mut filled_buckets: Vec<usize> = (0..BinaryHistogram::BUCKETS).collect();
        filled_buckets
            .retain(|&bucket| histograms.iter().any(|histogram| histogram.counts[bucket] > 0));
        let last = filled_buckets.last().copied();
        let first = filled_buckets.into_iter().find(|&bucket| bucket > 0);
        let ends = extra_buckets.iter().copied().filter(|&bucket| bucket > 0);
        let low = first.into_iter().chain(ends.clone()).min().unwrap_or(1).saturating_sub(1);
        let high = last.into_iter().chain(ends).max().unwrap_or(1).max(low + 8);
        let high = high.min(BinaryHistogram::BUCKETS - 1);
        BucketRange { first: low.min(high - 8), last: high }
    }

    fn buckets(&self) -> f64 {
        (self.last - self.first + 1) as f64
    }

    /// Where `bucket` begins.
    fn bucket_start(&self, bucket: usize) -> f64 {
        bucket.saturating_sub(self.first) as f64 / self.buckets()
    }

    /// The bucket of zeros comes first, whichever others are shown.
    fn place(&self, bucket: usize) -> usize {
        bucket.max(self.first)
    }

    fn axis(&self, label: &str) -> Axis {
        let bucket_width = 1.0 / self.buckets();
        let mut ticks = vec![(0.5 * bucket_width, "0".to_owned())];
        let step = ((self.last - self.first) / 5).max(1);
        let end = self.last.min(BinaryHistogram::BUCKETS - 2);
        let marks = (self.first + 1..=end).filter(|bucket| (bucket + 1).is_multiple_of(step));
        // A mark stands at the upper bound of its bucket.
        ticks.extend(marks.map(|bucket| {
            (
                self.bucket_start(bucket) + bucket_width,
                format_bucket_bound(BinaryHistogram::bound(bucket)),
            )
        }));
        if self.last == BinaryHistogram::BUCKETS - 1 {
            ticks.retain(|(share, _)| *share < 0.85);
            ticks.push((1.0 - 0.5 * bucket_width, "not finite".to_owned()));
        }
        Axis { label: label.to_owned(), ticks }
    }
}

fn format_bucket_bound(ulps: f64) -> String {
    match ulps {
        f64::INFINITY => "not finite".to_owned(),
        1e4.. => abbreviate_count(ulps).replace(" k", "k").replace(" M", "M").replace(" G", "G"),
        _ => super::format_short_number(ulps, 2),
    }
}

/// How far the elements of both sides lie apart, with the band of noise.
pub(in crate::html) fn draw_distances_chart(
    name: &str,
    distances: &Distances,
    unit: &str,
) -> Markup {
    let Distances { within, beyond, band } = distances;
    let ends: Vec<usize> = band.iter().flatten().copied().collect();
    let shown = BucketRange::from_histograms(&[within, beyond], &ends);
    let most = within.counts.iter().chain(&beyond.counts).copied().max().unwrap_or(1);
    let frame = Frame {
        x: shown.axis(&format!("distance ({unit})")),
        y: counts_axis(most),
        width: SIZE[0],
        height: SIZE[1],
    };
    let drawing = html! {
        @if let Some([low, high]) = band {
            @let (from, to) = (shown.bucket_start(*low), shown.bucket_start(high + 1));
            rect class="band" x=(format_coordinate(frame.x(from))) y=(format_coordinate(frame.y(1.0)))
                width=(format_coordinate((to - from) * SIZE[0])) height=(format_coordinate(SIZE[1])) {}
        }
        path class="bar-within" d=(draw_bars(&frame, &shown, within, most, [0.08, 0.92])) {}
        // Narrower: both are seen where a bucket holds both.
        path class="bar-beyond" d=(draw_bars(&frame, &shown, beyond, most, [0.28, 0.72])) {}
    };
    let inner = sum_buckets(within);
    let outer = sum_buckets(beyond);
    let alt = format!("Histogram of {name}: {inner} elements within noise, {outer} beyond it");
    let mut keys =
        vec![("bar-within", format!("within noise: {}", abbreviate_count(inner as f64)))];
    if outer > 0 {
        keys.push(("bar-beyond", format!("beyond noise: {}", abbreviate_count(outer as f64))));
    }
    if band.is_some() {
        keys.push(("band", "where noise ends, for nine tenths of the elements".to_owned()));
    }
    render_figure(
        "How far: distances of the elements",
        &frame.svg(&alt, &drawing),
        &render_figure_legend(&keys),
    )
}

fn sum_buckets(histogram: &BinaryHistogram) -> u64 {
    histogram.counts.iter().sum()
}

fn draw_bars(
    frame: &Frame,
    bucket_range: &BucketRange,
    histogram: &BinaryHistogram,
    highest_count: u64,
    [left_share, right_share]: [f64; 2],
) -> String {
    let bucket_width = SIZE[0] / bucket_range.buckets();
    let mut path = String::new();
    for (bucket, &count) in histogram.counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let left = frame.x(bucket_range.bucket_start(bucket_range.place(bucket)))
            + left_share * bucket_width;
        let tall = log_share(count, highest_count) * SIZE[1];
        let width = format_coordinate((right_share - left_share) * bucket_width);
        let foot = format_coordinate(frame.y(0.0));
        let _ = write!(
            path,
            "M{} {foot}v-{1}h{width}v{1}z",
            format_coordinate(left),
            format_coordinate(tall)
        );
    }
    path
}

/// The errors of both sides against the truth, before and after.
pub(in crate::html) fn draw_errors_chart(
    name: &str,
    before: Option<&BinaryHistogram>,
    after: Option<&BinaryHistogram>,
    unit: &str,
) -> Markup {
    let histograms: Vec<&BinaryHistogram> = [before, after].into_iter().flatten().collect();
    if histograms.is_empty() {
        return html! {};
    }
    let shown = BucketRange::from_histograms(&histograms, &[]);
    let most =
        histograms.iter().flat_map(|histogram| &histogram.counts).copied().max().unwrap_or(1);
    let frame = Frame {
        x: shown.axis(&format!("error ({unit})")),
        y: counts_axis(most),
        width: SIZE[0],
        height: SIZE[1],
    };
    let drawing = html! {
        @if let Some(before) = before { path class="line-before" d=(draw_histogram_outline(&frame, &shown, before, most)) {} }
        @if let Some(after) = after { path class="line-after" d=(draw_histogram_outline(&frame, &shown, after, most)) {} }
    };
    let mut keys = Vec::new();
    if let Some(before) = before {
        keys.push(("key-before", format!("before, half at most {}", format_median(before))));
    }
    if let Some(after) = after {
        let after_label = if before.is_some() { "after" } else { "this replay" };
        keys.push(("key-after", format!("{after_label}, half at most {}", format_median(after))));
    }
    let key_texts: Vec<String> = keys.iter().map(|(_, words)| format!("{words} {unit}")).collect();
    let alt = format!("Errors of {name}: {}", key_texts.join("; "));
    render_figure("Errors of elements", &frame.svg(&alt, &drawing), &render_figure_legend(&keys))
}

fn format_median(histogram: &BinaryHistogram) -> String {
    format_bucket_bound(BinaryHistogram::bound(find_median_bucket(histogram)))
}

/// The bucket of the median.
fn find_median_bucket(histogram: &BinaryHistogram) -> usize {
    let total_count = sum_buckets(histogram);
    let mut count_so_far = 0;
    for (bucket, count) in histogram.counts.iter().enumerate() {
        count_so_far += count;
        if 2 * count_so_far >= total_count {
            return bucket;
        }
    }
    0
}

/// The outline of a histogram.
fn draw_histogram_outline(
    frame: &Frame,
    bucket_range: &BucketRange,
    histogram: &BinaryHistogram,
    highest_count: u64,
) -> String {
    let foot = format_coordinate(frame.y(0.0));
    let mut path = format!("M{} {foot}", format_coordinate(frame.x(0.0)));
    for bucket in bucket_range.first..=bucket_range.last {
        let bucket_count = if bucket == bucket_range.first {
            histogram.counts[..=bucket].iter().sum()
        } else {
            histogram.counts[bucket]
        };
        let high = format_coordinate(frame.y(log_share(bucket_count, highest_count)));
        let _ = write!(
            path,
            "V{high}H{}",
            format_coordinate(frame.x(bucket_range.bucket_start(bucket + 1)))
        );
    }
    path + "V" + &foot
}
