"""What replay asks for and what it is told: version 1 of the protocol, without any doing.

A request comes in the environment (one process for each replay) or as a message (a server that forks);
docs/programs.md is the contract of both.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from . import triton_order
from .faults import Blame, Fault
from .rounding import Mode, Obeyed
from .tensors import Surroundings

VERSION = 1

Precision = Literal["native", "float32", "float64"]
Device = Literal["cpu", "cuda"]
# What becomes of casts to float32 that code names, in a twin in float64.
Casts = Literal["wide", "kept"]
# Whether accesses to memory are looked at.
Check = Literal["off", "accesses"]


@dataclass(frozen=True)
class Request:
    """One replay: where tensors and the tree lie, and how the function is to be called."""

    inputs: Path
    outputs: Path
    tree: Path
    answer: Path | None = None
    precision: Precision = "native"
    rounding: Mode = "nearest"
    # The record of roundings to integers, for a mode that has one.
    record: Path | None = None
    surroundings: Surroundings = "none"
    device: Device = "cpu"
    casts: Casts = "wide"
    check: Check = "off"
    # The order of the programs of a grid.
    order: str = triton_order.INDICES
    # Eight bytes that repeat in memory before anybody writes it; empty: what is there.
    unwritten: bytes = b""
    threads: int | None = None

    def environment(self) -> dict[str, str]:
        """The request as the variables that a process for one replay has."""
        variables = {
            "REPLAY_INPUTS": os.fspath(self.inputs),
            "REPLAY_OUTPUTS": os.fspath(self.outputs),
            "REPLAY_TREE": os.fspath(self.tree),
            "REPLAY_PRECISION": self.precision,
            "REPLAY_ROUNDING": self.rounding,
            "REPLAY_SURROUNDINGS": self.surroundings,
            "REPLAY_DEVICE": self.device,
            "REPLAY_CASTS": self.casts,
            "REPLAY_CHECK": self.check,
            "REPLAY_ORDER": self.order,
            "REPLAY_UNWRITTEN": self.unwritten.hex(),
        }
        if self.record is not None:
            variables["REPLAY_RECORD"] = os.fspath(self.record)
        if self.answer is not None:
            variables["REPLAY_ANSWER"] = os.fspath(self.answer)
        if self.threads is not None:
            variables["REPLAY_THREADS"] = str(self.threads)
        return variables


@dataclass(frozen=True)
class Run:
    """A request to a server: who asks, where the child's streams go, whether to fork, and whether the
    process that makes it waits for others of the same tree."""

    id: int
    request: Request
    stdout: Path
    stderr: Path
    tmp: Path | None
    fork: bool
    series: bool = False
    # All that its process may write; None: it has no walls.
    writable: tuple[Path, ...] | None = None


@dataclass
class Answer:
    """What a replay says besides its outputs."""

    error: Fault | None = None
    # Whether the function was not called, as its arithmetic would not round as asked.
    is_waiting: bool = False
    rounding: Obeyed | None = None
    # Whether other numbers were rounded to integers than those of the record.
    other_roundings: bool = False
    surroundings: Literal["applied", "unsupported"] | None = None
    unwritten: Literal["applied", "unsupported"] | None = None
    # Whether a grid could run its programs in the wanted order.
    order: triton_order.Effect | None = None
    twins: Mapping[str, bool] = field(default_factory=dict)
    # The findings of a checked replay, or why there is none.
    accesses: Mapping[str, Any] | None = None
    # The flags of frameworks and the variables, as the function has left them.
    settings: Mapping[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def as_json(self) -> dict[str, Any]:
        """The content of answer.json: what there is nothing to say about is left out."""
        content: dict[str, Any] = {}
        if self.error is not None:
            content["error"] = fault_as_json(self.error)
        if self.is_waiting:
            content["call"] = "waiting"
        if self.rounding is not None:
            content["rounding"] = self.rounding
        if self.other_roundings:
            content["other_roundings"] = True
        if self.surroundings is not None:
            content["surroundings"] = self.surroundings
        if self.unwritten is not None:
            content["unwritten"] = self.unwritten
        if self.order is not None:
            content["order"] = self.order
        if self.twins:
            content["twins"] = dict(self.twins)
        if self.accesses is not None:
            content["accesses"] = dict(self.accesses)
        if self.settings:
            content["settings"] = dict(self.settings)
        if self.notes:
            content["notes"] = self.notes
        return content

    def write(self, path: Path) -> None:
        """Writes answer.json under a temporary name and renames it."""
        temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
        temporary.write_text(json.dumps(self.as_json()), encoding="utf-8")
        os.replace(temporary, path)


def say_waiting(path: Path) -> None:
    """Says in answer.json that the harness's function was not called yet, unless it says something."""
    # A process of the program's own was first, or the answer itself will fail.
    with suppress(OSError), path.open("x", encoding="utf-8") as file:
        file.write('{"call":"waiting"}')


