"""Drafted harnesses replay what was captured, bit for bit, by the function that was captured."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from written import header, names

from gradreplay import capture, installed, tensors

LOSSES = {
    "torch": """
import random
import numpy as np
import torch
def loss(logits, targets, scale=1.0):
    lse = torch.logsumexp(logits.float(), -1)
    picked = logits.float().gather(-1, targets[..., None])[..., 0]
    return ((lse - picked) * scale).mean()
class Turned(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, w):
        ctx.save_for_backward(x, w)
        return (x * w).t()
    @staticmethod
    def backward(ctx, gradient):
        x, w = ctx.saved_tensors
        return gradient.t() * w, (gradient.t() * x).sum(0)
class Layer(torch.nn.Module):
    def __init__(self, width, bias=True):
        super().__init__()
        self.width = width
        self.inner = torch.nn.Linear(width, width, bias)
    def forward(self, x, *, scale):
        # Dropout, and other random numbers of the three generators.
        noise = torch.randn(self.width) + np.random.randn() + random.gauss(0, 1)
        return torch.nn.functional.dropout(self.inner(x) * scale, 0.5, self.training) + noise
""",
    "jax": """
import jax, jax.numpy as jnp
def loss(logits, targets, scale=1.0):
    lse = jax.nn.logsumexp(logits.astype(jnp.float32), -1)
    picked = jnp.take_along_axis(logits.astype(jnp.float32), targets[..., None], -1)[..., 0]
    return ((lse - picked) * scale).sum(), lse
""",
    "numpy": """
import numpy as np
def softmax(x, axis):
    e = np.exp(x - x.max(axis, keepdims=True))
    return {"p": e / e.sum(axis, keepdims=True), "top": x.argmax(axis)}
""",
}

TRAININGS = {
    "torch": """
import torch, losses
from gradreplay import capture
torch.manual_seed(1)
loss = capture.function(losses.loss, name="loss")
turned = capture.function(losses.Turned, name="turned")
layer = capture.function(losses.Layer(5), name="layer")
w = torch.randn(5, requires_grad=True)
with capture.step("fixtures/step{step}", step=0, strict=True):
    x = layer(torch.randn(6, 5), scale=1.5)
    y = turned.apply(x, w)
    l = loss(x.to(torch.bfloat16).reshape(2, 3, 5).transpose(0, 1), torch.randint(0, 5, (3, 2)), 0.5)
    (l + y.sum()).backward()
""",
    "jax": """
import jax, jax.numpy as jnp, losses
from gradreplay import capture
loss = capture.jax_function(losses.loss, name="loss")
plain = capture.jax_function(losses.loss, name="plain")
x = jax.random.normal(jax.random.key(0), (4, 7)).astype(jnp.bfloat16)
t = jnp.arange(4)
with capture.step("fixtures/step{step}", step=0, strict=True):
    jax.jit(jax.grad(lambda x: loss(x, t, 0.5)[0]))(x)
    jax.jit(plain)(x, t)
""",
    "numpy": """
import numpy as np, losses
from gradreplay import capture
softmax = capture.function(losses.softmax, name="softmax")
with capture.step("fixtures/step{step}", step=0, strict=True):
    softmax(np.random.default_rng(0).standard_normal((3, 4)).T, -1)
