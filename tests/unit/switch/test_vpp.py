"""VPP: its configuration at the start and later, and the counts of its frames."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.host import Completed
from switchmark.model.ports import PortKind, SwitchPort
from switchmark.switch import vpp
from switchmark.switch.support import vpp_answers, vpp_commands
from tests.unit.switch_programs import CROSS, LEARNING, PORTS, STATIC, script


def test_cores_of_its_threads() -> None:
    assert vpp.thread_cores([1], [0, 1]) == (1, ())
    assert vpp.thread_cores([1, 2], [0, 1, 2]) == (0, (1, 2))
    assert vpp.thread_cores([0, 1], [0, 1]) == (0, (1,))


def test_startup_configuration() -> None:
    text = vpp_commands.startup_config(Path("/d"), "smx", 0, [2, 3])
    assert "cpu { main-core 0 corelist-workers 2,3 }" in text
    assert "cpu { main-core 1 }" in vpp_commands.startup_config(Path("/d"), "smx", 1, [])
    assert "plugin default { disable } plugin vhost_plugin.so { enable }" in text
    assert set(re.findall(r"/\w+\S*", text)) >= {"/d/run", "/d/cli.sock", "/d/stats.sock"}
    assert not re.search(r"[ ,]/(?!d/)", text), "a path that is not in our folder"


def test_cross_connect_of_each_pair() -> None:
    lines = vpp_commands.commands(PORTS, CROSS)
    assert [line for line in lines if "xconnect" in line] == [
        "set interface l2 xconnect VirtualEthernet0/0/0 VirtualEthernet0/0/1",
        "set interface l2 xconnect VirtualEthernet0/0/1 VirtualEthernet0/0/0",
        "set interface l2 xconnect VirtualEthernet0/0/2 VirtualEthernet0/0/3",
        "set interface l2 xconnect VirtualEthernet0/0/3 VirtualEthernet0/0/2",
    ]
    assert lines[:3] == [
        "create vhost-user socket /run/p0.sock",
        "set interface promiscuous on VirtualEthernet0/0/0",
        "set interface rx-mode VirtualEthernet0/0/0 polling",
    ]
    assert lines[-1] == "set interface state VirtualEthernet0/0/3 up"
    assert not any("bridge" in line for line in lines)
    assert [line for line in lines if "pipe" in line] == ["pipe create"], "it carries nothing"


def test_learning_and_static() -> None:
    learning, static = (vpp_commands.commands(PORTS[:2], mode) for mode in (LEARNING, STATIC))
    domain = "create bridge-domain 1 learn {0} forward 1 uu-flood {0} flood {0} arp-term 0"
    assert f"{domain.format(1)} mac-age 5" in learning
    assert f"{domain.format(0)} mac-age 0" in static
    assert "set interface l2 bridge pipe0.0 1" in learning
    assert not any("l2fib" in line for line in learning)
    assert f"l2fib add {PORTS[1].mac} 1 VirtualEthernet0/0/1 static" in static


def test_devices_and_jumbo_frames() -> None:
    port = SwitchPort(0, PortKind.VETH, "02:00:00:00:00:01", device="v0", mtu_bytes=9000)
    assert vpp_commands.interfaces_of([port, PORTS[1]]) == {0: "host-v0", 1: "VirtualEthernet0/0/0"}
    lines = vpp_commands.commands([port, PORTS[1]], CROSS)
    assert lines[0] == "create host-interface name v0 cksum-gso-disable"
    assert "set interface mtu packet 9000 host-v0" in lines


def test_memif_patch_and_receive_mode() -> None:
    ports = [SwitchPort(k, PortKind.MEMIF, "02:00:00:00:00:01", socket=f"/m{k}") for k in (0, 1)]
    options = {"rx_mode": "adaptive", "cross_connect": "l2patch"}
    assert vpp_commands.commands(ports, CROSS, options) == [
        "create memif socket id 1 filename /m0",
        "create interface memif id 0 socket-id 1 slave ring-size 256 buffer-size 2048",
        "set interface rx-mode memif1/0 adaptive",
        "create memif socket id 2 filename /m1",
        "create interface memif id 0 socket-id 2 slave ring-size 256 buffer-size 2048",
        "set interface rx-mode memif2/0 adaptive",
        "pipe create",
        "test l2patch rx memif1/0 tx memif2/0",
        "test l2patch rx memif2/0 tx memif1/0",
        "set interface state memif1/0 up",
        "set interface state memif2/0 up",
    ]


def test_vhost_user_gets_its_receive_mode_with_its_peer() -> None:
    options = {"rx_mode": "interrupt", "cross_connect": "xconnect"}
    assert not any("rx-mode" in line for line in vpp_commands.commands(PORTS[:2], CROSS, options))
    assert vpp_commands.late_commands(PORTS[:2], options) == [
        "set interface rx-mode VirtualEthernet0/0/0 interrupt",
        "set interface rx-mode VirtualEthernet0/0/1 interrupt",
    ]
    assert vpp_commands.late_commands(PORTS, vpp_commands.DEFAULTS) == []


def test_each_pair_may_have_its_own_worker() -> None:
    mac = "02:00:00:00:00:01"
    ports = [SwitchPort(k, PortKind.VHOST_USER, mac, socket=f"/v{k}") for k in range(6)]
    options = {**vpp_commands.DEFAULTS, "rx_workers": "pairs"}
    placed = [line.split()[3:] for line in vpp_commands.late_commands(ports, options, workers=2)]
    assert placed == [
        [f"VirtualEthernet0/0/{k}", "queue", "0", "worker", str(worker)]
        for k, worker in enumerate((0, 0, 1, 1, 0, 0))
    ]
    options["rx_workers"] = "all"
    placed = [line.split()[-1:] for line in vpp_commands.late_commands(ports, options, workers=2)]
    assert placed == [["0"], ["1"]] * 3, "senders have the first worker, receivers the second"
    assert vpp_commands.late_commands(ports, options) == [], "the main thread forwards"
    assert vpp_commands.late_commands(ports, vpp_commands.DEFAULTS, workers=2) == []


def test_statistics_are_summed_over_threads() -> None:
    counters = vpp_answers.parse_statistics(
        "[0]: local0 /if/names\n[1]: VirtualEthernet0/0/0 /if/names\n"
        "[0 @ 0]: 0 packets, 0 bytes /if/rx\n[1 @ 0]: 5 packets, 300 bytes /if/rx\n"
        "[1 @ 1]: 7 packets, 420 bytes /if/rx\n[1 @ 1]: 9 packets, 1 bytes /if/tx\n"
        "[1 @ 0]: 4 packets /if/drops\n"
        "[0 @ 0]: 6 packets /err/VirtualEthernet0/0/0-tx/no error\n"
        "[0 @ 0]: 2 packets /err/VirtualEthernet0/0/0-tx/tx packet drops (no available desc)\n"
        "[0 @ 1]: 1 packets /err/VirtualEthernet0/0/0-tx/mmap failure\n"
        "[0 @ 1]: 1 packets /err/l2-input/L2 input drops\n"
    )
    name = "VirtualEthernet0/0/0"
    assert counters == vpp_answers.Statistics(
        {"local0": 0, name: 12}, {"local0": 0, name: 9}, {"local0": 0, name: 4}, {name: 3}
    )


def test_calls_that_sent_nothing_are_not_lost_frames() -> None:
    """A frame that `sendto` did not take stays in the ring of a packet socket for the next call."""
    counters = vpp_answers.parse_statistics(
        "[1]: host-v0 /if/names\n[1 @ 0]: 90 packets, 1 bytes /if/tx\n"
        "[0 @ 0]: 7 packets /err/host-v0-tx/tx frame not ready\n"
        "[0 @ 0]: 5 packets /err/host-v0-tx/tx sendto temporary failure\n"
        "[0 @ 0]: 3 packets /err/host-v0-tx/tx sendto fatal failure\n"
        "[0 @ 0]: 2 packets /err/host-v0-tx/tx ring overrun\n"
    )
    assert counters.lost == {"host-v0": 9}


def test_drops_at_full_packet_ring_belong_to_the_port(tmp_path: Path) -> None:
    """Not at the end of a cable, whose interface has counted it."""
    dumped = "".join(
        f"[{k}]: host-v{k} /if/names\n[{k} @ 0]: 70 packets, 1 bytes /if/rx\n"
        f"[{k} @ 0]: 70 packets, 1 bytes /if/tx\n[{k} @ 0]: 2 packets /if/drops\n"
        for k in range(3)
    )

    class Answers:
        def run(self, args: list[str], **_: object) -> Completed:
            return Completed(tuple(args), 0, dumped, "")

    class Rings:
        forbidden = False

        def drops(self) -> dict[str, int]:
            if self.forbidden:
                raise PermissionError(1, "pidfd_getfd: Operation not permitted")
            return {"v0": 30, "v2": 5}

    switch: Any = vpp.Vpp()
    switch.session = SimpleNamespace(host=Answers())
    switch.ports = tuple(
        SwitchPort(k, PortKind.VETH, f"02:53:4d:00:00:0{k}", device=f"v{k}", cable=k == 2)
        for k in range(3)
    )
    switch.mode, switch._names = CROSS, vpp_commands.interfaces_of(switch.ports)
    switch._folder, switch._statistics, switch._rings = tmp_path, "vpp_get_stats", Rings()
    switch.alive = lambda: None
    counters = switch.own_counters().ports
    assert [counters[k].rx_dropped for k in range(3)] == [2 + 30, 2, 2]
    assert [counters[k].rx_frames for k in range(3)] == [70] * 3
    switch._rings.forbidden = True
    assert [port.rx_dropped for port in switch.own_counters().ports.values()] == [2, 2, 2]
    assert switch._not_counted == "not counted: [Errno 1] pidfd_getfd: Operation not permitted"
    switch.alive = lambda: "vpp was ended by SIGKILL"
    with pytest.raises(TrialFailed, match="vpp: vpp was ended by SIGKILL"):
        switch.own_counters()


def test_links() -> None:
    shown = (
        "              Name                Idx   Link  Hardware\n"
        "VirtualEthernet0/0/0               1    down  VirtualEthernet0/0/0\n"
        "  Link speed: unknown\n"
        "host-v0                            3     up   host-v0\n"
        "  Ethernet address 02:fe:c7:93:5c:00 up up\n"
    )
    assert vpp_answers.links_up(shown) == {"host-v0"}


def test_without_its_tools(
    root_with_hugepages: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("SWITCHMARK_VPP", script(tmp_path / "vpp", "echo vpp v1"))
    assert "`vppctl` is neither beside" in str(vpp.Vpp().availability().reason)
