"""Frames, loads and times that are impossible with any switch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from switchmark.campaign.rules.functions import sweep_refusals
from switchmark.errors import Refusal
from switchmark.language.values import format_seconds
from switchmark.method.registry import METHODS
from switchmark.model import rates, traffic
from switchmark.model.campaign import Sweep, TrimPolicy, sample_s
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import PLAIN, Dimension
from switchmark.model.io import Io, sends_datagrams
from switchmark.model.options import in_force
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.ports import ConnectMode
from switchmark.model.traffic import ONE_FLOW
from switchmark.model.workload import FRAMES
from switchmark.switch.docker_network import (
    LONGEST_PROXIED_S,
    PROXY,
    PROXY_FORGETS_S,
    DockerNetwork,
)

MIN_BURSTS = 3  # in the measured part of a trial
MIN_SAMPLES = 3  # in a trial after trimming


def traffic_refusals(sweep: Sweep, trim: TrimPolicy) -> Iterator[Refusal]:
    """Yield the reasons why loads and times of a sweep are impossible, each with its key."""
    yield from (one.at("schedule") for one in _schedule_refusals(sweep))
    frames = FRAMES in sweep.workload
    yield from _bit_rate_refusals(sweep)
    yield from (one.at("probe_rate") for one in _probe_refusals(sweep))
    yield from (one.at("duration") for one in _duration_refusals(sweep, trim))
    if frames:
        yield from (one.at("rate") for one in _burst_refusals(sweep, trim))
    yield from _small_frame_refusals(sweep)
    yield from _unread_refusals(sweep)
    yield from (one if one.key else one.at("function") for one in sweep_refusals(sweep))


def _schedule_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield the reasons why schedules, rates and methods cannot be combined."""
    usual = BY_NAME["rate"].usual_for(sweep.dimension)
    for schedule in sweep.schedule:
        shape = schedule.shape
        if shape == "poisson" and None in sweep.rate_pps and PLAIN in sweep.method:
            yield Refusal("poisson has no meaning at rate max", "give rate, e.g. 100k")
        elif schedule.has_own_rate and not set(sweep.rate_pps) <= {None, usual}:
            yield Refusal("a ramp has its own rates", "leave rate out, or give each a sweep")
        elif not schedule.is_steady and sweep.method != (PLAIN,):
            yield Refusal(f"methods of many trials need a steady load, not {shape}", "use poisson")


def _bit_rate_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of bit rates that are too many frames a second of the smallest size."""
    least_bytes = least_mean_bytes(sweep)
    for row in (BY_NAME["rate"], BY_NAME["probe_rate"]):
        assert row.limits is not None
        for rate in getattr(sweep, row.field):
            if isinstance(rate, rates.BitRate) and rate.pps(least_bytes) > row.limits.high:
                if not rate.layer:
                    most = row.limits.high // 1_000_000_000
                    yield Refusal(
                        f"{rate} is above the highest set rate, {most} Gbit/s",
                        "use rate: max",
                        key=row.name,
                    )
                    continue
                yield Refusal(
                    f"{rate} is {rate.pps(least_bytes)} frames/s of {least_bytes:g} bytes, which "
                    f"is {row.limits.above}",
                    "use less",
                    key=row.name,
                )


def least_mean_bytes(sweep: Sweep) -> float:
    """Return the smallest size, or mean of a mix, for which a bit rate has the most frames."""
    means: list[float] = [mix.sizes.mean for mix in sweep.packet_mix if mix]
    if "" in sweep.packet_mix:
        means += map(float, sweep.packet_size_bytes)
    return min(means)


def _probe_refusals(sweep: Sweep) -> Iterator[Refusal]:
    if sweep.probe_rate_pps == (None,) or sweep.dimension is Dimension.LATENCY:
        return
    if not all(name != PLAIN and METHODS[name].times_frames for name in sweep.method):
        yield Refusal(
            "a throughput trial measures no times, which probes are for",
            "write it under latency:, or use method r-plus",
        )


def _unread_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of keys that no method reads, because the user expects an effect."""
    for name in sorted({key for method in METHODS.values() for key in method.reads}):
        row = BY_NAME[name]
        readers = [each for each, method in METHODS.items() if name in method.reads]
        usual = row.usual_for(sweep.dimension)
        if getattr(sweep, row.field) != (usual,) and not set(readers) & set(sweep.method):
            yield Refusal(
                f"method {' and '.join(sweep.method)} does not read it",
                f"use method: {' or '.join(readers)}, or leave it out",
                key=name,
            )


