//! `replay init`: writes a first `replay.toml`, asking nothing that the sources tell.

use std::fs;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use ::replay::frontend::{Signature, Unit, scan, signatures};
use ::replay::harness::Harness;
use ::replay::history::History;
use anstream::println;
use anyhow::Context;

use super::draft::Draft;
use super::error::{self, CliResult, Complaint};
use super::exit;

/// What to start from.
#[derive(Debug, clap::Args)]
pub struct Args {
    /// The CUDA source to call [default: the first below this folder that launches a gradient]
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// The file to write; it must not exist
    #[arg(long, value_name = "FILE", default_value = "replay.toml")]
    output: PathBuf,
}

/// A CUDA source with functions that can be called.
struct Candidate {
    /// From the root of the repository, as a harness names it.
    path: String,
    text: String,
    functions: Vec<Signature>,
}

/// Writes the file and says what to do next.
pub fn run(args: &Args) -> CliResult {
    let here = fs::canonicalize(".").context("cannot read the current folder")?;
    let history = History::discover(&here)?;
    let root = history.working_tree_root().map_or(Ok(here.clone()), fs::canonicalize)?;
    let mut files = Vec::new();
    walk(&here, 0, &mut files);
    files.sort();
    let chosen = match &args.source {
        Some(path) => candidate(&fs::canonicalize(path).unwrap_or(path.clone()), &root)?,
        None => choose(&files, &root)?,
    };
    let functions = worth_calling(&chosen.functions);
    if functions.is_empty() {
        return Err(nothing_to_call(&chosen.path));
    }
    let draft = Draft::new(&functions);
    let text = draft.text(&chosen.path, &includes(&chosen.text, &files, &root));
    write_new(&args.output, &text)?;
    if let Err(problem) = Harness::parse(&text, &args.output) {
        error::print(&anyhow::Error::new(problem).context("the draft has to be edited first"));
    }
    tell(&args.output, &chosen.path, &draft);
    Ok(exit::SUCCESS)
}

/// Files that may be CUDA sources or headers, in folders that are not hidden or built.
fn walk(folder: &Path, depth: usize, files: &mut Vec<PathBuf>) {
    const DEEPEST: usize = 12;
    const BUILT: [&str; 4] = ["target", "build", "node_modules", "__pycache__"];
    const CODE: [&str; 5] = ["cu", "cuh", "h", "hpp", "inl"];
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() && depth < DEEPEST && !name.starts_with('.') && !BUILT.contains(&&*name) {
            walk(&entry.path(), depth + 1, files);
        } else if kind.is_file()
            && name.rsplit_once('.').is_some_and(|(_, extension)| CODE.contains(&extension))
        {
            files.push(entry.path());
        }
    }
}

fn candidate(path: &Path, root: &Path) -> anyhow::Result<Candidate> {
    let text = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let Ok(inside) = path.strip_prefix(root) else {
        let message = format!("{} lies outside of the repository", path.display());
        return Err(Complaint { message, hint: None }.into());
    };
    let inside = inside.display().to_string();
    let unit = Unit { path: &inside, text: &text };
    let functions = signatures(&unit, &scan(&[unit]));
    Ok(Candidate { path: inside, text, functions })
}

/// The first source that launches something named after a gradient, else the first that launches.
fn choose(files: &[PathBuf], root: &Path) -> anyhow::Result<Candidate> {
    let mut first = None;
    for path in files.iter().filter(|path| path.extension().is_some_and(|ext| ext == "cu")) {
        let found = candidate(path, root)?;
        let worth = worth_calling(&found.functions);
        let telling =
            |name: &str| ["grad", "backward", "loss"].iter().any(|word| name.contains(word));
        if worth.iter().any(|function| telling(&function.name)) {
            return Ok(found);
        }
        if !worth.is_empty() && first.is_none() {
            first = Some(found);
        }
    }
    first.ok_or_else(|| nothing_to_call("this folder"))
}

fn nothing_to_call(place: &str) -> anyhow::Error {
    let message = format!("{place} holds no CUDA source with a kernel to call");
    let hint = "name the source: `replay init path/to/kernel.cu`".to_owned();
    Complaint { message, hint: Some(hint) }.into()
}

/// Host functions that launch kernels and can be called from outside; kernels where none does.
fn worth_calling(functions: &[Signature]) -> Vec<&Signature> {
    let host = functions.iter().filter(|function| {
        let reaches = function.parameters.iter().any(|parameter| parameter.ty.contains('*'));
        function.launches
            && !function.kernel
            && !function.local
            && reaches
            && function.name != "main"
    });
    let host: Vec<_> = host.collect();
    if host.is_empty() {
        functions.iter().filter(|function| function.kernel).collect()
    } else {
        host
    }
}

/// The folders, from the root, in which the headers lie that `text` includes.
fn includes(text: &str, files: &[PathBuf], root: &Path) -> Vec<String> {
    let mut folders = Vec::new();
    for line in text.lines() {
        let Some(rest) = line.trim_start().strip_prefix('#') else { continue };
        let Some(rest) = rest.trim_start().strip_prefix("include") else { continue };
        let name = rest.trim().trim_start_matches(['"', '<']).split(['"', '>']).next();
        let name = Path::new(name.unwrap_or_default());
        let Some(found) = files.iter().find(|file| file.ends_with(name)) else { continue };
        let depth = name.components().count();
        let folder = found.ancestors().nth(depth).and_then(|folder| folder.strip_prefix(root).ok());
        let folder = folder.map(|folder| folder.display().to_string());
        let folder = folder.map(|folder| if folder.is_empty() { ".".to_owned() } else { folder });
        folders.extend(folder.filter(|folder| !folders.contains(folder)));
    }
    folders
}

fn write_new(path: &Path, text: &str) -> anyhow::Result<()> {
    let file = fs::File::options().write(true).create_new(true).open(path);
    let mut file = match file {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            let message = format!("{} exists and is left as it is", path.display());
            let hint = "edit it, or name another file with --output".to_owned();
            return Err(Complaint { message, hint: Some(hint) }.into());
        }
        Err(error) => {
            return Err(error).with_context(|| format!("cannot write {}", path.display()));
        }
    };
    file.write_all(text.as_bytes()).with_context(|| format!("cannot write {}", path.display()))
}

fn tell(path: &Path, source: &str, draft: &Draft) {
    let names: Vec<&str> = draft.inputs.keys().map(String::as_str).collect();
    let outputs: Vec<&str> = draft.outputs.keys().map(String::as_str).collect();
    println!("wrote {}, which calls {source}:", path.display());
    for call in &draft.calls {
        println!("  {call}");
    }
    println!("\nnext:");
    println!("  1. check every line marked EDIT: pointers do not tell shapes");
    println!("  2. capture one step into fixtures/NAME/inputs.safetensors: {}", names.join(", "));
    println!("  3. write fixtures/NAME/fixture.toml: harness = \"../../{}\"", path.display());
    println!(
        "  4. replay inspect fixtures/NAME, then replay fixtures/NAME: {}",
        outputs.join(", ")
    );
}
