"""The first lines about a run: warnings, printed commands, rows, comparisons."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.cli import output, run_output
from switchmark.cli.output import command_lines, wrapped
from switchmark.cli.run_output import summary_lines
from switchmark.record import Record
from switchmark.report.summary_words import answers_of
from switchmark.results.answer import LeadVerdict
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summary
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)


def lines_of(folder: Path, records: Sequence[Record], **definition: object) -> list[str]:
    found = open_run(write_run(folder, records, **definition))
    rows = summary(found.directory)
    answers = answers_of(found, rows, rows)
    return [line.text for line in summary_lines(found, rows, rows, answers)]


def test_every_mark_is_shown_the_most_serious_first(tmp_path: Path) -> None:
    """The list ended after three marks, and the one that explains the figure was not among them."""
    marks = ["oversubscribed", "no-baseline", "two-bands", "receiver-away", "nothing-arrived"]
    records = [
        synthetic_record(synthetic_trial(switch="ovs-dpdk"), marks=marks),
        synthetic_record(synthetic_trial(switch="basicfwd"), marks=[*marks[:2], "disturbed"]),
        synthetic_record(synthetic_trial(switch="direct"), marks=["coarse-clock"]),
    ]
    warned = [line for line in lines_of(tmp_path, records) if line.startswith(("NOT", "Caution"))]
    assert [line.split(": ")[1] for line in warned] == [
        "nothing-arrived (1 of 2 rows)",
        "two-bands (1 of 2 rows)",
        "disturbed (1 of 2 rows)",
        "receiver-away (1 of 2 rows)",
        "no-baseline (2 of 2 rows)",
        "oversubscribed (2 of 2 rows)",
        "baseline row",
    ]
    assert warned[0].startswith("NOT VALID: ") and warned[-1].endswith("coarse-clock (1)")


def test_equal_failures_share_a_line_and_others_are_counted(tmp_path: Path) -> None:
    records = [synthetic_record(synthetic_trial(switch="basicfwd"))]
    for number in range(6):
        message = "ovs-dpdk: no core" if number < 2 else f"fault {number}"
        trial = synthetic_trial(switch="ovs-dpdk").repeated(number)
        records.append(synthetic_failure(trial).model_copy(update={"message": message}))
    failed = [line for line in lines_of(tmp_path, records) if line.startswith("Failed")]
    assert failed[0] == "Failed: ovs-dpdk (2 trials): no core"
    assert failed[-1] == "Failed: 2 more trials, by other faults"
    assert len(failed) == 4


def test_summary_shortens_a_long_message_of_a_failed_trial(tmp_path: Path) -> None:
    """A message of 20,000 characters filled the terminal."""
    message = "no core free" + "x" * 20_000
    failed = synthetic_failure(synthetic_trial()).model_copy(update={"message": message})
    text = " ".join(lines_of(tmp_path, [failed]))
    assert text.count(" ...") == 1
    assert 900 < text.count("x") < 1100


def test_printed_commands_name_this_run_and_can_be_pasted(tmp_path: Path) -> None:
    """The hint `switchmark report` wrote the report of another run, and paths were not quoted."""
    folder = tmp_path / "two words"
    lines = lines_of(folder, quick_records(1))
    run = next(iter(folder.iterdir()))
    commands = [shlex.split(line.partition(": ")[2]) for line in lines[-2:]]
    assert commands == [
        ["switchmark", "show", "--full", str(run)],
        ["switchmark", "report", str(run)],
    ]


@pytest.mark.parametrize(
    ("called", "name"),
    [
        (".venv/bin/switchmark", ".venv/bin/switchmark"),
        ("/home/a user/.venv/bin/switchmark", "'/home/a user/.venv/bin/switchmark'"),
        ("{bin}/switchmark", "switchmark"),
        ("/usr/lib/python3/dist-packages/pytest/__main__.py", "switchmark"),
    ],
)
def test_printed_command_calls_the_program_as_the_user_did(
    called: str, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a clone, `switchmark` is not in PATH, and the printed commands could not be pasted."""
    (tmp_path / "switchmark").write_text("#!/bin/sh\n")
    (tmp_path / "switchmark").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(sys, "argv", [called.format(bin=tmp_path)])
    (line,) = command_lines("All figures", ["show"], width=200)
    assert line.text == f"All figures: {name} show"


def test_command_wider_than_the_screen_is_continued() -> None:
    arguments = ["run", "my campaign.yaml", "--resume", "--set", "budget=90m"]
    lines = [line.text for line in command_lines("To decide", arguments, width=30)]
    assert all(len(line) <= 30 for line in lines), lines
    joined = "\n".join(lines[1:]).replace("\\\n", "")  # as a shell reads it
    assert shlex.split(joined) == ["switchmark", *arguments]


