"""Trainings with a defect planted some commits back, each a history of its own, in PyTorch and in JAX."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path

# Commits between the first one and the end.
LENGTH = 10
KERNEL = "src/model/kernel.py"


@dataclass(frozen=True)
class Training:
    """A kernel, how a step calls it, and two changes of it: other words, and a defect."""

    kernel: str
    # What the step gives it, and what becomes of the result.
    step: str
    words: tuple[str, str]
    defect: tuple[str, str]
    # How many commits before the end the defect is.
    back: int


@dataclass(frozen=True)
class Written:
    """A history on the disk."""

    home: Path
    # The commit of the defect, as `replay` writes it.
    culprit: str
    # Its subject.
    subject: str


def text(lines: str) -> str:
    return textwrap.dedent(lines).lstrip("\n")


TORCH = {
    "counted-twice": Training(
        text("""
        import torch

        def loss(logits, targets):
            total = logits.new_zeros(())
            for begin in range(0, len(targets), 4):
                end = begin + 4
                lse = torch.logsumexp(logits[begin:end], -1)
                picked = logits[begin:end].gather(-1, targets[begin:end, None])[:, 0]
                total = total + (lse - picked).sum()
            return total / len(targets)
        """),
        "loss(torch.randn(10, 7, requires_grad=True), torch.randint(0, 7, (10,))).backward()",
        ("return total / len(targets)", "return total / targets.shape[0]"),
        ("end = begin + 4", "end = begin + 5"),
        1,
    ),
    "denominator": Training(
        text("""
        import torch

        def normed(x, gain):
            centred = x - x.mean(-1, keepdim=True)
            variance = centred.square().sum(-1, keepdim=True) / x.shape[-1]
            return centred * torch.rsqrt(variance + 1e-5) * gain
        """),
        "normed(torch.randn(6, 9, requires_grad=True), torch.rand(9)).square().sum().backward()",
        ("x - x.mean(-1, keepdim=True)", "x - x.sum(-1, keepdim=True) / x.shape[-1]"),
        ("/ x.shape[-1]\n    return", "/ (x.shape[-1] - 1)\n    return"),
        2,
    ),
    "normaliser": Training(
        text("""
        import torch

        def loss(logits, targets, mask):
            lse = torch.logsumexp(logits, -1)
            picked = logits.gather(-1, targets[:, None])[:, 0]
            return ((lse - picked) * mask).sum() / mask.sum()
        """),
        "loss(torch.randn(12, 5, requires_grad=True), torch.randint(0, 5, (12,)),"
        " (torch.rand(12) > 0.4).float()).backward()",
        ("((lse - picked) * mask).sum()", "(lse * mask - picked * mask).sum()"),
        ("/ mask.sum()", "/ mask.numel()"),
        3,
    ),
    "stale-buffer": Training(
        text("""
        import torch

        def distances(x, centre):
            updated = 0.9 * centre + 0.1 * x.detach().mean(0)
            return (x - updated).square().sum(-1), updated
        """),
        "distances(torch.randn(8, 6, requires_grad=True), torch.rand(6))[0].mean().backward()",
        ("0.1 * x.detach().mean(0)", "x.detach().mean(0) * 0.1"),
        ("(x - updated).square()", "(x - centre).square()"),
        4,
    ),
    "stride": Training(
        text("""
        import torch

        def scores(q, k):
            length, heads, width = q.shape
            rows = torch.as_strided(q, (heads, length, width), (q.stride(1), q.stride(0), q.stride(2)))
            return torch.softmax(rows @ k.permute(1, 2, 0) / width**0.5, -1)
        """),
        "scores(torch.randn(3, 5, 4).transpose(0, 1), torch.randn(5, 3, 4, requires_grad=True))"
        ".square().sum().backward()",
        ("/ width**0.5", "* width**-0.5"),
        ("(q.stride(1), q.stride(0), q.stride(2))", "(width, heads * width, 1)"),
        5,
    ),
    "bfloat16": Training(
        text("""
        import torch

        def gradient(x, flowing):
            total = torch.zeros(x.shape[1], flowing.shape[1], dtype=torch.float32)
            for begin in range(0, len(x), 8):
                total += x[begin:begin + 8].t() @ flowing[begin:begin + 8]
            return total.to(x.dtype)
        """),
        "gradient(torch.randn(64, 5), torch.randn(64, 6))",
        ("x[begin:begin + 8].t() @", "x[begin:begin + 8].transpose(0, 1) @"),
        ("dtype=torch.float32", "dtype=torch.bfloat16"),
        6,
    ),
    "detached": Training(
        text("""
        import torch

        def focal(logits, targets):
            logp = torch.log_softmax(logits, -1).gather(-1, targets[:, None])[:, 0]
            weight = (1 - logp.exp()) ** 2
            return -(weight * logp).mean()
        """),
        "focal(torch.randn(9, 6, requires_grad=True), torch.randint(0, 6, (9,))).backward()",
        ("-(weight * logp).mean()", "-(weight * logp).sum() / len(targets)"),
        ("(1 - logp.exp()) ** 2", "(1 - logp.exp().detach()) ** 2"),
        8,
    ),
    "microbatch": Training(
        text("""
        import torch

        def loss(logits, targets):
            parts = range(0, len(targets), 4)
            total = logits.new_zeros(())
            for begin in parts:
                part = logits[begin:begin + 4]
                lse = torch.logsumexp(part, -1)
                each = lse - part.gather(-1, targets[begin:begin + 4, None])[:, 0]
                total = total + each.sum() / len(targets)
            return total
        """),
        "loss(torch.randn(11, 5, requires_grad=True), torch.randint(0, 5, (11,))).backward()",
        ("total = total + each", "total += each"),
        ("each.sum() / len(targets)", "each.mean() / len(parts)"),
        9,
    ),
}

JAX = {
    "counted-twice": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def loss(logits, targets):
            total = 0.0
            for begin in range(0, len(targets), 4):
                end = begin + 4
                lse = jax.nn.logsumexp(logits[begin:end], -1)
                picked = jnp.take_along_axis(logits[begin:end], targets[begin:end, None], -1)[:, 0]
                total = total + (lse - picked).sum()
            return total / len(targets)
        """),
        "jax.jit(jax.grad(loss))(normal(10, 7), integers(7, 10))",
        ("return total / len(targets)", "return total / targets.shape[0]"),
        ("end = begin + 4", "end = begin + 5"),
        1,
    ),
    "denominator": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def normed(x, gain):
            centred = x - jnp.mean(x, -1, keepdims=True)
            variance = jnp.sum(jnp.square(centred), -1, keepdims=True) / x.shape[-1]
            return centred * jax.lax.rsqrt(variance + 1e-5) * gain
        """),
        "jax.jit(jax.grad(lambda x: jnp.square(normed(x, normal(9))).sum()))(normal(6, 9))",
        ("jnp.mean(x, -1, keepdims=True)", "jnp.sum(x, -1, keepdims=True) / x.shape[-1]"),
        ("/ x.shape[-1]\n    return", "/ (x.shape[-1] - 1)\n    return"),
        2,
    ),
    "normaliser": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def loss(logits, targets, mask):
            lse = jax.nn.logsumexp(logits, -1)
            picked = jnp.take_along_axis(logits, targets[:, None], -1)[:, 0]
            return ((lse - picked) * mask).sum() / mask.sum()
        """),
        "jax.jit(jax.grad(loss))(normal(12, 5), integers(5, 12), (normal(12) > -0.3) * 1.0)",
        ("((lse - picked) * mask).sum()", "(lse * mask - picked * mask).sum()"),
        ("/ mask.sum()", "/ mask.size"),
        3,
    ),
    "stale-buffer": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def distances(x, centre):
            updated = 0.9 * centre + 0.1 * jax.lax.stop_gradient(x).mean(0)
            return jnp.square(x - updated).sum(-1), updated
        """),
        "jax.jit(jax.grad(lambda x: distances(x, normal(6))[0].mean()))(normal(8, 6))",
        ("0.1 * jax.lax.stop_gradient(x).mean(0)", "jax.lax.stop_gradient(x).mean(0) * 0.1"),
        ("jnp.square(x - updated)", "jnp.square(x - centre)"),
        4,
    ),
    # JAX has no strides: the axes are taken in the wrong order.
    "stride": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def scores(q, k):
            length, heads, width = q.shape
            rows = jnp.transpose(q, (1, 0, 2))
            return jax.nn.softmax(rows @ jnp.transpose(k, (1, 2, 0)) / width**0.5, -1)
        """),
        "jax.jit(jax.grad(lambda q, k: jnp.square(scores(q, k)).sum()))(normal(5, 3, 4), normal(5, 3, 4))",
        ("/ width**0.5", "* width**-0.5"),
        ("jnp.transpose(q, (1, 0, 2))", "q.reshape(heads, length, width)"),
        5,
    ),
    "bfloat16": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def gradient(x, flowing):
            total = jnp.zeros((x.shape[1], flowing.shape[1]), jnp.float32)
            for begin in range(0, len(x), 8):
                part = x[begin:begin + 8].T @ flowing[begin:begin + 8]
                total = total + part.astype(total.dtype)
            return total.astype(x.dtype)
        """),
        "jax.jit(gradient)(normal(64, 5), normal(64, 6))",
        ("x[begin:begin + 8].T @", "jnp.transpose(x[begin:begin + 8]) @"),
        ("jnp.float32", "jnp.bfloat16"),
        6,
    ),
    "detached": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def focal(logits, targets):
            logp = jax.nn.log_softmax(logits, -1)
            logp = jnp.take_along_axis(logp, targets[:, None], -1)[:, 0]
            weight = (1 - jnp.exp(logp)) ** 2
            return -(weight * logp).mean()
        """),
        "jax.jit(jax.grad(focal))(normal(9, 6), integers(6, 9))",
        ("-(weight * logp).mean()", "-(weight * logp).sum() / len(targets)"),
        ("(1 - jnp.exp(logp)) ** 2", "(1 - jax.lax.stop_gradient(jnp.exp(logp))) ** 2"),
        8,
    ),
    "microbatch": Training(
        text("""
        import jax
        import jax.numpy as jnp

        def loss(logits, targets):
            parts = range(0, len(targets), 4)
            total = 0.0
            for begin in parts:
                part = logits[begin:begin + 4]
                lse = jax.nn.logsumexp(part, -1)
                each = lse - jnp.take_along_axis(part, targets[begin:begin + 4, None], -1)[:, 0]
                total = total + each.sum() / len(targets)
            return total
        """),
        "jax.jit(jax.grad(loss))(normal(11, 5), integers(5, 11))",
        ("total = total + each", "total += each"),
        ("each.sum() / len(targets)", "each.mean() / len(parts)"),
        9,
    ),
}

