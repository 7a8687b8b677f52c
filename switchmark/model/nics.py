"""Physical ends: real ports of this host in place of the wire ends that stand in for them.

`nics` of a trial names, for each wire end in turn, the tester's port and the port of the switch
that it is cabled to: `eth2/eth3+eth4/eth5`. A port is a network device, which its kernel driver
keeps, or the PCI address of a device that is bound to a user-space driver, for DPDK.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from switchmark.model.written import WrittenValue

PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]", re.ASCII)
_PORT = rf"(?:{PCI.pattern}|[A-Za-z0-9._-]{{1,15}})"
_CABLE = rf"{_PORT}/{_PORT}"
FORM = rf"^({_CABLE}(\+{_CABLE})*)?$"


@dataclass(frozen=True, slots=True)
class Nic:
    """Two ports of this host with a cable between them: the tester's and the switch's."""

    tester: str  # the port of the traffic application
    switch: str  # the port of the switch under test

    @property
    def both(self) -> tuple[str, str]:
        """The tester's port and the switch's port."""
        return self.tester, self.switch


def is_pci(port: str) -> bool:
    """Return True if the port is a PCI address, not a network device."""
    return PCI.fullmatch(port) is not None


class Nics(WrittenValue):
    """The real ports of all wire ends, in turn; an empty text: there are none."""

    form = FORM

    @cached_property
    def cables(self) -> tuple[Nic, ...]:
        """The ports of each wire end. Raises ValueError for a text of another form, or a port that
        occurs twice."""
        if not self:
            return ()
        if not re.fullmatch(FORM, self, re.ASCII):
            raise ValueError(
                f"'{self}' is not a list of cables, which '+' separates; write e.g. "
                "eth2/eth3+eth4/eth5"
            )
        cables = tuple(Nic(*cable.split("/")) for cable in self.split("+"))
        names = [name for cable in cables for name in cable.both]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise ValueError(f"'{self}' names {twice[0]} twice; each port is one end of one cable")
        return cables

    @property
    def ports(self) -> list[str]:
        """The names of all ports, cable by cable."""
        return [name for cable in self.cables for name in cable.both]


def read_nics(text: str) -> Nics:
    """Read the value of a campaign. Raises ValueError."""
    nics = Nics.of(text)
    _ = nics.cables
    return nics
