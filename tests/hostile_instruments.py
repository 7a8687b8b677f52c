"""Readers of the output of foreign generators that answer while they run, and of files in their
folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from hypothesis import strategies as st

from switchmark.instrument import pktgen_dpdk, testpmd, trex
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.polled_end import PolledEnd
from switchmark.instrument.support.program import VERSION, ProgramEnd, version_of
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from tests.hostile_inputs import BAD, SCRATCH, Reader, answers, edited
from tests.unit.instrument_fakes import FakeProgram, recorded
from tests.unit.trial_fakes import trial

READY = {"ready": True, "version": "v3.08", "driver": "net_af_packet"}
COUNTERS = {
    "t_ns": 5_000_000_000, "sent": 7, "received": 0, "output_errors": 0, "input_errors": 0,
    "queue_full": 0, "sends": False,
}  # fmt: skip
SHORT_S = 0.005
PKTGEN, TESTPMD = recorded("pktgen-sender.txt"), recorded("testpmd-sender.txt")
PORT = NodePort(
    PortKind.VETH, "02:53:4d:00:00:01", "10.64.0.1/24",
    device_inside="eth0", peer_mac="02:53:4d:00:00:02",
)  # fmt: skip


def _job(program: FakeProgram) -> Job:
    station = Station("tx0", PORT, (0,), lambda _: program)
    return Job(trial(rate_pps=20_000), station, station, SCRATCH, 1.0)


def _query(ready: str, answer: str, *, has_server: bool) -> None:
    """Send all queries to one end. Its answers must fit into a record."""
    client = FakeProgram(ready, answer=lambda _: answer.replace("\n", " "))
    server = ProgramEnd("server", "tx0", ["x"], FakeProgram("", answer=str)) if has_server else None
    end = PolledEnd(ProgramEnd("client", "tx0", ["x"], client), "sent", server)
    end.wait_ready(SHORT_S)
    for _ in range(2):
        end.ask({"do": "read"})
        end.wait_answer(SHORT_S)
    end.forget()
    facts = [end.version, end.report(), end.frames, end.sends]
    assert json.dumps(facts, ensure_ascii=False).encode()
    end.counts(0, end.last_ns)


def query(has_server: bool) -> Callable[[tuple[str, str]], None]:
    return lambda texts: _query(*texts, has_server=has_server)


def _pktgen(text: str) -> None:
    program = FakeProgram(text)
    job = _job(program)
    end = pktgen_dpdk._Counter("sender", job, job.source, Path("/pktgen"), {})
    for word in ("ready", "begun", "stopped", "total"):
        end.wait(word, float("inf"))
    reading = end.reading("DPDK 22.11", end.number("begun"), end.number("begun"))
    assert reading.version.encode()


def _testpmd(text: str) -> None:
    job = _job(FakeProgram(text))
    console = testpmd._Console("sender", job, job.source, [])
    while True:  # until the program has ended, which raises an error
        console.take()


def _trex_version(content: bytes) -> None:
    folder = SCRATCH / "trex"
    folder.mkdir(exist_ok=True)
    (folder / "VERSION").write_bytes(content)
    assert trex.version_of_folder(folder / "scripts").encode()


def _version(content: bytes) -> None:
    (SCRATCH / "words").write_bytes(content)
    version_of.cache_clear()
    version_of("cat", (str(SCRATCH / "words"),), VERSION).encode()


BOTH = st.tuples(answers(READY), answers(COUNTERS)) | st.tuples(
    st.just(json.dumps(READY)), answers(COUNTERS)
)
INSTRUMENTS_SAY: dict[str, Reader] = {
    "TRex's client": Reader(query(True), BOTH, BAD),
    "MoonGen's script": Reader(query(False), BOTH, BAD),
    "Pktgen's script": Reader(_pktgen, edited([PKTGEN]), BAD),
    "testpmd's prompt": Reader(_testpmd, edited([TESTPMD]), BAD),
    "TRex's VERSION": Reader(_trex_version, st.binary(max_size=200)),
    "version of a program": Reader(
        _version, st.binary(max_size=20) | edited(["iperf 3.12 (cJSON)"]).map(
            lambda text: text.encode(errors="replace"))),
}  # fmt: skip
