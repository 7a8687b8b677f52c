"""The report: one HTML file without external resources.

It begins with the comparison results, in the same words as on the terminal. Pictures and one table
follow; everything else is folded. Nothing is loaded from elsewhere, and only the two scripts of the
page run. Its content security policy lists their hashes, so the browser enforces this for any
content of a record.
"""

# mypy: disable-error-code="import-untyped"

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import polars as pl
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from switchmark.atomic_files import write_atomically
from switchmark.formatting import amount, format_ns, number, percent
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.record.marks import MARKS
from switchmark.record.page_sizes import in_words
from switchmark.report import words
from switchmark.report.caveats import caveats
from switchmark.report.figures import Drawing, looks
from switchmark.report.host_facts import engine_versions, flatten, machine_facts
from switchmark.report.one_table import one_table
from switchmark.report.page import TEMPLATES, PlotData, policy, templates
from switchmark.report.pictures import (
    folded_pictures,
    function_pictures,
    machine_pictures,
    open_pictures,
    paper_pictures,
)
from switchmark.report.samples import samples_figure
from switchmark.report.summary_words import answers_of, summarise_in_words
from switchmark.report.tables import (
    BETWEEN_HOSTS_TITLE,
    FUNCTION_TITLE,
    between_hosts_table,
    cpu_table,
    function_table,
    quality_table,
    quality_title,
    tails_table,
)
from switchmark.report.trend import trends
from switchmark.results.documents import read_record
from switchmark.results.export import of_baseline, remarks
from switchmark.results.published import published_beside
from switchmark.results.query import RecordTable, from_utf8, read_table
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run, open_run
from switchmark.results.summary import summarise
from switchmark.results.times import times_of
from switchmark.statistics.paired import METHOD
from switchmark.version import full_version

MAX_DETAILED_TRIALS = 150  # beyond, the file would be too large to open with ease
MAX_OPEN_FIGURES = 6  # in a section; the others are folded
MAX_LOG_LINES = 60


@dataclass(frozen=True, slots=True)
class _TrialParts:
    """The parts of the page about one trial."""

    record: Record
    figure: Drawing | None
    settings: list[tuple[str, str]]
    log: str


def write_report(run_directory: Path, target: Path) -> list[str]:
    """Write the report of a run; returns a line for every file that could not be read."""
    page, problems = report_html(run_directory)
    write_atomically(target, page)
    return problems


