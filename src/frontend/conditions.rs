//! Code that the preprocessor leaves out for certain, whatever the sources define: what the shim defines tells so.

use std::ops::Range;

use super::lexer::Kind;
use super::source::Source;

/// What `runtime/include/replay/qualifiers.h` defines.
const DEFINED: [(&str, i64); 7] = [
    ("__CUDACC__", 1),
    ("__NVCC__", 1),
    ("__CUDA_ARCH__", 900),
    ("__CUDACC_VER_MAJOR__", 12),
    ("__CUDACC_VER_MINOR__", 8),
    ("CUDART_VERSION", 12080),
    ("CUDA_VERSION", 12080),
];

/// A group of `#if`; None stands for what is not known.
struct Group {
    /// Where the current branch begins.
    begin: usize,
    /// Whether it is kept.
    kept: Option<bool>,
    /// Whether an earlier branch was.
    earlier: Option<bool>,
}

/// Where the code of `source` lies that is left out.
pub(super) fn left_out(source: &Source) -> Vec<Range<usize>> {
    let mut groups: Vec<Group> = Vec::new();
    let mut found = Vec::new();
    for token in source.tokens.iter().filter(|token| token.kind == Kind::Directive) {
        let line = token.text(source.text).trim_start_matches('#').trim_start();
        let (name, rest) = line.split_once(|c: char| !c.is_alphanumeric()).unwrap_or((line, ""));
        let holds = match name {
            "if" | "elif" => holds(&line[name.len()..]),
            "ifdef" => defined(rest.trim()),
            "ifndef" => defined(rest.trim()).map(|known| !known),
            "else" => Some(true),
            "endif" => None,
            _ => continue,
        };
        let earlier = match name {
            "if" | "ifdef" | "ifndef" => Some(false),
            _ => {
                let Some(group) = groups.pop() else { continue };
                if group.kept == Some(false) {
                    found.push(group.begin..token.start);
                }
                either(group.earlier, group.kept)
            }
        };
        if name != "endif" {
            let kept = not(either(earlier, not(holds)));
            groups.push(Group { begin: token.end, kept, earlier });
        }
    }
    found
}

/// Whether `condition` holds.
fn holds(condition: &str) -> Option<bool> {
    let mut rest = Condition { text: condition };
    let value = rest.any()?;
    rest.text.trim().is_empty().then_some(value != 0)
}

/// Whether `name` is defined; only what the shim defines is known.
fn defined(name: &str) -> Option<bool> {
    DEFINED.iter().any(|(known, _)| *known == name).then_some(true)
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
            return defined(name).map(i64::from);
        }
        if word.is_empty() {
            return self.give_up();
        }
        let known = DEFINED.iter().find(|(name, _)| *name == word);
        word.parse().ok().or(known.map(|(_, value)| *value))
    }

    fn word(&mut self) -> &'t str {
        let text = self.text.trim_start();
        let end = text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len());
        let (word, rest) = text.split_at(end);
        self.text = rest;
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
