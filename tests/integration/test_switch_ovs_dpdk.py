"""OVS-DPDK alone: threads on the given cores, memory that leaves no trace."""

from __future__ import annotations

import os
import re
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host import hugepages, place
from switchmark.host.host import Session
from switchmark.host.place import Facility
from switchmark.model import capabilities as model
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.support import ovs_memory
from switchmark.switch.support.tools import allowed_cores
from tests.integration.switch_rig import available, mac_of, traces, vhost_ends
from tests.integration.switch_traffic import bring_up, vhost_flooding, vhost_peers
from tests.integration.waiting import until

pytestmark = [pytest.mark.integration]

CORE = 0


@pytest.fixture
def session(session: Session) -> Session:
    available("ovs-dpdk")
    return session


def absent_ports(session: Session) -> list[SwitchPort]:
    return [absent_port(session, index) for index in (0, 1)]


def absent_port(session: Session, index: int) -> SwitchPort:
    path = str(session.run_dir / f"p{index}.sock")
    return SwitchPort(index, PortKind.VHOST_USER, mac_of(index), socket=path)


def thread_cores(pid: int) -> dict[str, set[int]]:
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):  # it may have ended meanwhile
            name = (task / "comm").read_text().strip()
            found[name] = os.sched_getaffinity(int(task.name))
    return found


def test_polling_thread_has_its_core_to_itself(session: Session) -> None:
    if len(allowed_cores()) < 2:
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
        assert int(details["hugepages_mb"]) >= ovs_memory.BASE_MB
    finally:
        switch.stop()


@pytest.mark.parametrize("mode", OvsDpdk.capabilities.connect_modes)
def test_dummy_datapath_forwards_and_counts_without_privilege(
    session: Session, mode: ConnectMode
) -> None:
    """It fulfils the contract of every switch, and the daemon makes no device: it has no capability
    and runs in the network namespace of the bench."""
    switch = OvsDpdk()
    switch.configure({"datapath": "dummy"})
    with vhost_ends(session, 4) as ends:
        try:
            bring_up(switch, session, ends, mode)
            for end in ends:
                end.tell()  # wait until its ports are up
            vhost_flooding(switch, ends, mode)
            vhost_peers(switch, ends, mode)
            daemon = Path(f"/proc/{switch.process_ids()[0]}")
            assert (daemon / "ns/net").readlink() == Path("/proc/self/ns/net").readlink()
            assert re.search(r"^CapBnd:\s*0+$", (daemon / "status").read_text(), re.MULTILINE)
            assert switch.details()["datapath"] == "dummy"
            shown = switch.instance.appctl("dpif/show")
            assert shown.startswith("dummy@") and "(tap)" not in shown
        finally:
            switch.stop()


@pytest.mark.parametrize(
    ("missing", "datapath"),
    [(None, "netdev"), (Facility.NETWORK_NAMESPACE, "dummy"), (Facility.TUN, "dummy")],
)
def test_datapath_depends_on_the_right_to_make_taps(
    session: Session, monkeypatch: pytest.MonkeyPatch, missing: Facility | None, datapath: str
) -> None:
    """In a separate network namespace."""
    answers = dict.fromkeys(Facility, model.available("yes"))
    if missing is not None:
        answers[missing] = model.unavailable("no", remedy="none")
    monkeypatch.setattr(place, "can", answers.__getitem__)
    switch = OvsDpdk()
    try:
        switch.start(session, absent_ports(session), ConnectMode.CROSS_CONNECT, [CORE])
        assert switch.details()["datapath"] == datapath
        assert switch.instance.appctl("dpif/show").startswith(f"{datapath}@")
    finally:
        switch.stop()


def test_counters_removed_with_their_peer_are_an_error(session: Session) -> None:
    switch = OvsDpdk()
    with vhost_ends(session, 2) as ends:
        try:
            switch.start(session, [e.port for e in ends], ConnectMode.LEARNING, [CORE])
            switch.wait_ports_up(30)
            ends[0].send_for(0.05)
            sent = ends[0].wait_settled()[1]
            until(lambda: switch.counters().ports[0].rx_frames == sent, f"all {sent} counted")
            ends[0].process.terminate()
            with pytest.raises(TrialFailed, match="the peer of port p0 has gone"):
                until(lambda: switch.counters() is None, "the counters are missed")
        finally:
            switch.stop()


@pytest.mark.parametrize(
    ("ports", "mtu_bytes", "buffers"),
    [
        (2, 1500, ovs_memory.PORT_BUFFERS),
        (2, 9000, ovs_memory.PORT_BUFFERS),
        (14, 1500, ovs_memory.SHARED_BUFFERS),
    ],
)
def test_pools_are_made_at_the_first_attempt(
    session: Session, ports: int, mtu_bytes: int, buffers: int
) -> None:
    """A smaller pool than requested means that an attempt failed, during which no other peer could
    connect."""
    plan = ovs_memory.plan_pools(ports, mtu_bytes)
    if plan.memory_mb > hugepages.free_mb():
        pytest.skip(f"{plan.memory_mb} MiB of hugepages are not free")
    switch = OvsDpdk()
    with vhost_ends(session, 1) as ends:
        present = replace(ends[0].port, mtu_bytes=mtu_bytes)
        absent = [replace(absent_port(session, k), mtu_bytes=mtu_bytes) for k in range(1, ports)]
        try:
            switch.start(session, [present, *absent], ConnectMode.LEARNING, [CORE])
            size = f"size={buffers}"
            until(lambda: size in pools(switch), f"a pool of {buffers} buffers")
            pool_text = pools(switch)
        finally:
            switch.stop()
    assert f"populated_size={buffers}" in pool_text
    size_bytes = re.search(r"total_obj_size=(\d+)", pool_text)
    assert size_bytes is not None
    assert int(size_bytes[1]) == ovs_memory.buffer_bytes(mtu_bytes)


def pools(switch: OvsDpdk) -> str:
    return switch.instance.appctl("netdev-dpdk/get-mempool-info")


def test_memory_shortage_is_refused_before_anything_starts(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(hugepages, "pools", lambda: (hugepages.HugepagePool(2048, 5, 5),))
    before = traces(session.id)
    with pytest.raises(UnavailableError, match=r"needs \d+ MiB of hugepages, 10 MiB are free"):
        OvsDpdk().start(session, absent_ports(session), ConnectMode.LEARNING, [CORE])
    assert traces(session.id) == before


def test_error_of_a_daemon_that_dies_at_start_is_reported(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too much memory with the check disabled: DPDK fails with a message in the log."""
    endless = (hugepages.HugepagePool(2048, 1 << 39, 1 << 39),)
    monkeypatch.setattr(hugepages, "pools", lambda: endless)
    monkeypatch.setattr(ovs_memory, "BASE_MB", 1 << 20)
    before = traces(session.id)
    with pytest.raises(TrialFailed, match=r"ovs-vswitchd \(pid \d+\) .*ended .*DPDK") as failure:
        OvsDpdk().start(session, absent_ports(session), ConnectMode.LEARNING, [CORE])
    assert "\n" not in str(failure.value)
    assert traces(session.id) == before
