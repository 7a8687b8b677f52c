"""The engine's command lines of a trial that has not begun, for the engine to check.

The names of devices and sockets are not known yet. Any name is sufficient, since nothing is opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from switchmark.campaign.notation import to_notation
from switchmark.engine.arguments import engine_args
from switchmark.engine.check import command_line_errors
from switchmark.environment.registry import traits_of
from switchmark.model.choices import Idle
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind
from switchmark.trial.plan import TrialPlan

_SOCKET, _BATON = Path("/run/port.sock"), "/run/baton"


def refused_command_lines(engine: Path, plans: Iterable[TrialPlan]) -> list[str]:
    """Return a line for each error with which the engine would end a trial when it starts, with
    the first of those trials. Raises UnavailableError for a program that is not such an engine."""
    trials: dict[tuple[str, ...], TrialPlan] = {}
    for plan in plans:
        if traits_of(plan.trial.environment).guests:
            continue  # the guest may have another build of the engine
        for arguments in _command_lines(plan):
            trials.setdefault(arguments, plan)
    errors = command_line_errors(engine, list(trials))
    first: dict[str, TrialPlan] = {}
    for error, plan in zip(errors, trials.values(), strict=True):
        if error:
            first.setdefault(error, plan)
    return [f"{to_notation(plan.trial)}: {error}" for error, plan in first.items()]


def _command_lines(plan: TrialPlan) -> Iterator[tuple[str, ...]]:
    """Yield the command lines of the first path. Those of other paths differ only in addresses."""
    path = plan.topology.paths[0]
    specs = {spec.name: spec for spec in plan.specs()}
    for end, name in enumerate(dict.fromkeys((path.source, path.target))):
        place = plan.topology.node(name)
        port, placement = _named(specs[name].port), plan.placement
        arguments = engine_args(
            plan.trial, port, place.role, place.pair, end, placement.idle, placement.catch_up_us
        )
        if placement.idle == Idle.BATON:
            arguments += ["--baton", _BATON]  # as each environment adds it
        yield tuple(arguments)


def _named(port: NodePort) -> NodePort:
    """Return the port with names like those that the environment gives it."""
    if port.kind in (PortKind.VHOST_USER, PortKind.MEMIF):
        return replace(port, socket_host=_SOCKET, socket_inside=str(_SOCKET))
    return replace(port, device_inside="eth0")
