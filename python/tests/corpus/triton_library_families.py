"""Programs in Triton as public libraries of kernels write them: each names float32 all over."""

# ruff: noqa: E501 (an edit is as long as the line that it edits)

from __future__ import annotations

import numpy as np
from corpus import Array, Family, Out, benign, imprecise, racing, wrong
from numpy_families import normal

HEAD = """import torch
import triton
import triton.language as tl


"""


def cross_entropy_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    labels = rng.integers(0, 37, 8)
    labels[2] = -100
    usual = {"x": normal(rng, 8, 37), "target": labels, "dloss": normal(rng, scale=1.0)}
    return {"usual": usual, "confident": {**usual, "x": 12 * usual["x"]}}


# The gradient takes the place of the logits, and the backward pass scales it.
CROSS_ENTROPY = Family(
    name="fused_cross_entropy",
    framework="torch",
    source=HEAD
    + """from triton.language.math import exp


@triton.jit
def cross_entropy_kernel(
    X_ptr, X_stride, Y_ptr, Y_stride, loss_ptr, loss_stride, n_cols, n_non_ignore, ignore_index,
    label_smoothing: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):
    program_id = tl.program_id(0).to(tl.int64)
    Y_ptr += program_id * Y_stride
    y = tl.load(Y_ptr)
    X_ptr += program_id * X_stride
    if y == ignore_index:
        for i in range(0, n_cols, BLOCK_SIZE):
            X_offsets = i + tl.arange(0, BLOCK_SIZE)
            tl.store(X_ptr + X_offsets, 0.0, mask=X_offsets < n_cols)
        return
    loss_ptr += program_id * loss_stride
    m = float("-inf")
    d = 0.0
    ori_X_y = tl.load(X_ptr + y).cast(tl.float32)
    scaled_x_sum = 0.0
    eps = label_smoothing / n_cols
    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")).cast(tl.float32)
        block_max = tl.max(X_block)
        scaled_x_sum += tl.sum(tl.where(X_offsets < n_cols, -eps * X_block, 0.0))
        m_new = tl.maximum(m, block_max)
        d = d * exp(m - m_new) + tl.sum(exp(X_block - m_new))
        m = m_new
    lse = m + tl.log(d)
    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols, other=float("-inf")).cast(tl.float32)
        X_block = exp(X_block - m) / d
        X_block += -eps
        X_block = tl.where(X_offsets != y, X_block, X_block - (1 - label_smoothing))
        X_block = X_block / n_non_ignore
        tl.store(X_ptr + X_offsets, X_block, mask=X_offsets < n_cols)
    tl.debug_barrier()
    loss = lse - ori_X_y
    smooth_loss = scaled_x_sum + label_smoothing * lse
    loss = loss * (1 - label_smoothing) + smooth_loss
    tl.store(loss_ptr, loss / n_non_ignore)


@triton.jit
def element_mul_kernel(X_ptr, X_stride, grad_output_ptr, n_cols, BLOCK_SIZE: tl.constexpr):
    X_ptr += tl.program_id(0).to(tl.int64) * X_stride
    grad_output = tl.load(grad_output_ptr)
    for i in range(0, n_cols, BLOCK_SIZE):
        X_offsets = i + tl.arange(0, BLOCK_SIZE)
        X_block = tl.load(X_ptr + X_offsets, mask=X_offsets < n_cols)
        tl.store(X_ptr + X_offsets, X_block * grad_output, mask=X_offsets < n_cols)


class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, _input, target, ignore_index=-100, label_smoothing=0.1):
        BT, V = _input.shape
        loss_1d = torch.zeros(BT, dtype=torch.float32, device=_input.device)
        n_non_ignore = (target != ignore_index).sum().item()
        cross_entropy_kernel[(BT,)](
            X_ptr=_input, X_stride=_input.stride(-2), Y_ptr=target, Y_stride=target.stride(-1),
            loss_ptr=loss_1d, loss_stride=loss_1d.stride(-1), n_cols=V, n_non_ignore=n_non_ignore,
            ignore_index=ignore_index, label_smoothing=label_smoothing, BLOCK_SIZE=16, num_warps=4,
        )
        ctx.save_for_backward(_input.detach())
        return torch.sum(loss_1d)

    @staticmethod
    def backward(ctx, grad_output):
        (_input,) = ctx.saved_tensors
        BT, V = _input.shape
        element_mul_kernel[(BT,)](_input, _input.stride(-2), grad_output, V, BLOCK_SIZE=16)
        return _input, None, None, None


def step(x, target, dloss):
    logits = x.clone().requires_grad_()
    loss = CrossEntropy.apply(logits, target)
    (dx,) = torch.autograd.grad(loss, logits, dloss)
    return {"loss": loss, "dx": dx}
""",
    outputs={"loss": Out(()), "dx": Out("x")},
    gradients={"dx": ("x", "loss", "dloss")},
    inputs=cross_entropy_data,
    variants=(
        benign(
            "multiplies by the inverse",
            ("exp(X_block - m) / d\n", "exp(X_block - m) * (1 / d)\n"),
        ),
        benign("softmax by the logarithm", ("exp(X_block - m) / d\n", "exp(X_block - lse)\n")),
        wrong("the smoothing is not in the gradient", ("        X_block += -eps\n", "")),
        wrong("the upstream gradient is left out", ("X_block * grad_output", "X_block")),
        wrong(
            "the label keeps its smoothing", ("X_block - (1 - label_smoothing))", "X_block - 1)")
        ),
        imprecise(
            "sums in float16",
            (
                "d = d * exp(m - m_new) +",
                "d = (d * exp(m - m_new)).to(tl.float16).to(tl.float32) +",
            ),
        ),
    ),
)


