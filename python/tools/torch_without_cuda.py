#!/usr/bin/env python3
"""Makes PyTorch's CUDA build importable on a machine without CUDA.

    python/tools/torch_without_cuda.py FOLDER/site-packages/torch/lib

There is no PyTorch for x86-64 Linux on PyPI that needs no CUDA: its libraries name 15 of NVIDIA's,
which are 3 GB, to be loaded at all. For each that is missing, a stand-in is written beside them: a shared
library with the name, the versions and the symbols that PyTorch asks for. Every function returns 100,
"no device was found" of CUDA's runtime: `torch.cuda.is_available()` is False, and tensors on the
CPU work. Needs gcc and readelf. Deterministic; a second run finds nothing missing.
"""

import collections
import pathlib
import platform
import re
import subprocess
import sys
import tempfile

RETURN_NO_DEVICE = {
    "x86_64": "movl $100, %eax\n ret",
    "aarch64": "mov w0, #100\n ret",
}
SYMBOL = re.compile(r"^\s*\d+: \S+\s+\S+ \S+\s+(\S+)\s+\S+\s+(\S+) (\S+)(?: \((\d+)\))?")
NVIDIAS = re.compile(r"_*(cu|nv|nccl)[a-zA-Z]")
VERSION = re.compile(r"Name: (\S+)\s+Flags: .*Version: (\d+)")


def readelf(option: str, library: pathlib.Path) -> list[str]:
    command = ["readelf", "--wide", option, str(library)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()


def needed(library: pathlib.Path) -> list[str]:
    """The libraries that one names."""
    lines = readelf("--dynamic", library)
    return [line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line]


def version_files(library: pathlib.Path) -> dict[str, str]:
    """Which library each of the versions that one asks for comes from."""
    files = {}
    file = ""
    for line in readelf("--version-info", library):
        if found := re.search(r"File: (\S+)\s+Cnt:", line):
            file = found[1]
        elif found := VERSION.search(line):
            files[found[1]] = file
    return files


def symbols(library: pathlib.Path) -> tuple[set[str], set[tuple[str, str]]]:
    """The names that one defines, and the names with versions that it must find elsewhere."""
    defined, undefined = set(), set()
    for line in readelf("--dyn-syms", library):
        found = SYMBOL.match(line)
        if not found:
            continue
        binding, section, name = found[1], found[2], found[3]
        name, _, version = name.partition("@")
        if section != "UND":
            defined.add(name)
        elif binding == "GLOBAL":
            undefined.add((name, version.lstrip("@")))
    return defined, undefined


def known_to_the_system() -> set[str]:
    text = subprocess.run(
        ["/sbin/ldconfig", "-p"], check=True, capture_output=True, text=True
    ).stdout
    return {line.split()[0] for line in text.splitlines()[1:] if line.strip()}


def write_stand_in(path: pathlib.Path, by_version: dict[str, set[str]]) -> None:
    """Compiles one library: `by_version` are its symbols, those without a version under ""."""
    body = RETURN_NO_DEVICE[platform.machine()]
    names = sorted(set().union(*by_version.values()))
    lines = [".text", "no_device:", f" {body}"]
    lines += [f".globl {name}\n.type {name}, @function\n.set {name}, no_device" for name in names]
    lines += ['.section .note.GNU-stack,"",@progbits', ""]
    script = [
        f"{version} {{ global: {' '.join(f'{name};' for name in sorted(group))} }};"
        for version, group in sorted(by_version.items())
        if version
    ]
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "source.s").write_text("\n".join(lines))
        (folder / "versions").write_text("\n".join(script))
        command = ["gcc", "-shared", "-nostdlib", "-o", str(path), str(folder / "source.s")]
        command += [f"-Wl,-soname,{path.name}"]
        command += [f"-Wl,--version-script,{folder / 'versions'}"] if script else []
        subprocess.run(command, check=True)


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(f"usage: {sys.argv[0]} FOLDER/site-packages/torch/lib")
    folder = pathlib.Path(sys.argv[1])
    libraries = sorted(folder.glob("*.so*"))
    if not libraries:
        sys.exit(f"{folder} holds no libraries")
    asked = {library: needed(library) for library in libraries}
    there = {library.name for library in libraries} | known_to_the_system()
    missing = {name for names in asked.values() for name in names} - there
    found = {library: symbols(library) for library in libraries}
    defined = set().union(*(names for names, _ in found.values()))

    wanted: dict[str, dict[str, set[str]]] = {
        name: collections.defaultdict(set) for name in missing
    }
    for library, (_, undefined) in found.items():
        files = version_files(library)
        mine = [name for name in asked[library] if name in missing]
        for name, version in undefined:
            # A name without a version may be Python's, too, and is found wherever it is defined.
            unversioned = mine and name not in defined and NVIDIAS.match(name)
            file = files.get(version) if version else (mine[0] if unversioned else None)
            if file in wanted:
                wanted[file][version].add(name)
    for name in sorted(wanted):
        write_stand_in(folder / name, wanted[name])
    count = sum(len(group) for groups in wanted.values() for group in groups.values())
    print(f"{folder}: {len(wanted)} stand-in libraries with {count} symbols")


main()
