"""Physical ends: real ports of this host in place of the wire ends that stand in for them.

`nics` of a trial names, for each wire end in turn, the tester's port and the port of the switch
that it is cabled to: `eth2/eth3+eth4/eth5`. A port is a network device, which its kernel driver
keeps, or the PCI address of one that is bound to a driver of user space, for DPDK.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_PORT = rf"(?:{PCI.pattern}|[A-Za-z0-9._-]{{1,15}})"
_CABLE = rf"{_PORT}/{_PORT}"
FORM = rf"^({_CABLE}(\+{_CABLE})*)?$"


@dataclass(frozen=True, slots=True)
class Nic:
    """Two ports of this host with a cable between them: the tester's and the switch's."""

    tester: str  # whose traffic application sends and receives by it
    switch: str  # which the switch under test has

    @property
    def both(self) -> tuple[str, str]:
        """The tester's port and the switch's port."""
        return self.tester, self.switch


def is_pci(port: str) -> bool:
    """Whether the port is a PCI address, not a network device."""
    return PCI.fullmatch(port) is not None


def parse_nics(text: str) -> tuple[Nic, ...]:
    """The NICs of each wire end; empty for an empty text. Raises ValueError where the text has
    another form, or names a port twice."""
    if not text:
        return ()
    if not re.fullmatch(FORM, text, re.ASCII):
        raise ValueError(f"'{text}' names no cabled ports; write e.g. eth2/eth3+eth4/eth5")
    found = tuple(Nic(*one.split("/")) for one in text.split("+"))
    names = [name for one in found for name in one.both]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"'{text}' names {twice[0]} twice; each port is one end of one cable")
    return found


def read_nics(text: str) -> str:
    """Read the value of a campaign. Raises ValueError."""
    parse_nics(text)
    return text
