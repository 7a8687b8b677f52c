"""Foreign generators: counts of real output are exact, and errors are one line."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.campaign.expand import expand, leave_out_unable
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed, installed
from switchmark.campaign.load import load_settings
from switchmark.errors import TrialFailed, UsageError
from switchmark.experiment.steps import Step, _Question, leave_out_unavailable, plan_steps
from switchmark.instrument import iperf3, moongen, pkt_gen, sockperf, testpmd, trex
from switchmark.instrument.registry import INSTRUMENTS, generator_names
from switchmark.instrument.support import sockperf_log
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.polled_run import final_count
from switchmark.instrument.support.reading import CountedInterval, EndReading, Reading
from switchmark.instrument.support.udp import payload_bytes
from switchmark.model.campaign import CampaignDefinition, TrimPolicy
from switchmark.model.capabilities import available, unavailable
from switchmark.model.choices import OWN_ENGINE
from switchmark.model.node import NodePort
from switchmark.model.parameter_table import point_of
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from switchmark.record import InstrumentNote, Latency, Record
from switchmark.record.marks import marks_are_valid
from switchmark.report.html import write_report
from switchmark.report.tables import tails_table
from switchmark.results import export
from switchmark.results.query import read_table
from switchmark.results.summary import summarise
from switchmark.trial import foreign, instrument_run
from switchmark.trial.instrument_run import InstrumentRun
from tests.unit.instrument_fakes import FakeProgram, function_load, program, recorded
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.trial_fakes import trial

THERE = installed()


def planned(installation: Installed = THERE, **given: str) -> list[Trial]:
    campaign = load_settings(
        {"switch": "linux-bridge", "duration": "2s", **given}, installation.known, name="c"
    )
    return expand(campaign, installation.switches, installation.environments)


ACL = {"switch": "linux-router", "function": "route+acl", "rules": "25"}


def refusal(**given: str) -> str:
    with pytest.raises(UsageError) as caught:
        planned(**given)
    assert caught.value.exit_code == 2
    return str(caught.value)


def station(name: str, end: int) -> Station:
    port = NodePort(PortKind.VETH, f"02:53:4d:00:00:0{end + 1}", f"10.64.0.{end + 1}/24")
    return Station(name, port, (end,), lambda args: FakeProgram(""))


def job(folder: Path = Path("/nonexistent"), **fields: Any) -> Job:
    return Job(trial(**fields), station("tx0", 0), station("rx0", 1), folder, 0.1)


def test_the_folder_is_the_registry() -> None:
    assert generator_names()[0] == OWN_ENGINE
    assert {"iperf3", "sockperf", "testpmd"} <= set(INSTRUMENTS)
    for name in INSTRUMENTS:
        capabilities = INSTRUMENTS[name]().abilities
        assert INSTRUMENTS[name]().name == name
        assert capabilities.cannot_know, "none knows all that our engine does"


@pytest.mark.parametrize(
    ("generator", "given"),
    [
        ("testpmd", {**ACL, "flows": "1"}),
        ("pkt-gen", {"switch": "linux-router", "function": "route+policer"}),
        ("pktgen-dpdk", {**ACL, "duration": "3s"}),
        ("trex", {**ACL, "burst": "1", "flows": "1000", "ip_version": "6", "packet_size": "128"}),
        ("trex", {"burst": "1", "function": "forward+vxlan", "direction": "decap",
                  "packet_size": "128", "flows": "50", "tunnels": "5"}),
        ("moongen", {"switch": "ovs-netdev", "function": "forward+vlan", "direction": "pop",
                     "packet_size": "128"}),
    ],
)  # fmt: skip
def test_instruments_take_part_in_functions(generator: str, given: dict[str, str]) -> None:
    (item,) = planned(generator=generator, **given)
    assert item.generator == generator and not item.function.is_plain


def test_testpmd_sends_the_flow_of_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its addresses and ports, and the router's MAC address as the next hop."""
    consoles: list[list[str]] = []

    def console(expected: str, job: Job, station: Station, options: list[str]) -> None:
        consoles.append(options)

    monkeypatch.setattr(testpmd, "_Console", console)
    monkeypatch.setattr(testpmd, "start_in_another_group", lambda target, start: start())
    monkeypatch.setattr(testpmd, "PolledRun", lambda *parts: parts)
    _, load = function_load("route+acl", rules=25, routes=10)
    testpmd.TestpmdInstrument().launch(replace(job(), load=load))
    frame = load[0].frame
    assert f"--eth-peer=0,{frame.destination_mac}" in consoles[1]
    assert frame.destination_mac == "02:72:00:00:00:00"
    assert f"--tx-ip={frame.source},{frame.destination}" in consoles[1]
    assert f"--tx-udp={frame.source_port},{frame.destination_port}" in consoles[1]


