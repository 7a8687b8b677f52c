"""Generated input for each reader of what comes from outside the process.

The property is the same for all: a value, or the error that the reader documents. `EXPECTED` are
those that end as one line for the user, with exit code 2 (or as a failed trial's message); anything
else is a finding. `tests/unit/test_hostile_input.py` runs some hundred inputs of each,
`tools/fuzz --python` as many as there is time for."""

from __future__ import annotations

import argparse
import atexit
import base64
import json
import os
import shutil
import struct
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from switchmark.campaign.find import builtin_text, find_campaign
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import expand_notation
from switchmark.engine import events
from switchmark.errors import SwitchmarkError
from switchmark.language.printable import printable
from switchmark.model import options
from switchmark.model.nics import parse_nics
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.hello import Hello
from switchmark.results.documents import read_record
from switchmark.results.store import open_run
from switchmark.statistics.histogram import Histogram
from switchmark.store.address import read_store_address
from switchmark.store.objects import check_objects_address
from switchmark.switch.support.ovs_instance import parse_datapath_counters
from switchmark.switch.support.private import parse_socket_drops
from switchmark.switch.support.vpp_answers import parse_statistics
from switchmark.switch.support.work import parse_pmd_stats
from switchmark.testbed import state
from switchmark.testbed.facts import gather
from switchmark.testbed.testbed_file import read_testbed
from switchmark.testbed.undo import ledger
from tests.unit.engine_lines import KINDS, event
from tests.unit.records import synthetic_record

THERE = installed()
SCRATCH = Path(tempfile.mkdtemp(prefix="sm-hostile-"))
atexit.register(shutil.rmtree, SCRATCH, ignore_errors=True)


@dataclass(frozen=True)
class Reader:
    """What is fed, and the errors that it documents."""

    read: Callable[[Any], object]
    given: st.SearchStrategy[Any]
    expected: tuple[type[Exception], ...] = ()


WORDS = st.one_of(
    st.sampled_from(
        ["\0", "\n", "\t", ":", "- ", "{", "}", "[", "]", ",", "..", "=", "∈", "(", ")", "+", "/",
         "%", "-1", "1e999", "nan", "0x1f", "9" * 30, "''", '"', "&a", "*a", "!!python/object:os",
         "<<", "|", ">", "#", "null", "true", "~", "\x1b[2J", "\u202e", "\ud800", "ä", "½",
         "../" * 9, "$(id)", "`id`", ";", "x" * 300]
    ),
    st.text(max_size=8),
)  # fmt: skip
ANY = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.integers(10**30, 10**40)
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(WORDS, inner, max_size=4)),
    max_leaves=6,
)


@st.composite
def edited(draw: st.DrawFn, samples: list[str]) -> str:
    """One of the texts with some of it taken out, put elsewhere, or replaced by what hurts."""
    text = draw(st.sampled_from(samples))
    for _ in range(draw(st.integers(0, 4))):
        at = draw(st.integers(0, len(text)))
        taken = draw(st.integers(0, min(12, len(text) - at)))
        text = text[:at] + draw(WORDS) + text[at + taken :]
    return text


@st.composite
def altered(draw: st.DrawFn, document: Any) -> Any:
    """The document with some of its parts replaced, taken away, or doubled."""
    document = json.loads(json.dumps(document))
    for _ in range(draw(st.integers(1, 3))):
        place = document
        while isinstance(place, dict | list) and place:
            keys = list(place) if isinstance(place, dict) else list(range(len(place)))
            key = draw(st.sampled_from(keys))
            if not isinstance(place[key], dict | list) or draw(st.integers(0, 3)) == 0:
                if draw(st.booleans()):
                    place[key] = draw(ANY)
                else:
                    del place[key]
                break
            place = place[key]
    return document


def histogram_text(
    counts: bytes, figures: int = 3, lowest: int = 1, highest: int = 10**11, told_bytes: int = 1
) -> str:
    """The text of a histogram with whatever header and counts, compressed as it should be."""
    header = struct.pack(">IIIIQQd", 0x1C849313, told_bytes, 0, figures, lowest, highest, 1.0)
    inside = zlib.compress(header + counts)
    return base64.b64encode(struct.pack(">II", 0x1C849314, len(inside)) + inside).decode()


