"""Which switch can carry which scenario, in which environment, over which kind of port.

The page docs/combinations.md is made from the capabilities that the code itself plans by, and
from the list of what the integration tests run; nothing in it is typed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass

from switchmark.campaign.possible import (
    place_problem,
    ports_problem,
    wire_end_problem,
    wire_problem,
)
from switchmark.scenario.registry import resolve
from switchmark.switch.base import Capabilities, PortKind

COLUMNS = ("p2p", "p2v", "v2p", "v2v", "pairs-2", "loopback-1", "loopback-3")
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


@dataclass(frozen=True, slots=True)
class Combination:
    """One cell's part."""

    switch: str
    scenario: str
    environment: str
    port_kind: PortKind


def problem(
    one: Combination, can: Capabilities, environments: Mapping[str, Collection[PortKind]]
) -> str | None:
    """Why it cannot be; None when it can."""
    found = resolve(one.scenario)
    assert found is not None, one.scenario
    if (text := wire_problem(one.switch, found)) is not None:
        return text.partition(";")[0]
    if (text := ports_problem(one.switch, can, found, found.pairs or 1)) is not None:
        return text.partition(";")[0]
    if one.port_kind not in environments[one.environment]:
        return f"{one.environment} has no {one.port_kind} ports"
    if (text := place_problem(one.switch, one.environment, found)) is not None:
        return text.partition(";")[0]
    if (text := wire_end_problem(can, found, one.port_kind)) is not None:
        return text.partition(";")[0]
    return None


def page(
    switches: Mapping[str, Capabilities],
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
) -> str:
    """The whole page."""
    reasons: dict[str, int] = {}
    rows = list(_rows(switches, environments, run, reasons))
    head = ["switch", "ports", *COLUMNS]
    table = [head, ["---"] * len(head), *rows]
    lines = [f"| {' | '.join(cells)} |" for cells in table]
    notes = [f"{number}. {reason}" for reason, number in reasons.items()]
    return "\n".join([INTRODUCTION, *lines, "", *notes]) + "\n"


def _rows(
    switches: Mapping[str, Capabilities],
    environments: Mapping[str, Collection[PortKind]],
    run: Collection[Combination],
    reasons: dict[str, int],
) -> Iterator[list[str]]:
    for switch, can in switches.items():
        for kind in can.port_kinds:
            cells = [
                _cell(
                    [Combination(switch, scenario, place, kind) for place in environments],
                    can, environments, run, reasons,
                )
                for scenario in COLUMNS
            ]  # fmt: skip
            yield [f"`{switch}`", kind.value, *cells]


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
            words[f"no: {reasons.setdefault(why, len(reasons) + 1)}"] = None
        elif one in run:
            words[f"**{one.environment}**"] = None
        elif one.port_kind.value in HARDWARE:
            words[f"{one.environment} *(NIC)*"] = None
        else:
            words[one.environment] = None
    return ", ".join(words)
