"""`import switchmark`: campaigns as objects, results as polars frames, plots as plotly figures.

    import switchmark

    campaign = switchmark.Campaign.of(switch=["linux-bridge", "direct"], duration="2s")
    results = campaign.run(progress=print)
    results.frame()                      # one row a trial
    results.plots()[0].show()
    switchmark.Reproduction("ara2021").drawings()["fig4b"]

The command line measures through the same `execute`, and reads results by the same functions.
Errors are those of `switchmark.errors`: `UsageError` for bad input, `UnavailableError` if this
machine lacks something. A failed trial is not an error, but a record with the `status` "failed".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from switchmark.campaign.expand import expand
from switchmark.campaign.find import find_campaign, source_text
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_settings
from switchmark.errors import SwitchmarkError, UsageError
from switchmark.experiment.execute import Request, execute
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.choices import Dimension
from switchmark.model.trial import Trial
from switchmark.record import Record
from switchmark.report import plot_style, words
from switchmark.report.figures import Drawing, looks
from switchmark.report.latency import cumulative_panels, curve_panels, spread_panels
from switchmark.report.pictures import paper_pictures
from switchmark.report.throughput import throughput_panels
from switchmark.report.transfers import transfer_panels
from switchmark.results import DEFAULT_ROOT
from switchmark.results.answer import PointAnswer, answer_run
from switchmark.results.expectations import Judgement, expected_of, judge_run
from switchmark.results.export import flat_rows, frame
from switchmark.results.query import read_table
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summarise
from switchmark.results.times import times_of
from switchmark.switch.registry import usual_overhead_s
from switchmark.trial.plan import TrialPlan

if TYPE_CHECKING:
    import polars as pl
    from matplotlib.figure import Figure as Canvas
    from plotly.graph_objects import Figure as Plot

    from switchmark.reproduction.findings import JudgedFinding


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a campaign, reported when a trial begins and when it has ended."""

    number: int  # the trial's number, from 1
    total: int  # 0: not known before the campaign ends
    trial: Trial
    left_s: float  # about
    record: Record | None  # None: it begins

    def __str__(self) -> str:
        of = f"/{self.total}" if self.total else ""
        state = self.record.status if self.record else "begins"
        return f"{self.number}{of} {self.trial.switch} {self.trial.packet_size_bytes} B: {state}"


@dataclass(frozen=True, slots=True)
class Campaign:
    """A set of trials, checked as the command line checks it."""

    definition: CampaignDefinition
    text: str  # as it was given; kept with the results

    @classmethod
    def of(cls, **keys: Any) -> Campaign:
        """A campaign from the keys of a campaign file (docs/campaigns.md): `packet_size=[64,
        1500]`.

        Lists become lists of values, all else its text. Raises `UsageError`, a line a mistake."""
        settings = {name: _text(value) for name, value in keys.items()}
        found = load_settings(settings, installed().known, name="campaign", label=str)
        return cls(found, "".join(f"{name}: {value}\n" for name, value in settings.items()))

    @classmethod
    def load(cls, source: str | Path, *overrides: str) -> Campaign:
        """Load a campaign by a built-in name, a YAML file, or a notation; `overrides` are
        `key=value`."""
        definition = find_campaign(str(source), installed().known, overrides)
        return cls(definition, source_text(str(source)))

    @property
    def trials(self) -> list[Trial]:
        """Every trial in its order, repetitions included."""
        registry = installed()
        return expand(self.definition, registry.switches, registry.environments)

    def run(
        self,
        *,
        results: Path | str = DEFAULT_ROOT,
        progress: Callable[[Progress], object] | None = None,
        say: Callable[[str], object] | None = None,
        baseline: bool = True,
        resume: bool = False,
    ) -> Results:
        """Measure the campaign. It needs the same privileges as the command line.

        `progress` is called between trials, never while frames flow. An exception of `progress`
        ends the campaign; its finished trials are kept. `say` is called with each remark, one
        line."""

        def remark(line: str) -> None:
            if say is not None:
                say(line)

        request = Request(
            campaign_text=self.text,
            observer=_Watching(progress),
            say=remark,
            results=Path(results),
            baseline=baseline,
            resume=resume,
        )
        return Results(execute(self.definition, installed(), request).directory)


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) or not isinstance(value, Iterable):
        return str(value)
    return ", ".join(map(_text, value))


class _Watching:
    """An observer that calls a function."""

    def __init__(self, tell: Callable[[Progress], object] | None) -> None:
        self._tell = tell or (lambda _: None)

    def trial_begins(self, number: int, total: int, plan: TrialPlan, left_s: float) -> None:
        self._begun = Progress(number, total, plan.trial, left_s, None)
        self._tell(self._begun)

    def live(self, forwarded_pps: float | None) -> None:
        """Do nothing: frames flow."""

    def trial_ended(self, record: Record) -> None:
        self._tell(replace(self._begun, trial=record.trial, record=record))


