"""Arguments and results that hold arrays in objects: captured by names of their places, and made again."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from written import header

from gradreplay import capture, tensors

MODEL = """
import enum
from collections import OrderedDict, defaultdict
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple

class Reduction(enum.Enum):
    MEAN = 1
    SUM = 2

@dataclass(frozen=True)
class Config:
    scale: float
    block: int = 8
    reduction: Reduction = Reduction.MEAN
    name: str = "xent"

@dataclass
class Prepared:
    '''A class whose `__init__` does more than set its fields.'''
    width: float
    root: Any = field(init=False)
    def __post_init__(self):
        self.root = self.width ** 0.5
        self.seen = []

class Plain:
    def __init__(self, shift):
        self.shift = shift + 1
    def moved(self, x):
        return x + self.shift

class Moments(NamedTuple):
    count: Any
    mu: Any
    nu: Any

class Scaled(NamedTuple):
    value: Any
    parts: Any

def soft(x):
    return x / (1 + abs(x))

def power(x, exponent):
    return x ** exponent
"""

JAX_MODEL = (
    """
import jax, jax.numpy as jnp
"""
    + MODEL
    + """
@jax.tree_util.register_pytree_node_class
class Layer:
    def __init__(self, weight, bias, activation):
        self.weight, self.bias, self.activation = weight, bias, activation
    def tree_flatten(self):
        return (self.weight, self.bias), (self.activation, 3)
    @classmethod
    def tree_unflatten(cls, data, children):
        return cls(*children, data[0])

@jax.tree_util.register_dataclass
@dataclass
class State:
    params: Any
    moments: Any
    step: Any
    activation: Any = field(metadata=dict(static=True), default=soft)
    width: int = field(metadata=dict(static=True), default=4)

class Module:
    '''As Equinox makes them: an `__init__` with other parameters than its fields.'''
    def __init__(self, key, width):
        self.weight = jax.random.normal(key, (width, width))

jax.tree_util.register_pytree_with_keys(
    Module,
    lambda module: (((jax.tree_util.GetAttrKey("weight"), module.weight),), None),
    lambda data, children: rebuilt(children),
)

def rebuilt(children):
    made = object.__new__(Module)
    made.weight, = children
    return made

def step(state, layer, module, key, batch, config):
    assert type(state.moments) is Moments and type(config) is Config and config.block == 8
    assert hash(config) is not None and state.width == 4 and layer.activation is soft
    noise = jax.random.normal(key, batch["x"][0].shape)
    h = layer.activation(batch["x"][0] @ layer.weight + layer.bias + noise * batch[7]) @ module.weight
    h = (h @ state.params["w"]) * config.scale + state.moments.mu["w"].sum()
    value = h.sum() if config.reduction is Reduction.SUM else h.mean()
    state = State(state.params, Moments(state.moments.count + 1, h, state.moments.nu), state.step + 1)
    return value, state, jax.random.split(key)[0]
"""
)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Makes a module that functions of a training lie in."""
    made: list[str] = []

    def make(text: str) -> ModuleType:
        Path("structured_model.py").write_text(text)
        monkeypatch.syspath_prepend(tmp_path)
        made.append("structured_model")
        return importlib.import_module("structured_model")

    yield make
    for name in made:
        del sys.modules[name]


def script(name: str, folder: str = "fixtures") -> str:
    return Path(folder, f"harness-{name}", "replay_step.py").read_text()


