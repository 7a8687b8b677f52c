"""The modes of `switchmark compare`: two runs, a series of runs, two contenders of one run, and two
contenders over several machines. Each makes a `ComparisonReport`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from switchmark.cli.compare_output import (
    CompareOptions,
    Comparison,
    ComparisonReport,
    broken_case,
    certified_remarks,
    interval_text,
    number_text,
    only_two,
    p_text,
    page_sizes_differ,
    ratio_text,
    skipped_case,
)
from switchmark.errors import UsageError
from switchmark.formatting import format_duration
from switchmark.language import values
from switchmark.record.metric import Metric
from switchmark.report import words
from switchmark.report.junit import Case
from switchmark.report.machines import machine_words, verdict_of
from switchmark.results.answer import LeadVerdict
from switchmark.results.certified import certified, of_rows
from switchmark.results.comparable import (
    CAUTION_MARKS,
    Key,
    LoadedRun,
    Measured,
    done_alike,
    granted_apart,
    host_differences,
    of_other_page_size,
    with_sizes_shared,
)
from switchmark.results.contenders import in_order_of
from switchmark.results.over_machines import (
    FigureOverMachines,
    OverMachines,
    compare_over_machines,
    contenders_of,
)
from switchmark.results.paired_run import PairedFigure, PairedRun, compare_in_run
from switchmark.results.query import read_table
from switchmark.results.run_directory import Run, open_run
from switchmark.results.summary import summarise
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.statistics.comparison import (
    Judged,
    Ratio,
    Verdict,
    adjust,
    further_repetitions,
    judge,
    ratio_of,
    sides_of,
)
from switchmark.statistics.defaults import PROVE
from switchmark.statistics.paired import FEWEST_PAIRS, METHOD
from switchmark.statistics.sequential import blocks_instead
from switchmark.statistics.series import find_changes, is_recent, newest_run, verdict_of_newest
from switchmark.statistics.states import State
from switchmark.switch.registry import usual_overhead_s

_MOST_DIFFERENCES = 8  # facts of hosts that a remark lists


@dataclass(frozen=True, slots=True)
class _Sides:
    """The two sides of a comparison of A with B."""

    point: str
    metric: str
    mean_a: float | None
    mean_b: float | None
    judged: Judged
    cautions: tuple[str, ...]

    @property
    def interval(self) -> str:
        """The interval of B / A."""
        return interval_text(self.judged.ratio.low, self.judged.ratio.high)

    @property
    def row(self) -> list[object]:
        """The row of the table."""
        ratio = self.judged.ratio
        return [
            self.point, self.metric, number_text(self.mean_a), number_text(self.mean_b),
            ratio_text(ratio.value), self.interval, f"{ratio.count_a}, {ratio.count_b}",
            p_text(self.judged.adjusted_p), self.judged.verdict.value, "; ".join(self.cautions),
        ]  # fmt: skip

    @property
    def data(self) -> dict[str, Any]:
        """The JSON object."""
        data = asdict(self)
        return {"what": data.pop("point"), **data}

    def comparison(
        self, amount: str, further: int | None = None, duration_s: float = 0.0
    ) -> Comparison:
        """Return the comparison with this amount in words."""
        return Comparison(
            f"{self.point} {self.metric}", self.judged.verdict, amount, [self.row], self.data,
            further, duration_s,
        )  # fmt: skip


def _columns(interval: str) -> list[str]:
    return ["trial", "figure", "A", "B", "B / A", interval, "n", "p", "verdict", "caution"]


_RIGHT = ("A", "B", "B / A", "p")


def compare_two(a: LoadedRun, b: LoadedRun, options: CompareOptions) -> ComparisonReport:
    """Compare run B with run A, without pairs. Raises UsageError if no trial is in both."""
    threshold, correction = options.smallest_change, options.correction
    a, b = with_sizes_shared([a, b])
    other_pages = of_other_page_size(a, b)
    shared = [key for key in a.trials if key in b.trials]
    names = words.names_of(shared)
    if not shared and other_pages:
        raise UsageError(page_sizes_differ(a, b, other_pages.values()))
    if not shared:
        raise UsageError(
            f"{a.directory} and {b.directory} have no trial in common: the same packet sizes, "
            "rates, durations, switches and connect modes are needed (two switches: --match)"
        )
    alike = [key for key in shared if done_alike(a.trials[key], b.trials[key])]
    pairs = [
        (key, metric)
        for key in alike
        for metric in options.metrics
        if metric.name in a.trials[key].values and metric.name in b.trials[key].values
    ]
    figures = [(a.trials[key].values[m.name], b.trials[key].values[m.name]) for key, m in pairs]
    all_judged = judge(
        [ratio_of(of_a, of_b) for of_a, of_b in figures],
        higher_is_better=[metric.higher_is_better for _, metric in pairs],
        threshold=threshold,
        correction=correction,
    )
    comparisons = []
    for (key, metric), (of_a, of_b), judged in zip(pairs, figures, all_judged, strict=True):
        mean_a, mean_b = sides_of(judged.ratio, of_a, of_b)
        sides = _Sides(
            names[key], f"{metric.name} [{metric.unit}]", mean_a, mean_b, judged,
            _cautions(a.trials[key], b.trials[key]),
        )  # fmt: skip
        amount = (
            f"B / A {ratio_text(judged.ratio.value)} ({sides.interval}, 95 %), "
            f"p {p_text(judged.adjusted_p)}, n {judged.ratio.count_a} and {judged.ratio.count_b}"
        )
        duration_s = float(dict(key).get("duration_s") or 0.0)
        further = further_repetitions(judged, threshold)
        comparisons.append(sides.comparison(amount, further, duration_s))
    broken = [key for key in shared if a.trials[key].values and not b.trials[key].values]
    remarks = _two_remarks(a, b, names, broken)
    if other_pages:
        remarks.append(page_sizes_differ(a, b, other_pages.values()))
    remarks += certified_remarks({"A": a.certified, "B": b.certified})
    if a.directory != b.directory:
        remarks.append(_without_pairs(figures, threshold))
    methods = "; ".join(sorted({judged.ratio.method for judged in all_judged}))
    return ComparisonReport(
        columns=_columns("95 % interval"),
        right=_RIGHT,
        comparisons=comparisons,
        threshold=threshold,
        data={
            "a": a.directory, "b": b.directory, "threshold": threshold, "correction": correction,
        },
        remarks=remarks,
        notes=[
            f"{methods}. A and B are the means of that ratio. p is corrected over "
            f"{len(comparisons)} comparisons ({correction.value}); intervals are not. "
            f"Changes below {threshold:.1%} do not matter."
        ],
        broken=[_broken(names[key], b.trials[key]) for key in broken],
        skipped=list(_not_compared(a, b, names, alike)),
        is_unreadable=bool(a.problems or b.problems),
        is_missing=len(alike) < len(a.trials),
    )  # fmt: skip


def _without_pairs(
    figures: Sequence[tuple[Sequence[float], Sequence[float]]], threshold: float
) -> str:
    """Return a remark about two runs without pairs, with the blocks that one campaign needs."""
    blocks = [blocks_instead(of_a, of_b, threshold) for of_a, of_b in figures]
    most = max((count for count in blocks if count is not None), default=FIRST_ANALYSIS)
    remedy = f"measured together in one campaign (`contenders`), {most} blocks at most would decide"
    if not blocks or None in blocks:
        remedy = "measure both together in one campaign (`contenders`)"
    return f"two runs, no pairs: the state of the machine may differ between them; {remedy}"


def _not_compared(
    a: LoadedRun, b: LoadedRun, names: Mapping[Key, str], alike: Sequence[Key]
) -> Iterator[Case]:
    for key in names:
        if key not in alike:
            yield skipped_case(names[key], "done differently in A and B")
    for key in of_other_page_size(a, b):
        yield skipped_case(a.trials[key].notation, "DPDK memory of different page sizes in A and B")
    for name, run, other in (("A", a, b), ("B", b, a)):
        for notation in _only_in(run, other):
            yield skipped_case(notation, f"only in {name}")


def _only_in(run: LoadedRun, other: LoadedRun) -> list[str]:
    """Return the trials that the other run does not have at any page size, in notation."""
    elsewhere = of_other_page_size(run, other)
    return [
        measured.notation
        for key, measured in run.trials.items()
        if key not in other.trials and key not in elsewhere
    ]


def _cautions(a: Measured, b: Measured) -> tuple[str, ...]:
    cautions = []
    for mark in sorted(CAUTION_MARKS & (a.marks | b.marks)):
        sides = [name for name, side in (("A", a), ("B", b)) if mark in side.marks]
        cautions.append(f"{mark} ({' and '.join(sides)})")
    cautions += [f"{mark} ({granted})" for mark, granted in granted_apart(a, b)]
    if a.limited_by == b.limited_by == {"rate"}:
        cautions.append("both carried the whole load: their maximum is unknown")
    for name, side in (("A", a), ("B", b)):
        if side.failed:
            cautions.append(f"{len(side.failed)} failed ({name})")
        if side.invalid:
            cautions.append(f"{side.invalid} not valid, left out ({name})")
    return tuple(cautions)


def _two_remarks(
    a: LoadedRun, b: LoadedRun, names: Mapping[Key, str], broken: Sequence[Key]
) -> list[str]:
    remarks = [*a.problems, *b.problems]
    for key in broken:
        reason = _reason(b.trials[key])
        remarks.append(f"WORSE: {names[key]}: worked in A, not in B: {reason}")
    for key in names:
        if not done_alike(a.trials[key], b.trials[key]):
            done_a, done_b = (
                "; ".join(sorted(run.trials[key].done | run.trials[key].engines)) for run in (a, b)
            )
            remarks.append(f"not compared, done differently: {names[key]}: {done_a} / {done_b}")
    for name, run, other in (("A", a, b), ("B", b, a)):
        remarks += [f"left out of {name}: {contender}" for contender in run.left_out]
        if only := _only_in(run, other):
            some = "; ".join(sorted(set(only))[:5])
            remarks.append(f"only in {name}: {len(only)} trials, not compared ({some})")
    if differences := host_differences(a.host, b.host):
        some = "; ".join(differences[:_MOST_DIFFERENCES])
        remarks.append(f"the hosts differ, which can be the cause of each difference: {some}")
    return remarks


def _reason(now: Measured) -> str:
    """Return the reason why a trial that worked before has no figure now."""
    return now.failed[0] if now.failed else "no valid repetition"


def _broken(name: str, now: Measured) -> Case:
    return broken_case(name, f"worked before, not now: {_reason(now)}")


def compare_series(runs: Sequence[LoadedRun], options: CompareOptions) -> ComparisonReport:
    """Compare the newest run with all before it. Raises UsageError if it shares no trial."""
    runs = with_sizes_shared(runs)
    newest = runs[-1].trials
    names = words.names_of(list(newest))
    series = []
    for key, measured in newest.items():
        with_trial = [run.trials[key] for run in runs if key in run.trials]
        alike = [trial for trial in with_trial if done_alike(trial, measured)]
        for metric in options.metrics:
            history = [figures for trial in alike if (figures := _above_0(trial, metric))]
            if _above_0(measured, metric) and len(history) > 1:
                series.append((names[key], metric, history))
    broken = _broken_in_newest(runs)
    page_sizes = list(_page_sizes(runs))
    if not series and not broken:
        shares_none = f"{runs[-1].directory}: shares no trial with the runs before it"
        raise UsageError(page_sizes[0] if page_sizes else shares_none)
    remarks = [*_series_remarks(runs, names, broken), *page_sizes]
    remarks += certified_remarks({str(run.directory): run.certified for run in runs})
    p_values = [new.p if (new := newest_run(history)) else None for _, _, history in series]
    comparisons = [
        _newest(name, metric, history, p, options.smallest_change)
        for (name, metric, history), p in zip(
            series, adjust(p_values, options.correction), strict=True
        )
    ]
    return ComparisonReport(
        columns=[
            "trial", "figure", "runs", "newest / before", "expected (95 %)", "p", "verdict",
            "changes of level",
        ],
        right=("runs", "newest / before", "p"),
        comparisons=comparisons,
        threshold=options.smallest_change,
        data={"runs": [run.directory for run in runs]},
        remarks=remarks,
        broken=[_broken(names[key], newest[key]) for key in broken],
        is_unreadable=any(run.problems for run in runs),
        list_name="series",
    )  # fmt: skip


def _newest(
    name: str, metric: Metric, history: Sequence[Sequence[float]], p: float | None, threshold: float
) -> Comparison:
    """Return the comparison of the newest run. A fall of the level in the last runs also counts as
    worse, although the newest run alone may not show it."""
    new = newest_run(history)
    verdict = verdict_of_newest(new, p, metric.higher_is_better, threshold)
    changes = find_changes(history, threshold)
    recent = [change for change in changes if is_recent(change, len(history))]
    is_fallen = any((change.ratio < 1) == metric.higher_is_better for change in recent)
    levels = "; ".join(f"run {change.index + 1}: x {change.ratio:.3f}" for change in changes)
    expected = f"{new.expected_low:.3f} to {new.expected_high:.3f}" if new else "-"
    ratio = ratio_text(new.ratio if new else None)
    return Comparison(
        name=f"{name} {metric.name}",
        verdict=verdict,
        amount=f"{ratio} of the value that the {len(history) - 1} runs before predict, "
        f"p {p_text(p)}",
        rows=[
            [name, metric.name, len(history), ratio, expected, p_text(p), verdict.value,
             levels or "none"]
        ],
        data={
            "what": name, "metric": metric.name, "runs": len(history), "newest": new,
            "adjusted_p": p, "verdict": verdict, "changes": changes, "recent_fall": is_fallen,
        },
        is_worse=is_fallen,
    )  # fmt: skip


def _page_sizes(runs: Sequence[LoadedRun]) -> Iterator[str]:
    """Yield a line for each earlier run whose DPDK memory has another page size."""
    for run in runs[:-1]:
        if pairs := of_other_page_size(run, runs[-1]):
            yield page_sizes_differ(run, runs[-1], pairs.values())


def _above_0(measured: Measured, metric: Metric) -> list[float]:
    """Return the values of a run in a series; empty if a value is 0, which has no ratio."""
    figures = measured.values.get(metric.name, [])
    return figures if all(figure > 0 for figure in figures) else []


def _broken_in_newest(runs: Sequence[LoadedRun]) -> list[Key]:
    """Return the trials that have valid figures in an earlier run and fail in the newest."""
    return [
        key
        for key, measured in runs[-1].trials.items()
        if not measured.values
        and any(key in run.trials and run.trials[key].values for run in runs[:-1])
    ]


def _series_remarks(
    runs: Sequence[LoadedRun], names: Mapping[Key, str], broken: Sequence[Key]
) -> list[str]:
    newest = runs[-1]
    keys = list(newest.trials)
    remarks = [line for run in runs for line in run.problems]
    for key in broken:
        reason = _reason(newest.trials[key])
        remarks.append(f"WORSE: {names[key]}: worked before, not in the newest: {reason}")
    for run in runs:
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
        if any(0 in figures for key in shared for figures in run.trials[key].values.values()):
            remarks.append(
                f"{run.directory}: figures of 0 have no ratio and are left out of the series; "
                "compare it with one other run"
            )
        if differences := host_differences(run.host, newest.host):
            some = "; ".join(differences[:_MOST_DIFFERENCES])
            remarks.append(f"{run.directory}: another host than the newest: {some}")
    return remarks


def compare_contenders(
    directory: Path, pair: tuple[str, str] | None, options: CompareOptions
) -> ComparisonReport:
    """Compare two contenders of one run by the pairs of its blocks; without `pair` the only two."""
    table = read_table(directory)
    rows = summarise(directory, table)
    names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
    run = open_run(directory)
    known = sorted(set(names.values()), key=in_order_of(run.info.definition))
    a, b = pair or only_two(known, f"{directory}: has")
    paired = compare_in_run(run, a, b, names, options.metrics, options.threshold, usual_overhead_s)
    varying = words.varying_fields(rows)
    broken = [words.point(dict(point), varying) for point in paired.broken]
    confidence = f"{paired.confidence * 100:.3g} %"
    return ComparisonReport(
        columns=_columns(f"{confidence} interval"),
        right=_RIGHT,
        comparisons=[_paired(figure, varying) for figure in paired.figures],
        threshold=paired.prove,
        data={
            "run": directory, "a": a, "b": b, "threshold": paired.prove,
            "confidence": paired.confidence, "blocks": paired.blocks,
        },
        remarks=[
            *table.problems,
            *words.left_out(row for row in rows if row.contender in (a, b)),
            *(f"WORSE: {point}: {a} has a figure, {b} has none" for point in broken),
            *(
                f"{words.point(dict(point), varying)}: a figure of 0 has no ratio, left out"
                for point in paired.without_ratio
            ),
            *_further(paired),
            certified(of_rows(rows)),
        ],
        notes=[
            f"A is {a}, B is {b}, of {paired.blocks} blocks; {METHOD}. All intervals hold together "
            f"with {confidence}, at every interim analysis. Same: the whole interval is within "
            f"{paired.prove * 100:.3g} %."
        ],
        broken=[
            broken_case(point, "one contender has a figure, the other has none") for point in broken
        ],
        is_unreadable=bool(table.problems),
    )  # fmt: skip


def _paired(figure: PairedFigure, varying: Sequence[str]) -> Comparison:
    point = words.point(dict(figure.point), varying)
    point += f", on {figure.testbed}" if figure.testbed else ""
    has_state = figure.state not in (None, State.ONLY)
    lead = figure.ratio
    ratio = Ratio(
        value=lead.value if lead else figure.b.typical / figure.a.typical,
        low=lead.low if lead else None,
        high=lead.high if lead else None,
        p=None,
        method=METHOD,
        count_a=figure.pairs,
        count_b=figure.pairs,
    )
    sides = _Sides(
        point=f"{point}, {figure.state}" if has_state else point,
        metric=f"{figure.metric.name} [{figure.metric.unit}]",
        mean_a=figure.a.typical,
        mean_b=figure.b.typical,
        judged=Judged(ratio, adjusted_p=None, verdict=_paired_verdict(figure)),
        cautions=(),
    )
    return sides.comparison(
        f"B / A {ratio_text(ratio.value)} ({sides.interval}), {figure.pairs} pairs"
    )


def _paired_verdict(figure: PairedFigure) -> Verdict:
    ratio = figure.ratio
    if ratio is None:
        return Verdict.UNTESTABLE
    if ratio.verdict is LeadVerdict.UNDECIDED:
        return Verdict.UNCLEAR
    if ratio.verdict is LeadVerdict.SAME:
        return Verdict.SAME
    return Verdict.BETTER if (ratio.value > 1) == figure.metric.higher_is_better else Verdict.WORSE


def _further(paired: PairedRun) -> Iterator[str]:
    """Yield the time that would decide what is open."""
    times = [figure.further_s for figure in paired.figures if figure.further_s is not None]
    if times:
        yield f"about {format_duration(max(times))} more of such blocks would decide the rest"
    if any(figure.ratio is None for figure in paired.figures):
        yield (
            f"{FEWEST_PAIRS} pairs are needed; measure more blocks (`prove`, `budget` or "
            "`repetitions`)"
        )


@dataclass(frozen=True, slots=True)
class MachinesReport:
    """A report over machines, with the values that its HTML page needs."""

    report: ComparisonReport
    result: OverMachines
    prove: float


def compare_machines(
    folders: Sequence[Path], pair: tuple[str, str] | None, options: CompareOptions
) -> MachinesReport:
    """Compare two contenders over the machines of the runs; without `pair` the only two. Raises
    UsageError if both were measured on fewer than two machines."""
    prove = PROVE if options.threshold is None else options.threshold
    runs: list[tuple[Run, dict[str, str]]] = []
    problems: list[str] = []
    certificates: dict[str, str] = {}
    for folder in folders:
        table = read_table(folder)
        problems += table.problems
        rows = summarise(folder, table)
        certificates[str(folder)] = certified(of_rows(rows))
        names = {row.trial.id: row.contender for row in rows if not row.is_baseline}
        runs.append((open_run(folder), names))
    known = contenders_of(names for _, names in runs)
    a, b = _two(pair, sorted(known, key=in_order_of(runs[0][0].info.definition)))
    result = compare_over_machines(runs, a, b, options.metrics)
    if len(result.machines) < 2:
        raise UsageError(
            f"--over-machines: {a} and {b} were both measured on {len(result.machines)} machine "
            f"({', '.join(result.machines) or 'none'}); give the runs of two or more, best three"
        )
    varying = words.varying_among(figure.point for figure in result.figures)
    report = ComparisonReport(
        columns=["trial", "figure", "machine", "B / A", "95 % interval", "of", "verdict"],
        right=("B / A",),
        comparisons=[_over_machines(figure, prove, varying) for figure in result.figures],
        threshold=prove,
        data={
            "runs": list(folders), "a": a, "b": b, "threshold": prove,
            "confidence": 1 - result.level, "machines": result.machines,
        },
        remarks=[
            *problems, *result.remarks, *_too_few(result), *certified_remarks(certificates)
        ],
        notes=list(_machine_notes(result, prove, varying)),
        is_unreadable=bool(problems),
    )  # fmt: skip
    return MachinesReport(report, result, prove)


def _two(pair: tuple[str, str] | None, known: Sequence[str]) -> tuple[str, str]:
    if pair is None:
        return only_two(known, "--over-machines: the runs have")
    for name in pair:
        if name not in known:
            raise UsageError(f"--contenders: {values.unknown(name, known, 'contender')}")
    if pair[0] == pair[1]:
        raise UsageError(f"--contenders: {pair[0]} is compared with itself; name two")
    return pair


def _too_few(result: OverMachines) -> Iterator[str]:
    if any(figure.over is not None and figure.over.spread is None for figure in result.figures):
        yield (
            "two machines do not show how much machines differ, so nothing is predicted for a "
            "further machine: measure on a third"
        )
    few = {m.machine for figure in result.figures for m in figure.machines if m.ratio is None}
    if few:
        yield f"too few pairs, left out: {', '.join(sorted(few))}; measure more blocks"


def _over_machines(figure: FigureOverMachines, prove: float, varying: Sequence[str]) -> Comparison:
    verdict = verdict_of(figure, prove)
    point = words.point(dict(figure.point), varying)
    metric = f"{figure.metric.name} [{figure.metric.unit}]"
    rows: list[list[object]] = []
    for machine in figure.machines:
        first = ["", ""] if rows else [point, metric]
        value, interval = "-", "-"
        if machine.ratio is not None:
            value = ratio_text(machine.ratio.value)
            interval = interval_text(machine.ratio.low, machine.ratio.high)
        rows.append([*first, machine.machine, value, interval, f"{machine.pairs} pairs", ""])
    amount = "too few pairs on all machines but one"
    if (over := figure.over) is not None:
        value, interval = ratio_text(over.value), interval_text(over.low, over.high)
        amount = f"B / A {value} ({interval}), {over.machines} machines"
        rows.append(["", "", "mean", value, interval, f"{over.machines} machines", verdict.value])
        if over.predicted_low is not None and over.predicted_high is not None:
            predicted = interval_text(over.predicted_low, over.predicted_high)
            rows.append(["", "", "a further machine", "", predicted, "", ""])
    data: dict[str, Any] = {
        "point": dict(figure.point), "metric": figure.metric.name, "unit": figure.metric.unit,
        "machines": figure.machines, "over_machines": over, "verdict": verdict,
    }  # fmt: skip
    return Comparison(f"{point} {metric}", verdict, amount, rows, data)


def _machine_notes(result: OverMachines, prove: float, varying: Sequence[str]) -> Iterator[str]:
    yield f"A is {result.a}, B is {result.b}; on each machine by pairs within its blocks, over"
    yield "machines as a random effect (docs/machines.md); each interval holds alone."
    yield f"Same: the whole interval of the mean is within {prove * 100:.3g} %."
    for figure in result.figures:
        if figure.over is not None and figure.over.spread is not None:
            point = words.point(dict(figure.point), varying)
            yield f"{point}, {figure.metric.name}: {machine_words(figure.over.spread)}."
