//! Why a revision has no artifact: the refused code, the program behind the refusal, and a hint for the user.

use std::path::PathBuf;
use std::{fmt, io};

use super::translation::{UNITS, is_unit};
use super::{
    CallPlace, CompilerError, DividedHeader, call_place, entry_point, environment, launch_errors,
};
use replay_base::cache::CacheError;
use replay_base::process::walls::WALLS_HINT;
use replay_cuda::NvrtcError;
use replay_fixture::harness::{Harness, SourcePath};
use replay_frontend::{FrontendError, SourceUnit, find_python_names};
use replay_history::SourceSet;

/// The refused code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RefusedCode {
    Sources,
    /// The call of the harness.
    Call,
    /// The device code of the sources.
    DeviceCode,
}

impl fmt::Display for RefusedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RefusedCode::Sources => "the sources do",
            RefusedCode::Call => "the call does",
            RefusedCode::DeviceCode => "the device code does",
        })
    }
}

/// Kinds of compiler errors with a hint, recognised by their text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    /// A missing header.
    Header,
    /// A header behind the walls of the sandbox, or one that the user may not read.
    Wall,
    /// A template whose arguments cannot be deduced.
    Deduction,
    /// A word or a name of a later standard of C++.
    Standard,
    /// A second definition of a name.
    Redefinition,
    /// A name of PyTorch outside of the small PyTorch for host code.
    Tensors,
    /// Anything else.
    Other,
}

/// What compilers and assemblers say of a file that they may not read. NVRTC says the same of one that is not there; a
/// header that is missing rarely has an absolute path.
const BEHIND_WALLS: [&str; 4] = [
    ": Permission denied",
    "assembler: error: file not found: ",
    "Could not find incbin file ",
    "open source file \"/",
];

/// What GNU's assembler says before an error.
const ASSEMBLER: &str = ": Error: ";

impl About {
    /// The subject of `first_error`.
    pub(super) fn from_message(first_error: &str) -> About {
        if BEHIND_WALLS.iter().any(|words| first_error.contains(words)) {
            About::Wall
        } else if first_error.contains("instance of function template") {
            About::Deduction
        } else if ["No such file", "not found", "cannot open source file"]
            .iter()
            .any(|words| first_error.contains(words))
        {
            About::Header
        } else if ["redefinition of", "conflicting declaration", "typedef redefinition"]
            .iter()
            .any(|words| first_error.contains(words))
        {
            About::Redefinition
        } else if needs_later_standard(first_error) {
            About::Standard
        } else if misses_part_of_pytorch(first_error) {
            About::Tensors
        } else {
            About::Other
        }
    }
}

impl About {
    /// Advice to the user, if there is any.
    fn hint(self) -> Option<String> {
        Some(match self {
            About::Deduction => {
                "write all template arguments at the launch: here the host cannot deduce them for NVRTC"
                    .to_owned()
            }
            About::Header => {
                let withheld = environment::find_withheld_variable().map_or(String::new(), |name| {
                    format!(
                        ", or write it into CXX as in `CXX=\"g++ -isystem DIR\"`: {name} is \
                         not passed on"
                    )
                });
                format!(
                    "name the folder of the header in `include` of the harness, or in \
                     `system_include` where it lies outside of the repository{withheld}"
                )
            }
            About::Wall => {
                "the sandbox lets compilers read the system and the folders in `system_include` of \
                 the harness: name the header's there, or see `replay help sandbox`"
                    .to_owned()
            }
            About::Standard => {
                "if the sources are of C++20 or later, say `standard = \"c++20\"` in the harness"
                    .to_owned()
            }
            About::Tensors => {
                "this part of PyTorch is not among the tensors here (docs/cuda-support.md, \"PyTorch \
                 extensions\"): a harness with a program calls PyTorch itself"
                    .to_owned()
            }
            About::Redefinition | About::Other => return None,
        })
    }

    /// What `sources` tell of the error `first_error` about this.
    fn find_cause(
        self,
        first_error: &str,
        harness: &Harness,
        sources: &SourceSet,
    ) -> Option<SourceFinding> {
        match self {
            About::Header => find_submodule(first_error, harness, sources),
            About::Redefinition => find_repetition(first_error, sources),
            About::Other => find_python_name(first_error, sources)
                .or_else(|| find_other_source(first_error, sources))
                .or_else(|| find_undefined_name(first_error, sources)),
            About::Wall | About::Deduction | About::Standard | About::Tensors => None,
        }
    }
}

