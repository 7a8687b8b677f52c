"""`switchmark history`, and what `compare --against last-good` takes for good."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.model.ports import ConnectMode
from switchmark.results.run_directory import open_run
from tests.unit.cli.test_compare import soaks
from tests.unit.histories import BUILD, HOST, dated, night, nights
from tests.unit.records import synthetic_failure, write_run

VERSIONS = ["1.0"] * 10 + ["2.0"] * 8
LEVELS = [1.0] * 10 + [0.88] * 8


def run(*arguments: object, capsys: Any) -> tuple[int, str, str]:
    code = main.run([str(one) for one in arguments])
    output = capsys.readouterr()
    return code, output.out, output.err


def history(folder: Path, *arguments: object, capsys: Any) -> list[dict[str, Any]]:
    code, out, err = run("history", *arguments, "--results", folder, "--json", capsys=capsys)
    assert (code, err) == (0, "")
    series: list[dict[str, Any]] = json.loads(out)["series"]
    return series


def test_change_is_printed_with_version_date_and_size(tmp_path: Path, capsys: Any) -> None:
    nights(tmp_path, LEVELS, VERSIONS)
    page, second_page = tmp_path / "page.html", tmp_path / "seen.html"
    page.write_text("old")
    second_page.hardlink_to(page)
    code, out, _ = run(
        "history", "linux-bridge", "--figure", "throughput", "--results", tmp_path,
        "--html", page, capsys=capsys,
    )  # fmt: skip
    assert code == 0
    assert "since version 2.0, 2026-03-11: 1" in out and "% slower [" in out
    assert "Since version 2.0, 2026-03-11" in page.read_text()
    assert second_page.read_text() == "old", "it was replaced, so nobody saw half of it"
    (series,) = history(tmp_path, "linux-bridge", capsys=capsys)
    (change,) = series["changes"]
    assert (change["version_before"], change["version"]) == ("1.0", "2.0")
    assert change["low"] < 0.88 < change["high"] < 1
    assert series["machine"] == "lab1"
    assert [len(one["values"]) for one in series["runs"]] == [3] * 18


def test_other_changes_are_named_and_new_kernel_is_same_machine(
    tmp_path: Path, capsys: Any
) -> None:
    for number, level in enumerate(LEVELS):
        host = HOST | {"kernel": "6.1" if number < 10 else "6.12"}
        night(tmp_path, number, [1e6 * level * (1 + 0.001 * (number % 3))] * 2, host=host)
    (series,) = history(tmp_path, capsys=capsys)
    (change,) = series["changes"]
    assert change["also_different"] == ["kernel: 6.1 / 6.12"]
    assert "(version as before)" in change["told"]


def test_builds_of_the_engine_are_other_series(tmp_path: Path, capsys: Any) -> None:
    """A record without its engine's build belongs to the oldest build that is known."""
    builds = [None, None, BUILD, {**BUILD, "build_id": "01"}, {**BUILD, "optimisation": "2"}]
    for number, build in enumerate(builds):
        night(tmp_path, number, [1e6], engine_build=build)
    output = history(tmp_path, capsys=capsys)
    assert {one["engine_build"]: len(one["runs"]) for one in output} == {
        "gcc 12.2.0 -O3 znver3 DPDK 22.11.11": 4,
        "gcc 12.2.0 -O2 znver3 DPDK 22.11.11": 1,
    }
    _, out, _ = run("history", "--results", tmp_path, capsys=capsys)
    assert "engine by" in out


def test_another_build_of_the_same_version_is_named(tmp_path: Path, capsys: Any) -> None:
    for number, level in enumerate(LEVELS):
        build = {"program_build_id": "aa" if number < 10 else "bb"}
        night(tmp_path, number, [1e6 * level * (1 + 0.001 * (number % 3))] * 2, details=build)
    (series,) = history(tmp_path, capsys=capsys)
    (change,) = series["changes"]
    assert "(version as before, another build of it)" in change["told"]
    assert [one["build"] for one in series["runs"]] == ["aa"] * 10 + ["bb"] * 8


