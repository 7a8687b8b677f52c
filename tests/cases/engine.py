"""Runs the traffic engine from a test, with files instead of wires, or on devices of namespaces."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError
from tests.cases.frames import B_MAC, Packet, read_pcap

# A late sender catches up without limit, so that counts are exact on a busy machine.
PATIENT = ("--catch-up-us", "1000000000", "--idle", "sleep")
DEADLINE_S = 120.0


def engine_path() -> str:
    """Return the engine that the bench would run; skip if there is none."""
    try:
        return str(find_engine())
    except UnavailableError as error:
        pytest.skip(str(error))


@dataclass(frozen=True)
class Ended:
    """The output of an engine that has ended."""

    code: int
    events: list[dict[str, Any]]
    error: str

    @property
    def result(self) -> dict[str, Any]:
        """Return its last result; the test fails if there is none."""
        found = [event for event in self.events if event["event"] == "result"]
        assert found, f"no result: exit code {self.code}: {self.error}"
        assert self.code == 0, self.error
        return found[-1]

    @property
    def totals(self) -> dict[str, int]:
        """Return the counters of the result."""
        return dict(self.result["totals"])

    @property
    def refusal(self) -> str:
        """Return the line that it printed instead of a result."""
        assert self.code in (1, 2), f"exit code {self.code}"
        assert self.code != 0 and not [e for e in self.events if e["event"] == "result"]
        lines = self.error.strip().splitlines()
        assert len(lines) == 1, self.error
        return lines[0]


def run_engine(role: str, *words: str | Path, namespace: str | None = None) -> Ended:
    """Run an engine to its end without commands."""
    command = [engine_path(), role, *map(str, words), "--start", "now"]
    if namespace is not None:
        command = ["ip", "netns", "exec", namespace, *command]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=DEADLINE_S,
        check=False,
    )  # fmt: skip
    return Ended(done.returncode, [json.loads(line) for line in done.stdout.splitlines()],
                 done.stderr)  # fmt: skip


def sent_frames(path: Path, *words: str | Path) -> list[Packet]:
    """Return the frames that a sender with these options wrote to a file."""
    to = ("--port", f"pcap:write={path}", "--dst-mac", B_MAC)
    ended = run_engine("sender", *to, *PATIENT, *words)
    totals = ended.totals  # fails if the sender refused
    found = read_pcap(path)
    assert totals["tx_offered"] == len(found)
    return found


def received(path: Path, *words: str | Path) -> dict[str, int]:
    """Return the counters of a receiver with these options that reads a file."""
    return run_engine("receiver", "--port", f"pcap:read={path}", *words).totals
