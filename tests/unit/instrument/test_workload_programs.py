"""Programs that run applications: their output is read exactly, hostile output is refused."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from switchmark.errors import ContradictoryCounts, TrialFailed
from switchmark.instrument import dnsperf, h2load, iperf3, memtier, redis_benchmark, wrk2
from switchmark.instrument.support import iperf3_tcp, sockperf_rr
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.program import THIS_HOST, held_program
from switchmark.instrument.support.workload import WorkloadReading
from switchmark.model.choices import Dimension
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from tests.unit.instrument_fakes import FakeProgram, program, recorded
from tests.unit.trial_fakes import trial

if TYPE_CHECKING:
    from switchmark.instrument.support.redis import Redis

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
    return sockperf_rr.read(requested, path, program(output, "sockperf client"), program(""))


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
    reading = dnsperf.read(THIS_HOST, program(DNSPERF, "dnsperf client"), program(""))
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
        dnsperf.read(THIS_HOST, program(DNSPERF.replace(*change), "dnsperf client"), program(""))


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


def redis_read(printed: str, answered: int) -> WorkloadReading:
    server = cast("Redis", SimpleNamespace(command=("redis-server",), version="7.0.15"))
    requested = job(workload="redis", generator="redis-benchmark", response_bytes=100)
    return redis_benchmark.read(requested, program(printed), server, 0.6, answered)


REDIS = (
    "get switchmark-1: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r    \r"
    "get switchmark-1: rps=4000.0 (overall: 4000.0) avg_msec=0.055 (overall: 0.055)\r    \r"
    "get switchmark-1: rps=2000.0 (overall: 3000.0) avg_msec=0.069 (overall: 0.061)\r"
)


def test_redis_benchmark_is_counted_by_the_server() -> None:
    """Its rates are those of quarters of a second; the line at its start has none."""
    reading = redis_read(REDIS, 1700)
    assert [one.frames for one in reading.client.counts] == [1000, 500]
    assert {one.duration_ns for one in reading.client.counts} == {250 * MS}
    assert (reading.sent, reading.done, reading.payload_back) == (1700, 1700, 170_000)
    assert reading.round_trips is None, "a closed loop"


@pytest.mark.parametrize(("printed", "answered"), [("", 5), (REDIS, 0), ("rps=9e9 (overall: ", 5)])
def test_redis_benchmark_without_answers_is_refused(printed: str, answered: int) -> None:
    with pytest.raises(TrialFailed, match="no answer"):
        redis_read(printed, answered)


MEMTIER: dict[str, Any] = {
    "ALL STATS": {
        "Runtime": {"Total duration": 2010},
        "Gets": {
            "Count": 310,
            "Misses/sec": 0.0,
            "Time-Serie": {"0": {"Count": 100}, "1": {"Count": 200}, "2": {"Count": 10}},
        },
    }
}


def memtier_read(tmp_path: Path, printed: str) -> WorkloadReading:
    file = tmp_path / "report.json"
    file.write_text(printed)
    requested = job(workload="redis", generator="memtier", response_bytes=100)
    return memtier.read(requested, program("", "memtier client"), file, ("redis-server",), "7")


def test_memtier_is_counted_by_whole_seconds(tmp_path: Path) -> None:
    reading = memtier_read(tmp_path, json.dumps(MEMTIER))
    assert [one.frames for one in reading.server.counts] == [100, 200]
    assert (reading.done, reading.payload_back, reading.duration_ns) == (310, 31_000, 2010 * MS)
    assert not (tmp_path / "report.json").exists()


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("Count", -1, "Count"),
        ("Count", 1 << 60, "Count"),
        ("Misses/sec", 3.0, "no answer with the value"),
        ("Time-Serie", {"x": {"Count": 1}}, "Time-Serie"),
        ("Time-Serie", {"0": {}}, "Count"),
    ],
)
def test_memtier_with_a_hostile_report_is_refused(
    tmp_path: Path, field: str, value: object, says: str
) -> None:
    changed = json.loads(json.dumps(MEMTIER))
    changed["ALL STATS"]["Gets"][field] = value
    with pytest.raises(TrialFailed, match=says):
        memtier_read(tmp_path, json.dumps(changed))


WRK2_SECTION = """\
       Value   Percentile   TotalCount 1/(1-Percentile)

       0.100     0.000000            1         1.00
       0.500     0.500000           50         2.00
     399.359     1.000000          100          inf
