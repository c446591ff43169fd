//! What a source's own `main` tells of how its functions are called: what it prepares for them, and how
//! large the memory is that it gives them. Text in, statements out; knows no types.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::Unit;
use super::lexer::{Kind, Tokens};
use super::outline::{Item, ItemKind, outline};
use super::source::Source;

/// What a `main` does before it calls the functions of its source.
#[derive(Debug, Default)]
pub struct Program {
    /// Those of its body, in order.
    statements: Vec<Statement>,
    /// Variables of namespace scope that functions other than `main` use.
    globals: HashSet<String>,
    /// The variables of `main`, its parameters among them, with their types.
    locals: HashMap<String, String>,
    /// The factors of the number of elements that each variable points to.
    allocated: HashMap<String, Vec<String>>,
    /// For each function that it calls, the words of each argument of the first call.
    calls: HashMap<String, Vec<Vec<String>>>,
}

/// An argument with which `main` calls a function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The type to which it points, if that is told.
    pub ty: Option<String>,
    /// The factors of its number of elements, if its allocation tells them.
    pub elements: Option<Vec<String>>,
    /// The factors of its own value, if it is a product of names and numbers.
    pub value: Option<Vec<String>>,
}

#[derive(Debug)]
struct Statement {
    words: Vec<String>,
    /// As it is written, in one line.
    text: String,
    /// Whether it holds other statements.
    compound: bool,
}

