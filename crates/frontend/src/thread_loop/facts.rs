//! Facts about the names in kernels, from a whole source set: names of waits for other threads, macros, and
//! functions with arguments by value alone.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::syntax::lexer::{Token, TokenKind, Tokens};
use crate::syntax::macros::{self, Macro};
use crate::syntax::outline::{Item, ItemKind, is_attribute, outline_items};
use crate::syntax::source::Source;

/// Facts about the names of a source set.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// The names mentioned in the definition of each name.
    mentions: BTreeMap<String, BTreeSet<String>>,
    /// The words of each macro.
    macros: BTreeMap<String, BTreeSet<String>>,
    by_value: BTreeSet<String>,
    by_reference: BTreeSet<String>,
    /// Classes with a destructor.
    destroyed: BTreeSet<String>,
    /// Variables of the device.
    variables: BTreeSet<String>,
    /// Whether a type's name may hide a reference.
    reference_types: bool,
    /// The paths and texts of files that define device functions, with the names of these; of those that may wait once
    /// the names are followed.
    function_files: Vec<(String, String, BTreeSet<String>)>,
    /// The names whose mention may make a thread wait.
    waiting: BTreeSet<String>,
    /// Those of them that lead to a wait for another thread.
    waiting_for_threads: BTreeSet<String>,
    /// The names whose mention may let other threads run in between.
    yielding: BTreeSet<String>,
    /// The names whose mention may ask for a thread's index.
    asking: BTreeSet<String>,
}

/// Stands for all operators: their use does not show their name.
const OPERATOR: &str = "operator";
/// The built-in variable with another value in each thread of a block.
const THREAD_INDEX: &str = "threadIdx";
/// Stands for leaving a statement by a macro; no name is spelt so.
const LEAVES_STATEMENT: &str = "#leaves";

/// Words for waits, for events other threads may wait for, and for jumps out of the order of statements.
const WAITING: [&str; 47] = [
    "volatile",
    "asm",
    "__asm__",
    "__asm",
    "goto",
    "setjmp",
    "longjmp",
    "co_await",
    "co_yield",
    "co_return",
    "try",
    "catch",
    "throw",
    "alloca",
    "__builtin_alloca",
    "thread_local",
    "__thread",
    "clock",
    "clock64",
    "globaltimer",
    "cooperative_groups",
    "this_thread_block",
    "thread_block",
    "thread_group",
    "thread_block_tile",
    "coalesced_threads",
    "coalesced_group",
    "tiled_partition",
    "this_grid",
    "this_cluster",
    "grid_group",
    "cluster_group",
    "memcpy_async",
    "invoke_one",
    "atomic_ref",
    "barrier",
    "pipeline",
    "cub",
    "nvcuda",
    "wmma",
    "mma_sync",
    "thrust",
    "BlockReduce",
    "BlockScan",
    "WarpReduce",
    "WarpScan",
    "replay_ptx",
];

/// Prefixes of further such names.
const WAITING_PREFIXES: [&str; 23] = [
    "__syncthreads",
    "__syncwarp",
    "__shfl",
    "__any",
    "__all",
    "__ballot",
    "__match",
    "__reduce_",
    "__activemask",
    "__threadfence",
    "__nanosleep",
    "atomic",
    "__atomic",
    "__nv_atomic",
    "__sync_",
    "__pipeline",
    "__mbarrier",
    "__cluster_",
    "__barrier",
    "WARP_SHFL",
    "WARP_BALLOT",
    "WARP_SYNC",
    "WARP_ANY",
];

/// Whether `word` makes a thread wait by itself.
pub(super) fn is_waiting_function(word: &str) -> bool {
    let prefixed = WAITING_PREFIXES.iter().any(|prefix| word.starts_with(prefix));
    WAITING.contains(&word) || word == LEAVES_STATEMENT || prefixed && word != "__cluster_dims__"
}

