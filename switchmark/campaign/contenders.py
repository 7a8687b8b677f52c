"""The `contenders:` section: the compared configurations, by name, each with its own settings.

    contenders: {old: {program: /opt/vpp-old/bin/vpp}, new: {program: /opt/vpp-new/bin/vpp}}

An entry is a layer of values like a block of `sweeps`, with one value for each key. The kind of a
key in `model/trial.py` decides whether an entry may have it: contender, place, or cores.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from switchmark.campaign import settings
from switchmark.campaign.sweeps import Block, Entry, joined, read_values, unknown_key
from switchmark.language import values
from switchmark.language.source import Bad, Node, Problem, Problems, SourcePlace, Text, YamlMapping
from switchmark.language.values import BadValueError
from switchmark.model.parameter_table import BY_NAME, COMPARABLE, OF_CONTENDERS
from switchmark.model.parameter_type import Known

SECTION = "contenders"
EXAMPLE = "contenders: {old: {program: /opt/old/vpp}, new: {program: /opt/new/vpp}}"


@dataclass(frozen=True, slots=True)
class Contender:
    """One entry of the section."""

    name: str
    place: SourcePlace
    entries: dict[str, Entry] = field(default_factory=dict)

    def block(self, compared: str) -> Block:
        """Return the contender's values as a layer. `compared`: the keys of place and cores that
        any contender sets."""
        layer = Block(plain=dict(self.entries))
        layer.plain["contender"] = Entry((self.name,), self.place, SECTION)
        if compared:
            layer.plain["compared"] = Entry((compared,), self.place, SECTION)
        return layer


def is_inside(key: str) -> bool:
    """Return True if the key of an override belongs to a contender."""
    return key.startswith(f"{SECTION}.")


def read_contenders(
    node: Node | None, overrides: Mapping[str, Text], known: Known, problems: Problems
) -> list[Contender]:
    """Read the section, with the overrides `--set contenders.NAME.KEY=VALUE`."""
    contenders: dict[str, Contender] = {}
    if isinstance(node, YamlMapping) and node.entries:
        for name, inner in node.entries.items():
            place = node.key_places.get(name, inner.place)
            contenders[name] = _read(name, inner, place, known, problems)
    elif node is not None and not isinstance(node, Bad):
        problems.note(node.place, SECTION, f"must have names; write e.g. {EXAMPLE}")
    for written, text in overrides.items():
        name, _, key = written.removeprefix(f"{SECTION}.").rpartition(".")
        if not is_inside(written):
            continue
        if name not in contenders:
            message = values.unknown(name or key, contenders, "contender")
            problems.note(text.place, "", message)
            continue
        entry = _value(key, text, text.place, "", known, problems)
        if entry is not None:
            contenders[name].entries[key] = entry
    return list(contenders.values())


def compared_keys(contenders: Sequence[Contender]) -> str:
    """Return the keys of place and cores that contenders set, as parameter `compared` has them."""
    return "+".join(sorted({key for one in contenders for key in one.entries if key in COMPARABLE}))


def clashes(
    contenders: Sequence[Contender], outer: Sequence[Block], override: Block
) -> Iterator[Problem]:
    """Yield a problem for each key that both a contender and another layer set. The value would not
    be clear to a reader."""
    owners = {"contender": contenders[0].name} if contenders else {}
    if compared_keys(contenders):
        owners["compared"] = contenders[0].name
    for contender in contenders:
        owners |= {key: contender.name for key in contender.entries if key not in owners}
    for block in (*outer, override):
        for entries in (block.plain, *block.sections.values()):
            for key in entries.keys() & owners.keys():
                name = owners[key]
                remedy = f"set it there only, as contenders.{name}.{key}"
                message = f"is also set by contender {name}; {remedy}"
                yield Problem(entries[key].place, entries[key].path, message)


def twins(
    contenders: Sequence[Contender], grids: Mapping[str, Mapping[str, Entry]]
) -> Iterator[Problem]:
    """Yield a problem for each contender that equals another; `grids` has one grid of each."""
    names: dict[tuple[tuple[object, ...], ...], str] = {}
    for contender in contenders:
        grid = grids[contender.name]
        settings_of = tuple(grid[key].values for key in OF_CONTENDERS if key in grid)
        if settings_of in names:
            message = (
                f"is the same as contender {names[settings_of]}; give it another program, option, "
                "switch ..., or leave it out (to compare a program with itself, use two copies)"
            )
            yield Problem(contender.place, joined(SECTION, contender.name), message)
        names.setdefault(settings_of, contender.name)


def _read(name: str, node: Node, place: SourcePlace, known: Known, problems: Problems) -> Contender:
    path = joined(SECTION, name)
    try:
        values.name(name)
        if name == BY_NAME["contender"].none:
            problems.note(place, path, f"'{name}' means that there is none; use another name")
    except BadValueError as error:
        problems.note(place, path, *error.messages)
    contender = Contender(name, place)
    if isinstance(node, YamlMapping):
        for key, inner in node.entries.items():
            at = node.key_places.get(key, inner.place)
            entry = _value(key, inner, at, joined(path, key), known, problems)
            if entry is not None:
                contender.entries[key] = entry
    elif not isinstance(node, Bad):
        message = "must have keys; write e.g. {program: /opt/new/vpp}, or {} without changes"
        problems.note(node.place, path, message)
    return contender


def _value(
    key: str, node: Node, place: SourcePlace, path: str, known: Known, problems: Problems
) -> Entry | None:
    """Read the only value of a key; return None for a key that does not belong here."""
    if key not in OF_CONTENDERS:
        message = unknown_key(key, OF_CONTENDERS)
        if key in BY_NAME or key in settings.STRUCTURE:
            message = "is the same for all contenders; write it outside of contenders"
        elif key in settings.BY_NAME or key in settings.GROUPS:
            message = "belongs to the whole campaign; write it outside of contenders"
        problems.note(place, path, message)
        return None
    entry = read_values(OF_CONTENDERS[key], node, path, known, problems)
    if len(entry.values) > 1:
        message = "takes one value, not several; make each a contender with its own name"
        problems.note(node.place, path, message)
    return entry