impl Program {
    /// The `main` of `source`; `headers` have the global variables besides.
    pub fn of<'t>(headers: impl IntoIterator<Item = &'t str>, source: &str) -> Program {
        let mut program = Program::default();
        for text in headers {
            program.globals.extend(variables(text));
        }
        program.globals.extend(variables(source));
        let unit = Unit { path: "", text: source };
        let source = Source::new(&unit);
        let (text, tokens) = (source.text, source.view(true));
        let items = outline(text, &tokens);
        let functions = || items.iter().filter(|item| item.kind == ItemKind::Function);
        let Some(main) = functions().find(|item| item.name == "main") else {
            return Program::default();
        };
        let mentioned: HashSet<&str> = functions()
            .filter(|item| item.name != "main")
            .flat_map(|item| tokens[item.body.clone()].iter().map(|token| token.text(text)))
            .collect();
        program.globals.retain(|name| mentioned.contains(name.as_str()));
        program.read_body(text, &tokens, main);
        let locals = &program.locals;
        program.globals.retain(|name| !locals.contains_key(name));
        program
    }

    fn read_body(&mut self, text: &str, tokens: &Tokens, main: &Item) {
        for at in main.name_at..main.body.start {
            if tokens[at].kind == Kind::Ident && ends_a_name(tokens.get(at + 1), text) {
                self.locals.insert(tokens[at].text(text).to_owned(), String::new());
            }
        }
        for range in statements(text, tokens, main.body.start + 1, main.body.end - 1) {
            let words: Vec<String> =
                range.clone().map(|at| tokens[at].text(text).to_owned()).collect();
            let compound = words.iter().any(|word| word == "{");
            self.declare(&words);
            let written = &text[tokens[range.start].start..tokens[range.end - 1].end];
            let has_comments = ["//", "/*", "\\\n"].iter().any(|mark| written.contains(mark));
            let text = match has_comments {
                true => words.join(" "),
                false => written.split_whitespace().collect::<Vec<_>>().join(" "),
            };
            self.statements.push(Statement { words, text, compound });
        }
        for at in main.body.clone() {
            self.allocation(text, tokens, at);
            self.call(text, tokens, at);
        }
    }

    /// Notes the variables that a statement with `words` declares, those of a loop's head among them.
    fn declare(&mut self, words: &[String]) {
        let pieces = words.split(|word| matches!(word.as_str(), ";" | "{" | "}"));
        for piece in pieces {
            let opens = piece.iter().position(|word| word == "(").map_or(0, |at| at + 1);
            let is_loop = piece.first().is_some_and(|word| word == "for");
            let declared = if is_loop { &piece[opens..] } else { piece };
            for (name, ty) in declared_in(declared) {
                self.locals.entry(name).or_insert(ty);
            }
        }
    }

    fn allocation(&mut self, text: &str, tokens: &Tokens, at: usize) {
        let word = tokens[at].text(text);
        if !word.starts_with("cudaMalloc") || !tokens.is(text, at + 1, "(") {
            return;
        }
        let arguments = arguments(text, tokens, at + 1);
        let [pointer, size, ..] = arguments.as_slice() else { return };
        let words = |range: &std::ops::Range<usize>| -> Vec<String> {
            range.clone().map(|at| tokens[at].text(text).to_owned()).collect()
        };
        let pointer = words(pointer);
        let [.., ampersand, name] = pointer.as_slice() else { return };
        let Some(factors) = factors(&words(size)).filter(|_| ampersand == "&") else { return };
        self.allocated.entry(name.clone()).or_insert(factors);
    }

    /// Notes a call, a launch, or a function that is an argument in front of its own, as of a benchmark.
    fn call(&mut self, text: &str, tokens: &Tokens, at: usize) {
        let name = tokens[at].text(text);
        if tokens[at].kind != Kind::Ident || self.calls.contains_key(name) {
            return;
        }
        let behind = match tokens.is(text, at + 1, "<") {
            true => tokens.skip_angles(text, at + 1).unwrap_or(at + 1),
            false => at + 1,
        };
        let open = match tokens.is(text, behind, "<<<") {
            true => launch_arguments(text, tokens, behind),
            false => Some(behind),
        };
        let Some(open) = open.filter(|&open| tokens.is(text, open, "(")) else { return };
        let words = |range: std::ops::Range<usize>| -> Vec<String> {
            range.map(|at| tokens[at].text(text).to_owned()).collect()
        };
        let arguments: Vec<Vec<String>> =
            arguments(text, tokens, open).into_iter().map(words).collect();
        for (place, argument) in arguments.iter().enumerate() {
            if let [function] = argument.as_slice()
                && !self.calls.contains_key(function)
                && place + 1 < arguments.len()
            {
                self.calls.insert(function.clone(), arguments[place + 1..].to_vec());
            }
        }
        self.calls.insert(name.to_owned(), arguments);
    }

    /// The arguments with which `main` calls `function`, of `count` parameters.
    pub fn passed(&self, function: &str, count: usize) -> Option<Vec<Passed>> {
        let arguments = self.calls.get(function).filter(|arguments| arguments.len() <= count)?;
        let passed = |words: &Vec<String>| {
            let name = words.last().filter(|_| words.len() == 1 || words[0] == "(");
            Passed {
                ty: name.and_then(|name| self.locals.get(name)).cloned(),
                elements: name.and_then(|name| self.allocated.get(name)).cloned(),
                value: factors(words),
            }
        };
        Some(arguments.iter().map(passed).collect())
    }

    /// The statements by which `main` prepares global variables before it comes to one that `calls`, with
    /// what they need of its own variables. The call knows `sizes`; `taken` are its other names.
    pub fn prepares(
        &self,
        calls: impl Fn(&str) -> bool,
        sizes: &[String],
        taken: impl Fn(&str) -> bool,
    ) -> Vec<&str> {
        let comes = |statement: &Statement| statement.words.iter().any(|word| calls(word));
        let end = self.statements.iter().position(comes).unwrap_or(self.statements.len());
        let mut kept = BTreeSet::new();
        for at in 0..end {
            if self.globals.iter().any(|name| self.statements[at].prepares(name))
                && let Some(needed) = self.needed(at, sizes, &taken)
            {
                kept.extend(needed);
            }
        }
        kept.into_iter().map(|at| self.statements[at].text.as_str()).collect()
    }

    /// Statement `at` and those before it that it needs; none if they cannot stand alone.
    fn needed(
        &self,
        at: usize,
        sizes: &[String],
        taken: &impl Fn(&str) -> bool,
    ) -> Option<BTreeSet<usize>> {
        let mut kept = BTreeSet::new();
        let mut waiting = vec![at];
        while let Some(at) = waiting.pop() {
            let statement = &self.statements[at];
            if statement.compound || taken_by(statement, &self.locals, taken) {
                return None;
            }
            if !kept.insert(at) {
                continue;
            }
            for name in statement.names().filter(|name| !sizes.contains(name)) {
                if !self.locals.contains_key(name) {
                    continue;
                }
                let before = &self.statements[..at];
                let set: Vec<usize> =
                    (0..before.len()).filter(|&at| before[at].sets(name)).collect();
                if set.is_empty() && !statement.declares(name) {
                    return None;
                }
                waiting.extend(set);
            }
        }
        Some(kept)
    }
}

