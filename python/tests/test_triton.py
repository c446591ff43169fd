"""Triton's interpreter, with what it lacks."""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
import pytest
from frameworks import need
from replay import Project, Server

from gradreplay import tensors, triton_bfloat16, triton_interpreter, triton_libdevice
from gradreplay.faults import Blame
from gradreplay.tensors import DTYPES

OPTIONS = "(framework='torch')"
KERNELS = """
import torch
import triton
import triton.language as tl

@triton.jit
def product(a, b, out, N: tl.constexpr):
    rows = tl.arange(0, N)[:, None] * N + tl.arange(0, N)[None, :]
    tl.store(out + rows, tl.dot(tl.load(a + rows), tl.load(b + rows), input_precision="ieee"))

@triton.jit
def plus(x, y):
    return x + y

@triton.jit
def narrow(a, b, cast, sum, product, scaled, quotient, least, fused, added, scanned, N: tl.constexpr):
    at = tl.arange(0, N)
    x = tl.load(a + at).to(tl.bfloat16)
    y = tl.load(b + at)
    tl.store(cast + at, x)
    tl.store(sum + at, x + y)
    tl.store(product + at, x * y)
    tl.store(scaled + at, x * 1.7)
    tl.store(quotient + at, x / y)
    tl.store(least + at, tl.where(x < y, x, y))
    tl.store(fused + at, tl.fma(x, y, x))
    tl.atomic_add(added + at % (N // 2), x)
    tl.store(scanned + at, tl.associative_scan(x, 0, plus))
"""
PRODUCT = """
def step(a, b):
    import torch
    from kernels import product
    out = torch.empty(16, 16)
    product[(1,)](a, b, out, N=16)
    return {"y": out}
"""


@pytest.fixture(autouse=True)
def triton() -> Any:
    need("torch")
    need("triton")


@pytest.fixture
def server(project: Project, servers: list[Server]) -> Any:
    def start(body: str, preload: str = "torch,triton,triton.language") -> Server:
        project.write_program(body, options=OPTIONS)
        servers.append(Server(project, preload))
        return servers[-1]

    return start


def matrices(name: str) -> dict[str, tensors.Tensor]:
    rng = np.random.RandomState(0)
    return {
        key: tensors.take(key, rng.standard_normal((16, 16)).astype(DTYPES[name].numpy()))
        for key in "ab"
    }


