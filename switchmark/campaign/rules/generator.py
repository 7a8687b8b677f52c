"""The parts of a sweep that a foreign generator does not support, by its abilities."""

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

MIRROR, VLAN, VXLAN = "mirror", "vlan", "vxlan"
# Parameters of the frames and their path, and other abilities of the ends.
_OF_THE_ENDS = [
    *of_kinds(Kind.TRAFFIC, Kind.LAYOUT),
    *(one for one in of_kinds(Kind.CONTENDER) if one.wire is Wire.SAME),
]


def generator_refusals(
    sweep: Sweep,
    switch: str,
    capabilities: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    """Yield the parts of a sweep that its foreign generators do not support."""
    for name, workload in runs(sweep):
        if name == OWN_ENGINE and workload == FRAMES:
            continue
        abilities = abilities_for(name, workload)
        if abilities is None:
            yield _cannot_run(name, workload)
            continue
        instead = f"generator: {OWN_ENGINE}" if workload == FRAMES else ""
        traffic = [
            *_traffic(name, workload, abilities, sweep),
            *_functions(name, workload, abilities, sweep),
        ]
        layout = _layout(name, workload, abilities, sweep, switch, capabilities, environment_ports)
        others = () if name == OWN_ENGINE else INSTRUMENTS[name]().refusals(sweep)
        for refusal in (*traffic, *layout, *others):
            yield replace(refusal.about("generator "), instead=instead)


def _cannot_run(generator: str, workload: str) -> Refusal:
    """Return the refusal of a workload that a program does not run, with a program that does."""
    if workload == FRAMES:
        return Refusal(f"generator {generator} sends no frames", f"use generator: {OWN_ENGINE}")
    usual = generator_of(AUTO_GENERATOR, workload)
    return Refusal(
        f"generator {generator} does not run workload {workload}", f"use generator: {usual}"
    )


def _traffic(name: str, workload: str, abilities: Abilities, sweep: Sweep) -> Iterator[Refusal]:
    if sweep.dimension not in abilities.dimensions:
        yield Refusal(
            f"{name} measures no {sweep.dimension}", f"use dimension: {abilities.dimensions[0]}"
        )
    for method in sweep.method:
        if method != PLAIN:
            yield Refusal(
                f"{name} runs once, and method {method} makes many trials", f"use method: {PLAIN}"
            )
    fields = _free_fields(abilities, sweep)
    for row in _OF_THE_ENDS:
        if row.field in fields or row.field in unread_by(workload):
            continue
        other = [value for value in getattr(sweep, row.field) if value != row.default]
        if other:
            remedy = f"{row.name}: {row.text(row.default)}"
            yield Refusal(f"{name} has no {row.name} {row.text(other[0])}", f"use {remedy}")
    if abilities.page_sizes == (PageSize.SMALL,) and PageSize.HUGE.value in sweep.page_size:
        yield Refusal(f"{name} has only pages of 4 KiB, not page_size huge", "use page_size: auto")
    paced = next((rate for rate in sweep.rate_pps if rate is not None), None)
    if paced is not None and not abilities.paces:
        yield Refusal(f"{name} sends as fast as it can and has no rate", "use rate: max")
    if None in sweep.rate_pps and not abilities.saturates:
        yield Refusal(f"{name} needs a rate", "use e.g. rate: 1k")
    most_bytes, most_pps = abilities.largest_frame_bytes, abilities.most_rate_pps
    if most_bytes is not None and max(sweep.packet_size_bytes) > most_bytes:
        yield Refusal(f"{name} sends frames of {most_bytes} bytes at most", "use a smaller size")
    rates_pps = [rates.in_frames(rate, least_mean_bytes(sweep)) for rate in sweep.rate_pps if rate]
    if most_pps is not None and max(rates_pps, default=0) > most_pps:
        yield Refusal(f"{name} sends {most_pps} frames a second at most", "use a lower rate")
    if (most := max(sweep.burst)) > abilities.largest_burst:
        yield Refusal(
            f"{name} sends bursts of {abilities.largest_burst} at most, not {most}",
            "use a smaller burst",
        )
    yield from _times(name, abilities, sweep)


def _free_fields(abilities: Abilities, sweep: Sweep) -> frozenset[str]:
    """Return the parameters that need not have the default. Only the load of network functions has
    several flows, or IPv6."""
    if not abilities.function_flows or any(one.is_plain for one in sweep.function):
        return abilities.fields
    return abilities.fields | {"flows"} | ({"ip_version"} if abilities.any_headers else set())


def _functions(name: str, workload: str, abilities: Abilities, sweep: Sweep) -> Iterator[Refusal]:
    """Yield the reasons why a generator cannot send the load of network functions."""
    special = [one for one in sweep.function if not one.is_plain]
    if not special or workload != FRAMES:  # other rules refuse workloads
        return
    without = f"leave {special[0]} out"
    if not abilities.function_flows:
        yield Refusal(
            f"{name} cannot send the load of {special[0]}: {abilities.no_functions}", without
        )
        return
    names = {part for one in special for part in one.names}
    if MIRROR in names:
        yield Refusal(
            f"{name} has no numbers in its frames, by which copies of mirror are counted", without
        )
    most, flows = abilities.function_flows, max(one.number for one in sweep.flows)
    if flows > most:
        yield Refusal(
            f"{name} sends at most {most} flow{'s' if most > 1 else ''} of {special[0]}, not "
            f"{flows}",
            f"use flows: {most}",
        )
    if any(one.zipf is not None for one in sweep.flows):
        yield Refusal(f"{name} sends its flows in turn, not by Zipf's law", "use flows: N")
    tagged = VLAN in names and "pop" in sweep.direction
    tunnelled = VXLAN in names and "decap" in sweep.direction
    if not abilities.any_headers and (tagged or tunnelled):
        headers = "a tag" if tagged else "outer headers"
        yield Refusal(
            f"{name} cannot send frames with {headers}, as {special[0]} requires", without
        )


def _times(name: str, abilities: Abilities, sweep: Sweep) -> Iterator[Refusal]:
    broken = [one for one in sweep.duration_s if one != int(one)]
    if abilities.whole_seconds and broken:
        yield Refusal(
            f"{name} runs for whole seconds, not {broken[0]:g} s", "use e.g. duration: 2s"
        )
    least_s, usual_s = abilities.shortest_sample_s, PARAMETERS["interval_s"].default
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
    abilities: Abilities,
    sweep: Sweep,
    switch: str,
    capabilities: Capabilities,
    environment_ports: Mapping[str, Sequence[PortKind]] | None,
) -> Iterator[Refusal]:
    several = max([*sweep.pairs, *(scenario.paths or 1 for scenario in sweep.scenario)]) > 1
    if several and workload == FRAMES:
        yield Refusal(f"{name} measures one pair only", "use pairs: 1")
    for io in sweep.io:
        if io is not Io.AUTO and io not in abilities.ports.values():
            yield Refusal(f"{name} opens its port itself and ignores io {io}", "use io: auto")
    for environment in sweep.environment:
        if environment not in abilities.environments:
            where = " or ".join(abilities.environments)
            reason = f"{name} does not run in {environment}"
            if workload != FRAMES:
                reason += ", because client and server each need a network namespace of this host"
            yield Refusal(reason, f"use environment: {where}")
            continue
        offered = None if environment_ports is None else environment_ports.get(environment, ())
        for kind in sweep.port_kind:
            if not usable_ports(capabilities, offered, Io.AUTO, kind, name, workload):
                kinds = " and ".join(abilities.ports)
                has = kind or ", ".join(usable_ports(capabilities, offered))
                yield Refusal(
                    f"{name} takes {kinds} ports, and {switch} in {environment} has {has}",
                    "use another switch",
                )