def test_other_workloads_means_and_machines_are_other_series(tmp_path: Path, capsys: Any) -> None:
    for number in range(2):
        night(tmp_path, number, [1e6] * 2)
        night(tmp_path, number, [1e6] * 2, packet_size_bytes=1500)
        night(tmp_path, number, [1e6] * 2, interval_s=0.1)
        night(tmp_path, number, [1e6] * 2, switch_options="vlan_filtering:on")
        night(tmp_path, number, [1e6] * 2, host=HOST | {"hostname": "lab2"})
        night(tmp_path, number, [3e6] * 2, switch="basicfwd")
    found = history(tmp_path, "linux-bridge", capsys=capsys)
    assert sorted(len(one["runs"]) for one in found) == [2, 2, 2, 4], "samples' length is nothing"
    assert {one["machine"] for one in found} == {"lab1", "lab2"}
    (other,) = history(tmp_path, "--machine", "lab2", capsys=capsys)
    assert other["machine"] == "lab2"
    assert {one["switch"] for one in history(tmp_path, capsys=capsys)} == {
        "linux-bridge", "basicfwd",
    }  # fmt: skip


def test_means_and_loads_are_called_by_their_words(tmp_path: Path, capsys: Any) -> None:
    night(tmp_path, 0, [1e6] * 2, rate_pps=None)
    night(tmp_path, 1, [1e6] * 2, rate_pps=1_000_000, connect_mode=ConnectMode.STATIC_MAC)
    _, out, _ = run("history", "--results", tmp_path, capsys=capsys)
    assert "rate max" in out and "rate 1M pps" in out
    assert "connect mode static-mac" in out and "None" not in out


def test_builds_in_separate_folders_are_one_series(tmp_path: Path, capsys: Any) -> None:
    for number in range(3):
        night(tmp_path, number, [3e6] * 2, switch="basicfwd", program=f"/builds/{number}/switch")
    (series,) = history(tmp_path, "basicfwd", capsys=capsys)
    assert len(series["runs"]) == 3


def test_a_night_without_a_valid_figure_stays_in_sight(tmp_path: Path, capsys: Any) -> None:
    runs = nights(tmp_path, [1.0] * 3, ["1.0"] * 3)
    failed = [
        synthetic_failure(record.trial).model_copy(
            update={"provenance": record.provenance, "connect_mode": record.connect_mode,
                    "port_kind": record.port_kind, "io": record.io}
        )
        for record in open_run(runs[0]).records()
    ]  # fmt: skip
    dated(write_run(tmp_path, failed, campaign="nightly"), 3)
    (series,) = history(tmp_path, capsys=capsys)
    assert (series["runs"][-1]["level"], series["runs"][-1]["tried"]) == (None, 3)


def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, capsys: Any) -> None:
    runs = nights(tmp_path, [1.0] * 2, ["1.0"] * 2)
    next((runs[0] / "trials").glob("*.json")).write_text("{")
    code, out, err = run("history", "--results", tmp_path, "--json", capsys=capsys)
    assert code == 1
    assert "cannot be read" in err and "cannot be read" in json.loads(out)["problems"][0]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["linux-brige"], "did you mean linux-bridge?"),
        (["--figure", "thruput"], "--figure thruput: unknown"),
        (["--machine", "lab9"], "unknown machine 'lab9'"),
        (["--threshold", "2"], "--threshold: 2 is not a share; use 0% to 100%"),
        (["--threshold", "100%"], "--threshold: 100% is a whole figure"),
        (["--threshold", "low"], "--threshold: 'low' is not a number"),
        (["--figure", "latency"], "no valid figure of this kind in 1 runs"),
        (["--html", "/no/such/folder/x.html"], "--html /no/such/folder/x.html"),
    ],
)
def test_mistakes_are_a_line(tmp_path: Path, arguments: list[str], says: str, capsys: Any) -> None:
    nights(tmp_path, [1.0], ["1.0"])
    code, _, err = run("history", *arguments, "--results", tmp_path, capsys=capsys)
    assert code == 2 and says in err
    assert len(err.splitlines()) == 1


