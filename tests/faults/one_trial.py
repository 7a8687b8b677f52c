"""One soak trial of hours (`tools/soak --one-trial`): memory of bench and engines stays constant,
and counters never decrease."""

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

GROWTH = 0.05  # permitted growth of the median, from the second tenth to the last
SAMPLE_S = 1.0
ENOUGH = 20  # samples
LIMIT_S = 600.0  # for deployment and teardown
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


def run(options: argparse.Namespace) -> int:
    """Return 0 if nothing grew and no counter decreased; 1 otherwise, or if the trial failed."""
    top = Path(f"/var/tmp/soak{os.getpid()}")
    places = Places(top / "state", top / "results", top / "cache", top / "soak.yaml")
    top.mkdir(mode=0o755)
    seconds = round(options.hours * 3600)
    places.campaign.write_text(
        CAMPAIGN.format(
            switch=options.switch,
            environment=options.environment,
            rate=options.rate,
            seconds=seconds,
        )
    )
    snapshot.leave_out_mounts()
    before = snapshot.take([top], ())
    job = Job.start(
        places, "run", str(places.campaign), "--no-baseline", "--results", str(places.results)
    )
    samples = _watch(job, seconds + LIMIT_S)
    if job.running:
        job.process.kill()
    code = job.process.wait()
    after = snapshot.take([top], [job.session] if job.session else [])
    wrong = [*judged(samples), *_record(places.results), *snapshot.differences(before, after)]
    print(
        f"one trial of {seconds} s through {options.switch}, {options.environment}; "
        f"exit code {code}"
    )
    print("\n".join(wrong) or "nothing grew, nothing went back")
    if code:
        print(job.stderr()[-800:])
    shutil.rmtree(top, ignore_errors=True)
    return 1 if wrong or code else 0


def _watch(job: Job, seconds: float) -> list[Sample]:
    """Take samples while its engines run."""
    samples: list[Sample] = []
    deadline = time.monotonic() + seconds
    while job.running and time.monotonic() < deadline:
        job.ledger()
        engines = job.engines()
        if len(engines) >= 2:  # the last sample is incomplete and dropped below
            samples.append((memory_mb([job.process.pid]), memory_mb(engines), job.frames()))
        time.sleep(SAMPLE_S)
    return samples


def judged(samples: Sequence[Sample]) -> list[str]:
    """Print the first and last values; return the findings."""
    tenth = len(samples) // 10
    if len(samples) < ENOUGH:
        return [f"too few samples to compare ({len(samples)}; {ENOUGH} are enough)"]
    wrong = []
    print("\n| | first | last | change |\n|---|---|---|---|")
    for at, name in enumerate(("memory of the bench (MB)", "memory of engines (MB)")):
        first, last = (
            statistics.median(one[at] for one in part)
            for part in (samples[tenth : 2 * tenth], samples[-tenth - 1 : -1])
        )
        print(f"| {name} | {first:.4g} | {last:.4g} | {last / first - 1:+.1%} |")
        if last / first - 1 > GROWTH:
            wrong.append(f"grew: {name}")
    counts = [one[2] for one in samples[:-1]]
    print(f"| frames that left a device | {counts[0]} | {counts[-1]} | |")
    if any(now < before for before, now in pairwise(counts)):
        wrong.append("a count of frames went back")
    return wrong


def _record(results: Path) -> list[str]:
    """Return the findings in the stored record."""
    records = [json.loads(path.read_text()) for path in results.glob("*/trials/*.json")]
    if len(records) != 1:
        return [f"{len(records)} records of one trial"]
    if records[0]["status"] != "finished":
        return [f"the trial: {records[0].get('message')}"]
    for figure in records[0].get("method", {}).get("figures", ()):
        print(f"{figure['name']}: {figure['value']:.6g} {figure['unit']}")
    return []
