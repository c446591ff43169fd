//! The lines of the sources that a compiler refuses, from its log.

use super::error::first_error;
use replay_frontend::RefusedLine;

/// The starts of paths beside the sources: headers of this program and of the system, and the unit with the call.
const OTHERS: [&str; 3] = ["headers/", "/", "unit."];
/// More of a message than this is cut off.
const MOST_OF_MESSAGE: usize = 80;

/// The lines behind each error in `log` with their files. An error in a header of this program belongs to the line of the
/// sources that leads to it. None if an error belongs to no line.
pub(super) fn find_refused_lines(log: &str) -> Option<Vec<(String, RefusedLine)>> {
    let mut refused: Vec<(String, RefusedLine)> = Vec::new();
    let mut leading: Option<(&str, usize)> = None;
    let mut stranded: Option<&str> = None;
    for line in log.lines() {
        let place = parse_place(line);
        if let Some((_, message)) = line.split_once(": error: ") {
            if stranded.is_some() {
                return None;
            }
            match place.or(leading) {
                Some((path, number)) => push_line(&mut refused, path, number, message),
                None => stranded = Some(message),
            }
            leading = None;
        } else if line.contains(": fatal error: ") || line.contains("undefined reference") {
            return None;
        } else if line.contains("required from") {
            leading = leading.or(place);
        } else if line.contains("requested here") {
            if let (Some(message), Some((path, number))) = (stranded, place) {
                push_line(&mut refused, path, number, message);
                stranded = None;
            }
        } else if line.contains(": In ") {
            leading = None;
        }
    }
    (stranded.is_none() && !refused.is_empty()).then_some(refused)
}

/// Whether the first error in `log` stands in a line of the sources.
pub(super) fn begins_with_source_error(log: &str) -> bool {
    parse_place(&first_error(log)).is_some()
}

fn push_line(refused: &mut Vec<(String, RefusedLine)>, path: &str, line: usize, message: &str) {
    let is_known =
        |(known_path, known): &(String, RefusedLine)| known_path == path && known.line == line;
    if !refused.iter().any(is_known) {
        let reason = message.chars().take(MOST_OF_MESSAGE).collect();
        refused.push((path.to_owned(), RefusedLine { line, reason }));
    }
}

/// The file of the sources and the line at the start of the message `line`.
fn parse_place(line: &str) -> Option<(&str, usize)> {
    let line = line.trim_start();
    let mut parts = line.strip_prefix("tree/").unwrap_or(line).splitn(3, ':');
    let path = parts.next()?;
    let number = parts.next()?.parse().ok()?;
    (!OTHERS.iter().any(|start| path.starts_with(start))).then_some((path, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(log: &str) -> Option<Vec<String>> {
        let refused = find_refused_lines(log)?;
        Some(
            refused
                .iter()
                .map(|(path, line)| format!("{path}:{}: {}", line.line, line.reason))
                .collect(),
        )
    }

    #[test]
    fn an_error_belongs_to_its_line_or_to_the_one_that_leads_to_it() {
        let log = "a.cu: In instantiation of 'int f(T) [with T = double]':\n\
                   a.cu:9:7:   required from here\n\
                   a.cu:3:17: error: static assertion failed: two bytes\n\
                   headers/replay/warp.h: In instantiation of 'T g(T)':\n\
                   tree/b.cuh:12:3:   required from 'void k(T)'\n\
                   tree/a.cu:20:7:   required from here\n\
                   headers/replay/warp.h:5:1: error: no match\n\
                   tree/a.cu:3:30: error: again\n";
        assert_eq!(
            places(log).unwrap(),
            ["a.cu:3: static assertion failed: two bytes", "b.cuh:12: no match"]
        );
    }

    #[test]
    fn an_error_in_the_sources_is_told_from_one_before_them() {
        for (log, is_of_sources) in [
            ("tree/a.cu:1:10: fatal error: x.h: No such file\n", true),
            ("In file included from tree/a.cu:1:\ntree/b.cuh:3:7: error: no type\n", true),
            ("headers/replay/warp.h:5:1: error: no match\ntree/a.cu:7:3: error: no f\n", false),
            ("cc1plus: error: unrecognized command-line option\n", false),
            ("g++: fatal error: Killed signal terminated program cc1plus\n", false),
            ("", false),
        ] {
            assert_eq!(begins_with_source_error(log), is_of_sources, "{log}");
        }
    }

    #[test]
    fn an_error_without_a_line_of_the_sources_is_told_from_those_with_one() {
        assert_eq!(places("headers/replay/warp.h:5:1: error: no match\n"), None);
        assert_eq!(places("tree/a.cu:1:10: fatal error: x.h: No such file\n"), None);
        let clang = "headers/replay/warp.h:5:1: error: no match\ntree/a.cu:7:3: note: in instantiation of \
                     function template specialization 'g<double>' requested here\n";
        assert_eq!(places(clang).unwrap(), ["a.cu:7: no match"]);
    }
}
