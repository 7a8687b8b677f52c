"""From a campaign to its trials: resolves connect modes, refuses impossible trials, draws the
order.

The functions are pure: capabilities of switches and environments are arguments. Each repetition is
a block with every trial once, test point by test point. Inside a test point the order is random, so
that drift of the machine affects all switches equally. The order follows from the seed alone.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, TypeVar

from switchmark.campaign.connect_modes import choose_modes
from switchmark.campaign.first_available import choose_on_paper
from switchmark.campaign.overhead import usual_around_s
from switchmark.campaign.port_kinds import usable_ports
from switchmark.campaign.rules.switch import chosen_modes_refusals, refusals
from switchmark.campaign.rules.workload import generator_of, unread_by
from switchmark.errors import Refusal, UsageError
from switchmark.function.registry import unread_keys
from switchmark.method.registry import usual_time_s
from switchmark.model import rates
from switchmark.model.campaign import CampaignDefinition, Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE, Dimension
from switchmark.model.functions import ROUTE
from switchmark.model.io import Io
from switchmark.model.parameter_table import BY_NAME, PARAMETERS, SWEPT, point_key
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.trial import Trial
from switchmark.scenario.registry import resolve_names

_NOWHERE = PARAMETERS["neighbour_cpus"].default
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class TimeEstimate:
    """An estimate of the duration of trials, in seconds."""

    measuring_s: float  # durations (for searches, the usual time) and warm-ups of latency trials
    overhead_s: float  # a guess for the other steps: deploy, verify, tear down

    @property
    def total_s(self) -> float:
        """The seconds of measuring and of the other steps."""
        return self.measuring_s + self.overhead_s


def expand(
    campaign: CampaignDefinition,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None = None,
) -> list[Trial]:
    """Return all trials of the campaign in their order.

    Raises `UsageError` with one line for each problem, if a switch does not support a trial, or if
    switches would be compared in different connect modes without `mixed_connect_modes`. Nothing is
    tried on a machine, so `first_available` selects the first switches that the rules permit."""
    campaign = choose_on_paper(campaign, capabilities, environment_ports)
    campaign, _ = leave_out_unable(campaign, capabilities, environment_ports)
    problems = [
        problem.about(_subject(sweep))
        for sweep in campaign.sweeps
        for switch in sweep.switch
        for problem in refusals(sweep, switch, capabilities, environment_ports)
    ]
    modes: dict[str, ConnectMode] = {}
    if not problems:
        modes, problems = choose_modes(campaign, capabilities)
        problems = problems or list(chosen_modes_refusals(campaign, capabilities, modes))
    if problems:
        unique = dict.fromkeys(f"{campaign.name}: {problem}" for problem in problems)
        raise UsageError("\n".join(unique))
    resolve_auto = _AutoResolver(modes, capabilities, environment_ports)
    trials = (one for sweep in campaign.sweeps for one in trials_of(sweep, resolve_auto))
    return _in_blocks(list(dict.fromkeys(map(resolve_names, trials))), campaign)


def leave_out_unable(
    campaign: CampaignDefinition,
    capabilities: Mapping[str, Capabilities],
    environment_ports: Mapping[str, Sequence[PortKind]] | None = None,
) -> tuple[CampaignDefinition, list[str]]:
    """Return the campaign without the switches that do not support its trials, if it has
    `skip_unavailable`, and the reason for each. If no switch supports them, the campaign does not
    change and is refused later."""
    if not campaign.skip_unavailable:
        return campaign, []
    sweeps, reasons = [], []
    for sweep in campaign.sweeps:
        refused = {
            switch: list(refusals(sweep, switch, capabilities, environment_ports))
            for switch in sweep.switch
        }
        able = tuple(switch for switch, problems in refused.items() if not problems)
        sweeps += [sweep.model_copy(update={"switch": able})] if able else []
        reasons += [
            str(_without_instead(problem, switch).about(_subject(sweep)))
            for switch, problems in refused.items()
            for problem in problems
        ]
    if not sweeps:
        return campaign, []
    return campaign.model_copy(update={"sweeps": tuple(sweeps)}), list(dict.fromkeys(reasons))


def _without_instead(problem: Refusal, switch: str) -> Refusal:
    """Remove the advice to leave out a switch that has been left out."""
    leaves_out = problem.instead.endswith(f"leave {switch} out")
    return replace(problem, instead="") if leaves_out else problem


def _subject(sweep: Sweep) -> str:
    """Return the beginning of a message about a contender's sweep: its name."""
    named = ", ".join(name for name in sweep.contender if name)
    return f"contender {named}: " if named else ""


_RATES = [one.field for one in SWEPT if one.as_written is rates.BitRate]


