"""The tensors of a whole step in one file, each written once.

Two tensors are one if they are views of the same memory of the same form, or arrays of NumPy, and the bytes
are those that were written. So what flows from one module to the next is there once, and what
was changed in between twice.
"""

from __future__ import annotations

import importlib
import threading
import zlib
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from .. import tensors
from ..tensors import Bytes, Tensor
from . import host
from .host import Taken
from .kept import is_same
from .staged import Place, Staged

FILE = "tensors.safetensors"


@dataclass
class _Pooled:
    """A tensor of the pool."""

    taken: Taken
    # Keeps the address of the memory from being given to other memory.
    owner: Any


class Pool:
    """Tensors by the names that they have in their file.

    Elements go into the file of `folder` as they come, or stay in memory where there is none."""

    def __init__(self, folder: Callable[[], Path] | None, count: int) -> None:
        """Room for about `count` tensors."""
        self._folder = folder
        self._count = count
        self._staged: Staged | None = None
        self._pooled: dict[str, _Pooled] = {}
        self._known: dict[Hashable, str] = {}
        # Gradients of several devices come in several threads.
        self._lock = threading.Lock()
        self.bytes = 0
        self.finite = True

    def find(self, value: Any, taken: Taken) -> str | None:
        """The name of the same tensor, if it was added."""
        key, _ = _identity(value, taken)
        return self._find(key, taken)

    def _find(self, key: Hashable | None, taken: Taken) -> str | None:
        known = self._known.get(key) if key is not None else None
        if known is None or not self._has_bytes(known, taken.tensor.data):
            return None
        return known

    def add(self, value: Any, taken: Taken, *, looks: bool) -> str:
        """The name of a tensor, which is written unless it was; `looks` has its elements checked for NaN.

        Raises :class:`TensorFileError` if it cannot be written."""
        with self._lock:
            key, owner = _identity(value, taken)
            found = self._find(key, taken)
            if found is not None:
                return found
            if looks and self.finite:
                self.finite = taken.finite()
            name = f"t{len(self._pooled)}"
            self.bytes += taken.tensor.data.nbytes
            self._pooled[name] = _Pooled(self._written(taken), owner)
            if key is not None:
                self._known[key] = name
            return name

    def _written(self, taken: Taken) -> Taken:
        """The tensor without its elements, once they are in the file; else with elements of its own."""
        if self._folder is None:
            return taken.owned()
        place = self._file(self._folder).add(taken.tensor)
        return replace(host.without_elements(taken), place=place)

    def _file(self, folder: Callable[[], Path]) -> Staged:
        if self._staged is None:
            self._staged = Staged(folder() / FILE, self._count)
        return self._staged

    def _has_bytes(self, name: str, data: Bytes) -> bool:
        taken = self._pooled[name].taken
        if taken.place is None:
            return is_same(taken.tensor.data, data)
        assert self._staged is not None
        return self._staged.holds(taken.place, data)

    def finish(self, folder: Callable[[], Path], used: Collection[str]) -> None:
        """Has the tensors that are used in their file, and no others.

        Raises :class:`TensorFileError` if they cannot be written."""
        file = self._file(folder)
        unused = [name for name in self._pooled if name not in used]
        for name in unused:
            del self._pooled[name]
        staged = {name: one.taken.place for name, one in self._pooled.items() if one.taken.place}
        if unused and self._folder is not None:
            for name, place in file.close_gaps(staged).items():
                pooled = self._pooled[name]
                pooled.taken = replace(pooled.taken, place=place)
        places: dict[str, Place] = {}
        content: dict[str, Tensor] = {}
        metadata: dict[str, str] = {}
        for name, pooled in self._pooled.items():
            places[name] = pooled.taken.place or file.add(pooled.taken.tensor)
            content[name] = pooled.taken.tensor
            metadata |= pooled.taken.metadata(name)
            pooled.taken = host.without_elements(pooled.taken)
        file.finish(content, places, metadata)


def _identity(value: Any, taken: Taken) -> tuple[Hashable | None, Any]:
    """What tensors have in common that are the same view of the same memory, and what keeps it so.

    Arrays of NumPy are copies from a device: the same one if they have the same elements."""
    if isinstance(value, np.ndarray):
        return (value.shape, taken.dtype, taken.view, zlib.crc32(taken.tensor.data.data)), None
    if not tensors.is_torch(value):
        return None, None
    reductions: Any = importlib.import_module("torch.multiprocessing.reductions")
    owner = reductions.StorageWeakRef(value.untyped_storage())
    form = value.storage_offset(), tuple(value.shape), tuple(value.stride()), value.dtype
    return (owner.cdata, form, value.is_conj(), value.is_neg()), owner
