"""Programs that run applications: their output is read exactly, hostile output is refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from switchmark.errors import ContradictoryCounts, TrialFailed
from switchmark.instrument import dnsperf, h2load
from switchmark.instrument.support import iperf3_tcp, sockperf_tcp
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.workload import WorkloadReading
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from tests.unit.instrument_fakes import FakeProgram, program, recorded
from tests.unit.trial_fakes import trial

MS = 1_000_000


def job(folder: Path = Path("/nonexistent"), **fields: Any) -> Job:
    def station(name: str, end: int) -> Station:
        port = NodePort(PortKind.VETH, f"02:53:4d:00:00:0{end + 1}", f"10.64.0.{end + 1}/24")
        return Station(name, port, (end,), lambda args: FakeProgram(""))

    return Job(trial(**fields), station("tx0", 0), station("rx0", 1), folder, 0.1)


def iperf(client: str | None = None, server: str | None = None) -> WorkloadReading:
    return iperf3_tcp.read(
        program(recorded("iperf3-tcp-client.json") if client is None else client),
        program(recorded("iperf3-tcp-server.json") if server is None else server),
    )


def test_iperf3_counts_payload_at_the_server() -> None:
    reading = iperf()
    total = json.loads(recorded("iperf3-tcp-server.json"))["end"]["sum_received"]["bytes"]
    assert (reading.done, reading.payload_forth, reading.payload_back) == (total, total, 0)
    assert sum(one.frames for one in reading.server.counts) == total
    assert sum(one.frames for one in reading.client.counts) == reading.sent >= reading.done
    assert reading.congestion_control == "bbr"
    assert reading.client.version == "3.12"


def test_iperf3_paces_each_connection_with_its_share() -> None:
    command = iperf3_tcp.client_command(
        job(workload="tcp-stream", generator="iperf3", rate_pps=1000, tcp_streams=4), 2.0
    )
    options = dict(zip(command[1::2], command[2::2], strict=False))
    assert options["-b"] == "250" and options["-P"] == "4" and options["-t"] == "2"
    assert "-u" not in command
    full = iperf3_tcp.client_command(job(workload="tcp-stream", rate_pps=None), 2.0)
    assert full[full.index("-b") + 1] == "0"


def _changed(name: str, change: Callable[[Any], None]) -> str:
    document = json.loads(recorded(name))
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["end"]["sum_received"].update(bytes=-1), "sum_received.bytes"),
        (lambda d: d["end"]["sum_received"].update(bytes=1 << 70), "sum_received.bytes"),
        (lambda d: d["end"]["sum_sent"].update(seconds=float("inf")), "sum_sent.seconds"),
        (lambda d: d["start"].update(version="9" * 200), "start.version"),
        (lambda d: d.pop("end"), "end"),
        (lambda d: d.update(intervals="\x1b[2J"), "intervals"),
        (lambda d: d.update(error="unable\nto \x1b[31mconnect"), "unable to"),
    ],
)
def test_iperf3_with_a_hostile_report_is_refused(change: Callable[[Any], None], says: str) -> None:
    with pytest.raises(TrialFailed) as caught:
        iperf(server=_changed("iperf3-tcp-server.json", change))
    assert says in str(caught.value) and "\n" not in str(caught.value)


def test_iperf3_that_receives_more_than_was_sent_is_refused() -> None:
    grown = _changed(
        "iperf3-tcp-server.json", lambda d: d["end"]["sum_received"].update(bytes=1 << 50)
    )
    with pytest.raises(ContradictoryCounts):
        iperf(server=grown)


def sockperf_said(sent: int, received: int, valid: tuple[int, int]) -> str:
    return (
        f"sockperf: [Total Run] RunTime=1.000 sec; Warm up time=400 msec; SentMessages={sent}; "
        f"ReceivedMessages={received}\n"
        f"sockperf: [Valid Duration] RunTime=0.550 sec; SentMessages={valid[0]}; "
        f"ReceivedMessages={valid[1]}\n"
    )


def sockperf_read(tmp_path: Path, output: str, log: str) -> WorkloadReading:
    path = tmp_path / "log.csv"
    path.write_text(f"packet, txTime(sec), rxTime(sec), rtt(usec)\n{log}{'-' * 30}\n")
    requested = job(workload="tcp-rr", generator="sockperf", request_bytes=100, response_bytes=100)
    return sockperf_tcp.read(requested, path, program(output, "sockperf client"), program(""))


def test_sockperf_counts_requests_by_interval(tmp_path: Path) -> None:
    """A request each 10 ms, answered 5 ms later: ten are sent in each interval, and the answer of
    the last request of an interval also lies in it."""
    log = "".join(f"{n}, {2 + n / 100}, {2.005 + n / 100}, 5000\n" for n in range(50))
    reading = sockperf_read(tmp_path, sockperf_said(100, 100, (50, 50)), log)
    assert [one.frames for one in reading.client.counts] == [10, 10, 10, 10, 10]
    assert [one.frames for one in reading.server.counts] == [10, 10, 10, 10, 10]
    assert {one.duration_ns for one in reading.client.counts} == {100 * MS}
    assert reading.round_trips is not None and reading.round_trips.max_ns == 5 * MS
    assert (reading.payload_forth, reading.payload_back) == (10_000, 10_000)
    assert not (tmp_path / "log.csv").exists(), "it is large"


def test_sockperf_without_answers_over_tcp_is_refused(tmp_path: Path) -> None:
    """TCP loses no request: a server that stopped answering has no latency worth keeping."""
    log = "".join(f"{n}, {2 + n / 100}, {2.005 + n / 100}, 5000\n" for n in range(20))
    with pytest.raises(TrialFailed, match="answered 20 of 50 requests"):
        sockperf_read(tmp_path, sockperf_said(100, 60, (50, 20)), log)


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("0, 9e9, 2, 5\n", "time of 9e9 s"),
        ("0, -1, 2, 5\n", "time of -1 s"),
        ("0, nan, 2, 5\n", "not understood"),
        ("0, 1, 2, 0\n", "round trip of 0 us"),
    ],
)
def test_sockperf_with_a_hostile_log_is_refused(tmp_path: Path, line: str, says: str) -> None:
    with pytest.raises(TrialFailed, match=says):
        sockperf_read(tmp_path, sockperf_said(10, 10, (5, 5)), line)


DNSPERF = """\
1795922057.800000: 0.000000
1795922057.900000: 100.000000
1795922058.000000: 90.000000
> NOERROR www.switchmark.test A 0.000200
> NOERROR www.switchmark.test A 0.000400
  Queries sent:         20
  Queries completed:    19 (95.00%)
  Average packet size:  request 34, response 50
  Run time (s):         0.200000
