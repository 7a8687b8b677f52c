"""Network functions of the kernel's switches: each is proven by frames, and each planted error is
found by the proof."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.model.functions import FunctionList
from switchmark.model.options import SwitchOptions
from switchmark.model.ports import ConnectMode
from tests.function_mutations import Mutation, mutations_of
from tests.integration.function_rig import assert_is_found, run_proof, trial_of
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]


def functions(text: str) -> FunctionList:
    return FunctionList.of(text)


def options(text: str) -> SwitchOptions:
    return SwitchOptions.of(text)


CELLS: dict[str, dict[str, Any]] = {
    "route": {"function": functions("route"), "routes": 1000},
    "route+acl in sets": {
        "function": functions("route+acl"), "routes": 10, "rules": 500,
        "switch_options": options("acl_engine:nft-set"),
    },
    "route+acl in line": {
        "function": functions("route+acl"), "routes": 10, "rules": 500,
        "switch_options": options("acl_engine:nft-linear"),
    },
    "route+policer": {"function": functions("route+policer"), "routes": 10},
}  # fmt: skip
BRIDGE_CELLS: dict[str, dict[str, Any]] = {
    "acl in sets": {
        "function": functions("forward+acl"), "rules": 500,
        "switch_options": options("acl_engine:nft-set"),
    },
    "acl in line": {
        "function": functions("forward+acl"), "rules": 500,
        "switch_options": options("acl_engine:nft-linear"),
    },
    "policer": {"function": functions("forward+policer")},
    "vxlan": {"function": functions("forward+vxlan"), "tunnels": 20},
    "vxlan decap": {"function": functions("forward+vxlan"), "direction": "decap"},
}  # fmt: skip
MODES = (ConnectMode.LEARNING, ConnectMode.STATIC_MAC, ConnectMode.CROSS_CONNECT)
HITS = ("last", "uniform", "none")


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("cell", CELLS)
def test_router_performs_its_functions(cell: str, version: int) -> None:
    """Frames arrive as the neutral table says, and the kernel has as many entries as announced."""
    note = run_proof(trial_of("linux-router", ip_version=version, **CELLS[cell]))
    assert note.must_arrive > 10
    assert note.must_not_arrive > 0
    assert note.announced == note.read_back and note.announced["routes of the main table"] > 10


@pytest.mark.parametrize("engine", ["nft-set", "nft-linear"])
@pytest.mark.parametrize("hit", HITS)
def test_router_filters_with_every_form_of_list(hit: str, engine: str) -> None:
    """Lists of all forms, with prefixes of 4 lengths, have the verdicts of the neutral table."""
    run_proof(
        trial_of(
            "linux-router", function=functions("route+acl"), routes=10, rules=300, masks=4,
            rule_hit=hit, switch_options=options(f"acl_engine:{engine}"),
        )
    )  # fmt: skip


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("cell", BRIDGE_CELLS)
def test_bridge_performs_its_functions(cell: str, mode: ConnectMode, version: int) -> None:
    """Frames arrive as the neutral table says, in each connect mode."""
    note = run_proof(trial_of("linux-bridge", ip_version=version, **BRIDGE_CELLS[cell]), mode=mode)
    assert note.must_arrive >= 2
    assert note.announced == note.read_back
    assert sum(note.announced.values()) >= 2


PLANTED = [
    (switch, cell, mutation)
    for switch, cells in (("linux-router", CELLS), ("linux-bridge", BRIDGE_CELLS))
    for cell in cells
    for mutation in mutations_of(cells[cell]["function"].names)
    if mutation.everywhere
]


@pytest.mark.parametrize(
    ("switch", "cell", "mutation"),
    PLANTED,
    ids=[f"{switch}-{cell}-{mutation.name}" for switch, cell, mutation in PLANTED],
)
def test_planted_error_is_found(switch: str, cell: str, mutation: Mutation) -> None:
    """The proof of a switch with another table fails, and says why."""
    cells = CELLS if switch == "linux-router" else BRIDGE_CELLS
    assert_is_found(trial_of(switch, **cells[cell]), mutation)
