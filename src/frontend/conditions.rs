//! Which code the preprocessor keeps, as far as the names that are known tell.

use std::ops::Range;

use super::lexer::Kind;
use super::source::Source;

/// The groups of `#if` around the line that is read.
#[derive(Debug, Default)]
struct Conditions {
    groups: Vec<Group>,
}

/// A group of `#if`; None stands for what is not known.
#[derive(Debug)]
struct Group {
    /// Whether the current branch is kept.
    kept: Option<bool>,
    /// Whether an earlier branch was.
    earlier: Option<bool>,
}

impl Conditions {
    /// Whether the preprocessor leaves out for certain what comes now.
    fn leave_out(&self) -> bool {
        self.groups.iter().any(|group| group.kept == Some(false))
    }

    /// Takes in `line`, if it begins or ends a branch.
    fn read(&mut self, line: &str) {
        let Some((directive, rest)) = directive(line) else { return };
        match directive {
            "if" => self.open(holds(rest)),
            "ifdef" => self.open(name(rest).and_then(is_defined)),
            "ifndef" => self.open(not(name(rest).and_then(is_defined))),
            "elif" => self.next(holds(rest)),
            "else" => self.next(Some(true)),
            "endif" => _ = self.groups.pop(),
            _ => {}
        }
    }

    fn open(&mut self, kept: Option<bool>) {
        self.groups.push(Group { kept, earlier: Some(false) });
    }

    fn next(&mut self, holds: Option<bool>) {
        let Some(group) = self.groups.last_mut() else { return };
        group.earlier = either(group.earlier, group.kept);
        group.kept = not(either(group.earlier, not(holds)));
    }
}

/// Whether `condition` holds.
fn holds(condition: &str) -> Option<bool> {
    let mut rest = Condition { text: condition };
    let value = rest.any()?;
    rest.text.trim().is_empty().then_some(value != 0)
}

/// The name of the directive on `line` and what follows it, without a comment at the end.
fn directive(line: &str) -> Option<(&str, &str)> {
    let rest = line.trim_start().strip_prefix('#')?.trim_start();
    let rest = rest.split("//").next()?;
    let end = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len());
    Some(rest.split_at(end))
}

/// The name that `text` begins with.
fn name(text: &str) -> Option<&str> {
    let text = text.trim_start();
    let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
    (end > 0).then(|| &text[..end])
}

/// What the headers for the CPU define, `runtime/include/replay/qualifiers.h`; sources may define anything else.
const SHIM: [(&str, i64); 7] = [
    ("__CUDACC__", 1),
    ("__NVCC__", 1),
    ("__CUDA_ARCH__", 900),
    ("__CUDACC_VER_MAJOR__", 12),
    ("__CUDACC_VER_MINOR__", 8),
    ("CUDART_VERSION", 12080),
    ("CUDA_VERSION", 12080),
];

/// Whether `name` is defined; None if that is not known.
fn is_defined(name: &str) -> Option<bool> {
    value_of(name).map(|_| true)
}

/// The number that `name` stands for, if that is known.
fn value_of(name: &str) -> Option<i64> {
    SHIM.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}

/// Where the code of `source` lies that is left out, whatever the sources define.
pub(super) fn left_out(source: &Source) -> Vec<Range<usize>> {
    let mut conditions = Conditions::default();
    let (mut begin, mut found) = (None, Vec::new());
    for token in source.tokens.iter().filter(|token| token.kind == Kind::Directive) {
        conditions.read(token.text(source.text));
        match (begin, conditions.leave_out()) {
            (None, true) => begin = Some(token.end),
            (Some(begun), false) => {
                found.push(begun..token.start);
                begin = None;
            }
            _ => {}
        }
    }
    found
}

/// What is left of a condition. Values are None where they are not known, or the condition is not understood.
struct Condition<'t> {
    text: &'t str,
}

impl<'t> Condition<'t> {
    fn takes(&mut self, word: &str) -> bool {
        let text = self.text.trim_start();
        let rest = text.strip_prefix(word);
        self.text = rest.unwrap_or(text);
        rest.is_some()
    }

