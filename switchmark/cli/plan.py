"""`switchmark plan`: the trials of a campaign, with their order, cores and time.

Everything is computed from facts of the machine; nothing on it is changed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from operator import attrgetter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from switchmark.atomic_files import write_atomically
from switchmark.campaign.expand import TimeEstimate, estimate
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed, installed
from switchmark.campaign.notation import to_notation
from switchmark.cli import complete
from switchmark.cli.grouped_help import MACHINE, OUTPUT
from switchmark.cli.options import CampaignName, Overrides, TestbedFile
from switchmark.cli.output import note, print_json, print_line, print_remark, print_table, writing
from switchmark.cli.plan_checks import refused_by_run
from switchmark.errors import UnavailableError
from switchmark.formatting import first_of, format_duration
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_table import of_kinds
from switchmark.model.parameter_type import Kind
from switchmark.model.trial import Trial
from switchmark.statistics.defaults import PROVE
from switchmark.testbed.target import Target, find_target

if TYPE_CHECKING:
    from switchmark.experiment.prepare import Prepared
    from switchmark.trial.plan import TrialPlan

EPILOG = """
Examples:
  switchmark plan quick
  switchmark plan my-campaign.yaml --set repetitions=1 --set duration=2s
  switchmark plan "(D=latency, V={linux-bridge, ovs-dpdk}, R=1k)" --diagram
  switchmark plan "(V=ovs-dpdk, scenario=loopback-3)" --svg chain.svg
  switchmark plan my-campaign.yaml --json > plan.json
  switchmark plan dagar2017-table5 --target dagar2017
  switchmark plan my-campaign.yaml --target lab.yaml

