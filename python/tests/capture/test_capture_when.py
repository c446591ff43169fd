"""Which steps are captured."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from written import array, inspect, names

from gradreplay import capture
from gradreplay.capture.when import When


def double(x: np.ndarray) -> np.ndarray:
    return x + x


def train(steps: int, when: When, values: dict[int, float] | None = None, **limits: object) -> None:
    """Steps whose metric is 1 but for `values`; the input holds the number of the step."""
    doubled = capture.function(double)
    for step in range(steps):
        with capture.step("fixtures/step{step}", step=step, when=when, strict=True, **limits):  # type: ignore[arg-type]
            doubled(np.full(3, step, np.float32))
            capture.metric("grad_norm", (values or {}).get(step, 1.0))


def test_the_first_steps_are_captured_and_no_others() -> None:
    train(5, capture.first(2))
    assert names() == ["step0", "step1"]


def test_every_third_step_is_captured() -> None:
    train(7, capture.every(3))
    assert names() == ["step0", "step3", "step6"]


def test_conditions_are_combined() -> None:
    train(20, capture.first(1) | capture.spike("grad_norm", 5.0), {15: 6.0})
    assert names() == ["step0", "step15"]


def test_a_spike_is_more_than_the_factor_times_the_median() -> None:
    train(20, capture.spike("grad_norm", 5.0), {3: 100.0, 12: 4.9, 14: 5.1, 16: float("nan")})
    assert names() == ["step14", "step16"], "in step 3 the usual value is not known yet"


def test_a_nan_in_an_output_is_captured() -> None:
    inverse = capture.function(lambda x: 1 / x, name="inverse", import_as="losses:inverse")
    for step, value in enumerate([1.0, 2.0, 0.0, 4.0]):
        with capture.step("fixtures/step{step}", step=step, when=capture.nonfinite(), strict=True):
            with np.errstate(divide="ignore"):
                inverse(np.full(2, value, np.float32))
    assert names() == ["step2"]
    assert np.isinf(array("fixtures/step2/expected.safetensors", "out")).all()


def test_a_ring_keeps_the_steps_before_the_one_that_fires() -> None:
    train(20, capture.spike("grad_norm", 5.0), {15: 50.0}, ring=3)
    assert names() == ["step13", "step14", "step15"]
    assert array("fixtures/step13/inputs.safetensors", "x").tolist() == [13, 13, 13]


def test_a_step_that_an_exception_leaves_is_captured_with_its_inputs() -> None:
    def fail(x: np.ndarray) -> np.ndarray:
        raise ZeroDivisionError("the kernel crashed")

    failing = capture.function(fail, import_as="losses:fail")
    conditions = {"late": capture.nonfinite(), "crash": capture.crash(), "first": capture.first(1)}
    for path, when in conditions.items():
        with pytest.raises(ZeroDivisionError):
            with capture.step(f"{path}/step{{step}}", step=4, when=when, strict=True):
                failing(np.arange(3))
        assert names(path) == ["step4"]
        assert not Path(path, "step4", "expected.safetensors").exists()


def test_guarded_steps_are_gone_when_they_have_ended_well() -> None:
    doubled = capture.function(double)
    with capture.step("fixtures/step{step}", step=0, when=capture.crash(), strict=True):
        doubled(np.arange(3))
        assert Path("fixtures/step0/fixture.toml").exists(), "before the step ends"
    assert names() == []
    assert not Path("fixtures/step0").exists()


def test_what_others_put_into_a_guarded_step_s_folder_stays() -> None:
    Path("fixtures/notes").mkdir(parents=True)
    Path("fixtures/notes/file").write_text("mine")
    doubled = capture.function(double)
    with capture.step("fixtures", step=0, when=capture.crash(), strict=True):
        doubled(np.arange(3))
    capture.flush()
    assert [path.name for path in Path("fixtures").iterdir()] == ["notes"]
    assert Path("fixtures/notes/file").read_text() == "mine"


def test_inputs_are_on_the_disk_before_the_function_runs() -> None:
    seen = []

    def look(x: np.ndarray) -> np.ndarray:
        seen.append(array("fixtures/step0/inputs.safetensors", "x").tolist())
        assert Path("fixtures/step0/fixture.toml").exists()
        assert Path("fixtures/harness-look/replay.toml").exists()
        return x

    looking = capture.function(look, import_as="losses:look")
    with capture.step("fixtures/step{step}", step=0, strict=True):
        looking(np.arange(3))
    assert seen == [[0, 1, 2]]


def test_a_number_of_steps_is_a_limit() -> None:
    train(6, capture.every(1), max_steps=2)
    assert names() == ["step0", "step1"]


def test_bytes_and_calls_are_limits_of_a_step() -> None:
    doubled = capture.function(double)
    with capture.step("a/step{step}", step=0, max_calls=2, strict=True):
        for _ in range(4):
            doubled(np.zeros(3))
    assert names("a") == ["step0", "step0-call1"]
    with capture.step("b/step{step}", step=0, max_bytes=100):
        doubled(np.zeros(3))
        doubled(np.zeros(1000))
    assert names("b") == ["step0"]


def test_other_ranks_are_not_captured_unless_all_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "1")
    train(2, capture.first(1))
    assert names() == []
    doubled = capture.function(double, name="other")
    with capture.step("all/step{step}", step=0, rank="all", strict=True):
        doubled(np.zeros(3))
    assert names("all") == ["step0-other-rank1"]


RANK = """
import sys
import numpy as np
from gradreplay import capture

