//! Everything that keeps a source set from being compiled, at once: missing headers, what the front end refuses, and the
//! lines that the compiler refuses. Goes on behind each obstacle as if it were mended.

use std::collections::BTreeSet;

use super::error::{find_fault_hint, missing_header};
use super::refused_lines::find_refused_lines;
use super::translation::{
    CodeScope, Translation, TranslationRequest, list_left_out_functions, list_refusals,
    translate_sources,
};
use super::{CompileError, Signature, Toolchain, threads_of};
use replay_fixture::harness::Harness;
use replay_frontend::{FrontendError, Precision, RefusedLine};
use replay_history::SourceSet;

/// The front end and the compiler are asked at most so often.
const MOST_ROUNDS: usize = 32;

/// Something in the way of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CompileObstacle {
    /// The file and the line of the sources or of the harness; empty where it belongs to no line.
    pub place: String,
    /// The further places of the same message.
    pub more_places: usize,
    /// The problem, in words.
    pub message: String,
    /// Advice to the user, if there is any.
    pub hint: Option<String>,
}

/// A function that is not compiled, as no call of the harness reaches it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutFunction {
    /// The file.
    pub path: String,
    /// The 1-based line of its name.
    pub line: usize,
    /// Its name.
    pub name: String,
}

/// The obstacles to a replay of a source set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompileObstacles {
    /// In the order in which they were met: headers and refusals of the front end come first.
    pub obstacles: Vec<CompileObstacle>,
    /// The functions with tensors of PyTorch and the kernels that are not compiled.
    pub left_out: Vec<LeftOutFunction>,
}

impl Toolchain {
    /// Everything that keeps `sources` and the calls of `harness` from being compiled.
    ///
    /// # Errors
    /// [`CompileError`] if the compiler cannot be asked.
    pub fn find_obstacles(
        &self,
        harness: &Harness,
        signature: &Signature,
        sources: &SourceSet,
    ) -> Result<CompileObstacles, CompileError> {
        let mut left_out = list_left_out_functions(sources, harness);
        let reached = self.find_scope_obstacles(harness, signature, sources, CodeScope::Reached)?;
        let mut obstacles = reached.obstacles;
        if !obstacles.is_empty() && !reached.unreached.is_empty() {
            let whole = self.find_scope_obstacles(harness, signature, sources, CodeScope::Whole)?;
            // The others may come of what was left out. The compiler tells of each message once, and elsewhere if the
            // first place of it was left out.
            if whole.was_compiled {
                obstacles.retain(|obstacle| {
                    whole.obstacles.iter().any(|of_whole| of_whole.message == obstacle.message)
                });
            }
            if obstacles.is_empty() {
                return Ok(CompileObstacles { obstacles: whole.obstacles, left_out });
            }
        }
        left_out.extend(reached.unreached);
        Ok(CompileObstacles { obstacles, left_out })
    }

    /// Everything that keeps the code of `sources` in `scope` and the calls of `harness` from being compiled.
    fn find_scope_obstacles(
        &self,
        harness: &Harness,
        signature: &Signature,
        sources: &SourceSet,
        scope: CodeScope,
    ) -> Result<ScopeObstacles, CompileError> {
        let mut mended_sources = sources.clone();
        let mut refused_lines: Vec<(String, RefusedLine)> = Vec::new();
        let mut obstacles = Vec::new();
        let mut unreached = Vec::new();
        let mut was_compiled = false;
        let threads = threads_of(Precision::Native, signature.large);
        for _ in 0..MOST_ROUNDS {
            let translated = translate_sources(TranslationRequest {
                sources: &mended_sources,
                harness,
                scope,
                precision: Precision::Native,
                threads,
                refused: &refused_lines,
            });
            let translated: Translation = match translated {
                Ok(translated) => translated,
                Err(CompileError::Frontend(_)) => {
                    let known_lines = refused_lines.len();
                    let mut has_mended = false;
                    for error in list_refusals(&mended_sources, harness, scope, &refused_lines)? {
                        let (path, line) = error.place();
                        let refused_line = (path.to_owned(), line_without_reason(line));
                        let obstacle = describe_refusal(&error);
                        if !obstacles.contains(&obstacle) {
                            obstacles.push(obstacle);
                        }
                        let is_mended = matches!(error, FrontendError::SharedMemory { .. })
                            && unmark_shared_memory(&mut mended_sources, path, line);
                        has_mended |= is_mended;
                        if !is_mended && !refused_lines.contains(&refused_line) {
                            refused_lines.push(refused_line);
                        }
                    }
                    if refused_lines.len() == known_lines && !has_mended {
                        break;
                    }
                    continue;
                }
                Err(error) => return Err(error),
            };
            was_compiled = true;
            unreached = translated.left_out.clone().unwrap_or_default();
            let compiled =
                self.compile_call(harness, signature, &translated, Precision::Native, &|| ());
            let log = match compiled {
                Ok(_) => break,
                Err(CompileError::Refused { log, .. }) => log,
                // The call itself.
                Err(CompileError::Frontend(error)) => {
                    obstacles.push(describe_refusal(&error));
                    break;
                }
                Err(error) => return Err(error),
            };
            match find_missing_header_line(&log) {
                Some((path, line, message))
                    if blank_source_line(&mut mended_sources, path, line) =>
                {
                    obstacles.push(CompileObstacle {
                        place: format!("{path}:{line}"),
                        more_places: 0,
                        message: format!(
                            "no header {}",
                            missing_header(message).unwrap_or(message)
                        ),
                        hint: find_fault_hint(message, harness, sources),
                    });
                }
                _ => {
                    obstacles.extend(list_refused_lines(&log, harness, sources));
                    break;
                }
            }
        }
        Ok(ScopeObstacles { obstacles, unreached, was_compiled })
    }
}

