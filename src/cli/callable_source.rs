//! The CUDA sources of a repository: the functions to call, and the headers within their reach.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use ::replay::files;
use ::replay::frontend::{
    FunctionSignature, SourceUnit, find_function_signatures, find_functions_that_name, may_launch,
    scan_symbols, tighten_launches,
};

use super::draft::{TypeNames, are_passes_of_one, is_backward, takes_tensors};
use super::error::{CliResult, CommandError, ErrorContext};

/// Possible CUDA sources and headers.
pub const CODE: [&str; 5] = ["cu", "cuh", "h", "hpp", "inl"];

/// A CUDA source with callable functions.
pub struct CallableSource {
    /// From the root of the repository, as a harness names it.
    pub path: String,
    pub text: String,
    pub functions: Vec<FunctionSignature>,
    pub headers: ReachedHeaders,
    /// The functions of its headers that launch kernels.
    header_launchers: BTreeSet<String>,
    pub types: TypeNames,
}

impl CallableSource {
    /// Host functions with launches and pointers, tensors or objects that hold some; kernels where there is no such
    /// function.
    pub fn worth_calling(&self) -> Vec<&FunctionSignature> {
        let launching = self.functions.iter().filter(|function| {
            is_host(function)
                && function.launches
                && function.name != "main"
                && (takes_tensors(function)
                    || takes_pointers(function)
                    || self.takes_object(function))
        });
        let called: Vec<&FunctionSignature> = launching.collect();
        if called.is_empty() {
            self.functions.iter().filter(|function| function.kernel).collect()
        } else {
            called
        }
    }

    /// The names of its folders and of its file, without endings.
    pub fn path_parts(&self) -> impl Iterator<Item = &str> {
        self.path.trim_end_matches(".cu").split('/')
    }

    /// Whether `other` is the other pass of the same operation, by the names of the files and of their folders.
    pub fn is_other_pass(&self, other: &CallableSource) -> bool {
        let mut differing_parts =
            self.path_parts().zip(other.path_parts()).filter(|(own, other)| own != other);
        let Some(first) = differing_parts.next() else { return false };
        let mut all_parts = [first].into_iter().chain(differing_parts);
        self.path_parts().count() == other.path_parts().count()
            && all_parts.all(|(own, other)| {
                are_passes_of_one(own, other) && is_backward(own) == is_backward(first.0)
            })
    }

    /// Its headers and itself.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        let headers = self.headers.headers.iter().map(|(_, text)| text.as_str());
        headers.chain([self.text.as_str()])
    }

    /// Whether one of its functions is one of `names`.
    pub fn has_any(&self, names: &[String]) -> bool {
        self.functions.iter().any(|function| names.contains(&function.name))
    }

    /// Whether one of the functions `names`, of its own or of its headers, launches a kernel.
    pub fn launches_in(&self, names: &BTreeSet<String>) -> bool {
        let mut functions = self.functions.iter();
        functions.any(|function| function.launches && names.contains(&function.name))
            || !self.header_launchers.is_disjoint(names)
    }

    fn takes_object(&self, function: &FunctionSignature) -> bool {
        let mut parameters = function.parameters.iter();
        parameters.any(|parameter| self.types.plain_struct(&parameter.ty).is_some())
    }
}

/// The `sources`, each once.
pub fn unite_sources<'s>(
    sources: impl Iterator<Item = &'s CallableSource>,
) -> Vec<&'s CallableSource> {
    let mut united: Vec<&CallableSource> = Vec::new();
    for source in sources {
        if !united.iter().any(|known| known.path == source.path) {
            united.push(source);
        }
    }
    united
}

/// Whether code on the host can call `function`.
pub fn is_host(function: &FunctionSignature) -> bool {
    !function.kernel && !function.device
}

/// Whether a function computes gradients or a loss, by its name.
pub fn is_gradient_or_loss(function: &&FunctionSignature) -> bool {
    is_backward(&function.name) || function.name.contains("loss")
}

fn takes_pointers(function: &FunctionSignature) -> bool {
    function.parameters.iter().any(|parameter| parameter.ty.contains('*'))
}

/// The text of the source at `path`.
///
/// # Errors
/// It cannot be read.
pub fn read_source_text(path: &Path) -> CliResult<String> {
    let bytes = files::read_regular_file(path, files::SOURCE_BYTES)
        .context(|| format!("cannot read {}", path.display()))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Finds what the source at `path` with this `text` offers in the repository at `root`; `files` are all its possible headers.
///
/// # Errors
/// It lies elsewhere, or has a name that a harness cannot hold.
pub fn find_callable_source(
    path: &Path,
    text: &str,
    root: &Path,
    files: &[PathBuf],
) -> CliResult<CallableSource> {
    let Ok(relative_path) = path.strip_prefix(root) else {
        let message = format!("{} lies outside of the repository", path.display());
        return Err(CommandError::new(message));
    };
    let Some(relative_text) = relative_path.to_str() else {
        let message = format!("the name {} is not UTF-8", relative_path.display());
        return Err(CommandError::new(message));
    };
    let text = tighten_launches(text).unwrap_or_else(|| text.to_owned());
    let unit = SourceUnit { path: relative_text, text: &text };
    let headers = ReachedHeaders::of_source(path, &text, files);
    let mut functions = find_function_signatures(&unit, &scan_symbols(&[unit]));
    let header_launchers = headers.find_launchers();
    let launching = find_functions_that_name(&unit, &header_launchers);
    for function in &mut functions {
        function.launches |= launching.contains(&function.name);
    }
    let path = relative_text.to_owned();
    let types = TypeNames::default();
    let source = CallableSource { path, text, functions, headers, header_launchers, types };
    Ok(CallableSource { types: TypeNames::from_texts(source.texts()), ..source })
}

/// The files below `folder` that end in one of `endings`, outside of hidden and built folders.
pub fn collect_files(folder: &Path, depth: usize, endings: &[&str], files: &mut Vec<PathBuf>) {
    const DEEPEST: usize = 12;
    const BUILT: [&str; 4] = ["target", "build", "node_modules", "__pycache__"];
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < DEEPEST && !name.starts_with('.') && !BUILT.contains(&&*name) {
            collect_files(&entry.path(), depth + 1, endings, files);
        } else if kind.is_file()
            && name.rsplit_once('.').is_some_and(|(_, extension)| endings.contains(&extension))
        {
            files.push(entry.path());
        }
    }
}