    fn any(&mut self) -> Option<i64> {
        let mut value = self.all().map(|value| value != 0);
        while self.takes("||") {
            value = either(value, self.all().map(|value| value != 0));
        }
        value.map(i64::from)
    }

    fn all(&mut self) -> Option<i64> {
        let mut value = self.compared().map(|value| value != 0);
        while self.takes("&&") {
            let other = self.compared().map(|value| value != 0);
            value = not(either(not(value), not(other)));
        }
        value.map(i64::from)
    }

    fn compared(&mut self) -> Option<i64> {
        let left = self.value();
        let operator = ["==", "!=", "<=", ">=", "<", ">"].into_iter().find(|word| self.takes(word));
        let Some(operator) = operator else { return left };
        let right = self.value();
        let (left, right) = (left?, right?);
        Some(i64::from(match operator {
            "==" => left == right,
            "!=" => left != right,
            "<=" => left <= right,
            ">=" => left >= right,
            "<" => left < right,
            _ => left > right,
        }))
    }

    fn value(&mut self) -> Option<i64> {
        if self.takes("!") {
            return self.value().map(|value| i64::from(value == 0));
        }
        if self.takes("(") {
            let value = self.any();
            return if self.takes(")") { value } else { self.give_up() };
        }
        let word = self.word();
        if word == "defined" {
            let in_parentheses = self.takes("(");
            let name = self.word();
            if in_parentheses && !self.takes(")") {
                return self.give_up();
            }
            return is_defined(name).map(i64::from);
        }
        if word.is_empty() {
            return self.give_up();
        }
        word.parse().ok().or_else(|| value_of(word))
    }

    fn word(&mut self) -> &'t str {
        let text = self.text.trim_start();
        let word = name(text).unwrap_or_default();
        self.text = &text[word.len()..];
        word
    }

    /// Leaves a rest that nothing takes.
    fn give_up(&mut self) -> Option<i64> {
        self.text = "";
        None
    }
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
    use crate::frontend::Unit;

    #[test]
    fn conditions_on_what_the_shim_defines_are_decided_and_no_others() {
        let cases = [
            ("__CUDA_ARCH__ >= 800", Some(true)),
            ("__CUDA_ARCH__ == 800 || __CUDA_ARCH__ < 700", Some(false)),
            ("defined(__CUDA_ARCH__) && (__CUDA_ARCH__ < 800)", Some(false)),
            ("!defined __CUDACC__ && defined(ENABLE_BF16)", Some(false)),
            (
                "defined(ENABLE_BF16) && (__CUDACC_VER_MAJOR__ < 12) && \
                 !((__CUDA_ARCH__ >= 800) || !defined(__CUDA_ARCH__))",
                Some(false),
            ),
            ("defined(ENABLE_BF16)", None),
            ("ENABLE || __CUDA_ARCH__", Some(true)),
            ("CUDART_VERSION >= 11000", Some(true)),
            ("__CUDA_ARCH__ / 100 < 8", None),
            ("__has_include(<x>) && 0", None),
            ("0", Some(false)),
            ("(1", None),
        ];
        for (condition, expected) in cases {
            assert_eq!(holds(condition), expected, "{condition}");
        }
    }

    #[test]
    fn branches_that_are_never_compiled_are_left_out() {
        let text = "a\n#if __CUDA_ARCH__ < 600\nb\n#ifdef X\nc\n#else\nd\n#endif\n#elif defined(Y)\ne\n#else\nf\n\
                    #endif\n#ifndef __CUDACC__\ng\n#else\nh\n#endif\n#else\n";
        let source = Source::new(&Unit { path: "a.cu", text });
        let mut kept = text.to_owned();
        let mut ranges = left_out(&source);
        ranges.sort_by_key(|range| range.start);
        ranges.iter().rev().for_each(|range| kept.replace_range(range.clone(), "\n"));
        let kept: String = kept.lines().filter(|line| !line.starts_with('#')).collect();
        assert_eq!(kept, "aefh");
    }
}
