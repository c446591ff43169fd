//! Puts `typename` before types that depend on a template, where nvcc takes them without: behind the `=` of an alias
//! and in named casts, where nothing but a type can stand.

use super::edits::Edits;
use super::host::HostContext;
use super::lexer::{TokenKind, Tokens};

/// Casts to a type in angle brackets.
const CASTS: [&str; 3] = ["static_cast", "reinterpret_cast", "const_cast"];

/// Marks the types without a `typename` in `context`.
pub(super) fn mark_dependent_types(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    for (tokens, _) in context.token_lists() {
        for index in 0..tokens.len() {
            let is_alias = tokens.is_spelled_at(text, index, "using")
                && tokens.get(index + 1).is_some_and(|name| name.kind == TokenKind::Ident)
                && tokens.is_spelled_at(text, index + 2, "=");
            let type_start = if is_alias {
                index + 3
            } else if CASTS.contains(&tokens.text_at(text, index)) {
                index + 2
            } else {
                continue;
            };
            if let Some(name_start) = find_dependent_name(text, tokens, type_start) {
                edits.insert(tokens[name_start].start, "typename ");
            }
        }
    }
}

/// The begin of the name `A<T>::B` in the type from `index` on, if it has no `typename` yet.
fn find_dependent_name(text: &str, tokens: &Tokens, mut index: usize) -> Option<usize> {
    while ["const", "volatile"].iter().any(|word| tokens.is_spelled_at(text, index, word)) {
        index += 1;
    }
    let start = index;
    let mut is_member = false;
    if tokens.is_spelled_at(text, index, "::") {
        index += 1;
    }
    loop {
        let word = tokens.get(index).filter(|token| token.kind == TokenKind::Ident)?.text(text);
        if ["typename", "decltype", "struct", "class", "union", "enum"].contains(&word) {
            return None;
        }
        index += 1;
        let mut has_arguments = false;
        if tokens.is_spelled_at(text, index, "<") {
            index = tokens.skip_angles(text, index)?;
            has_arguments = true;
        }
        if !tokens.is_spelled_at(text, index, "::") {
            // The last name may be a template's own: then it needs another word.
            return (is_member && !has_arguments).then_some(start);
        }
        is_member |= has_arguments;
        index += 1;
    }
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, Threads, scan_symbols, translate_for_host};

    fn translated(text: &str) -> String {
        let unit = SourceUnit { path: "a.cu", text };
        let made =
            translate_for_host(&unit, &scan_symbols(&[unit]), Precision::Native, Threads::Stacks);
        made.unwrap().text.lines().skip(1).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn a_dependent_type_gets_its_word() {
        insta::assert_snapshot!(translated("template <class T> struct S { using type = Traits<T>::type; };"), @"template <class T> struct S { using type = typename Traits<T>::type; };");
        insta::assert_snapshot!(translated("template <class T> auto f(T x) { return static_cast<const a::B<T>::C*>(x); }"), @"template <class T> auto f(T x) { return static_cast<const typename a::B<T>::C*>(x); }");
    }

    #[test]
    fn other_types_stay() {
        for text in [
            "using a = std::vector<int>;",
            "using a = typename Traits<T>::type;",
            "using a = std::string;",
            "using a = Traits<T>::other<int>;",
            "using namespace a;",
            "int x = static_cast<int>(y);",
            "using Base<T>::f;",
        ] {
            assert_eq!(translated(text), text);
        }
    }
}
