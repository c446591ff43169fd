"""What is captured of a whole model in one step: calls in their order, and the folder that they become."""

from __future__ import annotations

import importlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from . import disk, draft, provenance, surroundings
from .draft import Input, Plan, text
from .errors import CaptureError, tell
from .fixture import MANIFEST, STEP, Entry, Manifest, way
from .host import Taken
from .pool import FILE, Pool
from .record import Function, Record
from .scripts import MAIN, Lines, decorator, function, indented
from .session import Step

# The scalar input that chooses the function of a step's script; `replay shrink` knows it by this name.
NUMBER = "part_number"

# By their names, what stands in them.
_Files = dict[str, bytes]


class PartCall(Protocol):
    """One call of a part of the model, whose tensors lie in the pool of its step."""

    path: str
    # What the part is: a class, or the name of a function.
    kind: str
    function: Function
    record: Record
    # Its number among the calls of its part.
    number: int
    # By the harness's names, those in the pool.
    inputs: dict[str, str]
    outputs: dict[str, str]
    # Whether its outputs could have had a gradient, and none came.
    misses_gradient: bool

    @property
    def around(self) -> PartCall | None:
        """The call in which it began."""

    def lines(self) -> Lines:
        """What a script says of it."""

    def close(self) -> None:
        """Lets nothing more in."""


