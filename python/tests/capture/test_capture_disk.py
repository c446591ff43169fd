"""What is on the disk when, and how often a captured step waits for it."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import array, inspect, names

from gradreplay import capture
from gradreplay.capture import disk, fixture, functions, host
from gradreplay.capture.arguments import Names
from gradreplay.capture.errors import CaptureError
from gradreplay.capture.record import Function, Record
from gradreplay.capture.target import find
from gradreplay.capture.writer import Writer
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
    assert watch.named[-2:] == ["step2", "expected.safetensors"]
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


@pytest.mark.parametrize("starts_threads", [True, False])
def test_many_files_get_their_names_once_all_are_synchronised(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, starts_threads: bool
) -> None:
    def refuses(_thread: threading.Thread) -> None:
        raise RuntimeError("can't create new thread at interpreter shutdown")

    if not starts_threads:
        monkeypatch.setattr(threading.Thread, "start", refuses)
    files = [f"{number}" for number in range(100)]
    disk.put(Path("."), {name: [name.encode()] for name in files})
    assert watch.named == files and watch.early == []


def test_one_of_many_files_that_cannot_be_synchronised_leaves_all_without_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    synchronise, refused = os.fsync, iter([False] * 60 + [True])

    def fails_once(descriptor: int) -> None:
        if next(refused, False):
            raise OSError(5, "Input/output error")
        synchronise(descriptor)

    monkeypatch.setattr(os, "fsync", fails_once)
    with pytest.raises(TensorFileError, match="Input/output error"):
        disk.put(Path("."), {f"{number}": [b"one"] for number in range(100)})
    assert list(Path(".").iterdir()) == []


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


def writer_of(value: float) -> Writer:
    """The writer of a call on `fixtures/step0`, as another process would have it."""
    record = Record(
        function=Function("f", "numpy", find(np.copy, None), {}),
        names=Names(),
        text="x",
        inputs={"x": host.copied("x", np.full(1000, value))},
        differentiated=(),
        device="cpu",
        script=lambda record: "",
    )
    record.outputs = {"out": host.copied("out", np.full(1000, value + 1))}
    record.returned = True
    return Writer(record, Path("fixtures"), Path("fixtures/step0"), {"step": 0})


def values(name: str, tensor: str) -> set[float]:
    return set(array(Path("fixtures/step0") / name, tensor).tolist())


def test_the_second_of_two_writers_of_a_fixture_adds_nothing_to_it() -> None:
    one, two = writer_of(1), writer_of(2)
    # Both have looked at the folder before either has written.
    for writer in (one, two):
        writer.folder.begin()
        writer._add("inputs.safetensors", writer.record.inputs)
    two._publish()
    two.written = True
    with pytest.raises(CaptureError, match="holds a fixture already, which stays as it is"):
        one._publish()
    one.finish()
    one.discard()
    two.finish()
    assert values("inputs.safetensors", "x") == {2.0}
    assert values("expected.safetensors", "out") == {3.0}
    assert names() == ["step0"]
    assert [path for path in Path("fixtures").iterdir() if path.name.endswith(".part")] == []


def test_outputs_are_not_added_to_a_fixture_that_another_has_made_since() -> None:
    one, two = writer_of(1), writer_of(2)
    one.write_inputs()
    Path("fixtures/step0").rename("fixtures/moved")
    two.write_whole()
    with pytest.raises(CaptureError, match="fixtures/step0 was removed or replaced"):
        one.finish()
    one.discard()
    assert values("inputs.safetensors", "x") == {2.0}
    assert values("expected.safetensors", "out") == {3.0}


def test_of_many_processes_on_one_folder_each_fixture_is_one_s_own() -> None:
    training = """
    import os, sys
    import numpy as np
    from gradreplay import capture
    # As in containers, every process has the same number.
    os.getpid = lambda: 7
    def add(x, y): return x + y
    add = capture.function(add, import_as="losses:add")
    mine = float(sys.argv[1])
    print("ready", flush=True)
    sys.stdin.readline()
    for step in range(20):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1)):
            add(np.full(5000, mine), np.full(5000, mine))
    capture.flush()
    """
    command = [sys.executable, "-c", textwrap.dedent(training)]
    pipe = subprocess.PIPE
    trainings = [
        subprocess.Popen([*command, str(rank)], stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        for rank in range(3)
    ]
    for one in trainings:
        assert one.stdout is not None and one.stdout.readline() == "ready\n"
    for one in trainings:
        one.communicate("\n", timeout=120)
        assert one.returncode == 0
    found = sorted(Path("fixtures").glob("step*"))
    assert len(found) == 20
    for home in found:
        x = set(array(home / "inputs.safetensors", "x").tolist())
        assert set(array(home / "inputs.safetensors", "y").tolist()) == x and len(x) == 1
        assert set(array(home / "expected.safetensors", "out").tolist()) == {2 * x.pop()}
    assert [path.name for path in Path("fixtures").glob(".*")] == []


def test_a_folder_that_a_killed_process_was_writing_is_deleted_by_the_next() -> None:
    left, lives = Path(disk.beside("fixtures/step0")), Path(disk.beside("fixtures/step1"))
    for folder in (left, lives):
        folder.mkdir(parents=True)
        (folder / "inputs.safetensors").write_bytes(b"half")
    with disk.locked(lives):
        writer_of(1).write_whole()
    assert not left.exists() and lives.exists()


def test_a_file_system_without_locks_takes_fixtures_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(descriptor: int, operation: int) -> None:
        raise OSError(95, "Operation not supported")

    monkeypatch.setattr(fcntl, "flock", fails)
    one, two = writer_of(1), writer_of(2)
    one.write_whole()
    with pytest.raises(CaptureError, match="holds a fixture already"):
        two.write_whole()
    assert values("expected.safetensors", "out") == {2.0}


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
