"""Kernels as public libraries of Triton write them: packages with their guards, aliases and tuning."""

from __future__ import annotations

# One `step` a package, as a harness of the documentation calls it.

RMS_NORM = {
    "rmsnorm/__init__.py": "from .ops import rms_norm\n",
    "rmsnorm/utils.py": """
        import functools
        import torch
        import triton

        def calculate_settings(n):
            block = triton.next_power_of_2(n)
            if block > 65536:
                raise RuntimeError(f"Cannot launch Triton kernel since n = {n} exceeds 65536.")
            return block, 32 if block >= 32768 else 4

        def is_hip():
            return torch.version.hip is not None

        def ensure_contiguous(fn):
            @functools.wraps(fn)
            def wrapper(ctx, *args, **kwargs):
                def contiguous(x):
                    return x.contiguous() if isinstance(x, torch.Tensor) else x
                args = [contiguous(arg) for arg in args]
                with torch.cuda.device(args[0].device.index):
                    return fn(ctx, *args, **{k: contiguous(v) for k, v in kwargs.items()})
            return wrapper
    """,
    "rmsnorm/ops.py": """
        import torch
        import triton
        import triton.language as tl
        from triton.language.extra.libdevice import rsqrt
        from .utils import calculate_settings, ensure_contiguous, is_hip

        def prune(configs, named_args, **kwargs):
            kept = [config for config in configs if named_args["n_cols"] <= config.kwargs["BLOCK"]]
            return kept or [configs[-1]]

        warps = [2, 4] if is_hip() else [4, 8]

        @triton.autotune(
            configs=[triton.Config({"BLOCK": b}, num_warps=w) for b in (8, 32, 64) for w in warps],
            key=["n_cols"], prune_configs_by={"early_config_prune": prune, "perf_model": None, "top_k": 1},
        )
        @triton.heuristics({"HAS_WEIGHT": lambda args: args["W"] is not None})
        @triton.jit
        def _forward(X, W, Y, R, stride, n_cols, eps, HAS_WEIGHT: tl.constexpr, BLOCK: tl.constexpr):
            row = tl.program_id(0).to(tl.int64)
            at = tl.arange(0, BLOCK)
            mask = at < n_cols
            x = tl.load(X + row * stride + at, mask=mask, other=0.0).to(tl.float32)
            r = rsqrt(tl.sum(x * x, axis=0) / n_cols + eps)
            tl.store(R + row, r)
            y = x * r
            if HAS_WEIGHT:
                y = y * tl.load(W + at, mask=mask).to(tl.float32)
            tl.store(Y + row * stride + at, y, mask=mask)

        @triton.autotune(
            configs=[triton.Config({}, num_warps=w) for w in (1, 2, 4)], key=["n_cols"], reset_to_zero=["DW"],
        )
        @triton.jit
        def _backward(X, W, DY, R, DX, DW, stride, n_cols, BLOCK: tl.constexpr):
            row = tl.program_id(0).to(tl.int64)
            at = tl.arange(0, BLOCK)
            mask = at < n_cols
            x = tl.load(X + row * stride + at, mask=mask, other=0).to(tl.float32)
            dy = tl.load(DY + row * stride + at, mask=mask, other=0).to(tl.float32)
            w = tl.load(W + at, mask=mask, other=0).to(tl.float32)
            r = tl.load(R + row)
            m = dy * w
            dx = r * (m - x * (r * r / n_cols) * tl.sum(m * x, axis=0))
            tl.store(DX + row * stride + at, dx.to(DX.dtype.element_ty), mask=mask)
            tl.atomic_add(DW + at, dy * x * r, mask=mask)

        class RMSNorm(torch.autograd.Function):
            @staticmethod
            @ensure_contiguous
            def forward(ctx, x, w, eps):
                y = torch.empty_like(x)
                r = torch.empty(x.shape[0], dtype=torch.float32, device=x.device)
                _forward[(x.shape[0],)](x, w, y, r, x.stride(0), x.shape[1], eps)
                ctx.save_for_backward(x, w, r)
                return y

            @staticmethod
            @ensure_contiguous
            def backward(ctx, dy):
                x, w, r = ctx.saved_tensors
                block, _ = calculate_settings(x.shape[1])
                dx, dw = torch.empty_like(x), torch.zeros_like(w, dtype=torch.float32)
                grid = lambda meta: (x.shape[0],)
                _backward[grid](x, w, dy, r, dx, dw, x.stride(0), x.shape[1], BLOCK=block)
                return dx, dw.to(w.dtype), None

        def rms_norm(x, w, eps=1e-6):
            return RMSNorm.apply(x, w, eps)
    """,
    "case.py": """
        import torch
        from rmsnorm import rms_norm

        def step(x, w, dy):
            x.requires_grad_(), w.requires_grad_()
            y = rms_norm(x, w)
            dx, dw = torch.autograd.grad(y, (x, w), dy)
            return {"y": y, "dx": dx, "dw": dw}
    """,
}