def test_trial_of_the_engine_keeps_id_and_notation() -> None:
    (own_value,) = planned()
    (other,) = planned(generator="iperf3")
    assert own_value.generator == OWN_ENGINE
    assert own_value.id != other.id
    assert own_value.model_copy(update={"generator": "iperf3"}).id == other.id


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"generator": "iperf4"}, "iperf3"),
        ({"generator": "iperf3", "dimension": "latency"}, "dimension: throughput"),
        ({"generator": "sockperf"}, "dimension: latency"),
        ({"generator": "iperf3", "method": "ndr-pdr"}, "method: plain"),
        ({"generator": "iperf3", "pairs": "2"}, "pairs: 1"),
        ({"generator": "iperf3", "scenario": "pairs-3"}, "pairs: 1"),
        ({"generator": "iperf3", "duration": "1500ms"}, "whole seconds"),
        ({"generator": "iperf3", "interval": "10ms"}, "interval: 0.1s"),
        ({"generator": "iperf3", "burst": "2000"}, "smaller burst"),
        ({"generator": "iperf3", "environment": "lxc"}, "environment: netns"),
        ({"generator": "iperf3", "switch": "basicfwd"}, "veth"),
        ({"generator": "iperf3", "io": "raw"}, "io: auto"),
        ({"generator": "iperf3", "flows": "100"}, "flows: 1"),
        ({"generator": "iperf3", "vlan": "100", "packet_size": "128"}, "vlan: none"),
        ({"generator": "iperf3", "ip_version": "6", "packet_size": "128"}, "ip_version: 4"),
        ({"generator": "iperf3", "packet_mix": "imix"}, "packet_mix: none"),
        ({"generator": "iperf3", "bidirectional": "true"}, "bidirectional: false"),
        ({"generator": "iperf3", "schedule": "poisson", "rate": "10k"}, "schedule: constant"),
        ({"generator": "iperf3", "idle": "yield"}, "idle: auto"),
        ({"generator": "iperf3", **ACL}, "cannot send the load of route+acl: its frames have the"),
        ({"generator": "sockperf", **ACL}, "cannot send the load of route+acl"),
        ({"generator": "testpmd", **ACL, "flows": "10"}, "at most 1 flow of route+acl, not 10"),
        ({"generator": "pkt-gen", **ACL, "flows": "10"}, "use flows: 1"),
        ({"generator": "pktgen-dpdk", **ACL, "duration": "3s", "flows": "2"}, "use flows: 1"),
        ({"generator": "trex", **ACL, "burst": "1", "flows": "2000"}, "use flows: 1000"),
        ({"generator": "moongen", **ACL, "flows": "20k"}, "use flows: 10000"),
        ({"generator": "moongen", **ACL, "flows": "10:zipf=1"}, "flows in turn"),
        ({"generator": "testpmd", **ACL, "ip_version": "6", "packet_size": "128"}, "ip_version: 4"),
        ({"generator": "testpmd", "function": "forward+mirror"}, "copies of mirror are counted"),
        (
            {
                "generator": "testpmd",
                "function": "forward+vxlan",
                "direction": "decap",
                "packet_size": "128",
            },
            "cannot send frames with outer headers",
        ),
        (
            {
                "generator": "pkt-gen",
                "switch": "ovs-netdev",
                "function": "forward+vlan",
                "direction": "pop",
                "packet_size": "128",
            },
            "cannot send frames with a tag",
        ),
        ({"generator": "testpmd", "rate": "10k"}, "rate: max"),
        ({"generator": "testpmd", "packet_size": "9000"}, "smaller size"),
        ({"generator": "testpmd", "dimension": "latency"}, "dimension: throughput"),
        ({"generator": "sockperf", "dimension": "latency", "burst": "4"}, "bursts of 1"),
        ({"generator": "sockperf", "dimension": "latency", "rate": "2M"}, "lower rate"),
        ({"generator": "sockperf", "dimension": "latency", "rate": "1Gbps-l1"}, "lower rate"),
        ({"generator": "sockperf", "dimension": "latency", "probe_rate": "1k"}, "probe_rate: none"),
    ],
)
def test_unsupported_keys_are_refused_with_place_and_remedy(
    given: dict[str, str], says: str
) -> None:
    output = refusal(**given)
    assert says in output
    assert "generator" in output


