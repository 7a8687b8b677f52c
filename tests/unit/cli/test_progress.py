"""Results and remarks in one file stand in the order in which they were printed."""

from __future__ import annotations

import os
import subprocess
import sys

from switchmark.cli.progress import describe
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial

SAID = """
from switchmark.cli.output import note, print_line
print_line("the table")
note("the remark")
print_line("the end")
"""


def test_a_remark_follows_what_was_printed_before_it() -> None:
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    told = subprocess.run(
        [sys.executable, "-c", SAID], env=buffered,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    assert told.stdout.split("\n") == ["the table", "the remark", "the end", ""]


def test_lines_of_a_sweep_can_be_told_apart() -> None:
    sweep = (
        synthetic_trial(environment="netns", connect_mode=None),
        synthetic_trial(environment="lxc"),
        synthetic_trial(environment="netns", connect_mode=None, scenario="loopback-2"),
        synthetic_trial(environment="netns", connect_mode=None, bidirectional=True),
        synthetic_trial(environment="netns", connect_mode="cross-connect"),
        synthetic_trial(environment="netns", connect_mode=None, io="udp"),
    )
    lines = [describe(synthetic_failure(trial)) for trial in sweep]
    assert len(set(lines)) == len(sweep)
    assert lines[0].startswith("linux-bridge, 64 B, throughput at full rate: FAILED")
    assert lines[2].startswith("linux-bridge, 64 B, throughput at full rate, loopback-2: ")


def test_a_small_load_has_its_digits() -> None:
    line = describe(synthetic_record(synthetic_trial(rate_pps=1_230)))
    assert "throughput at 1.23 kpps, " in line and ": 1.23 kpps, 630 kbit/s; " in line
