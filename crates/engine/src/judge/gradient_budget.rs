//! The work that the check of a fixture's gradients may be. Numbers of evaluations decide results; time decides only
//! whether they are made at all.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::gradient_story::UncheckedGradient;
use crate::backend::ReplayError;
use crate::trial::{GradientEffort, GradientWork, SlopeEffort, Trial};

/// Evaluations of the loss for one direction.
const VALUES: usize = 4;
/// How many times less time a later evaluation may take than the first one, which starts programs and fills caches.
const START_SHARE: u32 = 4;

/// The work that the check of a fixture's gradients may be, and what it was so far.
pub(super) struct GradientBudget {
    effort: GradientEffort,
    progress: Mutex<BudgetProgress>,
}

struct BudgetProgress {
    begun_at: Option<Instant>,
    gradients_left: usize,
    /// Evaluations of all gradients, and of the current one.
    evaluations: usize,
    of_gradient: usize,
    /// The time of all evaluations so far.
    time: Duration,
    /// The time of an evaluation, as far as it is known.
    each: Duration,
    /// The most evaluations for the current gradient.
    most: usize,
    /// The fewest for it and those to come.
    fewest: usize,
    was_short: bool,
    /// Runs to come before the first evaluation.
    runs_before: usize,
    /// How many times less time a later evaluation may take than the first one.
    start_share: u32,
}

/// Why a loss was not evaluated.
pub(super) enum SlopeError {
    Replay(ReplayError),
    /// The time of the budget is spent.
    BudgetSpent,
}

impl From<ReplayError> for SlopeError {
    fn from(error: ReplayError) -> SlopeError {
        SlopeError::Replay(error)
    }
}

impl GradientBudget {
    /// That of `effort` for so many gradients.
    pub(super) fn new(effort: GradientEffort, gradients: usize) -> GradientBudget {
        let progress = BudgetProgress {
            begun_at: None,
            gradients_left: gradients,
            evaluations: 0,
            of_gradient: 0,
            time: Duration::ZERO,
            each: Duration::ZERO,
            most: 0,
            fewest: 0,
            was_short: false,
            runs_before: 0,
            start_share: START_SHARE,
        };
        GradientBudget { effort, progress: Mutex::new(progress) }
    }

    fn lock(&self) -> MutexGuard<'_, BudgetProgress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins with the first gradient; a replay took the share `each` of the machine's time.
    pub(super) fn begin(&self, each: Duration) {
        let mut progress = self.lock();
        progress.begun_at.get_or_insert_with(Instant::now);
        if progress.evaluations == 0 {
            progress.each = each;
        }
    }

    /// Begins with a replay that took the share `each` of the machine's time. Evaluations come after `runs_before` more like
    /// it, and start the program as it did unless it `stays`.
    pub(super) fn begin_program(&self, each: Duration, runs_before: usize, stays: bool) {
        self.begin(each);
        let mut progress = self.lock();
        progress.runs_before = runs_before;
        if !stays {
            progress.start_share = 1;
        }
    }

    /// Those runs were made.
    pub(super) fn end_runs_before(&self) {
        self.lock().runs_before = 0;
    }

    /// Goes on to the next gradient.
    pub(super) fn end_gradient(&self) {
        let mut progress = self.lock();
        progress.gradients_left = progress.gradients_left.saturating_sub(1);
        progress.of_gradient = 0;
    }

    /// The effort to begin a gradient with; none if there is time for nothing.
    pub(super) fn choose_first(
        &self,
        full: SlopeEffort,
        quick: SlopeEffort,
    ) -> Option<SlopeEffort> {
        let mut progress = self.lock();
        let gradients = progress.gradients_left.max(1);
        let fewest = quick.directions as usize * VALUES * gradients;
        let first = match (self.effort, self.effort.limit()) {
            (GradientEffort::Off, _) => None,
            (GradientEffort::Quick, _) => Some(quick),
            (_, Some(limit)) if progress.fits(limit, full.budget * gradients) => Some(full),
            (_, Some(limit)) if progress.fits(limit, fewest) => Some(quick),
            (_, Some(_)) => None,
            (_, None) => Some(full),
        };
        if let Some(SlopeEffort { directions, budget }) = first {
            progress.most = budget;
            progress.fewest = directions as usize * VALUES * gradients;
        }
        first
    }

    /// Whether all directions of the current gradient, and of those to come, may be tried after some of them.
    pub(super) fn allows_all(&self, full: SlopeEffort) -> bool {
        let Some(limit) = self.effort.limit() else { return false };
        let mut progress = self.lock();
        let evaluations = full.directions as usize * VALUES * progress.gradients_left.max(1);
        let fits = progress.fits(limit, evaluations);
        if fits {
            progress.most = full.budget;
        }
        fits
    }

    /// Whether so many evaluations may be made now.
    pub(super) fn admit(&self, evaluations: usize) -> Result<(), SlopeError> {
        let Some(limit) = self.effort.limit() else { return Ok(()) };
        if self.lock().fits(limit, evaluations) { Ok(()) } else { Err(SlopeError::BudgetSpent) }
    }

