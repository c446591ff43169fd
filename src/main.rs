//! The `replay` program: parse, dispatch, exit code.

#![deny(clippy::print_stdout, clippy::print_stderr)]

mod cli;

use std::process::ExitCode;

use replay::process;

fn main() -> ExitCode {
    process::withhold_inherited_descriptors();
    if cli::is_worker() {
        return cli::run_worker();
    }
    if cli::is_keeper() {
        return cli::run_keeper();
    }
    if cli::is_task() {
        return cli::make_task();
    }
    cli::run_command_line()
}
