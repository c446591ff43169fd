//! Launches as old formatters wrote them: `k << <g, b>> >(x)`.

use super::lexer::{Token, TokenKind, lex_directive, lex_tokens};

/// `text` with `<< <` as `<<<` and its `>> >` as `>>>`, padded with blanks; none without such a launch.
pub(super) fn tighten_launch_signs(text: &str) -> Option<String> {
    // Most files have none: they are not read for it.
    let may_have = text.match_indices('<').any(|(byte_offset, _)| {
        let text_after = text[byte_offset + 1..].trim_start_matches([' ', '\t']);
        text_after.starts_with('<') && !text[byte_offset + 1..].starts_with("<<")
    });
    if !may_have {
        return None;
    }
    let mut bytes = text.as_bytes().to_vec();
    let mut has_changed = false;
    let tokens = lex_tokens(text);
    let bodies = tokens.iter().filter(|token| token.kind == TokenKind::Directive);
    let bodies: Vec<Vec<Token>> =
        bodies.map(|&directive| lex_directive(text, directive).to_vec()).collect();
    for tokens in bodies.iter().chain([&tokens]) {
        for token_index in 1..tokens.len() {
            if is_run(text, tokens, token_index, "<")
                && !tokens[token_index - 1].is_spelled(text, "operator")
                && let Some(closing_index) = find_loose_close(text, tokens, token_index + 3)
            {
                move_signs_together(&mut bytes, &tokens[token_index..token_index + 3], true);
                move_signs_together(&mut bytes, &tokens[closing_index..closing_index + 3], false);
                has_changed = true;
            }
        }
    }
    has_changed
        .then(|| String::from_utf8(bytes).expect("blanks and brackets moved within their places"))
}

/// Whether three tokens `sign` from `token_index` on stand on one line, with a gap.
fn is_run(text: &str, tokens: &[Token], token_index: usize, sign: &str) -> bool {
    let Some(three) = tokens.get(token_index..token_index + 3) else { return false };
    let text_between = &text[three[0].start..three[2].end];
    three.iter().all(|token| token.is_spelled(text, sign))
        && text_between.bytes().all(|byte| matches!(byte, b' ' | b'\t' | b'<' | b'>'))
}

/// The first `>` of the end of the launch whose configuration begins at `start`.
fn find_loose_close(text: &str, tokens: &[Token], start: usize) -> Option<usize> {
    for token_index in start..tokens.len() {
        if matches!(tokens[token_index].text(text), ";" | "{" | "}") {
            return None;
        }
        if is_run(text, tokens, token_index, ">")
            && tokens.get(token_index + 3).is_some_and(|next| next.is_spelled(text, "("))
        {
            return Some(token_index);
        }
    }
    None
}

/// Puts the three signs beside each other: at the begin of their place, or at its end.
fn move_signs_together(bytes: &mut [u8], three: &[Token], to_begin: bool) {
    let start = three[0].start;
    let end = three[2].end;
    let sign = bytes[start];
    bytes[start..end].fill(b' ');
    let sign_start = if to_begin { start } else { end - 3 };
    bytes[sign_start..sign_start + 3].fill(sign);
}

#[cfg(test)]
mod tests {
    use super::tighten_launch_signs;

    #[test]
    fn launches_with_gaps_are_closed_up_and_nothing_moves() {
        let cases = [
            ("k << <g, b>> >(x);", "k <<< g, b >>>(x);"),
            ("k < < <g, (a >> 2) > > > (x);", "k <<<  g, (a >> 2)   >>> (x);"),
            ("#define L(K) K << <1, 2>> >(x)\n", "#define L(K) K <<< 1, 2 >>>(x)\n"),
        ];
        for (written, closed) in cases {
            assert_eq!(tighten_launch_signs(written).as_deref(), Some(closed));
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
            assert_eq!(tighten_launch_signs(text), None, "{text}");
        }
    }
}
