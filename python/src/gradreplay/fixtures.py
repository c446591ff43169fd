"""Arrays to a fixture and back, bit for bit.

A fixture is written as capturing writes it. It is read as the program reads it, which says where its tensors
lie and what they are.
"""

from __future__ import annotations

import importlib
import operator
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import numpy as np

from . import api, tensors
from .capture import host
from .capture.errors import CaptureError
from .capture.fixture import EXPECTED, INPUTS, MANIFEST, STEP, Folder
from .capture.provenance import Fact
from .documents import FilePart, InspectedInput, InspectedTensor
from .errors import ProgramError, ReplayError
from .tensors import DTYPES, DType, Framework, Tensor, TensorError


@dataclass(frozen=True, eq=False)
class Fixture:
    """The arrays of a fixture."""

    folder: Path
    harness: Path
    description: str | None
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    """Those that were captured; not all need be there."""


def save_fixture(
    folder: str | os.PathLike[str],
    inputs: Mapping[str, Any],
    *,
    harness: str | os.PathLike[str],
    outputs: Mapping[str, Any] | None = None,
    description: str = "",
    step: int | None = None,
    metrics: Mapping[str, float] | None = None,
) -> Path:
    """Writes arrays of NumPy, PyTorch or JAX as a fixture of `harness`, a `replay.toml`.

    Strides and the place in the storage are kept. `outputs` are shown beside those of a replay, `step` and
    `metrics` are for series of steps. Raises :class:`CaptureError` if a value is no array, there is no such
    harness, or there is a fixture already, :class:`ReplayError` if the program refuses the fixture: then it
    is deleted again; :class:`OSError` if it cannot be written."""
    if not os.fspath(folder):
        raise CaptureError("the folder of a fixture has no name")
    if not Path(harness).is_file():
        raise CaptureError(f"there is no harness {harness}", "it is a file such as replay.toml")
    facts: Mapping[str, Fact] = {} if step is None else {"step": operator.index(step)}
    numbers = {name: _number(name, value) for name, value in (metrics or {}).items()}
    target = Folder(Path(folder), description, facts, metrics=numbers)
    target.begin()
    target.add(INPUTS, *_taken(inputs))
    if outputs:
        target.attach(EXPECTED, tensors.pieces(*_taken(outputs)))
    target.publish(Path(harness))
    try:
        api.inspect(target.path)
    except ProgramError:
        # A machine that only captures may be without the program.
        pass
    except ReplayError:
        target.discard()
        raise
    return target.path


def _number(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError) as error:
        raise CaptureError(f"the metric `{name}` is no number: {value!r}") from error


def _taken(arrays: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, str]]:
    taken = {}
    for name, value in arrays.items():
        if isinstance(value, (bool, int, float)) and not isinstance(value, np.generic):
            raise CaptureError(
                f"`{name}` is a number of Python, which has no dtype",
                "pass one of the dtype in replay.toml, such as numpy.float32(0.5)",
            )
        taken[name] = host.take(name, value)
    metadata: dict[str, str] = {}
    for name, one in taken.items():
        metadata |= one.metadata(name)
    return {name: one.tensor for name, one in taken.items()}, metadata


def load_fixture(
    folder: str | os.PathLike[str], framework: Framework = "numpy", device: str = "cpu"
) -> Fixture:
    """Reads a fixture into arrays of a framework, each in memory of its own.

    Shards are joined, and what was widened for its file is narrowed again. Raises :class:`ReplayError` if
    the program does not accept the fixture, :class:`TensorError` if the framework lacks a dtype."""
    if framework not in get_args(Framework):
        raise TensorError(f"there is no framework {framework}", f"one of {get_args(Framework)}")
    home = Path(folder)
    if not (home / MANIFEST).is_file():
        raise TensorError(f"{home} is no fixture: it holds no {MANIFEST}")
    if (home.parent / STEP).is_file():
        raise TensorError(
            f"{home} is a part of a step, whose tensors are in a file in common",
            f"replay step {home.parent} --extract {home.name} makes a fixture of it",
        )
    (inspected,) = api.inspect(folder).fixtures
    scalars = _read_scalars(home / MANIFEST)
    files = [_File(Path(file.path), file.part) for file in inspected.files]
    inputs = {
        one.name: _place(one.name, _find(one, files, scalars), framework, device)
        for one in inspected.inputs
        if one.summary is not None
    }
    expected = [_File(home / EXPECTED)] if inspected.captured else []
    outputs = {
        one.name: _place(one.name, _find(one, expected, scalars), framework, device)
        for one in inspected.captured
    }
    return Fixture(home, Path(inspected.harness), inspected.description, inputs, outputs)


