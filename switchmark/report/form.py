"""The reports that standards ask for, as Markdown, from the records of a run.

`rfc2544`: the report formats of RFC 2544, section 26, with the back-to-back frames of RFC 9004.
`tst009`: what ETSI GS NFV-TST 009 asks to be reported of its benchmarks. A part that was not
measured stands there with what would measure it; a figure that is not valid is left out by name.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import StrEnum

from switchmark.model.choices import Dimension
from switchmark.report import words
from switchmark.results.record import Record
from switchmark.results.record.figures import Latency
from switchmark.results.record.method_result import MethodResult
from switchmark.results.run_info import RunInfo

NO_MEDIUM = "none: the port is virtual"


class Form(StrEnum):
    """Whose form."""

    RFC2544 = "rfc2544"
    TST009 = "tst009"


def form_text(form: Form, info: RunInfo, records: Sequence[Record]) -> str:
    """The whole report."""
    usable = [one for one in records if one.status == "finished" and _is_valid(one)]
    parts = _RFC2544 if form is Form.RFC2544 else _TST009
    title = {
        Form.RFC2544: "Report after RFC 2544, section 26, and RFC 9004",
        Form.TST009: "Report after ETSI GS NFV-TST 009",
    }[form]
    lines = [f"# {title}", "", *_set_up(info, usable)]
    for heading, method, make in parts:
        lines += ["", f"## {heading}", "", *(make(usable) or _missing(method))]
    lines += ["", "## Left out", "", *_left_out(records)]
    return "\n".join(lines) + "\n"


def _is_valid(record: Record) -> bool:
    return record.verdict is not None and record.verdict.valid


def _missing(method: str) -> list[str]:
    return [f"Not measured in this run; `switchmark trial SWITCH --method {method}` measures it."]


def _left_out(records: Sequence[Record]) -> list[str]:
    lines = [
        f"- {one.notation}: {one.message or ', '.join(one.verdict.marks if one.verdict else ())}"
        for one in records
        if one.status == "failed" or not _is_valid(one)
    ]
    return lines or ["Nothing: every trial finished, and is valid."]


def _set_up(info: RunInfo, records: Sequence[Record]) -> list[str]:
    """What both standards ask for first: device under test, tester, traffic."""
    devices = dict.fromkeys(
        (one.trial.switch, one.switch_details.get("version", "unknown")) for one in records
    )
    trials = [one.trial for one in records]
    said = {
        "Campaign": f"{info.campaign}, {info.started_at}, run {info.run_id}",
        "Devices under test": "; ".join(f"{name} ({version})" for name, version in devices),
        "Tester": f"switchmark {info.switchmark_version}, software time stamps",
        "Host": ", ".join(f"{k} {v}" for k, v in info.host.items() if isinstance(v, str | int)),
        "Media": ", ".join(sorted({one.port_kind or "?" for one in records})),
        "Connect modes": ", ".join(sorted({one.connect_mode or "none" for one in records})),
        "Protocol": ", ".join(sorted({f"UDP over IPv{one.ip_version}" for one in trials})),
        "Data streams": ", ".join(
            sorted({"bidirectional" if one.bidirectional else "unidirectional" for one in trials})
        ),
        "Flows": ", ".join(sorted({one.flows for one in trials})),
        "Frame sizes": "with FCS, bytes: "
        + ", ".join(map(str, sorted({one.packet_size_bytes for one in trials}))),
    }
    return [f"- {name}: {value or 'unknown'}" for name, value in said.items()]


Groups = dict[tuple[str, int, int], list[Record]]


def _by_size(records: Iterable[Record]) -> Groups:
    """Repetitions of one device at one frame size and number of pairs."""
    found: Groups = {}
    for one in sorted(records, key=lambda r: (r.trial.switch, r.trial.packet_size_bytes)):
        key = one.trial.switch, one.trial.packet_size_bytes, one.trial.pairs
        found.setdefault(key, []).append(one)
    return found


def _of_method(records: Iterable[Record], method: str) -> list[tuple[Record, MethodResult]]:
    return [(o, o.method) for o in records if o.method is not None and o.method.method == method]


def _throughput(records: Sequence[Record]) -> list[str]:
    """26.1: by frame size, with the rate that the medium could carry."""
    rows = []
    searched = [one for one, _ in _of_method(records, "ndr-pdr")]
    for (switch, size, pairs), group in _by_size(searched).items():
        for place, goal in enumerate(group[0].method.bounds if group[0].method else ()):
            held = [
                one.method.bounds[place].lower_pps
                for one in group
                if one.method is not None and len(one.method.bounds) > place
            ]
            found = [rate for rate in held if rate is not None]
            rate = statistics.fmean(found) if found else None
            final = max(
                trial.duration_s for one in group if one.method for trial in one.method.trials
            )
            rows.append(
                [switch, size, pairs, _medium(group[0]), f"{goal.loss_ratio:.6g}",
                 "none found" if rate is None else f"{rate:,.0f}",
                 "-" if rate is None else f"{rate * size * 8:,.0f}", f"{final:g}",
                 _share(len(found), len(held))]
            )  # fmt: skip
    return _table(
        ["device", "frame size", "pairs", "theoretical frames/s", "loss ratio allowed",
         "throughput frames/s", "throughput bit/s (L2)", "longest trial s", "searches"],
        rows,
    )  # fmt: skip


def _share(found: int, tried: int) -> str:
    """How many a mean is of, with those that found nothing, which are not in it."""
    return str(tried) if found == tried else f"{found} of {tried}; the others found none"


def _medium(record: Record) -> str:
    """What the medium could carry, which only a port with a medium has."""
    return NO_MEDIUM if not record.trial.nics else "see the data sheet of the ports"


def _latency(records: Sequence[Record]) -> list[str]:
    """26.2: at which rate, and what the time is of."""
    rows = []
    for one in records:
        if one.latency is not None and one.trial.dimension is Dimension.LATENCY:
            rate = one.trial.rate_pps
            rows.append(_delays(one, "round trip", f"{rate:,}" if rate else "max", one.latency))
    for one, found in _of_method(records, "r-plus"):
        for part in found.latency:
            told = f"{part.load_pps:,.0f} ({part.fraction:.0%} of R+)"
            rows.append(_delays(one, "one way", told, part.latency))
    heading = ["device", "frame size", "time", "frames/s", "samples", "minimum us", "mean us",
               "median us", "p99 us", "p99.9 us", "maximum us"]  # fmt: skip
    lines = _table(heading, rows)
    if lines:
        lines += [
            "",
            "Times are from when a frame was handed to the sender's port until the receiver had "
            "the whole of it, by one clock: those of store-and-forward devices (RFC 1242).",
        ]
    return lines


def _delays(one: Record, kind: str, rate: str, found: Latency) -> list[object]:
    told = found.percentiles_ns
    figures = [found.min_ns, found.mean_ns, told["50"], told["99"], told["99.9"], found.max_ns]
    micro = [words.number(value / 1e3) for value in figures]
    return [one.trial.switch, one.trial.packet_size_bytes, kind, rate, found.count, *micro]


def _loss(records: Sequence[Record]) -> list[str]:
    """26.3: loss over the offered load."""
    rows = []
    for one, found in _of_method(records, "loss-vs-load"):
        most = max((trial.offered_pps for trial in found.trials), default=0.0)
        for trial in sorted(found.trials, key=lambda t: -t.offered_pps):
            share = trial.lost_frames / trial.offered_frames if trial.offered_frames else 0.0
            rows.append(
                [one.trial.switch, one.trial.packet_size_bytes, f"{trial.offered_pps:,.0f}",
                 f"{trial.offered_pps / most:.0%}" if most else "-", f"{share * 100:.6g}"]
            )  # fmt: skip
    heading = ["device", "frame size", "offered frames/s", "of the highest load", "loss %"]
    return _table(heading, rows)


def _back_to_back(records: Sequence[Record]) -> list[str]:
    """26.4, and section 6 of RFC 9004: mean, deviation, least and most."""
    rows = []
    runs = [one for one, _ in _of_method(records, "back-to-back")]
    for (switch, size, pairs), group in _by_size(runs).items():
        figures = [one.method.figure("longest burst") for one in group if one.method]
        held = [one.value for one in figures if one is not None]
        if not held:
            rows.append([switch, size, pairs, "none: the shortest burst lost frames",
                         *["-"] * 4, _share(0, len(figures))])  # fmt: skip
            continue
        times = [one.method.figure("buffer time") for one in group if one.method]
        buffers = [one.value for one in times if one is not None]
        rows.append(
            [switch, size, pairs, f"{statistics.fmean(held):,.1f}",
             f"{statistics.stdev(held):,.1f}" if len(held) > 1 else "-",
             f"{min(held):,.0f}", f"{max(held):,.0f}",
             f"{statistics.fmean(buffers):.6g}" if buffers else "-",
             _share(len(held), len(figures))]
        )  # fmt: skip
    return _table(
        ["device", "frame size", "pairs", "mean frames", "standard deviation", "minimum",
         "maximum", "corrected buffer time s", "repetitions"],
        rows,
    )  # fmt: skip


def _figures_of(method: str) -> Callable[[Sequence[Record]], list[str]]:
    """Every figure of a method, as it is in the records."""

    def make(records: Sequence[Record]) -> list[str]:
        rows = [
            [one.trial.switch, one.trial.packet_size_bytes, figure.name,
             f"{figure.value:.6g}", figure.unit]
            for one, found in _of_method(records, method)
            for figure in found.figures
        ]  # fmt: skip
        return _table(["device", "frame size", "figure", "value", "unit"], rows)

    return make


def _table(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Nothing where there are no rows."""
    return list(_lines(heading, rows)) if rows else []


def _lines(heading: Sequence[str], rows: Sequence[Sequence[object]]) -> Iterator[str]:
    for cells in (heading, ["---"] * len(heading), *rows):
        yield f"| {' | '.join(str(cell).replace('|', '/') for cell in cells)} |"


_Part = tuple[str, str, Callable[[Sequence[Record]], list[str]]]
_RFC2544: tuple[_Part, ...] = (
    ("26.1 Throughput", "ndr-pdr --set goals=rfc2544", _throughput),
    ("26.2 Latency", "r-plus", _latency),
    ("26.3 Frame loss rate", "loss-vs-load", _loss),
    ("26.4 Back-to-back frames (RFC 9004)", "back-to-back", _back_to_back),
    ("26.5 System recovery and 26.6 Reset", "recovery", _figures_of("recovery")),
)
_TST009: tuple[_Part, ...] = (
    ("Throughput, and capacity at a loss ratio", "ndr-pdr --set goals=tst009", _throughput),
    ("Latency and delay variation", "r-plus", _latency),
    ("Loss", "loss-vs-load", _loss),
    ("Loss over a long time", "soak", _figures_of("soak")),
    ("Burst: back-to-back frames", "back-to-back", _back_to_back),
)
