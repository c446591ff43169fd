"""JAX: forks before its devices, its compilation cache, its own rounding, 64 bits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from frameworks import need
from replay import Project, Server

from gradreplay import tensors
from gradreplay.settings import settings
from gradreplay.tensors import DTYPES

OPTIONS = "(framework='jax')"
STEP = """
def step(x):
    import jax
    return {"y": jax.jit(lambda x: jax.numpy.exp(x) / 3)(x)}
"""
X = np.linspace(-1, 1, 64, dtype=np.float32)


@pytest.fixture(autouse=True)
def jax() -> Any:
    need("jax")
    import jax

    return jax


def test_every_dtype_goes_through_unchanged(project: Project) -> None:
    # 64-bit inputs are kept: JAX would narrow them.
    project.write_program("def step(**inputs):\n    return inputs", options=OPTIONS)
    values = np.arange(6).reshape(2, 3) % 2
    given = {
        f"x{name}": tensors.take("x", values.astype(dtype.numpy()))
        for name, dtype in DTYPES.items()
    }
    given["scalar"] = tensors.take("x", np.float32(1))
    given["empty"] = tensors.take("x", np.zeros((3, 0), np.float32))
    done = project.run(given)
    assert done.code == 0, done.stderr
    assert done.outputs is not None
    for name, tensor in given.items():
        assert done.outputs[name].dtype == tensor.dtype
        assert done.outputs[name].shape == tensor.shape
        assert done.outputs[name].data.tobytes() == tensor.data.tobytes()


def test_a_preloaded_jax_forks_and_gives_the_bits_of_a_fresh_process(
    project: Project, servers: list[Server]
) -> None:
    project.write_program(STEP, options=OPTIONS)
    servers.append(Server(project, "jax,jax.numpy"))
    given = project.inputs(x=X)
    alone, *forked = project.run(given), servers[0].run(given), servers[0].run(given)
    assert [done.code for done in (alone, *forked)] == [0, 0, 0], alone.stderr
    assert {done.array("y").tobytes() for done in (alone, *forked)} == {alone.array("y").tobytes()}


def test_what_jax_compiled_is_kept(project: Project) -> None:
    project.write_program(STEP, options=OPTIONS)
    given = project.inputs(x=X)
    first = project.run(given)
    kept = sorted((project.root / "cache" / "gradreplay" / "jax").iterdir())
    assert [path for path in kept if "lambda" in path.name]
    second = project.run(given)
    assert first.array("y").tobytes() == second.array("y").tobytes()


def test_jax_sets_the_rounding_mode_back_which_saves_the_call(project: Project) -> None:
    project.write_program(STEP, options=OPTIONS)
    up = project.run(project.inputs(x=X), rounding="up")
    assert up.answer == {"call": "waiting", "rounding": "reset"}, up.stderr
    assert up.outputs == {}


def test_a_harness_of_numpy_that_calls_jax_is_told_that_the_mode_was_set_back(
    project: Project,
) -> None:
    body = "def step(x):\n    import jax\n    return {'y': jax.numpy.exp(x)}"
    project.write_program(body)
    assert project.run(project.inputs(x=X), rounding="up").answer == {"rounding": "reset"}


def test_arrays_of_jax_have_no_surroundings(project: Project) -> None:
    project.write_program(STEP, options=OPTIONS)
    done = project.run(project.inputs(x=X), surroundings="nan")
    assert done.answer == {"surroundings": "unsupported"}


def test_a_twin_computes_in_64_bits(project: Project) -> None:
    project.write_program(STEP, options=OPTIONS)
    done = project.run(project.inputs(x=X.astype(np.float64)), precision="float64")
    assert done.array("y").dtype == np.float64
    np.testing.assert_allclose(done.array("y"), np.exp(X.astype(np.float64)) / 3, rtol=1e-15)


def test_a_device_that_was_started_before_prevents_a_fork(
    project: Project, servers: list[Server]
) -> None:
    project.write_program(STEP, options=OPTIONS, top="import jax\njax.numpy.zeros(1)\n")
    servers.append(Server(project))
    servers[0].start(project.inputs(x=X))
    assert servers[0].receive() == {"cannot_fork": 1, "why": "JAX has started a device already"}
    done = servers[0].run(project.inputs(x=X), fork=False)
    assert done.code == 0


def test_a_tracer_that_is_returned_is_told(project: Project) -> None:
    project.write_program(
        """
        def step(x):
            import jax
            kept = []
            jax.jit(lambda x: kept.append(x) or x)(x)
            return {"y": kept[0]}
        """,
        options=OPTIONS,
    )
    done = project.run(project.inputs(x=X))
    assert done.code == 126
    assert "`y` has no elements to read" in done.error["message"]


def test_an_error_in_a_traced_function_of_the_revision_is_its_fault(project: Project) -> None:
    tree = project.tree(model="def loss(x):\n    return x.reshape(3, 3)\n")
    project.write_program(
        "def step(x):\n    import jax\n    from model import loss\n    return {'y': jax.jit(loss)(x)}",
        options=OPTIONS,
    )
    done = project.run(project.inputs(x=X), tree)
    assert (done.code, done.error["fault"]) == (125, "revision")
    assert done.error["message"].startswith("model.py:2: TypeError: ")


def test_casts_to_float32_are_widened_in_a_twin(project: Project, servers: list[Server]) -> None:
    tree = project.tree(
        model="""
        import jax
        import jax.numpy as jnp
        def loss(x):
            one, two, three = jax.random.split(jax.random.key(3), 3)
            y = x.astype(jnp.float32) ** 2
            y = jnp.einsum("ij,kj->ik", y, y, preferred_element_type=jnp.float32)
            y = y + jnp.zeros(4, jnp.float32) + jnp.arange(4, dtype=jnp.float32)
            y = jnp.where(jax.random.bernoulli(one, 0.5, y.shape), y / 0.5, 0)
            y = y + jax.random.normal(two, (4,)) + jax.random.uniform(three, (4,), jnp.float32)
            def add(total, row):
                return total + jnp.float32(0.5) * row, None
            y, _ = jax.lax.scan(add, jnp.zeros(4, jnp.float32), y.astype("float32"))
            return (jax.nn.log_softmax(y) ** 2).mean()
        """
    )
    project.write_program(
        """
        def step(x):
            import jax
            from model import loss
            value, dx = jax.jit(jax.value_and_grad(loss))(x)
            return {"loss": value, "dx": dx}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "jax,jax.numpy"))
    x = np.linspace(-1, 1, 20).reshape(4, 5)
    native = servers[0].run(project.inputs(x=x.astype(np.float32)), tree)

    def twin(x: Any) -> Any:
        return servers[0].run(project.inputs(x=x), tree, precision="float64")

    wide = twin(x)
    assert wide.array("loss").dtype == np.float64, wide.stderr
    for name in ("loss", "dx"):
        # The same random numbers, and more digits.
        np.testing.assert_allclose(wide.array(name), native.array(name), rtol=2e-5, atol=1e-5)
    step = 1e-6 * np.cos(np.arange(20)).reshape(4, 5)
    slope = (twin(x + step).array("loss") - twin(x - step).array("loss")) / 2
    np.testing.assert_allclose(slope, (wide.array("dx") * step).sum(), rtol=1e-7)


