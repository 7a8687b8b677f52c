"""Verdicts provoked on real switches: a mode that is not kept, a sender that is held up."""

from __future__ import annotations

import os
import signal
import threading

import pytest

from switchmark.method.connect_mode import wrong_mode
from switchmark.method.judge import STRETCHED
from switchmark.switch.base import ConnectMode, Switch
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_netdev import OvsNetdev
from tests.integration.machine import needs_root
from tests.integration.truth_rig import Rig, deployed

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
LEARNING, STATIC = ConnectMode.LEARNING, ConnectMode.STATIC_MAC


class CarelessBridge(LinuxBridge):
    """Learns and floods, whatever it was asked for."""

    def connect(self) -> None:
        asked, self.mode = self.mode, LEARNING
        super().connect()
        self.mode = asked


def found(rig: Rig) -> str:
    switch = rig.deployment.switch
    return wrong_mode(
        rig.deployment.ends, rig.plan.mode, lambda: switch.counters().witness_rx_frames
    )


@pytest.mark.parametrize("mode", [LEARNING, STATIC])
@pytest.mark.parametrize("make", [LinuxBridge, OvsNetdev])
def test_a_switch_keeps_the_mode_it_was_asked_for(make: type[Switch], mode: ConnectMode) -> None:
    switch = make()
    if not switch.probe().available:
        pytest.skip(f"{switch.name}: {switch.probe().reason}")
    with deployed(switch, connect_mode=mode.value) as rig:
        assert found(rig) == ""


def test_a_switch_in_another_mode_is_found_out() -> None:
    with deployed(CarelessBridge(), connect_mode=STATIC.value) as rig:
        assert "a table of addresses passed" in found(rig)


def test_a_sender_that_is_held_up_stretches_its_trial() -> None:
    with deployed(LinuxBridge()) as rig:
        pid = rig.deployment.ends[0].a.spawned.pid
        stop = threading.Timer(0.5, os.kill, (pid, signal.SIGSTOP))
        go_on = threading.Timer(1.5, os.kill, (pid, signal.SIGCONT))
        measurer = rig.measurer
        stop.start()
        go_on.start()
        try:
            measurer.measure(1.0, 1_000)
        finally:
            stop.cancel()
            go_on.join()
        assert measurer.stretch > STRETCHED
