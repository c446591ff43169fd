//! The sources of a repository, by the words in them: which of them define what a function reaches, and what they bind for
//! Python.

use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};

use ::replay::frontend::{
    FunctionSignature, FunctionWords, PythonName, SourceUnit, binds_functions, find_python_names,
    list_function_words,
};

use super::callable_source::{
    CallableSource, collect_files, find_callable_source, is_gradient_or_loss, is_host,
    read_source_text, unite_sources,
};
use super::draft::{PythonNumbers, split_words, takes_tensors};
use super::error::{CliResult, CommandError};

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

impl<'s> BoundFunction<'s> {
    /// The sources that define what it reaches, its own first.
    pub fn list_sources(&self) -> impl Iterator<Item = &'s CallableSource> {
        self.sources.iter().copied()
    }
}

/// The sources of a repository.
pub struct SourceIndex<'r> {
    root: &'r Path,
    /// All that may be headers.
    headers: &'r [PathBuf],
    sources: Vec<IndexedSource>,
    /// By word, the places of the sources that it stands in.
    by_word: HashMap<String, Vec<usize>>,
    /// The names of the functions that one of them binds.
    bound_names: BTreeSet<String>,
    /// The same with their names in Python.
    python_names: Vec<PythonName>,
}

/// What a function reaches.
struct Reach<'s> {
    /// The names of the functions, its own among them.
    functions: BTreeSet<String>,
    /// The sources that define them, its own first.
    sources: Vec<&'s CallableSource>,
}

/// A source, looked into as far as it is asked for.
struct IndexedSource {
    path: PathBuf,
    /// Empty where it cannot be read.
    text: String,
    callable: OnceCell<CliResult<CallableSource>>,
    functions: OnceCell<Vec<FunctionWords>>,
}

