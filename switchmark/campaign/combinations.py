"""Which switch can carry which scenario, in which environment, over which kind of port.

The page docs/combinations.md is made from the capabilities that the code itself plans by, and
from the list of what the integration tests run; nothing in it is typed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from switchmark.campaign.reference import table
from switchmark.campaign.rules.combination import Combination, problem
from switchmark.model.capabilities import Capabilities
from switchmark.model.ports import CableEnd, PortKind

COLUMNS = ("p2p", "p2v", "v2p", "v2v", "pairs-2", "loopback-1", "loopback-3")
COLUMNS_BETWEEN = ("p2p", "v2v", "pairs-2", "loopback-2")
HARDWARE = frozenset({"pci", "pf", "vf"})  # kinds of port that only a NIC has

INTRODUCTION = """\
# What can be combined

Made by `python -m tests.combinations` from the switches' and environments' own capabilities and
from the list of combinations that the tests run (`qemu`, and the switches `ovs`, `vale` and
`sriov`, by `tools/vm-tests`); a test compares.

Each cell names environments. **Bold**: run in the tests. Plain: possible, not run there.
*(NIC)*: possible, needs hardware. `no` and a number: impossible, for the reason below the table.
`pairs-2` stands for any number of pairs, `loopback-1` and `loopback-3` for chains (with the VNF
`forwarder`; which VNFs fit which ports is in [scenarios.md](scenarios.md)). Bidirectional traffic
runs wherever its scenario does.
"""

INTRODUCTION_BETWEEN = """\
## Between hosts

The same with `location: remote`, each path beginning on this host and ending on another
([testbed.md](testbed.md)); `loopback-2` has one VNF on each. *The cable* is what its end can be on
either host: an interface of the kernel's, by which driver where there is a choice (`cable_driver`),
or the PCI address of a NIC, which needs one. `direct` is the cable with no switch.
"""


def page(
    switches: Mapping[str, Capabilities],
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
) -> str:
    """The whole page."""
    reasons: dict[str, int] = {}
    here = table(["switch", "ports", *COLUMNS], _rows(switches, environments, run, reasons))
    between = table(
        ["switch", "ports", "the cable", *COLUMNS_BETWEEN],
        _rows(switches, environments, run, reasons, between=True),
    )
    notes = [f"{number}. {reason}" for reason, number in reasons.items()]
    parts = [INTRODUCTION, here, "", INTRODUCTION_BETWEEN, between, "", "## Why not", ""]
    return "\n".join([*parts, *notes]) + "\n"


def _rows(
    switches: Mapping[str, Capabilities],
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
    reasons: dict[str, int],
    *,
    between: bool = False,
) -> Iterator[list[str]]:
    for switch, can in switches.items():
        for kind in can.port_kinds:
            cells = [
                _cell(
                    [Combination(switch, column, place, kind, between) for place in environments],
                    can, environments, run, reasons,
                )
                for column in (COLUMNS_BETWEEN if between else COLUMNS)
            ]  # fmt: skip
            possible = any(not word.startswith("no:") for c in cells for word in c.split(", "))
            if between and not possible and kind is not can.port_kinds[0]:
                continue  # the switch has another row
            yield [f"`{switch}`", kind.value, *([_cable(can)] if between else []), *cells]


def _cable(can: Capabilities) -> str:
    """The kinds of cable ends that the switch takes."""
    drivers = next((one.choices for one in can.options if one.name == "cable_driver"), ())
    interface = f"interface ({', '.join(drivers)})" if drivers else "interface"
    words = {CableEnd.INTERFACE: interface, CableEnd.PCI: "PCI *(NIC)*"}
    return ", ".join(words[end] for end in can.cable_ends) or "none"


def _cell(
    combinations: list[Combination],
    can: Capabilities,
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
    reasons: dict[str, int],
) -> str:
    words: dict[str, None] = {}
    for one in combinations:
        why = problem(one, can, environments)
        if why is not None:
            words[f"no: {reasons.setdefault(why.reason, len(reasons) + 1)}"] = None
        elif one in run:
            words[f"**{one.environment}**"] = None
        elif one.port_kind.value in HARDWARE:
            words[f"{one.environment} *(NIC)*"] = None
        else:
            words[one.environment] = None
    return ", ".join(words)
