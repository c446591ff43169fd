"""The types of replay's JSON documents.

Generated from docs/schema/*.json by python/tools/generate_documents.py; docs/schema.md explains the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .report import Report

Agreement: TypeAlias = Literal["identical", "equivalent", "diverged"]
Checksum: TypeAlias = str
ConfigOrigin: TypeAlias = Literal["option", "variable", "repository", "user", "default"]
Constraint: TypeAlias = Literal["unit", "symmetric", "simplex"]
DType: TypeAlias = Literal[
    "f64",
    "f32",
    "f16",
    "bf16",
    "f8_e4m3",
    "f8_e5m2",
    "i64",
    "i32",
    "i16",
    "i8",
    "u64",
    "u32",
    "u16",
    "u8",
    "bool",
]
Direction: TypeAlias = Literal["breaks", "repairs", "changes"]
Finding: TypeAlias = Literal["wrong", "imprecise", "less-accurate", "more-accurate", "as-accurate"]
FormName: TypeAlias = Literal["in_turn", "block", "stacks"]
FoundKind: TypeAlias = Literal[
    "race",
    "same_value",
    "flag",
    "unwritten",
    "out_of_bounds",
    "misaligned",
    "undefined_lane",
    "unused_lane",
    "host_access",
    "device_access",
]
GradientReference: TypeAlias = Literal["shadow", "native_differences"]
GradientVerdict: TypeAlias = Literal["matches", "agrees", "unknown", "imprecise", "mismatch"]
Gradients: TypeAlias = Literal["match", "mismatch", "unchecked"]
HunkKind: TypeAlias = Literal[
    "lines", "adds_file", "removes_file", "renames_file", "changes_mode", "changes_file"
]
Number: TypeAlias = float
ObstacleEffect: TypeAlias = Literal["no_shadow", "ends_where_run", "not_reached"]
Other: TypeAlias = Literal["trusted", "captured", "oracle"]
Probe: TypeAlias = Literal["rounding", "order", "inputs"]
SettingRelation: TypeAlias = Literal["same", "other", "not_compared"]
Severity: TypeAlias = Literal["wrong", "unusual", "note"]
ShrinkAnswerWord: TypeAlias = Literal[
    "nothing_smaller", "no_finding", "untestable", "cut", "unsteady"
]
ShrinkEndWord: TypeAlias = Literal["complete", "out_of_tries", "interrupted"]
SnapshotVerdict: TypeAlias = Literal[
    "matches", "equivalent", "unchecked", "new", "missing", "stale", "diverged"
]
Standing: TypeAlias = Literal[
    "completed",
    "identical",
    "equivalent",
    "new",
    "unchecked",
    "untestable",
    "missing",
    "stale",
    "diverged",
    "failed",
]
StepBlameWord: TypeAlias = Literal["well", "own", "consequence", "follows_inputs"]
StepPass: TypeAlias = Literal["forward", "backward"]
StepVerdict: TypeAlias = Literal["well", "found", "untestable"]
StraightThrough: TypeAlias = Literal["slope", "slope_of_held_scale", "unrounded"]
Tool: TypeAlias = Literal["memcheck", "racecheck", "initcheck", "synccheck"]
TryAnswer: TypeAlias = Literal["gone", "untestable", "shown", "weaker"]
Verdict: TypeAlias = Literal[
    "identical", "equivalent", "unchecked", "unknown", "untestable", "diverged", "failed"
]
VersionRelation: TypeAlias = Literal[
    "other_version", "not_installed", "same", "other_contents", "not_compared"
]
WayBackWord: TypeAlias = Literal[
    "already_back",
    "good",
    "bad",
    "untestable",
    "fails_otherwise",
    "missing",
    "conflicts",
    "good_bits",
]
Whereabouts: TypeAlias = Literal["code", "environment", "either", "together", "unclear"]


@dataclass(frozen=True, kw_only=True)
class AccessFinding:
    """A finding of a checked replay, one for each pair of places in the sources."""

    kind: FoundKind
    """The kind."""
    between_streams: bool
    """Whether a race is between unordered launches or copies of different streams."""
    second: FoundSpot
    """The access that showed it."""
    memory: str
    """The memory's name: a tensor, or where it was allocated; of a shuffle the lane, and of an
    access to the host's memory how the kernel came to it.
    """
    offset: int
    """The first byte of the access, counted from the beginning of the memory."""
    index: tuple[int, ...] | None
    """The element at that byte, if the memory is a tensor."""
    bytes: int
    """Bytes of the access."""
    count: int
    """How often it happened."""
    first: FoundSpot | None = None
    """The earlier access of a race."""


@dataclass(frozen=True, kw_only=True)
class AccessFindingText:
    """A finding of a checked replay, one for each pair of places in the sources."""

    text: str
    known: bool
    kind: FoundKind
    """The kind."""
    between_streams: bool
    """Whether a race is between unordered launches or copies of different streams."""
    second: FoundSpot
    """The access that showed it."""
    memory: str
    """The memory's name: a tensor, or where it was allocated; of a shuffle the lane, and of an
    access to the host's memory how the kernel came to it.
    """
    offset: int
    """The first byte of the access, counted from the beginning of the memory."""
    index: tuple[int, ...] | None
    """The element at that byte, if the memory is a tensor."""
    bytes: int
    """Bytes of the access."""
    count: int
    """How often it happened."""
    first: FoundSpot | None = None
    """The earlier access of a race."""


@dataclass(frozen=True, kw_only=True)
class Accesses:
    reason: str | None
    findings: tuple[AccessFindingText, ...]
    left_out: int


@dataclass(frozen=True, kw_only=True)
class AccessesCompared:
    """What is wrong with accesses on one side and not on the trusted one, and the other way
    round.
    """

    reason: str | None
    findings: tuple[AccessFindingText, ...]
    left_out: int
    gone: tuple[FindingGone, ...]


@dataclass(frozen=True, kw_only=True)
class Accuracy:
    """How far an output lies from its oracle."""

    relative_l2: Number
    """`||got - oracle|| / ||oracle||`; infinite where an element is finite on one side only."""
    worst: WorstError | None
    """The element that lies furthest off in units of its noise, if any is off at all."""


@dataclass(frozen=True, kw_only=True)
class Adam:
    """The figures of the moments of one parameter."""

    count: int
    """The elements."""
    step: Number
    """The root mean square of the steps, `m / (sqrt(v) + eps)`, in units of the learning rate."""
    largest: Number
    """The greatest of them."""
    damped: int
    """Elements moved by less than half as far as without epsilon."""
    negative: int
    """Elements whose second moment is negative."""
    unrelated: int
    """Elements whose first moment is larger than any gradients can make it beside their second
    one.
    """


@dataclass(frozen=True, kw_only=True)
class Against:
    revision: Revision | None
    verdict: Verdict
    outputs: tuple[OutputJudgement, ...]
    launches_changed: tuple[LaunchChange, ...]
    without_shadow: str | None


@dataclass(frozen=True, kw_only=True)
class Alignment:
    """How the targets of one step lie beside its tokens."""

    shift: int | None
    """The shift of the tokens with the best agreement with the targets; none where no shift
    agrees in half of the places.
    """
    of: int
    """Counting places: neither they nor the place one later are masked."""
    differ: int
    """Places with a target other than the next token."""
    first: tuple[int, ...] | None
    """The first of them, as an index of the targets."""


@dataclass(frozen=True, kw_only=True)
class Blame:
    """The commit that made the difference."""

    commit: Revision | None
    """The commit; none where the search named none."""
    text: str
    """The result of the search, in a line."""
    outputs: tuple[OutputBlame, ...]
    """The commit of each output that diverged."""


@dataclass(frozen=True, kw_only=True)
class Candidate:
    commit: Revision | None
    text: str | None


@dataclass(frozen=True, kw_only=True)
class CaptureRevision:
    """The revision whose outputs a fixture holds, as its provenance names it."""

    named: str
    """The commit in the words of the fixture."""
    commit: Revision | None
    """The commit; none if the repository has no such commit."""
    dirty: bool
    """Whether tracked files differed from it."""
    same_sources: bool
    """Whether its sources are those that were replayed."""


@dataclass(frozen=True, kw_only=True)
class CapturedOutputs:
    """Which commits give the outputs that a fixture holds as captured."""

    fixture: str
    given_by: tuple[Revision, ...]
    not_by: tuple[Revision, ...]
    lost_at: Revision | None


@dataclass(frozen=True, kw_only=True)
class Carrier:
    hunks: tuple[int, ...]
    minimal: bool
    """Whether each of them is needed. Else the tests ran out."""
    seen: str
    """What the parent with these hunks shows."""


@dataclass(frozen=True, kw_only=True)
class Change:
    fixture: str
    commit: Revision
    base: Revision
    untestable_parent: Revision | None
    verdict: Verdict
    untestable: bool
    reason: str | None
    outputs: tuple[OutputJudgement, ...]
    launches_changed: tuple[LaunchChange, ...]
    accesses: AccessesCompared | None
    no_longer_order_dependent: tuple[str, ...]
    broken: tuple[str, ...]
    mended: tuple[str, ...]
    status: Status
    repairs: Repair | None


@dataclass(frozen=True, kw_only=True)
class Clipping:
    """How one step clips its gradients."""

    norm: Number
    """The norm of all gradients before."""
    factor: Number
    """What it is multiplied by: 1 where nothing is clipped."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """How two outputs differ."""

    verdict: Agreement
    count: int
    """Elements of each side."""
    differing: int
    """Elements whose bits differ."""
    beyond: int
    """Elements beyond noise."""
    undecided: int
    """Differing elements with infinite noise: nothing can be said about them."""
    nan_mismatch: int
    """Elements with NaN on one side only."""
    inf_mismatch: int
    """Elements with infinity on one side only, or with infinities of opposite sign, and
    without NaN.
    """
    relative_l2: Number
    """`||got - base|| / ||base||`; infinite where an element is finite on one side only."""
    max_abs: Number
    """The largest distance of an element."""
    worst: WorstElement | None
    """The element furthest off in units of its noise, if any differs."""


@dataclass(frozen=True, kw_only=True)
class CompileObstacle:
    place: str
    more_places: int
    message: str
    hint: str | None


@dataclass(frozen=True, kw_only=True)
class ConfigFilePaths:
    """The files of settings that were read."""

    repository: str | None
    """The repository's file."""
    user: str | None
    """The user's file."""