def list_some(names: Sequence[str], most: int = 8) -> str:
    """The first of some names, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def close_record(record: Record) -> bool:
    """Lets nothing more in; returns whether the outputs could have had a gradient, and none came.

    A call that no gradient reached is one without gradients. Else an input without a gradient has one of
    zeros: whether that is right its forward tells."""
    record.closed = record.zeros = True
    misses_gradient = bool(record.differentiable) and not record.upstream
    if misses_gradient:
        record.differentiable = ()
        record.gradient_names = {}
    return misses_gradient


@dataclass
class _Part:
    """A call that became a fixture."""

    call: PartCall
    folder: str
    plan: Plan


class ModelStep:
    """One step of a model: its calls, in the order in which they began."""

    def __init__(
        self, step: Step, function: Function, paths: Collection[str], device: str, tensors: int
    ) -> None:
        """`function` is the whole; `paths` name the parts to capture, with about so many tensors."""
        self.step = step
        self.function = function
        self.name = function.name
        self.paths = paths
        self.calls: list[PartCall] = []
        self.left_out: dict[str, str] = {}
        self._counts: dict[str, int] = {}
        self._pending: disk.Pending | None = None
        self.base, self.path = step.fixture_path(function, 0)
        self.facts = provenance.facts(function.framework, device, step.step, step.seed)
        # A step that is wanted whatever becomes of it is written as it comes.
        self._pool = Pool(self._folder if step.early else None, tensors)

    @property
    def bytes(self) -> int:
        """The bytes of all tensors, each counted once."""
        return self._pool.bytes

    @property
    def finite(self) -> bool:
        """Whether no tensor holds a NaN or an infinity, as far as that was looked at."""
        return self._pool.finite

    def _folder(self) -> Path:
        """The folder that is written; refused where a fixture or a step is."""
        if self._pending is None:
            if (self.path / STEP).exists() or (self.path / MANIFEST).exists():
                raise self._taken()
            self._pending = disk.Pending(self.path)
        return self._pending.path

    def _taken(self) -> CaptureError:
        return CaptureError(
            f"{self.path} holds something already, which stays as it is",
            "delete it, or name the steps of this run differently",
        )

    # Calls

    def may_begin(self, path: str) -> bool:
        """Whether one more call of a module is wanted."""
        most = self.step.max_calls
        return most is None or self._counts.get(path, 0) < most

    def number_of(self, path: str) -> int:
        """The number of a call among those of its module."""
        number = self._counts.get(path, 0)
        self._counts[path] = number + 1
        return number

    def leave_out(self, path: str, error: Exception, *, strict: bool) -> None:
        """Notes why a module is not captured; raises the error if `strict`."""
        self.left_out.setdefault(path, _first_line(error))
        self.calls = [call for call in self.calls if call.path != path or call.record.returned]
        if strict:
            raise error

    def leave_out_gradients(self, path: str, error: Exception) -> None:
        """Notes why a call of a module is captured without its gradients."""
        self.left_out.setdefault(path, f"its gradients are left out: {_first_line(error)}")

    def add(self, value: Any, taken: Taken) -> str:
        """The name of a tensor in the pool."""
        return self._pool.add(value, taken, looks=self.step.looks)

    def check_room(self, wanted: Sequence[tuple[Any, Taken]]) -> None:
        """Refuses tensors that have more bytes than the step's limit leaves."""
        if self.step.max_bytes is None:
            return
        size = sum(
            taken.tensor.data.nbytes
            for value, taken in wanted
            if value is None or self._pool.find(value, taken) is None
        )
        left = self.step.max_bytes - self.step.bytes - self._pool.bytes
        if size > left:
            raise CaptureError(
                f"its tensors have {size} bytes, and {max(left, 0)} of {self.step.max_bytes} are left",
                "raise max_bytes of the step, or choose fewer modules",
            )

    # The end

    def ordered_calls(self) -> list[PartCall]:
        """The calls that have returned, in the order in which they began."""
        return [call for call in self.calls if call.record.returned]

    def preamble(self) -> Lines:
        """What the script does before the first call."""
        return Lines([], [])

    def close(self) -> None:
        """Lets nothing more in, once the step has ended."""
        for call in self.calls:
            call.close()

    def discard(self) -> None:
        """Deletes what was written."""
        if self._pending is not None:
            self._pending.discard()

    def finish(self) -> None:
        """Writes the step; what was left out is told.

        Raises :class:`CaptureError` or :class:`OSError` if it cannot be written."""
        calls = self.ordered_calls()
        for path in self.paths:
            if path not in self.left_out and not any(call.path == path for call in calls):
                self.left_out[path] = "it was not called in the step"
        if not calls:
            self.discard()
            reasons = [f"{self._name(path)}: {why}" for path, why in self.left_out.items()]
            why = list_some(reasons, 2) or "no chosen module was called"
            raise CaptureError(f"nothing of `{self.name}` is captured: {why}")
        try:
            used = {
                name for call in calls for name in (*call.inputs.values(), *call.outputs.values())
            }
            self._pool.finish(self._folder, used)
            parts = self._parts(calls)
            harness = _place_harness(self.base, self.name, parts, self.preamble())
            files = {
                f"{part.folder}/{name}": content
                for number, part in enumerate(parts)
                for name, content in self._fixture(part, number, harness).items()
            }
            assert self._pending is not None
            self._pending.finish({**files, STEP: self._order(parts).encode()})
        except disk.TakenError as error:
            self.discard()
            raise self._taken() from error
        except BaseException:
            self.discard()
            raise
        if self.left_out:
            names = [self._name(path) for path in self.left_out]
            problem = f"{len(names)} modules of `{self.name}`: {list_some(names)}"
            tell(CaptureError(problem, f"{self.path / STEP} has the reasons"), strict=False)

    def _name(self, path: str) -> str:
        return path or self.name

    def _parts(self, calls: Sequence[PartCall]) -> list[_Part]:
        taken: set[str] = set()
        parts = []
        needed: dict[str, None] = {}
        for call in calls:
            wanted = re.sub(r"[^\w.-]", "_", self._name(call.path)).strip(".") or "module"
            wanted += f"-call{call.number}" if call.number else ""
            folder, number = wanted, 2
            while folder in taken:
                folder, number = f"{wanted}-{number}", number + 1
            taken.add(folder)
            parts.append(_Part(call, folder, call.record.plan()))
            target = call.function.target
            statements = (target.statement, *call.record.imports.statements)
            needed |= dict.fromkeys(statement.split()[1] for statement in statements)
        root = self.function.target.repository
        tree = surroundings.loaded_tree(root, tuple(needed)) if root is not None else ()
        choosing = Input(NUMBER, "i64", ())
        for part in parts:
            # One program replays all of them, so what it is told is the same for all.
            inputs = (choosing, *part.plan.inputs)
            part.plan = replace(part.plan, inputs=inputs, tree=lambda: tree, repository=root)
        return parts

    def _fixture(self, part: _Part, number: int, harness: Path) -> _Files:
        call = part.call
        shared = f"../{FILE}"
        entries = [Entry(shared, names=call.inputs)]
        files: _Files = {}
        if call.record.random:
            entries.append(Entry(_RANDOM))
            files[_RANDOM] = _tensor_file(call.record.random)
        manifest = Manifest(
            way(self.path / part.folder, harness / f"{part.folder}.toml"),
            f"a call of {self._name(call.path)} in step {self.step.step}",
            self.facts,
            self.step.metrics,
            entries,
            {NUMBER: number},
            Entry(shared, names=call.outputs) if call.outputs else None,
        )
        return {**files, MANIFEST: manifest.text().encode()}

    def _order(self, parts: Sequence[_Part]) -> str:
        """The text of `step.toml`."""
        numbers = {id(part.call): number for number, part in enumerate(parts)}
        lines = ["# A step of a model: calls of its modules, in the order in which they began."]
        lines += [f"model = {text(self.name)}", f"step = {self.step.step}"]
        for part in parts:
            call = part.call
            lines += ["", "[[parts]]", f"folder = {text(part.folder)}"]
            lines += [f"module = {text(call.path)}", f"kind = {text(call.kind)}"]
            around = call.around
            while around is not None and id(around) not in numbers:
                around = around.around
            if around is not None:
                lines.append(f"inside = {numbers[id(around)]}")
            names = call.record.gradient_names.values()
            lines.append(f"gradients = [{', '.join(map(text, names))}]")
            lines.append(f"reached = {str(not call.misses_gradient).lower()}")
        for path, reason in self.left_out.items():
            lines += ["", "[[left_out]]", f"module = {text(path)}", f"reason = {text(reason)}"]
        return "\n".join(lines) + "\n"