TRAININGS = {"torch": TORCH, "jax": JAX}

# Its defect shows at the second call alone, by what the first one left: no replay of its inputs gives it.
WORKSPACE = Training(
    text("""
    import torch

    KEPT = {}

    def normed(x):
        total = KEPT.setdefault(x.shape, x.new_zeros(x.shape[-1])).zero_()
        total += x.square().sum(0)
        return x / total.sqrt()
    """),
    "kernel.normed(torch.randn(4, 3)); normed(torch.randn(4, 3))",
    ("x.square().sum(0)", "(x * x).sum(0)"),
    (".zero_()", ""),
    3,
)

TRAIN = {
    "torch": text("""
    import torch
    from gradreplay import capture
    from model import kernel

    torch.manual_seed(3)
    torch.set_num_threads(1)
    FUNCTION = capture.function(kernel.FUNCTION)
    with capture.step("fixtures/step0", step=0, when=capture.first(1), strict=True):
        STEP
    """),
    "jax": text("""
    import jax
    import jax.numpy as jnp
    from gradreplay import capture
    from model import kernel

    drawn = iter(jax.random.split(jax.random.key(3), 9))
    normal = lambda *shape: jax.random.normal(next(drawn), shape)
    integers = lambda below, count: jax.random.randint(next(drawn), (count,), 0, below)
    FUNCTION = capture.jax_function(kernel.FUNCTION)
    with capture.step("fixtures/step0", step=0, when=capture.first(1), strict=True):
        jax.block_until_ready(STEP)
    """),
}

