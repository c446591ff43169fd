"""PyTorch: layouts, dtypes, gradients, and what is wrapped."""

from __future__ import annotations

import dataclasses
import importlib
import logging
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import array, header, inspect, names

import gradreplay
from gradreplay import capture, tensors
from gradreplay.capture import host
from gradreplay.capture.arguments import Names
from gradreplay.capture.target import find
from gradreplay.capture.torch_ import built
from gradreplay.faults import Blame

torch = pytest.importorskip("torch")


def take(x: Any) -> Any:
    """A function of one tensor that any dtype goes through."""
    return x.clone()


def captured(function: Any, *args: Any, **options: Any) -> Any:
    """Calls `function` in a captured step."""
    wrapped = capture.function(function, name="f", **options)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        result = wrapped(*args)
    capture.flush()
    return result


def layout(name: str, path: str = "fixtures/step0/inputs.safetensors") -> dict[str, Any]:
    """What the metadata say of a tensor's layout."""
    _, metadata = header(path)
    keys = ("strides", "storage", "offset")
    return {key: metadata[f"{name}.{key}"] for key in keys if f"{name}.{key}" in metadata}


BASE = torch.arange(24.0).reshape(4, 6)

VIEWS = {
    "packed": (BASE, {}),
    "transposed": (BASE.t(), {"strides": "[1, 6]"}),
    "columns": (BASE[:, 1:4], {"strides": "[6, 1]", "storage": "23", "offset": "1"}),
    "rows": (BASE[2:], {"strides": "[6, 1]", "offset": "12"}),
    "every_second": (BASE[::2, ::3], {"strides": "[12, 3]", "storage": "24"}),
    "expanded": (torch.tensor(2.5).expand(4, 6), {"strides": "[0, 0]"}),
    "expanded_rows": (BASE[1].expand(3, 6), {"strides": "[0, 1]", "storage": "18", "offset": "6"}),
    "shape_of_one": (BASE[:1], {"strides": "[6, 1]", "storage": "24"}),
    "start_of_a_buffer": (BASE.reshape(-1)[:4], {"strides": "[1]", "storage": "24"}),
    "interleaved": (
        BASE.reshape(-1).as_strided((2, 3), (1, 2)),
        {"strides": "[1, 2]", "storage": "24"},
    ),
}


@pytest.mark.parametrize("view", VIEWS)
def test_strides_storage_and_offset_come_back_exactly(view: str) -> None:
    tensor, expected = VIEWS[view]
    captured(take, tensor)
    assert layout("x") == expected
    read = tensors.read("fixtures/step0/inputs.safetensors")["x"]
    again = tensors.place("x", read, "torch")
    assert torch.equal(again, tensor)
    if expected:
        assert again.stride() == tensor.stride()


@pytest.mark.parametrize(
    "dtype",
    "float64 float32 float16 bfloat16 int64 int32 int16 int8 uint8 uint16 uint32 uint64 bool".split(),
)
@pytest.mark.parametrize("shape", [(3, 2), (), (0, 5)])
def test_every_dtype_and_rank_comes_back_bit_for_bit(dtype: str, shape: tuple[int, ...]) -> None:
    tensor = (torch.randn(shape) * 100).to(torch.float32).abs().to(getattr(torch, dtype))
    captured(take, tensor)
    read = tensors.read("fixtures/step0/inputs.safetensors")["x"]
    assert read.shape == shape and read.dtype.torch_name == dtype
    assert (
        read.data.tobytes() == tensor.contiguous().reshape(-1).view(torch.uint8).numpy().tobytes()
    )


@pytest.mark.parametrize(
    ("dtype", "name"), [("float8_e4m3fn", "f8_e4m3"), ("float8_e5m2", "f8_e5m2")]
)
def test_float8_is_kept_as_it_is(dtype: str, name: str) -> None:
    tensor = torch.randn(3, 4).to(getattr(torch, dtype)).t()
    captured(take, tensor)
    entries, metadata = header("fixtures/step0/inputs.safetensors")
    assert entries["x"]["dtype"] == name.upper() and "x.view" not in metadata
    assert layout("x") == {"strides": "[1, 4]"}
    home = Path("fixtures/harness-f")
    assert (home / "replay.toml").read_text().count(f'dtype = "{name}"') == 2, "input and output"
    assert ".view(" not in (home / "replay_step.py").read_text()