def test_kernels_of_pallas_are_wide_in_a_twin(project: Project, servers: list[Server]) -> None:
    tree = project.tree(
        model="""
        import jax
        import jax.numpy as jnp
        from jax.experimental import pallas as pl
        from jax.experimental.pallas import tpu as pltpu

        def kernel(x_ref, y_ref, rstd_ref, sum_ref):
            x = x_ref[...].astype(jnp.float32)
            sum_ref[...] = jnp.sum(x * x, axis=-1, keepdims=True)
            rstd = jax.lax.rsqrt(sum_ref[...] / x.shape[-1] + 1e-5)
            rstd_ref[...] = rstd
            y_ref[...] = x * rstd

        def norm(x):
            block = pl.BlockSpec((2, 5), lambda i: (i, 0))
            return pl.pallas_call(
                kernel,
                grid=(2,),
                in_specs=[block],
                out_specs=[block, pl.BlockSpec((2, 1), lambda i: (i, 0))],
                out_shape=[
                    jax.ShapeDtypeStruct(x.shape, x.dtype),
                    jax.ShapeDtypeStruct((4, 1), jnp.float32),
                ],
                scratch_shapes=[pltpu.VMEM((2, 1), jnp.float32)],
                interpret=True,
            )(x)
        """
    )
    project.write_program(
        """
        def step(x):
            import jax
            from model import norm
            y, rstd = jax.jit(norm)(x)
            return {"y": y, "rstd": rstd}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "jax"))
    x = np.cos(np.arange(20.0)).reshape(4, 5)
    rstd = 1 / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)
    wide = servers[0].run(project.inputs(x=x), tree, precision="float64")
    np.testing.assert_allclose(wide.array("rstd"), rstd, rtol=1e-14, err_msg=wide.stderr)
    np.testing.assert_allclose(wide.array("y"), x * rstd, rtol=1e-14)
    native = servers[0].run(project.inputs(x=x.astype(np.float32)), tree)
    assert native.array("rstd").dtype == np.float32
    np.testing.assert_allclose(native.array("y"), x * rstd, rtol=1e-5)


def test_rounding_to_integers_passes_numbers_where_that_is_asked_for(
    project: Project, servers: list[Server]
) -> None:
    project.write_program(
        """
        def step(x):
            import jax
            import jax.numpy as jnp
            rounded = jax.jit(lambda x: jnp.rint(x) + jnp.round(x) - jnp.floor(x))
            slope = jax.grad(lambda x: jnp.sum(x + jax.lax.round(x)))(x)
            return {"y": rounded(x), "slope": slope}
        """,
        options=OPTIONS,
    )
    servers.append(Server(project, "jax"))
    given = project.inputs(x=np.array([1.25, 2.75]))
    for rounding, wanted in (("nearest", [1.0, 4.0]), ("passed", [1.5, 3.5])):
        done = servers[0].run(given, precision="float64", rounding=rounding)
        assert done.array("y").tolist() == wanted
        # Differentiation sees what the code says.
        assert done.array("slope").tolist() == [1.0, 1.0]
    assert done.answer is not None and done.answer["rounding"] == "applied"
    record = project.root / "roundings"
    kept = servers[0].run(given, precision="float64", rounding="recorded", record=str(record))
    assert kept.array("y").tolist() == [1.0, 4.0]
    beside = project.inputs(x=np.array([1.5, 2.5]))
    straight = servers[0].run(beside, precision="float64", rounding="straight", record=str(record))
    assert straight.array("y").tolist() == [1.0 + 0.5, 4.0 - 0.5]
    assert straight.array("slope").tolist() == [1.0, 1.0]


def test_flags_that_change_numbers_are_read_as_they_are_set(jax: Any) -> None:
    x64 = settings("jax", "cpu")["jax.config.jax_enable_x64"]
    assert x64 == str(jax.config.jax_enable_x64).lower()
    with jax.default_matmul_precision("highest"):
        assert settings("jax", "cpu")["jax.config.jax_default_matmul_precision"] == "highest"
