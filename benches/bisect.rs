//! The search for a commit: reading a long history before it begins, and the search itself against
//! `git bisect run` with a script that compiles and runs by hand.
//!
//! Prints figures and their bounds; exits with 1 if one is beyond. Histories are made anew for
//! each run, by `git fast-import`.

#[path = "bisect/importer.rs"]
mod importer;
#[path = "bisect/planning.rs"]
mod planning;

use std::error::Error;
use std::process::ExitCode;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

fn main() -> Result<ExitCode> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [word, repository] = words.as_slice()
        && word == planning::CHILD
    {
        planning::child(repository.as_ref())?;
        return Ok(ExitCode::SUCCESS);
    }
    let within = planning::measure()?;
    Ok(if within { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
