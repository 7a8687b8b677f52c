"""The second part of the contract: how each switch starts, stops, dies and is cleaned up, and that
several of them work side by side. (Frames: test_switch_forwarding.py; missing or exhausted
resources: test_switch_shortages.py.)

Each test runs for every switch that this machine can run; the others are skipped by name with
reason and remedy.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from switchmark.errors import SwitchmarkError, TrialFailed, UnavailableError, UsageError
from switchmark.host.host import Session
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.host.undo.entries import NetworkDevice
from switchmark.model.ports import MADE_BY_SWITCH, ConnectMode, PortKind, SwitchPort
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.base import Switch
from tests.integration.machine import needs_root
from tests.integration.switch_rig import (
    EXCLUSIVE,
    REAL,
    VethEnd,
    VhostEnd,
    available,
    mac_of,
    port_ends,
    rig_kind,
    traces,
    vhost_ends,
)
from tests.integration.switch_traffic import bring_up, gap_s, how_many, natural_mode
from tests.integration.waiting import until

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

MADE = [name for name in REAL if rig_kind(SWITCHES[name]()) in MADE_BY_SWITCH]
VHOST_SWITCHES = [name for name in REAL if rig_kind(SWITCHES[name]()) is PortKind.VHOST_USER]


@pytest.mark.parametrize("name", SWITCHES)
def test_probe_returns_version_or_reason(name: str) -> None:
    availability = SWITCHES[name]().availability()
    if availability.available:
        assert availability.version and any(letter.isdigit() for letter in availability.version)
    else:
        assert availability.reason and availability.remedy


@pytest.mark.parametrize("name", REAL)
def test_unsupported_plan_is_refused_by_name(name: str, session: Session) -> None:
    switch = available(name)
    wrong = {mode for mode in ConnectMode if not switch.capabilities.can_connect(mode)}
    kind = rig_kind(switch)
    ports = [SwitchPort(k, kind, mac_of(k), device=f"x{k}", socket=f"/tmp/x{k}") for k in (0, 1)]
    for mode in wrong:
        with pytest.raises(UsageError, match=f"{name}: connect mode {mode}"):
            switch.start(session, ports, mode, [0])
    with pytest.raises(UsageError, match="in pairs"):
        switch.start(session, ports[:1], natural_mode(switch), [0])
    accepted = (*switch.capabilities.port_kinds, *switch.capabilities.application_ports)
    strange = next(kind for kind in PortKind if kind not in accepted)
    other = SwitchPort(1, strange, mac_of(1), device="x1", socket="/tmp/x1")
    with pytest.raises(UsageError, match=f"port 1 is {strange}"):
        switch.start(session, [ports[0], other], natural_mode(switch), [0])
    assert switch.alive() is not None


@pytest.mark.parametrize("name", REAL)
def test_starts_stops_starts_again_and_dies(name: str, session: Session) -> None:
    """Nothing remains each time, and a death is noticed at once."""
    switch = available(name)
    clean = traces(session.id), len(session.ledger.outstanding())
    with port_ends(session, switch, 2) as ends:
        for end in ends:
            if isinstance(end, VhostEnd):
                until(Path(str(end.port.socket)).exists, "testpmd's socket")
        before = traces(session.id), len(session.ledger.outstanding())
        bring_up(switch, session, ends, natural_mode(switch))
        assert name in MADE or traces(session.id) != before[0]
        switch.stop()
        switch.stop()
        assert switch.alive() is not None
        if name not in MADE:  # its nodes still exist
            assert (traces(session.id), len(session.ledger.outstanding())) == before
    assert (traces(session.id), len(session.ledger.outstanding())) == clean
    with port_ends(session, switch, 2) as ends:
        try:
            bring_up(switch, session, ends, natural_mode(switch))
            expected = break_it(switch, session, ends[0].port)
            until(lambda: switch.alive() is not None, "the switch's death is noticed")
            message = str(switch.alive())
            assert "\n" not in message
            assert expected in message
        finally:
            switch.stop()
    # The kernel removes devices some moments after their namespace.
    until(
        lambda: (traces(session.id), len(session.ledger.outstanding())) == clean,
        "nothing is left",
    )


def break_it(switch: Switch, session: Session, port: SwitchPort) -> str:
    """Kill the process, or remove a port of a switch without processes; return a part of the
    message."""
    if switch.process_ids():
        os.kill(switch.process_ids()[0], signal.SIGKILL)
        return "SIGKILL"
    if switch.name == "vale":  # the kernel waits for ever for an attached device to disappear
        session.host.run(["ip", "-n", f"sm{session.id}sw", "link", "set", port.device, "down"])
        return str(port.device)
    if port.device is not None:
        session.host.run(["ip", "-n", f"sm{session.id}sw", "link", "del", port.device])
        return port.device
    away = ["netns", str(os.getpid()), "name", f"sm{session.id}gone"]
    entry = session.ledger.record(NetworkDevice(f"sm{session.id}gone"))
    session.host.run(["ip", "-n", str(port.far_netns), "link", "set", "eth0", *away])
    session.ledger.strike(entry)  # it is removed with its switch
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
    until(lambda: not traces(session_id), f"nothing of session {session_id} is left")


@pytest.mark.parametrize("name", REAL)
def test_two_instances_side_by_side_but_not_on_the_same_ports(name: str, session: Session) -> None:
    """The second is refused the ports of the first; with separate ports it survives the first."""
    first, other = available(name), available(name)
    if name in EXCLUSIVE:
        pytest.skip(f"{name}: one NIC has one embedded switch")
    mode = natural_mode(first)
    with open_session(measuring=False) as second, port_ends(session, first, 2) as ends:
        before = traces(second.id)
        try:
            bring_up(first, session, ends, mode)
            with pytest.raises((UnavailableError, TrialFailed)) as refusal:
                other.start(second, [end.port for end in ends], mode, [0])
                other.wait_ports_up(1)
            assert "\n" not in str(refusal.value)
            assert names_a_port(str(refusal.value), [end.port for end in ends])
            other.stop()
            assert traces(second.id) == before
            goes_on(first, ends)
            with port_ends(second, other, 2) as other_ends:
                bring_up(other, second, other_ends, mode)
                assert not set(first.process_ids()) & set(other.process_ids())
                first.stop()
                assert other.alive() is None
                goes_on(other, other_ends)
                other.stop()
        except SwitchmarkError as error:
            pytest.fail(f"{name}: {error}")
        finally:
            other.stop()
            first.stop()


def names_a_port(text: str, ports: list[SwitchPort]) -> bool:
    if ports[0].kind is PortKind.VHOST_USER:
        return any(str(port.socket) in text or f"p{port.index}" in text for port in ports)
    return any(str(port.device or "port") in text for port in ports)


def goes_on(switch: Switch, ends: list[VethEnd] | list[VhostEnd]) -> None:
    """Check that it runs and, on ports without other traffic, that it carries and counts frames."""
    assert switch.alive() is None
    count = how_many(switch)
    before = switch.counters().ports[1].tx_frames
    for end in ends[:1]:
        if isinstance(end, VethEnd):
            end.send(mac_of(1), count, gap_s(ends))
            assert len(ends[1].received(count)) == count  # type: ignore[union-attr]
            assert switch.counters().ports[1].tx_frames - before == count


@pytest.mark.parametrize("name", VHOST_SWITCHES)
def test_vhost_socket_may_appear_later_and_its_path_must_fit(name: str, session: Session) -> None:
    switch = available(name)
    long = "/tmp/" + "x" * 110
    ports = [SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=long) for k in (0, 1)]
    with pytest.raises(UnavailableError, match="115 bytes"):
        switch.start(session, ports, natural_mode(switch), [0])
    ports = [
        SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=f"{session.run_dir}/rig/p{k}.sock")
        for k in (0, 1)
    ]
    try:
        switch.start(session, ports, natural_mode(switch), [0])
        time.sleep(0.2)
        with vhost_ends(session, 2) as ends:
            switch.wait_ports_up(30)
            ends[1].listen()
            ends[0].send_for(0.05)
            until(lambda: switch.counters().ports[1].tx_frames > 0, "frames come through")
    finally:
        switch.stop()
