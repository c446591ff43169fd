"""The plugin of pytest: in a pytest of its own, or on replays that are made up."""

from __future__ import annotations

import importlib.metadata
import os
import runpy
import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from demo import Demo

from gradreplay import pytest_plugin

pytest_plugins = ["pytester"]

PACKAGE = Path(__file__).parents[1] / "src"


@pytest.fixture
def demo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """The repository, with the plugin installed by its entry point."""
    if "REPLAY" not in os.environ:
        pytest.skip("REPLAY names no program")
    demo = Demo(pytester.path)
    pytester.makeini("[pytest]\n")
    site = pytester.path / "site"
    metadata = site / "gradreplay_of_this_test-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: gradreplay-of-this-test\nVersion: 0\n")
    pyproject = (PACKAGE.parents[1] / "pyproject.toml").read_text()
    entry = pyproject.split("[project.entry-points.pytest11]")[1].split("\n\n")[0]
    (metadata / "entry_points.txt").write_text("[pytest11]" + entry.replace('"', ""))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(map(str, (site, PACKAGE))))
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    for name in ("CI", "TF_BUILD", "REPLAY_UPDATE", "PYTEST_ADDOPTS"):
        monkeypatch.delenv(name, raising=False)
    return demo


def run(pytester: pytest.Pytester, *words: str) -> pytest.RunResult:
    return pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words)


def test_fixtures_are_collected_and_replayed_where_it_is_asked_for(
    pytester: pytest.Pytester, demo: Demo
) -> None:
    run(pytester, "fixtures").assert_outcomes()
    listed = run(pytester, "--replay", "--collect-only", "-q", "fixtures").stdout
    listed.fnmatch_lines(["fixtures/step0/fixture.toml::step0"])
    run(pytester, "--replay", "-q", "fixtures/step0").assert_outcomes(passed=1)


def test_a_difference_fails_with_the_report_and_no_traceback(
    pytester: pytest.Pytester, demo: Demo
) -> None:
    words = ("--replay", "--replay-rev=v2", "--replay-against=v0", "fixtures")
    result = run(pytester, *words)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["* replay step0 *", "step0 at *Scale by 2.5f", "*y  diverged: wrong*"]
    )
    result.stdout.fnmatch_lines(["FAILED *fixture.toml::step0 - Failed: diverged: y (wrong)"])
    assert "pytest_plugin.py" not in result.stdout.str()


def test_a_test_checks_fixtures_by_name_and_writes_their_pages(
    pytester: pytest.Pytester, demo: Demo
) -> None:
    pytester.makepyfile(
        """
        def test_step0(replay):
            result = replay.check("fixtures/step0", rev="v1", against="v0")
            assert result.replays[0].verdict == "identical"
            replay.check("fixtures/step0", rev="v2", against="v0")
        """
    )
    result = run(pytester, "-n", "2", "--replay-report", "pages", "--junitxml=junit.xml")
    result.assert_outcomes(failed=1)
    name = next((pytester.path / "pages").glob("*-2.html"))
    assert "<title>" in name.read_text()
    result.stdout.fnmatch_lines(["diverged: y (wrong)", f"page: {name}"])
    assert str(name) in (pytester.path / "junit.xml").read_text()


def test_update_accepts_what_differs_and_what_is_new_but_no_failure(
    pytester: pytest.Pytester, demo: Demo
) -> None:
    snapshots = pytester.path / "snapshots"
    snapshots.mkdir()
    other = pytester.path / "other/step0"
    shutil.copytree(demo.fixture, other)
    result = run(pytester, "--replay", "--replay-update", "fixtures", "other")
    result.assert_outcomes(passed=1, failed=1)
    (snapshot,) = snapshots.iterdir()
    result.stdout.fnmatch_lines(
        [
            f"error: {demo.fixture} and {other} have the same snapshot, {snapshot}",
            "hint: rename one of the two folders",
        ]
    )
    accepted = snapshot.read_text()
    demo.write("3.0f")
    result = run(pytester, "--replay", "fixtures")
    result.assert_outcomes(failed=1)
    assert snapshot.read_text() == accepted
    words = ("--replay", "--replay-update", "fixtures")
    run(pytester, *words, "--replay-against=v0").assert_outcomes(failed=1)
    assert snapshot.read_text() == accepted
    run(pytester, *words).assert_outcomes(passed=1)
    accepted, before = snapshot.read_text(), accepted
    assert accepted != before
    demo.write("(0.0f / 0.0f)")
    result = run(pytester, *words)
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["failed: non-finite: y has 8 NaN *"])
    assert snapshot.read_text() == accepted


def test_what_cannot_be_tested_fails(
    pytester: pytest.Pytester, demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    (pytester.path / "snapshots").mkdir()
    monkeypatch.setenv("CI", "1")
    result = run(pytester, "--replay", "fixtures")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*snapshot*"])
    result = run(pytester, "--replay", "--replay-rev=nowhere", "fixtures")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["error: unknown revision `nowhere`"])