/// The headers of the repository within reach of a source.
pub struct ReachedHeaders {
    /// Their paths, with their texts.
    pub headers: Vec<(PathBuf, String)>,
    /// The folders that their names are relative to.
    pub folders: Vec<PathBuf>,
}

impl ReachedHeaders {
    /// The functions of the host that launch kernels, also by one another.
    fn find_launchers(&self) -> BTreeSet<String> {
        let units: Vec<SourceUnit<'_>> =
            self.headers.iter().map(|(_, text)| SourceUnit { path: "", text }).collect();
        let mut launchers = BTreeSet::new();
        for unit in units.iter().filter(|unit| may_launch(unit.text)) {
            let functions = find_function_signatures(unit, &scan_symbols(&[*unit]));
            let launching = functions.into_iter().filter(|f| is_host(f) && f.launches);
            launchers.extend(launching.map(|function| function.name));
        }
        loop {
            let known_count = launchers.len();
            for unit in &units {
                if launchers.iter().any(|launcher| unit.text.contains(launcher)) {
                    launchers.extend(find_functions_that_name(unit, &launchers));
                }
            }
            if launchers.len() == known_count {
                return launchers;
            }
        }
    }

    /// Those included by the source at `path` with `text`, directly or through others; `files` are all candidates.
    fn of_source(path: &Path, text: &str, files: &[PathBuf]) -> ReachedHeaders {
        let mut reached = ReachedHeaders { headers: Vec::new(), folders: Vec::new() };
        reached.add_included(path, text, files);
        let mut next = 0;
        while next < reached.headers.len() {
            let (path, text) = reached.headers[next].clone();
            reached.add_included(&path, &text, files);
            next += 1;
        }
        reached
    }

    fn add_included(&mut self, includer: &Path, text: &str, files: &[PathBuf]) {
        for line in text.lines() {
            let Some((header, folder)) = resolve_include(line, includer, files) else { continue };
            if !self.folders.contains(&folder) {
                self.folders.push(folder);
            }
            if self.headers.iter().any(|(known_header, _)| *known_header == header) {
                continue;
            }
            if let Ok(bytes) = files::read_regular_file(&header, files::SOURCE_BYTES) {
                self.headers.push((header, String::from_utf8_lossy(&bytes).into_owned()));
            }
        }
    }
}

/// The header of `files` that `line` of `includer` includes, and the folder that its name is relative to; none for headers
/// of the system. Of several headers the one nearest to `includer` is meant.
fn resolve_include(line: &str, includer: &Path, files: &[PathBuf]) -> Option<(PathBuf, PathBuf)> {
    let directive = line.trim_start().strip_prefix('#')?;
    let included = directive.trim_start().strip_prefix("include")?.trim();
    let is_quoted = included.starts_with('"');
    let name = included.trim_start_matches(['"', '<']).split(['"', '>']).next()?;
    let name = Path::new(name);
    if is_quoted && let Ok(beside) = fs::canonicalize(includer.parent()?.join(name)) {
        let has_plain_name = beside.ends_with(name);
        let depth = if has_plain_name { name.components().count() } else { 1 };
        let folder = beside.ancestors().nth(depth)?.to_owned();
        return files.contains(&beside).then_some((beside, folder));
    }
    if !is_quoted && is_system_header(name) {
        return None;
    }
    let common_length = |file: &Path| {
        file.components().zip(includer.components()).take_while(|(own, other)| own == other).count()
    };
    let candidates = files.iter().filter(|file| file.ends_with(name));
    // Of equally near ones the first counts.
    let header = candidates.rev().max_by_key(|file| common_length(file))?;
    let folder = header.ancestors().nth(name.components().count())?;
    Some((header.clone(), folder.to_owned()))
}

/// Whether the system, or its C++ compiler, has a header `name`.
fn is_system_header(name: &Path) -> bool {
    let mut folders = vec![PathBuf::from("/usr/include"), PathBuf::from("/usr/local/include")];
    let of_compiler = format!("/usr/lib/gcc/{}-linux-gnu", std::env::consts::ARCH);
    for parent in ["/usr/include", "/usr/include/c++", of_compiler.as_str()] {
        let entries = fs::read_dir(parent).into_iter().flatten().flatten();
        let versions = entries.map(|entry| entry.path()).filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.ends_with("-linux-gnu") || name.starts_with(|c: char| c.is_ascii_digit())
        });
        folders.extend(versions.flat_map(|version| [version.join("include"), version]));
    }
    folders.iter().any(|folder| folder.join(name).is_file())
}
