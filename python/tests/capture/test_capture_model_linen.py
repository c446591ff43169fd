"""Models of Flax's linen, whose modules get their parameters by `apply`."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from test_capture_model_jax import order, run
from test_capture_model_objects import folders, imported, same

from gradreplay import capture, tensors

jax: Any = pytest.importorskip("jax")
pytest.importorskip("flax.linen")

LINEN = """
from flax import linen as nn

class Feed(nn.Module):
    width: int
    act: object = nn.gelu

    @nn.compact
    def __call__(self, x, *, scale):
        gain = self.param("gain", nn.initializers.ones, (self.width,))
        return gain * self.act(nn.Dense(self.width)(scale * x))

class Net(nn.Module):
    def setup(self):
        self.layers = [Feed(2), Feed(2, act=nn.tanh)]
        self.drop = nn.Dropout(0.5, deterministic=False)

    def __call__(self, x, drops=False):
        for layer in self.layers:
            x = layer(x, scale=2.0)
        return self.drop(x) if drops else x

class Normed(nn.Module):
    @nn.compact
    def __call__(self, x):
        return nn.BatchNorm(use_running_average=False)(x)

class Tied(nn.Module):
    inner: nn.Module

    @nn.compact
    def __call__(self, x):
        return self.inner(x)

class Sharing(nn.Module):
    @nn.compact
    def __call__(self, x):
        inner = nn.Dense(2)
        return inner(x) + Tied(inner)(x)
"""

X = jax.numpy.arange(6.0).reshape(3, 2) / 6


@pytest.fixture
def linen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    yield from imported(tmp_path, monkeypatch, LINEN)


def training(net: Any, **options: Any) -> Any:
    def loss(params: Any, x: Any) -> Any:
        return jax.tree.leaves(net.apply(params, x, **options))[0].sum()

    return jax.jit(jax.value_and_grad(loss))


def test_modules_of_linen_are_parts_by_their_places_and_give_their_own_gradients(
    linen: Any,
) -> None:
    net = capture.model(linen.Net())
    params = net.init(jax.random.key(0), X)
    update = training(net)
    without = update(params, X)
    assert same(run(lambda: update(params, X)), without)
    assert folders() == ["model", "layers_0", "layers_0.Dense_0", "layers_1", "layers_1.Dense_0"]
    parts = order()["parts"]
    assert [part.get("inside") for part in parts] == [None, 0, 1, 0, 3]
    assert parts[1]["kind"] == "objects.Feed"
    # Those of the layer within are asked of that one.
    assert parts[1]["gradients"] == ["grad_variables_params_gain", "grad_args_0"]
    script = Path("fixtures/harness-model/replay_step.py").read_text()
    assert "Feed(width=2, act=tanh)" in script
    kernel = jax.numpy.asarray(without[1]["params"]["layers_0"]["Dense_0"]["kernel"])
    stored = tensors.read("fixtures/step0/tensors.safetensors").values()
    assert bytes(kernel) in [bytes(one.data) for one in stored]


def test_chosen_modules_of_linen_have_their_paths_and_others_are_not_captured(linen: Any) -> None:
    net = capture.model(linen.Net(), match=["layers_1", "*.Dense_0"])
    params = net.init(jax.random.key(0), X)
    run(training(net), params, X)
    assert folders() == ["layers_0.Dense_0", "layers_1", "layers_1.Dense_0"]
    assert order().get("left_out", []) == []


@pytest.mark.parametrize(
    ("name", "options", "left_out"),
    [
        ("Net", {"drops": True, "rngs": {"dropout": jax.random.key(1)}}, "has random numbers"),
        ("Normed", {"mutable": ["batch_stats"]}, "may change variables"),
        ("Sharing", {}, "it holds a module of another one"),
    ],
)
def test_calls_of_linen_that_are_none_of_arrays_alone_are_left_out(
    name: str,
    options: Any,
    left_out: str,
    linen: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    net = capture.model(getattr(linen, name)())
    params = net.init({"params": jax.random.key(0), "dropout": jax.random.key(0)}, X)
    update = training(net, **options)
    without = update(params, X)
    with (
        caplog.at_level(logging.WARNING),
        capture.step("fixtures/step{step}", step=0, when=capture.every(1)),
    ):
        captured = update(params, X)
    capture.flush()
    assert same(captured, without)
    if name == "Sharing":
        reasons = {one["module"]: one["reason"] for one in order()["left_out"]}
        assert folders() == ["model", "Dense_0", "Dense_0-call1"]
        assert reasons == {"Tied_0": left_out}
    else:
        assert "nothing of `model` is captured" in caplog.text
        assert left_out in caplog.text


def test_a_pattern_that_no_module_of_linen_fits_is_told(
    linen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    net = capture.model(linen.Net(), match="heads_*")
    params = net.init(jax.random.key(0), X)
    with capture.step("fixtures/step{step}", step=0, when=capture.every(1)):
        training(net)(params, X)
    capture.flush()
    assert "nothing of `model` is captured: no chosen module was called" in caplog.text
