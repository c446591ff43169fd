//! The statements of a harness's call, each with its names, so that they can be compiled in several translation units.

use std::collections::BTreeSet;
use std::ops::Range;

use super::lexer::{Token, TokenKind, Tokens, lex_tokens};

/// A statement of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallStatement {
    /// Its bytes.
    pub range: Range<usize>,
    /// Its identifiers.
    pub words: BTreeSet<String>,
    /// What later statements may take from it.
    pub gives: StatementGives,
}

/// What later statements may take from a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StatementGives {
    Nothing,
    /// These variables.
    Variables(Vec<String>),
    /// A type, a name of another scope, or a constant: the same wherever it is repeated.
    Repeatable,
}

/// Words that begin a statement with a body, and those that go on with it.
const COMPOUND: [&str; 6] = ["for", "if", "while", "switch", "try", "{"];
const CONTINUING: [&str; 2] = ["else", "catch"];

/// Words that begin a statement to be repeated wherever its names are needed, a type among them.
const REPEATABLE: [&str; 4] = ["using", "typedef", "static_assert", "constexpr"];
const TYPES: [&str; 4] = ["struct", "class", "union", "enum"];

/// Words that begin no declaration of a variable.
const NO_TYPES: [&str; 10] =
    ["delete", "throw", "new", "sizeof", "do", "case", "default", "operator", "asm", "else"];

/// Words of statements that mean something to the whole call.
const WHOLE: [&str; 5] = ["return", "goto", "static", "thread_local", "extern"];

/// The statements of `call` in order; none if it cannot be cut.
pub fn split_call_statements(call: &str) -> Option<Vec<CallStatement>> {
    let tokens = Tokens::new(call, lex_tokens(call));
    let mut statements = Vec::new();
    let mut constants = BTreeSet::new();
    let mut start = 0;
    while start < tokens.len() {
        let end = find_statement_end(call, &tokens, start)?;
        let statement = &tokens[start..end];
        let identifiers = statement.iter().filter(|token| token.kind == TokenKind::Ident);
        let words: BTreeSet<String> =
            identifiers.map(|token| token.text(call).to_owned()).collect();
        let is_whole = WHOLE.iter().any(|word| words.contains(*word));
        if is_whole || statement.iter().any(|token| token.kind == TokenKind::Directive) {
            return None;
        }
        let first = statement[0].text(call);
        if TYPES.contains(&first) && !is_type_alone(call, statement) {
            return None;
        }
        let variables = list_variables(call, &tokens, start..end);
        if !variables.is_empty() && has_lambda(call, statement) {
            return None;
        }
        let gives = if TYPES.contains(&first) || REPEATABLE.contains(&first) {
            StatementGives::Repeatable
        } else if variables.is_empty() {
            StatementGives::Nothing
        } else if is_constant(first, &words, &variables, &constants) {
            StatementGives::Repeatable
        } else {
            StatementGives::Variables(variables.clone())
        };
        if gives == StatementGives::Repeatable {
            constants.extend(variables);
        }
        let range = statement[0].start..statement[statement.len() - 1].end;
        statements.push(CallStatement { range, words, gives });
        start = end;
    }
    Some(statements)
}

/// Whether `statement`, a declaration of a type, declares no variable of it.
fn is_type_alone(text: &str, statement: &[Token]) -> bool {
    let end = statement.iter().rev().take(2).map(|token| token.text(text));
    end.eq([";", "}"])
}

/// Whether `statement` holds a lambda: each repetition of it has a type of its own.
fn has_lambda(text: &str, statement: &[Token]) -> bool {
    statement.windows(2).any(|pair| {
        pair[1].is_spelled(text, "[")
            && ["=", "(", ",", "{"].iter().any(|before| pair[0].is_spelled(text, before))
    })
}

/// The index behind the statement from `start`; none if a bracket does not close.
fn find_statement_end(text: &str, tokens: &Tokens, start: usize) -> Option<usize> {
    let is_compound = COMPOUND.contains(&tokens[start].text(text));
    let goes_on =
        |index: usize| CONTINUING.iter().any(|word| tokens.is_spelled_at(text, index, word));
    let mut index = start;
    while index < tokens.len() {
        let is_block = tokens.is_spelled_at(text, index, "{");
        let is_end = tokens.is_spelled_at(text, index, ";");
        index = match tokens[index].text(text) {
            "(" | "[" | "{" => tokens.skip_group(index)?,
            ")" | "]" | "}" => return None,
            _ => index + 1,
        };
        if (is_end || is_block && is_compound) && !goes_on(index) {
            return Some(index);
        }
    }
    Some(index)
}

/// Whether a declaration of `variables` with these `words`, `first` in front, is that of an integer out of numbers and
/// `constants` alone.
fn is_constant(
    first: &str,
    words: &BTreeSet<String>,
    variables: &[String],
    constants: &BTreeSet<String>,
) -> bool {
    const INTEGERS: [&str; 9] =
        ["const", "int", "unsigned", "long", "short", "size_t", "int64_t", "auto", "bool"];
    first == "const"
        && words.iter().all(|word| {
            INTEGERS.contains(&word.as_str())
                || variables.contains(word)
                || constants.contains(word)
        })
}

