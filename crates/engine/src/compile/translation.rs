//! A source set as host C++, and how it is laid out for the compiler.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use super::call_parts::EntryPart;
use super::divided_headers::{DividedHeader, JoinReason, find_divided_header};
use super::encoding::{Decoded, decode_source};
use super::entry_point::harness_file_name;
use super::includes::IncludeGraph;
use super::refused_lines::find_refused_lines;
use super::source_units::SourceUnits;
use super::{CompileError, LeftOutFunction, ObstacleEffect, includes, vectors};
use replay_fixture::harness::{Harness, SourcePath};
use replay_frontend::{
    ByteCount, FrontendError, KernelForm, Obstacle, Precision, RefusedLine, ShuffleSite,
    SourceUnit, Symbols, Threads, UnreachedKernel,
};
use replay_history::{OVERLAY, SourceFile, SourceRole, SourceSet};

/// A source set as host C++.
pub(super) struct Translation {
    pub files: Vec<(String, Vec<u8>)>,
    /// The sources with their translation units.
    sources: SourceUnits,
    /// The harness's macros, widened in the shadow.
    pub defines: Vec<String>,
    include_graph: IncludeGraph,
    /// The begin of every translation unit: the harness's macros.
    macros: String,
    pub symbols: Symbols,
    /// If the sources use the small PyTorch: the places of the parameters of functions that may change a tensor.
    pub changed_tensors: Option<BTreeMap<String, BTreeSet<usize>>>,
    /// How kernels and shuffles are done, by file.
    pub forms: Vec<FileForms>,
    /// The obstacles to the shadow, each with its file.
    shadow_obstacles: Vec<(String, Obstacle)>,
    /// The options for loops for several threads at once, if there are any.
    pub lanes: Vec<String>,
    /// The kernels out of reach of the harness's calls, which are left out; none if nothing is.
    pub left_out: Option<Vec<LeftOutFunction>>,
}

/// The translated code of a source set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CodeScope {
    Whole,
    /// Without the kernels that no call of the harness reaches.
    Reached,
}

/// How the kernels and shuffles of a file are done.
pub(super) struct FileForms {
    pub path: String,
    pub kernels: Vec<KernelForm>,
    pub shuffles: Vec<ShuffleSite>,
}

/// A text for the compiler, and the files that it may read.
pub(super) struct TranslationUnit<'t> {
    /// The sources in it, in order.
    pub sources: Vec<&'t str>,
    pub text: String,
    /// The files of the translation within reach of its includes, in order.
    pub files: Vec<&'t (String, Vec<u8>)>,
}

impl Translation {
    /// Whether a line that the compiler refuses in `log` lies in a kernel whose threads are run by one call.
    pub(super) fn has_in_loops(&self, log: &str) -> bool {
        let lines = find_refused_lines(log).unwrap_or_default();
        lines.iter().any(|(path, refused)| {
            let file = self.forms.iter().find(|file| file.path == *path);
            let kernels = file.into_iter().flat_map(|file| &file.kernels);
            let kernels_before = kernels.filter(|kernel| kernel.line <= refused.line);
            let kernel = kernels_before.max_by_key(|kernel| kernel.line);
            kernel.is_some_and(|kernel| kernel.why_stacks().is_none())
        })
    }

    /// The number of sources.
    pub(super) fn source_count(&self) -> usize {
        self.sources.len()
    }

    /// The sources that code of a call with the identifiers `words` needs in its translation unit.
    pub(super) fn list_needed_sources(
        &self,
        harness: &Harness,
        words: &BTreeSet<String>,
    ) -> BTreeSet<usize> {
        let mut words = words.clone();
        remove_parameter_names(&mut words, harness);
        for define in &self.defines {
            let (name, value) = define.split_once('=').unwrap_or((define, ""));
            if words.contains(name.split('(').next().unwrap_or(name)) {
                let value = SourceUnit { path: "defines", text: value };
                words.extend(replay_frontend::collect_identifiers(&value));
            }
        }
        self.sources.list_needed(&words, |number, path| {
            let reached = self.include_graph.reach(&[self.sources.path(number)]);
            reached.into_iter().any(|file| self.files[file].0 == path)
        })
    }

