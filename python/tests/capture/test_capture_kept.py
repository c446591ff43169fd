"""Which inputs a call wrote to, by what they were before it."""

from __future__ import annotations

import gc
import os
import warnings
from pathlib import Path

import numpy as np
import pytest

from gradreplay import capture, tensors
from gradreplay.capture import disk
from gradreplay.capture.kept import _STRETCH, InMemory, Kept, OnDisk

SIZES = [0, 1, 7, 8, _STRETCH - 1, _STRETCH, 2 * _STRETCH + 13]


def kept(kind: str, arrays: dict[str, np.ndarray]) -> Kept:
    taken = {name: tensors.take(name, array.copy()) for name, array in arrays.items()}
    if kind == "in memory":
        return InMemory(taken)
    disk.put(Path(), {"inputs.safetensors": tensors.pieces(taken, {})})
    return OnDisk(Path("inputs.safetensors"), taken)


@pytest.mark.parametrize("kind", ["in memory", "on the disk"])
@pytest.mark.parametrize("size", SIZES)
def test_a_change_of_any_byte_is_seen(kind: str, size: int) -> None:
    x = (np.arange(size) % 251).astype(np.uint8)
    before = kept(kind, {"x": x, "wide": np.arange(3.0)})
    assert before.same("x", x)
    assert before.same("wide", np.arange(3.0).view(np.uint8))
    assert not before.same("x", np.append(x, np.uint8(0)))
    for place in {0, size // 2, size - 1} if size else ():
        changed = x.copy()
        changed[place] ^= 1
        assert not before.same("x", changed), place


def test_a_function_may_change_the_working_directory(tmp_path: Path) -> None:
    before = kept("on the disk", {"x": np.arange(3.0)})
    Path("elsewhere").mkdir()
    os.chdir("elsewhere")
    assert before.same("x", np.arange(3.0).view(np.uint8))


def test_no_call_leaves_a_file_open() -> None:
    copy = capture.function(np.copy, name="f", parameters=["x"])
    opened = len(os.listdir("/proc/self/fd"))
    with warnings.catch_warnings():
        warnings.simplefilter("error", ResourceWarning)
        with capture.step("fixtures/step{step}", step=0, strict=True):
            for _ in range(20):
                copy(np.zeros(3))
            gc.collect()
            assert len(os.listdir("/proc/self/fd")) <= opened + 1
