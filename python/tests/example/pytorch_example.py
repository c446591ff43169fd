"""The PyTorch example of docs/programs.md as a repository with a history and a fixture.

python3 pytorch_example.py FOLDER makes it and prints the commits."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np

from gradreplay import tensors

PAGE = Path(__file__).parents[3] / "docs" / "programs.md"

AUTOGRAD = '''
import torch


class NormLoss(torch.nn.Module):
    """How far rows are from their mean square, over the rows that the mask keeps."""

    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(width))
        self.register_buffer("epsilon", torch.tensor(1e-5))

    def forward(self, x, mask=None):
        scaled = normalised(x, self.epsilon) * self.weight
        rows = torch.log(torch.cosh(scaled)).sum(-1)
        return rows.mean() if mask is None else (rows * mask).sum() / mask.sum()


def normalised(x, epsilon):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
'''

FUSED = (
    AUTOGRAD[: AUTOGRAD.index("def normalised")]
    + """def normalised(x, epsilon):
    return Normalise.apply(x, epsilon)


class Normalise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, epsilon):
        inverse = torch.rsqrt(x.square().mean(-1, keepdim=True) + epsilon)
        ctx.save_for_backward(x, inverse)
        return x * inverse

    @staticmethod
    def backward(ctx, upstream):
        x, inverse = ctx.saved_tensors
        projected = (upstream * x).mean(-1, keepdim=True)
        return inverse * (upstream - x * inverse.square() * projected), None
"""
)

# Oldest first.
HISTORY = {
    "Normalise rows": AUTOGRAD,
    "Divide by the root": AUTOGRAD.replace("x * torch.rsqrt(", "x / torch.sqrt("),
    "Write the backward pass by hand": FUSED,
    "Forget that the norm moves": FUSED.replace(
        "inverse * (upstream - x * inverse.square() * projected)", "inverse * upstream"
    ),
    "Say what it is for": FUSED.replace(
        "inverse * (upstream - x * inverse.square() * projected)", "inverse * upstream"
    )
    + "# For the last layer.\n",
}
CULPRIT = "Forget that the norm moves"


def example(language: str, beginning: str) -> str:
    """A block of the page's section on PyTorch."""
    section = PAGE.read_text(encoding="utf-8").partition("\n### PyTorch\n")[2]
    for kind, block in re.findall(r"```(\w+)\n(.*?)```", section, re.DOTALL):
        if kind == language and block.startswith(beginning):
            return str(block)
    raise LookupError(f"no block of {language} that begins with {beginning}")


def make(folder: Path) -> list[str]:
    """Writes the example's files, a fixture, and the history; the commits, oldest first."""
    (folder / "replay.toml").write_text(example("toml", "# replay.toml"))
    (folder / "replay_step.py").write_text(example("python", "# replay_step.py"))
    draw = np.random.default_rng(7)
    inputs = {
        "x": draw.standard_normal((6, 16)).astype(np.float32),
        "weight": (1 + 0.1 * draw.standard_normal(16)).astype(np.float32),
        "mask": np.array([1, 1, 0, 1, 1, 0], dtype=np.bool_),
    }
    for name, kept in (("masked", ["x", "weight", "mask"]), ("whole", ["x", "weight"])):
        fixture = folder / "fixtures" / name
        fixture.mkdir(parents=True)
        (fixture / "fixture.toml").write_text('harness = "../../replay.toml"\n')
        taken = {key: tensors.take(key, inputs[key]) for key in kept}
        tensors.write(fixture / "inputs.safetensors", taken)
    git(folder, "init", "-q", "-b", "main")
    (folder / ".git" / "info" / "exclude").write_text("replay*\nfixtures\n")
    module = folder / "mymodel" / "norm.py"
    module.parent.mkdir()
    commits = []
    for message, text in HISTORY.items():
        module.write_text(text)
        git(folder, "add", "mymodel")
        git(folder, "commit", "-q", "-m", message)
        commits.append(git(folder, "rev-parse", "--short=7", "HEAD"))
    return commits


def git(folder: Path, *words: str) -> str:
    """What git prints."""
    names = {
        f"GIT_{role}_{key}": value
        for role in ("AUTHOR", "COMMITTER")
        for key, value in (("NAME", "A"), ("EMAIL", "a@b"), ("DATE", "2024-10-14T00:00:00Z"))
    }
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    done = subprocess.run(
        ["git", *words],
        cwd=folder,
        env=os.environ | names | alone,
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


if __name__ == "__main__":
    print(*make(Path(sys.argv[1])))
