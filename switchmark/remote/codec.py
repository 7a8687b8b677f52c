"""Plain dataclasses to JSON and back, for the messages of the bench and its agent.

It supports dataclasses, tuples, lists, mappings, enumerations, paths and optionals. It uses only
the standard library, because the agent has no other.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")


def to_plain(value: Any) -> Any:
    """Return the value in JSON's types."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: to_plain(getattr(value, field.name)) for field in dataclasses.fields(value)
        }
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, dict):
        return {str(key): to_plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | frozenset):
        return [to_plain(item) for item in value]
    return value


def from_plain(kind: type[T], value: Any) -> T:
    """Return the value of this type that `to_plain` converted. The sender is not trusted: a value
    of another type raises KeyError, TypeError or ValueError."""
    return typing.cast(T, _read(kind, value))


def _read(kind: Any, value: Any) -> Any:
    args = typing.get_args(kind)
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        if value is None:
            return None
        (kind,) = (arg for arg in args if arg is not type(None))
        return _read(kind, value)
    return _read_many(kind, args, value) if args else _read_one(kind, value)


def _read_many(kind: Any, args: tuple[Any, ...], value: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (tuple, list, dict, Mapping):
        _check(value, list if origin in (tuple, list) else dict)
    if origin is tuple:
        if len(args) == 2 and args[1] is Ellipsis:
            return tuple(_read(args[0], item) for item in value)
        return tuple(_read(arg, item) for arg, item in zip(args, value, strict=True))
    if origin is list:
        return [_read(args[0], item) for item in value]
    if origin in (dict, Mapping):
        return {_read(args[0], key): _read(args[1], item) for key, item in value.items()}
    return value


def _read_one(kind: Any, value: Any) -> Any:
    if dataclasses.is_dataclass(kind):
        _check(value, dict)
        hints = typing.get_type_hints(kind)
        return kind(**{name: _read(hints[name], item) for name, item in value.items()})  # type: ignore[operator]
    if kind is int and isinstance(value, str):  # a key of a mapping
        return int(value)
    if kind is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind(value)
    if isinstance(kind, type) and issubclass(kind, Path):
        _check(value, str)
        return kind(value)
    if kind in (str, int, float, bool, bytes):
        _check(value, kind)
    return value


def _check(value: Any, kind: type) -> None:
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
