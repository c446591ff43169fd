"""Tensors in files, taken from arrays and placed in memory."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from gradreplay import tensors
from gradreplay.tensors import DTYPES, Layout, Tensor, TensorError

FLOATS = ["F8_E4M3", "F8_E5M2", "F16", "BF16", "F32", "F64"]


def sample(name: str, shape: tuple[int, ...]) -> Tensor:
    """A tensor of any dtype whose elements differ where the dtype allows it."""
    dtype = DTYPES[name]
    count = int(np.prod(shape))
    values = (np.arange(count) % 2) if name == "BOOL" else (np.arange(count) % 13)
    array = values.astype(dtype.numpy()).reshape(shape)
    return Tensor(dtype, shape, array.reshape(-1).view(np.uint8))


def strided(name: str, shape: tuple[int, ...], layout: Layout) -> Tensor:
    packed = sample(name, shape)
    return Tensor(packed.dtype, shape, packed.data, layout)


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0,), (4, 0, 2)])
def test_every_dtype_and_shape_survives_a_file(
    tmp_path: Path, name: str, shape: tuple[int, ...]
) -> None:
    tensor = sample(name, shape)
    tensors.write(tmp_path / "a", {"x": tensor})
    read = tensors.read(tmp_path / "a")["x"]
    assert (read.dtype, read.shape, read.layout) == (tensor.dtype, shape, None)
    assert read.data.tobytes() == tensor.data.tobytes()


def test_safetensors_itself_reads_what_is_written(tmp_path: Path) -> None:
    written = {"b": sample("U8", (3,)), "a": sample("F64", (2, 2)), "c": sample("I16", ())}
    tensors.write(tmp_path / "a", written)
    for name, array in load_file(tmp_path / "a").items():
        np.testing.assert_array_equal(array, written[name].array())


def test_what_safetensors_writes_is_read(tmp_path: Path) -> None:
    arrays = {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "n": np.array([True, False])}
    save_file(arrays, tmp_path / "a")
    for name, tensor in tensors.read(tmp_path / "a").items():
        np.testing.assert_array_equal(tensor.array(), arrays[name])


def test_wide_elements_come_first_so_that_all_are_aligned(tmp_path: Path) -> None:
    tensors.write(tmp_path / "a", {"a": sample("U8", (3,)), "z": sample("F64", (2,))})
    content = (tmp_path / "a").read_bytes()
    length = int.from_bytes(content[:8], "little")
    header = json.loads(content[8 : 8 + length])
    assert length % 8 == 0
    assert header["z"]["data_offsets"] == [0, 16]


@pytest.mark.parametrize("content", [b"", b"1234567", b"\xff" * 64, b"\x02" + b"\0" * 7 + b"[]"])
def test_a_damaged_file_is_an_error_that_names_it(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(TensorError, match="cannot read .*bad"):
        tensors.read(tmp_path / "bad")


def test_half_a_file_is_an_error(tmp_path: Path) -> None:
    tensors.write(tmp_path / "a", {"x": sample("F32", (100,))})
    (tmp_path / "a").write_bytes((tmp_path / "a").read_bytes()[:300])
    with pytest.raises(TensorError):
        tensors.read(tmp_path / "a")


def test_a_missing_file_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="nowhere"):
        tensors.read(tmp_path / "nowhere")


def test_an_unwritable_folder_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    with pytest.raises(TensorError, match="cannot write .*missing/a: No such file"):
        tensors.write(tmp_path / "missing" / "a", {"x": sample("F32", (1,))})


def test_nothing_but_the_file_is_left_beside_it(tmp_path: Path) -> None:
    tensors.write(tmp_path / "a", {"x": sample("F32", (4,))}, {"note": "text"})
    assert [path.name for path in tmp_path.iterdir()] == ["a"]


@pytest.mark.parametrize(
    "layout",
    [
        Layout((1, 2), 6),
        Layout((8, 1), 40),
        Layout((0, 1), 3),
        Layout((3, 1), 6, offset=5),
    ],
)
def test_layouts_survive_a_file(tmp_path: Path, layout: Layout) -> None:
    tensor = strided("F32", (2, 3), layout)
    tensors.write(tmp_path / "a", {"x": tensor})
    assert tensors.read(tmp_path / "a")["x"].layout == layout


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"x.strides": "[1]"}, r"strides \[1\] for shape \[2, 3\]"),
        ({"x.strides": "[-3, 1]"}, "not all at least 0"),
        (
            {"x.strides": "[9, 1]", "x.storage": "11"},
            "storage of 11 elements, of which 12 are reached",
        ),
        ({"x.strides": "[a, 1]"}, "invalid literal"),
    ],
)
def test_a_layout_that_cannot_be_is_an_error(
    tmp_path: Path, metadata: dict[str, str], message: str
) -> None:
    tensors.write(tmp_path / "a", {"x": sample("F32", (2, 3))}, metadata)
    with pytest.raises(TensorError, match=message):
        tensors.read(tmp_path / "a")


def test_strides_as_torch_prints_them_are_read(tmp_path: Path) -> None:
    tensors.write(tmp_path / "a", {"x": sample("F32", (2, 3))}, {"x.strides": "(1, 2)"})
    assert tensors.read(tmp_path / "a")["x"].layout == Layout((1, 2), 6)


# Taking


def test_a_transposed_array_is_taken_with_its_strides() -> None:
    array = np.arange(6, dtype=np.float32).reshape(2, 3).T
    taken = tensors.take("x", array)
    assert taken.layout == Layout((1, 3), 6)
    np.testing.assert_array_equal(taken.array(), array)


def test_a_packed_array_has_no_layout_whatever_its_strides_of_single_elements() -> None:
    array = np.zeros((4, 3), np.float32)[:1]
    assert tensors.take("x", array).layout is None


def test_a_negative_stride_is_packed() -> None:
    taken = tensors.take("x", np.arange(3, dtype=np.int32)[::-1])
    assert taken.layout is None
    assert taken.array().tolist() == [2, 1, 0]


def test_big_endian_elements_are_turned() -> None:
    assert tensors.take("x", np.array([1, 2], ">i4")).data.tolist() == [1, 0, 0, 0, 2, 0, 0, 0]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (1.5, "`x` is a float, not an array"),
        (True, "`x` is a bool, not an array"),
        ([1.0], "`x` is a list, not an array"),
        (Path("a"), r"`x` is a pathlib[._a-z]*\.PosixPath, not an array"),
        (np.zeros(2, np.complex64), "`x` is complex64, which is not supported"),
        (np.array(["a"]), "`x` is str32, which is not supported"),
    ],
)
def test_what_is_no_tensor_is_named(value: Any, message: str) -> None:
    with pytest.raises(TensorError, match=message):
        tensors.take("x", value)


def test_a_number_of_numpy_is_a_scalar() -> None:
    assert tensors.take("x", np.float32(2)).shape == ()


# Placing


@pytest.mark.parametrize("name", DTYPES)
@pytest.mark.parametrize("surroundings", ["none", "zero", "nan"])
def test_placed_elements_are_the_tensors(name: str, surroundings: Any) -> None:
    tensor = strided(name, (2, 3), Layout((1, 4), 12, offset=2))
    placed = tensors.place("x", tensor, "numpy", surroundings=surroundings)
    assert placed.strides == (tensor.dtype.itemsize, 4 * tensor.dtype.itemsize)
    assert placed.tobytes() == tensor.data.tobytes()


@pytest.mark.parametrize("shape", [(), (0,), (3, 0)])
@pytest.mark.parametrize("surroundings", ["none", "zero", "nan"])
def test_scalars_and_empty_tensors_are_placed(shape: tuple[int, ...], surroundings: Any) -> None:
    assert (
        tensors.place("x", sample("F32", shape), "numpy", surroundings=surroundings).shape == shape
    )


@pytest.mark.parametrize("name", FLOATS)
def test_poison_is_nan_before_between_and_behind(name: str) -> None:
    tensor = strided(name, (2, 3), Layout((4, 1), 8))
    arena, first = tensors._arena("x", tensor, "nan")
    elements = arena.view(tensor.dtype.numpy()).astype(np.float64)
    inside = [first + 4 * row + column for row in range(2) for column in range(3)]
    assert not np.isnan(elements[inside]).any()
    assert np.isnan(np.delete(elements, inside)).all()
    assert first > 0 and len(elements) > first + 8


def test_poison_of_integers_is_the_greatest_value() -> None:
    for name in ["U8", "I8", "U16", "I16", "U32", "I32", "U64", "I64"]:
        arena, _ = tensors._arena("x", sample(name, (1,)), "nan")
        assert arena.view(DTYPES[name].numpy())[0] == np.iinfo(DTYPES[name].numpy()).max


def test_zero_surroundings_lie_where_poison_would() -> None:
    tensor = sample("F32", (5,))
    zero, first = tensors._arena("x", tensor, "zero")
    nan, same = tensors._arena("x", tensor, "nan")
    assert (zero.shape, first) == (nan.shape, same)
    assert not zero[:first].any() and not zero[first + 5 :].any()


def test_placed_tensors_are_aligned_as_allocators_align() -> None:
    for surroundings in ("none", "zero", "nan"):
        placed = tensors.place("x", sample("U8", (7,)), "numpy", surroundings=surroundings)
        assert placed.ctypes.data % 64 == 0


def test_a_stride_of_zero_is_kept() -> None:
    row = np.array([1, 2, 3], np.float32)
    tensor = Tensor(DTYPES["F32"], (2, 3), np.tile(row, 2).view(np.uint8), Layout((0, 1), 3))
    placed = tensors.place("x", tensor, "numpy", surroundings="nan")
    assert placed.strides == (0, 4)
    np.testing.assert_array_equal(placed, [row, row])


def test_elements_that_share_a_place_and_differ_are_an_error() -> None:
    with pytest.raises(
        TensorError, match=r"elements of `x` share a place and differ: strides \[0, 1\]"
    ):
        tensors.place("x", strided("F32", (2, 3), Layout((0, 1), 3)), "numpy")


def test_a_placed_tensor_may_be_written_and_the_file_stays(tmp_path: Path) -> None:
    tensors.write(tmp_path / "a", {"x": sample("F32", (3,))})
    before = (tmp_path / "a").read_bytes()
    tensors.place("x", tensors.read(tmp_path / "a")["x"], "numpy")[...] = 7
    assert (tmp_path / "a").read_bytes() == before
