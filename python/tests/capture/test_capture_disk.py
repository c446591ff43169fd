"""What is on the disk when, and how often a captured step waits for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import inspect, names

from gradreplay import capture
from gradreplay.capture import disk, fixture, functions
from gradreplay.tensors import TensorFileError


class Watch:
    """Notes synchronisations, of several files in one moment as one, and the files that got their names."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.waits = 0
        self.synced: set[int] = set()
        self.named: list[str] = []
        self.early: list[str] = []
        self._fsync, self._replace = os.fsync, os.replace
        together, folder = disk._sync, disk.sync_folder

        def counted(wait: Any) -> Any:
            def run(*arguments: Any) -> None:
                self.waits += 1
                wait(*arguments)

            return run

        monkeypatch.setattr(os, "fsync", self.fsync)
        monkeypatch.setattr(os, "replace", self.replace)
        monkeypatch.setattr(disk, "_sync", counted(together))
        monkeypatch.setattr(disk, "sync_folder", counted(folder))

    def fsync(self, descriptor: int) -> None:
        self._fsync(descriptor)
        self.synced.add(os.fstat(descriptor).st_ino)

    def replace(self, source: Any, target: Any) -> None:
        if os.stat(source).st_ino not in self.synced:
            self.early.append(str(target))
        self.named.append(Path(target).name)
        self._replace(source, target)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    return Watch(monkeypatch)


def test_a_captured_step_waits_for_the_disk_as_often_as_its_two_files_alone(watch: Watch) -> None:
    copy = capture.function(np.copy, name="f", parameters=["x"])
    waits = []
    for step in range(3):
        before = watch.waits
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            copy(np.zeros(5))
        capture.flush()
        waits.append(watch.waits - before)
    # The first step drafts the harness. `expected` is synchronised by the file that it is staged in.
    assert waits[1:] == [3, 3]
    assert watch.named[-3:] == ["inputs.safetensors", "fixture.toml", "expected.safetensors"]
    assert watch.early == []
    assert os.stat("fixtures").st_ino in watch.synced, "the names of the steps"
    assert os.stat("fixtures/step2").st_ino in watch.synced, "the names of its files"


def test_a_file_that_cannot_be_written_leaves_none_of_its_files() -> None:
    def pieces() -> Iterator[bytes]:
        yield b"half"
        raise OSError(28, "No space left on device")

    with pytest.raises(TensorFileError, match="^cannot write b: No space left on device$"):
        disk.put(Path("."), {"a": [b"whole"], "b": pieces()})
    assert list(Path(".").iterdir()) == []


def test_a_file_that_cannot_be_synchronised_gets_no_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int) -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails)
    with pytest.raises(TensorFileError, match="Input/output error"):
        disk.put(Path("."), {"a": [b"one"], "b": [b"two"]})
    assert list(Path(".").iterdir()) == []


def test_a_system_without_advice_synchronises_all_the_same(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(os, "posix_fadvise")
    disk.put(Path("."), {"a": [b"one"], "b": [b"two"]})
    assert watch.named == ["a", "b"] and watch.early == []


def test_what_a_step_that_was_being_deleted_left_does_not_disturb_the_next(replay: str) -> None:

    folder = Path("fixtures/step0")
    folder.mkdir(parents=True)
    (folder / "grad_out.safetensors").write_bytes(b"of a step that is gone")
    copy = capture.function(np.copy, name="f", parameters=["x"])
    with capture.step("fixtures/step{step}", step=0, strict=True):
        copy(np.zeros(5))
    assert names() == ["step0"]
    told = inspect(replay, folder)
    assert told.returncode == 0, told.stderr


@pytest.mark.parametrize(
    ("start", "target"),
    [
        ("fixtures/step0", "fixtures/harness-f/replay.toml"),
        ("step0", "harness-f/replay.toml"),
        ("fixtures/a/b", "fixtures/harness-f/replay.toml"),
        ("fixtures/linked", "fixtures/harness-f/replay.toml"),
        ("fixtures/linked/b", "fixtures/harness-f/replay.toml"),
        ("linked/step0", "linked/harness-f/replay.toml"),
        ("linked/../step0", "linked/harness-f/replay.toml"),
        ("fixtures/step0", "/harness-f/replay.toml"),
        ("fixtures/linked", "/harness-f/replay.toml"),
    ],
)
def test_the_way_to_a_harness_leads_there_through_symbolic_links(start: str, target: str) -> None:
    Path("elsewhere/deep/down/b").mkdir(parents=True)
    Path("fixtures").mkdir()
    Path("fixtures/linked").symlink_to("../elsewhere/deep/down")
    Path("linked").symlink_to("elsewhere/deep")
    given = Path.cwd() / target[1:] if target.startswith("/") else Path(target)
    for folder in (Path(start), given.parent):
        folder.mkdir(parents=True, exist_ok=True)
    given.touch()
    way = fixture.way(Path(start), given)
    assert not os.path.isabs(way)
    assert os.path.samefile(Path(start) / way, given)


def test_the_way_to_a_function_is_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    find = functions.find

    def counted(function: Any, import_as: str | None) -> Any:
        found.append(function)
        return find(function, import_as)

    monkeypatch.setattr(functions, "find", counted)
    copy = capture.function(np.copy, name="f")
    for step in range(3):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            copy(np.zeros(5))
    capture.flush()
    assert len(found) == 1 and names() == ["step0", "step1", "step2"]