def norm_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {
        "x": normal(rng, 12, 24),
        "w": 1 + normal(rng, 24, scale=0.1),
        "dy": normal(rng, 12, 24),
    }
    return {"usual": usual, "small": {**usual, "x": normal(rng, 12, 24, scale=0.01)}}


RMS_NORM = Family(
    name="rms_norm",
    framework="torch",
    source=HEAD
    + """_CASTING_MODE_LLAMA: tl.constexpr = tl.constexpr(0)
_CASTING_MODE_GEMMA: tl.constexpr = tl.constexpr(1)
torch_to_triton_dtype = {torch.float32: tl.float32, torch.float16: tl.float16, torch.bfloat16: tl.bfloat16}


@triton.jit
def rms_norm_forward_kernel(
    Y_ptr, Y_row_stride, X_ptr, X_row_stride, W_ptr, RSTD_ptr, n_cols, eps, offset,
    casting_mode: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):
    row_idx = tl.program_id(0)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    X_row = tl.load(X_ptr + row_idx * X_row_stride + col_offsets, mask=mask, other=0)
    X_row_dtype = X_row.dtype
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0)
    if casting_mode == _CASTING_MODE_LLAMA:
        X_row = X_row.to(tl.float32)
    if casting_mode == _CASTING_MODE_GEMMA:
        W_row = W_row.to(tl.float32)
        X_row = X_row.to(tl.float32)
    mean_square = tl.sum(X_row * X_row, axis=0) / n_cols
    rstd = tl.rsqrt(mean_square + eps)
    tl.store(RSTD_ptr + row_idx, rstd)
    X_row = X_row * rstd
    if casting_mode == _CASTING_MODE_LLAMA:
        X_row = X_row.to(X_row_dtype)
    Y_row = X_row * (offset + W_row)
    tl.store(Y_ptr + row_idx * Y_row_stride + col_offsets, Y_row, mask=mask)


@triton.jit
def rms_norm_backward_kernel(
    dY_ptr, dY_row_stride, dX_ptr, X_ptr, X_row_stride, X_dtype: tl.constexpr, W_ptr, RSTD_ptr,
    dW_ptr, dW_row_stride, n_rows, n_cols, offset, rows_per_program: tl.constexpr,
    casting_mode: tl.constexpr, BLOCK_SIZE: tl.constexpr,
):
    row_block_id = tl.program_id(0)
    row_start = row_block_id * rows_per_program
    row_end = min((row_block_id + 1) * rows_per_program, n_rows)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dW_row = tl.zeros((BLOCK_SIZE,), dtype=tl.float32)
    W_row = tl.load(W_ptr + col_offsets, mask=mask, other=0.0) + offset
    for row_idx in range(row_start, row_end):
        dY_row = tl.load(dY_ptr + row_idx * dY_row_stride + col_offsets, mask=mask, other=0.0)
        X_row = tl.load(X_ptr + row_idx * X_row_stride + col_offsets, mask=mask, other=0.0).to(tl.float32)
        rstd_row = tl.load(RSTD_ptr + row_idx)
        m = (dY_row * W_row).to(tl.float32)
        dX_row = rstd_row * m
        dX_row += rstd_row * (-(1 / n_cols) * rstd_row * rstd_row * tl.sum(m * X_row, axis=0) * X_row)
        if casting_mode == _CASTING_MODE_LLAMA:
            dW_row += dY_row * (X_row * rstd_row).to(X_dtype)
        else:
            dW_row += dY_row * (X_row * rstd_row)
        tl.store(dX_ptr + row_idx * X_row_stride + col_offsets, dX_row.to(X_dtype), mask=mask)
    tl.store(dW_ptr + row_block_id * dW_row_stride + col_offsets, dW_row, mask=mask)


def step(x, w, dy):
    n_rows, n_cols = x.shape
    assert x.dtype == torch.float32
    y = torch.empty_like(x)
    rstd = torch.empty(n_rows, dtype=torch.float32)
    rms_norm_forward_kernel[(n_rows,)](
        y, y.stride(0), x, x.stride(0), w, rstd, n_cols, 1e-6, 0.0, casting_mode=_CASTING_MODE_LLAMA, BLOCK_SIZE=32
    )
    programs = 3
    dx = torch.zeros_like(x)
    _dW = torch.empty((programs, n_cols), dtype=torch.float32)
    rms_norm_backward_kernel[(programs,)](
        dy, dy.stride(0), dx, x, x.stride(0), torch_to_triton_dtype[x.dtype], w, rstd, _dW, _dW.stride(0),
        n_rows, n_cols, 0.0, rows_per_program=4, casting_mode=_CASTING_MODE_LLAMA, BLOCK_SIZE=32,
    )
    return {"y": y, "dx": dx, "dw": _dW.sum(dim=0).to(w.dtype)}
""",
    outputs={"y": Out("x"), "dx": Out("x"), "dw": Out("w")},
    gradients={"dx": ("x", "y", "dy"), "dw": ("w", "y", "dy")},
    inputs=norm_data,
    variants=(
        benign(
            "divides by the root", ("tl.rsqrt(mean_square + eps)", "1 / tl.sqrt(mean_square + eps)")
        ),
        benign(
            "casts as Gemma does",
            ("BLOCK_SIZE=32\n", "BLOCK_SIZE=32 \n"),
            (
                "casting_mode=_CASTING_MODE_LLAMA, BLOCK_SIZE=32,",
                "casting_mode=_CASTING_MODE_GEMMA, BLOCK_SIZE=32,",
            ),
        ),
        wrong("the mean of n - 1", ("-(1 / n_cols)", "-(1 / (n_cols - 1))")),
        wrong(
            "a square of the root is left out",
            ("rstd_row * rstd_row * tl.sum", "rstd_row * tl.sum"),
        ),
        wrong("the weight has no offset", ("X_row * (offset + W_row)", "X_row")),
        imprecise(
            "products in float16",
            (
                "m = (dY_row * W_row).to(tl.float32)",
                "m = (dY_row * W_row).to(tl.float16).to(tl.float32)",
            ),
        ),
    ),
)


