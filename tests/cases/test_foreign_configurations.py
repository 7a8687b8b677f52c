"""Configurations of other benches: nfvbench, vsperf, nfv-testperf.

nfvbench (opnfv/nfvbench 8ecfd4c, nfvbench-cfg.default.yaml; cncf/cnf-testbed 6cc294f) gives the sum
of both directions as its rate; here the rate is that of each direction. vsperf (opnfv/vswitchperf
90ef48d) has the genome aaaaaaaddddg. nfv-testperf (https://github.com/gabrieleara/nfv-testperf,
3ea115e) has rates of 1M, 2.5M, 5M ... 20M. Expected numbers are arithmetic.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.model import traffic
from tests.cases.engine import PATIENT, run_engine, sent_frames
from tests.cases.frames import parse
from tests.cases.planning import machine, planned, refusal

NFVBENCH = """
openrc_file:
service_chain: 'EXT'
flow_count: 10000
rate: 2002pps
duration_sec: 60
flavor: {vcpus: 2, ram: 4096}
frame_sizes: ['68', 'IMIX', '1518']
traffic_generator: {host_name: localhost, generator_profile: [{name: trex-local, tool: TRex}]}
measurement: {NDR: 0.001, PDR: 0.1}
"""


def test_foreign_file_is_refused_by_its_keys(tmp_path: Path) -> None:
    """A file of nfvbench is not a campaign: the lines name its keys, and there is no traceback."""
    lines = refusal(tmp_path, NFVBENCH)
    assert "is not a campaign" in lines
    assert "openrc_file" in lines
    assert len(lines.splitlines()) == 1


def test_carried_over_rate_is_of_each_direction(tmp_path: Path) -> None:
    """2,002 in both directions together are `rate: 1001` with `bidirectional: true`."""
    text = (
        "switch: linux-bridge\nconnect_mode: cross-connect\nscenario: loopback-1\n"
        "bidirectional: true\nrate: 1001\nflows: 1k\npacket_size: 68\nduration: 30s\n"
    )
    (trial,) = planned(tmp_path, text).trials
    assert trial.rate_pps == 1001 and trial.bidirectional
    assert (trial.flows, trial.packet_size_bytes) == ("1000", 68)
    assert trial.duration_s == 30.0


def test_vsperf_genome_and_flows(tmp_path: Path) -> None:
    """7 frames of 64, 4 of 512 and 1 of 1518 bytes: 334.5 on average; 8,000 flows by L4 are
    distinct."""
    mean = (7 * 64 + 4 * 512 + 1518) / 12
    assert mean == 334.5
    assert traffic.PacketMix("genome:aaaaaaaddddg").sizes.mean == mean
    options = [
        "--packet-size",
        "genome:aaaaaaaddddg",
        "--rate",
        "1k",
        "--duration",
        "0.001",
        *PATIENT,
    ]
    config = run_engine("sender", "--port", "null:", *options, *PATIENT).result["config"]
    assert config["mean_frame_size_bytes"] == mean
    pace = ["--rate", "1M", "--burst", "8000", "--duration", "0.008"]
    packets = sent_frames(tmp_path / "out.pcap", "--flows", "8k:dst-port", *pace)
    assert len({parse(one.data).ports for one in packets}) == len(packets) == 8000


NFV_TESTPERF = """
switch: [ovs-dpdk, basicfwd]
connect_mode: cross-connect
rate: 1M, 2.5M..20M step 2.5M
burst: 256
packet_size: [64, 128, 256, 512, 1024, 1500]
pairs: 1, 2, 4
environment: lxc
repetitions: 3
"""


def test_nfv_testperf_setup_has_its_trials(tmp_path: Path) -> None:
    """9 rates, 6 sizes, 3 numbers of pairs, 2 switches and 3 repetitions are 972 trials. A range
    whose steps do not meet its end stops below it."""
    plan = planned(tmp_path, NFV_TESTPERF, on=machine(tmp_path))
    assert {one.rate_pps for one in plan.trials} == {
        1e6, 2.5e6, 5e6, 7.5e6, 10e6, 12.5e6, 15e6, 17.5e6, 20e6
    }  # fmt: skip
    assert len(plan.trials) == 9 * 6 * 3 * 2 * 3
    beyond = planned(tmp_path, "switch: ovs-dpdk", "rate=1M..20M step 2.5M")
    assert max(one.rate_pps or 0 for one in beyond.trials) == 18.5e6


def test_ovs_means_the_kernel_datapath_and_reports_it(tmp_path: Path) -> None:
    """ "ovs" there is Open vSwitch with DPDK; here it is the kernel's, which the output states."""
    (kernel,) = planned(tmp_path, "switch: ovs").trials
    (dpdk,) = planned(tmp_path, "switch: ovs-dpdk").trials
    assert kernel.switch != dpdk.switch


@pytest.mark.parametrize(("size", "pps"), [(64, 14_880_952), (128, 8_445_945), (256, 4_528_985),
                                           (512, 2_349_624)])  # fmt: skip
def test_share_of_10_gigabit_is_by_rfc_2544(size: int, pps: int, tmp_path: Path) -> None:
    """Appendix B of RFC 2544: 14,880,952 frames of 64 bytes a second at 10 Gbit/s. "28 %" of the
    line (https://github.com/sdnfv/openNetVM/issues/6) is 28 % of that."""
    assert 10**10 // (8 * (size + 20)) == pps
    text = f"switch: linux-bridge\npacket_size: {size}\nrate: 28% of 10Gbps\n"
    (trial,) = planned(tmp_path, text).trials
    assert trial.rate_pps == pytest.approx(0.28 * 10**10 / (8 * (size + 20)), abs=1)