def trials_of(
    sweep: Sweep, resolve: Callable[[dict[str, Any]], None] | None = None
) -> Iterator[Trial]:
    """Yield every combination of the sweep's values, in any order; `resolve` may change the values
    of each. Bit rates become packets a second here, because that needs the packet size."""
    names = [one.field for one in SWEPT]
    every = [getattr(sweep, name) for name in names]
    required = {"switch": sweep.switch[0], "packet_size_bytes": sweep.packet_size_bytes[0]}
    example = Trial(dimension=sweep.dimension, **required)  # each value of the sweep is valid
    for values in product(*every):
        fields = dict(zip(names, values, strict=True))
        mean_bytes: float = fields["packet_size_bytes"]
        if mix := fields["packet_mix"]:
            mean_bytes = mix.sizes.mean
            fields["packet_size_bytes"] = round(mean_bytes)
        for name in _RATES:
            if isinstance(fields[name], rates.BitRate):
                fields[name] = fields[name].pps(mean_bytes)
        fields["generator"] = generator_of(fields["generator"], fields["workload"])
        _without_unread(fields)
        if fields["schedule"].has_own_rate:
            fields["rate_pps"] = None
        if resolve is not None:
            resolve(fields)
        yield example.changed(fields)


def _without_unread(fields: dict[str, Any]) -> None:
    """Reset the parameters that a trial's workload and functions do not read to their defaults.
    Otherwise equal trials would differ in parameters that only other trials of the sweep read."""
    unread = [BY_NAME[key].field for key in unread_keys(fields["function"])]
    for name in (*unread_by(fields["workload"]), *unread):
        fields[name] = PARAMETERS[name].default


def estimate(campaign: CampaignDefinition, trials: Sequence[Trial]) -> TimeEstimate:
    """Return an estimate of the duration of these trials of the campaign."""
    overhead_s = math.fsum(map(usual_around_s, trials))
    warm_ups_s = sum(
        campaign.trim.over(trial.duration_s).warm_up_s
        for trial in trials
        if trial.dimension is Dimension.LATENCY
    )
    return TimeEstimate(sum(usual_time_s(trial) for trial in trials) + warm_ups_s, overhead_s)


class _AutoResolver:
    """Replaces `auto` among a trial's values by the chosen value, if the comparison depends on it.
    The port kind stays open (the switch's best) unless the I/O cannot use that kind."""

    def __init__(
        self,
        modes: Mapping[str, ConnectMode],
        capabilities: Mapping[str, Capabilities],
        environment_ports: Mapping[str, Sequence[PortKind]] | None,
    ) -> None:
        self.modes = modes
        self.capabilities = capabilities
        self.environment_ports = environment_ports
        self.forced: dict[tuple[str, str, Io, str, str], PortKind | None] = {}

    def __call__(self, values: dict[str, Any]) -> None:
        if values["function"].base == ROUTE and values["switch"] != WIRE:
            values["connect_mode"] = ConnectMode.ROUTE
        elif values["connect_mode"] is None:
            values["connect_mode"] = self.modes[values["switch"]]
        if values["port_kind"] is None:
            ends = values["generator"], values["workload"]
            where = values["switch"], values["environment"], values["io"], *ends
            if where not in self.forced:
                self.forced[where] = self._forced_port(*where)
            values["port_kind"] = self.forced[where]
        if values["neighbour"] == "none":  # without a neighbour its cores have no meaning
            values["neighbour_cpus"] = _NOWHERE

    def _forced_port(
        self, switch: str, environment: str, io: Io, generator: str, workload: str
    ) -> PortKind | None:
        capabilities = self.capabilities[switch]
        offered = None if self.environment_ports is None else self.environment_ports[environment]
        best = usable_ports(capabilities, offered)[0]
        usable = usable_ports(capabilities, offered, io, generator=generator, workload=workload)[0]
        return None if usable is best else usable


def _in_blocks(trials: list[Trial], campaign: CampaignDefinition) -> list[Trial]:
    """Order trials block by block, and in a block test point by test point, so that compared trials
    are measured close together."""
    # Python guarantees the same sequence in every version only for random().
    draw = random.Random(campaign.seed).random
    points: dict[Any, list[Trial]] = defaultdict(list)
    for trial in trials:
        points[point_key(trial)].append(trial)
    return [
        trial.repeated(repetition)
        for repetition in range(campaign.repetitions)
        for members in _drawn(list(points.values()), draw)
        for trial in _drawn(members, draw)
    ]


def _drawn(items: list[_T], draw: Callable[[], float]) -> list[_T]:
    """Return the items in random order, with one draw for each item."""
    if len(items) == 1:
        draw()
        return items
    numbers = [draw() for _ in items]
    return [items[at] for at in sorted(range(len(items)), key=numbers.__getitem__)]