def test_an_empty_folder_is_a_line(tmp_path: Path, capsys: Any) -> None:
    code, _, err = run("history", "--results", tmp_path, capsys=capsys)
    assert code == 2 and "no results here" in err


def against(folder: Path, newest: Path, capsys: Any) -> tuple[int, str, str]:
    return run(
        "compare", newest, "--against", "last-good", "--results", folder, capsys=capsys
    )  # fmt: skip


def test_last_good_run_is_before_an_unfixed_fall(tmp_path: Path, capsys: Any) -> None:
    runs = nights(tmp_path, LEVELS, VERSIONS)
    code, out, err = against(tmp_path, runs[-1], capsys)
    assert code == 4 and "worse" in out
    assert f"last good: {runs[9]}; 7 newer passed over" in err
    assert "linux-bridge forwarded is worse since 2026-03-11" in err


def test_last_good_run_after_a_fix_is_the_newest(tmp_path: Path, capsys: Any) -> None:
    mended = [*LEVELS, *[1.0] * 8]
    runs = nights(tmp_path, mended, [*VERSIONS, *["3.0"] * 8])
    _, _, err = against(tmp_path, runs[-1], capsys)
    assert f"last good: {runs[-2]}\n" in err
    assert "passed over" not in err


def test_a_soak_that_lost_nothing_is_good(tmp_path: Path, capsys: Any) -> None:
    lossy, clean, newest = (
        dated(write_run(tmp_path, soaks([ratio] * 3), campaign="nightly"), number)
        for number, ratio in enumerate((1e-3, 0.0, 0.0))
    )
    _, _, err = against(tmp_path, newest, capsys)
    assert f"last good: {clean}\n" in err
    assert f"last good: {lossy}" in against(tmp_path, clean, capsys)[2]


def test_run_of_another_machine_or_trials_is_not_a_base(tmp_path: Path, capsys: Any) -> None:
    night(tmp_path, 0, [1e6] * 2, host=HOST | {"hostname": "lab2"})
    night(tmp_path, 1, [1e6] * 2, packet_size_bytes=1500)
    newest = night(tmp_path, 2, [1e6] * 2)
    code, _, err = against(tmp_path, newest, capsys)
    assert code == 2 and "there is no earlier run of the trials of" in err
    good = night(tmp_path, -1, [1e6] * 3)
    _, _, err = against(tmp_path, newest, capsys)
    assert f"last good: {good}" in err


def test_later_run_and_copy_are_not_earlier_runs(tmp_path: Path, capsys: Any) -> None:
    """The run lies elsewhere; in the folder are a copy of it, and later runs that are faster."""
    results = tmp_path / "results"
    runs = nights(results, [1.0] * 4 + [1.3] * 9, ["1.0"] * 13)
    elsewhere = tmp_path / runs[3].name
    shutil.copytree(runs[3], elsewhere)
    for newest in (elsewhere, runs[3]):
        _, _, err = against(results, newest, capsys)
        assert f"last good: {runs[2]}\n" in err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["RUN", "--against", "best"], "--against best: unknown value"),
        (["RUN", "RUN", "--against", "last-good"], "goes with one results directory"),
    ],
)
def test_mistakes_of_against_are_a_line(
    tmp_path: Path, arguments: list[str], says: str, capsys: Any
) -> None:
    newest = night(tmp_path, 0, [1e6] * 2)
    given = [str(newest) if one == "RUN" else one for one in arguments]
    code, _, err = run("compare", *given, "--results", tmp_path, capsys=capsys)
    assert code == 2 and says in err
