"""Programs in NumPy. Each computes in the precision of its inputs, float32 at least."""

# ruff: noqa: E501 (an edit is as long as the line that it edits)

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
from corpus import Array, Family, Out, benign, imprecise, imprecise_or_wrong, wrong

HEAD = """import numpy as np


def wide(x):
    return x.astype(np.result_type(x.dtype, np.float32))


"""
# Sums that are rounded to bfloat16 after each term.
NARROW_SUM = """import ml_dtypes


def narrow_sum(x, axis):
    parts = np.moveaxis(x, axis, 0).astype(ml_dtypes.bfloat16)
    total = np.zeros(parts.shape[1:], ml_dtypes.bfloat16)
    for part in parts:
        total = total + part
    return total.astype(x.dtype)


"""


def normal(rng: np.random.Generator, *shape: int, scale: float = 1) -> Array:
    return (scale * rng.standard_normal(shape)).astype(np.float32)


def zipf(rng: np.random.Generator, count: int, items: int) -> Array:
    share = np.cumsum(1 / np.arange(1, items + 1))
    return np.searchsorted(share, rng.random(count) * share[-1]).astype(np.int32)


def cross_entropy_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    rows, classes = 24, 65
    usual = {
        "logits": normal(rng, rows, classes),
        "labels": zipf(rng, rows, classes),
        "upstream": np.full(rows, 1 / rows, np.float32),
    }
    confident = {**usual, "logits": normal(rng, rows, classes, scale=30)}
    return {"usual": usual, "confident": confident}


CROSS_ENTROPY = Family(
    name="cross_entropy",
    source=HEAD
    + """def step(logits, labels, upstream):
    rows = np.arange(len(labels))
    highest = logits.max(axis=1, keepdims=True)
    e = np.exp(logits - highest)
    total = e.sum(axis=1, keepdims=True)
    loss = (np.log(total) + highest)[:, 0] - logits[rows, labels]
    gradient = e / total
    gradient[rows, labels] -= 1
    return {"loss": loss, "dlogits": gradient * upstream[:, None]}
""",
    outputs={"loss": Out("upstream"), "dlogits": Out("logits")},
    inputs=cross_entropy_data,
    variants=(
        benign(
            "sums from the end",
            ("e.sum(axis=1, keepdims=True)", "e[:, ::-1].sum(axis=1, keepdims=True)"),
        ),
        benign("multiplies by the inverse", ("e / total", "e * (1 / total)")),
        benign(
            "softmax from the logarithm", ("e / total", "np.exp(logits - highest - np.log(total))")
        ),
        benign(
            "no shift by the label's logit",
            (
                "(np.log(total) + highest)[:, 0] - logits[rows, labels]",
                "np.log(total)[:, 0] - (logits - highest)[rows, labels]",
            ),
        ),
        benign(
            "shift by another number",
            ("logits.max(axis=1, keepdims=True)", "logits.max(axis=1, keepdims=True) - 1"),
        ),
        benign(
            "sums in float64",
            (
                "e.sum(axis=1, keepdims=True)",
                "e.astype(np.result_type(e, np.float64)).sum(axis=1, keepdims=True).astype(e.dtype)",
            ),
        ),
        benign(
            "one-hot labels",
            (
                "gradient[rows, labels] -= 1",
                "gradient = gradient - (np.arange(logits.shape[1]) == labels[:, None])",
            ),
        ),
        wrong("labels are not subtracted", ("gradient[rows, labels] -= 1", "pass")),
        wrong("the mean is taken twice", ("upstream[:, None]", "upstream[:, None] / len(labels)")),
        wrong(
            "smooths by 1e-4", ("gradient[rows, labels] -= 1", "gradient[rows, labels] -= 1 - 1e-4")
        ),
        wrong(
            "leaves out the last class",
            ("e.sum(axis=1, keepdims=True)", "e[:, :-1].sum(axis=1, keepdims=True)"),
        ),
        wrong("normalises columns", ("e / total", "e / e.sum(axis=0, keepdims=True)")),
        wrong(
            "the upstream gradient is left out",
            ("gradient * upstream[:, None]", "gradient / len(labels) * 1.001"),
        ),
        imprecise(
            "sums in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("e.sum(axis=1, keepdims=True)", "narrow_sum(e, 1)[:, None]"),
        ),
        imprecise(
            "logarithm in float16",
            ("np.log(total)", "np.log(total).astype(np.float16).astype(total.dtype)"),
        ),
    ),
)


def norm_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    rows, width = 20, 48
    usual = {
        "x": normal(rng, rows, width),
        "gamma": 1 + normal(rng, width, scale=0.1),
        "beta": normal(rng, width, scale=0.1),
        "dy": normal(rng, rows, width),
    }
    outliers = {**usual, "x": usual["x"].copy()}
    outliers["x"][:, 3] *= 400
    return {"usual": usual, "outliers": outliers}


