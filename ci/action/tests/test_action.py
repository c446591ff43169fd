"""The action for GitHub, the component for GitLab and the hook for pre-commit, acted out."""

import base64
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
import yaml
from server import GH, ROOT, Server, git, write_json, write_program

REPLAY = os.environ["REPLAY"]
WORKFLOW = ROOT / "docs/github-workflow.yml"
COMMENT = ROOT / "docs/github-comment.yml"
KERNEL = """\
__global__ void scale(const float* x, float* y, int n)
{
    if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * FACTOR;
}
"""
HARNESS = """\
sources = ["k.cu"]
call = "scale<<<1, 32>>>(x, y, n);"
inputs.x = { dtype = "f32", shape = ["n"] }
outputs.y = { dtype = "f32", shape = ["n"] }
"""
GIVEN = {"program": REPLAY}
MERGE = "refs/pull/7/merge"


@pytest.fixture(autouse=True)
def _environment(monkeypatch, tmp_path, tmp_path_factory):
    """No variable of a server that runs these tests; kernels compiled once for all tests."""
    for name in list(os.environ):
        if name.startswith(("GITHUB_", "CI_", "INPUT_", "GIT_", "REPLAY_", "RUNNER_", "GITLAB_")):
            monkeypatch.delenv(name)
    shared = tmp_path_factory.getbasetemp().parent / "compiled"
    shared.mkdir(exist_ok=True)
    monkeypatch.setenv("REPLAY_SHARED_CACHE_DIR", str(shared))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", "/dev/null")


