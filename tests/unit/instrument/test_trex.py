"""TRex as a generator: the counts of its client are exact, and errors are one line."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.errors import TrialFailed, UsageError
from switchmark.function.support.wire import split_outer
from switchmark.host.host import Spawned
from switchmark.instrument import trex
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support import trex_client
from switchmark.instrument.support.base import Job, Station
from switchmark.instrument.support.frame import udp_frame
from switchmark.instrument.support.polled_run import PolledRun
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from switchmark.model.traffic import read_flows
from tests.unit.instrument_fakes import FakeProgram, function_load
from tests.unit.trial_fakes import trial

THERE = installed()
S = 1_000_000_000


def answer(**fields: Any) -> str:
    output = {
        "t_ns": 5 * S, "sent": 0, "received": 0, "output_errors": 0, "input_errors": 0,
        "queue_full": 0, "sends": False,
    }  # fmt: skip
    return json.dumps(output | fields)


READY = json.dumps({"ready": True, "version": "v3.08", "driver": "net_af_packet"})


class Desk:
    """Fake servers without output, and clients that answer each line with the next answer."""

    def __init__(self, *answers: str, ready: str = READY) -> None:
        self.answers, self.ready = list(answers), ready
        self.commands: list[list[str]] = []
        self.clients: list[FakeProgram] = []

    def spawn(self, args: Sequence[str]) -> Spawned:
        self.commands.append(list(args))
        if args[0] == "env":
            return FakeProgram("", answer=lambda line: "")
        client = FakeProgram(self.ready, answer=lambda line: self.answers.pop(0))
        self.clients.append(client)
        return client

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
def release(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "v3.08"
    (folder / trex.CLIENT / "trex" / "stl").mkdir(parents=True)
    (folder / trex.SERVER).write_text("#!/bin/sh\n")
    (folder / trex.SERVER).chmod(0o755)
    monkeypatch.setenv(trex.SETTING, str(folder))
    return folder


def launched(release: Path, desk: Desk, **fields: Any) -> PolledRun:
    fields = {"rate_pps": 1000, "packet_size_bytes": 128, "burst": 1, **fields}
    return trex.Trex().launch(desk.job(release, **fields))


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"switch": "basicfwd"}, "takes veth ports"),
        ({"dimension": "latency"}, "dimension: throughput"),
        ({"packet_size": "1600"}, "frames of 1518 bytes at most"),
        ({"rate": "20M", "packet_size": "64"}, "lower rate"),
        ({"burst": "32"}, "bursts of 1"),
        ({"environment": "bare"}, "environment: netns"),
        ({"bidirectional": "true"}, "bidirectional: false"),
        ({"flows": "10"}, "flows: 1"),
    ],
)
def test_unsupported_keys_are_refused_with_place_and_remedy(
    given: dict[str, str], says: str
) -> None:
    settings = {"switch": "linux-bridge", "rate": "5k", "burst": "1", "generator": "trex", **given}
    with pytest.raises(UsageError) as caught:
        expand(load_settings(settings, THERE.known, name="c"), THERE.switches, THERE.environments)
    assert says in str(caught.value)


def test_where_it_is_missing_the_remedy_is_said(
    monkeypatch: pytest.MonkeyPatch, release: Path
) -> None:
    instrument = INSTRUMENTS["trex"]()
    assert instrument.availability().version == "v3.08"
    assert trex.version_of_folder(release / "automation") == "unknown version"
    (release / "VERSION").write_text("v3.07\n")
    assert trex.version_of_folder(release / "automation") == "v3.07", "`scripts` of a build"
    (release / trex.SERVER).chmod(0o644)
    assert f"{trex.SETTING}={release}: no program" in str(instrument.availability().reason)
    monkeypatch.delenv(trex.SETTING)
    assert f"set {trex.SETTING}" in str(instrument.availability().remedy)


def test_a_frame_has_the_trials_size_and_addresses(tmp_path: Path) -> None:
    frame = udp_frame(Desk().job(tmp_path, packet_size_bytes=128))
    assert len(frame) == 124, "the FCS is the device's"
    assert frame[:14].hex() == "02534d000002" + "02534d000001" + "0800"
    assert frame[26:34] == bytes([10, 64, 0, 1, 10, 64, 0, 2])
    arguments = [int.from_bytes(frame[at : at + 2]) for at in range(14, 34, 2)]
    total = sum(arguments)
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF, "RFC 1071"
    assert int.from_bytes(frame[16:18]) == 110
    assert int.from_bytes(frame[38:40]) == 90


def test_each_node_has_a_server_with_its_device_and_a_dummy(release: Path) -> None:
    desk = Desk()
    launched(release, desk)
    (rx, rx_client, tx, tx_client) = desk.commands
    for command, node, core in ((rx, "rx0", 1), (tx, "tx0", 0)):
        config = Path(command[command.index("--cfg") + 1])
        (output,) = json.loads(config.read_text())
        assert config.name == f"trex-{node}.yaml"
        assert output["interfaces"] == ["eth0", "dummy"]
        assert (output["low_end"], output["low_end_core"]) == (True, core)
        assert "--no-watchdog" in command, "a machine that pauses would kill it"
    assert "frames" not in json.loads(rx_client[-1])
    requested = json.loads(tx_client[-1])
    assert (requested["pps"], requested["mult"]) == (1000, "1")
    (frame,) = Path(requested["frames"]).read_text().splitlines()
    assert len(bytes.fromhex(frame)) == 124


def test_each_flow_of_a_function_is_a_frame_of_the_file(release: Path) -> None:
    """Inside a tunnel, because the load enters the underlay port."""
    _, load = function_load("forward+vxlan", direction="decap", tunnels=3, flows=read_flows("9"))
    desk = Desk()
    job = replace(desk.job(release, rate_pps=1000, packet_size_bytes=128, burst=1), load=load)
    trex.Trex().launch(job)
    path = json.loads(desk.commands[3][-1])["frames"]
    frames = [bytes.fromhex(line) for line in Path(path).read_text().splitlines()]
    assert frames == [one.to_bytes() for one in load]
    assert len({split_outer(frame)[0].vni for frame in frames}) == 3


# What TRex's own client has, as far as our program uses it.
FAKE_API = """
class TRexError(Exception): pass
def STLPktBuilder(pkt_buffer): return pkt_buffer.hex()
def STLTXCont(pps): return pps
def STLStream(packet, isg, mode): return {"frame": packet, "isg_us": isg, "pps": mode}
class STLClient:
    def __init__(self, **_): self.added = []
    def connect(self): pass
    def reset(self, ports): pass
    def set_port_attr(self, ports, promiscuous): pass
    def add_streams(self, streams, ports): self.added = streams
    def clear_stats(self, ports): pass
    def get_port_info(self, ports): return [{"driver": repr(self.added)}]
    def get_server_version(self): return {"version": "v3.08"}
    def disconnect(self): pass