/// The variables that the statement in `range` declares.
fn list_variables(text: &str, tokens: &Tokens, range: Range<usize>) -> Vec<String> {
    let first = tokens[range.start].text(text);
    if COMPOUND.contains(&first) || NO_TYPES.contains(&first) {
        return Vec::new();
    }
    let mut variables = Vec::new();
    let mut has_type = false;
    let mut index = range.start;
    while index < range.end {
        let is_name = tokens[index].kind == TokenKind::Ident;
        let next = tokens.get(index + 1).map_or(";", |token| token.text(text));
        match tokens[index].text(text) {
            "<" if has_type => match tokens.skip_angles(text, index) {
                Some(end) => index = end,
                None => return Vec::new(),
            },
            "::" | "*" | "&" => index += 1,
            _ if is_name && has_type && ["=", ";", "(", "{", "[", ","].contains(&next) => {
                if tokens.is_spelled_at(text, index - 1, "::") {
                    return Vec::new();
                }
                variables.push(tokens[index].text(text).to_owned());
                match find_next_declarator(text, tokens, index + 1..range.end) {
                    Some(comma) => index = comma + 1,
                    None => return variables,
                }
            }
            _ if is_name => {
                has_type = true;
                index += 1;
            }
            _ => return Vec::new(),
        }
    }
    Vec::new()
}

/// The comma before the next declarator in `range`, behind the initialiser of one.
fn find_next_declarator(text: &str, tokens: &Tokens, range: Range<usize>) -> Option<usize> {
    let mut index = range.start;
    while index < range.end {
        index = match tokens[index].text(text) {
            "," => return Some(index),
            "(" | "[" | "{" => tokens.skip_group(index)?,
            "<" => tokens.skip_angles(text, index).unwrap_or(index + 1),
            _ => index + 1,
        };
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(call: &str) -> String {
        let Some(statements) = split_call_statements(call) else { return "none".to_owned() };
        let mut told = String::new();
        for statement in statements {
            let text = call[statement.range].split_whitespace().collect::<Vec<_>>().join(" ");
            told.push_str(&format!("{text}  -> {:?}\n", statement.gives));
        }
        told
    }

    #[test]
    fn a_call_is_cut_at_the_ends_of_its_statements_and_each_gives_its_variables() {
        let call = "
            int blocks = (n + 255) / 256; // one
            const int B = 256, half = B / 2;
            const float* p = x;
            dim3 grid(blocks, 1), block{B};
            float *a, *b[2] = {x, y};
            std::vector<std::pair<int, float>> v(3);
            unsigned long long big;
            cudaMalloc(&a, n * sizeof(float));
            ns::k<B, float><<<grid, block>>>(x, y, n);
            x[0] = f(1), g(2);
            ns::y = 3;
            for (int i = 0; i < 3; i++) { k<<<1, 2>>>(x); }
            if (n) f(x); else { g(x); }
            while (n) h(n);
            do { f(x); } while (n);
            struct P { int n; };
            using T = float;
            { int inner = 3; f(inner); }
            last(x)";
        insta::assert_snapshot!(told(call), @r#"
        int blocks = (n + 255) / 256;  -> Variables(["blocks"])
        const int B = 256, half = B / 2;  -> Repeatable
        const float* p = x;  -> Variables(["p"])
        dim3 grid(blocks, 1), block{B};  -> Variables(["grid", "block"])
        float *a, *b[2] = {x, y};  -> Variables(["a", "b"])
        std::vector<std::pair<int, float>> v(3);  -> Variables(["v"])
        unsigned long long big;  -> Variables(["big"])
        cudaMalloc(&a, n * sizeof(float));  -> Nothing
        ns::k<B, float><<<grid, block>>>(x, y, n);  -> Nothing
        x[0] = f(1), g(2);  -> Nothing
        ns::y = 3;  -> Nothing
        for (int i = 0; i < 3; i++) { k<<<1, 2>>>(x); }  -> Nothing
        if (n) f(x); else { g(x); }  -> Nothing
        while (n) h(n);  -> Nothing
        do { f(x); } while (n);  -> Nothing
        struct P { int n; };  -> Repeatable
        using T = float;  -> Repeatable
        { int inner = 3; f(inner); }  -> Nothing
        last(x)  -> Nothing
        "#);
    }

    #[test]
    fn a_call_with_what_holds_for_all_of_it_is_not_cut() {
        for call in [
            "if (n) return; f(x);",
            "static int i; f(i);",
            "#pragma once\nf(x);",
            "f(x;",
            "auto run = [&](int i) { f(i); };",
            "struct P { int n; } local;",
        ] {
            assert_eq!(told(call), "none", "{call}");
        }
        assert_eq!(told(""), "");
    }
}
