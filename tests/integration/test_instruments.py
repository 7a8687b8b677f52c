"""Foreign instruments really run: iperf3 and sockperf through the kernel's bridge.

Their counts are compared with those of the kernel's devices, which are independent."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.instrument.registry import INSTRUMENTS
from switchmark.model.choices import Dimension
from tests.integration.machine import needs_root
from tests.integration.main_job import Bench, campaign_file, need

pytestmark = [pytest.mark.alone, pytest.mark.integration, needs_root]

JOB = """\
switch: linux-bridge
packet_size: 256
burst: 1
duration: 1s
trim: {warm_up: 100ms, cool_down: 100ms}
contenders:
  iperf3: {generator: iperf3}
  sockperf: {generator: sockperf}
throughput: {rate: 5k}
latency: {rate: 500}
skip_unavailable: true
"""


def have(*names: str) -> None:
    for name in names:
        if not (found := INSTRUMENTS[name]().availability()).available:
            pytest.skip(f"{name}: {found.reason}; {found.remedy}")


def test_iperf3_and_sockperf_counts_agree_with_the_kernel(bench: Bench, tmp_path: Path) -> None:
    need(("linux-bridge",), ("netns",))
    have("iperf3", "sockperf")
    job = campaign_file(tmp_path, JOB)
    code, _, err = bench.run("run", job, "--no-baseline", "--set", "repetitions=1")
    assert code == 0, err
    records = {one.trial.generator: one for one in bench.records()}
    assert set(records) == {"iperf3", "sockperf"}, "each for its own dimensions"
    for record in records.values():
        note = record.instrument
        assert note is not None
        assert note.agrees
        assert note.device_sent_frames is not None and note.device_received_frames is not None
        # The kernel's counters of the devices also contain the control connection's frames.
        control_frames = note.own_frames
        assert note.sent_frames <= note.device_sent_frames <= note.sent_frames + control_frames
        read = note.received_frames + note.socket_drops  # if the receiver got no core in time
        assert read <= note.device_received_frames <= read + control_frames
        assert record.reconciliation is not None
        forth = record.reconciliation.paths[0]
        assert forth.switch_received == note.device_sent_frames, "the bridge counts the same"
        assert note.cannot_know
        assert record.limit is not None
        assert not any("polls" in text for text in record.limit.evidence)
    loads = records["iperf3"].throughput
    assert loads is not None
    assert loads.intended_pps == 5_000
    assert 0 < loads.forwarded_pps <= 1.2 * loads.intended_pps
    assert loads.pairs[0].duplicates is None
    trips = records["sockperf"].latency
    assert trips is not None
    assert trips.intended_percentiles_ns is None, "it reports no due times"
    assert 0 < trips.min_ns <= trips.percentiles_ns["50"] * 1.01 <= trips.max_ns * 1.02
    output = bench.run("show", "--format", "json")[1]
    assert "which does not report" in output
    assert {r.trial.dimension for r in records.values()} == set(Dimension)


def test_a_broken_program_ends_in_one_line(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exit code and the output of the program are reported, without a traceback."""
    need(("linux-bridge",), ("netns",))
    (tmp_path / "bin").mkdir()
    false = tmp_path / "bin" / "iperf3"
    false.write_text('#!/bin/sh\necho \'{"error": "not today"}\'\n[ "$1" != -s ]\n')
    false.chmod(0o755)
    job = campaign_file(tmp_path, JOB.replace("  sockperf: {generator: sockperf}\n", ""))
    monkeypatch.setenv("PATH", f"{false.parent}:{os.environ['PATH']}")
    code, _, err = bench.run("run", job, "--no-baseline", "--set", "repetitions=1")
    assert code == 1
    (failed,) = [line for line in err.splitlines() if "FAILED" in line]
    assert "iperf3 server in rx0 ended with exit code 1 before it listened" in failed
    assert "Traceback" not in err


def test_testpmd_sends_through_a_list_of_rules(bench: Bench, tmp_path: Path) -> None:
    """A router whose list denies all but the load, which another program sends."""
    need(("linux-router",), ("netns",))
    have("testpmd")
    text = (
        "switch: linux-router\nfunction: route+acl\nroutes: 10\nrules: 25\ngenerator: testpmd\n"
        "packet_size: 64\nduration: 1s\n"
    )
    job = campaign_file(tmp_path, text)
    code, _, err = bench.run_to_the_end("run", job, "--no-baseline")
    assert code == 0, err
    (record,) = bench.records()
    note = record.instrument
    assert note is not None and record.function is not None
    assert note.sent_frames >= note.received_frames > 0
    assert note.device_sent_frames == note.sent_frames
    assert record.function.must_not_arrive > 0, "proven with frames that the list denies"
    assert any("headers and next hop" in missing for missing in note.cannot_know)