def test_without_the_plugin_there_is_nothing_of_it(pytester: pytest.Pytester, demo: Demo) -> None:
    result = run(pytester, "-p", "no:gradreplay.pytest_plugin", "--replay", "fixtures")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --replay*"])


def test_the_plugin_may_be_named_beside_its_entry_point(
    pytester: pytest.Pytester, demo: Demo
) -> None:
    result = run(pytester, "-p", "gradreplay.pytest_plugin", "--collect-only", "--replay")
    result.stdout.fnmatch_lines(["*step0*"])


TAKEN = (
    "*gradreplay.pytest_plugin and another plugin, such as pytest-replay, both have an option --replay; "
    "choose one by -p no:gradreplay.pytest_plugin or -p no:replay"
)


def test_another_plugin_with_the_option_is_named(pytester: pytest.Pytester, demo: Demo) -> None:
    option = "parser.getgroup('replay').addoption('--replay')"
    pytester.makepyfile(pytest_replay=f"def pytest_addoption(parser): {option}")
    result = run(pytester, "-p", "pytest_replay")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([TAKEN])


def test_pytest_replay_is_named_before_it_is_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", raising=False)
    entry = importlib.metadata.EntryPoint("replay", "pytest_replay", "pytest11")
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: [entry])
    manager = pytest.PytestPluginManager()
    with pytest.raises(pytest.UsageError, match="such as pytest-replay"):
        pytest_plugin.pytest_addoption(None, manager)
    manager.set_blocked("replay")
    assert not pytest_plugin.loads_pytest_replay(manager)


def test_an_old_pytest_is_told_which_version_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(pytest, "StashKey")
    with pytest.raises(pytest.UsageError, match="needs pytest 7 or later.* by -p no:gradreplay"):
        runpy.run_path(pytest_plugin.__file__, run_name="gradreplay.pytest_plugin_of_old")


@dataclass
class Result:
    """A result that is made up."""

    text: str = "identical: the same bits"
    ok: bool = True
    page: str | None = None
    replays: tuple[Any, ...] = ()

    def __str__(self) -> str:
        return self.text


class Config(SimpleNamespace):
    """The part of pytest's configuration that the plugin reads, with its options."""

    def __init__(self, root: Path, **given: Any) -> None:
        names = ("rev", "against", "backend", "report", "update")
        self.given = {f"replay_{name}": given.get(name) for name in names}
        invocation = SimpleNamespace(dir=root)
        super().__init__(rootpath=root, stash=pytest.Stash(), invocation_params=invocation)

    def getoption(self, name: str, default: Any = None) -> Any:
        return self.given.get(name, default)


@dataclass
class Program:
    """Stands for `gradreplay.replay`: answers by the last folder's name, and keeps what was asked."""

    results: dict[str, Result] = field(default_factory=dict)
    asked: list[tuple[list[Path], dict[str, Any]]] = field(default_factory=list)

    def __call__(self, paths: list[Path], **options: Any) -> Result:
        self.asked.append((paths, options))
        return self.results.get(paths[-1].name, Result())


@pytest.fixture
def program(monkeypatch: pytest.MonkeyPatch) -> Program:
    program = Program()
    monkeypatch.setattr("gradreplay.api.replay", program)
    return program


