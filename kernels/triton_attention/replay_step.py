"""A step through causal attention, as replay calls it at any commit."""

import gradreplay as replay


@replay.harness(framework="torch")
def step(q, k, v, dout):
    import torch
    from attn.attention import attention  # of the revision

    inputs = [tensor.requires_grad_() for tensor in (q, k, v)]
    out = attention(*inputs)
    dq, dk, dv = torch.autograd.grad(out, inputs, dout)
    return {"out": out, "dq": dq, "dk": dk, "dv": dv}


replay.main()
