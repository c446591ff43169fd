//! As much of Python's syntax as calls of extensions are written in. Pure: texts in, statements and expressions out. What is not
//! understood is an expression of its own.

/// A statement on one logical line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonLine {
    /// The columns in front of it.
    pub indent: usize,
    /// Without comments; each string in it keeps its quotes.
    pub text: String,
}

/// An expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PythonExpression {
    Name(String),
    Number(String),
    Text(String),
    /// A tuple or a list.
    List(Vec<PythonExpression>),
    Attribute(Box<PythonExpression>, String),
    Call(Box<PythonExpression>, Vec<PythonArgument>),
    Index(Box<PythonExpression>, Box<PythonExpression>),
    /// `a[begin:end]`.
    Slice(Box<PythonExpression>, Option<Box<PythonExpression>>, Option<Box<PythonExpression>>),
    /// An operation of arithmetic.
    Binary(char, Box<PythonExpression>, Box<PythonExpression>),
    /// `one if condition else other`.
    Choice(Box<PythonExpression>, Box<PythonExpression>),
    /// `*several`, among arguments or elements.
    Starred(Box<PythonExpression>),
    /// Anything else.
    Other,
}

/// An argument of a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PythonArgument {
    pub keyword: Option<String>,
    pub value: PythonExpression,
}

/// An expression with more in it than this is not read.
const DEEPEST: usize = 64;

/// The logical lines of `text`, without empty ones and without texts that stand alone.
pub fn list_python_lines(text: &str) -> Vec<PythonLine> {
    let mut lines = Vec::new();
    let mut line = PythonLine { indent: 0, text: String::new() };
    let mut depth = 0_usize;
    let mut rest = text;
    let mut is_begin = true;
    while let Some(c) = rest.chars().next() {
        let mut length = c.len_utf8();
        match c {
            '\n' if depth == 0 => {
                finish_line(&mut line, &mut lines);
                is_begin = true;
            }
            '\n' => line.text.push(' '),
            ' ' | '\t' if is_begin => line.indent += 1,
            '#' => length = rest.find('\n').unwrap_or(rest.len()),
            '\\' if rest[1..].starts_with('\n') => {
                length = 2;
                line.text.push(' ');
            }
            '"' | '\'' => {
                is_begin = false;
                length = measure_string(rest);
                line.text.push_str(&rest[..length]);
            }
            _ => {
                is_begin = false;
                match c {
                    '(' | '[' | '{' => depth += 1,
                    ')' | ']' | '}' => depth = depth.saturating_sub(1),
                    _ => {}
                }
                line.text.push(c);
            }
        }
        rest = &rest[length..];
    }
    finish_line(&mut line, &mut lines);
    lines
}

/// Moves `line` to `lines`, unless it is empty or a text.
fn finish_line(line: &mut PythonLine, lines: &mut Vec<PythonLine>) {
    let PythonLine { indent, text } =
        std::mem::replace(line, PythonLine { indent: 0, text: String::new() });
    let text = text.trim().to_owned();
    let is_text = text.starts_with(['"', '\'']) && measure_string(&text) == text.len();
    if !text.is_empty() && !is_text {
        lines.push(PythonLine { indent, text });
    }
}

/// The length of the string that `text` begins with, its quotes among it.
fn measure_string(text: &str) -> usize {
    let quote = &text[..1];
    let triple = quote.repeat(3);
    let end = if text.starts_with(&triple) { triple.as_str() } else { quote };
    let mut place = end.len();
    while place < text.len() {
        let rest = &text[place..];
        if rest.starts_with(end) {
            return place + end.len();
        }
        let mut chars = rest.chars();
        let first = chars.next().map_or(1, char::len_utf8);
        let is_escape = rest.starts_with('\\');
        place += first + if is_escape { chars.next().map_or(0, char::len_utf8) } else { 0 };
    }
    text.len()
}

