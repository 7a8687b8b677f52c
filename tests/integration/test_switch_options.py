"""Options in force in the switches themselves, as read from the kernel and Open vSwitch."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.errors import UnavailableError, UsageError
from switchmark.host.host import Session
from switchmark.model.ports import ConnectMode
from switchmark.switch.af_packet import AfPacket
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_dpdk import OvsDpdk
from tests.integration.machine import needs_root
from tests.integration.switch_rig import arrivals, mac_of, veth_ends, vhost_ends

pytestmark = [
    pytest.mark.integration,
    needs_root,
]

FRAMES = 20


@pytest.mark.parametrize("filtering", ["on", "off"])
@pytest.mark.parametrize("mode", [ConnectMode.LEARNING, ConnectMode.STATIC_MAC])
def test_the_bridge_filters_vlans_and_has_a_table(
    session: Session, filtering: str, mode: ConnectMode
) -> None:
    """With a table no learning is needed: the first frame reaches its port alone."""
    switch = LinuxBridge()
    switch.configure({"vlan_filtering": filtering, "static_fdb": "on"})
    with veth_ends(session, 4) as ends:
        try:
            try:
                switch.start(session, [end.port for end in ends], mode, [0])
            except UnavailableError as error:
                assert filtering == "on" and "CONFIG_BRIDGE_VLAN_FILTERING" in str(error)
                pytest.skip(str(error))
            switch.wait_ports_up(20)
            for end in ends:
                end.send(mac_of(end.port.index ^ 1), FRAMES)
            assert arrivals(ends, [FRAMES] * 4) == [FRAMES] * 4
            assert switch.counters().witness_rx_frames == 0
            details = switch.details()
            expected = ("1",) if filtering == "on" else ("0", "absent")
            assert details["vlan_filtering"] in expected
            assert details["option:vlan_filtering"] == filtering
            assert details["static_entries"] == "4"
        finally:
            switch.stop()


def test_bridge_as_wire_passes_reserved_addresses_but_pause(session: Session) -> None:
    """docs/switches-kernel.md states this limit; it also holds while ports come and go."""
    switch = LinuxBridge()
    reserved = [f"01:80:c2:00:00:{last:02x}" for last in range(16)]
    with veth_ends(session, 2) as ends:
        try:
            switch.start(session, [end.port for end in ends], ConnectMode.CROSS_CONNECT, [0])
            switch.wait_ports_up(20)
            for change in switch.changes():
                change.apply()
                for to in reserved:
                    ends[0].send(to, 1)
                frames = ends[1].received(len(reserved) - 1)
                assert [frame[5] for frame in frames] == [0, *range(2, 16)]
                assert switch.alive() is None
        finally:
            switch.stop()


def ovs_or_skip() -> OvsDpdk:
    switch = OvsDpdk()
    availability = switch.availability()
    if not availability.available:
        pytest.skip(f"ovs-dpdk: {availability.reason}; {availability.remedy}")
    return switch


@pytest.mark.parametrize("profile", ["none", "balanced", "low-latency"])
def test_ovs_has_the_options_in_force(session: Session, profile: str) -> None:
    switch = ovs_or_skip()
    switch.configure({"emc": "off", "pmd_maxsleep_us": "40", "profile": profile})
    cores = [0, 1]
    if len(os.sched_getaffinity(0)) < 2:
        pytest.skip("needs two cores for two PMD threads")
    with vhost_ends(session, 2) as ends:
        try:
            switch.start(session, [e.port for e in ends], ConnectMode.CROSS_CONNECT, cores)
            switch.wait_ports_up(20)
            details = switch.details()
            assert details["other_config:emc-insert-inv-prob"] == "0"
            assert details["other_config:pmd-maxsleep"] == "40"
            assert details["option:profile"] == profile
            queues = details["rxq_assignment"]
            pinned = {"none": 0, "balanced": 1, "low-latency": 2}[profile]
            assert queues.count("isolated : true") == pinned, queues
            if pinned:
                first = queues[queues.index("core_id 0") :].split("pmd thread")[0]
                assert "port: p0" in first, queues
        finally:
            switch.stop()


@pytest.mark.parametrize(("io", "calls"), [("raw-mmsg", "sendmmsg"), ("raw", "send")])
def test_af_packet_sends_by_the_given_calls(session: Session, io: str, calls: str) -> None:
    """One frame a call, or many; all frames arrive and are counted."""
    switch = AfPacket()
    switch.configure({"io": io})
    with veth_ends(session, 2) as ends:
        try:
            switch.start(session, [end.port for end in ends], ConnectMode.CROSS_CONNECT, [0])
            switch.wait_ports_up(20)
            ends[0].send(mac_of(1), FRAMES)
            assert len(ends[1].received(FRAMES)) == FRAMES
            details = switch.details()
            assert details["option:io"] == io
            assert f"a packet socket, {calls} and " in details["datapath"]
            (pid,) = switch.process_ids()
            command = Path(f"/proc/{pid}/cmdline").read_text().split("\0")
            mmsg = ",mmsg" if io == "raw-mmsg" else ""
            assert command.count(f"raw:dev={ends[0].port.device}{mmsg}") == 1
            assert switch.counters().ports[1].tx_frames == FRAMES
        finally:
            switch.stop()


def test_a_queue_alone_on_the_only_core_is_refused(session: Session) -> None:
    switch = ovs_or_skip()
    switch.configure({"profile": "balanced"})
    with vhost_ends(session, 2) as ends:
        with pytest.raises(UsageError, match="takes 2 cores or more, not switch_cores: 1"):
            switch.start(session, [e.port for e in ends], ConnectMode.LEARNING, [0])
        switch.stop()
