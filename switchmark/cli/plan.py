"""`switchmark plan`: what a campaign would run, in which order and for how long.

Everything here is computed; the machine is not touched.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from switchmark.campaign.expand import Estimate, estimate, expand, usable_ports
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import Installed, installed
from switchmark.campaign.model import Campaign, Dimension, Trial
from switchmark.campaign.notation import to_notation
from switchmark.cli.output import format_duration, print_json, print_line, print_table

EPILOG = """
Examples:
  switchmark plan quick
  switchmark plan my-campaign.yaml --set repetitions=1 --set duration=2s
  switchmark plan "(D=latency, V={linux-bridge, ovs-dpdk}, R=1k)" --diagram
  switchmark plan my-campaign.yaml --all --json > plan.json
"""
SHOWN = 40  # trials, unless all are asked for


@dataclass(frozen=True, slots=True)
class Plan:
    """A campaign with its trials in the order in which they would run."""

    campaign: Campaign
    trials: list[Trial]
    time: Estimate
    there: Installed


def plan(
    campaign: Annotated[
        str, typer.Argument(help="A built-in campaign, a YAML file, or a notation in quotes.")
    ],
    overrides: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Win over the file; may be repeated."),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help=f"Show every trial, not only the first {SHOWN}.")
    ] = False,
    diagram: Annotated[
        bool, typer.Option("--diagram", help="Draw how nodes and switch are joined.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON, with all trials.")] = False,
) -> None:
    """Show what a campaign would run: every trial in its order, and how long it takes.

    Checks the campaign as `run` does, and touches nothing.
    """
    made = make_plan(campaign, overrides or [])
    if json:
        _print_as_json(made)
        return
    _print_summary(made)
    _print_trials(made, None if everything else SHOWN)
    if diagram:
        _print_diagrams(made)


def make_plan(what: str, overrides: list[str]) -> Plan:
    """The plan of a campaign, by name, file or notation; raises `UsageError`."""
    there = installed()
    campaign = find_campaign(what, there.known, overrides)
    trials = expand(campaign, there.switches, there.environments)
    return Plan(campaign, trials, estimate(campaign, trials, there.switches), there)


def _print_as_json(made: Plan) -> None:
    trials = [
        {"id": trial.id, "notation": to_notation(trial), "trial": trial} for trial in made.trials
    ]
    time = {
        "measuring_s": made.time.measuring_s,
        "overhead_estimate_s": made.time.overhead_s,
        "total_estimate_s": made.time.total_s,
    }
    print_json({"campaign": made.campaign, "count": len(trials), "time": time, "trials": trials})


def _print_summary(made: Plan) -> None:
    campaign, time = made.campaign, made.time
    heading = f"{campaign.name}: {campaign.description}" if campaign.description else campaign.name
    print_line(heading)
    blocks = f", in {campaign.repetitions} blocks" if campaign.repetitions > 1 else ""
    print_line(
        f"{len(made.trials):,} trials{blocks}, order by seed {campaign.seed}; about "
        f"{format_duration(time.total_s)}: {format_duration(time.measuring_s)} of measuring, the "
        "rest for setting up (the bare wire is measured on top)"
    )
    if campaign.mixed_connect_modes:
        print_line("connect modes are mixed on purpose: each switch runs in its own")
    print_line()


def _print_trials(made: Plan, limit: int | None) -> None:
    shown = made.trials[:limit]
    rows = [[number, to_notation(trial)] for number, trial in enumerate(shown, start=1)]
    print_table(["#", "trial"], rows, right=["#"])
    if len(shown) < len(made.trials):
        print_line(f"... and {len(made.trials) - len(shown):,} more (--all shows them)")


def _print_diagrams(made: Plan) -> None:
    seen: dict[str, None] = {}
    for trial in made.trials:
        seen.setdefault(diagram_of(trial, made.there))
    for drawing in seen:
        print_line()
        print_line(drawing)


def diagram_of(trial: Trial, there: Installed) -> str:
    """The topology of a trial as text: a line for each pair, the one switch in the middle."""
    one_way = trial.dimension is Dimension.THROUGHPUT
    left, right = ("sender", "receiver") if one_way else ("client", "server")
    can = there.switches[trial.switch]
    ports = usable_ports(can, there.environments[trial.environment], trial.io, trial.port_kind)
    wire = f"--{ports[0]}-->" if one_way else f"<--{ports[0]}-->"
    switch = f"{trial.switch}, {trial.connect_mode}"
    inside = trial.environment
    return "\n".join(
        f"[{inside}: {left} {n}] {wire} [{switch}] {wire} [{inside}: {right} {n}]"
        for n in range(trial.pairs)
    )
