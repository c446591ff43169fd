"""Captures functions that JAX traces: under jit, grad and scan, and on a mesh.

Two identities with gradients of their own stand around the function. The one before it hands the inputs
to this process, and the gradients with respect to them; the one after it the outputs, and what flows
into them. A number that the first one returns tells which of these belong to one call. Inputs and
upstream gradients come back from this process, so that nothing is computed from them before they are on
the disk.
"""

from __future__ import annotations

import functools
import importlib
import itertools
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ParamSpec, TypeVar

import numpy as np

from . import arguments, host
from .arguments import Arguments, Names, Parameters
from .errors import CaptureError, tell
from .record import Function, Record, ShapeNames
from .scripts import Lines, indented, script
from .session import Step, register, state
from .target import find
from .writer import Writer

_P = ParamSpec("_P")
_R = TypeVar("_R")

_numbers = itertools.count()
_lock = threading.Lock()
_calls: dict[int, tuple[Step, Record, Writer]] = {}


def jax_function(
    function: Callable[_P, _R],
    *,
    name: str | None = None,
    shapes: ShapeNames | None = None,
    outputs: Sequence[str] | None = None,
    gradients: Sequence[str] | None = None,
    axis: str | None = None,
    mesh_axis: str | None = None,
    harness: str | Path | None = None,
    rename: Mapping[str, str] | None = None,
    import_as: str | None = None,
    build: Mapping[str, str] | None = None,
    strict: bool = False,
) -> Callable[_P, _R]:
    """What behaves as `function` does, inside `jit`, `grad`, `scan` and `shard_map`, and is captured.

    - `name`: that of its fixtures and its harness; else the function's own.
    - `shapes`: names of sizes by input, such as `{"logits": "tokens vocab"}`.
    - `outputs`: names of what it returns, in order.
    - `gradients`: the inputs whose gradients are captured; else all of floating point.
    - `axis`: the size along which the calls of a step are parts of one fixture, such as microbatches.
    - `mesh_axis`: the axis of the mesh over which `shard_map` spreads the parts.
    - `harness`: a `replay.toml` that the fixtures fit; else one is drafted.
    - `rename`: other names for gradients, such as `{"grad_out": "dout"}`.
    - `import_as`: `module:name` by which a replay imports it.
    - `build`: functions, as `module:name`, that make what no fixture can hold, by the path of the argument:
      `{"state.tx": "model.training:make_optimizer"}`.
    - `strict`: whether errors of capturing are raised instead of logged.

    Raises :class:`CaptureError` if the name is taken, whatever `strict` says."""
    chosen = arguments.identifier(name or getattr(function, "__name__", "function").strip("<>"))
    register(chosen)
    hook_in()
    described = Function(
        name=chosen,
        framework="jax",
        target=find(function, import_as),
        shapes=dict(shapes or {}),
        outputs=outputs,
        axis=axis,
        strict=strict,
        harness=Path(harness).resolve() if harness is not None else None,
        rename=dict(rename or {}),
    )
    tap = Tap(described, function, gradients, mesh_axis, dict(build or {}))

    @functools.wraps(function)
    def wrapper(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if not state.on:
            return function(*args, **kwargs)
        return tap.call(args, kwargs)  # type: ignore[no-any-return]

    return wrapper


# Compiled functions


@dataclass
class _Compiled:
    """Keeps what JAX compiled with taps apart from what it compiled without."""

    context: Any = None
    entered: Any = None

    def __call__(self, on: bool) -> None:
        jax: Any = importlib.import_module("jax")
        try:
            if not on:
                # Computations run beside Python; what they hand over belongs to this step.
                jax.effects_barrier()
        finally:
            _calls.clear()
            self._enter_or_leave(jax, on)

    def _enter_or_leave(self, jax: Any, on: bool) -> None:
        if self.context is None:
            # Before JAX 0.8 nothing but a new compilation tells them apart.
            jax.clear_caches()
        elif on:
            self.entered = self.context(True)
            self.entered.__enter__()
        elif self.entered is not None:
            self.entered.__exit__(None, None, None)
            self.entered = None


_compiled = _Compiled()


def hook_in() -> None:
    """Keeps what is compiled in captured steps apart from all else."""
    if _compiled in state.switches:
        return
    jax: Any = importlib.import_module("jax")
    make = getattr(jax, "make_user_context", None)
    _compiled.context = make(False) if make is not None else None
    _allow_in_checkpoints()
    state.switches.append(_compiled)


def _allow_in_checkpoints() -> None:
    """Lets `jax.checkpoint` hold taps, which it refuses as it runs them again with what it recomputes."""
    try:
        effects: Any = importlib.import_module("jax._src.effects")
        callback: Any = importlib.import_module("jax._src.callback")
        effects.remat_allowed_effects.add_type(callback.IOEffect)
    except (ImportError, AttributeError):
        # JAX then names the checkpoint: capture what is around it.
        pass


# Traced


@dataclass(frozen=True)
class Tap:
    """A captured function, as it is traced."""

    function: Function
    original: Callable[..., Any]
    gradients: Sequence[str] | None
    mesh_axis: str | None
    build: Mapping[str, str]

    def call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Traces the function with taps around it, or without if they cannot be."""
        try:
            parameters = Parameters(None, self.original)
            traced = self.trace(arguments.read(parameters, args, kwargs, self.build))
            arrays, number = traced.enter()
        except Exception as error:
            self.failed(error)
            return self.original(*args, **kwargs)
        again, keywords = traced.given.rebuild(arrays)
        result = traced.run(again, keywords)
        try:
            return traced.leave(result, number)
        except Exception as error:
            self.failed(error)
            return result

    def trace(self, given: Arguments) -> Traced:
        """One place in a traced program where the function is called."""
        return Traced(self, given)

    def failed(self, error: Exception) -> None:
        """Tells why the function is not captured."""
        strict = self.function.strict or (state.step is not None and state.step.strict)
        tell(error, strict=strict)


class Traced:
    """One place in a traced program where the function is called."""

    def __init__(self, tap: Tap, given: Arguments) -> None:
        if not given.arrays:
            raise CaptureError(f"`{tap.function.name}` is called with no array")
        self.tap = tap
        self.given = given
        self.names = given.names
        self.wanted = self._wanted()
        # Known when the function has been traced: outputs without elements, and their texts.
        self.outputs: dict[str, host.Taken] = {}
        self.texts: dict[str, str] = {}
        self.flowing: tuple[str, ...] = ()

    def _wanted(self) -> tuple[str, ...]:
        floats = tuple(name for name, value in self.given.arrays.items() if _is_float(value))
        chosen = self.tap.gradients
        if chosen is None:
            return floats
        for name in chosen:
            if name not in floats:
                known = ", ".join(floats) or "none"
                raise CaptureError(
                    f"gradients names `{name}`; inputs of floating point are {known}"
                )
        return tuple(name for name in floats if name in chosen)

    def enter(self) -> tuple[dict[str, Any], Any]:
        """The arrays that the function is called with, and the number of the call."""
        jax: Any = importlib.import_module("jax")
        axis = self.tap.mesh_axis
        index = jax.lax.axis_index(axis) if axis is not None else np.int32(0)

        def hand_over(differentiated: tuple[str, ...], index: Any, arrays: Any) -> Any:
            take = functools.partial(self.inputs, differentiated)
            kinds = (jax.ShapeDtypeStruct((), np.int32), _kinds(jax, arrays))
            number, same = jax.experimental.io_callback(take, kinds, index, arrays)
            return number, _varying(jax, same, arrays)

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def tap(index: Any, arrays: Any) -> Any:
            return hand_over((), index, arrays)

        def forward(index: Any, arrays: Any) -> Any:
            number, same = hand_over(self.wanted, index, arrays)
            return (number, same), number

        def backward(number: Any, flowing: Any) -> Any:
            gradients = {name: flowing[1][name] for name in self.wanted}
            jax.experimental.io_callback(self.arrived, None, number, gradients)
            return None, flowing[1]

        tap.defvjp(forward, backward)
        importlib.import_module("jax.experimental")
        number, same = tap(index, self.given.arrays)
        return {**self.given.arrays, **same}, number

    def run(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """The result of the function."""
        return self.tap.original(*args, **kwargs)

    def leave(self, result: Any, number: Any) -> Any:
        """The result of the function, tapped."""
        jax: Any = importlib.import_module("jax")
        found = arguments.read_results(result, self.tap.function.outputs, self.names)
        arrays, self.texts = found.arrays, found.texts
        self._check_leaves(jax, result, arrays)
        self.outputs = {name: host.sketch(name, value) for name, value in arrays.items()}
        self.flowing = tuple(name for name, value in arrays.items() if _is_float(value))

        @jax.custom_vjp  # type: ignore[untyped-decorator]
        def tap(number: Any, arrays: Any) -> Any:
            jax.experimental.io_callback(self.returned, None, number, arrays)
            return arrays

        def forward(number: Any, arrays: Any) -> Any:
            return tap(number, arrays), number

        def backward(number: Any, flowing: Any) -> Any:
            floats = {name: flowing[name] for name in self.flowing}
            kinds = _kinds(jax, floats)
            same = jax.experimental.io_callback(self.flows, kinds, number, floats)
            return None, {**flowing, **_varying(jax, same, floats)}

        tap.defvjp(forward, backward)
        tapped = tap(number, arrays)
        by_identity = {id(value): tapped[name] for name, value in arrays.items()}
        return jax.tree_util.tree_map(lambda leaf: by_identity.get(id(leaf), leaf), result)

    def _check_leaves(self, jax: Any, result: Any, arrays: Mapping[str, Any]) -> None:
        """Refuses results in which JAX does not see the arrays: nothing would flow into those."""
        leaves = {id(leaf) for leaf in jax.tree_util.tree_leaves(result)}
        for name, value in arrays.items():
            is_words = self.texts[name].startswith("jax.random.key_data(")
            if id(value) not in leaves and not is_words:
                raise CaptureError(
                    f"`{name}` lies in an object of a class that JAX does not know as a pytree",
                    "register the class, as by jax.tree_util.register_dataclass",
                )

    # Called by the compiled program

    def inputs(self, differentiated: tuple[str, ...], index: Any, arrays: Any) -> Any:
        """Notes the inputs of a call; returns its number, and the inputs."""
        number = np.int32(next(_numbers) & 0x7FFFFFFF)
        same = {name: np.asarray(value) for name, value in arrays.items()}
        self._safely(lambda: self._begin(int(number), differentiated, int(index), same))
        return number, same

    def _begin(
        self, number: int, differentiated: tuple[str, ...], index: int, arrays: Mapping[str, Any]
    ) -> None:
        step = state.step
        if step is None:
            return
        given = {name: arrays[name] for name in self.given.arrays}
        inputs = host.inputs(given, self.given.numbers, share=step.durable)
        record = Record(
            function=self.tap.function,
            names=Names(set(self.names.taken)),
            text=self.given.text,
            imports=self.given.imports,
            inputs=inputs,
            differentiated=differentiated,
            device=device(),
            script=script_text,
        )
        if self.outputs:
            self._foresee(record)
        writer = step.begin(record, self.tap.function, index)
        if writer is not None:
            if step.durable:
                record.forget_inputs(check=step.looks)
            _calls[number] = (step, record, writer)

    def _foresee(self, record: Record) -> None:
        """Notes what tracing the function told of its outputs."""
        record.result_texts = self.texts
        record.outputs = dict(self.outputs)
        record.differentiable = self.flowing if record.differentiated else ()
        record.name_gradients()

    def returned(self, number: Any, arrays: Any) -> None:
        """Notes the outputs of a call."""

        def note(step: Step, record: Record, writer: Writer) -> None:
            size = sum(value.nbytes for value in arrays.values())
            step.check_size(record, size)
            step.bytes += size
            if record.outputs is None:
                self._foresee(record)
            outputs: dict[str, host.Taken] = {}
            for name in self.outputs:
                record.keep(outputs, name, np.asarray(arrays[name]))
            record.outputs, record.returned = outputs, True

        self._of(number, note)

    def flows(self, number: Any, gradients: Any) -> Any:
        """Notes what flows into the outputs of a call; returns it."""
        same = {name: np.asarray(value) for name, value in gradients.items()}

        def note(step: Step, record: Record, writer: Writer) -> None:
            take = host.take if step.durable else host.copied
            record.upstream |= {name: take(name, value) for name, value in same.items()}
            if step.durable:
                writer.write_upstream()
                for name in same:
                    record.forget_upstream(name, check=step.looks)

        self._of(number, note)
        return same

    def arrived(self, number: Any, gradients: Any) -> None:
        """Notes the gradients of a call."""

        def note(step: Step, record: Record, writer: Writer) -> None:
            for name, value in gradients.items():
                record.keep(record.gradients, name, np.asarray(value))

        self._of(number, note)

    def _of(self, number: Any, note: Callable[[Step, Record, Writer], None]) -> None:
        found = _calls.get(int(number))
        if found is not None and not found[1].closed:
            self._safely(lambda: note(*found))

    def _safely(self, note: Callable[[], None]) -> None:
        try:
            # Devices call back from threads of their own.
            with _lock:
                note()
        except Exception as error:
            # An exception here would end the computation.
            if state.step is not None:
                state.step.delayed.append(error)
            tell(error, strict=False)


def _is_float(value: Any) -> bool:
    jnp: Any = importlib.import_module("jax.numpy")
    return bool(jnp.issubdtype(value.dtype, jnp.floating))


def _kinds(jax: Any, arrays: Mapping[str, Any]) -> dict[str, Any]:
    return {name: jax.ShapeDtypeStruct(value.shape, value.dtype) for name, value in arrays.items()}


def _varying(jax: Any, arrays: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """The arrays, typed as varying over the axes of a mesh over which those `like` them vary."""
    typed = {}
    for name, value in arrays.items():
        missing = tuple(_axes(jax.typeof(like[name])) - _axes(jax.typeof(value)))
        typed[name] = _cast(jax, value, missing) if missing else value
    return typed


def _cast(jax: Any, value: Any, axes: tuple[str, ...]) -> Any:
    cast = getattr(jax.lax, "pcast", None)
    # Its name before JAX 0.7.
    return jax.lax.pvary(value, axes) if cast is None else cast(value, axes, to="varying")


def _axes(kind: Any) -> frozenset[str]:
    """The axes of a mesh over which an array of this type varies, by JAX's name of today or before 0.9."""
    types = getattr(kind, "mat", kind)
    return frozenset(getattr(types, "varying", None) or getattr(types, "vma", None) or ())


def device() -> str:
    """The device of the computation, in words."""
    jax: Any = sys.modules["jax"]
    device = jax.devices()[0]
    return "cpu" if device.platform == "cpu" else f"{device.device_kind} ({device.platform})"


# The drafted script


def script_text(record: Record) -> str:
    """The script of one call."""
    lines = script_lines(record)
    if not _computes_in_32_bits(record):
        return script(record, lines)
    # Numbers of Python are inputs of 64 bits, which would change what JAX makes of others.
    narrow = ['if precision == "native":', '    jax.config.update("jax_enable_x64", False)']
    return script(record, Lines(lines.imports, [*narrow, *lines.body], ["precision"]))


def script_lines(record: Record) -> Lines:
    """What a script says of a call."""
    arrays = [name for name in record.inputs if f"({name})" not in record.text]
    viewed = {name: taken.view for name, taken in record.inputs.items() if taken.view}
    body = [f"{name} = {name}.view(jnp.{view})" for name, view in viewed.items()]
    flowing, wanted = record.flowing(), record.returned_gradients()
    if flowing and wanted:
        body += _with_gradients(record, arrays, flowing, wanted)
    else:
        body += [
            "@jax.jit",
            f"def run({', '.join(arrays)}):",
            *_forward(record, record.result_texts, ()),
        ]
        body.append(f"results, _ = run({', '.join(arrays)})")
    for name, taken in (record.outputs or {}).items():
        if taken.view:
            body.append(f'results["{name}"] = results["{name}"].view(jnp.uint8)')
    return Lines(["import jax", "import jax.numpy as jnp"], [*body, "return results"])


def _computes_in_32_bits(record: Record) -> bool:
    """Whether there are inputs of 64 bits in a training whose arrays have 32 at most."""
    jax: Any = sys.modules["jax"]
    wide = [name for name, taken in record.inputs.items() if taken.tensor.dtype.itemsize == 8]
    numbers = all(f"({name})" in record.text for name in wide)
    return bool(wide) and numbers and not jax.config.jax_enable_x64


def _forward(record: Record, texts: Mapping[str, str], flowing: Sequence[str]) -> list[str]:
    expression = record.function.target.expression
    first = ", ".join(f'"{name}": {text}' for name, text in texts.items() if name not in flowing)
    second = ", ".join(f'"{name}": {text}' for name, text in texts.items() if name in flowing)
    return [
        indented(f"result = {expression}({record.text})"),
        f"    return {{{second}}}, {{{first}}}" if flowing else f"    return {{{first}}}, {{}}",
    ]


def _with_gradients(
    record: Record, arrays: Sequence[str], flowing: Sequence[str], wanted: Sequence[str]
) -> list[str]:
    given = ", ".join(f'"{name}": {record.upstream_names[name]}' for name in flowing)
    gradients = ", ".join(f'"{record.gradient_names[name]}"' for name in wanted)
    call = map(indented, _forward(record, record.result_texts, flowing))
    return [
        "@jax.jit",
        f"def run(upstream, {', '.join(arrays)}):",
        f"    def call({', '.join(wanted)}):",
        *call,
        "",
        f"    results, pull, others = jax.vjp(call, {', '.join(wanted)}, has_aux=True)",
        "    ones = {name: jnp.ones_like(one) for name, one in results.items()}",
        "    upstream = {name: ones[name] if one is None else one for name, one in upstream.items()}",
        f"    return results | others | dict(zip([{gradients}], pull(upstream)))",
        "",
        f"results = run({{{given}}}, {', '.join(arrays)})",
    ]
