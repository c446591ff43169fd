"""`replay step` on a captured training in JAX, as :mod:`test_capture_step` has it in PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from models_jax import DEFECTS, HARMLESS, MODEL, TRAINING
from test_capture_step import ALL, chosen, own, replayed, train

pytest.importorskip("jax")

# Shown by a backward that is not that of its forward, or by what the code does not give from its inputs.
ALONE = ("a gradient stopped", "a stale value")


def one_call(folder: str) -> tuple[str, ...]:
    """The options for one call; none where all is tried."""
    return () if ALL else ("--module", folder)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", chosen(list(DEFECTS), ("a mask off by one",)))
def test_the_function_of_a_defect_is_named_first(defect: str, replay: str, tmp_path: Path) -> None:
    call, before, after = DEFECTS[defect]
    train(tmp_path, before, after, MODEL, TRAINING)
    words: tuple[str, ...] = () if defect in ALONE else ("--rev", "HEAD", "--against", "HEAD~1")
    code, document = replayed(replay, tmp_path, *words, *one_call(call))
    assert (code, own(document)) == (1, [call]), document["text"]
    firsts = [document["first_forward"], document["first_backward"]]
    assert {document["parts"][place]["folder"] for place in firsts if place is not None} == {call}
    around = [part for part in document["parts"] if part["blame"] == "consequence"]
    assert all(document["parts"][part["consequence_of"]]["folder"] == call for part in around)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rewrite", chosen(list(HARMLESS), ("a product by einsum",)))
def test_nothing_is_said_of_a_rewrite(rewrite: str, replay: str, tmp_path: Path) -> None:
    train(tmp_path, *HARMLESS[rewrite], MODEL, TRAINING)
    words = ("--rev", "HEAD", "--against", "HEAD~1", *one_call("feed"))
    code, document = replayed(replay, tmp_path, *words)
    assert (code, own(document)) == (0, []), document["text"]
