"""The input of Open vSwitch, and its output."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.errors import UsageError
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, Split, SwitchPort
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.snabb import Snabb
from switchmark.switch.support import ovs_instance
from switchmark.switch.support.ovs_instance import (
    OvsInstance,
    option,
    other_config,
    parse_datapath_counters,
)
from switchmark.switch.support.ovs_rules import rules
from switchmark.switch.support.ports import check_request, lent_of
from switchmark.switch.support.private import parse_socket_drops

PORTS = [SwitchPort(k, PortKind.VETH, f"02:00:00:00:00:{k:02x}", device=f"v{k}") for k in range(4)]

# As Open vSwitch 3.1 prints it: a tap, a veth, a connected and two unconnected vhost-user ports.
SHOWN = """\
netdev@ovs-netdev:
  lookups: hit:0 missed:0 lost:0
  flows: 0
  port 0: ovs-netdev (tap)
    RX packets:0 errors:0 dropped:0 overruns:0 frame:0
    TX packets:0 errors:0 dropped:0 aborted:0 carrier:0
    collisions:0
    RX bytes:0  TX bytes:0
  port 1: smxa
    RX packets:12 errors:0 dropped:1 overruns:0 frame:0
    TX packets:11 errors:0 dropped:3 aborted:0 carrier:0
    collisions:0
    RX bytes:180  TX bytes:90
  port 2: p0 (dpdkvhostuserclient: configured_rx_queues=1, mtu=0, requested_tx_queues=1)
, could not retrieve stats (Protocol error)  port 3: p1 (dpdkvhostuserclient: mtu=0)
, could not retrieve stats (Protocol error)  port 4: p2 (dpdkvhostuserclient: mtu=1500)
    RX packets:189056 errors:0 dropped:0 overruns:? frame:?
    TX packets:6944 errors:? dropped:2383808 aborted:? carrier:?
    collisions:?
    RX bytes:11343360 (10.8 MiB)  TX bytes:416640 (406.9 KiB)
"""


def test_a_schema_that_is_named_is_used_and_missed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file is not executable."""
    schema = tmp_path / "mine.ovsschema"
    monkeypatch.setenv("SWITCHMARK_OVS_SCHEMA", str(schema))
    monkeypatch.setattr(ovs_instance, "which", Path)
    missing = f"file {schema} (SWITCHMARK_OVS_SCHEMA)"
    assert ovs_instance.find_schema() is None and ovs_instance.missing_helper() == missing
    schema.write_text("{}")
    assert ovs_instance.find_schema() == schema and ovs_instance.missing_helper() is None


def test_counters_of_every_kind_of_port() -> None:
    assert parse_datapath_counters(SHOWN) == {
        "ovs-netdev": PortCounters(0, 0),
        "smxa": PortCounters(12, 11, 1, 3),
        "p2": PortCounters(189056, 6944, 0, 2383808),
    }


@pytest.mark.parametrize(
    ("mode", "written"),
    [
        (ConnectMode.LEARNING, ["actions=NORMAL"]),
        (
            ConnectMode.CROSS_CONNECT,
            [
                "in_port=1,actions=output:2",
                "in_port=2,actions=output:1",
                "in_port=3,actions=output:4",
                "in_port=4,actions=output:3",
            ],
        ),
        (
            ConnectMode.STATIC_MAC,
            [f"dl_dst=02:00:00:00:00:0{k},actions=output:{k + 1}" for k in range(4)],
        ),
    ],
)
def test_rules_mean_the_connect_mode(mode: ConnectMode, written: list[str]) -> None:
    assert rules(PORTS, mode) == written


def test_values_are_quoted_for_the_database() -> None:
    assert option("other_config:a", 'x "y"') == 'other_config:a="x \\"y\\""'
    assert other_config({"a": "1"}) == ["set", "Open_vSwitch", ".", 'other_config:a="1"']


def test_other_threads_stay_off_the_polling_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switchmark.switch.support.tools.allowed_cores", lambda: [0, 1, 2, 3])
    assert OvsDpdk().daemon_cores([1, 2]) == [0, 3]
    assert OvsDpdk().daemon_cores([0, 1, 2, 3]) == [0, 1, 2, 3]


def test_jumbo_ports_ask_for_their_mtu() -> None:
    port = SwitchPort(2, PortKind.VHOST_USER, "02:00:00:00:00:01", socket="/s", mtu_bytes=9000)
    name, columns = OvsDpdk().interface(port)
    assert name == "p2"
    assert columns == [
        "type=dpdkvhostuserclient",
        'options:vhost-server-path="/s"',
        "mtu_request=9000",
    ]