impl<'r> SourceIndex<'r> {
    /// The sources below `folder`, and the one that is `named`; `headers` are the headers there, and `root` is that of the
    /// repository.
    pub fn read(
        folder: &Path,
        named: Option<&Path>,
        headers: &'r [PathBuf],
        root: &'r Path,
    ) -> SourceIndex<'r> {
        let mut paths: Vec<PathBuf> = named.map(Path::to_owned).into_iter().collect();
        collect_files(folder, 0, &SOURCES, &mut paths);
        paths.sort();
        paths.dedup();
        let mut sources = Vec::new();
        let mut python_names = Vec::new();
        for path in paths {
            let callable = OnceCell::new();
            let text = read_source_text(&path).unwrap_or_else(|error| {
                let _ = callable.set(Err(error));
                String::new()
            });
            if binds_functions(&text) {
                let unit = SourceUnit { path: "", text: &text };
                python_names.extend(find_python_names(&unit));
            }
            sources.push(IndexedSource { path, text, callable, functions: OnceCell::new() });
        }
        let mut by_word: HashMap<String, Vec<usize>> = HashMap::new();
        for (place, source) in sources.iter().enumerate() {
            let words: HashSet<&str> = split_words(&source.text).collect();
            for word in words {
                by_word.entry(word.to_owned()).or_default().push(place);
            }
        }
        let bound_names = python_names.iter().map(|name| name.function.clone()).collect();
        SourceIndex { root, headers, sources, by_word, bound_names, python_names }
    }

    /// The integers that the `texts` of Python pass to bound functions.
    pub fn find_python_numbers(&self, texts: &[String]) -> PythonNumbers {
        let mut numbers = PythonNumbers::from_defaults(texts);
        for PythonName { name, function, .. } in &self.python_names {
            let sources = self.list_places(function).iter().map(|&place| &self.sources[place]);
            let mut functions =
                sources.filter_map(|source| self.callable(source)).flat_map(|c| &c.functions);
            if let Some(signature) = functions.find(|signature| signature.name == *function) {
                let parameters = signature.parameters.iter().map(|p| p.name.as_str());
                numbers.add_calls(texts, name, &parameters.collect::<Vec<_>>());
            }
        }
        numbers
    }

    /// The functions that Python calls, by their names there.
    pub fn list_python_functions(&self) -> BTreeMap<&str, Vec<BoundFunction<'_>>> {
        let mut by_name: BTreeMap<&str, Vec<BoundFunction<'_>>> = BTreeMap::new();
        for PythonName { name, function, .. } in &self.python_names {
            let bound = by_name.entry(name).or_default();
            for source in self.list_places(function).iter().map(|&place| &self.sources[place]) {
                let functions = self.callable(source).into_iter().flat_map(|c| &c.functions);
                let own = functions.filter(|own| {
                    own.name == *function
                        && is_host(own)
                        && own.template.is_none()
                        && takes_tensors(own)
                });
                let own = own.map(|own| self.skip_wrappers(own, source));
                for found in own.filter_map(|(own, source)| self.follow(own, source)) {
                    let found = self.find_launcher(&found).unwrap_or(found);
                    // A name is bound once for each way to call it.
                    if bound.iter().all(|known| known.signature != found.signature) {
                        bound.push(found);
                    }
                }
            }
            if bound.is_empty() {
                bound.extend(self.find_behind_header(function));
            }
        }
        by_name
    }

    /// The function within reach of `bound` that launches its kernels, if it has its very parameters: more is told of them there.
    fn find_launcher<'s>(&'s self, bound: &BoundFunction<'s>) -> Option<BoundFunction<'s>> {
        let signature = bound.signature;
        let spell = |function: &FunctionSignature| -> Vec<(String, String)> {
            let parameters = function.parameters.iter();
            // `const Tensor&` and `Tensor` take the same.
            let plain = |ty: &str| ty.replace("const ", "").replace([' ', '&'], "");
            parameters.map(|parameter| (plain(&parameter.ty), parameter.name.clone())).collect()
        };
        let own = spell(signature);
        for callable in bound.sources.iter().filter(|_| !signature.launches) {
            let path = self.root.join(&callable.path);
            let source = self.sources.iter().find(|source| source.path == path)?;
            let launcher = callable.functions.iter().find(|function| {
                function.launches
                    && function.template.is_none()
                    && is_host(function)
                    && function.returns == signature.returns
                    && bound.reached.contains(&function.name)
                    && spell(function) == own
            });
            if let Some(launcher) = launcher {
                return self.follow(launcher, source);
            }
        }
        None
    }

    /// The function for a GPU by its name behind `function` of a header, which only chooses the device.
    fn find_behind_header(&self, function: &str) -> Option<BoundFunction<'_>> {
        let letters = |name: &str| name.replace('_', "").to_lowercase();
        let wanted = letters(function) + "cuda";
        let words = self.by_word.iter().filter(|(word, _)| letters(word) == wanted);
        let places = words.flat_map(|(_, places)| places).map(|&place| &self.sources[place]);
        let mut found = places.filter_map(|source| {
            let functions = &self.callable(source)?.functions;
            let own = functions.iter().find(|own| {
                letters(&own.name) == wanted
                    && is_host(own)
                    && own.template.is_none()
                    && takes_tensors(own)
            });
            self.follow(own?, source)
        });
        found.next()
    }

    /// The source at `path`.
    ///
    /// # Errors
    /// It cannot be read, lies outside of the repository, or has a name that a harness cannot hold.
    pub fn find_source(&self, path: &Path) -> CliResult<Option<&CallableSource>> {
        let found = self.sources.iter().find(|source| source.path == path);
        found.map(|source| self.look_into(source).map_err(Clone::clone)).transpose()
    }

    /// The CUDA sources with something to call, those with gradients first. `left_out` names the others.
    pub fn list_callable(&self, left_out: &mut Vec<String>) -> Vec<&CallableSource> {
        let mut candidates = Vec::new();
        let is_cuda = |source: &&IndexedSource| source.path.extension().is_some_and(|e| e == "cu");
        for source in self.sources.iter().filter(is_cuda) {
            let displayed_path =
                source.path.strip_prefix(self.root).unwrap_or(&source.path).display();
            match self.look_into(source) {
                Err(error) => left_out.push(format!("{displayed_path}: {}", error.in_a_line())),
                Ok(empty_candidate) if empty_candidate.worth_calling().is_empty() => {
                    left_out.push(format!(
                        "{displayed_path}: it holds no kernel and nothing that launches one"
                    ));
                }
                Ok(candidate) => candidates.push(candidate),
            }
        }
        candidates
            .sort_by_key(|candidate| !candidate.worth_calling().iter().any(is_gradient_or_loss));
        candidates
    }

    /// The other sources that define what `functions` of `source` call and its headers declare.
    pub fn list_definers(
        &self,
        source: &CallableSource,
        functions: &[String],
    ) -> Vec<&CallableSource> {
        let path = self.root.join(&source.path);
        let Some(own) = self.sources.iter().find(|indexed| indexed.path == path) else {
            return Vec::new();
        };
        let texts = source.headers.headers.iter().map(|(_, text)| text.as_str());
        let declared: HashSet<&str> = texts.flat_map(split_words).collect();
        let called = self.functions(own).iter().filter(|own| functions.contains(&own.name));
        let reached = called.flat_map(|function| {
            self.reach(&function.name, own, &|word| declared.contains(word)).sources
        });
        unite_sources(reached.filter(|other| other.path != source.path))
    }

    /// The bound functions that take tensors and launch kernels, also through one another, by the sources that define them.
    pub fn list_bound(&self) -> Vec<Vec<BoundFunction<'_>>> {
        let places = self.bound_names.iter().flat_map(|name| self.list_places(name));
        let places: BTreeSet<usize> = places.copied().collect();
        let mut by_source = Vec::new();
        for source in places.into_iter().map(|place| &self.sources[place]) {
            let Some(callable) = self.callable(source) else { continue };
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
        source: &'s IndexedSource,
    ) -> (&'s FunctionSignature, &'s IndexedSource) {
        let Some(name) = &signature.tensors.forwards_to else { return (signature, source) };
        for definer in self.find_definitions(name, source) {
            let mut functions =
                self.callable(definer).into_iter().flat_map(|found| &found.functions);
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
        source: &'s IndexedSource,
    ) -> Option<BoundFunction<'s>> {
        let Reach { functions, sources } = self.reach(&signature.name, source, &|_| true);
        let launches = sources.iter().any(|callable| callable.launches_in(&functions));
        launches.then_some(BoundFunction { signature, reached: functions, sources })
    }

    /// What the function `name` of `source` reaches by words that `may_call`.
    fn reach<'s>(
        &'s self,
        name: &'s str,
        source: &'s IndexedSource,
        may_call: &dyn Fn(&str) -> bool,
    ) -> Reach<'s> {
        let mut open = vec![(source, name)];
        let mut followed: BTreeSet<(&Path, &str)> = BTreeSet::new();
        let mut sources: Vec<&IndexedSource> = Vec::new();
        while let Some((source, name)) = open.pop() {
            if !followed.insert((&source.path, name)) {
                continue;
            }
            if !sources.iter().any(|known| known.path == source.path) {
                sources.push(source);
            }
            for function in self.functions(source).iter().filter(|f| f.name == name) {
                for word in function.words.iter().filter(|word| may_call(word)) {
                    let definers = self.find_definitions(word, source);
                    open.extend(definers.map(|definer| (definer, word.as_str())));
                }
            }
        }
        let functions = followed.into_iter().map(|(_, name)| name.to_owned()).collect();
        let sources = sources.iter().filter_map(|source| self.callable(source)).collect();
        Reach { functions, sources }
    }

    /// The sources that define the function `name` for a call in `caller`: itself, if it does.
    fn find_definitions<'s>(
        &'s self,
        name: &'s str,
        caller: &'s IndexedSource,
    ) -> impl Iterator<Item = &'s IndexedSource> {
        let is_own = self.functions(caller).iter().any(|function| function.name == name);
        let places = if is_own { &[] } else { self.list_places(name) };
        let others = places.iter().map(|&place| &self.sources[place]).filter(move |source| {
            self.functions(source)
                .iter()
                .any(|function| function.name == name && !function.is_local)
        });
        is_own.then_some(caller).into_iter().chain(others)
    }

    /// The places of the sources that `word` stands in.
    fn list_places(&self, word: &str) -> &[usize] {
        self.by_word.get(word).map_or(&[], Vec::as_slice)
    }

    fn callable<'s>(&'s self, source: &'s IndexedSource) -> Option<&'s CallableSource> {
        self.look_into(source).ok()
    }

    fn look_into<'s>(
        &'s self,
        source: &'s IndexedSource,
    ) -> Result<&'s CallableSource, &'s CommandError> {
        let IndexedSource { path, text, callable, .. } = source;
        let find = || find_callable_source(path, text, self.root, self.headers);
        callable.get_or_init(find).as_ref()
    }

    /// The functions of `source`, and those of its headers that its own text names: it may instantiate their templates.
    fn functions<'s>(&'s self, source: &'s IndexedSource) -> &'s [FunctionWords] {
        source.functions.get_or_init(|| {
            let words: HashSet<&str> = split_words(&source.text).collect();
            let mut functions = list_function_words(&SourceUnit { path: "", text: &source.text });
            let headers = self.callable(source).map(|callable| &callable.headers.headers);
            for (_, text) in headers.into_iter().flatten() {
                let of_header = list_function_words(&SourceUnit { path: "", text });
                functions.extend(of_header.into_iter().filter(|f| words.contains(f.name.as_str())));
            }
            functions
        })
    }
}
