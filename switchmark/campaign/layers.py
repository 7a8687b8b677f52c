"""The layers of a campaign file: its own keys, its blocks of `sweeps`, its contenders, and the
values of `--set`. Each layer overrides the layers before it."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from switchmark.campaign import contenders, mixes, settings, sweeps
from switchmark.campaign.contenders import Contender
from switchmark.campaign.sweeps import Block, Entry, joined
from switchmark.language.source import Bad, Items, Problems, SourcePlace, Text, YamlMapping
from switchmark.model.choices import Dimension
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.parameter_type import Known

IN_SECTIONS = [
    f"{section}.{name}" for section in sweeps.SECTIONS for name in BY_NAME if name != "dimension"
]


class Layers:
    """Combines layers of values, and collects the problems."""

    def __init__(self, known: Known, problems: Problems) -> None:
        self.known = known
        self.problems = problems

    def overriding(self, overrides: dict[str, Text]) -> Block:
        """Return the block of trial values from `--set`."""
        block = Block()
        for name, node in overrides.items():
            section, _, inner = name.rpartition(".")
            if name not in BY_NAME and name not in IN_SECTIONS:
                continue
            inner = mixes.key_of(inner, node)
            entry = sweeps.read_values(BY_NAME[inner], node, "", self.known, self.problems)
            if section:
                block.sections.setdefault(sweeps.SECTIONS[section], {})[inner] = entry
            else:
                block.plain[inner] = entry
        return block

    def grids(
        self,
        table: YamlMapping,
        top: Block,
        over: Block,
        named: Sequence[Contender],
        place: SourcePlace,
    ) -> list[dict[str, Entry]]:
        """Return a grid for each block, dimension and contender. Messages that belong to none of
        them have this `place`."""
        blocks = self._sweep_blocks(table)
        layered = [([top, block, over], at) for block, at in blocks] or [([top, over], place)]
        self.problems += contenders.clashes(named, [top, *(block for block, _ in blocks)], over)
        compared = contenders.compared_keys(named)
        all_grids: list[dict[str, Entry]] = []
        for layers, at in layered:
            if not named:
                all_grids += sweeps.grids(layers, at, self.problems)
                continue
            by_contender = {
                one.name: sweeps.grids([*layers, one.block(compared)], one.place, self.problems)
                for one in named
            }
            if not self.problems:
                first = {name: grids[0] for name, grids in by_contender.items()}
                self.problems += contenders.twins(named, first)
            all_grids += [grid for grids in by_contender.values() for grid in grids]
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
        return all_grids

    def _unused(
        self, dimension: Dimension, place: SourcePlace, key: str, used: Collection[Dimension]
    ) -> None:
        if used and dimension not in used:
            message = f"is never used; add {dimension} to dimension, or leave it out"
            self.problems.note(place, key, message)

    def _sweep_blocks(self, table: YamlMapping) -> list[tuple[Block, SourcePlace]]:
        node = table.entries.get("sweeps")
        if node is None or isinstance(node, Bad):
            return []
        if not isinstance(node, Items) or not node.items:
            message = "is a list of blocks; write e.g. - packet_size: 64"
            self.problems.note(node.place, "sweeps", message)
            return []
        blocks = []
        allowed = [*BY_NAME, *sweeps.SECTIONS]
        for item in node.items:
            if not isinstance(item, YamlMapping):
                message = "each item must have keys, e.g. - packet_size: 64"
                self.problems.note(item.place, "sweeps", message)
                continue
            for name, place in item.key_places.items():
                if name not in allowed:
                    message = sweeps.unknown_key(name, [*allowed, *settings.BY_NAME])
                    if name in (*settings.BY_NAME, *settings.GROUPS, *settings.STRUCTURE):
                        message = "belongs to the whole campaign; write it outside of sweeps"
                    self.problems.note(place, joined("sweeps", name), message)
            block = sweeps.read_block(item.entries, "sweeps", self.known, self.problems)
            blocks.append((block, item.place))
        return blocks
