"""Which workloads a sweep cannot have, and the program that runs each."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches

from switchmark.errors import Refusal
from switchmark.host.kernel.congestion_control import OF_LINUX, is_known
from switchmark.model.campaign import Sweep
from switchmark.model.choices import (
    LEAST_DATAGRAM_BYTES,
    MIN_FRAME_BYTES,
    MOST_DATAGRAM_BYTES,
    OWN_ENGINE,
    Dimension,
)
from switchmark.model.parameter_table import PARAMETERS
from switchmark.model.rates import BitRate, in_frames
from switchmark.model.workload import AUTO_GENERATOR, FRAMES
from switchmark.workload.registry import WORKLOADS

MOST_MESSAGE_BYTES = 1 << 20  # TCP_MESSAGE_MAX of the engine
LEAST_STREAM_BPS = 8
LEAST_DATAGRAMS_PER_S = 50  # the engine rounds to whole datagrams/s, so to within 1 %

# Parameters that only applications have.
OF_APPLICATIONS = frozenset().union(*(workload.reads for workload in WORKLOADS.values()))


def unread_by(workload: str) -> frozenset[str]:
    """Return the parameters of applications that this workload does not read."""
    return OF_APPLICATIONS - (WORKLOADS[workload].reads if workload != FRAMES else frozenset())


def generator_of(generator: str, workload: str) -> str:
    """Return the program that runs a workload: `auto` stands for its usual one."""
    if generator != AUTO_GENERATOR:
        return generator
    return OWN_ENGINE if workload == FRAMES else WORKLOADS[workload].generator


def runs(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Return each program of a sweep with a workload that it is to run."""
    pairs = (
        (generator_of(generator, workload), workload)
        for generator in sweep.generator
        for workload in sweep.workload
    )
    yield from dict.fromkeys(pairs)


def workload_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Return why the workloads of a sweep are impossible, whatever the switch."""
    yield from _layerless_refusals(sweep)
    applications = [name for name in sweep.workload if name != FRAMES]
    yield from _unread_refusals(sweep)
    if not applications:
        return
    if FRAMES in sweep.workload:
        yield Refusal(
            "frames have sizes and packet rates, which applications do not have",
            "give workload: frames a sweep for itself",
            key="workload",
        )
        return
    yield from _frame_key_refusals(sweep, applications[0])
    yield from _congestion_control_refusals(sweep)
    yield from _engine_refusals(sweep)
    for name in applications:
        workload = WORKLOADS[name]
        if workload.protocol == "udp" and "request_bytes" in workload.reads:
            yield from _datagram_refusals(sweep, name)
        if sweep.dimension is Dimension.LATENCY and not workload.times_requests:
            yield Refusal(
                f"{name} has no requests that could be timed",
                "use dimension: throughput",
                key="workload",
            )
        for rate in sweep.rate_pps:
            if not isinstance(rate, BitRate):
                continue
            if not workload.is_stream:
                yield Refusal(
                    f"{rate} is a bit rate, and the rate of {name} is requests/s",
                    "write e.g. 1k",
                    key="rate",
                )
            elif rate.layer:
                yield Refusal(
                    f"{rate} counts frames, and the rate of {name} is bits/s of payload",
                    f"write {str(rate).rpartition('-')[0]}",
                    key="rate",
                )


def _engine_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Sizes and rates of applications that the engine does not have."""
    workloads = {workload for generator, workload in runs(sweep) if generator == OWN_ENGINE}
    if workloads & {"tcp-rr", "tcp-crr"}:
        for key, sizes in (
            ("request_size", sweep.request_bytes),
            ("response_size", sweep.response_bytes),
        ):
            if max(sizes) > MOST_MESSAGE_BYTES:
                yield Refusal(
                    f"the engine sends messages of at most {MOST_MESSAGE_BYTES} bytes, not "
                    f"{max(sizes)}",
                    f"use {MOST_MESSAGE_BYTES} or less",
                    key=key,
                )
    lowest_bps = min(
        (in_frames(rate, 1) for rate in sweep.rate_pps if rate is not None), default=None
    )
    if lowest_bps is None or sweep.dimension is Dimension.LATENCY:
        return
    if "tcp-stream" in workloads and lowest_bps < LEAST_STREAM_BPS:
        yield Refusal(
            f"the engine sends at least one byte/s, and {lowest_bps} bit/s are less",
            f"use {LEAST_STREAM_BPS}bps or more",
            key="rate",
        )
    least_bps = LEAST_DATAGRAMS_PER_S * 8 * max(sweep.datagram_bytes)
    if "udp-stream" in workloads and lowest_bps < least_bps:
        yield Refusal(
            f"the engine sends whole datagrams/s, and {lowest_bps} bit/s are fewer than "
            f"{LEAST_DATAGRAMS_PER_S} datagrams/s of {max(sweep.datagram_bytes)} bytes, so the "
            "rate could differ by more than 1 %",
            f"use {least_bps}bps or more, or a smaller datagram_size",
            key="rate",
        )


