"""`trex`: Cisco's traffic generator, one server that sends and one that receives, in its stateless
mode on kernel devices (https://trex-tgn.cisco.com).

Each server lies in a node, with the node's device and a dummy as its pair of ports, in its low-end
mode: all threads on the node's first core, which sleep while they wait. Each is driven by TRex's
own Python client, in a program beside it (`support/trex_client.py`). Both come from one folder,
that of a release or `scripts` of a build.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from switchmark.errors import TrialFailed
from switchmark.instrument.support import trex_client
from switchmark.instrument.support.base import Abilities, Job, Station
from switchmark.instrument.support.frame import udp_frame
from switchmark.instrument.support.program import SHOWN_CHARACTERS, UNKNOWN
from switchmark.instrument.support.reading import EndReading, Reading
from switchmark.instrument.support.trex_end import TrexEnd
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.ports import PortKind

SETTING = "SWITCHMARK_TREX"
SERVER, CLIENT = "_t-rex-64", "automation/trex_control_plane/interactive"
SYNC_PORT, ASYNC_PORT = 4501, 4500  # its usual ones, in the node's namespace
LARGEST_FRAME = 1518
MOST_RATE_PPS = 10_000_000
DRAIN_LOOKS = 3  # that find the same count: nothing comes any more
ANSWER_TIMEOUT_S = 15.0
LATE_S = 1.0  # beyond its duration, for a sender that makes up for a pause
_LOOK_S = 0.1
_LONGEST_WAIT_NS = 100_000_000
_S = 1_000_000_000


class Trex:
    """Sender to receiver."""

    name = "trex"
    abilities = Abilities(
        description="TRex, stateless, on packet sockets: one stream to a server that counts",
        dimensions=(Dimension.THROUGHPUT,),
        ports={PortKind.VETH: Io.DPDK},
        environments=("netns",),
        cannot_know=(
            "which frames were lost: its two servers count, and compare no numbers",
            "copies (one makes up for a lost frame)",
            "reordering",
            "damaged frames, and frames that are not its own: they count as received",
            "any time",
            "when each frame was due, and how late it left",
        ),
        paces=True,
        saturates=True,
        largest_burst=1,
        shortest_sample_s=0.1,
        whole_seconds=False,
    )

    def availability(self) -> Availability:
        """Available where the folder is, with server and client in it."""
        named = os.environ.get(SETTING)
        if not named:
            return unavailable(
                "no folder of TRex is named",
                remedy=f"unpack a release (or build github.com/cisco-system-traffic-generator/"
                f"trex-core) and set {SETTING} to the folder with {SERVER} in it",
            )
        folder = Path(named)
        if not os.access(folder / SERVER, os.X_OK):
            return unavailable(
                f"{SETTING}={named}: no program {SERVER} in it",
                remedy="name the unpacked release, or `scripts` of a build",
            )
        if not (folder / CLIENT / "trex" / "stl").is_dir():
            return unavailable(
                f"{SETTING}={named}: no {CLIENT} in it", remedy="name the whole release"
            )
        return available(version_of_folder(folder))

    def refusals(self, sweep: Sweep) -> Iterator[str]:
        """Refuse frames and rates beyond its limits."""
        if max(sweep.packet_size_bytes) > LARGEST_FRAME:
            yield f"trex sends frames of {LARGEST_FRAME} bytes at most; use a smaller size"
        if any(isinstance(rate, int) and rate > MOST_RATE_PPS for rate in sweep.rate_pps):
            yield f"trex sends {MOST_RATE_PPS} frames a second at most here; use a lower rate"

    def launch(self, job: Job) -> TrexRun:
        """Start both servers, and a client beside each."""
        return TrexRun(job)


class TrexRun:
    """Both servers, started."""

    def __init__(self, job: Job) -> None:
        self._job = job
        rate_pps = job.trial.rate_pps
        stream = {
            "frame": udp_frame(job).hex(),
            "pps": 1 if rate_pps is None else rate_pps,
            "mult": "100%" if rate_pps is None else "1",
        }
        self._target = _end("receiver", job, job.target, {})
        self._source = _end("sender", job, job.source, stream)
        self._duration_s = 0.0
        self._begun_ns = self._stop_ns = self._asked_ns = 0

    def wait_ready(self, timeout_s: float) -> None:
        """Wait until both servers have answered their clients; the receiver counts."""
        deadline = time.monotonic() + timeout_s
        for end in (self._target, self._source):
            end.wait_ready(max(0.1, deadline - time.monotonic()))

    def begin(self, duration_s: float) -> None:
        """Let the stream flow. Frames that came before do not count."""
        self._duration_s = duration_s
        for end in (self._target, self._source):
            end.ask({"do": "read"})
            end.wait_answer(ANSWER_TIMEOUT_S)
            end.forget()
        endless = (
            self._job.trial.rate_pps is None
        )  # what it cannot send in time it would send later
        self._source.ask({"do": "start", "duration_s": -1 if endless else duration_s})
        self._source.wait_answer(ANSWER_TIMEOUT_S)
        self._begun_ns = self._source.last_ns
        self._asked_ns = time.monotonic_ns()
        late_s = 0.0 if endless else LATE_S
        self._stop_ns = self._asked_ns + round((duration_s + late_s) * _S)

    def running(self) -> bool:
        """Read both once in a sample's length; stop the sender when its time is over."""
        for end in (self._source, self._target):
            end.take()
        if not self._source.sends:
            return False
        if 0 < (left_ns := self._stop_ns - time.monotonic_ns()) < _LONGEST_WAIT_NS:
            time.sleep(left_ns / _S)  # it is looked at seldom, and is to stop in time
        now_ns = time.monotonic_ns()
        if now_ns >= self._stop_ns:
            if self._source.waits:
                self._source.wait_answer(ANSWER_TIMEOUT_S)
            self._source.ask({"do": "stop"})
            self._source.wait_answer(ANSWER_TIMEOUT_S)
            return False
        if now_ns - self._asked_ns >= self._job.sample_s * _S:
            self._asked_ns = now_ns
            for end in (self._source, self._target):
                if not end.waits:
                    end.ask({"do": "read"})
        return True

    def finish(self, timeout_s: float) -> Reading:
        """The counts, once no more frames come."""
        deadline = time.monotonic() + timeout_s
        for end in (self._source, self._target):
            if end.waits:
                end.wait_answer(ANSWER_TIMEOUT_S)
        duration_ns = self._source.last_ns - self._begun_ns  # up to the look that found it at rest
        if self._job.trial.rate_pps is not None:
            duration_ns = min(duration_ns, round(self._duration_s * _S))
        sent = self._settled(self._source, deadline)
        received = self._settled(self._target, deadline)
        if received > sent:
            raise TrialFailed(
                f"counts of trex contradict each other: {received} frames received, {sent} sent"
            )
        source, target = (
            EndReading(
                command=tuple(end.server.command),
                version=end.version,
                frames=frames,
                counts=end.counts(self._begun_ns, duration_ns),
                told=end.told(),
            )
            for end, frames in ((self._source, sent), (self._target, received))
        )
        return Reading(source=source, target=target, duration_ns=duration_ns)

    def process_ids(self) -> Sequence[int]:
        """The processes of both servers and both clients."""
        return [pid for end in (self._target, self._source) for pid in end.process_ids()]

    def close(self) -> None:
        """End all four."""
        for end in (self._source, self._target):
            end.close()

    def _settled(self, end: TrexEnd, deadline: float) -> int:
        """Wait for a count that stays the same, reading after reading; returns it."""
        seen: list[int] = []
        while len(seen) < DRAIN_LOOKS or len(set(seen[-DRAIN_LOOKS:])) > 1:
            if time.monotonic() > deadline:
                raise end.server.failed("still counts frames, long after its stream has ended")
            end.ask({"do": "read"})
            end.wait_answer(ANSWER_TIMEOUT_S)
            seen.append(end.frames)
            time.sleep(_LOOK_S)
        return seen[-1]


