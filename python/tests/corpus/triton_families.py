"""Programs in Triton, whose interpreter computes with NumPy."""

# ruff: noqa: E501 (an edit is as long as the line that it edits)

from __future__ import annotations

import numpy as np
from corpus import Array, Family, Out, benign, imprecise, wrong
from numpy_families import normal

HEAD = """import torch
import triton
import triton.language as tl


"""


def softmax_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {"x": normal(rng, 6, 23), "dy": normal(rng, 6, 23)}
    return {"usual": usual, "confident": {**usual, "x": 20 * usual["x"]}}


SOFTMAX = Family(
    name="softmax",
    framework="torch",
    source=HEAD
    + """@triton.jit
def kernel(x, dy, y, dx, stride, width, WIDTH: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, WIDTH)
    inside = at < width
    scores = tl.load(x + row * stride + at, inside, other=float("-inf"))
    e = tl.exp(scores - tl.max(scores, 0))
    weights = e / tl.sum(e, 0)
    upstream = tl.load(dy + row * stride + at, inside, other=0)
    delta = tl.sum(weights * upstream, 0)
    tl.store(y + row * stride + at, weights, inside)
    tl.store(dx + row * stride + at, weights * (upstream - delta), inside)


def step(x, dy):
    y, dx = torch.empty_like(x), torch.empty_like(x)
    kernel[(x.shape[0],)](x, dy, y, dx, x.stride(0), x.shape[1], WIDTH=32)
    return {"y": y, "dx": dx}
""",
    outputs={"y": Out("x"), "dx": Out("x")},
    inputs=softmax_data,
    variants=(
        benign("multiplies by the inverse", ("e / tl.sum(e, 0)", "e * (1 / tl.sum(e, 0))")),
        benign(
            "exponentials to the base of 2",
            (
                "tl.exp(scores - tl.max(scores, 0))",
                "tl.exp2((scores - tl.max(scores, 0)) * 1.4426950408889634)",
            ),
        ),
        benign(
            "distributes the weights",
            ("weights * (upstream - delta)", "weights * upstream - weights * delta"),
        ),
        wrong("the delta is left out", ("weights * (upstream - delta)", "weights * upstream")),
        wrong("a row's end is not masked", ('inside, other=float("-inf"))', "inside, other=0.0)")),
        wrong("the stride of a narrower row", ("dy + row * stride", "dy + row * (stride - 1)")),
        imprecise(
            "weights in float16",
            (
                "weights = e / tl.sum(e, 0)",
                "weights = (e / tl.sum(e, 0)).to(tl.float16).to(e.dtype)",
            ),
        ),
    ),
)


def product_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    return {"usual": {"a": normal(rng, 32, 48), "b": normal(rng, 48, 16), "c": normal(rng, 32, 16)}}


PRODUCT = Family(
    name="product",
    framework="torch",
    source=HEAD
    + """@triton.jit
def kernel(a, b, c, y, size, ACC: tl.constexpr):
    rows = tl.program_id(0) * 16 + tl.arange(0, 16)
    columns = tl.arange(0, 16)
    total = tl.zeros((16, 16), ACC)
    for start in range(0, size, 16):
        inner = start + tl.arange(0, 16)
        left = tl.load(a + rows[:, None] * size + inner)
        right = tl.load(b + inner[:, None] * 16 + columns)
        total += tl.dot(left, right, input_precision="ieee", out_dtype=ACC)
    place = rows[:, None] * 16 + columns
    tl.store(y + place, total + tl.load(c + place))


def step(a, b, c):
    y = torch.empty_like(c)
    acc = tl.float64 if a.dtype == torch.float64 else tl.float32
    kernel[(2,)](a, b, c, y, a.shape[1], ACC=acc)
    return {"y": y}
""",
    outputs={"y": Out("c")},
    inputs=product_data,
    variants=(
        benign(
            "starts with c",
            (
                "total = tl.zeros((16, 16), ACC)",
                "total = tl.load(c + rows[:, None] * 16 + columns)",
            ),
            ("total + tl.load(c + place)", "total"),
        ),
        benign("from the end", ("inner = start", "inner = size - 16 - start")),
        wrong("the last block is left out", ("range(0, size, 16)", "range(0, size - 16, 16)")),
        wrong(
            "rows of the first block",
            ("total + tl.load(c + place)", "total + tl.load(c + place % 256)"),
        ),
        imprecise(
            "accumulates in float16",
            ("total += tl.dot", "total = total.to(tl.float16).to(ACC) + tl.dot"),
        ),
    ),
)

FAMILIES = [SOFTMAX, PRODUCT]
