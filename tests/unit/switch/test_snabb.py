"""Snabb: its links' counters as those of ports, its arguments, and what outlives it."""

from __future__ import annotations

import os
import signal
import struct
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import TrialFailed
from switchmark.host.host import Session
from switchmark.host.kernel import procfs
from switchmark.model.ports import PortCounters, SwitchCounters
from switchmark.switch import snabb
from switchmark.switch.support.tools import own_text
from tests.unit.switch_programs import CROSS, LEARNING, PORTS, script

pytestmark = pytest.mark.usefixtures("root_with_hugepages")

PATIENCE_S = 120.0

# Runs until a signal ends it, with counters as Snabb publishes them and a supervisor
# that outlives it.
PROGRAM = f"""\
#!{Path(sys.executable).resolve()} -S
import itertools, os, pathlib, signal, struct, sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("snabb 2024.08", "Copyright", sep="\\n"))
pathlib.Path(__file__ + ".args").write_text(" ".join(sys.argv[1:]))
if os.path.exists(__file__ + ".broken"):
    sys.exit("no hugepage is left\\nStack Traceback\\n(1) x")
if os.fork() == 0:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
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
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[snabb.Snabb]:
    monkeypatch.setenv("SWITCHMARK_SNABB", script(tmp_path / "snabb", PROGRAM))
    switch = snabb.Snabb()
    switch.start(session, PORTS[:2], CROSS, [0])
    yield switch
    switch.stop()


def test_counters_of_links_are_those_of_ports(running: snabb.Snabb) -> None:
    # Two frames of nine found the link full; five of the other seven have been taken off it.
    assert running.counters() == SwitchCounters(
        {0: PortCounters(9, 1, 0, 0), 1: PortCounters(1, 5, 0, 2)}
    )


def test_version_arguments_and_which_ports_wait(running: snabb.Snabb, tmp_path: Path) -> None:
    assert running.details()["version"] == "snabb 2024.08"
    output = (tmp_path / "snabb.args").read_text().split()
    assert output[0] == "snsh"
    assert Path(output[1]).read_text() == own_text(snabb.PROGRAM)
    assert output[2:] == ["cross-connect", "300", "-", "/run/p0.sock", "/run/p1.sock"]
    assert [port.index for port in running.waiting()] == [1]
    with pytest.raises(TrialFailed, match=r"no peer on /run/p1\.sock after 0\.1 s"):
        running.wait_ports_up(0.1)


def test_stop_ends_what_outlives_the_process(running: snabb.Snabb, session: Session) -> None:
    assert len(procfs.session_processes(session.id)) > 1
    os.kill(running.process_ids()[0], signal.SIGKILL)
    deadline = time.monotonic() + PATIENCE_S
    while running.alive() is None:
        assert time.monotonic() < deadline
    with pytest.raises(TrialFailed, match="SIGKILL"):
        running.counters()
    running.stop()
    deadline = time.monotonic() + PATIENCE_S
    while procfs.session_processes(session.id):  # killed; the kernel may take its time to end it
        assert time.monotonic() < deadline, procfs.session_processes(session.id)
        time.sleep(0.01)
    assert session.ledger.outstanding() == []


def test_last_words_without_the_stack(
    session: Session, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_SNABB", script(tmp_path / "snabb", PROGRAM))
    (tmp_path / "snabb.broken").touch()
    with pytest.raises(TrialFailed, match=r"ended with code 1: no hugepage is left$"):
        snabb.Snabb().start(session, PORTS[:2], CROSS, [0])
    assert session.ledger.outstanding() == []


def test_counter_that_is_not_written_yet_is_zero(tmp_path: Path) -> None:
    switch = snabb.Snabb()
    switch._shm = tmp_path
    switch.process = type("P", (), {"pid": 7})()
    (tmp_path / "7").mkdir()
    (tmp_path / "7" / "x.counter").write_bytes(b"\1")
    assert switch._read("x") == switch._read("y") == 0
    (tmp_path / "7" / "x.counter").write_bytes(struct.pack("=Q", 1 << 40))
    assert switch._read("x") == 1 << 40


def test_links_and_memory() -> None:
    assert snabb.links_of(2, CROSS) == ("p2.tx -> p3.rx", "p3.tx -> p2.rx")
    assert snabb.links_of(2, LEARNING) == ("p2.tx -> bridge.p2", "bridge.p2 -> p2.rx")
    # Full links hold 3,072 packets: Snabb gets 1000 + 2000 + 4000.
    assert snabb.memory_mb(2) == 76
    assert snabb.memory_mb(10) == 162
