"""A captured step of a model: what is written once, what is left out, and that the training is as ever."""

from __future__ import annotations

import functools
import logging
import os
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from written import header

from gradreplay import capture, tensors

torch: Any = pytest.importorskip("torch")
nn: Any = torch.nn

tomllib: Any = pytest.importorskip("tomllib")


class Scaled(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.width = width
        self.scale = nn.Parameter(torch.ones(width))

    def forward(self, x: Any) -> Any:
        return x * self.scale


class Pair(nn.Module):  # type: ignore[misc]
    """Calls one module twice, and one never."""

    def __init__(self) -> None:
        super().__init__()
        self.once = nn.Linear(4, 4)
        self.twice = Scaled(4)
        self.never = nn.Linear(4, 4)

    def forward(self, x: Any) -> Any:
        return self.twice(self.once(self.twice(x)))


def order(folder: str = "fixtures/step0") -> Any:
    capture.flush()
    return tomllib.loads(Path(folder, "step.toml").read_text())


def manifest(folder: str, step: str = "fixtures/step0") -> Any:
    return tomllib.loads(Path(step, folder, "fixture.toml").read_text())


def run(model: Any, *inputs: Any, **options: Any) -> Any:
    """One captured step; the gradients of the model's parameters."""
    torch.manual_seed(0)
    options.setdefault("when", capture.every(1))
    with capture.step("fixtures/step{step}", step=0, **options):
        result = model(*inputs)
        total = result if isinstance(result, torch.Tensor) else next(iter(leaves(result)))
        if total.requires_grad:
            total.square().sum().backward()
    return [None if one.grad is None else one.grad.clone() for one in model.parameters()]


def leaves(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from leaves(item)
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)


def folders(found: Any) -> list[str]:
    return [part["folder"] for part in found["parts"]]


def reasons(found: Any) -> dict[str, str]:
    return {one["module"]: one["reason"] for one in found.get("left_out", [])}


def test_a_model_of_more_modules_than_a_process_may_have_files_is_captured() -> None:
    model = nn.Sequential(*(Scaled(2) for _ in range(60)))
    capture.model(model)
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    highest = max(int(file.name) for file in Path("/proc/self/fd").iterdir())
    resource.setrlimit(resource.RLIMIT_NOFILE, (highest + 50, limits[1]))
    try:
        run(model, torch.ones(2), strict=True)
        capture.flush()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    assert len(order()["parts"]) == 61


def test_what_flows_from_one_module_to_the_next_is_written_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    capture.model(model)
    x = torch.randn(3, 4, requires_grad=True)
    run(model, x)
    found = order()
    assert folders(found) == ["model", "0", "1"]
    assert [part.get("inside") for part in found["parts"]] == [None, 0, 0]
    whole, first, second = (manifest(folder) for folder in folders(found))
    (whole_in,), (first_in,), (second_in,) = (one["files"] for one in (whole, first, second))
    # Inputs forward, gradients backward.
    assert whole_in["names"]["input"] == first_in["names"]["input"]
    assert first["captured"]["names"]["out"] == second_in["names"]["input"]
    assert second["captured"]["names"]["out"] == whole["captured"]["names"]["out"]
    assert second["captured"]["names"]["grad_input"] == first_in["names"]["grad_out"]
    assert whole_in["names"]["grad_out"] == second_in["names"]["grad_out"]
    assert whole["captured"]["names"]["grad_input"] == first["captured"]["names"]["grad_input"]
    entries, _ = header("fixtures/step0/tensors.safetensors")
    # x and its gradient, two results and their gradients, two weights and biases and their gradients.
    assert len(entries) == 2 + 4 + 8


def test_a_tensor_that_is_changed_in_place_is_written_again() -> None:
    class Changing(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b, self.c = nn.Identity(), nn.Identity(), nn.Identity()

        def forward(self, x: Any) -> Any:
            x = self.a(x)
            x.mul_(2)
            x = self.b(x)
            # PyTorch counts no version here.
            x.data.add_(1)
            return self.c(x)

    capture.model(Changing())
    model = Changing()
    capture.model(model, name="other")
    x = torch.arange(3.0)
    run(model, x)
    step = "fixtures/step0-other"
    names = {
        folder: manifest(folder, step)["files"][0]["names"]["input"]
        for folder in folders(order(step))[1:]
    }
    stored = tensors.read(f"{step}/tensors.safetensors")
    values = {folder: stored[name].array().tolist() for folder, name in names.items()}
    assert values == {"a": [0, 1, 2], "b": [0, 2, 4], "c": [1, 3, 5]}


@pytest.mark.parametrize("when", [capture.first(1), capture.nonfinite() | capture.spike("x", 2)])
def test_a_captured_step_has_the_gradients_of_another(when: Any) -> None:
    torch.manual_seed(1)
    model = Pair()
    x = torch.randn(3, 4, requires_grad=True)
    plain = run(model, x)
    capture.model(model)
    model.zero_grad()
    captured = run(model, x, when=when)
    for one, other in zip(plain, captured, strict=True):
        assert (one is None and other is None) or torch.equal(one, other)


def test_a_module_that_runs_twice_has_two_parts_and_one_that_never_runs_is_told(
    caplog: pytest.LogCaptureFixture,
) -> None:
    model = capture.model(Pair())
    with caplog.at_level(logging.WARNING, "gradreplay.capture"):
        run(model, torch.randn(3, 4))
        found = order()
    assert folders(found) == ["model", "twice", "once", "twice-call1"]
    assert reasons(found) == {"never": "it was not called in the step"}
    assert "not captured: 1 modules of `model`: never" in caplog.text


def test_modules_are_chosen_by_depth_by_patterns_and_as_leaves() -> None:
    def chosen(name: str, **options: Any) -> list[str]:
        model = nn.Sequential(nn.Sequential(nn.Linear(4, 4), nn.ReLU()), nn.Linear(4, 4))
        capture.model(model, name=name, **options)
        with capture.step("fixtures/{name}", step=0, when=capture.every(1)):
            model(torch.randn(2, 4)).sum().backward()
        return folders(order(f"fixtures/{name}"))

    assert chosen("all") == ["all", "0", "0.0", "0.1", "1"]
    assert chosen("top", depth=0) == ["top"]
    assert chosen("one", depth=1) == ["one", "0", "1"]
    assert chosen("leaves", leaves=True) == ["0.0", "0.1", "1"]
    assert chosen("matched", match=["0.*", "1"]) == ["0.0", "0.1", "1"]


def test_what_is_no_module_or_chooses_none_is_refused() -> None:
    with pytest.raises(capture.CaptureError, match=r"takes a torch.nn.Module, not a function"):
        capture.model(lambda x: x)
    with pytest.raises(capture.CaptureError, match="no module of Pair is chosen") as told:
        capture.model(Pair(), match="layers.*")
    assert told.value.hint == "its modules are once, twice, never"
    capture.model(Pair(), name="taken")
    with pytest.raises(capture.CaptureError, match="two captured functions are called `taken`"):
        capture.model(Pair(), name="taken")


def test_modules_beyond_the_bytes_of_a_step_are_left_out_and_named() -> None:
    model = capture.model(nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 400)), leaves=True)
    run(model, torch.randn(3, 4), max_bytes=1000)
    found = order()
    assert folders(found) == ["0"]
    assert reasons(found)["1"].startswith("its tensors have 8000 bytes, and ")


