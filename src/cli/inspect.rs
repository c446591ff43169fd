//! `replay inspect`: the content of a fixture, and whether it is whole.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use ::replay::fixture::{Fixture, Input, KnownOutput};
use ::replay::report::{
    CaptureRevision, Inspected, ReportLine, Text, format_byte_size, format_dims,
    render_inspection_json, render_statistics,
};
use ::replay::series::{Shift, find_token_shift};
use ::replay::summary::summarize_tensor;
use ::replay::tensor::{DType, TensorView};
use anstyle::Style;
use clap::ValueEnum;

use super::completions::fixture_completer;
use super::constraint_notes::describe_broken_constraint;
use super::error::CliResult;
use super::exit;
use super::fixtures;
use super::other_checkout;
use super::out::{print, println};
use super::project::Project;
use super::replay::create_fixture_refusal;
use super::run_record::run_record;
use super::session;
use super::settings::Settings;

/// The arguments of `replay inspect`.
#[derive(Debug, clap::Args)]
pub struct InspectArgs {
    /// Folders of captured tensors
    #[arg(required = true, value_name = "FIXTURE", add = fixture_completer())]
    fixtures: Vec<PathBuf>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "text", value_name = "FORMAT")]
    format: InspectFormat,
}

/// How fixtures are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum InspectFormat {
    /// For people
    Text,
    /// For programs; docs/schema.md describes it
    Json,
}

const BOLD: Style = Style::new().bold();

/// Shows each fixture. A broken one does not hide the others.
pub fn run_inspect(args: &InspectArgs, settings: &Settings) -> CliResult<u8> {
    match args.format {
        InspectFormat::Text => print_fixtures(args, settings),
        InspectFormat::Json => write_document(args, settings),
    }
}

/// Writes one document on all fixtures.
fn write_document(args: &InspectArgs, settings: &Settings) -> CliResult<u8> {
    let mut code = exit::SUCCESS;
    let mut whole = Vec::new();
    let mut errors = Vec::new();
    for path in fixtures::expand_fixtures(&args.fixtures) {
        match read_inspected_fixture(&path, settings) {
            Ok(fixture) => whole.push(fixture),
            Err(error) => {
                error.print();
                code = exit::worse_exit_code(code, error.exit_code());
                errors.push(create_fixture_refusal(&path, &error));
            }
        }
    }
    println!("{}", render_inspection_json(&whole, &errors, run_record()));
    Ok(code)
}

fn read_inspected_fixture(path: &Path, settings: &Settings) -> CliResult<Inspected> {
    let (fixture, origin) = load_with_origin(path, settings)?;
    let shifts = find_shifted_inputs(&fixture.inputs)?.into_iter();
    let shifts =
        shifts.map(|(tokens, next, shift)| (tokens.name.clone(), next.name.clone(), shift));
    let captured_at = match origin {
        CaptureOrigin::Known { at, .. } => Some(at),
        CaptureOrigin::Unread { .. } | CaptureOrigin::Unnamed => None,
    };
    Ok(Inspected::new(&fixture, captured_at, shifts.collect())?)
}

/// Prints one fixture after the other.
fn print_fixtures(args: &InspectArgs, settings: &Settings) -> CliResult<u8> {
    let mut code = exit::SUCCESS;
    let mut broken = 0;
    let fixtures = fixtures::expand_fixtures(&args.fixtures);
    for (number, path) in fixtures.iter().enumerate() {
        match load_with_origin(path, settings)
            .and_then(|(fixture, origin)| inspect_fixture(&fixture, &origin.words()))
        {
            Ok(text) => print!("{}{text}", if number > 0 { "\n" } else { "" }),
            Err(error) => {
                error.print();
                code = exit::worse_exit_code(code, error.exit_code());
                broken += 1;
            }
        }
    }
    let fixture_count = fixtures.len();
    if fixture_count > 1 {
        let whole_count = fixture_count - broken;
        let parts =
            [(broken, "broken"), (whole_count, "whole")].into_iter().filter(|(n, _)| *n > 0);
        let parts: Vec<String> = parts.map(|(n, state)| format!("{n} {state}")).collect();
        let gap = if whole_count > 0 { "\n" } else { "" };
        println!("{gap}{BOLD}{fixture_count} fixtures{BOLD:#}: {}", parts.join(", "));
    }
    Ok(code)
}

/// Whose outputs a fixture holds as captured.
enum CaptureOrigin {
    /// The fixture does not say, or holds none.
    Unnamed,
    /// It names this commit, and the history cannot be read.
    Unread {
        /// The commit in the words of the fixture.
        named: String,
    },
    /// It names this revision, beside the sources of the working tree.
    Known {
        /// The revision.
        at: CaptureRevision,
    },
}

