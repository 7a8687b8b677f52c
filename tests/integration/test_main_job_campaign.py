"""The main job: real switches, both environments, two sizes, throughput and latency, and the
switches' own counters against the engine's counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.model.choices import Dimension
from switchmark.record import Record
from tests.integration.machine import needs_root
from tests.integration.main_job import (
    SHORT,
    Bench,
    campaign_file,
    describe,
    moved,
    need,
    new_bench,
    settings,
    totals,
)

pytestmark = [pytest.mark.integration, needs_root]

MOST_IN_A_RING = 1024  # frames in a vhost-user port
SWITCHES = ("linux-bridge", "basicfwd", "ovs-dpdk")
JOB = f"""
name: job
switch: [{", ".join(SWITCHES)}]
mixed_connect_modes: true
throughput: {{rate: max, duration: 1s}}
latency: {{rate: 1000, burst: 1, duration: 0.6s}}
sweeps:
  - {{environment: lxc, packet_size: [64, 1500]}}
  - {{environment: netns, packet_size: 64}}
"""
TRIALS = 18


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Bench, list[Record]]]:
    """The campaign, run once for all tests below."""
    need(SWITCHES, ("lxc", "netns"))
    folder: Path = tmp_path_factory.mktemp("job")
    for bench in new_bench(folder):
        path = campaign_file(folder, JOB)
        command = ("run", path, "--no-baseline", *settings(*SHORT))
        code, out, err = bench.run_to_the_end(*command)
        assert code == 0, err
        assert f"{TRIALS} trials finished, 0 failed" in err
        assert out.count("linux-bridge") >= 3, out
        yield bench, bench.records()


def of(records: list[Record], dimension: Dimension) -> list[Record]:
    return [record for record in records if record.trial.dimension is dimension]


def test_every_trial_finished(done: tuple[Bench, list[Record]]) -> None:
    _, records = done
    requested = {
        (r.trial.switch, r.trial.environment, r.trial.packet_size_bytes, r.trial.dimension)
        for r in records
    }
    assert len(records) == len(requested) == TRIALS
    assert [describe(record) for record in records if record.status != "finished"] == []


def test_every_path_was_verified(done: tuple[Bench, list[Record]]) -> None:
    for record in done[1]:
        checked = record.verification
        assert checked is not None and checked.passed, describe(record)
        assert checked.frames_arrived == checked.frames_sent == 32
        assert record.verdict is not None and record.verdict.valid, record.verdict
        learning = record.connect_mode == "learning"
        assert (checked.witness_frames == 0) if learning else (checked.witness_frames is None)


def test_throughput_is_plausible(done: tuple[Bench, list[Record]]) -> None:
    for record in of(done[1], Dimension.THROUGHPUT):
        throughput = record.throughput
        assert throughput is not None and throughput.forwarded_pps > 100, describe(record)
        assert throughput.forwarded_pps < 50e6 and throughput.forwarded_l1_bps < 400e9, describe(
            record
        )
        assert 0 <= throughput.loss_ratio <= 1 and throughput.intended_pps is None
        assert throughput.pairs[0].corrupt == throughput.pairs[0].duplicates == 0
        assert record.limit is not None and record.limit.evidence
        assert record.trim is not None and record.trim.samples_kept >= 1


def test_latency_is_plausible(done: tuple[Bench, list[Record]]) -> None:
    for record in of(done[1], Dimension.LATENCY):
        latency = record.latency
        assert latency is not None and latency.count >= 10, describe(record)
        assert 100 < latency.min_ns <= latency.percentiles_ns["50"] <= latency.max_ns < 5e9
        assert latency.percentiles_ns["50"] <= latency.intended_percentiles_ns["50"] * 1.01
        requests = totals(record, "client")["tx_offered"]
        assert latency.count + latency.lost == requests <= 601, describe(record)
        assert latency.histogram.count == latency.count


def intervals_of(record: Record, role: str) -> list[tuple[int, int, dict[str, int]]]:
    """Return begin, end and counters of each interval of the application in this role."""
    (engine,) = [one for one in record.engines if one.role == role]
    return [(one.t_ns - one.duration_ns, one.t_ns, one.counters) for one in engine.intervals]


def frames_of_the_window(record: Record) -> tuple[int, int]:
    """Return the sequence numbers that the sender gave to the frames of its kept intervals."""
    assert record.trim is not None
    trim, sent = record.trim, intervals_of(record, "sender")
    window = [one for one in sent if one[0] >= trim.kept_from_ns and one[1] <= trim.kept_to_ns]
    first = sum(counters["tx_offered"] for _, end, counters in sent if end <= window[0][0])
    return first, first + sum(counters["tx_offered"] for _, _, counters in window)


def test_loss_agrees_with_sequence_numbers(done: tuple[Bench, list[Record]]) -> None:
    """For frames that were sent in the window. If a receiver's interval contains frames of the
    window and others, between none and all of its missing frames count."""
    for record in of(done[1], Dimension.THROUGHPUT):
        assert record.throughput is not None
        sent = totals(record, "sender")["tx_offered"]
        arrived = totals(record, "receiver")["rx_frames"]
        pair = record.throughput.pairs[0]
        assert arrived + (pair.lost_frames or 0) == sent, describe(record)
        first, end = frames_of_the_window(record)
        (receiver,) = [counters for counters in record.engines if counters.role == "receiver"]
        at = receiver.result["loss"]["first_sequence"]
        least = most = max(0, min(end, at) - first)  # before the first arrived frame
        for _, _, counters in intervals_of(record, "receiver"):
            begun, at = at, at + counters["rx_frames"] + counters["rx_missing"]
            least += counters["rx_missing"] if begun >= first and at <= end else 0
            most += counters["rx_missing"] if begun < end and at > first else 0
        never = max(0, end - max(at, first))  # no frame arrives after these
        found = record.throughput.loss_ratio * (end - first)
        note = f"{describe(record)}: {least} to {most} and {never} of {end - first}, said {found}"
        assert least - 1 <= found <= most + never + 1, note


def test_switch_and_engine_count_the_same(done: tuple[Bench, list[Record]]) -> None:
    """Every sent frame came in at port 0; every arrived frame left by port 1. Frames that the
    receiver's queue dropped have also left the switch."""
    for record in of(done[1], Dimension.THROUGHPUT):
        sent = totals(record, "sender")["tx_offered"]
        arrived = totals(record, "receiver")["rx_frames"]
        took, gave = moved(record, 0, "rx_frames"), moved(record, 1, "tx_frames")
        note = f"{describe(record)}: sent {sent}, took {took}, gave {gave}, arrived {arrived}"
        if record.trial.switch == "linux-bridge":
            assert took == gave == sent, note
            assert arrived <= gave, note
        else:
            # A process that gets no core for a while leaves frames in the rings.
            assert 0 <= sent - took <= MOST_IN_A_RING, note
            assert 0 <= gave - arrived <= MOST_IN_A_RING, note
            assert took == gave + moved(record, 1, "tx_dropped"), note
        assert moved(record, 1, "rx_frames") == moved(record, 0, "tx_frames") == 0, note