    /// Counts an evaluation for gradient `output`, and tells of it.
    pub(super) fn count_evaluation(&self, trial: &Trial, output: &str) {
        {
            let mut progress = self.lock();
            progress.evaluations += 1;
            progress.of_gradient += 1;
        }
        self.tell(trial, output);
    }

    /// Tells of the work on gradient `output`.
    pub(super) fn tell(&self, trial: &Trial, output: &str) {
        let work = {
            let progress = self.lock();
            GradientWork {
                fixture: &trial.fixture().name,
                output,
                done: progress.of_gradient,
                most: progress.most,
                fewest: progress.fewest,
                each: progress.each,
                elapsed: progress.elapsed(),
            }
        };
        trial.lab().tell_gradient_work(&work);
    }

    /// Adds the time of evaluations.
    pub(super) fn add_time(&self, time: Duration) {
        let mut progress = self.lock();
        progress.time += time;
        progress.each = progress.time / progress.evaluations.max(1) as u32;
    }

    /// Remembers that a gradient was checked in fewer directions than a full check has, for lack of time.
    pub(super) fn note_shortage(&self) {
        self.lock().was_short = true;
    }

    /// Whether one was.
    pub(super) fn was_short(&self) -> bool {
        self.lock().was_short
    }

    /// Whether time limits the work.
    pub(super) fn is_timed(&self) -> bool {
        self.effort.limit().is_some()
    }

    /// Why the current gradient is left without an answer.
    pub(super) fn explain_shortage(&self, full: SlopeEffort) -> UncheckedGradient {
        let progress = self.lock();
        let evaluations = full.budget.saturating_sub(progress.of_gradient).max(1);
        let seconds = progress.each.saturating_mul(evaluations as u32).as_secs_f64().round() as u64;
        UncheckedGradient::TooLong { evaluations, seconds }
    }
}

impl BudgetProgress {
    fn elapsed(&self) -> Duration {
        self.begun_at.map_or(Duration::ZERO, |begun_at| begun_at.elapsed())
    }

    /// Whether so many more evaluations end within `limit`.
    fn fits(&self, limit: Duration, evaluations: usize) -> bool {
        let share = if self.evaluations == 0 { self.start_share } else { 1 };
        let runs = evaluations.saturating_add(self.runs_before);
        let wanted = self.each.saturating_mul(runs as u32) / share;
        self.elapsed() + wanted <= limit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FULL: SlopeEffort = SlopeEffort { directions: 8, budget: 1024 };
    const QUICK: SlopeEffort = SlopeEffort { directions: 2, budget: 64 };
    const MINUTE: GradientEffort = GradientEffort::Within(Duration::from_secs(60));

    /// What a check of three gradients begins with if a replay takes so many milliseconds.
    fn first(effort: GradientEffort, milliseconds: u64) -> Option<SlopeEffort> {
        let budget = GradientBudget::new(effort, 3);
        budget.begin(Duration::from_millis(milliseconds));
        budget.choose_first(FULL, QUICK)
    }

    #[test]
    fn a_program_that_starts_anew_has_time_for_fewer_evaluations() {
        let first_of_program = |runs_before, stays| {
            let budget = GradientBudget::new(MINUTE, 3);
            budget.begin_program(Duration::from_millis(2000), runs_before, stays);
            budget.choose_first(FULL, QUICK)
        };
        assert_eq!(first_of_program(0, true), Some(QUICK));
        assert_eq!(first_of_program(0, false), Some(QUICK));
        assert_eq!(first_of_program(7, false), None);
        assert_eq!(first_of_program(7, true), Some(QUICK));
    }

    #[test]
    fn time_chooses_between_all_a_few_directions_and_nothing() {
        assert_eq!(first(MINUTE, 1), Some(FULL));
        assert_eq!(first(MINUTE, 1000), Some(QUICK));
        assert_eq!(first(MINUTE, 60_000), None);
    }

    #[test]
    fn counted_efforts_ask_for_no_time() {
        for milliseconds in [1, 60_000] {
            assert_eq!(first(GradientEffort::Full, milliseconds), Some(FULL));
            assert_eq!(first(GradientEffort::Quick, milliseconds), Some(QUICK));
        }
        let budget = GradientBudget::new(GradientEffort::Quick, 1);
        budget.begin(Duration::from_secs(1));
        assert!(budget.admit(1 << 20).is_ok() && !budget.was_short() && !budget.allows_all(FULL));
    }

    #[test]
    fn a_gradient_that_takes_too_long_says_how_much_is_left() {
        let budget = GradientBudget::new(MINUTE, 1);
        budget.begin(Duration::from_secs(1));
        assert!(matches!(budget.admit(1024), Err(SlopeError::BudgetSpent)));
        let shortage = budget.explain_shortage(FULL);
        assert_eq!(shortage, UncheckedGradient::TooLong { evaluations: 1024, seconds: 1024 });
    }
}