@pytest.mark.parametrize("dtype", ["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_other_formats_of_8_bits_are_kept_as_bytes_that_the_script_views(dtype: str) -> None:
    tensor = torch.randn(3, 4).to(getattr(torch, dtype)).t()
    captured(take, tensor)
    entries, metadata = header("fixtures/step0/inputs.safetensors")
    assert entries["x"]["dtype"] == "U8" and metadata["x.view"] == dtype
    assert layout("x") == {"strides": "[1, 4]"}
    assert (
        array("fixtures/step0/inputs.safetensors", "x").tolist()
        == tensor.view(torch.uint8).tolist()
    )
    script = Path("fixtures/harness-f/replay_step.py").read_text()
    assert f"x = x.view(torch.{dtype})" in script
    assert 'results["out"] = results["out"].view(torch.uint8)' in script


def test_the_upstream_gradient_of_a_sum_has_strides_of_zero() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    wrapped = capture.function(torch.tanh, name="f")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        wrapped(x).sum().backward()
    capture.flush()
    assert layout("grad_out", "fixtures/step0/grad_out.safetensors") == {"strides": "[0, 0]"}
    assert (array("fixtures/step0/grad_out.safetensors", "grad_out") == 1).all()


def test_the_upstream_gradient_keeps_a_transposed_layout() -> None:
    x = torch.randn(3, 4, requires_grad=True)
    wrapped = capture.function(torch.tanh, name="f")
    weights = torch.randn(4, 3)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        (wrapped(x).t() * weights).sum().backward()
    capture.flush()
    assert layout("grad_out", "fixtures/step0/grad_out.safetensors") == {"strides": "[1, 3]"}
    assert np.array_equal(
        array("fixtures/step0/grad_out.safetensors", "grad_out"), weights.t().numpy()
    )


def test_the_upstream_gradient_is_on_the_disk_before_the_backward_pass_of_the_function() -> None:
    seen = []

    class Look(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 1

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            seen.append(Path("fixtures/step0/grad_loss.safetensors").exists())
            return gradient

    look = capture.function(Look, name="f", import_as="losses:Look.apply", outputs=["loss"])
    x = torch.randn((), requires_grad=True)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        look.apply(x).backward()
    assert seen == [True]


def test_gradients_are_those_of_the_call_and_not_of_the_tensor() -> None:
    x = torch.randn(3, requires_grad=True)
    wrapped = capture.function(torch.square, name="f", parameters=["x"])
    with capture.step("fixtures/step{step}", step=0, strict=True):
        loss = wrapped(x).sum() + (1000 * x).sum()
        loss.backward()
    capture.flush()
    got = array("fixtures/step0/expected.safetensors", "grad_x")
    assert np.array_equal(got, (2 * x.detach()).numpy())
    assert torch.equal(x.grad, 2 * x.detach() + 1000)


def test_captured_steps_give_the_same_bits_as_others() -> None:
    def train(on: bool) -> list[bytes]:
        torch.manual_seed(5)
        layer = torch.nn.Linear(8, 8)
        if on:
            layer = capture.function(layer, name="layer")
        loss = torch.nn.functional.cross_entropy
        if on:
            loss = capture.function(loss, name="loss")
        x, target = torch.randn(4, 8), torch.randint(0, 8, (4,))
        with capture.step("fixtures/step{step}", step=0, strict=True):
            loss(layer(x), target).backward()
        return [p.grad.numpy().tobytes() for p in layer.parameters()]

    assert train(True) == train(False)
    assert names() == ["step0-layer", "step0-loss"]


def test_a_tensor_that_is_passed_twice_is_written_once() -> None:
    x = torch.randn(5)
    captured(torch.dot, x, x, parameters=["a", "b"])
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert list(entries) == ["a"]
    assert "(a, a)" in Path("fixtures/harness-f/replay_step.py").read_text()


def test_equal_views_of_a_storage_are_written_once_and_others_are_not() -> None:
    x = torch.randn(5)
    views = [x[1:], x[1:], x[:4], x[1:].requires_grad_()]
    captured(torch.stack, views, parameters=["x"])
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert len(entries) == 3
    script = Path("fixtures/harness-f/replay_step.py").read_text()
    assert "([x_0, x_0, x_2, x_3])" in script


def test_outputs_that_are_not_contiguous_are_kept_with_their_strides() -> None:
    captured(lambda x: x.t(), torch.arange(6.0).reshape(2, 3), import_as="losses:f")
    assert array("fixtures/step0/expected.safetensors", "out").tolist() == [[0, 3], [1, 4], [2, 5]]
    assert layout("out", "fixtures/step0/expected.safetensors") == {"strides": "[1, 3]"}


def test_a_tensor_that_the_function_writes_to_is_an_input_and_an_output() -> None:
    def add(out: Any, x: Any) -> None:
        out += x

    captured(add, torch.ones(2), torch.full((2,), 3.0), import_as="losses:add")
    assert array("fixtures/step0/inputs.safetensors", "out").tolist() == [1, 1]
    assert array("fixtures/step0/expected.safetensors", "out_after").tolist() == [4, 4]


def test_a_write_that_pytorch_does_not_count_is_named() -> None:
    def add(out: Any) -> None:
        out.numpy()[...] = 7

    captured(add, torch.ones(2), import_as="losses:add", writes=["out"])
    assert array("fixtures/step0/inputs.safetensors", "out").tolist() == [1, 1]
    assert array("fixtures/step0/expected.safetensors", "out_after").tolist() == [7, 7]


def test_numbers_are_inputs_and_texts_stand_in_the_script() -> None:
    def scaled(x: Any, scale: float, times: int, mode: str, mask: Any = None) -> Any:
        return x * scale * times

    captured(scaled, torch.ones(2), 0.5, 3, "mean", import_as="losses:scaled")
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert {name: entry["dtype"] for name, entry in entries.items()} == {
        "x": "F32", "scale": "F64", "times": "I64",
    }  # fmt: skip
    assert (
        "(x, float(scale), int(times), 'mean')"
        in Path("fixtures/harness-f/replay_step.py").read_text()
    )


def test_arguments_in_lists_and_dicts_are_found() -> None:
    def total(items: Any, more: Any) -> Any:
        return items[0] + items[1] + more["z"]

    captured(total, [torch.ones(2), torch.ones(2)], {"z": torch.ones(2)}, import_as="losses:total")
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert sorted(entries) == ["items_0", "items_1", "more_z"]
    text = Path("fixtures/harness-f/replay_step.py").read_text()
    assert "total([items_0, items_1], {'z': more_z})" in text


def test_parameters_of_a_module_are_inputs_by_their_names() -> None:
    layer = capture.function(
        torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)), name="f"
    )
    with capture.step("fixtures/step{step}", step=0, strict=True):
        layer(torch.randn(4, 3)).sum().backward()
    capture.flush()
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert {"input", "x0_weight", "x0_bias", "x1_weight", "x1_running_mean"} <= set(entries)
    expected, _ = header("fixtures/step0/expected.safetensors")
    assert {"out", "grad_x0_weight", "grad_x1_bias"} <= set(expected)
    assert layer[0].weight.grad is not None


def test_an_operator_of_torch_library_is_captured() -> None:
    library = torch.library.Library("gradreplay_tests", "FRAGMENT")
    library.define("scaled(Tensor x, float by) -> Tensor")
    library.impl("scaled", lambda x, by: x * by, "CPU")
    captured(torch.ops.gradreplay_tests.scaled, torch.ones(3), 2.0)
    assert array("fixtures/step0/expected.safetensors", "out").tolist() == [2, 2, 2]
    script = Path("fixtures/harness-f/replay_step.py").read_text()
    assert "torch.ops.gradreplay_tests.scaled(x, float(by))" in script


def test_an_operator_that_custom_op_made_is_captured_by_its_module(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    source = """
    import torch
    @torch.library.custom_op("gradreplay_tests::thrice", mutates_args=())
    def thrice(x: torch.Tensor, by: float) -> torch.Tensor:
        return x * 3 * by
    """
    Path("operators_of_tests.py").write_text(textwrap.dedent(source))
    monkeypatch.syspath_prepend(".")
    module = importlib.import_module("operators_of_tests")
    made = capture.function(module.thrice)
    packet = capture.function(torch.ops.gradreplay_tests.thrice, name="packet")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        assert made(torch.ones(2), 1.0).tolist() == packet(torch.ones(2), 1.0).tolist() == [3, 3]
    assert names() == ["step0-packet", "step0-thrice"]
    script = Path("fixtures/harness-thrice/replay_step.py").read_text()
    assert "from operators_of_tests import thrice" in script
    script = Path("fixtures/harness-packet/replay_step.py").read_text()
    assert "import torch, operators_of_tests" in script
    assert "torch.ops.gradreplay_tests.thrice(x, float(by))" in script


@pytest.mark.parametrize(
    ("function", "import_as", "statement"),
    [
        # Its own name is that of a class which PyTorch hides.
        (torch.tanh, None, "from torch import tanh"),
        (torch.nn.functional.silu, None, "from torch.nn.functional import silu"),
        (torch.ops.aten.tanh, None, "import torch"),
        (torch.ops.aten.tanh, "losses", "import torch, losses"),
    ],
)
def test_a_drafted_script_imports_a_function_by_the_name_that_leads_to_it(
    function: Any, import_as: str | None, statement: str
) -> None:
    target = find(function, import_as)
    assert (target.statement, target.problem) == (statement, None)


def test_a_function_without_a_name_is_one_to_mend_in_the_script() -> None:
    target = find(lambda x: x, None)
    assert target.problem is not None
    assert target.problem.endswith("has no name that another process can import")


def test_compiled_models_are_captured_and_compiled_no_more_often() -> None:
    testing = pytest.importorskip("torch._dynamo.testing")
    counter = testing.CompileCounter()
    inner = capture.function(torch.nn.functional.silu, name="f", parameters=["x"])
    model = torch.compile(lambda x: inner(x * 2).sum(), backend=counter)
    x = torch.randn(4, requires_grad=True)
    for step in range(4):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(2), strict=True):
            model(x).backward()
    assert names() == ["step0", "step2"]
    assert np.array_equal(array("fixtures/step2/inputs.safetensors", "x"), (x * 2).detach().numpy())
    # One graph for steps that are not captured, two around the call for those that are.
    assert counter.frame_count <= 3


def test_a_graph_that_must_be_one_is_an_error_that_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    inner = capture.function(torch.nn.functional.silu, name="f", parameters=["x"])
    model = torch.compile(lambda x: inner(x * 2).sum(), backend="eager", fullgraph=True)
    whole = capture.function(model, name="whole", parameters=["x"], import_as="losses:model")
    x = torch.randn(4)
    expected = torch.nn.functional.silu(x * 2).sum()
    with caplog.at_level(logging.WARNING):
        for step in range(3):
            with capture.step("fixtures/step{step}", step=step, when=capture.every(2)):
                assert torch.equal(whole(x), expected)
    assert names() == ["step0-whole", "step2-whole"]
    assert [record.getMessage() for record in caplog.records] == [
        "not captured: torch.compile makes one graph of what calls `f`, by fullgraph=True "
        "(hint: capture the function that is compiled, or compile without fullgraph)"
    ]


def test_elements_that_share_their_places_are_packed(
    caplog: pytest.LogCaptureFixture, replay: str
) -> None:
    windows = torch.arange(6.0).unfold(0, 3, 1)
    captured(torch.sum, windows, import_as="losses:total", parameters=["x"])
    assert array("fixtures/step0/inputs.safetensors", "x").tolist() == windows.tolist()
    assert "`x` has elements that share their places, as unfold makes them" in caplog.text
    told = inspect(replay, "fixtures/step0")
    assert told.returncode == 0, told.stderr


def test_a_function_inside_a_transformation_is_an_error_that_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrapped = capture.function(torch.sin, name="f", parameters=["x"])
    with caplog.at_level(logging.WARNING):
        for step in range(2):
            with capture.step("fixtures/step{step}", step=step, when=capture.every(1)):
                result = torch.func.vmap(wrapped)(torch.zeros(3))
    assert torch.equal(result, torch.zeros(3))
    assert names() == []
    assert [record.getMessage() for record in caplog.records] == [
        "not captured: `x` is a tensor inside a transformation of torch.func, and has no elements of its "
        "own (hint: capture the function that calls torch.func, not one that it transforms)"
    ]


def test_tensors_on_several_devices_are_an_error_that_stops_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def first(a: Any, b: Any) -> Any:
        return a + 1

    wrapped = capture.function(first, import_as="losses:first")
    with capture.step("fixtures/step{step}", step=0):
        wrapped(torch.ones(2), torch.ones(2, device="meta"))
    assert names() == []
    assert "the tensors lie on several devices: `a` on cpu, `b` on meta" in caplog.text


def test_a_default_device_of_the_training_is_not_that_of_copies_on_the_host() -> None:
    with torch.device("meta"):
        copy = host._pinned(torch, torch.empty(2, 3, dtype=torch.bfloat16))
    assert (copy.device.type, copy.dtype, tuple(copy.shape)) == ("cpu", torch.bfloat16, (2, 3))


def test_what_changes_after_the_call_does_not_change_the_fixture() -> None:
    x = torch.ones(3)
    wrapped = capture.function(torch.exp, name="f", parameters=["x"])
    for when, path in [(capture.first(1), "early"), (capture.nonfinite(), "late")]:
        with pytest.raises(KeyError):
            with capture.step(path + "/step{step}", step=0, when=when, strict=True):
                result = wrapped(x)
                before = result.clone()
                result.zero_()
                x.add_(1)
                raise KeyError
        capture.flush()
        assert np.array_equal(array(f"{path}/step0/expected.safetensors", "out"), before.numpy())
        assert np.array_equal(array(f"{path}/step0/inputs.safetensors", "x"), (x - 1).numpy())


def test_a_single_element_that_was_expanded_is_captured() -> None:
    # What `sum` gives back for one element has a stride of 0, though it is contiguous.
    x = torch.tensor([2.0], requires_grad=True)
    cube = capture.function(lambda x: x**3, name="f", import_as="losses:cube")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        cube(x).sum().backward()
    capture.flush()
    assert array("fixtures/step0/grad_out.safetensors", "grad_out").tolist() == [1]
    assert array("fixtures/step0/expected.safetensors", "grad_x").tolist() == [12]


def test_a_loss_of_no_dimensions_is_a_fixture_with_and_without_its_gradient(replay: str) -> None:
    x = torch.ones(3, requires_grad=True)
    total = capture.function(lambda x: x.square().sum(), name="f", import_as="losses:total")
    with capture.step("fixtures/step{step}", step=0, when=capture.every(1), strict=True):
        (0.5 * total(x)).backward()
    with capture.step("fixtures/step{step}", step=1, when=capture.every(1), strict=True):
        total(x)
    capture.flush()
    assert array("fixtures/step0/grad_loss.safetensors", "grad_loss").tolist() == 0.5
    for step in range(2):
        told = inspect(replay, f"fixtures/step{step}")
        assert told.returncode == 0, told.stderr


@dataclasses.dataclass
class Config:
    """Options as libraries gather them."""

    beta: float = 0.1
    kind: str = "mean"


class Chunked(torch.nn.Module):  # type: ignore[misc]
    """A loss whose options are more than numbers."""

    def __init__(
        self,
        args: Config | None = None,
        weight: Any = None,
        accumulated: Any = None,
        limit: float = 1.0,
        activation: Any = torch.nn.functional.silu,
        parameters: Any = None,
        teacher: Any = None,
    ) -> None:
        super().__init__()
        self.args, self.weight, self.limit = args or Config(), weight, limit
        self.accumulated, self.activation, self.teacher = accumulated, activation, teacher

    def forward(self, x: Any) -> Any:
        x = self.activation(x).to(self.accumulated) * self.weight
        return x.sum() * self.args.beta / self.limit


def test_a_module_is_built_with_the_options_that_it_was_given() -> None:
    weight = torch.ones(2)
    module = Chunked(Config(0.5), weight, torch.bfloat16, float("inf"), torch.nn.functional.gelu)
    names = Names()
    assert names.give("weight") == "weight", "an argument of the call"
    build = built(module, None, names)
    assert build.expression == (
        "Chunked(args=Config(beta=0.5, kind='mean'), weight=weight_2, "
        "accumulated=torch.bfloat16, limit=float('inf'), activation=gelu, parameters=None, teacher=None)"
    )
    assert build.problem is None
    assert build.arrays == {"weight_2": weight}
    assert "from torch.nn.functional import gelu" in build.imports.statements


def test_an_option_of_a_module_that_no_script_can_write_is_named() -> None:
    build = built(Chunked(teacher=torch.nn.Linear(2, 2)), None, Names())
    assert "teacher" not in build.expression
    assert build.problem == "`teacher` of Chunked is not known"
    build = built(Chunked(activation=lambda x: x), None, Names())
    assert "activation" not in build.expression
    assert build.problem == "`activation` of Chunked is not known"


def test_the_drafted_script_of_a_module_computes_with_its_options() -> None:
    loss = capture.function(
        Chunked(Config(0.5), torch.tensor([1.0, 2.0]), torch.float64), name="loss"
    )
    with capture.step("fixtures/step{step}", step=0, when=capture.first(1), strict=True):
        result = loss(torch.tensor([3.0, 4.0]))
    capture.flush()
    script = Path("fixtures/harness-loss/replay_step.py").read_text()
    assert "module = Chunked(args=Config(beta=0.5" in script
    assert "accumulated=torch.float64" in script
    assert array("fixtures/step0/inputs.safetensors", "weight").tolist() == [1.0, 2.0]
    assert array("fixtures/step0/expected.safetensors", "loss").tolist() == result.tolist()


def test_a_gradient_of_several_outputs_is_held_against_all_of_them() -> None:
    experts = capture.function(
        lambda x: (x.square(), x.sum()), name="f", import_as="losses:experts"
    )
    x = torch.ones(3, requires_grad=True)
    with capture.step("fixtures/step{step}", step=0, when=capture.first(1), strict=True):
        y, aux = experts(x)
        (y.sum() + 0.5 * aux).backward()
    capture.flush()
    harness = Path("fixtures/harness-f/replay.toml").read_text()
    assert 'of = ["out_0", "out_1"]' in harness
    assert 'upstream = ["grad_out_0", "grad_out_1"]' in harness


def test_the_script_of_a_call_that_did_not_return_says_that_its_outputs_are_unnamed() -> None:
    def ends(x: Any) -> Any:
        raise ZeroDivisionError

    captured = capture.function(ends, name="f", import_as="losses:ends")
    with (
        pytest.raises(ZeroDivisionError),
        capture.step("fixtures/step{step}", step=0, when=capture.first(1)),
    ):
        captured(torch.ones(2))
    capture.flush()
    script = Path("fixtures/harness-f/replay_step.py").read_text()
    assert "replay.refuse_unnamed()" in script
    with pytest.raises(Blame) as told:
        gradreplay.refuse_unnamed()
    assert told.value.party == "program"
    assert "capture a call that returns" in str(told.value.hint)
