"""NumPy: layouts and writes."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from written import array, header

from gradreplay import capture

BASE = np.arange(24, dtype=np.float32).reshape(4, 6)


@pytest.mark.parametrize(
    ("view", "strides"),
    [
        (BASE, None),
        (BASE.T, "[1, 6]"),
        (BASE[:, 1:4], "[6, 1]"),
        (BASE[::2, ::3], "[12, 3]"),
        (np.broadcast_to(np.float32(3), (2, 3)), "[0, 0]"),
        (BASE[::-1], None),
    ],
)
def test_strides_come_back(view: np.ndarray[Any, Any], strides: str | None) -> None:
    wrapped = capture.function(np.copy, name="f", parameters=["x"])
    with capture.step("fixtures/step{step}", step=0, strict=True):
        wrapped(view)
    capture.flush()
    _, metadata = header("fixtures/step0/inputs.safetensors")
    assert metadata.get("x.strides") == strides
    assert np.array_equal(array("fixtures/step0/inputs.safetensors", "x"), view)


def test_an_array_that_the_function_writes_to_is_an_input_and_an_output() -> None:
    def add(x: np.ndarray[Any, Any]) -> None:
        x += 1

    wrapped = capture.function(add, name="f", import_as="losses:add")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        wrapped(np.zeros(2))
    capture.flush()
    assert array("fixtures/step0/inputs.safetensors", "x").tolist() == [0, 0]
    assert array("fixtures/step0/expected.safetensors", "x_after").tolist() == [1, 1]


def test_bfloat16_of_ml_dtypes_is_captured() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes")
    wrapped = capture.function(np.copy, name="f", parameters=["x"])
    with capture.step("fixtures/step{step}", step=0, strict=True):
        wrapped(np.ones(2, ml_dtypes.bfloat16))
    capture.flush()
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert entries["x"]["dtype"] == "BF16"


def test_annotations_may_name_what_is_not_there() -> None:
    # Python evaluates them when the function is defined, or, from 3.14 on, when they are asked for.
    lazy = "" if sys.version_info >= (3, 14) else "from __future__ import annotations\n"
    names: dict[str, Any] = {}
    exec(f"{lazy}def same(x: Missing, *, scale: Missing = 1.0) -> Missing: return x", names)
    wrapped = capture.function(names["same"], import_as="losses:same")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        wrapped(np.zeros(2))
    capture.flush()
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert list(entries) == ["x"]
