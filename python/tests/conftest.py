"""Projects that replay programs as replay does."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from replay import Project, Server

# Triton's own library is decorated at its first import in a process, for the interpreter or for a GPU.
os.environ["TRITON_INTERPRET"] = "1"


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path)


@pytest.fixture
def servers() -> Iterator[list[Server]]:
    """Servers that are stopped when the test has ended."""
    started: list[Server] = []
    yield started
    for server in started:
        if server.process.poll() is None:
            server.process.kill()
        server.file.close()
        server.socket.close()
        server.process.wait()