/// Whether `word` is a function of CUDA's that lets others run now and then, and else waits for nobody: an atomic, or a
/// fence.
fn is_yielding_function(word: &str) -> bool {
    let word = word.strip_suffix("_block").or(word.strip_suffix("_system")).unwrap_or(word);
    let is_operation = |operation| {
        let operations =
            ["Add", "Sub", "Min", "Max", "And", "Or", "Xor", "Exch", "Inc", "Dec", "CAS"];
        operations.contains(&operation)
    };
    word == "__threadfence" || word.strip_prefix("atomic").is_some_and(is_operation)
}

/// How a name leads to a wait: the names behind it, each mentioned by the one before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// The last one waits; none if the name itself does.
    Waits(Vec<String>),
    /// The last one is a macro and may leave its statement; none if the name itself is the macro.
    LeavesStatement(Vec<String>),
}

/// Whether `word` is a keyword, and so never a name.
fn is_language_keyword(word: &str) -> bool {
    let words = [
        "alignas",
        "auto",
        "bool",
        "char",
        "class",
        "const",
        "constexpr",
        "double",
        "enum",
        "explicit",
        "extern",
        "float",
        "friend",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "operator",
        "private",
        "protected",
        "public",
        "short",
        "signed",
        "static",
        "struct",
        "template",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "__device__",
        "__host__",
        "__constant__",
        "__managed__",
        "__shared__",
        "__restrict__",
        "__forceinline__",
        "__noinline__",
        "size_t",
        "std",
        "T",
    ];
    words.contains(&word)
}

impl Facts {
    /// Adds the definitions of `source`.
    pub(crate) fn add(&mut self, source: &Source) {
        let directives = source.tokens.iter().filter(|token| token.kind == TokenKind::Directive);
        for &directive in directives {
            if let Some(defined) = macros::parse_macro_definition(source.text, directive) {
                self.add_macro(source.text, &defined);
            }
        }
        let tokens = source.view(true);
        let items = outline_items(source.text, &tokens);
        let functions = items.iter().filter(|item| {
            item.kind == ItemKind::Function
                && item.has_specifier(source.text, &tokens, "__device__")
        });
        let names: BTreeSet<String> = functions.map(|item| item.name.clone()).collect();
        if !names.is_empty() {
            self.function_files.push((source.path.to_owned(), source.text.to_owned(), names));
        }
        let views = if source.has_alternatives() { &[true, false][..] } else { &[true][..] };
        for &first in views {
            let tokens = source.view(first);
            for item in outline_items(source.text, &tokens) {
                self.add_item(source.text, &tokens, &item);
            }
        }
    }

    /// Follows the names; to be called once all sources have been added.
    pub(crate) fn finish(&mut self) {
        self.waiting = self.reaching(is_waiting_function);
        self.waiting_for_threads = self.reaching(|word| self.waits_for_threads_itself(word));
        self.yielding = self.reaching(is_yielding_function);
        self.asking = self.reaching(|word| word == THREAD_INDEX);
        let waiting = &self.waiting;
        self.function_files.retain(|(_, _, names)| !names.is_disjoint(waiting));
    }

    /// The names that lead to a word with `seed`, by one mention or several.
    fn reaching(&self, seed: impl Fn(&str) -> bool) -> BTreeSet<String> {
        let mut mentioned_by: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut reaching = BTreeSet::new();
        let mut pending_words = Vec::new();
        for (name, words) in &self.mentions {
            if words.iter().any(|word| seed(word)) {
                reaching.insert(name.clone());
                pending_words.push(name.as_str());
            }
            for word in words {
                mentioned_by.entry(word).or_default().push(name);
            }
        }
        while let Some(word) = pending_words.pop() {
            for &name in mentioned_by.get(word).into_iter().flatten() {
                if reaching.insert(name.to_owned()) {
                    pending_words.push(name);
                }
            }
        }
        reaching
    }

