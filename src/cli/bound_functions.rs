//! What the sources of a repository bind for Python: functions of tensors that launch kernels, in whatever files these are.

use std::cell::OnceCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use ::replay::files;
use ::replay::frontend::{
    FunctionSignature, FunctionWords, SourceUnit, binds_functions, find_python_names,
    list_function_words,
};

use super::callable_source::{CallableSource, collect_files, is_host, read_callable_source};
use super::draft::takes_tensors;

/// The endings of sources, C++ and CUDA.
const SOURCES: [&str; 4] = ["cc", "cpp", "cu", "cxx"];

/// A function that Python calls.
pub struct BoundFunction<'s> {
    pub signature: &'s FunctionSignature,
    /// The functions within its reach, itself among them.
    pub reached: BTreeSet<String>,
    /// The sources that define them, its own first.
    pub sources: Vec<&'s CallableSource>,
}

/// The sources of a repository.
pub struct BoundSources {
    sources: Vec<BoundSource>,
    /// The names of the functions that one of them binds.
    bound_names: BTreeSet<String>,
}

/// A source, read as far as it is asked for.
struct BoundSource {
    path: PathBuf,
    text: String,
    root: PathBuf,
    headers: Vec<PathBuf>,
    callable: OnceCell<Option<CallableSource>>,
    functions: OnceCell<Vec<FunctionWords>>,
}

impl BoundSources {
    /// The sources below `folder`, if one of them binds functions; `headers` are the headers there, and `root` is that of the
    /// repository.
    pub fn find(folder: &Path, headers: &[PathBuf], root: &Path) -> Option<BoundSources> {
        let mut paths = Vec::new();
        collect_files(folder, 0, &SOURCES, &mut paths);
        paths.sort();
        let mut sources = Vec::new();
        let mut bound_names = BTreeSet::new();
        for path in paths {
            let Ok(bytes) = files::read_regular_file(&path, files::SOURCE_BYTES) else { continue };
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if binds_functions(&text) {
                let unit = SourceUnit { path: "", text: &text };
                bound_names.extend(find_python_names(&unit).into_iter().map(|name| name.function));
            }
            sources.push(BoundSource {
                path,
                text,
                root: root.to_owned(),
                headers: headers.to_owned(),
                callable: OnceCell::new(),
                functions: OnceCell::new(),
            });
        }
        (!bound_names.is_empty()).then_some(BoundSources { sources, bound_names })
    }

    /// The bound functions that take tensors and launch kernels, also through one another, by the sources that define them.
    pub fn list_functions(&self) -> Vec<Vec<BoundFunction<'_>>> {
        let mut by_source = Vec::new();
        for source in &self.sources {
            let is_bound = |name: &String| source.text.contains(name.as_str());
            let Some(callable) =
                source.callable().filter(|_| self.bound_names.iter().any(is_bound))
            else {
                continue;
            };
            let bound = callable.functions.iter().filter(|function| {
                self.bound_names.contains(&function.name)
                    && is_host(function)
                    && function.template.is_none()
                    && takes_tensors(function)
            });
            let functions: Vec<BoundFunction<'_>> = bound
                .map(|function| self.skip_wrappers(function, source))
                .filter_map(|(function, source)| self.follow(function, source))
                .collect();
            if !functions.is_empty() {
                by_source.push(functions);
            }
        }
        by_source
    }

    /// The function with a body of its own behind `signature` of `source`, which may check its arguments and pass them on.
    fn skip_wrappers<'s>(
        &'s self,
        signature: &'s FunctionSignature,
        source: &'s BoundSource,
    ) -> (&'s FunctionSignature, &'s BoundSource) {
        let Some(name) = &signature.tensors.forwards_to else { return (signature, source) };
        for definer in self.find_definitions(name, source) {
            let mut functions = definer.callable().into_iter().flat_map(|found| &found.functions);
            let behind = functions.find(|function| {
                function.name == *name
                    && function.template.is_none()
                    && takes_tensors(function)
                    && function.parameters.len() == signature.parameters.len()
            });
            if let Some(behind) = behind {
                return (behind, definer);
            }
        }
        (signature, source)
    }

    /// The function `signature` of `source` with all that it reaches, if it launches a kernel.
    fn follow<'s>(
        &'s self,
        signature: &'s FunctionSignature,
        source: &'s BoundSource,
    ) -> Option<BoundFunction<'s>> {
        let mut open = vec![(source, signature.name.clone())];
        let mut followed: BTreeSet<(&Path, String)> = BTreeSet::new();
        let mut sources: Vec<&BoundSource> = Vec::new();
        while let Some((source, name)) = open.pop() {
            if !followed.insert((&source.path, name.clone())) {
                continue;
            }
            if !sources.iter().any(|known| known.path == source.path) {
                sources.push(source);
            }
            for function in source.functions().iter().filter(|function| function.name == name) {
                for word in &function.words {
                    open.extend(
                        self.find_definitions(word, source).map(|found| (found, word.clone())),
                    );
                }
            }
        }
        let reached: BTreeSet<String> = followed.into_iter().map(|(_, name)| name).collect();
        let callables = sources.iter().filter_map(|source| source.callable());
        let callables: Vec<&CallableSource> = callables.collect();
        let launches = callables.iter().any(|callable| callable.launches_in(&reached));
        launches.then_some(BoundFunction { signature, reached, sources: callables })
    }

    /// The sources that define the function `name` for a call in `caller`: itself, if it does.
    fn find_definitions<'s>(
        &'s self,
        name: &'s str,
        caller: &'s BoundSource,
    ) -> impl Iterator<Item = &'s BoundSource> {
        let is_own = caller.defines(name, true);
        let others = self.sources.iter().filter(move |source| {
            !is_own && source.path != caller.path && source.defines(name, false)
        });
        is_own.then_some(caller).into_iter().chain(others)
    }
}

impl BoundSource {
    fn callable(&self) -> Option<&CallableSource> {
        let read = || read_callable_source(&self.path, &self.root, &self.headers).ok();
        self.callable.get_or_init(read).as_ref()
    }

    /// Its functions, and those of its headers that its own text names: it may instantiate their templates.
    fn functions(&self) -> &[FunctionWords] {
        self.functions.get_or_init(|| {
            let mut functions = list_function_words(&SourceUnit { path: "", text: &self.text });
            let headers = self.callable().map(|callable| &callable.headers.headers);
            for (_, text) in headers.into_iter().flatten() {
                let of_header = list_function_words(&SourceUnit { path: "", text });
                functions.extend(of_header.into_iter().filter(|f| self.text.contains(&f.name)));
            }
            functions
        })
    }

    /// Whether it defines the function `name`, also a local one if asked.
    fn defines(&self, name: &str, with_local: bool) -> bool {
        self.text.contains(name)
            && self.functions().iter().any(|f| f.name == name && (with_local || !f.is_local))
    }
}