def _duration_refusals(sweep: Sweep, trim: TrimPolicy) -> Iterator[Refusal]:
    if sweep.dimension is not Dimension.THROUGHPUT:
        return  # a latency trial warms up before its duration, and keeps every sample
    if PLAIN not in sweep.method:
        return  # methods of many trials warm up once and trim nothing
    shortest_s = min(sweep.duration_s)
    interval_s = max(sample_s(one, shortest_s) for one in sweep.interval_s)
    usual_trim = trim.over(shortest_s)
    trimmed_s = usual_trim.warm_up_s + usual_trim.cool_down_s
    needed_s = trimmed_s + MIN_SAMPLES * interval_s
    if shortest_s + 1e-9 < needed_s:
        short, trimmed, interval, needed = (
            format_seconds(round(t, 9)) for t in (shortest_s, trimmed_s, interval_s, needed_s)
        )
        yield Refusal(
            f"{short} leaves fewer than {MIN_SAMPLES} samples of {interval} after trimming "
            f"{trimmed}",
            f"use {needed} or more, or trim less",
        )


def _burst_refusals(sweep: Sweep, trim: TrimPolicy) -> Iterator[Refusal]:
    """Yield refusals of rates at which a trial has so few bursts that they decide its figure.

    Frames leave in bursts. With one burst or none in the kept part of a trial, the rate there is a
    multiple of one burst, or 0 although every frame arrives."""
    if sweep.dimension is not Dimension.THROUGHPUT:
        return  # the figure of a latency trial is not a number of requests
    least_bytes = least_mean_bytes(sweep)
    for duration_s, method in product(sweep.duration_s, sweep.method):
        usual_trim = trim.over(duration_s)
        kept_s = duration_s - (
            usual_trim.warm_up_s + usual_trim.cool_down_s if method == PLAIN else 0.0
        )
        for rate, burst, schedule in product(sweep.rate_pps, sweep.burst, sweep.schedule):
            if rate is None or not schedule.is_steady or kept_s <= 0:
                continue  # another rule refuses a duration without a kept part
            pps = rate.pps(least_bytes) if isinstance(rate, rates.BitRate) else rate
            if pps * kept_s + 1e-9 < MIN_BURSTS * burst:
                yield _few_bursts(rate, pps, burst, kept_s)


def _few_bursts(rate: float | rates.BitRate, pps: float, burst: int, kept_s: float) -> Refusal:
    most, least_pps = int(pps * kept_s / MIN_BURSTS), math.ceil(MIN_BURSTS * burst / kept_s - 1e-6)
    every, measured = format_seconds(round(burst / pps, 3)), format_seconds(round(kept_s, 9))
    return Refusal(
        f"{rate} in bursts of {burst} is a burst every {every}, and the measured {measured} of a "
        f"trial must have {MIN_BURSTS} bursts",
        f"use {f'burst: {most} or less, ' if most else ''}a rate of {least_pps} or more, or a "
        "longer duration",
    )


def _small_frame_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of frames that are too small for their headers and the engine's stamp."""
    for version, vlan in product(sweep.ip_version, sweep.vlan):
        least = traffic.smallest_frame(version, vlan)
        kind = f"IPv{version} frame" + (f" with vlan {vlan}" if vlan else "")
        for mix in sweep.packet_mix:
            smallest = mix.sizes.smallest if mix else min(sweep.packet_size_bytes)
            if smallest < least:
                yield Refusal(
                    f"{smallest} is below {least}, the smallest {kind} that holds the engine's "
                    f"stamp",
                    f"use {least} or more",
                    key=f"packet_{'mix' if mix else 'size'}",
                )


