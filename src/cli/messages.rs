//! `-v`, `-q`, `--log FILE` and `--trace FILE`: the messages besides results and errors.
//!
//! The library reports its work as spans and events of `tracing`. Here they become lines with times. Without these
//! options nothing listens.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::path::PathBuf;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use ::replay::report::sanitise_line;
use clap::ArgAction;
use tracing::field::{Field, Visit};
use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use super::error::CliResult;
use super::growing_file::{GrowingFile, GrowingKind};
use super::out::eprintln;
use super::progress;
use super::trace::{TraceFile, current_thread_number};

/// How much is told, and where.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Messages")]
pub struct MessageArgs {
    /// Say what is translated, compiled, run and found in the cache, and how long it takes; -vv says
    /// it of every run
    #[arg(short, long, action = ArgAction::Count, conflicts_with = "quiet")]
    verbose: u8,
    /// Say nothing but results and errors
    #[arg(short, long)]
    quiet: bool,
    /// Write what -vv says to FILE; a search adds its answers, as `git bisect replay` takes them
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write when what -vv says began and ended to FILE, for https://ui.perfetto.dev or chrome://tracing
    #[arg(long, value_name = "FILE")]
    trace: Option<PathBuf>,
}

/// Listens for the rest of the process.
static TELLER: OnceLock<Teller> = OnceLock::new();

/// Starts the requested messages.
pub fn start_messages(args: &MessageArgs) -> CliResult<()> {
    progress::set_progress_level(match (args.quiet, args.verbose) {
        (true, _) => progress::ProgressLevel::Quiet,
        (false, 0) => progress::ProgressLevel::Progress,
        (false, _) => progress::ProgressLevel::Notes,
    });
    let shown = match args.verbose {
        0 => LevelFilter::OFF,
        1 => LevelFilter::INFO,
        _ => LevelFilter::DEBUG,
    };
    let log = args
        .log
        .as_deref()
        .map(|path| GrowingFile::create(GrowingKind::Log, path, &describe_invocation()))
        .transpose()?;
    let begun = Instant::now();
    let trace = args
        .trace
        .as_deref()
        .map(|path| TraceFile::create(path, begun, &describe_invocation()))
        .transpose()?;
    if shown == LevelFilter::OFF && log.is_none() && trace.is_none() {
        return Ok(());
    }
    let teller = Teller { begun, shown, log, trace, sums: Mutex::default(), end: Mutex::default() };
    if TELLER.set(teller).is_ok()
        && let Some(teller) = TELLER.get()
    {
        let _ = tracing::subscriber::set_global_default(
            Registry::default().with(LibraryListener(teller)),
        );
    }
    Ok(())
}

/// This program and its command line.
fn describe_invocation() -> String {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    sanitise_line(&format!("{}: {}", super::VERSION, words.collect::<Vec<_>>().join(" ")))
        .into_owned()
}

/// Lets the log, if there is one, end with `text`.
pub fn set_log_end(text: String) {
    if let Some(teller) = TELLER.get() {
        *teller.end.lock().unwrap_or_else(PoisonError::into_inner) = text;
    }
}

/// Tells the total times, and ends the log and the trace.
///
/// # Errors
/// The failure to write one of them.
pub fn finish_messages() -> CliResult<()> {
    let Some(teller) = TELLER.get() else { return Ok(()) };
    teller.tell_sums();
    if let Some(trace) = &teller.trace {
        trace.finish()?;
    }
    if let Some(log) = &teller.log {
        log.write(&teller.end.lock().unwrap_or_else(PoisonError::into_inner));
        log.finish()?;
    }
    Ok(())
}

/// How often something was done, and how long it took.
#[derive(Clone, Copy, Default)]
struct Sum {
    times: u64,
    took: Duration,
}

/// Turns finished work into lines.
struct Teller {
    begun: Instant,
    shown: LevelFilter,
    log: Option<GrowingFile>,
    trace: Option<TraceFile>,
    sums: Mutex<BTreeMap<&'static str, Sum>>,
    /// The text at the end of the log.
    end: Mutex<String>,
}

