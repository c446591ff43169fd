//! `replay init`: writes a first `replay.toml` from the sources, without questions.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ::replay::files;
use ::replay::frontend::{
    FunctionSignature, SourceUnit, find_function_signatures, scan_symbols, tighten_launches,
};
use ::replay::harness::Harness;
use ::replay::history::History;

use super::draft::{Draft, TypeNames};
use super::error::{CliResult, CommandError, ErrorContext};
use super::exit;
use super::out::println;

/// Nobody reads more drafts than this; the rest is only named.
const MOST: usize = 48;

/// The arguments of `replay init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The CUDA source to call [default: every one below this folder]
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// The file to write; it must not exist. Further drafts lie beside it, as FILE-NAME.toml
    #[arg(short, long, value_name = "FILE", default_value = "replay.toml")]
    output: PathBuf,
}

/// A CUDA source with callable functions.
struct CallableSource {
    /// From the root of the repository, as a harness names it.
    path: String,
    text: String,
    functions: Vec<FunctionSignature>,
}

/// A harness to write.
struct Harnessed {
    output: PathBuf,
    source: String,
    draft: Draft,
    text: String,
}

/// Writes the files and prints the next steps.
pub fn run_init(args: &InitArgs) -> CliResult<u8> {
    let working_folder = fs::canonicalize(".").context(|| "cannot read the current folder")?;
    let history = History::discover(&working_folder)?;
    let root = history.working_tree_root().map_or(Ok(working_folder.clone()), fs::canonicalize)?;
    let mut files = Vec::new();
    collect_source_files(&working_folder, 0, &mut files);
    files.sort();
    let mut left_out = Vec::new();
    let candidates = match &args.source {
        Some(path) => {
            vec![read_callable_source(&fs::canonicalize(path).unwrap_or(path.clone()), &root)?]
        }
        None => find_callable_sources(&files, &root, &mut left_out),
    };
    let headers = read_headers(&files);
    let mut harnesses: Vec<Harnessed> = Vec::new();
    for candidate in &candidates {
        let functions = worth_calling(&candidate.functions);
        left_out.extend(not_called(candidate, &functions));
        let include = find_include_folders(&candidate.text, &files, &root);
        let texts = headers.iter().map(String::as_str);
        let types = TypeNames::from_texts(texts.chain([candidate.text.as_str()]));
        for draft in Draft::from_functions(&functions, &types) {
            let text = draft.text(&candidate.path, &include);
            let output = choose_draft_path(&args.output, &candidate.path, &draft, &harnesses);
            harnesses.push(Harnessed { output, source: candidate.path.clone(), draft, text });
        }
    }
    if harnesses.is_empty() {
        let place = args.source.as_ref().map(|path| path.display().to_string());
        return Err(nothing_to_call(&place.unwrap_or("this folder".to_owned())));
    }
    for surplus in harnesses.drain(MOST.min(harnesses.len())..) {
        let functions = surplus.draft.functions.join(", ");
        let limit_words =
            format!("{MOST} drafts are written at once: `replay init {0}`", surplus.source);
        left_out.push(format!(
            "{functions} in {}: {limit_words} --output FILE drafts it",
            surplus.source
        ));
    }
    write_harness_drafts(&harnesses)?;
    for harness in &harnesses {
        if let Err(problem) = Harness::parse(&harness.text, &harness.output) {
            CommandError::from(problem).context("the draft has to be edited first").print();
        }
    }
    print_drafts(&harnesses, &left_out);
    Ok(exit::SUCCESS)
}

/// The texts of the readable headers among `files`.
fn read_headers(files: &[PathBuf]) -> Vec<String> {
    let headers = files.iter().filter(|path| path.extension().is_none_or(|ending| ending != "cu"));
    let texts = headers.filter_map(|path| files::read_regular_file(path, files::SOURCE_BYTES).ok());
    texts.map(|text| String::from_utf8_lossy(&text).into_owned()).collect()
}

/// The sources with something to call, those with gradients first. `left_out` names the others.
fn find_callable_sources(
    files: &[PathBuf],
    root: &Path,
    left_out: &mut Vec<String>,
) -> Vec<CallableSource> {
    let mut candidates = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "cu")) {
        let displayed_path = path.strip_prefix(root).unwrap_or(path).display();
        match read_callable_source(path, root) {
            Err(error) => left_out.push(format!("{displayed_path}: {}", error.in_a_line())),
            Ok(empty_candidate) if worth_calling(&empty_candidate.functions).is_empty() => {
                left_out.push(format!(
                    "{displayed_path}: it holds no kernel and nothing that launches one"
                ));
            }
            Ok(candidate) => candidates.push(candidate),
        }
    }
    candidates.sort_by_key(|candidate| {
        !worth_calling(&candidate.functions).iter().any(is_gradient_or_loss)
    });
    candidates
}

