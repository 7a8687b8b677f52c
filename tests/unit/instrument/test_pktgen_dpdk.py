"""Pktgen-DPDK as a generator: counts of real output are exact, and errors are one line."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.errors import TrialFailed, UsageError
from switchmark.function.support.load_frames import LoadFrame
from switchmark.instrument import pktgen_dpdk
from switchmark.instrument.pktgen_dpdk import PktgenDpdk, PktgenRun
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.reading import Reading
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from tests.unit.instrument_fakes import FakeProgram, function_load, recorded
from tests.unit.switch_programs import script
from tests.unit.trial_fakes import trial

THERE = installed()
SENDER = recorded("pktgen-sender.txt")
READY, RAN = SENDER[: SENDER.index("switchmark begun")], SENDER[SENDER.index("switchmark begun") :]
BEGUN_NS = int(re.findall(r"begun (\d+)", RAN)[0])
STOPPED_NS = int(re.findall(r"stopped (\d+)", RAN)[0])
RECEIVER_READY = "\x1b[2J\nswitchmark version Pktgen 23.03.0\nswitchmark ready 0"
WATCHING = f"switchmark begun {BEGUN_NS - 1000}"
RECEIVED = f"switchmark count {BEGUN_NS + 2_000_000_000} 40000\nswitchmark total 79960"


def planned(**given: str) -> list[Trial]:
    settings = {"switch": "linux-bridge", "duration": "4s", "generator": "pktgen-dpdk", **given}
    return expand(
        load_settings(settings, THERE.known, name="c"), THERE.switches, THERE.environments
    )


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    installation = Path(
        script(tmp_path / "pktgen", "#!/bin/sh\necho 'a Lua script; DPDK 22.11.11'\n")
    )
    monkeypatch.setenv(pktgen_dpdk.SETTING, str(installation))
    return installation


Answer = Callable[[str], str]


def run_of(
    folder: Path,
    sender: Answer,
    receiver: Answer,
    load: tuple[LoadFrame, ...] = (),
    **fields: Any,
) -> tuple[PktgenRun, list[list[str]], dict[str, FakeProgram]]:
    """A run of two programs that answer so; with their commands."""
    commands: list[list[str]] = []
    programs: dict[str, FakeProgram] = {}

    def station(name: str, end: int, ready: str, answer: Answer) -> Station:
        port = NodePort(
            PortKind.VETH, f"02:53:4d:00:00:0{end + 1}", f"10.64.0.{end + 1}/24",
            device_inside="eth0", peer_mac=f"02:53:4d:00:00:0{2 - end}",
        )  # fmt: skip

        def spawn(args: Sequence[str]) -> FakeProgram:
            commands.append(list(args))
            programs[name] = FakeProgram(ready, answer=answer)
            programs[name].pid = 1 + end
            return programs[name]

        return Station(name, port, (end,), spawn)

    source = station("tx0", 0, READY, sender)
    target = station("rx0", 1, RECEIVER_READY, receiver)
    job = Job(trial(rate_pps=20_000, **fields), source, target, folder, 1.0, load=load)
    return PktgenRun(job), commands, programs


def measured(folder: Path, sender: Answer, receiver: Answer) -> Reading:
    run, _, programs = run_of(folder, sender, receiver)
    run.wait_ready(0.0)  # all their output is there
    programs["rx0"].lines.extend(RECEIVED.splitlines())
    run.begin(4.0)
    while run.running():
        pass
    return run.finish(0.0)


def test_the_counts_of_a_real_run_are_read_to_the_frame(named: Path, tmp_path: Path) -> None:
    reading = measured(tmp_path, lambda line: RAN, lambda line: WATCHING)
    source, target = reading.source, reading.target
    assert (source.frames, target.frames) == (79_968, 79_960)
    assert source.version == "Pktgen 23.03.0 with DPDK 22.11.11"
    assert reading.duration_ns == STOPPED_NS - BEGUN_NS
    assert [item.frames for item in source.counts] == [13_344, 20_352, 20_128, 20_000]
    assert sum(item.duration_ns for item in source.counts) <= reading.duration_ns
    (item,) = target.counts
    assert (item.frames, item.duration_ns) == (40_000, 2_000_000_000)
    assert source.report == {"link": "10000 Mbit/s"}
    assert not list(tmp_path.glob("*.over")), "the word to stop is taken back"


def test_both_get_the_script_with_the_trials_values(named: Path, tmp_path: Path) -> None:
    _, commands, _ = run_of(tmp_path, str, str, packet_size_bytes=128, burst=16)
    receiver, sender = commands
    assert "--vdev=net_af_packet0,iface=eth0" in sender
    text = (tmp_path / "pktgen-tx0.lua").read_text()
    for line in ("size = 128", "burst = 16", "rate_pps = 20000", 'mac = "02:53:4d:00:00:02"'):
        assert f"local {line}\n" in text
    assert "local mac" not in (tmp_path / "pktgen-rx0.lua").read_text()
    assert receiver[-1].endswith("pktgen-rx0.lua")


def test_the_flow_of_a_function_is_in_the_script(named: Path, tmp_path: Path) -> None:
    _, load = function_load("route+acl", rules=25, routes=10)
    run_of(tmp_path, str, str, load, packet_size_bytes=128, burst=16)
    text = (tmp_path / "pktgen-tx0.lua").read_text()
    frame = load[0].frame
    for line in (
        'mac = "02:72:00:00:00:00"', f'source = "{frame.source}/32"',
        f'target = "{frame.destination}"', f"source_port = {frame.source_port}",
        f"target_port = {frame.destination_port}",
    ):  # fmt: skip
        assert f"local {line}\n" in text


@pytest.mark.parametrize(
    ("sender", "says"),
    [
        (RAN.replace(" 79968", " many"), "printed a counter that is not a number"),
        (RAN.replace(" 33696", " 1"), "counts backwards"),
        (RAN.replace(" 79968", " 79959"), "79960 frames received, 79959 sent"),
        (
            "switchmark refused its port claims a link of 10 Mbit/s",
            "cannot keep the rate: its port",
        ),
        (
            RAN.replace(f"stopped {STOPPED_NS}", f"stopped {BEGUN_NS}"),
            "stopped before it had begun",
        ),
        (RAN.replace("switchmark total 79968", ""), "did not print `total` in time"),
    ],
)
def test_hostile_words_end_in_one_line(named: Path, tmp_path: Path, sender: str, says: str) -> None:
    with pytest.raises(TrialFailed, match=re.escape(says)) as caught:
        measured(tmp_path, lambda line: sender, lambda line: WATCHING)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"duration": "1s"}, "duration: 3s or more"),
        ({"packet_size": "9000"}, "smaller size"),
        ({"dimension": "latency"}, "dimension: throughput"),
        ({"burst": "256"}, "bursts of 128 at most"),
        ({"interval": "100ms"}, "interval: 1s"),
    ],
)
def test_unsupported_keys_are_refused_with_a_remedy(given: dict[str, str], says: str) -> None:
    with pytest.raises(UsageError, match=re.escape(says)) as caught:
        planned(**given)
    assert caught.value.exit_code == 2


def test_it_keeps_rates_on_both_kinds_of_port() -> None:
    (on_veth,) = planned(rate="20k")
    (on_vhost,) = planned(rate="max", switch="basicfwd")
    assert on_veth.rate_pps == 20_000
    assert on_vhost.rate_pps is None


def why_not() -> str:
    return PktgenDpdk().availability().reason or ""


def test_why_it_is_not_available(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong path, a build without Lua."""
    monkeypatch.setenv(pktgen_dpdk.SETTING, "/nowhere/pktgen")
    assert "SWITCHMARK_PKTGEN=/nowhere/pktgen does not exist" in why_not()
    plain = script(tmp_path / "plain", "#!/bin/sh\necho 'DPDK 22.11.11'\n")
    monkeypatch.setenv(pktgen_dpdk.SETTING, str(plain))
    assert "was built without Lua" in why_not()
    whole = script(tmp_path / "whole", "#!/bin/sh\necho 'a Lua script; DPDK 22.11.11'\n")
    monkeypatch.setenv(pktgen_dpdk.SETTING, str(whole))
    assert PktgenDpdk().availability().available