@dataclass(frozen=True, kw_only=True)
class ConfigSetting:
    """A setting in force."""

    key: str
    """The key, as `replay config` and a file have it."""
    value: str | None
    """The value, as a variable would have it; null where none is set."""
    origin: ConfigOrigin
    name: str | None
    """The option or the variable."""
    path: str | None
    """The file."""
    line: int | None
    """The line of the file, from 1."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Configuration(Report):
    """The document that `replay config --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-config/1"]
    run: RunRecord
    files: ConfigFilePaths
    settings: tuple[ConfigSetting, ...]


@dataclass(frozen=True, kw_only=True)
class Culprit:
    commit: Revision | None
    fixtures: tuple[CulpritFixture, ...]
    accesses: tuple[CulpritAccesses, ...]
    beside_loss: tuple[GradientSides, ...]
    """Its gradients and those of its first parent beside their losses, if the search was for
    one of them.
    """
    launches_changed: tuple[LaunchChange, ...]
    parents: tuple[TestedCommit, ...]
    acquitted: tuple[TestedCommit, ...]
    hunks: Hunks | None
    """Its hunks, and those that carry the defect; null where nobody asked."""
    diff: str


@dataclass(frozen=True, kw_only=True)
class CulpritAccesses:
    fixture: str
    accesses: Accesses


@dataclass(frozen=True, kw_only=True)
class CulpritFixture:
    fixture: str
    verdict: Verdict
    symptoms: tuple[Symptom, ...]
    status: Status | None
    outputs: tuple[OutputJudgement, ...] | None
    gradients: tuple[GradientCheck, ...]


@dataclass(frozen=True, kw_only=True)
class DeclaredOutput:
    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    gradient_of: str | None
    of: tuple[str, ...]
    """The differentiated outputs."""
    upstream: tuple[str, ...]
    """The gradient flowing into each of them; empty means ones."""
    non_finite: bool


@dataclass(frozen=True, kw_only=True)
class Device:
    class_: str = field(metadata={"json": "class"})
    description: str


@dataclass(frozen=True, kw_only=True)
class Diff:
    fixture: str
    base: Revision | None
    got: Revision | None
    verdict: Verdict
    outputs: tuple[OutputJudgement, ...]
    launches_changed: tuple[LaunchChange, ...]
    without_shadow: str | None
    base_status: Status
    got_status: Status
    accesses: AccessesCompared | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Diffs(Report):
    """The document that `replay diff --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-diff/1"]
    run: RunRecord
    diffs: tuple[Diff, ...]
    new: tuple[NewSources, ...]
    """Where the trusted revision has no such sources, the other one by itself."""
    errors: tuple[RefusedFixture, ...]


@dataclass(frozen=True, kw_only=True)
class Dim:
    """One dimension of a tensor: the number of elements, and its name in the harness."""

    name: str | None
    """The harness's name for it (`vocab`), or none where the harness wrote a number."""
    size: int
    """The number of elements along it."""


@dataclass(frozen=True, kw_only=True)
class Distance:
    """How far an output lies from another."""

    from_: Other = field(metadata={"json": "from"})
    """The other side."""
    output: str
    """The output."""
    verdict: Verdict
    """Whether the two agree."""
    relative: Number
    """`||got - base|| / ||base||`."""
    beyond: int
    """Elements beyond noise."""
    count: int
    """All elements."""
    finding: Finding | None
    """The meaning of the change, where an oracle tells."""


@dataclass(frozen=True, kw_only=True)
class Drift:
    """A common shift of the elements of one slice, or of all."""

    slice: tuple[str, int] | None
    """The slice, as a dimension and an index along it; none if it is the whole output."""
    elements: int
    """The number of elements."""
    scale: Number
    """The factor, less one, by which the elements are scaled."""
    offset: Number
    """The mean of the differences, relative to the root mean square of the elements."""
    ratio: Number
    """The larger of both, as a multiple of the shift that rounding explains."""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """An estimated relative L2 distance, with a 99 % interval."""

    relative: Number
    """The estimate; its standard error is 18 % of it."""
    low: Number
    """The lower end of the interval."""
    high: Number
    """The upper end of the interval."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation(Report):
    """The document that `replay explain --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-explain/1"]
    run: RunRecord
    fixture: str | None
    harness: str
    revision: Revision | None
    files: tuple[File, ...]
    obstacles: tuple[CompileObstacle, ...] | None
    """What keeps the sources from being compiled; null where it was not looked for, as for a
    part of them.
    """
    left_out: tuple[LeftOut, ...]
    """The functions with tensors of PyTorch and the kernels that no call of the harness
    reaches.
    """


@dataclass(frozen=True, kw_only=True)
class FailedAsBefore:
    fixture: str
    commit: Revision
    failure: Failure


@dataclass(frozen=True, kw_only=True)
class FailureEndsByChance:
    """It completes, and a repetition fails."""

    kind: Literal["ends_by_chance"]
    failure: Failure
    """How it fails."""


@dataclass(frozen=True, kw_only=True)
class FailureEndsByPoison:
    """It completes, and fails with other content of memory beyond its inputs."""

    kind: Literal["ends_by_poison"]
    outside: bool
    """Whether this memory lies around the given tensors, and not in them."""
    failure: Failure
    """How it fails."""


@dataclass(frozen=True, kw_only=True)
class FailureExit:
    """The code called `exit`."""

    kind: Literal["exit"]
    code: int
    """The exit status."""


@dataclass(frozen=True, kw_only=True)
class FailureFault:
    """Device or host code ended the replay by an error."""

    kind: Literal["fault"]
    fault: ReplayFault
    """The error and its place."""


@dataclass(frozen=True, kw_only=True)
class FailureKilled:
    """A signal caused by the code ended the process."""

    kind: Literal["killed"]
    signal: int
    """The signal's number."""


@dataclass(frozen=True, kw_only=True)
class FailureLaunch:
    """A launch was refused."""

    kind: Literal["launch"]
    launch: LaunchRecord
    """The launch, with CUDA's words."""


@dataclass(frozen=True, kw_only=True)
class FailureMemory:
    """The program took more memory than a replay may have, with its child processes."""

    kind: Literal["memory"]
    taken: int
    """Its memory by then, in bytes."""
    limit: int
    """The limit, in bytes."""


@dataclass(frozen=True, kw_only=True)
class FailureNonFinite:
    """An output has NaN or infinity, from finite inputs."""

    kind: Literal["non_finite"]
    output: str
    """The output."""
    nan: int
    """The number of NaN."""
    inf: int
    """The number of infinities."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class FailureNotDeterministic:
    """Elements differ in another replay of the same, by more than rounding."""

    kind: Literal["not_deterministic"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""
    max_abs: Number
    """The largest difference."""


@dataclass(frozen=True, kw_only=True)
class FailureOutputs:
    """It left something else than the declared outputs."""

    kind: Literal["outputs"]
    problem: str
    """The fault, in words."""
    outputs: tuple[str, ...]
    """The outputs that are missing, otherwise or too much; none if there are no others."""


@dataclass(frozen=True, kw_only=True)
class FailureOutsideRead:
    """Elements depend on memory around the given tensors."""

    kind: Literal["outside_read"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class FailureOverrun:
    """Memory outside of an allocation was written."""

    kind: Literal["overrun"]
    detail: str
    """The allocation or tensor, and where the write lies."""


@dataclass(frozen=True, kw_only=True)
class FailurePoisonDependent:
    """Elements of an output depend on unwritten memory."""

    kind: Literal["poison_dependent"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class FailureRaised:
    """The program reports a failure of the revision's code."""

    kind: Literal["raised"]
    message: str
    """The program's words."""


@dataclass(frozen=True, kw_only=True)
class FailureSanitizer:
    """compute-sanitizer found an error."""

    kind: Literal["sanitizer"]
    tool: Tool
    """The tool of compute-sanitizer."""
    finding: SanitizerFinding
    """The finding."""


@dataclass(frozen=True, kw_only=True)
class FailureStatus:
    """The revision's program ended with this status."""

    kind: Literal["status"]
    code: int
    """The exit status."""


@dataclass(frozen=True, kw_only=True)
class FailureTimeout:
    """The replay did not end within the limit."""

    kind: Literal["timeout"]
    seconds: float
    """The limit in seconds."""
    place: ReplayFault | None
    """The place reached by then, if it is known."""


@dataclass(frozen=True, kw_only=True)
class FailureUnwritten:
    """Elements of an output were never written."""

    kind: Literal["unwritten"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class File:
    path: str
    kernels: tuple[Kernel, ...]
    shuffles: tuple[Shuffle, ...]
    shadow_obstacles: tuple[Obstacle, ...]
    device_shadow_obstacle: str | None


@dataclass(frozen=True, kw_only=True)
class FilePart:
    order: int
    """The place of this part, from 0."""
    axis: str


@dataclass(frozen=True, kw_only=True)
class FindingGone:
    text: str
    finding: AccessFinding


@dataclass(frozen=True, kw_only=True)
class FoundSpot:
    """One access of a finding."""

    writes: bool
    """Whether it writes."""
    atomic: bool
    """Whether it is an atomic or a volatile."""
    site: str
    """`file:line`, empty where it is not known."""
    name: str
    """The kernel, or `a copy`, `a fill`."""
    block: tuple[int, int, int] | None = None
    """The block along x, y, z, of a kernel."""
    thread: tuple[int, int, int] | None = None
    """The thread along x, y, z, of a kernel."""


@dataclass(frozen=True, kw_only=True)
class Gradcheck:
    fixture: str
    revision: Revision | None
    verdict: Standing
    status: Status
    gradients: tuple[GradientCheck, ...]


@dataclass(frozen=True, kw_only=True, repr=False)
class Gradchecks(Report):
    """The document that `replay gradcheck --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-gradcheck/1"]
    run: RunRecord
    gradchecks: tuple[Gradcheck, ...]
    errors: tuple[RefusedFixture, ...]


@dataclass(frozen=True, kw_only=True)
class GradientCheck:
    """One gradient against its loss."""

    output: str
    """The output that is declared to be a gradient."""
    gradient_of: str
    """The input that it is the gradient with respect to."""
    of: tuple[str, ...]
    """The output that is differentiated; none where the harness has no loss."""
    constraint: Constraint | None
    """The declared constraint of the input: the check moves it along this alone."""
    matches_along: Constraint | None
    """For a mismatch, the constraint that the input lies on and along which the gradient
    matches.
    """
    straight_through: bool
    """Whether it was taken as a straight-through gradient, as the harness declares it."""
    rounding_to_integers: StraightThrough | None
    """What rounding to integers is in its loss, if so."""
    verdict: GradientVerdict
    """The verdict."""
    against: GradientReference | None
    """What it was held against: slopes of the loss in float64, or differences of the loss that
    the native sources compute.
    """
    reason: str | None
    """Why it is unknown, has no better check, or imprecise in the shadow too; where it was
    seen, if not at the captured inputs.
    """
    directions: int
    """Directions that count: those along which the loss is smooth."""
    of_directions: int
    """The directions of a full check."""
    elements: int
    """The elements of the input."""
    checked: int
    """The elements that the directions move: the others lie on kinks, or cannot be moved."""
    worst: Number | None
    """The largest mismatch, relative to the gradient's norm; null where it was not checked."""
    error: Number | None
    """The error of the slopes, relative to the gradient's norm; null where it was not checked."""
    place: GradientPlace | None
    """A place where the gradient does not match the loss, if there is one."""
    native_error: Number | None
    """The native gradient's distance from the shadow's, relative in L2; null where it was not
    checked.
    """
    native_ratio: Number | None
    """The largest such distance of an element, as a multiple of its noise; null where it was
    not checked.
    """


