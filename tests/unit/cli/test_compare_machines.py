"""`switchmark compare --over-machines`: pairs on each machine, machines as a random effect."""

from __future__ import annotations

import json
from html import unescape
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.report.html import report_html
from switchmark.results.machine_id import MachineId, name_machines
from switchmark.results.run_directory import open_run
from switchmark.statistics.paired import METHOD
from tests.unit.block_fakes import Machine, campaign, run_all
from tests.unit.records import write_run

# Two programs that are there, of the same names each time: the order in a block follows from them,
# and so does what a simulated machine does to whom.
TEXT = """switch: basicfwd
prove: 5%
budget: 20s
contenders: {old: {program: /bin/true}, new: {program: /bin/false}}
"""


def lab(name: str, cpu: str = "a model") -> dict[str, Any]:
    return {"hostname": name, "cpu_model": cpu, "architecture": "x86_64", "cpus": 2}


def measured(folder: Path, text: str, ratio: float, host: dict[str, Any], **more: Any) -> Path:
    """The results directory of a campaign on a simulated machine."""
    definition = campaign(text)
    machine = Machine({"old": 10e6, "new": ratio * 10e6}, **({"sd": 0.01} | more))
    run_all(machine, definition)
    records = [
        record.model_copy(update={"provenance": {**record.provenance, **host}})
        for record in machine.records.values()
    ]
    return write_run(folder, records, **definition.model_dump(mode="json"))


def compare(*arguments: object, capsys: Any) -> tuple[int, str, str]:
    code = main.run(["compare", *map(str, arguments)])
    output = capsys.readouterr()
    return code, output.out, output.err


def test_three_machines_have_a_mean_a_spread_and_a_prediction(tmp_path: Path, capsys: Any) -> None:
    """On each the pairs prove another ratio; over machines the mean is 0.9 or so."""
    runs = [
        measured(tmp_path, TEXT, ratio, lab(f"lab{place}"), seed=place)
        for place, ratio in enumerate((0.88, 0.9, 0.92))
    ]
    page = tmp_path / "machines.html"
    code, out, _ = compare(*runs, "--over-machines", "--json", "--html", page, capsys=capsys)
    found = json.loads(out)
    assert (code, found["a"], found["b"]) == (4, "old", "new")
    assert found["machines"] == ["lab0", "lab1", "lab2"]
    (line,) = found["comparisons"]
    assert [item["machine"] for item in line["machines"]] == found["machines"]
    over = line["over_machines"]
    assert over["low"] < 0.9 < over["high"] < 1
    assert over["predicted_low"] < over["low"] and over["high"] < over["predicted_high"]
    assert 1.005 < over["spread"]["factor"] < 1.06
    for item, ratio in zip(line["machines"], (0.88, 0.9, 0.92), strict=True):
        assert item["ratio"]["value"] == pytest.approx(ratio, rel=0.02)
    code, out, _ = compare(*runs, "--over-machines", capsys=capsys)
    assert code == 4
    assert "a further machine" in out and "machines differ by a factor of" in out
    assert "On another machine of this kind, a ratio is expected" in page.read_text()
    assert f"On each machine: {METHOD}." in unescape(page.read_text())


def test_two_machines_do_not_show_the_spread_of_machines(tmp_path: Path, capsys: Any) -> None:
    runs = [
        measured(tmp_path, TEXT, 0.9, lab(name), seed=seed)
        for seed, name in enumerate(("lab1", "lab2"))
    ]
    _, out, err = compare(*runs, "--over-machines", capsys=capsys)
    assert "two machines do not show how much machines differ" in err
    assert "a further machine" not in out
    assert "mean" in out


def test_a_machine_measured_twice_is_one(tmp_path: Path, capsys: Any) -> None:
    runs = [measured(tmp_path, TEXT, 0.9, lab("lab1"), seed=seed) for seed in range(2)]
    code, _, err = compare(*runs, "--over-machines", capsys=capsys)
    assert code == 2 and "both measured on 1 machine (lab1)" in err
    runs.append(measured(tmp_path, TEXT, 0.9, lab("lab2"), seed=3))
    _, out, _ = compare(*runs, "--over-machines", "--json", capsys=capsys)
    (line,) = json.loads(out)["comparisons"]
    twice, once = (one["pairs"] for one in line["machines"])
    assert twice > 1.3 * once