/// Advice on the compiler's error `message` about `sources`, if there is any.
pub(super) fn find_fault_hint(
    message: &str,
    harness: &Harness,
    sources: &SourceSet,
) -> Option<String> {
    let about = About::from_message(message);
    let cause = about.find_cause(message, harness, sources);
    cause.map(|cause| cause.hint()).or_else(|| about.hint())
}

/// What the files of a revision tell of a compiler's error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SourceFinding {
    /// The missing header would lie in this submodule.
    Submodule(String),
    /// This header defines a name, and several sources include it.
    RepeatedHeader(String),
    /// This source defines a name that another source or a header defines as well.
    RepeatedName(String),
    /// No source defines the name that this one uses.
    Undefined {
        /// The name.
        name: String,
        /// The source or header.
        path: String,
    },
    /// An unknown name is defined in another source.
    OtherSource {
        /// The name.
        name: String,
        /// The source.
        path: String,
    },
    /// The call names a function as Python does.
    PythonName {
        /// The name in Python.
        name: String,
        /// The function of C++.
        function: String,
        /// File and line of the binding.
        place: String,
    },
}

/// When several sources are one translation unit.
const COMPILED_TOGETHER: &str = "sources are compiled together on a GPU, and where one statement of the call names \
                                 several: let each statement name one";

impl SourceFinding {
    /// Advice to the user.
    fn hint(&self) -> String {
        match self {
            SourceFinding::Submodule(path) => format!(
                "{path} is a submodule, so no revision of this repository holds its headers: check them out \
                 (`git submodule update --init`), and name the folder in `system_include` of the harness"
            ),
            SourceFinding::RepeatedHeader(path) => format!(
                "{path} is read twice, and has no guard such as `#pragma once`: add one; {COMPILED_TOGETHER}"
            ),
            SourceFinding::RepeatedName(path) => {
                format!("{path} defines a name once more; {COMPILED_TOGETHER}")
            }
            SourceFinding::Undefined { name, path } => format!(
                "{path} names `{name}`, and none of `sources` defines it: add the file that does, or link nothing that \
                 needs it"
            ),
            SourceFinding::OtherSource { name, path } => format!(
                "{path} defines `{name}`, and each source is compiled by itself, as nvcc does: declare it where it is used"
            ),
            SourceFinding::PythonName { name, function, place } => format!(
                "`{name}` is the name in Python: {place} binds it to `{function}`, and the call names the function"
            ),
        }
    }
}

/// Beginnings of words and of members of `std` since C++20.
const LATER_NAMES: [&str; 11] = [
    "type_identity",
    "remove_cvref",
    "bit_cast",
    "span",
    "source_location",
    "numbers",
    "ranges",
    "is_constant_evaluated",
    "concept",
    "requires",
    "consteval",
];

/// Whether `message` of a compiler for C++17 is about a later standard.
fn needs_later_standard(message: &str) -> bool {
    let unknown_names = ["not a member of", "does not name", "no type named", "no member named"];
    let says_unknown = unknown_names
        .into_iter()
        .chain(["no template named", "unknown type name", "not been declared", "undeclared"])
        .any(|words| message.contains(words));
    let has_later_name = LATER_NAMES.iter().any(|name| {
        ['‘', '\'', ':'].iter().any(|before| message.contains(&format!("{before}{name}")))
    });
    says_unknown && has_later_name
}

/// Whether `message` of a compiler misses a name in PyTorch's namespaces or classes.
fn misses_part_of_pytorch(message: &str) -> bool {
    let unknown_names =
        ["not a member of", "has no member named", "no member named", "no match for"];
    let says_unknown = unknown_names
        .into_iter()
        .chain(["has not been declared", "no matching function", "invalid operands"])
        .any(|words| message.contains(words));
    let mut words = message.split(|c: char| !c.is_alphanumeric() && !matches!(c, '_' | ':'));
    says_unknown
        && words.any(|word| {
            ["torch", "at", "c10"].contains(&word.split(':').next().unwrap_or_default())
        })
}