COUNTS = st.sampled_from(
    [b"\x02", b"\x01", b"\x80", b"\xff" * 9, b"\xfe" * 8 + b"\x7f", b"\xff" * 3 + b"\x01",
     b"\0" * 300, b"\0" * (1 << 20)]
)  # fmt: skip
LIMITS = st.one_of(st.integers(0, 3000), st.just(10**11), st.integers(0, 2**64 - 1))
HISTOGRAM = st.builds(
    histogram_text, st.lists(COUNTS, max_size=12).map(b"".join), st.integers(0, 2**32 - 1),
    LIMITS, LIMITS, st.integers(0, 2**32 - 1),
) | st.builds(
    histogram_text, st.lists(COUNTS, max_size=12).map(b"".join), st.integers(1, 5), st.just(1),
    LIMITS,
)  # fmt: skip


def _read_histogram(text: str) -> None:
    """All that is asked of a histogram of a stranger."""
    held = Histogram(text)
    held.percentiles_ns()
    held.curve()
    Histogram.merged([held.shifted(3), Histogram.of({5: 1})])


def _file(name: str, read: Callable[[Path], object]) -> Callable[[Any], object]:
    def call(content: Any) -> object:
        path = SCRATCH / name
        path.parent.mkdir(exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        path.write_bytes(text.encode("utf-8", "surrogatepass"))
        path.chmod(0o600)
        return read(path)

    return call


def _environment(name: str, read: Callable[[], object]) -> Callable[[str], object]:
    def call(value: str) -> object:
        os.environ[name] = value.replace("\0", "").encode("utf-8", "replace").decode()
        try:
            return read()
        finally:
            del os.environ[name]

    return call


RECORD = synthetic_record().model_dump(mode="json")
RUN = {
    "schema_version": 1, "run_id": "abc123", "campaign": "c", "campaign_sha256": "0",
    "started_at": "2026-01-01T00:00:00Z", "switchmark_version": "1", "definition": {
        "repetitions": 2, "prove": 0.05, "published": [
            {"match": {"switch": "ovs"}, "value": 1, "unit": "pps", "source": "s"}]},
    "settings": {"set": ["a=b"]}, "host": {"kernel": "6"},
}  # fmt: skip
HELLO = to_plain(Hello(1, "abc123", Path("/run/x"), "far", "boot", gather(), ()))
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
VPP = "[0]: p1 /if/names\n[1 @ 0]: 5 packets, 300 bytes /if/rx\n[0 @ 0]: 5 packets /err/p1-tx/x\n"
CAMPAIGN = """
name: all
description: some of every kind
switch: [linux-bridge, ovs-dpdk]
environment: lxc
repetitions: 2
seed: 7
trim: {warm_up: 0.2s, cool_down: 0s}
verify: {probes: 4}
sweeps:
  - {packet_size: 64..128 step 32, rate: "1k, 1M", duration: 1s, scenario: pairs-2}
  - {packet_size: 64, dimension: latency, rate: 200, connect_mode: learning, flows: 10}
  - {method: ndr-pdr, packet_mix: imix, bidirectional: true}
published:
  - {match: {switch: ovs-dpdk}, value: 338k, unit: pps, source: Ara et al. 2021}
"""
EVENTS = [json.loads(event(name)) for name in KINDS]
SOCKETS = "p_raw UNCONN 0 0 [88b5]:eth0 * uid:0 ino:5 sk:1 skmem:(r0,t0,f0,w0,o0,bl0,d7)\n"
BAD: tuple[type[Exception], ...] = (SwitchmarkError,)
DEPENDS = (*BAD, ValueError, KeyError)  # of a trial: its message says which

READERS: dict[str, Reader] = {
    "campaign": Reader(
        lambda text: load_text(text, "c.yaml", THERE.known),
        edited([builtin_text("quick"), CAMPAIGN]), BAD),
    "setting": Reader(
        lambda text: find_campaign("quick", THERE.known, [text]),
        edited(["packet_size=64, 128", "rate=1M", "duration=5s", "trim.warm_up=1s",
                "nics=eth1/eth2", "switch_options=emc:off", "flows=10", "repetitions=3"]), BAD),
    "notation": Reader(
        lambda text: expand_notation(text, THERE.known),
        edited(["(V=linux-bridge, P={64, 1500}, R=1M)", "(D=latency, L=local, S=1vs1, V=ovs-dpdk, "
                "P=64..128, R=10k, B=1, repetition=3)"]), BAD),
    "testbed file": Reader(_file("testbed.yaml", read_testbed), edited([TESTBED]), BAD),
    "record": Reader(_file(f"{RECORD['trial_id']}.json", read_record), altered(RECORD), BAD),
    "run.json": Reader(
        _file("run/run.json", lambda path: open_run(path.parent)), altered(RUN), BAD),
    "ledger": Reader(
        _file("abc123.ledger", ledger.read),
        st.lists(altered(LEDGER).map(json.dumps), max_size=3).map("\n".join)),
    "engine line": Reader(events.parse, edited([event(name) for name in KINDS]), (ValueError,)),
    "engine event": Reader(
        events.parse, st.sampled_from(EVENTS).flatmap(altered).map(json.dumps), (ValueError,)),
    "histogram": Reader(
        lambda text: Histogram(text).count, edited([Histogram.of({5: 1, 70_000: 3}).text]),
        (ValueError,)),
    "histogram's header and counts": Reader(_read_histogram, HISTOGRAM, (ValueError,)),
    "far host's greeting": Reader(
        lambda told: from_plain(Hello, told), altered(HELLO), (KeyError, TypeError, ValueError)),
    "datapath counters": Reader(parse_datapath_counters, edited([DATAPATH]), DEPENDS),
    "thread statistics": Reader(parse_pmd_stats, edited([PMD]), DEPENDS),
    "VPP's statistics": Reader(parse_statistics, edited([VPP]), DEPENDS),
    "socket drops": Reader(parse_socket_drops, edited([SOCKETS]), DEPENDS),
    "NICs": Reader(parse_nics, edited(["eth2/eth3+eth4/eth5", "0000:01:00.0/eth1"]),
                   (ValueError,)),
    "switch options": Reader(options.parse, edited(["emc:off+n:1"]), (ValueError,)),
    "state folder": Reader(
        _environment("SWITCHMARK_STATE_DIR", state.state_dir), edited(["/run/switchmark"]), BAD),
    "cache folder": Reader(
        _environment("SWITCHMARK_CACHE_DIR", state.cache_dir), edited(["/var/cache/x"]), BAD),
    "store's address": Reader(
        read_store_address, edited(["postgresql://me@lab:5432/db/quick?sslmode=require"]), BAD),
    "place of a store's objects": Reader(
        check_objects_address, edited(["s3://b/p?endpoint=https://s3.lab:9000&region=x"]), BAD),
    "what is printed": Reader(printable, edited(["a\x1b[31mb"])),
}  # fmt: skip


def attempt(reader: Reader, value: Any) -> None:
    """One input. Raises what the reader does not document."""
    with suppress(*reader.expected):
        reader.read(value)


def explore(name: str, examples: int, seeded: int | None = None) -> None:
    """So many inputs of one reader; raises its first finding, shrunk."""
    reader = READERS[name]

    @settings(
        max_examples=examples, deadline=None, database=None, print_blob=True,
        phases=[Phase.generate, Phase.shrink], suppress_health_check=list(HealthCheck),
        derandomize=seeded is None,
    )  # fmt: skip
    @given(reader.given)
    def one(value: Any) -> None:
        attempt(reader, value)

    (one if seeded is None else seed(seeded)(one))()


def main() -> int:
    """Round after round over all readers, each with a seed of its own, until the time is over."""
    parser = argparse.ArgumentParser(prog="tools/fuzz --python", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--examples", type=int, default=500, help="of each reader, a round")
    asked = parser.parse_args()
    ends, number, counts, found = time.monotonic() + asked.seconds, asked.seed, 0, 0
    while time.monotonic() < ends:
        for name in READERS:
            try:
                explore(name, asked.examples, number)
            except Exception as error:  # (a finding, whatever it is)
                found += 1
                print(f"FOUND {name}, seed {number}: {type(error).__name__}: {error}", flush=True)
                print(*getattr(error, "__notes__", [])[:3], sep="\n", flush=True)
            counts += asked.examples
            if time.monotonic() >= ends:
                break
        number += 1
    print(f"fuzz of Python's readers: {counts} inputs, seeds {asked.seed} to {number - 1}, "
          f"{found} findings")  # fmt: skip
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
