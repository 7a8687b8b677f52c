"""Recovery and reconfiguration on real switches: outages of a set length, restarts, changes."""

from __future__ import annotations

import time

import pytest

from switchmark.method.disturbed import DisturbedMeasurer
from switchmark.method.reconfiguration import reconfigure
from switchmark.method.recovery import recover
from switchmark.switch.base import Switch
from switchmark.switch.changes import PORTS, RULES, changes_of
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.ports import device_of
from tests.integration.machine import needs_root
from tests.integration.truth_rig import Rig, deployed, find, reference

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
LOAD_PPS = 10_000


def disturber(rig: Rig) -> DisturbedMeasurer:
    return DisturbedMeasurer(rig.plan.trial, rig.deployment.ends, lambda: None)


@pytest.mark.parametrize("down_s", [0.2, 0.6])
def test_an_outage_of_a_set_length_is_found_by_frames_and_by_silence(down_s: float) -> None:
    """The bridge's port is taken down for so long: no frame passes meanwhile."""
    switch = LinuxBridge()
    with deployed(switch) as rig:
        port = device_of(switch.ports[1])
        bounds: list[tuple[float, float]] = []

        def cut() -> None:
            begun = time.monotonic()
            switch.namespace.batch("ip", [f"link set dev {port} down"])
            surely = time.monotonic()
            time.sleep(down_s)
            least = time.monotonic() - surely
            switch.namespace.batch("ip", [f"link set dev {port} up"])
            bounds.append((least, time.monotonic() - begun))

        def off_by(outage_s: float) -> float:
            """`ip` takes its time on a busy machine: the port was down for so long at least,
            and for so long at most."""
            least, most = bounds[-1]
            return max(0.0, least - outage_s, outage_s - most)

        def by_frames() -> float:
            seen = disturber(rig).disturb(2.5, LOAD_PPS, 0.7, cut)
            assert seen.resumed
            return off_by(seen.outage_s)

        find(0, 0.02, by_frames)
        find(
            0, 0.02,
            lambda: off_by(disturber(rig).disturb(2.5, LOAD_PPS, 0.7, cut).silence.seconds),
        )  # fmt: skip


def need(switch: Switch) -> Switch:
    probe = switch.probe()
    if not probe.available:
        pytest.skip(f"{switch.name}: {probe.reason}")
    return switch


@pytest.mark.parametrize("make", [LinuxBridge, reference, OvsNetdev, OvsDpdk])
def test_a_switch_that_was_killed_forwards_again(make: type[Switch]) -> None:
    with deployed(need(make())) as rig:
        before = tuple(rig.deployment.switch.process_ids())
        seen = disturber(rig).disturb(60.0, LOAD_PPS, 0.5, rig.deployment.restart_switch, 2.0)
        assert seen.resumed, "frames flow at the end"
        assert seen.silence.seconds > 0, "a restart cannot pass unseen"
        assert seen.outage_s >= seen.silence.low_s * 0.8
        assert rig.deployment.switch.alive() is None
        after = tuple(rig.deployment.switch.process_ids())
        assert not set(before) & set(after), "it is another process"


def test_recovery_of_a_limiter_without_queue_is_at_once() -> None:
    """The reference loses what is above its rate, and nothing as soon as it is below."""
    limit = 20_000
    with deployed(reference(limit_pps=limit, limit_burst=400)) as rig:

        def recovered_s() -> float:
            found = recover(
                disturber(rig), throughput_pps=limit, overload_s=1.0, restart=lambda: None
            )
            assert found.step.overload.lost_frames > 0, "110 % is too much for it"
            return found.seconds if found.seconds is not None else 1e9

        find(0, 0.05, recovered_s)


@pytest.mark.parametrize("make", [LinuxBridge, OvsNetdev, OvsDpdk])
def test_changes_are_made_and_undone_under_load(make: type[Switch]) -> None:
    switch = need(make())
    with deployed(switch) as rig:
        changes = changes_of(switch)
        assert [one.name.split()[0] for one in changes] == [str(PORTS)] * 2 + [str(RULES)] * 2
        found = reconfigure(disturber(rig), changes, load_pps=LOAD_PPS, trial_s=0.6)
        assert len(found.changes) == 4
        assert all(one.seen.point.offered_frames > 0 for one in found.changes)
        assert found.worst.seen.outage_s < 0.6
        assert switch.alive() is None


def test_the_bridge_really_has_what_was_added() -> None:
    switch = LinuxBridge()
    with deployed(switch):
        join, part, learn, forget = changes_of(switch)

        def members() -> int:
            links = switch.namespace.query("ip", "link", "show")
            return sum(link.get("master") is not None for link in links)

        def entries() -> int:
            return len(switch.namespace.query("bridge", "fdb", "show", "dynamic")) + len(
                switch.namespace.query("bridge", "fdb", "show")
            )

        before = members(), entries()
        join.apply()
        assert members() == before[0] + PORTS
        part.apply()
        learn.apply()
        assert entries() >= before[1] + RULES
        forget.apply()
        assert members() == before[0]
        assert entries() < before[1] + RULES
