"""Which parts of a sweep a foreign instrument cannot do, by its capabilities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from switchmark.campaign.port_kinds import usable_ports
from switchmark.campaign.rules.traffic import least_mean_bytes
from switchmark.campaign.rules.workload import generator_of, runs, unread_by
from switchmark.errors import Refusal
from switchmark.instrument.registry import INSTRUMENTS, abilities_for
from switchmark.instrument.support.base import Abilities
from switchmark.model import rates
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import OWN_ENGINE, PLAIN, Dimension
from switchmark.model.io import Io
from switchmark.model.page_size import PageSize
from switchmark.model.parameter_table import PARAMETERS, of_kinds
from switchmark.model.parameter_type import Kind, Wire
from switchmark.model.ports import PortKind
from switchmark.model.workload import AUTO_GENERATOR, FRAMES

# Parameters of the frames, their way, and other abilities of the ends.
_OF_THE_ENDS = [
    *of_kinds(Kind.TRAFFIC, Kind.LAYOUT),
    *(one for one in of_kinds(Kind.CONTENDER) if one.wire is Wire.SAME),
]


def generator_refusals(
    sweep: Sweep,
    switch: str,
    can: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    """Return the parts of a sweep that its foreign instruments cannot do."""
    for name, workload in runs(sweep):
        if name == OWN_ENGINE and workload == FRAMES:
            continue
        abilities = abilities_for(name, workload)
        if abilities is None:
            yield _cannot_run(name, workload)
            continue
        instead = f"generator: {OWN_ENGINE}" if workload == FRAMES else ""
        traffic = _traffic(name, workload, abilities, sweep)
        layout = _layout(name, workload, abilities, sweep, switch, can, environment_ports)
        others = () if name == OWN_ENGINE else INSTRUMENTS[name]().refusals(sweep)
        for refusal in (*traffic, *layout, *others):
            yield replace(refusal.about("generator "), instead=instead)


def _cannot_run(generator: str, workload: str) -> Refusal:
    """Return the refusal of a workload that a program does not run, with one that does."""
    if workload == FRAMES:
        return Refusal(f"generator {generator} sends no frames", f"use generator: {OWN_ENGINE}")
    usual = generator_of(AUTO_GENERATOR, workload)
    return Refusal(
        f"generator {generator} does not run workload {workload}", f"use generator: {usual}"
    )


def _traffic(name: str, workload: str, can: Abilities, sweep: Sweep) -> Iterator[Refusal]:
    if sweep.dimension not in can.dimensions:
        yield Refusal(
            f"{name} measures no {sweep.dimension}", f"use dimension: {can.dimensions[0]}"
        )
    for method in sweep.method:
        if method != PLAIN:
            yield Refusal(
                f"{name} runs once, and method {method} makes many trials", f"use method: {PLAIN}"
            )
    for row in _OF_THE_ENDS:
        if row.field in can.fields or row.field in unread_by(workload):
            continue
        other = [value for value in getattr(sweep, row.field) if value != row.default]
        if other:
            remedy = f"{row.name}: {row.text(row.default)}"
            yield Refusal(f"{name} has no {row.name} {row.text(other[0])}", f"use {remedy}")
    if can.page_sizes == (PageSize.SMALL,) and PageSize.HUGE.value in sweep.page_size:
        yield Refusal(f"{name} has pages of 4 KiB only, not page_size huge", "use page_size: auto")
    paced = next((rate for rate in sweep.rate_pps if rate is not None), None)
    if paced is not None and not can.paces:
        yield Refusal(f"{name} sends as fast as it can and keeps no rate", "use rate: max")
    if None in sweep.rate_pps and not can.saturates:
        yield Refusal(f"{name} needs a rate", "use e.g. rate: 1k")
    most_bytes, most_pps = can.largest_frame_bytes, can.most_rate_pps
    if most_bytes is not None and max(sweep.packet_size_bytes) > most_bytes:
        yield Refusal(f"{name} sends frames of {most_bytes} bytes at most", "use a smaller size")
    asked = [rates.in_frames(rate, least_mean_bytes(sweep)) for rate in sweep.rate_pps if rate]
    if most_pps is not None and max(asked, default=0) > most_pps:
        yield Refusal(f"{name} sends {most_pps} frames a second at most", "use a lower rate")
    if (most := max(sweep.burst)) > can.largest_burst:
        yield Refusal(
            f"{name} sends bursts of {can.largest_burst} at most, not {most}",
            "use a smaller burst",
        )
    yield from _times(name, can, sweep)


def _times(name: str, can: Abilities, sweep: Sweep) -> Iterator[Refusal]:
    broken = [one for one in sweep.duration_s if one != int(one)]
    if can.whole_seconds and broken:
        yield Refusal(
            f"{name} runs for whole seconds, not {broken[0]:g} s", "use e.g. duration: 2s"
        )
    least_s, usual_s = can.shortest_sample_s, PARAMETERS["interval_s"].default
    shortest_s = min(sweep.interval_s)
    if least_s is not None and shortest_s < least_s and shortest_s != usual_s:
        yield Refusal(f"{name} has no samples below {least_s:g} s", f"use interval: {least_s:g}s")
    if (
        sweep.dimension is Dimension.THROUGHPUT
        and least_s is not None
        and min(sweep.duration_s) < 1
    ):
        yield Refusal(
            f"{name} has too few samples in less than a second", "use duration: 1s or more"
        )


def _layout(
    name: str,
    workload: str,
    can: Abilities,
    sweep: Sweep,
    switch: str,
    switch_can: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    if max([*sweep.pairs, *(scenario.paths or 1 for scenario in sweep.scenario)]) > 1:
        yield Refusal(f"{name} measures one pair only", "use pairs: 1")
    for io in sweep.io:
        if io is not Io.AUTO and io not in can.ports.values():
            yield Refusal(f"{name} opens its port itself and ignores io {io}", "use io: auto")
    for environment in sweep.environment:
        if environment not in can.environments:
            where = " or ".join(can.environments)
            reason = f"{name} does not run in {environment}"
            if workload != FRAMES:
                reason += ", whose processes hide the CPU time of client and server"
            yield Refusal(reason, f"use environment: {where}")
            continue
        offered = None if environment_ports is None else environment_ports.get(environment, ())
        for kind in sweep.port_kind:
            if not usable_ports(switch_can, offered, Io.AUTO, kind, name, workload):
                kinds = " and ".join(can.ports)
                has = kind or ", ".join(usable_ports(switch_can, offered))
                yield Refusal(
                    f"{name} takes {kinds} ports, and {switch} in {environment} has {has}",
                    "use another switch",
                )
