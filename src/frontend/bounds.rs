//! `__launch_bounds__` and `__cluster_dims__`: a kernel that has them names its entry in the
//! artifact's list of bounds, where launches look.

use super::edits::Edits;
use super::host::Context;
use super::instances::{Declaration, name_after};
use super::lexer::{Kind, Tokens};
use super::macros;
use super::source::Source;
use super::symbols::template_head;

/// Opens the comment that holds an entry until the kernel is in its form, which does not depend on it.
const OPEN: &str = "/*replay_bounds ";
const CLOSE: &str = "*/";

/// The launch bounds of one kernel, as written.
#[derive(Clone, Debug, Default)]
pub(super) struct Bounds {
    threads: Option<String>,
    cluster: Option<String>,
}

impl Bounds {
    /// The bounds in the tokens of `range`: as written, or behind the name of a macro that `known`
    /// resolves.
    fn among<'b>(
        text: &str,
        tokens: &Tokens,
        range: std::ops::Range<usize>,
        known: impl Fn(&str) -> Option<&'b Bounds>,
    ) -> Bounds {
        let mut found = Bounds::default();
        for at in range {
            if tokens[at].kind != Kind::Ident {
                continue;
            }
            match tokens[at].text(text) {
                "__launch_bounds__" => found.threads = arguments(text, tokens, at + 1, 1),
                "__cluster_dims__" => found.cluster = arguments(text, tokens, at + 1, 3),
                word => {
                    if let Some(bounds) = known(word) {
                        let Bounds { threads, cluster } = bounds.clone();
                        found.threads = threads.or(found.threads);
                        found.cluster = cluster.or(found.cluster);
                    }
                }
            }
        }
        found
    }

    fn is_empty(&self) -> bool {
        self.threads.is_none() && self.cluster.is_none()
    }
}

/// The first `count` arguments in the parentheses that open at `open`, on one line.
fn arguments(text: &str, tokens: &Tokens, open: usize, count: usize) -> Option<String> {
    let close = tokens.skip_group(open)? - 1;
    let (mut at, mut commas, mut end) = (open + 1, 0, close);
    while at < close {
        commas += usize::from(tokens.is(text, at, ","));
        if commas == count {
            end = at;
            break;
        }
        let inner = match tokens.is(text, at, "<") {
            true => tokens.skip_angles(text, at),
            false => tokens.skip_group(at),
        };
        at = inner.unwrap_or(at + 1);
    }
    let words = tokens[open + 1..end].iter().map(|token| token.text(text));
    let words: Vec<&str> = words.collect();
    (!words.is_empty()).then(|| words.join(" "))
}

/// The macros without parameters that `source` defines and that hold bounds.
pub(super) fn macros(source: &Source) -> Vec<(String, Bounds)> {
    let directives = source.tokens.iter().filter(|token| token.kind == Kind::Directive);
    let defined = directives.filter_map(|&token| macros::definition(source.text, token));
    let plain = defined.filter(|defined| defined.parameters.is_none());
    let bounds = plain.map(|defined| {
        let (tokens, name) = (&defined.body, defined.name.to_owned());
        (name, Bounds::among(source.text, tokens, 0..tokens.len(), |_| None))
    });
    bounds.filter(|(_, bounds)| !bounds.is_empty()).collect()
}

/// Makes each kernel of the file that has bounds name its entry in the list.
pub(super) fn rewrite(context: &Context, edits: &mut Edits) {
    let (text, tokens) = (context.source.text, &context.tokens);
    for item in context.functions.iter().filter(|item| !item.member) {
        let head = item.tokens.start..item.body.start;
        let global = head.clone().find(|&at| tokens.is(text, at, "__global__"));
        let known = |word: &str| context.symbols.bounds(word);
        let bounds = Bounds::among(text, tokens, head, known);
        let Some(global) = global.filter(|_| !bounds.is_empty()) else { continue };
        let declared = name_after(text, tokens, global).and_then(|name| {
            Declaration::of(text, tokens, name, template_head(text, tokens, global))
        });
        let Some(declared) = declared else { continue };
        let instance = declared.instance(text, edits);
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
pub(super) fn uncover(text: String) -> String {
    let mut parts = text.split(OPEN);
    let mut out = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let (entry, rest) = part.split_once(CLOSE).unwrap_or((part, ""));
        out.push_str(entry);
        out.push_str(rest);
    }
    out
}
