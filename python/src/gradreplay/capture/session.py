"""`capture.step`: decides whether a step is captured, and keeps or writes what its calls tell."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Protocol

from . import provenance
from .background import background
from .errors import CaptureError, tell
from .parts import Parts
from .record import Function, Record
from .when import History, Outcome, When, first
from .writer import Writer

_FIELDS = {"step", "name", "call", "rank"}


class Whole(Protocol):
    """The step of a whole model, which is one folder."""

    @property
    def bytes(self) -> int:
        """The bytes of all tensors."""

    @property
    def finite(self) -> bool:
        """Whether no tensor holds a NaN or an infinity."""

    def close(self) -> None:
        """Lets nothing more in."""

    def finish(self) -> None:
        """Writes the folder."""

    def discard(self) -> None:
        """Deletes what was written."""


@dataclass
class Run:
    """What is remembered from step to step, for each path."""

    history: History = field(default_factory=History)
    kept: int = 0
    ring: deque[Step] = field(default_factory=deque)
    # Whether fixtures carry the name of their function, decided when the first is captured.
    named: bool | None = None


@dataclass
class State:
    """What this process captures at the moment."""

    step: Step | None = None
    # Whether there is one: the only question that is asked while none is.
    on: bool = False
    runs: dict[str, Run] = field(default_factory=dict)
    functions: set[str] = field(default_factory=set)
    # Called when a captured step begins or ends; frameworks that compile functions hook in here.
    switches: list[Callable[[bool], None]] = field(default_factory=list)


state = State()


def metric(name: str, value: Any) -> None:
    """Tells the current step a number, such as the norm of the gradient.

    Conditions such as `spike` look at it, and it stands in the fixtures of the step."""
    current = _open_step()
    if current is not None:
        current.metrics[name] = float(value)


def _open_step() -> Step | None:
    return _steps[-1] if _steps else None


# The steps that are open, captured or not.
_steps: list[Step] = []


class Step:
    """A step of the training, as a context.

    `path` names its fixtures, with `{step}`, `{name}` (of the function), `{call}` (the number of its
    call in this step) and `{rank}`. What it lacks and needs is appended to it."""

    def __init__(
        self,
        path: str | Path,
        *,
        step: int,
        when: When | None = None,
        ring: int = 1,
        max_bytes: int | None = None,
        max_steps: int | None = None,
        max_calls: int | None = None,
        rank: int | Literal["all"] = 0,
        seed: int | None = None,
        strict: bool = False,
    ) -> None:
        self.path = str(path)
        self.step = step
        self.when = when if when is not None else first(1)
        self.ring = ring
        self.max_bytes = max_bytes
        self.max_steps = max_steps
        self.max_calls = max_calls
        self.rank = rank
        self.seed = seed
        self.strict = strict
        self.metrics: dict[str, float] = {}
        self.bytes = 0
        self.writers: list[Writer] = []
        self.parts: dict[str, Parts] = {}
        self.wholes: dict[str, dict[str, Any]] = {}
        self.models: dict[str, Whole] = {}
        self.delayed: list[BaseException] = []
        # Whether inputs are written as they come, or kept in memory until the step has ended.
        self.durable = False
        self.early = False
        self._calls: dict[str, int] = {}
        self._run = state.runs.setdefault(self.path, Run())

    def __enter__(self) -> Step:
        _steps.append(self)
        if self._wanted():
            state.step, state.on = self, True
            _switch(True)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        _steps.pop()
        trouble: Exception | None = None
        if state.step is self:
            try:
                # Frameworks finish what runs beside Python; what fails there is the training's.
                _switch(False)
            except Exception as failure:
                trouble = failure
            state.step, state.on = None, False
            failed = error is not None or trouble is not None
            try:
                self._end(failed)
            except Exception as failure:
                tell(failure, strict=self.strict and not failed)
        self._run.history.end_step(self.metrics)
        if trouble is not None and error is None:
            raise trouble
        if self.delayed and self.strict and error is None:
            raise self.delayed[0]

    def _wanted(self) -> bool:
        """Decides whether this step is captured, and how; nothing here is done when it is not."""
        history = self._run.history
        self.early = self.when.early(history)
        if not (self.early or self.when.waits or self.when.guards):
            return False
        if self.max_steps is not None and self._run.kept >= self.max_steps:
            return False
        if self.rank != "all" and provenance.rank() != self.rank:
            return False
        if state.step is not None:
            problem = f"step {self.step} begins inside step {state.step.step}"
            tell(CaptureError(problem, "leave one before the next begins"), strict=self.strict)
            return False
        self.durable = self.early or self.when.guards
        return self._check_path()

    def _check_path(self) -> bool:
        """Whether a name can be made of the path; if not, that is told."""
        problem = ""
        hint = None
        try:
            fields = {
                name for _, name, _, _ in string.Formatter().parse(self.path) if name is not None
            }
            unknown = sorted(fields - _FIELDS)
            if unknown:
                problem = f"the path {self.path} holds {{{unknown[0]}}}"
                hint = f"known are {', '.join(f'{{{name}}}' for name in sorted(_FIELDS))}"
            else:
                self.path.format(step=self.step, name="", call=0, rank=0)
        except (ValueError, LookupError) as error:
            problem = f"no name can be made of the path {self.path}: {error}"
        if problem:
            tell(CaptureError(problem, hint), strict=self.strict)
        return not problem

    # Calls

    def begin(self, record: Record, function: Function, order: int | None = None) -> Writer | None:
        """Notes a call whose inputs are known, and writes them if they have to be on the disk.

        `order` is the process or device of a part. Returns `None` if limits forbid the call.
        Raises :class:`CaptureError` or :class:`OSError` if it cannot be captured."""
        number = self._calls.get(function.name, 0)
        self._calls[function.name] = number + 1
        if self.max_calls is not None and number >= self.max_calls:
            return None
        self.check_size(record, record.size)
        facts = provenance.facts(function.framework, record.device, self.step, self.seed)
        base, path = self.fixture_path(function, number)
        if function.axis is None:
            writer = Writer(record, base, path, facts)
        else:
            parts = self.parts.setdefault(function.name, Parts(function, base, path, facts))
            writer = parts.writer(record, order or 0)
        self.bytes += record.size
        self.writers.append(writer)
        if self.durable:
            writer.write_inputs()
        if self.early:
            writer.stage()
        return writer

    @property
    def looks(self) -> bool:
        """Whether it counts if a tensor holds a NaN or an infinity."""
        return self.when.waits and not self.early

    def check_size(self, record: Record, size: int) -> None:
        """Refuses `size` bytes more if the step would have too many."""
        if self.max_bytes is not None and self.bytes + size > self.max_bytes:
            raise CaptureError(
                f"a call of `{record.function.name}` has {size} bytes, and a step may have "
                f"{self.max_bytes}",
                "raise max_bytes, or set max_calls",
            )

    def fixture_path(self, function: Function, number: int) -> tuple[Path, Path]:
        """The folder that the run's harnesses lie in, and that of this call's fixture."""
        run = self._run
        if run.named is None:
            run.named = len(state.functions) > 1
        rank = provenance.rank()
        sharded = function.axis is not None
        path = self.path
        path += "-{name}" if run.named and "{name}" not in path else ""
        path += (
            "-rank{rank}"
            if rank and self.rank == "all" and "{rank}" not in path and not sharded
            else ""
        )
        path += "-call{call}" if number and "{call}" not in path and not sharded else ""
        values = {"step": self.step, "name": function.name, "call": number, "rank": rank}
        fixed = Path(self.path.partition("{")[0] + "x").parent
        return fixed, Path(path.format(**values))

    # The end

    def _end(self, failed: bool) -> None:
        for writer in self.writers:
            writer.record.closed = True
            writer.folder.metrics = self.metrics
        for parts in self.parts.values():
            parts.metrics = self.metrics
        for model in self.models.values():
            model.close()
        # An exception ends a step before anybody can tell what would have become of it.
        fired = self.early or failed
        if not fired:
            outcome = Outcome(self.metrics, self.looks and self._nonfinite(), failed)
            fired = self.when.late(self._run.history, outcome)
        if self.durable:
            self._end_durable(fired)
        elif fired:
            for older in self._run.ring:
                older._write_all()
            self._run.ring.clear()
            self._write_all()
        elif self.ring > 1:
            self._run.ring.append(self)
            while len(self._run.ring) >= self.ring:
                self._run.ring.popleft()

    def _nonfinite(self) -> bool:
        is_finite = all(writer.record.finite() for writer in self.writers)
        return not (is_finite and all(model.finite for model in self.models.values()))

    def _end_durable(self, fired: bool) -> None:
        if fired:
            self._run.kept += 1
        for writer in self.writers:
            job = writer.finish if fired else writer.discard
            background.submit(job, writer.record.size)
        for model in self.models.values():
            background.submit(model.finish if fired else model.discard, model.bytes)
        for parts in self.parts.values():
            self._close_parts(parts, fired)

    def _write_all(self) -> None:
        self._run.kept += 1
        for writer in self.writers:
            background.submit(writer.write_whole, writer.record.size)
        for model in self.models.values():
            background.submit(model.finish, model.bytes)
        for parts in self.parts.values():
            self._close_parts(parts, fired=True)

    def _close_parts(self, parts: Parts, fired: bool) -> None:
        whole = self.wholes.get(parts.function.name, {})
        job = (lambda: parts.assemble(whole)) if fired else parts.discard
        background.submit(job, 0)


def _switch(on: bool) -> None:
    for switch in list(state.switches):
        switch(on)


def flush() -> None:
    """Returns when everything captured so far is on the disk."""
    background.wait()


def register(name: str) -> None:
    """Notes the name of a captured function.

    Raises :class:`CaptureError` if another has it."""
    if name in state.functions:
        raise CaptureError(
            f"two captured functions are called `{name}`", "give each a name of its own: name=..."
        )
    state.functions.add(name)


def whole(name: str, **arrays: Any) -> None:
    """Gives the captured step the whole of tensors that the parts of function `name` must make up."""
    if state.step is not None:
        state.step.wholes.setdefault(name, {}).update(arrays)
