"""Rounding to integers below automatic differentiation: passed unchanged, recorded, or read from a record.

A rounded number of a record keeps its value and moves as its argument does, or stays. Roundings are known by
their order in the process. Gradients stay those of the code.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal, cast, get_args

import numpy as np
import numpy.typing as npt

from . import triton_libdevice
from .fake_quantisation import is_fake_quantisation, quantise
from .faults import Blame
from .patches import replaced

Array = npt.NDArray[Any]

# A result of "recorded_inside" is a thousandth nearer to zero: on no bound of a range of integers.
RecordMode = Literal["recorded", "recorded_inside", "straight", "held"]
RECORD_MODES: tuple[RecordMode, ...] = get_args(RecordMode)

# Gives what an array becomes where it rounds to another one.
Change = Callable[[Array, Array], Array]

_INSIDE = 1 / 1024
# The most elements of a record, as replay holds it.
_MOST = 1 << 23


class Record:
    """The roundings to integers of one replay, written or read."""

    def __init__(self, mode: RecordMode, file: Path) -> None:
        self._mode = mode
        self._file = file
        self._is_written = mode in ("recorded", "recorded_inside")
        self._pairs: list[tuple[Array, Array]] = [] if self._is_written else _read(file)
        self._met = 0
        self._elements = 0
        self._are_others = False

    @property
    def are_others(self) -> bool:
        """Whether this replay met others than those of the record."""
        return self._are_others or self._met < len(self._pairs)

    def change(self, argument: Array, rounded: Array) -> Array:
        """What `argument` becomes where it rounds to `rounded`."""
        if self._is_written:
            self._add(argument, rounded)
        if self._met == len(self._pairs) or self._pairs[self._met][0].shape != argument.shape:
            self._are_others = True
            return rounded
        recorded_argument, result = self._pairs[self._met]
        self._met += 1
        if self._mode == "straight":
            # The same infinity has no difference.
            is_moved = argument != recorded_argument
            result = result + np.where(is_moved, np.subtract(argument, recorded_argument), 0)
        return np.asarray(result, rounded.dtype)

    def _add(self, argument: Array, rounded: Array) -> None:
        self._elements += argument.size
        if self._elements > _MOST:
            raise Blame("environment", f"too many roundings to integers: more than {_MOST}")
        if self._mode == "recorded_inside":
            rounded = np.where(rounded == 0, _INSIDE, rounded * (1 - _INSIDE))
        self._pairs.append((np.array(argument, np.float64), np.array(rounded, np.float64)))

    def write(self) -> None:
        """Writes the record, if it is a new one with anything in it."""
        if not self._is_written or not self._pairs:
            return
        with self._file.open("wb") as file:
            for pair in self._pairs:
                np.save(file, np.stack(pair))


def _read(path: Path) -> list[tuple[Array, Array]]:
    pairs = []
    with path.open("rb") as file:
        while file.peek(1):
            argument, result = np.load(file)
            pairs.append((argument, result))
    return pairs


@contextmanager
def changing(mode: str, framework: str, file: Path | None) -> Iterator[Record | None]:
    """A block in which functions that round to an integer keep numbers, or write or read a record."""
    record = None
    if mode == "passed":
        block = _PASSING[framework]()
    elif file is None:
        raise KeyError("a file for the record")
    else:
        record = Record(cast(RecordMode, mode), file)
        block = _CHANGING[framework](record.change)
    with block:
        yield record
    if record is not None:
        record.write()


def _keep(argument: Array, _rounded: Array) -> Array:
    return argument


def _numpy_changing(change: Change) -> AbstractContextManager[Any]:
    patches = ExitStack()
    for name in ("rint", "round", "around"):
        patches.enter_context(replaced(np, name, _changed_function(getattr(np, name), change)))
    return patches


def _changed_function(function: Any, change: Change) -> Any:
    def changed(x: Any, *args: Any, **named: Any) -> Any:
        rounded = function(x, *args, **named)
        argument = np.asarray(x)
        is_partly = any(args) or any(named.values())
        if is_partly or argument.dtype.kind != "f":
            return rounded
        # A scalar stays one.
        return np.array(change(argument, np.asarray(rounded)))[()]

    return changed


@contextmanager
def _jax_passing() -> Iterator[None]:
    """A block in which `lax.round`, behind `round` and `rint`, keeps its numbers."""
    jax: Any = importlib.import_module("jax")
    lowering: Any = importlib.import_module("jax._src.interpreters.mlir")
    operation: Any = importlib.import_module("jax._src.lax.lax").round_p
    own = lowering._lowerings[operation]
    jax.clear_caches()
    lowering.register_lowering(operation, lambda _context, x, **_method: [x])
    try:
        yield
    finally:
        lowering._lowerings[operation] = own
        jax.clear_caches()


@contextmanager
def _jax_changing(change: Change) -> Iterator[None]:
    """A block for `lax.round` by itself: the order is known where nothing is compiled as a whole."""
    jax: Any = importlib.import_module("jax")
    operation: Any = importlib.import_module("jax._src.lax.lax").round_p
    own = operation.impl

    def changed(x: Any, **method: Any) -> Any:
        rounded = own(x, **method)
        argument = np.asarray(x, np.float64)
        return jax.numpy.asarray(change(argument, np.asarray(rounded)), rounded.dtype)

    with jax.disable_jit(), replaced(operation, "impl", changed):
        yield


def _torch_changing(change: Change) -> AbstractContextManager[Any]:
    torch: Any = importlib.import_module("torch")

    def change_tensors(x: Any, rounded: Any) -> Any:
        arrays = [tensor.detach().cpu().to(torch.float64).numpy() for tensor in (x, rounded)]
        result = np.ascontiguousarray(change(*arrays))
        return torch.from_numpy(result).to(dtype=x.dtype, device=x.device)

    return _torch_rounding(change_tensors, change)


def _torch_rounding(change_tensors: Any, change: Change) -> AbstractContextManager[Any]:
    """A block for `round` of PyTorch, and for libdevice in Triton's interpreter."""
    modes: Any = importlib.import_module("torch.utils._python_dispatch")

    class Changing(modes.TorchDispatchMode):  # type: ignore[misc]
        def __torch_dispatch__(
            self,
            operation: Any,
            types: Any,
            args: tuple[Any, ...] = (),
            kwargs: Mapping[str, Any] | None = None,
        ) -> Any:
            named = dict(kwargs or {})
            name = operation.overloadpacket.__name__
            if is_fake_quantisation(name):
                return quantise(name, args, named, lambda x: change_tensors(x, x.round()))
            if name not in ("round", "round_") or "out" in named or not args[0].is_floating_point():
                return operation(*args, **named)
            if name == "round_":
                return args[0].copy_(change_tensors(args[0], args[0].round(*args[1:], **named)))
            return change_tensors(args[0], operation(*args, **named))

    blocks = ExitStack()
    blocks.enter_context(triton_libdevice.changing_rounding(change))
    blocks.enter_context(Changing())
    return blocks


_PASSING: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "numpy": lambda: _numpy_changing(_keep),
    "jax": _jax_passing,
    "torch": lambda: _torch_rounding(lambda x, _rounded: x.clone(), _keep),
}
_CHANGING: dict[str, Callable[[Change], AbstractContextManager[Any]]] = {
    "numpy": _numpy_changing,
    "jax": _jax_changing,
    "torch": _torch_changing,
}
