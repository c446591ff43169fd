"""What the tests of capturing share: a process without a past, and the files that it wrote."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from gradreplay.capture import errors, flush
from gradreplay.capture.session import state

if os.environ.get("GRADREPLAY_ALL_FRAMEWORKS"):
    # Nothing is skipped silently where all of them are said to be there.
    frameworks = ("torch", "jax", "triton", "flax", "equinox")
    missing = [name for name in frameworks if importlib.util.find_spec(name) is None]
    assert not missing, f"missing: {', '.join(missing)}"


@pytest.fixture(autouse=True)
def fresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Each test captures into a folder of its own, as if no other had run."""
    monkeypatch.chdir(tmp_path)
    errors.forget()
    state.functions.clear()
    state.runs.clear()
    yield
    flush()
    assert state.step is None and not state.on


@pytest.fixture
def replay() -> str:
    """The `replay` program, which REPLAY names; a test that needs it says so where it is not there."""
    path = os.environ.get("REPLAY")
    if not path:
        pytest.skip(
            "REPLAY does not name the replay program: what `replay inspect` says is not tested"
        )
    found = shutil.which(path)
    assert found, f"REPLAY={path} is not a program"
    return found
