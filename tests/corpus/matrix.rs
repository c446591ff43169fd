//! The confusion matrix: what a judge said, against the truth.

use std::fmt;

use replay::judge::Verdict;

use super::families::Effect;

const COLUMNS: [Verdict; 6] = [
    Verdict::Identical,
    Verdict::Equivalent,
    Verdict::Unchecked,
    Verdict::Diverged,
    Verdict::Failed,
    Verdict::Untestable,
];

/// Whether `verdict` is right of a variant with this effect: one that is right in the order of the
/// indices only is wrong.
fn is_right(verdict: Verdict, effect: Effect) -> bool {
    match verdict {
        Verdict::Identical | Verdict::Equivalent | Verdict::Unchecked => effect == Effect::Rounding,
        Verdict::Diverged | Verdict::Failed => effect != Effect::Rounding,
        Verdict::Unknown | Verdict::Untestable => false,
    }
}

/// How often each verdict was given, by truth.
#[derive(Clone, Debug, Default)]
pub struct Confusion {
    counts: [[usize; COLUMNS.len()]; 3],
    /// The trials whose verdict is wrong, with the verdict; sorted.
    pub wrong: Vec<String>,
}

impl Confusion {
    /// Counts one verdict on a variant with this effect.
    pub fn count(&mut self, effect: Effect, verdict: Verdict, trial: String) {
        self.counts[effect as usize][column(verdict)] += 1;
        if !is_right(verdict, effect) {
            self.wrong.push(format!("{trial}: {verdict:?}"));
            self.wrong.sort();
        }
    }

    /// How often `verdict` was given on variants with this effect.
    pub fn given(&self, effect: Effect, verdict: Verdict) -> usize {
        self.counts[effect as usize][column(verdict)]
    }
}

fn column(verdict: Verdict) -> usize {
    COLUMNS.iter().position(|&other| other == verdict).expect("every verdict has a column")
}

impl fmt::Display for Confusion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<14}", "")?;
        for verdict in COLUMNS {
            write!(f, "{:>12}", format!("{verdict:?}").to_lowercase())?;
        }
        for (label, row) in
            ["rounding", "other orders", "mathematics"].into_iter().zip(&self.counts)
        {
            write!(f, "\n{label:<14}")?;
            for count in row {
                write!(f, "{count:>12}")?;
            }
        }
        self.wrong.iter().try_for_each(|wrong| write!(f, "\nwrong: {wrong}"))
    }
}
