"""Compares idle strategies of applications that share a core: the same trials with one strategy and
another, in turns, in random order, a line each.

    python bench/engine/turns.py --switch basicfwd ovs-dpdk --rate 1M 3M max rtt --rounds 2

`rtt` is a closed loop of 1000 requests a second. Loss and rates are those of the kept window.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import tools.own_python  # noqa: F401 - runs this program by a Python that has the packages

# isort: split

import argparse
import json
import random
import subprocess
from typing import Any


def trial(switch: str, rate: str, idle: str, duration: str) -> dict[str, Any] | None:
    """Return a record; None without one."""
    load = ["-d", "latency", "-r", "1000"] if rate == "rtt" else ["-r", rate]
    command = [sys.executable, "-m", "switchmark.cli.main", "trial", switch, *load]
    command += ["-t", duration, "--set", f"idle={idle}", "--set", "interval=100ms"]
    command += ["--no-baseline", "--json", "--quiet"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        (record,) = json.loads(done.stdout)
    except ValueError:  # not JSON, or not one record
        print(f"{switch} {rate} {idle}: {done.stderr.strip()[-200:]}", file=sys.stderr)
        return None
    finished: dict[str, Any] | None = record if record["status"] == "finished" else None
    return finished


def line(record: dict[str, Any]) -> str:
    """Return the result as a row."""
    if (latency := record["latency"]) is not None:
        us = {key: latency["percentiles_ns"][key] / 1e3 for key in ("50", "90", "99")}
        return "  ".join(f"p{key} {value:.1f} us" for key, value in us.items())
    found = record["throughput"]
    ends = {one["role"]: one["result"] for one in record["engines"]}
    sent = ends["sender"]["totals"]
    return (
        f"forwarded {found['forwarded_pps'] / 1e6:.3f} Mpps  loss {found['loss_ratio']:.4%}  "
        f"spread {found['forwarded_stdev_pps'] / max(1, found['forwarded_pps']):.1%}  "
        f"not sent {sent['tx_dropped'] / max(1, sent['tx_intended']):.3%}  "
        f"limited by {record['limit']['factor']}  {' '.join(record['verdict']['marks'])}"
    )


def main() -> None:
    """Measure all of them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--switch", nargs="+", default=["basicfwd"])
    parser.add_argument("--rate", nargs="+", default=["3M", "max", "rtt"])
    parser.add_argument("--idle", nargs="+", default=["yield", "baton"])
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--duration", default="2s")
    options = parser.parse_args()
    for _ in range(options.rounds):
        for switch in options.switch:
            for rate in options.rate:
                for idle in random.sample(options.idle, len(options.idle)):
                    record = trial(switch, rate, idle, options.duration)
                    found = line(record) if record else "failed"
                    print(f"{switch:10} {rate:>5} {idle:6} {found}", flush=True)


if __name__ == "__main__":
    main()