LAYER_NORM = Family(
    name="layer_norm",
    source=HEAD
    + """EPSILON = 1e-5


def step(x, gamma, beta, dy):
    mean = x.mean(axis=1, keepdims=True)
    centred = x - mean
    variance = (centred * centred).mean(axis=1, keepdims=True)
    scale = 1 / np.sqrt(variance + EPSILON)
    normed = centred * scale
    weighted = dy * gamma
    dx = scale * (
        weighted
        - weighted.mean(axis=1, keepdims=True)
        - normed * (weighted * normed).mean(axis=1, keepdims=True)
    )
    return {
        "y": normed * gamma + beta,
        "dx": dx,
        "dgamma": (dy * normed).sum(axis=0),
        "dbeta": dy.sum(axis=0),
    }
""",
    outputs={"y": Out("x"), "dx": Out("x"), "dgamma": Out("gamma"), "dbeta": Out("beta")},
    inputs=norm_data,
    variants=(
        benign(
            "divides by the width",
            ("x.mean(axis=1, keepdims=True)", "x.sum(axis=1, keepdims=True) / x.shape[1]"),
        ),
        benign("divides by the root", ("centred * scale", "centred / np.sqrt(variance + EPSILON)")),
        benign(
            "the power -0.5", ("1 / np.sqrt(variance + EPSILON)", "(variance + EPSILON) ** -0.5")
        ),
        benign(
            "statistics in float64",
            (
                "(centred * centred).mean(axis=1, keepdims=True)",
                "np.square(centred, dtype=np.result_type(x, np.float64)).mean(axis=1, keepdims=True).astype(x.dtype)",
            ),
        ),
        benign(
            "sums columns by a product",
            ("dy.sum(axis=0)", "np.ones(len(dy), dy.dtype) @ dy"),
            ("(dy * normed).sum(axis=0)", "np.einsum('ij,ij->j', dy, normed)"),
        ),
        benign(
            "distributes the scale",
            (
                "dx = scale * (\n        weighted\n        - weighted.mean",
                "dx = scale * weighted - scale * (\n        weighted.mean",
            ),
            ("        - normed * (weighted", "        + normed * (weighted"),
        ),
        wrong("epsilon of 1e-6", ("1e-5", "1e-6")),
        wrong(
            "epsilon outside of the root",
            ("np.sqrt(variance + EPSILON)", "(np.sqrt(variance) + EPSILON)"),
        ),
        wrong(
            "the unbiased variance",
            (
                "(centred * centred).mean(axis=1, keepdims=True)",
                "(centred * centred).sum(axis=1, keepdims=True) / (x.shape[1] - 1)",
            ),
        ),
        wrong("gamma is left out of the gradient", ("dy * gamma", "dy")),
        wrong("a mean over rows", ("weighted.mean(axis=1", "weighted.mean(axis=0")),
        wrong("the last row is left out of dbeta", ("dy.sum(axis=0)", "dy[:-1].sum(axis=0)")),
        wrong(
            "the projection is left out",
            ("- normed * (weighted * normed).mean(axis=1, keepdims=True)", ""),
        ),
        imprecise(
            "gradients summed in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("(dy * normed).sum(axis=0)", "narrow_sum(dy * normed, 0)"),
        ),
        imprecise(
            "normed values stored in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            (
                "normed = centred * scale",
                "normed = (centred * scale).astype(ml_dtypes.bfloat16).astype(x.dtype)",
            ),
        ),
    ),
)


def attention_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    shape = 2, 3, 12, 8
    usual = {name: normal(rng, *shape) for name in ("q", "k", "v", "dout")}
    peaked = {**usual, "q": 8 * usual["q"]}
    return {"usual": usual, "peaked": peaked}


