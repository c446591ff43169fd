"""Models of JAX that are objects: of any class that JAX knows, of Equinox and of Flax's nnx."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from test_capture_model_jax import order, run

from gradreplay import capture, tensors

jax: Any = pytest.importorskip("jax")
jnp: Any = jax.numpy

PLAIN = """
import dataclasses
import jax
import jax.numpy as jnp

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Linear:
    w: jax.Array

    def __call__(self, x):
        return jnp.tanh(x @ self.w)

@jax.tree_util.register_dataclass
@dataclasses.dataclass
class Net:
    layers: list
    gain: jax.Array
    unused: Linear

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.gain * x

def make():
    w = jnp.array([[0.5, -0.25], [1.0, 0.75]])
    return Net([Linear(w), Linear(2 * w)], jnp.float32(2.0), Linear(w))
"""

FLAX = """
import jax
import jax.numpy as jnp
from flax import nnx

class Linear(nnx.Module):
    def __init__(self, w):
        self.w = nnx.Param(w)
        self.mean = nnx.BatchStat(jnp.zeros(2))

    def __call__(self, x):
        self.mean[...] = 0.5 * self.mean[...] + 0.5 * x.mean(0)
        return jnp.tanh(x @ self.w[...])

class Net(nnx.Module):
    def __init__(self, shared=False, sows=False):
        w = jnp.array([[0.5, -0.25], [1.0, 0.75]])
        self.layers = nnx.List([Linear(w), Linear(2 * w)])
        self.drop = nnx.Dropout(0.5, rngs=nnx.Rngs(0))
        self.sows = sows
        if shared:
            self.layers[1].w = self.layers[0].w

    def __call__(self, x):
        for layer in self.layers:
            x = layer(x)
        if self.sows:
            self.sow(nnx.Intermediate, "last", x)
        return self.drop(x)
"""

X = jnp.arange(6.0).reshape(3, 2) / 6


@pytest.fixture
def plain(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Classes that JAX knows as pytrees."""
    yield from imported(tmp_path, monkeypatch, PLAIN)


