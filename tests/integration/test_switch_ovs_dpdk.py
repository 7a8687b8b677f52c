"""What only OVS-DPDK promises: threads where they were told to be, memory that leaves no trace."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.switch import ovs_dpdk
from switchmark.switch.base import ConnectMode, PortKind, SwitchPort
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.tools import online_cores
from switchmark.testbed.host import Session
from switchmark.testbed.session import open_session
from tests.integration.switch_rig import mac_of, own_state_dir, traces, until, vhost_ends

pytestmark = [pytest.mark.integration]

CORE = 0


@pytest.fixture
def session() -> Iterator[Session]:
    probe = OvsDpdk().probe()
    if not probe.available:
        pytest.skip(f"ovs-dpdk: {probe.reason}; {probe.remedy}")
    with own_state_dir(), open_session(measuring=False) as opened:
        yield opened


def absent_ports(session: Session) -> list[SwitchPort]:
    paths = [str(session.run_dir / f"p{k}.sock") for k in (0, 1)]
    return [SwitchPort(k, PortKind.VHOST_USER, mac_of(k), socket=paths[k]) for k in (0, 1)]


def thread_cores(pid: int) -> dict[str, set[int]]:
    tasks = Path(f"/proc/{pid}/task").iterdir()
    return {(t / "comm").read_text().strip(): os.sched_getaffinity(int(t.name)) for t in tasks}


def test_polling_thread_has_its_core_to_itself(session: Session) -> None:
    if len(online_cores()) < 2:
        pytest.skip("one core only: nothing can be kept apart")
    switch = OvsDpdk()
    try:
        switch.start(session, absent_ports(session), ConnectMode.LEARNING, [CORE])
        cores = thread_cores(switch.process_ids()[0])
        polling = {name: where for name, where in cores.items() if name.startswith("pmd")}
        assert list(polling.values()) == [{CORE}]
        assert len(cores) > 1
        for name, where in cores.items():
            assert name in polling or CORE not in where, f"{name} may run on the PMD's core"
        details = switch.details()
        assert "DPDK" in details["version"]
        assert f"core_id {CORE}" in details["rxq_assignment"]
        assert "port: p1 queue-id: 0" in details["rxq_assignment"]
        assert details["other_config:pmd-maxsleep"] == "0"
        assert details["pmd_cores"] == str(CORE)
        assert int(details["hugepages_mb"]) >= ovs_dpdk.MEMORY_MB
    finally:
        switch.stop()


def test_counters_that_went_with_their_peer_are_an_error(session: Session) -> None:
    switch = OvsDpdk()
    with vhost_ends(session, 2) as ends:
        try:
            switch.start(session, [e.port for e in ends], ConnectMode.LEARNING, [CORE])
            switch.wait_ports_up(30)
            ends[0].send_for(0.05)
            sent = ends[0].settled()[1]
            until(lambda: switch.counters().ports[0].rx_frames == sent, 2, f"all {sent} counted")
            ends[0].process.terminate()
            with pytest.raises(TrialFailed, match="the peer of port p0 has gone"):
                until(lambda: switch.counters() is None, 2, "the counters are missed")
        finally:
            switch.stop()


def test_start_is_fast(session: Session) -> None:
    seconds = []
    with vhost_ends(session, 2) as ends:
        for end in ends:
            switch = OvsDpdk()
            begun = time.monotonic()
            try:
                switch.start(session, [e.port for e in ends], ConnectMode.LEARNING, [CORE])
                seconds.append(time.monotonic() - begun)
                switch.wait_ports_up(30)
                end.tell()
            finally:
                switch.stop()
    assert min(seconds) < 2.5


def test_memory_shortage_is_told_before_anything_is_started(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ovs_dpdk, "hugepage_bytes_free", lambda: 10 << 20)
    before = traces(session.id)
    with pytest.raises(UnavailableError, match=r"needs \d+ MiB of hugepages, 10 MiB are free"):
        OvsDpdk().start(session, absent_ports(session), ConnectMode.LEARNING, [CORE])
    assert traces(session.id) == before


def test_daemon_that_dies_at_start_has_its_last_words(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More memory than there is, the check silenced: DPDK gives up, and says so in the log."""
    monkeypatch.setattr(ovs_dpdk, "hugepage_bytes_free", lambda: 1 << 60)
    monkeypatch.setattr(ovs_dpdk, "MEMORY_MB", 1 << 20)
    before = traces(session.id)
    with pytest.raises(TrialFailed, match=r"ovs-vswitchd \(pid \d+\) .*ended .*DPDK") as failure:
        OvsDpdk().start(session, absent_ports(session), ConnectMode.LEARNING, [CORE])
    assert "\n" not in str(failure.value)
    assert traces(session.id) == before