def test_a_step_without_a_byte_is_not_written(caplog: pytest.LogCaptureFixture) -> None:
    model = capture.model(nn.Linear(4, 4))
    with caplog.at_level(logging.WARNING, "gradreplay.capture"):
        run(model, torch.randn(3, 4), max_bytes=0)
        capture.flush()
    assert (
        "nothing of `model` is captured: model: its tensors have 128 bytes, and 0 of 0"
        in caplog.text
    )
    assert not Path("fixtures/step0").exists() and not list(Path("fixtures").glob(".*"))


def test_shared_weights_are_written_once() -> None:
    model = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False))
    model[1].weight = model[0].weight
    capture.model(model, leaves=True)
    run(model, torch.randn(3, 4))
    names = [manifest(folder)["files"][0]["names"]["weight"] for folder in folders(order())]
    assert names[0] == names[1]


def test_only_modules_that_draw_random_numbers_have_the_states_of_generators() -> None:
    model = capture.model(nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)), leaves=True)
    run(model, torch.randn(3, 4))
    assert folders(order()) == ["0", "1"]
    files = {folder: [one["path"] for one in manifest(folder)["files"]] for folder in ("0", "1")}
    assert files["0"] == ["../tensors.safetensors"]
    assert files["1"] == ["../tensors.safetensors", "random.safetensors"]
    assert "random.torch" in header("fixtures/step0/1/random.safetensors")[1]