CROSS_ENTROPY = {
    "losses/kernels.py": """
        import triton
        import triton.language as tl
        from triton.language.math import exp, log

        MAX_FUSED_SIZE: tl.constexpr = tl.constexpr(16)

        @triton.jit
        def online(m, d, block):
            m_new = tl.maximum(m, tl.max(block))
            return m_new, d * exp(m - m_new) + tl.sum(exp(block - m_new))

        @triton.jit
        def cross_entropy_kernel(X, stride, Y, L, n_cols, n_rows, ignore: tl.constexpr, BLOCK: tl.constexpr):
            row = tl.program_id(0).to(tl.int64)
            y = tl.load(Y + row)
            X += row * stride
            if y == ignore:
                for i in tl.range(0, n_cols, BLOCK):
                    at = i + tl.arange(0, BLOCK)
                    tl.store(X + at, 0.0, mask=at < n_cols)
                return
            m = float("-inf")
            d = 0.0
            x_y = tl.load(X + y).cast(tl.float32)
            for i in range(0, n_cols, BLOCK):
                at = i + tl.arange(0, BLOCK)
                block = tl.load(X + at, mask=at < n_cols, other=float("-inf")).cast(tl.float32)
                m, d = online(m, d, block)
            lse = m + log(d)
            for i in range(0, n_cols, BLOCK):
                at = i + tl.arange(0, BLOCK)
                block = tl.load(X + at, mask=at < n_cols, other=float("-inf")).cast(tl.float32)
                block = exp(block - m) / d
                block = tl.where(at != y, block, block - 1.0) / n_rows
                tl.store(X + at, block.to(X.dtype.element_ty), mask=at < n_cols)
            tl.debug_barrier()
            tl.store(L + row, (lse - x_y) / n_rows)
    """,
    "losses/cross_entropy.py": """
        import torch
        import triton
        from losses.kernels import MAX_FUSED_SIZE, cross_entropy_kernel

        class CrossEntropy(torch.autograd.Function):
            @staticmethod
            @torch.amp.custom_fwd(device_type="cuda")
            def forward(ctx, x, target, ignore):
                assert x.is_cuda, "the kernel needs tensors on a GPU"
                rows, cols = x.shape
                loss = torch.zeros(rows, dtype=torch.float32, device=x.device)
                kept = (target != ignore).sum().item()
                block = min(MAX_FUSED_SIZE.value, triton.next_power_of_2(cols))
                cross_entropy_kernel[(rows,)](
                    x, x.stride(-2), target, loss, cols, kept, ignore=ignore, BLOCK=block, num_warps=4
                )
                ctx.save_for_backward(x.detach())
                return loss.sum()

            @staticmethod
            @torch.amp.custom_bwd(device_type="cuda")
            def backward(ctx, dloss):
                (x,) = ctx.saved_tensors
                return x * dloss, None, None
    """,
    "case.py": """
        import torch
        from losses.cross_entropy import CrossEntropy

        def step(x, target, dloss):
            logits = x.clone().requires_grad_()
            loss = CrossEntropy.apply(logits, target, -100)
            (dx,) = torch.autograd.grad(loss, logits, dloss)
            return {"loss": loss, "dx": dx}
    """,
}

