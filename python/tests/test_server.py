"""One server, a fork for each replay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from demo import Demo
from replay import PACKAGE, Outcome, Project, Server, outcome

from gradreplay import walls

ONE = {"x": np.arange(4, dtype=np.float32)}
SAME = "def step(x):\n    return {'y': x}"


@pytest.fixture
def serve(project: Project, servers: list[Server]) -> Any:
    """Writes a program, starts a server for it and stops it when the test has ended."""

    def start(body: str = SAME, preload: str = "", **written: str) -> Server:
        project.write_program(body, **written)
        servers.append(Server(project, preload))
        return servers[-1]

    return start


def gone(pid: int) -> bool:
    """Whether a process ends within two seconds; one that nobody has reaped counts as ended."""
    for _ in range(200):
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except (FileNotFoundError, ProcessLookupError):
            return True
        if state == "Z":
            return True
        time.sleep(0.01)
    return False


def test_a_server_greets_with_the_identity_of_its_packages(serve: Any) -> None:
    hello = serve().hello
    assert (hello["hello"], hello["notes"]) == (1, [])
    lines = hello["identity"].splitlines()
    assert lines[0].startswith("CPython 3.")
    assert f"numpy {np.__version__}" in lines


def test_runs_of_a_server_give_what_single_processes_give(serve: Any, project: Project) -> None:
    server = serve("def step(x):\n    return {'y': np.cumsum(x) / 3}", top="import numpy as np\n")
    given = project.inputs(**ONE)
    alone, first, second = project.run(given), server.run(given), server.run(given)
    assert alone.array("y").tobytes() == first.array("y").tobytes() == second.array("y").tobytes()
    assert first.code == 0 and first.answer == {}
    assert first.pid != second.pid
    assert server.close() == 0


def test_revisions_share_no_modules(serve: Any, project: Project) -> None:
    server = serve(
        """
        def step(x):
            import model
            model.count += 1
            return {"y": np.float32(model.scale), "n": np.int32(model.count)}
        """,
        top="import numpy as np\n",
    )
    trees = [
        project.tree(f"tree{scale}", model=f"scale = {scale}\ncount = 0\n") for scale in (3, 5)
    ]
    for tree, scale in [(trees[0], 3), (trees[1], 5), (trees[0], 3)]:
        done = server.run(project.inputs(**ONE), tree)
        assert (float(done.array("y")), int(done.array("n"))) == (scale, 1)


def test_preloaded_modules_are_imported_once(serve: Any, project: Project, tmp_path: Path) -> None:
    (tmp_path / "heavy.py").write_text("import os\nwhere = os.getpid()\n")
    project.environment["PYTHONPATH"] = os.pathsep.join(
        [str(tmp_path), project.variables({})["PYTHONPATH"]]
    )
    server = serve(
        "def step(x):\n    import heavy\n    return {'y': np.int64(heavy.where)}",
        preload="json, heavy",
        top="import numpy as np\n",
    )
    done = [server.run(project.inputs(**ONE)) for _ in range(2)]
    assert [int(each.array("y")) for each in done] == [server.process.pid] * 2


def test_a_child_has_its_own_streams_group_scratch_and_variables(
    serve: Any, project: Project
) -> None:
    server = serve(
        """
        def step(x):
            print(sys.stdin.read() == "", os.getpgid(0) == os.getpid(), tempfile.gettempdir())
            print(sorted(name for name in os.environ if name.startswith("REPLAY_")))
            print("to stderr", file=sys.stderr)
            print([os.path.basename(os.readlink(f"/proc/self/fd/{name}"))[:6]
                   for name in sorted(os.listdir("/proc/self/fd"), key=int)
                   if os.path.lexists(f"/proc/self/fd/{name}")])
            return {"y": x}
        """,
        top="import os, sys, tempfile\n",
    )
    done = server.run(project.inputs(**ONE))
    first, second, third = done.stdout.splitlines()
    assert first == f"True True {project.root / 'runs' / '1' / 'tmp'}"
    asked = ["ANSWER", "CACHE_DIR", "CASTS", "CHECK", "DEVICE", "INPUTS", "ORDER", "OUTPUTS"]
    asked += ["PRECISION", "PROTOCOL", "ROUNDING", "SURROUNDINGS", "TREE", "UNWRITTEN"]
    assert second == str([f"REPLAY_{name}" for name in asked])
    # Neither the socket nor anything else of the server's is open; the inputs may be, as they are mapped.
    assert third.replace(", 'inputs'", "") == "['null', 'stdout', 'stderr']"
    assert done.stderr == "to stderr\n"


def test_random_numbers_are_not_the_same_in_each_child(serve: Any, project: Project) -> None:
    server = serve(
        "def step(x):\n    return {'a': np.random.rand(4), 'b': np.float64(random.random())}",
        top="import random\nimport numpy as np\n",
    )
    one, two = (server.run(project.inputs(**ONE)) for _ in range(2))
    assert one.array("a").tobytes() != two.array("a").tobytes()
    assert one.array("b").tobytes() != two.array("b").tobytes()


# How a child ends


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ("def step(x):\n    raise SystemExit(7)", 7),
        ("def step(x):\n    os._exit(9)", 9),
        ("def step(x):\n    raise KeyboardInterrupt", 1),
        ("def step(x):\n    os.kill(os.getpid(), signal.SIGSEGV)", -signal.SIGSEGV),
        ("def step(x):\n    os.abort()", -signal.SIGABRT),
        ("def step(x):\n    raise ValueError", 126),
        ("def step(x):\n    import model", 125),
    ],
)
def test_a_child_that_ends_badly_leaves_the_server_at_work(
    serve: Any, project: Project, body: str, code: int
) -> None:
    server = serve(body + "\n    if len(x) == 4: return {}", top="import os, signal\n")
    done = server.run(project.inputs(**ONE))
    assert (done.code, done.outputs) == (code, None)
    assert server.run(project.inputs(**ONE)).code == code
    assert server.close() == 0


def test_a_child_that_replay_kills_is_told(serve: Any, project: Project) -> None:
    server = serve("def step(x):\n    time.sleep(1000)", top="import time\n")
    server.start(project.inputs(**ONE))
    pid = server.receive()["pid"]
    os.kill(pid, signal.SIGKILL)
    assert server.receive() == {"done": 1, "signal": signal.SIGKILL}
    assert gone(pid)


def test_what_a_child_leaves_in_its_group_ends_with_it(serve: Any, project: Project) -> None:
    server = serve(
        """
        def step(x):
            stray = subprocess.Popen(["sleep", "1000"])
            return {"pid": np.int64(stray.pid)}
        """,
        top="import subprocess\nimport numpy as np\n",
    )
    done = server.run(project.inputs(**ONE))
    assert done.code == 0
    assert gone(int(done.array("pid")))


def test_children_may_run_side_by_side(serve: Any, project: Project) -> None:
    server = serve(
        """
        def step(x):
            while not os.path.exists(os.environ["GO"]):
                time.sleep(0.01)
            return {"y": x}
        """,
        top=f"import os, time\nos.environ['GO'] = {str(project.root / 'go')!r}\n",
    )
    folders = [server.start(project.inputs(x=np.float32(value))) for value in (1, 2)]
    assert {server.receive()["started"] for _ in folders} == {1, 2}
    (project.root / "go").touch()
    assert sorted((server.receive() for _ in folders), key=str) == [
        {"done": 1, "exit": 0},
        {"done": 2, "exit": 0},
    ]
    found = [outcome(folder, 0, "", "").array("y") for folder in folders]
    assert [float(value) for value in found] == [1, 2]


# Series


def test_a_series_is_made_by_one_child_until_it_is_told_to_end(
    serve: Any, project: Project
) -> None:
    server = serve(
        """
        def step(x):
            import model
            model.count += 1
            print(tempfile.gettempdir(), len(sys.path))
            return {"y": np.cumsum(x) / 3, "n": np.int32(model.count)}
        """,
        top="import sys, tempfile\nimport numpy as np\n",
    )
    tree = project.tree("tree", model="count = 0\n")
    done = [server.run(project.inputs(x=ONE["x"] * by), tree, series=True) for by in (1, 2, 1)]
    assert len({each.pid for each in done}) == 1
    assert [int(each.array("n")) for each in done] == [1, 2, 3]
    alone = project.run(project.inputs(**ONE), tree)
    assert done[2].array("y").tobytes() == alone.array("y").tobytes()
    folders = [project.root / "runs" / str(number) / "tmp" for number in (1, 2, 3)]
    told = [each.stdout.split() for each in done]
    assert [words[0] for words in told] == [str(folder) for folder in folders]
    assert len({words[1] for words in told}) == 1, "sys.path grows"
    server.send('{"end": 1}')
    assert server.receive() == {"done": 1, "exit": 0}
    assert gone(done[0].pid)
    fresh = server.run(project.inputs(**ONE), tree)
    assert int(fresh.array("n")) == 1
    assert server.close() == 0


def test_the_end_of_a_child_amid_a_series_is_told_by_its_first_run(
    serve: Any, project: Project
) -> None:
    server = serve(
        "def step(x):\n    return {'y': x} if x[1] < 3 else os.kill(os.getpid(), 11)",
        top="import os\n",
    )
    good, bad = project.inputs(**ONE), project.inputs(x=ONE["x"] * 4)
    pid = server.run(good, series=True).pid
    server.start(bad, series=True)
    assert server.receive() == {"started": 2, "pid": pid}
    assert server.receive() == {"done": 1, "signal": signal.SIGSEGV}
    server.send('{"end": 1}')
    assert server.run(good).code == 0


def test_a_run_of_a_series_that_raises_leaves_the_child_at_work(
    serve: Any, project: Project
) -> None:
    server = serve("def step(x):\n    return {'y': x} if x[1] < 3 else 1 / 0")
    good, bad = project.inputs(**ONE), project.inputs(x=ONE["x"] * 4)
    done = [server.run(given, series=True) for given in (good, bad, good)]
    assert [each.code for each in done] == [0, 126, 0]
    assert [each.pid for each in done] == [done[0].pid] * 3


def test_a_server_that_may_not_fork_makes_a_series_itself(serve: Any, project: Project) -> None:
    server = serve()
    done = [server.run(project.inputs(**ONE), fork=False, series=True) for _ in range(2)]
    assert [each.pid for each in done] == [server.process.pid] * 2
    server.send('{"end": 1}')
    assert server.receive() == {"done": 1, "exit": 0}
    assert server.process.wait(60) == 0


def test_a_series_ends_with_its_socket(serve: Any, project: Project) -> None:
    server = serve()
    pid = server.run(project.inputs(**ONE), series=True).pid
    assert server.close() == 0
    assert gone(pid)


# How a server ends


def test_a_server_whose_socket_closes_ends_with_its_children(serve: Any, project: Project) -> None:
    server = serve("def step(x):\n    time.sleep(1000)", top="import time\n")
    server.start(project.inputs(**ONE))
    pid = server.receive()["pid"]
    assert server.close() == 0
    assert gone(pid)


def test_a_module_that_cannot_be_preloaded_is_the_environments_fault(serve: Any) -> None:
    server = serve(preload="json,missing_package")
    error = server.hello["error"]
    assert "identity" not in server.hello
    assert error["fault"] == "environment"
    assert error["message"] == (
        "cannot preload `missing_package`: ModuleNotFoundError: No module named 'missing_package'"
    )
    assert error["hint"].startswith("install the package of `missing_package` for ")
    assert server.process.wait(60) == 126


def test_a_preloaded_module_that_raises_is_the_environments_fault(
    serve: Any, project: Project, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text("raise RuntimeError('no driver')\n")
    project.environment["PYTHONPATH"] = os.pathsep.join(
        [str(tmp_path), project.variables({})["PYTHONPATH"]]
    )
    error = serve(preload="broken").hello["error"]
    assert (error["fault"], error["message"]) == (
        "environment",
        "cannot preload `broken`: RuntimeError: no driver",
    )
    assert "`broken` stands in `preload`" in error["hint"]
    assert error["traceback"].endswith("RuntimeError: no driver")


def test_an_import_at_the_top_that_fails_is_in_the_greeting(serve: Any) -> None:
    error = serve(top="import missing_package\n").hello["error"]
    assert error["fault"] == "environment"
    assert error["message"] == (
        "replay_step.py:2: ModuleNotFoundError: No module named 'missing_package'"
    )


def test_a_program_without_a_harness_says_so_in_the_greeting(
    project: Project, servers: list[Server]
) -> None:
    project.program.write_text("import gradreplay as replay\nreplay.main()\n")
    servers.append(Server(project))
    assert servers[0].hello["error"] == {
        "fault": "program",
        "message": "the program marks no function with @replay.harness",
        "traceback": servers[0].hello["error"]["traceback"],
    }


def test_another_version_of_the_protocol_is_refused_in_the_greeting(
    serve: Any, project: Project
) -> None:
    project.environment["REPLAY_PROTOCOL"] = "2"
    error = serve().hello["error"]
    assert error["message"] == "replay speaks version 2 of the protocol, gradreplay 1"
    assert error["hint"].startswith("install the gradreplay that came with this replay")


# Where forking does not work


def test_threads_that_were_started_before_prevent_a_fork(serve: Any, project: Project) -> None:
    (project.root / "starts_threads.py").write_text(
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    )
    server = serve(
        preload="starts_threads",
        top=f"import sys\nsys.path.append({str(project.root)!r})\n",
    )
    server.start(project.inputs(**ONE))
    assert server.receive() == {
        "cannot_fork": 1,
        "why": "1 thread runs that an imported module has started",
    }


def test_threads_that_the_program_itself_starts_prevent_a_fork(
    serve: Any, project: Project
) -> None:
    server = serve(
        top="import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()\n"
    )
    server.start(project.inputs(**ONE))
    assert server.receive()["cannot_fork"] == 1


def test_a_server_that_may_not_fork_makes_the_run_itself_and_ends(
    serve: Any, project: Project
) -> None:
    server = serve("def step(x):\n    print('here')\n    return {'y': x}")
    done: Outcome = server.run(project.inputs(**ONE), fork=False)
    assert (done.code, done.pid, done.stdout) == (0, server.process.pid, "here\n")
    assert done.array("y").tolist() == [0, 1, 2, 3]
    assert server.process.wait(60) == 0


def test_a_server_that_dies_in_a_run_of_its_own_closes_the_socket(
    serve: Any, project: Project
) -> None:
    server = serve("def step(x):\n    os.kill(os.getpid(), 11)", top="import os\n")
    server.start(project.inputs(**ONE), fork=False)
    assert server.receive() == {"started": 1, "pid": server.process.pid}
    assert server.file.readline() == b""
    assert server.process.wait(60) == -11


# Odd messages


@pytest.mark.parametrize(
    ("content", "told"),
    [
        ("no JSON", "no JSON"),
        ("[]", "[]"),
        ('{"walk": {}}', '{"walk": {}}'),
        ('{"run": {"id": 1}}', "replay did not say where the inputs are"),
        (
            json.dumps({"run": {"id": 1, "inputs": "i", "outputs": "o", "tree": "t"}}),
            "replay sent a run that is not one: KeyError('stdout')",
        ),
    ],
)
def test_a_message_that_is_not_understood_is_answered_and_ignored(
    serve: Any, project: Project, content: str, told: str
) -> None:
    server = serve()
    server.send(content)
    assert server.receive() == {"unknown": told}
    assert server.run(project.inputs(**ONE)).code == 0


def test_messages_may_come_in_pieces_and_together(serve: Any, project: Project) -> None:
    server = serve()
    for byte in b'{"a": 1}\n{"b"':
        server.socket.sendall(bytes([byte]))
    server.send(": 2}\n\n{}")
    assert [server.receive()["unknown"] for _ in range(3)] == ['{"a": 1}', '{"b": 2}', "{}"]


def test_keys_that_are_not_known_are_ignored(serve: Any, project: Project) -> None:
    assert serve().run(project.inputs(**ONE), colour="blue").code == 0


# The command


def test_the_identity_command_prints_interpreter_and_packages(project: Project) -> None:
    import sys

    command = [sys.executable, "-m", "gradreplay", "identity"]
    done = subprocess.run(command, env=project.variables({}), capture_output=True, text=True)
    assert done.returncode == 0
    assert f"numpy {np.__version__}" in done.stdout.splitlines()
    odd = subprocess.run(command[:3], env=project.variables({}), capture_output=True, text=True)
    assert (odd.returncode, odd.stderr) == (2, "usage: python3 -m gradreplay identity\n")


# Walls between the copies of a program

# What a revision's code tries against its server and against another replay; what it says has succeeded.
ATTACKS = """
def step(x):
    import ctypes, resource
    server, reached = os.getppid(), []
    def attempt(name, way_out):
        try:
            way_out()
            reached.append(name)
        except OSError:
            pass
    attempt("signal", lambda: os.kill(server, 0))
    attempt("group", lambda: os.killpg(os.getpgid(server), 0))
    attempt("memory", lambda: os.close(os.open(f"/proc/{server}/mem", os.O_RDONLY)))
    attempt("descriptors", lambda: os.readlink(f"/proc/{server}/fd/0"))
    attempt("other replay", lambda: os.close(os.open(sys.argv[0] + ".other", os.O_WRONLY)))
    attempt("new file", lambda: os.close(os.open(sys.argv[0] + ".new", os.O_WRONLY | os.O_CREAT)))
    attempt("temporary file", lambda: tempfile.TemporaryFile().close())
    scratch = os.environ.get("TRITON_CACHE_DIR", "/none/none").rpartition("/")[0]
    attempt("scratch of all", lambda: os.close(os.open(scratch + "/new", os.O_WRONLY | os.O_CREAT)))
    attempt("cache", lambda: os.close(os.open(scratch + "/TRITON_CACHE_DIR/x", os.O_WRONLY | os.O_CREAT)))
    attempt("limits", lambda: resource.prlimit(server, resource.RLIMIT_CPU))
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(0x4206, server, None, None) == 0:
        reached.append("ptrace")
    print("reached", *reached, sep=",")
    return {"y": x}
