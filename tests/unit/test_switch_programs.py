"""What we write for switches that are programs of their own, and read from them."""

from __future__ import annotations

import json
import os
import re
import secrets
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.switch import bess, fastclick, program, snabb, t4p4s, vpp
from switchmark.switch.base import ConnectMode, PortCounters, PortKind, SwitchCounters, SwitchPort
from switchmark.switch.tools import own_text
from switchmark.testbed import procfs
from switchmark.testbed.host import Session
from switchmark.testbed.ledger import Ledger
from switchmark.testbed.local import LocalHost

CROSS, LEARNING, STATIC = (
    ConnectMode.CROSS_CONNECT,
    ConnectMode.LEARNING,
    ConnectMode.STATIC_MAC,
)
PORTS = [
    SwitchPort(k, PortKind.VHOST_USER, t4p4s.table()[k], socket=f"/run/p{k}.sock") for k in range(4)
]


@pytest.fixture
def session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Session]:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    monkeypatch.setattr(program, "hugepage_bytes_total", lambda: 1 << 30)
    monkeypatch.setattr(program, "hugepage_bytes_free", lambda: 1 << 30)
    session_id = secrets.token_hex(3)  # its processes are told from those of other runs by it
    ledger = Ledger.create(tmp_path / "state", session_id)
    host = LocalHost(ledger)
    yield Session(session_id, host, ledger, tmp_path / "run")
    host.close()
    ledger.close()


def script(path: Path, text: str) -> str:
    path.write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)


