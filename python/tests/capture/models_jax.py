"""A small transformer in JAX, its defects, and harmless rewrites, each in one place of its source."""

from __future__ import annotations

import textwrap

MODEL = textwrap.dedent(
    """
    import jax
    import jax.numpy as jnp

    # The training sets it to another value, which a compiled function keeps.
    warmth = 1.0


    def norm(p, x):
        x = x - x.mean(-1, keepdims=True)
        return x * jax.lax.rsqrt((x * x).mean(-1, keepdims=True) + 1e-5) * p["scale"]


    def attention(p, x, layer):
        batch, length, width = x.shape
        size = width // 2
        q, k, v = jnp.moveaxis((x @ p["qkv"]).reshape(batch, length, 3, 2, size), 2, 0)
        score = jnp.einsum("bihd,bjhd->bhij", q, k) / jnp.sqrt(1.0 * size)
        mask = jnp.tril(jnp.ones((length, length), bool))
        score = jnp.where(mask, score, -jnp.inf)
        y = jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(score, -1), v)
        return y.reshape(batch, length, width)


    def feed(p, x, layer):
        h = jax.nn.gelu(x @ p["up"])
        return h @ p["down"]


    def block(p, x, layer):
        x = x + attention(p["attention"], norm(p["norm1"], x), layer)
        return x + feed(p["feed"], norm(p["norm2"], x), layer)


    def logits(p, tokens):
        x = p["embed"][tokens] + p["place"][: tokens.shape[1]]
        for layer, own in enumerate(p["blocks"]):
            x = block(own, x, layer)
        return x @ p["head"]


    def start(key, vocab=13, width=8, layers=3, length=6):
        keys = iter(jax.random.split(key, 99))

        def draw(*shape):
            return 0.3 * jax.random.normal(next(keys), shape)

        blocks = [
            {
                "norm1": {"scale": jnp.ones(width)},
                "attention": {"qkv": draw(width, 3 * width)},
                "norm2": {"scale": jnp.ones(width)},
                "feed": {"up": draw(width, 2 * width), "down": draw(2 * width, width)},
            }
            for _ in range(layers)
        ]
        embed, place, head = draw(vocab, width), draw(length, width), draw(width, vocab)
        return {"embed": embed, "place": place, "blocks": blocks, "head": head}
    """
)

TRAINING = textwrap.dedent(
    """
    import jax
    import jax.numpy as jnp
    import lm
    from gradreplay import capture

    lm.warmth = 0.5
    capture.model(lm, match=["logits", "block", "attention", "feed"])
    params = lm.start(jax.random.key(0))


    def loss(p, tokens):
        logits = jax.nn.log_softmax(lm.logits(p, tokens[:, :-1]))
        return -jnp.take_along_axis(logits, tokens[:, 1:, None], -1).mean()


    update = jax.jit(jax.value_and_grad(loss))
    for step in range(2):
        tokens = jax.random.randint(jax.random.key(step), (2, 7), 0, 13)
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            value, gradients = update(params, tokens)
        params = jax.tree.map(lambda p, g: p - 0.1 * g, params, gradients)
    """
)

# By name: the call, what stands in the source, and what takes its place.
DEFECTS = {
    "a wrong scale in one head": (
        "attention-call1",
        "/ jnp.sqrt(1.0 * size)",
        "/ jnp.sqrt(1.0 * size) * jnp.array([1.0, 1.1 if layer == 1 else 1.0])[:, None, None]",
    ),
    "a mask off by one": (
        "attention-call2",
        "jnp.ones((length, length), bool))",
        "jnp.ones((length, length), bool), layer // 2)",
    ),
    "a gradient stopped": (
        "feed",
        'return h @ p["down"]',
        'return (jax.lax.stop_gradient(h) if layer == 0 else h) @ p["down"]',
    ),
    "a stale value": (
        "feed-call1",
        'h = jax.nn.gelu(x @ p["up"])',
        'h = jax.nn.gelu(x @ p["up"]) * (warmth if layer == 1 else 1.0)',
    ),
    "an accumulation in bfloat16": (
        "feed-call2",
        'return h @ p["down"]',
        'return (h.astype("bfloat16") @ p["down"].astype("bfloat16")).astype(h.dtype) '
        'if layer == 2 else h @ p["down"]',
    ),
}

HARMLESS = {
    "a scale before the product": (
        'jnp.einsum("bihd,bjhd->bhij", q, k) / jnp.sqrt(1.0 * size)',
        'jnp.einsum("bihd,bjhd->bhij", q / jnp.sqrt(1.0 * size), k)',
    ),
    "a mask of minus infinities": (
        "jnp.where(mask, score, -jnp.inf)",
        "score + jnp.where(mask, 0.0, -jnp.inf)",
    ),
    "a softmax by hand": (
        "jax.nn.softmax(score, -1)",
        "jnp.exp(score - jax.nn.logsumexp(score, -1, keepdims=True))",
    ),
    "a product by einsum": (
        'return h @ p["down"]',
        'return jnp.einsum("blh,hw->blw", h, p["down"])',
    ),
    "the terms of a sum the other way round": (
        'return x + feed(p["feed"], norm(p["norm2"], x), layer)',
        'return feed(p["feed"], norm(p["norm2"], x), layer) + x',
    ),
}
