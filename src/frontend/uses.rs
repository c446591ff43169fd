//! How a function's body uses the pointers it takes, in the order of the text: read, written, updated,
//! or handed to another function. Knows no types; what it cannot read is left out.

use std::ops::Range;

use super::lexer::{Kind, Tokens};

/// One use of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// An element is read.
    Read(Place),
    /// An element is replaced.
    Write(Place),
    /// An element is changed: `+=` or an atomic function.
    Update(Place),
    /// An infinity is written.
    Infinite,
    /// The pointer is an argument of a function or a kernel.
    Passed {
        /// The function.
        to: String,
        /// The place among its arguments, from 0.
        at: usize,
    },
}

impl Use {
    /// The same of any element.
    fn anywhere(self) -> Use {
        match self {
            Use::Read(_) => Use::Read(Place::Any),
            Use::Write(_) => Use::Write(Place::Any),
            Use::Update(_) => Use::Update(Place::Any),
            other => other,
        }
    }
}

/// Which element is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The first, by `*p` or `p[0]`.
    First,
    /// Any.
    Any,
}

/// How a kernel finds its elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// Whether `blockIdx.x * blockDim.x + threadIdx.x` numbers threads, in whatever order.
    pub by_thread: bool,
    /// Whether it reads `blockIdx.x`.
    pub blocks_x: bool,
    /// Whether it reads `blockIdx.y`.
    pub blocks_y: bool,
    /// Whether it reads `threadIdx.y`.
    pub threads_y: bool,
    /// Whether it has shared memory of a size that the launch gives.
    pub dynamic_shared: bool,
}

/// More uses of one pointer than this tell nothing new.
const MOST_USES: usize = 64;
/// No statement is searched for its beginning further back than this.
const MOST_TOKENS: usize = 256;

/// A function's body.
pub(super) struct Body<'t> {
    pub text: &'t str,
    pub tokens: &'t Tokens,
    pub range: Range<usize>,
}