@dataclass(frozen=True, kw_only=True)
class GradientPlace:
    """Elements whose gradient is not the slope of the loss."""

    index: tuple[int, ...]
    """The index of the first along each dimension."""
    elements: int
    """The number of elements, consecutive in row-major order; more than one if the check
    cannot tell them apart.
    """
    gradient: Number
    """The gradient, or its sum along a direction if there are several."""
    slope: Number
    """The slope of the loss."""


@dataclass(frozen=True, kw_only=True)
class GradientSides:
    """A gradient beside its loss on both sides of the culprit."""

    fixture: str
    wanted: bool
    """Whether the search was for it."""
    keeps_loss: bool
    """Whether the culprit leaves the loss as it was."""
    text: str
    """Both sides in a sentence."""
    culprit: GradientCheck
    parent: GradientCheck | None
    """The first parent; null where it cannot be tested."""


@dataclass(frozen=True, kw_only=True)
class Grouped:
    """How many variants count as how many."""

    variants: int
    """Variants between the ends, and these."""
    groups: int
    """Those of them that replays can tell apart: they differ in a name, or in a file that a
    replay opened.
    """


@dataclass(frozen=True, kw_only=True)
class Hunk:
    """A part of a change."""

    name: str
    """Its place as text reports name it."""
    path: str
    kind: HunkKind
    from_: str | None = field(metadata={"json": "from"})
    """The name of a renamed file before."""
    old_start: int
    """Its first line before the change, from 1, and their number."""
    old_lines: int
    new_start: int
    """Its first line behind the change, and their number."""
    new_lines: int
    text: str
    """Its lines as in a diff, each with its sign."""


@dataclass(frozen=True, kw_only=True)
class Hunks:
    """The hunks of the culprit, numbered from 0."""

    obstacle: str | None
    """Why they are not told apart; null where they are."""
    text: tuple[str, ...]
    """The answer as text reports tell it."""
    hunks: tuple[Hunk, ...]
    inert: tuple[int, ...]
    """The numbers of those of comments and white space."""
    unopened: tuple[int, ...]
    """The numbers of those in files of a program that no replay opened."""
    besides: int
    """How many more the commit has in files that are no sources."""
    carriers: tuple[Carrier, ...]
    """The smallest sets that carry the defect, each without the others."""
    as_commit: Carrier | None
    """The smallest set that moves the outputs as the whole commit does, where no carrier does."""
    others: Literal["good", "bad", "untestable", "fails otherwise", None]
    """The answer of the remaining hunks together; null where there are none, or they were not
    tested.
    """
    tested: int
    """The number of tests."""
    way_back: WayBack | None


@dataclass(frozen=True, kw_only=True)
class Imprecision:
    """How far an output in a narrow format errs, and how far its last rounding explains."""

    error: Number
    """The error around the oracle, relative, in L2."""
    last_rounding: Number
    """The most by which rounding to the output's format errs."""


@dataclass(frozen=True, kw_only=True)
class IndexSelectionList:
    """Exactly these."""

    list: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class IndexSelectionModulo:
    """The indices with one remainder."""

    modulo: IndexSelectionModuloModulo


@dataclass(frozen=True, kw_only=True)
class IndexSelectionModuloModulo:
    modulus: int
    """The divisor."""
    remainder: int
    """The remainder."""


@dataclass(frozen=True, kw_only=True)
class IndexSelectionRange:
    """A range, both ends included."""

    range: IndexSelectionRangeRange


@dataclass(frozen=True, kw_only=True)
class IndexSelectionRangeRange:
    first: int
    """The first index."""
    last: int
    """The last index."""


@dataclass(frozen=True, kw_only=True)
class Inspected:
    """What a fixture holds."""

    fixture: str
    """The folder's name."""
    folder: str
    """The folder, as it was named."""
    description: str | None
    harness: str
    """The file of the harness."""
    sizes: Mapping[str, int]
    """The sizes that `call` sees, by name."""
    provenance: Mapping[str, str]
    """The facts of `[provenance]` in `fixture.toml`."""
    files: tuple[InspectedFile, ...]
    inputs: tuple[InspectedInput, ...]
    shifts: tuple[InspectedShift, ...]
    """Integer inputs that are others, shifted by one: the targets of a language model."""
    outputs: tuple[DeclaredOutput, ...]
    captured: tuple[InspectedTensor, ...]
    captured_at: CaptureRevision | None
    """The revision that gave what is captured, beside the sources of the working tree."""
    oracle: tuple[InspectedTensor, ...]
    content: str
    """The hash of all that the fixture holds."""


@dataclass(frozen=True, kw_only=True)
class InspectedFile:
    path: str
    bytes: int
    blake3: str | None
    """The recorded hash, which the file has."""
    part: FilePart | None
    """The part of the tensors that it holds, where they are split over files."""


@dataclass(frozen=True, kw_only=True)
class InspectedInput:
    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    strides: tuple[int, ...] | None
    """Elements between neighbours along each dimension, where the fixture records them."""
    offset: int
    """The elements before its first one in the buffer that it was captured from."""
    widened: bool
    """Whether it is kept as float32 that was widened without loss."""
    shards: InspectedShards | None
    """How it is put together from several files."""
    summary: Summary | None
    """None for an optional input that the fixture lacks."""


@dataclass(frozen=True, kw_only=True)
class InspectedShards:
    axis: str | None
    """The size along which they are joined; none if all files have the same."""
    count: int
    whole: bool
    """Whether one more file has the tensor whole."""


@dataclass(frozen=True, kw_only=True)
class InspectedShift:
    """`next[.., i] == tokens[.., i + 1]` for at least half of all places."""

    tokens: str
    next: str
    of: int
    """Compared places: all but the last of each row."""
    differ: int
    """Places where the two differ."""
    first: tuple[int, ...] | None
    """The first of them, as an index of `next`."""


@dataclass(frozen=True, kw_only=True)
class InspectedTensor:
    """Checksum, statistics and sketch of a tensor. Statistics are in float64, over finite
    elements only.
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    checksum: Checksum
    """128 bits over dtype, shape and elements, as `docs/checksum.md` specifies."""
    count: int
    """The number of elements."""
    norm: Number
    """The L2 norm."""
    min: Number | None
    """The least element, or none where no element is finite."""
    max: Number | None
    """The greatest element, or none where no element is finite."""
    mean: Number | None
    """The mean, or none where no element is finite."""
    max_abs: Number
    """The greatest magnitude, 0 where no element is finite."""
    zeros: int
    """Elements that are zero, of either sign."""
    nan: int
    """Elements that are NaN."""
    inf: int
    """Elements that are infinite, of either sign."""
    unwritten: int
    """Elements that still hold the poison; 0 where none was given."""
    sketch: Sketch
    """Sixteen projections, from which [`Estimate`] tells how far two tensors lie apart."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Inspection(Report):
    """The document that `replay inspect --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-inspect/1"]
    run: RunRecord
    fixtures: tuple[Inspected, ...]
    errors: tuple[RefusedFixture, ...]


@dataclass(frozen=True, kw_only=True)
class Kernel:
    name: str
    line: int
    form: FormName
    halving_loops: tuple[int, ...]
    strided_loops: tuple[int, ...]
    why_not_block: Why | None


@dataclass(frozen=True, kw_only=True)
class KnownCheck:
    """One output beside that of the fixture."""

    output: str
    """The output."""
    dtype: DType
    """The element type."""
    dims: tuple[Dim, ...]
    """The dimensions."""
    verdict: Verdict
    """Whether the replay gives the same."""
    checksum: Checksum
    """The checksum of the fixture's output, in the output's own dtype."""
    comparison: Comparison
    """The comparison, element by element, with the fixture's output as the base."""
    noise: NoiseSummary
    """The noise of the replay."""
    imprecision: Imprecision | None
    """Its loss of precision beside an oracle, if its own noise would excuse one."""
    place: str | None
    """The location of the elements beyond noise, in words."""


@dataclass(frozen=True, kw_only=True)
class LaunchChange:
    """A new launch, a lost one, or one of another shape."""

    before: LaunchRecord | None
    """The launch at the trusted side; none if it is new."""
    after: LaunchRecord | None
    """The launch at the other side; none if it is gone."""


@dataclass(frozen=True, kw_only=True)
class LaunchRecord:
    """One `kernel<<<grid, block, shared>>>` of host code."""

    kernel: str
    """The kernel's name."""
    grid: tuple[int, int, int]
    """Blocks along x, y, z."""
    block: tuple[int, int, int]
    """Threads of a block along x, y, z."""
    shared_bytes: int
    """Bytes of dynamic shared memory."""
    site: str
    """`file:line` of the launch."""
    error: str | None = None
    """Why the launch was refused, in CUDA's words; none if it was not."""


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    path: str
    line: int
    name: str


@dataclass(frozen=True, kw_only=True)
class Location:
    """Where a class of elements lies."""

    elements: int
    """Elements in the class."""
    region_elements: int
    """Elements in the region; equal to `elements` where the class is exactly the region."""
    terms: tuple[Term, ...]
    """One term for each dimension, outermost first. All elements of the class lie in all
    terms.
    """
    mask: MaskTerm | None
    """The mask that narrows the region further, if one does."""
    rows: int
    """Rows (all dimensions but the last, taken together) that hold an element of the class."""
    region_rows: int
    """Rows of the region."""
    first: tuple[tuple[int, ...], ...]
    """The first elements of the class, by their index along each dimension."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Log(Report):
    """The document that `replay log --format json` writes; docs/schema.md explains the fields."""

    schema: Literal["replay-log/1"]
    run: RunRecord
    fixtures: tuple[str, ...]
    range: str
    commits: int
    variants: int
    variants_untestable: int
    variants_not_checked: int
    races_looked_for: bool
    untestable: tuple[UntestableCommit, ...]
    changes: tuple[Change, ...]
    captured: tuple[CapturedOutputs, ...]
    changed_nothing: tuple[Revision, ...]
    failed_as_before: tuple[FailedAsBefore, ...]


@dataclass(frozen=True, kw_only=True)
class MaskTerm:
    """The part of a mask that a region lies in."""

    name: str
    """The mask's name."""
    zero: bool
    """True if the region lies where the mask is 0, false if it lies where the mask is not 0."""


