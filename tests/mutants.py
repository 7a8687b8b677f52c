"""Inject faults into copies of engine and bench, one at a time, which `certify` must find.

    tools/mutants [NAME ...] [--write]

For each fault, this program builds a copy, runs the reference check that must find the fault, and
prints the refuted figures. It also runs all checks on a copy without a fault, which must refute
nothing. `--write` renews the rows of docs/evidence/mutants.md. The installation, its certificates
and its state do not change.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "evidence" / "mutants.md"
BEGIN, END = "<!-- table: mutants -->", "<!-- end: mutants -->"
HEAD = "| fault | in | found by | message | after |\n|---|---|---|---|---:|"
BUDGET = "6m"  # on a quiet machine, a fault is found in seconds
# A certification needs only kernel ports; such an engine is built in seconds.
OPTIONS = ("-Ddpdk=disabled", "-Dnetmap=disabled", "-Dtests=disabled", "-Dbuildtype=release")
COPIED = ("engine", "meson.build", "meson_options.txt", "pyproject.toml", "switchmark", "docs")
NONE = "none"


@dataclass(frozen=True)
class Mutant:
    """A fault: a text that occurs once, and its replacement."""

    name: str
    by: str  # the reference check that must find it
    fault: str
    file: str
    before: str
    after: str

    @property
    def program(self) -> str:
        return "engine" if self.file.startswith("engine/") else "bench"

    def put_into(self, folder: Path) -> None:
        """Make the fault there."""
        path = folder / self.file
        text = path.read_text()
        assert text.count(self.before) == 1, f"{self.name}: {self.file} has another text"
        path.write_text(text.replace(self.before, self.after))


CLOCK, RECEIVE = "engine/measure/clock.c", "engine/traffic/receive.c"
TRANSMIT, PACING = "engine/traffic/transmit.h", "engine/traffic/pacing.h"
SEQUENCE, DEPLOYED = "engine/measure/sequence.c", "switchmark/trial/deployed_measurer.py"
LOADS, HISTOGRAM = "switchmark/engine/loads.py", "switchmark/statistics/histogram.py"

MUTANTS = (
    Mutant("clock-fast", "pacing", "the clock is 1 % fast", CLOCK,
           "const double ns = (double)(second.ns - first.ns);",
           "const double ns = 1.01 * (double)(second.ns - first.ns);"),
    Mutant("clock-slow", "pacing", "the clock is 1 % slow", CLOCK,
           "const double ns = (double)(second.ns - first.ns);",
           "const double ns = 0.99 * (double)(second.ns - first.ns);"),
    Mutant("received-1e-5", "counts", "one received frame in 10^5 is not counted", RECEIVE,
           "    counter_add(&c->rx_frames, counts[VERDICT_DATA]);",
           "    static uint64_t all;\n"
           "    const uint64_t were = all / 100000;\n"
           "    all += counts[VERDICT_DATA];\n"
           "    counter_add(&c->rx_frames, counts[VERDICT_DATA] - (all / 100000 - were));"),
    Mutant("sent-1e-5", "counts", "one sent frame in 10^5 is counted twice", TRANSMIT,
           "    counter_add(&c->tx_offered, sent);",
           "    static uint64_t all;\n"
           "    const uint64_t were = all / 100000;\n"
           "    all += sent;\n"
           "    counter_add(&c->tx_offered, sent + all / 100000 - were);"),
    Mutant("sent-missing", "counts", "one sent frame in 10^5 is not counted", TRANSMIT,
           "    counter_add(&c->tx_offered, sent);",
           "    static uint64_t all;\n"
           "    const uint64_t were = all / 100000;\n"
           "    all += sent;\n"
           "    counter_add(&c->tx_offered, sent - (all / 100000 - were));"),
    Mutant("received-twice", "counts", "one received frame in 1000 is counted twice", RECEIVE,
           "    counter_add(&c->rx_frames, counts[VERDICT_DATA]);",
           "    static uint64_t all;\n"
           "    const uint64_t were = all / 1000;\n"
           "    all += counts[VERDICT_DATA];\n"
           "    counter_add(&c->rx_frames, counts[VERDICT_DATA] + (all / 1000 - were));"),
    Mutant("shifted-5us", "one-way", "times are 5 us too long", "engine/measure/histogram.h",
           "    uint64_t v = (uint64_t)value;\n    if (__builtin_expect(value <",
           "    value += 5000;\n    uint64_t v = (uint64_t)value;\n"
           "    if (__builtin_expect(value <"),
    Mutant("shifted-back", "one-way", "times are 3 us too short", RECEIVE,
           ".actual_ns = elapsed_ns(since - late),",
           ".actual_ns = elapsed_ns(since - late) - 3000,"),
    Mutant("capped", "delay", "times above 300 us are called 300 us", RECEIVE,
           ".actual_ns = elapsed_ns(since - late),",
           ".actual_ns = elapsed_ns(since - late) > 300000 ? 300000 : elapsed_ns(since - late),"),
    Mutant("coarse", "resolution", "times are reported in steps of 50 us", RECEIVE,
           ".actual_ns = elapsed_ns(since - late),",
           ".actual_ns = elapsed_ns(since - late) / 50000 * 50000 + 1,"),
    Mutant("rate-low", "pacing", "frames leave 2 % slower than asked", PACING,
           "p->step = pacing_step((double)burst * hz / rate_pps);",
           "p->step = pacing_step(1.02 * (double)burst * hz / rate_pps);"),
    Mutant("rate-high", "pacing", "frames leave 1 % faster than asked", PACING,
           "p->step = pacing_step((double)burst * hz / rate_pps);",
           "p->step = pacing_step(0.99 * (double)burst * hz / rate_pps);"),
    Mutant("reordering-dead", "reordering", "frames out of order are not counted", SEQUENCE,
           "    t->reordered++;", ""),
    Mutant("duplicates-dead", "duplicates", "copies are not counted", SEQUENCE,
           "        t->duplicates++;\n        return SEQUENCE_AGAIN;",
           "        return SEQUENCE_AGAIN;"),
    Mutant("duplicates-few", "duplicates", "one copy in 20 is not counted", SEQUENCE,
           "        t->duplicates++;\n        return SEQUENCE_AGAIN;",
           "        static unsigned all;\n        t->duplicates += ++all % 20 != 0;\n"
           "        return SEQUENCE_AGAIN;"),
    Mutant("loss-hidden", "loss", "one lost frame in 50 is taken for received",
           SEQUENCE, "    t->gap_count++;",
           "    t->gap_count++;\n    t->unique += t->gap_count % 50 == 0;"),
    Mutant("round-trip-half", "delay", "a client's times are half of the true times", RECEIVE,
           "    end_run(rx);\n    int64_t since = ticks_since(now, stamp_intended(payload)), late",
           "    end_run(rx);\n    int64_t since = ticks_since(now, stamp_intended(payload)) / 2,"
           " late"),
    Mutant("bench-rate-low", "rate", "the reported rate is 2 % too low", LOADS,
           "return frames * 1e9 / duration_ns if duration_ns else 0.0",
           "return 0.98 * frames * 1e9 / duration_ns if duration_ns else 0.0"),
    Mutant("bench-loss-few", "loss", "one lost frame in 100 is left out", LOADS,
           "return self.offered_frames - self.unique_frames",
           "return (self.offered_frames - self.unique_frames) * 99 // 100"),
    Mutant("bench-percentile", "percentiles", "the median is the 25th percentile", HISTOGRAM,
           "values = self._values_at([float(name) for name in names])",
           "values = self._values_at([float(name) / 2 for name in names])"),
    Mutant("bench-duplicates", "duplicates", "copies are reported twice", DEPLOYED,
           "duplicates=sum(one.duplicates for one in losses),",
           "duplicates=2 * sum(one.duplicates for one in losses),"),
    Mutant("bench-reordered", "reordering", "half of the frames out of order count", DEPLOYED,
           "reordered=sum(one.reordered for one in losses),",
           "reordered=sum(one.reordered for one in losses) // 2,"),
)  # fmt: skip
BY_NAME = {mutant.name: mutant for mutant in MUTANTS}


@dataclass(frozen=True)
class Found:
    """The result of certify for a copy."""

    name: str
    exit_code: int
    refuted: list[dict[str, Any]]
    others: list[str]  # figures that are neither refuted nor proven
    seconds: float
    message: str = ""


class Copy:
    """A copy of the project in a folder. Its engine is built again if a fault changed it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "copy"
        self.folder.mkdir()
        for name in COPIED:
            where = ROOT / name
            if where.is_dir():
                ignored = shutil.ignore_patterns("__pycache__", "build*")
                shutil.copytree(where, self.folder / name, ignore=ignored)
            else:
                shutil.copy(where, self.folder / name)
        self.build = folder / "build"
        _run(["meson", "setup", str(self.build), str(self.folder), *OPTIONS])
        self.compile()
        self.runtime = {
            "SWITCHMARK_STATE_DIR": str(folder / "state"),
            "SWITCHMARK_CACHE_DIR": str(folder / "cache"),
            "SWITCHMARK_TRAFFIC": str(self._engine),
            "PYTHONPATH": str(self.folder),
        }

    @property
    def _engine(self) -> Path:
        (path,) = [file for file in self.build.rglob("switchmark-traffic") if file.is_file()]
        return path

    def compile(self) -> None:
        _run(["meson", "compile", "-C", str(self.build)])

    def certified(self, mutant: Mutant | None) -> Found:
        """Inject the fault, certify, and remove the fault."""
        file = self.folder / mutant.file if mutant else None
        whole = file.read_text() if file else ""
        try:
            if mutant:
                mutant.put_into(self.folder)
            self.compile()
            return self._certify(mutant)
        finally:
            if file:
                file.write_text(whole)

    def _certify(self, mutant: Mutant | None) -> Found:
        command = [sys.executable, "-m", "switchmark.cli.main", "certify", "--port-kind", "veth",
                   "--budget", BUDGET, "--json", "--quiet", "--fail-fast"]  # fmt: skip
        command += ["--truth", mutant.by] if mutant else []
        begun = time.monotonic()
        done = subprocess.run(
            command, env=os.environ | self.runtime, cwd=self.folder, capture_output=True,
            text=True, timeout=900, check=False,
        )  # fmt: skip
        seconds = time.monotonic() - begun
        figures = json.loads(done.stdout)[0]["figures"] if done.stdout else []
        return Found(
            mutant.name if mutant else NONE,
            done.returncode,
            [one for one in figures if one["outcome"] == "refuted"],
            [
                f"{one['truth']}: {one['quantity']} {one['outcome']}"
                for one in figures
                if one["outcome"] not in ("refuted", "proven")
            ],
            seconds,
            done.stderr.strip(),
        )


