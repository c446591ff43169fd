"""The commands as functions: results, errors, messages, and a program that is not as it should be."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import textwrap
import time
from dataclasses import FrozenInstanceError, dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Literal

import pytest
from demo import Demo

import gradreplay
from gradreplay.decode import DecodeError, decoder
from gradreplay.documents import Replays, SearchEvent
from gradreplay.errors import ErrorReader, ErrorText, Place, place_of
from gradreplay.report import framed

needs_replay = pytest.mark.skipif("REPLAY" not in os.environ, reason="REPLAY names no program")


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Demo:
    return Demo(tmp_path_factory.mktemp("demo"))


# The real program


@needs_replay
def test_a_result_is_typed_frozen_and_prints_as_the_program_does(demo: Demo) -> None:
    result = gradreplay.replay(demo.fixture, rev="v2", against="v0")
    (replay,) = result.replays
    assert replay.verdict == "diverged" and not result.ok and result.exit_code == 1
    assert replay.revision is not None and replay.revision.subject == "Scale by 2.5f"
    (output,) = replay.outputs
    assert output.name == "y" and [dim.size for dim in output.dims] == [8]
    words = [os.environ["REPLAY"], str(demo.fixture), "--rev=v2", "--against=v0"]
    printed = subprocess.run(words, capture_output=True, text=True).stdout
    assert str(result) == repr(result) == printed.rstrip("\n")
    with pytest.raises(FrozenInstanceError):
        replay.verdict = "identical"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(result)) == result
    assert result._repr_html_().startswith("<pre>step0 at ")


@needs_replay
def test_the_page_of_a_result_is_that_of_the_same_run(demo: Demo) -> None:
    result = gradreplay.diff(demo.fixture, "v0", "v1", page=True, quiet=True)
    assert result.diffs[0].verdict == "identical" and result.ok
    assert result.page is not None and "<title>" in result.page
    assert "<title>" not in result._repr_html_() and "&lt;title&gt;" in result._repr_html_()


@needs_replay
def test_a_notebook_gets_pages_unless_it_wants_none(
    demo: Demo, monkeypatch: pytest.MonkeyPatch
) -> None:
    notebook = type(sys)("IPython")
    shell = SimpleNamespace(kernel=object())
    notebook.get_ipython = lambda: shell  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", notebook)
    assert gradreplay.replay(demo.fixture, rev="v0", quiet=True).page is not None
    assert gradreplay.replay(demo.fixture, rev="v0", quiet=True, page=False).page is None
    # A shell of IPython in a terminal.
    del shell.kernel
    assert gradreplay.replay(demo.fixture, rev="v0", quiet=True).page is None


@needs_replay
def test_a_search_has_its_events_and_its_culprit(
    demo: Demo, capfd: pytest.CaptureFixture[str]
) -> None:
    result = gradreplay.bisect(demo.fixture, good="v0", bad=["v2"])
    assert result.culprit is not None and result.culprit.commit.subject == "Scale by 2.5f"
    assert result.concluded.conclusion == "found" and result.begun.fixtures == ("step0",)
    assert {test.answer for test in result.tested} == {"good", "bad"}
    assert "is the first bad commit" in str(result)
    # The messages of the program, as they came.
    assert "commits change a kernel" in capfd.readouterr().err


@needs_replay
def test_rows_are_a_frame_of_pandas_or_polars(demo: Demo, monkeypatch: pytest.MonkeyPatch) -> None:
    result = gradreplay.log(demo.fixture, "v0..v2", quiet=True)
    (change,) = result.changes
    for name in ("pandas", "polars"):
        stand_in = type(sys)(name)
        stand_in.DataFrame = lambda data, **_: data  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, name, stand_in)
        rows = result.to_frame(name)  # type: ignore[arg-type]
        assert rows["commit_short"] == [change.commit.short] and rows["name"] == ["y"]
        assert rows["comparison_count"] == [8] and rows["change_verdict"] == ["diverged"]
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(gradreplay.ReplayError, match="neither pandas nor polars is") as caught:
        result.to_frame()
    assert caught.value.hint == "pip install pandas"


@needs_replay
def test_inputs_and_gradients_are_results_too(demo: Demo) -> None:
    assert [one.name for one in gradreplay.inspect(demo.fixture).fixtures[0].inputs] == ["x"]
    with pytest.raises(gradreplay.ReplayError, match="declared to be a gradient") as caught:
        gradreplay.gradcheck(demo.fixture)
    assert caught.value.hint == "name its input with `gradient_of` in the harness"


@needs_replay
def test_a_cut_fixture_is_one_of_its_own(demo: Demo, tmp_path: Path) -> None:
    small = tmp_path / "small"
    result = gradreplay.shrink(demo.fixture, rev="v2", against="v0", output_dir=small)
    assert result.ok and result.answer == "cut" and result.written
    assert [(size.name, size.before, size.after) for size in result.sizes] == [("n", 8, 1)]
    assert str(result).startswith("step0 at ") and result.page is None
    assert gradreplay.load_fixture(small).inputs["x"].shape == (1,)
    with pytest.raises(gradreplay.ReplayError, match="exists and is left as it is") as caught:
        gradreplay.shrink(demo.fixture, rev="v2", against="v0", output_dir=small)
    assert caught.value.hint == "name another folder: -o DIR"


@needs_replay
def test_an_error_has_kind_hint_and_place_and_the_results_of_others(
    demo: Demo, tmp_path: Path
) -> None:
    (tmp_path / "fixture.toml").write_text('harnes = "replay.toml"\n')
    with pytest.raises(gradreplay.ReplayError) as caught:
        gradreplay.replay([tmp_path, demo.fixture], rev="v0")
    error = caught.value
    assert error.kind == "elsewhere" and error.exit_code == 128
    assert error.message.startswith("unknown key `harnes`") and "harness" in (error.hint or "")
    assert str(error.place) == f"{tmp_path}/fixture.toml:1:1"
    assert isinstance(error.result, Replays) and error.result.replays[0].fixture == "step0"
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


def test_an_option_that_no_command_has_is_refused() -> None:
    with pytest.raises(TypeError, match="no option `timeouts`: backend, "):
        gradreplay.replay("fixtures/step0", timeouts=3)  # type: ignore[call-arg]


def test_no_fixture_is_refused() -> None:
    for nothing in ([], "", ["a", ""]):
        with pytest.raises(ValueError, match="no fixture was named"):
            gradreplay.replay(nothing)


def test_an_option_is_no_revision() -> None:
    for revision in ("--help", ""):
        with pytest.raises(ValueError, match="is no revision"):
            gradreplay.diff("x", "main", revision)


# Programs that are not as they should be


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file that is run as the program; a test writes it."""
    path = tmp_path / "replay"
    path.touch(mode=0o755)
    monkeypatch.setenv("REPLAY", str(path))
    return path


