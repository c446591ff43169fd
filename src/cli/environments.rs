//! Axes of the harness on the command line: `--with triton=3.5,3.6`, `--over triton`, `--bad HEAD@triton=3.6`.

use std::rc::Rc;
use std::sync::Arc;

use ::replay::bisect::{AxisAtRevision, BisectEnds, BothEnds, EnvironmentAxis, SearchTarget};
use ::replay::environment::{Environment, RecordedEnvironment, UserShell, Workshop, begins_like};
use ::replay::fixture::Fixture;
use ::replay::foreign::Keeper;
use ::replay::harness::{Axis, AxisKind, Harness, find_nearest_word, is_axis_name};
use ::replay::history::{Commit, History, SourceSet};

use super::error::{CliResult, CommandError};
use super::progress::Progress;
use super::project::{HarnessSources, RequestedRevision};
use super::session::{Session, own_file};
use super::settings::values::DeviceArg;

/// Two values of an axis, as `--with` names them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedPair {
    pub axis: String,
    /// The trusted value, then the other.
    pub values: [String; 2],
}

/// Reads `AXIS=A,B`.
pub fn parse_pair_arg(text: &str) -> Result<NamedPair, String> {
    let parts = text.split_once('=').and_then(|(axis, values)| {
        let (trusted, other) = values.split_once(',')?;
        (!axis.is_empty() && !trusted.is_empty() && !other.is_empty())
            .then_some((axis, trusted, other))
    });
    let (axis, trusted, other) =
        parts.ok_or("it names an axis and two of its values: AXIS=A,B".to_owned())?;
    Ok(NamedPair { axis: axis.to_owned(), values: [trusted, other].map(str::to_owned) })
}

/// The axis `name` of `harness`.
pub fn find_axis<'h>(harness: &'h Harness, name: &str) -> CliResult<&'h Axis> {
    if let Some(axis) = harness.axes.iter().find(|axis| axis.name == name) {
        return Ok(axis);
    }
    let path = harness.path.display();
    let nearest = find_nearest_word(name, harness.axes.iter().map(|axis| axis.name.as_str()));
    let suggestion = nearest.map_or(String::new(), |name| format!(", did you mean `{name}`?"));
    let message = format!("{path} has no axis `{name}`{suggestion}");
    Err(CommandError::new(message).with_hint(
        "an axis is a line below [axes] there, such as cxx = [\"g++\", \"clang++\"]: \
         `replay help environments`",
    ))
}

/// What runs commands as the user would.
pub fn open_user_shell() -> CliResult<UserShell> {
    let keeper = Keeper::new(&own_file()?);
    Ok(UserShell { keeper, variables: std::env::vars_os().collect() })
}

/// What `fixture` has recorded of the capture's environment, beside what its program has here.
pub fn read_recorded_environment(fixture: &Fixture) -> CliResult<RecordedEnvironment> {
    Ok(RecordedEnvironment::read(&open_user_shell()?, fixture)?)
}

/// What makes environments in this session.
fn create_workshop(session: &Session) -> CliResult<Workshop<'_>> {
    let keeper = Keeper::new(&own_file()?);
    let sandbox = session.settings().sandbox.value.into();
    let finding_keeper = keeper.with_sandbox(sandbox);
    Ok(Workshop::new(
        open_user_shell()?,
        session.cache().clone(),
        Box::new(move |cxx| session.find_compiler(cxx, &finding_keeper)),
        Box::new(|words| Progress::start().say(words)),
    ))
}

/// Those of the known `values` of `axis` that the user means by `word`: itself, or the newest release of it.
fn find_value(axis: &Axis, values: &[String], word: &str) -> CliResult<usize> {
    if let Some(index) = values.iter().position(|value| value == word) {
        return Ok(index);
    }
    values.iter().rposition(|value| begins_like(value, word)).ok_or_else(|| {
        CommandError::new(format!("`{word}` is no value of the axis `{}`", axis.name))
            .with_hint(format!("it has {}", values.join(", ")))
    })
}