impl CaptureOrigin {
    fn words(&self) -> String {
        let at = match self {
            CaptureOrigin::Unnamed => {
                return "what one revision gave; the fixture does not say which".to_owned();
            }
            CaptureOrigin::Unread { named } => return format!("what {named} gave"),
            CaptureOrigin::Known { at } => at,
        };
        let words = at.words();
        match at.commit {
            None => format!("what {words} gave"),
            Some(_) if at.same_sources => {
                format!("what {words} gave, whose sources the working tree has")
            }
            Some(_) => format!("what {words} gave; the working tree has other sources"),
        }
    }
}

/// The fixture at `path`, and whose outputs it holds.
fn load_with_origin(path: &Path, settings: &Settings) -> CliResult<(Arc<Fixture>, CaptureOrigin)> {
    let fixture = other_checkout::load_fixture(path)?;
    let named = fixture.provenance.commit.clone();
    let Some(named) = named.filter(|_| !fixture.captured.is_empty()) else {
        return Ok((fixture.into(), CaptureOrigin::Unnamed));
    };
    // The tensors are whole whether or not the history can be read.
    match session::open_session_cache(settings)
        .and_then(|cache| Project::from_fixture(fixture, &cache))
    {
        Ok(project) => {
            let origin = match capture_revision(&project) {
                Ok(Some(at)) => CaptureOrigin::Known { at },
                Ok(None) | Err(_) => CaptureOrigin::Unread { named },
            };
            Ok((Arc::clone(&project.subject.fixture), origin))
        }
        Err(_) => Ok((other_checkout::load_fixture(path)?.into(), CaptureOrigin::Unread { named })),
    }
}

/// The captured revision, beside the sources of the working tree.
fn capture_revision(project: &Project) -> CliResult<Option<CaptureRevision>> {
    let working_tree = project.target(None)?;
    project.capture_revision(&working_tree.sources)
}

fn inspect_fixture(fixture: &Fixture, origin: &str) -> CliResult<Text> {
    let mut out = Text::new();
    out.line(ReportLine::with_style(BOLD, &fixture.name));
    fixture.description.iter().flat_map(|text| text.lines()).for_each(|line| out.line(line));
    out.line(ReportLine::new());
    let widest = fixture.provenance.entries().map(|(key, _)| key.len()).max().unwrap_or(0).max(8);
    out.line(label_value("harness", &display_path(&fixture.harness.path), widest));
    let sizes: Vec<String> =
        fixture.sizes.iter().map(|(name, size)| format!("{name} {size}")).collect();
    out.line(label_value("sizes", &sizes.join(", "), widest));
    for (key, value) in fixture.provenance.entries() {
        out.line(label_value(key, &value, widest));
    }
    if !fixture.metrics.is_empty() {
        let metrics: Vec<String> =
            fixture.metrics.iter().map(|(name, value)| format!("{name} {value}")).collect();
        out.line(label_value("metrics", &metrics.join(", "), widest));
    }
    out.section("files");
    for file in &fixture.files {
        let hash_words = match file.blake3 {
            Some(hash) => format!("blake3 {}... as recorded", &hash.to_hex()[..16]),
            None => "no hash recorded".to_owned(),
        };
        let shard = file.shard.as_ref();
        let shard = shard.map_or(String::new(), |s| format!(", part {} along {}", s.order, s.axis));
        out.line(format!(
            "  {}  {}, {hash_words}{shard}",
            file.path.display(),
            format_byte_size(file.len)
        ));
    }
    let dtypes = fixture.inputs.iter().map(|input| input.dtype);
    let dtypes = dtypes.chain(fixture.outputs.iter().map(|output| output.dtype));
    let width = dtypes.map(|dtype| dtype.to_string().len()).fold(5, usize::max);
    out.section("inputs");
    for input in &fixture.inputs {
        out.append(describe_input(input, width)?);
    }
    for (tokens, next, shift) in find_shifted_inputs(&fixture.inputs)? {
        out.line(format!("  {}", describe_shift(tokens, next, &shift)));
    }
    out.section("outputs");
    for output in &fixture.outputs {
        let gradient = output.gradient_of.as_ref();
        let gradient =
            gradient.map_or(String::new(), |input_name| format!("  gradient of {input_name}"));
        let kind = format!("{:width$} {}", output.dtype, format_dims(&output.dims));
        out.line(format!("  {:12}  {kind}{gradient}", output.name));
    }
    out.append(list_known_outputs("captured outputs", &fixture.captured, origin, width));
    let oracle_origin = "true by fixture.toml: what errors are measured against";
    out.append(list_known_outputs("oracle", &fixture.oracle, oracle_origin, width));
    out.line(ReportLine::new());
    out.line(format!("content  {}", fixture.content_hash()?.to_hex()));
    Ok(out)
}

/// A line with `value` behind its label, in a column of `width` characters.
fn label_value(label: &str, value: &str, width: usize) -> ReportLine {
    ReportLine::new().column(BOLD, label, width).and(" ").and(value)
}