def frame_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of frames that are impossible with any switch."""
    special = [flows for flows in sweep.flows if flows != "1"]
    special += [f"vlan {vlan}" for vlan in sweep.vlan if vlan]
    special += [f"ip_version {version}" for version in sweep.ip_version if version != 4]
    for io in sweep.io:
        if special and sends_datagrams(io):
            yield Refusal(
                f"io {io} cannot send {special[0]}: the kernel writes the headers of its frames",
                "use raw or dpdk",
            )
    for flows in sweep.flows:
        fields = flows.fields
        if "vlan" in fields and "" in sweep.vlan:
            yield Refusal(f"flows {flows}: the frames have no tag to differ in", "give vlan")
        macs = sorted(field for field in fields if field.endswith("-mac"))
        if macs and set(sweep.connect_mode) != {ConnectMode.CROSS_CONNECT}:
            yield Refusal(
                f"flows {flows}: a switch that forwards by MAC addresses learns only those of the "
                f"applications, not every {macs[0]}",
                "use connect_mode: cross-connect",
            )


def network_refusals(sweep: Sweep, switch: str) -> Iterator[Refusal]:
    """Yield refusals of frames that applications cannot send through a container network. They use
    sockets with any `io`, and the kernel writes the headers."""
    special = [("flows", str(flows)) for flows in sweep.flows if flows != ONE_FLOW]
    special += [("vlan", str(vlan)) for vlan in sweep.vlan if vlan]
    special += [("ip_version", str(version)) for version in sweep.ip_version if version != 4]
    for key, value in special:
        yield Refusal(
            f"{switch} forwards only frames from sockets of the kernel, not {key} {value}",
            f"leave {key} out, or give {switch} a separate sweep",
            key=key,
        )
    if switch == DockerNetwork.name:
        yield from _docker_refusals(sweep)


def _docker_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of loads that some networks of Docker cannot carry."""
    several = max([*sweep.pairs, *(scenario.paths or 1 for scenario in sweep.scenario)]) > 1
    for each in sweep.switch_options:
        values = in_force(DockerNetwork.capabilities, each.chosen)
        client_is_outside = values["publish"] != "off" or values["driver"] == "host"
        if several and client_is_outside:
            option = "driver: host" if values["publish"] == "off" else "publish"
            yield Refusal(
                f"{DockerNetwork.name}: {option} has one server", "use pairs: 1", key="pairs"
            )
    if any(each.chosen.get("publish") == PROXY for each in sweep.switch_options):
        yield from _proxy_refusals(sweep)


def _proxy_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Yield refusals of datagrams in one direction that docker-proxy would lose: it forgets a
    client without answers."""
    one_way = [name for name in sweep.workload if name in (FRAMES, "udp-stream")]
    if not one_way or sweep.dimension is not Dimension.THROUGHPUT:
        return
    reason = f"docker-proxy forgets a client after {PROXY_FORGETS_S} s without an answer"
    for method in sweep.method:
        if method != PLAIN:
            yield Refusal(
                f"{reason}, and method {method} sends {one_way[0]} in one direction for longer",
                "use another publish, or a workload over TCP",
                key="method",
            )
    if max(sweep.duration_s) > LONGEST_PROXIED_S:
        yield Refusal(
            f"{reason}, and {one_way[0]} has none",
            f"use at most {LONGEST_PROXIED_S}s, or a workload over TCP",
            key="duration",
        )


def tag_refusals(sweep: Sweep, switch: str, capabilities: Capabilities) -> Iterator[Refusal]:
    """Yield refusals of VLAN tags that the applications would not receive."""
    tagged = next((vlan for vlan in sweep.vlan if vlan), None)
    if tagged is not None and capabilities.hides_tags and Io.AF_XDP in sweep.io:
        yield Refusal(
            f"vlan {tagged}: {switch} passes tags outside of the frame, where AF_XDP does not "
            "read them",
            "use another io, or leave vlan out",
        )
