"""Projects that replay programs as replay does."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from replay import Project, Server


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


def need(module: str) -> None:
    """Skips where a framework is missing; fails if all of them are said to be there."""
    if importlib.util.find_spec(module) is None:
        if os.environ.get("GRADREPLAY_ALL_FRAMEWORKS"):
            pytest.fail(f"{module} is missing")
        pytest.skip(f"{module} is not installed")
