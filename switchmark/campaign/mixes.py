"""`packet_size: imix` means `packet_mix: imix`, because the engine's `--packet-size` accepts both.

A trial has two keys, for one size and for a mix of sizes. A user can write both as `packet_size`.
"""

from __future__ import annotations

from switchmark.language.source import Items, Node, Text
from switchmark.model.parameter_parsers import is_mix

SIZE, MIX = "packet_size", "packet_mix"


def key_of(name: str, node: Node) -> str:
    """Return the key that a value belongs to: `packet_mix` if `packet_size` has only mixes."""
    if name != SIZE:
        return name
    texts = [
        part.strip()
        for one in (node.items if isinstance(node, Items) else (node,))
        for part in (one.text or "" if isinstance(one, Text) else "").split(",")
    ]
    return MIX if texts and all(map(is_mix, texts)) else SIZE
