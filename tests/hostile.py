"""Generated input for each function that reads data from outside the process.

All readers have the same property: they return a value or raise an error that they document. Such
an error becomes one line for the user with exit code 2, or the message of a failed trial. Every
other error is a finding. `tests/unit/repository/test_hostile_input.py` runs some hundred inputs
of each, `tools/fuzz --python` as many as the given time allows.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from switchmark.campaign.find import builtin_text, find_campaign
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import expand_notation
from switchmark.engine import events
from switchmark.formatting import printable
from switchmark.host import state
from switchmark.host.facts import gather
from switchmark.host.undo import ledger
from switchmark.model import options
from switchmark.model.nics import read_nics
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.hello import Hello
from switchmark.results.documents import read_record
from switchmark.results.run_directory import open_run
from switchmark.statistics.histogram import Histogram
from switchmark.store.address import read_store_address
from switchmark.store.objects import check_objects_address
from switchmark.switch.support.ovs_instance import parse_datapath_counters
from switchmark.switch.support.private import parse_socket_drops
from switchmark.switch.support.vpp_answers import links_up, parse_statistics
from switchmark.switch.support.vpp_changes import spare_links, table_size
from switchmark.switch.support.work import parse_pmd_stats
from switchmark.testbed.testbed_file import read_testbed
from tests.hostile_histograms import HISTOGRAM, read_histogram
from tests.hostile_inputs import (
    BAD,
    DEPENDS,
    Reader,
    altered,
    edited,
    from_environment,
    from_file,
)
from tests.hostile_instruments import INSTRUMENTS_SAY
from tests.hostile_machine import MACHINE
from tests.hostile_programs import PROGRAMS
from tests.hostile_requests import REQUESTS
from tests.hostile_store import STORE
from tests.hostile_tables import TABLES
from tests.unit.engine_lines import KINDS, event
from tests.unit.records import synthetic_record

REGISTRY = installed()
RECORD = synthetic_record().model_dump(mode="json")
RUN = {
    "schema_version": 1, "run_id": "abc123", "campaign": "c", "campaign_sha256": "0",
    "started_at": "2026-01-01T00:00:00Z", "switchmark_version": "1", "definition": {
        "repetitions": 2, "prove": 0.05, "published": [
            {"match": {"switch": "ovs"}, "value": 1, "unit": "pps", "source": "s"}]},
    "settings": {"set": ["a=b"]}, "host": {"kernel": "6"},
}  # fmt: skip
HELLO = to_plain(Hello("abc123", Path("/run/x"), "far", "boot", gather()))
LEDGER = [
    {"v": 1, "session": "abc123", "pid": 1, "start_ticks": 0, "boot_id": "x", "command": "c",
     "opened_at": "2026-01-01T00:00:00+00:00"},
    {"made": 1, "kind": "file", "path": "/x"}, {"undone": 1},
]  # fmt: skip
TESTBED = (
    "hosts:\n  left: {local: true}\n  right: {address: 192.0.2.1, port: 22, user: root,\n"
    "    become: sudo, settings: {SWITCHMARK_VPP: /usr/bin/vpp}}\n"
    "cables:\n  - {left: eth1, right: eth2}\n"
)
DATAPATH = (
    "netdev@ovs-netdev:\n  lookups: hit:1\n  port 1: p1 (netdev)\n"
    "    RX packets:5 errors:0 dropped:? overruns:0 frame:0\n"
    "    TX packets:6 errors:0 dropped:1 aborted:0 carrier:0\n"
)
PMD = "pmd thread numa_id 0 core_id 1:\n  idle cycles: 5 (50%)\n  processing cycles: 5 (50%)\n"
VPP_LINKS = "p1  1  up  9000/0/0/0  rx packets  5\nloop0  2  down  9000/0/0/0\n"
VPP = "[0]: p1 /if/names\n[1 @ 0]: 5 packets, 300 bytes /if/rx\n[0 @ 0]: 5 packets /err/p1-tx/x\n"
CAMPAIGN = """
name: all
description: an example of each kind
switch: [linux-bridge, ovs-dpdk]
environment: lxc
repetitions: 2
seed: 7
trim: {warm_up: 0.2s, cool_down: 0s}
verify: {frames: 4}
sweeps:
  - {packet_size: 64..128 step 32, rate: "1k, 1M", duration: 1s, scenario: pairs-2}
  - {packet_size: 64, dimension: latency, rate: 200, connect_mode: learning, flows: 10}
  - {method: ndr-pdr, packet_mix: imix, bidirectional: true}
published:
  - {match: {switch: ovs-dpdk}, value: 338k, unit: pps, source: Ara et al. 2021}
