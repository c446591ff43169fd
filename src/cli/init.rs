//! `replay init`: writes a first `replay.toml` from the sources, without questions.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use ::replay::files;
use ::replay::frontend::FunctionSignature;
use ::replay::harness::{CppStandard, Harness};
use ::replay::history::History;

use super::callable_source::{CODE, CallableSource, collect_files, is_host, unite_sources};
use super::draft::{
    BoundResults, BuildMacro, Draft, DraftedBuild, PythonNumbers, TypeNames, choose_usual_sizes,
    find_build_macros, find_build_standard, find_command_standard, find_python_passes, is_backward,
    split_words,
};
use super::draft_measurement::{DraftMeasurement, measure_draft};
use super::error::{CliResult, CommandError, ErrorContext};
use super::exit;
use super::out::println;
use super::random_fixture::{InputDraws, RandomFixture, RandomSizes};
use super::session::Session;
use super::source_index::{BoundFunction, SourceIndex};

/// Nobody reads more drafts than this; the rest is only named.
const MOST: usize = 48;

/// The arguments of `replay init`.
#[derive(Debug, clap::Args)]
pub struct InitArgs {
    /// The CUDA source to call, or with --random a harness [default: every source below this folder]
    #[arg(value_name = "SOURCE")]
    source: Option<PathBuf>,
    /// The file to write; it must not exist. Further drafts lie beside it, as FILE-NAME.toml
    #[arg(short, long, value_name = "FILE", default_value = "replay.toml")]
    output: PathBuf,
    /// Measure shapes, and write a fixture of random inputs as well, which is marked as synthetic. Sizes are chosen, or
    /// all given. For a harness that is there, the fixture alone is written. Calls of a measurement take a minute of
    /// processor time at most, and the whole two minutes behind its compilation; what was found until then is written
    #[arg(long, value_name = "NAME=SIZE,...", num_args = 0..=1, default_missing_value = "")]
    random: Option<String>,
}

/// A harness to write.
struct Harnessed {
    output: PathBuf,
    /// The source of its first function comes first.
    build: DraftedBuild,
    draft: Draft,
    /// The draft of its first function alone, where it calls several: it does where a measurement of all fails.
    first_alone: Option<Draft>,
    /// The sizes of its random inputs, where some are wanted.
    random_sizes: Option<RandomSizes>,
    /// Those in whose place it stands: they do where a measurement of it fails.
    displaced: Vec<Harnessed>,
}

impl Harnessed {
    /// The text of the file.
    fn text(&self) -> String {
        self.draft.text(&self.build)
    }

    /// The source of its first function.
    fn source(&self) -> &str {
        &self.build.sources[0]
    }

    /// Whether `line` is of a file that it calls.
    fn holds_file_of(&self, line: &str) -> bool {
        let file = line.split(": ").next();
        self.build.sources.iter().any(|source| Some(source.as_str()) == file)
    }
}

/// A harness that calls what Python calls.
struct BoundDraft {
    harnessed: Harnessed,
    /// The functions within reach of its own.
    reached: BTreeSet<String>,
}

impl BoundDraft {
    /// Whether all that `other` calls is called by it.
    fn covers(&self, other: &Harnessed) -> bool {
        other.draft.functions.iter().all(|function| self.reached.contains(function))
    }
}

/// What all drafts of a repository share.
struct Repository {
    root: PathBuf,
    submodules: Vec<PathBuf>,
    /// What scripts of builds define.
    macros: Vec<BuildMacro>,
    /// What Python passes for integers.
    python_numbers: PythonNumbers,
}