SWIGLU = {
    "activations/geglu.py": """
        import torch
        import triton
        import triton.language as tl
        from triton.language.extra.cuda import libdevice

        @triton.jit
        def silu(x):
            return x * tl.sigmoid(x)

        @triton.jit
        def _swiglu(a, b, c, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(a + at, mask=at < n, other=0).to(tl.float32)
            y = tl.load(b + at, mask=at < n, other=0)
            tl.store(c + at, silu(x).cast(y.dtype) * y, mask=at < n)

        @triton.jit
        def _geglu(a, b, c, n, BLOCK: tl.constexpr):
            at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
            x = tl.load(a + at, mask=at < n, other=0).to(tl.float32)
            y = tl.load(b + at, mask=at < n, other=0)
            cubed = libdevice.pow(x, 3.0)
            inner = 0.7978845608028654 * (x + 0.044715 * cubed)
            gelu = 0.5 * x * (1 + tl.extra.cuda.libdevice.tanh(inner))
            tl.store(c + at, gelu.cast(y.dtype) * y, mask=at < n)

        def launch(kernel, a, b):
            c = torch.empty_like(a)
            n = a.numel()
            kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](a, b, c, n, BLOCK=32)
            return c
    """,
    "case.py": """
        from activations.geglu import _geglu, _swiglu, launch

        def step(a, b):
            return {"swiglu": launch(_swiglu, a, b), "geglu": launch(_geglu, a, b)}
    """,
}

ROTARY = {
    "rotary/__init__.py": """
        # What the package brings besides: not for a machine without it.
        import a_framework_that_is_missing
        from rotary.layers import RotaryEmbedding
    """,
    "rotary/ops/__init__.py": "from rotary.ops.rotary import apply_rotary\n",
    "rotary/ops/rotary.py": """
        import torch
        import triton
        import triton.language as tl

        @triton.jit
        def rotary_kernel(OUT, X, COS, SIN, seqlen, half, stride_s, stride_h, CONJUGATE: tl.constexpr,
                          BLOCK_M: tl.constexpr, BLOCK_K: tl.constexpr):
            pid_m = tl.program_id(axis=0)
            pid_h = tl.program_id(axis=1)
            rm = pid_m * BLOCK_M + tl.arange(0, BLOCK_M)
            rk = tl.arange(0, BLOCK_K)
            mask = (rm[:, None] < seqlen) & (rk[None, :] < half)
            x = X + pid_h * stride_h + rm[:, None] * stride_s + rk[None, :]
            out = OUT + pid_h * stride_h + rm[:, None] * stride_s + rk[None, :]
            cos = tl.load(COS + rm[:, None] * half + rk[None, :], mask=mask, other=1.0).to(tl.float32)
            sin = tl.load(SIN + rm[:, None] * half + rk[None, :], mask=mask, other=0.0).to(tl.float32)
            if CONJUGATE:
                sin = -sin
            x0 = tl.load(x, mask=mask, other=0.0).to(tl.float32)
            x1 = tl.load(x + half, mask=mask, other=0.0).to(tl.float32)
            tl.store(out, x0 * cos - x1 * sin, mask=mask)
            tl.store(out + half, x0 * sin + x1 * cos, mask=mask)

        def apply_rotary(x, cos, sin, conjugate=False):
            seqlen, heads, width = x.shape
            out = torch.empty_like(x)
            block_m = 4 if torch.cuda.get_device_capability(x.device)[0] >= 8 else 8
            grid = lambda META: (triton.cdiv(seqlen, META["BLOCK_M"]), heads)
            with torch.cuda.device_of(x), torch.cuda.device(x.device.index):
                rotary_kernel[grid](
                    out, x, cos, sin, seqlen, width // 2, x.stride(0), x.stride(1), conjugate,
                    BLOCK_M=block_m, BLOCK_K=triton.next_power_of_2(width // 2), num_warps=2,
                )
            return out
    """,
    "case.py": """
        from rotary.ops.rotary import apply_rotary

        def step(x, cos, sin, dout):
            return {"out": apply_rotary(x, cos, sin), "dx": apply_rotary(dout, cos, sin, conjugate=True)}
    """,
}

