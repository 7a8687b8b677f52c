"""Names of scenarios, and the numbers in them.

`loopback-3` is a chain of three VNFs, `pairs-4` four pairs, `chains-2x3` two chains of three
VNFs each.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from switchmark.model.choices import MAX_PAIRS, NAME_PATTERN
from switchmark.model.written import WrittenValue

MOST_VNFS = 64  # in a chain

KINDS = ("pairs", "p2p", "p2v", "v2p", "v2v", "loopback")
# The form of each name, with its meaning.
WRITTEN: dict[str, str] = {
    "pairs": "N sender/receiver or client/server pairs on one host (N is the key `pairs`)",
    "pairs-N": "the same as pairs, with N in the name",
    "p2p": "from tester to tester through the switch",
    "p2v": "from a tester into the environment",
    "v2p": "from the environment to a tester",
    "v2v": "from one node of the environment to another",
    "loopback-N": "from a tester through a chain of N VNFs to another tester",
    "chains-MxN": "M chains of N VNFs, each between its own testers",
}


@dataclass(frozen=True, slots=True)
class _Parts:
    """The parts of a scenario's name."""

    kind: str  # one of KINDS; empty: the name is unknown
    chain: int = 0
    paths: int | None = None


class Scenario(WrittenValue):
    """The name of a scenario."""

    form = NAME_PATTERN

    @property
    def is_known(self) -> bool:
        """Return True if there is a scenario of this name."""
        return bool(self._parts.kind)

    @property
    def kind(self) -> str:
        """The kind of scenario, one of `KINDS`; empty for an unknown name."""
        return self._parts.kind

    @property
    def chain(self) -> int:
        """The number of VNFs on each path."""
        return self._parts.chain

    @property
    def paths(self) -> int | None:
        """The number of paths in the name; None if the key `pairs` gives it."""
        return self._parts.paths

    @property
    def canonical(self) -> Scenario:
        """The name without the number of paths, which trials have in `pairs`."""
        return Scenario.of(f"{self.kind}-{self.chain}" if self.chain else self.kind)

    @property
    def chain_length(self) -> float | None:
        """The number of VNFs between two testers; None if the ends are not testers."""
        return self.chain if self.chain or self == "p2p" else None

    @property
    def without_vnfs(self) -> Scenario:
        """The scenario of the baseline of this scenario. It shows the best figure that the traffic
        applications reach between the ends of a chain, or between ends of two kinds."""
        if self.kind in ("", "pairs", "v2v", "p2p"):
            return self
        return Scenario.of("p2p" if self.chain else "v2v")

    @cached_property
    def _parts(self) -> _Parts:
        if self in KINDS and self != "loopback":
            return _Parts(self)
        if match := re.fullmatch(r"pairs-(\d{1,4})", self, re.ASCII):
            parts = _Parts("pairs", paths=int(match[1]))
        elif match := re.fullmatch(r"loopback-(\d{1,3})", self, re.ASCII):
            parts = _Parts("loopback", chain=int(match[1]))
        elif match := re.fullmatch(r"chains-(\d{1,4})x(\d{1,3})", self, re.ASCII):
            parts = _Parts("loopback", chain=int(match[2]), paths=int(match[1]))
        else:
            return _Parts("")
        vnfs_fit = parts.kind != "loopback" or 1 <= parts.chain <= MOST_VNFS
        paths = 1 if parts.paths is None else parts.paths
        return parts if vnfs_fit and 1 <= paths <= MAX_PAIRS else _Parts("")