def write_program(path: Path, body: str) -> None:
    path.write_text(f"#!{sys.executable}\nimport sys, time\n" + textwrap.dedent(body))


def test_a_missing_program_is_an_error_with_a_hint(
    stand_in: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in.unlink()
    with pytest.raises(gradreplay.ProgramError, match="cannot start .*No such file"):
        gradreplay.replay("x")
    monkeypatch.delenv("REPLAY")
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(stand_in.parent))
    with pytest.raises(gradreplay.ProgramError, match="`replay` is not installed") as caught:
        gradreplay.replay("x")
    assert caught.value.kind == "program" and "pip install gradreplay" in (caught.value.hint or "")
    write_program(stand_in, "sys.exit('error: this one')")
    stand_in.chmod(0o755)
    with pytest.raises(gradreplay.ReplayError, match="this one"):
        gradreplay.replay("x")


def test_a_program_of_another_version_is_named(stand_in: Path) -> None:
    body = """
        file = sys.argv[sys.argv.index("--report") + 1]
        open(file, "w").write({text!r})
    """
    for text, problem in [
        ('{"schema": "replay/2"}', "the document is replay/2, not replay/1"),
        ('{"schema": "replay/1", "run": {}}', "run has no `command`"),
        ('{"schema": "rep', "Unterminated string"),
    ]:
        write_program(stand_in, body.format(text=text))
        with pytest.raises(gradreplay.ProgramError, match=problem) as caught:
            gradreplay.replay("x")
        assert "of one version" in (caught.value.hint or "")


