//! Which lines of a source and of its headers the preprocessor keeps, by the names that they define.

use std::collections::HashSet;

use ::replay::frontend::conditions::{Conditions, Names, directive, name};

/// The names that `#define` has given so far. What they stand for is not read.
#[derive(Debug)]
pub struct Defined<'t>(HashSet<&'t str>);

impl Names for Defined<'_> {
    fn is_defined(&self, name: &str) -> Option<bool> {
        Some(self.0.contains(name))
    }

    fn value(&self, _: &str) -> Option<i64> {
        None
    }
}

/// Those at the begin of the headers of `source`, whose names are defined before.
pub fn before(source: &str) -> Conditions<Defined<'_>> {
    Conditions::new(Defined(source.lines().filter_map(definition).collect()))
}

/// The lines of `text` that may be kept, without those of conditions.
pub fn lines<'t>(conditions: &mut Conditions<Defined<'t>>, text: &'t str) -> Vec<&'t str> {
    conditions.restart();
    let is_kept = |line: &&'t str| {
        let is_kept = !conditions.read(line) && !conditions.leave_out();
        conditions.names.0.extend(definition(line).filter(|_| is_kept));
        is_kept
    };
    text.lines().filter(is_kept).collect()
}

/// The text of `headers`, each, and of the source that includes them, as far as the preprocessor keeps them.
pub fn kept<'t>(
    headers: impl IntoIterator<Item = &'t str>,
    source: &'t str,
) -> (Vec<String>, String) {
    let mut conditions = before(source);
    let headers = headers.into_iter().map(|text| lines(&mut conditions, text).join("\n")).collect();
    (headers, lines(&mut conditions, source).join("\n"))
}

/// The name that `line` defines.
fn definition(line: &str) -> Option<&str> {
    directive(line).filter(|(directive, _)| *directive == "define").and_then(|(_, rest)| name(rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(source: &str, text: &str) -> String {
        let mut conditions = before(source);
        let lines = lines(&mut conditions, text);
        lines.into_iter().map(str::trim).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_branch_is_left_out_if_a_name_tells_so() {
        let text = "#ifndef GUARD\n#define GUARD\n#if defined(A)\na\n#elif defined B && !defined(C)\nb\n\
                    #elif __CUDA_ARCH__ >= 800\nc\n#else\nd\n#endif\n#endif\n";
        assert_eq!(kept("#define A", text), "#define GUARD a");
        assert_eq!(kept("# define B 1", text), "#define GUARD b");
        assert_eq!(kept("#define B\n#define C", text), "#define GUARD c d");
        assert_eq!(kept("", text), "#define GUARD c d");
        assert_eq!(kept("", "#ifdef A\n#ifdef B\nx\n#else\ny\n#endif\n#else\nz\n#endif"), "z");
        assert_eq!(kept("", "#endif\n#else\nx"), "x");
    }
}
