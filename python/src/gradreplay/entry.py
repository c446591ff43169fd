"""The harness's function, and the program that replays it: what a user's program calls."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, TypeVar, get_args, overload

from . import environment, server
from .faults import Blame, Fault, Place, judge
from .protocol import Answer, check_version, from_environment, say_waiting
from .run import Harness, replay
from .tensors import Framework

_Function = TypeVar("_Function", bound=Callable[..., Any])

_harnesses: list[Harness] = []


@overload
def harness(function: _Function) -> _Function: ...


@overload
def harness(
    *,
    framework: Framework = "numpy",
    path: Sequence[str] = (),
    twins: Mapping[str, bool] | None = None,
) -> Callable[[_Function], _Function]: ...


def harness(
    function: _Function | None = None,
    *,
    framework: Framework = "numpy",
    path: Sequence[str] = (),
    twins: Mapping[str, bool] | None = None,
) -> _Function | Callable[[_Function], _Function]:
    """Marks the function that replays a step.

    It is called with the inputs of replay.toml by name, as arrays of `framework`, and returns a dict
    of outputs. Inputs that are absent are left out: give optional ones a default. It may also take

    - `precision`: "native", or "float32" or "float64" for a twin, whose inputs are widened;
    - `device`: "cpu" or "cuda", where its arrays are.

    `path` are folders of the revision that modules are imported from, besides `src` and its root.
    `twins` says of outputs that they are never twins (False), because a kernel hard-codes their dtype.

    The function itself is returned: it can be called and tested as it is."""

    def mark(marked: _Function) -> _Function:
        if framework not in get_args(Framework):
            known = ", ".join(get_args(Framework))
            raise Blame("program", f"framework `{framework}` is not known: {known} are")
        _harnesses.append(Harness(marked, framework, tuple(path), dict(twins or {})))
        return marked

    return mark if function is None else mark(function)


def main() -> NoReturn:
    """Replays the marked function as replay asks, and ends the process.

    One replay is made if the environment names one; with a socket, replays are made until it closes."""
    variables = os.environ
    if "REPLAY_PROTOCOL" not in variables:
        sys.stderr.write(
            "error: this program is started by replay, which tells it what to do\n"
            "hint: replay FIXTURE, with `program` in replay.toml naming this file\n"
        )
        sys.exit(2)
    chosen = _chosen()
    if "REPLAY_SOCKET" in variables:
        server.serve(chosen, program_file(), variables)
    check_version(variables)
    server.leave(replay(chosen, from_environment(variables), program_file()))


def _chosen() -> Harness:
    if len(_harnesses) == 1:
        return _harnesses[0]
    if not _harnesses:
        raise Blame("program", "the program marks no function with @replay.harness")
    raise Blame(
        "program", f"the program marks {len(_harnesses)} functions with @replay.harness, not one"
    )


def program_file() -> Path | None:
    """The file of the program that runs."""
    file = getattr(sys.modules.get("__main__"), "__file__", None)
    return Path(os.path.realpath(file)) if file else None


# Before `main`: imports at the top of the program fail, too.


def watch(variables: Mapping[str, str]) -> None:
    """Prepares a process that replay has started, and tells replay of what ends it early."""
    environment.prepare(os.environ)
    if "REPLAY_SOCKET" not in variables and variables.get("REPLAY_ANSWER"):
        say_waiting(Path(variables["REPLAY_ANSWER"]))
    sys.excepthook = _excepthook


def _excepthook(
    kind: type[BaseException], error: BaseException, trace: TracebackType | None
) -> None:
    if isinstance(error, KeyboardInterrupt):
        server.leave(130)
    sys.__excepthook__(kind, error, trace)
    fault = judge(error, Place(program=program_file()))
    try:
        tell(fault, os.environ)
    finally:
        server.leave(fault.exit_code)


def tell(fault: Fault, variables: Mapping[str, str]) -> None:
    """Hands a fault to replay, by whichever way it listens."""
    if "REPLAY_SOCKET" in variables:
        import socket

        connection = socket.socket(fileno=server.descriptor(variables))
        server.greet_with_fault(connection, fault)
    elif variables.get("REPLAY_ANSWER"):
        Answer(error=fault).write(Path(variables["REPLAY_ANSWER"]))
