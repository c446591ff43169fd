"""Programs in JAX. XLA sets the rounding mode back: noise rests on inputs that are moved."""

# ruff: noqa: E501 (an edit is as long as the line that it edits)

from __future__ import annotations

import ml_dtypes
import numpy as np
from corpus import Array, Family, Out, benign, imprecise, wrong
from numpy_families import normal, zipf

HEAD = """import jax
import jax.numpy as jnp


"""


def cross_entropy_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    rows, classes, width = 64, 40, 16
    usual = {
        "hidden": normal(rng, rows, width).astype(ml_dtypes.bfloat16),
        "table": normal(rng, classes, width, scale=0.3),
        "labels": zipf(rng, rows, classes),
        "upstream": np.full(rows, 1 / rows, np.float32),
    }
    return {"usual": usual, "large": {**usual, "table": 8 * usual["table"]}}


# The computation follows the dtypes of its inputs: hidden is bfloat16, and float64 in a twin.
CROSS_ENTROPY = Family(
    name="cross_entropy",
    framework="jax",
    source=HEAD
    + """@jax.jit
def step(hidden, table, labels, upstream):
    wide = hidden.astype(table.dtype)
    logits = wide @ table.T
    highest = logits.max(axis=1, keepdims=True)
    total = jnp.exp(logits - highest).sum(axis=1, keepdims=True)
    lse = highest + jnp.log(total)
    rows = jnp.arange(len(labels))
    loss = lse[:, 0] - logits[rows, labels]
    dlogits = jnp.exp(logits - lse) * upstream[:, None]
    dtable = dlogits.T @ wide
    dtable = dtable - jnp.zeros_like(table).at[labels].add(wide * upstream[:, None])
    dhidden = dlogits @ table - upstream[:, None] * table[labels]
    return {"loss": loss, "dhidden": dhidden.astype(hidden.dtype), "dtable": dtable}
""",
    outputs={"loss": Out("upstream"), "dhidden": Out("hidden"), "dtable": Out("table")},
    inputs=cross_entropy_data,
    variants=(
        benign(
            "JAX's own",
            ("highest + jnp.log(total)", "jax.nn.logsumexp(logits, axis=1, keepdims=True)"),
        ),
        benign(
            "softmax", ("jnp.exp(logits - lse) * upstream", "jax.nn.softmax(logits) * upstream")
        ),
        benign(
            "one-hot labels",
            (
                "jnp.zeros_like(table).at[labels].add(wide * upstream[:, None])",
                "jax.nn.one_hot(labels, len(table), dtype=table.dtype).T @ (wide * upstream[:, None])",
            ),
        ),
        benign("scales the sum", ("(wide * upstream[:, None])", "(wide) * upstream[0]")),
        benign(
            "in tiles",
            (
                "logits = wide @ table.T",
                "logits = jnp.concatenate([wide @ tile.T for tile in jnp.split(table, 4)], axis=1)",
            ),
        ),
        wrong("labels off by one", ("table[labels]", "table[labels - 1]")),
        wrong(
            "the upstream gradient is left out",
            (
                "dlogits @ table - upstream[:, None] * table[labels]",
                "dlogits @ table - table[labels] / 64 * 1.01",
            ),
        ),
        wrong("sets in the place of adds", ("].add(", "].set(")),
        wrong(
            "sums over tokens",
            (
                "jnp.exp(logits - highest).sum(axis=1, keepdims=True)",
                "jnp.exp(logits - highest).sum(axis=0)[:, None].mean() + 0 * highest",
            ),
        ),
        imprecise(
            "scatters in the type of hidden",
            (
                "jnp.zeros_like(table).at[labels].add(wide * upstream[:, None])",
                "jnp.zeros(table.shape, hidden.dtype).at[labels].add(hidden * upstream[:, None].astype(hidden.dtype)).astype(table.dtype)",
            ),
        ),
        imprecise(
            "products in the type of hidden",
            (
                "logits = wide @ table.T",
                "logits = (hidden @ table.T.astype(hidden.dtype)).astype(table.dtype)",
            ),
        ),
    ),
)


def norm_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {
        "x": normal(rng, 20, 48),
        "gamma": 1 + normal(rng, 48, scale=0.1),
        "dy": normal(rng, 20, 48),
    }
    small = {**usual, "x": normal(rng, 20, 48, scale=0.01)}
    return {"usual": usual, "small": small}


