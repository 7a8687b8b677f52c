"""A campaign of many short trials, after each of which the resources of the bench must not grow."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from switchmark.host.undo.ledger import COMPACT_BYTES
from tests.faults import one_trial, snapshot
from tests.faults.bench import Job, Places
from tests.faults.held import COUNTS, ENGINES, SPENT, held_resources, memory_mb
from tests.integration.two_hosts import TwoHosts
from tests.known_state import establish

WARM_UP = 50  # trials in which caches fill
GROWTH = 0.05  # permitted growth of the median after the warm-up
LOOKS_S = 0.05
SPAN = 50  # trials of a median
CAMPAIGN = """
name: soak
switch: {switch}
environment: {environment}
packet_size: 64
throughput: {{rate: 5k, duration: 0.3s}}
trim: {{warm_up: 0.05s, cool_down: 0.05s}}
interval: 0.05s
location: {location}
repetitions: {trials}
"""
SPENT_EACH = "CPU time of the bench a trial (s)"
AROUND = "time around a trial (s), others at work included"
LEDGER = "kept in the ledger (bytes)"
LIMITS_S = 3600.0  # a trial takes less, so a bench that takes longer hangs


def main() -> int:
    """Return 0 if nothing grew; 1 otherwise, or if the campaign failed."""
    establish()
    options = _arguments()
    if options.one_trial:
        return one_trial.run(options)
    trials = options.trials or round(options.hours * 3600 / options.seconds_each)
    top = Path(f"/var/tmp/soak{os.getpid()}")  # a remote host has another /tmp
    places = Places(top / "state", top / "results", top / "cache", top / "soak.yaml")
    top.mkdir(mode=0o755)
    places.campaign.write_text(
        CAMPAIGN.format(
            switch=options.switch, environment=options.environment, trials=trials,
            location=options.location,
        )
    )  # fmt: skip
    snapshot.leave_out_mounts()
    with ExitStack() as undo:
        hosts = None
        if options.location == "remote":
            hosts = TwoHosts.make(top / "hosts")
            undo.callback(hosts.end)
        before = snapshot.take([top], ())
        job = Job.start(
            places, "run", str(places.campaign), "--no-baseline", "--results",
            str(places.results), hosts=hosts,
        )  # fmt: skip
        samples, stored = _watch(job, trials, top)
        code = job.process.wait(LIMITS_S)
        after = snapshot.take([top], [job.session] if job.session else [])
    print(
        f"{stored} trials through {options.switch}, {options.environment}, {len(samples)} looks; "
        f"exit code {code}"
    )
    for message, times in _failures(places.results).items():
        print(f"failed {times} times: {message}")
    grown = table(samples)
    left = snapshot.differences(before, after)
    for line in left:
        print(line)
    if code not in (0, 1):
        print(job.stderr()[-800:])
    shutil.rmtree(top, ignore_errors=True)
    return 1 if grown or left or code not in (0, 1) or stored < trials else 0


def _failures(results: Path) -> Counter[str]:
    """Return the messages of failed trials with their numbers."""
    records = (json.loads(path.read_text()) for path in results.glob("*/trials/*.json"))
    return Counter(str(one["message"]) for one in records if one["status"] == "failed")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/soak", description=__doc__)
    parser.add_argument("--trials", type=int, default=0, help="how many")
    parser.add_argument("--hours", type=float, default=1.0, help="or for how long, about (1)")
    parser.add_argument("--seconds-each", type=float, default=2.0, help="a trial with all (2)")
    parser.add_argument("--one-trial", action="store_true", help="one soak trial of --hours")
    parser.add_argument("--rate", default="50k", help="of that trial (50k)")
    parser.add_argument("--location", default="local", choices=("local", "remote"))
    parser.add_argument("--switch", default="linux-bridge")
    parser.add_argument("--environment", default="netns")
    return parser.parse_args()


def _watch(job: Job, trials: int, top: Path) -> tuple[list[dict[str, float]], int]:
    """Take a sample after a record, or after several; return the samples and the number of records.

    On a busy machine a sample takes longer than a trial, so that samples after each record would
    come late."""
    samples: list[dict[str, float]] = []
    known: set[Path] = set()
    looked_at, spent_s = 0, 0.0  # records, and CPU time of the bench, at the last sample
    engines_mb = 0.0  # maximum since the last record
    while len(known) < trials:
        stored = {*job.places.results.glob("*/trials/[0-9a-f]*.json")}
        if new := stored - known:
            with suppress(OSError, ValueError):
                look = _look(job, new.pop(), top) | {ENGINES: engines_mb}
                now_s = look.pop(SPENT)
                look[SPENT_EACH] = (now_s - spent_s) / (len(stored) - looked_at)
                samples.append(look)
                looked_at, spent_s, engines_mb = len(stored), now_s, 0.0
        known = stored
        engines_mb = max(engines_mb, memory_mb(job.engines()))
        if not job.running:
            break
        time.sleep(LOOKS_S)
    return samples, len(known)


def _look(job: Job, record: Path, top: Path) -> dict[str, float]:
    job.ledger()  # finds its session
    timing = json.loads(record.read_text()).get("timing") or {}
    return {
        **held_resources(job, top),
        LEDGER: float(_ledger_size(job)),
        AROUND: float(timing.get("overhead_s", 0.0)),
    }


def _ledger_size(job: Job) -> int:
    path = job.places.state / f"{job.session}.ledger"
    return path.stat().st_size if job.session and path.exists() else 0


def table(samples: Sequence[Mapping[str, float]]) -> list[str]:
    """Print the first and last values; return the resources that grew."""
    late = samples[WARM_UP:]
    if len(late) < 2 * SPAN:
        print(f"too few trials to compare ({len(samples)}; {WARM_UP + 2 * SPAN} are enough)")
        return ["too few"]
    print("\n| | first | last | change |\n|---|---|---|---|")
    grown = []
    for name in samples[0]:
        middle = min if name in COUNTS else statistics.median
        first, last = (middle(one[name] for one in part) for part in (late[:SPAN], late[-SPAN:]))
        change = last / first - 1 if first else float(last > 0)
        print(f"| {name} | {first:.4g} | {last:.4g} | {change:+.1%} |")
        if name == LEDGER:
            change = max(one[name] for one in late) / (2 * COMPACT_BYTES) - 1  # the permitted size
        if change > GROWTH and name != AROUND:
            grown.append(name)
    print("\ngrew:", ", ".join(grown) or "nothing")
    return grown


if __name__ == "__main__":
    sys.exit(main())