impl Repository {
    /// The harness of `draft` with `sources`; it has no file yet.
    fn make_harness(&self, mut draft: Draft, sources: &[&CallableSource]) -> Harnessed {
        draft.take_python_numbers(&self.python_numbers);
        let is_of_submodule = |folder: &PathBuf| {
            self.submodules.iter().any(|submodule| folder.starts_with(submodule))
        };
        let (system_include, include): (Vec<PathBuf>, Vec<PathBuf>) =
            list_header_folders(sources).into_iter().partition(is_of_submodule);
        let standards = sources.iter().map(|source| find_source_standard(&source.path, &self.root));
        let texts = sources.iter().flat_map(|source| source.texts());
        let words: HashSet<&str> = texts.flat_map(split_words).collect();
        let is_used = |defined: &&BuildMacro| words.contains(defined.name.as_str());
        let system_include = system_include.iter().map(|folder| folder.display().to_string());
        Harnessed {
            output: PathBuf::new(),
            build: DraftedBuild {
                sources: sources.iter().map(|source| source.path.clone()).collect(),
                include: name_folders(&include, &self.root),
                system_include: system_include.collect(),
                standard: standards.max().unwrap_or_default(),
                defines: self.macros.iter().filter(is_used).cloned().collect(),
            },
            first_alone: self.draft_first_alone(&draft, sources),
            draft,
            random_sizes: None,
            displaced: Vec::new(),
        }
    }

    /// The draft of the first function of `draft` alone, where it calls several. They are defined in `sources`.
    fn draft_first_alone(&self, draft: &Draft, sources: &[&CallableSource]) -> Option<Draft> {
        let [first, _, ..] = &draft.functions[..] else { return None };
        let mut functions = sources.iter().flat_map(|source| &source.functions);
        let function = functions.find(|function| function.name == *first)?;
        let mut first_draft = draft_functions(vec![function], sources).pop()?;
        first_draft.take_python_numbers(&self.python_numbers);
        Some(first_draft)
    }

    /// Drafts of what the sources of `index` bind for Python.
    fn draft_bound(&self, index: &SourceIndex<'_>) -> Vec<BoundDraft> {
        let mut drafts = Vec::new();
        for functions in index.list_bound() {
            let all_sources = unite_sources(functions.iter().flat_map(BoundFunction::list_sources));
            let signatures = functions.iter().map(|function| function.signature).collect();
            for draft in draft_functions(signatures, &all_sources) {
                let called: Vec<&BoundFunction<'_>> = functions
                    .iter()
                    .filter(|function| draft.functions.contains(&function.signature.name))
                    .collect();
                let sources = unite_sources(called.iter().flat_map(|bound| bound.list_sources()));
                let reached = called.iter().flat_map(|function| function.reached.clone()).collect();
                drafts.push(BoundDraft { harnessed: self.make_harness(draft, &sources), reached });
            }
        }
        drafts
    }

    /// Drafts of the operations in the `texts` of Python that call bound functions forward and backward, each of its functions
    /// once.
    fn draft_python_passes(&self, index: &SourceIndex<'_>, texts: &[String]) -> Vec<BoundDraft> {
        let bound = index.list_python_functions();
        let find = |name: &str, arguments: usize| find_called(&bound, name, arguments);
        let find_results =
            |name: &str, arguments: usize| Some(BoundResults::of(find(name, arguments)?.signature));
        let mut drafts: Vec<BoundDraft> = Vec::new();
        for passes in find_python_passes(texts, &find_results) {
            let called = passes.calls.iter().map(|call| find(&call.function, call.arguments.len()));
            let Some(called) = called.collect::<Option<Vec<&BoundFunction<'_>>>>() else {
                continue;
            };
            let sources = unite_sources(called.iter().flat_map(|bound| bound.list_sources()));
            let types = TypeNames::from_texts(sources.iter().flat_map(|source| source.texts()));
            let functions: Vec<&FunctionSignature> =
                called.iter().map(|bound| bound.signature).collect();
            let Some(draft) = Draft::from_python_passes(&passes, &functions, &types) else {
                continue;
            };
            let harnessed = self.make_harness(draft, &sources);
            if drafts.iter().any(|earlier| earlier.covers(&harnessed)) {
                continue;
            }
            let reached = called.iter().flat_map(|function| function.reached.clone()).collect();
            drafts.push(BoundDraft { harnessed, reached });
        }
        drafts
    }
}

/// The function of `bound` that Python calls `name` with so many `arguments`; none where several are.
fn find_called<'b, 's>(
    bound: &'b BTreeMap<&str, Vec<BoundFunction<'s>>>,
    name: &str,
    arguments: usize,
) -> Option<&'b BoundFunction<'s>> {
    let functions = bound.get(name)?;
    let is_fit = |function: &&BoundFunction<'_>| function.signature.parameters.len() == arguments;
    match &functions.iter().filter(is_fit).collect::<Vec<_>>()[..] {
        [only] => Some(only),
        // Other parameters have a default.
        [] if functions.len() == 1 => functions.first(),
        _ => None,
    }
}

