//! What each parameter of a function is to a harness: a size, a tensor, or a value of the call.

use ::replay::frontend::{Parameter, Passed, Place, Program, Signature, Use};
use ::replay::tensor::DType;

use super::dispatches;
use super::types::{Element, Types};

/// The part of a parameter in a harness.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Role {
    /// The number of elements along a dimension.
    Size,
    /// A number that the fixture gives.
    Scalar(DType),
    /// A tensor that is read.
    Input(Element, Extent),
    /// A tensor that is written.
    Output(Element, Extent, Begin),
    /// A text in the call, which no fixture holds; and whether it is a guess.
    Literal(String, bool),
}

/// How much of a tensor the function uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// Its first element alone.
    One,
    /// As much as its name suggests.
    Named,
}

/// What an output holds before the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Anything: the function writes it before it reads it.
    Anything,
    /// Anything, or zeros where the function need not write all of it: the sources do not tell.
    Undecided,
    /// Zeros: the function adds to it, or a version of it leaves it alone.
    Zeros,
    /// A copy of what the fixture holds: the function changes it in place.
    Copy,
}

/// All functions that a project defines, its names of types, and what a source's own program does.
pub struct Project<'a> {
    /// The functions, kernels and device functions among them.
    pub functions: &'a [&'a Signature],
    /// The names.
    pub types: &'a Types,
    /// The `main` of the source.
    pub program: &'a Program,
}

/// Functions are followed through no more others than this.
const MOST_CALLS: usize = 6;

impl Project<'_> {
    /// The functions without arguments by which `main` prepares what the others use: handles, properties of
    /// the device.
    pub fn preparations(&self) -> impl Iterator<Item = &str> {
        let main = self.functions.iter().filter(|function| function.name == "main");
        let calls = main.flat_map(|main| &main.calls).filter(|call| !call.arguments);
        let names = calls.map(|call| call.name.as_str());
        names.filter(|&name| {
            let lower = name.to_lowercase();
            let prepares = ["setup", "set_up", "init"].iter().any(|word| lower.contains(word));
            prepares
                && self.functions.iter().any(|function| {
                    function.name == name && !function.device && function.parameters.is_empty()
                })
        })
    }

    /// The role of `parameter` of `function`.
    pub fn role(&self, function: &Signature, parameter: &Parameter) -> Role {
        let words: Vec<&str> = parameter.ty.split(' ').collect();
        let stars = words.iter().filter(|&&word| word == "*").count();
        let skipped = ["const", "*", "&", "struct", "volatile"];
        let element: Vec<&str> =
            words.iter().copied().filter(|word| !skipped.contains(word)).collect();
        let element = self.named_by_template(function, parameter, &element.join(" "));
        match stars {
            1 => self.pointer(function, parameter, &element),
            0 => self.value(function, parameter, &element),
            _ => Role::Literal("nullptr".to_owned(), false),
        }
    }

    /// With what `main` calls `function`, by the place of its parameters.
    pub fn passed(&self, function: &Signature) -> Vec<Passed> {
        let count = function.parameters.len();
        self.program.passed(&function.name, count).unwrap_or_default()
    }

    /// `element`; where it is a parameter of the function's template, what `main` passes, or float.
    fn named_by_template(
        &self,
        function: &Signature,
        parameter: &Parameter,
        element: &str,
    ) -> String {
        let mut parameters = function.template.iter().flatten();
        if !parameters.any(|parameter| parameter.name == element) {
            return element.to_owned();
        }
        let place = function.parameters.iter().position(|other| other.name == parameter.name);
        let passed = place.and_then(|place| self.passed(function).get(place)?.ty.clone());
        let known = passed.filter(|ty| self.types.dtype(ty).is_some());
        known.unwrap_or("float".to_owned())
    }

    fn pointer(&self, function: &Signature, parameter: &Parameter, element: &str) -> Role {
        let opaque =
            ["cublasHandle_t", "cublasLtHandle_t", "curandState", "curandStatePhilox4_32_10_t"];
        if opaque.contains(&element) {
            return Role::Literal("nullptr".to_owned(), false);
        }
        let element = self.types.element(element);
        let name = parameter.name.to_lowercase();
        let versions = self.versions(function, parameter);
        let leaves = || versions.iter().flatten();
        let first_alone = leaves().count() > 0
            && leaves().all(|leaf| leaf.0 == Place::First)
            && function.parameters.iter().any(|other| other.name != parameter.name);
        let extent = if first_alone { Extent::One } else { Extent::Named };
        let written = leaves().any(|leaf| leaf.1 != Effect::Read);
        if is_const(parameter) || !written && leaves().count() > 0 {
            return Role::Input(element, extent);
        }
        let first = versions.iter().map(|leaves| leaves.first().map(|leaf| leaf.1));
        let first: Vec<Option<Effect>> = first.collect();
        let is = |effect: Effect| first.contains(&Some(effect));
        let begin = match () {
            () if is(Effect::Read) && !is(Effect::Write) => Begin::Copy,
            () if is(Effect::Update) && is_state(&name) => Begin::Copy,
            () if is(Effect::Unknown) => Begin::Undecided,
            () if matches!(first[..], [None]) => Begin::Anything,
            () if first.iter().all(|effect| *effect == Some(Effect::Write)) => Begin::Anything,
            // Some version reads it, adds to it or leaves it alone.
            () => Begin::Zeros,
        };
        Role::Output(element, extent, begin)
    }

    /// What each of the functions that `function` chooses by a number does with `parameter`, or what it does
    /// itself.
    fn versions(&self, function: &Signature, parameter: &Parameter) -> Vec<Vec<(Place, Effect)>> {
        let is_version = |name: &str| {
            let mut named = self.functions.iter().filter(|function| function.name == name);
            named.any(|function| !function.device && function.launches)
        };
        let mut names: Vec<&str> = function.calls.iter().map(|call| call.name.as_str()).collect();
        names.retain(|name| is_version(name));
        names.sort_unstable();
        names.dedup();
        if !dispatches(function) || names.is_empty() {
            return vec![self.leaves(function, &parameter.uses, MOST_CALLS)];
        }
        let of = |name: &&str| {
            let to = |one: &&Use| matches!(one, Use::Passed { to, .. } if to == name);
            let uses: Vec<Use> = parameter.uses.iter().filter(to).cloned().collect();
            self.leaves(function, &uses, MOST_CALLS)
        };
        names.iter().map(of).collect()
    }

    /// Whether one of `uses` writes an infinity.
    pub fn writes_infinity(&self, uses: &[Use]) -> bool {
        self.reaches_infinity(uses, MOST_CALLS)
    }

    fn reaches_infinity(&self, uses: &[Use], depth: usize) -> bool {
        uses.iter().any(|one| match one {
            Use::Infinite => true,
            Use::Passed { to, at } if depth > 0 => {
                let named = self.functions.iter().filter(|function| function.name == *to);
                let mut taken = named.filter_map(|function| function.parameters.get(*at)).take(4);
                taken.any(|parameter| self.reaches_infinity(&parameter.uses, depth - 1))
            }
            _ => false,
        })
    }

    /// What the functions at the end of all calls do, in order.
    fn leaves(&self, function: &Signature, uses: &[Use], depth: usize) -> Vec<(Place, Effect)> {
        let mut found = Vec::new();
        for one in uses {
            match one {
                Use::Read(place) => found.push((*place, Effect::Read)),
                Use::Write(place) => found.push((*place, Effect::Write)),
                Use::Update(place) => found.push((*place, Effect::Update)),
                // A function that the caller chooses may do anything.
                Use::Passed { to, .. } if function.parameters.iter().any(|p| p.name == *to) => {
                    found.push((Place::Any, Effect::Unknown));
                }
                Use::Passed { to, at } if depth > 0 => {
                    let named = self.functions.iter().filter(|function| function.name == *to);
                    let taken = named.filter_map(|f| Some((f, f.parameters.get(*at)?)));
                    for (function, parameter) in taken.take(4) {
                        match is_const(parameter) && parameter.uses.is_empty() {
                            true => found.push((Place::Any, Effect::Read)),
                            false => {
                                found.extend(self.leaves(function, &parameter.uses, depth - 1));
                            }
                        }
                    }
                }
                Use::Passed { .. } | Use::Infinite => {}
            }
        }
        found
    }

    fn value(&self, function: &Signature, parameter: &Parameter, element: &str) -> Role {
        let literal = |text: &str| Role::Literal(text.to_owned(), false);
        let name = parameter.name.to_lowercase();
        match self.types.dtype(element) {
            Some(DType::Bool) => Role::Scalar(DType::Bool),
            Some(dtype) if dtype.is_float() => Role::Scalar(dtype),
            Some(dtype) => match chosen(&parameter.name, &name, &function.name) {
                _ if is_choice(&name) => Role::Scalar(dtype),
                Some(text) => Role::Literal(text.to_owned(), true),
                None => Role::Size,
            },
            None if element == "cudaStream_t" => literal("0"),
            None if ["cublasHandle_t", "cublasLtHandle_t"].contains(&element) => literal(element),
            None => literal("{}"),
        }
    }
}