def _congestion_control_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Names that are not algorithms. Whether this kernel has one is asked before a run."""
    for name in sweep.congestion_control:
        if name and not is_known(name):
            near = get_close_matches(name, sorted(OF_LINUX), 1)
            yield Refusal(
                f"'{name}' is not a congestion control of Linux",
                f"write {near[0]}" if near else "write e.g. cubic, reno or bbr",
                key="congestion_control",
            )


def _datagram_refusals(sweep: Sweep, name: str) -> Iterator[Refusal]:
    """Requests that are not one datagram."""
    for size in sweep.request_bytes:
        if not LEAST_DATAGRAM_BYTES <= size <= MOST_DATAGRAM_BYTES:
            yield Refusal(
                f"a request of {name} is one datagram, which has {LEAST_DATAGRAM_BYTES} to "
                f"{MOST_DATAGRAM_BYTES} bytes, not {size}",
                "use another size, or workload: tcp-rr",
                key="request_size",
            )


def _layerless_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Bit rates of frames that do not name their layer."""
    if FRAMES not in sweep.workload:
        return
    for rate in sweep.rate_pps:
        if isinstance(rate, BitRate) and not rate.layer:
            yield Refusal(
                f"'{rate}' does not name its layer",
                f"write {rate}-l1 (20 bytes a frame more, as on the wire) or {rate}-l2 (the frames "
                "with FCS)",
                key="rate",
            )


def _unread_refusals(sweep: Sweep) -> Iterator[Refusal]:
    """Keys with a value that none of the workloads reads."""
    reads = {field for name in sweep.workload if name != FRAMES for field in WORKLOADS[name].reads}
    for field in sorted(OF_APPLICATIONS - reads):
        row = PARAMETERS[field]
        if getattr(sweep, field) != (row.default,):
            names = [name for name, each in WORKLOADS.items() if field in each.reads]
            yield Refusal(
                f"workload {' and '.join(sweep.workload)} does not read it",
                f"leave it out, or use workload: {' or '.join(names)}",
                key=row.name,
            )


def _frame_key_refusals(sweep: Sweep, name: str) -> Iterator[Refusal]:
    """Keys of frames, which the kernel makes for an application."""
    if sweep.packet_size_bytes != (MIN_FRAME_BYTES,):
        yield Refusal(
            f"the kernel chooses the frames of {name}",
            "leave it out; requests have request_size",
            key="packet_size",
        )
    row = PARAMETERS["burst"]
    if sweep.burst != (row.usual_for(sweep.dimension),):
        yield Refusal(f"{name} has no bursts", "leave it out", key="burst")
    for scenario in sweep.scenario:
        if scenario.chain:
            yield Refusal(
                f"{name} needs a path without VNFs, which rewrite frames only",
                "use scenario: pairs",
                key="scenario",
            )
