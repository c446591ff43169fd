"""PyTorch: true strides, dtypes, surroundings and rounding of its arrays."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest
from frameworks import need
from replay import Project, Server

from gradreplay import generators, tensors
from gradreplay.settings import settings
from gradreplay.tensors import DTYPES, Layout, Tensor

OPTIONS = "(framework='torch')"


@pytest.fixture(autouse=True)
def torch() -> Any:
    need("torch")
    import torch

    return torch


def test_tensors_of_every_dtype_are_taken_and_placed_with_their_bits(torch: Any) -> None:
    for dtype in DTYPES.values():
        values = (np.arange(6) % 2).reshape(2, 3).astype(dtype.numpy())
        tensor = tensors.take("x", values)
        for surroundings in ("none", "nan"):
            placed = tensors.place("x", tensor, "torch", surroundings=surroundings)
            assert placed.dtype == getattr(torch, dtype.torch_name)
            taken = tensors.take("x", placed)
            assert (taken.dtype, taken.shape) == (dtype, (2, 3))
            assert taken.data.tobytes() == tensor.data.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
def test_scalars_and_empty_tensors_are_taken_and_placed(torch: Any, shape: tuple[int, ...]) -> None:
    tensor = tensors.take("x", np.zeros(shape, np.float32))
    placed = tensors.place("x", tensor, "torch")
    assert tuple(placed.shape) == shape
    assert tensors.take("x", placed).data.tobytes() == tensor.data.tobytes()


def test_layouts_of_views_are_those_of_torch(torch: Any) -> None:
    base = torch.arange(24, dtype=torch.float32).reshape(2, 3, 4)
    for view, layout in [
        (base, None),
        (base.transpose(0, 2), Layout((1, 4, 12), 24)),
        (base[:, 1:], Layout((12, 4, 1), 20, offset=4)),
        (base.sum().expand(2, 3), Layout((0, 0), 1)),
        (base[:1], Layout((12, 4, 1), 24)),
    ]:
        taken = tensors.take("x", view)
        assert taken.layout == layout
        for surroundings in ("none", "nan"):
            placed = tensors.place("x", taken, "torch", surroundings=surroundings)
            assert torch.equal(placed, view)
            assert placed.stride() == view.stride() or layout is None
            assert placed.storage_offset() == view.storage_offset()


def test_a_parameter_and_a_negated_view_are_taken(torch: Any) -> None:
    parameter = torch.nn.Parameter(torch.ones(3))
    assert tensors.take("x", parameter).array().tolist() == [1, 1, 1]
    negated = torch.ones(3, dtype=torch.complex64).conj().imag
    assert tensors.take("x", negated).array().tolist() == [0, 0, 0]


def test_what_has_no_elements_is_an_error(torch: Any) -> None:
    with pytest.raises(tensors.TensorError, match="layout torch.sparse_coo"):
        tensors.take("x", torch.ones(2, 2).to_sparse())
    with pytest.raises(tensors.TensorError, match="on device `meta`"):
        tensors.take("x", torch.ones(2, device="meta"))
    with pytest.raises(tensors.TensorError, match="complex64, which is not supported"):
        tensors.take("x", torch.ones(2, dtype=torch.complex64))


def test_a_harness_of_torch_sees_strides_and_takes_gradients(project: Project) -> None:
    project.write_program(
        """
        def step(x, dout):
            print(x.stride(), dout.stride())
            x.requires_grad_()
            out = (x * x).transpose(0, 1)
            return {"dx": torch.autograd.grad(out, x, dout)[0]}
        """,
        options=OPTIONS,
        top="import torch\n",
    )
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    expanded = Tensor(
        DTYPES["F32"], (3, 2), np.ones(6, np.float32).view(np.uint8), Layout((0, 0), 1)
    )
    done = project.run({"x": tensors.take("x", x), "dout": expanded})
    assert done.stdout == "(3, 1) (0, 0)\n", done.stderr
    np.testing.assert_array_equal(done.array("dx"), 2 * x)


def test_a_read_outside_of_a_torch_tensor_shows(project: Project, servers: list[Server]) -> None:
    project.write_program(
        """
        def step(x):
            return {"y": x.as_strided((4, 4), (16, 4), x.storage_offset()).sum()}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "torch"))
    given = project.inputs(x=np.ones((4, 4), np.float32))
    found = [servers[0].run(given, surroundings=mode) for mode in ("none", "zero", "nan")]
    assert [done.answer for done in found] == [{}] + [{"surroundings": "applied"}] * 2
    assert [float(done.array("y")) for done in found[:2]] == [4, 4]
    assert np.isnan(float(found[2].array("y")))