class _File:
    """A file of a fixture, or a part of one that is split."""

    def __init__(self, path: Path, part: FilePart | None = None) -> None:
        self.part = part
        self.tensors = tensors.read(path)
        self.metadata = tensors.read_metadata(path)


@dataclass(frozen=True)
class _Found:
    """A tensor, and the dtype that its bytes stand for where replay has none like it."""

    tensor: Tensor
    view: str | None = None


def _find(
    one: InspectedInput | InspectedTensor, files: list[_File], scalars: Mapping[str, float]
) -> _Found:
    """The tensor of an input or an output: joined, narrowed, or from `[scalars]`."""
    dtype = DTYPES[one.dtype.upper()]
    holders = [file for file in files if one.name in file.tensors]
    if not holders:
        return _Found(_scalar(one, dtype, scalars))
    whole = [file for file in holders if file.part is None]
    view = holders[0].metadata.get(f"{one.name}.view")
    tensor = whole[0].tensors[one.name] if whole else _join(one, holders)
    if tensor.dtype is not dtype:
        data = np.ascontiguousarray(tensor.array()).astype(dtype.numpy()).reshape(-1)
        tensor = replace(tensor, dtype=dtype, data=data.view(np.uint8))
    return _Found(tensor, view)


def _read_scalars(manifest: Path) -> Mapping[str, float]:
    """The numbers in `fixture.toml` itself, where this Python reads TOML: since 3.11."""
    try:
        toml: Any = importlib.import_module("tomllib")
    except ModuleNotFoundError:
        return {}
    numbers: Mapping[str, float] = toml.loads(manifest.read_text("utf-8")).get("scalars", {})
    return numbers


def _scalar(
    one: InspectedInput | InspectedTensor, dtype: DType, scalars: Mapping[str, float]
) -> Tensor:
    """A number of `fixture.toml`; where that is not read, that of its least element, if a float holds it."""
    value = scalars.get(one.name)
    if value is None:
        summary = one.summary if isinstance(one, InspectedInput) else one
        value = summary.min if summary is not None else None
        if value is None or abs(value) >= 2**53 or value == 0 and "F" in dtype.name:
            message = f"the number `{one.name}` in fixture.toml cannot be read here"
            raise TensorError(message, "Python 3.11 reads it")
    number = np.array(value, None if isinstance(value, float) else dtype.numpy())
    return Tensor(dtype, (), number.astype(dtype.numpy()).reshape(1).view(np.uint8))


def _join(one: InspectedInput | InspectedTensor, holders: list[_File]) -> Tensor:
    """The parts of a tensor in their order, or the first where all have the same."""
    names = [dim.name for dim in one.dims]
    parts = sorted(
        (file.part.order, file.part.axis, number)
        for number, file in enumerate(holders)
        if file.part
    )
    found = [holders[number].tensors[one.name] for _, _, number in parts]
    axis = parts[0][1]
    if axis not in names:
        return found[0]
    elements = [part.data.view(part.dtype.bits).reshape(part.shape) for part in found]
    joined = np.concatenate(elements, names.index(axis))
    return Tensor(found[0].dtype, joined.shape, joined.reshape(-1).view(np.uint8))


def _place(name: str, found: _Found, framework: Framework, device: str) -> Any:
    array = tensors.place(name, found.tensor, framework, device)
    if found.view is None:
        return array
    module = importlib.import_module("torch" if framework == "torch" else "ml_dtypes")
    return array.view(getattr(module, found.view))
