//! Reasons: why the threads of a kernel keep stacks of their own, and why a shuffle is a wait of its own.
//!
//! They are made where it is decided, in the words of somebody who wants the faster form.

use std::fmt::{self, Display, Formatter};

/// Why the threads of a kernel keep stacks of their own. The names are those of the source.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum StackReason {
    /// A word for a wait elsewhere than at a barrier.
    Waits {
        /// The word in the kernel.
        word: String,
        /// The names on the way to the wait; empty if the word waits itself.
        through: Vec<String>,
    },
    /// A macro with a possible way out of its statement, or with an unclosed bracket.
    MacroLeaves {
        /// The word in the kernel.
        word: String,
        /// The names on the way to the macro; empty if the word is the macro.
        through: Vec<String>,
    },
    /// A shuffle outside of a chain.
    Shuffle {
        /// The function.
        shuffle: String,
        /// Why it is none.
        why: ShuffleReason,
    },
    /// A chain of shuffles of something else than the thread's own number of 32 or 64 bits.
    ShuffledVariable(String),
    /// An atomic whose arguments may wait.
    AtomicArguments(String),
    /// An operator of the sources waits; tokens do not show its use.
    OperatorWaits,
    /// `__syncthreads` in an expression, or with arguments.
    BarrierInExpression,
    /// A barrier below `switch`.
    BarrierInSwitch,
    /// A barrier below a range-based `for`, or one whose head is not of three parts.
    LoopOverRange,
    /// A barrier below a condition with a declaration in it, or below `if constexpr`.
    Condition,
    /// A declaration in front of a barrier, with its first word: no jump can pass by it.
    Declaration(String),
    /// A declaration to be moved in front of the loop over the threads depends on this variable.
    DeclarationDependsOn(String),
    /// The type of a variable depends on this name.
    TypeDependsOn(String),
    /// A type with a destructor, or perhaps with one.
    Destructor(String),
    /// An array whose size only its initialiser tells.
    ArrayWithoutSize(String),
    /// A name of two variables.
    DeclaredTwice(String),
    /// Parameters in an unknown form.
    Parameters,
    /// A macro with possible declarations of variables.
    MacroDeclares(String),
    /// A macro with the name of a variable of the kernel in its expansion.
    MacroNames(String),
    /// A word reserved for the rewritten kernel, or a word with others hidden in it.
    ReservedWord(String),
    /// A lambda, or an attribute in brackets.
    Lambda,
    /// A literal over several lines.
    LongLiteral,
    /// A preprocessor line other than `#pragma`.
    Directive,
    /// A label.
    Label,
    /// A statement in an unknown form.
    Statement,
    /// Statements nested deeper than this many levels.
    Depth(usize),
    /// More than this many words.
    Length(usize),
    /// A name with more declarations than this.
    ManyDeclarations(usize),
    /// A `#line` directive in the file: its line numbers may mislead.
    LineDirective,
    /// A bracket opened or closed in some branches of the preprocessor alone.
    BracketAlternatives,
}