def make_fixture(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    (folder / "fixture.toml").touch()
    return folder


def checker(config: Config, nodeid: str = "test_a.py::test_a") -> pytest_plugin.Checker:
    node = SimpleNamespace(
        config=config, stash=pytest.Stash(), nodeid=nodeid, user_properties=list[Any]()
    )
    return pytest_plugin.Checker(node)


def test_a_check_takes_the_options_of_replay(tmp_path: Path, program: Program) -> None:
    a, b = (make_fixture(tmp_path, name) for name in ("a", "b"))
    config = Config(tmp_path, rev="v1", against="v0", backend="cuda", update=True)
    checker(config).check(
        ["a", b],
        rev=None,
        check="off",
        snapshots="snapshots",
        dump="dump",
        update="no",
        page=True,
        backend="cpu",
    )
    checker(config).check(("a",), update="new", against=None, culprit=True, snapshot=True)
    ((paths, first), (_, second)) = program.asked
    assert paths == [a, b]
    assert first == {
        "rev": None,
        "against": "v0",
        "culprit": False,
        "check": "off",
        "snapshot": False,
        "snapshots": tmp_path / "snapshots",
        "dump": tmp_path / "dump",
        "update": "no",
        "page": True,
        "backend": "cpu",
    }
    assert (second["rev"], second["against"], second["backend"]) == ("v1", None, "cuda")
    assert (second["update"], second["culprit"], second["snapshot"]) == ("new", True, True)


def test_a_failure_begins_with_the_verdict_and_names_the_line(
    tmp_path: Path, program: Program
) -> None:
    make_fixture(tmp_path, "a")
    text = "a at v1\n\nuntestable: it does not compile\n  see the log\nhint: the whole log: x"
    program.results["a"] = Result(text, ok=False)
    line = sys._getframe().f_lineno + 2
    with pytest.raises(pytest.fail.Exception) as failure:
        checker(Config(Path(__file__).parent)).check(tmp_path / "a")
    place = f"{Path(__file__).name}:{line}: in this check"
    assert failure.value.msg == f"untestable: it does not compile\n\n{text}\n\n{place}"


def test_an_absent_fixture_is_told_with_the_root_folder(tmp_path: Path, program: Program) -> None:
    with pytest.raises(pytest.fail.Exception) as failure:
        checker(Config(tmp_path)).check("a")
    assert failure.value.msg.startswith(
        f"error: there is no fixture {tmp_path}/a\n"
        f"hint: relative paths begin at pytest's rootdir, {tmp_path}; "
        "a pytest.ini makes its folder the rootdir of the tests below\n"
    )


def replay_of(
    snapshot: str | None = "diverged", verdict: str = "diverged", **others: Any
) -> SimpleNamespace:
    """A replay by what an update looks at."""
    parts = {"failures": (), "orders": (), "oracle": (), "gradients": (), "against": None}
    check = None
    if snapshot is not None:
        check = SimpleNamespace(verdict=snapshot, path="step.snap", launches_changed=False)
    return SimpleNamespace(verdict=verdict, snapshot=check, **{**parts, **others})


def judged(verdict: str) -> SimpleNamespace:
    return SimpleNamespace(verdict=verdict)


@pytest.mark.parametrize(
    ("replay", "is_accepted"),
    [
        (replay_of(), True),
        (replay_of("stale", "stale"), True),
        (replay_of("missing", "missing"), True),
        (replay_of("new", "new"), True),
        (replay_of("equivalent", "equivalent"), True),
        (replay_of(against=judged("identical"), gradients=[judged("unknown")]), True),
        (replay_of("matches", "identical"), False),
        (replay_of(None, "completed"), False),
        (replay_of(verdict="failed", failures=["NaN"]), False),
        # Of an access that is wrong.
        (replay_of(verdict="failed"), False),
        (replay_of("new", "diverged", against=judged("diverged")), False),
        (replay_of(against=judged("diverged")), False),
        (replay_of("stale", "stale", against=judged("untestable")), False),
        (replay_of(oracle=[judged("diverged")]), False),
        (replay_of(gradients=[judged("mismatch")]), False),
        (replay_of(orders=["y"]), False),
    ],
)
def test_an_outcome_is_accepted_where_only_its_snapshot_complains(
    replay: SimpleNamespace, is_accepted: bool
) -> None:
    assert pytest_plugin.is_to_accept(replay) is is_accepted


def test_an_update_of_several_fixtures_accepts_those_that_are_in_order(
    tmp_path: Path, program: Program
) -> None:
    for name, replay in (("a", replay_of()), ("b", replay_of(verdict="failed"))):
        replay.snapshot.path = str(tmp_path / f"{name}.snap")
        make_fixture(tmp_path, f"all/rank0/{name}")
        program.results[name] = Result(replays=(replay,))
    make_fixture(tmp_path, "all/.hidden/c")
    make_fixture(tmp_path, "all/harness/d")
    (tmp_path / "all/harness/replay.toml").touch()
    checker(Config(tmp_path, update=True)).check("all")
    folder = tmp_path / "all/rank0"
    assert [(paths, options["update"]) for paths, options in program.asked] == [
        ([folder / "a"], "no"),
        ([folder / "b"], "no"),
        ([folder / "a"], "always"),
        ([tmp_path / "all"], "no"),
    ]


def test_the_page_of_each_test_has_a_short_name_of_its_own(
    tmp_path: Path, program: Program
) -> None:
    assert pytest_plugin.page_name("a/step0/fixture.toml::step0").startswith("a-step0-")
    names = ["t.py::test[x/1]", "t.py::test[x-1]", "ä" * 300, "ä" * 301]
    pages = {pytest_plugin.page_name(name) for name in names}
    assert len(pages) == len(names)
    assert max(len(page.encode()) for page in pages) <= 109
    make_fixture(tmp_path, "a")
    program.results["a"] = Result(page="<p>ä</p>")
    config = Config(tmp_path, report="pages")
    pytest_plugin.pytest_configure(config)
    checker(config, names[2]).check("a")
    (page,) = (tmp_path / "pages").iterdir()
    assert page.read_text(encoding="utf-8") == "<p>ä</p>"


def test_a_file_in_place_of_the_folder_of_pages_is_refused_once(tmp_path: Path) -> None:
    (tmp_path / "pages").touch()
    with pytest.raises(pytest.UsageError) as error:
        pytest_plugin.pytest_configure(Config(tmp_path, report="pages"))
    assert str(error.value) == (
        f"--replay-report: cannot make the folder {tmp_path}/pages: File exists"
    )