class Results:
    """The results of one run. Its folder is read anew at every call."""

    def __init__(self, directory: Path | str) -> None:
        self.directory = Path(directory)
        self._run = open_run(self.directory)

    @classmethod
    def find(cls, source: str | None = None, results: Path | str = DEFAULT_ROOT) -> Results:
        """Find the latest run; or the latest of a campaign, a folder, or a run of a store
        (`postgresql://host/database/RUN`), if `source` names it.

        Raises `UsageError` if there is no such run, or the store's copy is damaged."""
        from switchmark.store.source import find_anywhere

        run = find_anywhere(source, Path(results))
        if run.problems:
            raise UsageError("; ".join(run.problems))
        return cls(run.directory)

    @property
    def records(self) -> list[Record]:
        """Every record in full: samples, histograms, evidence."""
        return list(self._run.records())

    def rows(self, *, with_curves: bool = False) -> list[SummaryRow]:
        """The trials, each with its repetitions summarised."""
        return summarise(self.directory, read_table(self.directory), with_curves=with_curves)

    def frame(self) -> pl.DataFrame:
        """One row a trial, its repetitions summarised: the columns of `show --format csv`, each
        with its unit in its name."""
        return frame(flat_rows(self.rows()))

    def trials(self) -> pl.DataFrame:
        """One row a record."""
        return read_table(self.directory).frame

    def answers(self) -> list[PointAnswer]:
        """Return the comparison result of each point: the order of the contenders, and the ratio of
        each pair with its interval."""
        names = {row.trial.id: row.contender for row in self.rows()}
        return answer_run(open_run(self.directory), names, usual_overhead_s)

    def judgements(self) -> list[Judgement]:
        """The verdicts on what the campaign expects (docs/ci.md)."""
        return judge_run(self._run.info.definition, self.rows(), expected_of(self._run))

    def plots(self) -> list[Plot]:
        """The report's plots as plotly figures, each with its title: throughput, latency, and
        those that papers draw."""
        rows = [row for row in self.rows(with_curves=True) if row.finished]
        look = looks(rows)
        throughput, transfers = words.of_frames(rows), words.of_transfers(rows)
        latency = words.of_dimension(rows, Dimension.LATENCY)
        of_latency = (spread_panels, curve_panels, cumulative_panels)
        panels = [
            *([throughput_panels(throughput, look)] if throughput else []),
            *transfer_panels(transfers, look),
            *(made(latency, look) for made in of_latency if latency),
        ]
        papers = paper_pictures(
            rows,
            self._run.records(),
            self._run.info.parsed_definition.published,
            look,
            partial(times_of, self._run),
        )
        figures = [(panel.heading, figure) for panel in panels for figure in panel.figures]
        return [_plot(figure, heading) for heading, figure in (*figures, *papers.drawings)]

    def report(self, target: Path | str | None = None) -> Path:
        """Write the HTML report; returns its path.

        Raises `SwitchmarkError` where records could not be read, after it has been written."""
        from switchmark.report.html import write_report

        path = Path(target) if target is not None else self.directory / "report.html"
        if problems := write_report(self.directory, path):
            raise SwitchmarkError("\n".join(problems))
        return path


class Reproduction:
    """The measurements of a paper's campaigns beside the paper: findings, items, drawings."""

    def __init__(self, paper: str, results: Path | str = DEFAULT_ROOT) -> None:
        """Read the paper's runs. Raises `UsageError` for an unknown paper."""
        from switchmark.reproduction.page import make_page
        from switchmark.reproduction.paper import read_paper

        self.page = make_page(read_paper(paper), installed(), Path(results))

    @property
    def findings(self) -> tuple[JudgedFinding, ...]:
        """Each finding of the paper, with its verdict and the ratios that it stands on."""
        return self.page.findings

    def frame(self) -> pl.DataFrame:
        """One row a figure: item, contender, point, ours, the published one, ratio, marks."""
        import polars as pl

        return pl.DataFrame(
            [
                {"item": one.item.name, **asdict(line)}
                for one in self.page.items
                for line in one.lines
            ]
        )

    def drawings(self) -> dict[str, Canvas]:
        """Item -> its figure in the paper's own form, of matplotlib's, which a notebook shows."""
        from switchmark.reproduction.draw import drawing
        from switchmark.reproduction.run import rows_of

        measured = self.page.measured
        drawn = {}
        for item in self.page.paper.items:
            if item.campaign in measured:
                times = partial(times_of, measured[item.campaign].run)
                campaign = find_campaign(item.campaign, installed().known)
                figure = drawing(item, rows_of(item, measured), campaign, times)
                if figure is not None:
                    drawn[item.name] = figure
        return drawn


def _plot(figure: Drawing, heading: str) -> Plot:
    from plotly.graph_objects import Figure as Plot

    layout = _colored(figure.layout) | {"height": figure.height_px, "template": "plotly_white"}
    plot = Plot(data=_colored(figure.traces), layout=layout)
    plot.update_layout(title={"text": figure.title or heading})
    return plot


def _colored(value: Any) -> Any:
    """The value with the light theme's colours in place of their names."""
    if isinstance(value, dict):
        return {name: _colored(item) for name, item in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_colored(item) for item in value]
    return plot_style.color(value) if isinstance(value, str) else value
