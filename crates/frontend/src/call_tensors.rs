//! Tensors in a harness's call, as Python writes them: `dx, dw = backward(dy, x, w)`.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use super::FrontendError;
use super::edits::Edits;
use super::lexer::{TokenKind, Tokens, lex_tokens};

/// The name for a result that is no output.
const IGNORED: &str = "_";

/// The tensors of a call.
#[derive(Clone, Copy, Debug)]
pub struct CallTensors<'a> {
    /// Those with a pointer in the call.
    pub pointers: &'a [&'a str],
    /// The outputs, in the order of the harness.
    pub outputs: &'a [&'a str],
    /// For functions, the places of parameters of type `Tensor&`.
    pub changed: &'a BTreeMap<String, BTreeSet<usize>>,
}

/// The harness's `statements` with tensors in the place of pointers where a function may change one, and with results
/// brought to the outputs.
///
/// With `f(Tensor& out, ...)`, `f(out, x)` becomes `f(::replay_torch::changed(out), x)`.
/// `dx, _ = f(x)` becomes `::replay_torch::results(..., ...) = f(x)`. A single call that names no output, `f(x)`,
/// becomes `(f(x), ::replay_torch::results(...))`, with all outputs in the order of the harness. Lines are of `origin`.
///
/// # Errors
/// [`FrontendError::KeywordArgument`] for `f(x=x)`.
pub fn bind_call_tensors(
    statements: &str,
    origin: &str,
    call: CallTensors,
) -> Result<String, FrontendError> {
    let outputs = call.outputs;
    let tokens = Tokens::new(statements, lex_tokens(statements));
    refuse_keyword_arguments(statements, origin, &tokens)?;
    let mut edits = Edits::default();
    pass_changed_tensors(statements, &tokens, call, &mut edits);
    let mut index = 0;
    let mut is_start = true;
    while let Some(token) = tokens.get(index) {
        if is_start && let Some((names, equals)) = assigned_names(statements, &tokens, index) {
            if names.iter().any(|name| outputs.contains(name))
                && names.iter().all(|name| *name == IGNORED || outputs.contains(name))
            {
                edits.replace(token.start..tokens[equals].start, list_results(&names));
            }
            index = equals;
        }
        is_start = [";", "{", "}"].iter().any(|end| tokens.is_spelled_at(statements, index, end));
        index += 1;
    }
    let names_output = tokens
        .iter()
        .any(|token| token.kind == TokenKind::Ident && outputs.contains(&token.text(statements)));
    if !names_output && let Some(call) = find_single_call(statements, &tokens) {
        edits.insert(call.start, "(");
        edits.insert(call.end, format!(", {})", list_results(outputs).trim_end()));
    }
    Ok(edits.apply(statements))
}

/// Refuses `f(x=x)`: in C++ it assigns, and passes by position.
fn refuse_keyword_arguments(
    text: &str,
    origin: &str,
    tokens: &Tokens,
) -> Result<(), FrontendError> {
    const STATEMENTS: [&str; 4] = ["for", "if", "switch", "while"];
    for index in 0..tokens.len() {
        let is_call = tokens[index].kind == TokenKind::Ident
            && tokens.is_spelled_at(text, index + 1, "(")
            && !STATEMENTS.contains(&tokens[index].text(text));
        let Some(end) = tokens.skip_group(index + 1).filter(|_| is_call) else { continue };
        for argument in tokens.split_arguments(text, index + 2..end - 1) {
            let name = tokens[argument.start];
            let is_assignment = name.kind == TokenKind::Ident
                && tokens.is_spelled_at(text, argument.start + 1, "=")
                && !tokens.is_spelled_at(text, argument.start + 2, "=");
            if argument.len() > 2 && is_assignment {
                return Err(FrontendError::KeywordArgument {
                    name: name.text(text).to_owned(),
                    path: origin.to_owned(),
                    line: text[..name.start].matches('\n').count() + 1,
                });
            }
        }
    }
    Ok(())
}

/// Passes tensors to the parameters of functions that may change them.
fn pass_changed_tensors(text: &str, tokens: &Tokens, call: CallTensors, edits: &mut Edits) {
    for index in 0..tokens.len() {
        let Some(places) = call.changed.get(tokens.text_at(text, index)) else { continue };
        let open = match tokens.is_spelled_at(text, index + 1, "<") {
            true => tokens.skip_angles(text, index + 1).unwrap_or(index + 1),
            false => index + 1,
        };
        let Some(end) = tokens.skip_group(open) else { continue };
        let arguments = tokens.split_arguments(text, open + 1..end - 1);
        for (_, argument) in arguments.into_iter().enumerate().filter(|(i, _)| places.contains(i)) {
            let name = tokens.text_at(text, argument.start);
            if argument.len() == 1 && call.pointers.contains(&name) {
                let token = tokens[argument.start];
                edits.replace(token.start..token.end, format!("::replay_torch::changed({name})"));
            }
        }
    }
}