@pytest.mark.parametrize(
    ("log", "message"),
    [
        (
            "1|00001|dpif_netlink|WARN|Generic Netlink family 'ovs_datapath' does not exist\n"
            "2|00002|dpif|WARN|failed to enumerate system datapaths: No such file or directory\n"
            "3|00003|netdev_dpdk|ERR|vhost port p1 died\n"
            "4|00004|bridge|WARN|could not add p1\n",
            "netdev_dpdk|ERR|vhost port p1 died",
        ),
        (
            "1|00001|dpif|WARN|failed to enumerate system datapaths: No such file or directory\n"
            "2|00002|timeval|WARN|Unreasonably long 1500ms poll interval\n"
            "3|00003|bridge|INFO|bridge up\n",
            "bridge|INFO|bridge up",
        ),
        ("1|00001|dpif|WARN|failed to enumerate system datapaths: x\n", "its log is empty"),
    ],
)
def test_last_words_are_the_cause_not_what_is_always_there(
    log: str, message: str, tmp_path: Path
) -> None:
    instance = OvsInstance.__new__(OvsInstance)
    instance.folder = tmp_path
    (tmp_path / "vswitchd.log").write_text(log)
    assert instance._tail() == message


def test_frames_of_one_port_are_dealt_out_to_chains() -> None:
    """Two chains of two VNFs: ports 0, then 1 to 4 and 5 to 8, then 9; OpenFlow counts from 1."""
    split = Split("src-mac", 2, 2, ("02:00:00:00:00:01", "02:00:00:00:00:02"))
    assert (split.heads, split.tails, split.last) == ((1, 5), (4, 8), 9)
    assert rules([], ConnectMode.CROSS_CONNECT, split) == [
        "in_port=1,actions=output:2",
        "in_port=2,actions=output:1",
        "in_port=3,actions=output:4",
        "in_port=4,actions=output:3",
        "in_port=5,actions=output:10",
        "in_port=6,actions=output:1",
        "in_port=7,actions=output:8",
        "in_port=8,actions=output:7",
        "in_port=9,actions=output:10",
        "in_port=10,actions=output:5",
        "priority=40000,in_port=1,dl_src=02:00:00:00:00:01,actions=output:2",
        "priority=40000,in_port=1,dl_src=02:00:00:00:00:02,actions=output:6",
    ]
    by_flow = rules([], ConnectMode.CROSS_CONNECT, Split("flow", 2, 2, ()))
    assert by_flow[-2:] == ["table=1,reg0=0,actions=output:2", "table=1,reg0=1,actions=output:6"]
    assert "multipath(symmetric_l4,0,modulo_n,2,0,NXM_NX_REG0[]),resubmit(,1)" in by_flow[-3]


def test_drops_at_full_sockets_are_read_by_device() -> None:
    """As iproute2 6.1 prints it; a device may have a socket for each queue."""
    text = """\
Netid Recv-Q Send-Q Local Address:Port Peer Address:PortProcess
p_raw 8960   0                  *:v0               *     skmem:(r8960,rb8192,t0,f0,w0,o0,bl0,d93)
p_raw 0      0                  *:v0               *     skmem:(r0,rb8192,t0,f0,w0,o0,bl0,d7)
p_dgr 0      0               ipv4:v1               *     skmem:(r0,rb8192,t0,f0,w0,o0,bl0,d0)
p_raw 0      0                  *:v2               *
"""
    assert parse_socket_drops(text) == {"v0": 100, "v1": 0}


@pytest.mark.parametrize(
    ("chosen", "driver"), [({}, "net_af_packet"), ({"cable_driver": "af-xdp"}, "net_af_xdp")]
)
def test_a_cable_to_another_host_is_reached_by_a_driver(
    chosen: dict[str, str], driver: str
) -> None:
    switch = OvsDpdk()
    switch.configure(chosen)
    port = SwitchPort(1, PortKind.VETH, "m", device="eth7", mtu_bytes=1500, cable=True)
    check_request("ovs-dpdk", switch.capabilities, [port_of(0), port], ConnectMode.LEARNING)
    name, columns = switch.interface(port)
    assert (name, columns) == (
        "p1",
        ["type=dpdk", f'options:dpdk-devargs="{driver}1,iface=eth7"'],
    )
    with pytest.raises(UsageError, match="packet_size up to 1518"):
        switch.interface(replace(port, mtu_bytes=9000))
    with pytest.raises(UsageError, match="port 1 is tap"):
        uncabled = [port_of(0), replace(port, cable=False, kind=PortKind.TAP)]
        check_request("ovs-dpdk", switch.capabilities, uncabled, ConnectMode.LEARNING)


def test_a_pci_port_is_opened_by_its_address_and_no_other_is() -> None:
    switch = OvsDpdk()
    port = SwitchPort(1, PortKind.VHOST_USER, "m", mtu_bytes=9000, cable=True, pci="0000:01:00.1")
    check_request("ovs-dpdk", switch.capabilities, [port_of(0), port], ConnectMode.LEARNING)
    assert switch.interface(port) == (
        "p1",
        ["type=dpdk", 'options:dpdk-devargs="0000:01:00.1"', "mtu_request=9000"],
    )
    switch._ports = (port_of(0), port)
    assert switch._pci == "-a 0000:01:00.1" and lent_of(switch._ports) == []
    switch._ports = (port_of(0), port_of(1))
    assert switch._pci == "--no-pci"
    with pytest.raises(UsageError, match="port 1 is a cable by pci; it takes: interface"):
        check_request("snabb", Snabb.capabilities, [port_of(0), port], ConnectMode.CROSS_CONNECT)


def port_of(index: int) -> SwitchPort:
    return SwitchPort(index, PortKind.VHOST_USER, "m", socket="/run/s")