impl Body<'_> {
    /// The uses of the pointer `name`, and of pointers that are made of it.
    pub(super) fn uses(&self, name: &str) -> Vec<Use> {
        let mut names = vec![name.to_owned()];
        let mut found = Vec::new();
        for at in self.range.clone() {
            let known = self.tokens[at].kind == Kind::Ident
                && names.iter().any(|name| self.is(at, name))
                && !self.is_member(at);
            if !known || found.len() >= MOST_USES {
                continue;
            }
            let itself = self.is(at, name);
            match self.made_of(at) {
                Some(alias) if names.len() < MOST_USES => names.push(alias),
                // Where another pointer begins is not known.
                _ if self.reads_first(at, &names) => {
                    found.extend([Use::Read(Place::Any), Use::Write(Place::Any)]);
                }
                _ => found
                    .extend(self.use_at(at).map(|one| if itself { one } else { one.anywhere() })),
            }
            if self.writes_infinity(at) {
                found.push(Use::Infinite);
            }
        }
        found
    }

    /// How threads are numbered.
    pub(super) fn grid(&self) -> Grid {
        let reads = |name: &str, axis: &str| {
            let here =
                |at: usize| self.is(at, name) && self.is(at + 1, ".") && self.is(at + 2, axis);
            self.range.clone().any(here)
        };
        Grid {
            by_thread: reads("blockIdx", "x") && reads("blockDim", "x") && self.numbers_threads(),
            blocks_x: reads("blockIdx", "x"),
            blocks_y: reads("blockIdx", "y"),
            threads_y: reads("threadIdx", "y"),
            dynamic_shared: self
                .range
                .clone()
                .any(|at| self.is(at, "extern") && self.is(at + 1, "__shared__")),
        }
    }

    /// Whether a product of `blockIdx.x` and `blockDim.x` is taken.
    fn numbers_threads(&self) -> bool {
        let product = |at: usize| {
            let pair = |first: &str, second: &str| {
                self.is(at, first) && self.is(at + 3, "*") && self.is(at + 4, second)
            };
            pair("blockIdx", "blockDim") || pair("blockDim", "blockIdx")
        };
        self.range.clone().any(product)
    }

    fn is(&self, at: usize, spelling: &str) -> bool {
        self.range.contains(&at) && self.tokens.is(self.text, at, spelling)
    }

    fn is_member(&self, at: usize) -> bool {
        let before = at.wrapping_sub(1);
        self.is(before, ".") || self.is(before, "->") || self.is(before, "::")
    }

    /// The pointer that the declaration around `at` makes of the one that stands there.
    fn made_of(&self, at: usize) -> Option<String> {
        let addressed = self.is(at.wrapping_sub(1), "&");
        if self.is(at + 1, "[") && !addressed || self.is_dereferenced(at) {
            return None;
        }
        let first = at.saturating_sub(MOST_TOKENS).max(self.range.start);
        let ends = |at: &usize| [";", "{", "}"].iter().any(|end| self.is(*at, end));
        let begin = (first..at).rev().find(ends)? + 1;
        let assigned = (begin..at).find(|&place| self.is(place, "="))?;
        let name = assigned.checked_sub(1).filter(|&name| name >= begin)?;
        if name == begin {
            let declared = self.is_pointer(name);
            return declared.then(|| self.tokens[name].text(self.text).to_owned());
        }
        let mut star = name - 1;
        while self.is(star, "__restrict__") || self.is(star, "__restrict") || self.is(star, "const")
        {
            star = star.checked_sub(1)?;
        }
        let declares = self.is(star, "*") && star > begin || self.is(star, "auto");
        (declares && self.tokens[name].kind == Kind::Ident)
            .then(|| self.tokens[name].text(self.text).to_owned())
    }

    /// Whether a declaration before `name` made it a pointer: `*q, *name;`.
    fn is_pointer(&self, name: usize) -> bool {
        let named = self.tokens[name].text(self.text);
        let declared = |at: usize| {
            self.is(at, named)
                && self.is(at.wrapping_sub(1), "*")
                && [",", ";"].iter().any(|end| self.is(at + 1, end))
        };
        self.tokens[name].kind == Kind::Ident && (self.range.start..name).any(declared)
    }

    fn is_dereferenced(&self, at: usize) -> bool {
        let star = at.wrapping_sub(1);
        self.is(star, "*") && !self.is_operand(star.wrapping_sub(1))
    }

    /// Whether a value ends at `at`, so that `*` or `&` behind it is an operator of two.
    fn is_operand(&self, at: usize) -> bool {
        let Some(token) = self.tokens.get(at).filter(|_| self.range.contains(&at)) else {
            return false;
        };
        match token.kind {
            Kind::Ident => !matches!(token.text(self.text), "return" | "else" | "case"),
            Kind::Punct if token.is(self.text, ")") => {
                let open = self.tokens.group_start(at).unwrap_or(0);
                let before = open.wrapping_sub(1);
                !["if", "while", "for"].iter().any(|word| self.is(before, word))
            }
            Kind::Punct => token.is(self.text, "]"),
            _ => true,
        }
    }

    /// Whether the value that is written at `at` is computed from what was there.
    fn reads_first(&self, at: usize, names: &[String]) -> bool {
        if !matches!(self.use_at(at), Some(Use::Write(_))) {
            return false;
        }
        let rest = at + 1..self.range.end.min(at + MOST_TOKENS);
        let ends = |at: &usize| self.is(*at, ";") || self.is(*at, "{");
        let end = rest.clone().find(ends).unwrap_or(rest.end);
        (at + 1..end).any(|at| names.iter().any(|name| self.is(at, name)) && !self.is_member(at))
    }

    /// Whether the value that is written at `at` is an infinity.
    fn writes_infinity(&self, at: usize) -> bool {
        if !matches!(self.use_at(at), Some(Use::Write(_))) {
            return false;
        }
        let rest = at + 1..self.range.end.min(at + MOST_TOKENS);
        let value = rest.take_while(|&at| !self.is(at, ";") && !self.is(at, "{"));
        value.into_iter().any(|at| ["INFINITY", "CUDART_INF_F"].iter().any(|w| self.is(at, w)))
    }

    /// What a function of cuBLAS does with its argument number `place`, whose parenthesis opens at `open`.
    fn multiplied(&self, name: &str, open: usize, place: usize) -> Option<Use> {
        let product = product(name)?;
        let begins_as_zero = || {
            let mut at = open;
            for _ in 0..product.beta {
                at = (at + 1..self.range.end.min(at + MOST_TOKENS)).find(|&at| self.is(at, ","))?;
            }
            // The value of `beta` in `&beta`.
            let variable = self.tokens[at + 2].text(self.text);
            let set = |&at: &usize| self.is(at, variable) && self.is(at + 1, "=");
            let value = self.range.clone().find(set)? + 2;
            let value = self.tokens.get(value)?.text(self.text);
            value.trim_end_matches(['f', 'F']).parse::<f64>().ok().map(|value| value == 0.0)
        };
        Some(match place {
            _ if product.factors.contains(&place) => Use::Read(Place::Any),
            _ if !product.results.contains(&place) => return None,
            _ if begins_as_zero() == Some(true) => Use::Write(Place::Any),
            _ => Use::Update(Place::Any),
        })
    }

    fn use_at(&self, at: usize) -> Option<Use> {
        let (mut first, mut end) = (at, at + 1);
        // Each turn takes in one more bracket.
        for _ in 0..16 {
            let addressed =
                self.is(first.wrapping_sub(1), "&") && !self.is_operand(first.wrapping_sub(2));
            if self.is(end, "[") {
                let zero = self.tokens.get(end + 1).is_some_and(|t| t.text(self.text) == "0");
                let alone = zero && self.is(end + 2, "]") && first == at;
                let place = if alone { Place::First } else { Place::Any };
                end = self.behind_subscripts(end)?;
                if !addressed {
                    return Some(self.changed(end, place));
                }
                first -= 1;
            } else if self.is(first.wrapping_sub(1), "*") && !self.is_operand(first.wrapping_sub(2))
            {
                let place = if first == at { Place::First } else { Place::Any };
                return Some(self.changed(end, place));
            } else if let Some(cast) = self.cast_before(first) {
                first = cast;
            } else {
                let (open, place, close) = self.arguments_around(first, end)?;
                match self.callee(open) {
                    Callee::None => (first, end) = (open, close + 1),
                    Callee::Cast(begin) => (first, end) = (begin, close + 1),
                    Callee::Function(name) if product(&name).is_some() => {
                        return self.multiplied(&name, open, place);
                    }
                    Callee::Function(name) => {
                        let more = ["+", "-"].iter().any(|sign| self.is(end, sign));
                        let whole = first == at && end == at + 1 && !more;
                        let at = if whole { Place::First } else { Place::Any };
                        return Some(known(&name, place, at));
                    }
                }
            }
        }
        None
    }

    /// The index behind `[...]`, and the members behind it.
    fn behind_subscripts(&self, mut end: usize) -> Option<usize> {
        loop {
            if self.is(end, "[") {
                end = self.tokens.skip_group(end)?;
            } else if self.is(end, ".") {
                end += 2;
            } else {
                return Some(end);
            }
        }
    }

    /// The use of an element that ends before `end`.
    fn changed(&self, end: usize, place: Place) -> Use {
        let assigns = self.is(end, "=") && !self.is(end + 1, "=");
        let operators = ["+", "-", "*", "/", "|", "&", "^"];
        let updates = operators.iter().any(|sign| self.is(end, sign)) && self.is(end + 1, "=");
        let steps = ["+", "-"].iter().any(|sign| self.is(end, sign) && self.is(end + 1, sign));
        match () {
            () if assigns => Use::Write(place),
            () if updates || steps => Use::Update(place),
            () => Use::Read(place),
        }
    }

    /// The begin of the cast `(float4*)` before `first`.
    fn cast_before(&self, first: usize) -> Option<usize> {
        let close = first.checked_sub(1).filter(|&close| self.is(close, ")"))?;
        let open = self.tokens.group_start(close)?;
        self.is(close - 1, "*").then_some(open)
    }

    /// The parentheses around `first..end`, and how many commas stand before it.
    fn arguments_around(&self, first: usize, end: usize) -> Option<(usize, usize, usize)> {
        let mut at = first;
        let mut place = 0;
        for _ in 0..MOST_TOKENS {
            at = at.checked_sub(1).filter(|at| self.range.contains(at))?;
            match self.tokens[at].text(self.text) {
                ")" | "]" | "}" => at = self.tokens.group_start(at)?,
                "(" => {
                    let close = self.tokens.skip_group(at)? - 1;
                    return (close >= end).then_some((at, place, close));
                }
                "[" | "{" | ";" => return None,
                "," => place += 1,
                _ => {}
            }
        }
        None
    }

    /// What stands before the parenthesis at `open`.
    fn callee(&self, open: usize) -> Callee {
        let Some(before) = open.checked_sub(1).filter(|at| self.range.contains(at)) else {
            return Callee::None;
        };
        if self.is(before, ">") {
            return self.templated(before);
        }
        match self.tokens[before].kind {
            Kind::Ident => match self.tokens[before].text(self.text) {
                "return" | "if" | "while" | "sizeof" | "for" => Callee::None,
                name => Callee::Function(name.to_owned()),
            },
            _ => Callee::None,
        }
    }

    /// The name before the angle brackets that end at `close`: a cast, a launch or a template.
    fn templated(&self, close: usize) -> Callee {
        let first = close.saturating_sub(MOST_TOKENS).max(self.range.start);
        let launched = self.is(close - 1, ">") && self.is(close.wrapping_sub(2), ">");
        let opens = |at: &usize| self.is(*at, if launched { "<<<" } else { "<" });
        let Some(open) = (first..close).rev().find(opens) else { return Callee::None };
        let mut name = open.saturating_sub(1);
        if launched && self.is(name, ">") {
            // The template's own arguments.
            let Some(inner) = (first..name).rev().find(|&at| self.is(at, "<")) else {
                return Callee::None;
            };
            name = inner.saturating_sub(1);
        }
        match self.tokens[name].text(self.text) {
            _ if self.tokens[name].kind != Kind::Ident => Callee::None,
            "reinterpret_cast" | "const_cast" | "static_cast" => Callee::Cast(name),
            other => Callee::Function(other.to_owned()),
        }
    }
}

