"""pytest's plugin `replay`: fixtures are tests, by `pytest --replay` or by the fixture `replay`.

def test_step0(replay):
    replay.check("fixtures/step0")

A test fails with the report as its text. What cannot be tested fails as well: a skipped test looks like a
good one.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from .errors import ReplayError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .api import Options
    from .documents import Replays

MANIFEST = "fixture.toml"
PAGES = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of which begin with `--replay`."""
    group = parser.getgroup("replay", "replays of captured training steps")
    group.addoption(
        "--replay",
        action="store_true",
        dest="replay_collect",
        help=f"collect fixtures as tests: folders with a {MANIFEST}",
    )
    for name, metavar, text in (
        ("rev", "REV", "the revision that is replayed [default: the working tree]"),
        ("against", "REV", "a revision that is trusted, to compare with"),
        ("backend", "DEVICE", "where kernels run: cpu, cuda or cuda:N"),
        ("report", "DIR", "write the page of each replay to this folder"),
    ):
        group.addoption(f"--replay-{name}", metavar=metavar, help=text)
    group.addoption(
        "--replay-update",
        action="store_true",
        help="accept what differs from its snapshot, or has none",
    )


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> FixtureFile | None:
    """A fixture, where `--replay` asks for them."""
    if parent.config.getoption("replay_collect") and file_path.name == MANIFEST:
        file: FixtureFile = FixtureFile.from_parent(parent, path=file_path)
        return file
    return None


class FixtureFile(pytest.File):
    """The `fixture.toml` of a fixture."""

    def collect(self) -> Iterable[FixtureItem]:
        """The one test that it is."""
        yield FixtureItem.from_parent(self, name=self.path.parent.name)


class FixtureItem(pytest.Item):
    """The replay of a fixture."""

    def runtest(self) -> None:
        """Replays it."""
        Checker(self).check(self.path.parent)

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Its place, and its name in reports."""
        return self.path, None, f"replay {self.name}"


@pytest.fixture
def replay(request: pytest.FixtureRequest) -> Checker:
    """Replays fixtures: `replay.check("fixtures/step0")`."""
    return Checker(request.node)


class Checker:
    """Replays fixtures for one test."""

    def __init__(self, node: pytest.Item) -> None:
        self._node = node

    def check(
        self,
        fixture: str | os.PathLike[str],
        *,
        rev: str | None = None,
        against: str | None = None,
        **options: Unpack[Options],
    ) -> Replays:
        """Replays a fixture, or a folder of them, and fails the test unless all is well.

        A relative path begins at pytest's root folder. The options are those of
        :func:`gradreplay.replay`; what is not given comes from the command line."""
        config = self._node.config
        path = config.rootpath / fixture
        rev = rev or config.getoption("replay_rev")
        against = against or config.getoption("replay_against")
        if backend := config.getoption("replay_backend"):
            options.setdefault("backend", backend)
        options["page"] = _wants_pages(config)
        result = self._replay(path, rev, against, options)
        if isinstance(result, ReplayError):
            pytest.fail(f"error: {result}", pytrace=False)
        line = "" if result.page is None else self._attach(result.page)
        if not result.ok:
            # pytest's summary has the first line alone, and the report ends with its verdict.
            text = str(result)
            pytest.fail(f"{text.splitlines()[-1]}\n\n{text}{line}", pytrace=False)
        return result

    def _replay(
        self, path: Path, rev: str | None, against: str | None, options: Options
    ) -> Replays | ReplayError:
        from .api import replay

        update: Literal["always"] | None = None
        if self._node.config.getoption("replay_update"):
            update = "always"
        try:
            result = replay(path, rev=rev, against=against, update=update, **options)
            accepted = [one for one in result.replays if one.snapshot and one.snapshot.written]
            if update and accepted and not result.ok:
                # The exit code is that of the difference, which is accepted by then.
                return replay(path, rev=rev, against=against, update="no", **options)
        except ReplayError as error:
            # An exception raised from here would be shown below this one.
            return error
        return result

    def _attach(self, page: str) -> str:
        """Keeps a page for pytest-html, and writes it where the user wants it; returns a line about it."""
        pages = self._node.stash.setdefault(PAGES, [])
        pages.append(page)
        folder = self._node.config.getoption("replay_report")
        if not folder:
            return ""
        number = f"-{len(pages)}" if len(pages) > 1 else ""
        name = re.sub(r"[^\w.-]+", "-", self._node.nodeid.removesuffix(f"/{MANIFEST}"))
        target = self._node.config.invocation_params.dir / folder / f"{name}{number}.html"
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(page)
        self._node.user_properties.append(("replay_report", str(target)))
        return f"\n\npage: {target}"


def _wants_pages(config: pytest.Config) -> bool:
    return bool(config.getoption("replay_report") or config.getoption("htmlpath", None))


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, Any, None]:
    """Gives pages to pytest-html."""
    outcome = yield
    pages = item.stash.get(PAGES, [])
    if call.when != "call" or not pages or not item.config.getoption("htmlpath", None):
        return
    import pytest_html  # type: ignore[import-not-found,import-untyped,unused-ignore]

    from .report import framed

    report = outcome.get_result()
    extras = [pytest_html.extras.html(framed(page)) for page in pages]
    report.extras = [*getattr(report, "extras", []), *extras]
