"""A twin in float64 of NumPy programs that name float32."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from replay import Outcome, Project, Server

Replays = Callable[..., Outcome]


@pytest.fixture
def replay(project: Project, servers: list[Server]) -> Replays:
    """Replays a function of the revision on float64 inputs, as a twin or in another way."""
    project.write_program("def step(x):\n    from code_ import step\n    return {'y': step(x)}")
    servers.append(Server(project, "numpy"))

    def made(body: str, *, precision: str = "float64", **modes: str) -> Outcome:
        head = "import numpy as np\nfrom numpy import float32 as f32\n"
        tree = project.tree(code_=f"{head}def step(x):\n    return {body}\n")
        inputs = project.inputs(x=np.arange(1, 9) / 3.0)
        return servers[0].run(inputs, tree, precision=precision, **{"casts": "wide", **modes})

    return made


X = np.arange(1, 9) / 3.0


@pytest.mark.parametrize(
    ("body", "wanted"),
    [
        ("x.astype(np.float32) * 2", X * 2),
        ("x.astype(f32) + np.zeros(8, dtype=np.single)", X),
        ("x * np.float32(0.1)", X * 0.1),
        ("np.sum(x, dtype=np.float32) * x", np.sum(X) * X),
        ("np.asarray(x, np.float32) if x.dtype == np.float32 else x * 0", X),
        ("np.full(8, np.finfo(np.float32).eps, x.dtype)", np.full(8, 2.0**-23)),
        ("x + np.random.default_rng(3).random(8) * 0", X),
        ("x + np.frombuffer(b'12345678' * 8)[:8] * 0", X),
    ],
)
def test_float32_means_float64_in_a_twin(replay: Replays, body: str, wanted: Any) -> None:
    made = replay(body).array("y")
    assert made.dtype == np.float64 and np.allclose(made, wanted, rtol=1e-15, atol=0)


def test_casts_stay_where_the_harness_or_the_precision_says_so(replay: Replays) -> None:
    cast = "x.astype(np.float32).astype(float)"
    for kept in (replay(cast, casts="kept"), replay(cast, precision="native")):
        assert np.array_equal(kept.array("y"), X.astype(np.float32).astype(float))
    # The process goes on with NumPy's own names.
    assert np.array_equal(replay(cast).array("y"), X)


@pytest.mark.parametrize(
    "draw",
    [
        "random(8, dtype=np.float32)",
        "standard_normal(8, np.float32)",
        "standard_exponential(8, np.float32)",
        "standard_gamma(2.0, 8, np.float32)",
        "random(dtype=np.float32, out=np.empty(8, np.float32))",
        "random(8)",
        "normal(size=8)",
        "permutation(8) * 1.0",
    ],
)
def test_random_numbers_are_those_of_the_native_replay(replay: Replays, draw: str) -> None:
    body = f"np.random.default_rng(7).{draw} + x * 0"
    native = eval(f"np.random.default_rng(7).{draw}")  # noqa: S307
    assert np.array_equal(replay(body).array("y"), native.astype(np.float64))


@pytest.mark.parametrize("read", ["frombuffer(bytes(32), np.float32)", "fromfile('x', dtype='f4')"])
def test_bytes_that_are_taken_for_floats_end_the_widened_twin(replay: Replays, read: str) -> None:
    failed = replay(f"np.{read}")
    assert failed.code != 0 and "takes bytes for floats of one width" in failed.stderr


@pytest.mark.parametrize("body", ["np.rint(x)", "np.round(x)", "np.around(x, decimals=0)"])
def test_rounding_to_integers_passes_numbers_where_that_is_asked_for(
    replay: Replays, body: str
) -> None:
    assert np.array_equal(replay(body).array("y"), np.rint(X))
    passed = replay(body, rounding="passed")
    assert np.array_equal(passed.array("y"), X)
    assert passed.answer is not None and passed.answer["rounding"] == "applied"
    assert np.array_equal(replay("np.floor(x)", rounding="passed").array("y"), np.floor(X))


def test_rounded_numbers_of_a_record_move_with_their_argument_or_stay(
    replay: Replays, tmp_path: Path
) -> None:
    body = "np.rint(x) * 2 + np.round(x / 3, decimals=0)"
    record = tmp_path / "roundings"
    assert np.array_equal(
        replay(body, rounding="recorded", record=str(record)).array("y"), replay(body).array("y")
    )
    held, straight = (
        replay(f"(lambda x: {body})(x + 0.25)", rounding=rounding, record=str(record))
        for rounding in ("held", "straight")
    )
    rounded = 2 * np.rint(X) + np.rint(X / 3)
    assert np.array_equal(held.array("y"), rounded)
    assert np.allclose(straight.array("y"), rounded + 2 * 0.25 + 0.25 / 3, rtol=0, atol=1e-14)
    assert straight.answer is not None and "other_roundings" not in straight.answer


def test_a_record_may_hold_results_beside_their_integers(replay: Replays, tmp_path: Path) -> None:
    record = tmp_path / "roundings"
    inside = replay("np.rint(x)", rounding="recorded_inside", record=str(record)).array("y")
    rounded = np.rint(X)
    assert np.array_equal(inside, np.where(rounded == 0, 1 / 1024, rounded * (1 - 1 / 1024)))
    assert np.array_equal(
        replay("np.rint(x)", rounding="held", record=str(record)).array("y"), inside
    )


@pytest.mark.parametrize("body", ["np.rint(x) + np.rint(x)", "np.rint(x[:1])", "x"])
def test_other_roundings_than_those_of_the_record_are_told(
    replay: Replays, tmp_path: Path, body: str
) -> None:
    record = tmp_path / "roundings"
    replay("np.rint(x)", rounding="recorded", record=str(record))
    other = replay(body, rounding="straight", record=str(record))
    assert other.answer == {"rounding": "applied", "other_roundings": True}
