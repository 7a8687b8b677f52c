"""`switchmark compare` with three runs or more: the newest of a series against those before it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from switchmark.cli.compare_cases import (
    Compared,
    CompareOptions,
    broken_case,
    verdict_case,
    why_broken,
)
from switchmark.cli.compare_words import (
    certified_remarks,
    exit_code,
    p_text,
    page_sizes_differ,
    ratio_text,
)
from switchmark.cli.output import note_problems, print_json, print_table
from switchmark.errors import UsageError
from switchmark.record.metric import Metric
from switchmark.report.junit import Case
from switchmark.results.comparable import (
    Key,
    LoadedRun,
    Measured,
    describe,
    done_alike,
    host_differences,
    of_other_page_size,
    with_sizes_shared,
)
from switchmark.statistics.comparison import Verdict, adjust
from switchmark.statistics.series import find_changes, is_recent, newest_run, verdict_of_newest


def compare_series(loaded: Sequence[LoadedRun], options: CompareOptions) -> Compared:
    """Compare and print."""
    threshold = options.smallest_change
    loaded = with_sizes_shared(loaded)
    newest = loaded[-1].trials
    names = {key: describe(key, list(newest)) for key in newest}
    found = []
    for key, measured in newest.items():
        runs = [run.trials[key] for run in loaded if key in run.trials]
        alike = [one for one in runs if done_alike(one, measured)]
        for metric in options.metrics:
            history = [held for one in alike if (held := _above_0(one, metric))]
            if _above_0(measured, metric) and len(history) > 1:
                found.append((key, metric, history, newest_run(history)))
    broken = _broken_in_newest(loaded)
    remarks = _series_remarks(loaded, broken)
    remarks += _page_sizes(loaded)
    remarks += certified_remarks({str(run.directory): run.certified for run in loaded})
    if not found and not broken:
        sizes = list(_page_sizes(loaded))
        raise UsageError(
            sizes[0]
            if sizes
            else f"{loaded[-1].directory}: shares no trial with the runs before it"
        )
    adjusted = adjust([new.p if new else None for _, _, _, new in found], options.correction)
    rows: list[dict[str, Any]] = []
    for (key, metric, history, new), p in zip(found, adjusted, strict=True):
        verdict = verdict_of_newest(new, p, metric.higher_is_better, threshold)
        changes = find_changes(history, threshold)
        recent = [c for c in changes if is_recent(c, len(history))]
        fell = any((change.ratio < 1) == metric.higher_is_better for change in recent)
        rows.append(
            {
                "what": names[key], "metric": metric.name,
                "runs": len(history), "newest": new, "adjusted_p": p, "verdict": verdict,
                "changes": changes, "recent_fall": fell,
            }
        )  # fmt: skip
    unreadable = any(run.problems for run in loaded)
    fallen = any(row["recent_fall"] for row in rows)
    code = exit_code(
        [row["verdict"] for row in rows],
        worse=bool(broken) or fallen,
        unreadable=unreadable,
        strict=options.strict,
    )
    if options.json:
        print_json({"runs": [run.directory for run in loaded], "series": rows, "exit_code": code,
                    "remarks": remarks})  # fmt: skip
    else:
        _print_series(rows)
        note_problems(remarks)
    cases = [_case(row, threshold) for row in rows]
    cases += [broken_case(names[key], newest[key]) for key in broken]
    return Compared(code, cases)


def _page_sizes(loaded: Sequence[LoadedRun]) -> Iterator[str]:
    """A line for each earlier run whose DPDK memory had pages of another size."""
    for run in loaded[:-1]:
        if pairs := of_other_page_size(run, loaded[-1]):
            yield page_sizes_differ(run, loaded[-1], pairs.values())


def _above_0(measured: Measured, metric: Metric) -> list[float]:
    """The values of a run in a series of levels; none where one is 0, which is no level."""
    values = measured.values.get(metric.name, [])
    return values if all(value > 0 for value in values) else []


def _case(row: dict[str, Any], threshold: float) -> Case:
    """The test case of a figure. The newest run alone may not show a fall of the level in the last
    runs, which counts, too."""
    new = row["newest"]
    amount = f"{ratio_text(new.ratio if new else None)} of what the {row['runs'] - 1} before lead "
    amount += f"one to expect, p {p_text(row['adjusted_p'])}"
    verdict = Verdict.WORSE if row["recent_fall"] else row["verdict"]
    return verdict_case(f"{row['what']} {row['metric']}", verdict, amount, threshold)


def _broken_in_newest(loaded: Sequence[LoadedRun]) -> list[Key]:
    """Trials of which an earlier run has valid figures, and which fail in the newest."""
    return [
        key
        for key, measured in loaded[-1].trials.items()
        if not measured.values
        and any(key in run.trials and run.trials[key].values for run in loaded[:-1])
    ]


def _series_remarks(loaded: Sequence[LoadedRun], broken: Sequence[Key]) -> list[str]:
    """Remarks on everything that is not in the table: unreadable, broken, done otherwise, invalid,
    other hosts."""
    newest = loaded[-1]
    keys = list(newest.trials)
    remarks = [line for run in loaded for line in run.problems]
    for key in broken:
        why = why_broken(newest.trials[key])
        remarks.append(f"WORSE: {describe(key, keys)}: worked before, not in the newest: {why}")
    for run in loaded:
        shared = [key for key in keys if key in run.trials]
        otherwise = [k for k in shared if not done_alike(run.trials[k], newest.trials[k])]
        if otherwise:
            remarks.append(
                f"{run.directory}: {len(otherwise)} trials left out: connect mode, port kind or "
                "I/O is not the newest run's"
            )
        invalid = sum(run.trials[key].invalid for key in shared)
        if invalid:
            remarks.append(f"{run.directory}: {invalid} repetitions not valid, left out")
        if any(0 in values for key in shared for values in run.trials[key].values.values()):
            remarks.append(
                f"{run.directory}: figures of 0 have no place in a series of ratios, left out; "
                "compare it with one other run"
            )
        if differences := host_differences(run.host, newest.host):
            remarks.append(
                f"{run.directory}: another host than the newest: {'; '.join(differences[:8])}"
            )
    return remarks


def _print_series(rows: Sequence[dict[str, Any]]) -> None:
    lines = []
    for row in rows:
        new = row["newest"]
        changes = "; ".join(f"run {c.index + 1}: x {c.ratio:.3f}" for c in row["changes"])
        expected = f"{new.expected_low:.3f} to {new.expected_high:.3f}" if new else "-"
        lines.append(
            [
                row["what"], row["metric"], row["runs"], ratio_text(new.ratio if new else None),
                expected, p_text(row["adjusted_p"]), row["verdict"].value, changes or "none",
            ]
        )  # fmt: skip
    columns = ["trial", "figure", "runs", "newest / before", "expected (95 %)", "p", "verdict"]
    print_table([*columns, "changes of level"], lines, right=["runs", "newest / before", "p"])
