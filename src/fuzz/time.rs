//! The time to translate a text grows about as its length does.

use std::time::Duration;

use crate::frontend::{
    Precision, SourceUnit, Threads, find_function_signatures, scan_symbols, translate_for_device,
    translate_for_host, unit_integer_conversions,
};

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
    let (text_before, piece, text_behind) = match parts[..] {
        [text_before, piece, text_behind] => (text_before, piece, text_behind),
        [text_before, piece] => (text_before, piece, ""),
        _ => ("", &*text, ""),
    };
    if piece.is_empty() {
        return;
    }
    let repeated = |bytes: usize| {
        let times = (bytes / piece.len()).max(2);
        format!("{text_before}{}{text_behind}", piece.repeat(times))
    };
    let short = repeated(SHORT);
    let long = repeated(SHORT * LONGER);
    // Other work on the machine can lengthen a time, but not shorten it.
    let mut times = (Duration::MAX, Duration::MAX);
    for _ in 0..3 {
        times = (times.0.min(time_translation(&short)), times.1.min(time_translation(&long)));
        if times.1 < LEAST.max(times.0 * LIMIT) {
            return;
        }
    }
    let short = short.len();
    let long = long.len();
    panic!("{:?} for {short} bytes, {:?} for {long}: {text:?} repeated", times.0, times.1);
}

/// Processor time of this thread for all translations of `text`.
fn time_translation(text: &str) -> Duration {
    let unit = SourceUnit { path: "a.cu", text };
    let time_before = thread_processor_time();
    let symbols = scan_symbols(&[unit]);
    let _ = translate_for_host(&unit, &symbols, Precision::Shadow, Threads::Lanes);
    let _ = translate_for_device(&unit, &symbols, Precision::Native);
    let _ = find_function_signatures(&unit, &symbols);
    let _ = unit_integer_conversions(&unit);
    thread_processor_time().saturating_sub(time_before)
}

/// How long this thread has run: the first number of `schedstat`, in nanoseconds (proc(5)).
fn thread_processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanoseconds = text.split(' ').next().and_then(|first| first.parse().ok());
    Duration::from_nanos(nanoseconds.unwrap_or(0))
}
