"""Remarks on facts that the means of a row hide: outliers, bands, unsteady runs, a foreign
generator, fallback port kinds."""

from __future__ import annotations

from collections.abc import Iterator

from switchmark.formatting import amount
from switchmark.model.rates import CONSTANT, Schedule
from switchmark.results.groups import Records
from switchmark.statistics.means import RESOLUTION
from switchmark.statistics.outliers import strange_repetitions

CHANGE_ALPHA = 0.01  # level of the test for a change of the mean within a trial


def remarks_of(records: Records) -> tuple[str, ...]:
    """Return remarks on unusual values, among the repetitions and within them. The means include
    all of these values."""
    return (
        *_instrument(records),
        *_fallback_ports(records),
        *_crossing(records),
        *dict.fromkeys(note for note in records.known("offload_note") if note),
        *_unknown(records),
        *_of_figures(records),
    )


def _instrument(records: Records) -> Iterator[str]:
    """Yield the foreign generator of the traffic, and the figures that it does not report."""
    if records.has("instrument_cannot_know"):
        name, version = records.first("generator"), records.first("instrument_version")
        unknown = "; ".join(records.first("instrument_cannot_know"))
        yield f"traffic by {name} {version}, which does not report: {unknown}"


def _fallback_ports(records: Records) -> Iterator[str]:
    """Yield the note on ports that replace the switch's own kinds."""
    if records.has("switch_stand_in"):
        yield records.first("switch_stand_in")


def _crossing(records: Records) -> Iterator[str]:
    """Yield the path that the traffic took through a network, and the state that it left there."""
    if records.has("crossing_path"):
        ttl, source = records.first("crossing_ttl"), records.first("crossing_source")
        is_translated = records.first("crossing_translated")
        yield (
            f"path: {'; '.join(records.first('crossing_path'))}"
            + (f"; TTL {ttl} on arrival, sent with 64" if ttl is not None else "")
            + (f"; source address {source} on arrival" if source else "")
            + (", translated" if is_translated else "")
        )
    for lines in records.known("crossing_expiring")[-1:]:
        yield from (f"left for a time, in {line}" for line in lines)


def _unknown(records: Records) -> Iterator[str]:
    """Yield the facts of the transport that the bench could not read."""
    unknown = (line for lines in records.known("transport_unknown") for line in lines)
    yield from (f"unknown: {line}" for line in dict.fromkeys(unknown))


def _of_figures(records: Records) -> tuple[str, ...]:
    numbers = records.column("repetition")
    if records.has("forwarded_pps"):
        steady = Schedule.of(
            records.first("schedule") or CONSTANT
        ).is_steady  # other schedules change the rate on purpose
        step_pps = max(records.known("burst_pps"), default=0.0)
        among = strange_repetitions(records.column("forwarded_pps"), numbers, _pps, step_pps)
        return (*among, *(_within(records) if steady else ()))
    if records.has("completed_per_s"):
        unit = records.first("transfer_unit")
        values = records.column("completed_per_s")
        return tuple(strange_repetitions(values, numbers, lambda value: amount(value, unit)))
    if records.has("rtt_p50_ns"):
        return tuple(strange_repetitions(records.column("rtt_p50_ns"), numbers, _us))
    return ()


def _within(records: Records) -> Iterator[str]:
    """Yield remarks on the samples of each repetition."""
    means = zip(records.column("steady_mean_pps"), records.column("steady_rest_pps"), strict=True)
    pairs = [(mean, rest) for mean, rest in means if mean is not None and rest is not None]
    apart = [pair for pair in pairs if abs(pair[0] - pair[1]) > RESOLUTION * abs(pair[0])]
    if apart:
        with_them = sum(mean for mean, _ in pairs) / len(pairs)
        without = sum(rest for _, rest in pairs) / len(pairs)
        yield (
            f"outliers among the samples of {len(apart)} of {len(records)} repetitions: the mean "
            f"of the whole trial after its warm-up is {_pps(with_them)} with them and "
            f"{_pps(without)} without"
        )
    changes = [p for p in records.column("steady_change_p") if p is not None and p < CHANGE_ALPHA]
    if changes:
        yield (
            f"not steady in {len(changes)} of {len(records)} repetitions: the load changed within "
            f"the run (CUSUM, p {min(changes):.2g} at least)"
        )


def _pps(value: float) -> str:
    return f"{value / 1e6:.4g} Mpps"


def _us(value: float) -> str:
    return f"{value / 1e3:.4g} us"
