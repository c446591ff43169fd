"""A small transformer, its defects, and rewrites that change nothing, each in one place of its source."""

from __future__ import annotations

import textwrap

MODEL = textwrap.dedent(
    """
    import math
    import torch
    import torch.nn.functional as F
    from torch import nn


    class Attention(nn.Module):
        def __init__(self, width, heads, layer):
            super().__init__()
            self.heads, self.layer = heads, layer
            self.qkv = nn.Linear(width, 3 * width)
            self.mask = None

        def forward(self, x):
            batch, length, width = x.shape
            size = width // self.heads
            q, k, v = self.qkv(x).view(batch, length, 3, self.heads, size).permute(2, 0, 3, 1, 4)
            score = q @ k.transpose(-1, -2) / math.sqrt(size)
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            score = score.masked_fill(~mask, float("-inf"))
            y = score.softmax(-1) @ v
            return y.transpose(1, 2).reshape(batch, length, width)


    class Feed(nn.Module):
        def __init__(self, width, layer):
            super().__init__()
            self.layer = layer
            self.up = nn.Parameter(torch.randn(width, 2 * width) * 0.2)
            self.down = nn.Parameter(torch.randn(2 * width, width) * 0.2)
            self.scale = None

        def forward(self, x):
            h = F.gelu(x @ self.up)
            return h @ self.down


    class Block(nn.Module):
        def __init__(self, width, heads, layer):
            super().__init__()
            self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
            self.attn = Attention(width, heads, layer)
            self.feed = Feed(width, layer)
            self.layer = layer

        def forward(self, x):
            x = x + self.attn(self.norm1(x))
            return x + self.feed(self.norm2(x))


    class LM(nn.Module):
        def __init__(self, vocab, width, heads, layers, length):
            super().__init__()
            self.embed = nn.Embedding(vocab, width)
            self.place = nn.Parameter(torch.randn(length, width) * 0.1)
            self.layers = nn.ModuleList(Block(width, heads, layer) for layer in range(layers))
            self.head = nn.Linear(width, vocab, bias=False)

        def forward(self, tokens):
            x = self.embed(tokens) + self.place[: tokens.shape[1]]
            for layer in self.layers:
                x = layer(x)
            return self.head(x)


    def build():
        return LM(13, 8, 2, 3, 6)
    """
)

TRAINING = textwrap.dedent(
    """
    import torch
    import torch.nn.functional as F
    import lm
    from gradreplay import capture

    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = capture.model(lm.build(), match=["", "layers.?", "layers.?.attn", "layers.?.feed"],
                          import_as="lm:build")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        tokens = torch.randint(0, 13, (2, 7))
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            logits = model(tokens[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()
    """
)

# By name: the module, what stands in the source, and what takes its place.
DEFECTS = {
    "a wrong scale in one head": (
        "layers.1.attn",
        "/ math.sqrt(size)",
        "/ math.sqrt(size) * torch.tensor([1.0, 1.1 if self.layer == 1 else 1.0]).view(2, 1, 1)",
    ),
    "a mask off by one": ("layers.2.attn", ".tril()", ".tril(self.layer // 2)"),
    "a detached tensor": (
        "layers.0.feed",
        "return h @ self.down",
        "return (h.detach() if self.layer == 0 else h) @ self.down",
    ),
    "a stale buffer": (
        "layers.1.feed",
        "h = F.gelu(x @ self.up)",
        "self.scale = x.std().detach() if self.scale is None or self.layer != 1 else self.scale\n"
        "        h = F.gelu(x @ self.up) * (self.scale if self.layer == 1 else 1.0)",
    ),
    "an accumulation in bfloat16": (
        "layers.2.feed",
        "return h @ self.down",
        "return (h.bfloat16() @ self.down.bfloat16()).float() if self.layer == 2 else h @ self.down",
    ),
}

HARMLESS = {
    "a scale before the product": (
        "q @ k.transpose(-1, -2) / math.sqrt(size)",
        "(q / math.sqrt(size)) @ k.transpose(-1, -2)",
    ),
    "a mask of minus infinities": (
        'score.masked_fill(~mask, float("-inf"))',
        "score + torch.zeros(length, length).masked_fill(~mask, -math.inf)",
    ),
    "a softmax by hand": (
        "score.softmax(-1)",
        "(score - score.logsumexp(-1, keepdim=True)).exp()",
    ),
    "a product by einsum": ("h @ self.down", 'torch.einsum("blh,hw->blw", h, self.down)'),
    "the terms of a sum the other way round": (
        "return x + self.feed(self.norm2(x))",
        "return self.feed(self.norm2(x)) + x",
    ),
}
