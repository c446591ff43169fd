//! Patterns of names on the command line: `*`, `?` and `[...]`, which fit slashes, too.

use glob::Pattern;

use super::error::{CliResult, CommandError};

/// The compiled `patterns`; an error says that one is no pattern of `things`.
pub fn compile_patterns(patterns: &[String], things: &str) -> CliResult<Vec<Pattern>> {
    let compile = |pattern: &String| {
        Pattern::new(pattern).map_err(|error| {
            CommandError::new(format!("`{pattern}` is no pattern of {things}: {}", error.msg))
        })
    };
    patterns.iter().map(compile).collect()
}
