"""Searches along environments: versions of a package of ours, variables, a command of the user's."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest

import gradreplay
from gradreplay import installed, tensors

pytestmark = pytest.mark.skipif("REPLAY" not in os.environ, reason="REPLAY names no program")

PACKAGE = Path(__file__).parents[1] / "src"
# The fourth version is wrong, and so is the fifth; the second needs an interpreter that is none.
BODIES = {"1.0": "2 * x", "1.1": "x + x", "1.2": "2 * x", "2.0": "2.5 * x", "2.1": "2.5 * x"}

HARNESS = """\
program = [{python!r}, "step.py"]
tree = ["model.py"]
preload = ["numpy"]

[inputs.x]
dtype = "f32"
shape = ["n"]

[outputs.y]
dtype = "f32"
shape = ["n"]

[axes]
tinyloss = "1.0..2"

[axes.scale]
environment = "SCALE_MODE"
values = ["plain", "odd"]

[axes.tools]
set = ["./use-tools", "{{value}}"]
values = ["a", "b", "c", "broken", "chatty"]
"""
STEP = """\
import gradreplay as replay

@replay.harness(framework="numpy")
def step(x):
    from model import scale  # of the revision
    return {"y": scale(x)}

replay.main()
"""
MODEL = """\
import os
import numpy as np

def scale(x):
    y = 2 * x
    if "LOSS" in os.environ:
        import tinyloss
        y = tinyloss.loss(x)
    if os.environ.get("SCALE_MODE") == "odd" or os.environ.get("TOOLS") == "c":
        y = 3 * x
    return y.astype(np.float32)
"""
TOOLS = """\
#!/bin/sh
case $1 in
    broken) echo "no such tools" >&2; exit 125 ;;
    chatty) echo "using $1" ;;
    *) echo "TOOLS=$1" ;;
esac
"""


# An interpreter that does not tell of its pip.
WITHOUT_PIP = """\
#!/bin/sh
if [ "$1" = -c ]; then {python} "$@" | grep -v '^pip '; else exec {python} "$@"; fi
"""
# Speaks as uv does, and lets pip install.
UV = """\
#!/bin/sh
for last in "$@"; do :; done
case "$*" in
    --version) echo "uv 0.0 (stand-in)" ;;
    *--dry-run*9.9) echo "error: there is no version of $last" >&2; exit 1 ;;
    *--dry-run*7.0) echo "error: No space left on device (os error 28)" >&2; exit 2 ;;
    *--dry-run*) echo " + $last" >&2 ;;
    *compile*) cat "$last"; echo "    --hash=sha256:ab" ;;
    *--target*)
        target=$(echo "$*" | sed 's/.*--target //; s/ .*//')
        if [ -n "$SLOW" ]; then mkdir -p "$target/half"; touch "$SLOW"; sleep 60; fi
        {python} -m pip install --quiet --no-deps --target "$target" "$last" ;;
