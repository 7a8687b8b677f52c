"""The contract that every registered switch keeps, tried on real ports with real frames.

Each test runs for every switch (and connect mode) that this machine can run; the others
are skipped by name with the probe's reason and remedy.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.switch.base import (
    MADE_BY_SWITCH,
    ConnectMode,
    PortCounters,
    PortKind,
    Switch,
    SwitchPort,
)
from switchmark.switch.ports import WITNESS_MAC
from switchmark.switch.registry import SWITCHES
from switchmark.testbed.clean import clean_stale
from switchmark.testbed.host import Session
from switchmark.testbed.session import open_session
from switchmark.testbed.things import Link
from tests.integration.machine import needs_root
from tests.integration.switch_rig import (
    BROADCAST,
    EXCLUSIVE,
    REAL,
    VethEnd,
    VhostEnd,
    arrivals,
    available,
    mac_of,
    port_ends,
    rig_kind,
    traces,
    until,
    veth_ends,
    vhost_ends,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

SWITCH_CORE = 0
LAST_CORE = max(os.sched_getaffinity(0))  # some programs only know the first one by accident
FRAMES = 200
GAP_S = 0.0002  # slow enough for AF_PACKET in Open vSwitch, whose socket buffer is small
UNKNOWN_MAC = "02:53:4d:ff:ff:ff"

MODES = [
    pytest.param(name, mode, id=f"{name}-{mode}")
    for name in REAL
    for mode in SWITCHES[name]().capabilities.connect_modes
]
MAC_MODES = [each for each in MODES if each.values[1] is not ConnectMode.CROSS_CONNECT]


def takes(name: object, kind: PortKind) -> bool:
    return rig_kind(SWITCHES[str(name)]()) is kind


MADE = [name for name in REAL if rig_kind(SWITCHES[name]()) in MADE_BY_SWITCH]
VETH_MAC_MODES = [each for each in MAC_MODES if takes(each.values[0], PortKind.VETH)]
VHOST_MAC_MODES = [each for each in MAC_MODES if takes(each.values[0], PortKind.VHOST_USER)]
VHOST_SWITCHES = [name for name in REAL if takes(name, PortKind.VHOST_USER)]
VETH_CROSS_CONNECTS = [
    each.values[0]
    for each in MODES
    if takes(each.values[0], PortKind.VETH) and each.values[1] is ConnectMode.CROSS_CONNECT
]


def natural_mode(switch: Switch) -> ConnectMode:
    return switch.capabilities.connect_modes[0]


def bring_up(
    switch: Switch,
    session: Session,
    ends: list[VethEnd] | list[VhostEnd],
    mode: ConnectMode,
    core: int = SWITCH_CORE,
) -> None:
    switch.start(session, [end.port for end in ends], mode, [core])
    switch.wait_ports_up(30)
    assert switch.alive() is None


def how_many(switch: Switch) -> int:
    """Frames at a time. QEMU's igb does not deliver the 196th to 199th of the rig's, whatever
    comes before and after them (its counters have them). What VALE sends to an attached device
    it can send again only when the receiver has read it, and the rig reads late."""
    return {"sriov": 150, "vale": 80}.get(switch.name, FRAMES)


def gap_s(ends: list[VethEnd] | list[VhostEnd]) -> float:
    """An emulated NIC loses frames that come faster than its interrupts."""
    return 0.003 if ends[0].port.kind is PortKind.VF else GAP_S


def teach(ends: list[VethEnd]) -> None:
    for end in ends:
        end.send(mac_of(end.port.index ^ 1), 1)
    for end in ends:
        until(partial(hears_its_peer, end), 5, f"port {end.port.index} hears its peer")
    for end in ends:
        end.received()  # what was flooded


def hears_its_peer(end: VethEnd) -> bool:
    return addressed(end.received(), end.port.index ^ 1, end.port.mac) > 0


def addressed(frames: list[bytes], source: int, to: str) -> int:
    wanted = bytes.fromhex((to + mac_of(source)).replace(":", ""))
    return sum(frame.startswith(wanted) for frame in frames)


def moved(before: PortCounters, after: PortCounters) -> tuple[int, int]:
    return after.rx_frames - before.rx_frames, after.tx_frames - before.tx_frames


@pytest.mark.parametrize("name", SWITCHES)
def test_probe_tells_version_or_reason(name: str) -> None:
    probe = SWITCHES[name]().probe()
    if probe.available:
        assert probe.version and any(letter.isdigit() for letter in probe.version)
    else:
        assert probe.reason and probe.remedy


@pytest.mark.parametrize(("name", "mode"), MODES)
def test_two_pairs_forward_both_ways_and_counters_agree(
    name: str, mode: ConnectMode, session: Session
) -> None:
    switch = available(name)
    with port_ends(session, switch, 4, core=SWITCH_CORE) as ends:
        try:
            bring_up(switch, session, ends, mode, LAST_CORE)
            if isinstance(ends[0], VethEnd):
                veth_traffic(switch, [end for end in ends if isinstance(end, VethEnd)])
            else:
                vhost_traffic(switch, [end for end in ends if isinstance(end, VhostEnd)], mode)
            details = switch.details()
            assert details["version"]
            assert details["connect_mode"] == mode.value
        finally:
            switch.stop()


def veth_traffic(switch: Switch, ends: list[VethEnd]) -> None:
    """Frames from every port to its peer, all at their peers and nowhere else."""
    count = how_many(switch)
    teach(ends)
    switch.settle()
    before = switch.counters().ports
    for end in ends:
        end.send(mac_of(end.port.index ^ 1), count, gap_s(ends))
    for end in ends:
        frames = end.received(count)
        assert addressed(frames, end.port.index ^ 1, end.port.mac) == count
        assert len(frames) == count, "a port got frames that were not its own"
    after = switch.counters().ports
    for index in range(4):
        assert moved(before[index], after[index]) == (count, count)


def vhost_traffic(switch: Switch, ends: list[VhostEnd], mode: ConnectMode) -> None:
    """Saturating bursts each way: the switch and the applications count the same frames.

    How many get through says nothing here: four polling receivers share one core."""
    for end in ends:
        end.tell()  # its ports are up
    for sender, receiver in ((0, 1), (1, 0), (2, 3), (3, 2)):
        if mode is ConnectMode.LEARNING:
            ends[receiver].send_for(0.05)
            switch.settle()
        for end in ends:
            end.listen()  # what lies in the rings is taken out first
        until(partial(drained, switch, ends), 10, "what lay in the rings is taken out")
        begun = [end.settled() for end in ends]
        before = switch.counters().ports
        ends[sender].send_for(0.1)
        sent = ends[sender].settled()[1] - begun[sender][1]
        assert sent > 100
        until(partial(counted_all, switch, before, sender, sent), 2, f"all {sent} counted")
        until(partial(drained, switch, ends), 10, "all in")
        # (Snabb's own links hold frames that go on as soon as it gets the core again.)
        alike = partial(counted_alike, switch, before, ends[receiver], begun[receiver][0])
        until(alike, 10, "switch and receiver count the same frames")
        assert ends[receiver].settled()[0] - begun[receiver][0] > 100
        for other in {0, 1, 2, 3} - {sender, receiver}:
            assert moved_since(switch, before, other) == (0, 0), "another pair's port moved"
            assert ends[other].settled()[0] == begun[other][0]


def drained(switch: Switch, ends: list[VhostEnd]) -> bool:
    """A busy application may leave flooded frames in its ring for long."""
    counted = switch.counters().ports
    return all(end.counted()[0] == counted[end.port.index].tx_frames for end in ends)


def counted_all(
    switch: Switch, before: dict[int, PortCounters], index: int, rx_frames: int
) -> bool:
    return moved_since(switch, before, index)[0] == rx_frames


def counted_alike(
    switch: Switch, before: dict[int, PortCounters], end: VhostEnd, begun_frames: int
) -> bool:
    received = end.settled()[0] - begun_frames
    return moved_since(switch, before, end.port.index) == (0, received)


def moved_since(switch: Switch, before: dict[int, PortCounters], index: int) -> tuple[int, int]:
    return moved(before[index], switch.counters().ports[index])


@pytest.mark.parametrize(("name", "mode"), VETH_MAC_MODES)
def test_witness_sees_flooding_and_nothing_else(
    name: str, mode: ConnectMode, session: Session
) -> None:
    switch = available(name)
    count = how_many(switch)
    with veth_ends(session, 4) as ends:
        try:
            bring_up(switch, session, ends, mode)
            flood = 0 if mode is ConnectMode.STATIC_MAC else count
            for to in (UNKNOWN_MAC, BROADCAST):
                start = witness(switch)
                ends[0].send(to, count, gap_s(ends))
                assert arrivals(ends, [0, flood, flood, flood]) == [0, flood, flood, flood]
                assert witness(switch) - start == flood
            teach(ends)
            switch.settle()
            start = witness(switch)
            ends[0].send(mac_of(1), count, gap_s(ends))
            assert arrivals(ends, [0, count, 0, 0]) == [0, count, 0, 0]
            assert witness(switch) == start
        finally:
            switch.stop()


@pytest.mark.parametrize(("name", "mode"), VHOST_MAC_MODES)
def test_vhost_witness(name: str, mode: ConnectMode, session: Session) -> None:
    switch = available(name)
    with vhost_ends(session, 2) as ends:
        try:
            bring_up(switch, session, ends, mode)
            ends[1].tell()
            ends[0].send_for(0.02, to=UNKNOWN_MAC)
            sent = ends[0].settled()[1]
            flood = 0 if mode is ConnectMode.STATIC_MAC else sent
            assert sent > 0
            until(lambda: witness(switch) == flood, 5, f"witness counts {flood} flooded frames")
            ends[1].send_for(0.02)
            switch.settle()
            taught = witness(switch)
            ends[1].listen()
            ends[0].send_for(0.1)
            assert ends[1].settled()[0] > 100
            assert witness(switch) == taught
        finally:
            switch.stop()


def test_fastclick_counts_what_its_table_sends_astray(session: Session) -> None:
    """Its table drops what it does not know, so the witness is an entry: it can count."""
    switch = available("fastclick")
    with vhost_ends(session, 2) as ends:
        try:
            bring_up(switch, session, ends, ConnectMode.STATIC_MAC)
            ends[0].send_for(0.02, to=WITNESS_MAC)
            sent = ends[0].settled()[1]
            assert sent > 0
            until(lambda: witness(switch) == sent, 5, f"{sent} frames at the witness")
        finally:
            switch.stop()


@pytest.mark.parametrize("name", MADE)
def test_virtual_bridge_knows_its_own_addresses_only(name: str, session: Session) -> None:
    """Unknown addresses leave by the uplink and reach no port; broadcast reaches all."""
    switch = available(name)
    with port_ends(session, switch, 4) as ends:
        assert all(isinstance(end, VethEnd) for end in ends)
        count = how_many(switch)
        try:
            bring_up(switch, session, ends, ConnectMode.VEB)
            for to, expected in (
                (mac_of(1), [0, count, 0, 0]),
                (UNKNOWN_MAC, [0, 0, 0, 0]),
                (BROADCAST, [0, count, count, count]),
            ):
                start = witness(switch)
                ends[0].send(to, count, gap_s(ends))  # type: ignore[call-arg]
                heard = arrivals(ends, expected)  # type: ignore[arg-type]
                # (A NIC may give broadcast back to the function that it came from.)
                assert heard[1:] == expected[1:]
                assert heard[0] == 0 or to == BROADCAST
                moved = witness(switch) - start
                if to == mac_of(1):
                    assert moved == 0
                elif to == BROADCAST:
                    assert moved == count
        finally:
            switch.stop()


def witness(switch: Switch) -> int:
    seen = switch.counters().witness_rx_frames
    assert seen is not None
    return seen


@pytest.mark.parametrize("name", VETH_CROSS_CONNECTS)
def test_cross_connect_passes_every_address_to_the_peer_only(name: str, session: Session) -> None:
    switch = available(name)
    with veth_ends(session, 4) as ends:
        try:
            bring_up(switch, session, ends, ConnectMode.CROSS_CONNECT)
            for to in (UNKNOWN_MAC, BROADCAST, mac_of(3)):
                ends[0].send(to, FRAMES, gap_s(ends))
                assert arrivals(ends, [0, FRAMES, 0, 0]) == [0, FRAMES, 0, 0]
            assert switch.counters().witness_rx_frames is None
        finally:
            switch.stop()


@pytest.mark.parametrize("name", REAL)
def test_refuses_what_it_cannot_do_by_name(name: str, session: Session) -> None:
    switch = available(name)
    wrong = set(ConnectMode) - set(switch.capabilities.connect_modes)
    kind = rig_kind(switch)
    ports = [SwitchPort(k, kind, mac_of(k), device=f"x{k}", socket=f"/tmp/x{k}") for k in (0, 1)]
    for mode in wrong:
        with pytest.raises(UsageError, match=f"{name}: connect mode {mode}"):
            switch.start(session, ports, mode, [SWITCH_CORE])
    with pytest.raises(UsageError, match="in pairs"):
        switch.start(session, ports[:1], natural_mode(switch), [SWITCH_CORE])
    strange = next(one for one in PortKind if one not in switch.capabilities.port_kinds)
    other = SwitchPort(1, strange, mac_of(1), device="x1", socket="/tmp/x1")
    with pytest.raises(UsageError, match=f"port 1 is {strange}"):
        switch.start(session, [ports[0], other], natural_mode(switch), [SWITCH_CORE])
    assert switch.alive() is not None


@pytest.mark.parametrize("name", MADE)
def test_stop_takes_the_ports_it_has_made(name: str, session: Session) -> None:
    switch = available(name)
    before, entries = traces(session.id), len(session.ledger.outstanding())
    for _ in "ab":
        with port_ends(session, switch, 2) as ends:
            bring_up(switch, session, ends, natural_mode(switch))
            assert traces(session.id) != before
            switch.stop()
            switch.stop()
            assert switch.alive() is not None
        assert traces(session.id) == before
        assert len(session.ledger.outstanding()) == entries


@pytest.mark.parametrize("name", [name for name in REAL if name not in MADE])
def test_stop_leaves_nothing_and_can_be_repeated(name: str, session: Session) -> None:
    switch = available(name)
    for _ in "ab":  # and can be started again
        with port_ends(session, switch, 2) as ends:
            if isinstance(ends[0], VhostEnd):
                for end in ends:
                    until(Path(str(end.port.socket)).exists, 10, "testpmd's socket")
            before, entries = traces(session.id), len(session.ledger.outstanding())
            bring_up(switch, session, ends, natural_mode(switch))
            assert traces(session.id) != before
            switch.stop()
            switch.stop()
            assert traces(session.id) == before
            assert len(session.ledger.outstanding()) == entries
            assert switch.alive() is not None


@pytest.mark.parametrize("name", REAL)
def test_death_is_noticed_at_once(name: str, session: Session) -> None:
    switch = available(name)
    with port_ends(session, switch, 2) as ends:
        try:
            bring_up(switch, session, ends, natural_mode(switch))
            expected = break_it(switch, session, ends[0].port)
            until(lambda: switch.alive() is not None, 0.5, "the switch's death is noticed")
            words = str(switch.alive())
            assert "\n" not in words
            assert expected in words
        finally:
            switch.stop()
        assert not any("sw" in trace for trace in traces(session.id) if "netns" in trace)


def break_it(switch: Switch, session: Session, port: SwitchPort) -> str:
    """Kill the process, or take a port of one that has none; what the switch has to say of it."""
    if switch.process_ids():
        os.kill(switch.process_ids()[0], signal.SIGKILL)
        return "SIGKILL"
    if switch.name == "vale":  # the kernel waits for ever for an attached device to go
        session.host.run(["ip", "-n", f"sm{session.id}sw", "link", "set", port.device, "down"])
        return str(port.device)
    if port.device is not None:
        session.host.run(["ip", "-n", f"sm{session.id}sw", "link", "del", port.device])
        return port.device
    away = ["netns", str(os.getpid()), "name", f"sm{session.id}gone"]
    entry = session.ledger.record(Link(f"sm{session.id}gone"))
    session.host.run(["ip", "-n", str(port.far_netns), "link", "set", "eth0", *away])
    session.ledger.strike(entry)  # it goes with its switch
    return f"eth0 in {port.far_netns}"


@pytest.mark.parametrize("name", REAL)
def test_killed_bench_is_cleaned_up(name: str) -> None:
    available(name)
    bench = subprocess.Popen(
        [sys.executable, "-m", "tests.integration.switch_rig", name],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert bench.stdout is not None
    session_id = bench.stdout.readline().strip()
    assert session_id, "the bench did not start"
    assert any(f"sm{session_id}" in trace for trace in traces(session_id))
    bench.kill()
    bench.wait()
    bench.stdout.close()
    cleaned = clean_stale()
    assert [(each.session, each.problems) for each in cleaned] == [(session_id, [])]
    until(lambda: not traces(session_id), 5, f"nothing of session {session_id} is left")


@pytest.mark.parametrize("name", REAL)
def test_two_instances_side_by_side(name: str, session: Session) -> None:
    one, other = available(name), available(name)
    count = how_many(one)
    if name in EXCLUSIVE:
        pytest.skip(f"{name}: one NIC has one embedded switch")
    with (
        open_session(measuring=False) as second,
        port_ends(session, one, 2) as ends,
        port_ends(second, other, 2) as other_ends,
    ):
        try:
            bring_up(one, session, ends, natural_mode(one))
            bring_up(other, second, other_ends, natural_mode(other))
            assert not set(one.process_ids()) & set(other.process_ids())
            one.stop()
            assert other.alive() is None
            if isinstance(other_ends[0], VethEnd):
                other_ends[0].send(mac_of(1), count, gap_s(other_ends))
                assert len(other_ends[1].received(count)) == count  # type: ignore[union-attr]
                assert other.counters().ports[1].tx_frames == count
        finally:
            one.stop()
            other.stop()


@pytest.mark.parametrize("name", REAL)
def test_missing_port_is_one_clear_line(name: str, session: Session) -> None:
    switch = available(name)
    kind = rig_kind(switch)
    before = traces(session.id)
    nowhere = [str(session.run_dir / f"nobody{k}.sock") for k in (0, 1)]
    ports = [SwitchPort(k, kind, mac_of(k), device=f"smnone{k}", socket=nowhere[k]) for k in (0, 1)]
    try:
        if kind is not PortKind.VHOST_USER:
            with pytest.raises(UnavailableError, match="smnone0"):
                switch.start(session, ports, natural_mode(switch), [SWITCH_CORE])
        else:
            switch.start(session, ports, natural_mode(switch), [SWITCH_CORE])
            with pytest.raises(TrialFailed, match=r"no peer on .* after 0\.3 s"):
                switch.wait_ports_up(0.3)
    finally:
        switch.stop()
    assert traces(session.id) == before


@pytest.mark.parametrize("name", VHOST_SWITCHES)
def test_vhost_socket_may_appear_later_and_its_path_must_fit(name: str, session: Session) -> None:
    switch = available(name)
    long = "/tmp/" + "x" * 110
    ports = [SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=long) for k in (0, 1)]
    with pytest.raises(UnavailableError, match="115 bytes"):
        switch.start(session, ports, natural_mode(switch), [SWITCH_CORE])
    ports = [
        SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=f"{session.run_dir}/rig/p{k}.sock")
        for k in (0, 1)
    ]
    try:
        switch.start(session, ports, natural_mode(switch), [SWITCH_CORE])
        time.sleep(0.2)
        with vhost_ends(session, 2) as ends:
            switch.wait_ports_up(30)
            ends[1].listen()
            ends[0].send_for(0.05)
            until(lambda: switch.counters().ports[1].tx_frames > 0, 2, "frames come through")
    finally:
        switch.stop()
