"""Readers of the output of other programs: switches, their tools, generators, and the agent of
another host; and of the kernel about processes and mounts, whose names any user can choose."""

from __future__ import annotations

import io
import json
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from hypothesis import strategies as st

from switchmark.engine.plain_events import parse_plain
from switchmark.environment.vm.engine import GuestEngine
from switchmark.host import interface_check
from switchmark.host.cores import watch
from switchmark.host.cores.cpu_time import ThreadTimes, process_cpu_s
from switchmark.host.kernel import mounts
from switchmark.host.kernel.procfs import ProcessIdentity
from switchmark.host.process_output import last_line, last_lines
from switchmark.instrument import iperf3, sockperf
from switchmark.instrument.support.pkt_gen_words import sent_for, whole_run
from switchmark.instrument.support.program import ProgramEnd
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.remote.exchange import GREETING, Exchange
from switchmark.switch.bess import Bess
from switchmark.switch.fastclick import value_of
from switchmark.switch.snabb import Snabb
from switchmark.switch.support import json_rpc
from switchmark.switch.support.base import Switch
from switchmark.switch.support.private import Namespace
from switchmark.switch.support.telemetry import telemetry
from switchmark.switch.t4p4s import T4p4s
from switchmark.switch.testpmd import Testpmd
from switchmark.testbed.testbed import SshTarget
from tests.hostile_inputs import (
    ANY,
    BAD,
    DEPENDS,
    SCRATCH,
    Reader,
    altered,
    answers,
    edited,
    from_file,
)
from tests.unit.instrument_fakes import FakeProgram, recorded

PORTS = tuple(SwitchPort(k, PortKind.VHOST_USER, "02:00:00:00:00:01") for k in range(2))


def read_switch(switch: Switch, read: Callable[[Any], object], **parts: Any) -> object:
    """Read from a switch with these parts, as if it ran."""
    fixed = {"ports": PORTS, "mode": ConnectMode.STATIC_MAC, "alive": lambda: None}
    for name, part in {**fixed, **parts}.items():
        setattr(switch, name, part)
    return read(switch)


def both(switch: Any) -> object:
    """Return the ports that wait, and the counters."""
    return switch.waiting(), switch.own_counters()


def _bess(text: str) -> object:
    driver = FakeProgram("", stderr=text, answer=lambda _: text.replace("\n", " "))
    return read_switch(Bess(), both, _driver=driver)


def _testpmd(text: str) -> object:
    parts = {"_numbers": {0: 0, 1: 1}, "_dropped": lambda: {0: 1, 1: 0}, "ask": _telemetry(text)}
    return read_switch(Testpmd(), both, **parts)


def _t4p4s(text: str) -> object:
    return read_switch(T4p4s(), both, _numbers={0: 0, 1: 1}, ask=_telemetry(text))


def _telemetry(text: str) -> Callable[[str, int], list[Any]]:
    answer = text.encode(errors="replace")
    return lambda what, count: [telemetry(answer, f"/ethdev/{what},{n}") for n in range(count)]


def _snabb(content: bytes) -> object:
    folder = SCRATCH / "1" / "switchmark"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "p0.counter").write_bytes(content)
    parts = {"process": SimpleNamespace(pid=1), "_shm": SCRATCH}
    return read_switch(Snabb(), lambda switch: switch.waiting(), **parts)


def _json_rpc(pieces: list[str]) -> object:
    client, server = socket.socketpair()
    with client, server:
        server.sendall("".join(pieces).encode(errors="replace")[:60_000])
        server.close()
        return json_rpc._answer(client)


def _namespace(text: str) -> object:
    host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(exit_code=0, stdout=text))
    return Namespace(SimpleNamespace(host=host, id="x")).queue_drops("p0")  # type: ignore[arg-type]


def _facing(text: str) -> object:
    host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(exit_code=0, stdout=text))
    return interface_check._problem(host, "eth1", 1500)


def _cache_lines(text: str) -> object:
    host = SimpleNamespace(run=lambda *_, **__: SimpleNamespace(exit_code=0, stdout=text))
    return watch._reading(host, Path("engine"), [0, 1])


def ended(text: str) -> ProgramEnd:
    """Return a program that has printed this text."""
    program = ProgramEnd("program", "a0", ["program"], FakeProgram(text, stderr=text))
    program.gather(1.0)
    return program


def _pkt_gen(text: str) -> object:
    end = ended(text)
    report, _ = whole_run(end)
    begin_ns, duration_ns = sent_for(end, report)
    return report.counts(begin_ns, duration_ns)


def _exchange(messages: list[Any]) -> None:
    exchange = Exchange(SshTarget("root", "192.0.2.1", 22))
    greeting, (number, answer) = exchange.begin(), exchange.question()
    exchange.process(1)
    for message in messages:
        exchange.take(message, 5)
    exchange.lose("it ends")
    assert number == GREETING + 1 and greeting.done() and answer.done()