    fn add_macro(&mut self, text: &str, defined: &Macro) {
        let own_words = defined.body.iter().map(|token| token.text(text));
        let mut words: BTreeSet<String> =
            own_words.filter(|word| !defined.is_parameter(word)).map(str::to_owned).collect();
        let leaves = ["return", "break", "continue", "case", "default", "__shared__", "static"];
        let unbalanced = has_unbalanced_brackets(text, &defined.body);
        if unbalanced || leaves.iter().any(|&word| words.contains(word)) {
            words.insert(LEAVES_STATEMENT.to_owned());
        }
        self.mentions.entry(defined.name.to_owned()).or_default().extend(words.iter().cloned());
        self.macros.entry(defined.name.to_owned()).or_default().extend(words);
    }

    fn add_item(&mut self, text: &str, tokens: &Tokens, item: &Item) {
        let list = &tokens[item.tokens.clone()];
        let idents = list.iter().filter(|token| token.kind == TokenKind::Ident);
        let words: BTreeSet<&str> = idents.map(|token| token.text(text)).collect();
        let names: BTreeSet<&str> = match item.kind {
            // No kernel is called by another one.
            ItemKind::Function if item.has_specifier(text, tokens, "__global__") => return,
            ItemKind::Function | ItemKind::Prototype => {
                self.add_parameters(text, tokens, item);
                BTreeSet::from([item.name.as_str()])
            }
            ItemKind::Type => class_type_names(text, list),
            ItemKind::Other => {
                words.iter().copied().filter(|word| !is_language_keyword(word)).collect()
            }
        };
        if item.kind == ItemKind::Other {
            let alias = list
                .first()
                .is_some_and(|t| t.is_spelled(text, "using") || t.is_spelled(text, "typedef"));
            self.reference_types |= alias && list.iter().any(|token| token.is_spelled(text, "&"));
            if words.contains("__device__") || words.contains("__managed__") {
                self.variables.extend(names.iter().map(|&name| name.to_owned()));
            }
        }
        if item.kind == ItemKind::Prototype {
            return;
        }
        for pair in list.windows(2).filter(|pair| pair[0].is_spelled(text, "~")) {
            self.destroyed.insert(pair[1].text(text).to_owned());
        }
        for name in names {
            let mentions = self.mentions.entry(name.to_owned()).or_default();
            mentions
                .extend(words.iter().filter(|&&word| word != name).map(|&word| word.to_owned()));
        }
    }

    fn add_parameters(&mut self, text: &str, tokens: &Tokens, item: &Item) {
        let open_parenthesis = (item.name_at..item.tokens.end)
            .find(|&token_index| tokens.is_spelled_at(text, token_index, "("));
        let Some((open_parenthesis, group_end)) = open_parenthesis.and_then(|open_parenthesis| {
            Some((open_parenthesis, tokens.skip_group(open_parenthesis)?))
        }) else {
            return;
        };
        let reference =
            tokens[open_parenthesis..group_end].iter().any(|token| token.is_spelled(text, "&"));
        let set = if reference { &mut self.by_reference } else { &mut self.by_value };
        set.insert(item.name.clone());
    }

    /// Whether a kernel with `word` in it may wait elsewhere than at its barriers.
    pub(crate) fn waits(&self, word: &str) -> bool {
        is_waiting_function(word) || self.waiting.contains(word)
    }

    /// Whether a kernel with `word` in it may wait for another thread.
    pub(crate) fn waits_for_threads(&self, word: &str) -> bool {
        self.waits_for_threads_itself(word) || self.waiting_for_threads.contains(word)
    }

    /// Whether `word` makes a thread wait for others, other than by the names in its definition.
    fn waits_for_threads_itself(&self, word: &str) -> bool {
        let is_own_atomic = word.starts_with("atomic") && self.mentions.contains_key(word);
        let waits = !is_yielding_function(word) && !is_own_atomic;
        is_waiting_function(word) && word != LEAVES_STATEMENT && waits
    }

    /// Whether a kernel with `word` in it may let other threads run in between.
    pub(crate) fn yields(&self, word: &str) -> bool {
        is_yielding_function(word)
            || [word, OPERATOR].iter().any(|&word| self.yielding.contains(word))
    }