/// The obstacles to a replay of a part of a source set.
struct ScopeObstacles {
    obstacles: Vec<CompileObstacle>,
    /// The kernels outside of the part.
    unreached: Vec<LeftOutFunction>,
    /// Whether the compiler has seen the part.
    was_compiled: bool,
}

fn line_without_reason(line: usize) -> RefusedLine {
    RefusedLine { line, reason: String::new() }
}

fn describe_refusal(error: &FrontendError) -> CompileObstacle {
    let (path, line) = error.place();
    CompileObstacle {
        place: format!("{path}:{line}"),
        more_places: 0,
        message: error.to_string(),
        hint: error.hint(),
    }
}

/// The file, the line and the message of the missing header in `log`.
fn find_missing_header_line(log: &str) -> Option<(&str, usize, &str)> {
    let line = log.lines().find(|line| line.contains(": fatal error: "))?;
    let is_missing = ["No such file", "file not found"].iter().any(|words| line.contains(words));
    let mut parts = line.trim_start_matches("tree/").splitn(3, ':');
    let path = parts.next()?;
    let number = parts.next()?.parse().ok()?;
    is_missing.then_some((path, number, line))
}

/// Makes the 1-based `line` of the file `path` an empty one. Tells whether there is such a line.
fn blank_source_line(sources: &mut SourceSet, path: &str, line: usize) -> bool {
    let Some(file) = sources.files.iter_mut().find(|file| file.path == path) else { return false };
    let mut lines: Vec<&[u8]> = file.content.split(|&byte| byte == b'\n').collect();
    match line.checked_sub(1).and_then(|index| lines.get_mut(index)) {
        Some(text) if !text.is_empty() => *text = b"",
        _ => return false,
    }
    file.content = lines.join(&b'\n').into();
    true
}

/// Blanks the first `__shared__` of the 1-based `line` of the file `path`, so that it declares a plain variable. Tells
/// whether there is one.
fn unmark_shared_memory(sources: &mut SourceSet, path: &str, line: usize) -> bool {
    const MARK: &[u8] = b"__shared__";
    let Some(file) = sources.files.iter_mut().find(|file| file.path == path) else { return false };
    let mut content = file.content.to_vec();
    let Some(text) = content.split_mut(|&byte| byte == b'\n').nth(line - 1) else { return false };
    let Some(mark) = text.windows(MARK.len()).position(|word| word == MARK) else { return false };
    text[mark..mark + MARK.len()].fill(b' ');
    file.content = content.into();
    true
}

/// The lines that `log` refuses, one for each message.
fn list_refused_lines(log: &str, harness: &Harness, sources: &SourceSet) -> Vec<CompileObstacle> {
    let mut obstacles: Vec<CompileObstacle> = Vec::new();
    let mut places = BTreeSet::new();
    for (path, RefusedLine { line, reason }) in find_refused_lines(log).unwrap_or_default() {
        let place = format!("{path}:{line}");
        if !places.insert(place.clone()) {
            continue;
        }
        match obstacles.iter_mut().find(|known| known.message == reason) {
            Some(known) => known.more_places += 1,
            None => obstacles.push(CompileObstacle {
                place,
                more_places: 0,
                hint: find_fault_hint(&format!("error: {reason}"), harness, sources),
                message: reason,
            }),
        }
    }
    if obstacles.is_empty() {
        let message = super::error::first_error(log);
        let hint = find_fault_hint(&message, harness, sources);
        obstacles.push(CompileObstacle { place: String::new(), more_places: 0, message, hint });
    }
    obstacles
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_of_a_missing_header_is_found() {
        let log = "In file included from unit.cpp:1:\n\
                   tree/src/a.cu:3:10: fatal error: cub/none.cuh: No such file or directory\n";
        let found = find_missing_header_line(log).map(|(path, line, _)| (path, line));
        assert_eq!(found, Some(("src/a.cu", 3)));
        let clang = "tree/a.cu:7:10: fatal error: 'b.h' file not found\n";
        assert_eq!(
            find_missing_header_line(clang).map(|(path, line, _)| (path, line)),
            Some(("a.cu", 7))
        );
        assert_eq!(find_missing_header_line("a.cu:1:2: fatal error: too many errors\n"), None);
    }
}
