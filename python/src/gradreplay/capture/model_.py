"""`capture.model`: every module of a model in one step of a training, each at its boundary.

What a step leaves is a folder of fixtures, one for each call of a module, which share the file of their
tensors, and `step.toml`, which has the calls in the order of the computation.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar, cast

from .. import generators
from . import arguments, disk, draft, host, provenance, surroundings, torch_
from .arguments import Arguments, Parameters
from .draft import Input, Plan, text
from .errors import CaptureError, tell
from .fixture import MANIFEST, STEP, Entry, Manifest, way
from .functions import seal, undisturb
from .host import Taken
from .pool import FILE, Pool
from .record import Function
from .scripts import MAIN, decorator, function
from .session import Step, register, state
from .target import find

_M = TypeVar("_M")

# The scalar input that chooses the function of a step's script.
NUMBER = "part_number"


@dataclass(frozen=True)
class _Model:
    """A model whose modules are captured."""

    name: str
    module: Any
    # What builds one like it, as `module:name`.
    import_as: str | None
    # The captured modules by their paths; that of the model is empty.
    modules: Mapping[str, Any]
    # Those of the chosen ones that cannot be captured, with the reason.
    left_out: Mapping[str, str]
    strict: bool


def model(
    model: _M,
    *,
    name: str = "model",
    depth: int | None = None,
    match: str | Sequence[str] | None = None,
    leaves: bool = False,
    import_as: str | None = None,
    strict: bool = False,
) -> _M:
    """Captures the modules of `model`, a `torch.nn.Module`, in the steps of `capture.step`; returns it.

    Without options these are the model and all modules in it. `max_bytes` of the step limits their bytes.

    - `name`: that of the step's folder and harness.
    - `depth`: modules at most so deep; the model itself is at 0.
    - `match`: modules with a path that a pattern fits, such as `"layers.*.attn"`.
    - `leaves`: modules without others in them.
    - `import_as`: `module:name` of a function without parameters that builds such a model.
    - `strict`: whether errors of capturing are raised instead of logged.

    Raises :class:`CaptureError` if this is no module, no module is chosen, or the name is taken."""
    torch: Any = sys.modules.get("torch")
    whole: Any = getattr(model, "_orig_mod", model)
    if torch is None or not isinstance(whole, torch.nn.Module):
        kind = type(model).__qualname__
        raise CaptureError(
            f"capture.model takes a torch.nn.Module, not a {kind}",
            "functions of JAX are captured by capture.jax_function",
        )
    patterns = [match] if isinstance(match, str) else match
    chosen = {
        path: module
        for path, module in whole.named_modules()
        # A list of modules is never called.
        if getattr(type(module), "forward", None) is not torch.nn.Module.forward
        and (depth is None or _depth(path) <= depth)
        and (patterns is None or any(fnmatch.fnmatchcase(path, one) for one in patterns))
        and (not leaves or next(module.children(), None) is None)
    }
    if not chosen:
        raise CaptureError(
            f"no module of {type(whole).__qualname__} is chosen",
            f"its modules are {_some([path for path, _ in whole.named_modules() if path])}",
        )
    register(name)
    script = torch.jit.ScriptModule
    left_out = {
        path: "it is compiled by TorchScript, which runs it as a whole"
        for path, module in chosen.items()
        if isinstance(module, script)
    }
    captured = {path: module for path, module in chosen.items() if path not in left_out}
    described = _Model(name, whole, import_as, captured, left_out, strict)
    for path, module in captured.items():
        _wrap(described, path, module)
    return model


def _depth(path: str) -> int:
    return path.count(".") + 1 if path else 0


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _wrap(model: _Model, path: str, module: Any) -> None:
    forward = module.forward
    parameters = arguments.Parameters(None, forward)
    run = functools.partial(_captured, model, path, module, forward, parameters)
    captured = undisturb(run)
    is_sealed = seal(path or model.name)

    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not state.on or is_sealed():
            return forward(*args, **kwargs)
        return captured(args, kwargs)

    functools.update_wrapper(wrapper, forward)
    module.forward = wrapper


def _captured(
    model: _Model,
    path: str,
    module: Any,
    forward: Callable[..., Any],
    parameters: Parameters,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    """Calls a module, and captures the call."""
    step = state.step
    torch: Any = sys.modules["torch"]
    # In a backward pass a checkpoint repeats what was captured.
    if step is None or torch._C._current_graph_task_id() != -1:
        return forward(*args, **kwargs)
    whole = _step_of(model, step)
    strict = model.strict or step.strict
    if not whole.may_begin(path):
        return forward(*args, **kwargs)
    try:
        given = arguments.read(parameters, args, kwargs)
        call = _PartCall(whole, path, module, given)
        built = torch_.Module(module, *whole.built(path, module))
        arrays = call.begin(built)
    except Exception as error:
        whole.leave_out(path, error, strict=strict)
        return forward(*args, **kwargs)
    whole.enter(call)
    try:
        result = built.call(forward, arrays, given)
    finally:
        whole.leave(call)
    try:
        call.returned(result)
    except Exception as error:
        whole.leave_out(path, error, strict=strict)
    return result


def _step_of(model: _Model, step: Step) -> ModelStep:
    """What is captured of a model in a step."""
    known = step.models.get(model.name)
    if known is None:
        known = step.models[model.name] = ModelStep(model, step)
    return cast("ModelStep", known)


class _PartCall(torch_.Call):
    """One call of a module, whose tensors go into the pool of its step."""

    def __init__(self, whole: ModelStep, path: str, module: Any, given: Arguments) -> None:
        super().__init__(whole.step, whole.function_of(path, module), given, ())
        self.whole = whole
        self.path = path
        self.kind = f"{type(module).__module__}.{type(module).__qualname__}"
        self.number = whole.number_of(path)
        self.around: _PartCall | None = None
        # By the harness's names, those in the pool.
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        # Parameters of captured modules in this one: those are asked for their gradients.
        self._inner = whole.parameters_within(path)
        self._before: generators.Snapshot
        # Whether its outputs could have had a gradient, and none came.
        self.misses_gradient = False

    @property
    def shares_memory(self) -> bool:
        return True

    @property
    def is_captured(self) -> bool:
        return True

    def _is_wanted(self, torch: Any, value: Any) -> bool:
        return super()._is_wanted(torch, value) and id(value) not in self._inner

    def _start(self, arrays: Mapping[str, Any]) -> bool:
        pairs = [(arrays.get(name), taken) for name, taken in self.record.inputs.items()]
        self.whole.check_room(pairs)
        for name, taken in self.record.inputs.items():
            self.inputs[name] = self.whole.add(arrays.get(name), taken)
        self.record.inputs = {
            name: host.without_elements(taken) for name, taken in self.record.inputs.items()
        }
        self._before = generators.Snapshot.take(torch_.number_of_gpu(arrays))
        return True

    def returned(self, value: Any) -> None:
        after = generators.Snapshot.take(torch_.number_of_gpu(self.given.arrays))
        # Only a module that draws random numbers needs the states before.
        self.record.random = self._before.texts() if after != self._before else {}
        super().returned(value)

    def close(self) -> None:
        """Lets nothing more in. A call that no gradient reached is one without gradients.

        Else an input without a gradient has one of zeros: whether that is right its forward tells."""
        self.record.closed = self.record.zeros = True
        self.misses_gradient = bool(self.record.differentiable) and not self.record.upstream
        if self.misses_gradient:
            self.record.differentiable = ()
            self.record.gradient_names = {}

    def _check_size(self, arrays: Mapping[str, Any]) -> None:
        self.whole.check_room([(array, host.take(name, array)) for name, array in arrays.items()])

    def _keep(self, group: dict[str, Taken], name: str, value: Any) -> None:
        taken = host.take(name, value)
        stored = self.whole.add(value.detach(), taken)
        known = self.record.gradient_names.get(name, name)
        self.outputs[known if group is self.record.gradients else name] = stored
        group[name] = host.without_elements(taken)

    def _keep_upstream(self, name: str, gradient: Any) -> None:
        taken = host.take(name, gradient)
        self.inputs[self.record.upstream_names[name]] = self.whole.add(gradient, taken)
        self.record.upstream[name] = host.without_elements(taken)


@dataclass
class _Part:
    """A call that became a fixture."""

    call: _PartCall
    folder: str
    plan: Plan


@dataclass
class ModelStep:
    """One step of a model: its calls, in the order in which they began."""

    model: _Model
    step: Step
    calls: list[_PartCall] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    _counts: dict[str, int] = field(default_factory=dict)
    _around: list[_PartCall] = field(default_factory=list)
    _pending: disk.Pending | None = None
    _functions: dict[str, Function] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.left_out |= self.model.left_out
        self.function = self._describe("", self.model.module, self.model.name)
        self.base, self.path = self.step.fixture_path(self.function, 0)
        device = next((str(one.device) for one in self.model.module.parameters()), "cpu")
        self.facts = provenance.facts("torch", device, self.step.step, self.step.seed)
        parameters = sum(1 for _ in self.model.module.parameters())
        count = 16 * len(self.model.modules) + 2 * parameters
        # A step that is wanted whatever becomes of it is written as it comes.
        self._pool = Pool(self._folder if self.step.early else None, count)

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

    def enter(self, call: _PartCall) -> None:
        """Notes that a call has begun, within those that have not ended."""
        call.around = self._around[-1] if self._around else None
        self._around.append(call)
        self.calls.append(call)

    def leave(self, call: _PartCall) -> None:
        """Notes that a call has ended."""
        self._around.remove(call)

    def leave_out(self, path: str, error: Exception, *, strict: bool) -> None:
        """Notes why a module is not captured; raises the error if `strict`."""
        self.left_out.setdefault(path, _first_line(error))
        self.calls = [call for call in self.calls if call.path != path or call.record.returned]
        if strict:
            raise error

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

    def parameters_within(self, path: str) -> frozenset[int]:
        """The parameters of captured modules below a path."""
        prefix = f"{path}." if path else ""
        inner = [
            module
            for other, module in self.model.modules.items()
            if other != path and other.startswith(prefix)
        ]
        return frozenset(id(one) for module in inner for one in module.parameters())

    # How a replay builds a module

    def function_of(self, path: str, module: Any) -> Function:
        """A module as records know it."""
        known = self._functions.get(path)
        if known is None:
            known = self._functions[path] = self._describe(path, module, path or self.model.name)
        return known

    def _describe(self, path: str, module: Any, name: str) -> Function:
        if self.model.import_as is not None:
            target = find(self.model.module, self.model.import_as)
        else:
            target = find(type(module), None)
            problem = torch_.built(module, None)[1]
            if problem is not None:
                target = replace(target, problem=problem)
        return Function(name=name, framework="torch", target=target, shapes={})

    def built(self, path: str, module: Any) -> tuple[str, str | None]:
        """The expression that builds a module, and what is not known of it."""
        if self.model.import_as is None:
            return torch_.built(module, None)
        whole = f"{self.model.import_as.partition(':')[2]}()"
        return (f'{whole}.get_submodule("{path}")' if path else whole), None

    # The end

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
        calls = [call for call in self.calls if call.record.returned]
        for path in self.model.modules:
            if path not in self.left_out and not any(call.path == path for call in calls):
                self.left_out[path] = "it was not called in the step"
        if not calls:
            self.discard()
            reasons = [f"{self._name(path)}: {why}" for path, why in self.left_out.items()]
            raise CaptureError(f"nothing of `{self.model.name}` is captured: {_some(reasons, 2)}")
        try:
            self._pool.finish(self._folder)
            parts = self._parts(calls)
            harness = _place_harness(self.base, self.model.name, parts)
            files = {
                f"{part.folder}/{name}": content
                for number, part in enumerate(parts)
                for name, content in self._fixture(part, number, harness).items()
            }
            self._write_random(parts)
            assert self._pending is not None
            self._pending.finish({**files, STEP: self._order(parts)})
        except disk.TakenError as error:
            self.discard()
            raise self._taken() from error
        except BaseException:
            self.discard()
            raise
        if self.left_out:
            names = [self._name(path) for path in self.left_out]
            problem = f"{len(names)} modules of `{self.model.name}`: {_some(names)}"
            tell(CaptureError(problem, f"{self.path / STEP} has the reasons"), strict=False)

    def _name(self, path: str) -> str:
        return path or self.model.name

    def _parts(self, calls: Sequence[_PartCall]) -> list[_Part]:
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

    def _write_random(self, parts: Sequence[_Part]) -> None:
        assert self._pending is not None
        for part in parts:
            if part.call.record.random:
                place = self._pending.path / part.folder
                place.mkdir(exist_ok=True)
                pieces = _tensor_file(part.call.record.random)
                (place / _RANDOM).write_bytes(pieces)

    def _fixture(self, part: _Part, number: int, harness: Path) -> dict[str, str]:
        call = part.call
        shared = f"../{FILE}"
        entries = [Entry(shared, names=call.inputs)]
        if call.record.random:
            entries.append(Entry(_RANDOM))
        manifest = Manifest(
            way(self.path / part.folder, harness / f"{part.folder}.toml"),
            f"a call of {self._name(call.path)} in step {self.step.step}",
            self.facts,
            self.step.metrics,
            entries,
            {NUMBER: number},
            Entry(shared, names=call.outputs) if call.outputs else None,
        )
        return {MANIFEST: manifest.text()}

    def _order(self, parts: Sequence[_Part]) -> str:
        """The text of `step.toml`."""
        numbers = {id(part.call): number for number, part in enumerate(parts)}
        lines = ["# A step of a model: calls of its modules, in the order in which they began."]
        lines += [f"model = {text(self.model.name)}", f"step = {self.step.step}"]
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


def _place_harness(base: Path, name: str, parts: Sequence[_Part]) -> Path:
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
                _write_harness(home, head, name, parts)
                return home
            if script.read_text("utf-8", "replace").startswith(head):
                return home
            number += 1


def _write_harness(home: Path, head: str, name: str, parts: Sequence[_Part]) -> None:
    home.mkdir(parents=True, exist_ok=True)
    files = {f"{part.folder}.toml": [draft.toml(part.plan, home).encode()] for part in parts}
    script = _script(head, name, parts).encode()
    disk.put(home, {**files, draft.SCRIPT: [script]}, above=[home.parent])


def _script(head: str, name: str, parts: Sequence[_Part]) -> str:
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
    lines += ["", "", decorator([part.call.record for part in parts])]
    lines += [f"def step({NUMBER}, **tensors):", f'    part = globals()[f"part_{{int({NUMBER})}}"]']
    lines += ["    return part(**tensors)", *MAIN]
    return "\n".join(lines)