class Repository:
    """The repository of kernels on a server, its branch `main` having been accepted with the factor 1.5."""

    def __init__(self, folder):
        self.bare = folder / "origin.git"
        self.work = folder / "work"
        git(folder, "init", "--quiet", "--bare", str(self.bare))
        self.work.mkdir()
        git(self.work, "init", "--quiet")
        git(self.work, "remote", "add", "origin", str(self.bare))
        self.write_fixture()
        self.set_factor("1.5f")
        (self.work / "replay.toml").write_text(HARNESS)
        environment = {
            **os.environ,
            "REPLAY_UPDATE": "unseen",
            "REPLAY_CACHE_DIR": str(folder / "own"),
        }
        (self.work / "snapshots").mkdir()
        subprocess.run(
            [REPLAY, "fixtures"], cwd=self.work, env=environment, check=True, capture_output=True
        )
        self.main = self.commit("A kernel", branch="main")

    def write_fixture(self):
        fixture = self.work / "fixtures/tiny"
        fixture.mkdir(parents=True)
        (fixture / "fixture.toml").write_text('harness = "../../replay.toml"\n')
        head = json.dumps({"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]}}).encode()
        values = struct.pack("<Q", len(head)) + head + struct.pack("<4f", 1, 2, 3, 4)
        (fixture / "inputs.safetensors").write_bytes(values)

    def set_factor(self, factor):
        (self.work / "k.cu").write_text(KERNEL.replace("FACTOR", factor))

    def commit(self, subject, *, branch, factor=None):
        """Commits, and pushes to `branch` by force."""
        if factor is not None:
            self.set_factor(factor)
        git(self.work, "add", "--all")
        git(self.work, "commit", "--quiet", "--allow-empty", "-m", subject)
        git(self.work, "push", "--quiet", "--force", "origin", f"HEAD:refs/heads/{branch}")
        return git(self.work, "rev-parse", "HEAD")

    def request(self, factor):
        """Opens the pull request 7 with a factor; afterwards main moves on. Returns its event."""
        git(self.work, "checkout", "--quiet", "-b", "patch", self.main)
        self.head = self.commit("Scale more", branch="patch", factor=factor)
        git(self.work, "checkout", "--quiet", "-B", "main", self.main)
        (self.work / "README").write_text("Kernels\n")
        self.tip = self.commit("Say what it is", branch="main")
        self.merge()
        # The server names the tip of the base as it was when the request was opened.
        return {"pull_request": {"base": {"sha": self.main}, "head": {"sha": self.head}}}

    def merge(self):
        """What the server makes of request and base."""
        git(self.work, "checkout", "--quiet", "--detach", self.tip)
        git(self.work, "merge", "--quiet", "--no-ff", "-m", "Merge", self.head)
        git(self.work, "push", "--quiet", "--force", "origin", f"HEAD:{MERGE}")


@pytest.fixture
def repository(tmp_path):
    return Repository(tmp_path)


@pytest.fixture
def server(tmp_path, repository):
    bin = tmp_path / "bin"
    bin.mkdir()
    write_program(bin / "gh", f"#!{sys.executable}\n{GH}")
    return Server(tmp_path, repository.bare, str(bin))


def act_comment(server, replayed, folder, *, label, head, newest=None):
    """The second workflow, after the run `replayed` of `head`; `newest` is the request's, if another."""
    if not (folder / "comments.json").exists():
        write_json(folder / "comments.json", [])
    write_json(
        folder / "pulls.json", [{"number": 7, "label": label, "head": {"sha": newest or head}}]
    )
    owner, branch = label.split(":")
    event = {
        "workflow_run": {
            "id": "1",
            "event": "pull_request",
            "html_url": "https://server/o/r/runs/1",
            "head_branch": branch,
            "head_sha": head,
            "head_repository": {"owner": {"login": owner}},
        }
    }
    state = {"GH_STATE": str(folder)}
    return server.act(
        COMMENT,
        "workflow_run",
        event,
        "refs/heads/main",
        environment=state,
        earlier=replayed.artifacts,
    )


def comments(folder):
    return [comment["body"] for comment in json.loads((folder / "comments.json").read_text())]


def test_a_change_fails_the_check_and_is_told_in_summary_page_and_one_comment(
    repository, server, tmp_path
):
    event = repository.request("1.6f")
    run = server.act(WORKFLOW, "pull_request", event, MERGE, inputs=GIVEN)
    assert run.failed
    assert "error: compared with snapshots: exit code 1, something diverged or failed" in run.log
    assert run.outputs["snapshots-code"] == run.outputs["base-code"] == "1"
    # What the merge is made of, not the commit that the server named: main has moved on.
    assert run.outputs["base"] == repository.tip
    assert "| tiny | y | diverged |" in run.summary
    assert run.report("replay.html").startswith("<!DOCTYPE html>")
    assert 'failures="1"' in run.report("junit.xml")
    assert not list((run.workspace / "snapshots").glob("*.new"))

    # Of a fork, as of everybody.
    label = "stranger:patch"
    assert not act_comment(server, run, tmp_path, label=label, head=repository.head).failed
    (body,) = comments(tmp_path)
    assert body.startswith("<!-- replay -->\n## replay: 1 diverged"), body
    assert body.endswith("(https://server/o/r/runs/1#artifacts)\n"), body

    # A push by force, with the change taken back.
    old = repository.head
    git(repository.work, "checkout", "--quiet", "-B", "patch", repository.main)
    repository.head = repository.commit("Scale by what it was", branch="patch")
    repository.merge()
    event["pull_request"]["head"]["sha"] = repository.head
    again = server.act(WORKFLOW, "pull_request", event, MERGE, inputs=GIVEN)
    assert not again.failed, again.log
    assert again.outputs["base"] == repository.tip
    act_comment(server, again, tmp_path, label=label, head=repository.head)
    (body,) = comments(tmp_path)
    assert "diverged" not in body

    # The run of the commit that is gone ends last, and says nothing.
    late = act_comment(server, run, tmp_path, label=label, head=old, newest=repository.head)
    assert "the pull request is closed, or has a newer commit" in late.log
    assert comments(tmp_path) == [body]
    assert (tmp_path / "asked").read_text().split().count("POST") == 1


def test_a_comment_that_replay_did_not_write_is_not_published(repository, server, tmp_path):
    event = repository.request("1.6f")
    run = server.act(WORKFLOW, "pull_request", event, MERGE, inputs=GIVEN)
    report = run.artifacts["replay"] / "comment.md"
    secret = tmp_path / "secret"
    secret.write_text("<!-- replay -->\n")
    for forge in (lambda: report.write_text("free money\n"), lambda: report.symlink_to(secret)):
        report.unlink()
        forge()
        published = act_comment(server, run, tmp_path, label="stranger:patch", head=repository.head)
        assert published.failed
        assert "error: comment.md is not a comment of replay" in published.log
    report.unlink()
    missing = act_comment(server, run, tmp_path, label="stranger:patch", head=repository.head)
    assert not missing.failed
    assert "the run left no comment: its log says why" in missing.log
    assert not (tmp_path / "asked").exists()


def test_a_checkout_of_the_head_is_compared_with_where_it_left_the_base(repository, server):
    event = repository.request("1.6f")
    run = server.act(WORKFLOW, "pull_request", event, "refs/heads/patch", inputs=GIVEN)
    assert run.outputs["base"] == repository.main


def test_a_merge_group_is_compared_with_what_it_is_merged_into(repository, server):
    repository.request("1.6f")
    event = {"merge_group": {"base_sha": repository.tip}}
    run = server.act(WORKFLOW, "merge_group", event, MERGE, inputs=GIVEN)
    assert run.failed
    assert run.outputs["base"] == repository.tip


def test_the_main_branch_keeps_results_by_content_and_a_request_only_takes_them(
    repository, server, monkeypatch
):
    monkeypatch.delenv("REPLAY_SHARED_CACHE_DIR")
    # Whether accesses are checked by default depends on the time that the first replay takes.
    inputs = {**GIVEN, "arguments": "-v --check=off"}
    event = {"before": repository.main}
    repository.request("1.5f")
    push = server.act(WORKFLOW, "push", event, "refs/heads/main", inputs=inputs)
    assert not push.failed, push.log
    assert push.outputs["base"] == repository.main
    (kept,) = server.caches
    assert kept.startswith("replay-results-Linux-X64-")
    assert " compile " in push.log

    request = {"pull_request": {"base": {"sha": repository.main}, "head": {"sha": repository.head}}}
    run = server.act(WORKFLOW, "pull_request", request, MERGE, inputs=inputs)
    assert not run.failed, run.log
    assert " compile " not in run.log
    assert "Keep results for later runs" not in run.ran
    # The same content again is not kept twice.
    again = server.act(WORKFLOW, "push", event, "refs/heads/main", inputs=inputs)
    assert "Name what the cache holds" in again.ran
    assert "Keep results for later runs" not in again.ran
    assert list(server.caches) == [kept]


@pytest.mark.parametrize("before", ["0" * 40, "1" * 40])
def test_a_new_branch_and_a_forced_push_have_no_commit_before(repository, server, before):
    run = server.act(WORKFLOW, "push", {"before": before}, "refs/heads/main", inputs=GIVEN)
    assert not run.failed, run.log
    assert run.outputs["base"] == ""
    assert "compared with no other commit" in run.log


def with_changes(tmp_path, *changes):
    """A copy of the workflow with other words."""
    text = WORKFLOW.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    path = tmp_path / "workflow.yml"
    path.write_text(text)
    return path


def test_a_shallow_clone_fetches_what_it_lacks_or_says_so(repository, server, tmp_path):
    event = repository.request("1.6f")
    shallow = with_changes(tmp_path, ("fetch-depth: 0", "fetch-depth: 1"))
    run = server.act(shallow, "pull_request", event, MERGE, inputs=GIVEN)
    assert run.outputs["base"] == repository.tip

    write_program(tmp_path / "bin/git", GIT_WITHOUT_NETWORK.format(git=shutil.which("git")))
    run = server.act(shallow, "pull_request", event, MERGE, inputs=GIVEN)
    assert run.failed
    assert "error: the clone is shallow, so the base of the change is not known" in run.log
    assert "hint: check out with `fetch-depth: 0` (GitHub)" in run.log
    assert "Install" not in run.ran


GIT_WITHOUT_NETWORK = """#!/bin/sh
case "$*" in *--unshallow*) exit 128 ;; esac
exec {git} "$@"
"""


def test_an_event_without_a_base_replays_alone(repository, server, tmp_path):
    repository.request("1.6f")
    by_hand = with_changes(
        tmp_path,
        ("  merge_group:", "  workflow_dispatch:"),
        ("snapshots: snapshots", 'snapshots: ""'),
    )
    inputs = {**GIVEN, "fail-on": "base"}
    run = server.act(by_hand, "workflow_dispatch", {}, MERGE, inputs=inputs)
    assert not run.failed, run.log
    assert run.outputs["base"] == "" and run.outputs["base-code"] == "0"
    assert run.outputs["snapshots-code"] == ""
    assert 'tests="' in run.report("junit.xml")


@pytest.mark.parametrize("event", ["pull_request_target", "workflow_run", "issue_comment"])
def test_events_with_the_rights_of_the_repository_replay_nothing(
    repository, server, tmp_path, event
):
    workflow = with_changes(tmp_path, ("  merge_group:", f"  {event}:"))
    given = {"pull_request": {"base": {"sha": repository.main}, "head": {"sha": repository.main}}}
    run = server.act(workflow, event, given, "refs/heads/main", inputs={**GIVEN, "against": "none"})
    assert run.failed
    assert f"error: replays run code of the request, and a workflow of {event} hands it" in run.log
    assert "Install" not in run.ran and not run.artifacts


@pytest.mark.parametrize(
    ("inputs", "code"),
    [
        ({"fail-on": "snapshots"}, "1"),
        ({"fail-on": "base"}, "1"),
        ({"fail-on": "both"}, "1"),
        ({"fail-on": "nothing"}, None),
        ({"fail-on": "base", "against": "HEAD"}, None),
        ({"fail-on": "base", "against": "none"}, None),
        ({"fail-on": "both", "against": "none"}, "1"),
        ({"fail-on": "base", "snapshots": ""}, "1"),
    ],
)
def test_what_fails_is_asked_for(repository, server, inputs, code):
    event = repository.request("1.6f")
    run = server.act(WORKFLOW, "pull_request", event, MERGE, inputs={**GIVEN, **inputs})
    assert run.failed == (code is not None), run.log
    assert (f": exit code {code}, something diverged or failed" in run.log) == run.failed


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        (
            {"fail-on": "always"},
            "error: fail-on: `always` is none of snapshots, base, both, nothing",
        ),
        ({"against": "v9"}, "error: against: `v9` is no commit here"),
        ({"program": "no-replay"}, "error: program: no-replay is not there"),
        ({"program": "", "wheel": "no.whl"}, "error: wheel: pip cannot install no.whl"),
        (
            {"fixtures": "nothing", "fail-on": "nothing"},
            "error: compared with base: exit code 128, the set-up is at fault, not a kernel: see above",
        ),
        ({"snapshots": "accepted"}, "error: there is no folder accepted of accepted snapshots"),
        ({"snapshots": ""}, "error: fail-on: snapshots, and nothing was compared with: snapshots"),
    ],
)
def test_a_wrong_set_up_fails_and_says_what_is_wrong(repository, server, inputs, message):
    event = repository.request("1.5f")
    run = server.act(WORKFLOW, "pull_request", event, MERGE, inputs={**GIVEN, **inputs})
    assert run.failed
    assert message in run.log, run.log


