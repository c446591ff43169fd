//! A command of the user's that says what an environment is.

use std::ffi::OsString;
use std::path::Path;

use super::error::tail_of;
use super::{EnvironmentError, Workshop};
use replay_base::foreign::ProgramEnd;
use replay_base::process::tree::End;
use replay_fixture::harness::VALUE;

/// The exit status for a value that cannot be used here.
const UNTESTABLE: i32 = 125;

/// The variables that the command `words` prints for `value`, as `NAME=VALUE` lines. It runs in `folder`.
pub(super) fn ask_command(
    workshop: &Workshop<'_>,
    words: &[String],
    value: &str,
    folder: &Path,
) -> Result<Vec<(String, String)>, EnvironmentError> {
    let words: Vec<String> = words.iter().map(|word| word.replace(VALUE, value)).collect();
    let command = words.join(" ");
    let mut program_words: Vec<OsString> = words.iter().map(OsString::from).collect();
    if words[0].contains('/') {
        program_words[0] = folder.join(&words[0]).into();
    }
    let finished = workshop.shell.run(program_words, Some(folder.to_owned()), &[])?;
    if !finished.success() {
        let is_value_fault = finished.ending == ProgramEnd::Ended(End::Exited(UNTESTABLE));
        return Err(EnvironmentError::Command {
            command,
            tail: tail_of(&finished),
            is_value_fault,
        });
    }
    let printed = String::from_utf8_lossy(&finished.stdout).into_owned();
    parse_variables(&printed).map_err(|line| EnvironmentError::NoVariable { command, line })
}

/// The variables in `printed`, or a line that is none.
fn parse_variables(printed: &str) -> Result<Vec<(String, String)>, String> {
    let lines = printed.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            let variable = line.split_once('=').filter(|(name, _)| {
                !name.is_empty() && name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric())
            });
            match variable {
                Some((name, value)) => Ok((name.to_owned(), value.to_owned())),
                None => Err(line.to_owned()),
            }
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_variables_and_anything_else_is_refused() {
        let variables = parse_variables("A=1\n\nPATH=/x:/y\nFLAGS=-O2 a=b\n").unwrap();
        assert_eq!(variables[2], ("FLAGS".to_owned(), "-O2 a=b".to_owned()));
        assert_eq!(variables.len(), 3);
        assert_eq!(parse_variables("A=1\nusing 11.8\n"), Err("using 11.8".to_owned()));
        assert_eq!(parse_variables("=1\n"), Err("=1".to_owned()));
    }
}
