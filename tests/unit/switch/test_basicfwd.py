"""basicfwd against a stand-in for the engine that speaks its protocol."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host import hugepages
from switchmark.host.host import Session
from switchmark.model.ports import ConnectMode, PortCounters, PortKind, SwitchPort
from switchmark.switch.basicfwd import BasicForwarder
from tests.unit.engine_lines import event

PATIENCE_S = 120.0
# It reports when it is asked, and only then.
ENGINE = f"""\
#!{Path(sys.executable).resolve()} -IS
import os, sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("switchmark-traffic 9.9"))
with open(__file__ + ".args", "a") as args:
    args.write(" ".join(sys.argv[1:]) + "\\n")
if os.path.exists(__file__ + ".broken"):
    sys.exit("socket refused")
if os.path.exists(__file__ + ".lonely"):
    time.sleep(600)
print('READY', 'STARTED', sep="\\n", flush=True)
while asked := sys.stdin.readline():
    if asked != "interval\\n":
        sys.exit(3)
    print('INTERVAL'.replace("987654321", str(time.monotonic_ns())), flush=True)
"""
PORTS = [
    {"rx_frames": 10, "rx_socket_drops": 2, "tx_offered": 3, "tx_dropped": 1, "up": True},
    {"rx_frames": 4, "rx_socket_drops": 0, "tx_offered": 9, "tx_dropped": 0, "up": True},
]
LINES = {
    "READY": event("ready", role="forwarder", dpdk_version="DPDK 22.11"),
    "STARTED": event("started", t_ns=1),
    "INTERVAL": event("interval", t_ns=987654321, ports=PORTS),
}
for _word, _line in LINES.items():
    ENGINE = ENGINE.replace(f"'{_word}'", f"'{_line}'")


@pytest.fixture
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / "switchmark-traffic"
    program.write_text(ENGINE)
    program.chmod(0o755)
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", str(program))
    monkeypatch.setattr(hugepages, "are_reserved", lambda: True)
    monkeypatch.setattr(hugepages, "pools", lambda: (hugepages.HugepagePool(2048, 512, 512),))
    return program


def ports(pairs: int) -> list[SwitchPort]:
    return [
        SwitchPort(k, PortKind.VHOST_USER, f"02:00:00:00:00:0{k}", socket=f"/tmp/p{k}.sock")
        for k in range(2 * pairs)
    ]


def start(session: Session, pairs: int = 1) -> BasicForwarder:
    switch = BasicForwarder()
    switch.start(session, ports(pairs), ConnectMode.CROSS_CONNECT, [0])
    return switch


def test_counters_are_sums_of_reports_up_to_the_call(engine: Path, session: Session) -> None:
    switch = start(session)
    try:
        switch.wait_ports_up(PATIENCE_S)
        first, second = (switch.counters().ports for _ in range(2))
        reports = second[0].rx_frames // 10
        assert reports > first[0].rx_frames // 10 > 0
        assert second == {
            0: PortCounters(10 * reports, 3 * reports, 2 * reports, reports),
            1: PortCounters(4 * reports, 9 * reports, 0, 0),
        }
        assert switch.details()["dpdk_version"] == "DPDK 22.11"
        assert switch.details()["version"] == "switchmark-traffic 9.9"
        assert {"option:cable_driver": "af-packet"}.items() <= switch.details().items()
    finally:
        switch.stop()
    assert session.ledger.outstanding() == []


def test_each_pair_has_a_process_with_its_arguments(engine: Path, session: Session) -> None:
    switch = start(session, pairs=2)
    try:
        switch.wait_ports_up(PATIENCE_S)
        assert len(switch.process_ids()) == 2
        output = sorted(Path(f"{engine}.args").read_text().splitlines())
        assert output[0].startswith(
            "forwarder --port dpdk:vhost=/tmp/p0.sock,client --port dpdk:vhost=/tmp/p1.sock,client"
            " --start now --core 0 --idle yield"  # two pairs share the core
        )
        assert "p2.sock,client --port dpdk:vhost=/tmp/p3.sock" in output[1]
        assert "--frame-size 1518" in output[1]
    finally:
        switch.stop()
    assert switch.process_ids() == ()


def test_death_and_its_last_words(engine: Path, session: Session) -> None:
    Path(f"{engine}.broken").touch()
    switch = start(session)
    try:
        with pytest.raises(TrialFailed, match=r"basicfwd: forwarder .* code 1: socket refused"):
            switch.wait_ports_up(PATIENCE_S)
    finally:
        switch.stop()


def test_killed_forwarder_is_noticed(engine: Path, session: Session) -> None:
    switch = start(session)
    try:
        switch.wait_ports_up(PATIENCE_S)
        os.kill(switch.process_ids()[0], 9)
        deadline = time.monotonic() + PATIENCE_S
        while switch.alive() is None:
            assert time.monotonic() < deadline
        with pytest.raises(TrialFailed, match="ended by SIGKILL"):
            switch.counters()
    finally:
        switch.stop()


def test_absent_peer_is_named(engine: Path, session: Session) -> None:
    Path(f"{engine}.lonely").touch()
    switch = start(session)
    try:
        with pytest.raises(TrialFailed, match=r"no peer on one of /tmp/p0\.sock, /tmp/p1\.sock"):
            switch.wait_ports_up(0.1)
    finally:
        switch.stop()


def test_memory_shortage(engine: Path, session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hugepages, "pools", lambda: (hugepages.HugepagePool(2048, 5, 5),))
    with pytest.raises(UnavailableError, match=r"needs 256 MiB of hugepages, 10 MiB are free"):
        start(session, pairs=2)
