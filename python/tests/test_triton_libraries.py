"""Kernels as public libraries write them replay at the first try, in float32 and in bfloat16."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import pytest
import triton_libraries as libraries
from frameworks import need
from replay import Outcome, Project, Server

from gradreplay import tensors

Case = Callable[..., Outcome]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    """Replays a package with these inputs, by one server for all."""
    need("torch")
    need("triton")
    project = Project(tmp_path_factory.mktemp("libraries"))
    body = "def step(**inputs):\n    from case import step\n    return step(**inputs)"
    project.write_program(body, options="(framework='torch')")
    server = Server(project, "torch,triton,triton.language")

    def replayed(files: Mapping[str, str], inputs: Mapping[str, Any], **modes: Any) -> Outcome:
        given = {name: tensors.take(name, value) for name, value in inputs.items()}
        tree = project.root / f"tree{server.runs}"
        for name, text in files.items():
            path = tree / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return server.run(given, tree, **modes)

    yield replayed
    assert server.close() == 0


def normal(*shape: int, seed: int = 0) -> Any:
    import torch

    numbers = np.random.RandomState(seed).standard_normal(shape)
    return torch.tensor(numbers, dtype=torch.float32)


def hold(done: Outcome, wanted: Mapping[str, Any], tolerance: float = 2e-5) -> None:
    """The outputs of a replay against those of PyTorch."""
    assert done.code == 0, done.stderr
    for name, reference in wanted.items():
        got = np.asarray(done.array(name), np.float64)
        reference = reference.detach().double().numpy()
        worst = np.abs(got - reference).max() / np.abs(reference).max()
        assert worst <= tolerance, (name, worst)


def with_gradients(function: Callable[..., Any], inputs: tuple[Any, ...], upstream: Any) -> Any:
    import torch

    leaves = [tensor.clone().requires_grad_() for tensor in inputs]
    result = function(*leaves)
    return result, *torch.autograd.grad(result, leaves, upstream)


def in_dtype(inputs: Mapping[str, Any], dtype: str, kept: tuple[str, ...] = ()) -> dict[str, Any]:
    import torch

    wanted = getattr(torch, dtype)
    return {
        name: value.to(wanted) if value.is_floating_point() and name not in kept else value
        for name, value in inputs.items()
    }


# Digits of a result that is rounded to bfloat16.
TOLERANCES = {"float32": 2e-5, "bfloat16": 1e-2, "float64": 1e-12}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_an_autotuned_rms_norm(run: Case, dtype: str) -> None:
    import torch

    inputs = {"x": normal(5, 20), "w": 1 + normal(20, seed=1), "dy": normal(5, 20, seed=2)}
    inputs = in_dtype(inputs, dtype)
    done = run(libraries.RMS_NORM, inputs)
    x, w, dy = (value.double() for value in inputs.values())
    wanted = with_gradients(
        lambda x, w: torch.nn.functional.rms_norm(x, (20,), w, 1e-6), (x, w), dy
    )
    hold(done, dict(zip(("y", "dx", "dw"), wanted, strict=True)), TOLERANCES[dtype])
    assert done.answer == {"order": "applied"}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_fused_cross_entropy(run: Case, dtype: str) -> None:
    import torch

    target = torch.tensor([3, 0, -100, 36, 7])
    x = in_dtype({"x": normal(5, 37)}, dtype)["x"]
    upstream = torch.tensor(1.25)
    done = run(libraries.CROSS_ENTROPY, {"x": x, "target": target, "dloss": upstream})
    entropy = torch.nn.functional.cross_entropy
    wanted = with_gradients(lambda x: entropy(x, target), (x.double(),), upstream.double())
    hold(done, dict(zip(("loss", "dx"), wanted, strict=True)), TOLERANCES[dtype])


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_a_swiglu_with_libdevice(run: Case, dtype: str) -> None:
    import torch

    inputs = in_dtype({"a": normal(3, 20), "b": normal(3, 20, seed=1)}, dtype)
    done = run(libraries.SWIGLU, inputs)
    a, b = (value.double() for value in inputs.values())
    gelu = torch.nn.functional.gelu(a, approximate="tanh")
    wanted = {"swiglu": torch.nn.functional.silu(a) * b, "geglu": gelu * b}
    hold(done, wanted, TOLERANCES[dtype])


def test_a_rotary_embedding_of_a_package_that_imports_what_is_missing(run: Case) -> None:
    import torch

    angle = normal(9, 4, seed=1)
    inputs = {
        "x": normal(9, 2, 8),
        "cos": angle.cos(),
        "sin": angle.sin(),
        "dout": normal(9, 2, 8, seed=2),
    }
    done = run(libraries.ROTARY, inputs)
    cos, sin = (inputs[name][:, None, :].double() for name in ("cos", "sin"))

    def turned(x: Any, sin: Any) -> Any:
        left, right = x.double().chunk(2, -1)
        return torch.cat([left * cos - right * sin, left * sin + right * cos], -1)

    hold(done, {"out": turned(inputs["x"], sin), "dx": turned(inputs["dout"], -sin)})
    assert done.answer is not None
    [note] = done.answer["notes"]
    missing = "No module named 'a_framework_that_is_missing'"
    assert note == f"`rotary/__init__.py` ends at its line 3: ModuleNotFoundError: {missing}"


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float64"])
def test_a_chunked_linear_attention_with_a_module_of_helpers(run: Case, dtype: str) -> None:
    import torch

    inputs = {"q": normal(40, 16), "k": normal(40, 16, seed=1), "v": normal(40, 24, seed=2)}
    inputs["g"] = -torch.nn.functional.softplus(normal(40, seed=3)) / 8
    modes = {"precision": "float64", "casts": "wide"} if dtype == "float64" else {}
    inputs = in_dtype(inputs, dtype, ("g",) if dtype == "bfloat16" else ())
    # Gates are summed within chunks of 16.
    g = inputs["g"].double()
    sums = torch.cat([part.cumsum(0) for part in g.split(16)])
    done = run(libraries.LINEAR_ATTENTION, {**inputs, "g": sums.to(inputs["g"].dtype)}, **modes)
    q, k, v = (inputs[name].double() for name in "qkv")
    scores = torch.tril(q @ k.T) / 4
    total = g.cumsum(0)
    decays = torch.tril(torch.exp(total[:, None] - total[None, :]))
    wanted = {"plain": scores @ v, "gated": (scores * decays) @ v}
    hold(done, wanted, 3e-2 if dtype == "bfloat16" else TOLERANCES[dtype])


def test_a_layer_norm_that_asks_for_multiprocessors(run: Case) -> None:
    import torch

    inputs = {"x": normal(19, 24), "w": 1 + normal(24, seed=1), "b": normal(24, seed=2)}
    inputs["dy"] = normal(19, 24, seed=3)
    done = run(libraries.LAYER_NORM, inputs)
    x, w, b, dy = (value.double() for value in inputs.values())
    norm = torch.nn.functional.layer_norm
    wanted = with_gradients(lambda x, w, b: norm(x, (24,), w, b, 1e-5), (x, w, b), dy)
    hold(done, dict(zip(("y", "dx", "dw", "db"), wanted, strict=True)))


# Who is to blame


BROKEN = {
    "kernels.py": """
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def helper(x):
            return tl.reshape(x, (3, 5))

        @triton.jit
        def misshapen(x, out, N: tl.constexpr):
            at = tl.arange(0, N)
            tl.store(out + at, helper(tl.load(x + at)))

        @triton.jit
        def misspelt(x, out, N: tl.constexpr):
            tl.store(out, undefined)

        @triton.jit
        def asserting(x, out, N: tl.constexpr):
            tl.static_assert(N > 16, "too small")

        @triton.jit
        def assembled(x, out, N: tl.constexpr):
            y = tl.inline_asm_elementwise(
                "mov.b32 $0, $1;", "=r,r", [tl.load(x)], dtype=tl.float32, is_pure=True, pack=1
            )
            tl.store(out, y)
    """,
}
BROKEN_CASE = """
    import torch
    import kernels

    def step(x):
        out = torch.empty_like(x)
        kernels.{name}[(1,)](x, out, N=16)
        return {{"y": out}}
"""


@pytest.mark.parametrize(
    ("name", "code", "fault", "message"),
    [
        ("misshapen", 125, "revision", "kernels.py:8: ValueError: Shape element 0"),
        ("misspelt", 125, "revision", "kernels.py:17: NameError: name 'undefined' is not defined"),
        ("asserting", 125, "revision", "kernels.py:21: AssertionError: too small"),
        ("assembled", 126, "environment", "kernels.py:25: NotImplementedError: inline_asm not"),
    ],
)
def test_a_kernel_that_fails_is_told_by_its_own_line(
    run: Case, name: str, code: int, fault: str, message: str
) -> None:
    done = run({**BROKEN, "case.py": BROKEN_CASE.format(name=name)}, {"x": normal(16)})
    assert (done.code, done.error["fault"]) == (code, fault), done.stderr
    assert done.error["message"].startswith(message)
