"""A step through the cross-entropy of an unembedding, as replay calls it at any commit."""

import gradreplay as replay


@replay.harness(framework="jax")
def step(hidden, unembedding, labels, dloss):
    import jax
    from xent.loss import cross_entropy  # of the revision

    @jax.jit
    def run(hidden, unembedding, dloss):
        loss, pull = jax.vjp(lambda h, u: cross_entropy(h, u, labels), hidden, unembedding)
        return (loss, *pull(dloss))

    loss, dhidden, dunembedding = run(hidden, unembedding, dloss)
    return {"loss": loss, "dhidden": dhidden, "dunembedding": dunembedding}


replay.main()