ATTENTION = Family(
    name="attention",
    source=HEAD
    + """def step(q, k, v, dout):
    length, width = q.shape[-2:]
    scale = width**-0.5
    scores = q @ k.swapaxes(-1, -2) * scale
    later = np.triu(np.ones((length, length), bool), 1)
    scores = np.where(later, -np.inf, scores)
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    weights = weights / weights.sum(axis=-1, keepdims=True)
    out = weights @ v
    dv = weights.swapaxes(-1, -2) @ dout
    dweights = dout @ v.swapaxes(-1, -2)
    delta = (weights * dweights).sum(axis=-1, keepdims=True)
    dscores = weights * (dweights - delta)
    dq = dscores @ k * scale
    dk = dscores.swapaxes(-1, -2) @ q * scale
    return {"out": out, "dq": dq, "dk": dk, "dv": dv}
""",
    outputs={"out": Out("q"), "dq": Out("q"), "dk": Out("k"), "dv": Out("v")},
    inputs=attention_data,
    variants=(
        benign(
            "scales q first", ("q @ k.swapaxes(-1, -2) * scale", "(q * scale) @ k.swapaxes(-1, -2)")
        ),
        benign(
            "delta from the output",
            (
                "(weights * dweights).sum(axis=-1, keepdims=True)",
                "(out * dout).sum(axis=-1, keepdims=True)",
            ),
        ),
        benign("a large negative number for the mask", ("-np.inf", "-1e9")),
        benign("products by einsum", ("weights @ v", "np.einsum('bhij,bhjd->bhid', weights, v)")),
        benign(
            "divides the output",
            (
                "    weights = weights / weights.sum(axis=-1, keepdims=True)\n    out = weights @ v\n",
                "    total = weights.sum(axis=-1, keepdims=True)\n    out = weights @ v / total\n    weights = weights / total\n",
            ),
        ),
        benign(
            "exponentials to the base of 2",
            (
                "np.exp(scores - scores.max(axis=-1, keepdims=True))",
                "np.exp2((scores - scores.max(axis=-1, keepdims=True)) * 1.4426950408889634)",
            ),
        ),
        benign(
            "scales the sum of dk",
            ("dscores.swapaxes(-1, -2) @ q * scale", "(dscores * scale).swapaxes(-1, -2) @ q"),
        ),
        wrong("the scale is left out of dk", ("@ q * scale", "@ q")),
        wrong(
            "masks the diagonal, too",
            ("bool), 1)", "bool), 1) | (np.eye(length, dtype=bool) & (np.arange(length) == 5))"),
        ),
        wrong("sees one later token", ("bool), 1)", "bool), 2)")),
        wrong("the first head's upstream gradient for all", ("dout @ v", "dout[:, :1] @ v")),
        wrong(
            "delta over the wrong axis",
            (
                "(weights * dweights).sum(axis=-1, keepdims=True)",
                "(weights * dweights).sum(axis=-2, keepdims=True)",
            ),
        ),
        wrong("the scale of another width", ("width**-0.5", "(width + 1) ** -0.5")),
        wrong(
            "reads dout by the wrong strides",
            (
                "    length, width",
                "    dout = np.ascontiguousarray(dout.transpose(0, 2, 1, 3)).reshape(dout.shape)\n    length, width",
            ),
        ),
        imprecise(
            "weights in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            (
                "    dv = weights",
                "    weights = weights.astype(ml_dtypes.bfloat16).astype(q.dtype)\n    dv = weights",
            ),
        ),
        imprecise(
            "scores in float16",
            (
                "q @ k.swapaxes(-1, -2) * scale",
                "(q @ k.swapaxes(-1, -2) * scale).astype(np.float16).astype(q.dtype)",
            ),
        ),
    ),
)


def gelu_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {"x": normal(rng, 40, 33), "dy": normal(rng, 40, 33)}
    return {"usual": usual, "large": {**usual, "x": 6 * usual["x"]}}


GELU = Family(
    name="gelu",
    source=HEAD
    + """ROOT, CUBIC = 0.7978845608028654, 0.044715


def step(x, dy):
    inner = ROOT * (x + CUBIC * x**3)
    t = np.tanh(inner)
    y = 0.5 * x * (1 + t)
    slope = 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * CUBIC * x * x)
    return {"y": y, "dx": dy * slope}
""",
    outputs={"y": Out("x"), "dx": Out("x")},
    inputs=gelu_data,
    variants=(
        benign(
            "Horner's scheme", ("ROOT * (x + CUBIC * x**3)", "x * (ROOT + ROOT * CUBIC * (x * x))")
        ),
        benign("cubes by products", ("x**3", "(x * x * x)")),
        benign(
            "the logistic function",
            ("0.5 * x * (1 + t)", "x / (1 + np.exp(np.clip(-2 * inner, -80, 80)))"),
        ),
        benign(
            "factors 0.5 out",
            (
                "0.5 * (1 + t) + 0.5 * x * (1 - t * t) * ROOT * (1 + 3 * CUBIC * x * x)",
                "0.5 * ((1 + t) + x * (1 - t * t) * ROOT * (1 + 3 * CUBIC * x * x))",
            ),
        ),
        benign("1 - t^2 as a product", ("(1 - t * t)", "((1 - t) * (1 + t))")),
        wrong("another cubic term", ("0.044715", "0.04472")),
        wrong("the factor 3 is left out", ("1 + 3 * CUBIC", "1 + CUBIC")),
        wrong(
            "the logistic approximation",
            ("    y = 0.5 * x * (1 + t)", "    y = x / (1 + np.exp(-1.702 * x))"),
        ),
        wrong("t in the place of its square", ("(1 - t * t)", "(1 - t)")),
        wrong("the root has four digits", ("0.7978845608028654", "0.7979")),
        imprecise(
            "tanh in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("np.tanh(inner)", "np.tanh(inner).astype(ml_dtypes.bfloat16).astype(x.dtype)"),
        ),
        imprecise(
            "the argument in float16",
            ("    t = np.tanh(inner)", "    t = np.tanh(inner.astype(np.float16).astype(x.dtype))"),
        ),
    ),
)


def embedding_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    tokens, vocabulary, width = 300, 40, 16
    usual = {
        "table": normal(rng, vocabulary, width),
        "labels": zipf(rng, tokens, vocabulary),
        "dout": normal(rng, tokens, width),
    }
    return {"usual": usual, "one_label": {**usual, "labels": np.full(tokens, 7, np.int32)}}


