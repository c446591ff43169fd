//! `replay explain FIXTURE [NAME]`: what keeps sources from being compiled, the front end's forms of them, and the obstacles
//! to faster ones.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};

use ::replay::backend::ReplayError;
use ::replay::cache::Cache;
use ::replay::compile::{
    Build, CompileError, Explanation, Signature, Toolchain, rewritten_sources,
};
use ::replay::fixture::Fixture;
use ::replay::harness::Harness;
use ::replay::report::{self, Explained, Revision, sanitise_line};
use clap::ValueEnum;

use super::completions::{fixture_completer, revision_completer};
use super::error::{CliResult, CommandError, ErrorOwner};
use super::exit;
use super::other_checkout;
use super::out::print;
use super::progress::Progress;
use super::project::HarnessSources;
use super::run_record::{self, run_record};
use super::session::{self, find_session_compiler};
use super::settings::Settings;

/// The arguments of `replay explain`.
#[derive(Debug, clap::Args)]
pub struct ExplainArgs {
    /// A folder of captured tensors, or a harness: replay.toml or its folder
    #[arg(value_name = "FIXTURE", add = fixture_completer())]
    target: PathBuf,
    /// A kernel, a function or a file, about which alone it is told [default: all]
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The revision whose sources are explained [default: the working tree]
    #[arg(short, long, value_name = "REV", add = revision_completer())]
    rev: Option<String>,
    /// Write the rewritten sources instead, as the compiler gets them
    #[arg(
        long,
        value_enum,
        value_name = "BUILD",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "native",
        conflicts_with = "format"
    )]
    source: Option<BuildArg>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: ExplainFormat,
}

/// `--source`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum BuildArg {
    /// Host C++
    Native,
    /// Host C++ in which float means double
    Shadow,
    /// Host C++ of the checked build
    Checked,
    /// Device code for NVRTC
    Device,
}

/// `--format`
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExplainFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
}

impl From<BuildArg> for Build {
    fn from(build: BuildArg) -> Build {
        match build {
            BuildArg::Native => Build::Native,
            BuildArg::Shadow => Build::Shadow,
            BuildArg::Checked => Build::Checked,
            BuildArg::Device => Build::Device,
        }
    }
}

/// The subject: a fixture's harness, or a harness by itself.
struct ExplainTarget {
    fixture: Option<Fixture>,
    harness: Harness,
    origin: HarnessSources,
}

/// Explains the sources of the revision. Runs no kernel.
pub fn run_explain(args: &ExplainArgs, settings: &Settings) -> CliResult<u8> {
    let cache = session::open_session_cache(settings)?;
    let target = open_target(&args.target, &cache)?;
    let requested = target.origin.target(args.rev.as_deref())?;
    let signature = target.fixture.as_ref().map(Signature::from_fixture);
    let is_whole = args.name.is_none() && args.source.is_none();
    let compiler = if is_whole { find_session_compiler(settings, Some(&cache)).ok() } else { None };
    let obstacles = match compiler {
        Some(compiler) => {
            let progress = Progress::start();
            progress.say("compiling the sources");
            let by_harness = || Signature::from_harness(&target.harness);
            let small_signature = signature.clone().unwrap_or_else(by_harness);
            let toolchain = Toolchain::new(compiler, &cache);
            let found =
                toolchain.find_obstacles(&target.harness, &small_signature, &requested.sources);
            Some(found.map_err(refused_sources)?)
        }
        None => None,
    };
    let obstacle_count = obstacles.as_ref().map_or(0, |found| found.obstacles.len());
    let whole = match Explanation::new(&target.harness, signature.as_ref(), &requested.sources) {
        Err(CompileError::Frontend(refusal))
            if obstacles.as_ref().is_some_and(|found| {
                found.obstacles.iter().any(|obstacle| obstacle.message != refusal.to_string())
            }) =>
        {
            Explanation::default()
        }
        explained => explained.map_err(refused_sources)?,
    };
    let explanation = narrow_explanation(whole, args.name.as_deref())?;
    if let Some(build) = args.source {
        let build = Build::from(build);
        let sources =
            rewritten_sources(&target.harness, signature.as_ref(), &requested.sources, build);
        print_sources(&sources.map_err(refused_sources)?, &explanation);
        return Ok(exit::SUCCESS);
    }
    let explained = Explained {
        fixture: target.fixture.map(|fixture| fixture.name),
        harness: target.harness.path.display().to_string(),
        revision: requested.commit.map(Revision::from),
        explanation,
        narrowed: args.name.is_some(),
        obstacles,
    };
    match args.format {
        ExplainFormat::Text => {
            run_record::print_record_head(&[]);
            print!("{}", report::render_explanation_text(&explained));
        }
        ExplainFormat::Json => {
            print!("{}\n", report::render_explanation_json(&explained, run_record()))
        }
    }
    Ok(if obstacle_count > 0 { exit::UNTESTABLE } else { exit::SUCCESS })
}

/// Opens the fixture or harness at `path`.
fn open_target(path: &Path, cache: &Cache) -> CliResult<ExplainTarget> {
    let folder = path.strip_prefix(".").unwrap_or(path);
    let in_folder = folder.join("replay.toml");
    let harness_path = if path.is_file() {
        Some(path.to_owned())
    } else if in_folder.is_file() && !path.join("fixture.toml").exists() {
        Some(in_folder)
    } else {
        None
    };
    let (fixture, harness) = match harness_path {
        Some(path) => (None, Harness::load(&path)?),
        None => {
            let fixture = other_checkout::load_fixture(path)?;
            let harness = fixture.harness.clone();
            (Some(fixture), harness)
        }
    };
    if harness.program.is_some() {
        let harness = harness.path.display();
        return Err(CommandError::new(format!(
            "{harness} runs a program: no CUDA source is rewritten"
        ))
        .with_hint("name a harness with `sources` and a `call`"));
    }
    let origin = HarnessSources::open(&harness, cache)?;
    Ok(ExplainTarget { fixture, harness, origin })
}

/// The error for sources refused by the front end: the revision cannot be tested.
fn refused_sources(error: CompileError) -> CommandError {
    let error = ReplayError::from(error);
    let kind = if error.refusal().is_some() { ErrorOwner::Revision } else { ErrorOwner::Elsewhere };
    CommandError::from(error).of_kind(kind)
}

/// The part of `explanation` about `name`; all of it without a name.
fn narrow_explanation(explanation: Explanation, name: Option<&str>) -> CliResult<Explanation> {
    let Some(name) = name else { return Ok(explanation) };
    explanation.about(name).ok_or_else(|| {
        let kernels: Vec<&str> = explanation.kernels().collect();
        let kernels = if kernels.is_empty() { "none".to_owned() } else { kernels.join(", ") };
        let files: Vec<&str> = explanation.files.iter().map(|file| file.path.as_str()).collect();
        CommandError::new(format!("no kernel, function or file of these sources is called {name}"))
            .with_hint(format!("kernels: {kernels}; files: {}", files.join(", ")))
    })
}

/// Prints the text of each file in `explanation`. Only a terminal needs harmless text.
fn print_sources(sources: &[(String, Vec<u8>)], explanation: &Explanation) {
    let harmless = std::io::stdout().is_terminal();
    for (path, text) in sources {
        if !explanation.files.iter().any(|file| file.path == *path) {
            continue;
        }
        for line in String::from_utf8_lossy(text).lines() {
            if harmless {
                print!("{}\n", sanitise_line(&line.replace('\t', "        ")));
            } else {
                print!("{line}\n");
            }
        }
    }
}
