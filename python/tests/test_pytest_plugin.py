"""The plugin of pytest, each time in a pytest of its own."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from demo import Demo

pytest_plugins = ["pytester"]
pytestmark = pytest.mark.skipif("REPLAY" not in os.environ, reason="REPLAY names no program")

PACKAGE = Path(__file__).parents[1] / "src"


@pytest.fixture
def demo(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> Demo:
    """The repository, with the plugin installed by its entry point."""
    demo = Demo(pytester.path)
    pytester.makeini("[pytest]\n")
    site = pytester.path / "site"
    metadata = site / "gradreplay_of_this_test-0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Name: gradreplay-of-this-test\nVersion: 0\n")
    entry = "[pytest11]\nreplay = gradreplay.pytest_plugin\n"
    (metadata / "entry_points.txt").write_text(entry)
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


def test_update_accepts_what_differs_and_what_is_new(pytester: pytest.Pytester, demo: Demo) -> None:
    snapshots = pytester.path / "snapshots"
    snapshots.mkdir()
    run(pytester, "--replay", "--replay-update", "fixtures").assert_outcomes(passed=1)
    (snapshot,) = snapshots.iterdir()
    accepted = snapshot.read_text()
    demo.write("3.0f")
    result = run(pytester, "--replay", "fixtures")
    result.assert_outcomes(failed=1)
    assert snapshot.read_text() == accepted
    run(pytester, "--replay", "--replay-update", "fixtures").assert_outcomes(passed=1)
    assert snapshot.read_text() != accepted
    run(pytester, "--replay", "fixtures").assert_outcomes(passed=1)


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
    result = run(pytester, "-p", "no:replay", "--replay", "fixtures")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unrecognized arguments: --replay*"])
