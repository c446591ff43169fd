//! Numbers moved as integers of 16 bytes, as in `*reinterpret_cast<const int4*>(x)`.
//!
//! In the shadow such an integer is a type of its own with room for as many numbers. A cast to it asks the compiler
//! for the type of the numbers (`replay/packs.h`). A look into a variable asks whether it holds integers, else it is an
//! obstacle. What a function reads as integers from memory is no pack (`plain_integers.rs`).

use std::collections::BTreeSet;
use std::ops::Range;

use super::edits::Edits;
use super::guards::obstacle_arguments;
use super::host::HostContext;
use super::lexer::{Token, TokenKind, Tokens};
use super::macros;
use super::shadow::create_shadow_obstacle;
use super::source::Source;

/// Integer vectors of 16 bytes.
pub(super) const WIDE: [&str; 4] = ["int4", "uint4", "longlong2", "ulonglong2"];
/// No expression before a member's name has more tokens; the limit keeps hostile text from taking quadratic time.
pub(super) const MOST_TOKENS: usize = 64;
/// Members of cooperative groups that tell the place of a thread or a block, and sizes.
const POSITIONS: [&str; 7] = [
    "group_index",
    "thread_index",
    "block_index",
    "cluster_index",
    "group_dim",
    "dim_threads",
    "dim_blocks",
];
/// Vectors of floats: as many doubles in the shadow.
pub(super) const VECTORS: [&str; 3] = ["float2", "float3", "float4"];
/// Half and bfloat16, and pairs of them.
pub(super) const NARROW: [&str; 8] = [
    "half",
    "__half",
    "half2",
    "__half2",
    "nv_bfloat16",
    "__nv_bfloat16",
    "nv_bfloat162",
    "__nv_bfloat162",
];

/// Whether `source` casts to pointers to such integers, or gives them other names.
pub(super) fn has_packed_casts(source: &Source) -> bool {
    let text = source.text;
    source.tokens.iter().any(|token| match token.kind {
        TokenKind::Ident => {
            let (before, after) = (text[..token.start].trim_end(), text[token.end..].trim_start());
            let is_alias = before.ends_with('=') && after.starts_with(';');
            WIDE.contains(&token.text(text))
                && (after.starts_with('*') || is_alias || before.ends_with("typedef"))
        }
        TokenKind::Directive => macros::parse_macro_definition(text, *token)
            .is_some_and(|defined| defined.body.iter().any(|word| WIDE.contains(&word.text(text)))),
        _ => false,
    })
}

/// The type in the tokens `words` of a cast, if it is a pointer to such an integer and nothing else.
fn is_wide(text: &str, words: &[Token]) -> bool {
    let ends = words.last().is_some_and(|last| last.is_spelled(text, "*"));
    let mut inner = words.iter().map(|word| word.text(text));
    ends && words.iter().filter(|word| WIDE.contains(&word.text(text))).count() == 1
        && inner.all(|word| {
            matches!(word, "const" | "volatile" | "__restrict__" | "*") || WIDE.contains(&word)
        })
}

/// Whether the token at `index` is the point before a member of a vector.
pub(super) fn is_vector_member(text: &str, tokens: &Tokens, index: usize) -> bool {
    let word = |index: usize| tokens.get(index).map_or("", |token| token.text(text));
    matches!(word(index), "." | "->") && matches!(word(index + 1), "x" | "y" | "z" | "w")
}

/// The text of `token` in the shadow if it names such an integer's type.
pub(super) fn widen_packed_token(context: &HostContext, token: Token) -> Option<String> {
    let word = token.text(context.source.text);
    let is_pack = token.kind == TokenKind::Ident
        && WIDE.contains(&word)
        && !context.plain_integers.contains(&token.start);
    is_pack.then(|| format!("::replay_rt::pack_{word}"))
}