def test_a_rate_in_bits_is_one_in_frames_to_an_instrument() -> None:
    (item,) = planned(generator="sockperf", dimension="latency", rate="100Mbps-l1")
    assert item.rate_pps == 148_810


def test_iperf3_takes_the_port_that_it_can() -> None:
    """Where the switch's best would be a vhost-user socket."""
    (item,) = planned(generator="iperf3", switch="direct")
    assert item.port_kind is PortKind.VETH


@pytest.mark.parametrize(("frame", "payload"), [(64, 18), (512, 466), (1518, 1472)])
def test_a_datagram_fills_the_frame_with_fcs(frame: int, payload: int) -> None:
    assert payload_bytes(trial(packet_size_bytes=frame)) == payload


def test_iperf3_is_asked_for_the_rate_in_bits_of_payload() -> None:
    started = INSTRUMENTS["iperf3"]().launch(job(packet_size_bytes=512, rate_pps=20_000, burst=32))
    command = cast(Any, started)._client_command(2.0)
    assert command[command.index("-b") + 1] == f"{20_000 * 466 * 8}/32"
    assert command[command.index("-l") + 1] == "466"
    fast = INSTRUMENTS["iperf3"]().launch(job(packet_size_bytes=64))
    command = cast(Any, fast)._client_command(2.0)
    assert command[command.index("-b") + 1] == "0"


def test_iperf3_is_read_to_the_frame() -> None:
    """A run that lost more than half of its datagrams at the receiving socket."""
    observed = iperf3._read(
        program(recorded("iperf3-client.json")),
        program(recorded("iperf3-server.json"), "iperf3 server"),
    )
    assert (observed.source.frames, observed.target.frames) == (277_890, 277_890 - 175_447)
    assert observed.source.version == "3.12"
    assert observed.duration_ns == pytest.approx(1e9, rel=0.01)
    for end in (observed.source, observed.target):
        assert sum(one.frames for one in end.counts) == pytest.approx(end.frames, rel=0.01)
    assert observed.reordered == 0
    assert observed.duplicates is None, "it does not know"


def test_error_of_iperf3_is_reported() -> None:
    with pytest.raises(TrialFailed, match="unable to connect to server: Connection refused"):
        iperf3._report(program(recorded("iperf3-refused.json")))


def _changed(**end: Any) -> str:
    message = json.loads(recorded("iperf3-client.json"))
    message["end"]["sum"] |= end
    return json.dumps(message)


