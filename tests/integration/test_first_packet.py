"""Method first-packet on a switch with a cache of flows and on one without."""

from __future__ import annotations

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.host.session import open_session
from switchmark.record import Record
from switchmark.switch.support.base import Switch
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.machine import needs_root
from tests.integration.switch_rig import available
from tests.truths import truth

pytestmark = [
    pytest.mark.integration,
    pytest.mark.alone,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
FRAMES = 1000
SETTINGS = {
    "function": "route", "routes": "5000", "method": "first-packet", "flows": str(2 * FRAMES),
    "rate": str(FRAMES), "duration": "1s", "interval": "100ms",
}  # fmt: skip


def measured(switch: Switch) -> Record:
    """Return the record of a trial of this switch."""
    plan = plan_for(switch, **SETTINGS)
    with open_session(measuring=False) as session:
        record = run_trial(
            session, plan, campaign="first-packet", run_id="first", provenance={},
            observe=lambda _: None, baseline=Baseline(),
        )  # fmt: skip
    assert record.status == "finished", record.message
    return record


def shortest_ns(record: Record) -> tuple[float, float]:
    """Return the shortest time of a first packet and of a known flow, which other programs on the
    machine do not lengthen."""
    assert record.method is not None
    first, known = (one.latency for one in record.method.latency)
    assert first.count >= 100 and known.count >= 100
    return first.min_ns, known.min_ns


@truth("first-packet", "upcalls and cache hits of ovs-netdev", "Open vSwitch", "10 %")
def test_a_cache_of_flows_makes_first_packets_slower() -> None:
    """The tables of Open vSwitch decide on nearly each first packet, its caches on the others."""
    record = measured(available("ovs-netdev"))
    lookups = record.lookups
    assert lookups is not None and record.method is not None
    first, known = (one.latency for one in record.method.latency)
    assert lookups.upcalls >= 0.9 * first.count
    assert lookups.megaflow_hits + lookups.emc_hits >= 0.9 * known.count
    first_ns, known_ns = shortest_ns(record)
    assert first_ns > 1.1 * known_ns


def test_without_a_cache_first_packets_take_as_long_as_others() -> None:
    record = measured(available("linux-router"))
    first_ns, known_ns = shortest_ns(record)
    assert 0.6 < first_ns / known_ns < 1.6
