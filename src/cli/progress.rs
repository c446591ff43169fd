//! The progress of long work: one line on standard error, on a terminal only.

use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use ::replay::report::{ReportLine, sanitise_line};
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

/// A line about the current work. It disappears when dropped.
pub struct Progress(ProgressBar);

impl Progress {
    /// A line for something whose length is not known.
    pub fn start() -> Progress {
        let bar = ProgressBar::new_spinner();
        let style = ProgressStyle::with_template("{spinner} {msg} {elapsed:.dim}");
        Progress(hide_unless_watched(bar.with_style(style.expect("the template is right"))))
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