def say_begun(path: Path) -> None:
    """Says that the harness's function is called now: the time after it is the revision's."""
    path.write_text('{"call":"begun"}', encoding="utf-8")


def fault_as_json(fault: Fault) -> dict[str, str]:
    """A fault as answer.json and the greeting hold it."""
    content = {"fault": fault.party, "message": fault.message}
    if fault.traceback:
        content["traceback"] = fault.traceback
    if fault.hint:
        content["hint"] = fault.hint
    if fault.module:
        content["module"] = fault.module
    return content


def check_version(environment: Mapping[str, str]) -> None:
    """Refuses a replay that speaks another version of the protocol."""
    spoken = environment.get("REPLAY_PROTOCOL", "")
    if spoken != str(VERSION):
        raise Blame(
            "environment",
            f"replay speaks version {spoken or '(none)'} of the protocol, gradreplay {VERSION}",
            "install the gradreplay that came with this replay: pip install .",
        )


def from_environment(environment: Mapping[str, str]) -> Request:
    """The request of a process for one replay."""
    return _request({key: environment.get(f"REPLAY_{key.upper()}") for key in _KEYS})


def from_message(message: Mapping[str, Any]) -> Run:
    """The request in a `run` message; keys that are not known are ignored."""
    try:
        return Run(
            id=int(message["id"]),
            request=_request({key: message.get(key) for key in _KEYS}),
            stdout=Path(message["stdout"]),
            stderr=Path(message["stderr"]),
            tmp=Path(message["tmp"]) if message.get("tmp") else None,
            fork=bool(message.get("fork", True)),
            series=bool(message.get("series", False)),
            writable=_paths(message.get("writable")),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise Blame("environment", f"replay sent a run that is not one: {error!r}") from error


def _paths(given: Any) -> tuple[Path, ...] | None:
    return None if given is None else tuple(Path(path) for path in given)


_KEYS = (
    "inputs",
    "outputs",
    "tree",
    "answer",
    "precision",
    "rounding",
    "record",
    "surroundings",
    "device",
    "casts",
    "check",
    "order",
    "unwritten",
    "threads",
)


def _request(values: Mapping[str, Any]) -> Request:
    for key in ("inputs", "outputs", "tree"):
        if not values[key]:
            raise Blame("environment", f"replay did not say where the {key} are")
    threads = values["threads"]
    return Request(
        inputs=Path(values["inputs"]),
        outputs=Path(values["outputs"]),
        tree=Path(values["tree"]),
        answer=Path(values["answer"]) if values["answer"] else None,
        precision=cast(Precision, _choice("precision", values, "native", get_args(Precision))),
        rounding=cast(Mode, _choice("rounding", values, "nearest", get_args(Mode))),
        record=Path(values["record"]) if values["record"] else None,
        surroundings=cast(
            Surroundings, _choice("surroundings", values, "none", get_args(Surroundings))
        ),
        device=cast(Device, _choice("device", values, "cpu", get_args(Device))),
        casts=cast(Casts, _choice("casts", values, "wide", get_args(Casts))),
        check=cast(Check, _choice("check", values, "off", get_args(Check))),
        order=triton_order.check(values["order"] or triton_order.INDICES),
        unwritten=_pattern(values["unwritten"]),
        threads=int(threads) if threads else None,
    )


def _pattern(given: Any) -> bytes:
    try:
        pattern = bytes.fromhex(given or "")
    except (TypeError, ValueError):
        pattern = b"?"
    if len(pattern) not in (0, 8):
        raise Blame("environment", f"replay asked for unwritten memory of `{given}`, not 8 bytes")
    return pattern


def _choice(key: str, values: Mapping[str, Any], default: str, choices: tuple[str, ...]) -> str:
    value = values[key] or default
    if value not in choices:
        raise Blame(
            "environment", f"replay asked for {key} `{value}`: {', '.join(choices)} are known"
        )
    return str(value)
