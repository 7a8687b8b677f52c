"""netmap's pkt-gen as a generator: counts of real output are exact, and errors are one line."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.campaign.port_kinds import usable_ports
from switchmark.errors import TrialFailed, UsageError
from switchmark.host.host import Spawned
from switchmark.instrument import pkt_gen
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support import pkt_gen_words
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.named import build_of
from switchmark.model.node import NodePort
from switchmark.model.ports import MadePort, PortKind
from switchmark.model.trial import Trial
from switchmark.trial.foreign import ON_SCHEDULE_SHARE
from tests.unit.instrument_fakes import FakeProgram, function_load, program, recorded
from tests.unit.trial_fakes import trial

THERE = installed()
SENT, RECEIVED = recorded("pkt-gen-sender.txt"), recorded("pkt-gen-receiver.txt")
LESS = RECEIVED.replace("Received 5000 packets", "Received 4990 packets")


def planned(**given: str) -> list[Trial]:
    settings = {"switch": "vale", "rate": "5k", "duration": "1s", "generator": "pkt-gen", **given}
    campaign = load_settings(settings, THERE.known, name="c")
    return expand(campaign, THERE.switches, THERE.environments)


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    installation = tmp_path / "pkt-gen"
    installation.write_text("#!/bin/sh\n")
    installation.chmod(0o755)
    monkeypatch.setenv(pkt_gen.SETTING, str(installation))
    return installation


class Desk:
    """Programs that print what was recorded, in the order of their start, and their commands."""

    def __init__(self, *printed: str) -> None:
        self.printed = list(printed)
        self.commands: list[list[str]] = []

    def spawn(self, args: Sequence[str]) -> Spawned:
        self.commands.append(list(args))
        fake = FakeProgram(self.printed.pop(0))
        fake.pid = -1  # no process
        return fake

    def job(self, kind: PortKind = PortKind.VALE, **fields: object) -> Job:
        def station(name: str, end: int) -> Station:
            vf_port = MadePort(netmap=f"vale0:p{end},netns=/run/netns/sw")
            port = NodePort(
                kind, f"02:53:4d:00:00:0{end + 1}", f"10.64.0.{end + 1}/24",
                peer_mac=f"02:53:4d:00:00:0{2 - end}",
                made_port=vf_port if kind is PortKind.VALE else None,
                device_inside=None if kind is PortKind.VALE else "eth0",
            )  # fmt: skip
            return Station(name, port, (end,), self.spawn)

        return Job(trial(**fields), station("tx0", 0), station("rx0", 1), Path("/nonexistent"), 0.1)


@pytest.fixture(autouse=True)
def no_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pkt_gen, "_interrupt", lambda end: None)


def run(desk: Desk, kind: PortKind = PortKind.VETH, **fields: object) -> pkt_gen.PktGenRun:
    """One whose sender has ended."""
    started = pkt_gen.PktGen().launch(desk.job(kind, **fields))
    started.wait_ready(1.0)
    started.begin(1.0)
    return started


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"switch": "basicfwd"}, "vale and veth"),
        ({"dimension": "latency"}, "dimension: throughput"),
        ({"packet_size": "1600"}, "frames of 1504 bytes at most (1518 with port_kind: vale)"),
        ({"packet_size": "1600", "port_kind": "vale"}, "frames of 1518 bytes at most; use"),
        ({"rate": "2G", "packet_size": "64"}, "lower rate"),
        ({"burst": "1024"}, "bursts of 512"),
        ({"duration": "490s"}, "less than 490 s; use a shorter duration"),
        ({"environment": "lxc"}, "environment: netns"),
        ({"io": "raw"}, "io: auto"),
        ({"vlan": "100", "packet_size": "128"}, "vlan: none"),
        ({"method": "ndr-pdr"}, "method: plain"),
    ],
)
def test_unsupported_keys_are_refused_with_place_and_remedy(
    given: dict[str, str], says: str
) -> None:
    with pytest.raises(UsageError) as caught:
        planned(**given)
    assert says in str(caught.value)


def test_run_may_last_until_its_clock_is_ambiguous() -> None:
    assert planned(duration="489s")


def test_it_takes_ports_of_vale_and_devices() -> None:
    for switch, kind in (("vale", PortKind.VALE), ("linux-bridge", PortKind.VETH)):
        assert planned(switch=switch)
        installation = THERE.environments["netns"]
        ports = usable_ports(THERE.switches[switch], installation, generator="pkt-gen")
        assert ports[0] is kind


def test_where_it_is_missing_the_remedy_is_said(
    monkeypatch: pytest.MonkeyPatch, named: Path
) -> None:
    instrument = INSTRUMENTS["pkt-gen"]()
    monkeypatch.setattr("switchmark.host.kernel.netmap.DEVICE", named.with_name("none"))
    assert "netmap.ko is not loaded" in str(instrument.availability().reason)
    monkeypatch.setattr("switchmark.host.kernel.netmap.DEVICE", Path("/dev/null"))
    assert instrument.availability().version == build_of(named)
    named.chmod(0o644)
    found = instrument.availability()
    assert not found.available
    assert f"SWITCHMARK_PKT_GEN={named}" in str(found.reason)
    monkeypatch.delenv("SWITCHMARK_PKT_GEN")
    monkeypatch.setenv("PATH", str(named.with_name("none")))
    assert "set SWITCHMARK_PKT_GEN" in str(instrument.availability().remedy)


def test_on_vale_a_sender_says_first_whose_the_receivers_port_is(named: Path) -> None:
    desk = Desk(SENT, RECEIVED, SENT)
    run(desk, PortKind.VALE, rate_pps=5000, packet_size_bytes=64, burst=8)
    teaches, receives, sends = desk.commands
    assert all(item[:2] == ["nsenter", "--net=/run/netns/sw"] for item in desk.commands)
    for item, port, function in ((teaches, 1, "tx"), (receives, 1, "rx"), (sends, 0, "tx")):
        assert item[item.index("-i") + 1] == f"vale0:p{port}"
        assert item[item.index("-f") + 1] == function
        assert item[item.index("-l") + 1] == "60", "it counts no FCS"
        assert str(named) in item
    assert teaches[teaches.index("-n") + 1] == "1"
    assert teaches[teaches.index("-S") + 1] == sends[sends.index("-D") + 1] == "02:53:4d:00:00:02"
    assert (sends[sends.index("-R") + 1], sends[sends.index("-n") + 1]) == ("5000", "5000")
    assert sends[sends.index("-b") + 1] == "8"


def test_the_flow_of_a_function_has_its_addresses(named: Path) -> None:
    _, load = function_load("route+acl", rules=25, routes=10)
    desk = Desk(RECEIVED, SENT)
    job = replace(desk.job(PortKind.VETH, rate_pps=None), load=load)
    started = pkt_gen.PktGen().launch(job)
    started.wait_ready(1.0)
    started.begin(1.0)
    sends, frame = desk.commands[1], load[0].frame
    options = dict(itertools.pairwise(sends))
    assert options["-S"] == frame.source_mac
    assert options["-D"] == "02:72:00:00:00:00"  # the router
    assert options["-s"] == f"{frame.source}:{frame.source_port}"
    assert options["-d"] == f"{frame.destination}:{frame.destination_port}"


def test_at_rate_max_it_has_no_number_of_frames(named: Path) -> None:
    desk = Desk(RECEIVED, SENT)
    run(desk, rate_pps=None)
    receives, sends = desk.commands
    assert receives[receives.index("-i") + 1] == "netmap:eth0"
    assert "-R" not in sends and "-n" not in sends


def test_both_are_read_to_the_frame_on_the_senders_time(named: Path) -> None:
    sender = pkt_gen_words.read_words(program(SENT))
    begun_ns, lasted_ns = pkt_gen_words.sent_for(program(SENT), sender)
    assert lasted_ns == 999_750_000, "between the words that it begins and ends with"
    assert ON_SCHEDULE_SHARE * 5000 * lasted_ns / 1e9 <= 5000
    counts = sender.counts(begun_ns, lasted_ns)
    assert [one.frames for one in counts] == [554, 540, 580, 500, 540, 540, 540, 626]
    receiver, total = pkt_gen_words.whole_run(program(RECEIVED))
    assert (sender.total, total) == (5000, 5000)
    assert sum(one.frames for one in receiver.reports) == 5000
    arrived = receiver.counts(begun_ns, lasted_ns)
    assert 0 < len(arrived) < len(receiver.reports)
    assert all(one.duration_ns <= one.t_ns <= lasted_ns for one in (*counts, *arrived))


def test_the_clock_begins_anew_every_thousand_seconds() -> None:
    assert pkt_gen_words.since(999_900_000_000, 100_000_000) == 200_000_000
    assert pkt_gen_words.since(100_000_000, 999_900_000_000) == -200_000_000


def _ending(monkeypatch: pytest.MonkeyPatch, *printed: str) -> Callable[[], object]:
    monkeypatch.setattr(pkt_gen.PktGenRun, "_wait_silence", lambda self, receiver, deadline: None)
    started = run(Desk(*printed))
    return lambda: started.finish(1.0)


def test_a_run_ends_in_a_reading(named: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reading = _ending(monkeypatch, LESS, SENT)()
    assert isinstance(reading, pkt_gen.Reading)
    assert (reading.source.frames, reading.target.frames) == (5000, 4990)
    assert reading.duration_ns == 999_750_000
    assert reading.source.version == build_of(named)
    assert (reading.duplicates, reading.reordered) == (None, None), "it does not know"


@pytest.mark.parametrize(
    ("sender", "says"),
    [
        ("", "did not print its total"),
        ("Segmentation fault", "did not print its total: Segmentation fault"),
        (SENT.replace("Sent 5000", "Sent 99999999999999999999"), "did not print its total"),
        (SENT.replace("Sent 5000 packets 300000 bytes", "Sent nothing."), "sent nothing"),
        (SENT.replace("Sent 5000", "Sent 4999"), "contradict"),
        (SENT.replace("sender_body", "body"), "did not print its begin"),
        (SENT.replace("436.000040", "434.000040"), "printed a duration of 0"),
        (SENT + "\n1.000001 main_thread [2] ouch, thread 0 exited with error", "internal error"),
    ],
)
def test_hostile_words_end_in_one_line(
    named: Path, monkeypatch: pytest.MonkeyPatch, sender: str, says: str
) -> None:
    with pytest.raises(TrialFailed, match=says) as caught:
        _ending(monkeypatch, RECEIVED, sender)()
    assert "\n" not in str(caught.value)
    assert "pkt-gen" in str(caught.value)


def test_why_it_gave_up_is_said_and_not_its_usage(named: Path) -> None:
    desk = Desk(recorded("pkt-gen-refused.txt"), "")
    with pytest.raises(TrialFailed, match="nothere: No such device or address") as caught:
        pkt_gen._ended(program(desk.printed[0], "pkt-gen sender", exit_code=255), 1.0)
    assert "Usage" not in str(caught.value)
