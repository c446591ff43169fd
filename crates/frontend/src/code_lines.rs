//! What lines of a file mean to a compiler: whether two texts are the same code, and where functions are.

use std::ops::Range;

use super::SourceUnit;
use super::lexer::{Token, TokenKind, lex_directive, lex_tokens};
use super::outline::{ItemKind, outline_items};
use super::source::Source;

/// Whether two files differ in comments and white space alone. Numbers of lines (`__LINE__`) count as neither.
pub fn is_same_code(one: &str, other: &str) -> bool {
    let [one_tokens, other_tokens] = [lex_tokens(one), lex_tokens(other)];
    are_same_tokens((one, &one_tokens), (other, &other_tokens), false)
}

/// Whether the tokens are the same. Where none stand between, two signs may be one (`+ +`); in a directive any may be
/// joined otherwise (`#define f (x)`), and be printed (`#x`).
fn are_same_tokens(
    (one, one_tokens): (&str, &[Token]),
    (other, other_tokens): (&str, &[Token]),
    minds_gaps: bool,
) -> bool {
    one_tokens.len() == other_tokens.len()
        && one_tokens.iter().zip(other_tokens).enumerate().all(|(index, (own, others))| {
            if own.kind != others.kind {
                return false;
            }
            if own.kind == TokenKind::Directive {
                let own_words = lex_directive(one, *own);
                let other_words = lex_directive(other, *others);
                return are_same_tokens((one, &own_words), (other, &other_words), true);
            }
            let gaps = [has_gap(one_tokens, index), has_gap(other_tokens, index)];
            let minds_gap = minds_gaps || is_between_signs(one_tokens, index);
            own.text(one) == others.text(other) && (!minds_gap || gaps[0] == gaps[1])
        })
}

/// Whether something stands between the token and the one before it.
fn has_gap(tokens: &[Token], index: usize) -> bool {
    index.checked_sub(1).is_some_and(|before| tokens[before].end != tokens[index].start)
}

fn is_between_signs(tokens: &[Token], index: usize) -> bool {
    let before = index.checked_sub(1).map(|before| tokens[before].kind);
    before == Some(TokenKind::Punct) && tokens[index].kind == TokenKind::Punct
}

/// The lines, counted from one, of the functions of `unit` with a body, in order.
pub fn find_function_lines(unit: &SourceUnit) -> Vec<Range<usize>> {
    let source = Source::new(unit);
    let tokens = source.view(true);
    let items = outline_items(source.text, &tokens).into_iter();
    let functions = items.filter(|item| item.kind == ItemKind::Function && !item.tokens.is_empty());
    let lines = functions.map(|function| {
        let last_token = tokens[function.tokens.end - 1];
        source.line(tokens[function.tokens.start].start)..source.line(last_token.start) + 1
    });
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_are_no_code() {
        let code = "#define F(x) (x + 1) // more\nint a = b + /* c */ 2; // d\n";
        for same in [
            "#define F(x) (x + 1)\nint a=b+2;\n",
            "\n\n#define F(x) (x + 1) /* e */\nint a\n  =\n b + 2;",
            "#  define F(x)   (x + 1)\nint a = b + 2;\n",
        ] {
            assert!(is_same_code(code, same), "{same}");
        }
        for other in [
            "#define F (x) (x + 1)\nint a = b + 2;",
            "#define F(x) (x+1)\nint a = b + 2;",
            "#define F(x) (x + 1)\n// int a = b + 2;",
            "#define F(x) (x + 1)\nint a = b + 3;",
            "int a = b + 2;",
        ] {
            assert!(!is_same_code(code, other), "{other}");
        }
    }

    #[test]
    fn white_space_within_texts_and_between_signs_is_code() {
        assert!(!is_same_code("a = b - -c;", "a = b --c;"));
        assert!(!is_same_code("a = b > > c;", "a = b >> c;"));
        assert!(!is_same_code("s = \"a b\";", "s = \"a  b\";"));
        assert!(!is_same_code("s = \"// a\";", "s = \"// b\";"));
        assert!(is_same_code("a b", "a/**/b"));
        assert!(!is_same_code("a b", "ab"));
    }

    #[test]
    fn functions_reach_from_their_first_word_to_their_brace() {
        let text =
            "int n;\ntemplate <int N>\n__global__ void f(\n  int a)\n{\n  g();\n}\nvoid h() { }\n";
        let lines = find_function_lines(&SourceUnit { path: "a.cu", text });
        assert_eq!(lines, [2..8, 8..9]);
    }
}