    /// A header that means something else to each of the sources of one of `parts`, if there is one.
    pub(super) fn find_divided_part(&self, parts: &[EntryPart]) -> Option<DividedHeader> {
        let mut joined_parts = parts.iter().filter(|part| part.sources.len() > 1).peekable();
        joined_parts.peek()?;
        let texts: Vec<(&str, Cow<'_, str>)> = self
            .files
            .iter()
            .map(|(path, text)| (path.as_str(), String::from_utf8_lossy(text)))
            .collect();
        let units: Vec<SourceUnit> =
            texts.iter().map(|(path, text)| SourceUnit { path, text }).collect();
        joined_parts.find_map(|part| {
            let paths: Vec<&str> =
                part.sources.iter().map(|&number| self.sources.path(number)).collect();
            find_divided_header(&units, &paths, JoinReason::Call)
        })
    }

    /// A translation unit for each source, but for those of each of `parts` a common one, with the part's text behind them.
    /// External linkage is as nvcc's.
    pub(super) fn separate_units(&self, parts: &[EntryPart]) -> Vec<TranslationUnit<'_>> {
        let mut units = Vec::new();
        for number in 0..self.sources.len() {
            match parts.iter().find(|part| part.sources.contains(&number)) {
                Some(part) if part.sources.first() == Some(&number) => {
                    units.push(self.create_unit(&part.sources, &part.text));
                }
                Some(_) => {}
                None => units.push(self.create_unit(&BTreeSet::from([number]), "")),
            }
        }
        units
    }

    fn create_unit(&self, numbers: &BTreeSet<usize>, entry_point: &str) -> TranslationUnit<'_> {
        let sources: Vec<&str> = numbers.iter().map(|&number| self.sources.path(number)).collect();
        TranslationUnit {
            text: format!("{}{}", self.macros, self.sources.include(numbers, entry_point)),
            files: self
                .include_graph
                .reach(&sources)
                .into_iter()
                .map(|number| &self.files[number])
                .collect(),
            sources,
        }
    }

    /// The obstacles to `double` in place of `float` for `call`, and whether code within its reach ends the shadow where it
    /// runs.
    pub(super) fn shadow_obstacles(&self, call: &str) -> (Vec<String>, bool) {
        let mut reasons = Vec::new();
        let mut may_end = false;
        for (path, obstacle, effect) in self.obstacle_effects(call) {
            match effect {
                ObstacleEffect::NoShadow => {
                    reasons.push(format!("{path}:{}: {}", obstacle.line, obstacle.what));
                }
                ObstacleEffect::EndsWhereRun => may_end = true,
                ObstacleEffect::NotReached => {}
            }
        }
        (reasons, may_end)
    }

    /// Every obstacle with its file, and its effect on the shadow of `call`.
    pub(super) fn obstacle_effects(&self, call: &str) -> Vec<(&String, &Obstacle, ObstacleEffect)> {
        if self.shadow_obstacles.is_empty() {
            return Vec::new();
        }
        let reached = self.symbols.reached(call);
        let obstacles = self.shadow_obstacles.iter().map(|(path, obstacle)| {
            let effect = match &obstacle.within {
                Some(name) if !reached.contains(name) => ObstacleEffect::NotReached,
                _ if obstacle.guarded => ObstacleEffect::EndsWhereRun,
                _ => ObstacleEffect::NoShadow,
            };
            (path, obstacle, effect)
        });
        obstacles.collect()
    }
}

/// The sources of CUDA C++, as text.
///
/// Host code with tensors of PyTorch stays where the calls of `harness` reach it.
pub(super) fn decode_source_texts<'s>(
    sources: &'s SourceSet,
    harness: &Harness,
) -> Result<Vec<(&'s str, Decoded<'s>)>, CompileError> {
    let code = sources.files.iter().filter(|file| is_code(&file.path));
    let mut texts: Vec<_> = code.map(decode_source_file).collect();
    let has_header = |name: &str| {
        sources.files.iter().any(|file| includes::ends_with_components(&file.path, name))
    };
    let kept_texts = replay_frontend::keep_called_tensor_code(
        &create_source_units(&texts),
        &join_all_calls(harness),
        has_header,
    );
    for ((_, decoded), text) in texts.iter_mut().zip(kept_texts.into_iter().flatten()) {
        decoded.text = text.into();
    }
    for (path, decoded) in &texts {
        refuse_devices(path, &decoded.text)?;
    }
    Ok(texts)
}