# What changes no number: a commit that touches the kernel, one that does not, and again.
HARMLESS = (
    ("Say what the kernel is for", KERNEL, '"""What the training minimises."""\n'),
    ("Describe the project", "README.md", "A training.\n"),
    ("Name the version", KERNEL, "VERSION = 2\n"),
    ("Say how it is run", "README.md", "    python train.py\n"),
    ("Note the shapes", KERNEL, "# Rows are tokens.\n"),
)


def write(framework: str, training: Training, home: Path) -> Written:
    """Makes the history of a training in the folder `home`, with its end in the working tree."""
    function = training.kernel.partition("def ")[2].partition("(")[0]
    train = TRAIN[framework].replace("FUNCTION", function).replace("STEP", training.step)
    files = {KERNEL: training.kernel, "train.py": train, ".gitignore": "/fixtures/\n"}
    commits = [("Train", dict(files))]
    defect = LENGTH - training.back
    words = 2 if defect != 2 else 5
    subject = f"Simplify {function}"
    for place in range(1, LENGTH + 1):
        if place in (defect, words):
            old, new = training.defect if place == defect else training.words
            assert files[KERNEL].count(old) == 1, (old, files[KERNEL])
            files[KERNEL] = files[KERNEL].replace(old, new)
            commits.append((subject if place == defect else "Write it in other words", dict(files)))
            continue
        said, path, line = HARMLESS[place % len(HARMLESS)]
        files[path] = files.get(path, "") + line
        commits.append((said, dict(files)))
    made = import_history(home, commits)
    return Written(home, made[defect][:7], subject)