EMBEDDING = Family(
    name="embedding",
    source=HEAD
    + """def step(table, labels, dout):
    out = table[labels]
    dtable = np.zeros_like(table)
    np.add.at(dtable, labels, dout)
    return {"out": out, "dtable": dtable}
""",
    outputs={"out": Out("dout"), "dtable": Out("table")},
    inputs=embedding_data,
    variants=(
        benign(
            "adds from the end",
            ("np.add.at(dtable, labels, dout)", "np.add.at(dtable, labels[::-1], dout[::-1])"),
        ),
        benign(
            "a product with one-hot labels",
            (
                "np.add.at(dtable, labels, dout)",
                "dtable = (np.arange(len(table))[:, None] == labels).astype(dout.dtype) @ dout",
            ),
        ),
        benign(
            "sorts the labels",
            (
                "    np.add.at",
                "    order = np.argsort(-labels, kind='stable')\n    labels, dout = labels[order], dout[order]\n    np.add.at",
            ),
        ),
        benign(
            "two halves",
            (
                "np.add.at(dtable, labels, dout)",
                "other = np.zeros_like(table)\n    np.add.at(dtable, labels[::2], dout[::2])\n    np.add.at(other, labels[1::2], dout[1::2])\n    dtable += other",
            ),
        ),
        benign(
            "adds in float64",
            (
                "np.add.at(dtable, labels, dout)",
                "sums = np.zeros(table.shape, np.result_type(table, np.float64))\n    np.add.at(sums, labels, dout)\n    dtable = sums.astype(table.dtype)",
            ),
        ),
        wrong(
            "the last of equal labels counts",
            ("np.add.at(dtable, labels, dout)", "dtable[labels] = dout"),
        ),
        wrong("+= adds once", ("np.add.at(dtable, labels, dout)", "dtable[labels] += dout")),
        wrong(
            "labels off by one",
            ("table[labels]", "table[np.minimum(labels + 1, len(table) - 1)]"),
            ("np.add.at(dtable, labels,", "np.add.at(dtable, labels - 1,"),
        ),
        wrong(
            "leaves out the last token",
            (
                "labels, dout)\n    return",
                "labels, np.where(np.arange(len(dout))[:, None] == len(dout) - 1, 0, dout))\n    return",
            ),
        ),
        wrong(
            "divides by the count",
            (
                "    return {",
                "    dtable /= np.maximum(np.bincount(labels, minlength=len(table)), 1)[:, None].astype(table.dtype)\n    return {",
            ),
        ),
        imprecise(
            "adds in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("np.zeros_like(table)", "np.zeros(table.shape, ml_dtypes.bfloat16)"),
            ('"dtable": dtable', '"dtable": dtable.astype(table.dtype)'),
            ("labels, dout)\n", "labels, dout.astype(ml_dtypes.bfloat16))\n"),
        ),
        imprecise(
            "rounds what is added to float16",
            (
                "labels, dout)\n    return",
                "labels, dout.astype(np.float16).astype(dout.dtype))\n    return",
            ),
        ),
    ),
)


def reduction_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {"x": normal(rng, 12, 500)}
    # A mean that is large beside the spread: the variance cancels.
    offset = {"x": normal(rng, 12, 500) + np.float32(50)}
    return {"usual": usual, "offset": offset}


REDUCTIONS = Family(
    name="reductions",
    source=HEAD
    + """def step(x):
    mean = x.mean(axis=1)
    variance = np.square(x - mean[:, None]).mean(axis=1)
    norm = np.sqrt((x * x).sum(axis=1))
    running = np.cumsum(x, axis=1)
    highest = x.max(axis=1)
    lse = highest + np.log(np.exp(x - highest[:, None]).sum(axis=1))
    return {"mean": mean, "variance": variance, "norm": norm, "running": running, "lse": lse}
""",
    outputs={
        "mean": Out((12,)),
        "variance": Out((12,)),
        "norm": Out((12,)),
        "running": Out("x"),
        "lse": Out((12,)),
    },
    inputs=reduction_data,
    variants=(
        benign(
            "sums the rows of the transpose",
            ("x.mean(axis=1)", "np.ascontiguousarray(x.T).mean(axis=0)"),
        ),
        benign(
            "Welford's variance", ("np.square(x - mean[:, None]).mean(axis=1)", "np.var(x, axis=1)")
        ),
        benign(
            "the norm of halves",
            (
                "np.sqrt((x * x).sum(axis=1))",
                "np.hypot(np.sqrt((x[:, ::2] ** 2).sum(axis=1)), np.sqrt((x[:, 1::2] ** 2).sum(axis=1)))",
            ),
        ),
        benign(
            "adds blocks",
            (
                "np.cumsum(x, axis=1)",
                "np.cumsum(x.reshape(12, 20, 25), axis=2)\n    before = np.cumsum(running[:, :, -1], axis=1) - running[:, :, -1]\n    running = (running + before[:, :, None]).reshape(x.shape)",
            ),
        ),
        benign(
            "logaddexp",
            (
                "highest + np.log(np.exp(x - highest[:, None]).sum(axis=1))",
                "np.logaddexp.reduce(x, axis=1)",
            ),
        ),
        benign(
            "a product with ones",
            ("x.mean(axis=1)", "x @ np.ones(x.shape[1], x.dtype) / x.shape[1]"),
        ),
        benign(
            "the sum in float64",
            (
                "np.cumsum(x, axis=1)",
                "np.cumsum(x.astype(np.result_type(x, np.float64)), axis=1).astype(x.dtype)",
            ),
        ),
        wrong("the mean of one fewer", ("x.mean(axis=1)", "x.sum(axis=1) / (x.shape[1] + 1)")),
        wrong(
            "a running sum that excludes its end",
            ("np.cumsum(x, axis=1)", "np.cumsum(x, axis=1) - x"),
        ),
        wrong(
            "the norm has an epsilon of 0.1", ("(x * x).sum(axis=1)", "(x * x).sum(axis=1) + 1e-1")
        ),
        wrong("the highest is not added", ("highest + np.log(", "np.log(")),
        wrong(
            "one element in 500 is left out",
            ("x.mean(axis=1)", "x[:, :-1].sum(axis=1) / x.shape[1]"),
        ),
        imprecise_or_wrong(
            "sums in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("(x * x).sum(axis=1)", "narrow_sum(x * x, 1)"),
        ),
        imprecise_or_wrong(
            "runs in float16",
            ("np.cumsum(x, axis=1)", "np.cumsum(x, axis=1, dtype=np.float16).astype(x.dtype)"),
        ),
    ),
)