@dataclass(frozen=True, kw_only=True)
class Mended:
    """An output that is right since the culprit, and was not before."""

    fixture: str
    """The fixture."""
    output: str
    """The output."""
    by: MendedBy
    """The truth behind it."""


@dataclass(frozen=True, kw_only=True)
class MendedByAccuracy:
    """The float64 shadow, which is the same on both sides, or the declared oracle."""

    accuracy: MendedByAccuracyAccuracy


@dataclass(frozen=True, kw_only=True)
class MendedByAccuracyAccuracy:
    before: Number
    """The error before, relative, in L2."""
    after: Number
    """The error since."""


@dataclass(frozen=True, kw_only=True)
class NewSources:
    base: Revision | None
    """The trusted revision, which lacks the sources."""
    fixture: str
    revision: Revision | None
    device: Device
    compiler: str
    verdict: Standing
    failures: tuple[ReplayFailure, ...]
    untestable: Untestable | None
    call: int | None
    launches: tuple[LaunchRecord, ...]
    launch_count: int
    outputs: tuple[Output, ...]
    captured: tuple[KnownCheck, ...]
    captured_at: CaptureRevision | None
    captured_with: tuple[RecordedVersion, ...]
    """Where a captured output is missed: the versions of the capture that are others here."""
    captured_settings: tuple[RecordedSetting, ...]
    """Where a captured output is missed: the settings of the capture that are others here."""
    oracle: tuple[KnownCheck, ...]
    gradients: tuple[GradientCheck, ...]
    orders: tuple[OrderDependence, ...]
    order_failure: ReplayFailure | None
    """The end of the call in another order, where it has no outputs to compare."""
    accesses: Accesses | None
    against: Against | None
    base_lacks: str | None
    culprit: Blame | None
    snapshot: SnapshotCheck | None
    printed: str


@dataclass(frozen=True, kw_only=True)
class NoiseSummary:
    """The noise of an output in a few numbers."""

    replays: int
    """Replays beside the base."""
    relative_l2: Number
    """The L2 norm of the noise over the L2 norm of the output, over finite elements."""
    flips: int
    """Elements with a jump in at most two replays, far beyond all the others."""
    first_flips: tuple[int, ...]
    """The first of them by row-major index."""
    unstable: int
    """Elements with a finite value in one replay and none in another."""
    first_unstable: tuple[int, ...]
    """The first of them by row-major index."""


@dataclass(frozen=True, kw_only=True)
class Nondeterminism:
    """The difference of two identical replays of one revision."""

    differing: int
    """Elements with other bits."""
    max_abs: Number
    """The largest difference."""


@dataclass(frozen=True, kw_only=True)
class Numbering:
    """Irregular numbers of steps."""

    without: tuple[str, ...]
    """Steps without a number, where others have one: all were then ordered by name."""
    repeated: tuple[int, ...]
    """Numbers shared by several steps."""
    missing: tuple[int, ...]
    """Left-out numbers between neighbours, where nearly all are equally far apart."""


@dataclass(frozen=True, kw_only=True)
class Obstacle:
    line: int
    construct: str
    within: str | None
    effect: ObstacleEffect


@dataclass(frozen=True, kw_only=True)
class OrderDependence:
    """An output with a dependence on the order of blocks and threads beyond rounding."""

    output: str
    """The output."""
    elements: int
    """The number of dependent elements."""
    count: int
    """The number of all its elements."""
    index: tuple[int, ...]
    """The element with the largest move, in multiples of its rounding."""
    value: Number
    """Its value in the order of the indices."""
    other: Number
    """Its value in another order."""
    rounding: Number
    """How far rounding alone moves it."""
    place: str | None
    """The location of the elements, in words."""


@dataclass(frozen=True, kw_only=True)
class OtherChange:
    """A commit before or behind the culprit that changes something too."""

    wanted: tuple[Symptom, ...]
    culprit: Culprit | None


@dataclass(frozen=True, kw_only=True)
class OtherRun:
    """The step of a trusted run, and what it does not have in common with this one."""

    fixture: str
    model: str
    step: int
    only_there: tuple[str, ...]
    """The folders of the calls that this step lacks."""
    other_order_from: int | None
    """The place in `parts` from which on its calls come in another order; null where they do
    not.
    """


@dataclass(frozen=True, kw_only=True)
class Output:
    """Checksum, statistics and sketch of a tensor. Statistics are in float64, over finite
    elements only.
    """

    name: str
    dtype: DType
    dims: tuple[Dim, ...]
    shows_unwritten: bool
    checksum: Checksum
    """128 bits over dtype, shape and elements, as `docs/checksum.md` specifies."""
    count: int
    """The number of elements."""
    norm: Number
    """The L2 norm."""
    min: Number | None
    """The least element, or none where no element is finite."""
    max: Number | None
    """The greatest element, or none where no element is finite."""
    mean: Number | None
    """The mean, or none where no element is finite."""
    max_abs: Number
    """The greatest magnitude, 0 where no element is finite."""
    zeros: int
    """Elements that are zero, of either sign."""
    nan: int
    """Elements that are NaN."""
    inf: int
    """Elements that are infinite, of either sign."""
    unwritten: int
    """Elements that still hold the poison; 0 where none was given."""
    sketch: Sketch
    """Sixteen projections, from which [`Estimate`] tells how far two tensors lie apart."""


@dataclass(frozen=True, kw_only=True)
class OutputBlame:
    """The commit that changed one output."""

    output: str
    """The output."""
    commit: Revision | None
    """The commit; none where the search named none."""
    text: str
    """The result of the search, in a line."""


@dataclass(frozen=True, kw_only=True)
class OutputChange:
    """An output that changed."""

    name: str
    """Its name."""
    verdict: SnapshotVerdict
    """Whether it moved beyond noise."""
    before: Checksum | None
    """The checksum in the snapshot; none where the output is new."""
    after: Checksum | None
    """The checksum now; none where the output is gone."""
    distance: Estimate | None
    """The relative distance, where dtype and shape are the same."""
    noise: Number
    """The relative noise of both sides together."""
    shadow: ShadowChanged | None
    """What became of its float64 shadow, where both sides tell."""
    notes: tuple[str, ...]
    """Notes for the reader, a few words each."""


@dataclass(frozen=True, kw_only=True)
class OutputJudgement:
    """One output of one revision against another."""

    name: str
    """Its name."""
    dtype: DType
    """The element type."""
    dims: tuple[Dim, ...]
    """The dimensions."""
    verdict: Verdict
    """Whether the two sides agree."""
    unwritten: int
    """The elements that either side left unwritten: the verdict is on the others."""
    comparison: Comparison
    """The comparison, element by element."""
    base_noise: NoiseSummary
    """The noise of the trusted side."""
    got_noise: NoiseSummary
    """The noise of the other side."""
    finding: Finding | None
    """The meaning of the change; none where no truth is known."""
    base_accuracy: Accuracy | None
    """The trusted side against the oracle, or the trusted shadow where none is declared."""
    got_accuracy: Accuracy | None
    """The other side against the same."""
    significant_digits: tuple[float, float] | None
    """Where no truth is known, about how many decimal digits hold of the trusted side and of
    the other one, by the furthest of the replays with other rounding.
    """
    by_oracle: bool
    """Whether the accuracies are against an oracle that the fixture declares."""
    shadow: ShadowChange | None
    """How the float64 shadow changed."""
    without_shadow: str | None
    """Why one of both sides has no shadow of this output, if so and others have one."""
    drift: Drift | None
    """A shift of many elements that none of them shows, where there are no shadows of both
    sides.
    """
    location: Location | None
    """The location of the elements beyond noise; of those whose shadow moved, where rounding
    hides it.
    """
    place: str | None
    """The location in words."""
    zero_slices: tuple[str, ...]
    """Whole slices that are zero where the trusted side is not, in words."""
    map: str | None
    """The location as a picture: rows are the leading dimensions, columns the last; none if
    the words say as much.
    """
    nondeterminism: Nondeterminism | None
    """How two identical replays of the other side differ, if they do."""
    probes: tuple[Probe, ...]
    """What moved it on either side, and so told its noise."""
    order: OrderDependence | None
    """How the other side depends on the order of blocks and threads, if it does."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A commit in an environment."""

    commit: Revision
    answer: Literal["good", "bad", "untestable", "fails otherwise"]
    text: str | None
    """What was seen; null where it was not tested by itself."""


@dataclass(frozen=True, kw_only=True)
class Parameter:
    path: str
    update: ParameterUpdate | None
    adam: Adam | None


@dataclass(frozen=True, kw_only=True)
class ParameterUpdate:
    """How far a step moves a parameter."""

    norm: Number
    """The norm of the step's addend."""
    weight: Number
    """The norm of the parameter before."""


@dataclass(frozen=True, kw_only=True)
class Parted:
    """How an output parts from another, over the steps."""

    from_: Other = field(metadata={"json": "from"})
    """The other side."""
    output: str
    """The output."""
    spell: Spell
    """The steps beyond noise."""
    first: Number
    """The relative distance at the first of them."""
    last: Number
    """At the last of them."""
    largest: Number
    """The greatest."""
    growth: Number | None
    """The factor of the distance from step to step; none where it stays within its own
    scatter.
    """
    meaning: Finding | None
    """The meaning of the change at the first of them, where an oracle tells."""


@dataclass(frozen=True, kw_only=True, repr=False)
class RecordedEnvironments(Report):
    """The document that `replay env --format json` writes; docs/schema.md explains the fields."""

    schema: Literal["replay-env/1"]
    run: RunRecord
    fixtures: tuple[RecordedFacts, ...]


@dataclass(frozen=True, kw_only=True)
class RecordedFacts:
    """What a fixture was captured with."""

    fixture: str
    """The folder's name."""
    folder: str
    """The folder, as it was named."""
    others: int
    """How many of the packages and tools are others here."""
    other_settings: int
    """How many of the settings are others here."""
    versions: tuple[RecordedVersion, ...]
    """The recorded packages and tools; empty if it records none."""
    settings: tuple[RecordedSetting, ...]
    """The recorded settings, and the variables that are set here alone; empty if it records
    none.
    """


@dataclass(frozen=True, kw_only=True)
class RecordedSetting:
    """A flag of a framework, or a variable, as a capture had it and as it is here."""

    name: str
    """The variable, or the expression that gives the flag."""
    captured: str | None
    """Its value when the tensors were captured; null if it was not set."""
    here: str | None
    """Its value here; null if it is not set, or not known."""
    relation: SettingRelation


@dataclass(frozen=True, kw_only=True)
class RecordedVersion:
    """A package or a tool, as a capture had it and as it is here."""

    name: str
    """The package, or `python`, `cuda`, `cudnn`, `driver`, `cxx` or `nvcc`."""
    captured: str
    """Its version when the tensors were captured."""
    here: str | None
    """Its version here; null if it is not installed, or not known."""
    captured_contents: str | None
    """Digits of a hash of its files when the tensors were captured, or `editable`; null if not
    recorded.
    """
    contents_here: str | None
    """The same here; null if not known."""
    relation: VersionRelation


