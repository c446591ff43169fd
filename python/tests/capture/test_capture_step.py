"""`replay step` on a captured training names the module of a planted defect, and of rewrites says nothing.

Some of them are tried; with REPLAY_TEST_CORPUS=all all are."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from models import DEFECTS, HARMLESS, MODEL, TRAINING

PACKAGE = Path(__file__).parents[2] / "src"
ALL = os.environ.get("REPLAY_TEST_CORPUS") == "all"
# Those that show without another revision: a backward that is not that of its forward, and what the code does
# not give from its inputs.
ALONE = ("a detached tensor", "a stale buffer")


def chosen(names: list[str], some: tuple[str, ...]) -> list[str]:
    return names if ALL else [name for name in names if name in some]


def some_modules(layer: str) -> tuple[str, ...]:
    """The options for the whole model, a layer and what is in it; none where all is tried."""
    return () if ALL else ("--module", "model", "--module", f"{layer}*")


def environment(cache: Path) -> dict[str, str]:
    return os.environ | {"PYTHONPATH": str(PACKAGE), "REPLAY_CACHE_DIR": str(cache)}


def train(
    home: Path, before: str, after: str, model: str = MODEL, training: str = TRAINING
) -> None:
    """A history of the model with one change, and two steps captured behind it."""
    assert model.count(before) == 1, before
    git(home, "init", "-q")
    for subject, text in (("A model", model), ("Faster", model.replace(before, after))):
        (home / "lm.py").write_text(text)
        (home / "train.py").write_text(training)
        git(home, "add", "lm.py", "train.py")
        git(home, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", subject)
    variables = environment(home / "cache")
    subprocess.run((sys.executable, "train.py"), cwd=home, env=variables, check=True, timeout=200)


def git(home: Path, *words: str) -> None:
    subprocess.run(("git", *words), cwd=home, check=True)


def replayed(replay: str, home: Path, *words: str) -> tuple[int, Any]:
    """The exit code and the document of `replay step` on the second step."""
    command = (replay, "step", "fixtures/step1", "--format", "json", "--gradients", "quick", *words)
    run = subprocess.run(
        command, cwd=home, env=environment(home / "cache"), capture_output=True, timeout=900
    )
    assert run.stdout, run.stderr.decode()
    return run.returncode, json.loads(run.stdout)


def own(document: Any) -> list[str]:
    """The modules that are at fault themselves."""
    return [part["folder"] for part in document["parts"] if part["blame"] == "own"]


@pytest.mark.timeout(900)
@pytest.mark.parametrize("defect", chosen(list(DEFECTS), ("a mask off by one", "a stale buffer")))
def test_the_module_of_a_defect_is_named_first(defect: str, replay: str, tmp_path: Path) -> None:
    module, before, after = DEFECTS[defect]
    train(tmp_path, before, after)
    words: tuple[str, ...] = () if defect in ALONE else ("--rev", "HEAD", "--against", "HEAD~1")
    words += some_modules(module.rpartition(".")[0])
    code, document = replayed(replay, tmp_path, *words)
    assert (code, own(document)) == (1, [module]), document["text"]
    firsts = [document["first_forward"], document["first_backward"]]
    named = {document["parts"][place]["folder"] for place in firsts if place is not None}
    assert named == {module}
    # What holds it is told to be a consequence.
    around = [part for part in document["parts"] if part["blame"] == "consequence"]
    assert all(document["parts"][part["consequence_of"]]["folder"] == module for part in around)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("rewrite", chosen(list(HARMLESS), ("a product by einsum",)))
def test_nothing_is_said_of_a_rewrite(rewrite: str, replay: str, tmp_path: Path) -> None:
    train(tmp_path, *HARMLESS[rewrite])
    words = ("--rev", "HEAD", "--against", "HEAD~1", *some_modules("layers.1"))
    code, document = replayed(replay, tmp_path, *words)
    assert (code, own(document)) == (0, []), document["text"]


CHAIN = """import torch

class Scale(torch.nn.Module):
    def forward(self, x):
        return x * 2.0

class Shift(torch.nn.Module):
    def forward(self, x):
        return x + 1.0

class Chain(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.shift, self.scale = Shift(), Scale()

    def forward(self, x):
        return self.scale(self.shift(x))
"""
RUN = """import torch
from gradreplay import capture
import lm

chain = capture.model(lm.Chain())
with capture.step("fixtures/step1", step=1, when=capture.every(1), strict=True):
    chain(torch.ones(3, 4, requires_grad=True)).sum().backward()
"""


@pytest.mark.timeout(600)
def test_a_module_of_a_step_is_cut_to_its_smallest_fixture(replay: str, tmp_path: Path) -> None:
    train(tmp_path, "x * 2.0", "x * 3.0", CHAIN, RUN)
    words = ("fixtures/step1/scale", "--rev", "HEAD", "--against", "HEAD~1", "--format", "json")
    run = subprocess.run(
        (replay, "shrink", *words),
        cwd=tmp_path,
        env=environment(tmp_path / "cache"),
        capture_output=True,
        timeout=500,
    )
    assert run.returncode == 0, run.stderr.decode()
    document = json.loads(run.stdout)
    # The number by which the program chooses the module is none of the sizes.
    assert {size["name"]: size["after"] for size in document["sizes"]} == {"x_0": 1, "x_1": 1}
