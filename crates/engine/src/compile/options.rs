//! The command line of the compiler and the linker: options with an effect on bits, the precision, and the folders of
//! headers.

use super::Compiler;
use super::translation::{Translation, list_include_folders, reserved_macros};
use replay_fixture::harness::{CppStandard, Harness};
use replay_frontend::Precision;
use replay_runtime::flags::{CHECKED, FLAGS, PRELUDE, SHADOW};

/// Calls of mathematical functions stay inside of the artifact, and none may be undefined. The linker
/// lists its inputs.
pub(super) const LINK: [&str; 4] = ["-shared", "-Wl,-Bsymbolic", "-Wl,-z,defs", "-Wl,-t"];

/// The words as owned text.
pub(super) fn owned_words<const N: usize>(words: [&str; N]) -> Vec<String> {
    words.map(str::to_owned).into()
}

/// The option to tell the headers the precision; none for the native one.
pub(super) fn precision_flag(precision: Precision) -> Option<String> {
    let flag = match precision {
        Precision::Native => None,
        Precision::Shadow => Some(SHADOW),
        Precision::Checked => Some(CHECKED),
    };
    flag.map(str::to_owned)
}

/// Makes the compiler call a function of ours before each access to memory open to other threads, and leave tables to
/// tell the place of a call. The compiler also compares each address with the alignment of its type.
///
/// g++ tells nothing of an aggregate taken by value from memory in a call, or returned into it. It does tell of
/// constructors and assignments. With `-fno-elide-constructors` it makes all of them: then each such aggregate is a
/// copied temporary.
fn check_flags(compiler: &Compiler) -> Vec<String> {
    let compiler_flags: &[&str] = if compiler.is_clang() {
        &["-mllvm", "-tsan-instrument-func-entry-exit=0", "-mllvm", "-tsan-distinguish-volatile=1"]
    } else {
        &[
            "--param=tsan-instrument-func-entry-exit=0",
            "--param=tsan-distinguish-volatile=1",
            "-fno-elide-constructors",
        ]
    };
    let all_flags =
        ["-g1", "-fsanitize=thread", "-fsanitize=alignment"].iter().chain(compiler_flags);
    all_flags.map(|&word| word.to_owned()).collect()
}

/// What the options depend on that a precompiled header must share with the unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct UnitKind {
    pub standard: CppStandard,
    pub precision: Precision,
    /// Whether the tensors are large enough to spend more of the compiler's time on kernels.
    pub is_large: bool,
    /// Whether host code has tensors of PyTorch.
    pub has_tensors: bool,
}

/// [`PRELUDE`] with the small PyTorch.
const TENSOR_PRELUDE: &str = "replay/torch_prelude.h";

impl UnitKind {
    /// The header before all sources, which can be precompiled.
    pub(super) fn prelude_header(self) -> &'static str {
        if self.has_tensors { TENSOR_PRELUDE } else { PRELUDE }
    }

    /// The options of `compiler` that a precompiled header must share with the unit.
    pub(super) fn options(self, compiler: &Compiler) -> Vec<String> {
        // A replay of a small fixture ends before -O2 has saved the time that it takes.
        let level = if self.is_large { "-O2" } else { "-O1" };
        let mut flags = vec![format!("-std={}", self.standard.name()), level.to_owned()];
        if !self.is_large && !compiler.is_clang() {
            // A function marked `__forceinline__` may be an argument of others there, too.
            flags.push("-findirect-inlining".to_owned());
        }
        flags.extend(owned_words(FLAGS));
        flags.extend(precision_flag(self.precision));
        if self.precision == Precision::Checked {
            flags.extend(check_flags(compiler));
        }
        flags
    }
}

/// The options of `compiler` for the `translated` sources of `harness`, a unit of this `kind`.
pub(super) fn compiler_options(
    compiler: &Compiler,
    harness: &Harness,
    translated: &Translation,
    kind: UnitKind,
) -> Vec<String> {
    let mut flags = kind.options(compiler);
    flags.extend(owned_words(["-include", kind.prelude_header()]));
    flags.extend(translated.lanes.clone());
    flags.extend(reserved_macros(&translated.defines).map(|define| format!("-D{define}")));
    let folders = list_include_folders(harness, &translated.files);
    flags.extend(folders.into_iter().map(|folder| format!("-Itree/{folder}")));
    for folder in &harness.system_include {
        flags.extend(["-isystem".to_owned(), folder.display().to_string()]);
    }
    flags
}
