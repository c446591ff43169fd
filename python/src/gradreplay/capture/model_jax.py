"""Models of JAX as `capture.model` has them: functions of one module of Python, a pytree of functions, or
objects that are called (:mod:`.model_objects`).

Each function is tapped as :mod:`.jax_` taps one. What lies in what, and the order of calls where nothing is
called twice, is known from tracing: devices hand tensors over as they come to it.
"""

from __future__ import annotations

import fnmatch
import functools
import importlib
import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import FunctionType, ModuleType
from typing import Any, cast

import numpy as np

from ..signatures import signature
from . import host, jax_, model_linen, model_objects
from .arguments import Arguments, Names
from .errors import CaptureError
from .host import Taken
from .jax_ import Tap, Traced
from .model_objects import Objects, Variables
from .model_step import ModelStep, PartCall, close_record, list_some
from .record import Function, Record
from .scripts import Lines
from .session import Step, register, state
from .target import Target, find

_sequence = itertools.count()
# The functions that are being traced, each inside of the one before.
_tracing: list[_PartTraced] = []


@dataclass(frozen=True)
class _JaxModel:
    """A model whose functions are captured."""

    name: str
    target: Target
    paths: Sequence[str]
    strict: bool


def is_model(value: Any) -> bool:
    """Whether this is a module of Python, or a pytree of functions or with objects that are called, where JAX
    is in use."""
    jax: Any = sys.modules.get("jax")
    if jax is None:
        return False
    if isinstance(value, ModuleType) or model_linen.is_model(value):
        return True
    if model_objects.read_objects(value) is not None:
        return True
    leaves = jax.tree_util.tree_leaves(value)
    return not callable(value) and bool(leaves) and all(_is_function(leaf) for leaf in leaves)


def capture_model(value: Any, name: str, match: Sequence[str] | None, *, strict: bool) -> Any:
    """Captures the functions, or the objects, of a model that a pattern of `match` fits.

    Returns the pytree of captured functions, or the module or the objects, in which they are now.
    Raises :class:`CaptureError` if there are none, or the name is taken."""
    if model_linen.is_model(value):
        return _capture_linen(value, name, match, strict=strict)
    objects = model_objects.read_objects(value)
    if objects is not None:
        return _capture_objects(value, objects, name, match, strict=strict)
    found = _functions_of(value)
    chosen = [path for path in found if _is_chosen(path, match)]
    if not chosen:
        known = ", ".join(found) or "none"
        raise CaptureError("no function of the model is chosen", f"its functions are {known}")
    register(name)
    jax_.hook_in()
    target = find(found[chosen[0]], None)
    model = _JaxModel(name, target, chosen, strict)
    wrapped = {path: _wrap(model, path, found[path]) for path in chosen}
    if isinstance(value, ModuleType):
        for path, function in wrapped.items():
            setattr(value, path, function)
        return value
    jax: Any = sys.modules["jax"]
    return jax.tree_util.tree_map_with_path(
        lambda path, leaf: wrapped.get(_path_text(path), leaf), value
    )


def _is_chosen(path: str, match: Sequence[str] | None) -> bool:
    return match is None or any(fnmatch.fnmatchcase(path, pattern) for pattern in match)


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType) or (callable(value) and hasattr(value, "__wrapped__"))


def _functions_of(value: Any) -> dict[str, Any]:
    """The functions of a model by their paths in it."""
    if isinstance(value, ModuleType):
        return {
            name: function
            for name, function in vars(value).items()
            if _is_function(function) and function.__module__ == value.__name__
        }
    jax: Any = sys.modules["jax"]
    keyed, _ = jax.tree_util.tree_flatten_with_path(value)
    return {_path_text(path): leaf for path, leaf in keyed}


def _path_text(path: Sequence[Any]) -> str:
    keys = (
        next(str(getattr(one, kind)) for kind in ("key", "idx", "name") if hasattr(one, kind))
        for one in path
    )
    return ".".join(keys)


def _wrap(model: _JaxModel, path: str, function: Callable[..., Any]) -> Callable[..., Any]:
    described = Function(
        name=path,
        framework="jax",
        target=find(function, None),
        shapes={},
        strict=model.strict,
    )
    own = frozenset(signature(function).parameters)
    tap = _PartTap(described, function, None, None, {}, model, path, own)

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        if not state.on:
            return function(*args, **kwargs)
        return tap.call(args, kwargs)

    return wrapper


