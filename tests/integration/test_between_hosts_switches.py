"""Every switch that can run between hosts carries frames there, through each of its cable
drivers."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.model.ports import ConnectMode
from switchmark.record import Record
from switchmark.switch.registry import make_switch
from switchmark.switch.support.base import availability_for
from tests.combinations import LEARNING, WAYS_BETWEEN_HOSTS
from tests.integration.hosts_bench import measured, repeated
from tests.integration.two_hosts import TwoHosts, missing, sh
from tests.places import needs_namespaces

HEAD = """
name: switches-between-hosts
switch: {switch}
location: remote
packet_size: 64
rate: 200
burst: 1
duration: 1s
trim: {{warm_up: 0.1s, cool_down: 0.1s}}
sweeps:
"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    needs_namespaces,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@pytest.mark.parametrize("switch", WAYS_BETWEEN_HOSTS)
def test_frames_cross_the_cable(hosts: TwoHosts, engine: Path, switch: str) -> None:
    ways, kind = WAYS_BETWEEN_HOSTS[switch]
    for way in ways:
        mode = ConnectMode.LEARNING if LEARNING in way else ConnectMode.CROSS_CONNECT
        found = availability_for(make_switch(switch), mode)
        if not found.available:
            pytest.skip(f"{switch} does not run here: {found.reason}")
    if switch == "xdp-redirect":
        hosts.let_cable_poll()
    campaign = hosts.folder / f"{switch}.yaml"
    campaign.write_text(HEAD.format(switch=switch) + "".join(f"  - {{{way}}}\n" for way in ways))

    def once() -> tuple[int, list[Record], str]:
        with hosts.favoured():
            return measured(hosts, engine, "run", str(campaign))

    records = repeated(once)
    assert len(records) == len(ways)
    for record in records:
        assert record.port_kind == kind and record.throughput is not None
        assert record.throughput.pairs[0].lost_frames == 0
        assert record.reconciliation is not None and record.reconciliation.cable_lost == 0
        assert record.far_host is not None and record.far_host.cpu is not None
        if not make_switch(switch).capabilities.in_kernel:
            assert (record.far_host.cpu.switch_cores_used or 0) > 0, "cores of the remote switch"
    assert hosts.remains() == []
    for host in (hosts.left, hosts.right):  # the lent devices are back, up and unchanged
        link = sh("ip", "link", "show", "cable0", inside=host.pid)
        assert ",UP" in link and "PROMISC" not in link, link
