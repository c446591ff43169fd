//! The search for a commit: reading a long history before it begins, and the search itself against
//! `git bisect run` with a script that compiles and runs by hand.
//!
//! `cargo bench --bench bisect -- planning` and `-- search` measure one of the two.
//!
//! Prints figures and their bounds; exits with 1 if one is beyond. Histories are made anew for
//! each run, by `git fast-import`.

#[path = "bisect/importer.rs"]
mod importer;
#[path = "bisect/planning.rs"]
mod planning;
#[path = "bisect/search.rs"]
mod search;

use std::error::Error;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let fine = match words.as_slice() {
        [planning::CHILD, repository] => planning::child(repository.as_ref()).map(|()| true),
        [search::TRANSLATE, checkout, out] => {
            search::translate(checkout.as_ref(), out.as_ref()).map(|()| true)
        }
        [search::COMPARE, artifact, fixture, recorded] => {
            search::compare(artifact.as_ref(), fixture.as_ref(), recorded.as_ref())
        }
        words => {
            // `cargo bench` adds options of its own.
            let named = |word: &str| words.iter().all(|w| w.starts_with("--") || *w == word);
            let planning = !named("planning") || planning::measure()?;
            let search = !named("search") || search::measure()?;
            Ok(planning && search)
        }
    };
    Ok(if fine? { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Processor time in seconds of this process (`libc::RUSAGE_SELF`) or its children
/// (`libc::RUSAGE_CHILDREN`).
fn processor_seconds(whose: libc::c_int) -> f64 {
    // SAFETY: fills in a struct that lives on the stack.
    let usage = unsafe {
        let mut usage = std::mem::zeroed::<libc::rusage>();
        libc::getrusage(whose, &raw mut usage);
        usage
    };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    seconds(usage.ru_utime) + seconds(usage.ru_stime)
}
