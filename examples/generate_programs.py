#!/usr/bin/env python3
"""Generates `fixtures/jax_xent` and `fixtures/triton_attention`: inputs of the demonstrations in Python.

`python3 examples/generate_programs.py` writes them; with `--check` it compares them with what it would
write and fails where they differ. Needs numpy, safetensors and ml_dtypes, and gradreplay on the path.

Every run writes the same bytes on every platform: RandomState's stream is frozen, and floats are made
by additions, multiplications and divisions alone.
"""

import sys
import tempfile
from pathlib import Path

import ml_dtypes
import numpy as np
from gradreplay import tensors
from gradreplay.tensors import Tensor

FIXTURES = Path(__file__).parents[1] / "fixtures"


def normal(rng: np.random.RandomState, *shape: int) -> np.ndarray:
    """Numbers of mean 0 and variance 1, nearly normal: sums of twelve uniform ones."""
    total = np.zeros(shape)
    for _ in range(12):
        total += rng.random_sample(shape)
    return total - 6


def zipf(rng: np.random.RandomState, count: int, items: int) -> np.ndarray:
    """Items by Zipf's law: the n-th is drawn n times less often than the first."""
    share = np.cumsum(1 / np.arange(1, items + 1))
    return np.searchsorted(share, rng.random_sample(count) * share[-1]).astype(np.int32)


def jax_xent() -> dict[str, Tensor]:
    """A step of a language model: few labels hold most of the tokens, as in text.

    With labels that are all as frequent, no row of the label gradient has many terms to lose."""
    rng = np.random.RandomState(20241014)
    tokens, vocab, width = 256, 64, 32
    hidden = normal(rng, tokens, width)
    return {
        "hidden": tensors.take("hidden", hidden.astype(ml_dtypes.bfloat16)),
        "unembedding": tensors.take("unembedding", (normal(rng, vocab, width) / 8).astype(np.float32)),
        "labels": tensors.take("labels", zipf(rng, tokens, vocab)),
        "dloss": tensors.take("dloss", np.full(tokens, 1 / tokens, np.float32)),
    }


def triton_attention() -> dict[str, Tensor]:
    """A layer's step: the upstream gradient comes from a product with the heads side by side."""
    rng = np.random.RandomState(20241104)
    batch, heads, length, width = 1, 4, 32, 16
    inputs = {
        name: tensors.take(name, normal(rng, batch, heads, length, width).astype(np.float32))
        for name in ("q", "k", "v")
    }
    # In memory [batch, length, heads, width], as autograd hands back `out.transpose(1, 2)`.
    memory = (normal(rng, batch, length, heads, width) / 4).astype(np.float32)
    inputs["dout"] = tensors.take("dout", memory.transpose(0, 2, 1, 3))
    return inputs


def main() -> None:
    if sys.argv[1:] not in ([], ["--check"]):
        sys.exit(f"usage: {sys.argv[0]} [--check]")
    check = bool(sys.argv[1:])
    for make in (jax_xent, triton_attention):
        path = FIXTURES / make.__name__ / "inputs.safetensors"
        if not check:
            tensors.write(path, make())
            continue
        with tempfile.TemporaryDirectory() as scratch:
            expected = Path(scratch) / path.name
            tensors.write(expected, make())
            if expected.read_bytes() != path.read_bytes():
                sys.exit(f"{path} is not what the generator writes")


main()
