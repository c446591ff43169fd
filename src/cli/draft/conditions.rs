//! Which lines of a source the preprocessor keeps, as far as `#ifdef` and `defined` tell.

use std::collections::HashSet;

/// The lines of some texts, one after the other, that are not certainly left out.
pub struct Conditions<'t> {
    /// The names that `#define` has given so far.
    defined: HashSet<&'t str>,
    /// The groups of `#if` around the current line.
    groups: Vec<Group>,
}

/// A group of `#if`; None stands for what the text does not tell.
struct Group {
    /// Whether the current branch is kept.
    kept: Option<bool>,
    /// Whether an earlier branch was.
    earlier: Option<bool>,
}

impl<'t> Conditions<'t> {
    /// Those of `source` are defined before its headers are read.
    pub fn before(source: &'t str) -> Conditions<'t> {
        let names = source.lines().filter_map(|line| match directive(line)? {
            ("define", rest) => name(rest),
            _ => None,
        });
        Conditions { defined: names.collect(), groups: Vec::new() }
    }

    /// The lines of `text` that may be kept, without those of directives other than `#define`.
    pub fn lines(&mut self, text: &'t str) -> Vec<&'t str> {
        self.groups.clear();
        text.lines().filter(|line| self.keeps(line)).collect()
    }

    fn keeps(&mut self, line: &'t str) -> bool {
        match directive(line) {
            Some(("if", condition)) => self.open(self.holds(condition)),
            Some(("ifdef", rest)) => self.open(Some(self.knows(rest))),
            Some(("ifndef", rest)) => self.open(Some(!self.knows(rest))),
            Some(("elif", condition)) => self.next(self.holds(condition)),
            Some(("else", _)) => self.next(Some(true)),
            Some(("endif", _)) => _ = self.groups.pop(),
            Some(("define", rest)) if self.is_kept() => {
                self.defined.extend(name(rest));
                return true;
            }
            _ => return self.is_kept(),
        }
        false
    }

    fn is_kept(&self) -> bool {
        self.groups.iter().all(|group| group.kept != Some(false))
    }

    fn open(&mut self, kept: Option<bool>) {
        self.groups.push(Group { kept, earlier: Some(false) });
    }

    fn next(&mut self, holds: Option<bool>) {
        let Some(group) = self.groups.last_mut() else { return };
        group.earlier = either(group.earlier, group.kept);
        group.kept = not(either(group.earlier, not(holds)));
    }

    fn knows(&self, rest: &str) -> bool {
        name(rest).is_some_and(|name| self.defined.contains(name))
    }

    /// Whether `condition` holds, if it asks for nothing but `defined`.
    fn holds(&self, condition: &str) -> Option<bool> {
        if let Some((left, right)) = condition.split_once("||") {
            return either(self.holds(left), self.holds(right));
        }
        if let Some((left, right)) = condition.split_once("&&") {
            return not(either(not(self.holds(left)), not(self.holds(right))));
        }
        let term = condition.trim();
        if let Some(rest) = term.strip_prefix('!') {
            return not(self.holds(rest));
        }
        let asked = term.strip_prefix("defined")?.trim();
        let bare = asked.trim_start_matches('(').trim_end_matches(')').trim();
        (name(bare) == Some(bare)).then(|| self.defined.contains(bare))
    }
}

/// The name of the directive on `line` and what follows it.
fn directive(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let rest = rest.split("//").next()?;
    Some(rest.split_once(char::is_whitespace).unwrap_or((rest, "")))
}

/// The name that `text` begins with.
fn name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

fn either(left: Option<bool>, right: Option<bool>) -> Option<bool> {
    match (left, right) {
        (Some(true), _) | (_, Some(true)) => Some(true),
        (Some(false), Some(false)) => Some(false),
        _ => None,
    }
}

fn not(value: Option<bool>) -> Option<bool> {
    value.map(|value| !value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(source: &str, text: &str) -> String {
        let mut conditions = Conditions::before(source);
        let lines = conditions.lines(text);
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