/// Complains about an axis that changes nothing on the devices of `session`.
fn refuse_idle_axis(session: &Session, axis: &Axis) -> CliResult<()> {
    let devices = &session.settings().backend.value;
    let is_of_gpu = matches!(axis.kind, AxisKind::Nvrtc | AxisKind::NvrtcOption(_));
    if !is_of_gpu || devices.iter().any(|device| *device != DeviceArg::Cpu) {
        return Ok(());
    }
    let name = &axis.name;
    Err(CommandError::new(format!("the axis `{name}` changes nothing on the CPU"))
        .with_hint("NVRTC compiles kernels for GPUs: add --backend cuda"))
}

/// The environments of `pair` on `fixture`, the trusted one first.
pub fn make_pair(
    session: &Session,
    fixture: &Fixture,
    pair: &NamedPair,
) -> CliResult<[Arc<Environment>; 2]> {
    let axis = find_axis(&fixture.harness, &pair.axis)?;
    refuse_idle_axis(session, axis)?;
    let workshop = create_workshop(session)?;
    let values = workshop.list_values(axis, fixture)?;
    let [trusted, other] = pair.values.each_ref().map(|word| {
        let index = find_value(axis, &values, word)?;
        CliResult::Ok(Arc::new(workshop.make(axis, &values[index], fixture)?))
    });
    Ok([trusted?, other?])
}

/// A search along an axis, as the command line asks for it.
pub struct RequestedAxis<'a> {
    pub axis: &'a str,
    /// The revision; none for the working tree.
    pub rev: Option<&'a str>,
    pub ends: AxisEnds<'a>,
}

/// The values at the ends of a search.
#[derive(Clone, Copy)]
pub enum AxisEnds<'a> {
    Claimed { good: &'a str, bad: &'a str },
    Unclaimed { old: &'a str, new: &'a str },
}

impl<'a> RequestedAxis<'a> {
    /// The axis to search along for `targets`, and its ends.
    pub fn open<'s>(
        &self,
        session: &'s Session,
        targets: &[SearchTarget],
    ) -> CliResult<(AxisAtRevision<'s>, BisectEnds)> {
        let words = match self.ends {
            AxisEnds::Claimed { good, bad } => [good, bad],
            AxisEnds::Unclaimed { old, new } => [old, new],
        };
        let (axis, ends) = open_axis(session, targets, self.axis, words)?;
        let [first_end, second_end] = ends;
        if first_end == second_end {
            let value = axis.describe_value(first_end);
            return Err(CommandError::new(format!("both ends are {value}"))
                .with_hint(format!("it has {}", axis.list_values())));
        }
        let (place, sources) = self.place_sources(session, targets)?;
        prepare_ends(&axis, ends)?;
        let axis = AxisAtRevision { axis: Rc::new(axis), place, sources };
        let [first_end, second_end] = ends.map(|end| vec![axis.commit(end)]);
        let ends = match self.ends {
            AxisEnds::Claimed { .. } => BisectEnds::Claimed { good: first_end, bad: second_end },
            AxisEnds::Unclaimed { .. } => BisectEnds::Unclaimed { old: first_end, new: second_end },
        };
        Ok((axis, ends))
    }

    /// The sources of the revision for each of `targets`, and the words for where it is.
    fn place_sources(
        &self,
        session: &Session,
        targets: &[SearchTarget],
    ) -> CliResult<(String, Vec<Arc<SourceSet>>)> {
        let mut place = String::new();
        let mut sources = Vec::new();
        for target in targets {
            let origin = HarnessSources::open(&target.subject.fixture.harness, session.cache())?;
            let revision = origin.target(self.rev)?;
            place = describe_place(&revision);
            sources.push(revision.sources);
        }
        Ok((place, sources))
    }
}