def _named(name: bytes) -> object:
    """Read the facts of this process while it has the given name."""
    comm = Path("/proc/self/comm")
    before = comm.read_bytes()
    try:
        comm.write_bytes(name.replace(b"\0", b"") or b"x")
        identity = ProcessIdentity.of(os.getpid())
        assert identity is not None and identity.alive()
        return process_cpu_s(os.getpid()), ThreadTimes.of([os.getpid()])
    finally:
        comm.write_bytes(before.strip())


def _mounted(name: bytes) -> None:
    """The kernel writes characters that would end a field as octal digits."""
    escaped = b"".join(b"\\%03o" % c if c in b" \t\n\\#" else bytes([c]) for c in name)
    line = b"22 1 0:21 / /%s rw,nosuid shared:5 - tmpfs %s rw\n" % (escaped, escaped)
    (found,) = mounts.read_mounts(line)
    assert os.fsencode(found.point) == b"/" + name


def _guest(text: str) -> object:
    return GuestEngine(FakeProgram("", answer=lambda _: text))._reading()


MESSAGES = [
    {"id": 0, "ok": {"v": 1}}, {"id": 1, "ok": 5}, {"id": 1, "error": "no", "kind": "UsageError"},
    {"process": 1, "line": "x"}, {"process": 1, "ended": 0},
]  # fmt: skip
PORT = {"rx_frames": 1, "rx_socket_drops": 0, "tx_offered": 1, "tx_dropped": 0, "up": True}
INTERVAL = {"event": "interval", "t_ns": 5, "ports": [PORT, PORT]}
STATE = {"ports": [{"up": True, "rx": [1, 0], "tx": [1, 0]}] * 2, "witness": 0}
STATS = {"ipackets": 5, "opackets": 5, "imissed": 0, "ierrors": 0, "rx_nombuf": 0, "oerrors": 0,
         "status": "UP"}  # fmt: skip
TELEMETRY = {"/ethdev/stats": STATS, "/ethdev/link_status": STATS}
LINK = [{"flags": ["UP"], "mtu": 1500, "qdisc": "noqueue", "addr_info": [
    {"local": "192.0.2.1", "prefixlen": 24, "scope": "link"}]}]  # fmt: skip
LOST = (KeyError, TypeError, AttributeError)  # the connection ends, and the error has the message
SERVER, CLIENT = (recorded(f"iperf3-{role}.json") for role in ("server", "client"))
ANSWERED = recorded("sockperf-client.txt")

PROGRAMS: dict[str, Reader] = {
    "BESS's driver": Reader(_bess, answers(STATE), BAD),
    "FastClick's handlers": Reader(
        lambda text: value_of(io.BytesIO(text.encode(errors="replace")), "f0.count"),
        edited(["200 Read handler\r\nDATA 2\r\n17"]), (ValueError,)),
    "testpmd's telemetry": Reader(_testpmd, answers(TELEMETRY), BAD),
    "t4p4s's telemetry": Reader(_t4p4s, answers(TELEMETRY), BAD),
    "DPDK's telemetry": Reader(
        lambda text: telemetry(text.encode(errors="replace"), "/ethdev/stats,0"),
        answers(TELEMETRY), BAD),
    "Snabb's counters": Reader(
        _snabb, st.one_of(st.binary(max_size=20), st.just(struct.pack("=Q", 7)))),
    "Open vSwitch's JSON-RPC": Reader(
        _json_rpc, st.lists(answers({"id": 0, "result": [], "error": None}), max_size=3),
        (ValueError, OSError, RecursionError)),
    "ip -j": Reader(_facing, answers(LINK), DEPENDS),
    "tc -j": Reader(_namespace, answers([{"root": True, "drops": 5}]), DEPENDS),
    "cache-line": Reader(_cache_lines, answers({"lines_ns": [40.0, None], "steps_ns": [1.0]})),
    "last words": Reader(
        lambda text: (last_lines(text), last_line(text)),
        edited(["vpp[5]: stack trace\n#0 main\n", "docker: no image.\nSee 'docker run --help'."])),
    "iperf3's client": Reader(
        lambda text: iperf3._read(ended(text), ended(SERVER)), answers(json.loads(CLIENT)), BAD),
    "iperf3's server": Reader(
        lambda text: iperf3._read(ended(CLIENT), ended(text)), edited([SERVER]), BAD),
    "sockperf's log": Reader(
        from_file("log.csv", lambda path: sockperf._read(path, ended(ANSWERED), ended(""))),
        edited([recorded("sockperf-log.csv")[-2000:], recorded("sockperf-log.csv")[:2000]]), BAD),
    "pkt-gen's words": Reader(_pkt_gen, edited([recorded("pkt-gen-sender.txt")]), BAD),
    "far host's messages": Reader(
        _exchange, st.lists(st.one_of(st.sampled_from(MESSAGES).flatmap(altered),
                                      st.sampled_from(MESSAGES), ANY), max_size=6), LOST),
    "engine in a guest": Reader(
        _guest, answers({"event": "counters", "t_ns": 5}).filter(lambda text: bool(text.split()))),
    "interval of a forwarder": Reader(parse_plain, answers(INTERVAL), (ValueError,)),
    "names of processes": Reader(_named, st.binary(max_size=15)),
    "mounts": Reader(_mounted, st.binary(min_size=1, max_size=20)),
}  # fmt: skip