def adam_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    size = 700
    usual = {
        "p": normal(rng, size),
        "g": normal(rng, size, scale=1e-3),
        "m": normal(rng, size, scale=1e-3),
        "v": np.square(normal(rng, size, scale=1e-3)),
    }
    first = {**usual, "m": np.zeros(size, np.float32), "v": np.zeros(size, np.float32)}
    return {"usual": usual, "first": first}


ADAM = Family(
    name="adam",
    source=HEAD
    + """RATE, DECAY, EPSILON, STEP = 1e-3, 0.1, 1e-8, 10
B1, B2 = 0.9, 0.999


def step(p, g, m, v):
    m = B1 * m + (1 - B1) * g
    v = B2 * v + (1 - B2) * g * g
    first = m / (1 - B1**STEP)
    second = v / (1 - B2**STEP)
    update = first / (np.sqrt(second) + EPSILON)
    return {"new_p": p - RATE * (update + DECAY * p), "new_m": m, "new_v": v, "update": update}
""",
    outputs={"new_p": Out("p"), "new_m": Out("m"), "new_v": Out("v"), "update": Out("p")},
    inputs=adam_data,
    variants=(
        benign("interpolates the momentum", ("B1 * m + (1 - B1) * g", "m + (1 - B1) * (g - m)")),
        benign("squares first", ("(1 - B2) * g * g", "(1 - B2) * (g * g)")),
        benign(
            "corrections in one factor",
            (
                "first / (np.sqrt(second) + EPSILON)",
                "(1 / (1 - B1**STEP)) * m / (np.sqrt(v) / (1 - B2**STEP) ** 0.5 + EPSILON)",
            ),
        ),
        benign(
            "decay first",
            ("p - RATE * (update + DECAY * p)", "p * (1 - RATE * DECAY) - RATE * update"),
        ),
        benign(
            "in float64",
            (
                "np.sqrt(second) + EPSILON",
                "(np.sqrt(second.astype(np.result_type(p, np.float64))) + EPSILON).astype(p.dtype)",
            ),
        ),
        wrong("no correction", ("v / (1 - B2**STEP)", "v")),
        wrong("one step fewer", ("v / (1 - B2**STEP)", "v / (1 - B2 ** (STEP + 1))")),
        wrong(
            "decay on the gradient",
            ("    m = B1", "    g = g + DECAY * p\n    m = B1"),
            ("(update + DECAY * p)", "update"),
        ),
        wrong(
            "epsilon under the root", ("(np.sqrt(second) + EPSILON)", "np.sqrt(second + EPSILON)")
        ),
        wrong(
            "the decay is not scaled by the rate",
            ("RATE * (update + DECAY * p)", "RATE * update - 1e-5 * p"),
        ),
        wrong("another beta", ("0.999", "0.9999")),
        imprecise(
            "the second moment in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("    first =", "    v = v.astype(ml_dtypes.bfloat16).astype(p.dtype)\n    first ="),
        ),
    ),
)


def clipped_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    rows = 400
    stale = normal(rng, rows, scale=0.5) - 3
    usual = {
        "fresh": (stale + normal(rng, rows, scale=0.2)).astype(np.float32),
        "stale": stale.astype(np.float32),
        "advantage": normal(rng, rows),
    }
    # Ratios that lie on a bound of the clip, as nearly as float32 can tell.
    bounds = np.where(np.arange(rows) % 2, np.log(1.2), np.log(0.8))
    ties = {
        **usual,
        "fresh": np.where(np.arange(rows) % 3, usual["fresh"], usual["stale"] + bounds),
    }
    ties["fresh"] = ties["fresh"].astype(np.float32)
    return {"usual": usual, "ties": ties}


