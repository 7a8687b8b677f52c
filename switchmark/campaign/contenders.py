"""The `contenders:` section: the compared configurations, by name, each with its own settings.

    contenders: {old: {program: /opt/vpp-old/bin/vpp}, new: {program: /opt/vpp-new/bin/vpp}}

An entry is a layer of values like a block of `sweeps`, of one value a key. Which keys it may hold
follows from their kind in `model/trial.py`: the means of carrying frames, place, and cores.
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
        """The contender's values as a layer; `compared`: the keys of place and cores that any of
        them sets."""
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
    """Read the section, with `--set contenders.NAME.KEY=VALUE` laid over it."""
    found: dict[str, Contender] = {}
    if isinstance(node, YamlMapping) and node.entries:
        for name, inner in node.entries.items():
            place = node.key_places.get(name, inner.place)
            found[name] = _read(name, inner, place, known, problems)
    elif node is not None and not isinstance(node, Bad):
        problems.note(node.place, SECTION, f"holds names; write e.g. {EXAMPLE}")
    for written, text in overrides.items():
        name, _, key = written.removeprefix(f"{SECTION}.").rpartition(".")
        if not is_inside(written):
            continue
        if name not in found:
            message = values.unknown(name or key, found, "contender")
            problems.note(text.place, "", message)
            continue
        entry = _value(key, text, text.place, "", known, problems)
        if entry is not None:
            found[name].entries[key] = entry
    return list(found.values())


def compared_if_asked(contenders: Sequence[Contender]) -> str:
    """The keys of place and cores that contenders set, as the parameter `compared` has them."""
    return "+".join(sorted({key for one in contenders for key in one.entries if key in COMPARABLE}))


def clashes(
    contenders: Sequence[Contender], outer: Sequence[Block], override: Block
) -> Iterator[Problem]:
    """Keys that both a contender and another layer set, where a reader could not see which one
    holds."""
    owners = {"contender": contenders[0].name} if contenders else {}
    if compared_if_asked(contenders):
        owners["compared"] = contenders[0].name
    for one in contenders:
        owners |= {key: one.name for key in one.entries if key not in owners}
    for block in (*outer, override):
        for entries in (block.plain, *block.sections.values()):
            for key in entries.keys() & owners.keys():
                name = owners[key]
                remedy = f"set it there only, as contenders.{name}.{key}"
                message = f"is set by contender {name}, too; {remedy}"
                yield Problem(entries[key].place, entries[key].path, message)


def twins(
    contenders: Sequence[Contender], grids: Mapping[str, Mapping[str, Entry]]
) -> Iterator[Problem]:
    """Contenders that are the same under two names; `grids` has one grid of each."""
    seen: dict[tuple[tuple[object, ...], ...], str] = {}
    for one in contenders:
        grid = grids[one.name]
        means = tuple(grid[key].values for key in OF_CONTENDERS if key in grid)
        if means in seen:
            message = (
                f"is the same as contender {seen[means]}; give it another program, option, switch "
                "..., or leave it out (the same means twice: two copies of the program)"
            )
            yield Problem(one.place, joined(SECTION, one.name), message)
        seen.setdefault(means, one.name)


def _read(name: str, node: Node, place: SourcePlace, known: Known, problems: Problems) -> Contender:
    path = joined(SECTION, name)
    try:
        values.name(name)
        if name == BY_NAME["contender"].none:
            problems.note(place, path, f"'{name}' means that there is none; use another name")
    except BadValueError as error:
        problems.note(place, path, *error.messages)
    found = Contender(name, place)
    if isinstance(node, YamlMapping):
        for key, inner in node.entries.items():
            at = node.key_places.get(key, inner.place)
            entry = _value(key, inner, at, joined(path, key), known, problems)
            if entry is not None:
                found.entries[key] = entry
    elif not isinstance(node, Bad):
        message = "holds keys; write e.g. {program: /opt/new/vpp}, or {} for what is set outside"
        problems.note(node.place, path, message)
    return found


def _value(
    key: str, node: Node, place: SourcePlace, path: str, known: Known, problems: Problems
) -> Entry | None:
    """The one value of a key; None for a key that does not belong here."""
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
