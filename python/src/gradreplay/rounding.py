"""Directed rounding of the processor around a call, and whether the call's arithmetic obeyed.

NumPy and PyTorch on the CPU compute in the mode of the calling thread; XLA sets it back. So the mode
is not assumed: a division in the framework itself, made while the mode is set, shows which one counts.
"""

from __future__ import annotations

import ctypes
import importlib
import platform
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import numpy as np

from . import integer_rounding

# From "passed" on the processor rounds as usual, and code that rounds to integers does otherwise.
Mode = Literal[
    "nearest", "down", "up", "zero", "passed", "recorded", "recorded_inside", "straight", "held"
]
Obeyed = Literal["applied", "reset", "unsupported"]

MODES: tuple[Mode, ...] = ("nearest", "down", "up", "zero")

# <fenv.h> of each architecture: FE_TONEAREST, FE_DOWNWARD, FE_UPWARD, FE_TOWARDZERO.
_X86 = {"nearest": 0, "down": 0x400, "up": 0x800, "zero": 0xC00}
_ARM = {"nearest": 0, "up": 0x400000, "down": 0x800000, "zero": 0xC00000}
_CONSTANTS = {"x86_64": _X86, "AMD64": _X86, "aarch64": _ARM, "arm64": _ARM}

# 1/3 and -1/3 in float32: together they tell the modes apart. Patterns of the magnitude.
_BELOW, _ABOVE = 0x3EAAAAAA, 0x3EAAAAAB
_SIGN = 0x80000000
_THIRDS: dict[tuple[int, int], Mode] = {
    (_ABOVE, _SIGN | _ABOVE): "nearest",
    (_BELOW, _SIGN | _ABOVE): "down",
    (_ABOVE, _SIGN | _BELOW): "up",
    (_BELOW, _SIGN | _BELOW): "zero",
}


class Rounding:
    """How a call went whose rounding was directed: `obeyed` holds once the call has ended, or before it
    where the framework does not obey."""

    def __init__(self, obeyed: Obeyed = "unsupported") -> None:
        self.obeyed: Obeyed = obeyed
        self.is_known = False
        # Whether code rounded other numbers to integers than those of the record.
        self.are_others = False

    @classmethod
    def ignored(cls, obeyed: Obeyed) -> Rounding:
        """A call that would round as usual."""
        rounding = cls(obeyed)
        rounding.is_known = True
        return rounding


@contextmanager
def directed(
    mode: Mode, framework: str, device: str, file: Path | None = None
) -> Iterator[Rounding]:
    """Sets the rounding mode of this thread, and of those that it starts, for the length of a block.
    Rounding to integers may have its record in a file.

    The block's work must be complete when it ends. A GPU rounds as its instructions say: nothing is
    set for one."""
    rounding = Rounding()
    if mode == "nearest":
        yield rounding
        return
    if mode == "passed" or mode in integer_rounding.RECORD_MODES:
        blocks = ExitStack()
        try:
            changing = integer_rounding.changing(mode, framework, file)
            record = blocks.enter_context(changing)
        except (AttributeError, ImportError, KeyError):
            yield Rounding.ignored("unsupported")
            return
        with blocks:
            yield rounding
        rounding.obeyed = "applied"
        rounding.are_others = record is not None and record.are_others
        return
    functions = None if device != "cpu" else _functions()
    constants = _CONSTANTS.get(platform.machine(), {})
    if functions is None or functions[0](constants[mode]) != 0:
        yield Rounding.ignored("unsupported")
        return
    set_mode, get_mode = functions
    try:
        if mode_of(framework) != mode:
            yield Rounding.ignored("reset")
            return
        set_mode(constants[mode])
        yield rounding
        kept = get_mode() == constants[mode]
        # Set again, so that the framework's own answer counts and not what the call left behind.
        set_mode(constants[mode])
        obeys = all(mode_of(name) == mode for name in _computing(framework))
        rounding.obeyed = "applied" if kept and obeys else "reset"
    finally:
        set_mode(constants["nearest"])


def _functions() -> tuple[Any, Any] | None:
    if platform.machine() not in _CONSTANTS:
        return None
    for library in (None, "libm.so.6"):
        try:
            loaded = ctypes.CDLL(library)
            return loaded.fesetround, loaded.fegetround
        except (OSError, AttributeError):
            continue
    return None


def _computing(framework: str) -> list[str]:
    """The frameworks whose arithmetic may have made the result."""
    if framework == "jax":
        return ["jax"]
    names = ["numpy"]
    if framework == "torch":
        names.append("torch")
    if jax_has_run():
        names.append("jax")
    return names


def jax_has_run() -> bool:
    """Whether JAX has started a device in this process."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    if bridge is None:
        return False
    try:
        return bool(bridge.backends_are_initialized())
    except AttributeError:
        return bool(getattr(bridge, "_backends", None))


def mode_of(framework: str) -> Mode | None:
    """The mode in which a framework divides in this thread now."""
    ones, threes = np.array([1, -1], np.float32), np.array([3, 3], np.float32)
    if framework == "torch":
        torch: Any = importlib.import_module("torch")
        thirds = (torch.from_numpy(ones) / torch.from_numpy(threes)).numpy()
    elif framework == "jax":
        jax: Any = importlib.import_module("jax")
        thirds = np.asarray(jax.numpy.divide(ones, threes))
    else:
        thirds = ones / threes
    patterns = thirds.view(np.uint32)
    return _THIRDS.get((int(patterns[0]), int(patterns[1])))
