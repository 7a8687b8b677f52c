"""The campaign's keys of traffic, each through the whole bench on a real bridge: an observer at the
receiving device counts the requested traffic, and the record agrees.

The checks use counts of frames, sizes, tags and flows, and the due times in the stamps, which a
busy machine does not change."""

from __future__ import annotations

import math
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.host.session import open_session
from switchmark.record import Record
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.switch_rig import own_state_dir
from tests.integration.wire_watch import SeenFrame, WatchingEnvironment
from tests.places import needs_namespaces

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    needs_namespaces,
]
ATTEMPTS = 6
STARVED = "no sample of the"  # message of a trial without a core
SHORT = {"duration": "600ms", "trim.warm_up": "100ms", "trim.cool_down": "100ms"}
QUIET = {"rate": "2k", "burst": "1", "interval": "20ms", **SHORT}  # slow enough for every switch


@pytest.fixture(autouse=True)
def state_dir() -> Iterator[None]:
    with own_state_dir():
        yield


def run(
    watched: str = "rx0",
    observe: Callable[[WatchingEnvironment], None] = lambda _: None,
    **settings: str,
) -> tuple[Record, list[SeenFrame]]:
    """Run one trial through the bench; return its record and the frames at the watched node.

    `observe` is called repeatedly while the traffic runs. A trial in which an application got no
    core for most of the time is repeated."""
    for _ in range(ATTEMPTS):
        record, frames = run_once(watched, observe, settings)
        if not record.message.startswith(STARVED):
            return record, frames
    pytest.skip(f"machine too busy: {ATTEMPTS} times {record.message}")


def run_once(
    watched: str, observe: Callable[[WatchingEnvironment], None], settings: dict[str, str]
) -> tuple[Record, list[SeenFrame]]:
    """Run one trial."""
    plan = plan_for(LinuxBridge(), **settings)
    patient = plan.placement.model_copy(update={"catch_up_us": 2_000_000})  # skips no frame
    environment = WatchingEnvironment(plan.environment, watched)
    with open_session(measuring=False) as session:
        record = run_trial(
            session,
            replace(plan, environment=environment, placement=patient),
            campaign="keys",
            run_id="abc123",
            baseline=Baseline(),
            provenance={},
            observe=lambda _: observe(environment),
        )
    assert environment.watch is not None
    return record, environment.watch.data_frames()


def total(record: Record, role: str, counter: str) -> int:
    """Return a counter of the application in this role."""
    (engine,) = [one for one in record.engines if one.role == role]
    return int(engine.result["totals"][counter])


def config(record: Record, role: str = "sender") -> dict[str, Any]:
    (engine,) = [one for one in record.engines if one.role == role]
    return dict(engine.result["config"])


def due_s(record: Record, frames: list[SeenFrame]) -> list[float]:
    """Return the due times in the frames' stamps, in seconds after the first frame.

    They show the schedule itself, however late a busy machine sent the frames."""
    hz = next(one.ready["tsc_hz"] for one in record.engines if one.role == "sender")
    first = frames[0].intended_ticks
    return [((one.intended_ticks - first) & ((1 << 48) - 1)) / hz for one in frames]


def check_counts(record: Record, frames: list[SeenFrame]) -> None:
    """Check that the observer received exactly the frames that the receiver counted, without
    error."""
    assert record.status == "finished", record.message
    assert len(frames) == total(record, "receiver", "rx_frames") > 100
    assert sum(one.size_bytes for one in frames) == total(record, "receiver", "rx_bytes")
    assert len({one.sequence for one in frames}) == len(frames)
    assert total(record, "receiver", "rx_corrupt") == 0
    assert record.verdict is not None and record.throughput is not None
    assert record.throughput.pairs[0].lost_frames == total(record, "sender", "tx_offered") - len(
        frames
    )
    assert not {"corrupt-frames", "flooding", "unverified"} & set(record.verdict.marks)


def test_sizes_and_flows_in_turn() -> None:
    """Both follow from the sequence number, so every single frame can be checked."""
    cycle = [64, 64, 570, 1518]
    record, frames = run(packet_mix="64*2+570+1518", flows="12:src-ip=4+dst-port=3", **QUIET)
    check_counts(record, frames)
    assert all(one.size_bytes == cycle[one.sequence % 4] for one in frames)
    assert {(one.ip_version, one.tags) for one in frames} == {(4, ())}
    flows = {one.sequence % 12: one.flow for one in frames}
    assert len(set(flows.values())) == 12
    assert all(one.flow == flows[one.sequence % 12] for one in frames)
    assert len({source for source, _, _, _ in flows.values()}) == 4
    assert len({port for _, _, _, port in flows.values()}) == 3
    assert record.trial.packet_size_bytes == 554 == sum(cycle) // 4
    assert record.throughput is not None and record.trim is not None
    # Samples of the kept window. The first and the last may end within a round of four frames.
    kept_s = (record.trim.kept_to_ns - record.trim.kept_from_ns) / 1e9
    frames, bps = record.throughput.forwarded_pps * kept_s, record.throughput.forwarded_l2_bps
    assert abs(bps / 8 * kept_s - 554 * frames) <= 0.02 * 554 * frames + sum(cycle)