"""


def test_dnsperf_is_read_to_the_delay() -> None:
    reading = dnsperf.read(program(DNSPERF, "dnsperf client"), program(""))
    assert (reading.sent, reading.done) == (20, 19)
    assert (reading.payload_forth, reading.payload_back) == (680, 950)
    assert [one.frames for one in reading.client.counts] == [10, 9]
    assert reading.round_trips is not None and reading.round_trips.max_ns == 400_000


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("Queries sent:         20", "Queries sent: many"), "Queries sent"),
        (("Queries completed:    19", "Queries completed:    1"), "contradict"),
        (("Run time (s):         0.200000", ""), "no run time"),
        (("> NOERROR", "> SERVFAIL"), "no answer"),
    ],
)
def test_dnsperf_with_hostile_output_is_refused(change: tuple[str, str], says: str) -> None:
    with pytest.raises(TrialFailed, match=says):
        dnsperf.read(program(DNSPERF.replace(*change), "dnsperf client"), program(""))


H2LOAD = """\
finished in 200.00ms, 15.00 req/s, 1.00KB/s
requests: 3 total, 3 started, 3 done, 3 succeeded, 0 failed, 0 errored, 0 timeout
traffic: 300B (300) total, 200B (200) headers (space savings 0.00%), 100B (100) data
"""


def h2load_read(tmp_path: Path, printed: str, log: str) -> WorkloadReading:
    path = tmp_path / "log.tsv"
    path.write_text(log)
    requested = job(workload="http", generator="h2load")
    return h2load.read(requested, program(printed, "h2load client"), path, ("nginx",), "1.22.1")


def test_h2load_counts_requests_by_interval(tmp_path: Path) -> None:
    log = "1000000\t200\t500\n1050000\t200\t500\n1120000\t200\t500\n"
    reading = h2load_read(tmp_path, H2LOAD, log)
    assert [one.frames for one in reading.server.counts] == [2, 1]
    assert (reading.done, reading.payload_back, reading.payload_forth) == (3, 300, None)


@pytest.mark.parametrize(
    ("printed", "log", "says"),
    [
        ("", "1\t200\t5\n", "no counts"),
        (H2LOAD, "", "no answer"),
        (H2LOAD, "1\t200\n", "not understood"),
        (H2LOAD, "1\t200\t" + "9" * 40 + "\n", "not understood"),
        (H2LOAD, "\x1b[2J\n", "not understood"),
    ],
)
def test_h2load_with_hostile_output_is_refused(
    tmp_path: Path, printed: str, log: str, says: str
) -> None:
    with pytest.raises(TrialFailed, match=says):
        h2load_read(tmp_path, printed, log)