def gradient(logits, scale):
    return logits * scale

rank = int(sys.argv[1])
logits = np.arange(24.0, dtype=np.float32).reshape(8, 3)
captured = capture.function(
    gradient, shapes={"logits": "tokens vocab"}, axis="tokens", import_as="losses:gradient"
)
with capture.step("fixtures/step{step}", step=4, rank="all", strict=True):
    for number in range(2):
        begin = 4 * rank + 2 * number
        captured(logits[begin : begin + 2], 0.5)
    if rank == 1:
        capture.whole("gradient", logits=logits)
"""


def test_processes_make_one_fixture_of_their_parts(replay: str) -> None:
    variables = os.environ | {"WORLD_SIZE": "2"}
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", RANK, str(rank)],
            env=variables | {"RANK": str(rank)},
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in (1, 0)
    ]
    for process in processes:
        _, told = process.communicate(timeout=120)
        assert (process.returncode, told) == (0, "")
    assert [path.name for path in Path("fixtures").iterdir() if "step" in path.name] == ["step4"]
    told = inspect(replay, "fixtures/step4")
    assert told.returncode == 0, told.stderr
    assert "put together from 4 parts along tokens, equal to the whole bit for bit" in told.stdout
    parts = [f"part{rank}-call{call}.safetensors" for rank in (0, 1) for call in (0, 1)]
    for order, name in enumerate(parts):
        assert f"{name}  " in told.stdout
        assert array(f"fixtures/step4/{name}", "logits")[0, 0] == 6.0 * order


def test_parts_of_different_runs_are_never_joined() -> None:
    for rank in (0, 1):
        variables = {"WORLD_SIZE": "2", "RANK": str(rank), "MASTER_PORT": f"290{rank}"}
        command = [sys.executable, "-c", RANK, str(rank)]
        done = subprocess.run(
            command, env=os.environ | variables, capture_output=True, text=True, timeout=120
        )
        assert ("they are of different runs" in done.stderr) == (rank == 1), done.stderr
    assert not Path("fixtures/step4").exists()


def test_a_condition_on_no_step_is_refused() -> None:
    for make in (capture.first, capture.every):
        with pytest.raises(ValueError, match="a number of steps is at least 1"):
            make(0)


def test_metrics_stand_in_the_fixtures_of_their_step() -> None:
    wrapped = capture.function(np.copy, name="f", parameters=["x"])
    for when in (capture.every(1), capture.nonfinite(), capture.crash()):
        path = f"fixtures/{type(when).__name__}" + "{step}"
        for step in range(2):
            try:
                with capture.step(path, step=step, when=when, strict=True):
                    wrapped(np.zeros(2))
                    capture.metric("grad norm", math.inf if step else 0.1)
                    capture.metric("max_norm", np.float32(1))
                    if step:
                        raise KeyError
            except KeyError:
                pass
    assert names() == ["Crash1", "Every0", "Every1", "Nonfinite1"]
    for name in names():
        norm = "inf" if name.endswith("1") else "0.1"
        text = Path("fixtures", name, "fixture.toml").read_text()
        assert f'\n\n[metrics]\n"grad norm" = {norm}\n"max_norm" = 1.0\n\n' in text, name


def test_a_step_that_tells_nothing_has_no_metrics() -> None:
    wrapped = capture.function(np.copy, name="f", parameters=["x"])
    with capture.step("fixtures/step{step}", step=0):
        wrapped(np.zeros(2))
    capture.flush()
    assert "[metrics]" not in Path("fixtures/step0/fixture.toml").read_text()


def test_series_tells_of_clipping_that_metrics_show(replay: str) -> None:
    wrapped = capture.function(np.copy, name="f", parameters=["x"])
    for step in range(8):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            wrapped(np.zeros(2))
            capture.metric("grad_norm", 4.0)
            capture.metric("max_norm", 1.0)
    capture.flush()
    command = [replay, "series", *(f"fixtures/step{step}" for step in range(8))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "clipped" in done.stdout, done.stdout
