"""Remarks on the network that the traffic crossed, and on facts that are unknown."""

from __future__ import annotations

from switchmark.results.groups import Records
from switchmark.results.remarks import remarks_of

LEFT = "host: 7 entries of conntrack, which expire after 120 s for UDP"


def test_path_and_remaining_state_are_remarks() -> None:
    columns = {
        "crossing_path": [["pair 0: eth0 - va - eth0"]] * 2,
        "crossing_ttl": [63, 63],
        "crossing_source": ["192.0.2.1"] * 2,
        "crossing_translated": [True, True],
        "crossing_expiring": [[], [LEFT]],
    }
    assert remarks_of(Records(columns, range(2))) == (
        "path: pair 0: eth0 - va - eth0; TTL 63 on arrival, sent with 64; source address 192.0.2.1 "
        "on arrival, translated",
        f"left for a time, in {LEFT}",
    )


def test_trial_without_a_network_has_no_path() -> None:
    columns = {"crossing_path": [None], "crossing_expiring": [None]}
    assert remarks_of(Records(columns, range(1))) == ()
    assert remarks_of(Records({"crossing_expiring": []}, ())) == ()


def test_unknown_facts_of_another_host_are_listed_once() -> None:
    columns = {"transport_unknown": [["offloads of the other node"]] * 2}
    assert remarks_of(Records(columns, range(2))) == ("unknown: offloads of the other node",)