@dataclass(frozen=True, kw_only=True)
class RefusedFixture:
    """A fixture that could not be replayed, through no fault of the revision's code."""

    fixture: str
    """The folder, as it was named."""
    message: str
    """The error, in a sentence."""
    causes: tuple[str, ...]
    """The causes, outermost first."""
    hint: str | None
    """Advice to the user, if there is any."""


@dataclass(frozen=True, kw_only=True)
class Repair:
    commit: Revision
    like: Revision
    verdict: Verdict
    of_defect: bool


@dataclass(frozen=True, kw_only=True)
class Replay:
    fixture: str
    revision: Revision | None
    device: Device
    compiler: str
    verdict: Standing
    failures: tuple[ReplayFailure, ...]
    untestable: Untestable | None
    call: int | None
    launches: tuple[LaunchRecord, ...]
    launch_count: int
    outputs: tuple[Output, ...]
    captured: tuple[KnownCheck, ...]
    captured_at: CaptureRevision | None
    captured_with: tuple[RecordedVersion, ...]
    """Where a captured output is missed: the versions of the capture that are others here."""
    captured_settings: tuple[RecordedSetting, ...]
    """Where a captured output is missed: the settings of the capture that are others here."""
    oracle: tuple[KnownCheck, ...]
    gradients: tuple[GradientCheck, ...]
    orders: tuple[OrderDependence, ...]
    order_failure: ReplayFailure | None
    """The end of the call in another order, where it has no outputs to compare."""
    accesses: Accesses | None
    against: Against | None
    base_lacks: str | None
    culprit: Blame | None
    snapshot: SnapshotCheck | None
    printed: str


