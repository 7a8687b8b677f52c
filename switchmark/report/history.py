"""The history of figures, as text and as a page: each series with the places where its level
changed, and the other differences at these places."""

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
    "A series has the runs of one workload, one configuration and one machine; the unit is the "
    "run. Changes are found by e-divisive means: at most 1 % of random orders have a better cut. "
    "The interval is Welch's on the levels of the runs before and after, 95 % for each change."
)


def change_words(change: LevelChange, metric: Metric) -> str:
    """Return a change as text: `since version 3.1.2, 2026-03-01: 12 % slower [10.5, 13.4]`."""
    point = change.point
    percent = f"{abs(point.ratio - 1) * 100:.3g} %"
    text = f"since {change.since}: {percent} {_grew(point.ratio, metric)}"
    if point.low is not None and point.high is not None:
        sign = 1 if point.ratio > 1 else -1
        ends = sorted(100 * sign * (end - 1) for end in (point.low, point.high))
        text += f" [{ends[0]:.3g}, {ends[1]:.3g}]"
    return text


def title_of(figure: PastFigure, varying: Sequence[str]) -> str:
    """Return the title of a series."""
    return f"{figure.switch}, {figure.metric.name}, {figure.in_words(varying)}, {figure.machine}"


def newest_words(figure: PastFigure) -> str:
    """Return the newest level as text."""
    newest = figure.usable[-1]
    version = f", version {newest.version}" if newest.version else ""
    return f"{amount(newest.level, figure.metric.unit)} on {newest.started_at:%Y-%m-%d}{version}"


def history_page(history: History, title: str, links: Sequence[Link] = ()) -> str:
    """Return the page as HTML."""
    varying = differing(figure.workload for figure in history.figures)
    sections = [_section(figure, varying) for figure in history.figures]
    if len(sections) > 1:
        sections.insert(0, _overview(history, varying))
    if history.problems:
        sections.insert(0, Section("Files that could not be read", warned=history.problems))
    sections.append(Section("Method", (METHOD,)))
    runs = len({run.directory for figure in history.figures for run in figure.runs})
    return page_html(Page(title, "switchmark, history", f"{runs} runs", sections, links))


def _overview(history: History, varying: Sequence[str]) -> Section:
    lines = []
    for figure in history.figures:
        last = change_words(figure.changes[-1], figure.metric) if figure.changes else "no change"
        name = figure.in_words(varying)
        line = (figure.switch, figure.metric.name, name, figure.machine, str(len(figure.usable)))
        lines.append((*line, newest_words(figure), last))
    columns = ("switch", "figure", "workload", "machine", "runs", "newest", "last change")
    return Section("All series", table=Table(columns, lines, right=("runs",)))


def _section(figure: PastFigure, varying: Sequence[str]) -> Section:
    return Section(
        title_of(figure, varying),
        tuple(_sentences(figure)),
        (_drawing(figure, varying),),
        Table(
            ("date", "version", "run", figure.metric.unit, "repetitions"),
            [
                (
                    f"{run.started_at:%Y-%m-%d %H:%M}",
                    run.version or "-",
                    run.directory.name,
                    amount(run.level, figure.metric.unit) if run.values else "none valid",
                    f"{len(run.values)} of {run.trials}",
                )
                for run in reversed(figure.runs)
            ],
            right=(figure.metric.unit, "repetitions"),
        ),
        tuple(f"{_capital(change, figure)}." for change in figure.changes if _fell(change, figure)),
        folded=True,
    )


def _sentences(figure: PastFigure) -> Iterator[str]:
    count = len(figure.usable)
    yield f"{count} run{'' if count == 1 else 's'}; the newest: {newest_words(figure)}."
    if not figure.changes:
        yield "No change of level is proven."
    for change in figure.changes:
        if not _fell(change, figure):
            yield f"{_capital(change, figure)}."
        if change.differs:
            since = f"{change.run.started_at:%Y-%m-%d}"
            yield f"Also different since {since}: {'; '.join(change.differs)}."


def _capital(change: LevelChange, figure: PastFigure) -> str:
    text = change_words(change, figure.metric)
    return text[0].upper() + text[1:]


def _fell(change: LevelChange, figure: PastFigure) -> bool:
    return (change.point.ratio < 1) == figure.metric.higher_is_better


def _drawing(figure: PastFigure, varying: Sequence[str]) -> Drawing:
    usable = figure.usable
    text = [
        Markup("{}<br>{}<br>{}").format(
            amount(run.level, figure.metric.unit), run.version or "", run.directory.name
        )
        for run in usable
    ]
    traces = [
        plot.scatter(
            "markers",
            [run.started_at.isoformat() for run in usable],
            [run.level for run in usable],
            hover_text=plot.hover("%{x}<br>%{text}"),
            text=text,
            marker={"color": "@series0", "size": 8},
        )
    ]
    for stretch in figure.stretches:
        ends = [stretch[0].started_at.isoformat(), stretch[-1].started_at.isoformat()]
        line = {"color": "@ink", "width": 1.5}
        traces.append(plot.scatter("lines", ends, [level_of(stretch)] * 2, line=line))
    layout = {
        "xaxis": plot.axis("", type="date"),
        "yaxis": plot.axis(f"{figure.metric.name} ({figure.metric.unit})", rangemode="tozero"),
        "shapes": [
            plot.upright(change.run.started_at.isoformat(), color="@series1", dash="dot")
            for change in figure.changes
        ],
    }
    note = "Dots: runs. Lines: levels between changes. Dotted: the first run after a change."
    return Drawing(title_of(figure, varying), traces, layout, _HEIGHT_PX, note)


def _grew(ratio: float, metric: Metric) -> str:
    grown = ratio > 1
    match metric.unit:
        case "pps" | "bit/s" | "requests/s":
            return "faster" if grown else "slower"
        case "ns" | "s":
            return "longer" if grown else "shorter"
        case _:
            return "higher" if grown else "lower"
