"""Races between the programs of a Triton grid, exactly: each at its line, and none where there is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from frameworks import load_kernels, need
from replay import Project, Server

from gradreplay import triton_interpreter
from gradreplay.faults import Place
from gradreplay.triton_accesses import Recorder

KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def summed(x, out, N: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), 0)
    before = tl.load(out)
    tl.store(out, before + v)  # sum

@triton.jit
def atomically(x, out, N: tl.constexpr):
    v = tl.sum(tl.load(x + tl.program_id(0) * N + tl.arange(0, N)), 0)
    tl.atomic_add(out, v)

@triton.jit
def put(pointer, value, mask):
    tl.store(pointer, value, mask)  # put

@triton.jit
def overlapping(x, out, step, N: tl.constexpr):
    at = tl.arange(0, N)
    row = tl.program_id(0)
    put(out + row * step + at, tl.load(x + row * N + at), at < 12)

@triton.jit
def constant(out, N: tl.constexpr):
    tl.store(out + tl.arange(0, N), 1.0)

@triton.jit
def locked(x, out, lock, N: tl.constexpr, SEM: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + tl.program_id(0) * N + at)
    while tl.atomic_cas(lock, 0, 1) == 1:
        pass
    tl.store(out + at, tl.load(out + at) + v)
    tl.atomic_xchg(lock, 0, sem=SEM)

@triton.jit
def last(x, parts, count, out, N: tl.constexpr, PROGRAMS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(parts + row, tl.sum(tl.load(x + row * N + tl.arange(0, N)), 0))
    if tl.atomic_add(count, 1) == PROGRAMS - 1:
        tl.store(out, tl.sum(tl.load(parts + tl.arange(0, PROGRAMS)), 0))

@triton.jit
def scattered(x, index, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + tl.load(index + at), tl.load(x + at))  # scatter

@triton.jit
def mixed(x, out, N: tl.constexpr):
    at = tl.arange(0, N)
    if tl.program_id(0) == 0:
        tl.store(out + at, tl.load(x + at))
    else:
        tl.store(out.to(tl.pointer_type(tl.int8)) + 4 * at + 3, at.to(tl.int8))
"""
Found = Callable[..., list[dict[str, Any]]]


@pytest.fixture(autouse=True)
def triton() -> None:
    need("torch")
    need("triton")
    triton_interpreter.complete(Place(), "cpu")


@pytest.fixture
def kernels(tmp_path: Path) -> ModuleType:
    return load_kernels(tmp_path, KERNELS)


@pytest.fixture
def found(tmp_path: Path) -> Found:
    """The findings of launches, with these tensors as the harness's."""

    def recorded(launch: Callable[[], Any], **tensors: Any) -> list[dict[str, Any]]:
        recorder = Recorder(Place(tmp_path))
        with recorder.recording():
            launch()
        answer = recorder.as_json({}, tensors)
        assert answer["left_out"] == 0
        findings: list[dict[str, Any]] = answer["findings"]
        return findings

    return recorded


def line(mark: str) -> str:
    [number] = [at for at, text in enumerate(KERNELS.splitlines(), 1) if text.endswith(f"# {mark}")]
    return f"kernels.py:{number}"