def test_who_takes_the_snapshots_away_does_not_turn_the_check_green(repository, server):
    git(repository.work, "rm", "--quiet", "snapshots/tiny.cpu.snap")
    (repository.work / "snapshots").mkdir(exist_ok=True)
    (repository.work / "snapshots/README").write_text("None\n")
    event = repository.request("1.6f")
    run = server.act(WORKFLOW, "pull_request", event, MERGE, inputs=GIVEN)
    assert run.failed
    assert "exit code 125, something could not be tested, or has no accepted snapshot" in run.log


def test_a_wheel_brings_the_program_without_what_it_needs_for_python(repository, server, tmp_path):
    wheel = tmp_path / "gradreplay-0.0.1-py3-none-any.whl"
    files = {
        "gradreplay-0.0.1.data/scripts/replay": f'#!/bin/sh\nexec {REPLAY} "$@"\n',
        "gradreplay-0.0.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: gradreplay\n"
        "Version: 0.0.1\nRequires-Dist: no-such-package\n",
        "gradreplay-0.0.1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: x\n"
        "Root-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = ""
    for name, text in files.items():
        digest = (
            base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        )
        record += f"{name},sha256={digest},{len(text)}\n"
    files["gradreplay-0.0.1.dist-info/RECORD"] = record + "gradreplay-0.0.1.dist-info/RECORD,,\n"
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            entry = zipfile.ZipInfo(name)
            entry.external_attr = 0o100755 << 16
            archive.writestr(entry, text)
    event = repository.request("1.5f")
    run = server.act(WORKFLOW, "pull_request", event, MERGE, inputs={"wheel": str(wheel)})
    assert not run.failed, run.log
    assert "Take a build of replay from earlier runs" not in run.ran


CARGO = """#!/bin/sh
echo "$*" >> {asked}
while [ $# -gt 1 ]; do
    case $1 in --root) root=$2 ;; esac
    shift
done
mkdir -p "$root/bin"
printf '#!/bin/sh\\nexec {replay} "$@"\\n' > "$root/bin/replay"
chmod +x "$root/bin/replay"
"""


def test_a_build_is_made_once_for_its_sources_and_kept_by_the_main_branch_alone(
    repository, server, tmp_path
):
    asked = tmp_path / "cargo"
    write_program(tmp_path / "bin/cargo", CARGO.format(asked=asked, replay=REPLAY))
    event = repository.request("1.5f")
    request = server.act(WORKFLOW, "pull_request", event, MERGE)
    assert not request.failed, request.log
    assert not server.caches
    words = asked.read_text().split()
    assert words[:2] == ["install", "--locked"] and words[-1] == f"{ROOT}/ci/action/../.."
    for _ in range(2):
        push = server.act(WORKFLOW, "push", {"before": repository.main}, "refs/heads/main")
        assert not push.failed, push.log
    builds = [key for key in server.caches if key.startswith("replay-build-Linux-")]
    assert len(builds) == 1
    server.act(WORKFLOW, "pull_request", event, MERGE)
    assert len(asked.read_text().splitlines()) == 2


def test_without_rust_a_build_says_how_to_do_without(repository, server, tmp_path):
    # All that is in PATH, but for cargo.
    for folder in reversed(os.environ["PATH"].split(":")):
        for program in Path(folder).glob("*"):
            if (
                program.name not in ("cargo", "gh")
                and not (tmp_path / "bin" / program.name).is_symlink()
            ):
                (tmp_path / "bin" / program.name).symlink_to(program)
    path = {"PATH": ""}
    run = server.act(WORKFLOW, "pull_request", repository.request("1.5f"), MERGE, environment=path)
    assert run.failed
    assert "error: a build of replay needs Rust, and this machine has none" in run.log
    assert "hint: name a wheel: `wheel: ...`" in run.log


def test_code_of_a_request_runs_without_a_token_and_leaves_nothing_for_other_runs():
    workflow = yaml.safe_load(WORKFLOW.read_text())
    assert workflow["permissions"] == {"contents": "read"}
    assert "permissions" not in workflow["jobs"]["replay"]
    action = (ROOT / "action.yml").read_text()
    assert "github.token" not in action + WORKFLOW.read_text()
    assert "secrets" not in action + WORKFLOW.read_text()
    steps = yaml.safe_load(action)["runs"]["steps"]
    saving = [step for step in steps if "cache/save" in step.get("uses", "")]
    assert len(saving) == 2
    for step in saving:
        assert "github.event_name == 'push'" in step["if"]
    # Nothing of a context becomes a part of a command.
    for step in steps:
        assert "${{" not in step.get("run", "")
    # Who may write checks nothing out, and replays nothing.
    comment = COMMENT.read_text() + (ROOT / "ci/comment/action.yml").read_text()
    assert "actions/checkout" not in comment and "ci/action/replay" not in comment


# GitLab.


def act_gitlab(repository, tmp_path, ref, variables, *, inputs=None):
    """The script of the component's job, in a checkout of `ref`, by its own lines."""
    spec, jobs = yaml.safe_load_all((ROOT / "templates/replay.yml").read_text())
    checkout = tmp_path / "gitlab"
    if not checkout.exists():
        checkout.mkdir()
        git(checkout, "init", "--quiet")
        git(checkout, "remote", "add", "origin", str(repository.bare))
    git(checkout, "fetch", "--quiet", "origin", ref, "+refs/heads/*:refs/remotes/origin/*")
    commit = git(checkout, "ls-remote", "origin", ref).split()[0]
    git(checkout, "checkout", "--quiet", "--force", commit)
    # A repository with these scripts, as they are in this tree.
    source = tmp_path / "source"
    if not source.exists():
        shutil.copytree(
            ROOT / "ci/action", source / "ci/action", ignore=shutil.ignore_patterns("__pycache__")
        )
        git(source, "init", "--quiet")
        git(source, "add", "--all")
        git(source, "commit", "--quiet", "-m", "Scripts")
    required = {"source": str(source), "revision": git(source, "rev-parse", "HEAD")}
    given = {name: of["default"] for name, of in spec["spec"]["inputs"].items() if "default" in of}
    given = {**given, **required, **(inputs or {})}
    job = jobs["replay"]

    def fill(text):
        for name, value in given.items():
            text = text.replace(f"$[[ inputs.{name} ]]", value)
        return text

    environment = {**os.environ, "CI": "true", "INPUT_PROGRAM": REPLAY, **variables}
    environment |= {name: fill(value) for name, value in job["variables"].items()}
    ended = subprocess.run(
        ["bash", "-eo", "pipefail", "-c", "\n".join(fill(line) for line in job["script"])],
        cwd=checkout,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    # What the job keeps is where it says.
    assert job["artifacts"]["paths"] == [".replay/reports/"]
    return ended, checkout / ".replay/reports"


def test_a_merge_request_is_compared_with_its_base(repository, tmp_path):
    repository.request("1.6f")
    variables = {
        "CI_PIPELINE_SOURCE": "merge_request_event",
        "CI_MERGE_REQUEST_DIFF_BASE_SHA": repository.main,
    }
    ended, reports = act_gitlab(repository, tmp_path, "refs/heads/patch", variables)
    assert ended.returncode == 1, ended.stdout
    assert "error: compared with snapshots: exit code 1" in ended.stdout
    assert f"compared with {repository.main[:7]} A kernel" in ended.stdout
    assert 'failures="1"' in (reports / "junit.xml").read_text()
    assert (reports / "replay.html").exists()

    # A pipeline of merged results.
    merged = {**variables, "CI_MERGE_REQUEST_SOURCE_BRANCH_SHA": repository.head}
    ended, _ = act_gitlab(repository, tmp_path, MERGE, merged, inputs={"fail-on": "base"})
    assert ended.returncode == 1, ended.stdout
    assert f"compared with {repository.tip[:7]} Say what it is" in ended.stdout


def test_the_default_branch_fills_the_cache_of_gitlab_and_a_schedule_has_no_base(
    repository, tmp_path
):
    push = {"CI_PIPELINE_SOURCE": "push", "CI_COMMIT_BEFORE_SHA": repository.main}
    repository.request("1.5f")
    ended, reports = act_gitlab(repository, tmp_path, "refs/heads/main", push)
    assert ended.returncode == 0, ended.stdout
    assert f"compared with {repository.main[:7]} A kernel" in ended.stdout
    assert any((reports.parent / "cache").rglob("outcomes"))
    ended, _ = act_gitlab(
        repository, tmp_path, "refs/heads/main", {"CI_PIPELINE_SOURCE": "schedule"}
    )
    assert ended.returncode == 0, ended.stdout
    assert "compared with no other commit" in ended.stdout


def test_only_the_default_branch_writes_the_cache_of_gitlab():
    _, jobs = yaml.safe_load_all((ROOT / "templates/replay.yml").read_text())
    job = jobs["replay"]
    assert job["cache"]["policy"] == "$KEPT"
    request, branch = job["rules"]
    assert "merge_request_event" in request["if"] and request["variables"] == {"KEPT": "pull"}
    assert "$CI_DEFAULT_BRANCH" in branch["if"] and branch["variables"] == {"KEPT": "pull-push"}


# pre-commit.


def test_the_hook_stops_a_commit_that_changes_numbers(repository, tmp_path, monkeypatch):
    hooks = tmp_path / "hooks"
    hooks.mkdir()
    shutil.copy(ROOT / ".pre-commit-hooks.yaml", hooks)
    git(hooks, "init", "--quiet")
    git(hooks, "add", "--all")
    git(hooks, "commit", "--quiet", "-m", "Hooks")
    configuration = {
        "repos": [
            {
                "repo": str(hooks),
                "rev": git(hooks, "rev-parse", "HEAD"),
                "hooks": [{"id": "replay-installed"}],
            }
        ]
    }
    (repository.work / ".pre-commit-config.yaml").write_text(yaml.safe_dump(configuration))
    git(repository.work, "add", "--all")
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/replay").symlink_to(REPLAY)
    programs = Path(sys.executable).parent
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{programs}:{os.environ['PATH']}")
    monkeypatch.setenv("PRE_COMMIT_HOME", str(tmp_path / "pre-commit"))
    monkeypatch.setenv("REPLAY_CACHE_DIR", str(tmp_path / "cache"))
    subprocess.run(
        [programs / "pre-commit", "install"], cwd=repository.work, check=True, capture_output=True
    )
    git(repository.work, "commit", "--quiet", "-m", "A hook")

    repository.set_factor("1.6f")
    with pytest.raises(subprocess.CalledProcessError):
        git(repository.work, "commit", "--quiet", "--all", "-m", "Scale more")
    (repository.work / "README").write_text("No source\n")
    git(repository.work, "add", "README")
    git(repository.work, "commit", "--quiet", "-m", "Say what it is")


def test_the_hooks_are_as_pre_commit_wants_them():
    checker = Path(sys.executable).parent / "pre-commit"
    subprocess.run([checker, "validate-manifest", ROOT / ".pre-commit-hooks.yaml"], check=True)
    built, installed = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (built["language"], installed["language"]) == ("rust", "system")
    assert built["args"] == installed["args"] and built["files"] == installed["files"]
