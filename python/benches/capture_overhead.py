"""What capturing costs: while it is off, and in a captured step against writing its bytes.

    python3 python/benches/capture_overhead.py

Each figure is the median of rounds that take turns, so that a busy machine disturbs all alike.
"""

from __future__ import annotations

import copy
import importlib.util
import itertools
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
# Captured steps that follow each other.
ROW = 8
# No two steps of models have one number.
STEPS = itertools.count(1)


def seconds(act: Callable[[], object]) -> float:
    """How long one call takes."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def take_turns(
    *acts: Callable[[], object], rounds: int = ROUNDS, clear: Callable[[], object] = lambda: None
) -> list[float]:
    """The median time of each, measured one after the other in every round, and cleared up after."""
    times: list[list[float]] = [[] for _ in acts]
    for _ in range(rounds):
        for act, measured in zip(acts, times, strict=True):
            measured.append(seconds(act))
            clear()
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
    """A captured call until all of it is on the disk, against the call and writing its bytes.

    Then several in a row: the outputs of one are synchronised while the next one runs."""
    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    x, function, call, files = CALLS[framework](megabytes)
    wrapped = capture.function(
        function, name=f"{framework}_{megabytes}", import_as="losses:f", parameters=["x"]
    )
    taken = tensors.take("x", x)
    steps = iter(range(10**6))

    def write(count: int) -> None:
        for _ in range(count):
            call(function)
            home = folder / f"plain{next(steps)}"
            home.mkdir()
            for name, tensors_in_it in files.items():
                content = {f"x{number}": taken for number in range(tensors_in_it)}
                disk.put(home, {f"{name}.safetensors": tensors.pieces(content, {})})

    def step(count: int) -> None:
        for _ in range(count):
            path = str(folder / "step{step}")
            with capture.step(path, step=next(steps), when=capture.every(1), strict=True):
                call(wrapped)
        capture.flush()

    def clear() -> None:
        for made in [*folder.glob("plain*"), *folder.glob("step*")]:
            shutil.rmtree(made)

    step(1)
    rounds = 31 if megabytes == 1 else 9
    written, whole = take_turns(lambda: write(1), lambda: step(1), rounds=rounds, clear=clear)
    size = megabytes * sum(files.values())
    text = f"on: {framework}, {size} MB in {whole * 1e3:.1f} ms, {whole / written:.2f} times writing them"
    if size <= 64:
        in_row = take_turns(lambda: write(ROW), lambda: step(ROW), rounds=7, clear=clear)
        text += f"; {ROW} steps in a row {in_row[1] / in_row[0]:.2f} times"
    print(text)
    shutil.rmtree(folder)


# An array, a function, how it is called, and how many arrays like it each file of a fixture holds.
Case = tuple[Any, Callable[..., Any], Callable[[Callable[..., Any]], object], dict[str, int]]


def model(width: int) -> None:
    """A captured step of 12 layers of a transformer, less an uncaptured one, against an uncaptured step that
    writes the same tensors with the library of safetensors. Then a step that is not wanted.

    The two take turns alone: memory that another file has just given back is filled in half the time."""
    import torch
    from safetensors.torch import load_file, save_file
    from torch import nn

    folder = Path(tempfile.mkdtemp(dir=os.environ.get("TMPDIR")))
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(width, width // 64, 4 * width, dropout=0.0, batch_first=True)
    plain = nn.TransformerEncoder(layer, 12, enable_nested_tensor=False)
    watched = capture.model(copy.deepcopy(plain), name=f"width_{width}")
    x = torch.randn(4, 128, width)

    def step(of: nn.Module) -> None:
        of.zero_grad()
        of(x).square().mean().backward()

    def captured(number: int) -> None:
        path = str(folder / "step{step}")
        with capture.step(path, step=number, when=capture.every(1), strict=True):
            step(watched)
        capture.flush()

    def between() -> None:
        # The first step is one of every billion.
        with capture.step("none/step{step}", step=next(STEPS), when=capture.every(10**9)):
            step(watched)

    def write() -> None:
        step(plain)
        save_file(content, folder / "plain")
        with open(folder / "plain") as file:
            os.fsync(file.fileno())

    def clear() -> None:
        shutil.rmtree(folder)
        folder.mkdir()

    captured(next(STEPS))
    with capture.step("none/step{step}", step=0, when=capture.every(10**9)):
        pass
    content = load_file(next(folder.rglob("tensors.safetensors")))
    size = sum(tensor.nbytes for tensor in content.values()) / 1e6
    whole, written = take_turns(lambda: captured(next(STEPS)), write, rounds=9, clear=clear)
    uncaptured, off = take_turns(lambda: step(plain), between, rounds=9)
    ratio = (whole - uncaptured) / (written - uncaptured)
    print(
        f"model: width {width}, a step of {uncaptured * 1e3:.0f} ms, "
        f"{len(content)} tensors of {size:.0f} MB: {(whole - uncaptured) * 1e3:.0f} ms more, "
        f"{ratio:.2f} times writing them; "
        f"not wanted {100 * (off / uncaptured - 1):+.1f} %"
    )
    shutil.rmtree(folder)


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
    frameworks = tuple(CALLS) if importlib.util.find_spec("torch") else ("numpy",)
    for framework in frameworks:
        for megabytes in (1, 16, 128):
            captured(framework, megabytes)
    if "torch" in frameworks:
        for width in (256, 768):
            model(width)