/// Whether `statement` uses a variable of `main` whose name the call has for a tensor.
fn taken_by(
    statement: &Statement,
    locals: &HashMap<String, String>,
    taken: &impl Fn(&str) -> bool,
) -> bool {
    statement.names().any(|name| locals.contains_key(name) && taken(name))
}

impl Statement {
    /// The names that stand for themselves, not for members.
    fn names(&self) -> impl Iterator<Item = &String> {
        let is_member = |at: usize| {
            at.checked_sub(1).is_some_and(|before| matches!(&*self.words[before], "." | "->"))
        };
        let named = self.words.iter().enumerate().filter(move |(at, _)| !is_member(*at));
        named.map(|(_, word)| word)
    }

    fn declares(&self, name: &str) -> bool {
        !self.compound && declared_in(&self.words).iter().any(|(declared, _)| declared == name)
    }

    /// Whether the variable `name` is declared, assigned, or handed over by its address.
    fn sets(&self, name: &str) -> bool {
        let places = (0..self.words.len()).filter(|&at| self.words[at] == name);
        let word = |at: Option<usize>| at.and_then(|at| self.words.get(at)).map(String::as_str);
        let set = |at: usize| {
            let assigned = word(Some(at + 1)) == Some("=") && word(Some(at + 2)) != Some("=");
            let begins = at == 0 || matches!(word(at.checked_sub(1)), Some(";" | "{" | "}"));
            let addressed = word(at.checked_sub(1)) == Some("&")
                && matches!(word(at.checked_sub(2)), Some("(" | "," | ")" | "="));
            assigned && begins || addressed
        };
        self.declares(name) || places.into_iter().any(set)
    }

    /// Whether the global variable `name` is made ready here: set, or what it stands for changed.
    fn prepares(&self, name: &str) -> bool {
        let changes = |at: usize| {
            let [function, open, first] = &self.words[at..at + 3] else { return false };
            function.contains("Set") && open == "(" && first == name
        };
        self.sets(name) || (0..self.words.len().saturating_sub(2)).any(changes)
    }
}

/// The variables of namespace scope in `text`.
fn variables(text: &str) -> Vec<String> {
    let unit = Unit { path: "", text };
    let source = Source::new(&unit);
    let (text, tokens) = (source.text, source.view(true));
    let items = outline(text, &tokens);
    let others = items.iter().filter(|item| item.kind == ItemKind::Other && !item.member);
    let words = others.map(|item| {
        let words = tokens[item.tokens.clone()].iter();
        words.map(|token| token.text(text).to_owned()).collect::<Vec<_>>()
    });
    let is_type = |words: &Vec<String>| {
        matches!(words.first().map(String::as_str), Some("typedef" | "using"))
    };
    words
        .filter(|words| !is_type(words))
        .flat_map(|words| declared_in(&words))
        .map(|d| d.0)
        .collect()
}