@pytest.mark.parametrize("switch", ["linux-bridge", "basicfwd"])
def test_testpmd_counts_agree_with_kernel_or_switch(
    bench: Bench, tmp_path: Path, switch: str
) -> None:
    """On veth ports with the kernel, on vhost-user ports with the switch."""
    need((switch,), ("netns",))
    have("testpmd")
    text = f"switch: {switch}\npacket_size: 64\ngenerator: testpmd\nduration: 1s\n"
    job = campaign_file(tmp_path, text)
    code, _, err = bench.run_to_the_end("run", job, "--no-baseline")
    assert code == 0, err
    (record,) = bench.records()
    note, loads = record.instrument, record.throughput
    assert note is not None and loads is not None and record.reconciliation is not None
    assert note.agrees
    assert note.sent_frames >= note.received_frames > 0
    path = record.reconciliation.paths[0]
    if switch == "linux-bridge":
        assert note.device_sent_frames == path.switch_received == note.sent_frames
        assert note.device_received_frames == path.switch_sent
        assert note.device_received_frames == note.received_frames + note.socket_drops
    else:
        # The last frames of its ring are under way when both counters are read, as the switch polls
        # on.
        assert path.sent == note.sent_frames
        assert path.arrived == note.received_frames
        assert record.reconciliation.agrees, record.reconciliation.findings
    assert loads.loss_ratio == pytest.approx(1 - note.received_frames / note.sent_frames)
    assert loads.pairs[0].reordered is None
    assert loads.reordered_ratio is None
    assert record.placement is not None
    assert record.placement.idle == "testpmd's own"


@pytest.mark.parametrize("generator", ["trex", "moongen"])
def test_counts_of_instrument_folders_agree_with_the_kernel(
    bench: Bench, tmp_path: Path, generator: str
) -> None:
    """With the folder of SWITCHMARK_TREX, SWITCHMARK_MOONGEN: a set load, and the highest load."""
    need(("linux-bridge",), ("netns",))
    have(generator)
    text = f"switch: linux-bridge\npacket_size: 256\nburst: 1\ngenerator: {generator}\n"
    job = campaign_file(tmp_path, text + "duration: 2s\nrate: [5k, max]\n")
    code, _, err = bench.run("run", job, "--no-baseline", "--set", "repetitions=1")
    assert code == 0, err
    records = {one.trial.rate_pps: one for one in bench.records()}
    assert set(records) == {5_000, None}
    for record in records.values():
        note, loads = record.instrument, record.throughput
        assert note is not None and loads is not None and record.reconciliation is not None
        assert note.agrees
        assert note.version.startswith("v" if generator == "trex" else "sha256 ")
        path = record.reconciliation.paths[0]
        assert note.device_sent_frames == path.switch_received == note.sent_frames > 0
        assert note.device_received_frames == path.switch_sent
        assert note.device_received_frames == note.received_frames + note.socket_drops
        assert loads.forwarded_pps > 0
    paced = records[5_000].throughput
    assert paced is not None
    assert paced.offered_pps <= 1.2 * 5_000


@pytest.mark.parametrize("switch", ["linux-bridge", "basicfwd"])
def test_pktgen_counts_agree_with_kernel_or_switch(
    bench: Bench, tmp_path: Path, switch: str
) -> None:
    """On veth ports with the kernel, on vhost-user ports with the switch."""
    need((switch,), ("netns",))
    have("pktgen-dpdk")
    text = f"switch: {switch}\npacket_size: 64\nrate: 20k\ngenerator: pktgen-dpdk\nduration: 4s\n"
    code, _, err = bench.run("run", campaign_file(tmp_path, text), "--no-baseline")
    assert code == 0, err
    (record,) = bench.records()
    note, loads = record.instrument, record.throughput
    assert note is not None and loads is not None and record.reconciliation is not None
    assert note.agrees
    path = record.reconciliation.paths[0]
    assert path.sent == note.sent_frames
    if switch == "linux-bridge":
        assert note.device_sent_frames == path.switch_received == note.sent_frames
        assert note.device_received_frames == note.received_frames + note.socket_drops
    else:
        assert path.switch_received == note.sent_frames
        assert path.arrived == note.received_frames
    assert loads.intended_pps == 20_000
    assert loads.offered_pps == pytest.approx(note.sent_frames / 4, rel=0.5)
    assert "pktgen" in record.engines[0].args[2]