/// The drafts of calls of `functions`, which are defined in `sources`.
fn draft_functions(
    mut functions: Vec<&FunctionSignature>,
    sources: &[&CallableSource],
) -> Vec<Draft> {
    // A backward pass reads what the forward pass writes, wherever it stands.
    functions.sort_by_key(|function| is_backward(&function.name));
    let types = TypeNames::from_texts(sources.iter().flat_map(|source| source.texts()));
    Draft::from_functions(&functions, &types)
}

/// Puts drafts of what Python calls in the place of `harnesses` whose calls are guesses, and adds those of what no harness
/// calls. Returns the others: they do where a measurement of a harness fails.
fn take_bound_drafts(
    harnesses: &mut Vec<Harnessed>,
    bound_drafts: Vec<BoundDraft>,
) -> Vec<BoundDraft> {
    let mut second_choices = Vec::new();
    for bound in bound_drafts {
        let functions = &bound.harnessed.draft.functions;
        let is_called = |harnessed: &Harnessed| {
            functions.iter().all(|function| harnessed.draft.functions.contains(function))
        };
        if harnesses.iter().any(is_called) {
            continue;
        }
        match harnesses.iter().position(|harnessed| bound.covers(harnessed)) {
            None => harnesses.push(bound.harnessed),
            Some(place) if harnesses.iter().any(|h| bound.covers(h) && h.draft.guesses_calls()) => {
                harnesses.retain(|harnessed| !bound.covers(harnessed));
                harnesses.insert(place, bound.harnessed);
            }
            Some(_) => second_choices.push(bound),
        }
    }
    // An operation with a weight and a bias comes before the same without.
    second_choices.sort_by_key(|bound| Reverse(bound.harnessed.draft.inputs.len()));
    second_choices
}

/// Puts drafts of operations as Python calls them in the place of those of `harnesses` that call the same, in front of all
/// others.
fn take_python_drafts(harnesses: &mut Vec<Harnessed>, python_drafts: Vec<BoundDraft>) {
    for bound in python_drafts.into_iter().rev() {
        let (displaced, others) =
            std::mem::take(harnesses).into_iter().partition(|harnessed| bound.covers(harnessed));
        *harnesses = others;
        harnesses.insert(0, Harnessed { displaced, ..bound.harnessed });
    }
}

/// Gives each of `harnesses` its file: `first`, and those beside it.
fn name_outputs(harnesses: &mut [Harnessed], first: &Path) {
    for number in 0..harnesses.len() {
        let (earlier, later) = harnesses.split_at_mut(number);
        later[0].output = choose_draft_path(first, &later[0], earlier);
    }
}