def test_the_exit_code_says_whose_fault_an_error_is(stand_in: Path) -> None:
    program = "print('error: no sources', file=sys.stderr); sys.exit({})"
    write_program(stand_in, program.format(125))
    with pytest.raises(gradreplay.RevisionError, match="no sources") as caught:
        gradreplay.replay("x")
    assert caught.value.kind == "revision"
    write_program(stand_in, program.format(128))
    with pytest.raises(gradreplay.ReplayError) as other:
        gradreplay.replay("x")
    assert type(other.value) is gradreplay.ReplayError


def test_a_program_that_a_signal_ended_is_told(stand_in: Path) -> None:
    write_program(stand_in, "import os; os.kill(os.getpid(), 9)")
    with pytest.raises(gradreplay.ReplayError, match="replay was ended by SIGKILL"):
        gradreplay.replay("x")
    write_program(stand_in, "import os; os.kill(os.getpid(), 40)")
    with pytest.raises(gradreplay.ReplayError, match="replay was ended by signal 40"):
        gradreplay.replay("x")


def test_messages_without_a_reader_and_warnings_as_errors_change_nothing(stand_in: Path) -> None:
    write_program(stand_in, "print('told', file=sys.stderr); sys.exit('error: this one')")
    code = """
import sys, gradreplay
sys.stderr = None
try:
    gradreplay.replay("x")
except gradreplay.ReplayError as error:
    print(error)
"""
    words = [sys.executable, "-W", "error", "-X", "dev", "-c", code]
    run = subprocess.run(words, capture_output=True, text=True)
    assert run.stdout == "this one\n" and run.stderr == "", run.stderr


def test_a_place_may_have_blanks_in_its_path(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "fixture.toml"
    path.parent.mkdir()
    path.touch()
    for text in (f"unknown key at {path}:1:11", f"{path}:1:11 is not TOML"):
        assert place_of(ErrorText(text, excerpt=" 1 | x")) == Place(str(path), 1, 11)


@needs_replay
def test_the_program_ends_when_python_is_ended(demo: Demo) -> None:
    code = f"import gradreplay; gradreplay.replay({str(demo.fixture)!r}, fresh=True)"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.DEVNULL) as script:
        children = Path(f"/proc/{script.pid}/task/{script.pid}/children")
        while not (found := children.read_text().split()):
            time.sleep(0.01)
        script.kill()
    for _ in range(500):
        if not Path(f"/proc/{found[0]}").exists():
            return
        time.sleep(0.01)
    pytest.fail("it goes on")


def write_interruptible(stand_in: Path, folder: Path) -> tuple[Path, Path]:
    """Writes a program that an interruption ends; the files that it makes at its start and then."""
    started, ended = folder / "started", folder / "ended"
    body = f"""
        try:
            open({str(started)!r}, "w").close()
            time.sleep(60)
        except KeyboardInterrupt:
            open({str(ended)!r}, "w").close()
    """
    write_program(stand_in, body)
    return started, ended


def test_an_interruption_ends_the_program(stand_in: Path, tmp_path: Path) -> None:
    started, ended = write_interruptible(stand_in, tmp_path)
    code = "import gradreplay; gradreplay.replay('x')"
    with subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE) as script:
        while not started.exists():
            time.sleep(0.01)
        script.send_signal(signal.SIGINT)
        assert script.stderr is not None
        assert script.stderr.read().rstrip().endswith(b"KeyboardInterrupt")
    assert ended.exists()


