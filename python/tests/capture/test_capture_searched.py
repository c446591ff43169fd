"""A step that was captured in the run that went wrong, outputs included, finds the commit that broke it."""

from __future__ import annotations

import os
import subprocess
import sys
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


@pytest.fixture(scope="module")
def captured(
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[tuple[str, str], Written]:
    """Every training, captured at the end of its history."""
    root = tmp_path_factory.mktemp("trainings")
    found: dict[tuple[str, str], Written] = {}
    for framework, all_of_it in TRAININGS.items():
        try:
            __import__(framework)
        except ImportError:
            continue
        written = {
            name: trainings.write(framework, training, root / framework / name)
            for name, training in all_of_it.items()
        }
        homes = [one.home for one in written.values()]
        trainings.capture_all(framework, homes, environment(root / "cache"))
        found |= {(framework, name): one for name, one in written.items()}
    return found


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


@pytest.mark.parametrize("framework", TRAININGS)
@pytest.mark.parametrize("name", trainings.TORCH)
def test_a_step_captured_at_the_bad_end_finds_the_culprit(
    framework: str, name: str, replay: str, captured: dict[tuple[str, str], Written]
) -> None:
    pytest.importorskip(framework)
    training = captured[framework, name]
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