/// Writes the files and prints the next steps.
pub fn run_init(args: &InitArgs, session: &Session) -> CliResult<u8> {
    let working_folder = fs::canonicalize(".").context(|| "cannot read the current folder")?;
    let history = History::discover(&working_folder)?;
    let root = history.working_tree_root().map_or(Ok(working_folder.clone()), fs::canonicalize)?;
    let mut files = Vec::new();
    collect_files(&working_folder, 0, &CODE, &mut files);
    files.sort();
    if let Some(sizes) = &args.random
        && let Some(path) = find_existing_harness(args)
    {
        return write_random_fixture(&path, sizes);
    }
    let source = args.source.as_ref().map(|path| fs::canonicalize(path).unwrap_or(path.clone()));
    if let Some(folder) = source.as_ref().filter(|path| path.is_dir()) {
        return Err(folder_for_source(folder, &root, &files));
    }
    let index = SourceIndex::read(&working_folder, source.as_deref(), &files, &root);
    let mut left_out = Vec::new();
    let candidates: Vec<&CallableSource> = match &source {
        Some(path) => index.find_source(path)?.into_iter().collect(),
        None => index.list_callable(&mut left_out),
    };
    let python_texts = read_python_texts(&working_folder);
    let repository = Repository {
        submodules: find_submodules(&root),
        macros: find_script_macros(&working_folder),
        python_numbers: index.find_python_numbers(&python_texts),
        root: root.clone(),
    };
    let mut harnesses: Vec<Harnessed> = Vec::new();
    for passes in &join_passes(candidates.clone()) {
        let mut functions = Vec::new();
        for candidate in passes {
            let own_functions = candidate.worth_calling();
            left_out.extend(not_called(candidate, &own_functions));
            functions.extend(own_functions);
        }
        for draft in draft_functions(functions, passes) {
            let used = passes.iter().filter(|pass| pass.has_any(&draft.functions)).copied();
            let definers =
                used.clone().flat_map(|pass| index.list_definers(pass, &draft.functions));
            let sources = unite_sources(used.clone().chain(definers));
            harnesses.push(repository.make_harness(draft, &sources));
        }
    }
    let second_choices = match args.source {
        Some(_) => Vec::new(),
        None => {
            let rest = take_bound_drafts(&mut harnesses, repository.draft_bound(&index));
            take_python_drafts(
                &mut harnesses,
                repository.draft_python_passes(&index, &python_texts),
            );
            rest
        }
    };
    left_out.retain(|line| !harnesses.iter().any(|harnessed| harnessed.holds_file_of(line)));
    name_outputs(&mut harnesses, &args.output);
    if harnesses.is_empty() {
        return Err(match candidates.first().filter(|_| args.source.is_some()) {
            Some(candidate) => no_launch(candidate, &index),
            None => nothing_to_call(&working_folder, &root),
        });
    }
    for surplus in harnesses.drain(MOST.min(harnesses.len())..) {
        let functions = surplus.draft.functions.join(", ");
        let limit_words =
            format!("{MOST} drafts are written at once: `replay init {0}`", surplus.source());
        left_out.push(format!(
            "{functions} in {}: {limit_words} --output FILE drafts it",
            surplus.source()
        ));
    }
    if let Some(words) = &args.random {
        choose_random_sizes(words, &mut harnesses)?;
        measure_drafts(
            session,
            &mut harnesses,
            second_choices,
            &root,
            &args.output,
            &mut left_out,
        )?;
    }
    let mut random = Vec::new();
    let mut problems = Vec::new();
    for harnessed in &harnesses {
        match (Harness::parse(&harnessed.text(), &harnessed.output), &harnessed.random_sizes) {
            (Ok(harness), Some(sizes)) => {
                random.push((harness, sizes, harnessed.draft.input_draws()));
            }
            (Ok(_), None) => {}
            (Err(problem), _) => problems
                .push(CommandError::from(problem).context("the draft has to be edited first")),
        }
    }
    let first_stem = harnesses[0].output.file_stem().unwrap_or_default().to_string_lossy();
    let random_fixtures = plan_random_fixtures(&random, &first_stem, &mut left_out)?;
    write_harness_drafts(&harnesses)?;
    random_fixtures.iter().try_for_each(RandomFixture::write)?;
    problems.iter().for_each(CommandError::print);
    print_drafts(&harnesses, &left_out, &random_fixtures, args.random.is_some());
    Ok(exit::SUCCESS)
}

/// Gives each draft the sizes that `words` of --random name, if they name any.
fn choose_random_sizes(words: &str, harnesses: &mut [Harnessed]) -> CliResult<()> {
    if words.is_empty() {
        return Ok(());
    }
    let sizes = RandomSizes::parse(words)?;
    let known_sizes: Vec<&str> =
        harnesses.iter().flat_map(|harnessed| harnessed.draft.named_sizes()).collect();
    sizes.check_known(known_sizes.into_iter())?;
    for harnessed in harnesses {
        harnessed.random_sizes = Some(sizes.clone());
    }
    Ok(())
}

