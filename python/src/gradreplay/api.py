"""The commands of replay as functions: each runs the program once and returns what it tells.

All take fixtures as paths, and these options of the command line by their names: `backend`, `gradients`,
`timeout`, `memory`, `threads`, `fresh`, `sandbox`, `sanitize`. `quiet` hides the messages of the program,
`page` makes its page too: without it, in a notebook alone.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, cast

from . import program
from .documents import (
    Culprit,
    Diffs,
    Gradchecks,
    Inspection,
    Log,
    RecordedEnvironments,
    Replays,
    SearchBegun,
    SearchConcluded,
    SearchCornered,
    SearchEvent,
    SearchTested,
    Series,
    Shrinking,
    StepReport,
)
from .report import Report, Shown

if TYPE_CHECKING:
    from typing_extensions import Unpack

AnyPath = str | os.PathLike[str]
Fixtures = AnyPath | Iterable[AnyPath]
Revisions = str | Iterable[str]
Check = Literal["auto", "always", "off"]
Update = Literal["auto", "new", "always", "unseen", "no", "force"]
On = Literal["wrong", "changed", "bits", "race", "gradient", "failed"]
R = TypeVar("R", bound=Report)


class Options(TypedDict, total=False):
    """What all commands that replay understand."""

    backend: str
    gradients: Literal["off", "quick", "full"] | float
    timeout: float
    memory: str | int
    threads: int
    fresh: bool
    sandbox: Literal["strict", "default", "off"]
    sanitize: Literal["memcheck", "racecheck", "initcheck", "synccheck"]
    quiet: bool
    page: bool


@dataclass(frozen=True, repr=False)
class Search(Report):
    """The answer of a search, with all that happened on the way to it."""

    events: tuple[SearchEvent, ...]

    @property
    def begun(self) -> SearchBegun:
        """What was searched, and the run."""
        return next(event for event in self.events if isinstance(event, SearchBegun))

    @property
    def tested(self) -> tuple[SearchTested, ...]:
        """The tests, in their order."""
        return tuple(event for event in self.events if isinstance(event, SearchTested))

    @property
    def concluded(self) -> SearchConcluded:
        """The answer."""
        return next(event for event in self.events if isinstance(event, SearchConcluded))

    @property
    def conclusions(self) -> tuple[SearchConcluded, ...]:
        """The answers: between ends in environments one for each way that was searched."""
        return tuple(event for event in self.events if isinstance(event, SearchConcluded))

    @property
    def cornered(self) -> SearchCornered | None:
        """Where the change lies, between ends that differ in their revision and in their environment."""
        return next((event for event in self.events if isinstance(event, SearchCornered)), None)

    @property
    def culprit(self) -> Culprit | None:
        """The commit that was found, or the value of an axis; the first of several."""
        return next(
            (answer.culprit for answer in self.conclusions if answer.culprit is not None), None
        )


def replay(
    fixture: Fixtures,
    *,
    rev: str | None = None,
    against: str | None = None,
    culprit: bool = False,
    check: Check | None = None,
    snapshot: bool = False,
    snapshots: AnyPath | None = None,
    dump: AnyPath | None = None,
    update: Update | None = None,
    **options: Unpack[Options],
) -> Replays:
    """Replays fixtures through the kernels of a revision, or of the working tree.

    `update` says what becomes of snapshots, as `REPLAY_UPDATE` does (docs/snapshots.md).
    Raises :class:`ReplayError` if one of them cannot be replayed through no fault of the kernels."""
    words = [*_paths(fixture), *_flags(rev=rev, against=against, culprit=culprit, check=check)]
    words += _flags(snapshot=snapshot, snapshots=snapshots, dump=dump)
    environment = {} if update is None else {"REPLAY_UPDATE": update}
    return _report(Replays, words, options, environment)


def diff(
    fixture: Fixtures,
    base: str,
    got: str = "HEAD",
    *,
    check: Check | None = None,
    dump: AnyPath | None = None,
    **options: Unpack[Options],
) -> Diffs:
    """Compares two revisions, of which `base` is trusted, tensor by tensor.

    Raises :class:`ReplayError` as :func:`replay` does."""
    words = ["diff", *_paths(fixture), _revision(base), _revision(got)]
    words += _flags(check=check, dump=dump)
    return _report(Diffs, words, options)


def gradcheck(
    fixture: Fixtures, *, rev: str | None = None, **options: Unpack[Options]
) -> Gradchecks:
    """Holds the gradients against the loss.

    Raises :class:`ReplayError` as :func:`replay` does."""
    return _report(Gradchecks, ["gradcheck", *_paths(fixture), *_flags(rev=rev)], options)


def log(
    fixture: Fixtures,
    commits: str | None = None,
    *,
    first_parent: bool = False,
    check: Check | None = None,
    jobs: int | None = None,
    **options: Unpack[Options],
) -> Log:
    """Shows every commit of a range, such as `A..B`, at which an output changes.

    Raises :class:`ReplayError` if there is no answer."""
    words = ["log", *_paths(fixture), *([_revision(commits)] if commits is not None else [])]
    words += _flags(first_parent=first_parent, check=check, jobs=jobs)
    return _report(Log, words, options)


def series(
    fixture: Fixtures,
    *,
    rev: str | None = None,
    against: str | None = None,
    clip: float | None = None,
    **options: Unpack[Options],
) -> Series:
    """Shows a run as a series of steps: losses, gradients, clipping, spikes.

    Raises :class:`ReplayError` as :func:`replay` does."""
    words = ["series", *_paths(fixture), *_flags(rev=rev, against=against, clip=clip)]
    return _report(Series, words, options)


def bisect(
    fixture: Fixtures,
    *,
    good: Revisions = (),
    bad: Revisions = (),
    old: Revisions = (),
    new: Revisions = (),
    on: On | None = None,
    hunks: bool = False,
    first_parent: bool = False,
    check: Check | None = None,
    jobs: int | None = None,
    snapshots: AnyPath | None = None,
    **options: Unpack[Options],
) -> Search:
    """Finds the commit that broke a kernel, or the one that repaired it.

    Raises :class:`ReplayError` if the search cannot be made; a search without an answer is a result."""
    ends = {"good": good, "bad": bad, "old": old, "new": new}
    words = ["bisect", *_paths(fixture)]
    for name, revisions in ends.items():
        for revision in [revisions] if isinstance(revisions, str) else revisions:
            words += [f"--{name}={revision}"]
    words += _flags(on=on, hunks=hunks, first_parent=first_parent, check=check, jobs=jobs)
    return _search([*words, *_flags(snapshots=snapshots)], options)


def blame(
    fixture: Fixtures,
    rev: str,
    *,
    on: On | None = None,
    onto: str | None = None,
    patch: AnyPath | None = None,
    jobs: int | None = None,
    **options: Unpack[Options],
) -> Search:
    """Finds the hunks of a commit that carry its defect: `result.culprit.hunks`.

    Raises :class:`ReplayError` if the search cannot be made."""
    words = ["blame", *_paths(fixture), _revision(rev)]
    words += _flags(on=on, onto=onto, patch=patch, jobs=jobs)
    return _search(words, options)


def shrink(
    fixture: AnyPath,
    *,
    rev: str | None = None,
    against: str | None = None,
    output_dir: AnyPath | None = None,
    output: str | None = None,
    check: Check | None = None,
    max_tries: int | None = None,
    **options: Unpack[Options],
) -> Shrinking:
    """Writes the smallest fixture that still shows a finding: `result.written`.

    Raises :class:`ReplayError` if it cannot be searched for or written. There is no page."""
    words = ["shrink", *_paths(fixture), *_flags(rev=rev, against=against, output_dir=output_dir)]
    words += _flags(output=output, check=check, max_tries=max_tries)
    return _report(Shrinking, words, {**options, "page": False})


def step(
    step: AnyPath,
    *,
    rev: str | None = None,
    against: str | None = None,
    against_run: AnyPath | None = None,
    modules: Sequence[str] = (),
    **options: Unpack[Options],
) -> StepReport:
    """Looks at each module of a captured step of a model: `result.parts`.

    `against` is a trusted revision, `against_run` the captured step of a trusted run.

    Raises :class:`ReplayError` if there is no such step, or a fixture of it cannot be read."""
    words = ["step", *_paths(step), *_flags(rev=rev, against=against, against_run=against_run)]
    words += [word for module in modules for word in ("--module", module)]
    return _report(StepReport, words, options)


def inspect(fixture: Fixtures) -> Inspection:
    """Shows the tensors of fixtures, and whether these are whole.

    Raises :class:`ReplayError` if one of them is not."""
    words = ["inspect", *_paths(fixture)]
    told = program.run([*words, "--format", "json"])
    if not told.text or not told.is_answer:
        raise told.failure()
    text = program.run(words).text
    return _shown(program.read_document(Inspection, told.text), told, text)


def env(fixture: Fixtures) -> RecordedEnvironments:
    """Shows which versions fixtures were captured with, and which are here.

    Raises :class:`ReplayError` if one of them is not of a program, or its interpreter does not start."""
    words = ["env", *_paths(fixture)]
    told = program.run([*words, "--format", "json"])
    if not told.text or not told.is_answer:
        raise told.failure()
    text = program.run(words).text
    return _shown(program.read_document(RecordedEnvironments, told.text), told, text)


def _report(
    kind: type[R],
    words: Sequence[str],
    options: Options,
    environment: Mapping[str, str] | None = None,
) -> R:
    run = _run(words, options, environment)
    document = run.files.get("json")
    if document is None:
        raise run.failure()
    result = _shown(program.read_document(kind, document), run, run.text)
    if getattr(result, "errors", ()) or not run.is_answer:
        error = run.failure()
        error.result = result
        raise error
    return result


def _search(words: Sequence[str], options: Options) -> Search:
    run = _run(words, options)
    lines = run.files.get("json")
    if lines is None:
        raise run.failure()
    # The parts of the union are types, and the union of them is one to the decoder.
    kind = cast("type[Any]", SearchEvent)
    # Words in it may have other ends of lines, which `splitlines` would take for one.
    events = [program.read_document(kind, line) for line in lines.split("\n") if line]
    if not any(isinstance(event, SearchConcluded | SearchCornered) for event in events):
        raise run.failure()
    return _shown(Search(tuple(events)), run, run.text)


def _run(
    words: Sequence[str], options: Options, environment: Mapping[str, str] | None = None
) -> program.Run:
    known: Mapping[str, Any] = options
    if unknown := [name for name in known if name not in Options.__annotations__]:
        raise TypeError(f"there is no option `{unknown[0]}`: {', '.join(Options.__annotations__)}")
    flags = {name: value for name, value in known.items() if name not in ("quiet", "page")}
    page = options.get("page", _is_notebook())
    reports = ["json", *(["html"] if page else [])]
    quiet = options.get("quiet", False)
    words = [*words, *_flags(**flags)]
    return program.run(words, reports=reports, quiet=quiet, environment=environment)


def _shown(document: R, run: program.Run, text: str) -> R:
    # The only thing that is set after a frozen result was made: what the program wrote with it.
    shown = Shown(text, run.files.get("html"), run.exit_code)
    object.__setattr__(document, "_shown", shown)
    return document


def _paths(fixture: Fixtures) -> list[str]:
    fixtures = [fixture] if isinstance(fixture, (str, os.PathLike)) else fixture
    paths = [os.fspath(path) for path in fixtures]
    if not paths or "" in paths:
        raise ValueError("no fixture was named")

    # A folder may have the name of a command, or begin as an option does.
    def is_taken(path: str) -> bool:
        return os.sep not in path or path.startswith("-")

    return [os.path.join(".", path) if is_taken(path) else path for path in paths]


def _revision(text: str) -> str:
    """A revision that is no option; git has none that begins as one."""
    if not text or text.startswith("-"):
        raise ValueError(f"{text!r} is no revision")
    return text


def _flags(**values: Any) -> list[str]:
    words = []
    for name, value in values.items():
        flag = f"--{name.replace('_', '-')}"
        if value is None or value is False:
            continue
        text = os.fspath(value) if isinstance(value, os.PathLike) else value
        words.append(flag if value is True else f"{flag}={text}")
    return words


def _is_notebook() -> bool:
    ipython: Any = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and getattr(shell, "kernel", None) is not None