# Objects


def _capture_objects(
    value: Any, objects: Objects, name: str, match: Sequence[str] | None, *, strict: bool
) -> Any:
    """Captures the calls of a model's objects that a pattern of `match` fits; returns the model."""
    found = [path for path, _ in model_objects.objects_in(value)]
    chosen = [path for path in found if _is_chosen(path, match)]
    if not chosen:
        known = list_some([path for path in found if path]) or "none"
        raise CaptureError("no object of the model is chosen", f"its objects are {known}")
    register(name)
    jax_.hook_in()
    first = next(iter(objects.paths))
    model = _JaxModel(name, model_objects.target_of(first), chosen, strict)

    def captured(original: Callable[..., Any]) -> model_objects.Call:
        own = frozenset(signature(original).parameters)

        def call(owner: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
            path = objects.path_of(owner) if state.on and not objects.paused else None
            if path is None:
                return original(owner, *args, **kwargs)
            with objects.inside(owner, path):
                if not _is_chosen(path, match):
                    return original(owner, *args, **kwargs)
                target = model_objects.target_of(type(owner))
                described = Function(path or name, "jax", target, {}, strict=strict)
                tap = _ObjectTap(
                    described, original, None, None, {}, model, path, own, objects, owner
                )
                return tap.call((owner, *args), kwargs)

        return call

    model_objects.wrap_calls(objects, captured)
    return value


def _capture_linen(value: Any, name: str, match: Sequence[str] | None, *, strict: bool) -> Any:
    """Captures the modules of linen that a pattern of `match` fits; returns the model."""
    register(name)
    jax_.hook_in()
    # Which modules there are shows when the model is applied.
    paths = [path for path in match or [""] if not set(path) & set("*?[")]
    model = _JaxModel(name, model_objects.target_of(type(value), "apply"), paths, strict)

    def capture(module: Any, path: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        target = model_objects.target_of(type(module), "apply")
        described = Function(path or name, "jax", target, {}, strict=strict)
        own = frozenset(f"args_{number}" for number in range(len(args) - 2)) | frozenset(kwargs)
        tap = _PartTap(described, model_linen.apply, None, None, {}, model, path, own)
        return tap.call(args, kwargs)

    def leave_out(path: str, error: CaptureError) -> None:
        if state.step is not None:
            is_strict = strict or state.step.strict
            _step_of(model, state.step).leave_out(path, error, strict=is_strict)

    def begin() -> bool:
        if state.on and state.step is not None:
            # What is never called is told of at the step's end.
            _step_of(model, state.step)
        return state.on

    calls = model_linen.Calls(lambda path: _is_chosen(path, match), capture, leave_out)
    model_linen.wrap_apply(type(value), calls, begin)
    return value


@dataclass(frozen=True)
class _PartTap(Tap):
    """A function of a model, as it is traced."""

    model: _JaxModel
    path: str
    # The names of its parameters.
    own: frozenset[str]

    def trace(self, given: Arguments) -> Traced:
        """One place in a traced program where the function is called."""
        return _PartTraced(self, given)

    def failed(self, error: Exception) -> None:
        """Notes why the function is not captured."""
        if state.step is not None:
            strict = self.model.strict or state.step.strict
            _step_of(self.model, state.step).leave_out(self.path, error, strict=strict)


@dataclass(frozen=True)
class _ObjectTap(_PartTap):
    """The call of an object of a model, as it is traced."""

    objects: Objects
    owner: Any

    def trace(self, given: Arguments) -> Traced:
        """One place in a traced program where the object is called."""
        model_objects.check_variables(self.owner)
        return _ObjectTraced(self, given)


class _PartTraced(Traced):
    """One place in a traced program where a function of the model is called."""

    def __init__(self, tap: _PartTap, given: Arguments) -> None:
        super().__init__(tap, given)
        self.part = tap
        self.sequence = next(_sequence)
        self.around = _tracing[-1] if _tracing else None
        # The arrays that it was called with, by their numbers as objects.
        self._tapped: dict[int, str] = {}
        outer = self.around
        while outer is not None:
            outer.leave_to_inner(self)
            outer = outer.around

    def enter(self) -> tuple[dict[str, Any], Any]:
        """As of all functions; notes which arrays it works on."""
        arrays, number = super().enter()
        self._tapped = {id(value): name for name, value in arrays.items()}
        return arrays, number

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls the function, in which others may be traced."""
        _tracing.append(self)
        try:
            return self._call(args, kwargs)
        finally:
            _tracing.remove(self)

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        return self.tap.original(*args, **kwargs)

    def leave_to_inner(self, inner: _PartTraced) -> None:
        """Asks for no gradient of what lies in a structure and goes to a captured function as it is.

        Those are parameters of that function, which is asked for their gradients."""
        passed = {self._tapped.get(id(value)) for value in inner.given.arrays.values()}
        self.wanted = tuple(
            name for name in self.wanted if name not in passed or name in self.part.own
        )

    # Called by the compiled program

    def _begin(
        self, number: int, differentiated: tuple[str, ...], index: int, arrays: Mapping[str, Any]
    ) -> None:
        step = state.step
        if step is None:
            return
        whole = _step_of(self.part.model, step)
        if not whole.may_begin(self.part.path):
            return
        given = {name: arrays[name] for name in self.given.arrays}
        record = Record(
            function=self.tap.function,
            names=Names(set(self.names.taken)),
            text=self.given.text,
            imports=self.given.imports,
            inputs=host.inputs(given, self.given.numbers, share=True),
            # Known now that all of it has been traced.
            differentiated=self.wanted if differentiated else (),
            device=jax_.device(),
            script=jax_.script_text,
        )
        if self.outputs:
            self._foresee(record)
        call = _JaxCall(self, record)
        try:
            whole.begin(number, call, given)
        except Exception as error:
            whole.leave_out(self.part.path, error, strict=False)

    def returned(self, number: Any, arrays: Any) -> None:
        """Notes the outputs of a call."""

        def note(whole: _JaxStep, call: _JaxCall) -> None:
            record = call.record
            if record.returned:
                return
            if record.outputs is None:
                self._foresee(record)
            values = {name: np.asarray(arrays[name]) for name in self.outputs}
            try:
                whole.check_room(
                    [(value, host.take(name, value)) for name, value in values.items()]
                )
            except CaptureError as error:
                whole.leave_out(call.path, error, strict=False)
                return
            record.outputs = {
                name: whole.keep(call.outputs, name, name, value) for name, value in values.items()
            }
            record.returned = True

        self._of_part(number, note)

    def flows(self, number: Any, gradients: Any) -> Any:
        """Notes what flows into the outputs of a call; returns it."""
        same = {name: np.asarray(value) for name, value in gradients.items()}

        def note(whole: _JaxStep, call: _JaxCall) -> None:
            record = call.record
            for name, value in same.items():
                if name not in record.upstream:
                    known = record.upstream_names[name]
                    record.upstream[name] = whole.keep(call.inputs, known, name, value)

        self._of_part(number, note)
        return same

    def arrived(self, number: Any, gradients: Any) -> None:
        """Notes the gradients of a call."""

        def note(whole: _JaxStep, call: _JaxCall) -> None:
            record = call.record
            for name, value in gradients.items():
                if name in record.gradient_names and name not in record.gradients:
                    known = record.gradient_names[name]
                    record.gradients[name] = whole.keep(
                        call.outputs, known, name, np.asarray(value)
                    )

        self._of_part(number, note)

    def _of_part(self, number: Any, note: Callable[[_JaxStep, _JaxCall], None]) -> None:
        step = state.step
        if step is None:
            return
        whole = _step_of(self.part.model, step)
        call = whole.by_number.get(int(number))
        if call is not None and not call.record.closed:
            self._safely(lambda: note(whole, call))


class _ObjectTraced(_PartTraced):
    """One place in a traced program where an object of the model is called."""

    def __init__(self, tap: _ObjectTap, given: Arguments) -> None:
        super().__init__(tap, given)
        self._owner, self._objects = tap.owner, tap.objects

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls a copy of the object, with the tapped arrays."""
        variables = Variables(self._owner, args[0])
        with self._objects.inside(args[0], self.part.path):
            result = super()._call(args, kwargs)
        if not variables.give_back():
            # What the call makes in an object it makes in this one, too.
            self._objects.paused = True
            try:
                super()._call((self._owner, *args[1:]), kwargs)
            finally:
                self._objects.paused = False
        return result


class _JaxCall:
    """One call of a function of a model."""

    def __init__(self, traced: _PartTraced, record: Record) -> None:
        self.traced = traced
        self.record = record
        self.path = traced.part.path
        self.function = traced.tap.function
        name = self.function.target.expression.removesuffix(".__call__").removesuffix(".apply")
        self.kind = f"{self.function.target.statement.split()[1]}.{name}"
        self.number = 0
        self.around: PartCall | None = None
        # By the harness's names, those in the pool.
        self.inputs: dict[str, str] = {}
        self.outputs: dict[str, str] = {}
        self.misses_gradient = False

    def lines(self) -> Lines:
        """What a script says of it; what its numbers of 64 bits ask for is said once for all calls."""
        return jax_.script_lines(self.record)

    def close(self) -> None:
        """Lets nothing more in."""
        self.misses_gradient = close_record(self.record)


def _step_of(model: _JaxModel, step: Step) -> _JaxStep:
    """What is captured of a model in a step."""
    known = step.models.get(model.name)
    if known is None:
        known = step.models[model.name] = _JaxStep(model, step)
    return cast("_JaxStep", known)


class _JaxStep(ModelStep):
    """One step of a model of JAX."""

    def __init__(self, model: _JaxModel, step: Step) -> None:
        whole = Function(name=model.name, framework="jax", target=model.target, shapes={})
        super().__init__(step, whole, model.paths, jax_.device(), 64 * len(model.paths))
        # Calls by the numbers that the compiled program has for them.
        self.by_number: dict[int, _JaxCall] = {}

    def begin(self, number: int, call: _JaxCall, arrays: Mapping[str, Any]) -> None:
        """Notes a call that has begun, and its inputs.

        Raises :class:`CaptureError` if the step has no room for them."""
        record = call.record
        self.check_room([(arrays.get(name), taken) for name, taken in record.inputs.items()])
        for name, taken in record.inputs.items():
            call.inputs[name] = self.add(arrays.get(name), taken)
            record.inputs[name] = host.without_elements(taken)
        for known in self._calls_of(call.traced):
            # What a checkpoint computes again is the same call.
            if {name: known.inputs.get(name) for name in call.inputs} == call.inputs:
                self.by_number[number] = known
                return
        self.number_of(call.path)
        self.by_number[number] = call
        self.calls.append(call)

    def keep(self, names: dict[str, str], known: str, name: str, value: Any) -> Taken:
        """Puts a tensor into the pool, where `names` has it as `known`."""
        taken = host.take(name, value)
        names[known] = self.add(value, taken)
        return host.without_elements(taken)

    def _calls_of(self, traced: _PartTraced) -> list[_JaxCall]:
        return [call for call in cast("list[_JaxCall]", self.calls) if call.traced is traced]

    def ordered_calls(self) -> list[PartCall]:
        """The calls that have returned: as they were traced, or as they came where a loop repeats one."""
        begun = cast("list[_JaxCall]", self.calls)
        calls = [call for call in begun if call.record.returned]
        for path in {call.path for call in begun} - {call.path for call in calls}:
            self.left_out.setdefault(path, "its outputs did not come, as in a loop of the device")
        by_place: dict[int, list[_JaxCall]] = {}
        for call in calls:
            by_place.setdefault(call.traced.sequence, []).append(call)
        if len(by_place) == len(calls):
            calls.sort(key=lambda call: call.traced.sequence)
        counts: dict[str, int] = {}
        for call in calls:
            call.number = counts.get(call.path, 0)
            counts[call.path] = call.number + 1
            repetition = by_place[call.traced.sequence].index(call)
            outer = call.traced.around
            while outer is not None and outer.sequence not in by_place:
                outer = outer.around
            if outer is not None:
                around = by_place[outer.sequence]
                call.around = around[min(repetition, len(around) - 1)]
        return list(calls)

    def preamble(self) -> Lines:
        """Numbers of Python are inputs of 64 bits, which would change what JAX makes of others."""
        jax: Any = importlib.import_module("jax")
        if jax.config.jax_enable_x64:
            return Lines([], [])
        narrow = ['if precision == "native":', '    jax.config.update("jax_enable_x64", False)']
        return Lines(["import jax"], narrow, ["*", "precision"])