/// The outputs in the fixture, under their title.
fn list_known_outputs(title: &str, outputs: &[KnownOutput], origin: &str, width: usize) -> Text {
    let mut out = Text::new();
    if outputs.is_empty() {
        return out;
    }
    out.section(title);
    for output in outputs {
        let shape = output.shape();
        let view = TensorView { dtype: output.dtype, shape: &shape, bytes: output.bytes() };
        let summary = summarize_tensor(&view, None);
        let kind = format!("{:width$} {}", output.dtype, format_dims(&output.dims));
        out.line(format!("  {:12}  {kind}  {}", output.name, summary.checksum));
        out.line(ReportLine::from(format!("  {:12}  ", "")).and(render_statistics(&summary)));
    }
    out.line(format!("  {origin}"));
    out
}

/// An input, with dtypes in a column of `width` characters.
fn describe_input(input: &Input, width: usize) -> CliResult<Text> {
    let mut out = Text::new();
    let head = format!("  {:12}  {:width$} {}", input.name, input.dtype, format_dims(&input.dims));
    if !input.present {
        out.line(format!("{head}  absent: the call sees a null pointer"));
        return Ok(out);
    }
    let packed = input.packed()?;
    let shape = input.shape();
    let view = TensorView { dtype: input.dtype, shape: &shape, bytes: &packed };
    let summary = summarize_tensor(&view, None);
    out.line(format!("{head}  {}", summary.checksum));
    out.line(ReportLine::from(format!("  {:12}  ", "")).and(render_statistics(&summary)));
    let storage_notes = describe_input_storage(input).into_iter();
    let notes = storage_notes.chain(describe_broken_constraint(input)?);
    notes.for_each(|note| out.line(format!("  {:12}  {note}", "")));
    Ok(out)
}

/// Integer inputs equal to others, shifted by one: the targets of a language model.
fn find_shifted_inputs(inputs: &[Input]) -> CliResult<Vec<(&Input, &Input, Shift)>> {
    let mut integer_inputs: Vec<&Input> = inputs.iter().collect();
    integer_inputs
        .retain(|input| input.present && !input.dtype.is_float() && input.dtype != DType::Bool);
    let mut pairs = Vec::new();
    for &tokens in &integer_inputs {
        for &next in integer_inputs.iter().filter(|next| next.dims == tokens.dims) {
            let left_bytes = tokens.packed()?;
            let right_bytes = next.packed()?;
            let shape = tokens.shape();
            let left = TensorView { dtype: tokens.dtype, shape: &shape, bytes: &left_bytes };
            let right = TensorView { dtype: next.dtype, shape: &shape, bytes: &right_bytes };
            if tokens.name != next.name
                && let Some(token_shift) = find_token_shift(&left, &right)
            {
                pairs.push((tokens, next, token_shift));
            }
        }
    }
    Ok(pairs)
}

fn describe_shift(tokens: &Input, next: &Input, token_shift: &Shift) -> String {
    let along = tokens.dims.last().and_then(|dim| dim.name.as_deref());
    let along = along.map_or(String::new(), |name| format!(" along {name}"));
    let except = token_shift.first.as_ref().map_or(String::new(), |first| {
        format!(
            ", except at {} of {} places, first at {first:?}",
            token_shift.differ, token_shift.of
        )
    });
    format!("{} is {} shifted by one{along}{except}", next.name, tokens.name)
}

/// A path without detours, from the current folder if it lies there.
fn display_path(path: &Path) -> String {
    let working_folder = std::env::current_dir().and_then(std::fs::canonicalize);
    let Ok(absolute_path) = std::fs::canonicalize(path) else { return path.display().to_string() };
    match working_folder
        .ok()
        .and_then(|folder| absolute_path.strip_prefix(folder).ok().map(Path::to_owned))
    {
        Some(relative_path) => relative_path.display().to_string(),
        None => absolute_path.display().to_string(),
    }
}

/// Notes on how an input is kept.
fn describe_input_storage(input: &Input) -> Vec<String> {
    let mut notes = Vec::new();
    if input.widened {
        notes.push(format!("kept as f32, narrowed to {} without loss", input.dtype));
    }
    if let Some(strides) = &input.strides {
        let offset_words = match input.offset {
            0 => String::new(),
            offset => format!(", after {offset} others"),
        };
        let elements = input.storage_elements();
        notes.push(format!("strides {strides:?} in a buffer of {elements} elements{offset_words}"));
    }
    if let Some(shards) = &input.shards {
        let shard_words = match &shards.axis {
            Some(axis) => format!("put together from {} parts along {axis}", shards.count),
            None => format!("the same in {} files", shards.count),
        };
        let whole_words = if shards.whole { ", equal to the whole bit for bit" } else { "" };
        notes.push(format!("{shard_words}{whole_words}"));
    }
    notes
}
