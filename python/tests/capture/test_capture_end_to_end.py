"""From a training to a culprit: steps are captured, replayed with their own bits, and searched with.

Each project is a repository of its own with a training that captures. What was captured is replayed at the
working tree; then commits follow, one of which is wrong, and `replay bisect` must find it.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from written import names

PACKAGE = Path(__file__).parents[2] / "src"


@dataclass(frozen=True)
class Project:
    """A training, and what later commits change in its kernel."""

    kernel: str
    training: str
    fixtures: tuple[str, ...]
    searched: str
    # Texts and what takes their places.
    harmless: tuple[str, str]
    defect: tuple[str, str]
    # What `replay bisect` says of the culprit.
    symptom: str


TORCH = Project(
    kernel="""
import torch

class CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets):
        top = logits.max(-1, keepdim=True).values
        shifted = logits - top
        lse = shifted.exp().sum(-1, keepdim=True).log()
        ctx.save_for_backward(shifted - lse, targets)
        return (lse - shifted.gather(-1, targets[..., None]))[..., 0]

    @staticmethod
    def backward(ctx, flowing):
        logp, targets = ctx.saved_tensors
        gradient = logp.exp()
        ones = torch.ones_like(flowing)[..., None]
        gradient.scatter_add_(-1, targets[..., None], -ones)
        return gradient * flowing[..., None], None

def loss(logits, targets):
    return CrossEntropy.apply(logits, targets)

def place(x):
    return x.sum(), torch.tensor(x.storage_offset())
""",
    training="""
import torch
from gradreplay import capture
from model import kernel

torch.manual_seed(3)
torch.set_num_threads(1)
loss = capture.function(kernel.loss, shapes={"logits": "batch seq vocab", "targets": "batch seq"})
place = capture.function(kernel.place)
head = torch.nn.Linear(8, 11)
embedding = torch.nn.Embedding(11, 8)
optimiser = torch.optim.SGD([*embedding.parameters(), *head.parameters()], 0.1)
for step in range(3):
    when = capture.every(1) if step == 1 else capture.crash()
    with capture.step("fixtures/step{step}", step=step, when=when, strict=True):
        tokens = torch.randint(0, 11, (3, 6))
        mask = torch.rand(5, 3).t()
        losses = loss(head(embedding(tokens[:, :-1])), tokens[:, 1:])
        place(losses.detach()[1:])
        (losses * mask).sum().backward()
        optimiser.step()
        optimiser.zero_grad()
""",
    fixtures=("step1-loss", "step1-place"),
    searched="step1-loss",
    harmless=("logits.max(-1, keepdim=True).values", "logits.amax(-1, keepdim=True)"),
    defect=("return gradient * flowing[..., None]", "return gradient * flowing.mean()"),
    symptom="grad_logits diverged: wrong",
)

JAX = Project(
    kernel="""
import jax
import jax.numpy as jnp

@jax.custom_vjp
def cross_entropy(logits, targets):
    return forward(logits, targets)[0]

def forward(logits, targets):
    top = jnp.max(logits, -1, keepdims=True)
    lse = jnp.log(jnp.sum(jnp.exp(logits - top), -1, keepdims=True)) + top
    picked = jnp.take_along_axis(logits, targets[:, None], -1)
    return (lse - picked)[:, 0], (logits, lse, targets)

def backward(kept, flowing):
    logits, lse, targets = kept
    one = jax.nn.one_hot(targets, logits.shape[-1], dtype=logits.dtype)
    return (jnp.exp(logits - lse) - one) * flowing[:, None], None

cross_entropy.defvjp(forward, backward)

def loss(logits, targets, scale):
    positions = jnp.arange(logits.shape[0])
    weights = jnp.where(positions > 0, scale, jnp.zeros(()))
    return cross_entropy(logits * (1.0 + 1e-3 * positions[:, None]), targets) * weights
""",
    training="""
import jax, jax.numpy as jnp
from gradreplay import capture
from model import kernel

loss = capture.jax_function(kernel.loss, shapes={"logits": "tokens vocab", "targets": "tokens"})

@jax.jit
def train(weights, hidden, targets, mask):
    def total(weights):
        return (loss(hidden @ weights, targets, 0.3) * mask).sum()
    value, gradient = jax.value_and_grad(total)(weights)
    return weights - 0.1 * gradient, value

weights = jax.random.normal(jax.random.key(0), (8, 13))
for step in range(2):
    keys = jax.random.split(jax.random.key(step), 3)
    hidden = jax.random.normal(keys[0], (6, 8))
    targets = jax.random.randint(keys[1], (6,), 0, 13)
    mask = jax.random.uniform(keys[2], (6,))
    with capture.step("fixtures/step{step}", step=step, when=capture.first(1), strict=True):
        weights, value = train(weights, hidden, targets, mask)
