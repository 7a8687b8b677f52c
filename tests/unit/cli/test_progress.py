"""The view of a running campaign on a terminal, and its lines in a pipe and a file."""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from switchmark.cli import progress
from switchmark.cli.progress import CampaignProgress, CertifyProgress, describe
from switchmark.model.choices import Dimension
from switchmark.record import Record
from tests.unit.records import quick_records, synthetic_failure, synthetic_record, synthetic_trial

SAID = """
from switchmark.cli.output import note, print_line
print_line("the table")
note("the remark")
print_line("the end")
"""


def test_a_remark_follows_what_was_printed_before_it() -> None:
    buffered = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    output = subprocess.run(
        [sys.executable, "-c", SAID], env=buffered,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=True,
    )  # fmt: skip
    assert output.stdout.split("\n") == ["the table", "the remark", "the end", ""]


def test_lines_of_a_sweep_differ() -> None:
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


def view(
    monkeypatch: pytest.MonkeyPatch, width: int = 80, **options: Any
) -> tuple[CampaignProgress, io.StringIO]:
    """The progress on a terminal of this width, and what it writes."""
    written = io.StringIO()
    screen = Console(file=written, width=width, height=40, force_terminal=True)
    monkeypatch.setattr(progress, "console", lambda **_: screen)
    return CampaignProgress(**options), written


def begin(shown: CampaignProgress, record: Record, left_s: float = 91.0, total: int = 0) -> None:
    plan: Any = SimpleNamespace(trial=record.trial)
    shown.trial_begins(1, total, plan, left_s)


@pytest.mark.parametrize("width", [40, 80, 100, 120])
def test_view_fits_the_screen_and_breaks_no_word(
    width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    shown, _ = view(monkeypatch, width)
    records = quick_records(6)
    marked = synthetic_record(
        synthetic_trial(switch="ovs-dpdk"), marks=["receiver-away", "two-bands", "disturbed"]
    )
    for record in [*records, marked]:
        begin(shown, record)
        shown.live(123_456.0)
        shown.trial_ended(record)
    begin(shown, marked)
    narrow = [line.text for line in shown.lines(width)]
    assert all(len(line) <= width for line in narrow), narrow
    whole = {word for line in shown.lines(1000) for word in line.text.split()}
    assert {word for line in narrow for word in line.split()} <= whole


def test_view_has_the_trial_the_standing_and_the_warnings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shown, _ = view(monkeypatch)
    records = [one for one in quick_records(6) if one.trial.packet_size_bytes == 64]
    throughput = [one for one in records if one.trial.dimension is Dimension.THROUGHPUT]
    for record in throughput:
        shown.trial_ended(record)
    shown.trial_ended(synthetic_failure(synthetic_trial(switch="basicfwd")))
    begin(shown, throughput[0])
    shown.live(361_000.0)
    text = "\n".join(line.text for line in shown.lines(100))
    assert text.startswith("trial 1, at most 1 min 31 s left\nnow: linux-bridge, 64 B, ")
    assert "361 kpps" in text
    assert re.search(r"^  throughput, 64 B\n    (ovs-dpdk|basicfwd) ", text, re.MULTILINE)
    assert " to " in text and "Mpps" in text
    assert "failed: 1 trial" in text


def test_time_left_runs_down_during_a_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """With `trial` it stood still at its first value until the trial had ended."""
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown, _ = view(monkeypatch)
    begin(shown, synthetic_record(synthetic_trial()), left_s=21.0, total=2)
    firsts = []
    for _ in range(3):
        firsts.append(next(iter(shown.lines(80))).text)
        now[0] += 10.0
    assert firsts == [
        "trial 1 of 2, about 21 s left",
        "trial 1 of 2, about 11 s left",
        "trial 1 of 2, a few seconds left",
    ]


def test_a_terminal_gets_no_line_for_each_trial_unless_verbose(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for verbose in (False, True):
        shown, written = view(monkeypatch, verbose=verbose)
        shown.trial_ended(synthetic_record(synthetic_trial()))
        assert ("linux-bridge" in written.getvalue()) is verbose


def test_a_pipe_gets_one_line_for_each_block(capsys: pytest.CaptureFixture[str]) -> None:
    with CampaignProgress() as shown:
        for record in sorted(quick_records(3), key=lambda one: one.trial.repetition):
            if record.trial.switch != "direct":
                begin(shown, record)
                shown.trial_ended(record)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(";")[0] for line in lines] == [
        f"block {number}: 12 trials" for number in (1, 2, 3)
    ]


def test_a_failure_is_printed_once_and_then_counted(capsys: pytest.CaptureFixture[str]) -> None:
    with CampaignProgress() as shown:
        for switch in ("ovs-dpdk", "basicfwd", "linux-bridge"):
            shown.trial_ended(synthetic_failure(synthetic_trial(switch=switch)))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2
    assert lines[0].startswith("ovs-dpdk, 64 B, throughput at full rate, ")
    assert lines[1].startswith("block 1: 3 trials; 3 failed; ")


def test_a_dumb_terminal_is_not_redrawn(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TERM", "dumb")
    shown, written = view(monkeypatch)
    with shown:
        shown.trial_ended(synthetic_record(synthetic_trial()))
    assert "\x1b" not in written.getvalue() + capsys.readouterr().err


def test_certify_shows_what_it_checks(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    shown = CertifyProgress(deadline=1090.0)
    shown.begin("veth raw-mmsg")
    shown.observe("delay", 3, 12)
    assert [line.text for line in shown.lines(80)] == [
        "veth raw-mmsg: delay; 3 of 12 figures decided",
        "at most 1 min 30 s left",
    ]