"""


def walled(server: Server, project: Project, **modes: Any) -> Outcome:
    """The outcome of a run that writes in its own folder alone."""
    folder = project.root / "runs" / str(server.runs + 1)
    return server.run(project.inputs(**ONE), writable=[str(folder), "/dev/null"], **modes)


@pytest.mark.parametrize("series", [False, True])
def test_a_revision_reaches_neither_its_server_nor_another_replay(
    serve: Any, project: Project, series: bool
) -> None:
    if walls.version() < 6:
        pytest.skip("this system lacks walls around signals")
    server = serve(ATTACKS, top="import os, sys, tempfile\n")
    Path(f"{project.program}.other").write_text("")
    open_run = server.run(project.inputs(**ONE))
    ways = (
        "reached,signal,group,memory,descriptors,other replay,new file,temporary file,limits,ptrace"
    )
    assert open_run.stdout.strip() == ways
    walled_run = walled(server, project, series=series)
    assert (walled_run.code, walled_run.stdout.strip()) == (0, "reached,temporary file,limits")
    assert walled_run.outputs is not None


@pytest.mark.skipif("REPLAY" not in os.environ, reason="REPLAY names no program")
@pytest.mark.parametrize("sandbox", ["default", "off"])
def test_a_revision_that_replay_has_copied_reaches_its_own_folder_and_caches(
    tmp_path: Path, sandbox: str
) -> None:
    if walls.version() < 6:
        pytest.skip("this system lacks walls around signals")
    demo = Demo(tmp_path)
    (tmp_path / "replay_step.py").write_text(
        "import gradreplay\n@gradreplay.harness\ndef step(x):\n    import attack\n"
        "    return attack.step(x)\ngradreplay.main()\n"
    )
    (tmp_path / "replay_step.py.other").write_text("")
    (tmp_path / "attack.py").write_text("import os, sys, tempfile\n" + ATTACKS)
    (tmp_path / "replay.toml").write_text(
        f'program = ["{sys.executable}", "{tmp_path}/replay_step.py"]\ntree = ["attack.py"]\n'
        'preload = ["numpy"]\ninputs.x = { dtype = "f32", shape = ["n"] }\n'
        'outputs.y = { dtype = "f32", shape = ["n"] }\n'
    )
    demo.git("add", ".")
    demo.git("commit", "--quiet", "--message=Attack")
    words = [os.environ["REPLAY"], str(demo.fixture), "--rev=HEAD", f"--sandbox={sandbox}"]
    variables = os.environ | {
        "PYTHONPATH": str(PACKAGE),
        "REPLAY_CACHE_DIR": str(tmp_path / "cache"),
    }
    done = subprocess.run(words, capture_output=True, text=True, env=variables)
    assert done.returncode == 0, done.stdout + done.stderr
    expected = "reached,temporary file,cache"
    if sandbox == "off":
        expected = "reached,signal,group,memory,descriptors,other replay,new file,temporary file"
        expected += ",scratch of all,cache"
    assert f"| {expected}\n" in done.stdout


def test_walls_that_the_system_refuses_are_a_fault_of_the_environment(
    serve: Any, project: Project
) -> None:
    if walls.version() < 1:
        pytest.skip("this system lacks Landlock")
    # Landlock stacks 16.
    deep = "from gradreplay import walls\nfor _ in range(16):\n    walls.enter([walls.Path('/')])\n"
    server = serve(SAME, top=deep)
    for series in (False, True):
        folder = server.start(project.inputs(**ONE), writable=[], series=series)
        if not series:
            server.receive()
        done = server.receive()
        assert done == {"done": server.runs, "exit": 126}
        error = json.loads((folder / "answer.json").read_text())["error"]
        assert error["fault"] == "environment"
        assert error["message"] == "cannot put a replay behind walls: Argument list too long"


def test_a_program_that_would_share_memory_with_its_copies_is_not_copied(
    serve: Any, project: Project
) -> None:
    server = serve(SAME, top="import mmap\nshared = mmap.mmap(-1, 1)\n")
    server.start(project.inputs(**ONE))
    answer = server.receive()
    assert answer["why"] == "an imported module has made memory that its copies would share"
