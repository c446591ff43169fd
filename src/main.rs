//! The `replay` program: parse, dispatch, exit code.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    if cli::is_worker() {
        return cli::work();
    }
    if cli::is_keeper() {
        return cli::keep();
    }
    if cli::is_task() {
        return cli::make_task();
    }
    cli::run()
}
