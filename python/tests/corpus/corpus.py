"""The corpus: small programs in versions whose truth is known, and what replay says of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from replay import PACKAGE

from gradreplay import tensors

Array = npt.NDArray[Any]
Truth = Literal["benign", "wrong", "imprecise"]

# The step is found in the revision, and is given all inputs.
STEP = """import gradreplay as replay

@replay.harness(framework={framework!r})
def step(**inputs):
    from kernel import step
    return step(**inputs)

replay.main()
"""
PRELOAD = {
    "numpy": ["numpy", "ml_dtypes"],
    "jax": ["jax", "jax.numpy"],
    "torch": ["torch", "triton", "triton.language"],
}
TIMEOUT_S = 600


@dataclass(frozen=True)
class Out:
    """An output of the harness: an input of the same shape or the shape, and the element type."""

    like: str | tuple[int, ...]
    dtype: str | None = None


@dataclass(frozen=True)
class Variant:
    """A version of a program: its truth, and how its text differs from the first version's."""

    name: str
    truth: Truth
    edits: tuple[tuple[str, str], ...]
    may_be_called_wrong: bool = False


def benign(name: str, *edits: tuple[str, str]) -> Variant:
    """Only rounding differs, and it errs no further."""
    return Variant(name, "benign", edits)


def wrong(name: str, *edits: tuple[str, str]) -> Variant:
    """The mathematics is another one."""
    return Variant(name, "wrong", edits)


def imprecise(name: str, *edits: tuple[str, str]) -> Variant:
    """The same mathematics with a loss of precision."""
    return Variant(name, "imprecise", edits)


def imprecise_or_wrong(name: str, *edits: tuple[str, str]) -> Variant:
    """A loss of precision in a format that the code names, and of which replay may say `wrong`: a sum that
    swallows its later terms, or rounding between kinks or where the mathematics is steep."""
    return Variant(name, "imprecise", edits, may_be_called_wrong=True)


def racing(name: str, *edits: tuple[str, str]) -> Variant:
    """Programs of a grid race, whatever the numbers are."""
    return Variant(name, "wrong", edits)


@dataclass(frozen=True)
class Family:
    """A program with its versions, and data to replay them on by kind."""

    name: str
    source: str
    outputs: Mapping[str, Out]
    inputs: Callable[[np.random.Generator], dict[str, dict[str, Array]]]
    variants: Sequence[Variant]
    framework: str = "numpy"
    # By output the input whose gradient it is, the loss, and the upstream gradient.
    gradients: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    # Versions in which programs of a grid race; those of the others do not.
    races: Sequence[Variant] = ()
    # What twins compute in; float64 if the harness does not say.
    precision: str | None = None

    def text(self, variant: Variant | None = None) -> str:
        """The program's text in a version; the first without one."""
        text = self.source
        for old, new in variant.edits if variant else ():
            assert text.count(old) == 1, f"{self.name}: `{old}` occurs {text.count(old)} times"
            text = text.replace(old, new)
        return text

    def data(self) -> dict[str, dict[str, Array]]:
        """Inputs by kind of data, the same each time."""
        seed = [ord(letter) for letter in self.name]
        return self.inputs(np.random.default_rng(seed))


@dataclass
class Judged:
    """What replay says of one version on one kind of data."""

    verdict: str
    # By output: verdict and finding.
    outputs: dict[str, tuple[str, str | None]] = field(default_factory=dict)
    text: str = ""

    @property
    def findings(self) -> set[str | None]:
        """Those of the outputs that diverged."""
        return {finding for verdict, finding in self.outputs.values() if verdict == "diverged"}