def layer_norm_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    return {"usual": {**norm_data(rng)["usual"], "b": normal(rng, 24)}}


# Partial sums of the weights' gradients under a lock, as in Triton's own tutorial.
LAYER_NORM = Family(
    name="layer_norm",
    framework="torch",
    source=HEAD
    + """@triton.jit
def _layer_norm_fwd_fused(X, Y, W, B, Mean, Rstd, stride, N, eps, BLOCK_SIZE: tl.constexpr):
    row = tl.program_id(0)
    Y += row * stride
    X += row * stride
    _mean = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        a = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        _mean += a
    mean = tl.sum(_mean, axis=0) / N
    _var = tl.zeros([BLOCK_SIZE], dtype=tl.float32)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        x = tl.load(X + cols, mask=cols < N, other=0.0).to(tl.float32)
        x = tl.where(cols < N, x - mean, 0.0)
        _var += x * x
    var = tl.sum(_var, axis=0) / N
    rstd = 1 / tl.sqrt(var + eps)
    tl.store(Mean + row, mean)
    tl.store(Rstd + row, rstd)
    for off in range(0, N, BLOCK_SIZE):
        cols = off + tl.arange(0, BLOCK_SIZE)
        mask = cols < N
        w = tl.load(W + cols, mask=mask)
        b = tl.load(B + cols, mask=mask)
        x = tl.load(X + cols, mask=mask, other=0.0).to(tl.float32)
        tl.store(Y + cols, (x - mean) * rstd * w + b, mask=mask)


@triton.jit
def _layer_norm_bwd_dx_fused(DX, DY, DW, DB, X, W, Mean, Rstd, Lock, stride, N, GROUP_SIZE_M: tl.constexpr, BLOCK_SIZE_N: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK_SIZE_N)
    mask = cols < N
    X += row * stride
    DY += row * stride
    DX += row * stride
    lock_id = row % GROUP_SIZE_M
    Lock += lock_id
    Count = Lock + GROUP_SIZE_M
    DW = DW + lock_id * N + cols
    DB = DB + lock_id * N + cols
    x = tl.load(X + cols, mask=mask, other=0).to(tl.float32)
    dy = tl.load(DY + cols, mask=mask, other=0).to(tl.float32)
    w = tl.load(W + cols, mask=mask).to(tl.float32)
    mean = tl.load(Mean + row)
    rstd = tl.load(Rstd + row)
    xhat = (x - mean) * rstd
    wdy = w * dy
    xhat = tl.where(mask, xhat, 0.0)
    wdy = tl.where(mask, wdy, 0.0)
    c1 = tl.sum(xhat * wdy, axis=0) / N
    c2 = tl.sum(wdy, axis=0) / N
    dx = (wdy - (xhat * c1 + c2)) * rstd
    tl.store(DX + cols, dx, mask=mask)
    partial_dw = (dy * xhat).to(w.dtype)
    partial_db = dy.to(w.dtype)
    while tl.atomic_cas(Lock, 0, 1) == 1:
        pass
    count = tl.load(Count)
    if count == 0:
        tl.atomic_xchg(Count, 1)
    else:
        partial_dw += tl.load(DW, mask=mask)
        partial_db += tl.load(DB, mask=mask)
    tl.store(DW, partial_dw, mask=mask)
    tl.store(DB, partial_db, mask=mask)
    tl.debug_barrier()
    tl.atomic_xchg(Lock, 0)


def step(x, w, b, dy):
    M, N = x.shape
    y, dx = torch.empty_like(x), torch.empty_like(x)
    mean = torch.empty((M,), dtype=torch.float32)
    rstd = torch.empty((M,), dtype=torch.float32)
    _layer_norm_fwd_fused[(M,)](x, y, w, b, mean, rstd, x.stride(0), N, 1e-5, BLOCK_SIZE=16)
    GROUP_SIZE_M = 4
    locks = torch.zeros(2 * GROUP_SIZE_M, dtype=torch.int32)
    _dw = torch.zeros((GROUP_SIZE_M, N), dtype=x.dtype)
    _db = torch.zeros((GROUP_SIZE_M, N), dtype=x.dtype)
    _layer_norm_bwd_dx_fused[(M,)](dx, dy, _dw, _db, x, w, mean, rstd, locks, x.stride(0), N, GROUP_SIZE_M=GROUP_SIZE_M, BLOCK_SIZE_N=32)
    return {"y": y, "dx": dx, "dw": _dw.sum(0), "db": _db.sum(0)}
""",
    outputs={"y": Out("x"), "dx": Out("x"), "dw": Out("w"), "db": Out("b")},
    gradients={"dx": ("x", "y", "dy"), "dw": ("w", "y", "dy"), "db": ("b", "y", "dy")},
    inputs=layer_norm_data,
    races=(
        racing(
            "the lock is not taken",
            ("while tl.atomic_cas(Lock, 0, 1) == 1:", "while count_of(Lock) == 1:"),
            (
                "@triton.jit\ndef _layer_norm_bwd",
                '@triton.jit\ndef count_of(lock):\n    return tl.atomic_add(lock, 0, sem="relaxed")\n\n\n@triton.jit\ndef _layer_norm_bwd',
            ),
        ),
        racing("one row of partial sums", ("DW = DW + lock_id * N + cols", "DW = DW + cols")),
    ),
    variants=(
        benign(
            "divides by the deviation",
            ("(x - mean) * rstd * w + b", "(x - mean) / (1 / rstd) * w + b"),
        ),
        benign("other groups", ("GROUP_SIZE_M = 4\n", "GROUP_SIZE_M = 3\n")),
        wrong("no gradient through the mean", ("(xhat * c1 + c2)", "(xhat * c1)")),
        wrong("the last group is left out", ('_dw.sum(0), "db"', '_dw[:-1].sum(0), "db"')),
        wrong("padding in the variance", ("tl.where(cols < N, x - mean, 0.0)", "x - mean")),
        imprecise(
            "the variance in float16",
            ("        _var += x * x", "        _var += (x * x).to(tl.float16).to(tl.float32)"),
        ),
    ),
)


