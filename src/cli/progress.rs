//! The progress of long work: one line on standard error, on a terminal only.

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use ::replay::report::{ReportLine, format_short_number, sanitise_line};
use ::replay::trial::GradientWork;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::out::eprintln;

/// How much of this is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgressLevel {
    /// The moving line, and notes.
    Progress,
    /// Notes alone, as other lines come between.
    Notes,
    Quiet,
}

static WATCH: AtomicU8 = AtomicU8::new(ProgressLevel::Progress as u8);

/// Sets the level from now on.
pub fn set_progress_level(watch: ProgressLevel) {
    WATCH.store(watch as u8, Ordering::Relaxed);
}

fn is_shown(watch: ProgressLevel) -> bool {
    WATCH.load(Ordering::Relaxed) == watch as u8
}

/// The line of the current command, for work deep below it.
static CURRENT: Mutex<Option<ProgressBar>> = Mutex::new(None);
/// When a line about long work was printed last.
static LAST_LINE: Mutex<Option<Instant>> = Mutex::new(None);
/// Work on gradients that takes longer is told of, and how often where nobody watches a moving line.
const LONG_WORK: Duration = Duration::from_secs(30);

/// Shows work on gradients: in the moving line, or where there is none by a line now and then.
pub fn show_gradient_work(work: &GradientWork) {
    let message = describe_gradient_work(work);
    let message = sanitise_line(&message);
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner).clone();
    match current {
        Some(bar) if !bar.is_hidden() => bar.set_message(message.into_owned()),
        _ if is_shown(ProgressLevel::Quiet) => {}
        _ => {
            let mut last_line = LAST_LINE.lock().unwrap_or_else(PoisonError::into_inner);
            let since = match *last_line {
                Some(last_line) => last_line.elapsed(),
                None if work.done == 0 => work.each.saturating_mul(work.fewest as u32),
                None => work.elapsed,
            };
            if since >= LONG_WORK {
                *last_line = Some(Instant::now());
                eprintln!("{message}");
            }
        }
    }
}

fn describe_gradient_work(work: &GradientWork) -> String {
    let GradientWork { fixture, output, done, most, fewest, each, .. } = work;
    let each = format_short_number(each.as_secs_f64(), 2);
    let step = match done {
        0 => format!("{fewest} evaluations or more"),
        _ => format!("{done} of at most {most} evaluations"),
    };
    format!(
        "checking {output} of {fixture}: {step}, {each} s each (--gradients quick takes fewer, off none)"
    )
}

/// A line about the current work. It disappears when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A line for something whose length is not known.
    pub fn start() -> Progress {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}");
        let bar = hide_unless_watched(bar.with_style(style.expect("the template is right")));
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(bar.clone());
        Progress(bar)
    }

    /// Shows the current work.
    pub fn say(&self, message: impl Into<String>) {
        self.0.set_message(sanitise_line(&message.into()).into_owned());
    }

    /// Turns the line into a bar for a search among `candidates`.
    pub fn expect(&self, candidates: usize) {
        let template = "{spinner} {bar:24} {msg} {elapsed:.dim}";
        let style = ProgressStyle::with_template(template).expect("the template is right");
        self.0.set_style(style);
        self.0.set_length(candidates.max(1).ilog2().into());
    }

    /// Moves the bar to where `candidates` are left.
    pub fn left(&self, candidates: usize) {
        let left = u64::from(candidates.max(1).ilog2());
        self.0.set_position(self.0.length().unwrap_or(left).saturating_sub(left));
    }

    /// Hides the line while `work` prints.
    pub fn hidden(&self, work: impl FnOnce()) {
        self.0.suspend(work);
    }

    /// Prints a lasting line above the moving one.
    pub fn note(&self, line: &ReportLine) {
        if !is_shown(ProgressLevel::Quiet) {
            self.0.suspend(|| eprintln!("{line}"));
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = None;
        self.0.finish_and_clear();
    }
}

/// Hides `bar` where nobody watches.
fn hide_unless_watched(bar: ProgressBar) -> ProgressBar {
    if std::env::var_os("CI").is_some() || !is_shown(ProgressLevel::Progress) {
        bar.set_draw_target(ProgressDrawTarget::hidden());
    }
    // The tick takes a thread. The system may refuse it.
    if !bar.is_hidden() {
        bar.enable_steady_tick(Duration::from_millis(120));
    }
    bar
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_on_gradients_says_what_it_takes_before_it_begins_and_how_far_it_is() {
        let told = [0, 40].map(|done| {
            describe_gradient_work(&GradientWork {
                fixture: "step0",
                output: "dq",
                done,
                most: 1024,
                fewest: 96,
                each: Duration::from_millis(1240),
                elapsed: Duration::from_secs(50),
            })
        });
        insta::assert_snapshot!(told.join("\n"), @"
        checking dq of step0: 96 evaluations or more, 1.2 s each (--gradients quick takes fewer, off none)
        checking dq of step0: 40 of at most 1024 evaluations, 1.2 s each (--gradients quick takes fewer, off none)
        ");
    }
}
