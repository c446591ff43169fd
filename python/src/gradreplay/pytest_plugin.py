"""A plugin of pytest: fixtures are tests, by `pytest --replay` or by the fixture `replay`.

def test_step0(replay):
    replay.check("fixtures/step0")

A test fails with the report as its text. What cannot be tested fails as well: a skipped test looks like a
good one.
"""

from __future__ import annotations

import argparse
import enum
import hashlib
import importlib.metadata
import os
import re
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest

from .errors import ErrorText, ReplayError

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from .api import AnyPath, Check, Fixtures, Options, Update
    from .documents import Replay, Replays

WITHOUT = "-p no:gradreplay.pytest_plugin"
if not hasattr(pytest, "StashKey"):
    raise pytest.UsageError(
        f"gradreplay.pytest_plugin needs pytest 7 or later, and this is {pytest.__version__}; "
        f"pytest runs without it by {WITHOUT}"
    )

MANIFEST = "fixture.toml"
PAGES = pytest.StashKey[list[str]]()
# The fixture of each snapshot that an update saw. Each worker of pytest-xdist has its own.
OWNERS = pytest.StashKey[dict[Path, Path]]()


class Source(enum.Enum):
    """Where an argument comes from that was not given."""

    OPTION = "the command line"


FromOption = Literal[Source.OPTION]


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """The options, all of which begin with `--replay`."""
    taken = pytest.UsageError(
        "gradreplay.pytest_plugin and another plugin, such as pytest-replay, both have an option --replay; "
        f"choose one by {WITHOUT} or -p no:replay"
    )
    if loads_pytest_replay(pluginmanager):
        raise taken
    group = parser.getgroup("replay", "replays of captured training steps")
    try:
        group.addoption(
            "--replay",
            action="store_true",
            dest="replay_collect",
            help=f"collect fixtures as tests: folders with a {MANIFEST}",
        )
    except (ValueError, argparse.ArgumentError) as error:
        raise taken from error
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


def pytest_configure(config: pytest.Config) -> None:
    """Makes the folder of `--replay-report`."""
    if folder := _report_folder(config):
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise pytest.UsageError(
                f"--replay-report: cannot make the folder {folder}: {error.strerror}"
            ) from error


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
        Checker(self)._run([self.path.parent], place=None)

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
        fixture: Fixtures,
        *,
        rev: str | None | FromOption = Source.OPTION,
        against: str | None | FromOption = Source.OPTION,
        culprit: bool = False,
        check: Check | None = None,
        snapshot: bool = False,
        snapshots: AnyPath | None = None,
        dump: AnyPath | None = None,
        update: Update | None = None,
        **options: Unpack[Options],
    ) -> Replays:
        """Replays fixtures, or a folder of them, and fails the test unless all is well.

        Relative paths begin at pytest's root folder. The options are those of :func:`gradreplay.replay`;
        those not given come from the command line. `rev=None` is the working tree, and
        `against=None` compares with no revision."""
        root = self._node.config.rootpath
        caller = sys._getframe(1)
        return self._run(
            [root / path for path in _listed(fixture)],
            place=f"{_shown(self._node.config, caller.f_code.co_filename)}:{caller.f_lineno}",
            rev=rev,
            against=against,
            culprit=culprit,
            check=check,
            snapshot=snapshot,
            snapshots=None if snapshots is None else root / snapshots,
            dump=None if dump is None else root / dump,
            update=update,
            **options,
        )

    def _run(
        self,
        paths: list[Path],
        *,
        place: str | None,
        rev: str | None | FromOption = Source.OPTION,
        against: str | None | FromOption = Source.OPTION,
        update: Update | None = None,
        **options: Any,
    ) -> Replays:
        """Replays fixtures for a check in line `place` of a test."""
        config = self._node.config
        if backend := config.getoption("replay_backend"):
            options.setdefault("backend", backend)
        options.setdefault("page", _wants_pages(config))
        options["rev"] = config.getoption("replay_rev") if rev is Source.OPTION else rev
        options["against"] = (
            config.getoption("replay_against") if against is Source.OPTION else against
        )
        result = self._replay(paths, update, options)
        where = f"\n\n{place}: in this check" if place else ""
        if isinstance(result, ReplayError):
            pytest.fail(f"error: {result}{where}", pytrace=False)
        page = "" if result.page is None else self._attach(result.page)
        if not result.ok:
            # pytest's summary has the first line alone.
            text = str(result)
            pytest.fail(f"{verdict_line(text)}\n\n{text}{where}{page}", pytrace=False)
        return result

    def _replay(
        self, paths: list[Path], update: Update | None, options: dict[str, Any]
    ) -> Replays | ReplayError:
        from .api import replay

        def replay_with(paths: list[Path], update: Update | None) -> Replays:
            return replay(paths, update=update, **options)

        try:
            self._require(paths)
            if update is None and self._node.config.getoption("replay_update"):
                return self._update(paths, replay_with)
            return replay_with(paths, update)
        except ReplayError as error:
            # An exception raised from here would be shown below this one.
            return error

    def _require(self, paths: list[Path]) -> None:
        root = self._node.config.rootpath
        for path in paths:
            if not path.exists():
                hint = (
                    f"relative paths begin at pytest's rootdir, {root}; "
                    "a pytest.ini makes its folder the rootdir of the tests below"
                )
                raise ReplayError([ErrorText(f"there is no fixture {path}", hints=(hint,))])

    def _update(
        self, paths: list[Path], replay_with: Callable[[list[Path], Update | None], Replays]
    ) -> Replays:
        """Accepts the outcome of each fixture with which nothing else is wrong."""
        folders = list(_fixtures_in(paths))
        replayed = [(folder, replay_with([folder], "no")) for folder in folders]
        for folder, result in replayed:
            for one in result.replays:
                self._claim_snapshot(one, folder)
        accepted = [folder for folder, result in replayed if all(map(is_to_accept, result.replays))]
        for folder in accepted:
            replay_with([folder], "always")
        if len(replayed) == 1 and not accepted:
            return replayed[0][1]
        return replay_with(paths, "no")

    def _claim_snapshot(self, one: Replay, folder: Path) -> None:
        if one.snapshot is None:
            return
        owners = self._node.config.stash.setdefault(OWNERS, {})
        file = Path(one.snapshot.path).resolve()
        owner = owners.setdefault(file, folder.resolve())
        if owner != folder.resolve():
            raise ReplayError(
                [
                    ErrorText(
                        f"{owner} and {folder} have the same snapshot, {file}",
                        hints=("rename one of the two folders",),
                    )
                ]
            )

    def _attach(self, page: str) -> str:
        """Keeps a page for pytest-html, and writes it where the user wants it; returns a line about it."""
        pages = self._node.stash.setdefault(PAGES, [])
        pages.append(page)
        folder = _report_folder(self._node.config)
        if not folder:
            return ""
        number = f"-{len(pages)}" if len(pages) > 1 else ""
        target = folder / f"{page_name(self._node.nodeid)}{number}.html"
        target.write_text(page, encoding="utf-8")
        self._node.user_properties.append(("replay_report", str(target)))
        return f"\n\npage: {target}"