def test_one_run_of_several_testbeds_is_taken_apart(tmp_path: Path, capsys: Any) -> None:
    """As a pool has it: a block is on one testbed, and every testbed has its own states."""
    machine: dict[str, Any] = {"sd": 0.03, "dwell_s": 1e9}
    run = measured(tmp_path, TEXT.replace("20s", "40s"), 0.97, lab("lab"), **machine)
    records_of_runs = []
    for record in open_run(run).records():
        testbed = f"bed{record.trial.repetition % 2}"
        records_of_runs.append(
            record.model_copy(update={"provenance": {**record.provenance, "testbed": testbed}})
        )
    definition = dict(open_run(run).info.definition)
    joined = write_run(tmp_path, records_of_runs, **definition)
    _, out, _ = compare(joined, "--over-machines", "--json", capsys=capsys)
    found = json.loads(out)
    assert found["machines"] == ["bed0", "bed1"]
    assert all(one["pairs"] > 1 for one in found["comparisons"][0]["machines"])


def test_differences_on_a_machine_are_printed(tmp_path: Path, capsys: Any) -> None:
    runs = [measured(tmp_path, TEXT, 0.9, lab(f"lab{place}"), seed=place) for place in range(2)]
    other = [
        record.model_copy(update={"switch_details": {"version": "synthetic 2.0"}})
        for record in open_run(runs[1]).records()
    ]
    runs[1] = write_run(tmp_path, other, **dict(open_run(runs[1]).info.definition))
    _, _, err = compare(*runs, "--over-machines", capsys=capsys)
    assert "old is not the same on all machines" in err and "synthetic 2.0 on lab1" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--over-machines", "--contenders", "old", "nwe"], "unknown contender 'nwe'"),
        (["--over-machines", "--contenders", "old", "old"], "is compared with itself"),
        (["--over-machines", "--match", "old=new"], "--match:"),
        (["--html", "page.html"], "--html: needs --over-machines"),
        (["--over-machines", "--html", "/no/such/folder/x.html"], "--html /no/such/folder/x.html"),
    ],
)
def test_mistakes_are_a_line(tmp_path: Path, arguments: list[str], says: str, capsys: Any) -> None:
    short = TEXT.replace("20s", "12s")
    runs = [measured(tmp_path, short, 1.0, lab(name)) for name in ("lab1", "lab2")]
    code, _, err = compare(*runs, *arguments, capsys=capsys)
    assert code == 2 and says in err


def test_machines_differ_by_name_and_hardware() -> None:
    first, other = MachineId.of(lab("vm"), {}), MachineId.of(lab("vm", "another"), {})
    assert first != other
    called = name_machines([first, other, MachineId.of({"testbed": "bed"}, lab("vm"))])
    assert called[first] == f"vm ({first.made_of})" != called[other]
    assert "bed" in called.values()
    assert MachineId.of(lab("vm") | {"kernel": "7"}, {}) == first, (
        "an upgrade makes no other machine"
    )
    assert MachineId.of({}, lab("vm")) == first, "records without a host have that of their run"


def test_report_of_several_machines_has_ratios_over_machines(
    tmp_path: Path,
) -> None:
    """A campaign that three testbeds of a pool decided."""
    definition = campaign(TEXT)
    records = []
    for place, ratio in enumerate((0.88, 0.9, 0.92)):
        machine = Machine({"old": 10e6, "new": ratio * 10e6}, sd=0.01, seed=place)
        run_all(machine, definition)
        for record in machine.records.values():
            trial = record.trial.repeated(3 * record.trial.repetition + place)
            of_pool = {"testbed": f"lab{place}", "fencing_token": 1}
            provenance = {**record.provenance, **of_pool}
            changes = {"trial": trial, "trial_id": trial.id, "provenance": provenance}
            records.append(record.model_copy(update=changes))
    folder = write_run(tmp_path, records, **definition.model_dump(mode="json"))
    info = json.loads((folder / "run.json").read_text())
    info["settings"]["testbeds"] = ["lab0", "lab1", "lab2"]
    (folder / "run.json").write_text(json.dumps(info))
    page, problems = report_html(folder)
    assert not problems
    assert "<h2>Over machines</h2>" in page and "new / old, forwarded, 64 B" in page
    assert "on each of 3 testbeds" in page and "64 B, on lab1" in page
    assert "of 3 machines: worse" in page and "a further machine" in page
    alone = measured(tmp_path / "alone", TEXT, 0.9, lab("lab1"))
    assert "Over machines" not in report_html(alone)[0]