def test_ipv6_in_two_tags_with_many_flows() -> None:
    record, frames = run(
        ip_version="6", vlan="200.100", flows="1k:src-ip+src-port", packet_size="128", **QUIET
    )
    check_counts(record, frames)
    assert {one.tags for one in frames} == {((0x88A8, 200), (0x8100, 100))}
    assert {(one.ip_version, one.size_bytes) for one in frames} == {(6, 128)}
    assert len({one.flow for one in frames}) == min(1000, len({o.sequence % 1000 for o in frames}))
    assert len({one.flow for one in frames}) > 500
    assert (config(record)["vlan"], config(record)["flows"]) == ("200.100", 1000)
    assert "ip_version=6" in record.notation and "vlan=200.100" in record.notation


def test_probes_beside_a_tagged_load() -> None:
    """The observer distinguishes both streams; the latency comes from the probes alone."""
    record, frames = run(
        "sv0", dimension="latency", rate="4k", burst="8", probe_rate="500", vlan="100",
        packet_size="68",
        duration="600ms", interval="20ms", **{"trim.warm_up": "0ms"},
    )  # fmt: skip
    assert record.status == "finished", record.message
    streams = Counter(one.stream for one in frames)
    assert set(streams) == {0, 0x8000}
    assert {one.tags for one in frames} == {((0x8100, 100),)}
    server = next(one.result for one in record.engines if one.role == "server")
    client = next(one.result for one in record.engines if one.role == "client")
    assert streams[0] == server["totals"]["rx_frames"] > 100
    assert streams[0x8000] == server["probe"]["totals"]["rx_frames"] > 100
    assert record.latency is not None and record.latency.beside is not None
    assert record.latency.count == client["probe"]["loss"]["received_unique"]
    assert record.latency.count + record.latency.lost == client["probe"]["totals"]["tx_offered"]
    assert record.latency.beside.probe_rate_pps == 500
    assert "probe_rate=500" in record.notation


def test_on_off_asks_for_its_share() -> None:
    """Rounds of 20 ms at 10,000 a second and 40 ms of silence."""
    record, frames = run(
        rate="10k", burst="4", schedule="on-off:20ms:40ms", interval="5ms", **SHORT
    )
    check_counts(record, frames)
    assert total(record, "sender", "tx_intended") == 10 * 200
    phases = [(t + 0.03) % 0.06 for t in due_s(record, frames)]
    assert max(phases) - min(phases) < 0.02, "all frames in on-times"
    assert record.throughput is not None and record.verdict is not None
    assert not {"unstable", "two-bands"} & set(record.verdict.marks)
    assert "schedule=on-off:20ms:40ms" in record.notation


def test_ramp_sends_the_area_under_it() -> None:
    """From 1,000 to 5,000 a second in 600 ms: 1,800 frames, 600 of them in the first half."""
    record, frames = run(burst="1", schedule="ramp:1k:5k:600ms", interval="10ms", **SHORT)
    check_counts(record, frames)
    assert total(record, "sender", "tx_intended") == pytest.approx(1800, abs=1)
    for t in due_s(record, frames):  # due when the area reaches a whole frame
        area = 1000 * t + 4000 / 0.6 * t * t / 2
        assert area == pytest.approx(round(area), abs=0.01)
    assert config(record)["schedule"]["shape"] == "ramp"


def test_poisson_gaps_are_random_with_the_requested_mean() -> None:
    """The quartiles of the distances are those of an exponential distribution."""
    record, frames = run(
        rate="10Mbps-l1",
        packet_size="105",
        burst="1",
        schedule="poisson:7",
        interval="20ms",
        **SHORT,
    )
    check_counts(record, frames)
    assert record.trial.rate_pps == 10_000  # 125 bytes on the wire
    intended = total(record, "sender", "tx_intended")
    assert intended == pytest.approx(6000, abs=5 * 6000**0.5)
    times = due_s(record, frames)
    gaps = sorted(10_000 * (b - a) for a, b in pairwise(times))
    for share in (0.25, 0.5, 0.75):  # skipped frames leave a few long gaps
        assert gaps[round(share * len(gaps))] == pytest.approx(-math.log(1 - share), rel=0.15)
    assert config(record)["schedule"] == {"shape": "poisson", "seed": 7}


def test_fault_during_trial_is_in_the_record() -> None:
    """The sender's device goes down: the message of the engine explains why there is no valid
    figure."""
    done: list[str] = []

    def interrupt(environment: WatchingEnvironment) -> None:
        if (node := environment.netns["tx0"]) not in done:  # each attempt has another namespace
            done.append(node)
            for state in ("down", "up"):
                subprocess.run(
                    ["ip", "-n", node, "link", "set", "eth0", state], check=True, timeout=30
                )

    record, _ = run(observe=interrupt, **{**QUIET, "duration": "1s"})
    assert done
    (fault,) = record.faults
    assert fault.startswith("sender in tx0: port 0 (raw:dev=eth0,mmsg): ")
    if record.status == "failed":  # too early for any sample
        assert record.message.startswith(fault)
    else:
        assert record.verdict is not None and "partial" in record.verdict.marks
        assert not record.verdict.valid


@pytest.mark.parametrize("io", ["raw", "udp-mmsg"])
def test_blocking_receiver_polls_only_when_frames_arrive(io: str) -> None:
    """It counts the same, and polls without result some twenty times a second, to detect its end. A
    polling receiver does so ten thousand times and more."""
    record, frames = run(idle="block", io=io, **QUIET)
    check_counts(record, frames)
    assert record.placement is not None and record.placement.idle == "block"
    (receiver,) = [one.result for one in record.engines if one.role == "receiver"]
    lasted_s = (receiver["duration_ns"] + receiver["drain_ns"]) / 1e9
    assert total(record, "receiver", "idle_polls") <= 100 * (1 + lasted_s)
