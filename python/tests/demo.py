"""A repository of one small kernel with three commits, and a fixture of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np

from gradreplay import tensors

KERNEL = """\
#include <cuda_runtime.h>
__global__ void scale_kernel(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = FACTOR * x[i];
}
void scale(const float* x, float* y, int n) { scale_kernel<<<1, 32>>>(x, y, n); }
"""

HARNESS = """\
sources = ["scale.cu"]
call = "scale(x, y, n);"
inputs.x = { dtype = "f32", shape = ["n"] }
outputs.y = { dtype = "f32", shape = ["n"] }
"""


class Demo:
    """The repository."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.fixture = root / "fixtures/step0"
        self.fixture.mkdir(parents=True)
        self.git("init", "--quiet", "--initial-branch=main")
        (root / "replay.toml").write_text(HARNESS)
        (self.fixture / "fixture.toml").write_text('harness = "../../replay.toml"\n')
        x = np.linspace(-1, 1, 8, dtype=np.float32)
        tensors.write(self.fixture / "inputs.safetensors", {"x": tensors.take("x", x)})
        for number, factor in enumerate(("2.0f", "(1.0f + 1.0f)", "2.5f")):
            self.write(factor)
            self.git("add", ".")
            self.git("commit", "--quiet", f"--message=Scale by {factor}")
            self.git("tag", f"v{number}")

    def git(self, *words: str) -> None:
        identity = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(["git", *identity, *words], cwd=self.root, check=True, capture_output=True)

    def write(self, factor: str) -> None:
        """Changes the kernel of the working tree."""
        (self.root / "scale.cu").write_text(KERNEL.replace("FACTOR", factor))