def test_a_sum_without_an_atomic_races_at_its_line(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    x, out = torch.ones(64), torch.zeros(2)
    findings = found(lambda: kernels.summed[(4,)](x, out[1:], N=16), out=out)
    assert {finding["kind"] for finding in findings} == {"race"}
    both = next(one for one in findings if one["first"]["writes"] and one["second"]["writes"])
    spot = {"writes": True, "atomic": False, "site": line("sum"), "name": "summed"}
    assert both["first"] == {**spot, "block": [0, 0, 0]}
    assert both["second"] == {**spot, "block": [1, 0, 0]}
    place = {key: both[key] for key in ("memory", "offset", "index", "bytes", "count")}
    assert place == {"memory": "out", "offset": 4, "index": [1], "bytes": 4, "count": 3}


def test_a_sum_with_an_atomic_does_not_race(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    out = torch.zeros(1)
    assert found(lambda: kernels.atomically[(4,)](torch.ones(64), out, N=16)) == []


def test_launches_are_in_order(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    x, out = torch.ones(64), torch.zeros(1)

    def twice() -> None:
        for _ in range(2):
            kernels.summed[(1,)](x, out, N=16)

    assert found(twice) == []


def test_rows_that_overlap_race_in_the_helper_that_stores_them(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    x, out = torch.arange(64.0), torch.zeros(64)
    assert found(lambda: kernels.overlapping[(4,)](x, out, 12, N=16)) == []
    [race] = found(lambda: kernels.overlapping[(4,)](x, out, 11, N=16))
    assert (race["kind"], race["first"]["site"], race["count"]) == ("race", line("put"), 3)
    assert (race["memory"], race["index"]) == ("`out` of overlapping", [11])


def test_the_same_value_of_all_is_a_note(kernels: Any, found: Found) -> None:
    out = kernels.torch.zeros(16)
    [note] = found(lambda: kernels.constant[(4,)](out, N=16))
    assert (note["kind"], note["count"]) == ("same_value", 48)


@pytest.mark.parametrize(("sem", "races"), [("acq_rel", 0), ("release", 0), ("relaxed", 3)])
def test_a_lock_orders_programs_if_it_is_released(
    kernels: Any, found: Found, sem: str, races: int
) -> None:
    torch = kernels.torch
    x, out, lock = torch.arange(64.0), torch.zeros(16), torch.zeros(1, dtype=torch.int32)
    findings = found(lambda: kernels.locked[(4,)](x, out, lock, N=16, SEM=sem))
    assert [finding["kind"] for finding in findings] == ["race"] * races


def test_the_last_program_may_read_what_the_others_counted_in(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    parts, out, count = torch.zeros(4), torch.zeros(1), torch.zeros(1, dtype=torch.int32)
    launch = kernels.last[(4,)]
    x = torch.ones(64)
    assert found(lambda: launch(x, parts, count, out, N=16, PROGRAMS=4)) == []
    assert out.tolist() == [64.0]


def test_lanes_of_one_store_race_on_an_element(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    x, out, index = torch.arange(16.0), torch.zeros(16), torch.arange(16) // 2
    [race] = found(lambda: kernels.scattered[(1,)](x, index, out, N=16), out=out)
    assert (race["kind"], race["second"]["site"], race["count"]) == ("race", line("scatter"), 8)
    assert found(lambda: kernels.scattered[(1,)](x, torch.arange(16), out, N=16)) == []


def test_accesses_of_other_widths_meet(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    x, out = torch.ones(16), torch.zeros(16)
    [race] = found(lambda: kernels.mixed[(2,)](x, out, N=16))
    assert (race["kind"], race["bytes"], race["count"]) == ("race", 1, 16)


def test_the_element_is_told_where_a_tensor_is_strided(kernels: Any, found: Found) -> None:
    torch = kernels.torch
    flat = torch.zeros(64)
    findings = found(
        lambda: kernels.summed[(2,)](torch.ones(64), flat[13:], N=16), y=flat.view(8, 8).T
    )
    assert {tuple(finding["index"]) for finding in findings} == {(5, 1)}


def test_a_replay_answers_with_its_findings(project: Project, servers: list[Server]) -> None:
    project.write_program(
        """
        def step(x):
            import torch
            from kernels import summed, constant
            out = torch.zeros(1)
            if x.shape[0] > 16:
                summed[(x.shape[0] // 16,)](x, out, N=16)
            return {"out": out}
        """,
        options="(framework='torch')",
    )
    servers.append(Server(project, "torch,triton,triton.language"))
    np = pytest.importorskip("numpy")
    tree = project.tree(kernels=KERNELS)
    given = project.inputs(x=np.ones(32, np.float32))
    done = servers[0].run(given, tree, check="accesses")
    assert done.code == 0 and done.answer is not None, done.stderr
    findings = done.answer["accesses"]["findings"]
    assert {(one["kind"], one["memory"], one["second"]["name"]) for one in findings} == {
        ("race", "out", "summed")
    }
    assert servers[0].run(given, tree).answer == {"order": "applied"}
    done = servers[0].run(project.inputs(x=np.ones(16, np.float32)), tree, check="accesses")
    assert done.answer is not None
    reason = "no Triton kernel ran in its interpreter, which alone shows accesses"
    assert done.answer["accesses"] == {"unchecked": reason}
