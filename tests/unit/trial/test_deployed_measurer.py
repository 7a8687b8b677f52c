"""Trials of a search on scripted engines: losses of applications are not the switch's."""

from __future__ import annotations

import os
from typing import Any

import pytest

from switchmark.engine.events import Ready, parse
from switchmark.host.cores.cpu_time import ThreadTimes
from switchmark.host.cores.throttling import OwnThrottling
from switchmark.trial import deployed_measurer
from switchmark.trial.deployed_measurer import DeployedMeasurer
from switchmark.trial.sender_absence import late_frames
from switchmark.trial.verification import PairEnds
from tests.unit.engine_lines import event
from tests.unit.trial_fakes import CPU, T0, FakeEngine, S, process, result, samples, trial


def measurer(
    missing: int,
    away: int,
    late: int = 0,
    residual: dict[str, int] | None = None,
    waited_s: float = 0.0,
    **changes: Any,
) -> DeployedMeasurer:
    """One pair: 10,000 frames are sent, `missing` of them are lost, `away` of these while the
    receiver was away; `late` more were given up by the sender, which waited for its core for
    `waited_s` of 2 s; `residual` came later."""
    begin = event("started", t_ns=T0)
    sent = result(
        totals={
            "tx_offered": 10_000, "tx_intended": 10_000 + late,
            "tx_dropped": late, "tx_late": late,
        },
        cpu={**CPU, "run_delay_ns": round(waited_s * S)},
    )  # fmt: skip
    came = 10_000 - missing
    received = result(
        totals={"rx_frames": came, "rx_missing": missing, "rx_missed_away": away},
        loss={"received_unique": came, "duplicates": 0, "reordered": 0},
        **({"residual": residual} if residual else {}),
    )
    a = FakeEngine({"start": lambda _: [begin, *samples(10, tx_offered=1000), sent]})
    b = FakeEngine(
        {
            "start": lambda _: [begin, *samples(10, rx_frames=came // 10)],
            "stop": lambda _: [received],
        }
    )
    pair = PairEnds(process(a, "sender", 0), process(b, "receiver", 0))
    return DeployedMeasurer(trial(**changes), [pair], lambda: None)


def test_loss_of_absent_receivers_is_not_the_switchs() -> None:
    deployed = measurer(missing=100, away=80)
    point = deployed.measure(2.0, 5000.0)
    assert (point.offered_frames, point.lost_frames) == (10_000, 20)
    (result,) = deployed.trials()
    assert (result.lost_frames, result.lost_away) == (20, 80)
    assert (
        "80 frames were lost while a receiver was away from its core (left out)" in deployed.notes()
    )


def test_loss_in_the_switch_is_all_counted() -> None:
    deployed = measurer(missing=100, away=0)
    assert deployed.measure(2.0, 5000.0).lost_frames == 100
    assert not any("away" in note for note in deployed.notes())


@pytest.mark.parametrize(
    ("within_ms", "queued", "changes"),
    [
        (10, 0, {}),
        (11, 4000, {}),
        (110, 0, {"cpu_limit": 0.5}),
        (111, 4000, {"cpu_limit": 0.5}),
    ],
)
def test_frames_long_after_their_trial_are_queued(
    within_ms: int, queued: int, changes: dict[str, Any]
) -> None:
    residual = {"frames": 4000, "within_ns": within_ms * 1_000_000}
    deployed = measurer(missing=100, away=0, residual=residual, **changes)
    point = deployed.measure(2.0, 5000.0)
    assert (point.lost_frames, point.queued_frames) == (100, queued)
    assert point.search_loss_ratio == pytest.approx((100 + queued) / 10_000)
    assert deployed.trials()[0].queued_frames == queued
    assert any("still queued when" in note for note in deployed.notes()) == bool(queued)


def softirq_threads(patch: pytest.MonkeyPatch, *readings_s: float | None) -> None:
    """Let the kernel's softirq threads have run for so long, reading by reading."""
    looks = iter(readings_s)
    patch.setattr(deployed_measurer, "softirq_threads_s", lambda: next(looks))


def test_frames_of_descheduled_sender_are_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    softirq_threads(monkeypatch, 1.0, 1.0)
    deployed = measurer(missing=0, away=0, late=500, waited_s=0.1)
    point = deployed.measure(2.0, 5250.0)
    assert (point.unoffered_frames, point.late_frames) == (500, 500)
    assert point.search_loss_ratio == 0
    assert not point.needs_repetition
    (result,) = deployed.trials()
    assert (result.unoffered_frames, result.late_frames) == (500, 500)
    message = "500 frames were not sent, since a sender was descheduled (left out)"
    assert message in deployed.notes()


@pytest.mark.parametrize(
    ("waited_s", "softirq_s", "left_out"),
    [
        (0.0, (1.0, 1.0), 0),  # it was in its system calls all the time
        (0.04, (1.0, 1.0), 210),  # 2 % of the 10,500 that were wanted
        (0.04, (1.0, 1.03), 53),  # mostly for a thread that does the kernel switch's work
        (0.04, (1.0, 1.08), 0),
        (0.04, (None, None), 0),  # that thread cannot be seen here
    ],
)
def test_frames_due_in_system_calls_count(
    waited_s: float,
    softirq_s: tuple[float | None, float | None],
    left_out: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    softirq_threads(monkeypatch, *softirq_s)
    deployed = measurer(missing=0, away=0, late=500, waited_s=waited_s)
    point = deployed.measure(2.0, 5250.0)
    assert (point.unoffered_frames, point.late_frames) == (500, left_out)
    assert point.search_loss_ratio == pytest.approx((500 - left_out) / (10_500 - left_out))


@pytest.mark.parametrize(
    ("backend", "driver", "left_out"),
    [
        ("raw", "", 0),  # softirqs handle its frames, for an unknown time
        ("dpdk", "net_af_packet", 0),
        ("dpdk", "net_virtio_user", 210),  # the kernel sees no frame
    ],
)
def test_unseen_softirq_threads_of_kernel_ports_excuse_nothing(
    backend: str, driver: str, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a process namespace those threads are invisible. A switch with a separate process does
    its work there, but the kernel still handles the frames of its devices."""
    softirq_threads(monkeypatch, None, None)
    deployed = measurer(missing=0, away=0, late=500, waited_s=0.04)
    deployed._switch_pids = lambda: [os.getpid()]
    ports = [{"backend": backend, "driver": driver}]
    for engine in deployed._senders:
        ready = parse(event("ready", role="sender", ports=ports))
        assert isinstance(ready, Ready)
        engine._ready = ready
    assert deployed.measure(2.0, 5250.0).late_frames == left_out


@pytest.mark.parametrize(
    ("idle", "own_value", "mate", "softirq_s", "left_out"),
    [
        ("poll", 0.5, 0.5, 0.0, 500),  # it waited for half of the time, for anybody
        ("baton", 0.5, 0.5, 0.0, 0),  # ... for its receiver, which takes turns with it
        ("yield", 0.5, 0.5, 0.0, 0),
        ("baton", 0.5, 0.48, 0.0, 210),  # for 2 % of the time neither ran
        ("baton", 0.5, 0.48, 0.02, 105),  # ... and the kernel's softirq thread for half of that
    ],
)
def test_turns_of_the_receiver_excuse_nothing(
    idle: str, own_value: float, mate: float, softirq_s: float, left_out: int
) -> None:
    deployed = measurer(missing=0, away=0, late=500, waited_s=1.0)
    deployed.measure(2.0, 5250.0)
    for engine, share in zip(
        (*deployed._senders, *deployed._receivers), (own_value, mate), strict=True
    ):
        engine.cores = (0,)
        result = engine.result
        engine._result = result.model_copy(
            update={
                "config": result.config.model_copy(update={"idle": idle}),
                "cpu": result.cpu.model_copy(update={"cpu_ns": round(share * 2 * S)}),
            }
        )
    found = late_frames(deployed._senders, deployed._receivers, softirq_s)
    assert found == pytest.approx(left_out, abs=1)


def throttled(patch: pytest.MonkeyPatch, seconds: float) -> None:
    """Let a CPU quota have stopped everything for so long during the trial."""
    looks = iter([OwnThrottling(3, 1.0), OwnThrottling(4, 1.0 + seconds)])
    patch.setattr(OwnThrottling, "read", lambda: next(looks))


@pytest.mark.parametrize(
    ("throttled_s", "left_out"),
    [(0.0, 210), (0.03, 53), (0.04, 0), (0.5, 0)],  # the sender waited for 0.04 s
)
def test_a_used_up_quota_excuses_no_frames(
    throttled_s: float, left_out: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    softirq_threads(monkeypatch, 1.0, 1.0)
    throttled(monkeypatch, throttled_s)
    deployed = measurer(missing=0, away=0, late=500, waited_s=0.04)
    assert deployed.measure(2.0, 5250.0).late_frames == left_out


def test_a_used_up_quota_excuses_no_applications_in_turns() -> None:
    """Neither ran for half of the time, a quarter of it since the quota was used up."""
    deployed = measurer(missing=0, away=0, late=10_000)
    deployed.measure(2.0, 5250.0)
    for engine in (*deployed._senders, *deployed._receivers):
        engine.cores = (0,)
        cpu = engine.result.cpu.model_copy(update={"cpu_ns": S // 2})
        config = engine.result.config.model_copy(update={"idle": "baton"})
        engine._result = engine.result.model_copy(update={"config": config, "cpu": cpu})
    expected = deployed._senders[0].result.totals.tx_intended
    found = [
        late_frames(deployed._senders, deployed._receivers, 0.0, each) for each in (0.0, 0.5, 2.0)
    ]
    assert found == pytest.approx([expected // 2, expected // 4, 0], abs=1)


@pytest.mark.parametrize(("throttled_s", "stalled_s"), [(0.2, 0.3), (0.8, 0.0)])
def test_a_used_up_quota_does_not_stall_the_switch(
    throttled_s: float, stalled_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    deployed = measurer(missing=0, away=0)
    deployed._switch_pids = lambda: (1,)
    looks = iter([ThreadTimes(0.0, {7: (0.0, 0.0)}), ThreadTimes(2.0, {7: (1.5, 0.5)})])
    monkeypatch.setattr(ThreadTimes, "of", lambda _: next(looks))
    throttled(monkeypatch, throttled_s)
    softirq_threads(monkeypatch, 1.0, 1.0)
    assert deployed.measure(2.0, 5000.0).stalled_s == pytest.approx(stalled_s)


def test_waiting_switch_is_noted() -> None:
    deployed = measurer(missing=0, away=0)
    deployed._switch_pids = lambda: (1,)
    looks = iter([ThreadTimes(0.0, {7: (0.0, 0.0)}), ThreadTimes(2.0, {7: (1.5, 0.5)})])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ThreadTimes, "of", lambda _: next(looks))
        softirq_threads(patch, 1.0, 1.0)
        point = deployed.measure(2.0, 5000.0)
    assert point.stalled_s == 0.5
    assert point.needs_repetition
    assert any(
        note.startswith("the switch was kept from its core for 500 ms") for note in deployed.notes()
    )
