"""Memory that nobody has written yet, filled with a pattern.

`torch.empty`, `numpy.empty` and their like give what was there before, which differs from process to process.
Filled, what depends on it shows between replays with other patterns, and what nobody wrote still holds them.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np

from .patches import replaced
from .tensors import Framework

# Types that any bits are numbers of.
_NUMBERS = "fiu"


@contextmanager
def filled(pattern: bytes, framework: Framework) -> Iterator[None]:
    """Fills new memory with a pattern of eight bytes for the length of a block; none if it is empty."""
    with ExitStack() as patches:
        if pattern:
            for target, name, fill in _makers(pattern, framework):
                maker = getattr(target, name, None)
                if maker is not None:
                    filling = _filling(maker, fill)
                    patches.enter_context(replaced(target, name, filling))
                    _let_scripts_know(maker, filling)
        yield


Fill = Callable[[Any], None]


def _makers(pattern: bytes, framework: Framework) -> Iterator[tuple[Any, str, Fill]]:
    """The functions that give memory as it is."""

    def fill_array(array: Any) -> None:
        if type(array) is np.ndarray and array.dtype.kind in _NUMBERS and array.size:
            memory = array.ravel(order="K").view(np.uint8)
            memory[...] = np.resize(np.frombuffer(pattern, np.uint8), memory.shape)

    # A compiler for Python knows NumPy's own functions alone.
    if importlib.util.find_spec("numba") is None:
        for name in ("empty", "empty_like"):
            yield np, name, fill_array
    if framework != "torch":
        return
    torch: Any = importlib.import_module("torch")
    word = int.from_bytes(pattern, "little", signed=True)

    def fill_tensor(tensor: Any) -> None:
        if type(tensor) is not torch.Tensor or tensor.dtype is torch.bool or not tensor.numel():
            return
        if torch.compiler.is_compiling() or tensor.layout is not torch.strided:
            return
        try:
            storage = tensor.untyped_storage()
            memory = torch.tensor([], dtype=torch.uint8, device=tensor.device).set_(storage)
        except (RuntimeError, NotImplementedError):
            # A tensor of a transformation has no memory of its own.
            return
        whole = memory.numel() // len(pattern) * len(pattern)
        memory[:whole].view(torch.int64).fill_(word)
        rest = torch.tensor(list(pattern), dtype=torch.uint8)
        memory[whole:].copy_(rest[: memory.numel() - whole])

    for name in ("empty", "empty_like", "empty_strided", "empty_permuted"):
        yield torch, name, fill_tensor
    for name in ("new_empty", "new_empty_strided"):
        yield torch.Tensor, name, fill_tensor


def _filling(maker: Callable[..., Any], fill: Fill) -> Callable[..., Any]:
    def made(*args: Any, **named: Any) -> Any:
        array = maker(*args, **named)
        if named.get("out") is None:
            fill(array)
        return array

    made.__name__ = made.__qualname__ = maker.__name__
    made.__doc__ = maker.__doc__
    return made


def _let_scripts_know(maker: Callable[..., Any], filling: Callable[..., Any]) -> None:
    """TorchScript takes the function for the operation that it stands for."""
    builtins: Any = sys.modules.get("torch.jit._builtins")
    operation = None if builtins is None else builtins._find_builtin(maker)
    if operation is not None:
        builtins._register_builtin(filling, operation)