@pytest.mark.parametrize(
    ("printed", "says"),
    [
        ("", "no JSON: nothing"),
        ("Segmentation fault", "no JSON: Segmentation fault"),
        ("[]", "its result"),
        ("{}", "start"),
        ("null", "its result"),
        ('{"start": {"version": "x"}, "intervals": 5, "end": {}}', "start.test_start"),
        (_changed(packets=1 << 70), "end.sum.packets"),
        (_changed(seconds=float("inf")), "end.sum.seconds"),
        (_changed(packets=-1), "end.sum.packets"),
        (_changed(packets="many"), "end.sum.packets"),
        (_changed(seconds=float("nan")), "end.sum.seconds"),
        ("[" * 100_000, "no JSON"),
        ('{"error": "\\u001b[31mred\\nand more"}', "failed: "),
    ],
)
def test_hostile_words_of_iperf3_end_in_one_line(printed: str, says: str) -> None:
    with pytest.raises(TrialFailed) as caught:
        iperf3._report(program(printed))
    assert says in str(caught.value)
    assert "\n" not in str(caught.value)
    assert "iperf3 client in tx0" in str(caught.value)


def _statistics() -> list[str]:
    """The answers of testpmd to two commands."""
    answers = recorded("testpmd-sender.txt").split("testpmd> show port stats 0")[1:]
    return [one.split("testpmd>")[0] for one in answers]


def _console(answer: Callable[[str], str]) -> tuple[testpmd._Console, FakeProgram]:
    fake = FakeProgram("", answer=answer)
    port = NodePort(PortKind.VETH, "02:53:4d:00:00:01", "10.64.0.1/24", device_inside="eth0")
    where = Station("tx0", port, (1,), lambda args: fake)
    return testpmd._Console("sender", job(), where, ["--forward-mode=txonly"]), fake


def test_two_testpmds_in_one_namespace_have_other_groups(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """net_af_packet numbers it by process and interface: 6 ^ 2 is 7 ^ 3, and the kernel refuses."""
    devices, pids, result = {"tx": 2, "rx": 3}, iter([7, 6, 8]), list[FakeProgram]()
    monkeypatch.setattr("socket.if_nametoindex", devices.__getitem__)

    def end(device: str) -> Station:
        def spawn(command: Sequence[str]) -> FakeProgram:
            result.append(FakeProgram("", answer=lambda line: ""))
            result[-1].pid = next(pids)
            return result[-1]

        port = NodePort(PortKind.VETH, "02:53:4d:00:00:01", "10.64.0.1/24", device_inside=device)
        return Station(f"{device}0", port, (1,), spawn)

    both = replace(job(), source=end("tx"), target=end("rx"))
    run = testpmd.TestpmdInstrument().launch(both)
    assert [one.ended for one in result] == [False, True, False]
    assert run.process_ids() == [7, 8]


def test_testpmd_is_read_at_its_prompt() -> None:
    """The time between two answers follows from the rate that testpmd prints."""
    answers = iter(_statistics())
    console, fake = _console(lambda line: next(answers))
    for _ in range(2):
        console.read()
        console.wait_answer(1.0)
    assert fake.written == ["show port stats 0"] * 2
    assert console.frames == console.report()["TX-packets"] == 69_450_240
    (observed,) = console.counts(0, 0)
    assert observed.frames == 69_450_240 - 32_088_160
    assert observed.duration_ns == pytest.approx(observed.frames * 1e9 / 37_494_758, rel=1e-6)


def test_testpmd_reads_on_until_nothing_comes() -> None:
    first, last = _statistics()
    answers = iter([first, last, last, last])
    console, _ = _console(lambda line: next(answers))
    assert final_count(console, math.inf) == 69_450_240


def test_output_is_read_also_late() -> None:
    """As after a pause of the machine in which the deadline went by."""
    first, last = _statistics()
    console, _ = _console(lambda line: last)
    console.read()
    console.wait_answer(0.0)
    assert final_count(console, 0.0) == console.frames == 69_450_240
    answers = iter([first, last])
    console, _ = _console(lambda line: next(answers))
    with pytest.raises(TrialFailed, match="still counts frames"):
        final_count(console, 0.0)


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        ("# NIC statistics for port 0  #\n####", "without TX-packets and Tx-pps"),
        ("# NIC statistics for port 0  #\nTX-packets: many Tx-pps: 5\n####", "without TX-packets"),
        ("Bad arguments", "did not answer"),
    ],
)
def test_hostile_words_of_testpmd_end_in_one_line(answer: str, says: str) -> None:
    console, _ = _console(lambda line: answer)
    console.read()
    with pytest.raises(TrialFailed, match=says) as caught:
        console.wait_answer(0.05)
    assert "\n" not in str(caught.value)
    assert "testpmd sender in tx0" in str(caught.value)