def loads_pytest_replay(manager: pytest.PytestPluginManager) -> bool:
    """Whether pytest-replay is or will be loaded by its entry point: it would fail with a traceback."""
    if os.environ.get("PYTEST_DISABLE_PLUGIN_AUTOLOAD"):
        return False
    entries = importlib.metadata.entry_points(group="pytest11")
    return any(
        entry.value == "pytest_replay" and not manager.is_blocked(entry.name) for entry in entries
    )


def verdict_line(text: str) -> str:
    """The verdict of a report: hints and details may follow it."""
    lines = [line for line in text.splitlines() if line and not line.startswith((" ", "hint:"))]
    return lines[-1] if lines else "the replay failed"


def is_to_accept(one: Replay) -> bool:
    """Whether an outcome differs from its snapshot, or has none, and nothing else is wrong with it."""
    if one.snapshot is None:
        return False
    others = [check.verdict for check in one.oracle]
    if one.against is not None:
        others.append(one.against.verdict)
    is_bad = one.verdict in ("untestable", "missing", "stale", "diverged", "failed")
    return (
        (one.snapshot.verdict != "matches" or one.snapshot.launches_changed)
        # The verdict is the worst of all; others than the snapshot may be as bad.
        and (not is_bad or one.verdict == one.snapshot.verdict)
        and not one.failures
        and not one.orders
        and all(verdict in ("identical", "equivalent", "unchecked") for verdict in others)
        and all(check.verdict not in ("imprecise", "mismatch") for check in one.gradients)
    )


def page_name(nodeid: str) -> str:
    """The name of a test's page without its ending: short, readable, and of this test alone."""
    readable = nodeid.split(f"/{MANIFEST}::")[0]
    plain = re.sub(r"[^\w.-]+", "-", readable).encode()[-100:].decode(errors="ignore")
    return f"{plain.strip('.-')}-{hashlib.sha256(nodeid.encode()).hexdigest()[:8]}"


def _listed(fixture: Fixtures) -> list[AnyPath]:
    return [fixture] if isinstance(fixture, (str, os.PathLike)) else list(fixture)


def _fixtures_in(paths: Iterable[Path], depth: int = 5) -> Iterator[Path]:
    """The fixtures at and below paths, as the program finds them."""
    for path in paths:
        if (path / MANIFEST).exists():
            yield path
        elif depth > 0 and path.is_dir():
            yield from _fixtures_in(filter(_is_searched, sorted(path.iterdir())), depth - 1)


def _is_searched(path: Path) -> bool:
    is_harness = (path / "replay.toml").exists() and not (path / MANIFEST).exists()
    return path.is_dir() and not path.name.startswith(".") and not is_harness


def _shown(config: pytest.Config, file: str) -> str:
    return os.path.relpath(file, config.invocation_params.dir)


def _report_folder(config: pytest.Config) -> Path | None:
    folder = config.getoption("replay_report")
    return config.invocation_params.dir / folder if folder else None


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
