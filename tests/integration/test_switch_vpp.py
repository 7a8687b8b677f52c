"""VPP beyond the common contract: kernel devices as ports, threads on cores."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.host import Session
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.support.tools import allowed_cores
from switchmark.switch.vpp import Vpp
from tests.integration.switch_rig import available, mac_of, traces, veth_ends
from tests.integration.switch_traffic import (
    address_of,
    bring_up,
    veth_flooding,
    veth_peers,
    veth_wires,
)
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration]
MOST_FRAMES = 3_000_000  # more than any ring of VPP holds


@pytest.fixture
def session(session: Session) -> Session:
    available("vpp")
    return session


@pytest.mark.parametrize("mode", Vpp.capabilities.connect_modes)
def test_kernel_devices(mode: ConnectMode, session: Session) -> None:
    """The contract's frames through AF_PACKET ports instead of vhost-user."""
    switch = Vpp()
    before = traces(session.id)
    with veth_ends(session, 4) as ends:
        addresses = [address_of(end) for end in ends]
        try:
            bring_up(switch, session, ends, mode)
            if mode is ConnectMode.CROSS_CONNECT:
                veth_wires(switch, ends, addresses)
            else:
                veth_flooding(switch, ends, mode)
            veth_peers(switch, ends)
            assert switch.details()["datapath"] == "AF_PACKET"
        finally:
            switch.stop()
    assert traces(session.id) == before


def test_frames_that_overflow_packet_sockets_are_counted(session: Session) -> None:
    """VPP is stopped until the ring is full; later frames never reach it."""
    switch = Vpp()
    with veth_ends(session, 2) as ends:
        try:
            bring_up(switch, session, ends, ConnectMode.CROSS_CONNECT)
            before, sent = switch.counters().ports[0], ends[0].sent
            (pid,) = switch.process_ids()
            os.kill(pid, signal.SIGSTOP)
            rings = switch._rings
            device = str(ends[0].port.device)
            while rings.drops()[device] == before.rx_dropped and ends[0].sent < MOST_FRAMES:
                ends[0].send(mac_of(1), 10_000)
            os.kill(pid, signal.SIGCONT)

            def accounted_for() -> bool:
                now = switch.counters().ports[0]
                dropped = now.rx_dropped - before.rx_dropped
                came = now.rx_frames - before.rx_frames
                return dropped > 0 and came + dropped == ends[0].sent - sent

            until(accounted_for, "every frame is received or counted as dropped")
        finally:
            switch.stop()


def test_workers_have_the_cores_and_the_main_thread_another(session: Session) -> None:
    if len(allowed_cores()) < 2:
        pytest.skip("one core only: nothing can be kept apart")
    cores = allowed_cores()[1:3] if len(allowed_cores()) > 2 else allowed_cores()
    ports = [
        SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=f"{session.run_dir}/p{k}.sock")
        for k in (0, 1)
    ]
    switch = Vpp()
    try:
        switch.start(session, ports, ConnectMode.LEARNING, cores)
        tasks = Path(f"/proc/{switch.process_ids()[0]}/task").iterdir()
        threads = {
            (task / "comm").read_text().strip(): os.sched_getaffinity(int(task.name))
            for task in tasks
        }
        workers = [where for name, where in threads.items() if name.startswith("vpp_wk")]
        details = switch.details()
        assert workers == [{int(core)} for core in details["worker_cores"].split(",")]
        assert threads["vpp_main"] == {int(details["main_core"])}
        assert {int(details["main_core"])} not in workers
    finally:
        switch.stop()


def test_command_that_vpp_refuses_is_reported(session: Session) -> None:
    """The same socket for both ports."""
    path = f"{session.run_dir}/p.sock"
    ports = [SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=path) for k in (0, 1)]
    before = traces(session.id)
    with pytest.raises(TrialFailed, match="vpp: exec: CLI line error") as failure:
        Vpp().start(session, ports, ConnectMode.LEARNING, [0])
    assert "\n" not in str(failure.value)
    assert traces(session.id) == before
