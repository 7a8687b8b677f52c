"""The engine's benchmark: which runs count, the lines of its table, and continuing an earlier
call."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

FOLDER = Path(__file__).resolve().parents[3] / "bench" / "engine"
if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def bench() -> Any:
    """bench/engine/run.py and its neighbours as one, imported as the script does."""
    sys.path.insert(0, str(FOLDER))
    try:
        import parts
        import programs
        import run
        import runs
        import table
    finally:
        sys.path.remove(str(FOLDER))
    return SimpleNamespace(
        **{**vars(parts), **vars(programs), **vars(runs), **vars(table), **vars(run)}
    )


@pytest.fixture
def engine(tmp_path: Path) -> Path:
    path = tmp_path / "engine"
    path.write_bytes(b"one build")
    return path


def test_only_an_engine_for_measuring_is_measured(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder of another build, for example the fuzzer's, is never searched."""
    engine = tmp_path / "engine"
    monkeypatch.setenv("SWITCHMARK_TRAFFIC", str(engine))
    for last, refused in (("built with gcc -O3", False), ("not for measuring: x", True)):
        engine.write_text(
            f"#!/bin/sh\necho switchmark-traffic 1\necho built by us\necho '{last}'\n"
        )
        engine.chmod(0o755)
        if not refused:
            assert bench.find_engine(None) == bench.find_engine(engine) == engine
            continue
        for given in (None, engine):
            with pytest.raises(SystemExit, match="its figures are not valid"):
                bench.find_engine(given)
    with pytest.raises(SystemExit, match="not an executable file"):
        bench.find_engine(tmp_path / "missing")


def part(bench: ModuleType, rates: dict[str, list[float]], required: float | None = None) -> Any:
    """Return a part whose programs give these rates, one after the other."""
    left = {program: list(values) for program, values in rates.items()}
    above, below = rates
    return bench.Part(
        "a part",
        tuple(rates),
        (bench.Row(above, below, required),),
        lambda program: bench.Sample(left[program].pop(0), 0.0),
    )


def setting(bench: ModuleType, engine: Path, tmp_path: Path) -> Any:
    return bench.Setting(engine, (0, 1), 0.1, tmp_path, {})


def test_medians_ratio_and_verdict(bench: Any, engine: Path, tmp_path: Path) -> None:
    results = bench.Results(tmp_path / "runs.jsonl", engine)
    comparison = part(bench, {"ours": [9e6, 11e6, 10e6], "theirs": [8e6, 8e6, 8e6]}, required=1.2)
    bench.measure([comparison], results, setting(bench, engine, tmp_path), 3, None)
    text = bench.line(comparison, comparison.rows[0], results, "far", 0.02).text()
    assert "10.00" in text and "8.00" in text and "1.25" in text and "1.20 reached" in text
    assert (
        bench.line(comparison, comparison.rows[0], results, "near", 0.02) is None
    )  # the cores were never in the fast state
    less = part(bench, {"ours": [], "theirs": []}, required=1.3)
    near_it = bench.line(less, less.rows[0], results, "far", 0.02)
    low, high = near_it.interval  # three runs give a wide interval
    assert low < 1.25 and high > 1.3
    assert "(undecided)" in near_it.text()
    far_off = part(bench, {"ours": [], "theirs": []}, required=high + 0.1)
    assert "MISSED" in bench.line(far_off, far_off.rows[0], results, "far", 0.02).text()


def test_best_runs_are_compared_without_an_interval(
    bench: Any, engine: Path, tmp_path: Path
) -> None:
    results = bench.Results(tmp_path / "runs.jsonl", engine)
    comparison = part(bench, {"ours": [5e6, 6e6, 9.4e6], "theirs": [8e6, 1e7, 9e6]})
    bench.measure([comparison], results, setting(bench, engine, tmp_path), 3, None)
    for required, verdict in ((0.94, "reached"), (0.95, "MISSED")):
        row = bench.Row("ours", "theirs", required, best=True)
        assert (
            f"{required:.2f} {verdict}" in bench.line(comparison, row, results, "far", 0.02).text()
        )


def test_the_table_is_written_between_its_marks(bench: Any, engine: Path, tmp_path: Path) -> None:
    engine.write_text("#!/bin/sh\necho switchmark-traffic 1\necho built by gcc\n")
    engine.chmod(0o755)
    results = bench.Results(tmp_path / "runs.jsonl", engine)
    comparison = part(bench, {"ours": [2e6] * 3, "theirs": [1e6] * 3}, required=1.0)
    bench.measure([comparison], results, setting(bench, engine, tmp_path), 3, None)
    document = tmp_path / "page.md"
    document.write_text(f"before\n{bench.BEGIN}old\n{bench.END}\nafter\n")
    bench.write([comparison], results, 0.02, document)
    text = document.read_text()
    assert text.startswith("before\n") and text.endswith("\nafter\n") and "old" not in text
    unwrapped = " ".join(text.split())  # the name of the CPU decides where lines break
    assert "switchmark-traffic 1, built by gcc" in unwrapped and "6 runs of one call" in unwrapped
    assert (
        "| a part | far | ours | 2.00 ± 0 % | theirs | 1.00 ± 0 % | 2.00 | 1.00 reached |" in text
    )
    document.write_text("no marks")
    with pytest.raises(ValueError, match="are missing"):
        bench.write([comparison], results, 0.02, document)