esac
"""


def wheel(folder: Path, version: str, body: str, needs: str = ">=3.8") -> None:
    """A wheel of the package `tinyloss`."""
    info = f"tinyloss-{version}.dist-info"
    metadata = (
        f"Metadata-Version: 2.1\nName: tinyloss\nVersion: {version}\nRequires-Python: {needs}\n"
    )
    files = {
        "tinyloss/__init__.py": f"def loss(x):\n    return {body}\n",
        f"{info}/METADATA": metadata,
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    record = "".join(f"{name},sha256={_digest(text)},{len(text)}\n" for name, text in files.items())
    files[f"{info}/RECORD"] = f"{record}{info}/RECORD,,\n"
    with zipfile.ZipFile(folder / f"tinyloss-{version}-py3-none-any.whl", "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def _digest(text: str) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()


class Site:
    """A project with a program, a folder of wheels, and a cache of its own."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.wheels = root / "wheels"
        self.wheels.mkdir()
        fixture = root / "fixtures/step0"
        fixture.mkdir(parents=True)
        (root / "replay.toml").write_text(HARNESS.format(python=sys.executable))
        (root / "step.py").write_text(STEP)
        (root / "model.py").write_text(MODEL)
        (root / "use-tools").write_text(TOOLS)
        (root / "use-tools").chmod(0o755)
        (fixture / "fixture.toml").write_text('harness = "../../replay.toml"\n')
        x = np.linspace(-1, 1, 8, dtype=np.float32)
        tensors.write(fixture / "inputs.safetensors", {"x": tensors.take("x", x)})
        self.git("init", "-q")
        self.git("add", "model.py")
        self.git("commit", "-qm", "A model")

    def git(self, *words: str) -> None:
        git = ["git", "-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run([*git, *words], cwd=self.root, check=True, capture_output=True)

    def replay(self, *words: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """Runs the program without a network."""
        process = self.start(*words, **variables)
        out, err = process.communicate()
        return subprocess.CompletedProcess(words, process.returncode, out, err)

    def start(self, *words: str, **variables: str) -> subprocess.Popen[str]:
        """The same, at work."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("PIP_")},
            "PIP_NO_INDEX": "1",
            "PIP_FIND_LINKS": str(self.wheels),
            "PYTHONPATH": str(PACKAGE),
            "REPLAY_CACHE_DIR": str(self.root / "cache"),
            "REPLAY_GRADIENTS": "off",
            **variables,
        }
        command = [os.environ["REPLAY"], *words]
        pipe = subprocess.PIPE
        return subprocess.Popen(
            command, cwd=self.root, env=environment, stdout=pipe, stderr=pipe, text=True
        )

    def use_uv(self, real: bool) -> dict[str, str]:
        """The program runs without pip; the variables have uv in PATH, or what stands for it."""
        scripts = {"python-plain": WITHOUT_PIP, "bin/uv": UV}
        (self.root / "bin").mkdir()
        for name, text in scripts.items():
            (self.root / name).write_text(text.replace("{python}", sys.executable))
            (self.root / name).chmod(0o755)
        self.change_harness(repr(sys.executable), "'./python-plain'")
        if real:
            return {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(self.wheels)}
        return {"PATH": f"{self.root / 'bin'}:{os.environ['PATH']}"}

    def change_harness(self, old: str, new: str) -> None:
        harness = self.root / "replay.toml"
        text = harness.read_text()
        assert old in text
        harness.write_text(text.replace(old, new))

    def publish(self, name: str, versions: dict[str, str], yanked: str = "") -> str:
        """The address of an index with these versions of the package, one of them taken back."""
        folder = self.root / name / "tinyloss"
        folder.mkdir(parents=True)
        for version, body in versions.items():
            wheel(folder, version, body)
        links = ""
        for file in sorted(folder.iterdir()):
            mark = " data-yanked='it is wrong'" if yanked and f"-{yanked}-" in file.name else ""
            links += f'<a href="{file.name}"{mark}>{file.name}</a><br>\n'
        (folder / "index.html").write_text(f"<!DOCTYPE html><html><body>{links}</body></html>")
        return f"file://{self.root / name}"

    def packages(self) -> int:
        """How many sets of packages the cache holds."""
        return len(list((self.root / "cache/replay/packages").glob("*")))


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def with_loss(site: Site) -> None:
    """The program uses the package."""
    text = (site.root / "replay.toml").read_text()
    text = text.replace("tree =", 'env = { LOSS = "1" }\ntree =')
    (site.root / "replay.toml").write_text(text)


def test_the_wrong_one_of_five_versions_is_found_and_what_is_known_needs_no_index(
    site: Site,
) -> None:
    with_loss(site)
    for version, body in BODIES.items():
        wheel(site.wheels, version, body, ">=99" if version == "1.1" else ">=3.8")
    words = ("bisect", "fixtures/step0", "--over", "tinyloss", "--good", "1.0", "--bad", "2.1")
    found = site.replay(*words, "--on", "bits")
    assert found.returncode == 0, found.stdout + found.stderr
    first, *rest = found.stdout.splitlines()
    assert first == "tinyloss 2.0 is the first bad one: in the working tree", found.stdout
    text = "\n".join(rest)
    assert "-tinyloss 1.2\n+tinyloss 2.0" in text, found.stdout
    assert "tinyloss 1.2, the one before it, was tested: identical" in text, found.stdout
    kept = site.packages()
    assert 3 <= kept <= 4
    listed = site.replay("cache")
    assert f"packages          {kept} entries" in listed.stdout, listed.stdout
    for file in site.wheels.iterdir():
        file.unlink()
    diff = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.2,2.0")
    assert diff.returncode == 128 and "pip finds no versions of tinyloss" in diff.stderr
    harness = site.root / "replay.toml"
    harness.write_text(harness.read_text().replace('"1.0..2"', '["1.0", "1.2", "2.0", "9.9"]'))
    diff = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.2,2.0")
    assert diff.returncode == 1 and "y" in diff.stdout, diff.stdout + diff.stderr
    missing = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.2,9.9")
    assert missing.returncode == 128, missing.stderr
    assert "pip cannot install tinyloss 9.9" in missing.stderr, missing.stderr
    assert "(from versions: none)" in missing.stderr, missing.stderr
    assert site.replay("cache", "clear").returncode == 0 and site.packages() == 0


def test_code_that_is_wrong_with_a_new_package_alone_is_found_with_that_package(site: Site) -> None:
    for version, body in BODIES.items():
        wheel(site.wheels, version, body)
    calling = MODEL.replace('if "LOSS" in os.environ:', "if True:")
    for text, subject in (
        (MODEL + "# as before\n", "Say more"),
        (calling, "Call the package"),
        (calling + "# as before\n", "Say more"),
    ):
        (site.root / "model.py").write_text(text)
        site.git("commit", "-qam", subject)
    ends = ("--good", "HEAD~3@tinyloss=1.0", "--bad", "HEAD@tinyloss=2.1")
    found = site.replay("bisect", "fixtures/step0", *ends, "--on", "bits")
    assert found.returncode == 0, found.stdout + found.stderr
    parts = found.stdout.split("\n\n")
    assert parts[0].startswith("only both together do it: the code and tinyloss\n"), found.stdout
    assert "@tinyloss=2.1 bad: y has other bits" in parts[0], found.stdout
    assert parts[1].startswith("with tinyloss 2.1:\n"), found.stdout
    assert " is the first bad commit: Call the package" in parts[1], found.stdout
    assert "\ntinyloss 2.0 is the first bad one: at " in found.stdout, found.stdout


def test_a_version_that_cannot_be_installed_is_untestable(site: Site) -> None:
    with_loss(site)
    wheel(site.wheels, "1.0", "2 * x")
    wheel(site.wheels, "2.0", "2 * x", needs=">=99")
    harness = site.root / "replay.toml"
    harness.write_text(harness.read_text().replace('"1.0..2"', '["1.0", "2.0"]'))
    diff = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.0,2.0")
    assert diff.returncode == 125, diff.stdout + diff.stderr
    assert "pip cannot install tinyloss 2.0" in diff.stderr, diff.stderr


def test_a_users_command_is_an_axis_and_so_is_a_variable(site: Site) -> None:
    words = ("bisect", "fixtures/step0", "--over", "tools", "--good", "a", "--bad", "c")
    found = site.replay(*words, "--on", "bits", "--rev", "HEAD")
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.startswith("tools c is the first bad one: at "), found.stdout
    assert "-TOOLS=b\n+TOOLS=c" in found.stdout, found.stdout
    diff = site.replay("diff", "fixtures/step0", "--with", "scale=plain,odd")
    assert diff.returncode == 1, diff.stdout + diff.stderr
    assert "step0 at scale odd in the working tree" in diff.stdout, diff.stdout


def test_a_command_says_by_125_that_a_value_cannot_be_used_and_prints_variables_alone(
    site: Site,
) -> None:
    broken = site.replay("diff", "fixtures/step0", "--with", "tools=a,broken")
    assert broken.returncode == 125 and "no such tools" in broken.stderr, broken.stderr
    chatty = site.replay("diff", "fixtures/step0", "--with", "tools=a,chatty")
    assert chatty.returncode == 128, chatty.stderr
    assert "prints a line that is no NAME=VALUE: using chatty" in chatty.stderr, chatty.stderr


def test_what_a_capture_ran_on_is_shown_beside_what_is_here(site: Site) -> None:
    fixture = site.root / "fixtures/step0/fixture.toml"
    assert site.replay("env", "fixtures/step0").stdout == "step0 records no versions\n"
    versions = f'{{ numpy = "{np.__version__}", tinyloss = "1.0", cuda = "12.9", pip = "0.1" }}'
    fixture.write_text(f"{fixture.read_text()}[provenance]\nversions = {versions}\n")
    shown = site.replay("env", "fixtures/step0").stdout.splitlines()
    folder = site.root / "fixtures/step0"
    result = gradreplay.env(folder)
    told = result.fixtures[0]
    assert (told.fixture, told.folder, told.others) == ("step0", str(folder), 2)
    versions_here = {version.name: version.here for version in told.versions}
    assert versions_here["numpy"] == np.__version__ and versions_here["tinyloss"] is None
    assert str(result).splitlines() == shown
    assert shown[0] == "step0: 2 of 3 recorded versions are others here", shown
    assert f"  numpy {np.__version__}" in shown and "  tinyloss 1.0, not installed here" in shown
    wrong = np.full(8, 7, dtype=np.float32)
    captured = {"y": tensors.take("y", wrong)}
    tensors.write(site.root / "fixtures/step0/expected.safetensors", captured)
    replayed = site.replay("fixtures/step0")
    assert "pip 0.1, here " in replayed.stdout, replayed.stdout + replayed.stderr
    assert "captured with tinyloss 1.0, which is not installed here" in replayed.stdout, (
        replayed.stdout
    )
    doctor = site.replay("doctor")
    assert "axis          tinyloss: versions of tinyloss by pip " in doctor.stdout, doctor.stdout


ENVIRONMENT = """\
step0: 2 of 2 recorded versions are others here
  numpy {numpy}, here of other contents
  numpy-like {numpy}, not installed here
settings: 3 of 4 that can be compared are others here
  torch.backends.cudnn.benchmark = true, not compared
  NVIDIA_TF32_OVERRIDE = 0, not set here
  OMP_NUM_THREADS = 8, not compared
  TRITON_F32_DEFAULT = ieee, here tf32
  XLA_FLAGS = --a=1, --b
  MKL_CBWR not set, here AVX2
"""


def test_other_contents_and_settings_are_shown_and_named_where_an_output_is_missed(
    site: Site,
) -> None:
    fixture = site.root / "fixtures/step0/fixture.toml"
    version = np.__version__
    facts = f"""\
[provenance]
framework = "numpy"
versions = {{ numpy = "{version}", numpy-like = "{version}" }}
hashes = {{ numpy = "0123456789ab", numpy-like = "0123456789ab" }}
[provenance.settings]
"torch.backends.cudnn.benchmark" = "true"
NVIDIA_TF32_OVERRIDE = "0"
OMP_NUM_THREADS = "8"
TRITON_F32_DEFAULT = "ieee"
XLA_FLAGS = "--a=1, --b"
"""
    fixture.write_text(fixture.read_text() + facts)
    site.change_harness("[inputs.x]", '[env]\nTRITON_F32_DEFAULT = "tf32"\n\n[inputs.x]')
    variables = {"XLA_FLAGS": "--a=1, --b", "MKL_CBWR": "AVX2", "TRITON_CACHE_DIR": "/x"}
    shown = site.replay("env", "fixtures/step0", **variables)
    assert shown.stdout == ENVIRONMENT.format(numpy=version), shown.stdout + shown.stderr
    document = json.loads(
        site.replay("env", "fixtures/step0", "--format", "json", **variables).stdout
    )
    told = document["fixtures"][0]
    assert (told["others"], told["other_settings"]) == (2, 3)
    numpy_here = told["versions"][0]
    assert numpy_here["relation"] == "other_contents", numpy_here
    assert numpy_here["contents_here"] == installed.contents("numpy"), numpy_here
    # An installation as it was captured.
    fixture.write_text(fixture.read_text().replace("0123456789ab", numpy_here["contents_here"]))
    assert f"\n  numpy {version}\n" in site.replay("env", "fixtures/step0").stdout
    fixture.write_text(fixture.read_text().replace(numpy_here["contents_here"], "0123456789ab"))
    # A program tells what it has itself: this one sets a variable.
    step = site.root / "step.py"
    step.write_text(f"import os\nos.environ['NVIDIA_TF32_OVERRIDE'] = '1'\n{step.read_text()}")
    captured = {"y": tensors.take("y", np.full(8, 7, dtype=np.float32))}
    tensors.write(site.root / "fixtures/step0/expected.safetensors", captured)
    replayed = site.replay("fixtures/step0", **variables)
    line = (
        f"captured with numpy-like {version}, which is not installed here; NVIDIA_TF32_OVERRIDE = 0, here 1; "
        f"numpy {version} of other contents; TRITON_F32_DEFAULT = ieee, here tf32; "
        "1 further difference: `replay env` shows all"
    )
    assert line in replayed.stdout, replayed.stdout + replayed.stderr
    document = json.loads(site.replay("fixtures/step0", "--format", "json", **variables).stdout)
    names = [setting["name"] for setting in document["replays"][0]["captured_settings"]]
    assert names == ["NVIDIA_TF32_OVERRIDE", "TRITON_F32_DEFAULT", "MKL_CBWR"]


@pytest.mark.parametrize(
    "real",
    [
        False,
        pytest.param(True, marks=pytest.mark.skipif(shutil.which("uv") is None, reason="needs uv")),
    ],
)
def test_uv_installs_where_the_interpreter_has_no_pip(site: Site, real: bool) -> None:
    with_loss(site)
    for version, body in BODIES.items():
        wheel(site.wheels, version, body)
    variables = site.use_uv(real)
    refused = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.0,2.0", **variables)
    assert refused.returncode == 128, refused.stderr
    assert "uv lists no versions of tinyloss, and " in refused.stderr, refused.stderr
    site.change_harness('"1.0..2"', '["1.0", "1.2", "2.0", "9.9"]')
    diff = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.0,2.0", **variables)
    assert diff.returncode == 1 and site.packages() == 2, diff.stdout + diff.stderr
    assert "step0 at tinyloss 2.0 in the working tree" in diff.stdout, diff.stdout
    absent = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.0,9.9", **variables)
    assert absent.returncode == 125, absent.stderr
    assert "uv cannot install tinyloss 9.9" in absent.stderr, absent.stderr
    assert "no version of tinyloss==9.9" in absent.stderr, absent.stderr
    doctor = site.replay("doctor", **variables)
    assert "axis          tinyloss: versions of tinyloss by uv " in doctor.stdout, doctor.stdout


def test_a_killed_installation_leaves_nothing_and_a_full_disk_is_the_machines(site: Site) -> None:
    with_loss(site)
    for version in ("1.0", "2.0"):
        wheel(site.wheels, version, BODIES[version])
    variables = site.use_uv(real=False)
    site.change_harness('"1.0..2"', '["1.0", "2.0", "7.0"]')
    full = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.0,7.0", **variables)
    assert full.returncode == 128 and "No space left on device" in full.stderr, full.stderr
    sign = site.root / "installing"
    words = ("diff", "fixtures/step0", "--with", "tinyloss=2.0,1.0")
    killed = site.start(*words, SLOW=str(sign), **variables)
    for _ in range(600):
        if sign.exists():
            break
        time.sleep(0.05)
    assert sign.exists()
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert site.packages() == 1
    diff = site.replay(*words, **variables)
    assert diff.returncode == 1 and site.packages() == 2, diff.stdout + diff.stderr


def test_two_searches_at_once_share_what_they_install(site: Site) -> None:
    with_loss(site)
    for version, body in BODIES.items():
        wheel(site.wheels, version, body)
    words = ("diff", "fixtures/step0", "--with", "tinyloss=1.0,2.0")
    both = [site.start(*words) for _ in range(2)]
    told = [process.communicate() for process in both]
    assert [process.returncode for process in both] == [1, 1], told
    assert site.packages() == 2


def test_a_nightly_index_is_searched_by_days(site: Site) -> None:
    with_loss(site)
    days = {"01": "2 * x", "02": "x + x", "05": "2.5 * x"}
    index = site.publish("nightly", {f"1.1.dev202511{day}": body for day, body in days.items()})
    axis = f'[axes.loss]\npackage = "tinyloss"\nindex = "{index}"\nvalues = '
    harness = site.root / "replay.toml"
    plain = harness.read_text()
    harness.write_text(f'{plain}\n{axis}"2025-11-01..2025-11-30"\n')
    variables = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": ""}
    words = ("bisect", "fixtures/step0", "--over", "loss", "--on", "bits")
    ends = ("--good", "2025-11-01", "--bad", "2025-11-05")
    found = site.replay(*words, *ends, **variables)
    assert found.returncode == 0, found.stdout + found.stderr
    assert found.stdout.startswith("loss 2025-11-05 is the first bad one: "), found.stdout
    assert "-tinyloss 1.1.dev20251102\n+tinyloss 1.1.dev20251105" in found.stdout, found.stdout
    harness.write_text(f'{plain}\n{axis}["2025-11-01", "2025-11-03", "2025-11-05"]\n')
    pair = ("diff", "fixtures/step0", "--with", "loss=2025-11-01,2025-11-03")
    absent = site.replay(*pair, **variables)
    assert absent.returncode == 125, absent.stderr
    message = "tinyloss has no version of 2025-11-03; the index has 2025-11-01 to 2025-11-05"
    assert message in absent.stderr, absent.stderr
    shutil.rmtree(site.root / "nightly")
    pair = ("diff", "fixtures/step0", "--with", "loss=2025-11-01,2025-11-05")
    assert site.replay(*pair, **variables).returncode == 1
    harness.write_text(f'{plain}\n{axis}"2025-12-01..2025-12-30"\n')
    gone = site.replay(*pair, **variables)
    assert gone.returncode == 128 and "pip finds no versions of tinyloss" in gone.stderr, (
        gone.stderr
    )


def test_a_yanked_version_is_untestable(site: Site) -> None:
    with_loss(site)
    index = site.publish("simple", {"1.0": "2 * x", "2.0": "2 * x"}, yanked="2.0")
    site.change_harness('"1.0..2"', '["1.0", "2.0"]')
    variables = {"PIP_NO_INDEX": "0", "PIP_FIND_LINKS": "", "PIP_INDEX_URL": index}
    diff = site.replay("diff", "fixtures/step0", "--with", "tinyloss=1.0,2.0", **variables)
    assert diff.returncode == 125, diff.stdout + diff.stderr
    assert "tinyloss 2.0 is yanked" in diff.stderr, diff.stderr
    assert "Reason for being yanked: it is wrong" in diff.stderr, diff.stderr


def test_a_version_between_known_ends_that_cannot_be_had_is_told_before_anything_is_replayed(
    site: Site,
) -> None:
    with_loss(site)
    for version, body in BODIES.items():
        wheel(site.wheels, version, body)
    site.change_harness('"1.0..2"', '["1.0", "1.1", "2.1"]')
    ends = ("--with", "tinyloss=1.0,2.1", "--format", "json")
    assert site.replay("diff", "fixtures/step0", *ends).returncode == 1
    for file in site.wheels.iterdir():
        file.unlink()
    words = ("bisect", "fixtures/step0", "--over", "tinyloss", "--good", "1.0", "--bad", "2.1")
    refused = site.replay(*words, "--format", "json")
    assert refused.returncode == 128, refused.stdout + refused.stderr
    assert "pip cannot install tinyloss 1.1" in refused.stderr, refused.stderr
    assert '"events"' not in refused.stdout and '"commit"' not in refused.stdout, refused.stdout


def test_values_have_blanks_and_letters_of_any_script(site: Site) -> None:
    site.change_harness('["plain", "odd"]', '["odd", "very odd", "日本"]')
    diff = site.replay("diff", "fixtures/step0", "--with", "scale=very odd,日本")
    assert diff.returncode == 0, diff.stdout + diff.stderr
    assert "step0 at scale 日本 in the working tree" in diff.stdout, diff.stdout
    words = ("bisect", "fixtures/step0", "--over", "scale", "--good", "very odd", "--bad", "odd")
    found = site.replay(*words, "--on", "bits")
    assert found.stdout.startswith("scale very odd repairs y: "), found.stdout + found.stderr
