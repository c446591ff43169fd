"""What Triton's interpreter gets wrong or lacks: refused, told or mended.

The interpreter holds bfloat16 as its 16 bits. Moves and conversions to and from float32 are right
(the latter cut off instead of rounding); arithmetic is that of integers, `tl.dot` included. A function of
`triton.language` imported by name (`exp = tl.exp`) fails in it, and one of libdevice returns nothing: both
are mended here. Seen in triton 3.6.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import math
import os
import sys
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any

import numpy as np

from .faults import Blame
from .notes import note

_INTERPRETER = "triton.runtime.interpreter"

# Methods of the interpreter's builder that compute with the elements of their operands.
_ARITHMETIC = """
    create_dot create_fma create_clampf create_atomic_rmw
    create_fadd create_fsub create_fmul create_fdiv create_frem create_precise_divf
    create_minimumf create_minnumf create_maximumf create_maxnumf
    create_fcmpOLT create_fcmpOGT create_fcmpOLE create_fcmpOGE create_fcmpOEQ create_fcmpONE
    create_fcmpULT create_fcmpUGT create_fcmpULE create_fcmpUGE create_fcmpUEQ create_fcmpUNE
    create_cos create_sin create_exp create_exp2 create_log create_log2 create_erf
    create_sqrt create_precise_sqrt create_rsqrt create_floor create_ceil
""".split()
_CASTS = ("create_fp_trunc", "create_fp_to_fp")


def is_used() -> bool:
    """Whether Triton's kernels are interpreted in this process."""
    return os.environ.get("TRITON_INTERPRET", "0").lower() in ("1", "true", "on", "yes", "y")


def cache() -> str:
    """The folder in which Triton keeps what it has compiled, modules for its launches included."""
    home = os.environ.get("TRITON_HOME") or os.path.expanduser("~")
    return os.environ.get("TRITON_CACHE_DIR") or os.path.join(home, ".triton", "cache")


def check_versions() -> None:
    """Refuses an interpreter and a NumPy that do not work together, if Triton has been imported.

    Raises :class:`Blame`."""
    triton: Any = sys.modules.get("triton")
    if triton is None or not is_used():
        return
    if _at_least(np.__version__, (2, 4)) and not _at_least(_version(), (3, 7)):
        raise Blame(
            "environment",
            f"triton {_version()}'s interpreter does not work with numpy {np.__version__}",
            f'{sys.executable} -m pip install "numpy<2.4"',
        )


def guard() -> None:
    """Makes the interpreter refuse arithmetic of bfloat16, now or when it is imported."""
    if is_used():
        when_loaded(guard_module)


def when_loaded(change: Callable[[Any], None]) -> None:
    """Calls `change` with the interpreter's module, now or when it is imported."""
    loaded = sys.modules.get(_INTERPRETER)
    if loaded is not None:
        change(loaded)
        return
    finder = next((finder for finder in sys.meta_path if isinstance(finder, _Finder)), None)
    if finder is None:
        finder = _Finder()
        sys.meta_path.insert(0, finder)
    finder.changes.append(change)