def report_html(run_directory: Path, lacking: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return the report of a run, and a line for every file that could not be read. `lacking` has
    lines about files that could not be fetched."""
    run = open_run(run_directory)
    table = read_table(run_directory)
    rows = summarise(run_directory, table, with_curves=True)
    problems = [*lacking, *table.problems]
    return _render(run, rows, table, problems), problems


def _files(table: RecordTable, status: str) -> list[Path]:
    return [
        Path(from_utf8(file)) for file in table.frame.filter(pl.col("status") == status)["file"]
    ]


def _read(files: Iterable[Path]) -> list[Record]:
    """Read the records of a run. Those after the first `MAX_DETAILED_TRIALS`, which have no
    separate part on the page, are without bulk data."""
    records = map(read_record, files)
    return [
        record if n < MAX_DETAILED_TRIALS else _bare(record) for n, record in enumerate(records)
    ]


def _bare(record: Record) -> Record:
    """Return the record without bulk data: samples, figures, and output of the switch."""
    engines = [
        engine.model_copy(update={"intervals": [], "result": {}}) for engine in record.engines
    ]
    figures = dict.fromkeys(("throughput", "transfer", "latency", "one_way"))
    output = {"switch_counters_before": {}, "switch_counters_after": {}, "switch_log": ""}
    return record.model_copy(update={"engines": engines, **figures, **output})


def _render(run: Run, rows: list[SummaryRow], table: RecordTable, problems: Sequence[str]) -> str:
    records = _read(_files(table, "finished"))
    failed = _read(_files(table, "failed")[:MAX_DETAILED_TRIALS])
    environment = templates()
    environment.filters |= {
        "page_size": in_words,
        "number": number, "percent": percent, "time_ns": format_ns,
        "mega": lambda value: number(value / 1e6),
        "giga": lambda value: number(value / 1e9),
        "micro": lambda value: number(value / 1e3),
        "from_to": words.from_to, "method_figure": words.figure, "amount": amount,
        "traffic": words.traffic, "field": words.field, "heading": words.heading,
        "zip": zip, "items_dict": dict,
    }  # fmt: skip
    throughput, transfers = words.of_frames(rows), words.of_transfers(rows)
    latency = words.of_dimension(rows, Dimension.LATENCY)
    methods = words.of_methods(rows)
    quality_headings, quality_lines = quality_table([row.quality for row in rows])
    between_headings, between_lines = between_hosts_table([row.between for row in rows])
    figures = PlotData()
    answered = answers_of(run, rows, rows)
    look = looks(rows)
    times = partial(times_of, run)
    published = run.info.parsed_definition.published
    paper = paper_pictures(rows, records, published, look, times)
    # Our own texts and plotly's, not data: the only parts that are not escaped.
    script, plotly = (TEMPLATES / "report.js").read_text("utf-8"), get_plotlyjs()
    context = {
        "run": run.info,
        "directory": run.directory.name,
        "version": full_version(),
        "engines": engine_versions(records),
        "throughput": throughput,
        "transfers": transfers,
        "transfers_varying": words.varying_fields(transfers),
        "traffic_heading": "Traffic"
        if any(row.transport is not None for row in rows)
        else "Frame, B",
        "latency": latency,
        "methods": methods,
        "methods_varying": [n for n in words.varying_fields(methods) if n != "method"],
        "throughput_varying": words.varying_fields(throughput),
        "latency_varying": words.varying_fields(latency),
        "cost": cpu_table(with_cost := [row for row in rows if row.finished and row.cpu]),
        "cost_rows": with_cost,
        "cost_varying": [n for n in words.varying_fields(with_cost) if n != "method"],
        "tails": tails_table(latency),
        "rows": rows,
        "quality_headings": quality_headings,
        "quality_lines": quality_lines,
        "quality_title": quality_title(quality_headings),
        "quality_varying": words.varying_fields([rows[index] for index in quality_lines]),
        "function_table": function_table(rows),
        "function_title": FUNCTION_TITLE,
        "between_headings": between_headings,
        "between_lines": between_lines,
        "between_title": BETWEEN_HOSTS_TITLE,
        "between_varying": words.varying_fields([rows[index] for index in between_lines]),
        "remarks": {id(row): remarks(row, rows) for row in rows},
        "of_baseline": {id(row): of_baseline(row, rows) for row in rows},
        "trends": trends(throughput),
        "caveats": caveats(rows, records),
        "summary": summarise_in_words(run, rows, rows, answered),
        "pictures": [
            *open_pictures(rows, answered, records, look),
            *function_pictures(run, rows, look),
            *machine_pictures(run, rows, answered),
            *paper.main,
        ],
        "more_pictures": [*paper.others, *folded_pictures(rows, answered, look)],
        "table": one_table(rows, answered),
        "swatch": lambda name: look[name].color.removeprefix("@"),
        "published": published_beside(rows, published),
        "trials": [_trial(record) for record in records[:MAX_DETAILED_TRIALS]],
        "total_trials": len(table.frame),
        "finished_trials": int((table.frame["status"] == "finished").sum()),
        "failed": [_trial(record) for record in failed],
        "earlier_failures": run.earlier_failures(),
        "problems": problems,
        "machine": machine_facts(run, records),
        "settings": flatten(run.info.settings),
        "trims": sorted({r.trim.policy for r in records if r.trim is not None}),
        "method": METHOD,
        "marks": MARKS,
        "max_open": MAX_OPEN_FIGURES,
        "figure": figures.add,
        "figures": figures.script,  # called at the end of the page, when all are known
        "policy": Markup(policy(plotly, script)),
        "style": Markup((TEMPLATES / "report.css").read_text("utf-8")),
        "script": Markup(script),
        "plotly": Markup(plotly),
        "id": id,
    }
    return environment.get_template("report.html.j2").render(context)


def _trial(record: Record) -> _TrialParts:
    log = record.switch_log.strip().splitlines()
    settings = flatten(record.trial.model_dump(mode="json", exclude_none=True))
    settings += [(f"switch: {key}", value) for key, value in record.switch_details.items()]
    return _TrialParts(record, samples_figure(record), settings, "\n".join(log[-MAX_LOG_LINES:]))