def test_switch_counts_both_directions(done: tuple[Bench, list[Record]]) -> None:
    """At least as many as the client counts: without a core, answers of the warm-up come late,
    which the client does not count."""
    for record in of(done[1], Dimension.LATENCY):
        assert record.latency is not None
        forth, back = moved(record, 1, "tx_frames"), moved(record, 0, "tx_frames")
        assert min(forth, back) >= record.latency.count, describe(record)


def test_records_are_complete(done: tuple[Bench, list[Record]]) -> None:
    for record in done[1]:
        assert record.placement is not None and record.placement.reason
        assert record.switch_details["version"] and record.provenance["tools"]
        assert record.cpu is not None and record.cpu.applications_cores_used > 0
        assert (record.cpu.switch_cores_used is None) == (record.trial.switch == "linux-bridge")
        assert len(record.engines) == 2
        assert all(one.ready["engine_version"] and one.intervals for one in record.engines)
        assert record.timing is not None and record.timing.measure_s >= record.trial.duration_s


def test_show_reads_it_back(done: tuple[Bench, list[Record]]) -> None:
    code, out, err = done[0].run("show", "--format", "json")
    assert code == 0, err
    assert len(json.loads(out)) >= TRIALS


def test_kernel_switches_alone(bench: Bench) -> None:
    """N pairs in separate namespaces, and no frame of a pair at another's port."""
    need(("linux-bridge",), ("netns",))
    code, _, err = bench.run_to_the_end(
        *("trial", "linux-bridge", "--pairs", "3", "--rate", "2k", "--duration", "1s"),
        *("--no-baseline", *settings(*SHORT)),
    )
    assert code == 0, err
    (record,) = bench.records()
    assert record.throughput is not None and len(record.throughput.pairs) == 3
    assert record.verification is not None and record.verification.strays == 0
    for engine in record.engines:
        assert engine.result["totals"]["rx_foreign"] == 0, engine.node
        if engine.role == "receiver":
            assert engine.result["totals"]["rx_frames"] > 0, engine.node
    assert [pair.corrupt for pair in record.throughput.pairs] == [0, 0, 0]
    assert record.verdict is not None and "flooding" not in record.verdict.marks
