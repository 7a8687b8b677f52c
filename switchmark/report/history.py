"""The history of figures, in words and as a page: each series with the places where its level
changed, and what else changed with it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from switchmark.formatting import amount
from switchmark.record.metric import Metric
from switchmark.report import plot
from switchmark.report.figures import Drawing
from switchmark.report.page import Link, Page, Section, Table, page_html
from switchmark.results.groups import differing
from switchmark.results.history import History, LevelChange, PastFigure, level_of

_HEIGHT_PX = 320
METHOD = (
    "Runs of one workload, the same means and one machine are a series; the unit is the run. "
    "Changes are found by e-divisive means, each beaten in at most 1 % of random orders; the "
    "interval is Welch's on the levels of the runs before and after, 95 %, each by itself."
)


def change_words(change: LevelChange, metric: Metric) -> str:
    """A change in words: `since version 3.1.2, 2026-03-01: 12 % slower [10.5, 13.4]`."""
    point = change.point
    percent = f"{abs(point.ratio - 1) * 100:.3g} %"
    said = f"since {change.since}: {percent} {_grew(point.ratio, metric)}"
    if point.low is not None and point.high is not None:
        sign = 1 if point.ratio > 1 else -1
        ends = sorted(100 * sign * (end - 1) for end in (point.low, point.high))
        said += f" [{ends[0]:.3g}, {ends[1]:.3g}]"
    return said


def title_of(one: PastFigure, varying: Sequence[str]) -> str:
    """The title of a series."""
    return f"{one.switch}, {one.metric.name}, {one.in_words(varying)}, {one.machine}"


def newest_words(one: PastFigure) -> str:
    """The newest level in words."""
    newest = one.usable[-1]
    version = f", version {newest.version}" if newest.version else ""
    return f"{amount(newest.level, one.metric.unit)} on {newest.started_at:%Y-%m-%d}{version}"


def history_page(history: History, title: str, links: Sequence[Link] = ()) -> str:
    """The page as HTML."""
    varying = differing(one.workload for one in history.figures)
    sections = [_section(one, varying) for one in history.figures]
    if len(sections) > 1:
        sections.insert(0, _overview(history, varying))
    if history.problems:
        sections.insert(0, Section("Files that could not be read", warned=history.problems))
    sections.append(Section("Method", (METHOD,)))
    runs = len({run.directory for one in history.figures for run in one.runs})
    return page_html(Page(title, "switchmark, history", f"{runs} runs", sections, links))


def _overview(history: History, varying: Sequence[str]) -> Section:
    lines = []
    for one in history.figures:
        last = change_words(one.changes[-1], one.metric) if one.changes else "no change"
        name = one.in_words(varying)
        line = (one.switch, one.metric.name, name, one.machine, str(len(one.usable)))
        lines.append((*line, newest_words(one), last))
    columns = ("switch", "figure", "workload", "machine", "runs", "newest", "last change")
    return Section("All series", table=Table(columns, lines, right=("runs",)))


def _section(one: PastFigure, varying: Sequence[str]) -> Section:
    return Section(
        title_of(one, varying),
        tuple(_sentences(one)),
        (_drawing(one, varying),),
        Table(
            ("date", "version", "run", one.metric.unit, "repetitions"),
            [
                (
                    f"{run.started_at:%Y-%m-%d %H:%M}",
                    run.version or "-",
                    run.directory.name,
                    amount(run.level, one.metric.unit) if run.values else "none valid",
                    f"{len(run.values)} of {run.trials}",
                )
                for run in reversed(one.runs)
            ],
            right=(one.metric.unit, "repetitions"),
        ),
        tuple(f"{_capital(change, one)}." for change in one.changes if _fell(change, one)),
        folded=True,
    )


def _sentences(one: PastFigure) -> Iterator[str]:
    count = len(one.usable)
    yield f"{count} run{'' if count == 1 else 's'}; the newest: {newest_words(one)}."
    if not one.changes:
        yield "No change of level is proven."
    for change in one.changes:
        if not _fell(change, one):
            yield f"{_capital(change, one)}."
        if change.differs:
            since = f"{change.run.started_at:%Y-%m-%d}"
            yield f"Also different since {since}: {'; '.join(change.differs)}."


def _capital(change: LevelChange, one: PastFigure) -> str:
    said = change_words(change, one.metric)
    return said[0].upper() + said[1:]


def _fell(change: LevelChange, one: PastFigure) -> bool:
    return (change.point.ratio < 1) == one.metric.higher_is_better


def _drawing(one: PastFigure, varying: Sequence[str]) -> Drawing:
    usable = one.usable
    text = [
        Markup("{}<br>{}<br>{}").format(
            amount(run.level, one.metric.unit), run.version or "", run.directory.name
        )
        for run in usable
    ]
    traces = [
        plot.scatter(
            "markers",
            [run.started_at.isoformat() for run in usable],
            [run.level for run in usable],
            said=plot.hover("%{x}<br>%{text}"),
            text=text,
            marker={"color": "@series0", "size": 8},
        )
    ]
    for stretch in one.stretches:
        ends = [stretch[0].started_at.isoformat(), stretch[-1].started_at.isoformat()]
        line = {"color": "@ink", "width": 1.5}
        traces.append(plot.scatter("lines", ends, [level_of(stretch)] * 2, line=line))
    layout = {
        "xaxis": plot.axis("", type="date"),
        "yaxis": plot.axis(f"{one.metric.name} ({one.metric.unit})", rangemode="tozero"),
        "shapes": [
            plot.upright(change.run.started_at.isoformat(), color="@series1", dash="dot")
            for change in one.changes
        ],
    }
    note = "Dots: runs. Lines: levels between changes. Dotted: the first run after a change."
    return Drawing(title_of(one, varying), traces, layout, _HEIGHT_PX, note)


def _grew(ratio: float, metric: Metric) -> str:
    grown = ratio > 1
    match metric.unit:
        case "pps" | "bit/s" | "requests/s":
            return "faster" if grown else "slower"
        case "ns" | "s":
            return "longer" if grown else "shorter"
        case _:
            return "higher" if grown else "lower"
