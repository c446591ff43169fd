"""Writes `src/gradreplay/documents.py`, the types of replay's JSON, from `docs/schema/*.json`.

python3 python/tools/generate_documents.py [--check]

A schema's object becomes a frozen dataclass, a choice of words a `Literal`, a choice of objects a union.
Needs ruff, which gives the file its format. With `--check` nothing is written: it fails if the file differs.
"""

from __future__ import annotations

import json
import keyword
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
TARGET = ROOT / "python/src/gradreplay/documents.py"

# The documents and their types; the lines of a search have no type in common.
DOCUMENTS = {
    "replay": "Replays",
    "diff": "Diffs",
    "gradcheck": "Gradchecks",
    "log": "Log",
    "series": "Series",
    "shrink": "Shrinking",
    "step": "StepReport",
    "inspect": "Inspection",
    "explain": "Explanation",
    "config": "Configuration",
    "env": "RecordedEnvironments",
    "bisect": "SearchEvent",
}

# Names that would be taken twice, or say nothing.
RENAMED = {
    "JsonFailure": "ReplayFailure",
    "LogTold": "SearchLog",
    "ReplayTold": "SeriesReplay",
    "FindingTold": "AccessFindingText",
    "JsonFinding": "SeriesFinding",
    "Why2": "ShuffleWhy",
}

HEADER = '''"""The types of replay's JSON documents.

Generated from docs/schema/*.json by python/tools/generate_documents.py; docs/schema.md explains the fields.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from .report import Report
'''

Schema = Mapping[str, Any]


@dataclass
class Module:
    """The definitions of the generated file, by name."""

    schemas: dict[str, Schema] = field(default_factory=dict)
    classes: dict[str, str] = field(default_factory=dict)
    # Each with the names that it is made of.
    aliases: dict[str, tuple[str, list[str]]] = field(default_factory=dict)

    def add_definitions(self, definitions: Mapping[str, Schema]) -> None:
        for name, schema in definitions.items():
            known = self.schemas.setdefault(name, schema)
            if known != schema:
                sys.exit(f"error: two schemas have other definitions of {name}")

    def write(self) -> str:
        for name, schema in self.schemas.items():
            self.define(python_name(name), schema)
        # Words alone first, unions of classes last.
        words = [name for name, (_, parts) in self.aliases.items() if not parts]
        unions = list(self.ordered_aliases(set(words)))
        lines = [HEADER]
        lines += [self.alias(name) for name in sorted(words)]
        lines += [self.classes[name] for name in sorted(self.classes)]
        lines += [self.alias(name) for name in unions]
        return "\n".join(lines)

    def alias(self, name: str) -> str:
        return f"{name}: TypeAlias = {self.aliases[name][0]}"

    def ordered_aliases(self, done: set[str]) -> Iterator[str]:
        for name in sorted(self.aliases):
            yield from self._ordered(name, done)

    def _ordered(self, name: str, done: set[str]) -> Iterator[str]:
        if name in done or name not in self.aliases:
            return
        done.add(name)
        for part in self.aliases[name][1]:
            yield from self._ordered(part, done)
        yield name

    def define(self, name: str, schema: Schema) -> None:
        """Adds the type of a schema under a name."""
        if name == "Number":
            # The words of JSON's missing numbers are read as numbers.
            self.aliases[name] = ("float", [])
        elif is_plain_object(schema):
            self.add_class(name, schema)
        else:
            parts: list[str] = []
            self.aliases[name] = (self.union(name, schema, parts), parts)

    def union(self, name: str, schema: Schema, parts: list[str]) -> str:
        """The annotation of a schema that is no plain object; `parts` gets the names in it."""
        variants = schema.get("oneOf") or schema.get("anyOf")
        if variants is None:
            return self.annotation(name, schema, parts)
        words = [word for variant in variants for word in words_of(variant)]
        annotations = [f"Literal[{', '.join(map(repr, words))}]"] if words else []
        tag = tag_of(variants)
        for variant in variants:
            if words_of(variant):
                continue
            if is_plain_object(variant) or "properties" in variant:
                suffix = variant["properties"][tag]["const"] if tag else sole_key(variant)
                part = name.removesuffix("Event") + camel_case(suffix)
                self.add_class(part, merged(schema, variant))
                parts.append(part)
                annotations.append(part)
            else:
                annotations.append(self.annotation(name, variant, parts))
        return " | ".join(sorted(dict.fromkeys(annotations), key=lambda part: part == "None"))

    def annotation(self, name: str, schema: Schema, parts: list[str]) -> str:
        """The annotation of a field or an element; `name` is for the objects inside."""
        if "$ref" in schema:
            part = python_name(schema["$ref"].removeprefix("#/$defs/"))
            parts.append(part)
            return part
        if words := words_of(schema):
            return f"Literal[{', '.join(map(repr, words))}]"
        if "oneOf" in schema or "anyOf" in schema:
            return self.union(name, schema, parts)
        kinds = schema.get("type", [])
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return " | ".join(self.kind(name, kind, schema, parts) for kind in kinds)

    def kind(self, name: str, kind: str, schema: Schema, parts: list[str]) -> str:
        simple = {"string": "str", "integer": "int", "number": "float", "boolean": "bool"}
        if kind in simple:
            return simple[kind]
        if kind == "null":
            return "None"
        if kind == "array":
            if "prefixItems" in schema:
                items = [self.annotation(name, item, parts) for item in schema["prefixItems"]]
                return f"tuple[{', '.join(items)}]"
            item = self.annotation(name, schema["items"], parts)
            count = schema.get("minItems")
            if count == schema.get("maxItems") and count is not None and count <= 3:
                return f"tuple[{', '.join([item] * count)}]"
            return f"tuple[{item}, ...]"
        if "properties" in schema:
            self.add_class(name, schema)
            parts.append(name)
            return name
        return f"Mapping[str, {self.annotation(name, schema['additionalProperties'], parts)}]"

    def add_class(self, name: str, schema: Schema) -> None:
        is_document = name in DOCUMENTS.values()
        arguments = "frozen=True, kw_only=True" + (", repr=False" if is_document else "")
        lines = [f"@dataclass({arguments})", f"class {name}{'(Report)' if is_document else ''}:"]
        if text := schema.get("description"):
            lines.append(docstring(text))
        required = schema.get("required", [])
        # In the order of the program, as far as the schema knows it.
        names = [*required, *(key for key in schema["properties"] if key not in required)]
        for key in names:
            lines += self.field(name, key, schema["properties"][key], key in required)
        self.classes[name] = "\n".join(lines) + "\n"

    def field(self, owner: str, key: str, schema: Schema, is_required: bool) -> list[str]:
        annotation = self.annotation(owner + camel_case(key), schema, [])
        if not is_required and not annotation.endswith("None"):
            annotation += " | None"
        attribute = key + "_" if keyword.iskeyword(key) else key
        options = [] if is_required else ["default=None"]
        if attribute != key:
            options.append(f'metadata={{"json": "{key}"}}')
        value = f" = field({', '.join(options)})" if len(options) > 1 or attribute != key else ""
        value = " = None" if options == ["default=None"] else value
        lines = [f"    {attribute}: {annotation}{value}"]
        if text := schema.get("description"):
            lines.append(docstring(text))
        return lines


