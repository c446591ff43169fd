"""Models of JAX: functions of a module or of a pytree, in the order in which they are traced."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from written import header

from gradreplay import capture, tensors

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy
tomllib: Any = pytest.importorskip("tomllib")

SOURCE = """
import jax.numpy as jnp

def inner(p, x):
    return jnp.tanh(x @ p["w"])

def outer(p, x):
    return p["gain"] * inner(p, inner(p, x))

def unused(x):
    return x
"""


@pytest.fixture
def net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A module of Python with three functions."""
    (tmp_path / "net.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module: Any = __import__("net")
    yield module
    del sys.modules["net"]


def run(update: Callable[..., Any], *inputs: Any, step: int = 0) -> Any:
    with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
        result = update(*inputs)
    capture.flush()
    return result


def order(step: int = 0) -> Any:
    return tomllib.loads(Path(f"fixtures/step{step}/step.toml").read_text())


def manifest(folder: str) -> Any:
    return tomllib.loads(Path("fixtures/step0", folder, "fixture.toml").read_text())


def training(net: Any) -> Callable[..., Any]:
    return jax.jit(jax.value_and_grad(lambda p, x: net.outer(p, x).sum()))  # type: ignore[no-any-return]


PARAMETERS = {"w": jnp.array([[0.5, -0.25], [1.0, 0.75]]), "gain": jnp.float32(2.0)}
X = jnp.arange(6.0).reshape(3, 2) / 6


def test_functions_of_a_module_are_parts_in_the_order_of_tracing(net: Any) -> None:
    plain = training(net)(PARAMETERS, X)
    assert capture.model(net) is net
    captured = run(training(net), PARAMETERS, X)
    assert all(map(jnp.array_equal, jax.tree.leaves(plain), jax.tree.leaves(captured)))
    parts = order()["parts"]
    assert [part["folder"] for part in parts] == ["outer", "inner", "inner-call1"]
    assert [part.get("inside") for part in parts] == [None, 0, 0]
    # What a captured function inside has as its own is not asked for again.
    inner = ["grad_p_gain", "grad_p_w", "grad_x"]
    assert [part["gradients"] for part in parts] == [["grad_x"], inner, inner]
    assert order()["left_out"] == [{"module": "unused", "reason": "it was not called in the step"}]


def test_what_flows_from_one_function_to_the_next_is_written_once(net: Any) -> None:
    capture.model(net)
    run(training(net), PARAMETERS, X)
    first, second = manifest("inner"), manifest("inner-call1")
    assert first["captured"]["names"]["out"] == second["files"][0]["names"]["x"]
    assert first["files"][0]["names"]["p_w"] == second["files"][0]["names"]["p_w"]
    assert second["captured"]["names"]["grad_x"] == first["files"][0]["names"]["grad_out"]
    stored = tensors.read("fixtures/step0/tensors.safetensors")
    contents = {(one.shape, bytes(one.data)) for one in stored.values()}
    assert len(contents) == len(stored) == len(header("fixtures/step0/tensors.safetensors")[0])


def test_a_pytree_of_functions_is_captured_by_its_paths(net: Any) -> None:
    tree = capture.model({"layers": [net.inner, net.outer]}, match="layers.0")
    assert tree["layers"][1] is net.outer

    def loss(p: Any, x: Any) -> Any:
        return tree["layers"][1](p, tree["layers"][0](p, x)).sum()

    run(jax.jit(jax.grad(loss)), PARAMETERS, X)
    assert [part["folder"] for part in order()["parts"]] == ["layers.0"]


def test_a_compiled_step_is_captured_each_time_and_is_as_ever_between(net: Any) -> None:
    capture.model(net)
    update = training(net)
    run(update, PARAMETERS, X)
    between = update(PARAMETERS, X)
    run(update, PARAMETERS, X + 1, step=1)
    assert jnp.array_equal(between[0], update(PARAMETERS, X)[0])
    assert [part["folder"] for part in order(1)["parts"]] == ["outer", "inner", "inner-call1"]


def test_a_function_in_a_loop_of_the_device_is_left_out(
    net: Any, caplog: pytest.LogCaptureFixture
) -> None:
    capture.model(net, match="inner")

    def loss(p: Any, x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (net.inner(p, x), None), x, length=3)[0].sum()

    with caplog.at_level(logging.WARNING, "gradreplay.capture"):
        run(jax.jit(jax.value_and_grad(loss)), PARAMETERS, X)
    assert "inner: its outputs did not come, as in a loop of the device" in caplog.text


def test_what_a_checkpoint_computes_again_is_no_part(net: Any) -> None:
    capture.model(net, match="inner")

    def loss(p: Any, x: Any) -> Any:
        return jax.checkpoint(net.inner)(p, x).sum()

    run(jax.jit(jax.grad(loss)), PARAMETERS, X)
    (part,) = order()["parts"]
    assert part["folder"] == "inner" and "grad_p_w" in part["gradients"]


def test_functions_beyond_the_bytes_of_a_step_are_left_out(
    net: Any, caplog: pytest.LogCaptureFixture
) -> None:
    capture.model(net, match="inner")
    with (
        caplog.at_level(logging.WARNING, "gradreplay.capture"),
        capture.step("fixtures/step{step}", step=0, max_bytes=8),
    ):
        training(net)(PARAMETERS, X)
    capture.flush()
    assert "inner: its tensors have 44 bytes, and 8 of 8 are left" in caplog.text
    assert not Path("fixtures/step0").exists()


def test_what_is_no_model_or_chooses_no_function_is_refused(net: Any) -> None:
    with pytest.raises(capture.CaptureError, match="no function of the model is chosen") as told:
        capture.model(net, match="layers.*")
    assert told.value.hint == "its functions are inner, outer, unused"
    with pytest.raises(capture.CaptureError, match="no function of the model is chosen") as told:
        capture.model(ModuleType("empty"))
    assert told.value.hint == "its functions are none"
    with pytest.raises(capture.CaptureError, match="depth, leaves and import_as are for modules"):
        capture.model(net, depth=1)
    with pytest.raises(capture.CaptureError, match=r"takes a torch.nn.Module, not a dict"):
        capture.model({"w": X})
