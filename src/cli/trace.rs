//! The file of `--trace`: spans and events in the Trace Event Format of Chrome, an array of JSON objects. The array needs
//! no end: what a killed command wrote can be read, too.

use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::error::CliResult;
use super::growing_file::{GrowingFile, GrowingKind};

/// A trace under way. Times in it are microseconds since its begin.
pub struct TraceFile {
    file: GrowingFile,
    begun: Instant,
}

impl TraceFile {
    /// Makes the file at `path`; `invocation` is the name of the process in it.
    pub fn create(path: &Path, begun: Instant, invocation: &str) -> CliResult<TraceFile> {
        // The mark of the file holds the first member.
        let head = format!(r#","ph":"M","pid":1,"args":{}}}"#, json!({ "name": invocation }));
        Ok(TraceFile { file: GrowingFile::create(GrowingKind::Trace, path, &head)?, begun })
    }

    /// Adds finished work on `subject`.
    pub fn write_span(
        &self,
        name: &str,
        subject: &str,
        begun: Instant,
        duration: Duration,
        thread: u64,
    ) {
        self.write_event(&json!({
            "name": name,
            "ph": "X",
            "ts": self.microseconds(begun),
            "dur": duration.as_secs_f64() * 1e6,
            "pid": 1,
            "tid": thread,
            "args": { "subject": subject },
        }));
    }

    /// Adds what happened just now.
    pub fn write_instant(&self, name: &str, subject: &str, thread: u64) {
        self.write_event(&json!({
            "name": name,
            "ph": "i",
            "s": "t",
            "ts": self.microseconds(Instant::now()),
            "pid": 1,
            "tid": thread,
            "args": { "subject": subject },
        }));
    }

    /// Ends the array.
    ///
    /// # Errors
    /// The first failure to write the file.
    pub fn finish(&self) -> CliResult<()> {
        self.file.write("]\n");
        self.file.finish()
    }

    fn write_event(&self, event: &Value) {
        self.file.write(&format!(",{event}\n"));
    }

    fn microseconds(&self, time: Instant) -> f64 {
        time.saturating_duration_since(self.begun).as_secs_f64() * 1e6
    }
}

/// A number for this thread: 1 for the first that asks, then upwards.
pub fn current_thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|number| *number)
}