/// The variables of a file whose value is such an integer, or a vector of floats.
pub(super) struct PackedVariables<'c> {
    context: &'c HostContext<'c, 'c>,
    text: &'c str,
    integers: BTreeSet<&'c str>,
    /// The type behind `auto` is not known.
    open: BTreeSet<&'c str>,
    floats: BTreeSet<&'c str>,
}

impl<'c> PackedVariables<'c> {
    pub(super) fn find(context: &'c HostContext<'c, 'c>) -> PackedVariables<'c> {
        let text = context.source.text;
        let tokens = &context.source.tokens;
        let mut integers = BTreeSet::new();
        let mut open = BTreeSet::new();
        let mut floats = BTreeSet::new();
        for (token_index, token) in tokens.iter().enumerate() {
            let word = token.text(text);
            let set = match token.kind {
                TokenKind::Ident if WIDE.contains(&word) => &mut integers,
                TokenKind::Ident if word == "auto" => &mut open,
                TokenKind::Ident if VECTORS.contains(&word) => &mut floats,
                _ => continue,
            };
            let mut tokens_after = tokens[token_index + 1..].iter();
            let name =
                tokens_after.find(|token| !matches!(token.text(text), "*" | "&" | "const" | ">"));
            let name = name.filter(|token| token.kind == TokenKind::Ident);
            set.extend(name.map(|token| token.text(text)));
        }
        PackedVariables { context, text, integers, open, floats }
    }

    fn word(&self, tokens: &Tokens, token_index: usize) -> &'c str {
        tokens.get(token_index).map_or("", |token| token.text(self.text))
    }

    /// The tokens of the type of the cast at `index`, and the index behind the cast.
    fn cast(&self, tokens: &Tokens, index: usize) -> Option<(Range<usize>, usize)> {
        match self.word(tokens, index) {
            "reinterpret_cast" => {
                let cast_end = tokens.skip_angles(self.text, index + 1)?;
                Some((index + 2..cast_end - 1, cast_end))
            }
            "(" => {
                let cast_end = tokens.skip_group(index)?;
                let is_operand = matches!(self.word(tokens, cast_end), "&" | "(")
                    || tokens.get(cast_end).is_some_and(|next| next.kind == TokenKind::Ident);
                (is_operand && cast_end > index + 2).then_some((index + 1..cast_end - 1, cast_end))
            }
            _ => None,
        }
    }

    /// Whether a cast to packs begins at `index`.
    pub(super) fn is_cast(&self, tokens: &Tokens, index: usize) -> bool {
        let cast = self.cast(tokens, index);
        cast.is_some_and(|(target, _)| self.is_pack(&tokens[target]))
    }

    /// Whether the tokens `target` of a cast are those of a pointer to a pack.
    fn is_pack(&self, target: &[Token]) -> bool {
        is_wide(self.text, target) && !target.iter().any(|token| self.is_plain(token))
    }

    /// Whether `token` names a type or a variable of integers that are no pack.
    fn is_plain(&self, token: &Token) -> bool {
        self.context.plain_integers.contains(&token.start)
    }

    /// Rewrites the token at `index`: the name of a type, the begin of a cast or of a member's name. `generic` tells
    /// whether it stands in a template.
    pub(super) fn rewrite(&self, tokens: &Tokens, index: usize, generic: bool, edits: &mut Edits) {
        let token = tokens[index];
        if let Some(packed) = widen_packed_token(self.context, token) {
            edits.replace(token.start..token.end, packed);
        }
        if let Some(variable) = self.variable_of_member(tokens, index) {
            let reason = self.reason(&tokens[index..index + 2]);
            edits.insert(variable.start, format!("::replay_rt::pack_look{reason}("));
            edits.insert(variable.end, ")");
        }
        let Some((target, cast_end)) = self.cast(tokens, index) else { return };
        if !self.is_pack(&tokens[target]) {
            return;
        }
        let reason = self.reason(&tokens[index..cast_end]);
        let last = tokens[cast_end - 1];
        if token.kind == TokenKind::Ident {
            edits.replace(token.start..token.end, "::replay_rt::pack_cast");
            edits.replace(last.start..last.end, format!(", {generic}>{reason}"));
        } else {
            edits.replace(token.start..token.end, "::replay_rt::pack_caster<");
            edits.replace(last.start..last.end, format!(", {generic}>{reason}->*"));
        }
    }

