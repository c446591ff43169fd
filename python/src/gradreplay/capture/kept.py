"""A call's inputs as they were before it, to find those that it wrote to."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from .. import tensors
from ..tensors import Bytes, Tensor

# What is read and compared at a time: it stays in the processor's cache. A multiple of 8.
_STRETCH = 1 << 18


class InMemory:
    """Inputs of which there are copies."""

    def __init__(self, inputs: Mapping[str, Tensor]) -> None:
        self._inputs = inputs

    def same(self, name: str, data: Bytes) -> bool:
        """Whether the bytes of an input are `data`."""
        return is_same(self._inputs[name].data, data)


class OnDisk:
    """Inputs that are in a file, which stays open as long as this: the process may change its folder."""

    def __init__(self, path: Path, inputs: Mapping[str, Tensor]) -> None:
        self._file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        length = int.from_bytes(os.pread(self._file, 8, 0), "little")
        self._places = {
            name: (8 + length + start, 8 + length + end)
            for name, (start, end) in tensors.places(inputs).items()
        }

    def __del__(self) -> None:
        # It is not there if the file could not be opened.
        if hasattr(self, "_file"):
            os.close(self._file)

    def same(self, name: str, data: Bytes) -> bool:
        """Whether the bytes of an input are `data`.

        Raises :class:`OSError` if they cannot be read."""
        start, end = self._places[name]
        if end - start != data.size:
            return False
        return file_holds(self._file, start, data)


Kept = InMemory | OnDisk


def is_same(before: Bytes, data: Bytes) -> bool:
    """Whether two tensors have the same bytes."""
    starts = range(0, data.size, _STRETCH)
    return before.size == data.size and all(
        _equal(before[at : at + _STRETCH], data[at : at + _STRETCH]) for at in starts
    )


def file_holds(file: int, start: int, data: Bytes) -> bool:
    """Whether `data` stands in an open file from byte `start` on.

    Raises :class:`OSError` if it cannot be read."""
    # Reading costs less than mapping, where each page is fetched when it is met.
    before = np.empty(min(_STRETCH, data.size), np.uint8)
    at = 0
    while at < data.size:
        wanted = before[: data.size - at]
        count = os.preadv(file, [wanted.data], start + at)
        if count == 0 or not _equal(wanted[:count], data[at : at + count]):
            return False
        at += count
    return True


def _equal(left: Bytes, right: Bytes) -> bool:
    if left.size % 8 == 0:
        left, right = left.view("<u8"), right.view("<u8")
    return bool((left == right).all())
