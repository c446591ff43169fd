"""Captures functions, modules and autograd functions of PyTorch.

Inputs whose gradients are wanted go into the function through an alias: a view with the same memory,
strides and offset, whose gradient is what this call alone contributes. Where the alias is changed in place
the gradient takes another way, which `inplace` follows.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .. import generators
from ..signatures import signature
from . import arguments, host, inplace
from .arguments import Arguments, Names
from .errors import CaptureError, tell
from .host import Taken
from .imports import Imported
from .provenance import rank
from .record import Function, Record
from .scripts import RESTORE, Lines, indented, results, script
from .session import Step
from .writer import Writer


class Call:
    """One call, from its arguments to its gradients."""

    def __init__(
        self, step: Step, function: Function, given: Arguments, writes: Sequence[str]
    ) -> None:
        self.step = step
        self.function = function
        self.given = given
        self._writes = writes
        self._versions = {name: _version(value) for name, value in given.arrays.items()}
        self._aliases: dict[str, inplace.Alias] = {}
        # Outputs that pass no gradient to their hooks once they are changed in place, with their versions.
        self._fragile: dict[str, tuple[Any, int]] = {}
        self.record: Record
        # What a script says of the call.
        self.lines: Callable[[], Lines]
        self.writer: Writer | None = None

    def begin(self, module: Module | None = None) -> dict[str, Any]:
        """Captures the inputs; returns the arrays to call the function with."""
        torch: Any = importlib.import_module("torch")
        parameters = module.parameters(self.given.names) if module else {}
        options = module.build.arrays if module else {}
        arrays = {**self.given.arrays, **options, **parameters}
        check(torch, arrays)
        kind = device(arrays).partition(":")[0]
        cast = autocast(torch, kind)
        self.lines = lambda: script_lines(self.record, module, cast)
        self.record = Record(
            function=self.function,
            names=self.given.names,
            text=self.given.text,
            imports=self.given.imports.joined(module.build.imports if module else Imported()),
            inputs=host.inputs(arrays, self.given.numbers, share=self.shares_memory),
            differentiated=tuple(
                name for name, value in arrays.items() if self._is_wanted(torch, value)
            ),
            device=device(arrays),
            script=lambda record: script(record, self.lines()),
            variant=(module.variant() if module else "") + cast,
        )
        if not self._start(arrays):
            return arrays
        return {name: self._alias(torch, name, value) for name, value in arrays.items()}

    @property
    def shares_memory(self) -> bool:
        """Whether inputs need no copy, since they are written before the function runs."""
        return self.step.durable

    @property
    def is_captured(self) -> bool:
        """Whether the call is captured: limits may forbid it."""
        return self.writer is not None

    def _is_wanted(self, torch: Any, value: Any) -> bool:
        """Whether the gradient with respect to an input is asked for."""
        is_tensor = isinstance(value, torch.Tensor)
        return is_tensor and value.requires_grad and torch.is_grad_enabled()

    def _start(self, arrays: Mapping[str, Any]) -> bool:
        """Writes the inputs if they have to be on the disk; tells whether the call is captured."""
        self.record.random = generators.states(number_of_gpu(arrays))
        self.writer = self.step.begin(self.record, self.function, rank())
        if self.writer is not None and self.step.durable:
            self.record.forget_inputs(check=self.step.looks)
        return self.is_captured

    def returned(self, value: Any) -> None:
        """Captures the outputs, and waits for gradients."""
        record, arrays = self.record, self.given.arrays
        if not self.is_captured:
            return
        changed = [name for name in arrays if self._is_written(name, arrays[name])]
        found = arguments.Results({}, {})
        if not changed or arguments.holds_array(value):
            found = arguments.read_results(value, self.function.outputs, record.names)
        flowing = [name for name, array in found.arrays.items() if array.requires_grad]
        for name in changed:
            after = record.names.give(f"{name}_after")
            found.arrays[after], found.texts[after] = arrays[name], name
        self._check_size(found.arrays)
        record.differentiable = tuple(flowing) if record.differentiated else ()
        record.result_texts = found.texts
        record.changed = tuple(name for name in changed if name in self._aliases)
        record.name_gradients()
        outputs: dict[str, Taken] = {}
        for name, array in found.arrays.items():
            self._keep(outputs, name, array)
        record.outputs, record.returned = outputs, True
        for alias in self._aliases.values():
            alias.returned()
        for name in record.differentiable:
            array, note = found.arrays[name], functools.partial(self._flows, name)
            if inplace.watch(array, self._aliases.values(), note):
                self._fragile[name] = array, _version(array)

    def lost(self) -> str | None:
        """The name of an output whose gradient is not known, since it was changed in place after the call."""
        changed = (name for name, (one, count) in self._fragile.items() if _version(one) != count)
        return next(changed, None)

    def _check_size(self, arrays: Mapping[str, Any]) -> None:
        """Refuses outputs that are too large for the step."""
        size = sum(array.numel() * array.element_size() for array in arrays.values())
        self.step.check_size(self.record, size)
        self.step.bytes += size

    def _keep(self, group: dict[str, Taken], name: str, value: Any) -> None:
        """Notes an output or a gradient."""
        self.record.keep(group, name, value)

    def _keep_upstream(self, name: str, gradient: Any) -> None:
        """Notes an upstream gradient, which has to be on the disk before anything is made of it."""
        take = host.take if self.step.durable else host.copied
        self.record.upstream[name] = take(name, gradient)
        if self.writer is not None and self.step.durable:
            self.writer.write_upstream()
            self.record.forget_upstream(name, check=self.step.looks)

    def _alias(self, torch: Any, name: str, value: Any) -> Any:
        if name not in self.record.differentiated:
            return value
        made = inplace.Alias(torch, value, functools.partial(self._arrives, name))
        self._aliases[name] = made
        return made.tensor

    def _is_written(self, name: str, value: Any) -> bool:
        return name in self._writes or _version(value) != self._versions[name]

    def _flows(self, name: str, gradient: Any) -> None:
        """Notes the upstream gradient of an output, before anything is computed from it."""
        if self.record.closed or name in self.record.upstream:
            return
        try:
            self._keep_upstream(name, gradient)
        except Exception as error:
            self._delay(error)

    def _arrives(self, name: str, gradient: Any) -> None:
        """Notes the gradient with respect to an input."""
        if self.record.closed or name in self.record.gradients:
            return
        try:
            self._keep(self.record.gradients, name, gradient)
        except Exception as error:
            self._delay(error)

    def _delay(self, error: Exception) -> None:
        # An exception in a hook would end the backward pass.
        self.step.delayed.append(error)
        tell(error, strict=False)


@dataclass(frozen=True)
class Build:
    """How a script builds a module."""

    expression: str
    # What a user has to mend in it.
    problem: str | None = None
    imports: Imported = Imported()
    # The tensors in it, by the names of inputs.
    arrays: Mapping[str, Any] = field(default_factory=dict)


class Module:
    """A module whose parameters are inputs, and how a script builds it."""

    def __init__(self, module: Any, build: Build) -> None:
        self.module = module
        self.build = build
        # By their names in the module.
        self.names: dict[str, str] = {}

    def parameters(self, names: Names) -> dict[str, Any]:
        """Parameters and buffers, by names that no argument has."""
        found = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
        self.names = {name: names.give(name) for name in found}
        return {self.names[name]: value for name, value in found.items()}

    def variant(self) -> str:
        """What of the module a script depends on."""
        return repr((self.build.expression, self.names, self.module.training))

    def call(self, forward: Callable[..., Any], arrays: Mapping[str, Any], given: Arguments) -> Any:
        """Runs the module with `arrays` in the place of its parameters."""
        stateless: Any = importlib.import_module("torch.nn.utils.stateless")
        kept = dict(self.module.named_parameters())
        own = {name: arrays[self.names[name]] for name in kept}
        args, kwargs = given.rebuild(arrays)
        with stateless._reparametrize_module(self.module, own):
            return forward(*args, **kwargs)


def built(module: Any, import_as: str | None, names: Names) -> Build:
    """How a script builds a module like this one; its inputs have `names`."""
    if import_as is not None:
        return Build(f"{import_as.partition(':')[2]}()")
    kind = type(module)
    options = arguments.Options(names)
    texts: list[str] = []
    unknown: list[str] = []
    for name, parameter in list(signature(kind.__init__).parameters.items())[1:]:
        if parameter.kind is parameter.VAR_POSITIONAL and next(module.children(), None) is not None:
            return Build(f"{kind.__qualname__}()", f"`{name}` of {kind.__qualname__} is not known")
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or name in (
            "device",
            "dtype",
        ):
            continue
        value = _option(module, name, parameter.default)
        text = None if value is parameter.empty else options.write(value, name)
        if text is not None:
            texts.append(f"{name}={text}")
        elif value is not parameter.default or parameter.default is parameter.empty:
            unknown.append(f"`{name}`")
    problem = f"{' and '.join(unknown)} of {kind.__qualname__} is not known" if unknown else None
    expression = f"{kind.__qualname__}({', '.join(texts)})"
    return Build(expression, problem, options.imports(), options.arrays)


def _option(module: Any, name: str, default: Any) -> Any:
    """What a module was told for a parameter of its class: its attribute of this name, or the default."""
    value = getattr(module, name, default)
    if name == "bias" and not isinstance(value, bool):
        return value is not None
    is_own_method = getattr(value, "__self__", None) is module
    is_state = value is not None and (name in module._parameters or name in module._buffers)
    return default if is_own_method or is_state else value


def check(torch: Any, arrays: Mapping[str, Any]) -> None:
    """Refuses what has no elements to write: tensors of tracers and transformations; several devices."""
    tensors = {name: value for name, value in arrays.items() if isinstance(value, torch.Tensor)}
    functorch = getattr(torch._C, "_functorch", None)
    for name, value in tensors.items():
        if functorch is not None and functorch.is_functorch_wrapped_tensor(value):
            raise CaptureError(
                f"`{name}` is a tensor inside a transformation of torch.func, and has no elements of its own",
                "capture the function that calls torch.func, not one that it transforms",
            )
        if type(value).__name__ in ("FakeTensor", "FunctionalTensor"):
            raise CaptureError(
                f"`{name}` is a {type(value).__name__}: the function is traced, not run"
            )
    if torch.jit.is_tracing():
        raise CaptureError(
            "the function is traced by torch.jit, not run", "capture it where it runs"
        )
    places = {str(value.device): name for name, value in tensors.items() if value.dim()}
    if len(places) > 1:
        told = ", ".join(f"`{name}` on {place}" for place, name in places.items())
        raise CaptureError(f"the tensors lie on several devices: {told}", "a replay has one device")


def device(arrays: Mapping[str, Any]) -> str:
    """The device of the first tensor with dimensions, or of the first tensor."""
    places = [(not value.shape, str(getattr(value, "device", "cpu"))) for value in arrays.values()]
    return min(places, default=(True, "cpu"), key=lambda place: place[0])[1]


def number_of_gpu(arrays: Mapping[str, Any]) -> int | None:
    """The number of the GPU that the tensors lie on."""
    numbers = (getattr(getattr(value, "device", None), "index", None) for value in arrays.values())
    return next((number for number in numbers if number is not None), None)


def _version(value: Any) -> int:
    try:
        return int(value._version)
    except (AttributeError, RuntimeError):
        # NumPy's arrays, and tensors of inference mode, count no changes.
        return 0


def autocast(torch: Any, kind: str) -> str:
    """The expression of the surroundings in which a kind of device casts by itself; empty where none does."""
    if not torch.is_autocast_enabled(kind):
        return ""
    return f'torch.autocast("{kind}", dtype={torch.get_autocast_dtype(kind)})'


def script_lines(record: Record, module: Module | None, cast: str) -> Lines:
    """What a script says of a call of a function, or of `module`, within `cast` if there is any."""
    target = record.function.target
    body = [
        f"{name} = {_viewed(name, taken)}" for name, taken in record.inputs.items() if taken.view
    ]
    body += [f"{name}.requires_grad_()" for name in record.differentiated]
    if module is None:
        call = f"result = {target.expression}({record.text})"
    else:
        own = ", ".join(f'"{name}": {given}' for name, given in module.names.items())
        body.append(f"module = {module.build.expression}.train({module.module.training})")
        body.append(f"parameters = {{{own}}}")
        body.append(
            "call = lambda *args, **kwargs: functional_call(module, parameters, args, kwargs)"
        )
        call = f"result = call({record.text})"
    if record.changed:
        body.append(f"inputs = [{', '.join(record.returned_gradients())}]")
        # What needs a gradient cannot be changed in place, but what is made of it can.
        body += [f"{name} = {name}.clone()" for name in record.changed]
    body += [RESTORE, *([f"with {cast}:", indented(call)] if cast else [call])]
    body += results(record)
    body += _gradient_lines(record)
    viewed = [name for name, taken in (record.outputs or {}).items() if taken.view]
    body += [f'results["{name}"] = results["{name}"].view(torch.uint8)' for name in viewed]
    imports = ["import torch"] + (["from torch.func import functional_call"] if module else [])
    return Lines(imports, [*body, "return results"])


def _viewed(name: str, taken: Taken) -> str:
    return f"{name}.view(torch.{taken.view})"


def _gradient_lines(record: Record) -> list[str]:
    flowing, wanted = record.flowing(), record.returned_gradients()
    if not flowing or not wanted:
        return []
    lines = ["upstream = ["]
    for name in flowing:
        given = record.upstream_names[name]
        lines.append(f'    {given} if {given} is not None else torch.ones_like(results["{name}"]),')
    of = ", ".join(f'results["{name}"]' for name in flowing)
    names = ", ".join(f'"{record.gradient_names[name]}"' for name in wanted)
    return [
        *lines,
        "]",
        *([] if record.changed else [f"inputs = [{', '.join(wanted)}]"]),
        f"gradients = torch.autograd.grad([{of}], inputs, upstream, allow_unused=True)",
        f"names = [{names}]",
        _ZEROS if record.zeros else _REACHED,
    ]


_REACHED = "results |= {name: one for name, one in zip(names, gradients) if one is not None}"
_ZEROS = """for name, one, value in zip(names, gradients, inputs):
    results[name] = torch.zeros_like(value) if one is None else one"""
