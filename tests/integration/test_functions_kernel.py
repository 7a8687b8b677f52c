"""Network functions of the kernel's switches: each is proven by frames, and each planted error is
found by the proof."""

from __future__ import annotations

from typing import Any

import pytest

from switchmark.model.functions import FunctionList
from switchmark.model.options import SwitchOptions
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
}  # fmt: skip
HITS = ("last", "uniform", "none")


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize("cell", CELLS)
def test_router_performs_its_functions(cell: str, version: int) -> None:
    """Frames arrive as the neutral table says, and the kernel has as many entries as announced."""
    note = run_proof(trial_of("linux-router", ip_version=version, **CELLS[cell]))
    assert note.must_arrive > 10 and note.must_not_arrive > 0
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


PLANTED = [
    (cell, mutation)
    for cell in CELLS
    for mutation in mutations_of(CELLS[cell]["function"].names)
    if mutation.everywhere
]


@pytest.mark.parametrize(
    ("cell", "mutation"), PLANTED, ids=[f"{cell}-{mutation.name}" for cell, mutation in PLANTED]
)
def test_planted_error_in_router_is_found(cell: str, mutation: Mutation) -> None:
    """The proof of a router with another table fails, and says why."""
    assert_is_found(trial_of("linux-router", **CELLS[cell]), mutation)
