//! The work of the front end on a source set, as text.

use anstyle::Style;

use super::Revision;
use super::spans::{ReportLine, Text};
use super::style::{BOLD, DIM};
use super::text::render_replay_heading;
use replay_engine::compile::{
    CompileObstacle, CompileObstacles, ExplainedFile, Explanation, LeftOutFunction, ObstacleEffect,
    ShadowObstacle,
};
use replay_frontend::{KernelForm, ShuffleSite, ThreadForm};

/// An explanation, and its subject.
#[derive(Clone, Debug)]
pub struct Explained {
    /// The fixture; none for a harness alone.
    pub fixture: Option<String>,
    /// The harness's file.
    pub harness: String,
    /// The revision; none for the working tree.
    pub revision: Option<Revision>,
    /// The work of the front end on its sources.
    pub explanation: Explanation,
    /// Whether the explanation is of a part of them alone.
    pub narrowed: bool,
    /// What keeps them from being compiled; none where it was not looked for.
    pub obstacles: Option<CompileObstacles>,
}

/// A line of a table: name, place, form and reason.
type ExplanationRow = [String; 4];

/// The text on `explained`.
pub fn render_explanation_text(explained: &Explained) -> Text {
    let mut out = Text::new();
    let name = explained.fixture.as_ref().unwrap_or(&explained.harness);
    out.line(render_replay_heading(name, explained.revision.as_ref()));
    if let Some(obstacles) = &explained.obstacles {
        out.append(render_compile_obstacles(obstacles));
    }
    let files = &explained.explanation.files;
    let kernels = collect_rows(files, |file| &file.kernels, kernel_row);
    out.append(render_explanation_table("kernels", &kernels));
    if kernels.is_empty() && !explained.narrowed {
        out.section("kernels");
        out.line("  none");
    }
    out.append(render_explanation_table(
        "shuffles",
        &collect_rows(files, |file| &file.shuffles, shuffle_row),
    ));
    out.append(render_shadow_obstacles(files, explained.narrowed));
    out.section("checked build");
    out.line(
        "  each thread on a stack of its own, each shuffle a wait of its own, each access told to the engine",
    );
    out
}

/// What keeps the sources from being compiled, and what is left out of them; nothing if neither is there.
fn render_compile_obstacles(found: &CompileObstacles) -> Text {
    let mut out = Text::new();
    if !found.obstacles.is_empty() {
        out.section("obstacles");
    }
    let width = found.obstacles.iter().map(|one| one.place.chars().count()).max().unwrap_or(0);
    let mut known_hints: Vec<&str> = Vec::new();
    for CompileObstacle { place, more_places, message, hint } in &found.obstacles {
        let more = match more_places {
            0 => String::new(),
            count => format!(" (further lines: {count})"),
        };
        let line = ReportLine::from("  ").column(DIM, place, width).and("  ");
        out.line(line.and(format!("{message}{more}")));
        if let Some(hint) = hint.as_deref().filter(|hint| !known_hints.contains(hint)) {
            known_hints.push(hint);
            out.line(format!("  {:width$}  hint: {hint}", ""));
        }
    }
    if !found.left_out.is_empty() {
        out.section("left out: no call of the harness reaches it");
    }
    for LeftOutFunction { path, line, name } in &found.left_out {
        let place = format!("{path}:{line}");
        out.line(ReportLine::from("  ").column(DIM, &place, 0).and(format!("  {name}")));
    }
    out
}

fn collect_rows<T>(
    files: &[ExplainedFile],
    parts: impl Fn(&ExplainedFile) -> &Vec<T>,
    row: impl Fn(&str, &T) -> ExplanationRow,
) -> Vec<ExplanationRow> {
    let mut rows = Vec::new();
    for file in files {
        rows.extend(parts(file).iter().map(|part| row(&file.path, part)));
    }
    rows
}

fn kernel_row(path: &str, form: &KernelForm) -> ExplanationRow {
    let (threads, why) = match &form.threads {
        ThreadForm::InTurn => ("in turn", "nothing in it waits for another thread".to_owned()),
        ThreadForm::Block { halving, strided } => ("thread loop", loops_words(halving, strided)),
        ThreadForm::Stacks { why, line: Some(line) } => {
            ("stacks", format!("why not thread-loop form: {why}, at line {line}"))
        }
        ThreadForm::Stacks { why, line: None } => {
            ("stacks", format!("why not thread-loop form: {why}"))
        }
    };
    [form.kernel.clone(), format!("{path}:{}", form.line), threads.to_owned(), why]
}

/// The words for the loops of a kernel in thread-loop form.
fn loops_words(halving: &[usize], strided: &[usize]) -> String {
    let mut words = vec!["one call runs all threads of a block".to_owned()];
    if !halving.is_empty() {
        words.push(format!("loops by halves, with a barrier at {}", line_words(halving)));
    }
    if !strided.is_empty() {
        words.push(format!("loops of many threads at once at {}", line_words(strided)));
    }
    words.join("; ")
}

/// `line 3`, or `lines 3, 5`.
fn line_words(lines: &[usize]) -> String {
    let numbers: Vec<String> = lines.iter().map(usize::to_string).collect();
    let plural = if lines.len() > 1 { "s" } else { "" };
    format!("line{plural} {}", numbers.join(", "))
}

fn shuffle_row(path: &str, shuffle: &ShuffleSite) -> ExplanationRow {
    let (waits, why) = match &shuffle.alone {
        None => ("a chain", "one wait for all its steps".to_owned()),
        Some(why) => ("alone", format!("why no chain: {why}")),
    };
    [shuffle.function.clone(), format!("{path}:{}", shuffle.line), waits.to_owned(), why]
}

fn render_shadow_obstacles(files: &[ExplainedFile], narrowed: bool) -> Text {
    let obstacles = collect_rows(files, |file| &file.shadow_obstacles, obstacle_row);
    let mut out = render_explanation_table("float64 shadow", &obstacles);
    // A list for one kernel leaves it open: the kernel may call a function with obstacles.
    if obstacles.is_empty() && !narrowed {
        out.section("float64 shadow");
        out.line("  nothing here means something else where float means double");
    }
    for file in files.iter().filter(|_| !narrowed) {
        if let Some(what) = file.device_shadow_obstacle {
            out.line(format!("  on a GPU it is the CPU's: {} has {what}", file.path));
        }
    }
    out
}

fn obstacle_row(path: &str, obstacle: &ShadowObstacle) -> ExplanationRow {
    let (effect, why) = match obstacle.effect {
        ObstacleEffect::NoShadow => ("no shadow", "the calls of the harness lead to it"),
        ObstacleEffect::EndsWhereRun => ("guarded", "the shadow ends where it is run"),
        ObstacleEffect::NotReached => ("not reached", "no call of the harness leads to it"),
    };
    let why = match &obstacle.within {
        Some(within) => format!("in {within}: {why}"),
        None => why.to_owned(),
    };
    let construct = obstacle.construct.clone();
    [construct, format!("{path}:{}", obstacle.line), effect.to_owned(), why]
}

/// `rows` in columns under `title`; nothing if there are none.
fn render_explanation_table(title: &str, rows: &[ExplanationRow]) -> Text {
    let mut out = Text::new();
    if rows.is_empty() {
        return out;
    }
    let mut widths = [0; 3];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    out.section(title);
    for [name, place, form, why] in rows {
        let line = ReportLine::from("  ").column(BOLD, name, widths[0]).and("  ");
        let line = line.column(DIM, place, widths[1]).and("  ");
        out.line(line.column(Style::new(), form, widths[2]).and("  ").and(why));
    }
    out
}