def test_an_interruption_ends_a_program_that_has_just_been_started(
    stand_in: Path, tmp_path: Path
) -> None:
    started, ended = write_interruptible(stand_in, tmp_path)
    code = f"""
import os, signal, subprocess, time, gradreplay
start = subprocess.Popen
def interrupted(*args, **named):
    process = start(*args, **named)
    while not os.path.exists({str(started)!r}):
        time.sleep(0.01)
    os.kill(os.getpid(), signal.SIGINT)
    return process
subprocess.Popen = interrupted
gradreplay.replay("x")
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=50)
    assert done.stderr.rstrip().endswith(b"KeyboardInterrupt"), done.stderr
    assert ended.exists()


# Their parts


def test_errors_are_read_out_of_messages() -> None:
    lines = """\
        loading x
        error: unknown key `harnes` at a/fixture.toml:2:1, did you mean `harness`?
          |
        2 | harnes = "../../replay.toml"
          | ^^^^^^
        caused by: one
          and its second line
        hint: the first
        hint: the second
        note: something else
        error: another
    """
    reader = ErrorReader()
    texts = textwrap.dedent(lines).splitlines()
    assert [line for line in texts if not reader.takes(line)] == [
        "loading x",
        "note: something else",
    ]
    first, second = reader.errors()
    assert first.message == "unknown key `harnes` at a/fixture.toml:2:1, did you mean `harness`?"
    assert first.excerpt == '  |\n2 | harnes = "../../replay.toml"\n  | ^^^^^^'
    assert first.causes == ("one\nand its second line",)
    assert first.hints == ("the first", "the second")
    assert str(place_of(first)) == "a/fixture.toml:2:1"
    assert second == ErrorText("another") and place_of(second) is None


@dataclass(frozen=True)
class Left:
    kind: Literal["left"]
    number: float


@dataclass(frozen=True)
class Right:
    kind: Literal["right"]
    inner: Left | None
    word: Literal["a", "b"] = "a"


def test_unknown_fields_and_words_of_a_newer_program_are_passed_over() -> None:
    value = {"kind": "right", "inner": None, "word": "c", "newer": 1}
    assert decoder(Left | Right)(value) == Right("right", None, "c")  # type: ignore[arg-type]
    assert decoder(Left)({"kind": "left", "number": "-inf"}).number == float("-inf")


def test_json_of_another_type_is_told_with_its_place() -> None:
    def problem(value: object) -> str:
        with pytest.raises(DecodeError) as caught:
            decoder(tuple[Left | Right, ...])(value)
        return str(caught.value)

    assert problem({}) == "the document is an object"
    assert problem([{"kind": "left"}]) == "0 has no `number`"
    assert problem([{"kind": "left", "number": "x"}]) == "0.number is 'x', not a number"
    assert problem([{"kind": "left", "number": True}]) == "0.number is True"
    assert problem([{"kind": "right", "inner": []}]) == "0.inner is a list"
    assert problem([{"kind": "up"}]) == "0 is of an unknown kind: kind 'up'"
    with pytest.raises(DecodeError, match="is of an unknown kind: schema 'replay-bisect/9'"):
        decoder(SearchEvent)({"schema": "replay-bisect/9", "event": "begun"})


def test_a_page_cannot_leave_its_frame() -> None:
    html = framed('<p title="</iframe>">&amp;</p>')
    inner = html.split('srcdoc="')[1].removesuffix('"></iframe>')
    assert inner == "&lt;p title=&quot;&lt;/iframe&gt;&quot;&gt;&amp;amp;&lt;/p&gt;"
    assert 'sandbox="allow-scripts"' in html


def test_the_generated_types_are_those_of_the_schemas() -> None:
    generator = Path(__file__).parents[1] / "tools/generate_documents.py"
    run = subprocess.run([sys.executable, generator, "--check"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr


def test_the_package_alone_imports_nothing() -> None:
    code = "import gradreplay, sys; print(*sys.modules)"
    words = [sys.executable, "-c", code]
    loaded = subprocess.run(words, capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name.startswith("gradreplay")] == ["gradreplay"]
    assert not {"numpy", "torch", "jax", "pandas", "IPython"} & set(loaded)