enum Callee {
    /// Parentheses for themselves.
    None,
    /// A cast that begins there.
    Cast(usize),
    Function(String),
}

/// The places of matrices among the arguments of a function of cuBLAS.
struct Product {
    factors: [usize; 2],
    results: &'static [usize],
    beta: usize,
}

fn product(name: &str) -> Option<Product> {
    let called = name.strip_prefix("cublas")?;
    let of = |factors, results, beta| Some(Product { factors, results, beta });
    match called.strip_prefix(['S', 'D', 'H']).unwrap_or(called) {
        "gemm" => of([7, 9], &[12], 11),
        "gemmStridedBatched" => of([7, 10], &[14], 13),
        "GemmEx" | "gemmEx" => of([7, 10], &[14], 13),
        "GemmStridedBatchedEx" => of([7, 11], &[16], 15),
        "gemv" => of([5, 7], &[10], 9),
        "LtMatmul" => of([3, 5], &[8, 10], 7),
        _ => None,
    }
}

/// What the function `name` does with its argument number `argument`, which leads to `place`.
fn known(name: &str, argument: usize, place: Place) -> Use {
    let is = |beginning: &str| name.starts_with(beginning);
    match argument {
        0 if is("atomic") => Use::Update(place),
        0 if is("__st") => Use::Write(place),
        // How much of it tell the other uses.
        0 if is("cudaMemset") || is("cudaMemcpy") => Use::Write(place),
        0 if is("__ld") => Use::Read(place),
        1 if is("cudaMemcpy") => Use::Read(place),
        _ => Use::Passed { to: name.to_owned(), at: argument },
    }
}
