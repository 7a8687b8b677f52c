"""`switchmark compare` with two runs: B against A, without pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict

from switchmark.cli.compare_cases import (
    Compared,
    CompareOptions,
    broken_case,
    skipped_case,
    why_broken,
)
from switchmark.cli.compare_lines import ComparisonLine, case_of, print_lines
from switchmark.cli.compare_words import certified_remarks, exit_code, page_sizes_differ
from switchmark.cli.output import note_problems, print_json
from switchmark.errors import UsageError
from switchmark.report.junit import Case
from switchmark.results.comparable import (
    CAUTION_MARKS,
    Key,
    LoadedRun,
    Measured,
    describe,
    done_alike,
    granted_apart,
    host_differences,
    of_other_page_size,
    with_sizes_shared,
)
from switchmark.statistics.boundaries import FIRST_LOOK
from switchmark.statistics.comparison import judge, ratio_of, sides_of
from switchmark.statistics.sequential import blocks_instead


def compare_two(a: LoadedRun, b: LoadedRun, options: CompareOptions) -> Compared:
    """Compare and print."""
    threshold, correction = options.smallest_change, options.correction
    a, b = with_sizes_shared([a, b])
    other_pages = of_other_page_size(a, b)
    shared = [key for key in a.trials if key in b.trials]
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
    figures = [
        (a.trials[key].values[one.name], b.trials[key].values[one.name]) for key, one in pairs
    ]
    judged = judge(
        [ratio_of(of_a, of_b) for of_a, of_b in figures],
        higher_is_better=[metric.higher_is_better for _, metric in pairs],
        threshold=threshold,
        correction=correction,
    )
    lines = [
        ComparisonLine(
            what=describe(key, shared),
            metric=f"{metric.name} [{metric.unit}]",
            mean_a=sides[0],
            mean_b=sides[1],
            judged=one,
            cautions=_cautions(a.trials[key], b.trials[key]),
        )
        for (key, metric), (of_a, of_b), one in zip(pairs, figures, judged, strict=True)
        for sides in (sides_of(one.ratio, of_a, of_b),)
    ]
    broken = [key for key in shared if a.trials[key].values and not b.trials[key].values]
    remarks = _remarks(a, b, shared, broken)
    if other_pages:
        remarks.append(page_sizes_differ(a, b, other_pages.values()))
    remarks += certified_remarks({"A": a.certified, "B": b.certified})
    if a.directory != b.directory:
        remarks.append(_without_pairs(figures, threshold))
    code = exit_code(
        [one.verdict for one in judged],
        worse=bool(broken),
        missing=len(alike) < len(a.trials),
        unreadable=bool(a.problems or b.problems),
        strict=options.strict,
    )
    if options.json:
        print_json(
            {
                "a": a.directory, "b": b.directory, "threshold": threshold,
                "correction": correction, "comparisons": [asdict(line) for line in lines],
                "remarks": remarks, "exit_code": code,
            }
        )  # fmt: skip
    else:
        used = "; ".join(sorted({line.judged.ratio.method for line in lines}))
        print_lines(
            lines,
            f"{used}. A and B are the means of that ratio. p is corrected over {len(lines)} "
            f"comparisons ({correction.value}); intervals are not. "
            f"Changes below {threshold:.1%} do not matter.",
        )
        note_problems(remarks)
    durations_s = [float(dict(key).get("duration_s") or 0.0) for key, _ in pairs]
    cases = [
        case_of(line, each_s, threshold) for line, each_s in zip(lines, durations_s, strict=True)
    ]
    cases += [broken_case(describe(key, shared), b.trials[key]) for key in broken]
    return Compared(code, [*cases, *_not_compared(a, b, shared, alike)])


def _without_pairs(
    figures: Sequence[tuple[Sequence[float], Sequence[float]]], threshold: float
) -> str:
    """Remarks on what two runs cannot show, and what one campaign of both would take."""
    blocks = [blocks_instead(one, other, threshold) for one, other in figures]
    most = max((count for count in blocks if count is not None), default=FIRST_LOOK)
    remedy = f"measured together in one campaign (`contenders`), {most} blocks at most would decide"
    if not blocks or None in blocks:
        remedy = "measure both together in one campaign (`contenders`)"
    return f"two runs, no pairs: the state of the machine may differ between them; {remedy}"


def _not_compared(
    a: LoadedRun, b: LoadedRun, shared: Sequence[Key], alike: Sequence[Key]
) -> Iterator[Case]:
    for key in shared:
        if key not in alike:
            yield skipped_case(describe(key, shared), "done differently in A and B")
    for key in of_other_page_size(a, b):
        yield skipped_case(a.trials[key].notation, "DPDK memory of different page sizes in A and B")
    for name, one, other in (("A", a, b), ("B", b, a)):
        for notation in _only_in(one, other):
            yield skipped_case(notation, f"only in {name}")


def _only_in(one: LoadedRun, other: LoadedRun) -> list[str]:
    """The trials that the other run has not, at any page size, in notation."""
    elsewhere = of_other_page_size(one, other)
    return [
        held.notation
        for key, held in one.trials.items()
        if key not in other.trials and key not in elsewhere
    ]


def _cautions(a: Measured, b: Measured) -> tuple[str, ...]:
    cautions = []
    for mark in sorted(CAUTION_MARKS & (a.marks | b.marks)):
        where = [name for name, one in (("A", a), ("B", b)) if mark in one.marks]
        cautions.append(f"{mark} ({' and '.join(where)})")
    cautions += [f"{mark} ({told})" for mark, told in granted_apart(a, b)]
    if a.limited_by == b.limited_by == {"rate"}:
        cautions.append("both met the load: what more they could carry is not known")
    for name, one in (("A", a), ("B", b)):
        if one.failed:
            cautions.append(f"{len(one.failed)} failed ({name})")
        if one.invalid:
            cautions.append(f"{one.invalid} not valid, left out ({name})")
    return tuple(cautions)


def _remarks(a: LoadedRun, b: LoadedRun, shared: Sequence[Key], broken: Sequence[Key]) -> list[str]:
    remarks = [*a.problems, *b.problems]
    for key in broken:
        why = why_broken(b.trials[key])
        remarks.append(f"WORSE: {describe(key, shared)}: worked in A, not in B: {why}")
    for key in shared:
        if not done_alike(a.trials[key], b.trials[key]):
            done_a, done_b = (
                "; ".join(sorted(one.trials[key].done | one.trials[key].engines)) for one in (a, b)
            )
            remarks.append(
                f"not compared, done differently: {describe(key, shared)}: {done_a} / {done_b}"
            )
    for name, one, other in (("A", a, b), ("B", b, a)):
        remarks += [f"left out of {name}: {contender}" for contender in one.left_out]
        if only := _only_in(one, other):
            some = "; ".join(sorted(set(only))[:5])
            remarks.append(f"only in {name}: {len(only)} trials, not compared ({some})")
    if differences := host_differences(a.host, b.host):
        some = "; ".join(differences[:8])
        remarks.append(f"the hosts differ, which may be all that was compared: {some}")
    return remarks
