"""What the common contract does not try of VPP: kernel devices as ports, threads on cores."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed
from switchmark.switch.base import ConnectMode, PortKind, SwitchPort
from switchmark.switch.tools import online_cores
from switchmark.switch.vpp import Vpp
from switchmark.testbed.host import Session
from tests.integration.switch_rig import (
    VethEnd,
    available,
    mac_of,
    traces,
    until,
    veth_ends,
)

pytestmark = [pytest.mark.integration]

FRAMES = 200
GAP_S = 0.0002
UNKNOWN_MAC = "02:53:4d:ff:ff:ff"


@pytest.fixture
def session(session: Session) -> Session:
    available("vpp")
    return session


def arrived(ends: list[VethEnd]) -> list[int]:
    return [len(end.received(0.3)) for end in ends]


def witness(switch: Vpp) -> int:
    return switch.counters().witness_rx_frames or 0


@pytest.mark.parametrize("mode", Vpp.capabilities.connect_modes)
def test_kernel_devices(mode: ConnectMode, session: Session) -> None:
    switch = Vpp()
    before = traces(session.id)
    with veth_ends(session, 4) as ends:
        try:
            switch.start(session, [end.port for end in ends], mode, [0])
            switch.wait_ports_up(30)
            if mode is ConnectMode.LEARNING:
                ends[0].send(UNKNOWN_MAC, FRAMES, GAP_S)
                assert arrived(ends) == [0, FRAMES, FRAMES, FRAMES]
                until(lambda: witness(switch) == FRAMES, 2, "every flooded frame at the witness")
                ends[1].send(mac_of(0), 1)
                assert arrived(ends) == [1, 0, 0, 0]
            seen, start = witness(switch), switch.counters().ports
            ends[0].send(mac_of(1), FRAMES, GAP_S)
            assert arrived(ends) == [0, FRAMES, 0, 0]
            after = switch.counters().ports
            assert after[0].rx_frames - start[0].rx_frames == FRAMES
            assert after[1].tx_frames - start[1].tx_frames == FRAMES
            ends[0].send(UNKNOWN_MAC, FRAMES, GAP_S)
            flooded = FRAMES if mode is ConnectMode.LEARNING else 0
            direct = FRAMES if mode is ConnectMode.CROSS_CONNECT else flooded
            assert arrived(ends) == [0, direct, flooded, flooded]
            assert witness(switch) - seen == flooded
            assert switch.details()["datapath"] == "AF_PACKET"
        finally:
            switch.stop()
    assert traces(session.id) == before


def test_workers_have_the_cores_and_the_main_thread_another(session: Session) -> None:
    if len(online_cores()) < 2:
        pytest.skip("one core only: nothing can be kept apart")
    cores = online_cores()[1:3] if len(online_cores()) > 2 else online_cores()
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
        told = switch.details()
        assert workers == [{int(core)} for core in told["worker_cores"].split(",")]
        assert threads["vpp_main"] == {int(told["main_core"])}
        assert {int(told["main_core"])} not in workers
    finally:
        switch.stop()


def test_command_that_vpp_refuses_is_told(session: Session) -> None:
    """The same socket for both ports."""
    path = f"{session.run_dir}/p.sock"
    ports = [SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=path) for k in (0, 1)]
    before = traces(session.id)
    with pytest.raises(TrialFailed, match="vpp: exec: CLI line error") as failure:
        Vpp().start(session, ports, ConnectMode.LEARNING, [0])
    assert "\n" not in str(failure.value)
    assert traces(session.id) == before