/// The sides of an assignment, each target in its turn; none where `line` is none.
pub fn split_assignment(line: &str) -> Option<(Vec<PythonExpression>, PythonExpression)> {
    let tokens = list_tokens(line);
    let mut depth = 0_usize;
    let mut parts = vec![Vec::new()];
    for token in tokens {
        match token.as_str() {
            "(" | "[" | "{" => depth += 1,
            ")" | "]" | "}" => depth = depth.saturating_sub(1),
            "=" if depth == 0 => {
                parts.push(Vec::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut()?.push(token);
    }
    let value = parse_tokens(parts.pop()?);
    let targets: Vec<PythonExpression> = parts.into_iter().map(parse_tokens).collect();
    (!targets.is_empty()).then_some((targets, value))
}

/// The expression `text`.
pub fn parse_python(text: &str) -> PythonExpression {
    parse_tokens(list_tokens(text))
}

fn parse_tokens(tokens: Vec<String>) -> PythonExpression {
    let mut parser = ExpressionParser { tokens, place: 0, depth: 0 };
    let expression = parser.parse_list();
    if parser.place == parser.tokens.len() { expression } else { PythonExpression::Other }
}

/// Names, numbers, strings and signs.
fn list_tokens(text: &str) -> Vec<String> {
    const LONG_SIGNS: [&str; 10] = ["**", "//", "==", "!=", "<=", ">=", ":=", "+=", "-=", "*="];
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(c) = rest.chars().next() {
        let is_word = |c: char| c.is_alphanumeric() || c == '_';
        let length = if c == '"' || c == '\'' {
            measure_string(rest)
        } else if c.is_ascii_digit()
            || c == '.' && rest[1..].starts_with(|c: char| c.is_ascii_digit())
        {
            measure_number(rest)
        } else if is_word(c) {
            rest.find(|c: char| !is_word(c)).unwrap_or(rest.len())
        } else if let Some(sign) = LONG_SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            sign.len()
        } else {
            c.len_utf8()
        };
        tokens.push(rest[..length].to_owned());
        rest = rest[length..].trim_start();
    }
    tokens
}

/// The length of the number that `text` begins with.
fn measure_number(text: &str) -> usize {
    let mut before = ' ';
    for (place, c) in text.char_indices() {
        let is_sign = matches!(c, '+' | '-') && matches!(before, 'e' | 'E');
        if !(c.is_ascii_alphanumeric() || c == '.' || c == '_' || is_sign) {
            return place;
        }
        before = c;
    }
    text.len()
}

/// Parses by descending.
struct ExpressionParser {
    tokens: Vec<String>,
    place: usize,
    depth: usize,
}

impl ExpressionParser {
    fn peek(&self) -> &str {
        self.tokens.get(self.place).map_or("", String::as_str)
    }

    fn take(&mut self, token: &str) -> bool {
        let is_next = !token.is_empty() && self.peek() == token;
        self.place += usize::from(is_next);
        is_next
    }

    /// Expressions with commas between them, or a single one.
    fn parse_list(&mut self) -> PythonExpression {
        let first = self.parse_choice();
        if self.peek() != "," {
            return first;
        }
        let mut elements = vec![first];
        while self.take(",") {
            if matches!(self.peek(), "" | ")" | "]") {
                break;
            }
            elements.push(self.parse_choice());
        }
        PythonExpression::List(elements)
    }

    fn parse_choice(&mut self) -> PythonExpression {
        self.depth += 1;
        if self.depth > DEEPEST {
            self.fail();
            return PythonExpression::Other;
        }
        let one = if self.take("*") {
            PythonExpression::Starred(Box::new(self.parse_condition()))
        } else {
            self.parse_condition()
        };
        let parsed = if self.take("if") {
            self.parse_condition();
            if !self.take("else") {
                self.fail();
            }
            let other = self.parse_choice();
            PythonExpression::Choice(Box::new(one), Box::new(other))
        } else {
            one
        };
        self.depth -= 1;
        parsed
    }

    /// What comparisons and `and` join, which is not looked into.
    fn parse_condition(&mut self) -> PythonExpression {
        const WORDS: [&str; 11] =
            ["and", "or", "is", "in", "not", "==", "!=", "<", ">", "<=", ">="];
        let mut is_condition = false;
        while self.take("not") {
            is_condition = true;
        }
        let mut parsed = self.parse_sum();
        while WORDS.contains(&self.peek()) {
            is_condition = true;
            self.place += 1;
            while self.take("not") {}
            parsed = self.parse_sum();
        }
        if is_condition { PythonExpression::Other } else { parsed }
    }

    fn parse_sum(&mut self) -> PythonExpression {
        let mut left = self.parse_product();
        while let sign @ ("+" | "-") = self.peek() {
            let sign = if sign == "+" { '+' } else { '-' };
            self.place += 1;
            let right = self.parse_product();
            left = PythonExpression::Binary(sign, Box::new(left), Box::new(right));
        }
        left
    }

    fn parse_product(&mut self) -> PythonExpression {
        let mut left = self.parse_unary();
        loop {
            let sign = match self.peek() {
                "*" => '*',
                "/" | "//" | "%" | "@" | "**" => '/',
                _ => return left,
            };
            self.place += 1;
            let right = self.parse_unary();
            left = PythonExpression::Binary(sign, Box::new(left), Box::new(right));
        }
    }

    fn parse_unary(&mut self) -> PythonExpression {
        if self.take("-") {
            return match self.parse_postfix() {
                PythonExpression::Number(number) => PythonExpression::Number(format!("-{number}")),
                _ => PythonExpression::Other,
            };
        }
        self.parse_postfix()
    }

    fn parse_postfix(&mut self) -> PythonExpression {
        let mut parsed = self.parse_atom();
        loop {
            if self.take(".") {
                let name = self.peek().to_owned();
                self.place += 1;
                parsed = PythonExpression::Attribute(Box::new(parsed), name);
            } else if self.take("(") {
                parsed = match self.parse_arguments() {
                    Some(arguments) => PythonExpression::Call(Box::new(parsed), arguments),
                    None => PythonExpression::Other,
                };
            } else if self.take("[") {
                parsed = self.parse_index(parsed);
            } else {
                return parsed;
            }
        }
    }

    /// The arguments behind an opening bracket; none where they are not understood.
    fn parse_arguments(&mut self) -> Option<Vec<PythonArgument>> {
        let begin = self.place;
        let mut arguments = Vec::new();
        while !self.take(")") {
            let is_keyword = self.tokens.get(self.place + 1).is_some_and(|sign| sign == "=");
            let keyword = is_keyword.then(|| self.peek().to_owned());
            self.place += if is_keyword { 2 } else { 0 };
            let value = self.parse_choice();
            arguments.push(PythonArgument { keyword, value });
            if !self.take(",") && self.peek() != ")" {
                // A comprehension.
                self.skip_brackets(begin);
                return None;
            }
        }
        Some(arguments)
    }

    /// What the index behind an opening bracket takes of `indexed`.
    fn parse_index(&mut self, indexed: PythonExpression) -> PythonExpression {
        let place = self.place;
        let indexed = Box::new(indexed);
        let begin = (self.peek() != ":").then(|| Box::new(self.parse_list()));
        if self.take("]") {
            return begin
                .map_or(PythonExpression::Other, |index| PythonExpression::Index(indexed, index));
        }
        if self.take(":") {
            let end = (self.peek() != "]").then(|| Box::new(self.parse_choice()));
            if self.take("]") {
                return PythonExpression::Slice(indexed, begin, end);
            }
        }
        // Steps and slices of several dimensions.
        self.skip_brackets(place);
        PythonExpression::Index(indexed, Box::new(PythonExpression::Other))
    }

    /// Goes behind the bracket that closes the one before `begin`.
    fn skip_brackets(&mut self, begin: usize) {
        let mut depth = 1_usize;
        self.place = begin;
        while depth > 0 && self.place < self.tokens.len() {
            match self.peek() {
                "(" | "[" | "{" => depth += 1,
                ")" | "]" | "}" => depth -= 1,
                _ => {}
            }
            self.place += 1;
        }
        if depth > 0 {
            self.fail();
        }
    }

    /// Leaves the rest unread: all of it is not understood.
    fn fail(&mut self) {
        self.place = self.tokens.len() + 1;
    }

    fn parse_atom(&mut self) -> PythonExpression {
        let token = self.peek().to_owned();
        self.place += 1;
        match token.chars().next() {
            Some('(' | '[') => {
                let begin = self.place;
                let close = if token == "(" { ")" } else { "]" };
                if self.take(close) {
                    return PythonExpression::List(Vec::new());
                }
                let inner = self.parse_list();
                if !self.take(close) {
                    self.skip_brackets(begin);
                    return PythonExpression::Other;
                }
                match inner {
                    PythonExpression::List(elements) => PythonExpression::List(elements),
                    single if token == "[" => PythonExpression::List(vec![single]),
                    single => single,
                }
            }
            Some('{') => {
                self.skip_brackets(self.place);
                PythonExpression::Other
            }
            Some('"' | '\'') => PythonExpression::Text(token.trim_matches(['"', '\'']).to_owned()),
            Some(c) if c.is_ascii_digit() || c == '.' => PythonExpression::Number(token),
            Some(c) if c.is_alphabetic() || c == '_' => PythonExpression::Name(token),
            _ => {
                self.fail();
                PythonExpression::Other
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<(usize, String)> {
        list_python_lines(text).into_iter().map(|line| (line.indent, line.text)).collect()
    }

    #[test]
    fn logical_lines_are_joined_within_brackets_and_leave_comments_and_docstrings_out() {
        let text = "def f(a,  # one\n      b):\n    '''first\n    second'''\n    x = \"#\" + \\\n        a\n\n    y = 'é\\''\n";
        assert_eq!(
            lines(text),
            [
                (0, "def f(a,         b):".to_owned()),
                (4, "x = \"#\" +          a".to_owned()),
                (4, "y = 'é\\''".to_owned())
            ]
        );
        assert_eq!(lines("x = 'open"), [(0, "x = 'open".to_owned())]);
    }

    #[test]
    fn calls_have_positional_named_and_starred_arguments() {
        let parsed = parse_python("ext.f(x[1:], *rest, n=a.shape[0] - 1)");
        assert_eq!(
            format!("{parsed:?}").replace("PythonArgument", ""),
            "Call(Attribute(Name(\"ext\"), \"f\"), [ { keyword: None, value: Slice(Name(\"x\"), \
             Some(Number(\"1\")), None) },  { keyword: None, value: Starred(Name(\"rest\")) },  { \
             keyword: Some(\"n\"), value: Binary('-', Index(Attribute(Name(\"a\"), \"shape\"), \
             Number(\"0\")), Number(\"1\")) }])"
        );
    }

    #[test]
    fn an_assignment_has_targets_and_a_value() {
        let (targets, value) = split_assignment("a, = b = f(x, n=1e-5)").unwrap();
        let name = |name: &str| PythonExpression::Name(name.to_owned());
        assert_eq!(targets, [PythonExpression::List(vec![name("a")]), name("b")]);
        assert!(matches!(value, PythonExpression::Call(..)));
        assert_eq!(split_assignment("f(n=1)"), None);
        assert_eq!(split_assignment("a == b"), None);
        assert_eq!(split_assignment("a += b"), None);
    }

    #[test]
    fn what_is_not_understood_is_an_expression_of_its_own() {
        for text in ["lambda x: x", "[a for a in b]", "{1: 2}", "f(", "a ? b", ""] {
            assert_eq!(parse_python(text), PythonExpression::Other, "{text}");
        }
        assert_eq!(parse_python(&"(".repeat(10_000)), PythonExpression::Other);
        let PythonExpression::List(elements) = parse_python("a[:, :2], f(x for x in y), b") else {
            panic!("a tuple")
        };
        let name = Box::new(PythonExpression::Name("a".to_owned()));
        let index = PythonExpression::Index(name, Box::new(PythonExpression::Other));
        assert_eq!(elements[..2], [index, PythonExpression::Other]);
        assert_eq!(elements[2], PythonExpression::Name("b".to_owned()));
        assert!(matches!(parse_python("a if b is not None else c"), PythonExpression::Choice(..)));
    }
}