    /// The shortest way to a wait from `word`, a word with [`Facts::waits`]; to one for another thread, if there is any.
    pub(super) fn way_to_wait(&self, word: &str) -> Way {
        self.way_to(word, |name| self.waits_for_threads_itself(name))
            .or_else(|| self.way_to(word, is_waiting_function))
            .unwrap_or(Way::Waits(Vec::new()))
    }

    /// The shortest way from `word` to a name that is an `end`.
    fn way_to(&self, word: &str, is_end: impl Fn(&str) -> bool) -> Option<Way> {
        let mut mentioned_by: BTreeMap<&str, &str> = BTreeMap::new();
        let mut open = VecDeque::from([word]);
        while let Some(name) = open.pop_front() {
            if is_end(name) {
                return Some(way_back(word, name, &mentioned_by));
            }
            for next in self.mentions.get(name).into_iter().flatten() {
                if next != word && !mentioned_by.contains_key(next.as_str()) {
                    mentioned_by.insert(next, name);
                    open.push_back(next);
                }
            }
        }
        None
    }

    /// Whether a kernel may ask for its thread's index by `word`.
    pub(crate) fn asks_index(&self, word: &str) -> bool {
        word == THREAD_INDEX || self.asking.contains(word) || self.asking.contains(OPERATOR)
    }

    /// The paths and texts of files that define device functions that may wait, and that `text` names by itself or through
    /// others of these files.
    pub(crate) fn files_with_waits(&self, text: &str) -> Vec<(&str, &str)> {
        let mut is_named = vec![false; self.function_files.len()];
        let mut texts = vec![text];
        while let Some(text) = texts.pop() {
            let is_sign = |character: char| !character.is_alphanumeric() && character != '_';
            let words: BTreeSet<&str> = text.split(is_sign).collect();
            for (file, is_named) in self.function_files.iter().zip(&mut is_named) {
                let (_, file_text, names) = file;
                if !*is_named && names.iter().any(|name| words.contains(name.as_str())) {
                    *is_named = true;
                    texts.push(file_text);
                }
            }
        }
        let files = self.function_files.iter().zip(is_named).filter(|(_, is_named)| *is_named);
        files.map(|((path, text, _), _)| (path.as_str(), text.as_str())).collect()
    }

    /// Whether an operator of the sources may wait; tokens do not show its use.
    pub(crate) fn operators_wait(&self) -> bool {
        self.waiting.contains(OPERATOR)
    }

    /// The same of waits for other threads.
    pub(crate) fn operators_wait_for_threads(&self) -> bool {
        self.waiting_for_threads.contains(OPERATOR)
    }

    /// Whether `word` is a macro of the sources.
    pub(crate) fn is_macro(&self, word: &str) -> bool {
        self.macros.contains_key(word)
    }

    /// Whether the sources define or declare something of this name.
    pub(crate) fn is_defined(&self, word: &str) -> bool {
        self.mentions.contains_key(word)
            || self.by_value.contains(word)
            || self.by_reference.contains(word)
    }

    /// Whether `word` is a function of the sources with all arguments by value.
    pub(crate) fn takes_values(&self, word: &str) -> bool {
        !self.reference_types && self.by_value.contains(word) && !self.by_reference.contains(word)
    }

    /// Whether `word` may be a variable of the device, shared by kernels.
    pub(crate) fn is_device_variable(&self, word: &str) -> bool {
        self.variables.contains(word)
    }

    /// Whether class `word` has a destructor.
    pub(crate) fn is_destroyed(&self, word: &str) -> bool {
        self.destroyed.contains(word)
    }

    /// Every word in the expansion of the macro `name`, itself included.
    pub(crate) fn expansion(&self, name: &str) -> BTreeSet<&str> {
        let mut expanded_words = BTreeSet::new();
        let mut pending_words = vec![name];
        while let Some(word) = pending_words.pop() {
            for word in self.macros.get(word).into_iter().flatten() {
                if expanded_words.insert(word.as_str()) {
                    pending_words.push(word);
                }
            }
        }
        expanded_words
    }
}