/// Measures the tensors of all drafts. A measured one without sizes takes those of its first measurement; `left_out` names
/// the others without.
fn measure_drafts(
    session: &Session,
    harnesses: &mut Vec<Harnessed>,
    mut second_choices: Vec<BoundDraft>,
    root: &Path,
    output: &Path,
    left_out: &mut Vec<String>,
) -> CliResult<()> {
    let mut number = 0;
    while number < harnesses.len() {
        let mut reason = measure_harness(session, &mut harnesses[number], root, left_out)?;
        let displaced = std::mem::take(&mut harnesses[number].displaced);
        if let Some(reason) = reason.as_ref().filter(|_| !displaced.is_empty()) {
            let functions = harnesses[number].draft.functions.join(", ");
            left_out.push(format!("{functions} as Python calls them: {reason}"));
            harnesses.splice(number..=number, displaced);
            name_outputs(harnesses, output);
            continue;
        }
        let second = second_choices.iter().position(|bound| bound.covers(&harnesses[number]));
        if let Some(second) = second.filter(|_| reason.is_some()) {
            let mut bound = second_choices.remove(second);
            bound.harnessed.output.clone_from(&harnesses[number].output);
            bound.harnessed.random_sizes.clone_from(&harnesses[number].random_sizes);
            if measure_harness(session, &mut bound.harnessed, root, left_out)?.is_none() {
                reason = None;
                let later = harnesses.split_off(number + 1).into_iter();
                let uncovered = later.filter(|harnessed| !bound.covers(harnessed));
                let uncovered: Vec<Harnessed> = uncovered.collect();
                harnesses[number] = bound.harnessed;
                harnesses.extend(uncovered);
            }
        }
        let harnessed = &mut harnesses[number];
        if let Some(first) = harnessed.first_alone.take().filter(|_| reason.is_some())
            && harnessed.random_sizes.is_none()
        {
            let all = std::mem::replace(&mut harnessed.draft, first);
            if measure_harness(session, harnessed, root, left_out)?.is_some() {
                harnessed.draft = all;
            } else if let Some(reason) = &reason {
                let rest = all.functions[1..].join(", ");
                left_out.push(format!("{rest} in {}: {reason}", harnessed.output.display()));
            }
        }
        if let Some(reason) = reason.filter(|_| harnessed.random_sizes.is_none()) {
            left_out.push(format!("random inputs for {}: {reason}", harnessed.output.display()));
        }
        number += 1;
    }
    Ok(())
}

/// Measures the tensors of the draft of `harnessed`, which has their shapes and some sizes then; or says why there is no
/// measurement. `left_out` names one that has no more than was found in time.
fn measure_harness(
    session: &Session,
    harnessed: &mut Harnessed,
    root: &Path,
    left_out: &mut Vec<String>,
) -> CliResult<Option<String>> {
    let mut draft = harnessed.draft.clone();
    match measure_draft(session, &mut draft, &harnessed.build, root)? {
        DraftMeasurement::Measured { sizes, shortage } => {
            left_out.extend(shortage.map(|shortage| {
                let functions = draft.functions.join(", ");
                format!("shapes of {functions} for other sizes: {shortage}; numbers in them are of one try")
            }));
            harnessed.draft = draft;
            harnessed.random_sizes.get_or_insert(sizes);
            Ok(None)
        }
        DraftMeasurement::Not { reason } => Ok(Some(reason)),
    }
}

/// The fixtures of random inputs for harnesses with sizes. One alone must have all its sizes; of several `left_out` names
/// those without.
fn plan_random_fixtures(
    random: &[(Harness, &RandomSizes, InputDraws)],
    first_stem: &str,
    left_out: &mut Vec<String>,
) -> CliResult<Vec<RandomFixture>> {
    let mut fixtures = Vec::new();
    let mut first_error = None;
    for (harness, sizes, draws) in random {
        match sizes.plan_fixture(harness, draws, &name_random_fixture(harness, first_stem)) {
            Ok(fixture) => fixtures.push(fixture),
            Err(error) => {
                left_out.push(error.in_a_line());
                first_error.get_or_insert(error);
            }
        }
    }
    match first_error {
        Some(error) if fixtures.is_empty() => Err(error),
        _ => Ok(fixtures),
    }
}

/// `random`, with what the name of the harness has beyond `first_stem`.
fn name_random_fixture(harness: &Harness, first_stem: &str) -> String {
    let stem = harness.path.file_stem().unwrap_or_default().to_string_lossy();
    match stem.strip_prefix(first_stem) {
        Some(rest) => format!("random{rest}"),
        None => format!("random-{stem}"),
    }
}

