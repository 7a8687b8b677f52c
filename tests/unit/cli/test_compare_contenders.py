"""`switchmark compare` of one run, by the pairs of its blocks; and of two, what they lack."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.results.run_directory import open_run
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.statistics.paired import METHOD
from switchmark.statistics.sequential import blocks_instead
from tests.unit.block_fakes import Machine, campaign, run_all
from tests.unit.records import write_run

TEXT = """switch: basicfwd
prove: 5%
budget: 2m
contenders: {old: {program: OLD}, new: {program: NEW}}
"""


@pytest.fixture
def text() -> str:
    """Programs whose names are the same each time: the order in a block follows from them, and so
    does what the simulated machine does to whom."""
    return TEXT.replace("OLD", "/bin/true").replace("NEW", "/bin/false")


def measured(folder: Path, text: str, machine: Machine) -> Path:
    """The results directory of a campaign on a simulated machine."""
    definition = campaign(text)
    run_all(machine, definition)
    return write_run(folder, list(machine.records.values()), **definition.model_dump(mode="json"))


def alone(folder: Path, run: Path, name: str) -> Path:
    """Store the records of one contender as a run of its switch."""
    saved = []
    for record in open_run(run).records():
        if record.trial.contender == name:
            trial = record.trial.model_copy(update={"contender": "", "program": ""})
            saved.append(record.model_copy(update={"trial": trial, "trial_id": trial.id}))
    return write_run(folder, saved, repetitions=len(saved))


def compare(*arguments: object, capsys: Any) -> tuple[int, str, str]:
    code = main.run(["compare", *map(str, arguments)])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_contenders_are_compared_in_order_of_the_campaign(
    tmp_path: Path, text: str, capsys: Any
) -> None:
    run = measured(tmp_path, text, Machine({"old": 10e6, "new": 9e6}, sd=0.01))
    code, out, _ = compare(run, "--json", capsys=capsys)
    found = json.loads(out)
    assert (code, found["a"], found["b"]) == (4, "old", "new")
    (line,) = found["comparisons"]
    assert line["judged"]["verdict"] == "worse"
    ratio = line["judged"]["ratio"]
    assert ratio["low"] < 0.9 < ratio["high"] < 1
    assert ratio["method"] == METHOD and "Huber's M-estimator" in METHOD
    code, out, _ = compare(run, "--contenders", "new", "old", capsys=capsys)
    assert code == 0 and "better" in out and "A is new, B is old" in out
    assert METHOD in " ".join(out.split())


def test_pairs_prove_what_two_runs_cannot(tmp_path: Path, text: str, capsys: Any) -> None:
    """The machine is near in one half and far in the other: the pairs do not mind."""
    run = measured(tmp_path, text, Machine({"old": 10e6, "new": 10.8e6}, sd=0.01, dwell_s=6.0))
    assert compare(run, capsys=capsys)[0] == 0
    assert compare(run, "--contenders", "new", "old", capsys=capsys)[0] == 4
    apart = [alone(tmp_path, run, name) for name in ("old", "new")]
    code, out, err = compare(*apart, capsys=capsys)
    assert code == 0 and "unclear" in out
    assert "two runs, no pairs: the state of the machine may differ between them" in err
    assert "blocks at most would decide" in err


def test_difference_below_the_smallest_lead_is_equal(
    tmp_path: Path, text: str, capsys: Any
) -> None:
    machine = Machine({"old": 10e6, "new": 10.1e6}, sd=0.01, dwell_s=1e9)
    run = measured(tmp_path, text, machine)
    code, out, _ = compare(run, "--strict", capsys=capsys)
    assert code == 0 and "same" in out
    code, out, _ = compare(run, "--threshold", "0.001", "--strict", capsys=capsys)
    assert "same" not in out.splitlines()[1], "of a smaller one it is not proven"


def test_undecided_comparison_shows_the_needed_effort(
    tmp_path: Path, text: str, capsys: Any
) -> None:
    run = measured(tmp_path, text, Machine({"old": 10e6, "new": 10.4e6}, sd=0.2))
    code, out, err = compare(run, "--strict", capsys=capsys)
    assert code == 5 and "unclear" in out
    assert "more of such blocks would decide the rest" in err


def test_a_contender_that_only_fails_is_worse(tmp_path: Path, text: str, capsys: Any) -> None:
    machine = Machine({"old": 10e6, "new": 10e6}, fails=("new",))
    run = measured(tmp_path, text, machine)
    code, _, err = compare(run, capsys=capsys)
    assert code == 4 and "old has a figure, new has none" in err
    junit = tmp_path / "verdicts.xml"
    assert compare(run, "--junit", junit, capsys=capsys)[0] == 4
    assert "<failure" in junit.read_text()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["RUN", "--contenders", "old", "nwe"], "unknown contender 'nwe'; did you mean new?"),
        (["RUN", "--contenders", "old", "old"], "contender old is compared with itself"),
        (["RUN", "RUN", "--contenders", "old", "new"], "goes with one results directory"),
        (["RUN", "--match", "old=new"], "--match: goes with two results directories"),
    ],
)
def test_mistakes_are_a_line(
    tmp_path: Path, text: str, arguments: list[str], says: str, capsys: Any
) -> None:
    machine = Machine({"old": 10e6, "new": 10e6})
    run = measured(tmp_path, text.replace("budget: 2m", "budget: 5s"), machine)
    argv = [str(run) if word == "RUN" else word for word in arguments]
    code, _, err = compare(*argv, capsys=capsys)
    assert code == 2 and says in err


def test_a_run_of_three_asks_which_two(tmp_path: Path, text: str, capsys: Any) -> None:
    three = text.replace("contenders: {", "contenders: {wide: {switch_cores: 2}, ")
    machine = Machine({"old": 10e6, "new": 10e6, "wide": 12e6})
    run = measured(tmp_path, three.replace("budget: 2m", "budget: 5s"), machine)
    code, _, err = compare(run, capsys=capsys)
    assert code == 2 and "has 3 contenders; name two: --contenders A B (" in err


def test_blocks_in_place_of_two_runs() -> None:
    draw = random.Random(1)

    def figures(rate: float, sd: float) -> list[float]:
        return [rate * math.exp(draw.gauss(0, sd)) for _ in range(30)]

    clear = blocks_instead(figures(1e6, 0.01), figures(1.2e6, 0.01), 0.05)
    close = blocks_instead(figures(1e6, 0.1), figures(1.06e6, 0.1), 0.05)
    assert clear == FIRST_ANALYSIS
    # (2.8 * 0.1 * sqrt(2) / ln 1.06) ** 2 is 46; the spread of thirty values is known to a quarter.
    assert close is not None and 20 < close < 120
    assert blocks_instead([1.0], [1.1, 1.2], 0.05) is None
    assert blocks_instead([0.0, 1.0], [1.1, 1.2], 0.05) is None
