"""Another order of the programs of a grid: what sums by atomics round, and what a race decides."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from frameworks import load_kernels, need

from gradreplay import triton_interpreter, triton_order
from gradreplay.faults import Blame, Place

KERNELS = """
import triton
import triton.language as tl

@triton.jit
def listed(out, count):
    at = tl.atomic_add(count, 1)
    index = tl.program_id(0) * 100 + tl.program_id(1) * 10 + tl.program_id(2)
    tl.store(out + at, index)

@triton.jit
def after_the_first(flag):
    if tl.program_id(0) == 0:
        tl.atomic_xchg(flag, 1)
    while tl.atomic_add(flag, 0) == 0:
        pass
"""


@pytest.fixture
def kernels(tmp_path: Path) -> ModuleType:
    need("torch")
    need("triton")
    triton_interpreter.complete(Place(), "cpu")
    return load_kernels(tmp_path, KERNELS)


def launched(kernels: Any, order: str, grid: tuple[int, ...]) -> tuple[list[int], str]:
    import torch

    out = torch.zeros(16, dtype=torch.int32)
    with triton_order.ordered(order) as grids:
        kernels.listed[grid](out, torch.zeros(1, dtype=torch.int32))
    dims = [*grid, 1, 1][:3]
    return out[: dims[0] * dims[1] * dims[2]].tolist(), grids.effect


def test_every_program_runs_once_in_each_order(kernels: ModuleType) -> None:
    indices, effect = launched(kernels, "indices", (2, 3, 2))
    assert indices == [0, 1, 10, 11, 20, 21, 100, 101, 110, 111, 120, 121]
    assert effect == "applied"
    assert launched(kernels, "reversed", (2, 3, 2))[0] == indices[::-1]
    moved = launched(kernels, "5eed", (2, 3, 2))[0]
    assert sorted(moved) == indices and moved not in (indices, indices[::-1])
    assert launched(kernels, "indices", (2, 3, 2))[0] == indices


def test_a_grid_of_one_program_has_no_other_order(kernels: ModuleType) -> None:
    assert launched(kernels, "reversed", (1,)) == ([0], "unsupported")


def test_a_program_that_waits_for_an_earlier_one_ends(
    kernels: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    monkeypatch.setattr(triton_order, "_MOST_ACCESSES", 100)
    flag = torch.zeros(1, dtype=torch.int32)
    with (
        pytest.raises(Exception, match="comes later in this order"),
        triton_order.ordered("reversed"),
    ):
        kernels.after_the_first[(2,)](flag)
    with triton_order.ordered("indices"):
        kernels.after_the_first[(2,)](flag.zero_())


def test_an_order_that_is_none_is_refused() -> None:
    with pytest.raises(Blame, match="order `backwards`, which is not known"):
        triton_order.check("backwards")