/// The latest standard of C++ that the build gives the source at `path`, from `root`: by its command, or else by the
/// nearest script with a standard.
fn find_source_standard(path: &str, root: &Path) -> CppStandard {
    for folder in ["", "build"] {
        let commands = read_build_text(&root.join(folder).join("compile_commands.json"));
        if let Some(standard) =
            commands.and_then(|text| find_command_standard(&text, Path::new(path)))
        {
            return standard;
        }
    }
    for folder in Path::new(path).ancestors().skip(1) {
        let scripts = ["setup.py", "CMakeLists.txt"]
            .map(|name| read_build_text(&root.join(folder).join(name)));
        let mut standards = scripts.iter().flatten().filter_map(|text| find_build_standard(text));
        if let Some(standard) = standards.next() {
            return standard;
        }
    }
    CppStandard::default()
}

/// The texts of Python below `folder`.
fn read_python_texts(folder: &Path) -> Vec<String> {
    let mut paths = Vec::new();
    collect_files(folder, 0, &["py"], &mut paths);
    paths.sort();
    paths.iter().filter_map(|path| read_build_text(path)).collect()
}

/// The macros that scripts of builds below `folder` define, each once.
fn find_script_macros(folder: &Path) -> Vec<BuildMacro> {
    let mut scripts = Vec::new();
    collect_files(folder, 0, &["py", "txt", "cmake"], &mut scripts);
    // Other texts are no scripts.
    scripts.retain(|path| {
        path.extension().is_none_or(|end| end != "txt") || path.ends_with("CMakeLists.txt")
    });
    scripts.sort();
    let mut macros: Vec<BuildMacro> = Vec::new();
    for text in scripts.iter().filter_map(|script| read_build_text(script)) {
        for defined in find_build_macros(&text) {
            if macros.iter().all(|known| known.name != defined.name) {
                macros.push(defined);
            }
        }
    }
    macros
}

/// The text of the file at `path`, if it can be read.
fn read_build_text(path: &Path) -> Option<String> {
    files::read_text(path, files::TEXT_BYTES).ok()
}

/// The harness for which random inputs are asked: the one that is named, or the one that is there where nothing is.
fn find_existing_harness(args: &InitArgs) -> Option<PathBuf> {
    let path = args.source.as_ref().unwrap_or(&args.output);
    let is_harness = path.extension().is_some_and(|extension| extension == "toml");
    (is_harness && path.is_file()).then(|| path.clone())
}

/// Writes the fixture `random` for the harness at `path`, with the sizes that `words` of --random name, or chosen ones.
fn write_random_fixture(path: &Path, words: &str) -> CliResult<u8> {
    let harness = Harness::load(path)?;
    let sizes = if words.is_empty() {
        let names: Vec<String> = harness.size_names().map(str::to_owned).collect();
        RandomSizes::from_sizes(choose_usual_sizes(&names))
    } else {
        RandomSizes::parse(words)?
    };
    sizes.check_known(harness.size_names())?;
    let name = name_random_fixture(&harness, "replay");
    let fixture = sizes.plan_fixture(&harness, &InputDraws::default(), &name)?;
    fixture.write()?;
    println!("{}", fixture.describe());
    println!("\nnext:\n  1. replay {}", fixture.folder.display());
    println!("  2. capture one step in its place: random inputs tell nothing of a training");
    Ok(exit::SUCCESS)
}

/// The folders of the submodules of the repository at `root`.
fn find_submodules(root: &Path) -> Vec<PathBuf> {
    let text = read_build_text(&root.join(".gitmodules")).unwrap_or_default();
    let paths = text.lines().filter_map(|line| {
        let (key, path) = line.split_once('=')?;
        (key.trim() == "path").then(|| root.join(path.trim()))
    });
    paths.collect()
}