def test_torch_rounds_as_asked_in_a_forked_child(project: Project, servers: list[Server]) -> None:
    project.write_program(
        "def step(x):\n    return {'y': x / 3, 'm': (x @ x.T).exp()}", options=OPTIONS
    )
    servers.append(Server(project, "torch"))
    given = project.inputs(x=np.linspace(-1, 1, 4096, dtype=np.float32).reshape(64, 64))
    up, down = (servers[0].run(given, rounding=mode) for mode in ("up", "down"))
    assert up.answer == down.answer == {"rounding": "applied"}
    assert (up.array("y") >= down.array("y")).all() and (up.array("y") > down.array("y")).any()
    assert up.array("m").tobytes() != down.array("m").tobytes()


def test_a_gpu_that_is_not_there_is_the_environments_fault(project: Project, torch: Any) -> None:
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    project.write_program("def step(x):\n    return {'y': x}", options=OPTIONS)
    done = project.run(project.inputs(x=np.float32(1)), device="cuda")
    assert (done.code, done.error["fault"]) == (126, "environment")
    assert done.error["message"] == f"torch {torch.__version__} sees no GPU"


def test_a_backward_function_of_the_revision_that_raises_is_its_fault(project: Project) -> None:
    tree = project.tree(
        model="""
        import torch
        class Loss(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                return x.sum()
            @staticmethod
            def backward(ctx, dloss):
                raise ValueError("odd")
        """
    )
    project.write_program(
        """
        def step(x):
            import torch
            from model import Loss
            x.requires_grad_()
            return {"dx": torch.autograd.grad(Loss.apply(x), x)[0]}
        """,
        options=OPTIONS,
    )
    done = project.run(project.inputs(x=np.ones(3, np.float32)), tree)
    assert (done.code, done.error["fault"]) == (125, "revision")
    assert done.error["message"] == "model.py:9: ValueError: odd"


@pytest.mark.parametrize("top", ["", "import torch\ntorch.manual_seed(3)\n"])
def test_random_numbers_are_those_of_a_process_that_has_just_begun(
    project: Project, servers: list[Server], top: str
) -> None:
    project.write_program(
        """
        def step(x):
            import torch
            return {"y": torch.rand(4)}
        """,
        options=OPTIONS,
        top=top,
    )
    servers.append(Server(project, preload="torch"))
    given = project.inputs(x=np.ones(1, np.float32))
    done = [project.run(given), servers[0].run(given), servers[0].run(given)]
    done += [servers[0].run(given, series=True) for _ in range(2)]
    assert len({each.array("y").tobytes() for each in done}) == (1 if top else len(done))


@pytest.mark.parametrize("precision", ["native", "float64"])
def test_what_torch_imports_to_differentiate_is_preloaded(
    project: Project, servers: list[Server], precision: str
) -> None:
    project.write_program(
        """
        def step(x):
            import torch
            before = set(sys.modules)
            x.requires_grad_()
            dx, = torch.autograd.grad(x.square().sum(), x)
            print(sorted(set(sys.modules) - before))
            return {"dx": dx}
        """,
        options=OPTIONS,
        top="import sys\n",
    )
    servers.append(Server(project, preload="torch"))
    given = project.inputs(x=np.ones(3))
    assert servers[0].run(given, precision=precision).stdout == "[]\n"


