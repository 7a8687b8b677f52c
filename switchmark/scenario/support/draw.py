"""Draws a topology as text or as SVG, with one line or row for each path.

The text shows the switch at each crossing. The SVG shows one bar for the switch, which the path
crosses between two nodes.
"""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from itertools import pairwise

from switchmark.model.ports import PortKind
from switchmark.model.topology import NodePlace, Topology, TopologyNode, TrafficPath, wire_kind

ROWS_DRAWN = 16  # largest number of rows of an SVG; its last line has the number of the others
BOX, GAP, HEIGHT, MARGIN = 132, 36, 44, 24  # pixels
ROW = 3 * HEIGHT


@dataclass(frozen=True, slots=True)
class Labels:
    """The texts in the boxes beside the names of nodes."""

    switch: str  # with its connect mode
    environment: str
    port_kind: str
    vnf: str


def draw_lines(topology: Topology, labels: Labels) -> list[str]:
    """Return a line of text for each path, and for each chain of a path that is split."""
    return [_line(topology, path, via, labels) for path in topology.paths for via in path.ways()]


def _line(topology: Topology, path: TrafficPath, via: tuple[str, ...], labels: Labels) -> str:
    left = "<" if path.both_ways else ""
    nodes = _on(topology, path, via)
    line = f"[{_where(nodes[0], labels)}: {_role(nodes[0], labels)}]"
    for before, node in pairwise(nodes):
        if topology.direct and node.far:
            line += f" {left}--cable--> [{_where(node, labels)}: {_role(node, labels)}]"
            continue
        line += f" {left}--{_kind(before, labels)}--> [{labels.switch}]"
        if node.far != before.far:  # each host has a switch
            line += f" {left}--cable--> [{labels.switch}]"
        line += f" {left}--{_kind(node, labels)}--> [{_where(node, labels)}: {_role(node, labels)}]"
    return line


def _on(topology: Topology, path: TrafficPath, via: tuple[str, ...]) -> list[TopologyNode]:
    return [topology.node(name) for name in (path.source, *via, path.target)]


def _where(node: TopologyNode, labels: Labels) -> str:
    where = "wire" if node.place is NodePlace.WIRE else labels.environment
    if node.nic is not None:
        where = f"port {node.nic.tester}"
    return f"other host, {where}" if node.far else where


def _kind(node: TopologyNode, labels: Labels) -> str:
    """Return the kind of the node's connection to the switch."""
    if node.nic is not None:
        return f"port {node.nic.switch}"
    kind = PortKind(labels.port_kind)
    return (wire_kind(kind) if node.place is NodePlace.WIRE else kind).value


def _role(node: TopologyNode, labels: Labels) -> str:
    if node.role != "vnf":
        return f"{node.role} {node.pair}"
    return f"{labels.vnf} {node.name.removeprefix('v').replace('-', '.')}"


def draw_svg(topology: Topology, labels: Labels) -> str:
    """Return the topology as an SVG document."""
    rows = [(path, via) for path in topology.paths for via in path.ways()]
    shown = rows[:ROWS_DRAWN]
    columns = max(len(via) for _, via in rows) + 2
    width = 2 * MARGIN + columns * BOX + (columns - 1) * GAP
    left_out = len(rows) - len(shown)
    height = 2 * MARGIN + len(shown) * ROW + (20 if left_out else 0)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" font-family="sans-serif" font-size="12">',
        '<defs><marker id="a" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
        'markerHeight="7" orient="auto-start-reverse"><path d="M0 0 8 4 0 8z" fill="#1f5f8b"/>'
        "</marker></defs>",
        f'<rect width="{width}" height="{height}" fill="#fff"/>',
    ]
    for row, (path, via) in enumerate(shown):
        nodes = _on(topology, path, via)
        parts += _row(nodes, path.both_ways, labels, MARGIN + row * ROW, width)
    if left_out:
        text = f"and {left_out} more paths like these"
        parts.append(_text(width / 2, height - MARGIN, text))
    return "\n".join([*parts, "</svg>"]) + "\n"


def _row(
    nodes: list[TopologyNode], both_ways: bool, labels: Labels, top: float, width: float
) -> list[str]:
    """Return a row: nodes at the top, the switch at the bottom, and the path between them."""
    bar = top + 2 * HEIGHT
    parts = [
        _box(MARGIN, bar, width - 2 * MARGIN, HEIGHT * 0.6, "#e8eef3"),
        _text(width / 2, bar + HEIGHT * 0.42, labels.switch),
    ]
    for column, node in enumerate(nodes):
        x = MARGIN + column * (BOX + GAP)
        fill = "#f6efe0" if node.place is NodePlace.WIRE else "#e9f3ea"
        parts += [
            _box(x, top, BOX, HEIGHT, fill),
            _text(x + BOX / 2, top + 18, _role(node, labels)),
            _text(x + BOX / 2, top + 34, _where(node, labels), "#666"),
        ]
        if column:
            parts.append(_crossing(x - GAP - 30, x + 30, top + HEIGHT, bar, both_ways))
            middle = top + HEIGHT * 1.6
            kinds = dict.fromkeys(_kind(end, labels) for end in nodes[column - 1 : column + 1])
            parts.append(_text(x - GAP / 2, middle, ", ".join(kinds), "#666"))
    return parts


def _crossing(x1: float, x2: float, top: float, bar: float, both_ways: bool) -> str:
    start = ' marker-start="url(#a)"' if both_ways else ""
    return (
        f'<path d="M{x1:g} {top:g}V{bar + 4:g}H{x2:g}V{top + 2:g}" fill="none" '
        f'stroke="#1f5f8b" stroke-width="1.5" marker-end="url(#a)"{start}/>'
    )


def _box(x: float, y: float, width: float, height: float, fill: str) -> str:
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="4" '
        f'fill="{fill}" stroke="#888"/>'
    )


def _text(x: float, y: float, text: str, fill: str = "#222") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="middle" fill="{fill}">{escape(text)}</text>'
