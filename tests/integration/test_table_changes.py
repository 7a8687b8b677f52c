"""Routes and rules are changed under load in each switch that can, by whole trials: all changes are
in force, or the trial fails, and flows keep their verdicts meanwhile."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.integration.machine import needs_root
from tests.integration.main_job import SHORT, Bench, need, settings, went_well

pytestmark = [pytest.mark.integration, needs_root]

RATE = 500
METHOD = ("method=reconfiguration", "duration=1s", "rate=2k", f"change_rate={RATE}")
ROUTE = ("function=route", "routes=20")
ROUTE_ACL = ("function=route+acl", "routes=20", "rules=50")
FORWARD_ACL = ("function=forward+acl", "rules=50")
CELLS: Sequence[tuple[str, Sequence[str], Sequence[str]]] = (
    ("linux-router", (*ROUTE_ACL, "ip_version=6", "packet_size=128"), ("routes", "rules")),
    ("linux-router", (*ROUTE_ACL, "switch_options=acl_engine:nft-linear"), ("routes", "rules")),
    ("linux-bridge", FORWARD_ACL, ("rules",)),
    ("xdp-redirect", ROUTE, ("routes",)),
    ("ovs-netdev", ROUTE_ACL, ("routes", "rules")),
    ("vpp", ROUTE_ACL, ("routes", "rules")),
    ("bess", ROUTE_ACL, ("routes", "rules")),
    ("bess", (*FORWARD_ACL, "switch_options=acl_lookup:tuple-space"), ("rules",)),
)


@pytest.mark.parametrize(
    ("switch", "cell", "tables"),
    CELLS,
    ids=[f"{name} {cell[0]} {cell[-1]}" for name, cell, _ in CELLS],
)
def test_tables_change_under_load(
    bench: Bench, switch: str, cell: Sequence[str], tables: Sequence[str]
) -> None:
    need((switch,))
    options = settings(*SHORT, *METHOD, *cell)
    code, _, err = bench.run_to_the_end("trial", switch, "--no-baseline", *options)
    assert code in (0, 1), err
    (record,) = bench.records()
    if record.status != "finished" and went_well(1, err):
        pytest.skip(f"the machine is too busy: {record.message}")
    assert record.status == "finished", err
    assert record.method is not None
    figures = {one.name: one for one in record.method.figures}
    for table in tables:
        assert figures[f"{table}: changes in force"].value == RATE
        assert figures[f"{table}: rate set"].value == RATE
        assert 0 < figures[f"{table}: rate reached"].value <= RATE * 1.001
        assert 0 < figures[f"{table}: time per change"].value < 1
        assert figures[f"{table}: loss"].value < 1
    assert not {name for name in ("routes", "rules") if name not in tables} & {
        name.partition(":")[0] for name in figures
    }
    note = record.function
    assert note is not None
    assert note.wrong_next_hop == note.wrong_header == note.denied_arrived == 0
    assert (note.denied_sent > 0) == ("rules" in tables)
