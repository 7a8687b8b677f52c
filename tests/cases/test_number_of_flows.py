"""The number of flows that a configuration creates.

From https://github.com/atoonk/dpdk_pktgen/issues/1 (a range file of Pktgen-DPDK whose ports advance
together). Fields that advance in step give the least common multiple of their periods, and fields
that are combined give the product; 16-bit fields end at 65,535. A generator must create exactly the
requested number, or refuse it and name the possible number.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli.main import run as switchmark
from tests.cases.engine import PATIENT, engine_path, received, run_engine, sent_frames
from tests.cases.frames import parse


def once_through(flows: int, rate_pps: int = 1_000_000) -> list[str]:
    """Return the options of a trial that sends each flow once."""
    return ["--rate", str(rate_pps), "--burst", str(flows), "--duration", f"{flows / rate_pps:.9f}"]


@pytest.mark.parametrize(
    ("flows", "number"),
    [
        ("100:src-ip=10+src-port=10", 100),  # the product of both ranges, not 10
        ("60:src-ip=12+src-port=10", 60),  # the least common multiple of 12 and 10
        ("61:src-ip=12+src-port=10", 61),  # 60 if they advanced in step
        ("120:src-ip=12+src-port=10", 120),
        ("1001:src-port+dst-port", 1001),
        ("4094:vlan", 4094),
    ],
)
def test_each_of_n_frames_has_a_flow(flows: str, number: int, tmp_path: Path) -> None:
    """N frames in turn have N distinct 5-tuples, counted by a reader of the test."""
    tag = ["--vlan", "1", "--packet-size", "68"] if "vlan" in flows else []
    packets = sent_frames(tmp_path / "out.pcap", "--flows", flows, *tag, *once_through(number))
    datagrams = [parse(one.data) for one in packets]
    assert len(datagrams) == number
    assert len({one.flow for one in datagrams}) == number
    assert all(one.sums_right for one in datagrams)


def test_flows_beyond_the_ports_are_all_distinct(tmp_path: Path) -> None:
    """70,000 flows do not fit into the ports, so an address varies as well. The receiver with the
    same flows counts no wrong flow."""
    flows = ["--flows", "70000:dst-port+src-ip"]
    path = tmp_path / "out.pcap"
    packets = sent_frames(path, *flows, "--rate", "1M", "--burst", "500", "--duration", "0.07")
    assert len(packets) == 70_000
    assert len({one.data[26:38] for one in packets}) == 70_000  # addresses and ports
    mirrored = ["--flows", "70000:src-port+dst-ip"]
    ends = ["--src-ip", "198.18.0.2", "--dst-ip", "198.18.0.1"]
    totals = received(path, *mirrored, *ends)
    assert (totals["rx_frames"], totals["rx_corrupt"], totals["rx_other"]) == (70_000, 0, 0)


@pytest.mark.parametrize(
    ("flows", "possible"),
    [
        ("121:src-ip=12+src-port=10", 120),
        ("65536:src-port", 65_535),
        ("65535:src-port", 65_535),
        ("70000:dst-port", 65_535),
    ],
)
def test_more_flows_than_values_are_refused_with_the_possible(flows: str, possible: int) -> None:
    """A 16-bit field never wraps silently: ports 1 to 65,535 are 65,535 flows."""
    options = ["--port", "null:", "--src-port", "1", "--dst-port", "1", "--flows", flows]
    ended = run_engine("sender", *options, "--rate", "1k", "--duration", "0.001", *PATIENT)
    if int(flows.partition(":")[0]) <= possible:
        assert ended.totals["tx_offered"] == 32  # a burst
    else:
        assert f" {possible} combinations" in ended.refusal


@pytest.mark.parametrize("flows", ["121:src-ip=12+src-port=10", "65536:src-port", "70000:dst-port"])
def test_plan_refuses_the_flows_that_the_engine_refuses(
    flows: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Otherwise the plan looks fine, and the trial fails by an exit code of the engine."""
    engine_path()  # skips without an engine
    (file := tmp_path / "case.yaml").write_text(f"switch: linux-bridge\nflows: {flows}\n")
    switchmark(["plan", str(file)])
    shown = "".join(capsys.readouterr())
    assert f"{flows.partition(':')[0]} flows cannot all differ" in shown
