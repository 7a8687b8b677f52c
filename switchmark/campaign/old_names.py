"""Keys that have another name now, so that old campaign files keep their meaning.

`budget` was the time of a method of many trials, now `method_budget`; today it is the time of the
whole campaign. It has the old meaning in sections and sweeps, where no key of a whole campaign may
stand, and beside a method of many trials in a campaign that does not say `prove`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from switchmark.campaign.sweeps import SECTIONS
from switchmark.language.source import Items, Node, Text, YamlMapping
from switchmark.model.choices import PLAIN

OLD, NEW = "budget", "method_budget"
_T = TypeVar("_T")


def read_as_meant(
    table: YamlMapping, overrides: Mapping[str, Text]
) -> tuple[YamlMapping, dict[str, Text]]:
    """The campaign and its overrides with the names of today."""
    everything = dict(table.entries) | dict(overrides)
    methods = {one.text for one in _methods(everything) if isinstance(one, Text)}
    is_methods = "prove" not in everything and bool(methods - {PLAIN})
    entries = {name: _inside(name, node) for name, node in table.entries.items()}
    found = replace(table, entries=entries)
    set_ = {
        name.replace(f".{OLD}", f".{NEW}") if "." in name else name: node
        for name, node in overrides.items()
    }
    return (_renamed(found), _rename(set_)) if is_methods else (found, set_)


def _methods(entries: Mapping[str, Node]) -> Iterator[Node]:
    """All values of `method`, wherever they are written."""
    for name, node in entries.items():
        match node:
            case _ if name.rpartition(".")[2] == "method":
                yield from node.items if isinstance(node, Items) else (node,)
            case YamlMapping() if name in SECTIONS:
                yield from _methods(node.entries)
            case Items() if name == "sweeps":
                for item in node.items:
                    yield from _methods(item.entries) if isinstance(item, YamlMapping) else ()


def _inside(name: str, node: Node) -> Node:
    """A section, or the blocks of `sweeps`, with the names of today."""
    if isinstance(node, YamlMapping) and name in SECTIONS:
        return _renamed(node)
    if isinstance(node, Items) and name == "sweeps":
        return replace(node, items=tuple(_block(item) for item in node.items))
    return node


def _block(item: Node) -> Node:
    if not isinstance(item, YamlMapping):
        return item
    entries = {name: _inside(name, node) for name, node in item.entries.items()}
    return _renamed(replace(item, entries=entries))


def _renamed(table: YamlMapping) -> YamlMapping:
    places = _rename(table.key_places)
    return replace(table, entries=_rename(table.entries), key_places=places)


def _rename(held: Mapping[str, _T]) -> dict[str, _T]:
    """The mapping with the new name in place of the old one. Where both are written both are kept,
    and the old one is refused later."""
    if NEW in held:
        return dict(held)
    return {NEW if name == OLD else name: value for name, value in held.items()}
