"""iperf3 behind a user-space switch: no datagram arrives, or more than possible.

From https://github.com/esnet/iperf/issues/882 (Docker over OVS-DPDK: the interface receives
packets, the server none), https://github.com/xdp-project/xdp-tutorial/issues/160 (incomplete
checksums of local senders; `tx off` helps) and https://github.com/moby/moby/issues/36923 (737
Mbit/s "sent" where 300 can pass). The kernel's own datagrams arrive through switches that do not
complete checksums, and the figure is the received rate, which is at most the sent rate."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.instrument.registry import INSTRUMENTS
from tests.integration.machine import needs_root
from tests.integration.main_job import Bench, campaign_file, need, went_well

pytestmark = [pytest.mark.integration, needs_root]

JOB = """\
switch: [ovs-netdev, xdp-redirect]
connect_mode: cross-connect
io: udp
packet_size: 512
burst: 8
rate: 2k
duration: 1s
contenders:
  iperf3: {generator: iperf3}
  own: {generator: switchmark}
"""


def test_datagrams_of_the_kernel_arrive(bench: Bench, tmp_path: Path) -> None:
    need(("ovs-netdev", "xdp-redirect"), ("netns",))
    if not (found := INSTRUMENTS["iperf3"]().availability()).available:
        pytest.skip(f"iperf3: {found.reason}; {found.remedy}")
    file = campaign_file(tmp_path, JOB)
    code, _, err = bench.run_to_the_end("run", file, "--no-baseline", "--set", "repetitions=1")
    if code == 1 and went_well(code, err):
        pytest.skip("the machine is too busy for a trial of a second")
    assert code == 0, err
    records = bench.records()
    assert len(records) == 4
    for record in records:
        loads = record.throughput
        assert loads is not None and record.verdict is not None
        assert "nothing-arrived" not in record.verdict.marks
        assert "corrupt-frames" not in record.verdict.marks
        assert loads.forwarded_pps > 0