"""
EVENTS = [json.loads(event(name)) for name in KINDS]
SOCKETS = "p_raw UNCONN 0 0 [88b5]:eth0 * uid:0 ino:5 sk:1 skmem:(r0,t0,f0,w0,o0,bl0,d7)\n"

READERS: dict[str, Reader] = {
    "campaign": Reader(
        lambda text: load_text(text, "c.yaml", REGISTRY.known),
        edited([builtin_text("quick"), CAMPAIGN]), BAD),
    "setting": Reader(
        lambda text: find_campaign("quick", REGISTRY.known, [text]),
        edited(["packet_size=64, 128", "rate=1M", "duration=5s", "trim.warm_up=1s",
                "nics=eth1/eth2", "switch_options=emc:off", "flows=10", "repetitions=3"]), BAD),
    "notation": Reader(
        lambda text: expand_notation(text, REGISTRY.known),
        edited(["(V=linux-bridge, P={64, 1500}, R=1M)", "(D=latency, L=local, S=1vs1, V=ovs-dpdk, "
                "P=64..128, R=10k, B=1, repetition=3)"]), BAD),
    "testbed file": Reader(from_file("testbed.yaml", read_testbed), edited([TESTBED]), BAD),
    "record": Reader(from_file(f"{RECORD['trial_id']}.json", read_record), altered(RECORD), BAD),
    "run.json": Reader(
        from_file("run/run.json", lambda path: open_run(path.parent)), altered(RUN), BAD),
    "ledger": Reader(
        from_file("abc123.ledger", ledger.read),
        st.lists(altered(LEDGER).map(json.dumps), max_size=3).map("\n".join)),
    "engine line": Reader(events.parse, edited([event(name) for name in KINDS]), (ValueError,)),
    "engine event": Reader(
        events.parse, st.sampled_from(EVENTS).flatmap(altered).map(json.dumps), (ValueError,)),
    "histogram": Reader(
        lambda text: Histogram(text).count, edited([Histogram.of({5: 1, 70_000: 3}).text]),
        (ValueError,)),
    "histogram's header and counts": Reader(read_histogram, HISTOGRAM, (ValueError,)),
    "far host's greeting": Reader(
        lambda told: from_plain(Hello, told), altered(HELLO), (KeyError, TypeError, ValueError)),
    "datapath counters": Reader(parse_datapath_counters, edited([DATAPATH]), DEPENDS),
    "thread statistics": Reader(parse_pmd_stats, edited([PMD]), DEPENDS),
    "VPP's statistics": Reader(parse_statistics, edited([VPP]), DEPENDS),
    "VPP's links": Reader(
        lambda text: (links_up(text), spare_links(text)), edited([VPP_LINKS]), DEPENDS),
    "VPP's table": Reader(table_size, edited(["L2FIB total/learned entries: 5/3"]), DEPENDS),
    "socket drops": Reader(parse_socket_drops, edited([SOCKETS]), DEPENDS),
    "NICs": Reader(read_nics, edited(["eth2/eth3+eth4/eth5", "0000:01:00.0/eth1"]),
                   (ValueError,)),
    "switch options": Reader(options.parse, edited(["emc:off+n:1"]), (ValueError,)),
    "state folder": Reader(
        from_environment("SWITCHMARK_STATE_DIR", state.state_dir), edited(["/run/sm"]), BAD),
    "cache folder": Reader(
        from_environment("SWITCHMARK_CACHE_DIR", state.cache_dir), edited(["/var/cache/x"]), BAD),
    "store's address": Reader(
        read_store_address, edited(["postgresql://me@lab:5432/db/quick?sslmode=require"]), BAD),
    "place of a store's objects": Reader(
        check_objects_address, edited(["s3://b/p?endpoint=https://s3.lab:9000&region=x"]), BAD),
    "printed text": Reader(printable, edited(["a\x1b[31mb"])),
    **PROGRAMS,
    **INSTRUMENTS_SAY,
    **MACHINE,
    **REQUESTS,
    **STORE,
    **TABLES,
}  # fmt: skip


def attempt(reader: Reader, value: Any) -> None:
    """Read one input. Raise an error that the reader does not document."""
    with suppress(*reader.expected):
        reader.read(value)


def explore(
    name: str, examples: int, seeded: int | None = None, tried: Counter[str] | None = None
) -> None:
    """Try inputs of one reader, and count them. Raise its first finding, in its smallest form."""
    reader, counts = READERS[name], Counter[str]() if tried is None else tried

    @settings(
        max_examples=examples, deadline=None, database=None, print_blob=True,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
        derandomize=seeded is None,
    )  # fmt: skip
    @given(reader.given)
    def try_one(value: Any) -> None:
        counts[name] += 1
        attempt(reader, value)

    (try_one if seeded is None else seed(seeded)(try_one))()


def main() -> int:
    """Run rounds over all readers, each with a different seed, until the time has passed."""
    parser = argparse.ArgumentParser(prog="tools/fuzz --python", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--examples", type=int, default=500, help="inputs of each reader in a round"
    )
    arguments = parser.parse_args()
    ends, number, found = time.monotonic() + arguments.seconds, arguments.seed, 0
    tried: Counter[str] = Counter()
    while time.monotonic() < ends:
        for name in READERS:
            try:
                explore(name, arguments.examples, number, tried)
            except Exception as error:  # every error is a finding
                found += 1
                print(f"FOUND {name}, seed {number}: {type(error).__name__}: {error}", flush=True)
                print(*getattr(error, "__notes__", [])[:3], sep="\n", flush=True)
            if time.monotonic() >= ends:
                break
        number += 1
    print(f"fuzz of Python's readers: {tried.total()} inputs of {len(tried)} readers, "
          f"at least {min(tried.values())} of each, seeds {arguments.seed} to {number - 1}, "
          f"{found} findings")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