CLIPPED = Family(
    name="clipped_policy",
    source=HEAD
    + """CLIP = 0.2


def step(fresh, stale, advantage):
    ratio = np.exp(fresh - stale)
    free = ratio * advantage
    held = np.clip(ratio, 1 - CLIP, 1 + CLIP) * advantage
    loss = -np.minimum(free, held)
    inside = (ratio >= 1 - CLIP) & (ratio <= 1 + CLIP)
    slope = np.where((free <= held) | inside, advantage * ratio, 0)
    return {"loss": loss, "dfresh": (-slope / len(fresh)).astype(fresh.dtype)}
""",
    outputs={"loss": Out("fresh"), "dfresh": Out("fresh")},
    inputs=clipped_data,
    variants=(
        benign(
            "a quotient of exponentials", ("np.exp(fresh - stale)", "np.exp(fresh) / np.exp(stale)")
        ),
        benign(
            "the largest of the negatives", ("-np.minimum(free, held)", "np.maximum(-free, -held)")
        ),
        benign(
            "clips by two bounds",
            (
                "np.clip(ratio, 1 - CLIP, 1 + CLIP)",
                "np.minimum(np.maximum(ratio, 1 - CLIP), 1 + CLIP)",
            ),
        ),
        benign("scales the gradient first", ("-slope / len(fresh)", "slope * (-1 / len(fresh))")),
        benign(
            "compares on the logarithm",
            (
                "(ratio >= 1 - CLIP) & (ratio <= 1 + CLIP)",
                "(fresh - stale >= np.log(1 - CLIP)) & (fresh - stale <= np.log(1 + CLIP))",
            ),
        ),
        wrong("clips at 0.1", ("CLIP = 0.2", "CLIP = 0.1")),
        wrong("the largest", ("-np.minimum(free, held)", "-np.maximum(free, held)")),
        wrong(
            "the gradient is not clipped",
            ("np.where((free <= held) | inside, advantage * ratio, 0)", "advantage * ratio"),
        ),
        wrong("the ratio is left out of the gradient", ("advantage * ratio, 0", "advantage, 0")),
        imprecise_or_wrong(
            "the ratio in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            (
                "np.exp(fresh - stale)",
                "np.exp(fresh - stale).astype(ml_dtypes.bfloat16).astype(fresh.dtype)",
            ),
        ),
    ),
)


def gated_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    def narrow(array: Array) -> Array:
        return array.astype(ml_dtypes.bfloat16)

    usual = {
        "x": narrow(normal(rng, 24, 32)),
        "gate": narrow(normal(rng, 32, 40, scale=0.2)),
        "up": narrow(normal(rng, 32, 40, scale=0.2)),
        "down": narrow(normal(rng, 40, 32, scale=0.2)),
    }
    return {"usual": usual, "large": {**usual, "x": narrow(normal(rng, 24, 32, scale=20))}}


GATED = Family(
    name="gated_bf16",
    source=HEAD
    + """def step(x, gate, up, down):
    g = wide(x) @ wide(gate)
    u = wide(x) @ wide(up)
    h = g / (1 + np.exp(-g)) * u
    return {"y": (h @ wide(down)).astype(x.dtype), "norm": np.sqrt((h * h).sum(axis=1))}
""",
    outputs={"y": Out("x"), "norm": Out((24,))},
    inputs=gated_data,
    variants=(
        benign(
            "one product for both",
            (
                "    g = wide(x) @ wide(gate)\n    u = wide(x) @ wide(up)\n",
                "    g, u = np.split(wide(x) @ np.concatenate([wide(gate), wide(up)], axis=1), 2, axis=1)\n",
            ),
        ),
        benign(
            "tanh for the logistic function",
            ("g / (1 + np.exp(-g)) * u", "g * (0.5 + 0.5 * np.tanh(0.5 * g)) * u"),
        ),
        benign(
            "another order of factors", ("g / (1 + np.exp(-g)) * u", "g * u / (1 + np.exp(-g))")
        ),
        benign("einsum", ("h @ wide(down)", "np.einsum('ij,jk->ik', h, wide(down))")),
        wrong("no gate", ("g / (1 + np.exp(-g)) * u", "1 / (1 + np.exp(-g)) * u")),
        wrong("gate and up exchanged", ("g / (1 + np.exp(-g)) * u", "u / (1 + np.exp(-u)) * g")),
        wrong("a factor of 1.004", ("* u\n", "* u * 1.004\n")),
        wrong(
            "the last of the hidden is left out", ("h @ wide(down)", "h[:, :-1] @ wide(down)[:-1]")
        ),
        imprecise(
            "the hidden in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            ("* u\n", "* u\n    h = wide(h.astype(ml_dtypes.bfloat16)).astype(g.dtype)\n"),
        ),
    ),
)

# The same with twins in float32: outputs in float32 have none.
GATED_SINGLE = replace(GATED, name="gated_bf16_single", precision="float32")


def quantised_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {"x": normal(rng, 30, 64)}
    # Multiples of half a step: ties, which rounding decides.
    ties = {"x": (np.round(normal(rng, 30, 64, scale=20)) / 2).astype(np.float32)}
    ties["x"][:, 0] = 63.5
    return {"usual": usual, "ties": ties}