LINEAR_ATTENTION = {
    "linear/__init__.py": "",
    "linear/ops/__init__.py": "",
    "linear/ops/op.py": """
        import os
        import triton
        import triton.language as tl
        import triton.language.extra.libdevice as tldevice

        if os.environ.get("LINEAR_USE_FAST_OPS", "0") == "1":
            exp, log = tldevice.fast_expf, tldevice.fast_logf
        else:
            exp, log = tl.exp, tl.log
    """,
    "linear/utils.py": """
        import contextlib
        import functools
        import torch
        import triton

        backend = triton.runtime.driver.active.get_current_target().backend
        device_lib = getattr(torch, backend)
        name, capability = device_lib.get_device_name(0), device_lib.get_device_capability()
        is_nvidia_hopper = "H100" in name or capability[0] >= 9
        autocast_custom_fwd = functools.partial(torch.amp.custom_fwd, device_type=backend)

        def input_guard(fn):
            @functools.wraps(fn)
            def wrapper(*args, **kwargs):
                args = [arg.contiguous() if isinstance(arg, torch.Tensor) else arg for arg in args]
                index = next(arg for arg in args if isinstance(arg, torch.Tensor)).device.index
                context = device_lib.device(index) if index is not None else contextlib.nullcontext()
                with context:
                    return fn(*args, **kwargs)
            return wrapper

        @functools.cache
        def check_shared_mem(least=102400):
            properties = triton.runtime.driver.active.utils.get_device_properties(0)
            return properties["max_shared_mem"] >= least
    """,
    "linear/ops/gate.py": """
        import triton
        from linear.ops import op

        @triton.jit
        def decay(g):
            return op.exp(g)
    """,
    "linear/ops/chunk.py": """
        import torch
        import triton
        import triton.language as tl
        from linear.ops.gate import decay
        from linear.ops.op import exp
        from linear.utils import check_shared_mem, input_guard, is_nvidia_hopper

        NUM_WARPS = [2, 4] if is_nvidia_hopper else [2, 4, 8]
        BK_LIST = [16, 64] if check_shared_mem() else [16]

        @triton.heuristics({"USE_G": lambda args: args["g"] is not None})
        @triton.autotune(
            configs=[triton.Config({"BK": bk}, num_warps=w, num_stages=s)
                     for bk in BK_LIST for w in NUM_WARPS for s in (2, 3)],
            key=["T", "K", "V"],
        )
        @triton.jit(do_not_specialize=["T"])
        def chunk_fwd_kernel(q, k, v, g, o, scale, T, K: tl.constexpr, V: tl.constexpr, BT: tl.constexpr,
                             BK: tl.constexpr, BV: tl.constexpr, USE_G: tl.constexpr):
            i_v = tl.program_id(0)
            b_h = tl.zeros([K, BV], dtype=tl.float32)
            for i_t in range(tl.cdiv(T, BT)):
                p_q = tl.make_block_ptr(q, (T, K), (K, 1), (i_t * BT, 0), (BT, K), (1, 0))
                p_k = tl.make_block_ptr(k, (K, T), (1, K), (0, i_t * BT), (K, BT), (0, 1))
                p_v = tl.make_block_ptr(v, (T, V), (V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
                p_o = tl.make_block_ptr(o, (T, V), (V, 1), (i_t * BT, i_v * BV), (BT, BV), (1, 0))
                b_q = tl.load(p_q, boundary_check=(0, 1))
                b_q = (b_q * scale).to(b_q.dtype)
                b_k = tl.load(p_k, boundary_check=(0, 1))
                b_v = tl.load(p_v, boundary_check=(0, 1))
                b_o = tl.dot(b_q, b_h.to(b_q.dtype), allow_tf32=False)
                b_s = tl.dot(b_q, b_k, allow_tf32=False)
                o_t = tl.arange(0, BT)
                if USE_G:
                    b_g = tl.load(g + i_t * BT + o_t, mask=i_t * BT + o_t < T, other=0.0)
                    last = tl.load(g + min(i_t * BT + BT, T) - 1)
                    b_o *= exp(b_g)[:, None]
                    b_s = b_s * decay(b_g[:, None] - b_g[None, :])
                    b_h *= exp(last)
                    b_v = (b_v * exp(last - b_g)[:, None]).to(b_v.dtype)
                    b_w = tl.load(p_v, boundary_check=(0, 1))
                else:
                    b_w = b_v
                b_s = tl.where(o_t[:, None] >= o_t[None, :], b_s, 0)
                b_o += tl.dot(b_s.to(b_w.dtype), b_w, allow_tf32=False)
                b_h += tl.dot(b_k, b_v, allow_tf32=False)
                tl.store(p_o, b_o.to(p_o.dtype.element_ty), boundary_check=(0, 1))

        @input_guard
        def chunk_attention(q, k, v, g=None, scale=None):
            T, K, V = *q.shape, v.shape[-1]
            o = torch.empty_like(v)
            BV = min(16, triton.next_power_of_2(V))
            chunk_fwd_kernel[(triton.cdiv(V, BV),)](
                q, k, v, g, o, K**-0.5 if scale is None else scale, T=T, K=K, V=V, BT=16, BV=BV
            )
            return o
    """,
    "case.py": """
        from linear.ops.chunk import chunk_attention

        def step(q, k, v, g):
            return {"plain": chunk_attention(q, k, v), "gated": chunk_attention(q, k, v, g)}
    """,
}

