//! Refuses a bracket that is never closed: what stands behind it cannot be read.

use super::FrontendError;
use super::lexer::{Token, TokenKind};
use super::source::Source;

/// `refusals` of `source` with the bracket in front that is never closed, if there is one. Refusals of what cannot be read
/// behind it go.
///
/// Without such refusals the compiler tells of a brace, since a macro may close it, and of any bracket in a file without
/// kernels and launches.
pub(super) fn blame_unclosed_bracket(
    source: &Source,
    mut refusals: Vec<FrontendError>,
) -> Vec<FrontendError> {
    let Some(bracket) = find_unclosed_bracket(source) else { return refusals };
    let line = source.line(bracket.start);
    let is_due_to_bracket = |refusal: &FrontendError| {
        let is_unread = matches!(
            refusal,
            FrontendError::UnseenLaunch { .. }
                | FrontendError::SharedMemory { .. }
                // The function with the launch counts as a part of the kernel in front.
                | FrontendError::DeviceLaunch { .. }
        );
        is_unread && refusal.place().1 >= line
    };
    let is_certain = !bracket.is_spelled(source.text, "{")
        && source.tokens.iter().any(|token| {
            ["__global__", "<<<"].iter().any(|word| token.is_spelled(source.text, word))
        });
    if !is_certain && !refusals.iter().any(is_due_to_bracket) {
        return refusals;
    }
    refusals.retain(|refusal| !is_due_to_bracket(refusal));
    let bracket = bracket.text(source.text).to_owned();
    let path = source.path.to_owned();
    refusals.insert(0, FrontendError::UnclosedBracket { bracket, path, line });
    refusals
}

/// The first bracket of `source` that another one closes, or none. Files with alternatives have no certain order.
fn find_unclosed_bracket(source: &Source) -> Option<Token> {
    if source.has_alternatives() {
        return None;
    }
    let tokens = source.view(true);
    let mut open_brackets: Vec<Token> = Vec::new();
    for &token in tokens.iter().filter(|token| token.kind == TokenKind::Punct) {
        let word = token.text(source.text);
        match word {
            "(" | "[" | "{" => open_brackets.push(token),
            ")" | "]" | "}" => {
                let opener = open_brackets.pop()?;
                if !matches!((opener.text(source.text), word), ("(", ")") | ("[", "]") | ("{", "}"))
                {
                    return Some(opener);
                }
            }
            _ => {}
        }
    }
    open_brackets.pop()
}

#[cfg(test)]
mod tests {
    use crate::{Precision, SourceUnit, find_refusals, scan_symbols};

    fn refusals(text: &str) -> Vec<String> {
        let unit = SourceUnit { path: "a.cu", text };
        let refusals = find_refusals(&unit, &scan_symbols(&[unit]), Precision::Native);
        refusals.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_bracket_that_is_never_closed_is_blamed_for_what_cannot_be_read_behind_it() {
        for (text, bracket, line) in [
            ("__global__ void k(int n) {}\nvoid run() {\nk<<<1, 2>>>(f(3);\n}\n", '(', 3),
            ("__global__ void k(int n) {\n__shared__ float a[3;\n}\n", '[', 2),
            ("void run() {\nif (f(1) {\nk<<<1, 2>>>(3);\n}\n}\n", '(', 2),
            ("\n__global__ void k(int n) {\nif (n) {\n}\nvoid run() { k<<<1, 2>>>(3); }\n", '{', 2),
        ] {
            let expected = format!("the bracket `{bracket}` at a.cu:{line} is never closed");
            assert_eq!(refusals(text), [expected], "{text}");
        }
    }

    #[test]
    fn a_bracket_that_a_macro_may_close_is_not_refused() {
        assert!(refusals("namespace a {\n__global__ void k() {}\nEND_NAMESPACE\n").is_empty());
    }

    #[test]
    fn all_refusals_of_a_file_are_found() {
        let text = "__global__ void first(float* x) {\n\
                    asm(\"bar.arrive 1, 64;\");\n\
                    asm(\"wgmma.fence.sync.aligned;\");\n\
                    x[0] = tex2D<float>(t, 1, 2) + tex1Dfetch(s, 3);\n}\n\
                    __shared__ float outside[4];\n\
                    void run() { k<<<1, 2; j<<<3, 4; }\n";
        insta::assert_snapshot!(refusals(text).join("\n"), @"
        PTX (bar.arrive) in first at a.cu:2 is not supported on the CPU
        PTX (wgmma.fence.sync.aligned) in first at a.cu:3 is not supported on the CPU
        the texture fetch tex2D in first at a.cu:4 is not supported on the CPU
        the texture fetch tex1Dfetch in first at a.cu:4 is not supported on the CPU
        shared memory at a.cu:6 cannot be translated: it is declared outside of a function
        a launch at a.cu:7 cannot be seen
        ");
    }
}