class TestSnabb:
    # Runs until it is told to end, with counters as Snabb publishes them and a supervisor
    # that outlives it.
    PROGRAM = f"""\
#!{sys.executable} -S
import itertools, os, pathlib, signal, struct, sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("snabb 2024.08", "Copyright", sep="\\n"))
pathlib.Path(__file__ + ".args").write_text(" ".join(sys.argv[1:]))
if os.path.exists(__file__ + ".broken"):
    sys.exit("no hugepage is left\\nStack Traceback\\n(1) x")
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(30)
    sys.exit()
def count(name, value):
    path = pathlib.Path(os.environ["SNABB_SHM_ROOT"], str(os.getpid()), name + ".counter")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(struct.pack("=Q", value))
there, back = "links/p0.tx -> p1.rx/", "links/p1.tx -> p0.rx/"
count("switchmark/p0", 1)
for name, value in (("txpackets", 7), ("txdrop", 2), ("rxpackets", 5)):
    count(there + name, value)
for name in ("txpackets", "rxpackets"):
    count(back + name, 1)
for rounds in itertools.count(100, 100):
    count("engine/breaths", rounds)
    time.sleep(0.02)
"""

    @pytest.fixture
    def running(
        self, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> Iterator[snabb.Snabb]:
        monkeypatch.setenv("SWITCHMARK_SNABB", script(tmp_path / "snabb", self.PROGRAM))
        switch = snabb.Snabb()
        switch.start(session, PORTS[:2], CROSS, [0])
        yield switch
        switch.stop()

    def test_counters_of_links_are_those_of_ports(self, running: snabb.Snabb) -> None:
        # Two frames of nine found the link full; five of the other seven have been taken off it.
        assert running.counters() == SwitchCounters(
            {0: PortCounters(9, 1, 0, 0), 1: PortCounters(1, 5, 0, 2)}
        )

    def test_version_arguments_and_which_ports_wait(
        self, running: snabb.Snabb, tmp_path: Path
    ) -> None:
        assert running.details()["version"] == "snabb 2024.08"
        told = (tmp_path / "snabb.args").read_text().split()
        assert told[0] == "snsh"
        assert Path(told[1]).read_text() == own_text(snabb.PROGRAM)
        assert told[2:] == ["cross-connect", "300", "/run/p0.sock", "/run/p1.sock"]
        assert [port.index for port in running.waiting()] == [1]
        with pytest.raises(TrialFailed, match=r"no peer on /run/p1\.sock after 0\.1 s"):
            running.wait_ports_up(0.1)

    def test_stop_ends_what_outlives_the_process(
        self, running: snabb.Snabb, session: Session
    ) -> None:
        assert len(procfs.marked(session.id)) > 1
        os.kill(running.process_ids()[0], signal.SIGKILL)
        deadline = time.monotonic() + 10
        while running.alive() is None:
            assert time.monotonic() < deadline
        with pytest.raises(TrialFailed, match="SIGKILL"):
            running.counters()
        running.stop()
        deadline = time.monotonic() + 5
        while procfs.marked(session.id):  # killed; the kernel may take its time to end it
            assert time.monotonic() < deadline, procfs.marked(session.id)
            time.sleep(0.01)
        assert session.ledger.outstanding() == []

    def test_last_words_without_the_stack(
        self, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SWITCHMARK_SNABB", script(tmp_path / "snabb", self.PROGRAM))
        (tmp_path / "snabb.broken").touch()
        with pytest.raises(TrialFailed, match=r"ended with code 1: no hugepage is left$"):
            snabb.Snabb().start(session, PORTS[:2], CROSS, [0])
        assert session.ledger.outstanding() == []

    def test_counter_that_is_not_written_yet_is_zero(self, tmp_path: Path) -> None:
        switch = snabb.Snabb()
        switch._shm = tmp_path
        switch.process = type("P", (), {"pid": 7})()
        (tmp_path / "7").mkdir()
        (tmp_path / "7" / "x.counter").write_bytes(b"\1")
        assert switch._read("x") == switch._read("y") == 0
        (tmp_path / "7" / "x.counter").write_bytes(struct.pack("=Q", 1 << 40))
        assert switch._read("x") == 1 << 40

    def test_links_and_memory(self) -> None:
        assert snabb.links_of(2, CROSS) == ("p2.tx -> p3.rx", "p3.tx -> p2.rx")
        assert snabb.links_of(2, LEARNING) == ("p2.tx -> bridge.p2", "bridge.p2 -> p2.rx")
        # Full links hold 3,072 packets: Snabb gets 1000 + 2000 + 4000.
        assert snabb.memory_mb(2) == 76
        assert snabb.memory_mb(10) == 162


class TestVpp:
    def test_cores_of_its_threads(self) -> None:
        assert vpp.thread_cores([1], [0, 1]) == (1, ())
        assert vpp.thread_cores([1, 2], [0, 1, 2]) == (0, (1, 2))
        assert vpp.thread_cores([0, 1], [0, 1]) == (0, (1,))

    def test_startup_configuration(self) -> None:
        text = vpp.startup_config(Path("/d"), "smx", 0, [2, 3])
        assert "cpu { main-core 0 corelist-workers 2,3 }" in text
        assert "cpu { main-core 1 }" in vpp.startup_config(Path("/d"), "smx", 1, [])
        assert "plugin default { disable } plugin vhost_plugin.so { enable }" in text
        assert set(re.findall(r"/\w+\S*", text)) >= {"/d/run", "/d/cli.sock", "/d/stats.sock"}
        assert not re.search(r"[ ,]/(?!d/)", text), "a path that is not in our folder"

    def test_cross_connect_of_each_pair(self) -> None:
        lines = vpp.commands(PORTS, CROSS)
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
        assert not any("bridge" in line or "pipe" in line for line in lines)

    def test_learning_and_static(self) -> None:
        learning, static = (vpp.commands(PORTS[:2], mode) for mode in (LEARNING, STATIC))
        domain = "create bridge-domain 1 learn {0} forward 1 uu-flood {0} flood {0} arp-term 0"
        assert f"{domain.format(1)} mac-age 5" in learning
        assert f"{domain.format(0)} mac-age 0" in static
        assert "set interface l2 bridge pipe0.0 1" in learning
        assert not any("l2fib" in line for line in learning)
        assert f"l2fib add {PORTS[1].mac} 1 VirtualEthernet0/0/1 static" in static

    def test_devices_and_jumbo_frames(self) -> None:
        port = SwitchPort(0, PortKind.VETH, "02:00:00:00:00:01", device="v0", mtu_bytes=9000)
        assert vpp.interfaces_of([port, PORTS[1]]) == {0: "host-v0", 1: "VirtualEthernet0/0/0"}
        lines = vpp.commands([port, PORTS[1]], CROSS)
        assert lines[0] == "create host-interface name v0 cksum-gso-disable"
        assert "set interface mtu packet 9000 host-v0" in lines

    def test_memif_patch_and_receive_mode(self) -> None:
        ports = [
            SwitchPort(k, PortKind.MEMIF, "02:00:00:00:00:01", socket=f"/m{k}") for k in (0, 1)
        ]
        options = {"rx_mode": "adaptive", "cross_connect": "l2patch"}
        assert vpp.commands(ports, CROSS, options) == [
            "create memif socket id 1 filename /m0",
            "create interface memif id 0 socket-id 1 slave ring-size 256 buffer-size 2048",
            "set interface rx-mode memif1/0 adaptive",
            "create memif socket id 2 filename /m1",
            "create interface memif id 0 socket-id 2 slave ring-size 256 buffer-size 2048",
            "set interface rx-mode memif2/0 adaptive",
            "test l2patch rx memif1/0 tx memif2/0",
            "test l2patch rx memif2/0 tx memif1/0",
            "set interface state memif1/0 up",
            "set interface state memif2/0 up",
        ]

    def test_vhost_user_is_told_its_receive_mode_when_its_peer_is_there(self) -> None:
        options = {"rx_mode": "interrupt", "cross_connect": "xconnect"}
        assert not any("rx-mode" in line for line in vpp.commands(PORTS[:2], CROSS, options))
        assert vpp.late_commands(PORTS[:2], options) == [
            "set interface rx-mode VirtualEthernet0/0/0 interrupt",
            "set interface rx-mode VirtualEthernet0/0/1 interrupt",
        ]
        assert vpp.late_commands(PORTS, vpp.DEFAULTS) == []

    def test_statistics_are_summed_over_threads(self) -> None:
        told = vpp.parse_statistics(
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
        assert told == vpp.Statistics(
            {"local0": 0, name: 12}, {"local0": 0, name: 9}, {"local0": 0, name: 4}, {name: 3}
        )

    def test_links(self) -> None:
        shown = (
            "              Name                Idx   Link  Hardware\n"
            "VirtualEthernet0/0/0               1    down  VirtualEthernet0/0/0\n"
            "  Link speed: unknown\n"
            "host-v0                            3     up   host-v0\n"
            "  Ethernet address 02:fe:c7:93:5c:00 up up\n"
        )
        assert vpp.links_up(shown) == {"host-v0"}


class TestFastClick:
    def test_cross_connect(self) -> None:
        text = fastclick.click_config(PORTS, CROSS, "/c.sock")
        assert text.startswith('ControlSocket(UNIX, "/c.sock");')
        wires = re.findall(r"^(f\d) -> (t\d);$", text, re.MULTILINE)
        assert wires == [("f0", "t1"), ("f1", "t0"), ("f2", "t3"), ("f3", "t2")]
        assert text.count("BLOCKING false") == 4
        assert "Counter" not in text

    def test_learning_with_a_time_on_every_frame_and_a_witness(self) -> None:
        text = fastclick.click_config(PORTS[:2], LEARNING, "/c.sock")
        assert "switch :: EtherSwitch(TIMEOUT 300);" in text
        assert "f1 -> SetTimestamp -> [1]switch[1] -> t1;" in text
        assert "Idle -> [2]switch[2] -> w;" in text

    def test_static_table_leads_to_other_ports_only(self) -> None:
        text = fastclick.click_config(PORTS[:2], STATIC, "/c.sock")
        assert "f0 -> c0 :: Classifier(0/02534d000002, 0/02534dffff01);" in text
        assert "c0[0] -> t1;" in text
        assert "f1 -> c1 :: Classifier(0/02534d000001, 0/02534dffff01);" in text
        assert "c0[1] -> w;" in text
        assert "EtherSwitch" not in text

    def test_control_socket(self, tmp_path: Path) -> None:
        path = str(tmp_path / "c.sock")
        answers = {"a.count": b"200 fine\r\nDATA 3\r\n42\n", "b": b"510 no element\r\n"}
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()

            def click() -> None:
                for _ in "ab":
                    connection, _ = listener.accept()
                    with connection, connection.makefile("rwb") as stream:
                        stream.write(b"Click::ControlSocket/1.3\r\n")
                        stream.flush()
                        while line := stream.readline():
                            stream.write(answers[line.split()[1].decode()])
                            stream.flush()

            thread = threading.Thread(target=click)
            thread.start()
            assert fastclick.read_handlers(path, ["a.count", "a.count"]) == {"a.count": "42"}
            with pytest.raises(ValueError, match="b: 510 no element"):
                fastclick.read_handlers(path, ["b"])
            thread.join()


class TestBess:
    def test_request(self) -> None:
        wires = bess.build_request(tuple(PORTS[:2]), CROSS, 1)
        assert wires["table"] is None
        assert wires["cores"] == [1]
        assert wires["ports"][1]["vdev"] == "net_vhost1,iface=/run/p1.sock,client=1"
        table = bess.build_request(tuple(PORTS[:2]), STATIC, 1)["table"]
        assert table[1] == {"addr": PORTS[1].mac, "gate": 1}
        json.dumps(wires)

    def test_client_library_that_does_not_load(
        self, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        daemon = script(tmp_path / "bessd", "echo bessd version 1.2")
        monkeypatch.setenv("SWITCHMARK_BESS", daemon)
        python = script(tmp_path / "python", "echo No module named grpc; exit 1")
        monkeypatch.setenv("SWITCHMARK_BESS_PYTHON", python)
        probe = bess.Bess().probe()
        assert not probe.available
        assert "No module named grpc" in str(probe.reason)
        assert "SWITCHMARK_BESS_PYTHON" in str(probe.remedy)
        script(tmp_path / "python", "echo ok")
        assert bess.Bess().probe().version == "bessd 1.2"


class TestT4p4s:
    def test_table_of_the_program(self) -> None:
        table = t4p4s.table()
        assert sorted(table) == list(range(16))
        assert table[0] == "02:53:4d:00:00:01"
        assert table[3] == "02:53:4d:00:01:02"
        assert len(set(table.values())) == 16

    def test_arguments(self) -> None:
        words = t4p4s.arguments(Path("/p"), PORTS[:2], STATIC, 1, "smx")
        assert "net_vhost1,iface=/run/p1.sock,client=1" in words
        assert words[words.index("--lcores") + 1] == "0@1"
        end = words.index("--")
        assert words[end:] == ["--", "-p", "0x7", "--config", "(0,0,0),(1,0,0),(2,0,0)"]
        assert "net_null0,no-rx=1" in words
        words = t4p4s.arguments(Path("/p"), PORTS[:2], CROSS, 1, "smx")
        assert words[-4:] == ["-p", "0x3", "--config", "(0,0,0),(1,0,0)"]
        assert "net_null0,no-rx=1" not in words

    def test_marks_are_in_the_sources_they_tell_apart(self) -> None:
        names = {mode: mark.removeprefix(b"ingress.") for mode, mark in t4p4s.MARKS.items()}
        for mode, source in t4p4s.SOURCES.items():
            held = {other for other, name in names.items() if name in source.read_bytes()}
            assert held == {mode}

    def test_address_that_is_not_compiled_in(
        self, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SWITCHMARK_T4P4S", self.compiled(tmp_path / "p", STATIC))
        other = SwitchPort(1, PortKind.VHOST_USER, "02:00:00:00:00:07", socket="/run/p1.sock")
        with pytest.raises(UsageError, match=r"port 1 has address 02:00.*compiled in"):
            t4p4s.T4p4s().start(session, [PORTS[0], other], STATIC, [0])
        assert str(t4p4s.T4p4s().probe().version).endswith("DPDK 22.11.1")
        assert session.ledger.outstanding() == []

    def test_each_mode_has_a_program_of_its_own(
        self, session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        switch, beside = t4p4s.T4p4s(), tmp_path / "p-cross-connect"
        monkeypatch.setenv("SWITCHMARK_T4P4S", self.compiled(tmp_path / "p", STATIC))
        assert switch.probe_mode(STATIC).available
        lacking = switch.probe_mode(CROSS)
        assert f"no program {beside}" in str(lacking.reason)
        assert "compile" in str(lacking.remedy)
        assert "t4p4s_cross_connect.p4" in str(lacking.remedy)
        with pytest.raises(UnavailableError, match=r"no program .*p-cross-connect"):
            switch.start(session, PORTS[:2], CROSS, [0])
        self.compiled(beside, STATIC)  # the wrong one would look at addresses, and nobody notice
        assert "was not made of t4p4s_cross_connect.p4" in str(switch.probe_mode(CROSS).reason)
        self.compiled(beside, CROSS)
        assert switch.probe_mode(CROSS).available
        self.compiled(tmp_path / "p", CROSS)
        assert "was not made of t4p4s.p4" in str(switch.probe_mode(STATIC).reason)

    def compiled(self, path: Path, mode: ConnectMode) -> str:
        says = "echo \"EAL: RTE Version: 'DPDK 22.11.1'\""
        return script(path, f"{says} # {t4p4s.MARKS[mode].decode()}")


PROGRAMS = [
    (snabb.Snabb, "SWITCHMARK_SNABB", "snabb 1"),
    (vpp.Vpp, "SWITCHMARK_VPP", "vpp v1"),
    (fastclick.FastClick, "SWITCHMARK_FASTCLICK", "click (FastClick) 1"),
    (bess.Bess, "SWITCHMARK_BESS", "bessd version 1"),
    (t4p4s.T4p4s, "SWITCHMARK_T4P4S", "DPDK 1 ingress.destination"),
]


@pytest.mark.parametrize(("make", "setting", "says"), PROGRAMS)
def test_missing_broken_and_short_of_memory(
    make: type[program.ProgramSwitch],
    setting: str,
    says: str,
    session: Session,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switch = make()
    mode = switch.capabilities.connect_modes[0]
    monkeypatch.setenv(setting, str(tmp_path / "missing"))
    with pytest.raises(UnavailableError, match=f"{switch.name}: .*not found; .*{setting}"):
        switch.start(session, PORTS[:2], mode, [0])
    monkeypatch.setenv(setting, script(tmp_path / "mute", "exit 1"))
    assert "does not run" in str(switch.probe().reason)
    monkeypatch.setenv(setting, script(tmp_path / "speaks", f"echo '{says}'"))
    for tool in ("vppctl", "vpp_get_stats"):
        script(tmp_path / tool, "exit 0")
    monkeypatch.setenv("SWITCHMARK_BESS_PYTHON", script(tmp_path / "python", "echo ok"))
    monkeypatch.setattr(program, "hugepage_bytes_free", lambda: 10 << 20)
    with pytest.raises(UnavailableError, match=r"needs \d+ MiB of hugepages, 10 MiB are free"):
        switch.start(session, PORTS[:2], mode, [0])
    assert session.ledger.outstanding() == []
    monkeypatch.setattr(program, "hugepage_bytes_total", lambda: 0)
    assert switch.probe().reason == "no hugepages are reserved"
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    assert "needs root" in str(switch.probe().reason)


def test_vpp_without_its_tools(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("SWITCHMARK_VPP", script(tmp_path / "vpp", "echo vpp v1"))
    assert "`vppctl` is neither beside" in str(vpp.Vpp().probe().reason)


def test_last_words() -> None:
    assert program.last_words("a\n b \nc\nd\n") == "b / c / d"
    assert program.last_words("reason\nStack Traceback\n(1) x\n") == "reason"
    assert program.last_words("") == "it said nothing"
