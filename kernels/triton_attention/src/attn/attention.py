"""Causal attention without stored weights, and its gradients."""

import torch
import triton
import triton.language as tl

from . import kernels

ROWS = 16


def attention(q, k, v):
    """The output, of q's shape: q, k and v are packed [batch, heads, length, width]."""
    return _Attention.apply(q, k, v)


def _launch(q):
    """Grid and sizes that all kernels take."""
    batch, heads, length, width = q.shape
    acc = tl.float64 if q.dtype == torch.float64 else tl.float32
    grid = triton.cdiv(length, ROWS), batch * heads
    return grid, (width**-0.5, heads, length), {"ROWS": ROWS, "WIDTH": width, "ACC": acc}


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v):
        grid, sizes, constants = _launch(q)
        out, lse = torch.empty_like(q), torch.empty_like(q[..., 0])
        kernels.forward[grid](q, k, v, out, lse, *sizes, *q.stride()[:3], **constants)
        ctx.save_for_backward(q, k, v, out, lse)
        return out

    @staticmethod
    def backward(ctx, dout):
        q, k, v, out, lse = ctx.saved_tensors
        grid, sizes, constants = _launch(q)
        strides = *q.stride()[:3], *dout.stride()[:3]
        gradients = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        delta = torch.empty_like(lse)
        kernels.outer[grid](
            out, dout, delta, *sizes[1:], *strides, ROWS=ROWS, WIDTH=q.shape[-1]
        )
        kernels.backward[grid](
            q, k, v, lse, delta, dout, *gradients, *sizes, *strides, **constants
        )
        return gradients