def import_history(home: Path, commits: list[tuple[str, dict[str, str]]]) -> list[str]:
    """Makes a repository of these commits, each with all of its files; returns their ids."""
    stream: list[bytes] = []
    for place, (subject, files) in enumerate(commits, 1):
        stream.append(f"commit refs/heads/main\nmark :{place}\n".encode())
        stream.append(f"committer a <a@b> {1_700_000_000 + 60 * place} +0000\n".encode())
        stream.append(f"data {len(subject)}\n{subject}\n".encode())
        for path, content in files.items():
            data = content.encode()
            stream.append(f"M 100644 inline {path}\ndata {len(data)}\n".encode() + data + b"\n")
    git(home, "init", "-q", "-b", "main", ".")
    git(home, "fast-import", "--quiet", "--export-marks=.git/marks", given=b"".join(stream))
    git(home, "reset", "-q", "--hard")
    marks = (line.split() for line in (home / ".git/marks").read_text().splitlines())
    ids = {int(mark[1:]): commit for mark, commit in marks}
    return [ids[place] for place in range(1, len(commits) + 1)]


def git(home: Path, *arguments: str, given: bytes = b"") -> None:
    home.mkdir(parents=True, exist_ok=True)
    subprocess.run(("git", *arguments), cwd=home, input=given, check=True, capture_output=True)


# Imports the framework once, and runs each training in a copy of the process.
CAPTURE = text("""
import importlib, os, runpy, sys
from gradreplay import capture
importlib.import_module(sys.argv[1])
for home in sys.argv[2:]:
    pid = os.fork()
    if pid == 0:
        os.chdir(home)
        sys.path.insert(0, "src")
        sys.argv = ["train.py"]
        runpy.run_path("train.py", run_name="__main__")
        capture.flush()
        os._exit(0)
    if os.waitpid(pid, 0)[1] != 0:
        sys.exit(f"the training in {home} fails")
""")


def capture_all(framework: str, homes: list[Path], environment: dict[str, str]) -> None:
    """Runs the training of each history at its end, which captures its step."""
    done = subprocess.run(
        (sys.executable, "-c", CAPTURE, framework, *map(str, homes)),
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