/// The axis `name` of the harnesses of `targets`, and the places of its values that `words` mean.
fn open_axis<'s>(
    session: &'s Session,
    targets: &[SearchTarget],
    name: &str,
    words: [&str; 2],
) -> CliResult<(EnvironmentAxis<'s>, [usize; 2])> {
    let first = targets.first().ok_or_else(|| CommandError::new("no fixture was named"))?;
    let axis = find_axis(&first.subject.fixture.harness, name)?.clone();
    for target in targets {
        let harness = &target.subject.fixture.harness;
        if find_axis(harness, name)? != &axis {
            let path = harness.path.display();
            let first_path = first.subject.fixture.harness.path.display();
            return Err(CommandError::new(format!(
                "{path} has another axis `{name}` than {first_path}"
            ))
            .with_hint("search each of them by itself"));
        }
    }
    refuse_idle_axis(session, &axis)?;
    let workshop = create_workshop(session)?;
    let subject = first.subject.clone();
    let values = workshop.list_values(&axis, &subject.fixture)?;
    let [first_end, second_end] = words.map(|word| find_value(&axis, &values, word));
    let ends = [first_end?, second_end?];
    let between = ends[0].min(ends[1])..=ends[0].max(ends[1]);
    workshop.check_reach(&axis, &values[between], &subject.fixture)?;
    let make = Box::new(move |value: &str| workshop.make(&axis, value, &subject.fixture));
    Ok((EnvironmentAxis::new(name.to_owned(), values, make), ends))
}

/// Makes the environments at the `ends` of a search: what is missing there is said before anything is replayed.
fn prepare_ends(axis: &EnvironmentAxis<'_>, ends: [usize; 2]) -> CliResult<()> {
    for end in ends {
        axis.prepare(end)?;
    }
    Ok(())
}

/// A revision in an environment, as `--good` and `--bad` name it: `REV@AXIS=VALUE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedRevision<'a> {
    pub rev: &'a str,
    pub axis: &'a str,
    pub value: &'a str,
}

/// What stands between a revision and its environment.
const IN: char = '@';

/// Reads `REV@AXIS=VALUE`; none if there is no environment in it. Git's own `@{...}` begins no axis.
pub fn split_placed_revision(text: &str) -> Option<PlacedRevision<'_>> {
    for (place, _) in text.match_indices(IN) {
        let Some((axis, value)) = text[place + IN.len_utf8()..].split_once('=') else { break };
        if is_axis_name(axis) {
            return Some(PlacedRevision { rev: &text[..place], axis, value });
        }
    }
    None
}

/// The revision in an environment that `word` names, unless git knows a revision of this name.
fn read_placed_revision<'a>(history: &History, word: &'a str) -> Option<PlacedRevision<'a>> {
    split_placed_revision(word).filter(|_| history.resolve(word).is_err())
}

/// The ends of a search as commits in environments.
pub struct RequestedPairs<'a> {
    pub good: PlacedRevision<'a>,
    pub bad: PlacedRevision<'a>,
}

impl<'a> RequestedPairs<'a> {
    /// Refuses environments at ends without a claim: it would not be known from which of them a mixed pair departs.
    pub fn refuse_unclaimed(history: &History, revs: &[String]) -> CliResult<()> {
        let mut placed = revs.iter().filter_map(|rev| read_placed_revision(history, rev));
        match placed.next() {
            Some(PlacedRevision { axis, .. }) => {
                Err(CommandError::new("--old and --new take no environments").with_hint(format!(
                    "claim the ends: `--good REV@{axis}=VALUE --bad REV@{axis}=VALUE`"
                )))
            }
            None => Ok(()),
        }
    }

