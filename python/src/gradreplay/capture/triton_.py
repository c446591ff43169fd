"""Captures the launches of Triton kernels, each as a fixture of its own."""

from __future__ import annotations

import importlib
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..signatures import signature as signature_of
from . import arguments, host, torch_
from .arguments import Arguments, Parameters
from .errors import CaptureError, tell
from .provenance import rank
from .record import Function, Record, ShapeNames
from .scripts import Lines, script
from .session import Step, register, state
from .target import find

_K = TypeVar("_K")


def triton(
    kernel: _K,
    *,
    name: str | None = None,
    shapes: ShapeNames | None = None,
    import_as: str | None = None,
    strict: bool = False,
) -> _K:
    """Captures every launch of a Triton kernel, plain, autotuned or with heuristics.

    The kernel itself is changed and returned. A launch's inputs are the tensors behind its pointers and
    its numbers; its outputs are the tensors that it changed, called `NAME_after`. The grid and the
    constants stand in the drafted script.

    Raises :class:`CaptureError` if the name is taken or this is no kernel, whatever `strict` says."""
    made: Any = kernel
    function = _function(made)
    if function is None or not callable(getattr(made, "run", None)):
        raise CaptureError(
            f"a {type(kernel).__qualname__} is not a Triton kernel",
            "give what @triton.jit returned",
        )
    chosen = arguments.identifier(name or function.__name__)
    register(chosen)
    described = Function(
        chosen, "torch", find(function, import_as), dict(shapes or {}), strict=strict
    )
    run = made.run

    def captured(*args: Any, **kwargs: Any) -> Any:
        if not state.on or kwargs.get("warmup"):
            return run(*args, **kwargs)
        return _launch(run, function, described, args, kwargs)

    made.run = captured
    return kernel


def _function(kernel: Any) -> Callable[..., Any] | None:
    """The Python function of a kernel, below autotuners and heuristics."""
    while kernel is not None and not inspect.isfunction(kernel):
        kernel = getattr(kernel, "fn", None)
    return kernel if inspect.isfunction(kernel) else None


def _launch(
    run: Callable[..., Any],
    signature: Callable[..., Any],
    function: Function,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> Any:
    step = state.step
    assert step is not None
    strict = function.strict or step.strict
    try:
        launch = Launch(step, function, signature, args, kwargs)
        launch.begin()
    except Exception as error:
        tell(error, strict=strict)
        return run(*args, **kwargs)
    result = run(*args, **kwargs)
    try:
        launch.returned()
    except Exception as error:
        tell(error, strict=strict)
    return result


class Launch:
    """One launch of a kernel."""

    def __init__(
        self,
        step: Step,
        function: Function,
        signature: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: Mapping[str, Any],
    ) -> None:
        self.step = step
        self.function = function
        rest = {name: value for name, value in kwargs.items() if name not in ("grid", "warmup")}
        constants = _constants(signature)
        self.given, told = _read(signature, args, rest, constants)
        self._grid = _grid(kwargs.get("grid"), signature, args, rest)
        self._told = told
        self.record: Record
        self.writer: Any = None

    def begin(self) -> None:
        """Captures what the kernel is given."""
        torch: Any = importlib.import_module("torch")
        arrays = self.given.arrays
        torch_.check(torch, arrays)
        inputs = host.inputs(arrays, self.given.numbers, share=self.step.durable)
        self.record = Record(
            function=self.function,
            names=self.given.names,
            text=self._told,
            inputs=inputs,
            differentiated=(),
            device=torch_.device(arrays),
            script=self._script,
            variant=repr(self._grid),
        )
        self.writer = self.step.begin(self.record, self.function, rank())
        if self.writer is not None:
            # What the launch has changed shows in comparison with them.
            self._before = self.writer.kept_inputs()
            if self.step.durable:
                self.record.forget_inputs(check=self.step.looks)

    def returned(self) -> None:
        """Captures what the kernel has changed."""
        if self.writer is None:
            return
        record, outputs = self.record, dict[str, host.Taken]()
        changed = {
            name: value
            for name, value in self.given.arrays.items()
            if self._is_written(name, value)
        }
        if not changed:
            raise CaptureError(f"a launch of `{self.function.name}` changed none of its tensors")
        size = sum(value.numel() * value.element_size() for value in changed.values())
        self.step.check_size(record, size)
        self.step.bytes += size
        for name, value in changed.items():
            after = record.names.give(f"{name}_after")
            record.keep(outputs, after, value)
            record.result_texts[after] = name
        record.outputs, record.returned = outputs, True

    def _is_written(self, name: str, value: Any) -> bool:
        return not self._before.same(name, host.take(name, value).tensor.data)

    def _script(self, record: Record) -> str:
        expression = record.function.target.expression
        views = {name: taken.view for name, taken in record.inputs.items() if taken.view}
        body = [f"{name} = {name}.view(torch.{view})" for name, view in views.items()]
        body.append(f"{expression}[{self._grid!r}]({record.text})")
        body.append("return {")
        for after, name in record.result_texts.items():
            viewed = ".view(torch.uint8)" if record.outputs and record.outputs[after].view else ""
            body.append(f'    "{after}": {name}{viewed},')
        return script(record, Lines(["import torch", "import triton"], [*body, "}"]))


def _constants(signature: Callable[..., Any]) -> set[str]:
    """The parameters that are `tl.constexpr`."""
    found = set()
    for name, parameter in signature_of(signature).parameters.items():
        if "constexpr" in str(parameter.annotation):
            found.add(name)
    return found


def _read(
    signature: Callable[..., Any],
    args: tuple[Any, ...],
    rest: Mapping[str, Any],
    constants: set[str],
) -> tuple[Arguments, str]:
    """The arguments that are tensors and numbers, and the text of all."""
    known = list(signature_of(signature).parameters)
    named = {**dict(zip(known, args, strict=False)), **rest}
    plain = {
        name: value for name, value in named.items() if name in known and name not in constants
    }
    given = arguments.read(Parameters(), (), plain)
    texts = [given.text] if given.text else []
    # Constants, and options of the launch such as num_warps.
    told = {name: value for name, value in named.items() if name not in plain}
    texts += [f"{name}={_text(name, value)}" for name, value in told.items()]
    return given, ", ".join(texts)


def _text(name: str, value: Any) -> str:
    """A constant as the script writes it."""
    language: Any = importlib.import_module("triton.language")
    if isinstance(value, language.constexpr):
        return _text(name, value.value)
    if isinstance(value, language.dtype):
        return next(
            f"triton.language.{one}" for one, known in vars(language).items() if known is value
        )
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({''.join(f'{_text(name, item)}, ' for item in value)})"
    raise CaptureError(
        f"constant `{name}` of the kernel is a {type(value).__qualname__}, which no script can write",
        "capture what calls the kernel",
    )


def _grid(
    grid: Any, signature: Callable[..., Any], args: tuple[Any, ...], rest: Mapping[str, Any]
) -> tuple[int, ...]:
    """The grid of a launch, as numbers."""
    if callable(grid):
        parameters = signature_of(signature).parameters
        defaults = {
            name: one.default for name, one in parameters.items() if one.default is not one.empty
        }
        try:
            grid = grid({**defaults, **dict(zip(parameters, args, strict=False)), **rest})
        except KeyError as error:
            raise CaptureError(
                f"the grid depends on {error}, which an autotuner chooses",
                "capture the kernel inside it",
            ) from error
    sizes = grid if isinstance(grid, Sequence) else (grid,)
    return tuple(int(size) for size in sizes)