impl Teller {
    fn write_message(&self, level: Level, event: &str, subject: &str, duration: Option<Duration>) {
        let line = format_message_line(self.begun.elapsed(), event, subject, duration);
        if self.shown >= level {
            eprintln!("{line}");
        }
        if let Some(log) = &self.log {
            log.write(&format!("# {line}\n"));
        }
    }

    fn tell_sums(&self) {
        let sums = self.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let mut sums: Vec<_> = sums.iter().collect();
        sums.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.took));
        for (event, sum) in sums {
            let times = format!("in all, {} x", sum.times);
            self.write_message(Level::INFO, event, &times, Some(sum.took));
        }
    }
}

/// A line: time, action, subject, duration.
fn format_message_line(
    elapsed: Duration,
    event: &str,
    subject: &str,
    duration: Option<Duration>,
) -> String {
    let elapsed_seconds = elapsed.as_secs_f64();
    let duration_text =
        duration.map_or(String::new(), |time| format!("  {:.3} s", time.as_secs_f64()));
    sanitise_line(&format!("{elapsed_seconds:9.3} s  {event:10} {subject}{duration_text}"))
        .into_owned()
}

/// The subject of a span, its start, and its thread.
struct Doing {
    of: Words,
    begun: Instant,
    thread: u64,
}

/// The fields of a span or event: `message` alone, others with their names.
#[derive(Default)]
struct Words(String);

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let gap = if self.0.is_empty() { "" } else { ", " };
        let _ = match field.name() {
            "message" => write!(self.0, "{gap}{value:?}"),
            name => write!(self.0, "{gap}{name} {value:?}"),
        };
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.record_debug(field, &format_args!("{value}"));
    }
}

/// Listens to the library.
struct LibraryListener(&'static Teller);

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LibraryListener {
    fn max_level_hint(&self) -> Option<LevelFilter> {
        let is_written = self.0.log.is_some() || self.0.trace.is_some();
        let to_files = if is_written { LevelFilter::DEBUG } else { LevelFilter::OFF };
        Some(self.0.shown.max(to_files))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let mut of = Words::default();
        attributes.record(&mut of);
        if let Some(span) = context.span(id) {
            span.extensions_mut().insert(Doing {
                of,
                begun: Instant::now(),
                thread: current_thread_number(),
            });
        }
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(span) = context.span(id)
            && let Some(doing) = span.extensions_mut().get_mut::<Doing>()
        {
            values.record(&mut doing.of);
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut subject = Words::default();
        event.record(&mut subject);
        let name = event.metadata().name();
        if let Some(trace) = &self.0.trace {
            trace.write_instant(name, &subject.0, current_thread_number());
        }
        self.0.write_message(*event.metadata().level(), name, &subject.0, None);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let extensions = span.extensions();
        let Some(Doing { of, begun, thread }) = extensions.get::<Doing>() else { return };
        let name = span.metadata().name();
        let duration = begun.elapsed();
        let mut sums = self.0.sums.lock().unwrap_or_else(PoisonError::into_inner);
        let sum = sums.entry(name).or_default();
        *sum = Sum { times: sum.times + 1, took: sum.took + duration };
        drop(sums);
        if let Some(trace) = &self.0.trace {
            trace.write_span(name, &of.0, *begun, duration, *thread);
        }
        self.0.write_message(*span.metadata().level(), name, &of.0, Some(duration));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_says_when_what_of_what_and_how_long() {
        let when = Duration::from_millis(1234);
        let took = Duration::from_millis(56);
        assert_eq!(
            format_message_line(when, "compile", "k.cu\n\u{1b}[31mgit bisect bad", Some(took)),
            "    1.234 s  compile    k.cu git bisect bad  0.056 s"
        );
        assert_eq!(
            format_message_line(when, "cached", "outcome", None),
            "    1.234 s  cached     outcome"
        );
    }
}
