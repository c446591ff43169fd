"""The PyTorch example of docs/programs.md, from its capture to the culprit."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from frameworks import need
from pytorch_example import CULPRIT, HISTORY, make


def test_the_pytorch_example_of_the_documentation_finds_its_culprit(tmp_path: Path) -> None:
    need("torch")
    program = os.environ.get("REPLAY")
    if program is None:
        pytest.skip("REPLAY does not name the replay program: the example is not searched")
    commits = make(tmp_path)

    def replay(*words: str) -> subprocess.CompletedProcess[str]:
        bin_folder = os.path.dirname(sys.executable)
        environment = os.environ | {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
            "REPLAY_CACHE_DIR": str(tmp_path / ".git" / "cache"),
        }
        return subprocess.run(
            [program, *words], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    # With the optional mask, and without.
    for fixture in ("fixtures/masked", "fixtures/whole"):
        good = replay(fixture, "--rev", commits[0])
        assert good.returncode == 0, good.stdout + good.stderr
        assert good.stdout.count("matches d loss") == 2, good.stdout
    benign = replay("diff", "fixtures/masked", commits[0], commits[2])
    assert benign.returncode == 0, benign.stdout + benign.stderr
    found = replay("bisect", "fixtures/masked", "--good", commits[0], "--bad", commits[-1])
    culprit = commits[list(HISTORY).index(CULPRIT)]
    assert f"{culprit} is the first bad commit: {CULPRIT}" in found.stdout, (
        found.stdout + found.stderr
    )
    assert "dx diverged: wrong" in found.stdout, found.stdout
    checked = replay("gradcheck", "fixtures/masked", "--rev", culprit)
    assert checked.returncode == 1, checked.stdout + checked.stderr
    assert "dx       does not match d loss / d x" in checked.stdout, checked.stdout
    assert "dweight  matches" in checked.stdout, checked.stdout
