"""A step that was captured in the run that went wrong, outputs included, finds the commit that broke it."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import trainings
from trainings import TRAININGS, Written

PACKAGE = Path(__file__).parents[2] / "src"


def environment(cache: Path) -> dict[str, str]:
    return os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": str(PACKAGE),
        "REPLAY_CACHE_DIR": str(cache),
    }


Captured = Callable[[str], dict[str, Written]]


@pytest.fixture(scope="module")
def captured(tmp_path_factory: pytest.TempPathFactory) -> Captured:
    """Every training of a framework, captured at the end of its history by one process."""

    @functools.cache
    def capture(framework: str) -> dict[str, Written]:
        root = tmp_path_factory.mktemp(framework)
        written = {
            name: trainings.write(framework, training, root / "trainings" / name)
            for name, training in TRAININGS[framework].items()
        }
        homes = [one.home for one in written.values()]
        trainings.capture_all(framework, homes, environment(root / "cache"))
        return written

    return capture


def bisect(replay: str, home: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    """Searches the whole history of a training, without an option."""
    good = f"HEAD~{trainings.LENGTH}"
    return subprocess.run(
        (replay, "bisect", str(home / "fixtures/step0"), "--good", good, "--bad", "HEAD"),
        env=environment(cache),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


def searches() -> list[tuple[str, str]]:
    """A framework and a training each: half of the trainings in one framework each.

    For REPLAY_TEST_CORPUS=all every training in both. Framework by framework, so that a process of
    pytest-xdist captures those of one as a rule.
    """
    everything = os.environ.get("REPLAY_TEST_CORPUS") == "all"
    return [
        (framework, name)
        for own, framework in enumerate(TRAININGS)
        for number, name in enumerate(trainings.TORCH)
        if everything or number % (2 * len(TRAININGS)) == own
    ]


@pytest.mark.parametrize(("framework", "name"), searches())
def test_a_step_captured_at_the_bad_end_finds_the_culprit(
    framework: str, name: str, replay: str, captured: Captured
) -> None:
    pytest.importorskip(framework)
    training = captured(framework)[name]
    assert (training.home / "fixtures/step0/expected.safetensors").exists()
    found = bisect(replay, training.home, training.home.parents[1] / "cache")
    assert found.returncode == 0, found.stdout + found.stderr
    answer = f"{training.culprit} is the first bad commit: {training.subject}\n"
    assert found.stdout.startswith(answer), found.stdout


def test_a_workspace_kept_between_calls_is_told_from_a_defect_of_the_inputs(
    replay: str, tmp_path: Path
) -> None:
    pytest.importorskip("torch")
    home, cache = tmp_path / "training", tmp_path / "cache"
    trainings.write("torch", trainings.WORKSPACE, home)
    trainings.capture_all("torch", [home], environment(cache))
    found = bisect(replay, home, cache)
    assert found.returncode == 1, found.stdout + found.stderr
    assert "does not give what was captured at it: something outside of the inputs" in found.stdout
    assert "captured outputs are given by none of these commits, nor by" in found.stdout