def test_a_testpmd_that_has_ended_is_quoted() -> None:
    console, fake = _console(lambda line: "")
    fake.lines.append("EAL: FATAL: Cannot get hugepage information.")
    fake.ended, fake.exit_code = True, 1
    with pytest.raises(TrialFailed, match="takes no more commands: EAL: FATAL: Cannot get huge"):
        console.read()


@given(st.text(max_size=300))
def test_any_text_is_refused_in_one_line(text: str) -> None:
    with pytest.raises(TrialFailed) as caught:
        iperf3._report(program(text))
    assert "\n" not in str(caught.value)


def test_recorded_output_is_bounded() -> None:
    """A program in its place that prints what no JSON has does not end a campaign."""
    message = json.loads(recorded("iperf3-client.json"))
    message["start"]["cookie"] = float("nan")
    message["intervals"][0]["sum"]["seconds"] = 1e-12
    client, server = program(json.dumps(message)), program(recorded("iperf3-server.json"))
    observed = iperf3._read(client, server)
    assert set(observed.source.report) == {"start", "end"}
    assert "NaN" not in json.dumps(observed.source.report)
    assert all(one.duration_ns > 0 for one in observed.source.counts)


def test_more_received_than_sent_fails_the_trial() -> None:
    client, server = program(_changed(packets=10)), program(recorded("iperf3-server.json"))
    with pytest.raises(TrialFailed, match="contradict"):
        iperf3._read(client, server)


def _sockperf(tmp_path: Path, log: str | None = None, message: str | None = None) -> Reading:
    path = tmp_path / "log.csv"
    path.write_text(recorded("sockperf-log.csv") if log is None else log)
    client = program(
        recorded("sockperf-client.txt") if message is None else message, "sockperf client"
    )
    return sockperf._read(path, client, program(recorded("sockperf-server.txt")))


def test_sockperf_is_read_to_the_round_trip(tmp_path: Path) -> None:
    """Its own percentiles are those of the distribution that was made of its log."""
    reading, message = _sockperf(tmp_path), recorded("sockperf-client.txt")
    assert reading.round_trips is not None
    (observations,) = [line for line in message.splitlines() if "observations" in line][:1]
    assert f"Total {reading.round_trips.histogram.count} observations" in observations
    for name, engine_value in (
        ("percentile 50.000", reading.round_trips.histogram.percentiles_ns()["50"]),
        ("<MAX> observation", reading.round_trips.max_ns),
        ("<MIN> observation", reading.round_trips.min_ns),
    ):
        (line,) = [line for line in message.splitlines() if name in line]
        assert engine_value / 1e3 == pytest.approx(float(line.rpartition("=")[2]), rel=0.02)
    assert (reading.source.frames, reading.answered) == (201, 201)
    assert (reading.duplicates, reading.reordered) == (0, 0)
    assert not (tmp_path / "log.csv").exists(), "it is large"


def _log(*lines: str) -> str:
    return "\n".join([sockperf_log.COLUMNS, *lines, "-" * 30])


