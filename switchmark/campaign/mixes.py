"""`packet_size: imix` means `packet_mix: imix`, as the engine's `--packet-size` takes both.

One key of a trial says one size, another says several in one trial; whoever writes the text need
not know that.
"""

from __future__ import annotations

from switchmark.language.source import Items, Node, Text
from switchmark.model.parameter_parsers import is_mix

SIZE, MIX = "packet_size", "packet_mix"


def key_of(name: str, node: Node) -> str:
    """The key that a value belongs to: `packet_mix` where `packet_size` holds mixes alone."""
    if name != SIZE:
        return name
    texts = [
        part.strip()
        for one in (node.items if isinstance(node, Items) else (node,))
        for part in (one.text or "" if isinstance(one, Text) else "").split(",")
    ]
    return MIX if texts and all(map(is_mix, texts)) else SIZE
