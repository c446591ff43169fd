"""Makes values of the generated types from JSON.

Fields that a newer program adds are passed over, and so are words that it adds. What is missing, or of
another type, is an error that names the place.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

Decoder = Callable[[Any], Any]


class DecodeError(Exception):
    """JSON that is not of the type."""

    def __init__(self, problem: str) -> None:
        super().__init__(problem)
        self.problem = problem
        self.path: list[str] = []

    def __str__(self) -> str:
        return f"{'.'.join(reversed(self.path)) or 'the document'} {self.problem}"


@functools.cache
def decoder(kind: Any) -> Decoder:
    """What makes a value of this type.

    The value that it is called with comes from :func:`json.loads`; it raises :class:`DecodeError`."""
    if isinstance(kind, type) and is_dataclass(kind):
        return _Object(kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is Literal:
        return _simple(tuple({type(word) for word in arguments}), _unchanged)
    if origin is not None and issubclass(origin, Mapping):
        item = decoder(arguments[1])
        return lambda value: {
            key: _at(key, item, part) for key, part in _expect(dict, value).items()
        }
    if kind is float:
        # JSON has no NaN and no infinity: there they are words.
        return _simple((float, int, str), _number)
    return _simple((kind,), _unchanged)


def _unchanged(value: Any) -> Any:
    return value


def _number(value: Any) -> float:
    try:
        return float(value)
    except ValueError:
        raise DecodeError(f"is {value!r}, not a number") from None


def _simple(kinds: tuple[type, ...], convert: Decoder) -> Decoder:
    def decode(value: Any) -> Any:
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise _wrong(value)
        return convert(value)

    return decode


def _wrong(value: Any) -> DecodeError:
    names = {dict: "an object", list: "a list", type(None): "null"}
    return DecodeError(f"is {names.get(type(value), repr(value))}")


def _expect(kind: type, value: Any) -> Any:
    if not isinstance(value, kind):
        raise _wrong(value)
    return value


def _at(place: str, decode: Decoder, value: Any) -> Any:
    try:
        return decode(value)
    except DecodeError as error:
        error.path.append(place)
        raise


class _Object:
    """Makes values of one dataclass."""

    def __init__(self, kind: type) -> None:
        self.kind = kind

    @functools.cached_property
    def fields(self) -> list[tuple[str, str, Decoder, bool]]:
        # Types refer to themselves: what is inside is looked up when it is needed first.
        hints = get_type_hints(self.kind)
        return [
            (
                field.name,
                field.metadata.get("json", field.name),
                decoder(hints[field.name]),
                field.default is MISSING,
            )
            for field in fields(self.kind)
        ]

    def __call__(self, value: Any) -> Any:
        _expect(dict, value)
        schema = _tags(self.kind).get("schema")
        if schema is not None and value.get("schema") != schema:
            raise DecodeError(f"is {value.get('schema')}, not {schema}")
        given = {}
        for attribute, key, decode, is_required in self.fields:
            if key in value:
                given[attribute] = _at(key, decode, value[key])
            elif is_required:
                raise DecodeError(f"has no `{key}`")
        return self.kind(**given)


def _tuple(arguments: tuple[Any, ...]) -> Decoder:
    if arguments[-1] is Ellipsis:
        item = decoder(arguments[0])
        return lambda value: tuple(
            _at(str(place), item, part) for place, part in enumerate(_expect(list, value))
        )
    items = [decoder(argument) for argument in arguments]

    def decode(value: Any) -> Any:
        if len(_expect(list, value)) != len(items):
            raise DecodeError(f"has {len(value)} elements, not {len(items)}")
        pairs = zip(items, value, strict=True)
        return tuple(_at(str(place), item, part) for place, (item, part) in enumerate(pairs))

    return decode


def _union(arguments: tuple[Any, ...]) -> Decoder:
    objects = [kind for kind in arguments if is_dataclass(kind)]
    others = [decoder(kind) for kind in arguments if kind not in (*objects, type(None))]
    is_optional = type(None) in arguments

    def decode(value: Any) -> Any:
        if value is None and is_optional:
            return None
        if isinstance(value, dict) and objects:
            return decoder(_variant(objects, value))(value)
        if not others:
            raise _wrong(value)
        return others[0](value) if len(others) == 1 else _first(others, value)

    return decode


def _first(decoders: list[Decoder], value: Any) -> Any:
    for decode in decoders[:-1]:
        try:
            return decode(value)
        except DecodeError:
            pass
    return decoders[-1](value)


def _variant(objects: list[Any], value: Mapping[str, Any]) -> Any:
    """The type whose words a value has; where none has any, the one whose only field it has."""
    if len(objects) == 1:
        return objects[0]
    for kind in objects:
        tags = _tags(kind)
        if tags and all(value.get(key) == word for key, word in tags.items()):
            return kind
        if not tags and all(field.name in value for field in fields(kind)):
            return kind
    words = [f"{key} {word!r}" for key, word in value.items() if key in _tags(objects[0])]
    raise DecodeError(f"is of an unknown kind: {', '.join(words) or ', '.join(value)}")


@functools.cache
def _tags(kind: Any) -> dict[str, str]:
    hints = get_type_hints(kind)
    return {
        key: get_args(hint)[0]
        for key, hint in hints.items()
        if get_origin(hint) is Literal and len(get_args(hint)) == 1
    }