QUANTISED = Family(
    name="fake_quantisation",
    source=HEAD
    + """LEVELS = 127


def step(x):
    scale = np.abs(x).max(axis=1, keepdims=True) / LEVELS
    return {"y": np.round(x / scale) * scale, "scale": scale}
""",
    outputs={"y": Out("x"), "scale": Out((30, 1))},
    inputs=quantised_data,
    variants=(
        benign("multiplies by the inverse", ("x / scale", "x * (1 / scale)")),
        benign(
            "the inverse of the level",
            ("axis=1, keepdims=True) / LEVELS", "axis=1, keepdims=True) * (1 / LEVELS)"),
        ),
        benign(
            "the highest of both signs",
            (
                "np.abs(x).max(axis=1, keepdims=True)",
                "np.maximum(x.max(axis=1, keepdims=True), -x.min(axis=1, keepdims=True))",
            ),
        ),
        wrong("128 levels", ("127", "128")),
        wrong("truncates", ("np.round(x / scale)", "np.trunc(x / scale)")),
        wrong(
            "one scale for all rows",
            ("np.abs(x).max(axis=1, keepdims=True)", "np.abs(x).max() * np.ones_like(x[:, :1])"),
        ),
    ),
)


def scan_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    steps, width = 120, 12
    usual = {
        "x": normal(rng, steps, width),
        "decay": rng.uniform(0.5, 0.999, (steps, width)).astype(np.float32),
        "dy": normal(rng, steps, width),
    }
    slow = {**usual, "decay": np.full((steps, width), 0.9999, np.float32)}
    return {"usual": usual, "slow": slow}


SCAN = Family(
    name="scan",
    source=HEAD
    + """def step(x, decay, dy):
    state, states = np.zeros_like(x[0]), []
    for at in range(len(x)):
        state = decay[at] * state + x[at]
        states.append(state)
    y = np.stack(states)
    carry, dx, ddecay = np.zeros_like(x[0]), np.zeros_like(x), np.zeros_like(x)
    for at in reversed(range(len(x))):
        carry = carry + dy[at]
        dx[at] = carry
        ddecay[at] = carry * y[at - 1] if at > 0 else 0
        carry = carry * decay[at]
    return {"y": y, "dx": dx, "ddecay": ddecay}
""",
    outputs={"y": Out("x"), "dx": Out("x"), "ddecay": Out("decay")},
    inputs=scan_data,
    variants=(
        benign("adds first", ("carry * decay[at]", "decay[at] * carry")),
        benign(
            "two steps at a time",
            (
                "state = decay[at] * state + x[at]\n",
                "state = (decay[at] * decay[at - 1]) * states[-2] + (decay[at] * x[at - 1] + x[at]) if at > 1 else decay[at] * state + x[at]\n",
            ),
        ),
        benign(
            "a state in float64",
            ("np.zeros_like(x[0]), []", "np.zeros(x.shape[1], np.result_type(x, np.float64)), []"),
            ("np.stack(states)", "np.stack(states).astype(x.dtype)"),
        ),
        wrong(
            "decay of the step before",
            ("carry = carry * decay[at]", "carry = carry * decay[at - 1]"),
        ),
        wrong("the state after the step", ("y[at - 1] if at > 0 else 0", "y[at]")),
        wrong(
            "the state is reset after 64 steps",
            ("state = decay[at] * state + x[at]", "state = decay[at] * state * (at != 64) + x[at]"),
        ),
        imprecise(
            "a state in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            (
                "state = decay[at] * state + x[at]",
                "state = (decay[at] * state + x[at]).astype(ml_dtypes.bfloat16).astype(x.dtype)",
            ),
        ),
    ),
)


def phase_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    steps, width = 200, 12
    # Inputs that are moved to look for rounding on the way turn the phase by more than a radian.
    usual = {"x": normal(rng, steps, width, scale=4.0), "dy": normal(rng, steps, width)}
    slow = {**usual, "x": normal(rng, steps, width)}
    return {"usual": usual, "slow": slow, "fast": {**usual, "x": 5 * usual["x"]}}


PHASE = Family(
    name="phase",
    source=HEAD
    + """def step(x, dy):
    phase = np.cumsum(5 * x, axis=0)
    y = np.sin(phase)
    dx = 5 * np.cumsum((dy * np.cos(phase))[::-1], axis=0)[::-1]
    return {"y": y, "dx": dx}
""",
    outputs={"y": Out("x"), "dx": Out("x")},
    inputs=phase_data,
    variants=(
        benign("scales later", ("np.cumsum(5 * x, axis=0)", "5 * np.cumsum(x, axis=0)")),
        benign("another order", ("(dy * np.cos(phase))[::-1]", "(np.cos(phase) * dy)[::-1]")),
        wrong(
            "a column is larger by 1e-4, which rounding hides",
            (
                "axis=0)[::-1]\n",
                "axis=0)[::-1] * np.where(np.arange(x.shape[1]) == 3, 1.0001, 1).astype(x.dtype)\n",
            ),
        ),
        wrong(
            "a column is larger by 1e-5, which rounding hides",
            (
                "axis=0)[::-1]\n",
                "axis=0)[::-1] * np.where(np.arange(x.shape[1]) == 3, 1.00001, 1).astype(x.dtype)\n",
            ),
        ),
    ),
)


