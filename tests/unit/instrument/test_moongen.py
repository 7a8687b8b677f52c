"""MoonGen as a generator: the counts of its script are exact, and errors are one line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.errors import TrialFailed, UsageError
from switchmark.host.host import Spawned
from switchmark.instrument import moongen
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.named import build_of
from switchmark.instrument.support.polled_run import PolledRun
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from switchmark.model.traffic import read_flows
from tests.unit.instrument_fakes import FakeProgram, function_load, recorded
from tests.unit.trial_fakes import trial

THERE = installed()
S = 1_000_000_000


def answer(t_ns: int, **fields: Any) -> str:
    return json.dumps({"t_ns": t_ns, "sent": 0, "received": 0, "sends": False} | fields)


class Desk:
    """Fake programs that print what a real one did when it was ready, and answer line by line."""

    def __init__(self, *answers: str, ready: str | None = None) -> None:
        self.answers = list(answers)
        self.ready = recorded("moongen-ready.txt") if ready is None else ready
        self.commands: list[list[str]] = []
        self.programs: list[FakeProgram] = []

    def spawn(self, args: Sequence[str]) -> Spawned:
        self.commands.append(list(args))
        self.programs.append(FakeProgram(self.ready, answer=lambda line: self.answers.pop(0)))
        return self.programs[-1]

    def job(self, folder: Path, **fields: Any) -> Job:
        def station(name: str, end: int) -> Station:
            macs = [f"02:53:4d:00:00:0{one}" for one in (end + 1, 2 - end)]
            port = NodePort(
                PortKind.VETH, macs[0], f"10.64.0.{end + 1}/24",
                peer_mac=macs[1], device_inside="eth0",
            )  # fmt: skip
            return Station(name, port, (end,), self.spawn)

        return Job(trial(**fields), station("tx0", 0), station("rx0", 1), folder, 0.1)


@pytest.fixture
def built(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    program = tmp_path / moongen.PROGRAM
    program.parent.mkdir()
    program.write_bytes(b"..." + moongen.DRIVER + b"...")
    program.chmod(0o755)
    monkeypatch.setenv(moongen.SETTING, str(tmp_path))
    return program


def launched(built: Path, desk: Desk, **fields: Any) -> PolledRun:
    fields = {"rate_pps": 4000, "packet_size_bytes": 128, "burst": 8, **fields}
    return moongen.MoonGen().launch(desk.job(built.parent, **fields))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"switch": "basicfwd"}, "takes veth ports"),
        ({"dimension": "latency"}, "dimension: throughput"),
        ({"packet_size": "1600"}, "frames of 1518 bytes at most"),
        ({"rate": "200M", "packet_size": "64"}, "lower rate"),
        ({"burst": "1000"}, "bursts of 512"),
        ({"environment": "docker"}, "environment: netns"),
        ({"vlan": "7", "packet_size": "128"}, "vlan: none"),
    ],
)
def test_unsupported_keys_are_refused_with_place_and_remedy(
    given: dict[str, str], says: str
) -> None:
    settings = {"switch": "linux-bridge", "rate": "5k", "generator": "moongen", **given}
    with pytest.raises(UsageError) as caught:
        expand(load_settings(settings, THERE.known, name="c"), THERE.switches, THERE.environments)
    assert says in str(caught.value)


def test_where_it_is_missing_the_remedy_is_said(
    monkeypatch: pytest.MonkeyPatch, built: Path
) -> None:
    instrument = INSTRUMENTS["moongen"]()
    assert instrument.availability().version == build_of(built)
    built.write_bytes(b"no driver for kernel devices")
    found = instrument.availability()
    assert not found.available
    assert "add rte_pmd_af_packet" in str(found.remedy)
    built.unlink()
    assert f"{moongen.SETTING}={built.parents[1]}: no program" in str(
        instrument.availability().reason
    )
    monkeypatch.delenv(moongen.SETTING)
    assert f"set {moongen.SETTING}" in str(instrument.availability().remedy)


def test_each_node_has_one_with_its_device_on_its_core(built: Path) -> None:
    desk = Desk()
    launched(built, desk)
    rx, tx = desk.commands
    for command, node, core in ((rx, "rx0", 1), (tx, "tx0", 0)):
        (config,) = [one.partition("=")[2] for one in command if one.startswith("--dpdk-config=")]
        text = Path(config).read_text()
        assert f"cores = {{{core}}}" in text
        assert '"--vdev=net_af_packet0,iface=eth0"' in text
        assert "--no-shconf" in text, "it would leave a file in /run"
        assert config.endswith(f"moongen-{node}.lua")
    assert rx[-3:] == ["-", "0", "1"]
    assert tx[-3].startswith("x02534d000002"), "digits alone would be taken for a number"
    assert [float(one) for one in tx[-2:]] == [250_000, 8]


def test_frames_of_a_function_are_in_a_file(built: Path) -> None:
    """IPv6 frames of several flows."""
    _, load = function_load("route", ip_version=6, routes=10, flows=read_flows("7"))
    desk = Desk()
    job = desk.job(built.parent, rate_pps=4000, packet_size_bytes=128, burst=8)
    moongen.MoonGen().launch(replace(job, load=load))
    argument = desk.commands[1][-3]
    assert argument.startswith("@")
    lines = Path(argument[1:]).read_text().splitlines()
    assert [bytes.fromhex(line) for line in lines] == [one.to_bytes() for one in load]
    assert len(set(lines)) == 7


def test_at_rate_max_there_is_no_gap(built: Path) -> None:
    desk = Desk()
    launched(built, desk, rate_pps=None)
    assert float(desk.commands[1][-2]) == 0


def test_a_run_is_read_to_the_frame(built: Path) -> None:
    desk = Desk(
        answer(S, received=5), answer(S, sent=2), answer(S, sent=2, sends=True),
        answer(S + S // 2, sent=2002, sends=True), answer(2 * S, sent=4002),
        *[answer(3 * S, sent=4002)] * 3, *[answer(3 * S, received=3905)] * 3,
    )  # fmt: skip
    run = launched(built, desk)
    run.wait_ready(5.0)
    run.begin(1.0)
    for _ in range(2):
        cast(Any, run._source).ask({"do": "read"})
        run._source.wait_answer(1.0)
    assert not run.running(), "it has sent all that were due"
    reading = run.finish(5.0)
    assert (reading.source.frames, reading.target.frames) == (4000, 3900)
    assert reading.duration_ns == S
    assert [one.frames for one in reading.source.counts] == [2000, 2000]
    assert reading.source.version == build_of(built)
    assert reading.source.report == {
        "driver": "net_af_packet", "t_ns": 3 * S, "sent": 4002, "received": 0, "sends": False,
    }, "no counter that it does not have"  # fmt: skip


@pytest.mark.parametrize(
    ("output", "says"),
    [
        ("{", "printed no JSON"),
        ("{}", "printed t_ns: Field required"),
        (answer(S, sent=-5), "printed sent: Input should be greater"),
        (answer(S, received="x"), "printed received: Input should be a valid integer"),
    ],
)
def test_hostile_words_end_in_one_line(built: Path, output: str, says: str) -> None:
    run = launched(built, Desk(output, output))
    run.wait_ready(1.0)
    with pytest.raises(TrialFailed, match=says) as caught:
        run.begin(1.0)
    assert "\n" not in str(caught.value)
    assert "moongen receiver in rx0" in str(caught.value)


def test_one_that_ends_is_quoted(built: Path) -> None:
    desk = Desk(ready="[FATAL] Could not initialize DPDK")
    run = launched(built, desk)
    for item in desk.programs:
        item.ended, item.exit_code = True, 1
    with pytest.raises(TrialFailed, match=r"exit code 1: .*Could not initialize DPDK"):
        run.wait_ready(5.0)
