"""Arrays to fixtures and back, as the program reads them."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import need

import gradreplay
from gradreplay import tensors
from gradreplay.capture import CaptureError

needs_replay = pytest.mark.skipif("REPLAY" not in os.environ, reason="REPLAY names no program")


def write_harness(folder: Path, inputs: Mapping[str, tuple[str, int]]) -> Path:
    """A harness with inputs of a dtype and a number of dimensions."""
    lines = ['program = ["true"]', "[outputs.y]", 'dtype = "f32"', "shape = []"]
    for name, (dtype, count) in inputs.items():
        shape = [f"{name}_{axis}" for axis in range(count)]
        lines += [f"[inputs.{name}]", f'dtype = "{dtype}"', f"shape = {shape}"]
    path = folder / "replay.toml"
    path.write_text("\n".join(lines) + "\n")
    return path


def bits(array: Any) -> bytes:
    return tensors.take("x", array).data.tobytes()


@needs_replay
def test_arrays_of_numpy_come_back_bit_for_bit(tmp_path: Path) -> None:
    need("ml_dtypes")
    import ml_dtypes

    nan = np.array([0x7FC00001, 0x80000000], np.uint32).view(np.float32)
    inputs = {
        "nan": nan,
        "strided": np.arange(24, dtype=np.float64).reshape(4, 6)[::2, 1:5].T,
        "repeated": np.broadcast_to(np.float32(3), (2, 5)),
        "scalar": np.float32(0.5),
        "empty": np.empty((0, 3), np.int64),
        "flags": np.array([True, False]),
        "narrow": np.array([1.5, -2], ml_dtypes.bfloat16),
        "narrower": np.array([0.5, 448], ml_dtypes.float8_e4m3fn),
    }
    names = {
        "nan": "f32", "strided": "f64", "repeated": "f32", "scalar": "f32", "empty": "i64",
        "flags": "bool", "narrow": "bf16", "narrower": "f8_e4m3",
    }  # fmt: skip
    dims = {name: (names[name], np.ndim(array)) for name, array in inputs.items()}
    harness = write_harness(tmp_path, dims)
    folder = tmp_path / "fixtures/step3"
    outputs = {"y": np.float32(7)}
    gradreplay.save_fixture(
        folder, inputs, harness=harness, outputs=outputs, step=3, metrics={"loss": 0.5}
    )
    loaded = gradreplay.load_fixture(folder)
    assert loaded.harness.resolve() == harness and set(loaded.inputs) == set(inputs)
    for name, array in inputs.items():
        there = loaded.inputs[name]
        assert there.dtype == array.dtype and there.shape == array.shape, name
        assert bits(there) == bits(array), name
    assert loaded.inputs["strided"].strides == inputs["strided"].strides
    assert loaded.inputs["repeated"].strides == (0, 0)
    assert loaded.outputs["y"] == np.float32(7)
    (inspected,) = gradreplay.inspect(folder).fixtures
    assert inspected.provenance == {"step": "3"}


@needs_replay
def test_tensors_of_torch_come_back_bit_for_bit(tmp_path: Path) -> None:
    need("torch")
    import torch

    storage = torch.arange(12, dtype=torch.bfloat16)
    inputs = {
        "view": storage.as_strided((2, 3), (1, 2), 3),
        "narrow": torch.tensor([0.5, 240]).to(torch.float8_e5m2),
        "foreign": torch.tensor([0.5, 1]).to(torch.float8_e4m3fnuz),
        "scalar": torch.tensor(3, dtype=torch.int16),
        "empty": torch.empty(2, 0),
    }
    names = {"view": "bf16", "narrow": "f8_e5m2", "foreign": "u8", "scalar": "i16", "empty": "f32"}
    dims = {name: (names[name], tensor.dim()) for name, tensor in inputs.items()}
    folder = gradreplay.save_fixture(
        tmp_path / "step0", inputs, harness=write_harness(tmp_path, dims)
    )
    loaded = gradreplay.load_fixture(folder, "torch").inputs
    for name, tensor in inputs.items():
        there = loaded[name]
        assert there.dtype == tensor.dtype and there.shape == tensor.shape, name
        both = [one.contiguous().reshape(-1).view(torch.uint8).tolist() for one in (there, tensor)]
        assert both[0] == both[1], name
    view = loaded["view"]
    assert view.stride() == (1, 2) and view.storage_offset() == 3


@needs_replay
def test_shards_are_joined_widened_tensors_narrowed_and_numbers_read(tmp_path: Path) -> None:
    need("ml_dtypes")
    write_harness(tmp_path, {"x": ("bf16", 2), "w": ("f32", 1), "n": ("i32", 0)})
    folder = tmp_path / "step0"
    folder.mkdir()
    text = 'harness = "../replay.toml"\nscalars = { n = -3 }\n'
    for order, rows in enumerate(([[1, 2], [3, 4]], [[5, 6]])):
        content = {"x": np.array(rows, np.float32), "w": np.ones(2, np.float32)}
        name = f"part{order}.safetensors"
        taken = {key: tensors.take(key, array) for key, array in content.items()}
        tensors.write(folder / name, taken, {"x.dtype": "bf16"})
        text += f'[[files]]\npath = "{name}"\naxis = "x_0"\norder = {order}\n'
    (folder / "fixture.toml").write_text(text)
    inputs = gradreplay.load_fixture(folder).inputs
    assert inputs["x"].dtype.name == "bfloat16" and inputs["w"].tolist() == [1, 1]
    assert inputs["x"].astype(int).tolist() == [[1, 2], [3, 4], [5, 6]]
    assert inputs["n"] == -3 and inputs["n"].dtype == np.int32


def test_a_number_and_a_fixture_that_is_there_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "step0"
    harness = write_harness(tmp_path, {"n": ("i32", 0)})
    with pytest.raises(CaptureError, match="`n` is a number of Python") as caught:
        gradreplay.save_fixture(folder, {"n": 3}, harness=harness)
    assert caught.value.hint == "pass one of the dtype in replay.toml, such as numpy.float32(0.5)"
    three = {"n": np.int32(3)}
    with pytest.raises(CaptureError, match="the metric `loss` is no number: 'low'"):
        gradreplay.save_fixture(folder, three, harness=harness, metrics={"loss": "low"})  # type: ignore[dict-item]
    with pytest.raises(CaptureError, match="there is no harness nope.toml"):
        gradreplay.save_fixture(folder, three, harness="nope.toml")
    with pytest.raises(CaptureError, match="has no name"):
        gradreplay.save_fixture("", three, harness=harness)
    assert not folder.exists()
    gradreplay.save_fixture(folder, three, harness=harness)
    with pytest.raises(CaptureError, match="step0 holds a fixture already"):
        gradreplay.save_fixture(folder, three, harness=harness)


@needs_replay
def test_a_fixture_that_the_program_refuses_leaves_its_name_free(tmp_path: Path) -> None:
    harness = write_harness(tmp_path, {"n": ("i32", 0)})
    folder = tmp_path / "step0"
    with pytest.raises(gradreplay.ReplayError, match="`n`"):
        gradreplay.save_fixture(folder, {"m": np.int32(3)}, harness=harness)
    metrics = {"loss": np.float64(1.5), "norm": float("inf")}
    step = np.int64(7)
    gradreplay.save_fixture(folder, {"n": np.int32(3)}, harness=harness, metrics=metrics, step=step)  # type: ignore[arg-type]
    assert gradreplay.load_fixture(folder).inputs["n"] == 3


@needs_replay
def test_files_of_others_in_the_folder_of_a_fixture_stay(tmp_path: Path) -> None:
    harness = write_harness(tmp_path, {"n": ("i32", 0)})
    folder = tmp_path / "step_1000"
    others = [folder / "model.safetensors", folder / "download.part", tmp_path / ".job.part/a"]
    for other in others:
        other.parent.mkdir(exist_ok=True)
        other.write_text("mine")
    gradreplay.save_fixture(folder, {"n": np.int32(3)}, harness=harness)
    assert [other.read_text() for other in others] == ["mine"] * 3


@needs_replay
@pytest.mark.skipif(sys.version_info < (3, 11), reason="this Python reads no TOML")
def test_numbers_of_the_manifest_are_exact(tmp_path: Path) -> None:
    numbers = {"i64": 2**53 + 1, "u64": 2**63 - 1, "f64": -0.0, "f32": float("-inf")}
    write_harness(tmp_path, {name: (name, 0) for name in numbers})
    lines = [f"{name} = {number!r}" for name, number in numbers.items()]
    folder = tmp_path / "step0"
    folder.mkdir()
    text = "\n".join(['harness = "../replay.toml"', "[scalars]", *lines])
    (folder / "fixture.toml").write_text(text)
    inputs = gradreplay.load_fixture(folder).inputs
    assert {name: repr(array.item()) for name, array in inputs.items()} == {
        name: repr(number) for name, number in numbers.items()
    }


@needs_replay
def test_jax_refuses_what_it_would_narrow_and_unknown_frameworks_are_none(tmp_path: Path) -> None:
    need("jax")
    harness = write_harness(tmp_path, {"n": ("i64", 0)})
    folder = gradreplay.save_fixture(tmp_path / "step0", {"n": np.int64(2**40)}, harness=harness)
    with pytest.raises(gradreplay.TensorError, match="JAX makes int32 of int64") as caught:
        gradreplay.load_fixture(folder, "jax")
    assert "jax_enable_x64" in (caught.value.hint or "")
    with pytest.raises(gradreplay.TensorError, match="there is no framework tensorflow"):
        gradreplay.load_fixture(folder, "tensorflow")  # type: ignore[arg-type]
    with pytest.raises(gradreplay.TensorError, match="is no fixture: it holds no fixture.toml"):
        gradreplay.load_fixture(tmp_path)
