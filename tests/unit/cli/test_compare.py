"""`switchmark compare` on results directories: pairing, exit codes, and nothing left unsaid."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import main
from switchmark.cli.compare_output import ratio_text
from switchmark.model.choices import Dimension
from switchmark.record import PairLoads, Throughput
from switchmark.results.blocks import WITHOUT_RATIO, observe
from switchmark.simulation.switch import Behaviour
from tests.unit.histories import BUILD, night
from tests.unit.method_fakes import run_simulated
from tests.unit.records import synthetic_failure, synthetic_record, synthetic_trial, write_run

BASE_PPS = 1e6


@pytest.fixture(autouse=True)
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    entry = main.Command("compare", "command", "Compare runs.")
    monkeypatch.setitem(main.COMMANDS, "compare", entry)


def loads(trial: Any, pps: Any) -> Any:
    bits = pps * trial.packet_size_bytes * 8
    return Throughput(
        intended_pps=None,
        offered_pps=pps,
        forwarded_pps=pps,
        forwarded_l2_bps=bits,
        forwarded_l1_bps=bits + pps * 160,
        forwarded_stdev_pps=pps * 0.01,
        loss_ratio=0.0,
        pairs=[PairLoads(pair=0, intended_pps=None, offered_pps=pps, forwarded_pps=pps)],
    )


def records(
    factor: Any,
    seed: Any,
    *,
    sizes: Any = (64, 1500),
    repetitions: int = 5,
    marks: Any = None,
    **changes: Any,
) -> Any:
    dice = random.Random(seed)
    found: list[Any] = []
    for size in sizes:
        for repetition in range(repetitions):
            trial = synthetic_trial(packet_size_bytes=size, repetition=repetition, **changes)
            pps = BASE_PPS * factor * dice.gauss(1, 0.003)
            found.append(
                synthetic_record(
                    trial, marks=marks or [], number=len(found), throughput=loads(trial, pps)
                )
            )
    return found


def compare(*arguments: Any, capsys: pytest.CaptureFixture[str]) -> Any:
    code = main.run(["compare", *map(str, arguments)])
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_a_regression_is_exit_4(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(0.9, 2))
    code, out, _ = compare(a, b, capsys=capsys)
    assert code == 4
    assert out.startswith("2 comparisons: 2 worse\n")
    assert "linux-bridge, 64 B" in out
    assert "linux-bridge, 1500 B" in out
    assert "0.90" in out


def soaks(ratios: Any, switch: str = "linux-bridge") -> Any:
    """Soaks that lost so much."""
    found = run_simulated("soak", Behaviour(capacity_pps=2e6), rate_pps=1_000_000, duration_s=10.0)
    records = []
    for repetition, ratio in enumerate(ratios):
        trial = synthetic_trial(
            switch=switch, method="soak", rate_pps=1_000_000, repetition=repetition
        )
        observed = found.figures[0].model_copy(update={"value": ratio, "low": None, "high": None})
        method = found.model_copy(update={"figures": [observed, *found.figures[1:]]})
        changes: dict[str, Any] = {"marks": [], "throughput": None, "trim": None, "method": method}
        records.append(synthetic_record(trial, number=repetition, **changes))
    return records


def test_builds_of_the_engine_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = {**BUILD, "optimisation": "1"}
    runs = [
        night(tmp_path, number, [1e6] * 4, engine_build=build)
        for number, build in enumerate((BUILD, {**BUILD, "build_id": "01"}, slow, None))
    ]
    assert compare(runs[0], runs[1], capsys=capsys)[0] == 0
    assert compare(runs[0], runs[3], capsys=capsys)[0] == 0, "an older record does not say"
    code, _, err = compare(runs[0], runs[2], capsys=capsys)
    assert code != 0 and "done differently" in err
    assert "engine by gcc 12.2.0 -O3" in err and "engine by gcc 12.2.0 -O1" in err


def test_a_soak_that_lost_nothing_is_the_best(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lossy = write_run(tmp_path, soaks([1e-3, 2e-3, 1e-3, 3e-3]))
    clean = write_run(tmp_path, soaks([0.0] * 4))
    code, out, err = compare(lossy, clean, capsys=capsys)
    assert code == 0 and "better" in out and "WORSE" not in err
    code, out, _ = compare(clean, lossy, capsys=capsys)
    assert code == 4 and "worse" in out and "not valid" not in out
    assert compare(clean, clean, "--json", capsys=capsys)[0] == 0
    code, _, err = compare(clean, lossy, lossy, capsys=capsys)
    assert "figures of 0 have no ratio and are left out of the series" in err
    both = [*soaks([1e-3, 2e-3, 1e-3, 3e-3, 1e-3]), *soaks([0.0] * 5, "basicfwd")]
    run, pair = write_run(tmp_path, both), ("linux-bridge", "basicfwd")
    code, _, err = compare(run, "--contenders", *pair, capsys=capsys)
    assert code == 5 and "a figure of 0 has no ratio" in err and "WORSE" not in err


def test_missing_figure_differs_from_0() -> None:
    (lossless,) = soaks([0.0])
    assert lossless.method is not None
    none = lossless.model_copy(
        update={"method": lossless.method.model_copy(update={"headline": None})}
    )
    assert [observe(one).unused for one in (lossless, none)] == [WITHOUT_RATIO, ""]
    assert not observe(lossless).figures and not observe(none).figures


def test_rate_without_a_limit_is_named_max(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trials = [synthetic_trial(rate_pps=rate) for rate in (None, 1_000_000)]
    run = write_run(tmp_path, [synthetic_record(trial) for trial in trials])
    _, out, _ = compare(run, run, capsys=capsys)
    assert "rate max" in out and "rate 1M pps" in out


def test_an_improvement_and_no_change_are_exit_0(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(1.1, 2))
    c = write_run(tmp_path, records(1.0, 3))
    assert compare(a, b, capsys=capsys)[0] == 0
    code, out, _ = compare(a, c, "--strict", capsys=capsys)
    assert code == 0
    assert out.startswith("2 comparisons: 2 same\n")


def test_a_change_below_the_threshold_is_negligible(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(0.985, 2))
    code, out, _ = compare(a, b, capsys=capsys)
    assert code == 0
    assert "negligible" in out
    for smallest in ("0.005", "0.5%"):
        assert compare(a, b, "--threshold", smallest, capsys=capsys)[0] == 4


def test_one_repetition_proves_nothing_and_that_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_run(tmp_path, records(1.0, 1, repetitions=1))
    b = write_run(tmp_path, records(0.9, 2, repetitions=1))
    code, out, _ = compare(a, b, capsys=capsys)
    assert code == 5
    assert out.startswith("2 comparisons: 2 untestable\n")


def test_a_doubtful_one_among_clear_ones_is_for_strict(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = records(1.0, 2, sizes=(1500,), repetitions=1)
    a = write_run(tmp_path, records(1.0, 1))
    b = write_run(tmp_path, records(1.0, 2, sizes=(64,)) + once)
    assert compare(a, b, capsys=capsys)[0] == 0
    assert compare(a, b, "--strict", capsys=capsys)[0] == 5


def test_a_short_series_judges_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [write_run(tmp_path, records(1.0, seed)) for seed in range(3)]
    assert compare(*runs, capsys=capsys)[0] == 5


def test_json_holds_the_figures(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(0.9, 2))
    code, out, _ = compare(a, b, "--json", capsys=capsys)
    found = json.loads(out)
    assert found["exit_code"] == code == 4
    first = found["comparisons"][0]["judged"]
    assert first["verdict"] == "worse"
    assert first["ratio"]["low"] < 0.9 < first["ratio"]["high"]
    assert first["adjusted_p"] < 0.001


def test_new_failure_is_worse(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    good = records(1.0, 1)
    broken = [synthetic_failure(record.trial, "the switch died") for record in good[:5]]
    a, b = write_run(tmp_path, good), write_run(tmp_path, broken + records(1.0, 2)[5:])
    code, _, err = compare(a, b, capsys=capsys)
    assert code == 4
    assert "worked in A, not in B: the switch died" in err


def test_invalid_repetitions_are_left_out_and_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flooded = records(0.5, 3, sizes=(64,), repetitions=5, marks=["flooding"])
    mixed = flooded[:2] + records(1.0, 2, sizes=(64,))[2:]
    a, b = write_run(tmp_path, records(1.0, 1, sizes=(64,))), write_run(tmp_path, mixed)
    code, out, _ = compare(a, b, "--full", capsys=capsys)
    assert code == 0
    assert "2 not valid, left out (B)" in out
    assert "5, 3" in out


def test_marks_that_doubt_the_figure_stand_beside_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_run(tmp_path, records(1.0, 1, marks=["generator-bound"]))
    b = write_run(tmp_path, records(1.0, 2))
    _, out, _ = compare(a, b, capsys=capsys)
    assert "generator-bound (A)" in out
    b = write_run(tmp_path, records(1.0, 3, marks=["disturbed"]))
    _, out, _ = compare(a, b, "--full", capsys=capsys)
    assert "disturbed (B); generator-bound (A)" in out


def test_wide_interval_is_shown_by_its_order() -> None:
    assert [ratio_text(one) for one in (None, 0.98765, 123.4, 3.0e4)] == [
        "-", "0.988", "123.400", "3e+04",
    ]  # fmt: skip


def test_small_ratio_has_digits_and_a_far_bound_is_cut() -> None:
    assert [ratio_text(one) for one in (0.0, 4.2e-5, 1e-70, 1.5e6)] == [
        "0.000", "0.0000420", "<1e-06", ">1e+06",
    ]  # fmt: skip


def test_trials_of_one_side_only_are_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_run(tmp_path, records(1.0, 1, sizes=(64, 512)))
    b = write_run(tmp_path, records(1.0, 2, sizes=(64,)))
    code, _, err = compare(a, b, capsys=capsys)
    assert code == 0
    assert "only in A: 1 trials" in err
    assert compare(a, b, "--strict", capsys=capsys)[0] == 5


def test_other_connect_modes_are_other_trials(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_run(tmp_path, records(1.0, 1))
    b = write_run(tmp_path, records(1.0, 2, connect_mode="cross-connect"))
    code, _, err = compare(a, b, capsys=capsys)
    assert code == 2
    assert "no trial in common" in err


def test_different_trials_are_not_compared(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a = write_run(tmp_path, records(1.0, 1))
    other = [record.model_copy(update={"io": "udp"}) for record in records(0.5, 2)]
    b = write_run(tmp_path, other)
    code, _, err = compare(a, b, capsys=capsys)
    assert code == 5
    assert "done differently: linux-bridge, 64 B: learning, veth, raw-mmsg" in err


def test_two_switches_of_one_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = records(1.0, 1) + records(0.8, 2, switch="ovs-netdev")
    run = write_run(tmp_path, both)
    code, out, _ = compare(run, run, "--match", "linux-bridge=ovs-netdev", capsys=capsys)
    assert code == 4
    assert out.startswith("2 comparisons: 2 worse\n")
    assert "0.80" in out


def test_switches_with_other_ports_are_also_matched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run = write_run(tmp_path, records(1.0, 1) + records(3.0, 2, switch="ovs-dpdk"))
    code, out, _ = compare(run, run, "--match", "linux-bridge=ovs-dpdk", capsys=capsys)
    assert code == 0
    assert out.startswith("2 comparisons: 2 better\n")


def test_latency_lower_is_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = []
    for _ in range(2):
        trials = [
            synthetic_trial(dimension=Dimension.LATENCY, rate_pps=10_000, repetition=repetition)
            for repetition in range(4)
        ]
        runs.append(write_run(tmp_path, [synthetic_record(trial) for trial in trials]))
    code, out, _ = compare(*runs, capsys=capsys)
    assert code == 0
    assert "rtt-p50 [ns]" in out
    assert "rtt-p99 [ns]" in out
    assert "forwarded" not in out


def test_a_series_finds_the_newest_regression(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [write_run(tmp_path, records(1.0, seed)) for seed in range(6)]
    code, out, _ = compare(*runs, capsys=capsys)
    assert code == 0
    bad = write_run(tmp_path, records(0.85, 9))
    code, out, _ = compare(*runs, bad, capsys=capsys)
    assert code == 4
    assert out.startswith("2 comparisons: 2 worse\n")
    found = json.loads(compare(*runs, bad, "--json", capsys=capsys)[1])
    assert found["series"][0]["newest"]["ratio"] == pytest.approx(0.85, rel=0.02)


def test_a_series_names_what_breaks_and_what_was_done_otherwise(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = [records(1.0, seed) for seed in range(5)]
    good[1] = [record.model_copy(update={"io": "udp"}) for record in good[1]]
    runs = [write_run(tmp_path, one) for one in good]
    broken = [synthetic_failure(record.trial, "the switch died") for record in good[0][:5]]
    bad = write_run(tmp_path, broken + records(1.0, 9)[5:])
    code, out, err = compare(*runs, bad, capsys=capsys)
    assert code == 4
    assert "worked before, not in the newest: the switch died" in err
    assert f"{runs[1]}: 1 trials left out" in err
    assert "  5  " in out  # runs that could be compared, of six


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["one"], "one: neither a results directory"),
        (["one", "two", "--metric", "speed"], "forwarded"),
        (["one", "two", "--match", "x"], "OLD=NEW"),
        (["one", "two", "three", "--match", "a=b"], "not with a series"),
        (["one", "two", "three", "--threshold", "nan"], "--threshold: 'nan' is not a number"),
        (["one", "--threshold", "1"], "--threshold: 1 is a whole figure"),
        (["nowhere", "neither"], "nowhere"),
    ],
)
def test_bad_arguments_are_one_line_and_exit_2(
    arguments: Any, message: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out, err = compare(*arguments, "--results", tmp_path, capsys=capsys)
    assert (code, out) == (2, "")
    assert message in err
    assert len(err.splitlines()) == 1


def test_an_unreadable_file_is_named_and_exit_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(1.0, 2))
    victim = next((b / "trials").glob("*.json"))
    victim.write_text("{")
    code, _, err = compare(a, b, capsys=capsys)
    assert code == 1
    assert victim.name in err


def test_hosts_that_differ_are_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = write_run(tmp_path, records(1.0, 1)), write_run(tmp_path, records(1.0, 2))
    info = json.loads((b / "run.json").read_text())
    info["host"]["kernel"] = "5.4.0"
    (b / "run.json").write_text(json.dumps(info))
    _, _, err = compare(a, b, capsys=capsys)
    assert "kernel: 6.18.0 / 5.4.0" in err


def test_many_comparisons_are_counted_with_the_worst_first(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = [*range(64, 1464, 50), 1464]
    slow = records(0.5, 3, sizes=[1464])
    before = write_run(tmp_path / "before", records(1.0, 1, sizes=sizes))
    after = write_run(tmp_path / "after", records(1.0, 2, sizes=sizes[:-1]) + slow)
    code, short, _ = compare(before, after, "--threshold", "5%", capsys=capsys)
    assert code == 4
    lines = [line for line in short.splitlines() if line.startswith("linux-bridge")]
    assert short.startswith(f"{len(sizes)} comparisons: 1 worse, {len(sizes) - 1} same\n")
    assert lines[0].startswith("linux-bridge, 1464 B")
    assert len(lines) == 20
    left = len(sizes) - 20
    assert f"... and {left} comparisons: {left} same. More with --full." in short
    _, full, _ = compare(before, after, "--threshold", "5%", "--full", capsys=capsys)
    assert len([line for line in full.splitlines() if line.startswith("linux-bridge")]) == len(
        sizes
    )
