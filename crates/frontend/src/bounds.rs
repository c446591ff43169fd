//! `__launch_bounds__` and `__cluster_dims__`: a bounded kernel names its entry in the artifact's list of
//! bounds. Launches look there.

use super::edits::Edits;
use super::host::HostContext;
use super::instances::{KernelDeclaration, name_after};
use super::lexer::{TokenKind, Tokens};
use super::macros;
use super::source::Source;
use super::symbols::template_head;

/// Opens the comment around an entry. It hides the entry while the kernel gets its form.
const OPEN: &str = "/*replay_bounds ";
const CLOSE: &str = "*/";

/// The launch bounds of one kernel, as written.
#[derive(Clone, Debug, Default)]
pub(super) struct DeclaredBounds {
    threads: Option<String>,
    cluster: Option<String>,
}

impl DeclaredBounds {
    /// The bounds in the tokens of `range`: as written, or behind a macro's name. `bounds_of_word` resolves names.
    fn among<'b>(
        text: &str,
        tokens: &Tokens,
        range: std::ops::Range<usize>,
        bounds_of_word: impl Fn(&str) -> Option<&'b DeclaredBounds>,
    ) -> DeclaredBounds {
        let mut combined_bounds = DeclaredBounds::default();
        for token_index in range {
            if tokens[token_index].kind != TokenKind::Ident {
                continue;
            }
            match tokens[token_index].text(text) {
                "__launch_bounds__" => {
                    combined_bounds.threads = bounds_arguments(text, tokens, token_index + 1, 1)
                }
                "__cluster_dims__" => {
                    combined_bounds.cluster = bounds_arguments(text, tokens, token_index + 1, 3)
                }
                word => {
                    if let Some(bounds) = bounds_of_word(word) {
                        let DeclaredBounds { threads, cluster } = bounds.clone();
                        combined_bounds.threads = threads.or(combined_bounds.threads);
                        combined_bounds.cluster = cluster.or(combined_bounds.cluster);
                    }
                }
            }
        }
        combined_bounds
    }

    fn is_empty(&self) -> bool {
        self.threads.is_none() && self.cluster.is_none()
    }
}

/// The first `count` arguments in the parentheses from `open_bracket`, on one line.
fn bounds_arguments(
    text: &str,
    tokens: &Tokens,
    open_bracket: usize,
    count: usize,
) -> Option<String> {
    let close_bracket = tokens.skip_group(open_bracket)? - 1;
    let mut token_index = open_bracket + 1;
    let mut commas = 0;
    let mut end = close_bracket;
    while token_index < close_bracket {
        commas += usize::from(tokens.is_spelled_at(text, token_index, ","));
        if commas == count {
            end = token_index;
            break;
        }
        token_index = tokens.skip_group_or_angles(text, token_index).unwrap_or(token_index + 1);
    }
    let words = tokens[open_bracket + 1..end].iter().map(|token| token.text(text));
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The macros of `source` with bounds and without parameters.
pub(super) fn find_bounds_macros(source: &Source) -> Vec<(String, DeclaredBounds)> {
    let directives = source.tokens.iter().filter(|token| token.kind == TokenKind::Directive);
    let defined =
        directives.filter_map(|&token| macros::parse_macro_definition(source.text, token));
    let object_macros = defined.filter(|defined| defined.parameters.is_none());
    let bounds = object_macros.map(|defined| {
        let tokens = &defined.body;
        let name = defined.name.to_owned();
        (name, DeclaredBounds::among(source.text, tokens, 0..tokens.len(), |_| None))
    });
    bounds.filter(|(_, bounds)| !bounds.is_empty()).collect()
}

/// Makes each bounded kernel of the file name its entry in the list.
pub(super) fn rewrite_launch_bounds(context: &HostContext, edits: &mut Edits) {
    let text = context.source.text;
    let tokens = &context.tokens;
    for item in context.functions.iter().filter(|item| !item.member) {
        let head = item.tokens.start..item.body.start;
        let global =
            head.clone().find(|&token_index| tokens.is_spelled_at(text, token_index, "__global__"));
        let bounds = DeclaredBounds::among(text, tokens, head, |word| context.symbols.bounds(word));
        let Some(global) = global.filter(|_| !bounds.is_empty()) else { continue };
        let kernel_declaration = name_after(text, tokens, global).and_then(|name| {
            KernelDeclaration::parse(text, tokens, name, template_head(text, tokens, global))
        });
        let Some(kernel_declaration) = kernel_declaration else { continue };
        let instance = kernel_declaration.instance(text, edits);
        let threads = bounds.threads.as_deref().unwrap_or("0");
        let cluster = bounds.cluster.map(|sides| format!(", {sides}")).unwrap_or_default();
        let entry = format!(
            "static_assert(::replay_rt::bounded<{instance}, ({threads}){cluster}>::known, \"\");"
        );
        if !entry.contains(CLOSE) {
            edits.insert(tokens[item.body.start].end, format!("{OPEN}{entry}{CLOSE}"));
        }
    }
}

/// `text`, the file in its last form, with the entries turned from comments into code.
pub(super) fn uncover_bounds_entries(text: String) -> String {
    let mut parts = text.split(OPEN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entry, rest) = part.split_once(CLOSE).unwrap_or((part, ""));
        out.push_str(entry);
        out.push_str(rest);
    }
    out
}