@pytest.mark.parametrize(
    ("definition", "change"),
    [({"budget_s": 60.0, "prove": 0.05}, "budget=5m"), ({"repetitions": 10}, "repetitions=30")],
)
def test_undecided_lead_names_the_command_that_goes_on(
    definition: dict[str, object],
    change: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The line "about 34 s more" named no command, and `--resume` alone measured nothing."""
    monkeypatch.setattr(run_output, "builtin_names", lambda: ["synthetic"])
    records = [
        synthetic_record(synthetic_trial(switch=switch).repeated(number), number=number)
        for number in range(10)
        for switch in ("ovs-dpdk", "basicfwd")
    ]
    found = open_run(write_run(tmp_path / "all runs", records, **definition))
    rows = summary(found.directory)
    (answer,) = [one for one in answers_of(found, rows, rows) if one.decides]
    ratio = replace(answer.leads[0].ratios[0], low=1 / 3, high=3.0)
    lead = replace(
        answer.leads[0], verdict=LeadVerdict.UNDECIDED, ratios=(ratio,), further_s=200.0,
        further_blocks=20,
    )  # fmt: skip
    lines = [
        line.text
        for line in summary_lines(
            found, rows, rows, [replace(answer, leads=(lead,))], "my file.yaml"
        )
    ]
    text = (
        "undecided (ratio between 0.33 and 3.00); about 3 min 20 s of further trials of this pair"
    )
    assert text in " ".join(line.strip() for line in lines)
    (decide,) = [line for line in lines if line.startswith("To decide")]
    assert decide.startswith("To decide the undecided comparisons, in about 3 min 20 s more: ")
    assert shlex.split(decide.partition("more: ")[2]) == [
        "switchmark", "run", "my file.yaml", "--resume", "--results", str(tmp_path / "all runs"),
        "--set", change,
    ]  # fmt: skip


@pytest.mark.parametrize("below", [1, 3])
def test_time_for_pairs_below_the_best_is_explained(
    below: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines of one to five minutes stood above "in about 1 h 5 min more", without the reason: a
    pair of the second and the third contender that no line shows."""
    monkeypatch.setattr(run_output, "builtin_names", lambda: ["synthetic"])
    switches = ("ovs-dpdk", "basicfwd", "linux-bridge", "ovs-netdev")
    records = [
        synthetic_record(synthetic_trial(switch=switch).repeated(number), number=number)
        for number in range(10)
        for switch in switches
    ]
    found = open_run(write_run(tmp_path, records, budget_s=60.0, prove=0.05))
    rows = summary(found.directory)
    (answer,) = [one for one in answers_of(found, rows, rows) if one.decides]
    best = answer.ranking[0].contender
    others = [lead for lead in answer.leads if best not in (lead.ahead, lead.behind)]
    assert len(others) == 3
    unclear = [replace(lead, verdict=LeadVerdict.UNDECIDED, further_s=200.0) for lead in others]
    leads = (*(lead for lead in answer.leads if lead not in others), *unclear[:below])
    lines = summary_lines(found, rows, rows, [replace(answer, leads=leads)], "quick")
    (decide,) = [line.text for line in lines if line.text.startswith("To decide")]
    assert f"all pairs, also {below} without the leader, in about " in decide


def test_too_small_a_budget_names_a_larger_one(tmp_path: Path) -> None:
    """A run that had time for one block printed figures, and not how to get a comparison."""
    records = [synthetic_record(synthetic_trial(switch=s)) for s in ("basicfwd", "ovs-dpdk")]
    found = open_run(write_run(tmp_path, records, budget_s=45.0, prove=0.1))
    rows = summary(found.directory)
    lines = [line.text for line in summary_lines(found, rows, rows, [], "quick")]
    (more,) = [line for line in lines if "too few for a comparison" in line]
    assert more.startswith("1 block is too few for a comparison; for more: switchmark run quick ")
    assert shlex.split(more)[-2:] == ["--set", "budget=5m"]


def test_three_repetitions_without_prove_are_compared(tmp_path: Path) -> None:
    """Without `prove` there was neither an interval nor a comparison."""
    records = [
        synthetic_record(synthetic_trial(switch=switch).repeated(number), number=number)
        for number in range(3)
        for switch in ("ovs-dpdk", "linux-bridge")
    ]
    text = " ".join(" ".join(lines_of(tmp_path, records, repetitions=3)).split())
    assert "95 % confidence, from 3 blocks; figures are medians:" in text
    assert "ovs-dpdk is ahead, " in text


def test_one_repetition_says_that_nothing_can_be_tested(tmp_path: Path) -> None:
    records = [synthetic_record(synthetic_trial(switch=s)) for s in ("basicfwd", "ovs-dpdk")]
    text = " ".join(" ".join(lines_of(tmp_path, records)).split())
    assert "othing can be tested with one repetition of a contender" in text


def test_baselines_of_two_port_kinds_have_different_names(tmp_path: Path) -> None:
    """Two lines had the same label, `direct, 64 B`."""
    records = [
        synthetic_record(synthetic_trial(switch="direct", spare_cores=cores)).model_copy(
            update={"port_kind": kind}
        )
        for cores, kind in enumerate(("veth", "vhost-user"))
    ]
    records.append(synthetic_record(synthetic_trial(switch="basicfwd")))
    names = [line.split(",")[0].strip() for line in lines_of(tmp_path, records)[1:4]]
    assert sorted(names[1:]) == ["baseline (veth)", "baseline (vhost-user)"]
    assert names[0] == "basicfwd"


@pytest.mark.parametrize("width", [20, 40, 80, 100])
def test_text_is_broken_between_words(width: int) -> None:
    text = "the sender, not the switch, was at its ceiling, so the switch may be faster"
    lines = [line.text for line in wrapped(text, 2, 4, width=width)]
    assert " ".join(" ".join(lines).split()) == text
    assert all(len(line) <= width for line in lines)


def test_columns_keep_the_longest_word_of_each() -> None:
    rows = [["ovs-dpdk", "learning, cross-connect, static-mac", "a text of several words " * 8]]
    for width in (80, 100, 120):
        widths = output._column_widths(["name", "modes", "text"], rows, width)
        assert widths is not None
        assert sum(widths) + 2 * len(output._GAP) <= width
        assert widths[0] >= len("ovs-dpdk") and widths[1] >= len("cross-connect,")
    assert output._column_widths(["name", "modes", "text"], rows, 30) is None
