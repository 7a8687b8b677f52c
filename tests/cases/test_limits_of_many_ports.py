"""Chains of ten functions, sixteen pairs, more cores than exist: refused before anything starts.

From FDio/csit 78e52b9 (tests/vpp/perf/container_memif and nfv_density/dcr_memif/chain) and
https://github.com/openvswitch/ovs-issues/issues/234 (more PMD threads). A campaign beyond the limit
of a machine or a switch is refused with that limit, not after the switch has started.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cases.planning import machine, planned, refusal


def test_more_switch_cores_than_cpus_are_refused_with_the_number(tmp_path: Path) -> None:
    text = "switch: ovs-dpdk\nswitch_cores: 4\n"
    assert "2 CPUs" in refusal(tmp_path, text, on=machine(tmp_path))


def test_plan_shows_the_cores_of_the_switch(tmp_path: Path) -> None:
    """On a machine of twelve cores four cores belong to the switch alone."""
    on = machine(tmp_path, "sockets: 1\ncores: 12\n")
    text = "switch: ovs-dpdk\npairs: 2\nswitch_cores: 1, 2, 4\n"
    placed = planned(tmp_path, text, on=on).placed
    assert len(placed) == 3
    for cell in placed.values():
        switch_cores, application_cores = set(cell.placement.switch_cores), set()
        for cores in cell.placement.application_cores.values():
            application_cores |= set(cores)
        assert len(switch_cores) == cell.trial.switch_cores
        assert not switch_cores & application_cores
        assert not cell.placement.oversubscribed


def test_cores_that_do_not_suffice_are_marked(tmp_path: Path) -> None:
    """If two switch cores use both cores, the applications have none: the figures have a mark."""
    text = "switch: ovs-dpdk\nswitch_cores: 1, 2\n"
    plan = planned(tmp_path, text, "switch_cores=1", on=machine(tmp_path))
    assert all(one.placement.oversubscribed for one in plan.placed.values())


def test_chain_of_ten_functions_has_22_ports(tmp_path: Path) -> None:
    """Each of ten functions has two ports; each end of the chain has one."""
    plan = planned(tmp_path, "switch: linux-bridge\nscenario: loopback-10\nrate: 1000\n")
    (placed,) = plan.placed.values()
    assert sum(len(node.ports) for node in placed.topology.nodes) == 22


@pytest.mark.parametrize(("switch", "pairs", "most"), [("t4p4s", 16, 8), ("testpmd", 32, 16)])
def test_ports_beyond_the_switch_are_refused(
    switch: str, pairs: int, most: int, tmp_path: Path
) -> None:
    line = refusal(tmp_path, f"switch: {switch}\npairs: {pairs}\n")
    assert f"{2 * pairs}" in line and f"{most}" in line


def test_memif_in_a_virtual_machine_is_refused(tmp_path: Path) -> None:
    """From https://github.com/cncf/cnf-testbed/issues/187: memif shares memory within one
    kernel."""
    text = "switch: vpp\nport_kind: memif\nenvironment: qemu\n"
    assert "memif" in refusal(tmp_path, text)


PUBLISHED = """
switch: linux-bridge
scenario: loopback-1, loopback-2
packet_size: 64
published:
- {match: {scenario: "%s"}, value: 944590, unit: pps, source: cnf-testbed csc_1c10n_ndr-1.json}
"""


def test_published_value_without_a_trial_is_refused(tmp_path: Path) -> None:
    """The results of cncf/cnf-testbed have 1, 4 and 10 functions. A value of a chain that the
    campaign does not measure is never compared with another chain."""
    assert planned(tmp_path, PUBLISHED % "loopback-2").campaign.published
    line = refusal(tmp_path, PUBLISHED % "loopback-10")
    assert "loopback-10" in line and "published.match" in line
