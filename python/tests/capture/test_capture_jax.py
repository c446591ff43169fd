"""JAX: under jit, grad, scan and shard_map; bits, parts, and what is told."""

from __future__ import annotations

import importlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import array, header, inspect, names

# Several devices on one processor; before JAX is imported by anybody.
os.environ.setdefault("XLA_FLAGS", "--xla_force_host_platform_device_count=4")
jax = pytest.importorskip("jax")
jnp = pytest.importorskip("jax.numpy")

from gradreplay import capture  # noqa: E402

X = np.random.default_rng(1).standard_normal((16, 8)).astype(np.float32)
W = np.random.default_rng(2).standard_normal((8, 9)).astype(np.float32)
T = np.random.default_rng(3).integers(0, 9, 16).astype(np.int32)
SIZES = {"logits": "tokens vocab", "targets": "tokens"}


def loss(logits: Any, targets: Any, scale: float = 1.0) -> Any:
    lse = jax.nn.logsumexp(logits.astype(jnp.float32), -1)
    picked = jnp.take_along_axis(logits.astype(jnp.float32), targets[..., None], -1)[..., 0]
    return ((lse - picked) * scale).sum()


def plain(f: Callable[..., Any]) -> Any:
    return jax.jit(lambda w, x, t: f(x @ w, t))


def gradient(f: Callable[..., Any]) -> Any:
    return jax.jit(
        lambda w, x, t: jax.value_and_grad(lambda w: f((x @ w).astype(jnp.bfloat16), t, 0.5))(w)
    )


def scan(f: Callable[..., Any]) -> Any:
    @jax.jit
    def run(w: Any, x: Any, t: Any) -> Any:
        def body(total: Any, part: Any) -> Any:
            value, grad = jax.value_and_grad(lambda w: f(part[0] @ w, part[1]))(w)
            return total + grad, value

        return jax.lax.scan(body, jnp.zeros_like(w), (x.reshape(4, 4, 8), t.reshape(4, 4)))

    return run


def mesh(f: Callable[..., Any]) -> Any:
    devices = jax.sharding.Mesh(np.array(jax.devices()), ("data",))
    P = jax.sharding.PartitionSpec

    @jax.jit
    def run(w: Any, x: Any, t: Any) -> Any:
        def local(w: Any, x: Any, t: Any) -> Any:
            value, grad = jax.value_and_grad(lambda w: f(x @ w, t))(w)
            return jax.lax.psum(value, "data"), jax.lax.psum(grad, "data")

        specs = (P(), P("data"), P("data"))
        return jax.shard_map(local, mesh=devices, in_specs=specs, out_specs=(P(), P()))(w, x, t)

    return run


def remat(f: Callable[..., Any]) -> Any:
    return jax.jit(lambda w, x, t: jax.grad(lambda w: jax.checkpoint(lambda w: f(x @ w, t))(w))(w))


def bits(value: Any) -> list[bytes]:
    return [np.asarray(leaf).tobytes() for leaf in jax.tree_util.tree_leaves(value)]


PROGRAMS = {"plain": plain, "gradient": gradient, "scan": scan, "mesh": mesh, "remat": remat}


@pytest.mark.parametrize("program", PROGRAMS)
def test_results_have_the_same_bits_with_capture_on(program: str) -> None:
    sharded = {"axis": "tokens", "mesh_axis": "data", "shapes": SIZES} if program == "mesh" else {}
    tapped = capture.jax_function(loss, **sharded)
    reference = bits(PROGRAMS[program](loss)(W, X, T))
    run = PROGRAMS[program](tapped)
    for step in range(4):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(2), strict=True):
            got = run(W, X, T)
        assert bits(got) == reference, f"step {step}"
    assert {name.partition("-")[0] for name in names()} == {"step0", "step2"}


def test_inputs_cotangents_outputs_and_gradients_are_those_of_the_call() -> None:
    tapped = capture.jax_function(loss)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        gradient(tapped)(W, X, T)
    capture.flush()
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert {name: entry["dtype"] for name, entry in entries.items()} == {
        "logits": "BF16", "targets": "I32", "scale": "F64",
    }  # fmt: skip
    logits = jnp.asarray(X @ W).astype(jnp.bfloat16)
    value, pull = jax.vjp(lambda logits: loss(logits, T, 0.5), logits)
    assert np.allclose(array("fixtures/step0/expected.safetensors", "loss"), value, rtol=1e-5)
    got = array("fixtures/step0/expected.safetensors", "grad_logits").astype(np.float32)
    assert np.allclose(got, np.asarray(pull(jnp.float32(1))[0], np.float32), atol=1e-2)
    assert array("fixtures/step0/grad_loss.safetensors", "grad_loss") == 1


def test_a_function_that_is_not_differentiated_is_captured_too() -> None:
    tapped = capture.jax_function(loss)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        plain(tapped)(W, X, T)
    capture.flush()
    entries, _ = header("fixtures/step0/expected.safetensors")
    assert set(entries) == {"loss"}


def test_a_function_that_is_not_compiled_is_captured_too() -> None:
    tapped = capture.jax_function(loss)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        jax.grad(lambda logits: tapped(logits, T))(X @ W)
    capture.flush()
    entries, _ = header("fixtures/step0/expected.safetensors")
    assert set(entries) == {"loss", "grad_logits"}