@pytest.fixture
def flax_net(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Modules of Flax with variables that their calls set."""
    nnx: Any = pytest.importorskip("flax.nnx")
    # Its class is one for all tests.
    monkeypatch.setattr(nnx.Dropout, "__call__", nnx.Dropout.__call__)
    yield from imported(tmp_path, monkeypatch, FLAX)


def imported(home: Path, monkeypatch: pytest.MonkeyPatch, source: str) -> Iterator[ModuleType]:
    (home / "objects.py").write_text(source)
    monkeypatch.syspath_prepend(str(home))
    yield __import__("objects")
    del sys.modules["objects"]


def same(first: Any, second: Any) -> bool:
    return all(map(jnp.array_equal, jax.tree.leaves(first), jax.tree.leaves(second)))


def folders(step: int = 0) -> list[str]:
    return [part["folder"] for part in order(step)["parts"]]


def training() -> Any:
    return jax.jit(jax.value_and_grad(lambda net, x: net(x).sum()))


def test_objects_are_parts_by_their_places_in_the_model(plain: Any) -> None:
    net = plain.make()
    without = training()(net, X)
    assert capture.model(net) is net
    captured = run(training(), net, X)
    assert same(without, captured)
    parts = order()["parts"]
    assert [part["module"] for part in parts] == ["", "layers.0", "layers.1"]
    assert [part["kind"] for part in parts] == ["objects.Net", "objects.Linear", "objects.Linear"]
    assert [part.get("inside") for part in parts] == [None, 0, 0]
    wanted = ["grad_self_w", "grad_x"]
    # Those of what the layers have are asked of the layers.
    outer = ["grad_self_gain", "grad_self_unused_w", "grad_x"]
    assert [part["gradients"] for part in parts] == [outer, wanted, wanted]
    assert order()["left_out"] == [{"module": "unused", "reason": "it was not called in the step"}]
    stored = tensors.read("fixtures/step0/tensors.safetensors")
    contents = {(one.shape, bytes(one.data)) for one in stored.values()}
    assert len(contents) == len(stored)


def test_objects_in_one_that_is_not_chosen_have_their_paths(plain: Any) -> None:
    net = plain.make()
    capture.model(net, match="layers.1")
    run(training(), net, X)
    assert folders() == ["layers.1"]


def test_an_object_that_is_called_alone_has_the_name_of_its_class(plain: Any) -> None:
    net = plain.make()
    capture.model(net)
    run(jax.jit(lambda layer, x: layer(x)), net.layers[1], X)
    assert folders() == ["Linear"]


def test_what_chooses_no_object_is_refused_with_their_names(plain: Any) -> None:
    with pytest.raises(capture.CaptureError, match="no object of the model is chosen") as told:
        capture.model(plain.make(), match="head")
    assert told.value.hint == "its objects are layers.0, layers.1, unused"


def test_a_module_of_equinox_is_captured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    eqx: Any = pytest.importorskip("equinox")
    dataclass = "@jax.tree_util.register_dataclass\n@dataclasses.dataclass\n"
    source = PLAIN.replace(dataclass, "").replace("class Net:", "class Net(equinox.Module):")
    source = source.replace("class Linear:", "class Linear(equinox.Module):")
    for objects in imported(tmp_path, monkeypatch, source.replace("dataclasses", "equinox")):
        net = objects.make()
        update = eqx.filter_jit(eqx.filter_value_and_grad(lambda net, x: net(x).sum()))
        without = update(net, X)
        capture.model(net)
        assert same(without, run(update, net, X))
        assert folders() == ["model", "layers.0", "layers.1"]


def flax_states(flax_net: Any, **words: bool) -> tuple[Any, Any]:
    """What a step gives, and what it leaves in the variables, without capturing and with it."""
    nnx: Any = sys.modules["flax.nnx"]
    update = nnx.jit(nnx.value_and_grad(lambda net, x: net(x).sum()))
    plain, captured = flax_net.Net(**words), flax_net.Net(**words)
    without = update(plain, X)
    capture.model(captured)
    found = run(update, captured, X)
    states = [
        [one.get_raw_value() for one in jax.tree.leaves(net, is_leaf=is_variable)]
        for net in (plain, captured)
    ]
    return (without, states[0]), (found, states[1])


def is_variable(value: Any) -> bool:
    return isinstance(value, sys.modules["flax.nnx"].Variable)


def test_what_a_call_of_flax_sets_it_sets_in_a_captured_step_too(flax_net: Any) -> None:
    without, captured = flax_states(flax_net)
    assert same(without, captured)
    assert folders() == ["model", "layers.0", "layers.1", "drop"]
    assert "left_out" not in order()


def test_variables_that_a_call_of_flax_makes_are_made_in_a_captured_step_too(
    flax_net: Any,
) -> None:
    without, captured = flax_states(flax_net, sows=True)
    assert len(captured[1]) == len(flax_net.Net().__dict__["layers"]) * 2 + 3
    assert same(without, captured)
    assert folders() == ["model", "layers.0", "layers.1", "drop"]


def test_a_module_of_flax_with_one_variable_in_two_places_is_left_out(
    flax_net: Any, caplog: pytest.LogCaptureFixture
) -> None:
    net = flax_net.Net(shared=True)
    nnx: Any = sys.modules["flax.nnx"]
    capture.model(net)
    with (
        caplog.at_level(logging.WARNING, "gradreplay.capture"),
        capture.step("fixtures/step0", step=0),
    ):
        nnx.jit(nnx.value_and_grad(lambda net, x: net(x).sum()))(net, X)
    capture.flush()
    reason = "it holds one variable of Flax in two places"
    assert order()["left_out"] == [{"module": "", "reason": reason}]
    assert folders() == ["layers.0", "layers.1", "drop"]
    assert "1 modules of `model`: model" in caplog.text
