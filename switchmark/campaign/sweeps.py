"""From the keys of a campaign to its grids: reads blocks of values and combines them.

A key of a sweep overrides the same key outside. In the same block, a section `throughput:` or
`latency:` overrides plain keys. `--set` overrides all.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from switchmark.campaign import mixes, settings
from switchmark.language import values
from switchmark.language.source import Bad, Items, Node, Problems, SourcePlace, Text, YamlMapping
from switchmark.model import options
from switchmark.model.campaign import Sweep
from switchmark.model.choices import Dimension
from switchmark.model.parameter_table import BY_NAME, SWEPT
from switchmark.model.parameter_type import Known, Parameter
from switchmark.model.workload import AUTO_GENERATOR, FRAMES

MAX_TRIALS = 1_000_000
_MOST_NAMED = 12  # keys in one message
SECTIONS: dict[str, Dimension] = {dimension.value: dimension for dimension in Dimension}


@dataclass(frozen=True, slots=True)
class Entry:
    """The values of one key; empty if they were wrong, which has been reported."""

    values: tuple[Any, ...]
    place: SourcePlace
    path: str  # the key in messages; empty if the place contains it


@dataclass(slots=True)
class Block:
    """The values written in one place of a campaign."""

    plain: dict[str, Entry] = field(default_factory=dict)
    sections: dict[Dimension, dict[str, Entry]] = field(default_factory=dict)
    section_places: dict[Dimension, SourcePlace] = field(default_factory=dict)  # without `--set`


def joined(path: str, key: str) -> str:
    """Return a key with the keys around it, as messages name it."""
    return f"{path}.{key}" if path else key


def unknown_key(key: str, allowed: Iterable[str]) -> str:
    """Return the message about an unknown key."""
    names = list(allowed)
    near = values.nearest(key, names)
    if near:
        return f"unknown key; did you mean {near}?"
    if len(names) > _MOST_NAMED:
        return "unknown key; docs/campaigns.md lists the keys"
    return f"unknown key; known: {', '.join(names)}"


def read_values(key: Parameter, node: Node, path: str, known: Known, problems: Problems) -> Entry:
    """Read all values of one key: a scalar, a YAML list, a range, or a list of those."""
    items = node.items if isinstance(node, Items) else (node,)
    if isinstance(node, Items) and not items:
        problems.note(node.place, path, f"is an empty list; write e.g. {key.example}")
    found: dict[Any, None] = {}
    complete = True
    for item in items:
        try:
            text = mapping_text(item) if key.mapping and isinstance(item, YamlMapping) else None
            if text is None:
                text = text_of(item, key.example)
            found.update(dict.fromkeys(key.parse(text, known)))
        except values.BadValueError as error:
            complete = False
            problems.note(item.place, path, *error.messages)
    return Entry(tuple(found) if complete else (), node.place, path)


def mapping_text(table: YamlMapping) -> str:
    """Write `{emc: off, n: 1}` as `emc:off+n:1`, the form of a value on one line."""
    parts = [f"{name}:{text_of(node, 'on')}" for name, node in table.entries.items()]
    return "+".join(parts) or options.NONE


def text_of(node: Node, example: str) -> str:
    """Return the text of a scalar. Raises `BadValueError` for other nodes, without a message for
    `Bad`."""
    match node:
        case Text(text=None):
            raise values.BadValueError(f"has no value; write e.g. {example}")
        case Text(text=str() as text):
            return text
        case Items():
            raise values.BadValueError(f"a list does not belong here; write e.g. {example}")
        case YamlMapping():
            raise values.BadValueError(f"a mapping does not belong here; write e.g. {example}")
    raise values.BadValueError


def read_block(entries: Mapping[str, Node], path: str, known: Known, problems: Problems) -> Block:
    """Read the trial keys and dimension sections among the entries, and ignore other keys."""
    block = Block()
    for name, node in entries.items():
        if name in BY_NAME:
            _read_key(name, node, path, known, problems, block.plain)
        elif name in SECTIONS:
            block.section_places[SECTIONS[name]] = node.place
            block.sections[SECTIONS[name]] = _read_section(name, node, path, known, problems)
    return block


def _read_key(
    name: str,
    node: Node,
    path: str,
    known: Known,
    problems: Problems,
    entries: dict[str, Entry],
) -> None:
    """Read the values of one key, and add them to `entries` under the key that they belong to."""
    where, key = joined(path, name), mixes.key_of(name, node)
    if key in entries:
        problems.note(node.place, where, f"is written twice, also as {key}; keep one")
    entries[key] = read_values(BY_NAME[key], node, where, known, problems)


def _read_section(
    name: str, node: Node, path: str, known: Known, problems: Problems
) -> dict[str, Entry]:
    where = joined(path, name)
    if isinstance(node, Bad):
        return {}
    if not isinstance(node, YamlMapping):
        message = f"must have keys; write e.g. {name}: {{rate: 1M}}"
        problems.note(node.place, where, message)
        return {}
    allowed = [key for key in BY_NAME if key != "dimension"]
    entries: dict[str, Entry] = {}
    for inner, value in node.entries.items():
        if inner in allowed:
            _read_key(inner, value, where, known, problems, entries)
        else:
            place = node.key_places.get(inner, value.place)
            message = unknown_key(inner, allowed)
            if inner == "dimension":
                message = f"belongs outside; this section is for {name} already"
            elif inner in settings.BY_NAME:
                message = "is a setting of the whole campaign; write it outside of sections"
            problems.note(place, joined(where, inner), message)
    return entries


def dimensions(layers: list[Block]) -> tuple[Dimension, ...]:
    """Return the dimensions: those of the key, otherwise of the sections, otherwise throughput."""
    for block in reversed(layers):
        if "dimension" in block.plain:
            return block.plain["dimension"].values
    named = [
        dimension for dimension in Dimension if any(dimension in b.section_places for b in layers)
    ]
    return tuple(named) or (Dimension.THROUGHPUT,)


def lookup(layers: list[Block], dimension: Dimension, name: str) -> Entry | None:
    """Return the entry of a key in the last layer that has the key; None if no layer has it."""
    for block in reversed(layers):
        for entries in (block.sections.get(dimension, {}), block.plain):
            if name in entries:
                return entries[name]
            if name == mixes.MIX and mixes.SIZE in entries and not _writes_mix(layers):
                return None  # the size replaces a mix that was written as `packet_size`
    return None


def _writes_mix(layers: list[Block]) -> bool:
    """Return True if a layer has the key `packet_mix` itself."""
    written = [entries for one in layers for entries in (one.plain, *one.sections.values())]
    return any(mixes.MIX in one and one[mixes.MIX].path.endswith(mixes.MIX) for one in written)


def grids(layers: list[Block], place: SourcePlace, problems: Problems) -> list[dict[str, Entry]]:
    """Return a grid for each dimension, with an entry for every key, also for defaults. A required
    key that is missing is reported once."""
    all_grids = []
    missing: set[str] = set()
    for dimension in dimensions(layers):
        grid = {"dimension": Entry((dimension,), place, "dimension")}
        for key in SWEPT:
            entry = lookup(layers, dimension, key.name)
            if entry is None:
                try:
                    usual = key.usual_for(dimension)
                    if key.name == "generator" and _runs_applications(layers, dimension):
                        usual = AUTO_GENERATOR
                    entry = Entry((usual,), place, key.name)
                except KeyError:
                    missing.add(key.name)
                    continue
            grid[key.name] = entry
        all_grids.append(grid)
    for name in sorted(missing):
        message = f"is missing; write e.g. {name}: {BY_NAME[name].example}"
        problems.note(place, name, message)
    return all_grids


def _runs_applications(layers: list[Block], dimension: Dimension) -> bool:
    """Return True if the campaign has a workload other than frames."""
    entry = lookup(layers, dimension, "workload")
    return entry is not None and any(value != FRAMES for value in entry.values)


def count(grid: Mapping[str, Entry]) -> int:
    """Return the number of trials in a grid."""
    return math.prod(len(entry.values) for entry in grid.values())


def too_many(grids: Sequence[Mapping[str, Entry]], repetitions: int) -> str | None:
    """Return the message about too many trials, which are counted and not made; None if there are
    not too many."""
    total = repetitions * sum(count(grid) for grid in grids)
    if total <= MAX_TRIALS:
        return None
    most, name = max((len(e.values), name) for grid in grids for name, e in grid.items())
    return (
        f"has {total:,} trials, above {MAX_TRIALS:,}; use fewer values ({name} has {most:,}) "
        "or a larger step"
    )


def to_sweep(grid: Mapping[str, Entry]) -> Sweep:
    """Return the grid as a sweep; every entry must have values."""
    fields = {BY_NAME[name].field: entry.values for name, entry in grid.items()}
    return Sweep(**{**fields, "dimension": fields["dimension"][0]})