def test_a_product_in_float32_is_right(server: Any, project: Project) -> None:
    given = matrices("F32")
    done = server(PRODUCT).run(given, project.tree(kernels=KERNELS))
    assert done.code == 0, done.stderr
    wanted = given["a"].array() @ given["b"].array()
    np.testing.assert_allclose(done.array("y"), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("preload", ["torch,triton,triton.language", "torch"])
def test_a_product_in_bfloat16_adds_up_in_float32(
    server: Any, project: Project, preload: str
) -> None:
    # Whether the interpreter is there already, or is imported by the revision.
    given = matrices("BF16")
    done = server(PRODUCT, preload).run(given, project.tree(kernels=KERNELS))
    assert done.code == 0, done.stderr
    a, b = (given[name].array().astype(np.float32) for name in "ab")
    np.testing.assert_allclose(done.array("y"), a @ b, rtol=1e-5, atol=1e-5)
    assert done.answer == {}


NARROW = """
def step(a, b):
    import torch
    from kernels import narrow
    names = "cast sum product scaled quotient least fused added scanned".split()
    outs = {name: torch.zeros(256, dtype=torch.bfloat16) for name in names}
    narrow[(1,)](a, b, *outs.values(), N=256)
    return outs
"""


def test_arithmetic_in_bfloat16_is_rounded_once_to_nearest(server: Any, project: Project) -> None:
    import torch

    given = matrices("BF16")
    given["a"] = tensors.take("a", given["a"].array().astype(np.float32) * (1 + 2.0**-10))
    done = server(NARROW).run(given, project.tree(kernels=KERNELS))
    assert done.code == 0, done.stderr
    single = torch.tensor(given["a"].array().reshape(-1))
    a = single.bfloat16()
    b = torch.tensor(given["b"].array().astype(np.float32).reshape(-1)).bfloat16()
    fused = a.double() * b.double() + a.double()
    scanned = [a[0]]
    for element in a[1:]:
        scanned.append(scanned[-1] + element)
    wanted = {
        "cast": a,
        "sum": a + b,
        "product": a * b,
        "scaled": a * torch.tensor(1.7, dtype=torch.bfloat16),
        "quotient": a / b,
        "least": torch.minimum(a, b),
        "fused": fused.bfloat16(),
        # Both halves add to the first one.
        "added": torch.cat([a[:128] + a[128:], torch.zeros(128)]),
        "scanned": torch.stack(scanned),
    }
    for name, expected in wanted.items():
        got = torch.tensor(done.array(name).astype(np.float32))
        assert torch.equal(got, expected.float()), name
    assert done.answer == {}


def test_numbers_between_two_of_bfloat16_are_rounded_once() -> None:
    rng = np.random.RandomState(0)
    bits = rng.randint(0x0080, 0x7F00, 4096).astype(np.uint16)
    low, high = (triton_bfloat16.to_float32(each).astype(np.float64) for each in (bits, bits + 1))
    middle = (low + high) / 2
    even = np.where(bits % 2 == 0, bits, bits + 1)
    # A part of the distance that float32 does not hold.
    nudge = (high - low) * 2.0**-30
    for sign in (1, -1):
        rounded = [
            triton_bfloat16.to_bits(sign * x) for x in (middle, middle + nudge, middle - nudge)
        ]
        mask = np.uint16(0x8000 if sign < 0 else 0)
        for got, wanted in zip(rounded, (even, bits + 1, bits), strict=True):
            np.testing.assert_array_equal(got, wanted.astype(np.uint16) | mask)
    special = np.array([np.inf, -np.inf, np.nan, 0.0, -0.0, 1e300, 1e-300])
    wanted = np.array([0x7F80, 0xFF80, 0x7FC0, 0, 0x8000, 0x7F80, 0], np.uint16)
    np.testing.assert_array_equal(triton_bfloat16.to_bits(special), wanted)


def test_the_interpreter_rounds_as_asked(server: Any, project: Project) -> None:
    started = server(PRODUCT)
    tree, given = project.tree(kernels=KERNELS), matrices("F32")
    up, down = (started.run(given, tree, rounding=mode) for mode in ("up", "down"))
    assert up.answer == down.answer == {"rounding": "applied"}
    assert up.array("y").tobytes() != down.array("y").tobytes()


def test_functions_known_by_another_name_and_of_libdevice_are_called(
    server: Any, project: Project
) -> None:
    kernels = """
import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton.language.extra.libdevice import tanh
exp = tl.exp

@triton.jit
def kernel(a, out, N: tl.constexpr):
    at = tl.arange(0, N)
    v = tl.load(a + at)
    tl.store(out + at, tanh(v) + exp(v) * libdevice.rsqrt(1 + v * v))
"""
    body = """
    def step(a, b):
        import torch
        from kernels import kernel
        out = torch.empty(16)
        kernel[(1,)](a, out, N=16)
        return {"y": out}
    """
    given = matrices("F32")
    done = server(body).run(given, project.tree(kernels=kernels))
    assert done.code == 0, done.stderr
    v = given["a"].array()[0]
    wanted = np.tanh(v) + np.exp(v) / np.sqrt(1 + v * v)
    np.testing.assert_allclose(done.array("y"), wanted, rtol=1e-6)


def test_every_operation_of_bfloat16_is_one_of_the_interpreters() -> None:
    # A method that another version calls differently would slip through.
    builder = importlib.import_module("triton.runtime.interpreter").InterpreterBuilder
    assert [name for name in triton_bfloat16.ARITHMETIC if not hasattr(builder, name)] == []


def test_functions_of_libdevice_that_round_may_have_results_of_a_record() -> None:
    x = np.array([1.25, -2.5])
    with triton_libdevice.changing_rounding(lambda argument, rounded: rounded + 10 * argument):
        for name, rounded in (("rint", -2.0), ("nearbyint", -2.0), ("round", -3.0)):
            function = triton_libdevice.find(f"__nv_{name}f")
            assert function is not None and function(x).tolist() == [13.5, rounded - 25]
        floor = triton_libdevice.find("__nv_floorf")
        assert floor is not None and floor(x).tolist() == [1.0, -3.0]


def test_functions_of_libdevice_are_those_of_math() -> None:
    x = np.array([-2.5, -0.5, 0.0, 0.49999997, 0.5, 3.25], np.float32)
    n = np.array([0, 1, -8, 40, -(2**31), 2**31 - 1], np.int32)
    for symbol, operands, wanted in (
        ("__nv_erff", (x,), [math.erf(each) for each in x]),
        ("__nv_roundf", (x,), [-3, -1, 0, 0, 1, 3]),
        ("__nv_saturatef", (x,), [0, 0, 0, 0.49999997, 0.5, 1]),
        ("__nv_powif", (x, np.full(6, 3, np.int32)), x.astype(np.float64) ** 3),
        ("__nv_isnanf", (x,), [0] * 6),
        ("__nv_ffs", (n,), [0, 1, 4, 4, 32, 1]),
        ("__nv_popc", (n,), [0, 1, 29, 2, 1, 31]),
        ("__nv_clz", (n,), [32, 31, 0, 26, 0, 1]),
        ("__nv_brev", (np.array([1, 2], np.int32),), [-(2**31), 2**30]),
        ("__nv_mulhi", (n, n), [int(each) ** 2 >> 32 for each in n]),
        ("__nv_float2int_rd", (x,), [-3, -1, 0, 0, 0, 3]),
    ):
        function = triton_libdevice.find(symbol)
        assert function is not None, symbol
        np.testing.assert_allclose(function(*operands), wanted, rtol=1e-6, err_msg=symbol)
    assert triton_libdevice.find("__nv_fdiv_rz") is None


def test_integers_of_floats_beyond_them_are_the_nearest() -> None:
    far = np.array([1e20, -1e20, np.nan, 1.5])
    for dtype, wanted in (
        (np.int32, [2**31 - 1, -(2**31), 0, 1]),
        (np.uint64, [2**64 - 1, 0, 0, 1]),
    ):
        got = triton_libdevice._as_type(far, np.dtype(dtype))
        assert [int(each) for each in got] == wanted


@pytest.mark.parametrize(
    ("numpy", "triton", "refused"),
    [
        ("2.4.0", "3.6.0", True),
        ("2.3.5", "3.6.0", False),
        ("2.4.0", "3.7.0", False),
        ("3.0", "3.6.1+git", True),
    ],
)
def test_a_numpy_that_the_interpreter_does_not_work_with_is_refused(
    monkeypatch: Any, numpy: str, triton: str, refused: bool
) -> None:
    class Module:
        __version__ = triton

    monkeypatch.setattr(triton_interpreter.np, "__version__", numpy)
    monkeypatch.setitem(triton_interpreter.sys.modules, "triton", Module())
    if not refused:
        triton_interpreter.check_versions()
        return
    with pytest.raises(Blame, match=f"interpreter does not work with numpy {numpy}") as raised:
        triton_interpreter.check_versions()
    assert raised.value.party == "environment"
    assert raised.value.hint is not None and 'pip install "numpy<2.4"' in raised.value.hint


UNFIT = """
import numpy, triton
numpy.__version__, triton.__version__ = "2.4.0", "3.6.0"
"""


def test_versions_that_do_not_fit_end_a_launch(server: Any, project: Project) -> None:
    done = server(PRODUCT).run(matrices("F32"), project.tree(kernels=UNFIT + KERNELS))
    assert (done.code, done.error["fault"]) == (126, "environment")
    assert done.error["message"] == "triton 3.6.0's interpreter does not work with numpy 2.4.0"


def test_versions_that_do_not_fit_are_nothing_to_a_program_without_kernels(
    server: Any, project: Project
) -> None:
    body = """
    def step(a, b):
        import unfit
        return {"y": a @ b}
    """
    done = server(body).run(matrices("F32"), project.tree(unfit=UNFIT))
    assert done.code == 0, done.answer
