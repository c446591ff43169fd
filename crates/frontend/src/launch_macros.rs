//! Finds the macros that launch one of their parameters and that some code gives a kernel template with arguments left
//! to deduce. No expression names such a kernel before its arguments are known.

use std::collections::BTreeSet;

use super::launches::{self, Callee};
use super::lexer::{Token, TokenKind, Tokens};
use super::macros::{self, Macro};
use super::source::Source;

/// A parameter of a macro, by its number.
type MacroParameter = (String, usize);

/// The macros of `sources` that launch a parameter for which some code gives a kernel without all of its template
/// arguments; `deduces` tells such a kernel by its name and the number of its template arguments.
pub(super) fn find_deducing_macros(
    sources: &[Source],
    deduces: impl Fn(&str, usize) -> bool,
) -> BTreeSet<String> {
    let mut bodies = Vec::new();
    for source in sources {
        let definitions = source
            .tokens
            .iter()
            .filter_map(|&token| macros::parse_macro_definition(source.text, token));
        bodies.extend(definitions.map(|defined| (source.text, defined)));
    }
    let mut launched: BTreeSet<MacroParameter> = BTreeSet::new();
    for (text, defined) in &bodies {
        launched.extend(find_launched_parameters(text, defined));
    }
    let launching = launched.clone();
    if launching.is_empty() {
        return BTreeSet::new();
    }
    // A macro may hand its parameter on to a macro that launches it.
    let mut handed_on: BTreeSet<(MacroParameter, MacroParameter)> = BTreeSet::new();
    loop {
        let count_before = launched.len();
        for (text, defined) in &bodies {
            for (parameter, argument) in find_given_callees(text, &defined.body, &launched) {
                let [name] = &*argument else { continue };
                if let Some(number) = find_parameter_number(defined, name.text(text)) {
                    let outer = (defined.name.to_owned(), number);
                    handed_on.insert((outer.clone(), parameter));
                    launched.insert(outer);
                }
            }
        }
        if launched.len() == count_before {
            break;
        }
    }
    let mut deducing: BTreeSet<MacroParameter> = BTreeSet::new();
    let mut note_deduced = |text: &str, tokens: &Tokens| {
        for (parameter, argument) in find_given_callees(text, tokens, &launched) {
            if let Callee::Name(name, argument_count) = launches::classify_callee(text, &argument)
                && deduces(&name, argument_count)
            {
                deducing.insert(parameter);
            }
        }
    };
    for source in sources {
        note_deduced(source.text, &Tokens::new(source.text, source.tokens.clone()));
    }
    for (text, defined) in &bodies {
        note_deduced(text, &defined.body);
    }
    let mut pending: Vec<MacroParameter> = deducing.iter().cloned().collect();
    while let Some(parameter) = pending.pop() {
        for (_, inner) in handed_on.iter().filter(|(outer, _)| *outer == parameter) {
            if deducing.insert(inner.clone()) {
                pending.push(inner.clone());
            }
        }
    }
    deducing.intersection(&launching).map(|(name, _)| name.clone()).collect()
}

/// The parameters of `defined` that its body launches.
fn find_launched_parameters(text: &str, defined: &Macro) -> Vec<MacroParameter> {
    let mut launched = Vec::new();
    for launch in launches::find_launch_syntax(text, &defined.body) {
        let callee = &defined.body
            [defined.body.index_at(launch.callee.start)..defined.body.index_at(launch.callee.end)];
        if let Callee::Name(name, 0) = launches::classify_callee(text, callee)
            && let Some(number) = find_parameter_number(defined, &name)
        {
            launched.push((defined.name.to_owned(), number));
        }
    }
    launched
}

fn find_parameter_number(defined: &Macro, name: &str) -> Option<usize> {
    defined.parameters.as_ref()?.iter().position(|parameter| *parameter == name)
}

/// The arguments in `tokens` for the parameters `launched` of macros.
fn find_given_callees(
    text: &str,
    tokens: &Tokens,
    launched: &BTreeSet<MacroParameter>,
) -> Vec<(MacroParameter, Vec<Token>)> {
    let mut callees = Vec::new();
    for index in 0..tokens.len() {
        let name = tokens[index].text(text);
        let is_use = tokens[index].kind == TokenKind::Ident
            && tokens.is_spelled_at(text, index + 1, "(")
            && launched.iter().any(|(launching, _)| launching == name);
        let Some(list_end) = tokens.skip_group(index + 1).filter(|_| is_use) else { continue };
        let arguments = tokens.split_arguments(text, index + 2..list_end - 1);
        for parameter in launched.iter().filter(|(launching, _)| launching == name) {
            if let Some(argument) = arguments.get(parameter.1) {
                callees.push((parameter.clone(), tokens[argument.clone()].to_vec()));
            }
        }
    }
    callees
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceUnit;

    fn deducing_macros(text: &str) -> Vec<String> {
        let source = Source::new(&SourceUnit { path: "a.cu", text });
        let deduces = |name: &str, argument_count| name == "open" && argument_count == 0;
        find_deducing_macros(&[source], deduces).into_iter().collect()
    }

    #[test]
    fn a_macro_deduces_if_some_code_gives_it_a_kernel_with_open_arguments() {
        let launch = "#define LAUNCH(n, K, ...) K<<<1, n>>>(__VA_ARGS__)\n";
        for (code, expected) in [
            ("void f() { LAUNCH(2, open, x); LAUNCH(2, other, x); }", &["LAUNCH"][..]),
            ("void f() { LAUNCH(2, ns::open, x); }", &["LAUNCH"]),
            ("void f() { LAUNCH(2, (open<float>), x); LAUNCH(open, other, x); }", &[]),
            ("void f() { LAUNCH(2, table[open], x); }", &[]),
            (
                "#define TWICE(F, x) LAUNCH(1, F, x); LAUNCH(2, F, x)\nvoid f() { TWICE(open, x); }",
                &["LAUNCH"],
            ),
            ("#define OPEN(x) LAUNCH(1, open, x)\n", &["LAUNCH"]),
            ("#define OTHER(K, x) K<<<1, 2>>>(x)\nvoid f() { OTHER(open, x); }", &["OTHER"]),
            ("#define OTHER(K, x) K<float><<<1, 2>>>(x)\nvoid f() { OTHER(open, x); }", &[]),
        ] {
            assert_eq!(deducing_macros(&format!("{launch}{code}")), expected, "{code}");
        }
    }
}
