"""One soak trial of hours (`tools/soak --one-trial`): the memory of bench and engines holds, and
frames that were counted stay counted."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import time
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from tests.faults import snapshot
from tests.faults.bench import Job, Places
from tests.faults.held import memory_mb

GROWTH = 0.05  # of the median of the last tenth over that of the second
SAMPLE_S = 1.0
ENOUGH = 20  # samples
LIMIT_S = 600.0  # around the traffic
CAMPAIGN = """
name: one-trial
switch: {switch}
environment: {environment}
packet_size: 64
method: soak
rate: {rate}
duration: {seconds}s
interval: 1s
"""

Sample = tuple[float, float, int]  # MB of the bench, MB of its engines, frames that left a device


def run(asked: argparse.Namespace) -> int:
    """0: nothing grew and nothing went back; 1: something did, or the trial did not end well."""
    top = Path(f"/var/tmp/soak{os.getpid()}")
    places = Places(top / "state", top / "results", top / "cache", top / "soak.yaml")
    top.mkdir(mode=0o755)
    seconds = round(asked.hours * 3600)
    places.campaign.write_text(
        CAMPAIGN.format(
            switch=asked.switch, environment=asked.environment, rate=asked.rate, seconds=seconds
        )
    )
    snapshot.leave_out_mounts()
    before = snapshot.take([top], ())
    job = Job.start(
        places, "run", str(places.campaign), "--no-baseline", "--results", str(places.results)
    )
    seen = _watch(job, seconds + LIMIT_S)
    if job.running:
        job.process.kill()
    code = job.process.wait()
    after = snapshot.take([top], [job.session] if job.session else [])
    wrong = [*judged(seen), *_record(places.results), *snapshot.differences(before, after)]
    print(f"one trial of {seconds} s through {asked.switch}, {asked.environment}; exit code {code}")
    print("\n".join(wrong) or "nothing grew, nothing went back")
    if code:
        print(job.said()[-800:])
    shutil.rmtree(top, ignore_errors=True)
    return 1 if wrong or code else 0


def _watch(job: Job, seconds: float) -> list[Sample]:
    """While its engines run."""
    seen: list[Sample] = []
    deadline = time.monotonic() + seconds
    while job.running and time.monotonic() < deadline:
        job.ledger()
        engines = job.engines()
        if len(engines) >= 2:  # (their last sight is not of all: it is left out below)
            seen.append((memory_mb([job.process.pid]), memory_mb(engines), job.frames()))
        time.sleep(SAMPLE_S)
    return seen


def judged(seen: Sequence[Sample]) -> list[str]:
    """Print what was held at first and at last; returns what is wrong with it."""
    tenth = len(seen) // 10
    if len(seen) < ENOUGH:
        return [f"too few samples to compare ({len(seen)}; {ENOUGH} are enough)"]
    wrong = []
    print("\n| | first | last | change |\n|---|---|---|---|")
    for at, name in enumerate(("memory of the bench (MB)", "memory of engines (MB)")):
        first, last = (
            statistics.median(one[at] for one in part)
            for part in (seen[tenth : 2 * tenth], seen[-tenth - 1 : -1])
        )
        print(f"| {name} | {first:.4g} | {last:.4g} | {last / first - 1:+.1%} |")
        if last / first - 1 > GROWTH:
            wrong.append(f"grew: {name}")
    counts = [one[2] for one in seen[:-1]]
    print(f"| frames that left a device | {counts[0]} | {counts[-1]} | |")
    if any(now < before for before, now in pairwise(counts)):
        wrong.append("a count of frames went back")
    return wrong


def _record(results: Path) -> list[str]:
    """What is wrong with what was stored."""
    records = [json.loads(path.read_text()) for path in results.glob("*/trials/*.json")]
    if len(records) != 1:
        return [f"{len(records)} records of one trial"]
    if records[0]["status"] != "finished":
        return [f"the trial: {records[0].get('message')}"]
    for one in records[0].get("method", {}).get("figures", ()):
        print(f"{one['name']}: {one['value']:.6g} {one['unit']}")
    return []
