"""`trex`: Cisco's traffic generator, a server that sends and a server that receives, in stateless
mode on kernel devices (https://trex-tgn.cisco.com).

Each server is in a node, with the node's device and a dummy as its pair of ports. In low-end mode
all its threads are on the node's first core, and sleep while they wait. TRex's Python client, in a
separate program (`support/trex_client.py`), controls each. Both come from one folder, that of a
release or `scripts` of a build.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from switchmark.host.programs import UNKNOWN
from switchmark.instrument.support import trex_client
from switchmark.instrument.support.base import COUNTS_ALONE, Abilities, Instrument, Job, Station
from switchmark.instrument.support.frame import load_bytes
from switchmark.instrument.support.named import named_folder, no_folder
from switchmark.instrument.support.polled_end import PolledEnd
from switchmark.instrument.support.polled_run import PolledRun
from switchmark.instrument.support.program import SHOWN_CHARACTERS, ProgramEnd
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.io import Io
from switchmark.model.ports import PortKind

SETTING = "SWITCHMARK_TREX"
SERVER, CLIENT = "_t-rex-64", "automation/trex_control_plane/interactive"
MOST_STREAMS = 1000  # each flow is a separate stream
SYNC_PORT, ASYNC_PORT = 4501, 4500  # its usual ports, in the node's namespace


class Trex(Instrument):
    """Sender to receiver."""

    name = "trex"
    abilities = Abilities(
        description="TRex, stateless, on packet sockets: streams to a server that counts frames",
        ports={PortKind.VETH: Io.DPDK},
        cannot_know=(*COUNTS_ALONE, "the due time of each frame, and how late it was sent"),
        largest_burst=1,
        largest_frame_bytes=1518,
        most_rate_pps=10_000_000,
        function_flows=MOST_STREAMS,
        any_headers=True,
    )

    def availability(self) -> Availability:
        """Available if the folder exists with server and client."""
        if problem := no_folder(
            SETTING,
            SERVER,
            "unpack a release of TRex (or build "
            "github.com/cisco-system-traffic-generator/trex-core)",
            "name the unpacked release, or `scripts` of a build",
        ):
            return problem
        folder = Path(os.environ[SETTING])
        if not (folder / CLIENT / "trex" / "stl").is_dir():
            return unavailable(
                f"{SETTING}={folder}: no {CLIENT} in it", remedy="name the whole release"
            )
        return available(version_of_folder(folder))

    def launch(self, job: Job) -> PolledRun:
        """Start both servers, and a client for each."""
        rate_pps = job.trial.rate_pps
        frames = job.folder / f"trex-{job.source.node}.frames"
        frames.write_text("".join(one.hex() + "\n" for one in load_bytes(job)))
        stream = {
            "frames": str(frames),
            "pps": 1 if rate_pps is None else rate_pps,
            "mult": "100%" if rate_pps is None else "1",
        }
        target = _end("receiver", job, job.target, {})
        return PolledRun(self.name, job, _end("sender", job, job.source, stream), target)


def version_of_folder(folder: Path) -> str:
    """Return the version from the name of a release's folder, or from the file beside a build's
    folder; records have the version that the server reports."""
    if folder.name.startswith("v"):
        return folder.name
    try:
        text = (folder.resolve().parent / "VERSION").read_text(errors="replace")
    except OSError:
        return UNKNOWN
    return text.strip()[:SHOWN_CHARACTERS] or UNKNOWN


def _end(role: str, job: Job, station: Station, stream: Mapping[str, Any]) -> PolledEnd:
    folder = named_folder(SETTING)
    config = job.folder / f"trex-{station.node}.yaml"
    macs = {"src_mac": station.port.mac, "dest_mac": station.port.peer_mac}
    settings = {
        "version": 2,
        "port_limit": 2,
        "interfaces": [station.port.device_inside, "dummy"],
        "low_end": True,
        "low_end_core": station.first_core,
        "prefix": f"trex-{station.node}",
        "zmq_pub_port": ASYNC_PORT,
        "zmq_rpc_port": SYNC_PORT,
        "port_info": [macs, macs],
    }
    config.write_text(json.dumps([settings]))  # JSON is also YAML
    server = [
        "env", "-C", str(folder), f"LD_LIBRARY_PATH={folder}:{folder / 'so' / 'x86_64'}",
        f"RUNTIME_DIRECTORY={job.folder}", f"./{SERVER}", "-i", "--cfg", str(config),
        "--no-scapy-server", "--no-watchdog", "--no-key", "--no-termio",
    ]  # fmt: skip
    runs = ProgramEnd(f"trex {role}", station.node, server, station.spawn(server))
    request = {"sync_port": SYNC_PORT, "async_port": ASYNC_PORT, **stream}
    client = [sys.executable, trex_client.__file__, str(folder / CLIENT), json.dumps(request)]
    return PolledEnd(
        ProgramEnd(f"trex client of the {role}", station.node, client, station.spawn(client)),
        "sent" if stream else "received",
        server=runs,
    )