/// What happens to an element.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    Read,
    Write,
    Update,
    Unknown,
}

/// Whether what `parameter` points to cannot be written.
fn is_const(parameter: &Parameter) -> bool {
    parameter.ty.split('*').next().is_some_and(|pointed| pointed.split(' ').any(|w| w == "const"))
}

/// Names of what an optimizer changes in place.
fn is_state(name: &str) -> bool {
    let words = ["param", "weight", "master", "momentum", "exp_avg", "state", "memory", "velocity"];
    let gradient = name.starts_with('d') || name.contains("grad");
    let short = ["m", "v", "p", "x", "inout", "data", "cache"];
    !gradient && (words.iter().any(|word| name.contains(word)) || short.contains(&name))
}

/// Names of numbers that choose one of several kernels.
pub fn is_choice(name: &str) -> bool {
    ["kernel_num", "kernel", "which", "version", "variant", "kernel_id", "algo"].contains(&name)
}

/// The value of an integer that is no size, by its name as `written` and in small letters.
fn chosen(written: &str, name: &str, function: &str) -> Option<&'static str> {
    let has = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let is = |words: &[&str]| words.contains(&name);
    Some(match () {
        () if has(&["num_blocks", "grid_size", "gridsize", "nblocks"]) => "32",
        () if has(&["sqrt"]) => "16",
        () if has(&["block_size", "blocksize", "threads", "block_dim", "blockdim"]) => "256",
        () if has(&["group_size", "groupsize"]) || is(&["group"]) => "32",
        () if has(&["ignore"]) => "-100",
        () if has(&["seed"]) => "42",
        () if has(&["padding", "offset", "device", "causal", "counter"])
            || is(&["pad", "rank"]) =>
        {
            "0"
        }
        () if has(&["dilation", "groups", "iter", "accum"]) || written == "t" || is(&["step"]) => {
            "1"
        }
        () if has(&["world_size", "num_processes"]) => "1",
        () if has(&["stride"]) && function.contains("conv") => "1",
        () if name.starts_with("is_") || name.starts_with("use_") => "0",
        () => return None,
    })
}