/// Whether a function computes gradients or a loss, by its name.
fn is_gradient_or_loss(function: &&FunctionSignature) -> bool {
    ["grad", "backward", "loss"].iter().any(|word| function.name.contains(word))
}

/// The functions of `candidate` with launches outside of `called`, and the reasons.
fn not_called(candidate: &CallableSource, called: &[&FunctionSignature]) -> Vec<String> {
    let mut lines = Vec::new();
    for function in &candidate.functions {
        let is_called = called.iter().any(|callee| callee.name == function.name);
        if is_called || !is_host(function) || !function.launches {
            continue;
        }
        let reason = if function.name == "main" {
            "it is the program, not a function to call"
        } else if takes_tensors(function) {
            "it takes tensors of PyTorch: a program calls it"
        } else {
            "it takes no pointer, so it neither reads nor writes a tensor"
        };
        lines.push(format!("{} in {}: {reason}", function.name, candidate.path));
    }
    lines
}

/// Where a draft goes: `first`, then `first` with the name of the source or of its first function.
fn choose_draft_path(first: &Path, source: &str, draft: &Draft, earlier: &[Harnessed]) -> PathBuf {
    if earlier.is_empty() {
        return first.to_owned();
    }
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    let of_file = Path::new(source).file_stem().unwrap_or_default().to_string_lossy();
    let functions = draft.functions.first().map(String::as_str);
    let is_source_drafted = earlier.iter().any(|harness| harness.source == source);
    let names = [(!is_source_drafted).then_some(&*of_file), functions].into_iter().flatten();
    let numbered_names = (2..).map(|number| format!("{of_file}-{number}"));
    let mut paths = names
        .map(str::to_owned)
        .chain(numbered_names)
        .map(|name| first.with_file_name(format!("{stem}-{name}.toml")));
    let free_path = paths.find(|path| earlier.iter().all(|harness| harness.output != *path));
    free_path.unwrap_or_else(|| first.to_owned())
}

/// Possible CUDA sources and headers, outside of hidden and built folders.
fn collect_source_files(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    const DEEPEST: usize = 12;
    const BUILT: [&str; 4] = ["target", "build", "node_modules", "__pycache__"];
    const CODE: [&str; 5] = ["cu", "cuh", "h", "hpp", "inl"];
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < DEEPEST && !name.starts_with('.') && !BUILT.contains(&&*name) {
            collect_source_files(&entry.path(), depth + 1, files);
        } else if kind.is_file()
            && name.rsplit_once('.').is_some_and(|(_, extension)| CODE.contains(&extension))
        {
            files.push(entry.path());
        }
    }
}

fn read_callable_source(path: &Path, root: &Path) -> CliResult<CallableSource> {
    let text = files::read_regular_file(path, files::SOURCE_BYTES)
        .context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let Ok(relative_path) = path.strip_prefix(root) else {
        let message = format!("{} lies outside of the repository", path.display());
        return Err(CommandError::new(message));
    };
    let Some(relative_text) = relative_path.to_str() else {
        let message = format!("the name {} is not UTF-8", relative_path.display());
        return Err(CommandError::new(message));
    };
    Ok(parse_callable_source(relative_text.to_owned(), text))
}

/// The functions of the file `path` with `text`.
fn parse_callable_source(path: String, text: String) -> CallableSource {
    let text = tighten_launches(&text).unwrap_or(text);
    let unit = SourceUnit { path: &path, text: &text };
    let functions = find_function_signatures(&unit, &scan_symbols(&[unit]));
    CallableSource { path, functions, text }
}

fn nothing_to_call(place: &str) -> CommandError {
    let message = format!("{place} holds no CUDA source with a kernel to call");
    let hint = "name the source: `replay init path/to/kernel.cu`".to_owned();
    CommandError::new(message).with_hint(hint)
}