def test_only_the_gradients_asked_for_are_taken() -> None:
    def product(a: Any, b: Any) -> Any:
        return a * b

    tapped = capture.jax_function(product, gradients=["b"])
    with capture.step("fixtures/step{step}", step=0, strict=True):
        got = jax.jit(jax.grad(lambda a: tapped(a, 2 * a).sum()))(jnp.arange(3.0))
    capture.flush()
    assert got.tolist() == [0, 4, 8]
    entries, _ = header("fixtures/step0/expected.safetensors")
    assert set(entries) == {"out", "grad_b"}


def test_each_element_of_a_vmap_is_a_call() -> None:
    tapped = capture.jax_function(lambda x: (x * x).sum(), name="f", import_as="losses:f")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        got = jax.jit(jax.vmap(jax.grad(tapped)))(jnp.arange(6.0).reshape(3, 2))
    assert got.tolist() == [[0, 2], [4, 6], [8, 10]]
    assert names() == ["step0", "step0-call1", "step0-call2"]


def test_an_error_of_the_program_ends_the_step_and_is_raised() -> None:
    def fail(x: Any) -> Any:
        raise ValueError("of the training")

    def run(x: Any) -> Any:
        jax.experimental.io_callback(fail, None, x)
        return tapped(x)

    importlib.import_module("jax.experimental")
    tapped = capture.jax_function(jnp.sin, name="f", import_as="losses:f")
    with pytest.raises(Exception, match="of the training"):
        with capture.step("fixtures/step{step}", step=0):
            jax.block_until_ready(jax.jit(run)(jnp.arange(3.0)))


def test_microbatches_of_a_scan_are_parts_in_their_order() -> None:
    tapped = capture.jax_function(loss, shapes=SIZES, axis="tokens")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        scan(tapped)(W, X, T)
    capture.flush()
    for part in range(4):
        file = f"fixtures/step0/part0-call{part}.safetensors"
        assert array(file, "targets").tolist() == T.reshape(4, 4)[part].tolist()
    assert not Path("fixtures/step0.parts").exists()
    text = Path("fixtures/step0/fixture.toml").read_text()
    assert text.count('axis = "tokens"') == 4 and "order = 3" in text
    assert array("fixtures/step0/upstream.safetensors", "grad_loss") == 1


def test_shards_of_a_mesh_are_proven_to_make_up_the_whole(replay: str) -> None:
    harness = Path("loss/replay.toml")
    harness.parent.mkdir()
    inputs = "\n".join(
        f'[inputs.{name}]\ndtype = "{dtype}"\nshape = {shape}'
        for name, dtype, shape in [
            ("logits", "f32", '["tokens", "vocab"]'),
            ("targets", "i32", '["tokens"]'),
            ("grad_loss", "f32", "[]"),
        ]
    )
    harness.write_text(
        'sources = ["loss.cu"]\ncall = "loss();"\n'
        + inputs
        + '\n[outputs.loss]\ndtype = "f32"\nshape = []\n'
    )
    tapped = capture.jax_function(
        loss, shapes=SIZES, axis="tokens", mesh_axis="data", harness=harness
    )
    with capture.step("fixtures/step{step}", step=0, strict=True):
        # The product by the unit matrix has the bits of its other factor.
        mesh(tapped)(np.eye(8, 9, dtype=np.float32), X, T)
        capture.whole("loss", logits=X @ np.eye(8, 9, dtype=np.float32), targets=T)
    capture.flush()
    told = inspect(replay, "fixtures/step0")
    assert told.returncode == 0, told.stderr
    assert "put together from 4 parts along tokens, equal to the whole bit for bit" in told.stdout
    for index in range(4):
        got = array(f"fixtures/step0/part{index}-call0.safetensors", "targets")
        assert got.tolist() == T[4 * index : 4 * index + 4].tolist()


def test_inputs_are_on_the_disk_before_the_function_runs() -> None:
    seen = []

    def look(x: Any) -> Any:
        def note(x: Any) -> Any:
            seen.append(Path("fixtures/step0/fixture.toml").exists())
            return x

        return jax.pure_callback(note, jax.ShapeDtypeStruct(x.shape, x.dtype), x)

    tapped = capture.jax_function(look)
    with capture.step("fixtures/step{step}", step=0, strict=True):
        jax.jit(tapped)(jnp.arange(3.0))
    assert seen == [True]


def test_a_traced_array_in_a_function_of_pytorch_s_kind_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    wrapped = capture.function(loss, name="f")
    with capture.step("fixtures/step{step}", step=0):
        jax.jit(wrapped)(X @ W, T)
    assert [record.getMessage() for record in caplog.records] == [
        "not captured: the function is traced by JAX: its arrays have no elements yet "
        "(hint: wrap it by capture.jax_function)"
    ]


def test_gradients_of_what_is_no_float_are_told(caplog: pytest.LogCaptureFixture) -> None:
    tapped = capture.jax_function(loss, gradients=["targets"])
    with capture.step("fixtures/step{step}", step=0):
        jax.jit(tapped)(X @ W, T)
    assert "gradients names `targets`; inputs of floating point are logits" in caplog.text
    assert names() == []