--target plans for another machine, which a paper or a file describes
(docs/campaigns.md).
"""
SHOWN = 40  # trials, without --all

# The parameters that decide the cores of a trial; equal ones give equal placements.
_PLACED_BY = tuple(
    one.field for one in of_kinds(Kind.LAYOUT, Kind.PLACE, Kind.CORES, Kind.CONTENDER)
)
place_key = attrgetter(*_PLACED_BY)


@dataclass(frozen=True)
class Plan:
    """A campaign with its trials in the order in which they would run."""

    requested: CampaignDefinition  # with the switches that are left out
    installed: Installed
    target: Target | None = None  # the machine of the plan; None: this machine

    @cached_property
    def prepared(self) -> Prepared:
        """The steps that `run` would start, from the function that `run` itself calls."""
        from switchmark.experiment.prepare import prepare

        try:
            return prepare(self.requested, self.installed, target=self.target)
        except UnavailableError as error:
            more = "; to plan for another machine, describe that machine: --target FILE"
            if self.target is not None:
                more = f" (target {self.target.name})"
            raise UnavailableError(f"{error}{more}") from None

    @property
    def campaign(self) -> CampaignDefinition:
        """The campaign without the switches that are left out."""
        return self.prepared.campaign

    @cached_property
    def trials(self) -> list[Trial]:
        """The trials in their order, without the baselines."""
        return [step.plan.trial for step in self.prepared.steps if not step.is_baseline]

    @cached_property
    def placed(self) -> dict[tuple[Any, ...], TrialPlan]:
        """The different placements of the trials on this machine."""
        plans: dict[tuple[Any, ...], TrialPlan] = {}
        for step in self.prepared.steps:
            if not step.is_baseline:
                plans.setdefault(place_key(step.plan.trial), step.plan)
        return plans

    @cached_property
    def baselines(self) -> list[Trial]:
        """The trials without a switch by which the others are judged."""
        return [step.plan.trial for step in self.prepared.steps if step.is_baseline]

    @cached_property
    def time(self) -> TimeEstimate:
        """The time of all trials, with their baselines."""
        return estimate(self.campaign, [*self.baselines, *self.trials])


def command(
    campaign: CampaignName,
    overrides: Overrides = None,
    everything: Annotated[
        bool, typer.Option("--all", help=f"Show all trials, not only the first {SHOWN}.")
    ] = False,
    diagram: Annotated[
        bool,
        typer.Option(
            "--diagram",
            help="Draw the nodes (applications, VNFs) and the switch.",
            rich_help_panel=OUTPUT,
        ),
    ] = False,
    svg: Annotated[
        Path | None,
        typer.Option(
            "--svg",
            metavar="FILE",
            help="Write this drawing as an SVG file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(
            "--target",
            metavar="MACHINE",
            help="Plan for another machine: the name of a paper (ara2021 ...), or a file (.yaml).",
            rich_help_panel=MACHINE,
            autocompletion=complete.targets,
        ),
    ] = None,
    testbed: TestbedFile = None,
    json: Annotated[
        bool, typer.Option("--json", help="Print JSON, with all trials.", rich_help_panel=OUTPUT)
    ] = False,
) -> None:
    """Show the trials of a campaign in their order, with their cores and the time they take.

    The command also prints the reasons for which `run` would refuse the campaign, for example a
    missing switch or environment, a load that the engine cannot send, or too little memory. It
    changes nothing on the machine.
    """
    plan = make_plan(campaign, overrides or [], target)
    left_out = [f"left out: {reason}" for reason in plan.prepared.left_out]
    refused = refused_by_run(plan.prepared, plan.installed, plan.target, testbed)
    if svg is not None:
        write_svg(plan, svg)
    if json:
        more = {"refused_by_run": refused + left_out, "first_available": plan.prepared.instead}
        print_json(_document(plan) | more)
        return
    if plan.prepared.instead is not None:
        note(f"{plan.campaign.name}: {plan.prepared.instead}")
    for reason in left_out:
        note(reason)
    _print_summary(plan)
    _print_trials(plan, None if everything else SHOWN)
    _print_placements(plan)
    if diagram:
        for drawing in dict.fromkeys(diagram_of(placed) for placed in plan.placed.values()):
            print_line(f"\n{drawing}")
    where = "here" if plan.target is None else f"on target {plan.target.name}"
    for problem in refused:
        note(f"run would refuse this campaign {where}: {problem}")


def make_plan(campaign_argument: str, overrides: list[str], target: str | None = None) -> Plan:
    """Plan a campaign, by name, file or notation. Raises `UsageError`."""
    installation = installed()
    campaign = find_campaign(campaign_argument, installation.known, overrides)
    machine = None if target is None else find_target(target)
    plan = Plan(campaign, installation, machine)
    assert plan.prepared  # raises an error if the campaign cannot run
    return plan


def diagram_of(placed: TrialPlan) -> str:
    """Return the topology of a trial as text, with a line for each path."""
    from switchmark.scenario.support.draw import draw_lines

    return "\n".join(draw_lines(placed.topology, placed.labels()))


def write_svg(plan: Plan, path: Path) -> None:
    """Draw each topology of the plan into a separate file, numbered from the second on. Raises
    UsageError."""
    from switchmark.scenario.support.draw import draw_svg

    drawings = [draw_svg(placed.topology, placed.labels()) for placed in plan.placed.values()]
    for number, drawing in enumerate(dict.fromkeys(drawings)):
        name = path if number == 0 else path.with_stem(f"{path.stem}-{number + 1}")
        with writing("--svg", name):
            write_atomically(name, drawing)


def _document(plan: Plan) -> dict[str, Any]:
    return {
        "campaign": plan.campaign,
        "count": len(plan.trials),
        "time": {
            "measuring_s": plan.time.measuring_s,
            "overhead_estimate_s": plan.time.overhead_s,
            "total_estimate_s": plan.time.total_s,
        },
        "baselines": [_described(trial) for trial in plan.baselines],
        "trials": [_described(trial) for trial in plan.trials],
        "stand_ins": stand_ins(plan),
        "pages": plan.prepared.pages,
        "placements": [
            {
                **dict(zip(_PLACED_BY, key, strict=True)),
                "port_kind": placed.port_kind,
                "placement": placed.placement,
            }
            for key, placed in plan.placed.items()
        ],
    }


def _described(trial: Trial) -> dict[str, Any]:
    return {"id": trial.id, "notation": to_notation(trial), "trial": trial}


def _print_summary(plan: Plan) -> None:
    campaign, time = plan.campaign, plan.time
    heading = f"{campaign.name}: {campaign.description}" if campaign.description else campaign.name
    print_remark(heading)
    blocks = f" in {campaign.repetitions} blocks" if campaign.repetitions > 1 else ""
    blocks = " in each block" if campaign.proves else blocks
    before = (
        f", after {_number(len(plan.baselines), 'baseline')} without a switch"
        if plan.baselines
        else ""
    )
    print_remark(
        f"{_number(len(plan.trials), 'trial')}{blocks}{before}; order by seed {campaign.seed}"
    )
    if campaign.budget_s is not None:
        prove = (campaign.prove or PROVE) * 100
        print_remark(
            f"blocks are measured until all comparisons (prove: {prove:.3g} %) are decided, "
            f"{format_duration(campaign.budget_s)} at most"
        )
    else:
        print_remark(
            f"about {format_duration(time.total_s)} "
            f"({format_duration(time.measuring_s)} of them are trials)"
        )
    if campaign.mixed_connect_modes:
        print_remark("connect modes are mixed on purpose: each switch uses its default mode")
    if (pages := plan.prepared.pages) is not None:
        print_remark(f"page_size auto selects {pages.size}: {pages.reason}")
    print_line()


def _number(count: int, thing: str) -> str:
    return f"{count:,} {thing}" if count == 1 else f"{count:,} {thing}s"


def _print_trials(plan: Plan, limit: int | None) -> None:
    shown = plan.trials[:limit]
    rows = [[number, to_notation(trial)] for number, trial in enumerate(shown, start=1)]
    print_table(["#", "trial"], rows, right=["#"])
    if len(shown) < len(plan.trials):
        more = len(plan.trials) - len(shown)
        print_line(f"... and {more:,} more trials; --all shows them")


def _print_placements(plan: Plan) -> None:
    from switchmark.host.cores.placement import core_map

    rows: dict[tuple[Any, ...], int] = {}  # the number of each row, for the map
    maps: dict[tuple[Any, ...], None] = {}
    for placed in plan.placed.values():
        trial, placement = placed.trial, placed.placement
        row = (trial.called, trial.pairs, placed.port_kind, placement.idle, placement.reason)
        number = rows.setdefault(row, len(rows) + 1)
        for core, programs in core_map(placement).items():
            maps[
                number, trial.called, trial.scenario, trial.pairs, core, first_of(programs, 8, " ")
            ] = None
    print_line()
    print_table(
        ["#", "switch", "pairs", "ports", "idle", "cores"],
        [(number, *row) for row, number in rows.items()],
        title="placement on " + ("this machine" if plan.target is None else plan.target.name),
        right=["#", "pairs"],
    )
    for line in stand_ins(plan):
        print_remark(line)
    print_line()
    columns = ["#", "switch", "scenario", "pairs", "core", "programs"]
    print_table(
        columns,
        list(maps),
        title="map of the cores (tx, rx: sender, receiver; cl, sv: client, server)",
        right=["#", "pairs", "core"],
    )


def stand_ins(plan: Plan) -> list[str]:
    """Return a line for each switch and environment with a fallback port kind."""
    return list(
        dict.fromkeys(
            f"{placed.trial.called} in {placed.trial.environment}: {text}"
            for placed in plan.placed.values()
            if (text := placed.stand_in()) is not None
        )
    )