""",
}

FIXTURES = {
    "torch": ["step0-layer", "step0-loss", "step0-turned"],
    "jax": ["step0-loss", "step0-plain"],
    "numpy": ["step0"],
}


def python(*arguments: str, **variables: str) -> None:
    """Runs Python in the current folder; it must end well."""
    done = subprocess.run(
        [sys.executable, *arguments],
        env=os.environ | {"JAX_PLATFORMS": "cpu"} | variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr


def replay(fixture: Path, tree: Path) -> dict[str, tensors.Tensor]:
    """The outputs of the drafted script, for the inputs of a fixture."""
    inputs: dict[str, tensors.Tensor] = {}
    for file in fixture.glob("*.safetensors"):
        if file.name != "expected.safetensors":
            inputs |= tensors.read(file)
    states = tensors.read_metadata(fixture / "inputs.safetensors")
    states = {key: state for key, state in states.items() if key.startswith("random.")}
    tensors.write(fixture / "all.in", inputs, states)
    name = fixture.name.partition("-")[2]
    script = fixture.parent / f"harness-{name or 'softmax'}" / "replay_step.py"
    python(
        str(script.resolve()),
        REPLAY_PROTOCOL="1",
        REPLAY_INPUTS=str((fixture / "all.in").resolve()),
        REPLAY_OUTPUTS=str((fixture / "all.out").resolve()),
        REPLAY_ANSWER=str((fixture / "answer.json").resolve()),
        REPLAY_TREE=str(tree.resolve()),
        REPLAY_PRECISION="native",
        REPLAY_ROUNDING="nearest",
        REPLAY_SURROUNDINGS="nan",
        REPLAY_DEVICE="cpu",
        REPLAY_THREADS="1",
        TMPDIR=str(fixture.resolve()),
    )
    return tensors.read(fixture / "all.out")


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_a_drafted_harness_gives_the_captured_bits(framework: str) -> None:
    pytest.importorskip(framework)
    Path("losses.py").write_text(LOSSES[framework])
    Path("train.py").write_text(TRAININGS[framework])
    python("train.py")
    assert names() == FIXTURES[framework]
    for name in FIXTURES[framework]:
        got = replay(Path("fixtures", name), Path("."))
        expected = tensors.read(f"fixtures/{name}/expected.safetensors")
        assert set(got) == set(expected), name
        for output, tensor in expected.items():
            assert got[output].data.tobytes() == tensor.data.tobytes(), f"{output} of {name}"


def test_a_harness_is_drafted_once_and_then_stays_the_user_s() -> None:
    Path("losses.py").write_text(LOSSES["numpy"])
    Path("train.py").write_text(TRAININGS["numpy"])
    python("train.py")
    script = Path("fixtures/harness-softmax/replay_step.py")
    script.write_text(script.read_text() + "# mine\n")
    Path("fixtures/step0").rename("fixtures/old")
    python("train.py")
    assert script.read_text().endswith("# mine\n")
    assert not Path("fixtures/harness-softmax-2").exists()


def test_a_harness_that_is_deleted_while_training_goes_on_is_drafted_again() -> None:
    copy = capture.function(np.copy, name="f", parameters=["x"])
    for step in range(3):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            copy(np.zeros(2))
        capture.flush()
        assert Path("fixtures/harness-f/replay_step.py").exists()
        shutil.rmtree("fixtures/harness-f")


def test_a_call_that_a_harness_does_not_fit_gets_one_of_its_own() -> None:
    copy = capture.function(np.copy, name="f", parameters=["x"])
    for step, value in enumerate(
        [np.zeros(2), np.zeros((2, 2)), np.zeros(5), np.zeros(2, np.int32)]
    ):
        with capture.step("fixtures/step{step}", step=step, when=capture.every(1), strict=True):
            copy(value)
    capture.flush()
    harnesses = [
        Path(f"fixtures/step{step}/fixture.toml").read_text().partition("\n")[0]
        for step in range(4)
    ]
    assert harnesses == [
        'harness = "../harness-f/replay.toml"',
        'harness = "../harness-f-2/replay.toml"',
        'harness = "../harness-f/replay.toml"',
        'harness = "../harness-f-3/replay.toml"',
    ]


def test_provenance_names_step_seed_commit_command_and_versions() -> None:
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    Path("losses.py").write_text(LOSSES["numpy"])
    training = TRAININGS["numpy"].replace("step=0", "step=0, seed=11")
    Path("train.py").write_text(f"import dotted\n{training}")
    Path("dotted.py").touch()
    Path("dotted.package-1.5.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: dotted.package\nVersion: 1.5\n"
    Path("dotted.package-1.5.dist-info/METADATA").write_text(metadata)
    Path("dotted.package-1.5.dist-info/top_level.txt").write_text("dotted\n")
    subprocess.run([*git, "init", "-q", "."], check=True)
    subprocess.run([*git, "add", "."], check=True)
    subprocess.run([*git, "commit", "-qm", "first"], check=True)
    commit = subprocess.run(
        [*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True
    ).stdout.strip()
    python("train.py", MKL_CBWR="AVX2", TRITON_SECRET="x")
    text = Path("fixtures/step0/fixture.toml").read_text()
    assert f'step = 0\nseed = 11\ncommit = "{commit}"\ndirty = false\n' in text
    assert "train.py" in text and 'framework = "numpy"' in text and '(cpu)"' in text
    version = platform.python_version()
    assert f'versions = {{ python = "{version}", numpy = "{np.__version__}", ' in text
    # Packages that the training imports come with it, and no others.
    assert '"dotted.package" = "1.5"' in text and "pytest" not in text, text
    # Of the other package nobody has recorded what is in it.
    hashes = next(line for line in text.splitlines() if line.startswith("hashes = { "))
    assert f'numpy = "{installed.contents("numpy")}"' in hashes and "dotted" not in hashes, hashes
    settings = next(line for line in text.splitlines() if line.startswith("settings = { "))
    assert 'MKL_CBWR = "AVX2"' in settings and "SECRET" not in settings, settings
    capture_env = subprocess.run(
        [os.environ["REPLAY"], "env", "fixtures/step0"], capture_output=True, text=True
    )
    assert "dotted.package 1.5, not installed here" in capture_env.stdout, capture_env
    harness = Path("fixtures/harness-softmax/replay.toml").read_text()
    assert 'repository = "../.."' in harness
    Path("losses.py").write_text(LOSSES["numpy"] + "# changed\n")
    Path("fixtures/step0").rename("fixtures/old")
    python("train.py")
    text = Path("fixtures/step0/fixture.toml").read_text()
    assert f'commit = "{commit}"\ndirty = true\n' in text
    assert not Path("fixtures/old/uncommitted.diff").exists()
    diff = Path("fixtures/step0/uncommitted.diff").read_text()
    assert diff.startswith("diff --git a/losses.py b/losses.py\n") and diff.endswith("+# changed\n")
    entries, _ = header("fixtures/step0/inputs.safetensors")
    assert set(entries) == {"x", "axis"}


def repository(**files: str) -> None:
    """Commits files of the current folder; `__` in a name stands for a folder."""
    for name, text in files.items():
        path = Path(name.replace("__", "/") + ".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for command in (["init", "-q", "."], ["add", "."], ["commit", "-qm", "first"]):
        subprocess.run([*git, *command], check=True)


def test_a_drafted_harness_names_what_was_loaded_of_the_repository_and_its_interpreter() -> None:
    repository(
        src__model____init__="",
        src__model__losses="import helpers, shared.tables\n" + LOSSES["numpy"],
        src__unused="",
        lib__shared__tables="",
        helpers="",
        docs__conf="",
        train="import sys; sys.path[1:1] = ['src', 'lib']\n"
        + TRAININGS["numpy"].replace("np, losses", "np, untracked, model.losses as losses"),
    )
    Path("untracked.py").write_text("")
    python("train.py")
    harness = Path("fixtures/harness-softmax/replay.toml").read_text()
    assert '\ntree = ["helpers.py", "lib/shared", "src/model"]\n' in harness
    # The tests run in a virtual environment.
    assert f'\nprogram = ["{sys.executable}", "replay_step.py"]\n' in harness


def test_a_function_of_the_training_s_own_script_has_the_script_in_its_tree() -> None:
    repository(other="", train=LOSSES["numpy"] + TRAININGS["numpy"].replace("losses.", "").replace(
        "np, losses", "np"
    ))  # fmt: skip
    python("train.py")
    assert '\ntree = ["train.py"]\n' in Path("fixtures/harness-softmax/replay.toml").read_text()


def test_a_long_diff_is_cut_and_says_so() -> None:
    repository(losses=LOSSES["numpy"], train=TRAININGS["numpy"])
    Path("losses.py").write_text(LOSSES["numpy"] + "# a line of a change\n" * 5000)
    python("train.py")
    lines = Path("fixtures/step0/uncommitted.diff").read_text().splitlines()
    assert lines[-2] == "+# a line of a change"
    left = 2**16 - len("\n".join(lines[:-1])) - 1
    assert 0 <= left < len(lines[-2]) + 1
    assert re.fullmatch(r"# Cut here: \d{5} bytes more\.", lines[-1])