""",
    fixtures=("step0",),
    searched="step0",
    harmless=("jnp.max(logits, -1, keepdims=True)", "logits.max(-1, keepdims=True)"),
    defect=("* flowing[:, None], None", "* flowing.mean(), None"),
    symptom="grad_logits diverged: wrong",
)

NUMPY = Project(
    kernel="""
import numpy as np

def gradient(logits, targets, flowing):
    shifted = np.exp(logits - logits.max(-1, keepdims=True))
    probability = shifted / shifted.sum(-1, keepdims=True)
    probability[np.arange(len(targets)), targets] -= 1
    return probability * flowing[:, None]
""",
    training="""
import numpy as np
from gradreplay import capture
from model import kernel

gradient = capture.function(kernel.gradient, outputs=["dlogits"])
draw = np.random.default_rng(5)
weights = draw.standard_normal((7, 9), dtype=np.float32)
for step in range(4):
    with capture.step("fixtures/step{step}", step=step, when=capture.first(2), strict=True):
        hidden = draw.standard_normal((5, 7), dtype=np.float32)
        targets = draw.integers(0, 9, 5)
        flowing = np.broadcast_to(np.float32(0.2), 5)
        weights -= hidden.T @ gradient(hidden @ weights, targets, flowing)
""",
    fixtures=("step0", "step1"),
    searched="step1",
    harmless=("shifted.sum(-1, keepdims=True)", "np.sum(shifted, -1, keepdims=True)"),
    defect=("targets] -= 1", "targets] -= 0.9"),
    symptom="dlogits diverged: wrong",
)

PROJECTS = {"torch": TORCH, "jax": JAX, "numpy": NUMPY}
KERNEL = Path("src/model/kernel.py")


def run(*command: str) -> subprocess.CompletedProcess[str]:
    """Runs a command with the interpreter and the package of these tests, and an empty cache."""
    variables = os.environ | {
        "JAX_PLATFORMS": "cpu",
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYTHONPATH": f"{PACKAGE}:src",
        "REPLAY_CACHE_DIR": str(Path("../cache").resolve()),
    }
    return subprocess.run(
        command,
        env=variables,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )


def git(*arguments: str) -> str:
    """Runs git in the current folder."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b")
    done = run("git", *who, *arguments)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def commit(subject: str, old: str, new: str) -> str:
    """Commits a change of the kernel; returns the commit as `replay` writes it."""
    text = KERNEL.read_text()
    assert text.count(old) == 1, old
    KERNEL.write_text(text.replace(old, new))
    git("commit", "-qam", subject)
    return git("rev-parse", "--short=7", "HEAD")


@pytest.mark.parametrize("framework", PROJECTS)
def test_a_captured_step_gives_its_own_bits_and_then_finds_a_defect(
    framework: str, replay: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip(framework)
    project = PROJECTS[framework]
    home = tmp_path / "project"
    (home / KERNEL.parent).mkdir(parents=True)
    monkeypatch.chdir(home)
    KERNEL.write_text(project.kernel)
    Path("train.py").write_text(project.training)
    # Fixtures and what is drafted beside them are not of the repository.
    Path(".gitignore").write_text("/fixtures/\n")
    git("init", "-q", ".")
    git("add", ".")
    git("commit", "-qm", "train")
    trained = run(sys.executable, "train.py")
    assert trained.returncode == 0, trained.stderr
    assert tuple(names()) == project.fixtures

    replayed = run(replay, "fixtures/")
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
    # Each fixture ends well, and a line says so of all its captured outputs; the steps of a run share one.
    ends = re.findall(r" (?:is|are) as captured(, at both steps)?$", replayed.stdout, re.MULTILINE)
    assert sum(2 if end else 1 for end in ends) == len(project.fixtures), replayed.stdout
    assert "not as captured" not in replayed.stdout
    assert "skipped" not in replayed.stderr

    commit("write it in other words", *project.harmless)
    culprit = commit("scale the gradient", *project.defect)
    Path("README.md").write_text("A training.\n")
    git("add", ".")
    git("commit", "-qm", "describe it")
    found = run(
        replay, "bisect", f"fixtures/{project.searched}", "--good", "HEAD~3", "--bad", "HEAD"
    )
    assert found.returncode == 0, found.stdout + found.stderr
    assert f"{culprit} is the first bad commit: scale the gradient" in found.stdout, found.stdout
    assert project.symptom in found.stdout, found.stdout