/// The `candidates`, with the two passes of one operation together where they stand in two files, of one folder or of a
/// folder each: the forward pass first.
fn join_passes(mut candidates: Vec<&CallableSource>) -> Vec<Vec<&CallableSource>> {
    let mut groups = Vec::new();
    while !candidates.is_empty() {
        let first = candidates.remove(0);
        let partner = candidates.iter().position(|other| first.is_other_pass(other));
        let mut passes = vec![first];
        passes.extend(partner.map(|place| candidates.remove(place)));
        passes.sort_by_key(|pass| pass.path_parts().filter(|part| is_backward(part)).count());
        groups.push(passes);
    }
    groups
}

/// The folders that the headers of `sources` are named from.
fn list_header_folders(sources: &[&CallableSource]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    for folder in sources.iter().flat_map(|source| &source.headers.folders) {
        if !folders.contains(folder) {
            folders.push(folder.clone());
        }
    }
    folders
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
        } else {
            "it takes no pointer, so it neither reads nor writes a tensor"
        };
        lines.push(format!("{} in {}: {reason}", function.name, candidate.path));
    }
    lines
}

/// Where a draft goes: `first`, then `first` with the name of the source or of its first function.
fn choose_draft_path(first: &Path, harnessed: &Harnessed, earlier: &[Harnessed]) -> PathBuf {
    let source = harnessed.source();
    if earlier.is_empty() {
        return first.to_owned();
    }
    let stem = first.file_stem().unwrap_or_default().to_string_lossy();
    let of_file = Path::new(source).file_stem().unwrap_or_default().to_string_lossy();
    let functions = harnessed.draft.functions.first().map(String::as_str);
    let is_source_drafted = earlier.iter().any(|harness| harness.source() == source);
    let names = [(!is_source_drafted).then_some(&*of_file), functions].into_iter().flatten();
    let numbered_names = (2..).map(|number| format!("{of_file}-{number}"));
    let mut paths = names
        .map(str::to_owned)
        .chain(numbered_names)
        .map(|name| first.with_file_name(format!("{stem}-{name}.toml")));
    let free_path = paths.find(|path| earlier.iter().all(|harness| harness.output != *path));
    free_path.unwrap_or_else(|| first.to_owned())
}

/// The error for a `folder` that stands for a source; it names one of `files` below it.
fn folder_for_source(folder: &Path, root: &Path, files: &[PathBuf]) -> CommandError {
    let is_source = |path: &&PathBuf| {
        path.starts_with(folder) && path.extension().is_some_and(|extension| extension == "cu")
    };
    let example = files.iter().find(is_source).map_or(String::new(), |source| {
        let name = source.strip_prefix(root).unwrap_or(source).display();
        format!(" such as {name},")
    });
    let name = match folder.strip_prefix(root).unwrap_or(folder).display().to_string() {
        name if name.is_empty() => ".".to_owned(),
        name => name,
    };
    CommandError::new(format!("{name} is a folder, not a source")).with_hint(format!(
        "name a source in it,{example} or run `replay init` there: it drafts calls of every source below"
    ))
}

/// The error for a folder without CUDA to call. Where kernels in Python lie in `folder`, it names the way for those.
fn nothing_to_call(folder: &Path, root: &Path) -> CommandError {
    let message = "this folder holds no CUDA source with a kernel to call";
    let mut python_files = Vec::new();
    collect_files(folder, 0, &["py"], &mut python_files);
    python_files.sort();
    let framework = python_files.iter().find_map(|path| {
        let text = read_build_text(path)?;
        let framework = find_python_framework(&text)?;
        Some((path.strip_prefix(root).unwrap_or(path).display().to_string(), framework))
    });
    match framework {
        None => CommandError::new(message)
            .with_hint("name the source: `replay init path/to/kernel.cu`".to_owned()),
        Some((path, framework)) => {
            CommandError::new(format!("{message}; {path} is of {framework}")).with_hint(
                "captures of Python draft their own harness: `fn = capture.function(fn)` of \
                 `gradreplay`, and a step of the training (`replay help capture`)"
                    .to_owned(),
            )
        }
    }
}

/// The framework that a Python file with kernels or gradients imports, if it is one that can be captured.
fn find_python_framework(text: &str) -> Option<&'static str> {
    const FRAMEWORKS: [(&str, &str); 3] =
        [("triton", "Triton"), ("jax", "JAX"), ("torch", "PyTorch")];
    let imports = |module: &str| {
        text.lines().any(|line| {
            let mut words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            matches!(words.next(), Some("import" | "from")) && words.next() == Some(module)
        })
    };
    FRAMEWORKS.iter().find(|(module, _)| imports(module)).map(|(_, name)| *name)
}

