//! Finds out from Python's traceback whose fault an early end is: a program ended before the package `gradreplay` could
//! answer. Programs without the package are left out: the revision may make them fail at their top level.

use std::path::{Path, PathBuf};

use super::error::{PrintedTail, last_line};
use super::project::HarnessProgram;
use super::{ProgramError, find};
use replay_base::files;

/// Python's exit status after an uncaught exception.
const UNCAUGHT: i32 = 1;
/// The name of the package. It answers by itself once imported.
const PACKAGE: &str = "gradreplay";
/// The most bytes of a searched script.
const SCRIPT_BYTES: u64 = 16 << 20;
/// Exceptions of source text beyond Python's syntax.
const SYNTAX: [&str; 3] = ["SyntaxError", "IndentationError", "TabError"];

/// The error of a program after its end with `code` and `stderr`, if it uses the package and failed before the import
/// of it.
pub(super) fn diagnose_startup_failure(
    project: &HarnessProgram,
    code: i32,
    stderr: &str,
) -> Option<ProgramError> {
    if code != UNCAUGHT {
        return None;
    }
    let script = project.folder.join(find_failed_file(stderr)?).canonicalize().ok()?;
    let files = find::find_command_files(&project.spec.words, &project.folder).ok()?;
    let is_own = files.iter().any(|file| file.canonicalize().is_ok_and(|file| file == script));
    (is_own && uses_the_package(&script))
        .then(|| blame_program_error(stderr, Path::new(&project.words[0])))?
}

/// The file whose top level failed, by the last traceback in `stderr`.
fn find_failed_file(stderr: &str) -> Option<PathBuf> {
    let lines: Vec<&str> = stderr.lines().map(str::trim_end).collect();
    let traceback_start =
        lines.iter().rposition(|line| *line == "Traceback (most recent call last):");
    let frame = match traceback_start {
        Some(line_index) => lines.get(line_index + 1)?.strip_suffix(", in <module>")?,
        // Source text with a wrong syntax has no frame yet.
        None => {
            let last = last_line(stderr)?;
            SYNTAX.iter().find(|name| last.starts_with(*name))?;
            lines.iter().rev().find(|line| line.starts_with("  File \""))?
        }
    };
    let (path, _) = frame.strip_prefix("  File \"")?.split_once("\", line ")?;
    Some(path.into())
}

fn uses_the_package(script: &Path) -> bool {
    let text = files::read_regular_file(script, SCRIPT_BYTES).unwrap_or_default();
    String::from_utf8_lossy(&text).contains(PACKAGE)
}

fn blame_program_error(stderr: &str, interpreter: &Path) -> Option<ProgramError> {
    let message = last_line(stderr)?;
    let source = PrintedTail::beside(Some(&message), stderr);
    let is_import =
        message.starts_with("ModuleNotFoundError:") || message.starts_with("ImportError:");
    if !is_import {
        return Some(ProgramError::Mistake { message, source, hint: None });
    }
    let hint = missing_module_name(&message).map(|module| match module {
        PACKAGE => format!(
            "install it for {}: `pip install .` in replay's sources",
            interpreter.display()
        ),
        _ if message.ends_with("is not a package") => {
            format!("a file `{module}.py` beside the program stands in for the package: name it otherwise")
        }
        _ => format!("install the package of `{module}` for {}", interpreter.display()),
    });
    Some(ProgramError::Environment { message, source, hint })
}

/// The top-level module behind a failed import.
fn missing_module_name(message: &str) -> Option<&str> {
    let module_path = message.strip_prefix("ModuleNotFoundError: No module named '")?;
    module_path.split(['.', '\'']).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_whose_top_level_failed_is_found() {
        let found = |text: &str| find_failed_file(text).map(|path| path.display().to_string());
        let import = "noise\nTraceback (most recent call last):\n  File \"step.py\", line 1, in <module>\n    \
                      import gradreplay\nModuleNotFoundError: No module named 'gradreplay'\n";
        assert_eq!(found(import).as_deref(), Some("step.py"));
        let syntax =
            "  File \"/a/step.py\", line 2\n    def (\n        ^\nSyntaxError: invalid syntax\n";
        assert_eq!(found(syntax).as_deref(), Some("/a/step.py"));
        let called = "Traceback (most recent call last):\n  File \"step.py\", line 3, in step\nValueError: 1\n";
        assert_eq!(found(called), None, "somebody printed an exception and ended");
        let again = format!("{called}\nDuring handling of the above exception:\n\n{import}");
        assert_eq!(found(&again).as_deref(), Some("step.py"));
        assert_eq!(found("  File \"step.py\", line 2\nit failed\n"), None);
        assert_eq!(found("Traceback (most recent call last):"), None);
        assert_eq!(found(""), None);
    }

    #[test]
    fn a_package_that_is_missing_is_the_environments_fault_and_other_errors_are_the_programs() {
        let told = |message: &str| {
            let error = blame_program_error(message, Path::new("/usr/bin/python3")).unwrap();
            format!("{error}\n{}\n", error.hint().unwrap_or_default())
        };
        let messages = [
            "ModuleNotFoundError: No module named 'gradreplay'",
            "ModuleNotFoundError: No module named 'jax.numpy'",
            "ModuleNotFoundError: No module named 'numpy.typing'; 'numpy' is not a package",
            "ImportError: cannot import name 'x' from 'numpy'",
            "SyntaxError: invalid syntax",
        ];
        insta::assert_snapshot!(messages.map(told).concat(), @"
        the program's environment: ModuleNotFoundError: No module named 'gradreplay'
        install it for /usr/bin/python3: `pip install .` in replay's sources
        the program's environment: ModuleNotFoundError: No module named 'jax.numpy'
        install the package of `jax` for /usr/bin/python3
        the program's environment: ModuleNotFoundError: No module named 'numpy.typing'; 'numpy' is not a package
        a file `numpy.py` beside the program stands in for the package: name it otherwise
        the program's environment: ImportError: cannot import name 'x' from 'numpy'
        this says nothing about the revision: install what is missing, and replay it again
        the program that the harness names fails by itself: SyntaxError: invalid syntax
        it lies beside replay.toml and is not of the revision: mend it there
        ");
    }
}