@dataclass(frozen=True, kw_only=True)
class ReplayFailureEndsByChance:
    """It completes, and a repetition fails."""

    text: str
    kind: Literal["ends_by_chance"]
    failure: Failure
    """How it fails."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureEndsByPoison:
    """It completes, and fails with other content of memory beyond its inputs."""

    text: str
    kind: Literal["ends_by_poison"]
    outside: bool
    """Whether this memory lies around the given tensors, and not in them."""
    failure: Failure
    """How it fails."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureExit:
    """The code called `exit`."""

    text: str
    kind: Literal["exit"]
    code: int
    """The exit status."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureFault:
    """Device or host code ended the replay by an error."""

    text: str
    kind: Literal["fault"]
    fault: ReplayFault
    """The error and its place."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureKilled:
    """A signal caused by the code ended the process."""

    text: str
    kind: Literal["killed"]
    signal: int
    """The signal's number."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureLaunch:
    """A launch was refused."""

    text: str
    kind: Literal["launch"]
    launch: LaunchRecord
    """The launch, with CUDA's words."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureMemory:
    """The program took more memory than a replay may have, with its child processes."""

    text: str
    kind: Literal["memory"]
    taken: int
    """Its memory by then, in bytes."""
    limit: int
    """The limit, in bytes."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureNonFinite:
    """An output has NaN or infinity, from finite inputs."""

    text: str
    kind: Literal["non_finite"]
    output: str
    """The output."""
    nan: int
    """The number of NaN."""
    inf: int
    """The number of infinities."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureNotDeterministic:
    """Elements differ in another replay of the same, by more than rounding."""

    text: str
    kind: Literal["not_deterministic"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""
    max_abs: Number
    """The largest difference."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureOutputs:
    """It left something else than the declared outputs."""

    text: str
    kind: Literal["outputs"]
    problem: str
    """The fault, in words."""
    outputs: tuple[str, ...]
    """The outputs that are missing, otherwise or too much; none if there are no others."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureOutsideRead:
    """Elements depend on memory around the given tensors."""

    text: str
    kind: Literal["outside_read"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureOverrun:
    """Memory outside of an allocation was written."""

    text: str
    kind: Literal["overrun"]
    detail: str
    """The allocation or tensor, and where the write lies."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailurePoisonDependent:
    """Elements of an output depend on unwritten memory."""

    text: str
    kind: Literal["poison_dependent"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureRaised:
    """The program reports a failure of the revision's code."""

    text: str
    kind: Literal["raised"]
    message: str
    """The program's words."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureSanitizer:
    """compute-sanitizer found an error."""

    text: str
    kind: Literal["sanitizer"]
    tool: Tool
    """The tool of compute-sanitizer."""
    finding: SanitizerFinding
    """The finding."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureStatus:
    """The revision's program ended with this status."""

    text: str
    kind: Literal["status"]
    code: int
    """The exit status."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureTimeout:
    """The replay did not end within the limit."""

    text: str
    kind: Literal["timeout"]
    seconds: float
    """The limit in seconds."""
    place: ReplayFault | None
    """The place reached by then, if it is known."""


@dataclass(frozen=True, kw_only=True)
class ReplayFailureUnwritten:
    """Elements of an output were never written."""

    text: str
    kind: Literal["unwritten"]
    output: str
    """The output."""
    count: int
    """The number of these elements."""
    of: int
    """The number of all elements of the output."""
    first: tuple[int, ...]
    """The index of the first of them, along each dimension."""


@dataclass(frozen=True, kw_only=True)
class ReplayFault:
    """The error of device or host code behind the early end of a replay."""

    what: str
    """The kind of error: `out-of-bounds access`, `barrier never reached`, ..."""
    detail: str
    """Details in words: address and tensor, waiting groups, the text of an assertion."""
    block: tuple[int, int, int] | None = None
    """The block along x, y, z."""
    kernel: str | None = None
    """The running kernel, if there was one."""
    thread: tuple[int, int, int] | None = None
    """The thread along x, y, z."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Replays(Report):
    """The document that `replay FIXTURE... --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay/1"]
    run: RunRecord
    replays: tuple[Replay, ...]
    errors: tuple[RefusedFixture, ...]


@dataclass(frozen=True, kw_only=True)
class Revision:
    """A commit, as reports name it."""

    id: str
    """The full id."""
    short: str
    """A unique abbreviation."""
    subject: str
    """The first line of the message."""


@dataclass(frozen=True, kw_only=True)
class RunRecord:
    """What was run, by which version of this program, on which machine and when."""

    command: str
    """The command line, quoted for a shell."""
    version: str
    """The version of this program, with the commit and the compiler that it was built from."""
    machine: str
    """The name of the machine, its system and its processor."""
    date: str
    """The second at which the command began, in UTC, as RFC 3339 writes it."""


@dataclass(frozen=True, kw_only=True)
class SanitizerFinding:
    """A finding of compute-sanitizer. Equal findings at one place are one, with their count."""

    what: str
    """The error, in compute-sanitizer's words: `Invalid __global__ write of size 4 bytes`."""
    count: int
    """How often it happened; compute-sanitizer prints at most 10,000 findings of a run."""
    address: str | None = None
    """The address, the first time."""
    block: tuple[int, int, int] | None = None
    """The block along x, y, z, the first time."""
    detail: str | None = None
    """Further details of the first time, in its words."""
    kernel: str | None = None
    """The kernel, without its parameters."""
    sites: tuple[str, ...] | None = None
    """`file:line`; for a race of both accesses."""
    thread: tuple[int, int, int] | None = None
    """The thread along x, y, z, the first time."""


@dataclass(frozen=True, kw_only=True)
class SearchAlong:
    """A search begins between a pair of the ends' commits and environments and another that
    differs in one thing. Its own answer follows.
    """

    schema: Literal["replay-bisect/1"]
    event: Literal["along"]
    axis: str | None
    """The axis of environments that is searched along; null for the history."""
    place: str
    """What stays the same: `with` a value of the axis, or `at` a commit."""


@dataclass(frozen=True, kw_only=True)
class SearchBegun:
    """The search begins: with the ends whose defects are known, `good` and `bad`, or without a
    claim, `old` and `new`.
    """

    schema: Literal["replay-bisect/1"]
    event: Literal["begun"]
    run: RunRecord
    fixtures: tuple[str, ...]
    axis: SearchedAxis | None
    """The axis of environments that is searched along, whose values stand for commits; null
    for a history.
    """
    bad: tuple[Revision, ...] | None = None
    good: tuple[Revision, ...] | None = None
    new: tuple[Revision, ...] | None = None
    old: tuple[Revision, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class SearchConcluded:
    """The answer."""

    schema: Literal["replay-bisect/1"]
    event: Literal["concluded"]
    tested: int
    wanted: tuple[Symptom, ...]
    flaky: bool
    direction: Direction
    mended: tuple[Mended, ...]
    """What the culprit mends, though the search took it for a defect."""
    before: tuple[OtherChange, ...]
    behind: tuple[OtherChange, ...]
    warnings: tuple[str, ...]
    captured: tuple[CapturedOutputs, ...]
    grouped: Grouped | None
    """How many variants count as fewer, because they differ in files that no replay opened;
    null if none do.
    """
    culprit: Culprit | None
    conclusion: Literal["found", "probable", "hidden", "not_monotone", "refused"]
    unconfirmed_parents: tuple[Revision | None, ...] | None = None
    probability: float | None = None
    candidates: tuple[Candidate, ...] | None = None
    bad_parents: tuple[Revision | None, ...] | None = None
    commit: Revision | None = None
    log: SearchLog | None = None
    text: str | None = None


@dataclass(frozen=True, kw_only=True)
class SearchCornered:
    """The ends differ in their commit and in their environment, and so do the two mixed pairs,
    which tell where the change lies.
    """

    schema: Literal["replay-bisect/1"]
    event: Literal["cornered"]
    axis: str
    """The axis of environments."""
    lies_in: Whereabouts
    text: str
    """The same in a sentence."""
    good: Pair
    """The good commit in the good environment."""
    bad: Pair
    """The bad commit in the bad environment."""
    code: Pair
    """The bad commit in the good environment."""
    environment: Pair
    """The good commit in the bad environment."""


@dataclass(frozen=True, kw_only=True)
class SearchFlaky:
    """Replays of this commit do not always come out the same: the search starts again, and
    counts.
    """

    schema: Literal["replay-bisect/1"]
    event: Literal["flaky"]
    commit: Revision


@dataclass(frozen=True, kw_only=True)
class SearchHunksStarted:
    """A test of the culprit's parent with some of the culprit's hunks begins."""

    schema: Literal["replay-bisect/1"]
    event: Literal["hunks_started"]
    hunks: int
    of: int


@dataclass(frozen=True, kw_only=True)
class SearchHunksTested:
    """It has an answer."""

    schema: Literal["replay-bisect/1"]
    event: Literal["hunks_tested"]
    hunks: tuple[Hunk, ...]
    answer: Literal["good", "bad", "untestable", "fails otherwise"]
    text: str


@dataclass(frozen=True, kw_only=True)
class SearchLog:
    """The changes of a range, as a document of its own or within the answer of a search."""

    commits: int
    variants: int
    variants_untestable: int
    variants_not_checked: int
    races_looked_for: bool
    untestable: tuple[UntestableCommit, ...]
    changes: tuple[Change, ...]
    captured: tuple[CapturedOutputs, ...]
    changed_nothing: tuple[Revision, ...]
    failed_as_before: tuple[FailedAsBefore, ...]


@dataclass(frozen=True, kw_only=True)
class SearchPlanned:
    """The history was read."""

    schema: Literal["replay-bisect/1"]
    event: Literal["planned"]
    commits: int
    candidates: int
    jobs: int


@dataclass(frozen=True, kw_only=True)
class SearchRecorded:
    """The good side is a snapshot; the search goes back to these commits."""

    schema: Literal["replay-bisect/1"]
    event: Literal["recorded"]
    good: str
    back_to: tuple[Revision, ...]


@dataclass(frozen=True, kw_only=True)
class SearchStarted:
    """A test begins."""

    schema: Literal["replay-bisect/1"]
    event: Literal["started"]
    commit: Revision
    candidates_left: int
    rounds_left: int


@dataclass(frozen=True, kw_only=True)
class SearchTested:
    """A test has an answer."""

    schema: Literal["replay-bisect/1"]
    event: Literal["tested"]
    commit: Revision
    answer: Literal["good", "bad", "untestable", "fails otherwise"]
    text: str
    fixtures: tuple[TestedFixture, ...]
    candidates_left: int
    rounds_left: int


@dataclass(frozen=True, kw_only=True)
class SearchedAxis:
    """An axis of environments at one revision."""

    name: str
    """Its name in `[axes]` of the harness."""
    place: str
    """Where the sources come from: `in the working tree`, or `at` a commit."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Series(Report):
    """The document that `replay series --format json` writes; docs/series.md explains the
    fields.
    """

    schema: Literal["replay-series/1"]
    run: RunRecord
    replayed: bool
    revision: Revision | None
    against: Revision | None
    verdict: Standing
    findings: tuple[SeriesFinding, ...]
    numbering: Numbering
    steps: tuple[Step, ...]
    errors: tuple[RefusedFixture, ...]


@dataclass(frozen=True, kw_only=True)
class SeriesFindingAdamDamped:
    """Epsilon is larger than the root of the second moment in most elements."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["adam_damped"]
    parameters: tuple[str, ...]
    """The parameters."""
    spell: Spell
    """The steps."""
    part: Number
    """The part of the elements, of the first parameter at the first step."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingAdamNegative:
    """A second moment of Adam is negative."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["adam_negative"]
    parameters: tuple[str, ...]
    """The parameters."""
    spell: Spell
    """The steps."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingAdamUnrelated:
    """First moments beyond those of any gradients with these second ones."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["adam_unrelated"]
    parameters: tuple[str, ...]
    """The parameters."""
    spell: Spell
    """The steps."""
    elements: int
    """Elements of the first parameter at the first step."""
    of: int
    """Of how many."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingClipped:
    """Gradients are clipped at half of the steps, or more."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["clipped"]
    spell: Spell
    """The steps."""
    norm: Number
    """The median norm before."""
    removed: Number
    """The part of the norm removed by clipping: the median over the clipped steps."""
    most: Number
    """The same: the largest."""
    gradients: Gradients
    """Whether the gradients are those of the loss."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingFailed:
    """Replays failed."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["failed"]
    spell: Spell
    """The steps."""
    failure: Failure
    """The first failure of the first of them."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingFlow:
    """Gradients shrink or grow from layer to layer, on their way back."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["flow"]
    group: str
    """The path before the layers' numbers."""
    layers: int
    """How many layers."""
    first: Number
    """The root mean square of the gradient in the first layer, the median over steps."""
    last: Number
    """In the last layer, where the gradient comes from."""
    factor: Number
    """Its factor from a layer to the one before."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingFrozen:
    """Parameters stay as they are although they have gradients."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["frozen"]
    parameters: tuple[str, ...]
    """The parameters."""
    spell: Spell
    """The steps."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingGradientWrong:
    """An output declared a gradient does not match its loss."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["gradient_wrong"]
    output: str
    """The output."""
    spell: Spell
    """The steps."""
    worst: Number
    """The largest mismatch, relative to the gradient's norm."""
    error: Number
    """The error of the slopes there, relative to the same."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingLossRises:
    """The loss ends higher than it begins."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["loss_rises"]
    from_: Number = field(metadata={"json": "from"})
    """The median of the first quarter."""
    to: Number
    """The median of the last quarter."""
    noise: Number
    """How far noise moves the loss of a step, as a part of the loss."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingMisaligned:
    """Targets are not the tokens shifted by one."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["misaligned"]
    spell: Spell
    """The steps."""
    shift: int | None
    """The shift of the agreeing tokens at the first of them."""
    differ: int
    """Places with a target other than the next token, at the first of them."""
    of: int
    """Counting places."""
    place: tuple[int, ...] | None
    """The first such place."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingMissing:
    """Left-out numbers of steps."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["missing"]
    numbers: tuple[int, ...]
    """The numbers."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingNoGradient:
    """Gradients are zero in all elements."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["no_gradient"]
    parameters: tuple[str, ...]
    """The parameters."""
    spell: Spell
    """The steps."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingNotFinite:
    """NaN or infinity."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["not_finite"]
    spell: Spell
    """The steps."""
    tensors: tuple[str, ...]
    """The affected tensors at the first of them, in the order of the harness."""
    affected: int
    """How many tensors are so at any step."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingParted:
    """An output lies beyond noise."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["parted"]
    parted: Parted
    """How, over the steps."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingRepeated:
    """Numbers shared by several steps."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["repeated"]
    numbers: tuple[int, ...]
    """The numbers."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingSpike:
    """Something leaves the range of the steps before."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["spike"]
    quantity: str
    """`loss`, `gradients` (all of them), or a parameter."""
    spell: Spell
    """The steps."""
    worst: int
    """The worst of them, by its place."""
    value: Number
    """The value there."""
    expected: Number
    """The expected value, from the steps before."""
    deviations: Number
    """How many deviations it lies above."""
    others: int
    """How many parameters spike besides, where it is one."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingUntestable:
    """The revision could not be replayed."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["untestable"]
    spell: Spell
    """The steps."""
    reason: str
    """Why, at the first of them."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingUpdates:
    """Steps large or small beside their parameters."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["updates"]
    parameters: tuple[str, ...]
    """The parameters."""
    ratio: Number
    """The update-to-weight ratio of the first of them, the median over steps."""
    large: bool
    """Whether it is large."""
    of: int
    """The steps."""


@dataclass(frozen=True, kw_only=True)
class SeriesFindingWithoutNumber:
    """Steps without a number, where others have one."""

    text: str
    severity: Severity
    """How bad it is."""
    kind: Literal["without_number"]
    fixtures: tuple[str, ...]
    """The fixtures."""


@dataclass(frozen=True, kw_only=True)
class SeriesReplay:
    status: Literal["completed", "failed", "untestable"]
    gradients: tuple[StepGradient, ...]
    against: Verdict | None
    distances: tuple[Distance, ...]


@dataclass(frozen=True, kw_only=True)
class ShadowChange:
    """How two shadows of one output differ."""

    relative_l2: Number
    """`||got - base|| / ||base||`."""
    changed: int
    """Elements further apart than rounding in their own format explains."""
    changed_by: Number
    """`||got - base|| / ||base||` over the changed elements."""
    first: int | None
    """The first of them by row-major index."""
    moved: int
    """Elements further apart than one unit roundoff of the output's dtype, at their own scale
    or that of their row: the mathematics is another one.
    """
    moved_by: Number
    """`||got - base|| / ||base||` over the moved elements."""
    dtype: DType
    """The dtype of the shadows."""
    rounded: bool
    """Whether elements would have moved, if a shadow were not rounded on the way to a format
    of fewer digits by itself.
    """


@dataclass(frozen=True, kw_only=True)
class ShadowChanged:
    """The shadow of an output that changed."""

    changed: bool
    """Whether it changed by more than rounding in float64 explains."""
    moved: bool
    """Whether it moved by more than one unit roundoff of the output's dtype: the mathematics
    is another one.
    """
    relative: Number
    """How far elements moved, relative to their own magnitude or that of their row."""


@dataclass(frozen=True, kw_only=True)
class ShrinkFinding:
    text: str
    output: str | None
    distance: Number
    """A multiple of the noise, or relative to the norm, as the text says; 0 where it means
    nothing.
    """


@dataclass(frozen=True, kw_only=True, repr=False)
class Shrinking(Report):
    """The document that `replay shrink --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-shrink/1"]
    run: RunRecord
    fixture: str
    revision: Revision | None
    against: Revision | None
    answer: ShrinkAnswerWord
    text: str
    """The answer as text reports tell it."""
    finding: ShrinkFinding | None
    """The finding on the whole fixture; null where there is none."""
    kept: ShrinkFinding | None
    """The same on the smallest fixture; null where none was found."""
    sizes: tuple[ShrunkSize, ...]
    values: tuple[SimpleValues, ...]
    """The inputs with simple values."""
    needs: tuple[ValueNeed, ...]
    """What the finding needs of values that are not simple, or must be as simple."""
    tries: int
    end: ShrinkEndWord | None
    bytes: int
    """The bytes of the whole fixture's files."""
    written: WrittenFixture | None


@dataclass(frozen=True, kw_only=True)
class ShrunkSize:
    name: str
    before: int
    after: int
    slices: tuple[int, ...] | None
    """The slices that are left, from 0; null for a number without slices."""
    text: str
    """What the finding needs of it, with the tries behind it."""
    tried: tuple[TriedLength, ...]
    """Other lengths that were tried, with all else as in the smallest fixture."""


@dataclass(frozen=True, kw_only=True)
class Shuffle:
    function: str
    line: int
    why_no_chain: ShuffleWhy | None


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonDirective:
    """A preprocessor line in front of its loop, or brackets or lines of the file under one."""

    kind: Literal["directive"]


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonDistance:
    """The same of the distance."""

    kind: Literal["distance"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonLongLoop:
    """The loop around it does more than this step."""

    kind: Literal["long_loop"]


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonLoopHead:
    """The head of the loop around it does not count a variable of its own from a constant to
    another.
    """

    kind: Literal["loop_head"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonLoopVariable:
    """The lanes combine the loop's counter, or a variable in its head."""

    kind: Literal["loop_variable"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonMask:
    """The mask holds more than numbers and variables of the thread alone."""

    kind: Literal["mask"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonNotCombined:
    """It is not of the form `x OP= shuffle(mask, x, distance)`."""

    kind: Literal["not_combined"]


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonSharedVariable:
    """A macro, a device's variable or a member: other threads may see it."""

    kind: Literal["shared_variable"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonSingle:
    """One step alone."""

    kind: Literal["single"]


@dataclass(frozen=True, kw_only=True)
class ShuffleReasonWidth:
    """The same of the width."""

    kind: Literal["width"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class ShuffleWhy:
    line: int | None
    text: str
    reason: ShuffleReason


@dataclass(frozen=True, kw_only=True)
class SimpleValues:
    input: str
    text: str


@dataclass(frozen=True, kw_only=True)
class SnapshotCheck:
    """The comparison of one replay with its accepted snapshot."""

    path: str
    """The file of the accepted snapshot, whether or not it exists."""
    verdict: SnapshotVerdict
    """The worst verdict."""
    changes: tuple[OutputChange, ...]
    """The outputs that changed, in the order of the harness."""
    launches_changed: bool
    """Whether other kernels were launched, or with other shapes."""
    ending: tuple[str, str] | None
    """How it ended before and now, where that changed."""
    written: str | None
    """The file that was written, if one was."""


@dataclass(frozen=True, kw_only=True)
class Spell:
    """The steps of a finding."""

    steps: int
    """At how many."""
    of: int
    """Of how many steps with the numbers for it."""
    first: int
    """The first, by its place in the series."""
    last: int
    """The last."""


@dataclass(frozen=True, kw_only=True)
class StackReasonArrayWithoutSize:
    """An array whose size only its initialiser tells."""

    kind: Literal["array_without_size"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonAtomicArguments:
    """An atomic whose arguments may wait."""

    kind: Literal["atomic_arguments"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonBarrierInExpression:
    """`__syncthreads` in an expression, or with arguments."""

    kind: Literal["barrier_in_expression"]


@dataclass(frozen=True, kw_only=True)
class StackReasonBarrierInSwitch:
    """A barrier below `switch`."""

    kind: Literal["barrier_in_switch"]


@dataclass(frozen=True, kw_only=True)
class StackReasonBracketAlternatives:
    """A bracket opened or closed in some branches of the preprocessor alone."""

    kind: Literal["bracket_alternatives"]


@dataclass(frozen=True, kw_only=True)
class StackReasonCondition:
    """A barrier below a condition with a declaration in it, or below `if constexpr`."""

    kind: Literal["condition"]


@dataclass(frozen=True, kw_only=True)
class StackReasonDeclaration:
    """A declaration in front of a barrier, with its first word: no jump can pass by it."""

    kind: Literal["declaration"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonDeclarationDependsOn:
    """A declaration to be moved in front of the loop over the threads depends on this
    variable.
    """

    kind: Literal["declaration_depends_on"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonDeclaredTwice:
    """A name of two variables."""

    kind: Literal["declared_twice"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonDepth:
    """Statements nested deeper than this many levels."""

    kind: Literal["depth"]
    detail: int


@dataclass(frozen=True, kw_only=True)
class StackReasonDestructor:
    """A type with a destructor, or perhaps with one."""

    kind: Literal["destructor"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonDirective:
    """A preprocessor line other than `#pragma`."""

    kind: Literal["directive"]


@dataclass(frozen=True, kw_only=True)
class StackReasonLabel:
    """A label."""

    kind: Literal["label"]


@dataclass(frozen=True, kw_only=True)
class StackReasonLambda:
    """A lambda, or an attribute in brackets."""

    kind: Literal["lambda"]


@dataclass(frozen=True, kw_only=True)
class StackReasonLength:
    """More than this many words."""

    kind: Literal["length"]
    detail: int


@dataclass(frozen=True, kw_only=True)
class StackReasonLineDirective:
    """A `#line` directive in the file: its line numbers may mislead."""

    kind: Literal["line_directive"]


@dataclass(frozen=True, kw_only=True)
class StackReasonLongLiteral:
    """A literal over several lines."""

    kind: Literal["long_literal"]


@dataclass(frozen=True, kw_only=True)
class StackReasonLoopOverRange:
    """A barrier below a range-based `for`, or one whose head is not of three parts."""

    kind: Literal["loop_over_range"]


@dataclass(frozen=True, kw_only=True)
class StackReasonMacroDeclares:
    """A macro with possible declarations of variables."""

    kind: Literal["macro_declares"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonMacroLeaves:
    """A macro with a possible way out of its statement, or with an unclosed bracket."""

    kind: Literal["macro_leaves"]
    detail: StackReasonMacroLeavesDetail


@dataclass(frozen=True, kw_only=True)
class StackReasonMacroLeavesDetail:
    word: str
    """The word in the kernel."""
    through: tuple[str, ...]
    """The names on the way to the macro; empty if the word is the macro."""


@dataclass(frozen=True, kw_only=True)
class StackReasonMacroNames:
    """A macro with the name of a variable of the kernel in its expansion."""

    kind: Literal["macro_names"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonManyDeclarations:
    """A name with more declarations than this."""

    kind: Literal["many_declarations"]
    detail: int


@dataclass(frozen=True, kw_only=True)
class StackReasonOperatorWaits:
    """An operator of the sources waits; tokens do not show its use."""

    kind: Literal["operator_waits"]


@dataclass(frozen=True, kw_only=True)
class StackReasonParameters:
    """Parameters in an unknown form."""

    kind: Literal["parameters"]


@dataclass(frozen=True, kw_only=True)
class StackReasonReservedWord:
    """A word reserved for the rewritten kernel, or a word with others hidden in it."""

    kind: Literal["reserved_word"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonShuffle:
    """A shuffle outside of a chain."""

    kind: Literal["shuffle"]
    detail: StackReasonShuffleDetail


@dataclass(frozen=True, kw_only=True)
class StackReasonShuffleDetail:
    shuffle: str
    """The function."""
    why: ShuffleReason
    """Why it is none."""


@dataclass(frozen=True, kw_only=True)
class StackReasonShuffledVariable:
    """A chain of shuffles of something else than the thread's own number of 32 or 64 bits."""

    kind: Literal["shuffled_variable"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonStatement:
    """A statement in an unknown form."""

    kind: Literal["statement"]


@dataclass(frozen=True, kw_only=True)
class StackReasonTypeDependsOn:
    """The type of a variable depends on this name."""

    kind: Literal["type_depends_on"]
    detail: str


@dataclass(frozen=True, kw_only=True)
class StackReasonWaits:
    """A word for a wait elsewhere than at a barrier."""

    kind: Literal["waits"]
    detail: StackReasonWaitsDetail


@dataclass(frozen=True, kw_only=True)
class StackReasonWaitsDetail:
    word: str
    """The word in the kernel."""
    through: tuple[str, ...]
    """The names on the way to the wait; empty if the word waits itself."""


@dataclass(frozen=True, kw_only=True)
class StatusFailed:
    """It was run and something is wrong; at least one failure."""

    failed: tuple[Failure, ...]


@dataclass(frozen=True, kw_only=True)
class StatusUntestable:
    """It could not be run: the revision does not build, or the call does not fit."""

    untestable: StatusUntestableUntestable


@dataclass(frozen=True, kw_only=True)
class StatusUntestableUntestable:
    reason: str
    """Why, in a sentence."""
    causes: tuple[str, ...]
    """The causes of the reason, outermost first."""
    hint: str | None
    """Advice to the user."""


@dataclass(frozen=True, kw_only=True)
class Step:
    """The single numbers of a step."""

    fixture: str
    step: int | None
    loss: Number | None
    """The loss."""
    grad_norm: Number | None
    """The norm of all gradients together before they were clipped, as captured."""
    max_norm: Number | None
    """The limit of clipping, as captured."""
    lr: Number | None
    """The learning rate."""
    beta1: Number | None
    """Adam's decay of the first moment."""
    beta2: Number | None
    """Adam's decay of the second moment."""
    eps: Number | None
    """Adam's epsilon."""
    adam_step: Number | None
    """How often Adam's moments were updated."""
    gradient_norm: Number | None
    """The norm of all gradients together, as they were captured or replayed."""
    clipping: Clipping | None
    tensors: tuple[Tensor, ...]
    parameters: tuple[Parameter, ...]
    alignment: Alignment | None
    replay: SeriesReplay | None


@dataclass(frozen=True, kw_only=True)
class StepFinding:
    pass_: StepPass = field(metadata={"json": "pass"})
    text: str
    output: str | None
    distance: Number
    """A multiple of the noise, or relative to the norm, as the text says; 0 where it means
    nothing.
    """


@dataclass(frozen=True, kw_only=True)
class StepGradient:
    """A gradient held against its loss."""

    output: str
    """The output."""
    verdict: GradientVerdict
    """The verdict."""
    worst: Number
    """The largest mismatch, relative to the gradient's norm."""
    error: Number
    """The error of the slopes, relative to the same."""


@dataclass(frozen=True, kw_only=True)
class StepPart:
    folder: str
    """The folder of its fixture, in that of the step."""
    module: str
    """The path of the module in the model; that of the model is empty."""
    kind: str
    inside: int | None
    """The place of the call around it; null for the outermost."""
    blame: StepBlameWord
    consequence_of: int | None
    """The place of the call inside that is at fault; null unless the blame is `consequence`."""
    forward: str
    """A word for the forward, as text reports have it."""
    backward: str
    """A word for the backward."""
    forward_distance: Number | None
    """How far the outputs of the forward lie off at most, as a multiple of the noise; null
    where it is not known.
    """
    backward_distance: Number | None
    """The same of the backward."""
    reached: bool
    """Whether a gradient reached its outputs, or none can."""
    findings: tuple[StepFinding, ...]
    untestable: str | None
    """Why it could not be replayed; null where it was."""
    only_here: bool
    """Whether the other run has no such call."""
    not_comparable: tuple[str, ...]
    """The outputs that the other run has in another form, in words."""


@dataclass(frozen=True, kw_only=True, repr=False)
class StepReport(Report):
    """The document that `replay step --format json` writes; docs/schema.md explains the
    fields.
    """

    schema: Literal["replay-step/1"]
    run: RunRecord
    fixture: str
    model: str
    step: int
    """The number of the step."""
    revision: Revision | None
    against: Revision | None
    against_run: OtherRun | None
    """The step of another run that it was compared with; null where there is none."""
    verdict: StepVerdict
    text: str
    """The verdict as text reports tell it."""
    first_forward: int | None
    """The place in `parts` of the first finding in the forward; null where there is none."""
    first_backward: int | None
    """The same in the backward, which goes the other way round."""
    parts: tuple[StepPart, ...]
    """The calls of modules, in the order in which they began."""
    left_out: tuple[LeftOut, ...]


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Checksum, statistics and sketch of a tensor. Statistics are in float64, over finite
    elements only.
    """

    checksum: Checksum
    """128 bits over dtype, shape and elements, as `docs/checksum.md` specifies."""
    count: int
    """The number of elements."""
    norm: Number
    """The L2 norm."""
    min: Number | None
    """The least element, or none where no element is finite."""
    max: Number | None
    """The greatest element, or none where no element is finite."""
    mean: Number | None
    """The mean, or none where no element is finite."""
    max_abs: Number
    """The greatest magnitude, 0 where no element is finite."""
    zeros: int
    """Elements that are zero, of either sign."""
    nan: int
    """Elements that are NaN."""
    inf: int
    """Elements that are infinite, of either sign."""
    unwritten: int
    """Elements that still hold the poison; 0 where none was given."""
    sketch: Sketch
    """Sixteen projections, from which [`Estimate`] tells how far two tensors lie apart."""


@dataclass(frozen=True, kw_only=True)
class SymptomAccess:
    """A checked replay finds a wrong access to memory, and does not at the good side."""

    symptom: Literal["access"]
    fixture: str
    """The fixture."""
    finding: FoundKind
    """What is wrong."""
    memory: str
    """The memory."""


@dataclass(frozen=True, kw_only=True)
class SymptomBits:
    """An output has other bits than at the good side."""

    symptom: Literal["bits"]
    fixture: str
    """The fixture."""
    output: str
    """The output."""


@dataclass(frozen=True, kw_only=True)
class SymptomDiverged:
    """An output went beyond the noise of the good side."""

    symptom: Literal["diverged"]
    fixture: str
    """The fixture."""
    output: str
    """The output."""


@dataclass(frozen=True, kw_only=True)
class SymptomFailed:
    """The replay failed."""

    symptom: Literal["failed"]
    fixture: str
    """The fixture."""
    kind: str
    """The kind of failure, in the words of
    [`Failure::kind`](replay_engine::trial::Failure::kind).
    """


@dataclass(frozen=True, kw_only=True)
class SymptomHidden:
    """The mathematics of an output changed, and rounding hides it on the fixture."""

    symptom: Literal["hidden"]
    fixture: str
    """The fixture."""
    output: str
    """The output."""


@dataclass(frozen=True, kw_only=True)
class SymptomImprecise:
    """A gradient is less precise than its noise allows."""

    symptom: Literal["imprecise"]
    fixture: str
    """The fixture."""
    output: str
    """The gradient."""


@dataclass(frozen=True, kw_only=True)
class SymptomMismatch:
    """A gradient does not match its loss."""

    symptom: Literal["mismatch"]
    fixture: str
    """The fixture."""
    output: str
    """The gradient."""


@dataclass(frozen=True, kw_only=True)
class SymptomOrdered:
    """An output depends on the order of blocks and threads, and does not at the good side."""

    symptom: Literal["ordered"]
    fixture: str
    """The fixture."""
    output: str
    """The output."""


@dataclass(frozen=True, kw_only=True)
class SymptomShifted:
    """The float64 shadow of an output changed by less than the output can hold."""

    symptom: Literal["shifted"]
    fixture: str
    """The fixture."""
    output: str
    """The output."""


@dataclass(frozen=True, kw_only=True)
class Tensor:
    """The numbers of one tensor. Those of finite elements alone but for the counts."""

    name: str
    count: int
    """The elements."""
    norm: Number
    """The L2 norm."""
    max_abs: Number
    """The greatest magnitude."""
    mean: Number | None
    """The mean; none where no element is finite."""
    zeros: int
    """Zeros."""
    nan: int
    """NaNs."""
    inf: int
    """Infinities."""
    checksum: Checksum
    """128 bits over dtype, shape and elements."""


@dataclass(frozen=True, kw_only=True)
class Term:
    """The selection along one dimension."""

    dim: str
    """The dimension's name, or `dim 2` where it has none."""
    size: int
    """Its size."""
    selection: IndexSelection
    """The selected indices."""


@dataclass(frozen=True, kw_only=True)
class TestedCommit:
    commit: Revision | None
    verdict: Verdict | None
    text: str | None


@dataclass(frozen=True, kw_only=True)
class TestedFixture:
    fixture: str
    verdict: Verdict
    symptoms: tuple[Symptom, ...]
    untestable: str | None


@dataclass(frozen=True, kw_only=True)
class TriedLength:
    length: int
    answer: TryAnswer


@dataclass(frozen=True, kw_only=True)
class TriedValue:
    value: Number
    answer: TryAnswer


@dataclass(frozen=True, kw_only=True)
class Untestable:
    reason: str
    causes: tuple[str, ...]
    hint: str | None


@dataclass(frozen=True, kw_only=True)
class UntestableCommit:
    fixture: str
    commit: Revision
    reason: str


@dataclass(frozen=True, kw_only=True)
class ValueNeed:
    input: str
    text: str
    """What the finding needs, with the tries behind it."""
    places: tuple[tuple[int, ...], ...]
    """The index of each element, along each dimension."""
    equal_to: str | None
    """The scalar input that has to have the same value; null where there is none."""
    tried: tuple[TriedValue, ...]
    """Other values that were tried there, with all else as in the smallest fixture."""


@dataclass(frozen=True, kw_only=True)
class WayBack:
    """These sets, taken back from a later revision."""

    onto: Revision
    result: WayBackWord
    text: str | None
    """What stands in the way, or what the replay shows."""
    patch: str | None
    """What was replayed, as a patch that `git apply` takes; null where nothing was."""


@dataclass(frozen=True, kw_only=True)
class Why:
    line: int | None
    text: str
    reason: StackReason


@dataclass(frozen=True, kw_only=True)
class WorstElement:
    """One element of a comparison."""

    index: int
    """Its row-major index."""
    base: Number
    """The trusted value."""
    got: Number
    """The other value."""
    noise: Number
    """The noise of both sides together."""
    ratio: Number
    """The distance, as a multiple of the noise; infinite for non-finite values, and integers
    without noise.
    """
    ulps: Number
    """The distance in units in the last place of the dtype, at `base`."""


@dataclass(frozen=True, kw_only=True)
class WorstError:
    """One element that is off the oracle."""

    index: int
    """Its row-major index."""
    oracle: Number
    """The oracle's value."""
    got: Number
    """The output's value."""
    ulps: Number
    """The error in units in the last place of the output's dtype, at the oracle's magnitude."""
    ratio: Number
    """The error as a multiple of the noise."""


@dataclass(frozen=True, kw_only=True)
class WrittenFixture:
    folder: str
    bytes: int
    """The bytes of its files."""


Failure: TypeAlias = (
    FailureLaunch
    | FailureFault
    | FailureExit
    | FailureStatus
    | FailureKilled
    | FailureTimeout
    | FailureMemory
    | FailureOverrun
    | FailureNonFinite
    | FailureUnwritten
    | FailurePoisonDependent
    | FailureOutsideRead
    | FailureRaised
    | FailureEndsByPoison
    | FailureEndsByChance
    | FailureNotDeterministic
    | FailureOutputs
    | FailureSanitizer
)
IndexSelection: TypeAlias = (
    Literal["all"] | IndexSelectionRange | IndexSelectionModulo | IndexSelectionList
)
MendedBy: TypeAlias = Literal["loss"] | MendedByAccuracy
ReplayFailure: TypeAlias = (
    ReplayFailureLaunch
    | ReplayFailureFault
    | ReplayFailureExit
    | ReplayFailureStatus
    | ReplayFailureKilled
    | ReplayFailureTimeout
    | ReplayFailureMemory
    | ReplayFailureOverrun
    | ReplayFailureNonFinite
    | ReplayFailureUnwritten
    | ReplayFailurePoisonDependent
    | ReplayFailureOutsideRead
    | ReplayFailureRaised
    | ReplayFailureEndsByPoison
    | ReplayFailureEndsByChance
    | ReplayFailureNotDeterministic
    | ReplayFailureOutputs
    | ReplayFailureSanitizer
)
SearchEvent: TypeAlias = (
    SearchBegun
    | SearchRecorded
    | SearchPlanned
    | SearchStarted
    | SearchTested
    | SearchFlaky
    | SearchHunksStarted
    | SearchHunksTested
    | SearchCornered
    | SearchAlong
    | SearchConcluded
)
SeriesFinding: TypeAlias = (
    SeriesFindingFailed
    | SeriesFindingNotFinite
    | SeriesFindingGradientWrong
    | SeriesFindingParted
    | SeriesFindingAdamNegative
    | SeriesFindingMisaligned
    | SeriesFindingNoGradient
    | SeriesFindingFrozen
    | SeriesFindingSpike
    | SeriesFindingClipped
    | SeriesFindingFlow
    | SeriesFindingUpdates
    | SeriesFindingLossRises
    | SeriesFindingAdamDamped
    | SeriesFindingAdamUnrelated
    | SeriesFindingUntestable
    | SeriesFindingMissing
    | SeriesFindingRepeated
    | SeriesFindingWithoutNumber
)
ShuffleReason: TypeAlias = (
    ShuffleReasonNotCombined
    | ShuffleReasonMask
    | ShuffleReasonWidth
    | ShuffleReasonDistance
    | ShuffleReasonLoopHead
    | ShuffleReasonLoopVariable
    | ShuffleReasonSharedVariable
    | ShuffleReasonLongLoop
    | ShuffleReasonSingle
    | ShuffleReasonDirective
)
Sketch: TypeAlias = tuple[Number, ...]
StackReason: TypeAlias = (
    StackReasonWaits
    | StackReasonMacroLeaves
    | StackReasonShuffle
    | StackReasonShuffledVariable
    | StackReasonAtomicArguments
    | StackReasonOperatorWaits
    | StackReasonBarrierInExpression
    | StackReasonBarrierInSwitch
    | StackReasonLoopOverRange
    | StackReasonCondition
    | StackReasonDeclaration
    | StackReasonDeclarationDependsOn
    | StackReasonTypeDependsOn
    | StackReasonDestructor
    | StackReasonArrayWithoutSize
    | StackReasonDeclaredTwice
    | StackReasonParameters
    | StackReasonMacroDeclares
    | StackReasonMacroNames
    | StackReasonReservedWord
    | StackReasonLambda
    | StackReasonLongLiteral
    | StackReasonDirective
    | StackReasonLabel
    | StackReasonStatement
    | StackReasonDepth
    | StackReasonLength
    | StackReasonManyDeclarations
    | StackReasonLineDirective
    | StackReasonBracketAlternatives
)
Status: TypeAlias = Literal["completed"] | StatusFailed | StatusUntestable
Symptom: TypeAlias = (
    SymptomDiverged
    | SymptomHidden
    | SymptomShifted
    | SymptomBits
    | SymptomOrdered
    | SymptomAccess
    | SymptomMismatch
    | SymptomImprecise
    | SymptomFailed
)