def version_of_folder(folder: Path) -> str:
    """The version, as a release's folder is named or as that of a build has it beside; records
    have what the server tells."""
    if folder.name.startswith("v"):
        return folder.name
    try:
        return (folder.resolve().parent / "VERSION").read_text().strip()[:SHOWN_CHARACTERS]
    except OSError:
        return UNKNOWN


def _end(what: str, job: Job, station: Station, stream: Mapping[str, Any]) -> TrexEnd:
    folder = Path(os.environ.get(SETTING, ".")).resolve()
    core = station.cores[0] if station.cores else 0
    config = job.folder / f"trex-{station.node}.yaml"
    macs = {"src_mac": station.port.mac, "dest_mac": station.port.peer_mac}
    settings = {
        "version": 2,
        "port_limit": 2,
        "interfaces": [station.port.device_inside, "dummy"],
        "low_end": True,
        "low_end_core": core,
        "prefix": f"trex-{station.node}",
        "zmq_pub_port": ASYNC_PORT,
        "zmq_rpc_port": SYNC_PORT,
        "port_info": [macs, macs],
    }
    config.write_text(json.dumps([settings]))  # which is YAML, too
    server = [
        "env", "-C", str(folder), f"LD_LIBRARY_PATH={folder}:{folder / 'so' / 'x86_64'}",
        f"RUNTIME_DIRECTORY={job.folder}", f"./{SERVER}", "-i", "--cfg", str(config),
        "--no-scapy-server", "--no-watchdog", "--no-key", "--no-termio",
    ]  # fmt: skip
    asked = {"sync_port": SYNC_PORT, "async_port": ASYNC_PORT, **stream}
    client = [sys.executable, trex_client.__file__, str(folder / CLIENT), json.dumps(asked)]
    return TrexEnd(what, station, server, client, counter="sent" if stream else "received")