RMS_NORM = Family(
    name="rms_norm",
    framework="jax",
    source=HEAD
    + """EPSILON = 1e-5


def norm(x, gamma):
    square = jnp.mean(x * x, axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(square + EPSILON) * gamma


@jax.jit
def step(x, gamma, dy):
    y, pull = jax.vjp(norm, x, gamma)
    dx, dgamma = pull(dy)
    return {"y": y, "dx": dx, "dgamma": dgamma}
""",
    outputs={"y": Out("x"), "dx": Out("x"), "dgamma": Out("gamma")},
    inputs=norm_data,
    variants=(
        benign(
            "a root and a division",
            (
                "x * jax.lax.rsqrt(square + EPSILON) * gamma",
                "x / jnp.sqrt(square + EPSILON) * gamma",
            ),
        ),
        benign(
            "gamma first",
            (
                "x * jax.lax.rsqrt(square + EPSILON) * gamma",
                "(x * gamma) * jax.lax.rsqrt(square + EPSILON)",
            ),
        ),
        benign(
            "a product for the sum",
            (
                "jnp.mean(x * x, axis=-1, keepdims=True)",
                "jnp.einsum('ij,ij->i', x, x)[:, None] / x.shape[-1]",
            ),
        ),
        benign(
            "sums backwards",
            (
                "jnp.mean(x * x, axis=-1, keepdims=True)",
                "jnp.mean((x * x)[:, ::-1], axis=-1, keepdims=True)",
            ),
        ),
        wrong("epsilon of 1e-6", ("1e-5", "1e-6")),
        wrong(
            "no gradient through the mean",
            ("rsqrt(square + EPSILON)", "rsqrt(jax.lax.stop_gradient(square) + EPSILON)"),
        ),
        wrong(
            "the sum for the mean",
            (
                "jnp.mean(x * x, axis=-1, keepdims=True)",
                "jnp.sum(x * x, axis=-1, keepdims=True) / 47",
            ),
        ),
        wrong("the mean of another axis", ("axis=-1", "axis=0")),
    ),
)


def attention_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {name: normal(rng, 2, 3, 12, 8) for name in ("q", "k", "v", "dout")}
    return {"usual": usual, "peaked": {**usual, "q": 6 * usual["q"]}}


ATTENTION = Family(
    name="attention",
    framework="jax",
    source=HEAD
    + """def attention(q, k, v):
    length, width = q.shape[-2:]
    scores = jnp.einsum("bhid,bhjd->bhij", q, k) * width**-0.5
    scores = jnp.where(jnp.tril(jnp.ones((length, length), bool)), scores, -jnp.inf)
    return jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores, axis=-1), v)


@jax.jit
def step(q, k, v, dout):
    out, pull = jax.vjp(attention, q, k, v)
    dq, dk, dv = pull(dout)
    return {"out": out, "dq": dq, "dk": dk, "dv": dv}
""",
    outputs={"out": Out("q"), "dq": Out("q"), "dk": Out("k"), "dv": Out("v")},
    inputs=attention_data,
    variants=(
        benign(
            "scales q",
            (
                'jnp.einsum("bhid,bhjd->bhij", q, k) * width**-0.5',
                'jnp.einsum("bhid,bhjd->bhij", q * width**-0.5, k)',
            ),
        ),
        benign(
            "a softmax of its own",
            (
                "jax.nn.softmax(scores, axis=-1)",
                "jnp.exp(scores - jax.nn.logsumexp(scores, axis=-1, keepdims=True))",
            ),
        ),
        benign("a large negative number", ("-jnp.inf", "-1e9")),
        benign(
            "divides at the end",
            (
                'return jnp.einsum("bhij,bhjd->bhid", jax.nn.softmax(scores, axis=-1), v)',
                'e = jnp.exp(scores - jax.lax.stop_gradient(scores.max(axis=-1, keepdims=True)))\n    return jnp.einsum("bhij,bhjd->bhid", e, v) / e.sum(axis=-1, keepdims=True)',
            ),
        ),
        wrong("a scale of another width", ("width**-0.5", "(width + 1) ** -0.5")),
        wrong("sees one later token", ("bool))", "bool), 1)")),
        wrong("keys of the next head", ("q, k) *", "q, jnp.roll(k, 1, axis=1)) *")),
        wrong(
            "no gradient to the keys of the first token",
            ("q, k) *", "q, k.at[:, :, 0].set(jax.lax.stop_gradient(k[:, :, 0]))) *"),
        ),
    ),
)

FAMILIES = [CROSS_ENTROPY, RMS_NORM, ATTENTION]