/// Host functions with launches and pointers; kernels where there is no such function.
fn worth_calling(functions: &[FunctionSignature]) -> Vec<&FunctionSignature> {
    let launching = functions.iter().filter(|function| {
        is_host(function)
            && function.launches
            && function.name != "main"
            && !takes_tensors(function)
            && takes_pointers(function)
    });
    let called: Vec<&FunctionSignature> = launching.collect();
    if called.is_empty() {
        functions.iter().filter(|function| function.kernel).collect()
    } else {
        called
    }
}

fn is_host(function: &FunctionSignature) -> bool {
    !function.kernel && !function.device
}

fn takes_pointers(function: &FunctionSignature) -> bool {
    function.parameters.iter().any(|parameter| parameter.ty.contains('*'))
}

/// Whether a function takes or returns tensors of PyTorch, whose headers are not here.
fn takes_tensors(function: &FunctionSignature) -> bool {
    names_torch_tensor(&function.returns)
        || function.parameters.iter().any(|parameter| names_torch_tensor(&parameter.ty))
}

fn names_torch_tensor(ty: &str) -> bool {
    ty.split(' ').any(|word| word.ends_with("Tensor"))
}

/// The folders of the headers included by `text`, relative to the root.
fn find_include_folders(text: &str, files: &[PathBuf], root: &Path) -> Vec<String> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let Some(directive) = line.trim_start().strip_prefix('#') else { continue };
        let Some(included) = directive.trim_start().strip_prefix("include") else { continue };
        let name = included.trim().trim_start_matches(['"', '<']).split(['"', '>']).next();
        let name = Path::new(name.unwrap_or_default());
        let Some(header) = files.iter().find(|file| file.ends_with(name)) else { continue };
        let depth = name.components().count();
        let folder =
            header.ancestors().nth(depth).and_then(|folder| folder.strip_prefix(root).ok());
        let folder = folder.map(|folder| folder.display().to_string());
        let folder = folder.map(|folder| if folder.is_empty() { ".".to_owned() } else { folder });
        folders.extend(folder.filter(|folder| !folders.contains(folder)));
    }
    folders
}

/// Writes all of them or none.
fn write_harness_drafts(harnesses: &[Harnessed]) -> CliResult<()> {
    for (number, harness) in harnesses.iter().enumerate() {
        let path = &harness.output;
        if let Err(error) = files::create_new_file(path, harness.text.as_bytes()) {
            for written_harness in &harnesses[..number] {
                let _ = fs::remove_file(&written_harness.output);
            }
            if error.kind() != ErrorKind::AlreadyExists {
                return Err(error).context(|| format!("cannot write {}", path.display()));
            }
            let message = format!("{} exists and is left as it is", path.display());
            let hint = "edit it, or name another file with --output".to_owned();
            return Err(CommandError::new(message).with_hint(hint));
        }
    }
    Ok(())
}

fn print_drafts(harnesses: &[Harnessed], left_out: &[String]) {
    for Harnessed { output, source, draft, .. } in harnesses {
        println!("wrote {}, which calls {source}:", output.display());
        for call in &draft.calls {
            println!("  {call}");
        }
    }
    if !left_out.is_empty() {
        println!("\nleft out:");
    }
    for line in left_out {
        println!("  {line}");
    }
    let first = &harnesses[0];
    let several = harnesses.len() > 1;
    println!("\nnext{}:", if several { ", for each harness" } else { "" });
    println!("  1. check every line marked EDIT: pointers do not tell shapes");
    let tensors = first.draft.inputs.iter().filter(|(_, tensor)| !tensor.is_scalar());
    let tensors: Vec<&str> = tensors.map(|(name, _)| name.as_str()).collect();
    let inputs =
        if several || tensors.is_empty() { "its inputs".to_owned() } else { tensors.join(", ") };
    println!("  2. capture one step into fixtures/NAME/inputs.safetensors: {inputs}");
    let path = first.output.display();
    println!("  3. write fixtures/NAME/fixture.toml: harness = \"../../{path}\"");
    let needed_numbers =
        [("scalars", first.draft.scalars()), ("sizes", first.draft.sizes_by_number())];
    for (table, names) in needed_numbers.iter().filter(|(_, names)| !several && !names.is_empty()) {
        println!("     with numbers for {} in [{table}]", names.join(", "));
    }
    let output_names: Vec<&str> = first.draft.outputs.keys().map(String::as_str).collect();
    let outputs = if several { String::new() } else { format!(": {}", output_names.join(", ")) };
    println!("  4. replay inspect fixtures/NAME, then replay fixtures/NAME{outputs}");
}
