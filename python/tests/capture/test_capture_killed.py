"""A training that is killed at any moment leaves no fixture that looks whole and is not."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
from written import array, inspect

# A hundred for REPLAY_TEST_CORPUS=all.
KILLS = 100 if os.environ.get("REPLAY_TEST_CORPUS") == "all" else 30
SIZE = 20_000

# The harness is one that every `replay` reads, so that `inspect` accepts whole fixtures.
HARNESS = """
sources = ["f.cu"]
call = "f();"
[inputs.x]
dtype = "f32"
shape = ["n"]
[inputs.y]
dtype = "f64"
shape = ["n"]
[inputs.axis]
dtype = "i64"
shape = []
[outputs.out]
dtype = "f64"
shape = ["n"]
"""

TRAINING = textwrap.dedent(
    f"""
    import itertools, sys
    import numpy as np
    from gradreplay import capture

    def add(x, y, axis):
        return x + y

    add = capture.function(add, harness="f/replay.toml", import_as="losses:add")
    print("ready", flush=True)
    for step in itertools.count():
        late = capture.spike("norm", 2.0) if step % 3 == 0 else capture.every(1)
        with capture.step("fixtures/{{step}}", step=step, when=late, strict=True):
            add(np.full({SIZE}, step, np.float32), np.arange({SIZE}) + float(step), step)
            capture.metric("norm", 100.0 if step % 9 == 0 else 1.0)
    """
)


def wrong(fixture: Path) -> str | None:
    """What is not whole in a fixture that `inspect` accepts."""
    step = int(fixture.name)
    inputs = fixture / "inputs.safetensors"
    x, y = array(inputs, "x"), array(inputs, "y")
    if x.shape != (SIZE,) or not (x == step).all() or not np.array_equal(y, np.arange(SIZE) + step):
        return "inputs"
    expected = fixture / "expected.safetensors"
    if expected.exists() and not np.array_equal(array(expected, "out"), x + y):
        return "outputs"
    return None


def find_whole(home: Path) -> list[Path]:
    """The fixtures that a training has written to their end, by their manifests."""
    return sorted(manifest.parent for manifest in home.glob("fixtures/[0-9]*/fixture.toml"))


def test_kills_leave_no_half_fixture_that_inspect_accepts(replay: str) -> None:
    chance = random.Random(20)
    (Path("f")).mkdir()
    Path("f/replay.toml").write_text(HARNESS)
    accepted = refused = with_outputs = 0
    found: list[str] = []
    for kill in range(KILLS):
        home = Path(f"run{kill}")
        home.mkdir()
        (home / "f").symlink_to("../f")
        with subprocess.Popen(
            [sys.executable, "-c", TRAINING], cwd=home, stdout=subprocess.PIPE
        ) as training:
            assert training.stdout is not None
            assert training.stdout.readline() == b"ready\n"
            # Counted in fixtures, for on a slow disk the first may take longer than any wait.
            while len(find_whole(home)) < kill % 3:
                assert training.poll() is None, "the training ended by itself"
                time.sleep(0.002)
            time.sleep(chance.random() * 0.25)
            training.kill()
        for folder in home.glob("fixtures/[0-9]*"):
            if not (folder / "fixture.toml").exists():
                refused += 1
                assert inspect(replay, folder).returncode != 0
        whole = find_whole(home)
        told = inspect(replay, *whole) if whole else None
        assert told is None or told.returncode == 0, told.stderr
        accepted += len(whole)
        with_outputs += sum((folder / "expected.safetensors").exists() for folder in whole)
        found += [f"{folder}: {what}" for folder in whole if (what := wrong(folder))]
    print(
        f"{KILLS} kills: {accepted} fixtures accepted, {with_outputs} with outputs, {refused} refused"
    )
    assert found == []
    assert accepted >= KILLS // 3 * 3, "a fixture that had been whole is gone"
    assert refused + accepted - with_outputs > 0, "no kill came while a fixture was written"
