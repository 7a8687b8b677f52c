"""Reads a campaign file as text: every key and value with its line, without conversions.

The file is YAML, but the YAML reader only determines its structure (mappings, lists, text).
`values.py` interprets the values, so the conversions of YAML (`on`, `010`, `1:30`) do not apply.
Anchors, aliases, tags and duplicate keys are refused with their line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from switchmark.errors import UsageError

MAX_FILE_BYTES = 100_000
MAX_LINES = 50  # maximum number of errors in a message
_YAML = "tag:yaml.org,2002:"
_PLAIN_TAGS = {"str", "int", "float", "bool", "null", "map", "seq", "timestamp", "merge", "value"}
_ONE_DOCUMENT = "keep one campaign a file (one '---' at most)"
_NULLS = {"", "~", "null", "Null", "NULL"}
# Errors that the YAML reader reports some lines later, at the beginning of the next item.
_BEGUN_BEFORE = ("while scanning a simple key", "while scanning a quoted scalar")
_REMEDIES = {
    "'\\t'": "indent with spaces, not tabs",
    "mapping values are not allowed": "check the indentation and, in the line above, the space "
    "after the colon; put values that contain ': ' in quotes",
    "could not find expected ':'": "write 'key: value', with a space after the colon",
    "expected ',' or": "close the bracket, and put a comma between its values",
    "end of stream": "close the quote",
    "single document": _ONE_DOCUMENT,
    "another document": _ONE_DOCUMENT,
}
_OTHER_NAMES = {
    **dict.fromkeys(("frame_size", "frame-size", "packet-size"), "packet_size"),
}


def canonical(key: str) -> str:
    """Return the name of a key that can be written in several ways."""
    section, dot, name = key.rpartition(".")
    return section + dot + _OTHER_NAMES.get(name, name)


@dataclass(frozen=True, slots=True)
class SourcePlace:
    """The place of a text: a file and a line, or an option of the command line."""

    source: str
    line: int | None = None

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}"


@dataclass(frozen=True, slots=True)
class Text:
    """A scalar as it was written, without its quotes; None if it is empty."""

    text: str | None
    place: SourcePlace


@dataclass(frozen=True, slots=True)
class Items:
    """A YAML list."""

    items: tuple[Node, ...]
    place: SourcePlace


@dataclass(frozen=True, slots=True)
class YamlMapping:
    """A YAML mapping, in the order of the file."""

    entries: dict[str, Node]
    place: SourcePlace
    key_places: dict[str, SourcePlace] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bad:
    """A node with a problem that is already reported."""

    place: SourcePlace


Node: TypeAlias = Text | Items | YamlMapping | Bad


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of a campaign: the place, the key, and the message with the remedy."""

    place: SourcePlace
    key: str
    message: str

    def __str__(self) -> str:
        return ": ".join(filter(None, [str(self.place), self.key, self.message]))


class Problems(list[Problem]):
    """The problems of a file, which are raised together at its end."""

    def note(self, place: SourcePlace, key: str, *messages: str) -> None:
        """Add a problem for each of the messages."""
        self.extend(Problem(place, key, message) for message in messages)


