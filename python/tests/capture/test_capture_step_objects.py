"""`replay step` on trainings with Equinox and Flax, as :mod:`test_capture_step` has it in PyTorch."""

from __future__ import annotations

from pathlib import Path

import pytest
from models_objects import DEFECT, EQUINOX, FLAX, LINEN, LINEN_TRAINING, REWRITE, TRAINING
from test_capture_step import ALL, chosen, own, replayed, train

pytest.importorskip("jax")

MODELS = {
    "equinox": (EQUINOX, TRAINING),
    "flax": (FLAX, TRAINING),
    "flax.linen": (LINEN, LINEN_TRAINING),
}
AGAINST = ("--rev", "HEAD", "--against", "HEAD~1")
SOME = () if ALL else ("--module", "layers.1")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("framework", chosen(list(MODELS), ("flax",)))
def test_the_modules_of_a_defect_are_named(framework: str, replay: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    train(tmp_path, *DEFECT, *MODELS[framework])
    code, document = replayed(replay, tmp_path, *AGAINST, *SOME)
    found = ["layers.0", "layers.1"] if ALL else ["layers.1"]
    if framework == "flax.linen":
        found = ["layers_0", "layers_1"]
    assert (code, own(document)) == (1, found), document["text"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("framework", chosen(list(MODELS), ("equinox",)))
def test_nothing_is_said_of_a_rewrite(framework: str, replay: str, tmp_path: Path) -> None:
    pytest.importorskip(framework)
    train(tmp_path, *REWRITE, *MODELS[framework])
    code, document = replayed(replay, tmp_path, *AGAINST, *SOME)
    assert (code, own(document)) == (0, []), document["text"]
