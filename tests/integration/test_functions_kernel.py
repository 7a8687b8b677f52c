"""Network functions of the kernel's switches: each is proven by frames, and each planted error is
found by the proof."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.model.functions import FunctionList
from switchmark.model.options import SwitchOptions
from switchmark.model.ports import ConnectMode
from tests.function_mutations import Mutation, mutations_of
from tests.integration.function_rig import (
    assert_is_found,
    run_proof,
    trial_of,
)
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
    "mirror": {"function": functions("forward+mirror")},
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
    assert sum(note.announced.values()) >= (1 if cell == "mirror" else 2)


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


XDP_CELLS: dict[str, dict[str, Any]] = {
    "route": CELLS["route"],
    "route+acl": {
        "function": functions("route+acl"), "routes": 10, "rules": 500, "masks": 4,
    },
    "acl": {"function": functions("forward+acl"), "rules": 500, "rule_hit": "uniform"},
    "acl without a match": {
        "function": functions("forward+acl"), "rules": 500, "masks": 16, "rule_hit": "none",
    },
}  # fmt: skip


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("cell", XDP_CELLS)
def test_xdp_program_performs_its_functions(cell: str, version: int) -> None:
    """The program looks up the kernel's routes and a map of rules, and changes frames as the
    neutral table says."""
    note = run_proof(trial_of("xdp-redirect", ip_version=version, **XDP_CELLS[cell]))
    assert note.must_not_arrive >= 2
    assert note.announced == note.read_back
    assert note.memory_after_kib is not None
    if cell.startswith("acl"):  # an entry of the map has 40 bytes or more
        assert note.memory_after_kib >= 500 * 40 // 1024


@pytest.mark.parametrize("mode", [ConnectMode.STATIC_MAC, ConnectMode.CROSS_CONNECT])
def test_xdp_program_filters_in_each_mode(mode: ConnectMode) -> None:
    run_proof(trial_of("xdp-redirect", **XDP_CELLS["acl"]), mode=mode)


@pytest.mark.parametrize(
    ("cell", "mutation"),
    [("route", one) for one in mutations_of(("route",))]
    + [("route+acl", one) for one in mutations_of(("acl",))],
    ids=lambda value: value.name if isinstance(value, Mutation) else str(value),
)
def test_planted_error_in_xdp_program_is_found(cell: str, mutation: Mutation) -> None:
    """Also a TTL that is not decremented, which this switch can be made to have."""
    assert_is_found(trial_of("xdp-redirect", **XDP_CELLS[cell]), mutation)


def test_tc_filters_mirror() -> None:
    """An action of the filter copies frames, and the kernel has as many as announced."""
    note = run_proof(trial_of("tc-redirect", **BRIDGE_CELLS["mirror"]))
    assert note.announced == note.read_back == {"mirrors": 1}


@pytest.mark.parametrize("mutation", mutations_of(("mirror",)), ids=lambda mutation: mutation.name)
def test_planted_error_in_tc_filters_is_found(mutation: Mutation) -> None:
    assert_is_found(trial_of("tc-redirect", **BRIDGE_CELLS["mirror"]), mutation)


def test_memory_of_the_kernel_grows_with_routes() -> None:
    """Each route has an entry of 56 bytes or more; other programs change the memory of the machine
    by less than half of that of 200,000 routes."""
    note = run_proof(trial_of("linux-router", function=functions("route"), routes=200_000))
    assert note.memory_is_kernel
    assert (note.table_memory_kib or 0) > 200_000 * 56 // 2048