@pytest.mark.parametrize(
    ("log", "says"),
    [
        ("", "had no answer"),
        (_log(), "had no answer"),
        (_log("0, 1, 2"), "not understood"),
        (_log("a, b, c, d"), "not understood"),
        (_log("0, 1.0, 2.0, inf"), "not understood"),
        (_log("0, 1.0, 2.0, nan"), "not understood"),
        (_log("0, 1.0, 2.0, -4"), "round trip of -4 us"),
        (_log("0, 1.0, 2.0, 1e300"), "round trip of 1e300 us"),
        (_log(*["0, 1.0, 2.0, 5"] * 500), "contradict"),
    ],
)
def test_hostile_logs_of_sockperf_end_in_one_line(tmp_path: Path, log: str, says: str) -> None:
    with pytest.raises(TrialFailed, match=says) as caught:
        _sockperf(tmp_path, log)
    assert "\n" not in str(caught.value)


def test_a_server_that_does_not_answer_is_named(tmp_path: Path) -> None:
    with pytest.raises(TrialFailed, match="Is the server down"):
        _sockperf(tmp_path, message=recorded("sockperf-unanswered.txt"))


def test_a_program_that_fails_is_quoted() -> None:
    with pytest.raises(TrialFailed, match=r"iperf3 client in tx0 ended with exit code 1: oh no"):
        end = program("oh no", exit_code=1)
        end.wait_end(0.1)


S = 1_000_000_000