class CampaignError(UsageError):
    """A wrong campaign, with one line for each problem (exit code 2)."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        lines = [str(problem) for problem in problems[:MAX_LINES]]
        if len(problems) > MAX_LINES:
            lines.append(f"{problems[0].place.source}: and {len(problems) - MAX_LINES:,} more")
        super().__init__("\n".join(lines))


def read_file(path: Path) -> str:
    """Return the text of a campaign file. Raise `CampaignError` if it cannot be read as text."""
    place = SourcePlace(str(path))
    try:
        if path.is_file() and path.stat().st_size > MAX_FILE_BYTES:
            reason = f"is larger than {MAX_FILE_BYTES:,} bytes; a campaign file is a page of text"
            raise CampaignError([Problem(place, "", reason)])
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        reason = f"is not UTF-8 text (byte {error.start}); save it as UTF-8"
    except OSError as error:
        reason = f"cannot be read: {error.strerror or error}"
    raise CampaignError([Problem(place, "", reason)])


@dataclass(frozen=True, slots=True)
class ExpectedFile:
    """The messages for an empty file, and for a file without a mapping."""

    empty: str
    no_mapping: str


CAMPAIGN = ExpectedFile(
    empty="the file is empty; write at least a switch, e.g. switch: linux-bridge",
    no_mapping="a campaign is a list of 'key: value' lines, e.g. switch: linux-bridge",
)


def parse(
    text: str, source: str, problems: list[Problem], expected: ExpectedFile = CAMPAIGN
) -> YamlMapping:
    """Read a mapping from a text. Text that is not YAML raises `CampaignError`. YAML that is not
    part of the campaign language is added to `problems` and left out."""
    root = _compose(text, source)
    place = SourcePlace(source)
    if root is None:
        raise CampaignError([Problem(place, "", expected.empty)])
    node = _YamlReader(source, problems).node(root, "")
    if not isinstance(node, YamlMapping):
        raise CampaignError([*problems, Problem(place, "", expected.no_mapping)])
    return node


def _compose(text: str, source: str) -> Any:
    from ruamel.yaml import YAML
    from ruamel.yaml.error import MarkedYAMLError, YAMLError

    line = None
    try:
        return YAML(typ="safe", pure=True).compose(text)
    except MarkedYAMLError as error:
        begun = error.context in _BEGUN_BEFORE
        mark = error.context_mark if begun else error.problem_mark
        line = None if mark is None else mark.line + 1
        message = " ".join(str(error.problem or error.context).split())
        reason = f"not valid YAML: {message}{_hint(message)}"
    except YAMLError as error:
        reason = f"not valid YAML: {str(error).splitlines()[0]}; save it as plain text"
    except RecursionError:
        reason = "is nested too deeply; a campaign has three levels"
    raise CampaignError([Problem(SourcePlace(source, line), "", reason)])


def _hint(message: str) -> str:
    return next((f"; {remedy}" for text, remedy in _REMEDIES.items() if text in message), "")


class _YamlReader:
    """Converts nodes of the YAML reader, and reports syntax that the language does not have."""

    def __init__(self, source: str, problems: list[Problem]) -> None:
        self.source = source
        self.problems = problems
        self.visited: set[int] = set()

    def node(self, raw: Any, key: str) -> Node:
        place = SourcePlace(self.source, raw.start_mark.line + 1)
        if id(raw) in self.visited or raw.anchor is not None:
            self._note(place, key, "anchors and aliases (& and *) are not used here; write it out")
            return Bad(place)
        self.visited.add(id(raw))
        if str(raw.tag).removeprefix(_YAML) not in _PLAIN_TAGS:
            self._note(place, key, f"YAML tag '{raw.tag}' is not used here; write the value alone")
            return Bad(place)
        if isinstance(raw.value, str):
            absent = raw.style is None and raw.value in _NULLS
            return Text(None if absent else raw.value.strip(), place)
        if all(isinstance(item, tuple) for item in raw.value) and raw.id == "mapping":
            return self._table(raw, place)
        return Items(tuple(self.node(item, key) for item in raw.value), place)

    def _table(self, raw: Any, place: SourcePlace) -> YamlMapping:
        table = YamlMapping({}, place)
        for raw_key, raw_value in raw.value:
            key_place = SourcePlace(self.source, raw_key.start_mark.line + 1)
            if not isinstance(raw_key.value, str):
                self._note(key_place, "", "a key must be a single word, not a list or a mapping")
                continue
            key = canonical(raw_key.value)
            if key in table.entries:
                first = table.key_places[key].line
                self._note(key_place, key, f"is written twice (first in line {first}); keep one")
                continue
            node = self.node(raw_value, key)
            if isinstance(node, Text) and node.text is None:
                node = Text(None, key_place)
            table.entries[key] = node
            table.key_places[key] = key_place
        return table

    def _note(self, place: SourcePlace, key: str, message: str) -> None:
        self.problems.append(Problem(place, key, message))