LAYER_NORM = {
    "norms/layernorm.py": """
        import math
        import torch
        import triton
        import triton.language as tl

        DEVICE = triton.runtime.driver.active.get_active_torch_device()

        @triton.jit
        def _forward(X, Y, W, B, MEAN, RSTD, stride, n, eps, BLOCK: tl.constexpr):
            row = tl.program_id(0)
            at = tl.arange(0, BLOCK)
            mask = at < n
            x = tl.load(X + row * stride + at, mask=mask, other=0.0).to(tl.float32)
            mean = tl.sum(x, axis=0) / n
            centred = tl.where(mask, x - mean, 0.0)
            rstd = 1 / tl.sqrt(tl.sum(centred * centred, axis=0) / n + eps)
            tl.store(MEAN + row, mean)
            tl.store(RSTD + row, rstd)
            w, b = tl.load(W + at, mask=mask), tl.load(B + at, mask=mask)
            tl.store(Y + row * stride + at, centred * rstd * w + b, mask=mask)

        @triton.jit
        def _backward(X, W, DY, MEAN, RSTD, DX, DW, DB, stride, n, rows, rows_per_program: tl.constexpr,
                      BLOCK: tl.constexpr):
            program = tl.program_id(0)
            start = program * rows_per_program
            end = min(start + rows_per_program, rows)
            at = tl.arange(0, BLOCK)
            mask = at < n
            dw = tl.zeros((BLOCK,), dtype=tl.float32)
            db = tl.zeros((BLOCK,), dtype=tl.float32)
            w = tl.load(W + at, mask=mask, other=0.0)
            for row in range(start, end):
                x = tl.load(X + row * stride + at, mask=mask, other=0.0).to(tl.float32)
                dy = tl.load(DY + row * stride + at, mask=mask, other=0.0).to(tl.float32)
                mean, rstd = tl.load(MEAN + row), tl.load(RSTD + row)
                hat = tl.where(mask, (x - mean) * rstd, 0.0)
                wdy = w * dy
                c1 = tl.sum(hat * wdy, axis=0) / n
                c2 = tl.sum(wdy, axis=0) / n
                tl.store(DX + row * stride + at, (wdy - (hat * c1 + c2)) * rstd, mask=mask)
                dw += dy * hat
                db += dy
            tl.store(DW + program * n + at, dw, mask=mask)
            tl.store(DB + program * n + at, db, mask=mask)

        class LayerNorm(torch.autograd.Function):
            @staticmethod
            def forward(ctx, x, w, b, eps):
                rows, n = x.shape
                y = torch.empty_like(x)
                mean, rstd = (torch.empty(rows, dtype=torch.float32, device=DEVICE) for _ in range(2))
                block = triton.next_power_of_2(n)
                _forward[(rows,)](x, y, w, b, mean, rstd, x.stride(0), n, eps, BLOCK=block)
                ctx.save_for_backward(x, w, mean, rstd)
                return y

            @staticmethod
            def backward(ctx, dy):
                x, w, mean, rstd = ctx.saved_tensors
                rows, n = x.shape
                sm_count = torch.cuda.get_device_properties(x.device).multi_processor_count
                driver = triton.runtime.driver.active
                properties = driver.utils.get_device_properties(driver.get_current_device())
                assert sm_count == properties["multiprocessor_count"]
                dx = torch.empty_like(dy)
                dw, db = (torch.empty((sm_count, n), dtype=torch.float32, device=x.device) for _ in range(2))
                _backward[(sm_count,)](
                    x, w, dy, mean, rstd, dx, dw, db, x.stride(0), n, rows, math.ceil(rows / sm_count),
                    BLOCK=triton.next_power_of_2(n), num_warps=4,
                )
                return dx, dw.sum(0).to(w.dtype), db.sum(0).to(w.dtype), None
    """,
    "case.py": """
        import torch
        from norms.layernorm import LayerNorm

        def step(x, w, b, dy):
            inputs = [tensor.requires_grad_() for tensor in (x, w, b)]
            y = LayerNorm.apply(*inputs, 1e-5)
            dx, dw, db = torch.autograd.grad(y, inputs, dy)
            return {"y": y, "dx": dx, "dw": dw, "db": db}
    """,
}