fn list_results(names: &[&str]) -> String {
    let slots = names.iter().map(|&name| match name {
        IGNORED => "::replay_torch::ignored()".to_owned(),
        name => format!("::replay_torch::output(\"{name}\", {name})"),
    });
    format!("::replay_torch::results({}) ", slots.collect::<Vec<_>>().join(", "))
}

/// The names of the assignment `a, b = ...` from `index` on, and where its `=` is.
fn assigned_names<'t>(
    text: &'t str,
    tokens: &Tokens,
    mut index: usize,
) -> Option<(Vec<&'t str>, usize)> {
    let mut names = Vec::new();
    loop {
        let token = tokens.get(index).filter(|token| token.kind == TokenKind::Ident)?;
        names.push(token.text(text));
        match tokens.get(index + 1)?.text(text) {
            "," => index += 2,
            "=" if !tokens.is_spelled_at(text, index + 2, "=") => return Some((names, index + 1)),
            _ => return None,
        }
    }
}

/// The bytes of the only statement in `tokens`, if it is the call of a function.
fn find_single_call(text: &str, tokens: &Tokens) -> Option<Range<usize>> {
    let mut index = usize::from(tokens.is_spelled_at(text, 0, "::"));
    loop {
        tokens.get(index).filter(|token| token.kind == TokenKind::Ident)?;
        if !tokens.is_spelled_at(text, index + 1, "::") {
            break;
        }
        index += 2;
    }
    index += 1;
    if tokens.is_spelled_at(text, index, "<") {
        index = tokens.skip_angles(text, index)?;
    }
    if !tokens.is_spelled_at(text, index, "(") {
        return None;
    }
    let end = tokens.skip_group(index)?;
    let is_last = tokens[end..].iter().all(|token| token.is_spelled(text, ";"));
    is_last.then(|| tokens[0].start..tokens[end - 1].end)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bound(statements: &str) -> String {
        let changed = BTreeMap::from([("f_out".to_owned(), BTreeSet::from([0]))]);
        let call =
            CallTensors { pointers: &["x", "dx", "dw"], outputs: &["dx", "dw"], changed: &changed };
        bind_call_tensors(statements, "call in a.toml", call)
            .map_or_else(|error| error.to_string(), |text| text.replace("::replay_torch::", ""))
    }

    #[test]
    fn an_argument_by_its_name_is_refused() {
        insta::assert_snapshot!(bound("\ndx = f(x, ns::g(1, dy=x));"), @"`dy=` at call in a.toml:2 names an argument, and C++ would assign to it");
        for right in ["f(x == dx);", "for (k = 0; k < n; k++) f(x);", "f((k = 1), x);", "f();"] {
            assert!(!bound(right).contains("names an argument"), "{right}");
        }
    }

    #[test]
    fn results_go_to_the_named_outputs() {
        insta::assert_snapshot!(bound("dx = f(x);"), @r#"results(output("dx", dx)) = f(x);"#);
        insta::assert_snapshot!(bound("int k = 1; dx, _ = f(x, k);"), @r#"int k = 1; results(output("dx", dx), ignored()) = f(x, k);"#);
        insta::assert_snapshot!(bound("if (n) { dw, dx = f<T>(x) }"), @r#"if (n) { results(output("dw", dw), output("dx", dx)) = f<T>(x) }"#);
    }

    #[test]
    fn a_call_without_an_output_gives_all_of_them() {
        insta::assert_snapshot!(bound(" f(x)"), @r#" (f(x), results(output("dx", dx), output("dw", dw)))"#);
        insta::assert_snapshot!(bound("a::f<T, 2>(x, {y});"), @r#"(a::f<T, 2>(x, {y}), results(output("dx", dx), output("dw", dw)));"#);
    }

    #[test]
    fn a_tensor_that_a_function_may_change_is_an_object() {
        insta::assert_snapshot!(bound("a::f_out(dx, x); f_out<T>(dw + 1, dw);"), @"a::f_out(changed(dx), x); f_out<T>(dw + 1, dw);");
    }

    #[test]
    fn other_statements_stay() {
        for statements in [
            "f(x, dx, dw);",
            "k<<<1, 2>>>(x);",
            "k<<<1, 2>>>(dx, dw, x);",
            "n = f(x); g(n);",
            "dx == y;",
            "a(x); b(x);",
            "int n(3);",
            "",
        ] {
            assert_eq!(bound(statements), statements);
        }
    }
}