impl Display for StackReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            StackReason::Waits { word, through } => {
                write!(
                    f,
                    "{word}{} may wait elsewhere than at a barrier of the kernel",
                    describe_call_path(through)
                )
            }
            StackReason::MacroLeaves { word, through } => {
                write!(f, "the macro {word}{} may leave its statement", describe_call_path(through))
            }
            StackReason::Shuffle { shuffle, why } => write!(f, "{shuffle}: {why}"),
            StackReason::ShuffledVariable(name) => write!(
                f,
                "a chain of shuffles of {name}, which is not a number of 32 or 64 bits of the thread's own"
            ),
            StackReason::AtomicArguments(name) => write!(f, "arguments of {name} that may wait"),
            StackReason::OperatorWaits => f.write_str("an operator of the sources waits"),
            StackReason::BarrierInExpression => {
                f.write_str("a barrier that is not a statement of its own")
            }
            StackReason::BarrierInSwitch => f.write_str("a barrier below switch"),
            StackReason::LoopOverRange => f.write_str("a barrier below a loop over a range"),
            StackReason::Condition => {
                f.write_str("a barrier below a condition that declares or is constant")
            }
            StackReason::Declaration(first) => write!(
                f,
                "a declaration that begins with {first}, in front of a barrier: a jump cannot pass by"
            ),
            StackReason::DeclarationDependsOn(name) => {
                write!(f, "a constant or shared array that depends on {name}")
            }
            StackReason::TypeDependsOn(name) => write!(f, "a type that depends on {name}"),
            StackReason::Destructor(name) => {
                write!(f, "{name}, whose type may have a destructor")
            }
            StackReason::ArrayWithoutSize(name) => write!(f, "the array {name} without a size"),
            StackReason::DeclaredTwice(name) => write!(f, "{name} is declared twice"),
            StackReason::Parameters => f.write_str("parameters that are not understood"),
            StackReason::MacroDeclares(name) => write!(f, "the macro {name} may declare variables"),
            StackReason::MacroNames(name) => {
                write!(f, "the macro {name} names a variable of the kernel")
            }
            StackReason::ReservedWord(word) => write!(f, "the word {word}"),
            StackReason::Lambda => f.write_str("a lambda or an attribute"),
            StackReason::LongLiteral => f.write_str("a literal of several lines"),
            StackReason::Directive => f.write_str("a preprocessor line"),
            StackReason::Label => f.write_str("a label"),
            StackReason::Statement => f.write_str("a statement that is not understood"),
            StackReason::Depth(most) => write!(f, "statements nested deeper than {most} levels"),
            StackReason::Length(most) => write!(f, "a kernel of more than {most} words"),
            StackReason::ManyDeclarations(most) => {
                write!(f, "a name that is declared more than {most} times")
            }
            StackReason::LineDirective => f.write_str("a #line directive in the file"),
            StackReason::BracketAlternatives => {
                f.write_str("a bracket of the file that depends on the preprocessor")
            }
        }
    }
}

/// ` > a > b`: the names on the way from a word to its effect.
fn describe_call_path(through: &[String]) -> String {
    through.iter().map(|name| format!(" > {name}")).collect()
}

/// Why a shuffle is a wait of its own and not part of a chain.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case", tag = "kind", content = "detail")]
pub enum ShuffleReason {
    /// It is not of the form `x OP= shuffle(mask, x, distance)`.
    NotCombined,
    /// The mask holds more than numbers and variables of the thread alone.
    Mask(String),
    /// The same of the width.
    Width(String),
    /// The same of the distance.
    Distance(String),
    /// The head of the loop around it does not count a variable of its own from a constant to another.
    LoopHead(String),
    /// The lanes combine the loop's counter, or a variable in its head.
    LoopVariable(String),
    /// A macro, a device's variable or a member: other threads may see it.
    SharedVariable(String),
    /// The loop around it does more than this step.
    LongLoop,
    /// One step alone.
    Single,
    /// A preprocessor line in front of its loop, or brackets or lines of the file under one.
    Directive,
}

impl Display for ShuffleReason {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            ShuffleReason::NotCombined => {
                f.write_str("its result is not combined with the lane's own value in one statement")
            }
            ShuffleReason::Mask(mask) => write!(f, "the mask {mask} may change between steps"),
            ShuffleReason::Width(width) => write!(f, "the width {width} may change between steps"),
            ShuffleReason::Distance(distance) => {
                write!(f, "the distance {distance} may change between steps")
            }
            ShuffleReason::LoopHead(head) => {
                write!(f, "the loop does not only count a variable of its own: ({head})")
            }
            ShuffleReason::LoopVariable(name) => {
                write!(f, "{name} decides about the steps and changes in them")
            }
            ShuffleReason::SharedVariable(name) => {
                write!(f, "{name} may be more than a variable of the thread")
            }
            ShuffleReason::LongLoop => f.write_str("its loop does more than this step"),
            ShuffleReason::Single => {
                f.write_str("one step alone, neither in a loop of its own nor behind another")
            }
            ShuffleReason::Directive => {
                f.write_str("a preprocessor line that may change what stands here")
            }
        }
    }
}

/// A reason, and where in the kernel it stands.
#[derive(Clone, Debug)]
pub(super) struct StackRefusal {
    pub why: StackReason,
    /// The token; none if it is the kernel as a whole.
    pub at: Option<usize>,
}

impl StackReason {
    /// The refusal for the code at token `at`.
    pub(super) fn at(self, at: usize) -> StackRefusal {
        StackRefusal { why: self, at: Some(at) }
    }
}

impl From<StackReason> for StackRefusal {
    fn from(why: StackReason) -> StackRefusal {
        StackRefusal { why, at: None }
    }
}