def _end(frames: int, each: int) -> EndReading:
    counts = tuple(CountedInterval((k + 1) * S // 10, S // 10, each) for k in range(20))
    return EndReading(("x",), "1.0", frames, counts)


def _measured(reading: Reading, **fields: Any) -> Any:
    run = SimpleNamespace(
        measure=lambda tick: reading, begun_ns=5 * S, socket_drops=3, cpu=lambda: None
    )
    requested = trial(generator="iperf3", **fields)
    policy = TrimPolicy().over(requested.duration_s)
    return foreign.measure(requested, cast(InstrumentRun, run), policy, lambda: None)


def test_three_loads_from_the_instruments_own_counts() -> None:
    reading = Reading(_end(20_000, 1000), _end(19_000, 950), 2 * S, reordered=19)
    observed = _measured(reading, duration_s=2.0, rate_pps=10_000, packet_size_bytes=64)
    loads = observed.figures.throughput
    assert (loads.intended_pps, loads.offered_pps, loads.forwarded_pps) == (10_000, 10_000, 9_500)
    assert loads.loss_ratio == 0.05
    assert loads.forwarded_l2_bps == 9_500 * 64 * 8
    assert loads.pairs[0].duplicates is None
    assert loads.reordered_ratio == 0.001
    assert observed.socket_drops == 3
    assert observed.on_schedule
    assert 0 < observed.trim.samples_kept < 20
    assert observed.trim.kept_from_ns > 5 * S


def test_a_sender_below_its_rate_has_missed_its_schedule() -> None:
    reading = Reading(_end(19_000, 950), _end(19_000, 950), 2 * S)
    assert not _measured(reading, duration_s=2.0, rate_pps=10_000).on_schedule
    assert marks_are_valid(["schedule-missed"])


def test_missing_samples_fail_the_trial() -> None:
    empty = EndReading(("x",), "1.0", 10)
    with pytest.raises(TrialFailed, match="iperf3's receiver"):
        _measured(Reading(_end(20_000, 1000), empty, 2 * S), duration_s=2.0)


def _by_sockperf(trial: Trial) -> Record:
    """A record like that of the engine, without the information that sockperf lacks."""
    record = synthetic_record(trial)
    assert record.latency is not None
    late = {name: None for name in Latency.model_fields if name.startswith("intended_")}
    late |= {"intended_percentile_intervals_ns": {}}
    note = InstrumentNote(
        name="sockperf", version="3.7", cannot_know=["when a request was due"],
        sent_frames=10, received_frames=10, device_sent_frames=12, device_received_frames=12,
    )  # fmt: skip
    output = {"latency": record.latency.model_copy(update=late), "instrument": note}
    return Record.model_validate(record.model_copy(update=output).model_dump(mode="json"))


def test_results_say_what_is_not_known(tmp_path: Path) -> None:
    requested = synthetic_trial(dimension="latency", generator="sockperf")
    records = [_by_sockperf(requested.repeated(number)) for number in range(2)]
    run = write_run(tmp_path / "results", records)
    (row,) = summarise(run, read_table(run), with_curves=True)
    assert row.latency is not None and row.latency.curve is not None
    assert row.latency.intended_percentiles_ns == {}
    assert row.latency.intended_curve is None
    assert row.remarks == (
        "traffic by sockperf 3.7, which does not report: when a request was due",
    )
    assert export.flat_rows([row])[0]["rtt_intended_p99_ns"] is None
    (_, due) = tails_table([row]).lines
    assert due[3:] == ("-",) * 6
    page = tmp_path / "report.html"
    assert write_report(run, page) == []
    assert "Traffic by sockperf 3.7" in page.read_text()


def _built_in(installation: Installed = THERE) -> CampaignDefinition:
    return find_campaign("instruments", installation.known)


def test_the_comparison_has_each_instrument_where_it_can() -> None:
    campaign = _built_in()
    trials = expand(campaign, THERE.switches, THERE.environments)
    where = {(item.dimension.value, item.rate_pps): set[str]() for item in trials}
    for item in trials:
        where[item.dimension.value, item.rate_pps].add(item.generator)
    named = {"pkt-gen", "trex", "moongen"}  # found by environment variables
    assert where == {
        ("throughput", 20_000): {OWN_ENGINE, "iperf3", *named},
        ("throughput", None): {OWN_ENGINE, "iperf3", "testpmd", *named},
        ("latency", 1_000): {OWN_ENGINE, "sockperf"},
    }
    assert len({point_of(item) for item in trials}) == 3, "compared at three points"
    _, reasons = leave_out_unable(campaign, THERE.switches, THERE.environments)
    assert any("sockperf measures no throughput" in reason for reason in reasons)


def test_missing_generator_is_left_out_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = unavailable("program `iperf3` not found", remedy="apt install iperf3")
    for absent in (pkt_gen.PktGen, trex.Trex, moongen.MoonGen):
        monkeypatch.setattr(absent, "availability", lambda self: gone)
    monkeypatch.setattr(iperf3.Iperf3, "availability", lambda self: gone)
    monkeypatch.setattr(testpmd.TestpmdInstrument, "availability", lambda self: available("22.11"))
    monkeypatch.setattr(sockperf.Sockperf, "availability", lambda self: available("3.7"))
    monkeypatch.setattr("switchmark.experiment.steps._switch_availabilities", _all_there)
    steps = plan_steps(_built_in(), THERE)
    saved, reasons = leave_out_unavailable(steps)
    why = "program `iperf3` not found; apt install iperf3"
    absent_names = ("iperf3", "moongen", "pkt-gen", "trex")
    assert sorted(reasons) == [f"generator {name}: {why}" for name in absent_names]
    assert {step.plan.trial.generator for step in saved} == {OWN_ENGINE, "sockperf", "testpmd"}


def _all_there(steps: Sequence[Step]) -> Any:
    return {_Question.of(step): available("here") for step in steps}


def test_counters_of_an_instrument_are_those_of_an_engine() -> None:
    """The bench reads them as it reads those of an engine: each field that an engine has is valid,
    those that an instrument does not know."""
    found = instrument_run.counters_of_devices(3, 5)
    assert (found.rx_other, found.tx_offered) == (3, 5)
    assert found.ticks == found.t_ns and found.tsc_hz == 1e9