class _Finder(importlib.abc.MetaPathFinder):
    """Finds the interpreter as others do, and changes it once it is loaded."""

    def __init__(self) -> None:
        self.changes: list[Callable[[Any], None]] = []

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name != _INTERPRETER:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                load(module)
                for change in self.changes:
                    change(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def guard_module(interpreter: Any) -> None:
    """Guards the builder of an interpreter's module; a second time does nothing."""
    builder = getattr(interpreter, "InterpreterBuilder", None)
    if builder is None or getattr(builder, "guarded", False):
        return
    builder.guarded = True
    for name in _ARITHMETIC:
        if compute := getattr(builder, name, None):
            setattr(builder, name, _refusing(name, compute))
    for name in _CASTS:
        if cast := getattr(builder, name, None):
            setattr(builder, name, _telling(cast))
    if (patch := getattr(interpreter, "_patch_lang", None)) is not None:
        interpreter._patch_lang = _binding(interpreter, patch)


def _refusing(name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    operation = "tl.dot" if name == "create_dot" else f"`{name.removeprefix('create_')}`"

    def guarded(self: Any, *operands: Any, **named: Any) -> Any:
        if any(_is_bfloat16(operand) for operand in operands):
            raise _bfloat16_error(operation)
        return compute(self, *operands, **named)

    return guarded


def _bfloat16_error(operation: str) -> Blame:
    return Blame(
        "environment",
        f"triton {_version()}'s interpreter computes {operation} of bfloat16 on the raw "
        "bits: its results mean nothing",
        "replay on a GPU (--backend cuda), or let the harness give the kernel float32 "
        "where `device` is cpu",
    )


def _telling(cast: Callable[..., Any]) -> Callable[..., Any]:
    def guarded(self: Any, source: Any, target: Any, *others: Any, **named: Any) -> Any:
        if "bf16" in str(target):
            note(
                f"triton {_version()}'s interpreter cuts off where it casts to bfloat16: "
                "a GPU rounds to nearest"
            )
        return cast(self, source, target, *others, **named)

    return guarded


def _binding(interpreter: Any, patch: Callable[..., Any]) -> Callable[..., Any]:
    """Binds what a kernel knows by a name of its own to the interpreter, besides `tl`'s functions."""
    core: Any = sys.modules["triton.language.core"]
    device = {
        name: _elementwise(interpreter, name, compute) for name, compute in _LIBDEVICE.items()
    }

    def patched(function: Any) -> Any:
        names: dict[str, Any] = function.__globals__
        for name, value in list(names.items()):
            if core.is_builtin(value):
                names[name] = _bound(interpreter, core, value)
            elif getattr(value, "__module__", None) == _LIBDEVICE_MODULE:
                names[name] = device.get(value.__name__, value)
            elif getattr(value, "__name__", None) == _LIBDEVICE_MODULE:
                vars(value).update(device)
        return patch(function)

    return patched


def _bound(interpreter: Any, core: Any, builtin: Callable[..., Any]) -> Callable[..., Any]:
    def bound(*args: Any, **named: Any) -> Any:
        if builtin.__name__ in ("reduce", "associative_scan"):
            # The interpreter has its own.
            return getattr(core, builtin.__name__)(*args, **named)
        return builtin(*args, **named | {"_semantic": interpreter.interpreter_semantic})

    return bound


_LIBDEVICE_MODULE = "triton.language.extra.libdevice"
# Functions of libdevice that loss kernels call.
_LIBDEVICE: dict[str, Callable[..., Any]] = {
    "tanh": np.tanh,
    "exp": np.exp,
    "exp2": np.exp2,
    "expm1": np.expm1,
    "log": np.log,
    "log2": np.log2,
    "log1p": np.log1p,
    "sqrt": np.sqrt,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "erf": np.vectorize(math.erf),
    "pow": np.power,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "ceil": np.ceil,
    "rint": np.rint,
    "trunc": np.trunc,
    "div_rn": np.divide,
    "fast_dividef": np.divide,
    "fast_expf": np.exp,
    "fast_logf": np.log,
    "fast_powf": np.power,
    "fast_tanhf": np.tanh,
}


def _elementwise(interpreter: Any, name: str, compute: Callable[..., Any]) -> Callable[..., Any]:
    def computed(*args: Any, **_named: Any) -> Any:
        semantic = interpreter.interpreter_semantic
        operands = [semantic.to_tensor(arg) for arg in args]
        if any(_is_bfloat16(operand.handle) for operand in operands):
            raise _bfloat16_error(f"`{name}`")
        first = operands[0].dtype
        numbers = compute(*(operand.handle.data for operand in operands))
        handle = interpreter.TensorHandle(
            numbers.astype(interpreter._get_np_dtype(first)), first.scalar
        )
        blocks = [operand.type for operand in operands if operand.type.is_block()]
        kind = blocks[0].with_element_ty(first) if blocks else first
        return semantic.tensor(handle, kind)

    return computed


def _is_bfloat16(operand: object) -> bool:
    return "bf16" in str(getattr(operand, "dtype", "")) and hasattr(operand, "data")


def _version() -> str:
    return str(getattr(sys.modules.get("triton"), "__version__", ""))


def _at_least(version: str, wanted: tuple[int, ...]) -> bool:
    numbers = []
    for part in version.split(".")[: len(wanted)]:
        digits = "".join(character for character in part if character.isdigit())
        numbers.append(int(digits or 0))
    return tuple(numbers) >= wanted
