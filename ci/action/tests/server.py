"""A stand-in for GitHub: acts out workflows and composite actions as their files have them.

Steps with `run` go to a shell. Of `uses`, those of this repository are acted out in turn, and
those of GitHub (checkout, cache, artifacts) are played here. What the files say beyond that is
refused, so nothing passes that was not acted out.
"""

import json
import os
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[3]
TOKEN = re.compile(r"\s*('(?:[^']|'')*'|[A-Za-z_][\w.-]*|&&|\|\||==|!=|!|[(),])")
OPERATORS = {"&&": " and ", "||": " or ", "!": " not "}


class Expressions:
    """GitHub's `${{ }}`, as far as our files use it."""

    def __init__(self, contexts, failed):
        self.contexts = contexts
        self.failed = failed

    def look_up(self, path):
        value = self.contexts
        for name in path.split("."):
            value = value.get(name, "") if isinstance(value, dict) else ""
        return value

    def evaluate(self, text):
        code, at = "", 0
        while at < len(text.rstrip()):
            match = TOKEN.match(text, at)
            assert match, f"an expression that this stand-in does not know: {text}"
            token, at = match[1], match.end()
            if token[0] == "'":
                code += repr(token[1:-1].replace("''", "'"))
            elif token in OPERATORS or token in ("==", "!=", "(", ")", ","):
                code += OPERATORS.get(token, token)
            elif token in ("always", "format"):
                code += token
            else:
                assert token.split(".")[0] in self.contexts, f"no context: {text}"
                code += f"look_up({token!r})"
        names = {
            "look_up": self.look_up,
            "always": lambda: True,
            "format": lambda text, *values: text.format(*values),
        }
        return eval(code, {"__builtins__": {}}, names)  # noqa: S307

    def fill(self, text):
        def fill_one(match):
            value = self.evaluate(match[1])
            return (
                ""
                if value is None
                else str(value).lower()
                if isinstance(value, bool)
                else str(value)
            )

        return re.sub(r"\$\{\{(.*?)\}\}", fill_one, str(text))

    def is_wanted(self, condition):
        condition = re.sub(r"^\$\{\{(.*)\}\}$", r"\1", str(condition or "'yes'").strip())
        return ("always()" in condition or not self.failed) and bool(self.evaluate(condition))


@dataclass
class Run:
    """What a run of a workflow left."""

    temp: Path
    workspace: Path
    log: str = ""
    failed: bool = False
    ran: list = field(default_factory=list)
    outputs: dict = field(default_factory=dict)
    artifacts: dict = field(default_factory=dict)

    @property
    def summary(self):
        path = self.temp / "summary.md"
        return path.read_text() if path.exists() else ""

    def report(self, name):
        return (self.artifacts["replay"] / name).read_text()