/// Why a revision has no artifact.
#[derive(Debug, thiserror::Error)]
pub enum CompileError {
    /// The front end refused a file.
    #[error("the sources cannot be translated")]
    Frontend(#[from] FrontendError),
    /// None of the sources is a translation unit.
    #[error("nothing to compile: no source ends in {}: {}", UNITS.join(", "), .files.join(", "))]
    NoUnit {
        /// At most three of the sources.
        files: Vec<String>,
    },
    /// A header means something else to each of two sources.
    #[error("{0}")]
    DividedHeader(DividedHeader),
    /// A source includes something other than a file.
    #[error("{path}:{line} includes {included}, which is no file")]
    NoFile {
        path: String,
        line: usize,
        /// The included path.
        included: String,
    },
    /// The compiler refused the sources, or every call of the harness.
    #[error("{what} not compile: {first_error}")]
    Refused {
        /// The refused code.
        what: RefusedCode,
        /// The compiler's first error, with file and line.
        first_error: String,
        /// The subject of the first error.
        about: About,
        /// What the sources tell of the error.
        finding: Option<Box<SourceFinding>>,
        /// The whole log.
        log: String,
        /// Where the log is kept.
        log_path: PathBuf,
        /// The line of the harness with the error, if it is there.
        #[source]
        place: Option<Box<CallPlace>>,
    },
    /// The compiler cannot be run.
    #[error(transparent)]
    Compiler(#[from] CompilerError),
    /// NVRTC cannot be used.
    #[error(transparent)]
    Nvrtc(#[from] NvrtcError),
    /// The system refuses the walls around NVRTC.
    #[error("cannot put NVRTC behind walls")]
    Walls(#[source] io::Error),
    /// The cache cannot be used.
    #[error(transparent)]
    Cache(#[from] CacheError),
}

impl CompileError {
    /// Whether the revision is at fault, as opposed to the machine.
    pub fn is_revision_fault(&self) -> bool {
        use CompileError as E;
        matches!(
            self,
            E::Frontend(_)
                | E::NoFile { .. }
                | E::NoUnit { .. }
                | E::DividedHeader(_)
                | E::Refused { .. }
                | E::Compiler(CompilerError::Excess { .. })
        )
    }

    /// With its place in the harness, if it is about call number `call`, compiled in `parts`.
    pub(super) fn placed<'p>(
        mut self,
        harness: &Harness,
        call: usize,
        parts: impl Iterator<Item = &'p str>,
    ) -> CompileError {
        if let CompileError::Refused { what: RefusedCode::Call, first_error, place, .. } = &mut self
        {
            let origin = entry_point::harness_origin(harness);
            let file = entry_point::harness_file_name(harness);
            let call = &harness.calls[call];
            let located = parts
                .filter_map(|part| entry_point::find_call_statements(part, harness))
                .find_map(|statements| {
                    call_place::locate_call_error(first_error, &origin, &file, call, statements)
                });
            if let Some((message, call_place)) = located {
                *first_error = message;
                *place = Some(call_place.into());
            }
        }
        self
    }

    /// With what `sources` tell of the error.
    pub(super) fn with_finding(mut self, harness: &Harness, sources: &SourceSet) -> CompileError {
        if let CompileError::Refused { about, first_error, finding, .. } = &mut self {
            if let Some(named) = launch_errors::name_launched_kernel(first_error, sources) {
                *first_error = named;
            }
            let found = about.find_cause(first_error, harness, sources);
            *finding = found.map(Box::new);
        }
        self
    }

    /// The compiler's log, if the compiler refused the code.
    pub(super) fn refused_log(&self) -> Option<&str> {
        match self {
            CompileError::Refused { log, .. } => Some(log),
            _ => None,
        }
    }

    /// This error of the compiler about a part of the sources, unless `whole`, the error about all of them, shows that
    /// what was left out is to blame: then `whole`.
    pub(super) fn unless_blamed_on(self, whole: CompileError) -> CompileError {
        match (&self, &whole) {
            (CompileError::Refused { first_error, .. }, CompileError::Refused { log, .. })
                if log.contains(first_error) =>
            {
                self
            }
            // The compiler saw this part alone.
            (_, CompileError::Frontend(_)) => self,
            _ => whole,
        }
    }

    /// Whether the compiler refused the call of the harness: another call may fit.
    pub(super) fn blames_call(&self) -> bool {
        matches!(self, CompileError::Refused { what: RefusedCode::Call, .. })
    }

    /// Whether the linker found no definition of a name.
    pub(super) fn blames_linkage(&self) -> bool {
        self.refused_log().is_some_and(|log| log.contains("undefined reference"))
    }

    /// Advice to the user, if there is any.
    pub fn hint(&self) -> Option<String> {
        match self {
            CompileError::Frontend(error) => error.hint(),
            CompileError::NoUnit { .. } => Some(
                "name the .cu files in `sources` of the harness, and folders of headers in `include`"
                    .to_owned(),
            ),
            CompileError::DividedHeader(divided) => Some(divided.hint()),
            CompileError::NoFile { .. } => Some("only files can be included".to_owned()),
            CompileError::Refused { log_path, finding: Some(finding), .. } => {
                Some(format!("{}; the whole log: {}", finding.hint(), log_path.display()))
            }
            CompileError::Refused { log_path, about, .. } => {
                let log = format!("the whole log: {}", log_path.display());
                Some(match about.hint() {
                    Some(hint) => format!("{hint}; {log}"),
                    None => log,
                })
            }
            CompileError::Compiler(error) => error.hint(),
            CompileError::Nvrtc(error) => error.hint(),
            CompileError::Walls(_) => Some(WALLS_HINT.to_owned()),
            CompileError::Cache(error) => error.hint(),
        }
    }
}

/// The function of C++ that `sources` bind to the unknown name of `first_error`.
fn find_python_name(first_error: &str, sources: &SourceSet) -> Option<SourceFinding> {
    let name = parse_unknown_name(first_error)?;
    sources.files.iter().find_map(|file| {
        let text = String::from_utf8_lossy(&file.content);
        let unit = SourceUnit { path: &file.path, text: &text };
        let bound = find_python_names(&unit).into_iter().find(|bound| bound.name == name)?;
        let place = format!("{}:{}", file.path, bound.line);
        Some(SourceFinding::PythonName { name: bound.name, function: bound.function, place })
    })
}

/// The source other than that of `first_error` that defines the unknown name in it.
fn find_other_source(first_error: &str, sources: &SourceSet) -> Option<SourceFinding> {
    let name = parse_unknown_name(first_error)?;
    let (refused_path, _) = first_error.split_once(':')?;
    let other_sources =
        sources.files.iter().filter(|file| is_unit(&file.path) && file.path != refused_path);
    let is_of_source = sources.files.iter().any(|file| file.path == refused_path);
    let source = other_sources.filter(|_| is_of_source).find(|file| {
        let text = String::from_utf8_lossy(&file.content);
        let unit = SourceUnit { path: &file.path, text: &text };
        replay_frontend::collect_own_names(&unit).defined.contains(name)
    })?;
    Some(SourceFinding::OtherSource { name: name.to_owned(), path: source.path.clone() })
}

/// The file of `sources` that names what the linker misses in `first_error`.
fn find_undefined_name(first_error: &str, sources: &SourceSet) -> Option<SourceFinding> {
    let (_, symbol) = first_error.split_once("undefined reference to ")?;
    let symbol = symbol.trim_matches(['`', '\'', '"', '‘', '’']);
    let function = symbol.split(['(', '<']).next().unwrap_or(symbol);
    let name = function.rsplit([':', ' ']).next().filter(|name| !name.is_empty())?;
    let file = sources.files.iter().find(|file| {
        let text = String::from_utf8_lossy(&file.content);
        let mut words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.any(|word| word == name)
    })?;
    Some(SourceFinding::Undefined { name: name.to_owned(), path: file.path.clone() })
}

/// The unknown name in a compiler's error.
fn parse_unknown_name(first_error: &str) -> Option<&str> {
    let unknown_words = ["was not declared", "undeclared identifier", "no member named"];
    if !unknown_words.iter().any(|words| first_error.contains(words)) {
        return None;
    }
    first_error.split(['‘', '’', '\'']).nth(1)
}

/// The submodule of `sources` in which the folders of `harness` would have the header that `first_error` lacks.
fn find_submodule(
    first_error: &str,
    harness: &Harness,
    sources: &SourceSet,
) -> Option<SourceFinding> {
    let header = missing_header(first_error)?;
    let includes = harness.include.iter().flat_map(SourcePath::names);
    let paths: Vec<String> = includes
        .map(|folder| match folder {
            "." => header.to_owned(),
            folder => format!("{folder}/{header}"),
        })
        .collect();
    let holds_header = |submodule: &&String| {
        let folder = format!("{submodule}/");
        paths.iter().any(|path| path.starts_with(&folder))
    };
    sources.submodules.iter().find(holds_header).cloned().map(SourceFinding::Submodule)
}

/// The file of `sources` in which `first_error` is, a second definition.
fn find_repetition(first_error: &str, sources: &SourceSet) -> Option<SourceFinding> {
    let (path, _) = first_error.split_once(':')?;
    let units = sources.files.iter().filter(|file| is_unit(&file.path)).count();
    if units < 2 || sources.files.iter().all(|file| file.path != path) {
        return None;
    }
    Some(if is_unit(path) {
        SourceFinding::RepeatedName(path.to_owned())
    } else {
        SourceFinding::RepeatedHeader(path.to_owned())
    })
}

/// The name of the header in `first_error` about a missing one.
pub(super) fn missing_header(first_error: &str) -> Option<&str> {
    let (_, message) = first_error.split_once("error: ")?;
    let name = match message.split_once(": No such file") {
        Some((name, _)) => name,
        None => message.split(['\'', '"']).nth(1)?,
    };
    Some(name.trim())
}

/// The first error line, of the compiler or of the linker.
pub(super) fn first_error(log: &str) -> String {
    let is_error = |line: &str| {
        ["error: ", "undefined reference", ASSEMBLER].iter().any(|words| line.contains(words))
    };
    let error_number = log.lines().position(is_error);
    let reworded = error_number.and_then(|number| launch_errors::reword_launch_error(log, number));
    let line = match &reworded {
        Some(line) => line.as_str(),
        None => log.lines().nth(error_number.unwrap_or(0)).unwrap_or("no message"),
    };
    // The linker's place is one in machine code, the assembler's in a file of the compiler.
    let line = line.find("undefined reference").map_or(line, |begin| &line[begin..]);
    if let Some((_, message)) = line.split_once(ASSEMBLER) {
        return format!("assembler: error: {}", message.trim());
    }
    line.trim().trim_start_matches("tree/").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_behind_walls_are_told_by_every_compiler_and_assembler() {
        for (log, message) in [
            (
                "/tmp/ccZ.s: Assembler messages:\n/tmp/ccZ.s:4: Error: file not found: /home/me/.ssh/id\n",
                "assembler: error: file not found: /home/me/.ssh/id",
            ),
            (
                "<inline asm>:1:9: error: Could not find incbin file '/home/me/.ssh/id'\n",
                "<inline asm>:1:9: error: Could not find incbin file '/home/me/.ssh/id'",
            ),
            (
                "tree/k.cu:1:10: fatal error: /home/me/.ssh/id: Permission denied\n",
                "k.cu:1:10: fatal error: /home/me/.ssh/id: Permission denied",
            ),
        ] {
            let first_error = first_error(log);
            assert_eq!(first_error, message);
            assert_eq!(About::from_message(&first_error), About::Wall, "{message}");
        }
        let unknown = first_error("/tmp/ccZ.s:4: Error: no such instruction: `jump x'\n");
        assert_eq!(unknown, "assembler: error: no such instruction: `jump x'");
        assert_eq!(About::from_message(&unknown), About::Other);
    }

    #[test]
    fn a_missing_part_of_pytorch_is_told_from_other_missing_names() {
        for message in [
            "a.cu:3:9: error: ‘softmax’ is not a member of ‘torch’",
            "a.cu:3:9: error: ‘class at::Tensor’ has no member named ‘softmax’",
            "a.cu:3:9: error: 'torch::nn' has not been declared",
            "a.cu:3:9: error: no match for ‘operator+’ (operand types are ‘at::Tensor’ and ‘at::Tensor’)",
        ] {
            assert_eq!(About::from_message(message), About::Tensors, "{message}");
        }
        for message in [
            "a.cu:3:9: error: ‘sum’ is not a member of ‘mine’",
            "a.cu:3:9: error: ‘struct format::at’ is private",
            "a.cu:3:9: error: ‘x’ was not declared in this scope",
        ] {
            assert_eq!(About::from_message(message), About::Other, "{message}");
        }
    }
}
