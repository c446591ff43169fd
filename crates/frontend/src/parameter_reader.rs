//! Answers about the parameters of a file's functions: each by what the body does, and by what the functions of the file do
//! to which it passes the parameter on.

use std::collections::HashMap;
use std::ops::Range;

use super::body_tokens::BodyTokens;
use super::signatures::Parameter;

/// A function with its body, among the tokens of a file.
pub(super) struct FunctionBody {
    pub name: String,
    pub parameters: Vec<Parameter>,
    pub body: Range<usize>,
}

/// No function of interest has more parameters; the limit keeps hostile text from taking quadratic time.
const MOST_PARAMETERS: usize = 64;

/// Reads the answer about a parameter out of the body of its function.
pub(super) type ReadParameter<'t, A> =
    fn(&mut ParameterReader<'t, A>, &'t FunctionBody, &'t Parameter) -> A;

/// What finds the answers `A`; the default of them is that nothing tells.
pub(super) struct ParameterReader<'t, A> {
    pub body_tokens: BodyTokens<'t>,
    bodies: &'t [FunctionBody],
    /// The numbers of the functions of each name among the bodies.
    numbers: HashMap<&'t str, Vec<usize>>,
    /// By function and parameter. A parameter that is under way has the default, so that recursion ends.
    known: HashMap<(usize, usize), A>,
    read: ReadParameter<'t, A>,
}

impl<'t, A: Copy + Default + PartialEq> ParameterReader<'t, A> {
    pub(super) fn new(
        body_tokens: BodyTokens<'t>,
        bodies: &'t [FunctionBody],
        read: ReadParameter<'t, A>,
    ) -> ParameterReader<'t, A> {
        let mut numbers: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, body) in bodies.iter().enumerate() {
            numbers.entry(body.name.as_str()).or_default().push(number);
        }
        ParameterReader { body_tokens, bodies, numbers, known: HashMap::new(), read }
    }

    /// The answers for each function, by the number of the parameter.
    pub(super) fn find_all(mut self) -> Vec<Vec<A>> {
        let bodies = self.bodies;
        let answers_of = |(function, body): (usize, &FunctionBody)| {
            (0..body.parameters.len()).map(|parameter| self.find(function, parameter)).collect()
        };
        bodies.iter().enumerate().map(answers_of).collect()
    }

    fn find(&mut self, function: usize, parameter: usize) -> A {
        if let Some(&known_answer) = self.known.get(&(function, parameter)) {
            return known_answer;
        }
        self.known.insert((function, parameter), A::default());
        let body = &self.bodies[function];
        let declared = body.parameters.get(parameter).filter(|_| parameter < MOST_PARAMETERS);
        let found_answer =
            declared.map_or_else(A::default, |declared| (self.read)(self, body, declared));
        self.known.insert((function, parameter), found_answer);
        found_answer
    }

    /// The answer for the parameter `number` of the function `callee`. Of several with one name a call does not tell which it
    /// means: they have to agree.
    pub(super) fn find_in_callee(&mut self, callee: &str, number: usize) -> A {
        let callees = self.numbers.get(callee).cloned().unwrap_or_default();
        let mut answers = callees.into_iter().map(|callee| self.find(callee, number));
        let Some(first_answer) = answers.next() else { return A::default() };
        if answers.all(|other_answer| other_answer == first_answer) {
            first_answer
        } else {
            A::default()
        }
    }

    /// The functions of this name.
    pub(super) fn functions_named(&self, name: &str) -> impl Iterator<Item = &'t FunctionBody> {
        self.numbers.get(name).into_iter().flatten().map(|&number| &self.bodies[number])
    }
}