def test_requirement_has_no_verdict_if_all_runs_were_disturbed(
    bench: Any, engine: Path, tmp_path: Path
) -> None:
    results = bench.Results(tmp_path / "runs.jsonl", engine)
    comparison = part(bench, {"ours": [], "theirs": []}, required=1.0)
    for program in ("ours", "theirs"):
        for _ in range(3):
            results.add(comparison.name, program, bench.Sample(1e6, 0.7, 2e6), None, None)
    text = bench.line(comparison, comparison.rows[0], results, "far", 0.02).text()
    assert "(disturbed)" in text and " * " in text
    hardy = bench.Row("ours", "theirs", 1.0, of_cpu=True, hardy=True)
    text = bench.line(comparison, hardy, results, "far", 0.02).text()
    assert "reached" in text and "2.00" in text and " * " not in text


def test_runs_in_which_the_cores_moved_count_for_neither(
    bench: Any, engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    results = bench.Results(tmp_path / "runs.jsonl", engine)
    comparison = part(bench, {"ours": [], "theirs": []}, required=1.0)
    for program in ("ours", "theirs"):
        for before, after, rate in (
            *[(41.0, 45.0, 24e6)] * 3,
            *[(160.0, 190.0, 13e6)] * 2,
            (41.0, 185.0, 77e6),
            (192.0, 40.7, 77e6),
        ):
            results.add(comparison.name, program, bench.Sample(rate, 0.0), before, after)
    again = bench.Results(results.path, engine)
    near = bench.line(comparison, comparison.rows[0], again, "near", 0.02).text()
    assert "24.00" in near and "  3 of 3" in near and "reached" in near
    far = bench.line(comparison, comparison.rows[0], again, "far", 0.02).text()
    assert "13.00" in far and "  2 of 2" in far and "(too few)" in far
    bench.show([comparison], again, 0.02)
    output = capsys.readouterr().out
    assert "77.00" not in output and "(4 of 14 runs count for nothing" in output
    bench.show([comparison], again, 0.02, markdown=True)
    rows = [text for text in capsys.readouterr().out.splitlines() if text.startswith("| a part")]
    assert len(rows) == 2 and all(text.count("|") == 9 for text in rows)
    assert (
        "| near | ours | 24.00 ± 0 % | theirs | 24.00 ± 0 % | 1.00 (tie) | 1.00 reached |"
        in rows[1]
    )


def test_call_continues_where_the_last_call_ended(bench: Any, engine: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    first = part(bench, {"ours": [1.0], "theirs": [1.0]})
    bench.measure([first], bench.Results(path, engine), setting(bench, engine, tmp_path), 1, None)
    with path.open("a") as file:
        file.write('{"part": "a part", "progr')  # the machine crashed here
    again = bench.Results(path, engine)
    assert again.rounds(first) == 1
    more = part(bench, {"ours": [2.0, 3.0], "theirs": [2.0, 3.0]})
    bench.measure([more], again, setting(bench, engine, tmp_path), 3, None)
    assert [run.rate_pps for run in again.of("a part", "ours")] == [1.0, 2.0, 3.0]
    assert bench.Results(path, engine).rounds(more) == 3


def test_no_run_starts_that_might_not_end_in_time(bench: Any, engine: Path, tmp_path: Path) -> None:
    results = bench.Results(tmp_path / "runs.jsonl", engine)
    comparison = part(bench, {"ours": [1.0], "theirs": [1.0]})
    bench.measure(
        [comparison], results, setting(bench, engine, tmp_path), 1, bench.RUN_AT_MOST_S / 2
    )
    assert results.stored == []


def test_runs_of_another_build_are_ignored(bench: Any, engine: Path, tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    comparison = part(bench, {"ours": [1.0], "theirs": [1.0]})
    bench.measure(
        [comparison], bench.Results(path, engine), setting(bench, engine, tmp_path), 1, None
    )
    engine.write_bytes(b"another build")
    other = bench.Results(path, engine)
    assert other.rounds(comparison) == 0 and other.others == 2


def test_failed_program_leaves_its_part_out(
    bench: Any, engine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(program: str) -> Any:
        raise bench.ProgramError(f"{program} ended")

    results = bench.Results(tmp_path / "runs.jsonl", engine)
    good = part(bench, {"ours": [1.0], "theirs": [1.0]})
    bad = bench.Part("bad", ("x", "y"), (), fails)
    bench.measure([bad, good], results, setting(bench, engine, tmp_path), 1, None)
    assert results.rounds(good) == 1 and results.rounds(bad) == 0
    assert "bad" in capsys.readouterr().err


def test_disturbed_runs_count_only_if_others_are_too_few(bench: Any) -> None:
    def run_with(disturbed: float) -> Any:
        return bench.StoredRun("p", "x", 1.0, disturbed, None, None, "e")

    alone = [run_with(0.0), run_with(0.01), run_with(0.0)]
    assert bench.counting([*alone, run_with(0.5)], 0.02) == (alone, True)
    mixed = [run_with(0.5), run_with(0.3), run_with(0.0), run_with(0.1)]
    counted, undisturbed = bench.counting(mixed, 0.02)
    assert [run.disturbed for run in counted] == [0.0, 0.1, 0.3] and not undisturbed