/// The names that the declaration with `words` declares, with their type; none if it is another statement.
fn declared_in(words: &[String]) -> Vec<(String, String)> {
    let is_name = |word: &str| {
        let words =
            ["return", "delete", "goto", "else", "if", "while", "for", "case", "sizeof", "alignof"];
        word.starts_with(|c: char| c.is_alphabetic() || c == '_') && !words.contains(&word)
    };
    let ends = ["=", ";", ",", "[", "{", "("];
    let head = words.iter().position(|word| ends.contains(&word.as_str())).unwrap_or(words.len());
    let type_words = ["::", "<", ">", "*", "&"];
    let is_head = words[..head].iter().all(|w| is_name(w) || type_words.contains(&w.as_str()));
    let count = |angle: &str| words[..head].iter().filter(|word| *word == angle).count();
    let is_head = is_head && count("<") == count(">");
    let named = head >= 2 && is_head && is_name(&words[head - 1]) && words[head - 2] != "::";
    if !named || words.get(head).is_some_and(|word| word == "(") && head < 2 {
        return Vec::new();
    }
    let ty: Vec<&str> = words[..head - 1]
        .iter()
        .map(String::as_str)
        .filter(|word| !matches!(*word, "*" | "&" | "static" | "const" | "extern"))
        .collect();
    let ty = ty.join(" ");
    let mut found = vec![(words[head - 1].clone(), ty.clone())];
    let mut depth = 0usize;
    for at in head..words.len() {
        match words[at].as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "," if depth == 0 => {
                let named = words[at + 1..].iter().find(|word| *word != "*" && *word != "&");
                found.extend(named.filter(|name| is_name(name)).map(|n| (n.clone(), ty.clone())));
            }
            _ => {}
        }
    }
    found
}

/// The factors of a product of names and numbers, without those of `sizeof`; none if it is another value.
fn factors(words: &[String]) -> Option<Vec<String>> {
    let mut found = Vec::new();
    let mut expected = true;
    let mut at = 0;
    while at < words.len() {
        let word = words[at].as_str();
        let plain = word.chars().all(|c| c.is_alphanumeric() || c == '_');
        match word {
            "*" if !expected && words.get(at + 1).is_some_and(|word| word != ")") => {
                expected = true
            }
            "sizeof" if expected && words.get(at + 1).is_some_and(|word| word == "(") => {
                at += words[at..].iter().position(|word| word == ")")?;
                expected = false;
            }
            "(" | ")" => {}
            _ if expected && plain => {
                found.push(word.to_owned());
                expected = false;
            }
            _ => return None,
        }
        at += 1;
    }
    (!expected).then_some(found)
}

/// The ranges of the statements between `first` and `end`; those with braces count as one.
fn statements(
    text: &str,
    tokens: &Tokens,
    first: usize,
    end: usize,
) -> Vec<std::ops::Range<usize>> {
    let mut found = Vec::new();
    let (mut begin, mut at) = (first, first);
    while at < end {
        let directive = tokens[at].kind == Kind::Directive;
        if directive || tokens.is(text, at, ";") {
            if !directive {
                found.push(begin..at + 1);
            }
            (begin, at) = (at + 1, at + 1);
            continue;
        }
        let braces = tokens.is(text, at, "{");
        at = tokens.skip_group(at).unwrap_or(at + 1);
        // Behind the braces of an initialiser a semicolon follows.
        let more = [";", "else", "while", ","].iter().any(|word| tokens.is(text, at, word));
        if braces && !more {
            found.push(begin..at);
            begin = at;
        }
    }
    found.retain(|range| range.len() > 1);
    found
}

/// The arguments in the parentheses that open at `open`, as ranges of tokens.
fn arguments(text: &str, tokens: &Tokens, open: usize) -> Vec<std::ops::Range<usize>> {
    let Some(close) = tokens.skip_group(open).map(|after| after - 1) else { return Vec::new() };
    let (mut found, mut at, mut start) = (Vec::new(), open + 1, open + 1);
    while at < close {
        if tokens.is(text, at, ",") {
            found.push(start..at);
            start = at + 1;
        }
        at = tokens.skip_group(at).unwrap_or(at + 1);
    }
    if start < close {
        found.push(start..close);
    }
    found
}

/// The parenthesis of the arguments behind the launch that opens at `open`.
fn launch_arguments(text: &str, tokens: &Tokens, open: usize) -> Option<usize> {
    let mut at = open + 1;
    while at < tokens.len() {
        let closes = (0..3).all(|more| tokens.is(text, at + more, ">"));
        if closes {
            return Some(at + 3);
        }
        if tokens.is(text, at, ";") {
            return None;
        }
        at = tokens.skip_group(at).unwrap_or(at + 1);
    }
    None
}

