"""The kernels: one program for a block of rows of one head.

Tensors are [batch, heads, length, WIDTH]; `stride_b`, `stride_h` and `stride_l` are those of packed
ones, `dout_b`, `dout_h` and `dout_l` those of the upstream gradient. Rows are computed in the dtype ACC.
"""

import triton
import triton.language as tl


@triton.jit
def _block(base, first, length, stride_l, ROWS: tl.constexpr, WIDTH: tl.constexpr):
    """Pointers to ROWS rows from `first` on, and which of them there are."""
    rows = first + tl.arange(0, ROWS)
    pointers = base + rows[:, None] * stride_l + tl.arange(0, WIDTH)[None, :]
    return pointers, (rows < length)[:, None]


@triton.jit
def forward(
    q, k, v, out, lse, scale, heads, length, stride_b, stride_h, stride_l,
    ROWS: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    head = tl.program_id(1)
    first = tl.program_id(0) * ROWS
    offset = (head // heads) * stride_b + (head % heads) * stride_h
    rows = first + tl.arange(0, ROWS)

    pointers, there = _block(q + offset, first, length, stride_l, ROWS, WIDTH)
    queries = tl.load(pointers, mask=there, other=0.0)
    highest = tl.full([ROWS], float("-inf"), ACC)
    total = tl.zeros([ROWS], ACC)
    result = tl.zeros([ROWS, WIDTH], ACC)
    for start in range(0, first + ROWS, ROWS):
        columns = start + tl.arange(0, ROWS)
        pointers, there = _block(k + offset, start, length, stride_l, ROWS, WIDTH)
        keys = tl.load(pointers, mask=there, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * (scale * 1.4426950408889634)
        seen = (columns[None, :] <= rows[:, None]) & (columns < length)[None, :]
        scores = tl.where(seen, scores, float("-inf"))
        higher = tl.maximum(highest, tl.max(scores, 1))
        weights = tl.exp2(scores - higher[:, None])
        shrink = tl.exp2(highest - higher)
        pointers, there = _block(v + offset, start, length, stride_l, ROWS, WIDTH)
        values = tl.load(pointers, mask=there, other=0.0)
        result = result * shrink[:, None] + tl.dot(weights, values, input_precision="ieee")
        total = total * shrink + tl.sum(weights, 1)
        highest = higher
    pointers, there = _block(out + offset, first, length, stride_l, ROWS, WIDTH)
    tl.store(pointers, result / total[:, None], mask=there)
    tl.store(lse + head * length + rows, highest * 0.6931471805599453 + tl.log(total), mask=rows < length)


@triton.jit
def outer(
    out, dout, delta, heads, length, stride_b, stride_h, stride_l,
    dout_b, dout_h, dout_l, ROWS: tl.constexpr, WIDTH: tl.constexpr,
):  # fmt: skip
    """The product of each row of the output and of its gradient."""
    head = tl.program_id(1)
    first = tl.program_id(0) * ROWS
    offset = (head // heads) * stride_b + (head % heads) * stride_h
    dout_offset = (head // heads) * dout_b + (head % heads) * dout_h
    rows = first + tl.arange(0, ROWS)
    pointers, there = _block(out + offset, first, length, stride_l, ROWS, WIDTH)
    values = tl.load(pointers, mask=there, other=0.0)
    pointers, there = _block(dout + dout_offset, first, length, dout_l, ROWS, WIDTH)
    gradient = tl.load(pointers, mask=there, other=0.0)
    tl.store(delta + head * length + rows, tl.sum(values * gradient, 1), mask=rows < length)


@triton.jit
def backward(
    q, k, v, lse, delta, dout, dq, dk, dv, scale, heads, length, stride_b, stride_h, stride_l,
    dout_b, dout_h, dout_l, ROWS: tl.constexpr, WIDTH: tl.constexpr, ACC: tl.constexpr,
):  # fmt: skip
    # The program's rows are keys for `dk` and `dv`, and queries for `dq`.
    head = tl.program_id(1)
    first = tl.program_id(0) * ROWS
    offset = (head // heads) * stride_b + (head % heads) * stride_h
    dout_offset = (head // heads) * dout_b + (head % heads) * dout_h
    mine = first + tl.arange(0, ROWS)

    pointers, there = _block(k + offset, first, length, stride_l, ROWS, WIDTH)
    keys = tl.load(pointers, mask=there, other=0.0)
    pointers, there = _block(v + offset, first, length, stride_l, ROWS, WIDTH)
    values = tl.load(pointers, mask=there, other=0.0)
    dkeys = tl.zeros([ROWS, WIDTH], ACC)
    dvalues = tl.zeros([ROWS, WIDTH], ACC)
    for start in range(first, length, ROWS):
        rows = start + tl.arange(0, ROWS)
        pointers, there = _block(q + offset, start, length, stride_l, ROWS, WIDTH)
        queries = tl.load(pointers, mask=there, other=0.0)
        pointers, there = _block(dout + dout_offset, start, length, dout_l, ROWS, WIDTH)
        gradient = tl.load(pointers, mask=there, other=0.0)
        products = tl.load(delta + head * length + rows, mask=rows < length, other=0.0)
        sums = tl.load(lse + head * length + rows, mask=rows < length, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = (mine[None, :] <= rows[:, None]) & (rows < length)[:, None]
        weights = tl.where(seen, tl.exp(scores - sums[:, None]), 0.0)
        dvalues += tl.dot(tl.trans(weights), gradient, input_precision="ieee")
        dweights = tl.dot(gradient, tl.trans(values), input_precision="ieee")
        dscores = weights * (dweights - products[:, None])
        dkeys += tl.dot(tl.trans(dscores), queries, input_precision="ieee")
    pointers, there = _block(dk + offset, first, length, stride_l, ROWS, WIDTH)
    tl.store(pointers, dkeys * scale, mask=there)
    pointers, there = _block(dv + offset, first, length, stride_l, ROWS, WIDTH)
    tl.store(pointers, dvalues, mask=there)

    pointers, there = _block(q + offset, first, length, stride_l, ROWS, WIDTH)
    queries = tl.load(pointers, mask=there, other=0.0)
    pointers, there = _block(dout + dout_offset, first, length, dout_l, ROWS, WIDTH)
    gradient = tl.load(pointers, mask=there, other=0.0)
    products = tl.load(delta + head * length + mine, mask=mine < length, other=0.0)
    sums = tl.load(lse + head * length + mine, mask=mine < length, other=0.0)
    dqueries = tl.zeros([ROWS, WIDTH], ACC)
    for start in range(0, first + ROWS, ROWS):
        columns = start + tl.arange(0, ROWS)
        pointers, there = _block(k + offset, start, length, stride_l, ROWS, WIDTH)
        keys = tl.load(pointers, mask=there, other=0.0)
        pointers, there = _block(v + offset, start, length, stride_l, ROWS, WIDTH)
        values = tl.load(pointers, mask=there, other=0.0)
        scores = tl.dot(queries, tl.trans(keys), input_precision="ieee") * scale
        seen = (columns[None, :] <= mine[:, None]) & (mine < length)[:, None]
        weights = tl.where(seen, tl.exp(scores - sums[:, None]), 0.0)
        dweights = tl.dot(gradient, tl.trans(values), input_precision="ieee")
        dscores = weights * (dweights - products[:, None])
        dqueries += tl.dot(dscores, keys, input_precision="ieee")
    pointers, there = _block(dq + offset, first, length, stride_l, ROWS, WIDTH)
    tl.store(pointers, dqueries * scale, mask=there)