class Server:
    """A repository on a server, with caches, artifacts of its runs, and comments."""

    def __init__(self, folder, origin, path=""):
        self.folder = folder
        self.origin = origin
        self.path = path
        self.caches = {}
        self.runs = 0

    def act(self, workflow, event_name, event, ref, *, inputs=None, environment=None, earlier=None):
        """Runs the only job of the file `workflow` on the commit `ref`.

        `inputs` replace those of its steps with `uses`; `earlier` has the artifacts to take.
        """
        self.runs += 1
        base = self.folder / f"run{self.runs}"
        run = Run(base / "temp", base / "workspace")
        run.temp.mkdir(parents=True)
        run.workspace.mkdir()
        document = yaml.safe_load(workflow.read_text())
        triggers = document[True]  # YAML 1.1 takes `on` for a truth.
        assert event_name in triggers
        (job,) = document["jobs"].values()
        github = {
            "event_name": event_name,
            "event": event,
            "ref": ref,
            "repository": "o/r",
            "token": "TOKEN",
        }
        contexts = {
            "github": github,
            "runner": {"temp": str(run.temp), "os": "Linux", "arch": "X64"},
            "inputs": {},
            "steps": {},
        }
        if not Expressions(contexts, False).is_wanted(job.get("if")):
            return run
        environment = {**os.environ, "CI": "true", "GITHUB_ACTIONS": "true", **(environment or {})}
        environment["PATH"] = f"{self.path}:{environment['PATH']}"
        environment["RUNNER_TEMP"] = str(run.temp)
        environment["GITHUB_EVENT_NAME"] = event_name
        environment["GITHUB_STEP_SUMMARY"] = str(run.temp / "summary.md")
        self.act_steps(job["steps"], contexts, environment, run, inputs or {}, earlier)
        return run

    def act_steps(self, steps, contexts, environment, run, replaced, earlier):
        for number, step in enumerate(steps):
            unknown = set(step) - {"name", "id", "if", "uses", "with", "run", "shell", "env"}
            assert not unknown, f"keys that this stand-in does not know: {unknown}"
            expressions = Expressions(contexts, run.failed)
            if not expressions.is_wanted(step.get("if")):
                continue
            name = step.get("name", step.get("uses"))
            run.ran.append(name)
            given = {key: expressions.fill(value) for key, value in step.get("with", {}).items()}
            if "run" in step:
                variables = {key: expressions.fill(v) for key, v in step.get("env", {}).items()}
                outputs = self.run_script(
                    step["run"], {**environment, **variables}, environment, run
                )
            else:
                outputs = self.use(
                    step["uses"], {**given, **replaced}, contexts, environment, run, earlier
                )
            contexts["steps"][step.get("id", number)] = {"outputs": outputs}

    def run_script(self, script, variables, environment, run):
        files = {name: run.temp / name.lower() for name in ("GITHUB_OUTPUT", "GITHUB_PATH")}
        for file in files.values():
            file.write_text("")
        ended = subprocess.run(
            ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
            cwd=run.workspace,
            env={**variables, **{name: str(file) for name, file in files.items()}},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        run.log += ended.stdout
        run.failed |= ended.returncode != 0
        for folder in files["GITHUB_PATH"].read_text().split():
            environment["PATH"] = f"{folder}:{environment['PATH']}"
        return dict(line.split("=", 1) for line in files["GITHUB_OUTPUT"].read_text().splitlines())

    def use(self, action, given, contexts, environment, run, earlier):
        name, version = action.split("@")
        if name.startswith("OWNER/replay"):
            folder = ROOT / name.removeprefix("OWNER/replay").strip("/")
            return self.act_composite(folder, given, contexts, environment, run, earlier)
        assert re.fullmatch("[0-9a-f]{40}", version), f"{action} is not pinned"
        match name:
            case "actions/checkout":
                self.check_out(given, contexts["github"]["ref"], run)
            case "actions/cache/restore":
                return self.restore(given)
            case "actions/cache/save":
                if Path(given["path"]).exists() and given["key"] not in self.caches:
                    kept = self.folder / f"cache{len(self.caches)}"
                    shutil.copytree(given["path"], kept)
                    self.caches[given["key"]] = (given["path"], kept)
            case "actions/upload-artifact":
                if Path(given["path"]).exists():
                    kept = run.temp.parent / f"artifact-{given['name']}"
                    shutil.copytree(given["path"], kept)
                    run.artifacts[given["name"]] = kept
                else:
                    assert given["if-no-files-found"] == "ignore"
            case "actions/download-artifact":
                assert given["run-id"] == "1" and given["github-token"] == "TOKEN"
                shutil.copytree(earlier[given["name"]], given["path"], symlinks=True)
            case _:
                raise AssertionError(f"an action that this stand-in does not know: {action}")
        return {}

    def act_composite(self, folder, given, outer, environment, run, earlier):
        document = yaml.safe_load((folder / "action.yml").read_text())
        unknown = set(given) - set(document["inputs"])
        assert not unknown, f"{folder.name} has no inputs {unknown}"
        defaults = Expressions({"github": outer["github"]}, False)
        inputs = {name: defaults.fill(of["default"]) for name, of in document["inputs"].items()}
        contexts = {**outer, "inputs": {**inputs, **given}, "steps": {}}
        environment = {**environment, "GITHUB_ACTION_PATH": str(folder)}
        self.act_steps(document["runs"]["steps"], contexts, environment, run, {}, earlier)
        expressions = Expressions({"steps": contexts["steps"], "inputs": contexts["inputs"]}, False)
        outputs = document.get("outputs", {})
        run.outputs = {name: expressions.fill(of["value"]) for name, of in outputs.items()}
        return run.outputs

    def check_out(self, given, ref, run):
        assert given["persist-credentials"] == "False"
        depth = int(given["fetch-depth"])
        shallow = [f"--depth={depth}"] if depth else []
        git(run.workspace, "init", "--quiet")
        git(run.workspace, "remote", "add", "origin", f"file://{self.origin}")
        branches = [] if depth else ["+refs/heads/*:refs/remotes/origin/*"]
        git(run.workspace, "fetch", "--quiet", *shallow, "origin", ref, *branches)
        commit = git(run.workspace, "ls-remote", "origin", ref).split()[0]
        git(run.workspace, "checkout", "--quiet", commit)

    def restore(self, given):
        prefixes = given.get("restore-keys", "").split()
        if given["key"] in self.caches:
            found = given["key"]
        else:
            fitting = [key for key in self.caches if any(key.startswith(p) for p in prefixes)]
            found = fitting[-1] if fitting else None
        if found is None:
            return {"cache-hit": ""}
        shutil.copytree(self.caches[found][1], given["path"], copy_function=shutil.copy2)
        hit = str(found == given["key"]).lower()
        return {"cache-hit": hit, "cache-matched-key": found}


def git(folder, *words):
    """Runs git with an identity and without the user's configuration."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    identity = {
        f"GIT_{who}_{what}": "a@b.c"
        for who in ("AUTHOR", "COMMITTER")
        for what in ("NAME", "EMAIL")
    }
    return subprocess.run(
        ["git", "-c", "init.defaultBranch=main", "-c", "advice.detachedHead=false", *words],
        cwd=folder,
        check=True,
        text=True,
        stdout=subprocess.PIPE,
        env={**environment, **identity, "GIT_CONFIG_GLOBAL": "/dev/null"},
    ).stdout.strip()


# GitHub's program: `gh api`, over pulls.json and comments.json in GH_STATE. Requests go to `asked`.
GH = """\
import json, os, sys
from pathlib import Path
import jq

state = Path(os.environ["GH_STATE"])
assert os.environ["GH_TOKEN"] == "TOKEN" and sys.argv[1] == "api"
words = sys.argv[2:]
options = dict(method="GET", jq=".")
fields = {}
paths = []
while words:
    word = words.pop(0)
    if word in ("--method", "--jq"):
        options[word[2:]] = words.pop(0)
    elif word in ("--field", "--raw-field"):
        name, value = words.pop(0).split("=", 1)
        fields[name] = Path(value[1:]).read_text() if word == "--field" and value[0] == "@" else value
    elif word != "--paginate":
        paths.append(word)
(path,) = paths
with open(state / "asked", "a") as asked:
    print(options["method"], path, file=asked)
comments_path = state / "comments.json"
comments = json.loads(comments_path.read_text())
match options["method"], path.split("/")[3:]:
    case "GET", ["pulls"]:
        assert fields["state"] == "open"
        answer = [p for p in json.loads((state / "pulls.json").read_text()) if p["label"] == fields["head"]]
    case "GET", ["issues", number, "comments"]:
        answer = [comment for comment in comments if comment["issue"] == int(number)]
    case "POST", ["issues", number, "comments"]:
        answer = dict(id=len(comments), issue=int(number), user=dict(type="Bot"), body=fields["body"])
        comments.append(answer)
    case "PATCH", ["issues", "comments", number]:
        answer = comments[int(number)]
        answer["body"] = fields["body"]
comments_path.write_text(json.dumps(comments))
for line in jq.compile(options["jq"]).input_value(answer).all():
    print(line if isinstance(line, str) else json.dumps(line))
"""


def write_program(path, text):
    """Writes a script that can be run."""
    path.write_text(text)
    path.chmod(0o755)


def write_json(path, value):
    """Writes a value of the server's API."""
    path.write_text(json.dumps(value))
