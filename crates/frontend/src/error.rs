//! Why a file cannot be translated.

/// Why a file cannot be translated. Every message names the file and the line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrontendError {
    /// `<<<` without the other parts of a launch around it.
    #[error("a launch at {path}:{line} cannot be seen")]
    UnseenLaunch {
        path: String,
        /// 1-based.
        line: usize,
    },
    /// As [`FrontendError::UnseenLaunch`], in a `#define`.
    #[error("a launch in the body of macro {name} at {path}:{line} cannot be seen")]
    UnseenMacroLaunch {
        name: String,
        path: String,
        /// 1-based.
        line: usize,
    },
    /// A declaration of shared memory in an unsupported form.
    #[error("shared memory at {path}:{line} cannot be translated: {why}")]
    SharedMemory {
        why: &'static str,
        path: String,
        /// 1-based.
        line: usize,
    },
    /// A feature of the device without a counterpart on the CPU.
    #[error("{what} at {path}:{line} is not supported on the CPU")]
    Unsupported {
        /// The construct, and the function it stands in.
        what: String,
        path: String,
        /// 1-based.
        line: usize,
    },
    /// A launch in a function of the device.
    #[error(
        "a launch from device code (dynamic parallelism) in {function} at {path}:{line} is not supported on the CPU"
    )]
    DeviceLaunch {
        function: String,
        path: String,
        /// 1-based.
        line: usize,
    },
    /// A bracket without its partner, so that the code behind it cannot be read.
    #[error("the bracket `{bracket}` at {path}:{line} is never closed")]
    UnclosedBracket {
        bracket: String,
        path: String,
        /// 1-based.
        line: usize,
    },
    /// An argument of a call in the harness is given by its name, as Python has it.
    #[error("`{name}=` at {path}:{line} names an argument, and C++ would assign to it")]
    KeywordArgument {
        name: String,
        path: String,
        /// 1-based.
        line: usize,
    },
}

impl FrontendError {
    /// The file, and the 1-based line.
    pub fn place(&self) -> (&str, usize) {
        match self {
            Self::UnseenLaunch { path, line }
            | Self::UnseenMacroLaunch { path, line, .. }
            | Self::SharedMemory { path, line, .. }
            | Self::Unsupported { path, line, .. }
            | Self::DeviceLaunch { path, line, .. }
            | Self::UnclosedBracket { path, line, .. }
            | Self::KeywordArgument { path, line, .. } => (path, *line),
        }
    }

    /// A hint for the user, if there is one.
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::UnseenLaunch { .. } => {
                "write it as one statement: kernel<<<grid, block, shared, stream>>>(arguments);"
            }
            Self::UnseenMacroLaunch { .. } => {
                "move the launch from the macro into a function, or write the macro's launch as one complete statement"
            }
            Self::SharedMemory { .. } => {
                "declare it inside the kernel, without initialiser: __shared__ float name[SIZE];"
            }
            Self::Unsupported { .. } | Self::DeviceLaunch { .. } => {
                "guard it with #ifdef __CUDA_ARCH__ and give plain C++ in the #else branch"
            }
            Self::UnclosedBracket { .. } => "close it where its statement ends",
            Self::KeywordArgument { .. } => "give the arguments in the order of the function",
        };
        Some(hint.to_owned())
    }
}