def contrastive_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    a = normal(rng, 18, 24)
    usual = {"a": a, "b": (a + normal(rng, 18, 24, scale=0.7)).astype(np.float32)}
    return {
        "usual": usual,
        "sharp": {"a": a, "b": (a + normal(rng, 18, 24, scale=0.1)).astype(np.float32)},
    }


CONTRASTIVE = Family(
    name="contrastive",
    source=HEAD
    + """TEMPERATURE = 0.07


def unit(x):
    return x / np.sqrt((x * x).sum(axis=1, keepdims=True))


def lse(x):
    highest = x.max(axis=1, keepdims=True)
    return (highest + np.log(np.exp(x - highest).sum(axis=1, keepdims=True)))[:, 0]


def step(a, b):
    similar = unit(a) @ unit(b).T / TEMPERATURE
    own = np.diagonal(similar)
    loss = 0.5 * (lse(similar) - own) + 0.5 * (lse(similar.T) - own)
    weights = np.exp(similar - lse(similar)[:, None])
    return {"loss": loss, "weights": weights}
""",
    outputs={"loss": Out((18,)), "weights": Out((18, 18))},
    inputs=contrastive_data,
    variants=(
        benign("scales by the inverse", ("/ TEMPERATURE", "* (1 / TEMPERATURE)")),
        benign(
            "norms by linalg",
            (
                "np.sqrt((x * x).sum(axis=1, keepdims=True))",
                "np.linalg.norm(x, axis=1, keepdims=True)",
            ),
        ),
        benign(
            "the mean of both",
            (
                "0.5 * (lse(similar) - own) + 0.5 * (lse(similar.T) - own)",
                "0.5 * (lse(similar) + lse(similar.T)) - own",
            ),
        ),
        benign(
            "divides the similarities",
            (
                "unit(a) @ unit(b).T",
                "(a @ b.T) / np.linalg.norm(a, axis=1)[:, None] / np.linalg.norm(b, axis=1)",
            ),
        ),
        wrong("one direction twice", ("lse(similar.T)", "lse(similar)")),
        wrong("temperature 0.0701", ("0.07\n", "0.0701\n")),
        wrong("b is not normalised", ("unit(b).T", "b.T")),
        wrong(
            "an epsilon of 1e-3",
            ("(x * x).sum(axis=1, keepdims=True)", "(x * x).sum(axis=1, keepdims=True) + 1e-3"),
        ),
        imprecise_or_wrong(
            "similarities in bfloat16",
            (HEAD, HEAD + NARROW_SUM),
            (
                "/ TEMPERATURE\n",
                "/ TEMPERATURE\n    similar = similar.astype(ml_dtypes.bfloat16).astype(a.dtype)\n",
            ),
        ),
    ),
)


def strided_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    def laid(array: Array) -> Array:
        # In memory the heads lie side by side.
        return np.ascontiguousarray(array.transpose(1, 0, 2)).transpose(1, 0, 2)

    x, dy = normal(rng, 4, 10, 6), normal(rng, 4, 10, 6)
    return {"packed": {"x": x, "dy": dy}, "strided": {"x": x, "dy": laid(dy)}}


STRIDED = Family(
    name="strides",
    source=HEAD
    + """def step(x, dy):
    heads, length, width = x.shape
    strides = dy.strides
    rows = np.lib.stride_tricks.as_strided(dy, (heads, length, width), strides)
    products = rows * x
    return {"products": products, "total": products.sum(axis=(1, 2))}
""",
    outputs={"products": Out("x"), "total": Out((4,))},
    inputs=strided_data,
    variants=(
        benign(
            "copies first",
            ("strides = dy.strides", "dy = np.ascontiguousarray(dy)\n    strides = dy.strides"),
        ),
        benign(
            "sums heads by a product",
            ("products.sum(axis=(1, 2))", "np.einsum('hlw,hlw->h', rows, x)"),
        ),
        wrong(
            "strides of a row for those of a head",
            ("strides = dy.strides", "strides = dy.strides[1], dy.strides[1], dy.strides[2]"),
        ),
        wrong("sums over heads", ("products.sum(axis=(1, 2))", "products.sum(axis=(0, 1))[:4]")),
        wrong(
            "reads one element on",
            ("products = rows * x", "products = np.roll(rows, 1, axis=2) * x"),
        ),
    ),
)

FAMILIES = [
    CROSS_ENTROPY,
    LAYER_NORM,
    ATTENTION,
    GELU,
    EMBEDDING,
    REDUCTIONS,
    ADAM,
    CLIPPED,
    GATED,
    GATED_SINGLE,
    QUANTISED,
    SCAN,
    PHASE,
    CONTRASTIVE,
    STRIDED,
]
