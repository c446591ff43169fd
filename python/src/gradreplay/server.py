"""A server that imports once and forks for each replay, over the socket that replay hands it.

A child is forked before any device or thread pool is there, replays and ends: revisions share the
preloaded modules and nothing else, and walls stand between a child and all other processes. For a series
it takes the socket over, and makes replays of its tree until it is told to end.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from . import environment, walls
from .faults import Blame, Fault, Place, judge
from .notes import said
from .protocol import VERSION, Answer, Run, check_version, fault_as_json, from_message
from .run import Harness, replay

# Most of one message: far more than paths need, and no endless line fills the memory.
_LONGEST_LINE = 1 << 20
# What frameworks import when they first compute: each replay would do so again, PyTorch's in 0.7 s.
_IMPORTED_LATE = {
    "torch": "torch.fx.experimental.symbolic_shapes",
    "triton": "triton.compiler.code_generator",
    "jax": "jax.experimental.multihost_utils",
    "jaxlib": "jaxlib.mlir.dialects.mhlo",
}
# What they import when they first compute in a twin, PyTorch in 1.4 s: once one is asked for.
_IMPORTED_BY_TWINS = {"torch": "torch._dynamo"}


def descriptor(variables: Mapping[str, str]) -> int:
    """The descriptor of the socket that replay names."""
    try:
        return int(variables["REPLAY_SOCKET"])
    except ValueError as error:
        named = variables["REPLAY_SOCKET"]
        raise Blame("environment", f"REPLAY_SOCKET is `{named}`, no descriptor") from error


def serve(harness: Harness, program: Path | None, variables: Mapping[str, str]) -> NoReturn:
    """Imports what is to be preloaded, greets replay and makes its replays until the socket closes."""
    connection = socket.socket(fileno=descriptor(variables))
    connection.set_inheritable(False)
    randomness = environment.Randomness()
    fault = preload(variables.get("REPLAY_PRELOAD", ""), variables)
    if fault is not None:
        greet_with_fault(connection, fault)
        sys.exit(fault.exit_code)
    send(connection, hello=VERSION, identity=environment.identity(), notes=said())
    why_not = environment.why_not_fork()
    # What is there now is shared by all children; collecting it would copy it.
    gc.collect()
    gc.freeze()
    _Server(connection, harness, program, why_not, randomness).run()
    sys.exit(0)


def preload(names: str, variables: Mapping[str, str]) -> Fault | None:
    """Imports modules, comma separated; a module that cannot be imported is a fault of the environment."""
    name = ""
    try:
        check_version(variables)
        for name in filter(None, (item.strip() for item in names.split(","))):
            importlib.import_module(name)
        _import_late_modules(_IMPORTED_LATE)
    except Exception as error:
        fault = judge(error, Place())
        if isinstance(error, Blame):
            return fault
        hint = (
            fault.hint
            or f"`{name}` stands in `preload`: does `import {name}` work in {sys.executable}?"
        )
        return Fault(
            "environment", f"cannot preload `{name}`: {fault.message}", fault.traceback, hint
        )
    return None


def _import_late_modules(by_framework: Mapping[str, str]) -> None:
    for framework, module in by_framework.items():
        if framework not in sys.modules or module in sys.modules:
            continue
        try:
            importlib.import_module(module)
        except Exception:
            # Another version may have no such module; a replay that lacks something tells what.
            continue


def greet_with_fault(connection: socket.socket, fault: Fault) -> None:
    """Says that no replay can be made, and why."""
    send(connection, hello=VERSION, error=fault_as_json(fault))


def send(connection: socket.socket, **message: Any) -> None:
    """Sends one message; a replay that has gone away is found out by reading."""
    try:
        connection.sendall(json.dumps(message).encode() + b"\n")
    except (BrokenPipeError, ConnectionResetError):
        pass


class _Server:
    """The loop: messages in, children out, and word of each that ends."""

    def __init__(
        self,
        connection: socket.socket,
        harness: Harness,
        program: Path | None,
        why_not: str | None,
        randomness: environment.Randomness,
    ) -> None:
        self._connection = connection
        self._harness = harness
        self._program = program
        self._why_not = why_not
        self._randomness = randomness
        self._events = selectors.DefaultSelector()
        self._events.register(connection, selectors.EVENT_READ)
        # A child's end is a byte on a pipe that only the child holds open: no signals, no polling.
        self._children: dict[int, tuple[Run, int]] = {}
        self._buffer = b""

    def run(self) -> None:
        while True:
            for key, _ in self._events.select():
                if key.fileobj is self._connection:
                    if not self._read():
                        self._stop()
                        return
                else:
                    self._reap(key.fd)

    def _read(self) -> bool:
        """Works what has been sent; False when replay has gone away."""
        try:
            received = self._connection.recv(65536)
        except ConnectionResetError:
            return False
        if not received:
            return False
        *lines, self._buffer = (self._buffer + received).split(b"\n")
        if len(self._buffer) > _LONGEST_LINE:
            return False
        for line in filter(None, lines):
            self._work(line)
        return True

    def _work(self, line: bytes) -> None:
        try:
            message = json.loads(line)
            if "end" in message:
                # A child whose end crossed this message.
                return
            run = from_message(message["run"])
        except (ValueError, TypeError, KeyError, Blame) as error:
            said = str(error) if isinstance(error, Blame) else line[:200].decode(errors="replace")
            send(self._connection, unknown=said)
            return
        if not run.fork:
            self._replay_here(run)
        elif why_not := self._why_not or (None if run.writable is None else walls.why_not_enter()):
            send(self._connection, cannot_fork=run.id, why=why_not)
        else:
            if run.request.precision != "native":
                _import_late_modules(_IMPORTED_BY_TWINS)
            self._fork(run)

    def _fork(self, run: Run) -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError as error:
            send(self._connection, cannot_fork=run.id, why=f"fork: {error.strerror}")
            return
        if pid == 0:
            self._child(run)
        # Set on both sides: neither has to wait until the other has.
        try:
            os.setpgid(pid, pid)
        except (PermissionError, ProcessLookupError):
            pass
        ended = os.pidfd_open(pid)
        self._children[ended] = (run, pid)
        self._events.register(ended, selectors.EVENT_READ)
        if run.series:
            # The child listens now, and says itself that it has started.
            self._events.unregister(self._connection)
        else:
            send(self._connection, started=run.id, pid=pid)

    def _child(self, run: Run) -> NoReturn:
        code = 1
        try:
            os.setpgid(0, 0)
            for ended in self._children:
                os.close(ended)
            self._events.close()
            fault = _enclose(run)
            if fault is not None:
                code = fault.exit_code
                if run.request.answer is not None:
                    Answer(error=fault).write(run.request.answer)
            elif run.series:
                code = self._make_series(run)
            else:
                self._connection.close()
                self._randomness.begin()
                code = replay_run(self._harness, run, self._program)
        except BaseException as error:
            # Nothing of the server's may run on in a child.
            sys.stderr.write(f"{error!r}\n")
        finally:
            leave(code)

    def _make_series(self, run: Run | None) -> int:
        """Makes replays until it is told to end, or replay goes away."""
        code = 0
        while run is not None:
            self._randomness.begin()
            send(self._connection, started=run.id, pid=os.getpid())
            code = replay_run(self._harness, run, self._program)
            flush()
            send(self._connection, made=run.id, exit=code)
            run = self._next_run()
        return code

    def _next_run(self) -> Run | None:
        """The next replay of a series."""
        while b"\n" not in self._buffer:
            try:
                received = self._connection.recv(65536)
            except ConnectionResetError:
                return None
            if not received or len(self._buffer) > _LONGEST_LINE:
                return None
            self._buffer += received
        line, _, self._buffer = self._buffer.partition(b"\n")
        message = json.loads(line)
        return from_message(message["run"]) if "run" in message else None

    def _reap(self, ended: int) -> None:
        run, pid = self._children.pop(ended)
        self._events.unregister(ended)
        os.close(ended)
        # Not reaped yet, the child keeps its number: what it left in its group can be ended safely.
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        _end_group(pid)
        _, status = os.waitpid(pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if code < 0:
            send(self._connection, done=run.id, signal=-code)
        else:
            send(self._connection, done=run.id, exit=code)
        if run.series:
            self._events.register(self._connection, selectors.EVENT_READ)

    def _replay_here(self, run: Run) -> NoReturn:
        if run.series:
            code = self._make_series(run)
            send(self._connection, done=run.id, exit=code)
            leave(0)
        send(self._connection, started=run.id, pid=os.getpid())
        code = replay_run(self._harness, run, self._program)
        flush()
        send(self._connection, done=run.id, exit=code)
        leave(0)

    def _stop(self) -> None:
        for _, pid in self._children.values():
            _end_group(pid)


def _enclose(run: Run) -> Fault | None:
    """Puts this process behind the walls of `run`; a fault if the system refuses them."""
    if run.writable is None:
        return None
    try:
        walls.enter(run.writable)
    except OSError as error:
        hint = "`replay doctor` says what this system has; --sandbox=off does without"
        return Fault("environment", f"cannot put a replay behind walls: {error.strerror}", "", hint)
    return None


def _end_group(pid: int) -> None:
    try:
        os.killpg(pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass


def replay_run(harness: Harness, run: Run, program: Path | None) -> int:
    """Makes the replay of a message, with its streams, variables and scratch folder in place."""
    for stream, path, flags in (
        (0, Path(os.devnull), os.O_RDONLY),
        (1, run.stdout, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        (2, run.stderr, os.O_WRONLY | os.O_CREAT | os.O_APPEND),
    ):
        opened = os.open(path, flags, 0o644)
        os.dup2(opened, stream)
        os.close(opened)
    os.environ.update(run.request.environment())
    for name in ("REPLAY_SOCKET", "REPLAY_PRELOAD"):
        os.environ.pop(name, None)
    if run.tmp is not None:
        os.environ["TMPDIR"] = os.fspath(run.tmp)
        tempfile.tempdir = None
    return replay(harness, run.request, program)


def flush() -> None:
    """Writes what the program has printed; a full disk or a closed pipe is not its fault."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            pass


def leave(code: int) -> NoReturn:
    """Ends the process at once: threads and handlers of libraries cannot keep it."""
    flush()
    os._exit(code)