    /// The construct of `tokens` and its place, as arguments.
    fn reason(&self, tokens: &[Token]) -> String {
        let obstacle = create_shadow_obstacle(self.context, tokens, None);
        obstacle_arguments(self.context.source, &obstacle)
    }

    /// The variable, which may be a pack, of the member that is named at `index`.
    pub(super) fn variable_of_member(&self, tokens: &Tokens, index: usize) -> Option<Token> {
        let is_member = is_vector_member(self.text, tokens, index);
        let variable = *tokens.get(index.checked_sub(1)?)?;
        let name = variable.text(self.text);
        let is_part = matches!(self.word(tokens, index.wrapping_sub(2)), "." | "->" | "::");
        let may_be_pack = self.integers.contains(name) || self.open.contains(name);
        (is_member && may_be_pack && !is_part && !self.is_plain(&variable)).then_some(variable)
    }

    /// The index after a look into an integer at `index`, or into floats for narrower numbers.
    pub(super) fn look(&self, tokens: &Tokens, index: usize) -> Option<usize> {
        if matches!(self.word(tokens, index), "." | "->") && index > 0 {
            let is_integer = match self.word(tokens, index - 1) {
                ")" if self.is_position(tokens, index - 1) => false,
                "]" | ")" => self.is_cast_before(tokens, index - 1),
                name => self.integers.contains(name) && !self.is_plain(&tokens[index - 1]),
            };
            return (is_vector_member(self.text, tokens, index) && is_integer).then_some(index + 2);
        }
        self.look_narrow(tokens, index, |operand| {
            self.integers.contains(operand) || self.floats.contains(operand)
        })
    }

    /// The index after a look at `index` into a vector of floats for narrower numbers, in a file without such integers.
    pub(super) fn look_into_floats(&self, tokens: &Tokens, index: usize) -> Option<usize> {
        self.look_narrow(tokens, index, |operand| {
            self.floats.contains(operand) && !self.integers.contains(operand)
        })
    }

    /// The index after a cast at `index` of the address of a variable of which `is_packed` holds to a pointer to narrower
    /// numbers.
    fn look_narrow(
        &self,
        tokens: &Tokens,
        index: usize,
        is_packed: impl Fn(&str) -> bool,
    ) -> Option<usize> {
        let (target, mut cast_end) = self.cast(tokens, index)?;
        if self.word(tokens, index) == "reinterpret_cast" {
            cast_end += 1;
        }
        let is_narrow = tokens[target].iter().any(|word| NARROW.contains(&word.text(self.text)));
        let is_taken =
            self.word(tokens, cast_end) == "&" && is_packed(self.word(tokens, cast_end + 1));
        (is_narrow && is_taken).then_some(cast_end + 2)
    }

    /// Whether the call that ends at `last` tells the place of a thread or a block.
    fn is_position(&self, tokens: &Tokens, last: usize) -> bool {
        let open_parenthesis = tokens.group_start(last).unwrap_or(last);
        open_parenthesis > 0 && POSITIONS.contains(&self.word(tokens, open_parenthesis - 1))
    }

    /// Whether such an integer stands in the expression up to `last`.
    fn is_cast_before(&self, tokens: &Tokens, last: usize) -> bool {
        let tokens_before =
            (0..=last).rev().take(MOST_TOKENS).map(|token_index| &tokens[token_index]);
        let mut tokens_before = tokens_before
            .take_while(|token| !matches!(token.text(self.text), ";" | "{" | "}" | "="));
        tokens_before.any(|token| {
            let word = token.text(self.text);
            (WIDE.contains(&word) || self.integers.contains(word)) && !self.is_plain(token)
        })
    }
}
