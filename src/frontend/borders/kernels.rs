//! Checks the declarations of kernels and of shared memory.

use std::collections::BTreeMap;
use std::ops::Range;

use super::File;
use crate::frontend::FrontendError;
use crate::frontend::lexer::Kind;
use crate::frontend::outline::{Item, ItemKind};
use crate::frontend::spaces::Space;

/// Types that no kernel can return.
const TYPES: [&str; 13] = [
    "bool", "char", "short", "int", "long", "unsigned", "signed", "float", "double", "half",
    "float2", "float4", "size_t",
];

/// Refuses the kernels among `items`, all items of `file`, that CUDA refuses by their declaration,
/// and shared memory where CUDA has none.
pub(super) fn check(file: &File, items: &[Item]) -> Result<(), FrontendError> {
    let functions = || {
        let all = items.iter();
        all.filter(|item| matches!(item.kind, ItemKind::Function | ItemKind::Prototype))
    };
    for item in functions().filter(|item| item.has(file.text(), file.tokens, "__global__")) {
        check_kernel(file, item)?;
    }
    let mut types = BTreeMap::new();
    for item in items.iter().filter(|item| item.kind == ItemKind::Function) {
        check_shared(file, item, &mut types)?;
    }
    Ok(())
}

fn check_kernel(file: &File, item: &Item) -> Result<(), FrontendError> {
    let name = &item.name;
    let head = item.tokens.start..item.name_at;
    let has = |word: &str| item.has(file.text(), file.tokens, word);
    let refuse = |what: String, hint| Err(file.refused(item.name_at, what, hint));
    if item.member && !has("friend") {
        let what = format!("the kernel {name} is a member of a class");
        return refuse(what, "declare it outside of the class");
    }
    if !has("void") {
        let returned = head.clone().map(|at| file.word(at)).find(|word| TYPES.contains(word));
        // The parameters of a template are no result.
        if let Some(returned) = returned.filter(|_| !item.template) {
            let what = format!("the kernel {name} returns {returned}");
            return refuse(what, "a kernel returns void; write the result to memory");
        }
    }
    let Some(parameters) = parameters(file, item) else { return Ok(()) };
    for at in parameters.clone() {
        // `&&` of a type, and `...` that is no pack.
        let twice = |sign: &str| file.is(at, sign) && file.is(at + 1, sign);
        if twice("&") && file.tokens[at].end == file.tokens[at + 1].start {
            let what = format!("the kernel {name} has an rvalue reference as a parameter");
            return refuse(what, "a kernel takes its parameters by value");
        }
        let follows = matches!(file.before(at), "," | "(");
        if twice(".") && follows && at + 3 == parameters.end {
            let what = format!("the kernel {name} has a variable number of arguments");
            return refuse(
                what,
                "declare its parameters, or make it a template of a parameter pack",
            );
        }
    }
    Ok(())
}

/// The tokens between the parentheses of the parameters of `item`.
fn parameters(file: &File, item: &Item) -> Option<Range<usize>> {
    let open = (item.name_at..item.tokens.end).find(|&at| file.is(at, "("))?;
    let close = file.tokens.skip_group(open)?;
    Some(open + 1..close - 1)
}

/// Refuses shared memory in host functions, and one name for dynamic shared memory of two types:
/// `types` has those that were seen.
fn check_shared<'f>(
    file: &'f File,
    item: &Item,
    types: &mut BTreeMap<&'f str, &'f str>,
) -> Result<(), FrontendError> {
    let space = file.spaces.runs_on(file.text(), file.tokens, item);
    let mut at = item.body.start;
    while at < item.body.end {
        if let Some(after) = file.skipped(at, space) {
            at = after;
            continue;
        }
        let token = file.tokens[at];
        let shared = token.kind == Kind::Ident && file.is(at, "__shared__");
        if shared && space == Space::Host && !item.member {
            let what = format!("host code in {} declares shared memory", item.name);
            return Err(file.refused(at, what, "declare it in a kernel or a __device__ function"));
        }
        let plain = TYPES.contains(&file.word(at + 1)) && file.is(at + 3, "[");
        if shared && plain && file.before(at) == "extern" {
            let (name, kind) = (file.word(at + 2), file.word(at + 1));
            let first = *types.entry(name).or_insert(kind);
            if first != kind {
                let what = format!(
                    "the dynamic shared memory {name} is of type {kind} in {} and of type {first} before",
                    item.name
                );
                return Err(file.refused(
                    at,
                    what,
                    "give each type a name of its own, or declare bytes and cast",
                ));
            }
        }
        at += 1;
    }
    Ok(())
}