def gate_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {name: normal(rng, 6, 40) for name in ("a", "b", "dc")}
    return {"usual": usual, "large": {**usual, "a": 4 * usual["a"]}}


SWIGLU = Family(
    name="swiglu",
    framework="torch",
    source=HEAD
    + """@triton.jit
def silu(x):
    return x * tl.sigmoid(x)


@triton.jit
def _swiglu_forward_kernel(a_ptr, b_ptr, c_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    program_id = tl.program_id(0).to(tl.int64)
    a_ptr += program_id * stride
    b_ptr += program_id * stride
    c_ptr += program_id * stride
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    a_row = tl.load(a_ptr + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b_ptr + col_offsets, mask=mask, other=0)
    c_row = silu(a_row).cast(b_row.dtype) * b_row
    tl.store(c_ptr + col_offsets, c_row, mask=mask)


@triton.jit
def _swiglu_backward_kernel(dc_ptr, a_ptr, b_ptr, stride, n_cols: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    program_id = tl.program_id(0).to(tl.int64)
    dc_ptr += program_id * stride
    a_ptr += program_id * stride
    b_ptr += program_id * stride
    col_offsets = tl.arange(0, BLOCK_SIZE)
    mask = col_offsets < n_cols
    dc_row = tl.load(dc_ptr + col_offsets, mask=mask, other=0)
    a_row = tl.load(a_ptr + col_offsets, mask=mask, other=0).to(tl.float32)
    b_row = tl.load(b_ptr + col_offsets, mask=mask, other=0)
    sig_a = tl.sigmoid(a_row)
    silu_a = a_row * sig_a
    db_row = dc_row * silu_a
    da_row = dc_row * (silu_a * (1 - sig_a) + sig_a) * b_row
    tl.store(a_ptr + col_offsets, da_row, mask=mask)
    tl.store(b_ptr + col_offsets, db_row, mask=mask)


def step(a, b, dc):
    c = torch.empty_like(a)
    da, db = a.clone(), b.clone()
    rows, n_cols = a.shape
    _swiglu_forward_kernel[(rows,)](a, b, c, c.stride(-2), n_cols=n_cols, BLOCK_SIZE=64)
    _swiglu_backward_kernel[(rows,)](dc, da, db, dc.stride(-2), n_cols=n_cols, BLOCK_SIZE=64)
    return {"c": c, "da": da, "db": db}
""",
    outputs={"c": Out("a"), "da": Out("a"), "db": Out("b")},
    gradients={"da": ("a", "c", "dc"), "db": ("b", "c", "dc")},
    inputs=gate_data,
    variants=(
        benign(
            "another form of the derivative",
            ("(silu_a * (1 - sig_a) + sig_a)", "sig_a * (1 + a_row * (1 - sig_a))"),
        ),
        benign("the sigmoid by hand", ("return x * tl.sigmoid(x)", "return x / (1 + tl.exp(-x))")),
        wrong("the gate's own slope is left out", ("(silu_a * (1 - sig_a) + sig_a)", "sig_a")),
        wrong(
            "the gate without its sigmoid", ("db_row = dc_row * silu_a", "db_row = dc_row * a_row")
        ),
        imprecise(
            "the sigmoid in float16",
            (
                "sig_a = tl.sigmoid(a_row)",
                "sig_a = tl.sigmoid(a_row).to(tl.float16).to(tl.float32)",
            ),
        ),
    ),
)