def replayed(name: str, kind: Any, fixture: str = "step0") -> dict[str, Any]:
    """What the drafted script of a function gives for a fixture, in this process."""
    spec = importlib.util.spec_from_file_location(
        "drafted", Path("fixtures", f"harness-{name}", "replay_step.py")
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    inputs: dict[str, Any] = {}
    if "precision" in inspect.signature(module.step).parameters:
        inputs["precision"] = "native"
    for file in Path("fixtures", fixture).glob("*.safetensors"):
        if file.name != "expected.safetensors":
            inputs |= {key: kind(one.array().copy()) for key, one in tensors.read(file).items()}
    results: dict[str, Any] = module.step(**inputs)
    return results


def expected(fixture: str = "step0") -> dict[str, Any]:
    found = tensors.read(Path("fixtures", fixture, "expected.safetensors"))
    return {name: one.array() for name, one in found.items()}


def hold(got: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    """The same names, and the same bits."""
    assert set(got) == set(wanted)
    for name, value in wanted.items():
        here = got[name].detach() if hasattr(got[name], "detach") else got[name]
        assert np.asarray(here).tobytes() == np.asarray(value).tobytes(), name


def inputs() -> set[str]:
    return set(header("fixtures/step0/inputs.safetensors")[0])


def test_named_tuples_dataclasses_and_objects_of_numpy_are_made_again(model: Any) -> None:
    made = model(
        MODEL
        + """
def step(x, moments, config, prepared, plain, table, call, shaped, window):
    assert type(moments) is Moments and type(config) is Config and type(prepared) is Prepared
    assert prepared.seen == [] and type(plain) is Plain and type(table) is OrderedDict
    assert call.func is power and shaped.__func__ is Plain.moved and window == (slice(0, 2), {"a", "b"})
    y = call(x * config.scale) + moments.mu * prepared.root + table[3, "w"] * table[Reduction.SUM]
    return Scaled(shaped(y)[window[0]], {"norm": Config(y.sum()), 2: y.max()})
"""
    )
    step = capture.function(made.step)
    x = np.arange(3.0)
    plain = made.Plain(0.5)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        step(
            x,
            moments=made.Moments(2, x + 1, None),
            config=made.Config(0.5),
            prepared=made.Prepared(2.0),
            plain=plain,
            table=made.OrderedDict({(3, "w"): x * 2, made.Reduction.SUM: np.float64(3)}),
            call=made.partial(made.power, exponent=2),
            shaped=plain.moved,
            window=(slice(0, 2), {"a", "b"}),
        )
    capture.flush()
    assert inputs() == {
        "x", "moments_mu", "table_3_w", "table_SUM", "moments_count", "config_scale", "config_block",
        "prepared_width", "prepared_root", "plain_shift", "call_exponent", "shaped_self_shift",
    }  # fmt: skip
    assert set(expected()) == {"value", "parts_norm_scale", "parts_2"}
    config = "config=Config(scale=float(config_scale), block=int(config_block), reduction="
    assert f"\n        {config}" in script("step")
    hold(replayed("step", np.asarray), expected())


def test_attributes_with_names_that_python_cannot_write_are_made_again(model: Any) -> None:
    made = model(
        MODEL + 'def step(x, plain): return x * getattr(plain, "0") + vars(plain)["class"]\n'
    )
    step = capture.function(made.step)
    plain = made.Plain(0.5)
    vars(plain).update({"0": 2.0, "class": 1.0})
    with capture.step("fixtures/step{step}", step=0, strict=True):
        step(np.arange(3.0), plain)
    capture.flush()
    assert "**{'0': float(plain_0)}, **{'class': float(plain_class)}" in script("step")
    hold(replayed("step", np.asarray), expected())


def test_a_step_of_jax_with_states_layers_keys_and_static_values_is_made_again(model: Any) -> None:
    jax = pytest.importorskip("jax")
    made = model(JAX_MODEL)
    step = capture.jax_function(made.step, name="train")
    key = jax.random.key(3)
    x = jax.numpy.linspace(-1, 1, 8, dtype="float32").reshape(2, 4)
    weight = jax.random.normal(key, (4, 4))
    state = made.State({"w": weight + 1}, made.Moments(0, {"w": weight}, ()), 5)
    layer = made.Layer(weight, weight[0], made.soft)
    arguments = (made.Module(key, 4), key, {"x": [x], 7: 0.25}, made.Config(0.5))

    @jax.jit
    def train(state: Any, layer: Any) -> Any:
        return jax.value_and_grad(lambda layer: step(state, layer, *arguments)[0])(layer)

    with capture.step("fixtures/step{step}", step=0, strict=True):
        _, gradient = train(state, layer)
    capture.flush()
    assert type(gradient) is made.Layer
    assert inputs() == {
        "state_params_w", "state_moments_count", "state_moments_mu_w", "state_step", "layer_0",
        "layer_1", "module_weight", "key", "batch_x_0", "batch_7", "config_scale", "config_block",
    }  # fmt: skip
    wanted = expected()
    assert {"out_0", "out_1_moments_mu", "out_2", "grad_layer_0", "grad_layer_1"} <= set(wanted)
    hold(replayed("train", jax.numpy.asarray), wanted)


def test_results_in_objects_are_outputs_by_the_names_of_their_places(model: Any) -> None:
    jax = pytest.importorskip("jax")
    made = model(
        JAX_MODEL
        + """
def pack(x):
    return State({"w": x}, Layer(x * 2, x * 3, soft), {"a": [x * 4]})
"""
    )
    pack = capture.jax_function(made.pack)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        jax.jit(pack)(np.ones(3, np.float32))
    capture.flush()
    assert set(expected()) == {"params_w", "moments_0", "moments_1", "step_a_0"}
    hold(replayed("pack", jax.numpy.asarray), expected())


def test_gradients_flow_through_objects_of_pytorch(model: Any) -> None:
    torch = pytest.importorskip("torch")
    made = model(
        MODEL
        + """
def loss(batch, config):
    return Scaled((batch.mu * config.scale).sum(), [batch.nu])
"""
    )
    loss = capture.function(made.loss)
    leaf = torch.arange(3.0, requires_grad=True)
    config = made.Config(0.5)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        loss(made.Moments("none", leaf, torch.ones(2)), config).value.backward()
    capture.flush()
    assert leaf.grad.tolist() == [0.5, 0.5, 0.5]
    assert set(expected()) == {"value", "parts_0", "grad_batch_mu"}
    hold(replayed("loss", torch.as_tensor), expected())


def test_what_holds_no_array_is_passed_on_as_the_same_object(model: Any) -> None:
    made = model(MODEL)
    seen: list[Any] = []

    def note(x: Any, *held: Any) -> Any:
        seen.extend(held)
        held[0].append(1)
        return x + 1

    step = capture.function(note, import_as="structured_model:soft")
    held = ([], made.Config(1.0), made.Prepared(2.0), made.soft, {"x": np.ones(2)})
    with capture.step("fixtures/step{step}", step=0, strict=True):
        step(np.ones(2), *held)
    assert all(one is other for one, other in zip(seen, held, strict=True))
    assert held[0] == [1], "what the function writes to is the training's own"


def test_two_classes_of_one_name_have_names_of_their_own_in_the_script(model: Any) -> None:
    made = model(
        MODEL
        + """
class Other:
    class Config(NamedTuple):
        x: Any
def Moments_(Config, a, b):
    return a.x * b.scale + Config
"""
    )
    step = capture.function(made.Moments_, name="f")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        step(np.ones(2), made.Other.Config(np.ones(2)), made.Config(2.0))
    capture.flush()
    assert "from structured_model import Other, Config as Config_2, Reduction\n" in script("f")
    hold(replayed("f", np.asarray), expected())


def refused(argument: Any, **options: Any) -> capture.CaptureError:
    """Why a function of this argument is not captured."""

    def run(x: Any, state: Any) -> Any:
        return x + 1

    wrapped = capture.function(run, name="run", **options)
    with pytest.raises(capture.CaptureError) as error:
        with capture.step("fixtures/step{step}", step=0, strict=True):
            wrapped(np.ones(1), argument)
    return error.value


def test_a_function_that_no_module_holds_is_refused_by_its_place(model: Any) -> None:
    made = model(MODEL)
    error = refused(made.Scaled(1, {"tx": [lambda x: x]}))
    assert str(error).startswith("argument `state.parts.tx.0` is `test_capture_structures.")
    assert str(error).endswith("<lambda>`, which no module holds by a name")
    assert error.hint == (
        "name a function without parameters that makes it: "
        'build={"state.parts.tx.0": "module:function"}'
    )


def test_a_function_named_by_the_user_makes_what_no_fixture_can_hold(model: Any) -> None:
    made = model(
        MODEL
        + """
def make_doubling():
    return lambda x: 2 * x
def step(x, state):
    return state.parts["tx"](x)
"""
    )
    step = capture.function(made.step, build={"state.parts.tx": "structured_model:make_doubling"})
    with capture.step("fixtures/step{step}", step=0, strict=True):
        step(np.ones(1), made.Scaled(1, {"tx": made.make_doubling()}))
    capture.flush()
    assert replayed("step", np.asarray)["out"] == 2


def test_a_class_inside_of_a_function_is_refused() -> None:
    from dataclasses import dataclass

    @dataclass
    class Inner:
        x: float

    error = refused(Inner(1.0))
    assert "`state` is a test_capture_structures." in str(error)
    assert str(error).endswith("Inner, a class that no module holds by its name")
    assert error.hint == "define the class at the top of a module"


def test_what_holds_itself_is_refused() -> None:
    held: list[Any] = []
    held.append(held)
    assert str(refused(held)) == "argument `state.0` is a list that holds itself"


def test_the_state_of_a_whole_program_is_refused() -> None:
    assert "hold more than 65536 values" in str(refused(list(range(70_000))))


def test_a_module_of_pytorch_is_no_argument() -> None:
    torch = pytest.importorskip("torch")
    error = refused(torch.nn.Linear(2, 2))
    assert str(error).startswith("argument `state` is `torch.nn.modules.linear.Linear`")


def test_results_that_jax_does_not_see_are_refused(model: Any) -> None:
    jax = pytest.importorskip("jax")
    made = model(MODEL + "\ndef loss(x):\n    return Config(x.sum()).scale, Config(x)\n")
    loss = capture.jax_function(made.loss)
    with pytest.raises(capture.CaptureError) as error:
        with capture.step("fixtures/step{step}", step=0, strict=True):
            jax.grad(lambda x: loss(x)[0])(np.ones(2, np.float32))
    assert str(error.value) == (
        "`out_1_scale` lies in an object of a class that JAX does not know as a pytree"
    )
