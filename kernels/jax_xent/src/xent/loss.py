"""Cross-entropy of an unembedding per token, with its gradients.

The logits are `hidden @ unembedding.T`, in float32 at least; `hidden` may be narrower.
"""

import jax
import jax.numpy as jnp


@jax.custom_vjp
def cross_entropy(hidden, unembedding, labels):
    """The loss of each token: hidden [tokens, width], unembedding [vocab, width], labels [tokens].

    A label below 0 is padding: its loss and its gradients are 0."""
    return _forward(hidden, unembedding, labels)[0]


# Rows of the unembedding that are worked on at a time.
TILE = 32


def _tiles(unembedding):
    vocab, width = unembedding.shape
    return unembedding.reshape(vocab // TILE, TILE, width)


def _logits(hidden, tile):
    return hidden.astype(tile.dtype) @ tile.T


def _label_rows(unembedding, labels):
    return unembedding[labels]


def _forward(hidden, unembedding, labels):
    def step(carry, tile):
        highest, total = carry
        logits = _logits(hidden, tile)
        higher = jnp.maximum(highest, logits.max(axis=1))
        total = total * jnp.exp(highest - higher)
        return (higher, total + jnp.exp(logits - higher[:, None]).sum(axis=1)), None

    tokens, dtype = hidden.shape[0], unembedding.dtype
    start = jnp.full(tokens, -jnp.inf, dtype), jnp.zeros(tokens, dtype)
    (highest, total), _ = jax.lax.scan(step, start, _tiles(unembedding))
    lse = highest + jnp.log(total)
    rows = _label_rows(unembedding, labels)
    label_logit = jnp.einsum(
        "tw,tw->t", hidden, rows, precision="highest", preferred_element_type=dtype
    )
    return jnp.where(labels < 0, 0, lse - label_logit), (hidden, unembedding, labels, lse)


def _backward(kept, dloss):
    hidden, unembedding, labels, lse = kept
    wide = hidden.astype(unembedding.dtype)
    dloss = jnp.where(labels < 0, 0, dloss)

    def step(dhidden, rows):
        dlogits = jnp.exp(_logits(hidden, rows) - lse[:, None]) * dloss[:, None]
        return dhidden + dlogits @ rows, dlogits.T @ wide

    dhidden, dtiles = jax.lax.scan(step, jnp.zeros_like(wide), _tiles(unembedding))
    dhidden -= dloss[:, None] * _label_rows(unembedding, labels)
    dunembedding = dtiles.reshape(unembedding.shape) - _label_gradient(hidden, labels, dloss, unembedding)
    return dhidden.astype(hidden.dtype), dunembedding, None


def _label_gradient(hidden, labels, dloss, unembedding):
    """What the tokens' labels add to the unembedding's gradient: a row a token."""
    # Many tokens share a label: their sum needs the bits of the wider dtype.
    rows = hidden.astype(unembedding.dtype) * dloss[:, None]
    return jnp.zeros_like(unembedding).at[labels].add(rows)


cross_entropy.defvjp(_forward, _backward)