/// The names behind `start` on the way to `end`; `mentioned_by` has the predecessor of each.
fn way_back(start: &str, end: &str, mentioned_by: &BTreeMap<&str, &str>) -> Way {
    let mut names = Vec::new();
    let mut name = end;
    while name != start {
        names.push(name.to_owned());
        name = mentioned_by[name];
    }
    names.reverse();
    if end == LEAVES_STATEMENT {
        names.pop();
        return Way::LeavesStatement(names);
    }
    Way::Waits(names)
}

fn has_unbalanced_brackets(text: &str, body: &Tokens) -> bool {
    let mut depth = 0usize;
    for token in body.iter().filter(|token| token.kind == TokenKind::Punct) {
        match token.text(text) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => match depth.checked_sub(1) {
                Some(outer_depth) => depth = outer_depth,
                None => return true,
            },
            _ => {}
        }
    }
    depth != 0
}

/// The names of a class, and those declared behind its brace.
fn class_type_names<'t>(text: &'t str, list: &[Token]) -> BTreeSet<&'t str> {
    let mut names = BTreeSet::new();
    let mut depth = 0usize;
    for token in list {
        match token.text(text) {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            word if depth == 0 && token.kind == TokenKind::Ident => {
                let nobody = is_language_keyword(word) || is_attribute(word);
                names.extend((!nobody).then_some(word));
            }
            _ => {}
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SourceUnit;

    #[test]
    fn what_waits_is_followed_through_every_name() {
        let chain = |at: usize| format!("#define A{at} A{}\n", at + 1);
        let text: String = (0..100).map(chain).collect::<String>() + "#define A100 __syncwarp()\n";
        let mut facts = Facts::default();
        facts.add(&Source::new(&SourceUnit { path: "a.cu", text: &text }));
        facts.finish();
        assert!((0..=100).all(|at| facts.waits(&format!("A{at}"))));
        assert!(!facts.waits("A101"));
    }

    #[test]
    fn atomics_let_others_run_and_wait_for_nobody() {
        let text = "__device__ void atomicMaxFloat(float* x, float y) { atomicCAS((int*)x, 1, 2); }\n\
                    __device__ void add(float* x) { atomicMaxFloat(x, 1); __threadfence_block(); }\n\
                    __device__ void both(float* x) { add(x); __syncwarp(); }\n";
        let mut facts = Facts::default();
        facts.add(&Source::new(&SourceUnit { path: "a.cu", text }));
        facts.finish();
        for name in ["atomicMaxFloat", "add", "atomicAdd_system", "atomicInc"] {
            assert!(facts.yields(name) && facts.waits(name), "{name}");
            assert!(!facts.waits_for_threads(name), "{name}");
        }
        for name in ["both", "atomicAddUnknown", "atomic_ref", "__syncwarp"] {
            assert!(facts.waits_for_threads(name), "{name}");
        }
        assert!(!facts.yields("atomicAddUnknown") && !facts.yields("x"));
        assert_eq!(facts.way_to_wait("both"), Way::Waits(vec!["__syncwarp".to_owned()]));
    }

    #[test]
    fn a_name_that_waits_tells_by_which_names() {
        let text = "#define LEAVE if (n) return\n#define TWICE LEAVE; LEAVE\n\
                    __device__ float warp(float x) { return __shfl_xor_sync(~0u, x, 1); }\n\
                    __device__ float block(float x) { return block(warp(x)); }\n";
        let mut facts = Facts::default();
        facts.add(&Source::new(&SourceUnit { path: "a.cu", text }));
        facts.finish();
        let waits = |names: &[&str]| Way::Waits(names.iter().map(|&name| name.into()).collect());
        assert_eq!(facts.way_to_wait("block"), waits(&["warp", "__shfl_xor_sync"]));
        assert_eq!(facts.way_to_wait("volatile"), waits(&[]));
        assert_eq!(facts.way_to_wait("LEAVE"), Way::LeavesStatement(Vec::new()));
        assert_eq!(facts.way_to_wait("TWICE"), Way::LeavesStatement(vec!["LEAVE".to_owned()]));
    }
}
