//! `replay blame FIXTURE... REV`: which hunks of a commit carry its defect.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};

use ::replay::bisect::{BisectEnds, GoodEnds, HunkSearch, SearchTarget, Trusted};
use ::replay::report::SearchRequest;
use ::replay::trial::GradientEffort;

use super::bisect::{
    FILES, OnArg, SearchFormat, SearchOptions, SearchOutput, answer_search, create_bisection,
    load_search_targets,
};
use super::completions::{fixture_or_revision_completer, revision_completer};
use super::error::{CliResult, CommandError};
use super::fixtures;
use super::patch_file::PatchFile;
use super::progress::Progress;
use super::report_file::ReportFiles;
use super::session::Session;
use super::settings::values::parse_jobs_arg;

/// The arguments of `replay blame`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub struct BlameArgs {
    /// Folders of captured tensors, then the commit
    #[arg(required = true, num_args = 2.., value_names = ["FIXTURE", "REV"],
          add = fixture_or_revision_completer())]
    words: Vec<String>,
    /// What makes the commit bad beside its parent
    #[arg(long, value_enum, default_value = "wrong", value_name = "WHAT")]
    on: OnArg,
    /// The revision on which the hunks are reversed [default: the commit itself]
    #[arg(long, value_name = "REV", add = revision_completer())]
    onto: Option<String>,
    /// Write the patch that reverses them there; `git apply` takes it
    #[arg(long, value_name = "FILE")]
    patch: Option<PathBuf>,
    /// Sets of hunks that are tested at a time [default: one a core, at most 8]
    #[arg(short, long, value_name = "N", value_parser = parse_jobs_arg, allow_negative_numbers = true)]
    pub jobs: Option<NonZeroUsize>,
    /// How the result is written; JSON is one event a line
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: SearchFormat,
    /// Write the answer to a file too, or to several; the ending names the format: .html, .json, .md
    #[arg(long, value_name = "FILE")]
    report: Vec<PathBuf>,
}

const AFTER_HELP: &str = "\
Examples:
  replay blame fixtures/step0 61b3d97               the hunks of 61b3d97 that carry its defect
  replay blame fixtures/step0 61b3d97 --onto ec733b6 --patch back.diff
                                                    and whether ec733b6 is good without them
  git apply back.diff                               takes them back in the checkout

Each test is the commit's first parent with some of the commit's hunks, in memory: your checkout is
not touched. A set of hunks that does not compile is neither good nor bad. A hunk is lines
that differ, with at most three others between them, so one of `git diff` may be several here.
Those of comments and white space are left out. `replay bisect --hunks` does the same for the
commit that it finds.";

/// The commit, and the fixtures before it.
fn split_blame_words(args: &BlameArgs) -> CliResult<(Vec<PathBuf>, &str)> {
    let Some((rev, named_fixtures)) = args.words.split_last() else {
        return Err(CommandError::new("no commit was named"));
    };
    if Path::new(rev).join("fixture.toml").is_file() {
        return Err(CommandError::new(format!(
            "{rev} is a fixture, and the last word is the commit"
        ))
        .with_hint("replay blame FIXTURE... REV"));
    }
    // No revision of git has two dots in its name.
    if let Some((good, bad)) = rev.split_once("..") {
        let ends = format!("--good {} --bad {}", named_end(good), named_end(bad));
        return Err(CommandError::new(format!("{rev} is a range, and blame takes one commit"))
            .with_hint(format!("`replay bisect FIXTURE {ends} --hunks` searches a range")));
    }
    Ok((fixtures::expand_fixtures(named_fixtures), rev))
}

/// An end of a range as git reads it.
fn named_end(end: &str) -> &str {
    match end.trim_start_matches('.') {
        "" => "HEAD",
        named => named,
    }
}

/// Compares the commit with its parent, and finds the hunks behind the difference.
pub fn run_blame(args: &BlameArgs, session: &Session) -> CliResult<u8> {
    let files = ReportFiles::named(&args.report, &FILES)?;
    let patch_file = args.patch.as_deref().map(PatchFile::named).transpose()?;
    let (fixtures, rev) = split_blame_words(args)?;
    if matches!(args.on, OnArg::Gradient) && session.gradient_effort() == GradientEffort::Off {
        return Err(CommandError::new(
            "`--on gradient` asks for gradients, and `--gradients off` leaves them out",
        )
        .with_hint("leave out `--gradients off`, or ask for outputs: `--on wrong`")
        .with_hints(session.settings().gradients.origin.hint()));
    }
    let progress = Progress::start();
    progress.say("reading the history");
    let (history, targets) = load_search_targets(&fixtures, session.cache())?;
    let commit = history.resolve(rev)?;
    let Some(&parent) = commit.parents.first() else {
        return Err(CommandError::new(format!(
            "{} has no parent: all of it is new, and none of it can be left out",
            commit.short
        ))
        .with_hint(format!("`replay FIXTURE --rev {}` shows what it does", commit.short)));
    };
    let parent = history.commit(parent)?;
    let onto = args.onto.as_deref().map(|onto| history.resolve(onto)).transpose()?;
    // Of a merge, the commit is found that brought the defect along.
    let options = SearchOptions { on: args.on.into(), first_parent: false };
    let mut bisection = create_bisection(&history, targets, options, session)?;
    bisection.trusted = Trusted::GoodEnd(GoodEnds::Parent);
    bisection.hunk_search = Some(HunkSearch { is_brief: false, onto });
    let ends = BisectEnds::Claimed { good: vec![parent], bad: vec![commit] };
    let fixtures = SearchTarget::names(&bisection.targets);
    let request = SearchRequest { fixtures, ends: &ends, origin: None, axis: None };
    let output = SearchOutput { format: args.format, files, patch_file, first_parent: false };
    answer_search(bisection, &request, &output, progress)
}