/// The set-up and all calls of `harness`.
fn join_all_calls(harness: &Harness) -> String {
    let calls = harness.setup.iter().chain(&harness.calls);
    calls.map(|call| call.text.as_str()).collect::<Vec<_>>().join("\n")
}

/// The identifiers in the calls of `harness` and in its macros, without the names of its tensors and sizes.
fn collect_call_words(harness: &Harness) -> BTreeSet<String> {
    let text = format!("{}{}", as_directives(&harness.defines), join_all_calls(harness));
    let mut words = replay_frontend::collect_identifiers(&SourceUnit { path: "call", text: &text });
    remove_parameter_names(&mut words, harness);
    words
}

/// Removes the names of the tensors and sizes of `harness` from `words`.
fn remove_parameter_names(words: &mut BTreeSet<String>, harness: &Harness) {
    let tensors = harness.inputs.keys().chain(harness.outputs.keys());
    for name in tensors.chain(&harness.sizes) {
        words.remove(name);
    }
}

/// Leaves out of `texts` the kernels that no call of `harness` reaches, with the code for them alone. Returns these
/// kernels; none if nothing can be left out.
fn leave_out_unreached(
    texts: &mut [(&str, Decoded<'_>)],
    harness: &Harness,
) -> Option<Vec<LeftOutFunction>> {
    let macros = as_directives(&harness.defines);
    let mut units = create_source_units(texts);
    units.push(SourceUnit { path: "defines", text: &macros });
    let calls = join_all_calls(harness);
    let reached = replay_frontend::leave_out_unreached_kernels(&units, &calls)?;
    for ((_, decoded), text) in texts.iter_mut().zip(reached.texts) {
        decoded.text = text.into();
    }
    let unreached = reached.unreached.into_iter();
    Some(
        unreached
            .map(|UnreachedKernel { path, line, name }| LeftOutFunction { path, line, name })
            .collect(),
    )
}

/// All refusals of the front end for the code of `sources` in `scope`, but those in functions around `refused` lines.
pub(super) fn list_refusals(
    sources: &SourceSet,
    harness: &Harness,
    scope: CodeScope,
    refused: &[(String, RefusedLine)],
) -> Result<Vec<FrontendError>, CompileError> {
    let mut texts = decode_source_texts(sources, harness)?;
    if scope == CodeScope::Reached {
        leave_out_unreached(&mut texts, harness);
    }
    set_traps(&mut texts, refused);
    let units = create_source_units(&texts);
    let symbols = replay_frontend::scan_symbols(&units);
    let refusals =
        units.iter().map(|unit| replay_frontend::find_refusals(unit, &symbols, Precision::Native));
    Ok(refusals.flatten().collect())
}

/// The functions with tensors of PyTorch that no call of `harness` reaches: they are not compiled.
pub(super) fn list_left_out_functions(
    sources: &SourceSet,
    harness: &Harness,
) -> Vec<LeftOutFunction> {
    let Ok(kept_texts) = decode_source_texts(sources, harness) else { return Vec::new() };
    let code = sources.files.iter().filter(|file| is_code(&file.path));
    let mut left_out = Vec::new();
    for (file, (path, kept)) in code.zip(&kept_texts) {
        let (_, whole) = decode_source_file(file);
        if whole.text == kept.text {
            continue;
        }
        let list_functions = |text: &str| {
            let unit = SourceUnit { path, text };
            let symbols = replay_frontend::scan_symbols(&[unit]);
            replay_frontend::find_function_signatures(&unit, &symbols)
        };
        let kept_lines: BTreeSet<usize> =
            list_functions(&kept.text).iter().map(|function| function.line).collect();
        for function in list_functions(&whole.text) {
            if !kept_lines.contains(&function.line) {
                let path = (*path).to_owned();
                left_out.push(LeftOutFunction { path, line: function.line, name: function.name });
            }
        }
    }
    left_out
}

/// The sizes in bytes without `sizeof` in `sources` and the calls of `harness`, each with its file and line. Sources
/// refused by the front end have none.
pub fn source_byte_counts(sources: &SourceSet, harness: &Harness) -> Vec<(String, ByteCount)> {
    let mut counts = Vec::new();
    for (path, decoded) in decode_source_texts(sources, harness).unwrap_or_default() {
        for count in replay_frontend::unit_byte_counts(&SourceUnit { path, text: &decoded.text }) {
            counts.push((format!("{path}:{}", count.line), count));
        }
    }
    let origin = harness_file_name(harness);
    for call in harness.setup.iter().chain(&harness.calls) {
        for count in
            replay_frontend::unit_byte_counts(&SourceUnit { path: &origin, text: &call.text })
        {
            counts.push((format!("{origin}:{}", call.line + count.line - 1), count));
        }
    }
    counts
}

/// Where device code of `sources` within reach of the calls of `harness` takes numbers to integers: files, lines and
/// expressions. Sources refused by the front end have none.
pub fn source_integer_conversions(sources: &SourceSet, harness: &Harness) -> Vec<String> {
    let mut places = Vec::new();
    for (path, decoded) in decode_source_texts(sources, harness).unwrap_or_default() {
        let unit = SourceUnit { path, text: &decoded.text };
        for conversion in replay_frontend::unit_integer_conversions(&unit) {
            places.push(format!("{path}:{}: {}", conversion.line, conversion.written));
        }
    }
    places
}

/// The path and the text of one file.
fn decode_source_file(file: &SourceFile) -> (&str, Decoded<'_>) {
    let mut decoded = decode_source(&file.content);
    if let Some(text) = replay_frontend::tighten_launches(&decoded.text) {
        decoded.text = text.into();
    }
    (file.path.as_str(), decoded)
}

/// As units of the front end.
pub(super) fn create_source_units<'t>(texts: &'t [(&'t str, Decoded<'t>)]) -> Vec<SourceUnit<'t>> {
    texts.iter().map(|(path, decoded)| SourceUnit { path, text: &decoded.text }).collect()
}

