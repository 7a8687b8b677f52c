"""The page docs/combinations.md: switches, scenarios, environments and port kinds.

It is made from the capabilities with which campaigns are planned, and from the list of the
combinations that the tests run.
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
# Combinations

This page lists which switch supports which scenario, in which environment and with which port kind.
`python -m tests.combinations` makes it from the code, and a test compares both.

- A cell has the environments in which the scenario can run. **Bold**: the tests run it. Plain: it
  is possible, and the tests do not run it. *(NIC)*: it needs hardware.
- After `no` come the environments in which it cannot run, each with the number of the
  [reason](#reasons). `no (9)` without an environment holds for all of them.
- `pairs-2` represents any number of pairs, `loopback-1` and `loopback-3` represent chains with the
  VNF `forwarder`. [Scenarios](scenarios.md#chains) lists the VNFs for each port kind. Traffic in
  both directions can run in the same combinations.
- Combinations with `qemu`, and with the switches `ovs`, `vale` and `sriov`, are run by
  [`tools/vm-tests`](vm-tests.md).
"""

INTRODUCTION_BETWEEN = """\
## Between hosts

This table is for `location: remote`: each path begins on the local host and ends on a remote host
([testbed.md](testbed.md)). `loopback-2` has one VNF on each host. The column *the cable* has the
possible ends of the cable: an interface of the kernel, with its drivers if several are possible
(`cable_driver`), or the PCI address of a NIC. `direct` is the cable without a switch. A path of
`existing` to a pod on another node ([kubernetes.md](kubernetes.md)) uses no cable, so this table
does not show it.
"""


def page(
    switches: Mapping[str, Capabilities],
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
) -> str:
    """Return the whole page."""
    reasons: dict[str, int] = {}
    here = table(["switch", "ports", *COLUMNS], _rows(switches, environments, run, reasons))
    between = table(
        ["switch", "ports", "the cable", *COLUMNS_BETWEEN],
        _rows(switches, environments, run, reasons, between=True),
    )
    notes = [f"{number}. {reason}" for reason, number in reasons.items()]
    parts = [INTRODUCTION, here, "", INTRODUCTION_BETWEEN, between, "", "## Reasons", ""]
    return "\n".join([*parts, *notes]) + "\n"


def _rows(
    switches: Mapping[str, Capabilities],
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
    reasons: dict[str, int],
    *,
    between: bool = False,
) -> Iterator[list[str]]:
    for switch, capabilities in switches.items():
        for kind in capabilities.port_kinds:
            cells = [
                _cell(
                    [Combination(switch, column, place, kind, between) for place in environments],
                    capabilities, environments, run, reasons,
                )
                for column in (COLUMNS_BETWEEN if between else COLUMNS)
            ]  # fmt: skip
            is_possible = any(not cell.startswith("no ") for cell in cells)
            if between and not is_possible and kind is not capabilities.port_kinds[0]:
                continue  # the switch has another row
            yield [f"`{switch}`", kind.value, *([_cable(capabilities)] if between else []), *cells]


def _cable(capabilities: Capabilities) -> str:
    """Return the kinds of cable ends that the switch accepts."""
    drivers = next((one.choices for one in capabilities.options if one.name == "cable_driver"), ())
    interface = f"interface ({', '.join(drivers)})" if drivers else "interface"
    names = {CableEnd.INTERFACE: interface, CableEnd.PCI: "PCI *(NIC)*"}
    return ", ".join(names[end] for end in capabilities.cable_ends) or "none"


def _cell(
    combinations: list[Combination],
    capabilities: Capabilities,
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
    reasons: dict[str, int],
) -> str:
    """Return the environments in which a combination is possible, then those in which it is not."""
    possible: list[str] = []
    refused: dict[str, int] = {}
    for combination in combinations:
        environment = combination.environment
        refusal = problem(combination, capabilities, environments)
        if refusal is not None:
            refused[environment] = reasons.setdefault(refusal.reason, len(reasons) + 1)
        elif combination in run:
            possible.append(f"**{environment}**")
        elif combination.port_kind.value in HARDWARE:
            possible.append(f"{environment} *(NIC)*")
        else:
            possible.append(environment)
    if not possible and len(set(refused.values())) == 1:
        return f"no ({next(iter(refused.values()))})"
    missing = "no " + ", ".join(f"{name} ({number})" for name, number in refused.items())
    return "; ".join(
        [*([", ".join(possible)] if possible else []), *([missing] if refused else [])]
    )