def merged(outer: Schema, variant: Schema) -> Schema:
    """A variant with the fields that all variants have, and with those that only some of its own have."""
    properties = {**outer.get("properties", {}), **variant["properties"]}
    required = [*outer.get("required", []), *variant.get("required", [])]
    inner = variant.get("oneOf") or variant.get("anyOf") or []
    for alternative in inner:
        for key, schema in alternative["properties"].items():
            before = properties.get(key)
            properties[key] = both_words(before, schema) if before else schema
    in_all = [key for key in properties if inner and all(key in one["required"] for one in inner)]
    return {
        "description": variant.get("description"),
        "properties": properties,
        "required": required + in_all,
    }


def both_words(one: Schema, other: Schema) -> Schema:
    words = [*words_of(one), *words_of(other)]
    return {"enum": list(dict.fromkeys(words))} if words else one


def is_plain_object(schema: Schema) -> bool:
    return "properties" in schema and "oneOf" not in schema and "anyOf" not in schema


def words_of(schema: Schema) -> list[str]:
    """The words of which a value is one; none where it is something else."""
    if "$ref" in schema:
        return []
    return [schema["const"]] if "const" in schema else schema.get("enum", [])


def tag_of(variants: list[Schema]) -> str | None:
    """The field whose word names the variant."""
    objects = [variant["properties"] for variant in variants if "properties" in variant]
    for key in objects[0] if objects else []:
        words = [one[key]["const"] for one in objects if "const" in one.get(key, {})]
        if len(set(words)) == len(objects):
            return str(key)
    return None


def sole_key(variant: Schema) -> str:
    (key,) = variant["properties"]
    return str(key)


def python_name(name: str) -> str:
    name = RENAMED.get(name, name)
    return name.removeprefix("Json").removesuffix("Told").removesuffix("Document")


def camel_case(words: str) -> str:
    return "".join(word[:1].upper() + word[1:] for word in words.replace("-", "_").split("_"))


def docstring(text: str) -> str:
    lines = textwrap.wrap(" ".join(text.split()), 88)
    last = "" if len(lines) == 1 else "\n"
    text = "\n".join(lines).replace("\\", "\\\\") + last
    return textwrap.indent(f'"""{text}"""', "    ")


def generate() -> str:
    """The whole file."""
    module = Module()
    for command, name in DOCUMENTS.items():
        schema = json.loads((ROOT / f"docs/schema/{command}-1.json").read_text())
        module.add_definitions(schema["$defs"])
        module.schemas[name] = schema
    command = [sys.executable, "-m", "ruff", "format", "--stdin-filename", str(TARGET), "-"]
    run = subprocess.run(command, input=module.write(), capture_output=True, text=True)
    if run.returncode:
        sys.exit(f"error: {run.stderr}")
    return run.stdout


def main() -> None:
    """Writes the file, or holds it against what would be written."""
    text = generate()
    if "--check" not in sys.argv[1:]:
        TARGET.write_text(text)
    elif TARGET.read_text() != text:
        sys.exit(f"error: {TARGET} is not what docs/schema gives; run {sys.argv[0]}")


if __name__ == "__main__":
    main()