class Bench:
    """A repository with a commit for each version of a family, and replay at it."""

    def __init__(self, family: Family, root: Path, replay: Path) -> None:
        self.family, self.root, self.replay = family, root, replay
        self._write()
        self._git("init", "-q", ".")
        self.first = self._commit(family.text(), None)
        self.commits = {
            variant.name: self._commit(family.text(variant), self.first)
            for variant in (*family.variants, *family.races)
        }

    def _write(self) -> None:
        data = self.family.data()
        some = next(iter(data.values()))
        lines = [
            f"program = [{json.dumps(sys.executable)}, 'replay_step.py']",
            "tree = ['kernel.py']",
            f"preload = {PRELOAD[self.family.framework]}",
        ]
        if self.family.precision is not None:
            lines.append(f"precision = {json.dumps(self.family.precision)}")
        for name, array in some.items():
            dims = self._dims(name, array)
            lines += [f"[inputs.{name}]", f"dtype = '{short(array)}'", f"shape = {dims}"]
        for name, out in self.family.outputs.items():
            like = some[out.like] if isinstance(out.like, str) else None
            dtype = out.dtype or (short(like) if like is not None else "f32")
            if like is None:
                shape: list[Any] = list(out.like)
            else:
                shape = self._dims(str(out.like), like)
            lines += [f"[outputs.{name}]", f"dtype = '{dtype}'", f"shape = {shape}"]
            keys = ("gradient_of", "of", "upstream")
            told = zip(keys, self.family.gradients.get(name, ()), strict=False)
            lines += [f"{key} = '{value}'" for key, value in told]
        (self.root / "replay.toml").write_text("\n".join(lines) + "\n")
        (self.root / "replay_step.py").write_text(STEP.format(framework=self.family.framework))
        for kind, arrays in data.items():
            folder = self.root / kind
            folder.mkdir()
            (folder / "fixture.toml").write_text("harness = '../replay.toml'\n")
            taken = {name: tensors.take(name, array) for name, array in arrays.items()}
            tensors.write(folder / "inputs.safetensors", taken)

    def _dims(self, name: str, array: Array) -> list[str]:
        """The names of an input's dimensions. A loss and its upstream gradient share theirs."""
        if self.family.gradients:
            return [f"of{size}" for size in array.shape]
        return [f"{name}{axis}" for axis in range(array.ndim)]

    def _git(self, *words: str, given: str | None = None) -> str:
        people = ("AUTHOR_NAME", "AUTHOR_EMAIL", "COMMITTER_NAME", "COMMITTER_EMAIL")
        identity = {f"GIT_{who}": "a@b" for who in people}
        done = subprocess.run(
            ["git", *words],
            cwd=self.root,
            env=os.environ | identity,
            input=given,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def _commit(self, text: str, parent: str | None) -> str:
        blob = self._git("hash-object", "-w", "--stdin", given=text)
        tree = self._git("mktree", given=f"100644 blob {blob}\tkernel.py\n")
        parents = ["-p", parent] if parent else []
        return self._git("commit-tree", *parents, "-m", "A version", tree)

    def judge(self, variant: Variant, kinds: Sequence[str]) -> dict[str, Judged]:
        """What replay says of a version, compared with the first, on these kinds of data."""
        document = self._told(*kinds, "--rev", self.commits[variant.name], "--against", self.first)
        return {replayed["fixture"]: judged(replayed) for replayed in document["replays"]}

    def check_gradients(self, variant: Variant | None, kind: str) -> dict[str, str]:
        """What replay says of the gradients of a version, the first without one, by output."""
        revision = self.commits[variant.name] if variant else self.first
        [checked] = self._told("gradcheck", kind, "--rev", revision)["gradchecks"]
        return {gradient["output"]: gradient["verdict"] for gradient in checked["gradients"]}

    def check_accesses(self, variant: Variant | None, kind: str) -> list[dict[str, Any]]:
        """The findings of a checked replay of a version, the first without one."""
        revision = self.commits[variant.name] if variant else self.first
        [replayed] = self._told(kind, "--rev", revision, "--check=always")["replays"]
        found: list[dict[str, Any]] = replayed["accesses"]["findings"]
        return found

    def _told(self, *words: str) -> dict[str, Any]:
        """The document that replay writes."""
        environment = {
            "REPLAY_CACHE_DIR": str(self.root / "cache"),
            "PYTHONPATH": str(PACKAGE),
        }
        done = subprocess.run(
            [self.replay, *words, "--format", "json"],
            cwd=self.root,
            env=os.environ | environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        assert done.stdout, done.stderr
        document: dict[str, Any] = json.loads(done.stdout)
        assert not document["errors"], document["errors"]
        return document


def judged(replayed: Mapping[str, Any]) -> Judged:
    """The judgement in one replay of the document."""
    against = replayed["against"]
    outputs = {
        output["name"]: (output["verdict"], output["finding"])
        for output in (against or {}).get("outputs", [])
    }
    return Judged(replayed["verdict"], outputs, json.dumps(replayed, indent=1))


def short(array: Array) -> str:
    """The harness's name of an element type."""
    names = {"float32": "f32", "float64": "f64", "bfloat16": "bf16", "float16": "f16"}
    names |= {"int32": "i32", "int64": "i64", "bool": "bool"}
    return names[array.dtype.name]