fn ends_a_name(token: Option<&super::lexer::Token>, text: &str) -> bool {
    token.is_some_and(|token| [",", ")", "["].iter().any(|end| token.is(text, end)))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "static float* scratch; float* unused; bool first = true; int count;\n\
        void helper(float* x) { product(handle, x, count); use(scratch, first); }\n\
        void run(int which, float* out, const float* inp, int rows, int cols) { helper(out); }\n\
        int main(int argc, char** argv) {\n\
          int B = 4, T = 8;\n\
          int C = 64; // channels\n\
          for (int i = 0; i < sizeof(list) / sizeof(int); i++) { warm(i); }\n\
          Props props;\n\
          getProps(&props, 0);\n\
          int fast = props.major >= 8 ? 1 : 0;\n\
          CHECK(create(&handle));\n\
          CHECK(handleSetMode(handle,\n\
                              fast ? FAST : EXACT));\n\
          if (argc > 2) { count = atoi(argv[2]); }\n\
          CHECK(cudaMalloc(&scratch, C * sizeof(float)));\n\
          half *d_out, *d_inp;\n\
          cudaMalloc((void**)&d_out, B * T * 3 * C * sizeof(half));\n\
          cudaMalloc(&d_inp, (size_t)1);\n\
          cudaMalloc(&unused, 4);\n\
          float* out = make(B);\n\
          run(which(argv), d_out, (half*)d_inp, B * T, C);\n\
          first = false;\n\
        }\n";

    #[test]
    fn what_main_prepares_is_told_with_what_it_needs() {
        let program = Program::of(["Handle handle;"], SOURCE);
        let cols = ["C".to_owned()];
        let told = program.prepares(|word| word == "run", &cols, |_| false);
        insta::assert_snapshot!(told.join("\n"), @"
        Props props;
        getProps(&props, 0);
        int fast = props.major >= 8 ? 1 : 0;
        CHECK(create(&handle));
        CHECK(handleSetMode(handle, fast ? FAST : EXACT));
        CHECK(cudaMalloc(&scratch, C * sizeof(float)));
        ");
        let told = program.prepares(|word| word == "run", &[], |_| false);
        assert!(told.contains(&"int C = 64;"), "{told:?}");
        let told = program.prepares(|word| word == "run", &[], |name| name == "C");
        assert!(!told.iter().any(|text| text.contains("scratch")), "{told:?}");
    }

    #[test]
    fn what_main_passes_is_told_with_its_elements() {
        let program = Program::of([], SOURCE);
        let passed = program.passed("run", 5).unwrap();
        let words = |words: &Option<Vec<String>>| words.as_ref().map(|words| words.join(" "));
        let told: Vec<String> = passed
            .iter()
            .map(|p| format!("{:?} {:?} {:?}", p.ty, words(&p.elements), words(&p.value)))
            .collect();
        insta::assert_snapshot!(told.join("\n"), @r#"
        None None None
        Some("half") Some("B T 3 C") Some("d_out")
        Some("half") None None
        None None Some("B T")
        Some("int") None Some("C")
        "#);
        assert_eq!(program.passed("run", 4), None);
        assert_eq!(program.passed("other", 4), None);
    }

    #[test]
    fn arguments_of_launches_and_of_benchmarks_are_told_too() {
        let text = "int main() { int n = 3; cudaMalloc(&x, n * sizeof(float));\n\
                    k<float><<<(n + 1) >> 2, 32>>>(x, n); bench(100, f, x, n * 2); }";
        let program = Program::of([], text);
        let count = |name: &str| program.passed(name, 2).map(|passed| passed.len());
        assert_eq!((count("k"), count("f"), count("g")), (Some(2), Some(2), None));
        assert_eq!(program.passed("k", 2).unwrap()[0].elements, Some(vec!["n".to_owned()]));
    }
}