def rope_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    angles = np.outer(np.arange(10), 10000.0 ** (-np.arange(8) / 8))
    return {
        "usual": {
            "q": normal(rng, 3, 10, 16),
            "cos": np.cos(angles).astype(np.float32),
            "sin": np.sin(angles).astype(np.float32),
            "dout": normal(rng, 3, 10, 16),
        }
    }


ROPE = Family(
    name="rope",
    framework="torch",
    source=HEAD
    + """@triton.jit
def _rope_embedding(Q, Q_head_stride, Q_row_stride, cos, sin, head_dim, BACKWARD_PASS: tl.constexpr, BLOCK_SIZE: tl.constexpr):
    head, row = tl.program_id(0), tl.program_id(1)
    col_offsets = tl.arange(0, BLOCK_SIZE)
    half_head_dim = head_dim // 2
    mask = col_offsets < half_head_dim
    sin1 = tl.load(sin + row * half_head_dim + col_offsets, mask=mask, other=0)
    cos1 = tl.load(cos + row * half_head_dim + col_offsets, mask=mask, other=0)
    if BACKWARD_PASS:
        sin1 = -sin1
    offs_q1 = head * Q_head_stride + row * Q_row_stride + col_offsets
    offs_q2 = offs_q1 + half_head_dim
    Q1 = tl.load(Q + offs_q1, mask=mask, other=0).to(sin1.dtype)
    Q2 = tl.load(Q + offs_q2, mask=mask, other=0).to(sin1.dtype)
    tl.store(Q + offs_q1, Q1 * cos1 - Q2 * sin1, mask=mask)
    tl.store(Q + offs_q2, Q2 * cos1 + Q1 * sin1, mask=mask)


class Rope(torch.autograd.Function):
    @staticmethod
    def forward(ctx, Q, cos, sin):
        heads, rows, head_dim = Q.shape
        Q = Q.clone()
        _rope_embedding[(heads, rows)](Q, Q.stride(0), Q.stride(1), cos, sin, head_dim, BACKWARD_PASS=False, BLOCK_SIZE=8)
        ctx.tables = cos, sin
        return Q

    @staticmethod
    def backward(ctx, dY):
        heads, rows, head_dim = dY.shape
        cos, sin = ctx.tables
        dY = dY.clone()
        _rope_embedding[(heads, rows)](dY, dY.stride(0), dY.stride(1), cos, sin, head_dim, BACKWARD_PASS=True, BLOCK_SIZE=8)
        return dY, None, None


def step(q, cos, sin, dout):
    q.requires_grad_()
    out = Rope.apply(q, cos.float(), sin.to(torch.float32))
    return {"out": out, "dq": torch.autograd.grad(out, q, dout)[0]}
""",
    outputs={"out": Out("q"), "dq": Out("q")},
    gradients={"dq": ("q", "out", "dout")},
    inputs=rope_data,
    variants=(
        benign("products by fma", ("Q1 * cos1 - Q2 * sin1", "tl.fma(-Q2, sin1, Q1 * cos1)")),
        wrong("the gradient turns the same way", ("        sin1 = -sin1", "        sin1 = sin1")),
        wrong(
            "the angle of the row before",
            ("cos + row * half_head_dim", "cos + (row - (row > 0)) * half_head_dim"),
        ),
        imprecise(
            "the tables in float16",
            (
                "cos.float(), sin.to(torch.float32)",
                "cos.half().float(), sin.half().to(torch.float32)",
            ),
        ),
    ),
)


