"""Triton's interpreter: right in float32, refused where it is wrong."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from frameworks import need
from replay import Project, Server

from gradreplay import tensors, triton_interpreter
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
def twice(a, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(a + at) + tl.load(a + at))

@triton.jit
def narrow(a, out, N: tl.constexpr):
    at = tl.arange(0, N)
    tl.store(out + at, tl.load(a + at).to(tl.bfloat16))
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
def test_a_product_in_bfloat16_is_refused(server: Any, project: Project, preload: str) -> None:
    # Whether the interpreter is there already, or is imported by the revision.
    done = server(PRODUCT, preload).run(matrices("BF16"), project.tree(kernels=KERNELS))
    assert (done.code, done.outputs, done.error["fault"]) == (126, None, "environment")
    assert "interpreter computes tl.dot of bfloat16 on the raw bits" in done.error["message"]
    assert done.error["hint"].startswith("replay on a GPU (--backend cuda)")


def test_a_sum_in_bfloat16_is_refused(server: Any, project: Project) -> None:
    body = """
    def step(a, b):
        import torch
        from kernels import twice
        out = torch.empty(16, dtype=torch.bfloat16)
        twice[(1,)](a, out, N=16)
        return {"y": out}
    """
    done = server(body).run(matrices("BF16"), project.tree(kernels=KERNELS))
    assert (done.code, done.error["fault"]) == (126, "environment")
    assert "computes `fadd` of bfloat16 on the raw bits" in done.error["message"]


def test_a_cast_to_bfloat16_is_noted(server: Any, project: Project) -> None:
    body = """
    def step(a, b):
        import torch
        from kernels import narrow
        out = torch.empty(16, dtype=torch.bfloat16)
        narrow[(1,)](a, out, N=16)
        return {"y": out}
    """
    done = server(body).run(matrices("F32"), project.tree(kernels=KERNELS))
    assert done.code == 0, done.stderr
    [line] = done.answer["notes"]
    assert "interpreter cuts off where it casts to bfloat16" in line


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


def test_every_operation_that_is_guarded_is_one_of_the_interpreters() -> None:
    # A method that another version calls differently would slip through.
    builder = importlib.import_module("triton.runtime.interpreter").InterpreterBuilder
    names = [*triton_interpreter._ARITHMETIC, *triton_interpreter._CASTS]
    assert [name for name in names if not hasattr(builder, name)] == []


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

    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(triton_interpreter.np, "__version__", numpy)
    monkeypatch.setitem(triton_interpreter.sys.modules, "triton", Module())
    if not refused:
        triton_interpreter.check_versions()
        return
    with pytest.raises(Blame, match=f"interpreter does not work with numpy {numpy}") as raised:
        triton_interpreter.check_versions()
    assert raised.value.party == "environment"
    assert raised.value.hint is not None and 'pip install "numpy<2.4"' in raised.value.hint