class Structured(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any, mode: str, factor: float, options: Any = None) -> Any:
        assert mode == "double" and options is None
        return {"scaled": x * factor, "pair": (x + 1, None)}


class Silent(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> None:
        return None


def test_structures_are_captured_and_what_returns_no_array_is_told() -> None:
    class Whole(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.structured, self.silent = Structured(), Silent()

        def forward(self, x: Any) -> Any:
            self.silent(x)
            return self.structured(x, "double", factor=2.0)

    model = capture.model(Whole())
    run(model, torch.randn(3, requires_grad=True))
    found = order()
    assert "silent" not in folders(found)
    assert reasons(found)["silent"] == "the function returned a NoneType, which holds no array"
    names = manifest("structured")
    assert set(names["captured"]["names"]) == {"scaled", "pair_0", "grad_x"}
    assert set(names["files"][0]["names"]) >= {"x", "factor"}


def test_what_no_fixture_can_hold_is_left_out_and_the_training_goes_on() -> None:
    class Odd(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any, function: Any) -> Any:
            return function(x)

    class Whole(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.odd, self.last = Odd(), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            return self.last(self.odd(x, lambda y: y + 1))

    model = capture.model(Whole())
    run(model, torch.randn(3))
    found = order()
    assert "no module holds by a name" in reasons(found)["odd"]
    assert folders(found) == ["model", "last"]


def test_parts_without_gradients_have_none() -> None:
    class Whole(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.frozen, self.last, self.unused = (nn.Linear(3, 3) for _ in range(3))

        def forward(self, x: Any) -> Any:
            with torch.no_grad():
                x = self.frozen(x)
            self.unused(x)
            return self.last(x)

    model = capture.model(Whole())
    run(model, torch.randn(2, 3))
    parts = {part["folder"]: part for part in order()["parts"]}
    assert parts["frozen"]["gradients"] == [] and parts["frozen"]["reached"]
    # Its gradients could have come, and did not.
    assert parts["unused"]["gradients"] == [] and not parts["unused"]["reached"]
    assert parts["last"]["gradients"] == ["grad_weight", "grad_bias"]


@pytest.mark.parametrize("reentrant", [False, True])
def test_a_checkpoint_repeats_no_part(reentrant: bool) -> None:
    class Whole(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            checkpoint = torch.utils.checkpoint.checkpoint
            return self.last(checkpoint(self.first, x, use_reentrant=reentrant))

    import torch.utils.checkpoint

    torch.manual_seed(2)
    model = Whole()
    x = torch.randn(2, 3, requires_grad=True)
    plain = run(model, x)
    capture.model(model)
    model.zero_grad()
    captured = run(model, x)
    assert all(map(torch.equal, plain, captured))
    parts = {part["folder"]: part for part in order()["parts"]}
    assert list(parts) == ["model", "first", "last"]
    # A reentrant one runs the module without a graph first.
    wanted = [] if reentrant else ["grad_input", "grad_weight", "grad_bias"]
    assert parts["first"]["gradients"] == wanted


def test_modules_of_torchscript_are_left_out() -> None:
    model = nn.Sequential(torch.jit.script(nn.Linear(3, 3)), nn.Linear(3, 3))
    capture.model(model)
    run(model, torch.randn(2, 3))
    found = order()
    assert reasons(found)["0"] == "it is compiled by TorchScript, which runs it as a whole"
    assert folders(found) == ["model", "1"]


def test_a_folder_that_is_there_stays(caplog: pytest.LogCaptureFixture) -> None:
    model = capture.model(nn.Linear(3, 3))
    run(model, torch.randn(2, 3))
    before = order()
    with caplog.at_level(logging.WARNING, "gradreplay.capture"):
        run(model, torch.randn(5, 3))
        capture.flush()
    assert "fixtures/step0 holds something already, which stays as it is" in caplog.text
    assert order() == before


def test_a_step_in_memory_is_written_when_its_condition_holds() -> None:
    model = capture.model(nn.Linear(3, 3))
    x = torch.randn(2, 3)
    run(model, x, when=capture.nonfinite())
    capture.flush()
    assert not Path("fixtures/step0").exists()
    x[0, 0] = np.nan
    run(model, x, when=capture.nonfinite())
    assert folders(order()) == ["model"]


def test_a_step_left_by_an_exception_is_written() -> None:
    model = capture.model(nn.Linear(3, 3))
    with (
        pytest.raises(ZeroDivisionError),
        capture.step("fixtures/step{step}", step=0, when=capture.crash()),
    ):
        model(torch.randn(2, 3))
        raise ZeroDivisionError
    parts = order()["parts"]
    assert [part["reached"] for part in parts] == [False]


def test_a_compiled_model_runs_uncompiled_in_a_captured_step() -> None:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(3, 3), nn.Tanh())
    compiled = torch.compile(model, backend="eager")
    capture.model(compiled)
    x = torch.randn(2, 3)
    plain = compiled(x)
    with capture.step("fixtures/step{step}", step=0):
        captured = compiled(x)
        captured.sum().backward()
    assert torch.equal(plain, captured)
    assert folders(order()) == ["model", "0", "1"]


def test_one_graph_of_the_whole_is_told(caplog: pytest.LogCaptureFixture) -> None:
    torch._dynamo.reset()
    model = nn.Sequential(nn.Linear(3, 3))
    compiled = torch.compile(model, backend="eager", fullgraph=True)
    capture.model(compiled)
    with (
        caplog.at_level(logging.WARNING, "gradreplay.capture"),
        capture.step("fixtures/step{step}", step=0),
    ):
        compiled(torch.randn(2, 3))
    capture.flush()
    assert "torch.compile makes one graph of what calls `model`" in caplog.text
    assert not Path("fixtures/step0").exists()


def test_a_module_under_autocast_is_replayed_so() -> None:
    model = capture.model(nn.Linear(3, 3))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        run(model, torch.randn(2, 3))
    order()
    script = Path("fixtures/harness-model/replay_step.py").read_text()
    assert '    with torch.autocast("cpu", dtype=torch.bfloat16):\n        result = call(' in script


def test_nothing_is_asked_of_a_module_while_no_step_is_captured(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = capture.model(nn.Linear(3, 3))
    inner = functools.partial(pytest.fail, "a module was looked at")
    monkeypatch.setattr("gradreplay.capture.model_.ModelStep", inner)
    with capture.step("fixtures/step{step}", step=1, when=capture.every(2)):
        pass
    with capture.step("fixtures/step{step}", step=2, when=capture.every(2)):
        model(torch.randn(2, 3))


class Adding(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any, y: Any) -> Any:
        bent = x * 2 + 1
        x += y * bent
        return x


class Tripling(nn.Module):  # type: ignore[misc]
    def forward(self, x: Any) -> Any:
        return x.mul_(3)


class Changed(nn.Module):  # type: ignore[misc]
    """Changes views, what is no view, a part of a tensor and what is read before and afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(5, 6), nn.Linear(6, 5)
        self.tripling, self.adding = Tripling(), Adding()

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        before = torch.sigmoid(x)
        x = self.adding(x, before)
        self.tripling(x[..., ::2])
        x.mul_(3)
        return self.last(x * before)


@pytest.mark.parametrize("shape", [(3, 5), (2, 3, 5)], ids=["no view", "a view"])
def test_gradients_around_what_is_changed_in_place_are_those_of_another_computation(
    shape: tuple[int, ...],
) -> None:
    torch.manual_seed(5)
    model = Changed()
    x = torch.randn(*shape)
    plain = run(model, x)
    capture.model(model)
    model.zero_grad()
    captured = run(model, x, strict=True)
    assert all(map(torch.equal, plain, captured))
    found = order()
    assert folders(found) == ["model", "first", "adding", "tripling", "last"]
    assert all(part["reached"] for part in found["parts"])
    stored = tensors.read("fixtures/step0/tensors.safetensors")

    # The same computation without a change in place, of leaves.
    first = (x @ model.first.weight.T + model.first.bias).detach().requires_grad_()
    gate = torch.sigmoid(first)
    gate.retain_grad()
    into = first.clone()
    into.retain_grad()
    added = into + gate * (into * 2 + 1)
    added.retain_grad()
    part = added[..., ::2].clone()
    part.retain_grad()
    tripled = part * 3
    tripled.retain_grad()
    whole = torch.stack([tripled, added[..., 1::2]], -1).flatten(-2) * 3
    model.last(whole * gate).square().sum().backward()
    wanted = {
        ("first", "grad_out"): first.grad,
        ("adding", "grad_x"): into.grad,
        ("adding", "grad_out"): added.grad,
        ("tripling", "grad_x"): part.grad,
        ("tripling", "grad_out"): tripled.grad,
    }
    for (folder, name), gradient in wanted.items():
        told = manifest(folder)
        known = told["files"][0]["names"] | told["captured"]["names"]
        value = torch.from_numpy(stored[known[name]].array().copy())
        torch.testing.assert_close(value, gradient, msg=f"{name} of {folder}")


def test_a_view_that_is_changed_after_its_module_has_no_gradients_and_is_told() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.Identity(), nn.ReLU(inplace=True))
    capture.model(model)
    run(model, torch.randn(2, 3, 4))
    found = order()
    parts = {part["folder"]: part for part in found["parts"]}
    assert parts["1"]["gradients"] == []
    assert reasons(found)["1"] == (
        "its gradients are left out: `out` is a view of an input, and was changed in place after the call"
    )
    assert parts["0"]["gradients"] == ["grad_weight", "grad_bias"] and parts["0"]["reached"]


@pytest.mark.timeout(300)
def test_modules_that_change_their_inputs_in_place_are_replayed(
    replay: str, tmp_path: Path
) -> None:
    training = """
import torch
from torch import nn
from gradreplay import capture

torch.manual_seed(0)
model = capture.model(
    nn.Sequential(nn.Linear(4, 4), nn.ReLU(inplace=True), nn.Linear(4, 4), nn.SiLU(inplace=True))
)
with capture.step("fixtures/step0", step=0, when=capture.every(1), strict=True):
    model(torch.randn(2, 3, 4)).square().sum().backward()
"""
    package = str(Path(capture.__file__).parents[2])
    variables = os.environ | {"PYTHONPATH": package, "REPLAY_CACHE_DIR": str(tmp_path / "cache")}
    Path("train.py").write_text(training)
    subprocess.run((sys.executable, "train.py"), env=variables, check=True, timeout=100)
    words = (replay, "step", "fixtures/step0", "--format", "json", "--gradients", "quick")
    words += ("--module", "0", "--module", "1", "--module", "2", "--module", "3")
    told = subprocess.run(words, env=variables, capture_output=True, timeout=200)
    assert told.returncode == 0, told.stdout.decode() + told.stderr.decode()


@pytest.mark.parametrize("when", [capture.every(1), capture.crash() | capture.spike("x", 2)])
@pytest.mark.parametrize("budget", range(500, 6000, 250))
def test_what_is_written_of_a_step_keeps_its_budget_and_belongs_to_a_part(
    when: Any, budget: int
) -> None:
    class Wide(nn.Module):  # type: ignore[misc]
        def forward(self, x: Any) -> Any:
            return x.repeat(1, 9)

    model = nn.Sequential(nn.Linear(4, 4), Wide(), nn.Linear(36, 4), nn.Tanh())
    capture.model(model, leaves=True)
    with (
        pytest.raises(ZeroDivisionError),
        capture.step("fixtures/step0", step=0, max_bytes=budget, when=when),
    ):
        model(torch.randn(3, 4)).square().sum().backward()
        raise ZeroDivisionError
    found = order()
    stored = tensors.read("fixtures/step0/tensors.safetensors")
    assert sum(one.data.nbytes for one in stored.values()) <= budget
    names: set[str] = set()
    for folder in folders(found):
        told = manifest(folder)
        files = [*told["files"], told["captured"]]
        names |= {name for file in files for name in file.get("names", {}).values()}
    assert names == set(stored)
    # What has no part, or one without its gradients, is named.
    whole = {part["module"] for part in found["parts"] if part["gradients"]}
    assert set(reasons(found)) == {"0", "1", "2", "3"} - whole
