//! What was found of the defects, by how far they shift the exact result.

use std::collections::BTreeMap;
use std::fmt;

use replay::judge::{OutputJudgement, Verdict};
use replay::numerics::oracle::Finding;
use replay::snapshot::{SnapshotComparison, SnapshotVerdict};
use replay::tensor::DType;

/// The upper ends of the classes of shifts, in units of roundoff. The last class is of shifts that only
/// show where the result vanishes.
const ENDS: [(f64, &str); 7] = [
    (1.0, "below 1"),
    (4.0, "1 to 4"),
    (16.0, "4 to 16"),
    (100.0, "16 to 100"),
    (10_000.0, "100 to 10,000"),
    (f64::MAX, "above"),
    (f64::INFINITY, "of nothing"),
];

/// A row vanishes if its median is this much below the root mean square of the whole: what remains
/// of terms that cancel, in float32.
const VANISHES: f64 = 1.0 / (1 << 24) as f64;

/// The unit roundoff of `dtype`, and its least normal number.
fn format_of(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::F32 => (2f64.powi(-24), 2f64.powi(-126)),
        DType::BF16 => (2f64.powi(-8), 2f64.powi(-126)),
        DType::F16 => (2f64.powi(-11), 2f64.powi(-14)),
        _ => unreachable!("outputs are of three dtypes"),
    }
}

/// How far the exact result moves: the most of all elements.
#[derive(Clone, Copy, Debug, Default)]
pub struct Shift {
    /// In units of roundoff at the element.
    pub by_element: f64,
    /// In units of roundoff at the element, or at the median of its row if that is larger. Rows that
    /// vanish are left out; infinite if only they move.
    pub by_row: f64,
}

impl Shift {
    /// The shift from `base` to `got`, in rows of `columns`.
    pub fn of(base: &[f64], got: &[f64], columns: usize, dtype: DType) -> Shift {
        let (roundoff, least) = format_of(dtype);
        let finite = base.iter().filter(|x| x.is_finite());
        let mean_square = finite.map(|x| x * x).sum::<f64>() / base.len() as f64;
        let mut shift = Shift::default();
        let mut of_nothing = 0.0;
        for (base, got) in base.chunks(columns).zip(got.chunks(columns)) {
            let median = median_magnitude(base);
            let differ =
                |(left, right): &(&f64, &f64)| left != right && !(left.is_nan() && right.is_nan());
            for (&left, &right) in base.iter().zip(got).filter(differ) {
                if !(left.is_finite() && right.is_finite()) {
                    shift = Shift { by_element: f64::MAX, by_row: f64::MAX };
                    continue;
                }
                let own = left.abs().max(least);
                let far = (right - left).abs() / roundoff;
                shift.by_element = shift.by_element.max(far / own);
                let far = far / own.max(median);
                if left.abs().max(median) <= VANISHES * mean_square.sqrt() {
                    of_nothing = f64::max(of_nothing, far)
                } else {
                    shift.by_row = shift.by_row.max(far)
                }
            }
        }
        if shift.by_row < 1.0 && of_nothing >= 1.0 {
            shift.by_row = f64::INFINITY;
        }
        shift
    }
}

fn median_magnitude(row: &[f64]) -> f64 {
    let mut magnitudes: Vec<f64> = row.iter().map(|x| x.abs()).filter(|x| x.is_finite()).collect();
    magnitudes.sort_by(f64::total_cmp);
    magnitudes.get(magnitudes.len() / 2).copied().unwrap_or(0.0)
}

/// What the judge said of one output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Said {
    pub verdict: Verdict,
    pub finding: Option<Finding>,
}

impl Said {
    pub fn of(judged: &OutputJudgement) -> Said {
        Said { verdict: judged.story.verdict(), finding: judged.story.finding() }
    }

    /// What a snapshot said of the output `name`.
    pub fn of_snapshot(compared: &SnapshotComparison, name: &str) -> Said {
        let change = compared.changes.iter().find(|change| change.name == name);
        let Some(change) = change else {
            return Said { verdict: Verdict::Identical, finding: None };
        };
        let verdict = match change.verdict {
            SnapshotVerdict::Diverged => Verdict::Diverged,
            _ => Verdict::Equivalent,
        };
        let moved = change.shadow.is_some_and(|shadow| shadow.moved);
        Said { verdict, finding: moved.then_some(Finding::Wrong) }
    }

    pub fn found(self) -> bool {
        self.verdict >= Verdict::Diverged
    }

    /// The column of the matrix.
    fn column(self) -> usize {
        match (self.found(), self.finding) {
            (true, Some(Finding::Wrong)) => 0,
            (true, Some(Finding::Imprecise | Finding::LessAccurate)) => 1,
            (true, _) => 2,
            (false, Some(Finding::Wrong)) => 3,
            (false, _) if self.verdict == Verdict::Identical => 5,
            (false, _) => 4,
        }
    }
}

const COLUMNS: [&str; 6] =
    ["found: wrong", "imprecise", "other", "missed: wrong", "equivalent", "identical"];

/// Counts of what was said, by dtype and shift.
#[derive(Default)]
pub struct Matrix {
    counts: BTreeMap<(DType, usize), [usize; COLUMNS.len()]>,
}

impl Matrix {
    pub fn count(&mut self, dtype: DType, shift: f64, said: Said) {
        let class = ENDS.iter().position(|(end, _)| shift <= *end).unwrap_or(ENDS.len() - 1);
        self.counts.entry((dtype, class)).or_default()[said.column()] += 1;
    }

    /// How many defects of a shift between `least` and `most` were found, and how many there are.
    pub fn found(&self, least: f64, most: f64) -> (usize, usize) {
        let begin = |class: usize| if class == 0 { 0.0 } else { ENDS[class - 1].0 };
        let inside = |class: usize| begin(class) >= least && ENDS[class].0 <= most;
        let classes = self.counts.iter().filter(|((_, class), _)| inside(*class));
        classes.fold((0, 0), |(found, all), (_, row)| {
            (found + row[..3].iter().sum::<usize>(), all + row.iter().sum::<usize>())
        })
    }
}

impl fmt::Display for Matrix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<6}{:<15}", "", "units")?;
        COLUMNS.iter().try_for_each(|column| write!(f, "{column:>14}"))?;
        write!(f, "{:>9}", "found")?;
        for ((dtype, class), row) in &self.counts {
            write!(f, "\n{:<6}{:<15}", dtype.name(), ENDS[*class].1)?;
            row.iter().try_for_each(|count| write!(f, "{count:>14}"))?;
            let found = row[..3].iter().sum::<usize>();
            let all = row.iter().sum::<usize>();
            write!(f, "{:>8.1}%", 100.0 * found as f64 / all as f64)?;
        }
        Ok(())
    }
}
