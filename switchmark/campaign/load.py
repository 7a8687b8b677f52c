"""From a campaign file, flags or a notation to its definition, with every error named at once.

Pure: which switches and environments exist comes in as an argument (`Known`). An error is
one line: file, line, key, value and remedy, for instance
`campaign.yaml:7: packet_size: 40 is below the smallest Ethernet frame (64 with FCS); use 64
or more`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from switchmark.campaign import contenders, settings, sweeps
from switchmark.campaign.contenders import Contender
from switchmark.campaign.expectations import read_expectations
from switchmark.campaign.old_names import read_as_meant
from switchmark.campaign.published import read_published, unmatched
from switchmark.campaign.rules.times import stops_when_decided, time_refusals
from switchmark.campaign.rules.traffic import traffic_refusals
from switchmark.campaign.sweeps import Block, Entry, joined
from switchmark.language import source, values
from switchmark.language.source import (
    Bad,
    CampaignError,
    Items,
    Node,
    Problem,
    SourcePlace,
    Text,
    YamlMapping,
)
from switchmark.model.campaign import CampaignDefinition, Published, TrimPolicy, VerifyPolicy
from switchmark.model.choices import Dimension
from switchmark.model.parameter import Known
from switchmark.model.parameters import BY_NAME
from switchmark.statistics.asked import BUDGET_S

_IN_SECTIONS = [
    f"{section}.{name}" for section in sweeps.SECTIONS for name in BY_NAME if name != "dimension"
]


def load_file(path: Path, known: Known, overrides: Sequence[str] = ()) -> CampaignDefinition:
    """The campaign in a YAML file; raises `CampaignError` with one line a problem.

    `overrides` are `key=value` texts (`--set`); they win over everything in the file."""
    return load_text(source.read_file(path), str(path), known, overrides)


def load_text(
    text: str, where: str, known: Known, overrides: Sequence[str] = ()
) -> CampaignDefinition:
    """The campaign in a text; `where` names its source in messages and, less its suffix, itself."""
    problems: list[Problem] = []
    table = source.parse(text, where, problems)
    return _Loader(known, problems).campaign(table, _split(overrides, problems), where)


def load_settings(
    given: Mapping[str, str],
    known: Known,
    *,
    name: str,
    label: Callable[[str], str] = lambda key: f"--{key.replace('_', '-')}",
    overrides: Sequence[str] = (),
) -> CampaignDefinition:
    """A campaign from keys and values alone, such as the flags of `switchmark trial`.

    `label` names the place of a key in messages; by default `--packet-size: 40 is ...`."""
    problems: list[Problem] = []
    nodes = {key: Text(text, SourcePlace(label(key))) for key, text in given.items()}
    nodes |= _split(overrides, problems)
    table = YamlMapping({}, SourcePlace(name))
    return _Loader(known, problems).campaign(table, nodes, name)


def _split(overrides: Sequence[str], problems: list[Problem]) -> dict[str, Text]:
    found: dict[str, Text] = {}
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key.strip():
            message = f"'{values.shorten(override)}' is not key=value; write e.g. duration=2s"
            problems.append(Problem(SourcePlace("--set"), "", message))
            continue
        found[source.canonical(key.strip())] = Text(
            text.strip() or None, SourcePlace(f"--set {key.strip()}")
        )
    return found


class _Loader:
    """One load: collects problems on the way and raises them together at the end."""

    def __init__(self, known: Known, problems: list[Problem]) -> None:
        self.known = known
        self.problems = problems

    def campaign(
        self, table: YamlMapping, overrides: dict[str, Text], where: str
    ) -> CampaignDefinition:
        table, overrides = read_as_meant(table, overrides)
        top = sweeps.read_block(table.entries, "", self.known, self.problems)
        over = self._override_block(overrides)
        named = contenders.read_contenders(
            table.entries.get(contenders.SECTION), overrides, self.known, self.problems
        )
        options = self._options(table) | self._override_options(overrides)
        self._unknown_keys(table)
        grids = self._grids(table, top, over, named, SourcePlace(where))
        published = read_published(table.entries.get("published"), self.known, self.problems)
        measured = {dimension for grid in grids for dimension in grid["dimension"].values}
        expect = read_expectations(table.entries.get("expect"), measured, self.problems)
        if not self.problems:
            self._check(grids, options, where)
            self.problems += self._unmatched(table, top, named, published, where)
        if self.problems:
            raise CampaignError(
                sorted(self.problems, key=lambda p: (p.place.source != where, p.place.line or 0))
            )
        figures = [figure for figure, _ in published]
        return _build(grids, options, figures, expect, where)

    def _note(self, place: SourcePlace, key: str, message: str) -> None:
        self.problems.append(Problem(place, key, message))

    def _unknown_keys(self, table: YamlMapping) -> None:
        tops = [name for name in settings.BY_NAME if "." not in name]
        allowed = [*BY_NAME, *tops, *settings.GROUPS, *settings.STRUCTURE]
        for name, place in table.key_places.items():
            if name not in allowed:
                self._note(place, name, sweeps.unknown_key(name, allowed))

    def _options(self, table: YamlMapping) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, node in table.entries.items():
            if name in settings.BY_NAME:
                self._option(name, name, node, found)
            elif name in settings.GROUPS:
                self._group(name, node, found)
        return found

    def _group(self, name: str, node: Node, found: dict[str, Any]) -> None:
        inner = [key.split(".")[1] for key in settings.BY_NAME if key.startswith(f"{name}.")]
        if isinstance(node, Bad):
            return
        if not isinstance(node, YamlMapping):
            example = settings.BY_NAME[f"{name}.{inner[0]}"].example
            self._note(
                node.place, name, f"holds other keys; write e.g. {name}: {{{inner[0]}: {example}}}"
            )
            return
        for key, value in node.entries.items():
            if key in inner:
                self._option(f"{name}.{key}", f"{name}.{key}", value, found)
            else:
                place = node.key_places.get(key, value.place)
                self._note(place, f"{name}.{key}", sweeps.unknown_key(key, inner))

    def _option(self, name: str, shown: str, node: Node, found: dict[str, Any]) -> None:
        setting = settings.BY_NAME[name]
        try:
            found[setting.field] = setting.read(sweeps.text_of(node, f"{name}: {setting.example}"))
        except values.BadValueError as error:
            for message in error.messages:
                self._note(node.place, shown, message)

    def _override_block(self, overrides: dict[str, Text]) -> Block:
        block = Block()
        for name, node in overrides.items():
            section, _, inner = name.rpartition(".")
            if name not in BY_NAME and name not in _IN_SECTIONS:
                continue
            entry = sweeps.read_values(BY_NAME[inner], node, "", self.known, self.problems)
            if section:
                block.sections.setdefault(sweeps.SECTIONS[section], {})[inner] = entry
            else:
                block.plain[inner] = entry
        return block

    def _override_options(self, overrides: dict[str, Text]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for name, node in overrides.items():
            if name in settings.BY_NAME:
                self._option(name, "", node, found)
            elif not (name in BY_NAME or name in _IN_SECTIONS or contenders.is_inside(name)):
                allowed = [*BY_NAME, *settings.BY_NAME]
                message = sweeps.unknown_key(name, allowed)
                if name in settings.STRUCTURE or name in settings.GROUPS:
                    message = f"cannot be set as a whole; set a key in it, e.g. {_inside(name)}"
                self._note(node.place, "", message)
        return found

    def _grids(
        self,
        table: YamlMapping,
        top: Block,
        over: Block,
        named: Sequence[Contender],
        place: SourcePlace,
    ) -> list[dict[str, Entry]]:
        blocks = self._sweep_blocks(table)
        layered = [([top, block, over], at) for block, at in blocks] or [([top, over], place)]
        self.problems += contenders.clashes(named, [top, *(block for block, _ in blocks)], over)
        compared = contenders.compared_if_asked(named)
        found: list[dict[str, Entry]] = []
        for layers, at in layered:
            if not named:
                found += sweeps.grids(layers, at, self.problems)
                continue
            own = {
                one.name: sweeps.grids([*layers, one.block(compared)], one.place, self.problems)
                for one in named
            }
            if not self.problems:
                first = {name: grids[0] for name, grids in own.items()}
                self.problems += contenders.twins(named, first)
            found += [grid for grids in own.values() for grid in grids]
        everywhere = {dim for layers, _ in layered for dim in sweeps.dimensions(layers)}
        for dimension, entries in over.sections.items():
            for entry in entries.values():
                self._unused(dimension, entry.place, "", everywhere)
        if "dimension" not in over.plain:
            for dimension, at in top.section_places.items():
                self._unused(dimension, at, dimension, everywhere)
            for (block, _), (layers, _) in zip(blocks, layered, strict=False):
                for dimension, at in block.section_places.items():
                    used = sweeps.dimensions(layers)
                    self._unused(dimension, at, joined("sweeps", dimension), used)
        return found

    def _unmatched(
        self,
        table: YamlMapping,
        top: Block,
        named: Sequence[Contender],
        published: Sequence[tuple[Published, SourcePlace]],
        where: str,
    ) -> list[Problem]:
        """Figures of no trial of the file. What `--set` leaves out of it is no mistake."""
        if not published:
            return []
        as_written = _Loader(self.known, [])._grids(table, top, Block(), named, SourcePlace(where))
        return list(unmatched(list(published), as_written))

    def _unused(
        self, dimension: Dimension, place: SourcePlace, key: str, used: Collection[Dimension]
    ) -> None:
        if used and dimension not in used:
            self._note(place, key, f"is never used; add {dimension} to dimension, or leave it out")

    def _sweep_blocks(self, table: YamlMapping) -> list[tuple[Block, SourcePlace]]:
        node = table.entries.get("sweeps")
        if node is None or isinstance(node, Bad):
            return []
        if not isinstance(node, Items) or not node.items:
            self._note(node.place, "sweeps", "is a list of blocks; write e.g. - packet_size: 64")
            return []
        found = []
        allowed = [*BY_NAME, *sweeps.SECTIONS]
        for item in node.items:
            if not isinstance(item, YamlMapping):
                self._note(item.place, "sweeps", "each item holds keys, e.g. - packet_size: 64")
                continue
            for name, place in item.key_places.items():
                if name not in allowed:
                    message = sweeps.unknown_key(name, [*allowed, *settings.BY_NAME])
                    if name in (*settings.BY_NAME, *settings.GROUPS, *settings.STRUCTURE):
                        message = "belongs to the whole campaign; write it outside of sweeps"
                    self._note(place, joined("sweeps", name), message)
            block = sweeps.read_block(item.entries, "sweeps", self.known, self.problems)
            found.append((block, item.place))
        return found

    def _check(self, grids: list[dict[str, Entry]], options: dict[str, Any], where: str) -> None:
        repetitions = options.get("repetitions", 1)
        too_many = sweeps.too_many(grids, repetitions)
        if too_many:
            self._note(SourcePlace(where), "", too_many)
            return
        trim = _part(TrimPolicy, "trim", options)
        said: dict[Problem, None] = {}
        for grid in grids:
            for name, message in traffic_refusals(sweeps.to_sweep(grid), trim):
                said[Problem(grid[name].place, grid[name].path, message)] = None
        self.problems += said
        for name, message in time_refusals(grids, options, trim):
            self._note(SourcePlace(where), name, message)


def _inside(name: str) -> str:
    if name == contenders.SECTION:
        return f"{name}.NAME.program"
    if name in settings.GROUPS:
        return next(key for key in settings.BY_NAME if key.startswith(f"{name}."))
    return f"{name}.rate" if name in sweeps.SECTIONS else "packet_size"


def _part(kind: Any, prefix: str, options: Mapping[str, Any]) -> Any:
    start = f"{prefix}."
    return kind(**{k.removeprefix(start): v for k, v in options.items() if k.startswith(start)})


def _build(
    grids: list[dict[str, Entry]],
    options: dict[str, Any],
    published: Sequence[Any],
    expect: Sequence[Any],
    where: str,
) -> CampaignDefinition:
    plain = {field: value for field, value in options.items() if "." not in field}
    plain.setdefault("name", _name_from(where))
    if stops_when_decided(options):
        plain.setdefault("budget_s", BUDGET_S)
    else:
        plain.pop("budget_s", None)  # the number of blocks is set
    return CampaignDefinition(
        **plain,
        sweeps=tuple(sweeps.to_sweep(grid) for grid in grids),
        trim=_part(TrimPolicy, "trim", options),
        verify=_part(VerifyPolicy, "verify", options),
        published=tuple(published),
        expect=tuple(expect),
    )


def _name_from(where: str) -> str:
    stem = Path(where).stem
    kept = "".join(c if c.isascii() and (c.isalnum() or c in "._+-") else "-" for c in stem)
    return kept.strip("-._+") or "campaign"