_RANDOM = "random.safetensors"


def _tensor_file(metadata: Mapping[str, str]) -> bytes:
    """A file of no tensor with these metadata."""
    tensors: Any = importlib.import_module("gradreplay.tensors")
    return b"".join(bytes(piece) for piece in tensors.pieces({}, metadata))


def _first_line(error: Exception) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__


# The harness


def _place_harness(base: Path, name: str, parts: Sequence[_Part], preamble: Lines) -> Path:
    """The folder of the harness that these calls fit, found or written."""
    digest = draft.digest(tuple((part.folder, part.plan.head()) for part in parts))
    head = f"# Drafted for the step {digest}. It is yours now."
    base.mkdir(parents=True, exist_ok=True)
    # Another process may draft one in this moment.
    with disk.locked(base):
        number = 1
        while True:
            home = base / (f"harness-{name}" if number == 1 else f"harness-{name}-{number}")
            script = home / draft.SCRIPT
            if not script.exists():
                _write_harness(home, parts, _script(head, name, parts, preamble))
                return home
            if script.read_text("utf-8", "replace").startswith(head):
                return home
            number += 1


def _write_harness(home: Path, parts: Sequence[_Part], script: str) -> None:
    home.mkdir(parents=True, exist_ok=True)
    files = {f"{part.folder}.toml": [draft.toml(part.plan, home).encode()] for part in parts}
    disk.put(home, {**files, draft.SCRIPT: [script.encode()]}, above=[home.parent])


def _script(head: str, name: str, parts: Sequence[_Part], preamble: Lines) -> str:
    """The script that replays each call of a step."""
    lines = [
        head,
        f'"""Calls the modules of `{name}` as the training called them. Drafted: edit it as you like."""',
        "",
        "import gradreplay as replay",
    ]
    for number, part in enumerate(parts):
        record = part.call.record
        lines += ["", "", f"# {part.folder}"]
        lines += function(record, part.call.lines(), f"part_{number}")
    told = "".join(f"{parameter}, " for parameter in preamble.parameters)
    lines += ["", "", decorator([part.call.record for part in parts])]
    lines += [f"def step({NUMBER}, {told}**tensors):"]
    lines += map(indented, [*preamble.imports, *preamble.body])
    lines += [f'    part = globals()[f"part_{{int({NUMBER})}}"]']
    lines += ["    return part(**tensors)", *MAIN]
    return "\n".join(lines)