def _run(command: Sequence[str]) -> None:
    folder = Path(sys.executable).parent  # with meson and ninja of the same environment
    path = {"PATH": f"{folder}:{os.environ.get('PATH', '')}"}
    done = subprocess.run(command, env=os.environ | path, capture_output=True, text=True,
                          check=False)  # fmt: skip
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stdout[-2000:]}{done.stderr[-2000:]}")


def interval(figure: dict[str, Any]) -> str:
    """Return an interval as text for the table."""
    if figure["low"] is None:
        return figure["why"]
    scale, unit = {"ratio": (100, " %"), "ns": (1e-3, " us")}.get(figure["unit"], (1, ""))
    if not figure["within"]:
        return f"{figure['quantity']}: {figure['low']:.1g} to {figure['high']:.1g} of all wrong"
    low, high = figure["low"] * scale, figure["high"] * scale
    return f"{figure['quantity']}: off by {low:+.2f} to {high:+.2f}{unit}"


def row(found: Found) -> str:
    """Return a line of the table."""
    mutant = BY_NAME.get(found.name)
    fault = mutant.fault if mutant else "none"
    where = mutant.program if mutant else ""
    checks = dict.fromkeys(f"`{figure['truth']}`" for figure in found.refuted)
    truths = ", ".join(checks) or "nothing"
    intervals = "; ".join(interval(figure) for figure in found.refuted[:2])
    return f"| {fault} | {where} | {truths} | {intervals} | {found.seconds:.0f} s |"


