//! Checks what the code of one function calls, reads and writes.

use std::collections::BTreeSet;

use super::{File, names};
use crate::frontend::FrontendError;
use crate::frontend::lexer::Kind;
use crate::frontend::spaces::{Place, Space};

/// The code of one function, or of a harness's call.
pub(super) struct Code<'c> {
    pub file: &'c File<'c>,
    /// The function, for messages.
    pub name: &'c str,
    pub space: Space,
    /// The names that the function declares itself.
    pub local: BTreeSet<&'c str>,
}

impl Code<'_> {
    fn runs_on_device(&self) -> bool {
        matches!(self.space, Space::Device | Space::Kernel)
    }

    /// The name of the identifier at `at`, and its qualifier, if it may stand for something of
    /// namespace scope or of a library.
    fn name(&self, at: usize) -> Option<(&str, &str)> {
        let (file, word) = (self.file, self.file.word(at));
        match file.before(at) {
            "." | "->" | "#" | "##" => None,
            "::" => match at.checked_sub(2).map(|before| file.tokens[before]) {
                Some(scope) if scope.kind == Kind::Ident => Some((word, scope.text(file.text()))),
                Some(scope) if scope.is(file.text(), ">") => None,
                _ => Some((word, "")),
            },
            _ if self.local.contains(word) => None,
            _ => Some((word, "")),
        }
    }

    /// The error for the code at `at`; `does` says what it does.
    fn refused(&self, at: usize, does: &str, hint: &'static str) -> FrontendError {
        let side = if self.runs_on_device() { "device" } else { "host" };
        self.file.refused(at, format!("{side} code in {} {does}", self.name), hint)
    }

    /// Refuses the identifier at `at` if it may not stand in this code.
    pub(super) fn check(&self, at: usize) -> Result<(), FrontendError> {
        let file = self.file;
        if self.runs_on_device() {
            self.check_language(at)?;
        }
        let Some((word, scope)) = self.name(at) else { return Ok(()) };
        if file.is_called(at) {
            self.check_call(at, word, scope)?;
        } else if scope == "std" && self.runs_on_device() {
            self.check_library(at, word, scope)?;
        }
        self.check_variable(at, word, scope)
    }

    /// Refuses language constructs that device code may not hold, whatever the names in it.
    fn check_language(&self, at: usize) -> Result<(), FrontendError> {
        let word = self.file.word(at);
        let hint = match word {
            "throw" | "try" => "device code has no exceptions; return a code, or call __trap()",
            "typeid" | "dynamic_cast" => "device code has no type information at run time",
            "thread_local" => "variables of device code belong to their thread without it",
            "__constant__" => "declare it outside of the function",
            _ => return Ok(()),
        };
        Err(self.refused(at, &format!("uses {word}"), hint))
    }

    fn check_call(&self, at: usize, word: &str, scope: &str) -> Result<(), FrontendError> {
        let (spaces, device) = (self.file.spaces, self.runs_on_device());
        let own = (scope != "std" && !names::is_shared(word)).then(|| spaces.function(word));
        let (does, hint) = match own.flatten() {
            Some(Space::Host) if device => (
                format!("calls the host function {word}"),
                "mark the function __host__ __device__, or constexpr",
            ),
            Some(Space::Device) if !device => (
                format!("calls the device function {word}"),
                "mark the function __host__ __device__, or call it in a kernel",
            ),
            Some(Space::Kernel) => (
                format!("calls the kernel {word} without <<<...>>>"),
                "launch it from host code: kernel<<<grid, block>>>(arguments);",
            ),
            _ if spaces.declares(word) => return Ok(()),
            _ if device => return self.check_library(at, word, scope),
            _ if scope.is_empty() && names::is_device_function(word) => (
                format!("calls {word}, which is for device code alone,"),
                "call it in a kernel; guard it with #ifdef __CUDA_ARCH__ in a function for both",
            ),
            _ => return Ok(()),
        };
        Err(self.refused(at, &does, hint))
    }

    /// Refuses names that the host's libraries have and the device's lack.
    fn check_library(&self, at: usize, word: &str, scope: &str) -> Result<(), FrontendError> {
        let (name, known) = match scope {
            "std" => (format!("std::{word}"), names::is_host_std(word)),
            "" => (word.to_owned(), self.file.is_called(at) && names::is_host_function(word)),
            _ => return Ok(()),
        };
        let hint = "device code has mathematics, printf, assert, memcpy, memset, malloc and free, and \
                    of C++ what is constexpr";
        match known {
            true => {
                Err(self.refused(at, &format!("uses {name}, which is for host code alone,"), hint))
            }
            false => Ok(()),
        }
    }

    fn check_variable(&self, at: usize, word: &str, scope: &str) -> Result<(), FrontendError> {
        let (file, device) = (self.file, self.runs_on_device());
        if scope == "std" || file.before(at) == "goto" || file.is(at + 1, "::") {
            return Ok(());
        }
        let on_host = self.space == Space::Host;
        let index = || scope.is_empty() && file.is(at + 1, ".") && names::is_device_variable(word);
        let (does, hint) = match file.spaces.variable(word) {
            Some(Place::Host) if device => (
                format!("uses the host variable {word}"),
                "mark it __device__ or __managed__, make it const, or pass it to the kernel",
            ),
            Some(Place::Constant) if device && self.is_written(at) => (
                format!("writes the __constant__ variable {word}"),
                "host code writes it, by cudaMemcpyToSymbol",
            ),
            Some(Place::Device | Place::Constant) if on_host && !self.is_symbol(at) => {
                let hint = "read it by cudaMemcpyFromSymbol, write it by cudaMemcpyToSymbol, or mark \
                            it __managed__";
                let mut error = self.refused(at, &format!("uses the device variable {word}"), hint);
                if let FrontendError::Restriction { why, .. } = &mut error {
                    *why = "on a GPU that is a copy which no kernel sees";
                }
                return Err(error);
            }
            None if on_host && index() && !file.spaces.declares(word) => (
                format!("uses {word}, which is for device code alone,"),
                "use it in a kernel, or in a function that is marked __device__",
            ),
            _ => return Ok(()),
        };
        Err(self.refused(at, &does, hint))
    }

    /// Whether the variable at `at` is assigned to, or counted up or down.
    fn is_written(&self, at: usize) -> bool {
        let file = self.file;
        let touches = |first: usize| {
            let pair = file.tokens.get(first).zip(file.tokens.get(first + 1));
            pair.is_some_and(|(first, second)| first.end == second.start)
        };
        let doubled = |first: usize, sign: &str| {
            file.is(first, sign) && file.is(first + 1, sign) && touches(first)
        };
        let mut next = at + 1;
        loop {
            next = match file.word(next) {
                "[" => match file.tokens.skip_group(next) {
                    Some(after) => after,
                    None => return false,
                },
                "." => next + 2,
                _ => break,
            };
        }
        let compound = matches!(file.word(next), "+" | "-" | "*" | "/" | "%" | "&" | "|" | "^");
        let assigned = file.is(next, "=") && !(file.is(next + 1, "=") && touches(next));
        let combined = compound && file.is(next + 1, "=") && touches(next);
        let counted =
            ["+", "-"].iter().any(|sign| doubled(next, sign) || at >= 2 && doubled(at - 2, sign));
        assigned || combined || counted
    }

    /// Whether host code may name the device's variable at `at`: as a symbol of the runtime API, for
    /// its address, or as an argument that may be a reference.
    fn is_symbol(&self, at: usize) -> bool {
        let file = self.file;
        if file.before(at) == "&" {
            return true;
        }
        let alone = matches!(file.before(at), "(" | ",") && matches!(file.word(at + 1), ")" | ",");
        // The call whose arguments it stands among.
        let mut depth = 0usize;
        for open in (1..at).rev() {
            match file.word(open) {
                ")" | "]" | "}" => depth += 1,
                "(" if depth == 0 => {
                    let callee = file.before(open);
                    let is_call = file.is_ident(open - 1) && callee != "printf";
                    return callee.contains("Symbol") || alone && is_call;
                }
                ";" | "{" if depth == 0 => return false,
                "(" | "[" | "{" => depth = depth.saturating_sub(1),
                _ => {}
            }
        }
        false
    }
}
