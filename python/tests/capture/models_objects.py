"""Small models of Equinox, Flax's nnx and its linen, each with a defect and a harmless rewrite."""

from __future__ import annotations

import textwrap

EQUINOX = textwrap.dedent(
    """
    import equinox as eqx
    import jax


    class Feed(eqx.Module):
        up: eqx.nn.Linear
        down: eqx.nn.Linear

        def __init__(self, width, key):
            self.up = eqx.nn.Linear(width, 2 * width, key=key)
            self.down = eqx.nn.Linear(2 * width, width, key=key)

        def __call__(self, x):
            h = self.up(x)
            return self.down(h * jax.nn.sigmoid(h))


    class Model(eqx.Module):
        layers: list

        def __init__(self):
            self.layers = [Feed(4, key) for key in jax.random.split(jax.random.key(0), 2)]

        def __call__(self, x):
            for number, layer in enumerate(self.layers):
                x = x + layer(x)
            return x
    """
)

FLAX = textwrap.dedent(
    """
    import jax
    from flax import nnx


    class Feed(nnx.Module):
        def __init__(self, width, rngs):
            self.up = nnx.Linear(width, 2 * width, rngs=rngs)
            self.down = nnx.Linear(2 * width, width, rngs=rngs)

        def __call__(self, x):
            h = self.up(x)
            return self.down(h * jax.nn.sigmoid(h))


    class Model(nnx.Module):
        def __init__(self):
            rngs = nnx.Rngs(0)
            self.layers = nnx.List([Feed(4, rngs) for _ in range(2)])

        def __call__(self, x):
            for number, layer in enumerate(self.layers):
                x = x + layer(x)
            return x
    """
)

LINEN = textwrap.dedent(
    """
    import jax
    from flax import linen as nn


    class Feed(nn.Module):
        width: int

        def setup(self):
            self.up = nn.Dense(2 * self.width)
            self.down = nn.Dense(self.width)

        def __call__(self, x):
            h = self.up(x)
            return self.down(h * jax.nn.sigmoid(h))


    class Model(nn.Module):
        def setup(self):
            self.layers = [Feed(4) for _ in range(2)]

        def __call__(self, x):
            for number, layer in enumerate(self.layers):
                x = x + layer(x)
            return x
    """
)

TRAINING = textwrap.dedent(
    """
    import jax
    import lm
    from gradreplay import capture

    model = capture.model(lm.Model())
    # Either kind of module is a pytree.
    update = jax.jit(jax.value_and_grad(lambda model, x: (model(x) ** 2).mean(), allow_int=True))
    for step in range(2):
        x = jax.random.normal(jax.random.key(step), (4,))
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            value, gradients = update(model, x)
    """
)

LINEN_TRAINING = textwrap.dedent(
    """
    import jax
    import lm
    from gradreplay import capture

    model = capture.model(lm.Model())
    params = model.init(jax.random.key(0), jax.numpy.ones(4))
    update = jax.jit(jax.value_and_grad(lambda params, x: (model.apply(params, x) ** 2).mean()))
    for step in range(2):
        x = jax.random.normal(jax.random.key(step), (4,))
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            value, gradients = update(params, x)
    """
)

# What stands in the source, and what takes its place.
DEFECT = ("self.down(h * jax.nn.sigmoid(h))", "self.down(h * jax.nn.sigmoid(1.1 * h))")
REWRITE = ("self.down(h * jax.nn.sigmoid(h))", "self.down(jax.nn.silu(h))")
