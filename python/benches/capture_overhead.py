"""What capturing costs: while it is off, and in a captured step against writing its bytes.

    python3 python/benches/capture_overhead.py

Each figure is the median of rounds that take turns, so that a busy machine disturbs all alike.
"""

from __future__ import annotations

import importlib.util
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gradreplay import capture, tensors
from gradreplay.capture import disk

ROUNDS = 15


def seconds(act: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def take_turns(*acts: Callable[[], object], rounds: int = ROUNDS) -> list[float]:
    """The median time of each, measured one after the other in every round."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(rounds):
        for act, measured in zip(acts, times, strict=True):
            measured.append(seconds(act))
    return [statistics.median(measured) for measured in times]


def off() -> None:
    """A training of small steps with captured functions, none of which is captured, and without."""
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((256, 512)), rng.standard_normal((512, 512))

    def layer(x: np.ndarray, w: np.ndarray) -> np.ndarray:
        return np.tanh(x @ w)

    wrapped = capture.function(layer)
    calls = 200

    def plain() -> None:
        for _ in range(calls):
            layer(x, w)

    def watched() -> None:
        for step in range(calls):
            with capture.step("none/step{step}", step=step, when=capture.every(10**9)):
                wrapped(x, w)

    # The first step is one of every billion.
    with capture.step("none/step{step}", step=0, when=capture.every(10**9)):
        pass
    without, with_it = take_turns(plain, watched)

    def nothing() -> None:
        for step in range(calls):
            with capture.step("none/step{step}", step=step, when=capture.every(10**9)):
                pass

    def bare(x: np.ndarray, w: np.ndarray) -> None:
        return None

    touched = capture.function(bare)

    def called() -> None:
        for _ in range(calls):
            touched(x, w)

    def uncalled() -> None:
        for _ in range(calls):
            bare(x, w)

    entered, through, around = (
        value / calls * 1e6 for value in take_turns(nothing, called, uncalled)
    )
    step_us = without / calls * 1e6
    cost = entered + through - around
    print(
        f"off: a step of {step_us:.0f} us; {entered:.2f} us for its context, {through - around:.2f} a call:"
    )
    print(
        f"     {100 * cost / step_us:.2f} % of it (whole loops: {100 * (with_it / without - 1):+.1f} %)"
    )


def captured(framework: str, megabytes: int) -> None:
    """A captured call against the call and writing its bytes."""
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    x, function, call, files = CALLS[framework](megabytes)
    wrapped = capture.function(
        function, name=f"{framework}_{megabytes}", import_as="losses:f", parameters=["x"]
    )
    taken = tensors.take("x", x)
    steps = iter(range(10**6))

    def write() -> None:
        call(function)
        home = folder / f"plain{next(steps)}"
        home.mkdir()
        for name, count in files.items():
            content = {f"x{number}": taken for number in range(count)}
            disk.put(home, {f"{name}.safetensors": tensors.pieces(content, {})})
        shutil.rmtree(home)

    def step() -> None:
        number = next(steps)
        with capture.step(
            str(folder / "step{step}"), step=number, when=capture.every(1), strict=True
        ):
            call(wrapped)
        capture.flush()
        for fixture in folder.glob(f"step{number}*"):
            shutil.rmtree(fixture)

    step()
    written, whole = take_turns(write, step, rounds=31 if megabytes == 1 else 9)
    shutil.rmtree(folder)
    ratio = whole / written
    size = megabytes * sum(files.values())
    print(f"on: {framework}, {size} MB in {whole * 1e3:.0f} ms, {ratio:.2f} times writing them")


# An array, a function, how it is called, and how many arrays like it each file of a fixture holds.
Case = tuple[Any, Callable[..., Any], Callable[[Callable[..., Any]], object], dict[str, int]]


def with_numpy(megabytes: int) -> Case:
    """A function that returns what it is given."""
    x = np.random.default_rng(0).standard_normal(megabytes << 17)
    return x, lambda x: x, lambda function: function(x), {"inputs": 1, "expected": 1}


def with_torch(megabytes: int) -> Case:
    """A function with a gradient."""
    import torch

    x = torch.randn(megabytes << 18, requires_grad=True)
    upstream = torch.randn(megabytes << 18)

    def call(function: Callable[..., Any]) -> None:
        torch.autograd.grad(function(x), x, upstream)

    return x, lambda x: x * 2, call, {"inputs": 1, "grad_out": 1, "expected": 2}


CALLS: dict[str, Callable[[int], Case]] = {"numpy": with_numpy, "torch": with_torch}


if __name__ == "__main__":
    off()
    for framework in CALLS if importlib.util.find_spec("torch") else ("numpy",):
        for megabytes in (1, 16, 128):
            captured(framework, megabytes)