/// The error for the source `candidate` without a launch; it names those of `index` whose functions it calls.
fn no_launch(candidate: &CallableSource, index: &SourceIndex<'_>) -> CommandError {
    let path = &candidate.path;
    let is_mentioned = |function: &&FunctionSignature| {
        split_words(&candidate.text).any(|word| word == function.name)
    };
    for launching in index.list_callable(&mut Vec::new()) {
        let functions = launching.worth_calling().into_iter().filter(is_mentioned);
        let names: Vec<&str> = functions.map(|function| function.name.as_str()).collect();
        if !names.is_empty() {
            let message = format!(
                "{path} launches no kernel itself: it uses {} of {}",
                names.join(", "),
                launching.path
            );
            return CommandError::new(message)
                .with_hint(format!("`replay init {}` drafts the call of them", launching.path));
        }
    }
    CommandError::new(format!("{path} holds no kernel and no function that launches one"))
        .with_hint("name the source with the kernels: `replay init path/to/kernel.cu`".to_owned())
}

/// `folders` relative to `root`.
fn name_folders(folders: &[PathBuf], root: &Path) -> Vec<String> {
    let folders = folders.iter().filter_map(|folder| folder.strip_prefix(root).ok());
    let names = folders.map(|folder| match folder.display().to_string() {
        name if name.is_empty() => ".".to_owned(),
        name => name,
    });
    names.collect()
}

/// Writes all of them or none.
fn write_harness_drafts(harnesses: &[Harnessed]) -> CliResult<()> {
    for (number, harness) in harnesses.iter().enumerate() {
        let path = &harness.output;
        if let Err(error) = files::create_new_file(path, harness.text().as_bytes()) {
            for written_harness in &harnesses[..number] {
                let _ = fs::remove_file(&written_harness.output);
            }
            if error.kind() != ErrorKind::AlreadyExists {
                return Err(error).context(|| format!("cannot write {}", path.display()));
            }
            if path.is_dir() {
                let message = format!("{} is a folder", path.display());
                let hint =
                    format!("name a file in it: --output {}", path.join("replay.toml").display());
                return Err(CommandError::new(message).with_hint(hint));
            }
            let message = format!("{} exists and is left as it is", path.display());
            let hint = "edit it, or name another file with --output".to_owned();
            return Err(CommandError::new(message).with_hint(hint));
        }
    }
    Ok(())
}

fn print_drafts(
    harnesses: &[Harnessed],
    left_out: &[String],
    random: &[RandomFixture],
    was_measured: bool,
) {
    for Harnessed { output, build, draft, .. } in harnesses {
        println!("wrote {}, which calls {}:", output.display(), build.sources.join(" and "));
        for call in &draft.calls {
            println!("  {}", call.statement());
        }
    }
    for fixture in random {
        println!("{}", fixture.describe());
    }
    if !left_out.is_empty() {
        println!("\nleft out:");
    }
    for line in left_out {
        println!("  {line}");
    }
    print_next_steps(harnesses, random, was_measured);
}

/// What to do with the drafts; `was_measured` says that a measurement was tried.
fn print_next_steps(harnesses: &[Harnessed], random: &[RandomFixture], was_measured: bool) {
    let first = &harnesses[0];
    let several = harnesses.len() > 1;
    if let [first_fixture, more_fixtures @ ..] = random {
        let folder = &first_fixture.folder;
        let all_fixtures = if more_fixtures.is_empty() { None } else { folder.parent() };
        println!("\nnext:");
        println!("  1. replay {}", all_fixtures.unwrap_or(folder).display());
        println!("  2. check every line marked EDIT, before you believe a finding");
        println!("  3. capture one step in its place: random inputs tell nothing of a training");
        return;
    }
    println!("\nnext{}:", if several { ", for each harness" } else { "" });
    let advice = if was_measured { "" } else { ", `--random` measures them" };
    println!("  1. check every line marked EDIT: pointers do not tell shapes{advice}");
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
