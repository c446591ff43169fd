"""Runs the program `replay`, which does all the work."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar, cast

from .decode import DecodeError, Decoder, decoder
from .errors import ErrorReader, ErrorText, ProgramError, ReplayError, RevisionError

T = TypeVar("T")

# Exit codes, as docs/exit-codes.md has them.
UNTESTABLE = 125
# How long an interrupted program may take for its tasks on other machines.
_END_S = 20.0


def find() -> str:
    """The program: `REPLAY` in the environment, or the one installed with this package, or that of `PATH`.

    Raises :class:`ProgramError` if there is none."""
    if named := os.environ.get("REPLAY"):
        return named
    beside = Path(sysconfig.get_path("scripts")) / "replay"
    if os.access(beside, os.X_OK):
        return str(beside)
    if found := shutil.which("replay"):
        return found
    raise ProgramError(
        "the program `replay` is not installed",
        "pip install gradreplay in this environment brings it; or put it into PATH, or name it in REPLAY",
    )


@dataclass(frozen=True)
class Run:
    """What the program left."""

    exit_code: int
    text: str
    # The files of `--report` by their endings, where they were written.
    files: Mapping[str, str]
    errors: Sequence[ErrorText]
    # The last messages, for an end that no error tells of.
    messages: Sequence[str]

    @property
    def is_answer(self) -> bool:
        """Whether its document is an answer, for all that was asked for."""
        return self.exit_code in (0, 1, UNTESTABLE)

    def failure(self) -> ReplayError:
        """The errors as an exception."""
        if self.exit_code < 0:
            ending = f"replay was ended by {_signal_name(-self.exit_code)}"
            return ReplayError([*self.errors, ErrorText(ending)], self.exit_code)
        errors = self.errors or [ErrorText("\n".join(self.messages) or "replay told nothing")]
        kind = RevisionError if self.exit_code == UNTESTABLE else ReplayError
        return kind(errors, self.exit_code)


def run(
    words: Sequence[str],
    *,
    reports: Sequence[str] = (),
    quiet: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Run:
    """Runs the program, with `--report` files of the endings `reports`.

    Its messages go to `sys.stderr` line by line, where a notebook shows them; its errors are kept."""
    with tempfile.TemporaryDirectory(prefix="gradreplay-") as folder:
        files = {ending: Path(folder, f"report.{ending}") for ending in reports}
        command = [find(), *words, *(["--quiet"] if quiet else [])]
        command += [word for file in files.values() for word in ("--report", str(file))]
        code, text, reader, messages = _watch(command, environment or {})
        written = {
            end: file.read_text("utf-8", "replace") for end, file in files.items() if file.exists()
        }
        return Run(code, text, written, reader.errors(), messages)


def _watch(
    command: Sequence[str], environment: Mapping[str, str]
) -> tuple[int, str, ErrorReader, list[str]]:
    """Exit code, standard output, errors and the last messages of a command."""
    # Escapes of colours would stand in texts.
    without = ("CLICOLOR_FORCE", "FORCE_COLOR")
    variables = {key: word for key, word in os.environ.items() if key not in without}
    try:
        with _held_interruptions() as held:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Whatever ends this process ends it, too.
                env={
                    **variables,
                    "NO_COLOR": "1",
                    "REPLAY_PARENT": str(os.getpid()),
                    **environment,
                },
                text=True,
                encoding="utf-8",
                errors="replace",
                # One interruption reaches it, whoever gets that of the terminal.
                start_new_session=True,
            )
    except OSError as error:
        raise ProgramError(
            f"cannot start {command[0]}: {error.strerror}",
            "REPLAY in the environment names the program, or a new installation of gradreplay brings it",
        ) from error
    output: list[str] = []
    assert process.stdout is not None and process.stderr is not None
    stdout = process.stdout
    reading = threading.Thread(target=lambda: output.append(stdout.read()), daemon=True)
    reading.start()
    reader, messages = ErrorReader(), list[str]()
    try:
        if held:
            signal.raise_signal(signal.SIGINT)
        for line in process.stderr:
            if not reader.takes(line.rstrip("\n")):
                messages = [*messages[-9:], line.rstrip("\n")]
                _tell(line)
        code = process.wait()
        reading.join()
    finally:
        _end(process)
        for stream in (process.stderr, stdout):
            stream.close()
    return code, "".join(output), reader, messages


@contextlib.contextmanager
def _held_interruptions() -> Iterator[list[int]]:
    """Notes Ctrl-C for the length of a block, in which a program starts that nobody could end yet."""
    held: list[int] = []
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(signal.getsignal(signal.SIGINT)):
        # Other threads are not interrupted, nor is anything where it is ignored.
        yield held
        return
    usual = signal.signal(signal.SIGINT, lambda number, _: held.append(number))
    try:
        yield held
    finally:
        signal.signal(signal.SIGINT, usual)


def _tell(line: str) -> None:
    """Passes a message on, where there is somebody to read it."""
    # A daemon has no standard error, and that of others may be closed.
    with contextlib.suppress(AttributeError, OSError, ValueError):
        sys.stderr.write(line)
        sys.stderr.flush()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def _end(process: subprocess.Popen[str]) -> None:
    """Ends a program that still runs, as Ctrl-C does; its children end with it."""
    if process.poll() is not None:
        return
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_END_S)
    except subprocess.TimeoutExpired:
        pass
    finally:
        # Does nothing where it has ended.
        process.kill()
        process.wait()


def read_document(kind: type[T], text: str) -> T:
    """The document of a type in a text of JSON.

    Raises :class:`ProgramError` if the program is of a version that this package does not know."""
    try:
        decode: Decoder = decoder(cast("Any", kind))
        value: T = decode(json.loads(text))
    except (DecodeError, ValueError) as error:
        raise ProgramError(
            f"{find()} writes other JSON than gradreplay reads: {error}",
            "install the program and the package of one version: pip install --upgrade gradreplay",
        ) from error
    return value