def attention_data(rng: np.random.Generator) -> dict[str, dict[str, Array]]:
    usual = {name: normal(rng, 2, 32, 16) for name in ("q", "k", "v", "dout")}
    return {"usual": usual, "peaked": {**usual, "q": 5 * usual["q"]}}


ATTENTION = Family(
    name="flash_attention",
    framework="torch",
    source=HEAD
    + """@triton.jit
def _attn_fwd(Q, K, V, sm_scale, M, Out, stride_h, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    start_m = tl.program_id(0)
    off_h = tl.program_id(1)
    Q_block_ptr = tl.make_block_ptr(base=Q + off_h * stride_h, shape=(N_CTX, HEAD_DIM), strides=(HEAD_DIM, 1), offsets=(start_m * BLOCK_M, 0), block_shape=(BLOCK_M, HEAD_DIM), order=(1, 0))
    K_block_ptr = tl.make_block_ptr(base=K + off_h * stride_h, shape=(HEAD_DIM, N_CTX), strides=(1, HEAD_DIM), offsets=(0, 0), block_shape=(HEAD_DIM, BLOCK_N), order=(0, 1))
    V_block_ptr = tl.make_block_ptr(base=V + off_h * stride_h, shape=(N_CTX, HEAD_DIM), strides=(HEAD_DIM, 1), offsets=(0, 0), block_shape=(BLOCK_N, HEAD_DIM), order=(1, 0))
    offs_m = start_m * BLOCK_M + tl.arange(0, BLOCK_M)
    offs_n = tl.arange(0, BLOCK_N)
    m_i = tl.zeros([BLOCK_M], dtype=tl.float32) - float("inf")
    l_i = tl.zeros([BLOCK_M], dtype=tl.float32)
    acc = tl.zeros([BLOCK_M, HEAD_DIM], dtype=tl.float32)
    qk_scale = sm_scale
    qk_scale *= 1.44269504
    q = tl.load(Q_block_ptr)
    for start_n in range(0, (start_m + 1) * BLOCK_M, BLOCK_N):
        k = tl.load(K_block_ptr)
        qk = tl.dot(q, k, input_precision="ieee")
        mask = offs_m[:, None] >= (start_n + offs_n[None, :])
        qk = qk * qk_scale + tl.where(mask, 0, -1.0e6)
        m_ij = tl.maximum(m_i, tl.max(qk, 1))
        p = tl.math.exp2(qk - m_ij[:, None])
        alpha = tl.math.exp2(m_i - m_ij)
        l_i = l_i * alpha + tl.sum(p, 1)
        acc = acc * alpha[:, None]
        v = tl.load(V_block_ptr)
        acc = tl.dot(p.to(v.dtype), v, acc, input_precision="ieee")
        m_i = m_ij
        V_block_ptr = tl.advance(V_block_ptr, (BLOCK_N, 0))
        K_block_ptr = tl.advance(K_block_ptr, (0, BLOCK_N))
    m_i += tl.math.log2(l_i)
    acc = acc / l_i[:, None]
    tl.store(M + off_h * N_CTX + offs_m, m_i)
    offs_d = tl.arange(0, HEAD_DIM)
    tl.store(Out + off_h * stride_h + offs_m[:, None] * HEAD_DIM + offs_d[None, :], acc.to(Out.type.element_ty))


@triton.jit
def _attn_bwd_preprocess(O, DO, Delta, N_CTX, BLOCK_M: tl.constexpr, HEAD_DIM: tl.constexpr):
    off_m = tl.program_id(0) * BLOCK_M + tl.arange(0, BLOCK_M)
    off_n = tl.arange(0, HEAD_DIM)
    o = tl.load(O + off_m[:, None] * HEAD_DIM + off_n[None, :])
    do = tl.load(DO + off_m[:, None] * HEAD_DIM + off_n[None, :]).to(tl.float32)
    tl.store(Delta + off_m, tl.sum(o * do, axis=1))


@triton.jit
def _attn_bwd(Q, K, V, sm_scale, DO, DQ, DK, DV, M, D, stride_h, N_CTX, HEAD_DIM: tl.constexpr, BLOCK_M: tl.constexpr, BLOCK_N: tl.constexpr):
    LN2: tl.constexpr = 0.6931471824645996
    off_h = tl.program_id(1)
    start_n = tl.program_id(0) * BLOCK_N
    Q += off_h * stride_h
    K += off_h * stride_h
    V += off_h * stride_h
    DO += off_h * stride_h
    DQ += off_h * stride_h
    offs_k = tl.arange(0, HEAD_DIM)
    offs_n = start_n + tl.arange(0, BLOCK_N)
    dv = tl.zeros([BLOCK_N, HEAD_DIM], dtype=tl.float32)
    dk = tl.zeros([BLOCK_N, HEAD_DIM], dtype=tl.float32)
    k = tl.load(K + offs_n[:, None] * HEAD_DIM + offs_k[None, :])
    v = tl.load(V + offs_n[:, None] * HEAD_DIM + offs_k[None, :])
    for start_m in range(0, N_CTX, BLOCK_M):
        offs_m = start_m + tl.arange(0, BLOCK_M)
        q = tl.load(Q + offs_m[:, None] * HEAD_DIM + offs_k[None, :])
        do = tl.load(DO + offs_m[:, None] * HEAD_DIM + offs_k[None, :])
        m = tl.load(M + off_h * N_CTX + offs_m)
        Di = tl.load(D + off_h * N_CTX + offs_m)
        qkT = tl.dot(k, tl.trans(q), input_precision="ieee") * (sm_scale * 1.4426950408889634)
        pT = tl.math.exp2(qkT - m[None, :])
        pT = tl.where(offs_m[None, :] >= offs_n[:, None], pT, 0.0)
        dv += tl.dot(pT.to(do.dtype), do, input_precision="ieee")
        dpT = tl.dot(v, tl.trans(do), input_precision="ieee").to(tl.float32)
        dsT = pT * (dpT - Di[None, :])
        dk += tl.dot(dsT.to(q.dtype), q, input_precision="ieee")
        dq = tl.dot(tl.trans(dsT).to(k.dtype), k, input_precision="ieee")
        tl.atomic_add(DQ + offs_m[:, None] * HEAD_DIM + offs_k[None, :], dq * sm_scale)
    tl.store(DV + off_h * stride_h + offs_n[:, None] * HEAD_DIM + offs_k[None, :], dv)
    tl.store(DK + off_h * stride_h + offs_n[:, None] * HEAD_DIM + offs_k[None, :], dk * sm_scale)


def step(q, k, v, dout):
    do = dout
    H, N_CTX, HEAD_DIM = q.shape
    scale = HEAD_DIM**-0.5
    o = torch.empty_like(q)
    M = torch.empty((H, N_CTX), device=q.device, dtype=torch.float32)
    delta = torch.empty_like(M)
    dq = torch.zeros_like(q, dtype=torch.float32)
    dk, dv = torch.empty_like(k), torch.empty_like(v)
    blocks = N_CTX // 16
    _attn_fwd[(blocks, H)](q, k, v, scale, M, o, q.stride(0), N_CTX, HEAD_DIM=HEAD_DIM, BLOCK_M=16, BLOCK_N=16)
    _attn_bwd_preprocess[(blocks * H,)](o, do, delta, N_CTX, BLOCK_M=16, HEAD_DIM=HEAD_DIM)
    _attn_bwd[(blocks, H)](q, k, v, scale, do, dq, dk, dv, M, delta, q.stride(0), N_CTX, HEAD_DIM=HEAD_DIM, BLOCK_M=16, BLOCK_N=16)
    return {"o": o, "dq": dq.to(q.dtype), "dk": dk, "dv": dv}
""",
    outputs={"o": Out("q"), "dq": Out("q"), "dk": Out("k"), "dv": Out("v")},
    gradients={"dq": ("q", "o", "dout"), "dk": ("k", "o", "dout"), "dv": ("v", "o", "dout")},
    inputs=attention_data,
    races=(
        racing(
            "adds to dq without an atomic",
            (
                "tl.atomic_add(DQ + offs_m[:, None] * HEAD_DIM + offs_k[None, :], dq * sm_scale)",
                "at = DQ + offs_m[:, None] * HEAD_DIM + offs_k[None, :]\n        tl.store(at, tl.load(at) + dq * sm_scale)",
            ),
        ),
    ),
    variants=(
        benign(
            "the scale on the queries",
            (
                'qk = tl.dot(q, k, input_precision="ieee")\n',
                'qk = tl.dot(q * 1.0, k, input_precision="ieee")\n',
            ),
            ("acc = acc / l_i[:, None]", "acc = acc * (1 / l_i)[:, None]"),
        ),
        wrong("the scale is left out of dk", ("dk * sm_scale)", "dk)")),
        wrong("no delta", ("pT * (dpT - Di[None, :])", "pT * dpT")),
        wrong(
            "the mask is strict",
            ("offs_m[None, :] >= offs_n[:, None]", "offs_m[None, :] > offs_n[:, None]"),
        ),
        imprecise(
            "weights in float16", ("p.to(v.dtype), v, acc", "p.to(tl.float16).to(v.dtype), v, acc")
        ),
    ),
)

FAMILIES = [CROSS_ENTROPY, RMS_NORM, LAYER_NORM, SWIGLU, ROPE, ATTENTION]