/// The files other than CUDA C++.
pub(super) fn untranslated_files(sources: &SourceSet) -> impl Iterator<Item = (String, Vec<u8>)> {
    let other_files = sources.files.iter().filter(|file| !is_code(&file.path));
    other_files.map(|file| (file.path.clone(), file.content.to_vec()))
}

/// The sources of the translation unit, in its order.
pub(super) fn unit_sources(sources: &SourceSet) -> Result<Vec<String>, CompileError> {
    let source_files = sources.files.iter().filter(|file| file.role == SourceRole::Source);
    let mut source_paths: Vec<String> = source_files.map(|file| file.path.clone()).collect();
    let units: Vec<String> = source_paths.iter().filter(|path| is_unit(path)).cloned().collect();
    if units.is_empty() {
        source_paths.truncate(3);
        return Err(CompileError::NoUnit { files: source_paths });
    }
    Ok(units)
}

/// Whether `path` is CUDA C++ for the front end. Other files are laid out as they are.
fn is_code(path: &str) -> bool {
    let code = ["cu", "cuh", "h", "hh", "hpp", "hxx", "inl", "inc", "c", "cc", "cpp", "cxx"];
    Path::new(path).extension().and_then(|ext| ext.to_str()).is_some_and(|ext| code.contains(&ext))
}

/// The endings of files compiled by themselves.
pub(super) const UNITS: [&str; 5] = [".cu", ".c", ".cc", ".cpp", ".cxx"];

pub(super) fn is_unit(path: &str) -> bool {
    let ending = Path::new(path).extension().and_then(|ending| ending.to_str());
    ending.is_some_and(|ending| UNITS.iter().any(|unit| unit[1..] == *ending))
}

/// Refuses an `#include` of a device, a pipe or a folder by its absolute path: a compiler would
/// block on it, or read it without end.
fn refuse_devices(path: &str, text: &str) -> Result<(), CompileError> {
    for (line, included) in
        includes::find_include_names(text).filter(|(_, name)| name.starts_with('/'))
    {
        if std::fs::metadata(included).is_ok_and(|metadata| !metadata.is_file()) {
            return Err(CompileError::NoFile {
                path: path.to_owned(),
                line,
                included: included.to_owned(),
            });
        }
    }
    Ok(())
}

/// The files of `sources` in a line.
fn joined_source_names(sources: &SourceSet) -> String {
    let names: Vec<&str> = sources.files.iter().map(|file| file.path.as_str()).collect();
    names.join(" ")
}

/// Whether the front end can make traps of all `refused` lines, each with its file.
pub(super) fn can_trap(
    sources: &SourceSet,
    harness: &Harness,
    refused: &[(String, RefusedLine)],
) -> bool {
    decode_source_texts(sources, harness)
        .is_ok_and(|mut texts| set_traps(&mut texts, refused).is_some())
}