def test_casts_to_float32_are_widened_in_a_twin(project: Project, servers: list[Server]) -> None:
    tree = project.tree(
        model="""
        import torch
        from torch.nn import functional
        class Square(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x):
                ctx.save_for_backward(x)
                return x.float() ** 2
            @staticmethod
            def backward(ctx, upstream):
                x, = ctx.saved_tensors
                return (2 * x.to(torch.float32) * upstream.type(torch.FloatTensor)).type_as(x)
        def loss(x):
            torch.manual_seed(3)
            y = functional.dropout(Square.apply(x), 0.5) + torch.zeros(5, dtype=torch.float)
            y = y + torch.rand(5) + torch.empty_like(y).normal_()
            y = torch.log_softmax(y, -1, dtype=torch.float32).cumsum(-1, dtype=torch.float32)
            return torch.compile(lambda y: y.float().square().mean(), backend="eager")(y)
        """
    )
    project.write_program(
        """
        def step(x):
            import torch
            from model import loss
            x.requires_grad_()
            value = loss(x)
            assert torch.zeros(1).dtype is x.dtype or value.dtype is torch.float32
            return {"loss": value, "dx": torch.autograd.grad(value, x)[0]}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "torch"))
    x = np.linspace(-1, 1, 20).reshape(4, 5)
    native = servers[0].run(project.inputs(x=x.astype(np.float32)), tree)

    def twin(x: Any, **modes: str) -> Any:
        return servers[0].run(project.inputs(x=x), tree, precision="float64", **modes)

    wide, kept = twin(x), twin(x, casts="kept")
    assert wide.array("loss").dtype == np.float64 and kept.array("loss").dtype == np.float32
    for name in ("loss", "dx"):
        # The same random numbers, and more digits.
        np.testing.assert_allclose(wide.array(name), native.array(name), rtol=2e-5, atol=1e-6)
        assert (wide.array(name) != kept.array(name)).any()
    step = 1e-6 * np.cos(np.arange(20)).reshape(4, 5)
    slope = (twin(x + step).array("loss") - twin(x - step).array("loss")) / 2
    np.testing.assert_allclose(slope, (wide.array("dx") * step).sum(), rtol=1e-7)


def test_a_replay_draws_the_random_numbers_that_its_inputs_hold(
    project: Project, servers: list[Server], torch: Any
) -> None:
    project.write_program(
        """
        def step(x):
            import random
            import numpy
            import torch
            torch.rand(3), numpy.random.rand(3), random.random()
            replay.restore_random()
            drawn = [torch.rand(()).item(), numpy.random.rand(), random.random()]
            return {"y": torch.tensor(drawn, dtype=torch.float64)}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "torch"))
    states = generators.states()
    expected = [torch.rand(()).item(), np.random.rand(), random.random()]
    given = project.inputs(x=np.ones(1, np.float32))
    for _ in range(2):
        done = servers[0].run(given, metadata=states)
        assert done.array("y").tolist() == expected


def test_rounding_to_integers_passes_numbers_where_that_is_asked_for(
    project: Project, servers: list[Server]
) -> None:
    project.write_program(
        """
        def step(x):
            import torch
            y = x * 1.0
            return {"y": torch.round(x) + y.round_() - torch.floor(x)}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "torch"))
    given = project.inputs(x=np.array([1.25, 2.75]))
    rounded = servers[0].run(given, precision="float64")
    passed = servers[0].run(given, precision="float64", rounding="passed")
    assert rounded.array("y").tolist() == [1.0, 4.0]
    assert passed.array("y").tolist() == [1.5, 3.5]
    assert passed.answer is not None and passed.answer["rounding"] == "applied"
    record = project.root / "roundings"
    kept = servers[0].run(given, precision="float64", rounding="recorded", record=str(record))
    assert kept.array("y").tolist() == [1.0, 4.0]
    beside = project.inputs(x=np.array([1.5, 2.5]))
    straight = servers[0].run(beside, precision="float64", rounding="straight", record=str(record))
    assert straight.array("y").tolist() == [1.0 + 0.5, 4.0 - 0.5]


def test_flags_that_change_numbers_are_read_as_they_are_set(torch: Any) -> None:
    flags = settings("torch", "cuda")
    of_matmul = [name for name in flags if name.startswith("torch.backends.cuda.matmul.")]
    assert len(of_matmul) >= 3, flags
    with torch.backends.cudnn.flags(enabled=True, benchmark=True, deterministic=True):
        assert settings("torch", "cuda")["torch.backends.cudnn.benchmark"] == "true"
    precision = settings("torch", "cpu")["torch.get_float32_matmul_precision()"]
    assert precision == torch.get_float32_matmul_precision()
