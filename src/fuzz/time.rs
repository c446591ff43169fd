//! The time to translate a text grows about as its length does.

use std::time::Duration;

use crate::frontend::{Precision, Threads, Unit, device, host, scan, signatures};

/// Bytes of the shorter of two texts; without optimisation more would take seconds.
const SHORT: usize = if cfg!(test) { 8 << 10 } else { 16 << 10 };

/// The longer text has this many times the bytes of the shorter one.
const LONGER: usize = 4;

/// The most that the time may grow. Linear time grows by [`LONGER`], quadratic time by its square.
const LIMIT: u32 = 10;

/// Shorter times prove nothing: the system counts in steps of milliseconds, and limits on what is
/// looked at are to bite first.
const LEAST: Duration = Duration::from_millis(250);

/// Repeating the part of `bytes` behind the first byte 1 costs the front end no more than its
/// length explains. The text before that byte and behind a second one stands around it once.
pub fn frontend_time(bytes: &[u8]) {
    let text = String::from_utf8_lossy(&bytes[..bytes.len().min(1 << 10)]);
    let parts: Vec<&str> = text.splitn(3, '\u{1}').collect();
    let (before, piece, behind) = match parts[..] {
        [before, piece, behind] => (before, piece, behind),
        [before, piece] => (before, piece, ""),
        _ => ("", &*text, ""),
    };
    if piece.is_empty() {
        return;
    }
    let repeated = |bytes: usize| {
        let times = (bytes / piece.len()).max(2);
        format!("{before}{}{behind}", piece.repeat(times))
    };
    let (short, long) = (repeated(SHORT), repeated(SHORT * LONGER));
    // Other work on the machine can lengthen a time, but not shorten it.
    let mut times = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        times = (times.0.min(translation(&short)), times.1.min(translation(&long)));
        if times.1 < LEAST.max(times.0 * LIMIT) {
            return;
        }
    }
    let (short, long) = (short.len(), long.len());
    panic!("{:?} for {short} bytes, {:?} for {long}: {text:?} repeated", times.0, times.1);
}

/// Processor time of this thread for all translations of `text`.
fn translation(text: &str) -> Duration {
    let unit = Unit { path: "a.cu", text };
    let begun = processor_time();
    let symbols = scan(&[unit]);
    let _ = host(&unit, &symbols, Precision::Shadow, Threads::Lanes);
    let _ = device(&unit, &symbols, Precision::Native);
    let _ = signatures(&unit, &symbols);
    processor_time().saturating_sub(begun)
}

/// How long this thread has run: the first number of `schedstat`, in nanoseconds (proc(5)).
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