    /// Reads the ends of a search; none if neither of them names an environment.
    pub fn read(
        history: &History,
        good: &'a [String],
        bad: &'a [String],
    ) -> CliResult<Option<RequestedPairs<'a>>> {
        let placed_at =
            |revs: &'a [String]| revs.iter().find_map(|rev| read_placed_revision(history, rev));
        let (good_end, bad_end) = match (placed_at(good), placed_at(bad)) {
            (None, None) => return Ok(None),
            (Some(good_end), Some(bad_end)) => (good_end, bad_end),
            (Some(placed), None) | (None, Some(placed)) => {
                let PlacedRevision { rev, axis, value } = placed;
                return Err(CommandError::new(format!(
                    "`{rev}@{axis}={value}` is in an environment, and the other end is in none"
                ))
                .with_hint(format!("name one at each end: REV@{axis}=VALUE")));
            }
        };
        if good.len() > 1 || bad.len() > 1 {
            return Err(CommandError::new(
                "ends in environments are one good and one bad revision",
            )
            .with_hint("`--good REV@AXIS=VALUE --bad REV@AXIS=VALUE`"));
        }
        if good_end.axis != bad_end.axis {
            return Err(CommandError::new(format!(
                "the ends are on two axes, `{}` and `{}`",
                good_end.axis, bad_end.axis
            ))
            .with_hint("a search changes one axis besides the revision"));
        }
        for end in [good_end, bad_end] {
            if end.rev.is_empty() {
                let PlacedRevision { axis, value, .. } = end;
                return Err(CommandError::new(format!("`@{axis}={value}` names no revision"))
                    .with_hint(format!(
                        "`HEAD@{axis}={value}`, or --over {axis} for the working tree"
                    )));
            }
        }
        Ok(Some(RequestedPairs { good: good_end, bad: bad_end }))
    }

    /// The commits and the environments of the ends for a search for `targets`.
    pub fn open<'s>(
        &self,
        session: &'s Session,
        history: &History,
        targets: &[SearchTarget],
    ) -> CliResult<BothEnds<'s>> {
        let RequestedPairs { good, bad } = self;
        let commits: [Commit; 2] = [history.resolve(good.rev)?, history.resolve(bad.rev)?];
        let (axis, values) = open_axis(session, targets, good.axis, [good.value, bad.value])?;
        if commits[0].id == commits[1].id && values[0] == values[1] {
            let value = axis.describe_value(values[0]);
            return Err(CommandError::new(format!(
                "both ends are {} with {value}",
                commits[0].short
            ))
            .with_hint(format!("the axis has {}", axis.list_values())));
        }
        prepare_ends(&axis, values)?;
        Ok(BothEnds { commits, axis: Rc::new(axis), values })
    }
}

/// `at 37707d4`, or `in the working tree`.
pub fn describe_place(revision: &RequestedRevision) -> String {
    match &revision.commit {
        Some(commit) => format!("at {} {}", commit.short, commit.subject),
        None => "in the working tree".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use ::replay::harness::AxisValues;

    use super::*;

    #[test]
    fn a_pair_names_an_axis_and_two_values() {
        let pair = parse_pair_arg("cxx=g++ -O1,clang++").unwrap();
        assert_eq!(pair.values, ["g++ -O1", "clang++"]);
        for wrong in ["triton", "triton=3.2", "=1,2", "triton=,2", "triton=1,"] {
            assert!(parse_pair_arg(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn an_environment_behind_a_revision_is_none_of_gits_own_suffixes() {
        let split = |text| {
            split_placed_revision(text)
                .map(|PlacedRevision { rev, axis, value }| [rev, axis, value].join(" | "))
        };
        assert_eq!(split("main@triton=3.6").as_deref(), Some("main | triton | 3.6"));
        assert_eq!(split("HEAD@{1}@cxx=g++ -O1").as_deref(), Some("HEAD@{1} | cxx | g++ -O1"));
        assert_eq!(split("@@ml-dtypes=0.4.1").as_deref(), Some("@ | ml-dtypes | 0.4.1"));
        assert_eq!(split("v1@image=x@sha256:ab=").as_deref(), Some("v1 | image | x@sha256:ab="));
        assert_eq!(split("@step=1").as_deref(), Some(" | step | 1"));
        for own in ["HEAD@{1}", "@{upstream}", "HEAD@{a=b}", "@", "main", "me@feature", "a=b@c"] {
            assert_eq!(split(own), None, "{own}");
        }
    }

    #[test]
    fn a_value_is_named_by_itself_or_by_the_beginning_of_its_newest_release() {
        let axis = Axis {
            name: "triton".to_owned(),
            kind: AxisKind::Package("triton".to_owned()),
            values: AxisValues::Between { first: "3.2".to_owned(), last: "3.6".to_owned() },
        };
        let values = ["3.2.0", "3.5.0", "3.5.1", "3.50.0"].map(str::to_owned);
        assert_eq!(find_value(&axis, &values, "3.5.0").unwrap(), 1);
        assert_eq!(find_value(&axis, &values, "3.5").unwrap(), 2);
        let error = find_value(&axis, &values, "3.4").unwrap_err();
        insta::assert_snapshot!(format!("{}\n{}", error.message(), error.hints().join("\n")), @"
        `3.4` is no value of the axis `triton`
        it has 3.2.0, 3.5.0, 3.5.1, 3.50.0
        ");
    }
}