def write(rows: Sequence[str]) -> None:
    """Write rows into the table of the document, in place of the rows of the same faults."""
    text = DOCUMENT.read_text()
    by_fault = {_fault(row): row for row in (*table_rows(text), *rows)}
    faults = (NONE, *(mutant.fault for mutant in MUTANTS))
    rows = [by_fault[fault] for fault in faults if fault in by_fault]
    before, begun, rest = text.partition(BEGIN)
    _, ended, after = rest.partition(END)
    assert begun and ended, f"{DOCUMENT}: the markers of table mutants are missing"
    DOCUMENT.write_text("\n".join([before + BEGIN, HEAD, *rows, END]) + after)


def table_rows(text: str) -> list[str]:
    """Return the rows of the table of the document, without its head."""
    return text.partition(BEGIN)[2].partition(END)[0].strip().splitlines()[2:]


def _fault(line: str) -> str:
    return line.split("|")[1].strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/mutants", description=__doc__.split("\n\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"{NONE}, {', '.join(BY_NAME)}")
    parser.add_argument(
        "--write", action="store_true", help="put the table into docs/evidence/mutants.md"
    )
    arguments = parser.parse_args()
    unknown = [name for name in arguments.names if name not in (NONE, *BY_NAME)]
    if unknown:
        parser.error(f"{unknown[0]}: unknown fault; choose from {NONE}, {', '.join(BY_NAME)}")
    names, missed, rows = arguments.names or [NONE, *BY_NAME], [], []
    with tempfile.TemporaryDirectory(prefix="smm") as folder:
        copy = Copy(Path(folder))
        for name in names:
            found = copy.certified(BY_NAME.get(name))
            rows.append(row(found))
            if arguments.write:
                write(rows)
            print(rows[-1], *found.others, sep="\n    ", flush=True)
            if bool(found.refuted) == (name == NONE):
                missed.append(name)
                print(f"    UNEXPECTED: exit code {found.exit_code} {found.message}")
    print(f"{len(names) - len(missed)} of {len(names)} as they should be")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