#[Mean    =        0.457, StdDeviation   =       12.649]
#[Max     =      399.104, Total count    =          100]
#[Buckets =           27, SubBuckets     =         2048]
"""
WRK2 = f"""\
  Latency Distribution (HdrHistogram - Recorded Latency)
 50.000%    0.89ms
{WRK2_SECTION}
  Latency Distribution (HdrHistogram - Uncorrected Latency (measured without delayed starts))
{WRK2_SECTION}
  1400 requests in 14.00s, 2.00KB read
Requests/sec:    100.00
"""


def wrk2_read(printed: str) -> WorkloadReading:
    requested = job(workload="http", generator="wrk2", dimension=Dimension.LATENCY, rate_pps=100)
    return wrk2.read(requested, program(printed, "wrk2 client"), ("nginx",), "1.22.1")


def test_wrk2_is_read_to_the_count_of_each_percentile() -> None:
    reading = wrk2_read(WRK2)
    assert (reading.sent, reading.done, reading.payload_back) == (1400, 1400, 2048)
    assert reading.from_due is not None and reading.round_trips is not None
    assert reading.from_due.histogram.count == 100
    assert (reading.from_due.min_ns, reading.from_due.max_ns) == (100_000, 399_359_000)
    low, high = reading.from_due.histogram.percentiles_ns(["50", "51"]).values()
    assert low == pytest.approx(500_000, rel=0.01) and high > 300 * MS


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (("1400 requests", "many requests"), "no counts"),
        (("1400 requests", "99 requests"), "contradict"),
        (("Uncorrected Latency", "Other"), "no percentiles"),
        (("0.500     0.500000           50", "0.050     0.500000           50"), "go down"),
        (("#[Mean", "#[Other"), "no percentiles"),
    ],
)
def test_wrk2_with_hostile_output_is_refused(change: tuple[str, str], says: str) -> None:
    with pytest.raises(TrialFailed, match=says):
        wrk2_read(WRK2.replace(*change))


def test_iperf3_paces_datagrams_in_bits_of_payload() -> None:
    requested = job(
        workload="udp-stream", generator="iperf3", rate_pps=5_000_000, datagram_bytes=1000
    )
    command = iperf3._client(requested, 2.0)
    options = dict(pairwise(command))
    assert (options["-l"], options["-b"]) == ("1000", "5000000") and "-u" in command


def test_iperf3_counts_the_payload_of_datagrams() -> None:
    reading = iperf3._read_stream(
        1000, program(recorded("iperf3-client.json")), program(recorded("iperf3-server.json"))
    )
    frames = iperf3._read(
        program(recorded("iperf3-client.json")), program(recorded("iperf3-server.json"))
    )
    assert reading.sent == 1000 * frames.source.frames
    assert reading.done == reading.payload_forth == 1000 * frames.target.frames
    assert sum(one.frames for one in reading.client.counts) == reading.sent


def test_held_program_starts_with_the_first_line(tmp_path: Path) -> None:
    """Without a line, when the bench has died, it does not start."""
    spawned: list[list[str]] = []

    def spawn(args: Sequence[str]) -> FakeProgram:
        spawned.append(list(args))
        return FakeProgram("")

    station = replace(job().source, spawn=spawn)
    end = held_program("touch client", station, ["touch", str(tmp_path / "a file")])
    assert end.command == ["touch", str(tmp_path / "a file")]
    (command,) = spawned
    assert subprocess.run(command, input="", text=True, check=False).returncode != 0
    assert not (tmp_path / "a file").exists()
    subprocess.run(command, input="\n", text=True, check=True)
    assert (tmp_path / "a file").exists()
