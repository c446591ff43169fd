"""A twin in float64 of Triton kernels that name float32."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from frameworks import need
from replay import Outcome, Project, Server

OPTIONS = "(framework='torch')"
HEAD = """
import torch
import triton
import triton.language as tl
from triton.language import float32 as f32
exp = tl.exp
"""
Replays = Any


@pytest.fixture(autouse=True)
def triton() -> Any:
    need("torch")
    need("triton")


@pytest.fixture
def replay(project: Project, servers: list[Server]) -> Replays:
    """Replays kernels on float64 inputs, as a twin or in another way."""
    project.write_program(
        "def step(**inputs):\n    from kernels import step\n    return step(**inputs)",
        options=OPTIONS,
    )
    servers.append(Server(project, "torch,triton,triton.language"))

    def made(
        kernels: str,
        *,
        precision: str = "float64",
        casts: str = "wide",
        rounding: str = "nearest",
        **given: Any,
    ) -> Outcome:
        inputs = project.inputs(**given)
        tree = project.tree(kernels=HEAD + kernels)
        return servers[0].run(inputs, tree, precision=precision, casts=casts, rounding=rounding)

    return made


def third(length: int = 16) -> npt.NDArray[np.float64]:
    """Numbers that float32 does not hold."""
    return np.arange(1, length + 1) / 3.0


def is_exact(array: npt.NDArray[Any], wanted: Any) -> bool:
    return array.dtype == np.float64 and bool(np.allclose(array, wanted, rtol=1e-14, atol=0))


UNARY = """
@triton.jit
def kernel(x, y, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(x + at)
    {body}
    tl.store(y + at, v)

def step(x):
    y = torch.empty(x.shape[0], dtype=torch.float32)
    kernel[(1,)](x, y, N=x.shape[0])
    return {{"y": y}}
"""


@pytest.mark.parametrize(
    ("body", "factor"),
    [
        ("v = v.to(tl.float32)", 1),
        ("v = v.to(f32)", 1),
        ("v = v.cast(tl.core.float32)", 1),
        ("v = tl.cast(v, tl.float32, bitcast=False)", 1),
        ("v = tl.zeros((N,), dtype=tl.float32) + v", 1),
        ("v = tl.full((N,), 1 / 3, tl.float32) * v", 1 / 3),
        ("v = v * 0.1", 0.1),
        ("v = v.to(tl.float64).to(tl.float32)", 1),
        ("v = tl.where(at >= 0, v, 0.0)", 1),
        ("v = tl.abs(-v)", 1),
        ("v = tl.flip(tl.flip(v, 0), 0)", 1),
        ("v = tl.sort(v, 0)", 1),
        ("v = tl.sqrt_rn(v * v)", 1),
        ("v = tl.load(x.to(tl.pointer_type(tl.float32)) + at)", 1),
        ("v = tl.where(x.dtype.element_ty == tl.float32, v, float('nan'))", 1),
        ("v = tl.where(v.dtype.is_fp32(), v, float('nan'))", 1),
        ("v = v / tl.sum(exp(v) / exp(v), 0)", 1 / 16),
    ],
)
def test_float32_of_a_kernel_is_float64_in_a_twin(
    replay: Replays, body: str, factor: float
) -> None:
    done = replay(UNARY.format(body=body), x=third())
    assert done.code == 0, done.stderr
    assert is_exact(done.array("y"), third() * factor)


def test_casts_stay_where_the_harness_keeps_them(replay: Replays) -> None:
    kernels = UNARY.format(body="v = v.to(tl.float32)")
    done = replay(kernels, x=third(), casts="kept")
    assert done.array("y").tolist() == third().astype(np.float32).tolist()


def test_a_product_accumulates_in_float64(replay: Replays) -> None:
    kernels = """
@triton.jit
def kernel(a, b, c, y, N: tl.constexpr):
    at = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    acc = tl.zeros((N, N), dtype=tl.float32)
    acc = tl.dot(tl.load(a + at), tl.load(b + at), acc, input_precision="ieee", out_dtype=tl.float32)
    acc += tl.dot(tl.load(a + at), tl.load(b + at), input_precision="ieee")
    tl.store(y + at, acc)
    tl.atomic_add(c + at, acc, sem="relaxed")
    tl.atomic_max(c + at, acc * 3)

def step(a, b):
    y, c = torch.empty_like(a), torch.ones_like(a, dtype=torch.float32)
    kernel[(1,)](a, b, c, y, N=16)
    return {"y": y, "c": c}
"""
    a = third(256).reshape(16, 16)
    done = replay(kernels, a=a, b=a.T.copy())
    assert done.code == 0, done.stderr
    assert is_exact(done.array("y"), 2 * (a @ a.T))
    assert is_exact(done.array("c"), 6 * (a @ a.T))


def test_bits_of_a_number_are_those_of_float32(replay: Replays) -> None:
    kernels = """
@triton.jit
def kernel(x, bits, back, N: tl.constexpr):
    at = tl.arange(0, N)
    key = tl.load(x + at).to(tl.float32).to(tl.int32, bitcast=True)
    tl.store(bits + at, key)
    tl.store(back + at, key.to(tl.float32, bitcast=True))

def step(x):
    bits, back = torch.empty(16, dtype=torch.int32), torch.empty(16)
    kernel[(1,)](x, bits, back, N=16)
    return {"bits": bits, "back": back}
"""
    done = replay(kernels, x=third())
    rounded = third().astype(np.float32)
    assert done.array("bits").tolist() == rounded.view(np.int32).tolist()
    assert done.array("back").tolist() == rounded.tolist()


def test_memory_that_stays_in_float32_is_read_and_written_in_its_width(replay: Replays) -> None:
    kernels = """
import numpy as np

@triton.jit
def kernel(x, table, slots, y, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(table + at, at < N - 1, other=1.0)
    tl.store(table + at, v + tl.load(x + at))
    tl.atomic_add(table + at, 1.0)
    kept = slots.to(tl.pointer_type(tl.float32))
    tl.store(kept + at, v)
    tl.store(y + at, tl.load(kept + at))

def step(x):
    table = torch.from_numpy(np.ones(17, np.float32))
    slots = torch.zeros(17, dtype=torch.int32)
    y = torch.empty(16)
    kernel[(1,)](x, table, slots, y, N=16)
    return {"y": y, "table": table.double(), "slots": slots}
"""
    done = replay(kernels, x=third())
    assert done.code == 0, done.stderr
    assert done.array("y").tolist() == [1.0] * 16
    assert done.array("slots").tolist() == [0x3F800000] * 16 + [0]
    wanted = ((1 + third()).astype(np.float32) + 1).astype(np.float32)
    assert done.array("table").tolist() == [*wanted.tolist(), 1.0]


def test_wide_memory_is_not_taken_for_integers(replay: Replays) -> None:
    body = "v = tl.load(x.to(tl.pointer_type(tl.int32)) + at)"
    done = replay(UNARY.format(body=body), x=third())
    assert (done.code, done.error["fault"]) == (125, "revision")
    assert "takes memory of float32 for int32" in done.error["message"]


def test_random_numbers_are_those_of_the_native_replay(replay: Replays) -> None:
    kernels = UNARY.format(body="v = tl.where(tl.rand(7, at) > 0.5, v / 0.5, 0.0)")
    native = replay(kernels, precision="native", x=third().astype(np.float32))
    wide = replay(kernels, x=third())
    kept = native.array("y") != 0
    assert 0 < kept.sum() < 16
    assert is_exact(wide.array("y"), np.where(kept, 2 * third(), 0))


def test_names_of_torch_mean_float64(replay: Replays) -> None:
    kernels = """
KNOWN = {torch.float32: tl.float32, torch.float16: tl.float16}

class Norm(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.tensor([1.0]))

    def forward(self, x):
        return self.scale * x

def step(x):
    assert x.dtype == torch.float32 and KNOWN[x.dtype] is tl.float32
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = Norm().float()(x.float())
    y = y.to(torch.float) + torch.finfo(torch.float32).eps
    return {"y": y.detach(), "eps": torch.tensor(torch.finfo(x.dtype).eps)}
"""
    done = replay(kernels, x=third())
    assert done.code == 0, done.stderr
    eps = float(np.finfo(np.float32).eps)
    assert is_exact(done.array("y"), third() + eps)
    assert done.array("eps") == eps


def test_a_later_replay_of_the_process_has_float32_again(replay: Replays) -> None:
    need("torch")
    import torch
    import triton.language as tl

    from gradreplay import widening

    before = torch.float32, tl.float32.primitive_bitwidth, torch.finfo
    with widening.widened("torch"):
        assert torch.float32 is torch.float64
    assert (torch.float32, tl.float32.primitive_bitwidth, torch.finfo) == before


@pytest.mark.parametrize("name", ["rint", "nearbyint", "round"])
def test_libdevice_that_rounds_to_integers_passes_numbers_where_that_is_asked_for(
    replay: Replays, name: str
) -> None:
    kernels = "from triton.language.extra import libdevice\n"
    kernels += UNARY.format(body=f"v = libdevice.{name}(v)")
    done = replay(kernels, x=third())
    assert done.array("y").tolist() == np.rint(third()).tolist(), done.stderr
    passed = replay(kernels, x=third(), rounding="passed")
    assert is_exact(passed.array("y"), third())
