"""`capture.model`: every module of a model in one step of a training, each at its boundary.

What a step leaves is a folder of fixtures, one for each call of a module, which share the file of their
tensors, and `step.toml`, which has the calls in the order of the computation. Here are models of PyTorch.
"""

from __future__ import annotations

import fnmatch
import functools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from .. import generators
from . import arguments, host, model_jax, torch_
from .arguments import Arguments, Names, Parameters
from .errors import CaptureError
from .functions import seal, undisturb
from .host import Taken
from .model_step import ModelStep, close_record, list_some
from .record import Function
from .session import Step, register, state
from .target import Target, find

_M = TypeVar("_M")


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

    With JAX it is a module of Python, whose functions are captured, a pytree of functions, of which one of
    captured functions is returned, or a pytree that can be called, as Equinox and Flax's nnx make them.

    Without options these are the model and all modules in it. `max_bytes` of the step limits their bytes.

    - `name`: that of the step's folder and harness.
    - `depth`: modules at most so deep; the model itself is at 0.
    - `match`: modules or functions with a path that a pattern fits, such as `"layers.*.attn"`.
    - `leaves`: modules without others in them.
    - `import_as`: `module:name` of a function without parameters that builds such a model.
    - `strict`: whether errors of capturing are raised instead of logged.

    Raises :class:`CaptureError` if this is no module, no module is chosen, or the name is taken."""
    torch: Any = sys.modules.get("torch")
    whole: Any = getattr(model, "_orig_mod", model)
    patterns = [match] if isinstance(match, str) else match
    if torch is None or not isinstance(whole, torch.nn.Module):
        if not model_jax.is_model(model):
            kind = type(model).__qualname__
            raise CaptureError(
                f"capture.model takes a torch.nn.Module, not a {kind}",
                "with JAX it takes a module of Python, a pytree of functions or a module of Equinox or nnx; "
                "capture.jax_function takes one function",
            )
        if depth is not None or leaves or import_as is not None:
            raise CaptureError(
                "depth, leaves and import_as are for modules of PyTorch", "choose by match"
            )
        return cast(_M, model_jax.capture_model(model, name, patterns, strict=strict))
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
            f"its modules are {list_some([path for path, _ in whole.named_modules() if path])}",
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
        built = torch_.Module(module, whole.built(path, module, given.names))
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


def _step_of(model: _Model, step: Step) -> _TorchStep:
    """What is captured of a model in a step."""
    known = step.models.get(model.name)
    if known is None:
        known = step.models[model.name] = _TorchStep(model, step)
    return cast("_TorchStep", known)


class _PartCall(torch_.Call):
    """One call of a module, whose tensors go into the pool of its step."""

    def __init__(self, whole: _TorchStep, path: str, module: Any, given: Arguments) -> None:
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
        """Lets nothing more in."""
        lost = self.lost()
        if lost is not None:
            problem = f"`{lost}` is a view of an input, and was changed in place after the call"
            self._refuse_gradients(CaptureError(problem))
        self._fragile.clear()
        self._aliases.clear()
        self.misses_gradient = close_record(self.record)
        if not self.record.gradient_names:
            self._forget_gradients()

    def _delay(self, error: Exception) -> None:
        self._refuse_gradients(error)
        super()._delay(error)

    def _refuse_gradients(self, error: Exception) -> None:
        """Leaves all gradients of the call out: some alone would be taken for all."""
        self._forget_gradients()
        self.record.differentiable = ()
        self.record.gradient_names = {}
        self.whole.leave_out_gradients(self.path, error)

    def _forget_gradients(self) -> None:
        record = self.record
        for name in record.upstream_names.values():
            self.inputs.pop(name, None)
        results = record.outputs or {}
        self.outputs = {name: one for name, one in self.outputs.items() if name in results}
        record.upstream, record.gradients = {}, {}

    def _check_size(self, arrays: Mapping[str, Any]) -> None:
        self.whole.check_room([(array, host.take(name, array)) for name, array in arrays.items()])

    def _keep(self, group: dict[str, Taken], name: str, value: Any) -> None:
        taken = host.take(name, value)
        if group is self.record.gradients:
            known = self.record.gradient_names.get(name)
            if known is None:
                return
            self.whole.check_room([(value.detach(), taken)])
        else:
            known = name
        self.outputs[known] = self.whole.add(value.detach(), taken)
        group[name] = host.without_elements(taken)

    def _keep_upstream(self, name: str, gradient: Any) -> None:
        if name not in self.record.differentiable:
            return
        taken = host.take(name, gradient)
        self.whole.check_room([(gradient, taken)])
        self.inputs[self.record.upstream_names[name]] = self.whole.add(gradient, taken)
        self.record.upstream[name] = host.without_elements(taken)


class _TorchStep(ModelStep):
    """One step of a model of PyTorch."""

    def __init__(self, model: _Model, step: Step) -> None:
        self.model = model
        self._functions: dict[str, Function] = {}
        # By path, and by class: modules of one class are imported alike.
        self._targets: dict[type, Target] = {}
        # By path, the parameters of a module, as long as the step.
        self._parameters = {
            path: frozenset(map(id, module.parameters())) for path, module in model.modules.items()
        }
        device = next((str(one.device) for one in model.module.parameters()), "cpu")
        parameters = sum(1 for _ in model.module.parameters())
        count = 16 * len(model.modules) + 2 * parameters
        whole = self._describe("", model.module, model.name)
        super().__init__(step, whole, model.modules, device, count)
        self.left_out |= model.left_out
        self._around: list[_PartCall] = []

    def enter(self, call: _PartCall) -> None:
        """Notes that a call has begun, within those that have not ended."""
        call.around = self._around[-1] if self._around else None
        self._around.append(call)
        self.calls.append(call)

    def leave(self, call: _PartCall) -> None:
        """Notes that a call has ended."""
        self._around.remove(call)

    def parameters_within(self, path: str) -> frozenset[int]:
        """The parameters of captured modules below a path."""
        prefix = f"{path}." if path else ""
        inner = [
            own
            for other, own in self._parameters.items()
            if other != path and other.startswith(prefix)
        ]
        return frozenset[int]().union(*inner)

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
            target = self._targets.get(type(module)) or find(type(module), None)
            self._targets[type(module)] = target
            problem = self.built(path, module, Names()).problem
            if problem is not None:
                target = replace(target, problem=problem)
        return Function(name=name, framework="torch", target=target, shapes={})

    def built(self, path: str, module: Any, names: Names) -> torch_.Build:
        """How a script builds a module."""
        if self.model.import_as is None:
            return torch_.built(module, None, names)
        whole = f"{self.model.import_as.partition(':')[2]}()"
        return torch_.Build(f'{whole}.get_submodule("{path}")' if path else whole)
