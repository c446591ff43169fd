"""Files whose tensors come one after the other."""

from __future__ import annotations

import errno
import os
import resource
import signal
import threading
from pathlib import Path

import numpy as np
import pytest
from written import inspect

from gradreplay import capture, tensors
from gradreplay.capture import disk
from gradreplay.capture import staged as staged_module
from gradreplay.capture.background import background
from gradreplay.capture.staged import Staged
from gradreplay.tensors import TensorFileError

ARRAYS = {
    "flags": np.array([True, False, True]),
    "wide": np.arange(5.0),
    "none": np.zeros((0, 3), np.int16),
    "turned": np.arange(6, dtype=np.float32).reshape(2, 3).T,
    "scalar": np.float64(2.5),
}


@pytest.mark.parametrize("count", [1, 40])
@pytest.mark.parametrize("prefix", ["", "n" * 3000])
def test_tensors_are_read_as_they_came(count: int, prefix: str) -> None:
    staged = Staged(Path("file.safetensors"), count)
    content = {f"{prefix}{name}": tensors.take(name, array) for name, array in ARRAYS.items()}
    places = {name: staged.add(tensor) for name, tensor in content.items()}
    assert not Path("file.safetensors").exists()
    staged.finish(content, places, {"made": "by hand"})
    read = tensors.read("file.safetensors")
    assert list(Path().iterdir()) == [Path("file.safetensors")]
    for name, array in ARRAYS.items():
        assert read[prefix + name].layout == content[prefix + name].layout
        np.testing.assert_array_equal(read[prefix + name].array(), array)


def test_no_file_stays_open_between_tensors() -> None:
    before = len(list(Path("/proc/self/fd").iterdir()))
    many = [Staged(Path(f"{number}.safetensors"), 1) for number in range(50)]
    for staged in many:
        staged.add(tensors.take("x", np.zeros(3)))
    assert len(list(Path("/proc/self/fd").iterdir())) == before


def test_elements_are_put_on_the_disk_while_more_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staged_module, "_STRETCH", 24)
    synced: list[int] = []

    def noted(descriptor: int) -> None:
        synced.append(os.fstat(descriptor).st_size)

    monkeypatch.setattr(os, "fsync", noted)
    staged = Staged(Path("file.safetensors"), 1)
    x = tensors.take("x", np.zeros(2))
    places = []
    for _ in range(4):
        places.append(staged.add(x))
        background.wait()
    # The room for the header comes before them.
    assert [size % 4096 for size in synced] == [32, 64]
    staged.finish({"x": x}, {"x": places[0]}, {})
    assert len(synced) == 3


def test_elements_that_could_not_be_put_on_the_disk_leave_no_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(staged_module, "_STRETCH", 8)
    synchronise = os.fsync

    def fails_once(descriptor: int) -> None:
        monkeypatch.setattr(os, "fsync", synchronise)
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(os, "fsync", fails_once)
    staged = Staged(Path("file.safetensors"), 1)
    x = tensors.take("x", np.zeros(2))
    place = staged.add(x)
    background.wait()
    with pytest.raises(TensorFileError, match="cannot write file.safetensors: Input/output error"):
        staged.finish({"x": x}, {"x": place}, {})
    assert not list(Path().iterdir())


def test_a_file_that_is_given_up_while_it_is_put_on_the_disk_says_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(staged_module, "_STRETCH", 8)
    held = threading.Event()
    background.submit(held.wait, 0)
    staged = Staged(Path("file.safetensors"), 1)
    staged.add(tensors.take("x", np.zeros(2)))
    staged.discard()
    held.set()
    background.wait()
    assert not caplog.records and not list(Path().iterdir())


def test_outputs_without_elements_make_a_whole_file() -> None:
    staged = Staged(Path("file.safetensors"), 1)
    none = tensors.take("x", np.zeros((0, 2)))
    staged.finish({"x": none}, {"x": staged.add(none)}, {})
    assert tensors.read("file.safetensors")["x"].shape == (0, 2)


def test_a_file_that_is_given_up_leaves_nothing() -> None:
    staged = Staged(Path("file.safetensors"), 1)
    staged.add(tensors.take("x", np.zeros(4)))
    staged.discard()
    assert list(Path().iterdir()) == []


def test_a_file_that_lacks_elements_is_never_finished() -> None:
    staged = Staged(Path("file.safetensors"), 2)
    small, large = tensors.take("x", np.zeros(4)), tensors.take("y", np.zeros(100_000))
    places = {"x": staged.add(small)}
    kept = resource.getrlimit(resource.RLIMIT_FSIZE)
    before = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, kept[1]))
        with pytest.raises(TensorFileError, match="cannot write file.safetensors: File too large"):
            staged.add(large)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, kept)
        signal.signal(signal.SIGXFSZ, before)
    staged.finish({"x": small}, places, {})
    assert list(Path().iterdir()) == []


def test_outputs_of_unlike_widths_are_accepted_by_inspect(replay: str) -> None:
    def sort(x: np.ndarray) -> tuple[np.ndarray, ...]:
        return x > 0, np.sort(x), x.astype(np.float32)

    sort_ = capture.function(sort, outputs=["positive", "sorted", "narrow"], import_as="f:sort")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        sort_(np.array([3.0, -1.0, 2.0]))
    capture.flush()
    told = inspect(replay, "fixtures/step0")
    assert told.returncode == 0, told.stderr


def test_what_a_killed_process_left_is_cleared_away() -> None:
    folder = Path("fixtures/step0")
    folder.mkdir(parents=True)
    Path(disk.beside(str(folder / "expected.safetensors"))).write_bytes(b"half")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        capture.function(np.copy, name="f", parameters=["x"])(np.zeros(2))
    capture.flush()
    names = sorted(path.name for path in folder.iterdir())
    assert names == ["expected.safetensors", "fixture.toml", "inputs.safetensors"]
