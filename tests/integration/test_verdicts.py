"""Marks provoked on real switches, each in the record of a whole trial."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from switchmark.certify.support.rig import Rig, deploy, plan_for
from switchmark.engine.binary import find_engine
from switchmark.host.kernel import procfs
from switchmark.host.session import open_session
from switchmark.model.ports import ConnectMode
from switchmark.record import Record
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.registry import make_switch
from switchmark.switch.support.base import Switch
from switchmark.trial.connect_mode import wrong_mode
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.machine import needs_root
from tests.integration.truth_rig import ATTEMPTS, find

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
LEARNING, STATIC = ConnectMode.LEARNING, ConnectMode.STATIC_MAC
SHORT = {"duration": "1.2s", "interval": "100ms", "trim.warm_up": "0.1s", "trim.cool_down": "0.1s"}
SOME_SAMPLES_S = 0.4
MORE_THAN_A_BUFFER = 200_000  # frames of 1500 B, which take 2 KiB each of at most 256 MiB


class CarelessBridge(LinuxBridge):
    """Learns and floods, whatever its mode."""

    def connect(self) -> None:
        mode, self.mode = self.mode, LEARNING
        super().connect()
        self.mode = mode


def found(rig: Rig) -> str:
    switch = rig.deployment.switch
    return wrong_mode(
        rig.deployment.ends, rig.plan.mode, lambda: switch.counters().witness_rx_frames
    )


@pytest.mark.parametrize("mode", [LEARNING, STATIC])
@pytest.mark.parametrize("make", [LinuxBridge, OvsNetdev])
def test_switch_keeps_the_requested_mode(make: type[Switch], mode: ConnectMode) -> None:
    switch = make()
    if not switch.availability().available:
        pytest.skip(f"{switch.name}: {switch.availability().reason}")
    with deploy(switch, connect_mode=mode.value) as rig:
        assert found(rig) == ""


def test_switch_in_another_mode_is_detected() -> None:
    with deploy(CarelessBridge(), connect_mode=STATIC.value) as rig:
        assert "a table of addresses passed" in found(rig)


Act = Callable[[int], None]


def judged(
    switch: Switch, on: str = "", act: Act | None = None, baseline: Baseline | None = None,
    **settings: str,
) -> Record:  # fmt: skip
    """Run a whole trial; return its record.

    After some samples, `act` is called with the process id of the application in the role `on`."""
    plan = plan_for(switch, **{**SHORT, **settings})
    with open_session(measuring=False) as session:

        def observe(pps: float | None) -> None:
            if not pps or act is None or acted:
                return
            seen_s.append(time.monotonic())
            if seen_s[-1] - seen_s[0] >= SOME_SAMPLES_S:
                acted.append(on)
                act(pid_of(session.id, on))

        acted: list[str] = []
        seen_s: list[float] = []
        found = run_trial(
            session, plan, campaign="verdicts", run_id="verdicts", provenance={}, observe=observe,
            baseline=baseline or Baseline(),
        )  # fmt: skip
    assert found.status == "finished", found.message
    assert bool(acted) == bool(on), "traffic flowed"
    return found


def marks_of(record: Record) -> set[str]:
    assert record.verdict is not None
    return set(record.verdict.marks)


def pid_of(session_id: str, role: str) -> int:
    """Return the session's engine in this role."""
    for process in procfs.session_processes(session_id):
        command = Path(f"/proc/{process.pid}/cmdline").read_bytes().split(b"\0")
        if len(command) > 1 and command[1] == role.encode():
            return process.pid
    raise AssertionError(f"no {role} runs")


def stopped_for(seconds: float) -> Act:
    """Stop a process for at least so long."""

    def act(pid: int) -> None:
        os.kill(pid, signal.SIGSTOP)
        threading.Timer(seconds, os.kill, (pid, signal.SIGCONT)).start()

    return act


def test_stopped_sender_makes_the_trial_longer_and_unstable() -> None:
    """Stopped in the trial until after its end."""
    found = judged(LinuxBridge(), "sender", stopped_for(2.5), rate="5k", duration="2.5s")
    assert {"duration-stretched", "unstable", "schedule-missed"} <= marks_of(found)


def test_stopped_receiver_is_the_limit() -> None:
    """Its own socket overflows meanwhile, which is not a loss of the switch. On a slow machine it
    takes longer until the socket is full."""
    for duration_s in (2.5, 5, 10):
        settings = {"packet_size": "1500", "duration": f"{duration_s}s"}
        found = judged(LinuxBridge(), "receiver", stopped_for(0.7 * duration_s), **settings)
        sent = sum(one.result["totals"]["tx_offered"] for one in found.engines)
        if 0.7 * sent > MORE_THAN_A_BUFFER:
            break
    assert {"receiver-bound", "lossy-receiver-socket"} <= marks_of(found)
    assert found.limit is not None and found.limit.factor == "receiver"


class AgeingBridge(LinuxBridge):
    """Can forget addresses soon after it learnt them. A receiver of one-way traffic is not learnt
    again, so frames to it then go to all ports."""

    def forget(self, *_: int) -> None:
        bridge = next(
            link["ifname"] for link in self.namespace.query("ip", "link", "show", "type", "bridge")
        )
        self.namespace.batch("ip", [f"link set dev {bridge} type bridge ageing_time 20"])


def test_bridge_that_forgot_addresses_floods() -> None:
    """During the trial, after all verification frames arrived correctly. Applications that share
    one core although each needs one are also marked."""
    bridge = AgeingBridge()
    found = judged(
        bridge, "receiver", bridge.forget, rate="5k", duration="3s", application_cpus="0"
    )
    assert {"flooding", "oversubscribed"} <= marks_of(found)
    assert found.verification is not None and found.verification.passed
    assert found.verdict is not None and not found.verdict.valid


def test_trial_in_another_mode_is_not_valid() -> None:
    found = judged(CarelessBridge(), rate="5k", connect_mode=STATIC.value)
    assert "wrong-connect-mode" in marks_of(found)
    assert found.verdict is not None and not found.verdict.valid


@pytest.mark.slow
def test_saturated_sender_is_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An engine that sends at most 20 kpps, over the wire and through a switch that could forward
    more."""
    slow = tmp_path / "switchmark-traffic"
    slow.write_text(
        f'#!/bin/sh\nfor word; do shift\n[ "$word" = max ] && word=20k\n'
        f'set -- "$@" "$word"\ndone\nexec {find_engine()} "$@"\n'
    )
    slow.chmod(0o755)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", str(slow))
    records = []
    for _ in range(ATTEMPTS):
        wire = judged(make_switch("direct")).throughput
        assert wire is not None
        found = judged(LinuxBridge(), baseline=Baseline(forwarded_pps=wire.forwarded_pps))
        if "generator-bound" in marks_of(found):
            return
        records.append(found)
    if all("disturbed" in marks_of(one) for one in records):
        pytest.skip("machine too busy for two trials at the same rate")
    pytest.fail(f"never generator-bound: {[one.limit for one in records]}")


def test_undisturbed_trial_is_valid() -> None:
    marks: list[list[str]] = []

    def invalid() -> float:
        found = judged(LinuxBridge(), rate="5k")
        assert found.verdict is not None
        marks.append(found.verdict.marks)
        return not found.verdict.valid

    try:
        find(0, 0, invalid)
    finally:
        print(marks)
