"""Names of scenarios, and what the numbers in them say.

`loopback-3` is a chain of three VNFs, `pairs-4` four pairs, `chains-2x3` two chains of three
VNFs each. `resolve` reads them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from switchmark.model.choices import MAX_PAIRS

MOST_VNFS = 64  # in a chain

KINDS = ("pairs", "p2p", "p2v", "v2p", "v2v", "loopback")
# How the names are written, and what they are.
WRITTEN: dict[str, str] = {
    "pairs": "N sender/receiver or client/server pairs on one host (N is the key `pairs`)",
    "pairs-N": "the same, with N in the name",
    "p2p": "from wire to wire through the switch",
    "p2v": "from a wire into the environment",
    "v2p": "from the environment to a wire",
    "v2v": "from one node of the environment to another",
    "loopback-N": "from a wire through a chain of N VNFs and out again",
    "chains-MxN": "M chains of N VNFs, each with wires of its own",
}


@dataclass(frozen=True, slots=True)
class Resolved:
    """The parts of a scenario's name."""

    kind: str  # of KINDS
    chain: int = 0  # VNFs on each path
    pairs: int | None = None  # paths; None: the key `pairs` says it

    @property
    def name(self) -> str:
        """The name under which the scenario is kept (the number of paths is a key of its own)."""
        return f"{self.kind}-{self.chain}" if self.chain else self.kind


@lru_cache(maxsize=1024)
def resolve(name: str) -> Resolved | None:
    """The scenario that the name stands for; None where it stands for none."""
    if name in KINDS and name != "loopback":
        return Resolved(name)
    if match := re.fullmatch(r"pairs-(\d{1,4})", name, re.ASCII):
        found = Resolved("pairs", pairs=int(match[1]))
    elif match := re.fullmatch(r"loopback-(\d{1,3})", name, re.ASCII):
        found = Resolved("loopback", chain=int(match[1]))
    elif match := re.fullmatch(r"chains-(\d{1,4})x(\d{1,3})", name, re.ASCII):
        found = Resolved("loopback", chain=int(match[2]), pairs=int(match[1]))
    else:
        return None
    vnfs_fit = found.kind != "loopback" or 1 <= found.chain <= MOST_VNFS
    pairs = 1 if found.pairs is None else found.pairs
    return found if vnfs_fit and 1 <= pairs <= MAX_PAIRS else None


def chain_length(name: str) -> float | None:
    """The number of VNFs between two wires; None where the ends are not wires."""
    found = resolve(name)
    return None if found is None or not (found.chain or name == "p2p") else found.chain


def without_vnfs(name: str) -> str:
    """The scenario over a bare wire that judges this one: the best that the traffic applications
    could reach between the ends of a chain, or between ends that are not alike."""
    found = resolve(name)
    if found is None or found.kind in ("pairs", "v2v", "p2p"):
        return name
    return "p2p" if found.chain else "v2v"