/// Makes traps of the `refused` lines of `texts`. The obstacles behind them, each with its file; none if a line cannot be
/// one.
fn set_traps(
    texts: &mut [(&str, Decoded<'_>)],
    refused: &[(String, RefusedLine)],
) -> Option<Vec<(String, Obstacle)>> {
    let mut obstacles = Vec::new();
    if !refused.iter().all(|(path, _)| texts.iter().any(|(known_path, _)| known_path == path)) {
        return None;
    }
    for (path, decoded) in texts {
        let lines: Vec<&RefusedLine> = refused
            .iter()
            .filter(|(refused_path, _)| refused_path == path)
            .map(|(_, line)| line)
            .collect();
        if lines.is_empty() {
            continue;
        }
        let unit = SourceUnit { path, text: &decoded.text };
        let (text, trapped) = replay_frontend::trap_refused_lines(&unit, &lines)?;
        obstacles.extend(trapped.into_iter().map(|obstacle| ((*path).to_owned(), obstacle)));
        decoded.text = text.into();
    }
    Some(obstacles)
}

/// What a translation is made of.
#[derive(Clone, Copy)]
pub(super) struct TranslationRequest<'r> {
    pub sources: &'r SourceSet,
    pub harness: &'r Harness,
    pub scope: CodeScope,
    pub precision: Precision,
    pub threads: Threads,
    /// Lines that the compiler refused, each with its file. The functions around them are traps.
    pub refused: &'r [(String, RefusedLine)],
}

/// Translates the sources of `request`.
pub(super) fn translate_sources(
    request: TranslationRequest<'_>,
) -> Result<Translation, CompileError> {
    let TranslationRequest { sources, harness, scope, precision, threads, refused } = request;
    let _span =
        tracing::info_span!("translate", message = joined_source_names(sources), ?precision);
    let mut texts = decode_source_texts(sources, harness)?;
    let left_out = match scope {
        CodeScope::Reached => leave_out_unreached(&mut texts, harness),
        CodeScope::Whole => None,
    };
    let mut shadow_obstacles = set_traps(&mut texts, refused).unwrap_or_default();
    let units = create_source_units(&texts);
    let defines = match precision {
        Precision::Shadow => {
            let widen = |define: &String| replay_frontend::widen_macro(define);
            harness.defines.iter().map(widen).collect()
        }
        Precision::Native | Precision::Checked => harness.defines.clone(),
    };
    let macros = as_directives(&defines);
    let command_line = SourceUnit { path: "defines", text: &macros };
    let symbols = replay_frontend::scan_symbols(&[&units[..], &[command_line]].concat());
    let lanes = vectors::vector_options().filter(|_| threads == Threads::Lanes);
    let threads = match threads {
        Threads::Lanes if lanes.is_none() => Threads::Blocks,
        threads => threads,
    };
    let mut strided = false;
    let mut forms = Vec::new();
    let mut files = Vec::new();
    for (unit, (_, decoded)) in units.iter().zip(&texts) {
        let translated = replay_frontend::translate_for_host(unit, &symbols, precision, threads)?;
        strided |= translated.kernel_forms.iter().any(KernelForm::has_strided_loops);
        let obstacles = translated.shadow_obstacles.into_iter();
        shadow_obstacles.extend(obstacles.map(|obstacle| (unit.path.to_owned(), obstacle)));
        forms.push(FileForms {
            path: unit.path.to_owned(),
            kernels: translated.kernel_forms,
            shuffles: translated.shuffles,
        });
        files.push((unit.path.to_owned(), decoded.encode(translated.text)));
    }
    files.extend(untranslated_files(sources));
    let lanes = lanes.filter(|_| strided).unwrap_or_default();
    let called = collect_call_words(harness);
    let sources =
        SourceUnits::new(&units, unit_sources(sources)?, &symbols, &defines, &called, precision);
    let include_graph =
        IncludeGraph::new(files.iter().map(|(path, text)| (path.as_str(), text.as_slice())));
    let macros = define_macros(&harness.undefine, &defines);
    let has_tensors = texts.iter().any(|(_, decoded)| replay_frontend::uses_tensors(&decoded.text));
    let changed_tensors =
        has_tensors.then(|| replay_frontend::find_changed_tensors(&units, &symbols));
    Ok(Translation {
        files,
        sources,
        defines,
        include_graph,
        macros,
        symbols,
        changed_tensors,
        forms,
        shadow_obstacles,
        lanes,
        left_out,
    })
}

/// The harness's changes of macros. The headers of this program come before: no macro of a harness reaches them.
fn define_macros(undefine: &[String], defines: &[String]) -> String {
    let undefined: String = undefine.iter().map(|name| format!("#undef {name}\n")).collect();
    let own_defines: Vec<String> =
        defines.iter().filter(|define| !is_reserved(define)).cloned().collect();
    let assert_include =
        if own_defines.iter().any(|define| define.split('=').next() == Some("NDEBUG")) {
            "#include <assert.h>\n"
        } else {
            ""
        };
    undefined + &as_directives(&own_defines) + assert_include
}

/// The macros whose names are reserved: they are for the system's headers, and must be there before any
/// of them is read.
pub(super) fn reserved_macros(defines: &[String]) -> impl Iterator<Item = &String> {
    defines.iter().filter(|define| is_reserved(define))
}

fn is_reserved(define: &str) -> bool {
    define.starts_with('_')
}

/// The macros of a command line, `NAME` or `NAME=VALUE`, as a source defines them.
fn as_directives(defines: &[String]) -> String {
    let directives = defines.iter().map(|define| match define.split_once('=') {
        Some((name, value)) => format!("#define {name} {value}\n"),
        None => format!("#define {define} 1\n"),
    });
    directives.collect()
}

/// The folder of the file `path`.
fn parent_folder(path: &str) -> &str {
    path.rsplit_once('/').map_or(".", |(folder, _)| folder)
}

/// The folders below `tree` in which headers are sought, in the order of the search: the overlay, then the harness's.
pub(super) fn list_include_folders(harness: &Harness, files: &[(String, Vec<u8>)]) -> Vec<String> {
    let overlay = harness.overlay.iter().map(|_| OVERLAY.to_owned());
    let includes = harness.include.iter().flat_map(SourcePath::names).map(|include| {
        let is_file = files.iter().any(|(path, _)| path == include);
        if is_file { parent_folder(include).to_owned() } else { include.to_owned() }
    });
    let mut folders: Vec<String> = Vec::new();
    for folder in overlay.chain(includes) {
        if !folders.contains(&folder) {
            folders.push(folder);
        }
    }
    folders
}

/// Writes `files` to `tree` in `folder`.
pub(super) fn write_source_tree<'f>(
    folder: &Path,
    files: impl IntoIterator<Item = &'f (String, Vec<u8>)>,
) -> io::Result<()> {
    for (path, text) in files {
        let path = folder.join("tree").join(path);
        std::fs::create_dir_all(path.parent().expect("a file lies in a folder"))?;
        std::fs::write(path, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay_history::{SourceSpec, source_set_from_dir};

    #[test]
    fn an_include_of_a_device_or_a_folder_is_refused_before_anything_waits_for_it() {
        let folder = tempfile::tempdir().unwrap();
        let spec = SourceSpec { sources: vec!["k.cu".into()], ..SourceSpec::default() };
        let text =
            "sources = [\"k.cu\"]\ncall = \"k();\"\n[outputs.x]\ndtype = \"f32\"\nshape = []\n";
        let harness = Harness::parse(text, Path::new("replay.toml")).unwrap();
        let refused = |line: &str| {
            let text = [b"// \xe9\n", line.as_bytes(), b"\n"].concat();
            std::fs::write(folder.path().join("k.cu"), text).unwrap();
            let sources = source_set_from_dir(folder.path(), &spec).unwrap();
            let translated = translate_sources(TranslationRequest {
                sources: &sources,
                harness: &harness,
                scope: CodeScope::Whole,
                precision: Precision::Native,
                threads: Threads::Blocks,
                refused: &[],
            });
            translated.err().map(|error| format!("{error}; {}", error.hint().unwrap_or_default()))
        };
        insta::assert_snapshot!(refused("#include \"/dev/zero\"").unwrap(), @"k.cu:2 includes /dev/zero, which is no file; only files can be included");
        insta::assert_snapshot!(refused(" #  include </tmp>").unwrap(), @"k.cu:2 includes /tmp, which is no file; only files can be included");
        assert_eq!(refused("#include <stdio.h>"), None);
        assert_eq!(refused("// #include \"/dev/zero\""), None);
        assert_eq!(refused("#include \"/etc/passwd\""), None);
    }
}
