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
    /// Of a declaration of one number or pointer with `=`: where the variable's name begins. A statement begins there that
    /// assigns the value, and what stands before with the name declares the variable.
    pub assignment: Option<Range<usize>>,
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
        let assignment = find_assignment(call, statement);
        statements.push(CallStatement { range, words, gives, assignment });
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

/// The name of the variable in `statement`, if it declares one number or one pointer to numbers and gives it a value.
fn find_assignment(text: &str, statement: &[Token]) -> Option<Range<usize>> {
    const NUMBERS: [&str; 20] = [
        "int", "unsigned", "signed", "long", "short", "char", "bool", "float", "double", "size_t",
        "half", "__half", "int8_t", "uint8_t", "int16_t", "uint16_t", "int32_t", "uint32_t",
        "int64_t", "uint64_t",
    ];
    let type_end = statement.iter().position(|token| !NUMBERS.contains(&token.text(text)))?;
    let stars = statement[type_end..].iter().take_while(|token| token.is_spelled(text, "*"));
    let name_at = type_end + stars.count();
    let name = statement.get(name_at).filter(|token| token.kind == TokenKind::Ident)?;
    let is_given = statement.get(name_at + 1).is_some_and(|token| token.is_spelled(text, "="));
    let mut depth = 0usize;
    let is_one = statement[name_at..].iter().all(|token| {
        match token.text(text) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > 0 || !token.is_spelled(text, ",")
    });
    let is_list = statement.get(name_at + 2).is_some_and(|token| token.is_spelled(text, "{"));
    (type_end > 0 && is_given && is_one && !is_list).then_some(name.start..name.end)
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
    fn a_number_or_pointer_may_be_declared_first_and_given_its_value_later() {
        let assignment = |call: &str| {
            let statements = split_call_statements(call).unwrap();
            statements[0].assignment.clone().map(|name| call[name].to_owned())
        };
        for call in ["int q = f(1, 2);", "const_free = 1; int q;", "unsigned long long q = {1};"] {
            let expected = if call.starts_with("int") { Some("q") } else { None };
            assert_eq!(assignment(call).as_deref(), expected, "{call}");
        }
        assert_eq!(assignment("float** q = g<2>(x);").as_deref(), Some("q"));
        for other in [
            "const int q = 1;",
            "int q = 1, r = 2;",
            "int q[2] = {1, 2};",
            "dim3 q = g();",
            "int q(f());",
            "auto q = f();",
        ] {
            assert_eq!(assignment(other), None, "{other}");
        }
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