"""


@pytest.mark.parametrize(("mult", "step_us"), [("1", 250.0), ("100%", 0.0)])
def test_the_client_adds_a_stream_for_each_frame(tmp_path: Path, mult: str, step_us: float) -> None:
    """At a set rate the streams begin one after the other, so that frames are sent in turn."""
    api = tmp_path / "trex" / "stl"
    api.mkdir(parents=True)
    (api / "api.py").write_text(FAKE_API)
    (tmp_path / "frames").write_text("0a0b\n0c0d\n")
    order = {"sync_port": 1, "async_port": 2, "frames": str(tmp_path / "frames"), "pps": 4000,
             "mult": mult}  # fmt: skip
    command = [sys.executable, trex_client.__file__, str(tmp_path), json.dumps(order)]
    ended = subprocess.run(command, input="", capture_output=True, text=True, check=True)
    streams = ast.literal_eval(json.loads(ended.stdout)["driver"])
    assert streams == [
        {"frame": frame, "isg_us": number * step_us, "pps": 2000.0}
        for number, frame in enumerate(("0a0b", "0c0d"))
    ]


def test_at_rate_max_it_asks_for_the_whole_link(release: Path) -> None:
    desk = Desk()
    launched(release, desk, rate_pps=None)
    assert json.loads(desk.commands[3][-1])["mult"] == "100%"


def test_a_run_is_read_to_the_frame_from_the_moment_it_begins(release: Path) -> None:
    at = [5 * S + k * S // 2 for k in range(4)]
    run = launched(
        release,
        Desk(
            answer(t_ns=at[0], received=7),  # earlier frames at the receiver
            answer(t_ns=at[0], sent=3),
            answer(t_ns=at[0], sent=3, sends=True),
            answer(t_ns=at[1], sent=103, sends=True),
            answer(t_ns=at[1], received=97),
            answer(t_ns=at[2], sent=203),
            answer(t_ns=at[2], received=207),
            *[answer(t_ns=at[3], sent=203, queue_full=2)] * 3,
            *[answer(t_ns=at[3], received=206)] * 3,
        ),
    )
    run.wait_ready(5.0)
    run.begin(1.0)
    for _ in range(2):
        for end in (run._source, run._target):
            if end.waits:
                end.wait_answer(1.0)
            cast(Any, end).ask({"do": "read"})
    reading = run.finish(5.0)
    assert (reading.source.frames, reading.target.frames) == (200, 199)
    assert reading.duration_ns == S
    assert reading.source.version == "v3.08"
    assert reading.source.report["queue_full"] == 2
    assert sum(one.frames for one in reading.source.counts) == 200
    assert (reading.duplicates, reading.reordered) == (None, None), "it does not know"


@pytest.mark.parametrize(
    ("ready", "output", "says"),
    [
        ('{"error": "no route\\nto it"}', "", "failed: no route to it"),
        ("Traceback", "", "printed no JSON: Traceback"),
        ("[1]", "", r"printed something other than a JSON object: \[1\]"),
        (READY, "{}", "printed t_ns: Field required"),
        (READY, answer(sent=-1), "printed sent: Input should be greater"),
        (READY, answer(sent=1 << 60), "printed sent: Input should be less"),
        (READY, answer(sent="many"), "printed sent: Input should be a valid integer"),
        (READY, answer(more=1), "printed more: Extra inputs"),
        (READY, answer(**{"one\nmore": 1}), "printed one more: Extra inputs"),
    ],
)
def test_hostile_words_end_in_one_line(release: Path, ready: str, output: str, says: str) -> None:
    run = launched(release, Desk(output, output, output, ready=ready))
    with pytest.raises(TrialFailed, match=says) as caught:
        run.wait_ready(1.0)
        run.begin(1.0)
    assert "\n" not in str(caught.value)
    assert "trex client of the receiver in rx0" in str(caught.value)


def test_sender_at_rate_max_is_stopped_by_its_own_time(release: Path) -> None:
    """It would send delayed frames later, and end late."""
    still, over = {"sent": 900, "sends": True}, {"sent": 950}
    desk = Desk(
        answer(), answer(), answer(sends=True),
        answer(t_ns=6 * S, **still), answer(t_ns=6 * S + S // 5, **over),
        *[answer(t_ns=7 * S, **over)] * 3, *[answer(t_ns=7 * S, received=900)] * 3,
    )  # fmt: skip
    run = launched(release, desk, rate_pps=None)
    run.wait_ready(5.0)
    run.begin(0.01)
    cast(Any, run._source).ask({"do": "read"})
    run._source.wait_answer(1.0)
    while run.running():
        pass
    requested = [json.loads(line)["do"] for line in desk.clients[1].written]
    assert requested == ["read", "start", "read", "stop"]
    assert json.loads(desk.clients[1].written[1])["duration_s"] == -1
    reading = run.finish(5.0)
    assert reading.duration_ns == S + S // 5
    assert (reading.source.frames, reading.target.frames) == (950, 900)
