"""A stand-in of replay's end of the protocol: starts programs and servers, and reads what they answer."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from gradreplay import tensors
from gradreplay.tensors import Tensor

PACKAGE = Path(__file__).parents[1] / "src"
TIMEOUT_S = 120


@dataclass
class Outcome:
    """What a replay left: exit code (negative: a signal), outputs, answer, streams; the settings that the
    answer told stand apart."""

    code: int
    outputs: dict[str, Tensor] | None
    answer: dict[str, Any] | None
    stdout: str
    stderr: str
    pid: int = 0
    settings: dict[str, str] | None = None

    @property
    def error(self) -> dict[str, str]:
        assert self.answer is not None, self.stderr
        found: dict[str, str] = self.answer["error"]
        return found

    def array(self, name: str) -> npt.NDArray[Any]:
        assert self.outputs is not None, self.stderr
        return self.outputs[name].array()


@dataclass
class Project:
    """A harness's folder with a program, and trees of revisions beside it."""

    root: Path
    environment: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("harness", "runs", "cache"):
            (self.root / name).mkdir()
        self._count = 0

    @property
    def program(self) -> Path:
        return self.root / "harness" / "replay_step.py"

    def write_program(self, body: str, *, options: str = "", top: str = "") -> None:
        """A program whose harness has this text; parameters and all."""
        text = "import gradreplay as replay\n" + textwrap.dedent(top)
        text += f"@replay.harness{options}\n" + textwrap.dedent(body).lstrip("\n")
        self.program.write_text(text + "\nreplay.main()\n")

    def tree(self, name: str = "tree", /, **files: str) -> Path:
        """A revision's tree; `_` in a name stands for a folder."""
        folder = self.root / name
        folder.mkdir(exist_ok=True)
        for file, text in files.items():
            path = folder / (file.replace("__", "/") + ".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(text))
        return folder

    def inputs(self, **arrays: Any) -> dict[str, Tensor]:
        return {name: tensors.take(name, np.asarray(array)) for name, array in arrays.items()}

    def folder(
        self, inputs: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None
    ) -> Path:
        """A new folder of a run, with its inputs."""
        self._count += 1
        folder = self.root / "runs" / str(self._count)
        (folder / "tmp").mkdir(parents=True)
        tensors.write(folder / "inputs", inputs, metadata)
        return folder

    def variables(self, extra: Mapping[str, str]) -> dict[str, str]:
        kept = {key: value for key, value in os.environ.items() if not key.startswith("REPLAY_")}
        # The tests' own process has it; the package sets it by itself.
        del kept["TRITON_INTERPRET"]
        kept |= {
            "REPLAY_PROTOCOL": "1",
            "REPLAY_CACHE_DIR": str(self.root / "cache"),
            "PYTHONPATH": str(PACKAGE),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return kept | self.environment | dict(extra)

    def run(
        self,
        inputs: Mapping[str, Tensor],
        tree: Path | None = None,
        /,
        *,
        without: tuple[str, ...] = (),
        **modes: str,
    ) -> Outcome:
        """One process for one replay. `modes` are the protocol's, in lower case."""
        folder = self.folder(inputs)
        variables = self.variables(
            {
                "REPLAY_INPUTS": str(folder / "inputs"),
                "REPLAY_OUTPUTS": str(folder / "outputs"),
                "REPLAY_ANSWER": str(folder / "answer.json"),
                "REPLAY_TREE": str(tree or self.tree()),
                "REPLAY_DEVICE": "cpu",
                "TMPDIR": str(folder / "tmp"),
                **{f"REPLAY_{key.upper()}": value for key, value in modes.items()},
            }
        )
        for name in without:
            variables.pop(name, None)
        done = subprocess.run(
            [sys.executable, str(self.program)],
            cwd=self.program.parent,
            env=variables,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
        )
        return outcome(folder, done.returncode, done.stdout, done.stderr)


def outcome(folder: Path, code: int, stdout: str, stderr: str, pid: int = 0) -> Outcome:
    path = folder / "answer.json"
    answer = json.loads(path.read_text()) if path.exists() else None
    outputs = folder / "outputs"
    assert not list(folder.glob("*.part")), "half a file is left"
    return Outcome(
        code,
        tensors.read(outputs) if outputs.exists() else None,
        answer,
        stdout,
        stderr,
        pid,
        answer.pop("settings", None) if answer is not None else None,
    )


class Server:
    """A server that was started, from replay's side of the socket."""

    def __init__(self, project: Project, preload: str = "", device: str = "cpu") -> None:
        self.project = project
        ours, theirs = socket.socketpair()
        ours.settimeout(TIMEOUT_S)
        self.log = project.root / "server.log"
        variables = {
            "REPLAY_SOCKET": str(theirs.fileno()),
            "REPLAY_PRELOAD": preload,
            "REPLAY_DEVICE": device,
        }
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(project.program)],
                cwd=project.program.parent,
                env=project.variables(variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
            )
        theirs.close()
        self.socket = ours
        self.file = ours.makefile("rb")
        self.hello = self.receive()
        self.runs = 0

    def receive(self) -> dict[str, Any]:
        line = self.file.readline()
        assert line, f"the server has gone away: {self.log.read_text()}"
        message: dict[str, Any] = json.loads(line)
        return message

    def send(self, content: str) -> None:
        self.socket.sendall(content.encode() + b"\n")

    def start(
        self,
        inputs: Mapping[str, Tensor],
        tree: Path | None = None,
        *,
        fork: bool = True,
        metadata: Mapping[str, str] | None = None,
        **modes: Any,
    ) -> Path:
        """Sends a run; the folder tells where it writes."""
        self.runs += 1
        folder = self.project.folder(inputs, metadata)
        message = {
            "id": self.runs,
            "inputs": str(folder / "inputs"),
            "outputs": str(folder / "outputs"),
            "answer": str(folder / "answer.json"),
            "tree": str(tree or self.project.tree()),
            "precision": "native",
            "rounding": "nearest",
            "surroundings": "none",
            "device": "cpu",
            "tmp": str(folder / "tmp"),
            "stdout": str(folder / "stdout"),
            "stderr": str(folder / "stderr"),
            "fork": fork,
        } | modes
        self.send(json.dumps({"run": message}))
        return folder

    def run(self, inputs: Mapping[str, Tensor], tree: Path | None = None, **modes: Any) -> Outcome:
        folder = self.start(inputs, tree, **modes)
        started = self.receive()
        assert started.get("started") == self.runs, started
        done = self.receive()
        # The process that made it waits for another of its series.
        ended = "made" if modes.get("series") else "done"
        assert done.get(ended) == self.runs, done
        code = done["exit"] if "exit" in done else -done["signal"]
        stdout, stderr = (
            (folder / name).read_text(errors="replace") for name in ("stdout", "stderr")
        )
        return outcome(folder, code, stdout, stderr, started["pid"])

    def close(self) -> int:
        self.file.close()
        self.socket.close()
        return self.process.wait(TIMEOUT_S)
