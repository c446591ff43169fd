//! Launches as old formatters wrote them: `k << <g, b>> >(x)`.

use super::lexer::{Kind, Token, lex, lex_directive};

/// `text` with `<< <` as `<<<` and the `>> >` that ends it as `>>>`, padded with blanks; none if there
/// is no such launch.
pub(super) fn launches(text: &str) -> Option<String> {
    // Most files have none: they are not read for it.
    let may_have = text.match_indices('<').any(|(at, _)| {
        let rest = text[at + 1..].trim_start_matches([' ', '\t']);
        rest.starts_with('<') && !text[at + 1..].starts_with("<<")
    });
    if !may_have {
        return None;
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut changed = false;
    let tokens = lex(text);
    let bodies = tokens.iter().filter(|token| token.kind == Kind::Directive);
    let bodies: Vec<Vec<Token>> =
        bodies.map(|&directive| lex_directive(text, directive).to_vec()).collect();
    for tokens in bodies.iter().chain([&tokens]) {
        for at in 1..tokens.len() {
            if is_run(text, tokens, at, "<")
                && !tokens[at - 1].is(text, "operator")
                && let Some(close) = closing(text, tokens, at + 3)
            {
                tighten(&mut bytes, &tokens[at..at + 3], true);
                tighten(&mut bytes, &tokens[close..close + 3], false);
                changed = true;
            }
        }
    }
    changed
        .then(|| String::from_utf8(bytes).expect("blanks and brackets moved within their places"))
}

/// Whether three tokens `sign` from `at` on stand on one line, with a gap.
fn is_run(text: &str, tokens: &[Token], at: usize, sign: &str) -> bool {
    let Some(three) = tokens.get(at..at + 3) else { return false };
    let between = &text[three[0].start..three[2].end];
    three.iter().all(|token| token.is(text, sign))
        && between.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'<' | b'>'))
}

/// The first `>` of the end of the launch whose configuration begins at `start`.
fn closing(text: &str, tokens: &[Token], start: usize) -> Option<usize> {
    let ends = |at: &usize| {
        is_run(text, tokens, *at, ">") && tokens.get(at + 3).is_some_and(|next| next.is(text, "("))
    };
    let goes_on = |at: &usize| !matches!(tokens[*at].text(text), ";" | "{" | "}");
    (start..tokens.len()).take_while(goes_on).find(ends)
}

/// Puts the three signs beside each other: at the begin of their place, or at its end.
fn tighten(bytes: &mut [u8], three: &[Token], to_begin: bool) {
    let (start, end) = (three[0].start, three[2].end);
    let sign = bytes[start];
    bytes[start..end].fill(b' ');
    let at = if to_begin { start } else { end - 3 };
    bytes[at..at + 3].fill(sign);
}

#[cfg(test)]
mod tests {
    use super::launches;

    #[test]
    fn launches_with_gaps_are_closed_up_and_nothing_moves() {
        let cases = [
            ("k << <g, b>> >(x);", "k <<< g, b >>>(x);"),
            ("k < < <g, (a >> 2) > > > (x);", "k <<<  g, (a >> 2)   >>> (x);"),
            ("#define L(K) K << <1, 2>> >(x)\n", "#define L(K) K <<< 1, 2 >>>(x)\n"),
        ];
        for (written, closed) in cases {
            assert_eq!(launches(written).as_deref(), Some(closed));
        }
    }

    #[test]
    fn what_is_no_launch_stays() {
        let texts = [
            "k<<<g, b>>>(x);",
            "friend S& operator<< <T>(S&, A<B<C> > >(x));",
            "// k << <g, b>> >(x)",
            "s = \"k << <g, b>> >(x)\";",
            "a < b; c << < d;",
        ];
        for text in texts {
            assert_eq!(launches(text), None, "{text}");
        }
    }
}
