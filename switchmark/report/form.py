"""The reports that standards ask for, as Markdown, from the records of a run.

`rfc2544`: the report formats of RFC 2544, section 26, with the back-to-back frames of RFC 9004.
`tst009`: what ETSI GS NFV-TST 009 asks to be reported of its benchmarks. A part that was not
measured stands there with what would measure it; a figure that is not valid is left out by name.
The graphs that they ask for: form_graphs.py.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from switchmark.model.choices import Dimension
from switchmark.model.rates import L1_OVERHEAD_BYTES, BitRate
from switchmark.report import words
from switchmark.results.record import Record
from switchmark.results.record.figures import Latency
from switchmark.results.record.method_result import MethodResult, MethodTrial
from switchmark.results.run_info import RunInfo

NO_MEDIUM = "none: the port is virtual"
NOT_SAID = "not said (--medium)"


class Form(StrEnum):
    """Whose form."""

    RFC2544 = "rfc2544"
    TST009 = "tst009"


@dataclass(frozen=True, slots=True)
class FormSource:
    """What a form is filled in from."""

    records: Sequence[Record]  # finished, and valid
    medium: BitRate | None = None  # the link that is compared with; None: nobody said one

    @classmethod
    def of(cls, records: Sequence[Record], medium: BitRate | None = None) -> FormSource:
        """Without the records that are not usable."""
        usable = [one for one in records if one.status == "finished" and _is_valid(one)]
        return cls(usable, medium)

    def theoretical_pps(self, one: Record) -> int | None:
        """What such links could carry of its frames, one link each way for each of its streams,
        since loads are totals; None where nobody said a medium."""
        if self.medium is None:
            return None
        return self.medium.pps(one.trial.packet_size_bytes) * one.trial.streams


def form_text(
    form: Form,
    info: RunInfo,
    records: Sequence[Record],
    medium: BitRate | None = None,
    graphs: Mapping[str, str] | None = None,
) -> str:
    """The whole report. `graphs` are files with graphs, by the method whose part they belong to."""
    measured = FormSource.of(records, medium)
    parts = _RFC2544 if form is Form.RFC2544 else _TST009
    title = {
        Form.RFC2544: "Report after RFC 2544, section 26, and RFC 9004",
        Form.TST009: "Report after ETSI GS NFV-TST 009",
    }[form]
    lines = [f"# {title}", "", *_set_up(info, measured)]
    for heading, method, make in parts:
        lines += ["", f"## {heading}", "", *(make(measured) or _missing(method))]
        if (file := (graphs or {}).get(method.partition(" ")[0])) is not None:
            lines += ["", f"![{heading}]({file})"]
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


def _set_up(info: RunInfo, measured: FormSource) -> list[str]:
    """What both standards ask for first: device under test, tester, traffic."""
    records = measured.records
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
        "Medium compared with": "none"
        if measured.medium is None
        else f"{measured.medium.bps:,} bit/s, {L1_OVERHEAD_BYTES} bytes a frame beside it",
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


@dataclass(frozen=True, slots=True)
class Repeated:
    """The repetitions of one trial."""

    device: str  # the switch; where several trials would be called alike, all that was asked
    size: int  # of frames, bytes with FCS
    streams: str  # pairs, and whether both ways
    records: tuple[Record, ...]


def repeated(records: Iterable[Record]) -> list[Repeated]:
    """By device and size of frames."""
    groups: dict[str, list[Record]] = {}
    for one in sorted(records, key=lambda r: (r.trial.switch, r.trial.packet_size_bytes)):
        groups.setdefault(one.trial.repeated(0).id, []).append(one)
    plain = [_called(group[0]) for group in groups.values()]
    return [
        Repeated(told[0] if plain.count(told) == 1 else group[0].notation, *told[1:], tuple(group))
        for told, group in zip(plain, groups.values(), strict=True)
    ]


def _called(one: Record) -> tuple[str, int, str]:
    ways = ", both ways" if one.trial.bidirectional else ""
    return one.trial.switch, one.trial.packet_size_bytes, f"{one.trial.pairs}{ways}"


def of_method(records: Iterable[Record], method: str) -> list[tuple[Record, MethodResult]]:
    """The records that hold the result of this method, and the result."""
    return [(o, o.method) for o in records if o.method is not None and o.method.method == method]


def _throughput(measured: FormSource) -> list[str]:
    """26.1: by frame size, with the rate that the medium could carry."""
    rows = []
    searched = [one for one, _ in of_method(measured.records, "ndr-pdr")]
    for each in repeated(searched):
        group = each.records
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
            could = measured.theoretical_pps(group[0])
            rows.append(
                [each.device, each.size, each.streams, _medium(group[0], could),
                 f"{goal.loss_ratio:.6g}", "none found" if rate is None else f"{rate:,.0f}",
                 "-" if rate is None else f"{rate * each.size * 8:,.0f}",
                 "-" if rate is None or could is None else f"{rate / could:.1%}", f"{final:g}",
                 _share(len(found), len(held))]
            )  # fmt: skip
    return _table(
        ["device", "frame size", "pairs", "theoretical frames/s", "loss ratio allowed",
         "throughput frames/s", "throughput bit/s (L2)", "of the theoretical rate",
         "longest trial s", "searches"],
        rows,
    )  # fmt: skip


def _share(found: int, tried: int) -> str:
    """How many a mean is of, with those that found nothing, which are not in it."""
    return str(tried) if found == tried else f"{found} of {tried}; the others found none"


def _medium(record: Record, could_pps: int | None) -> str:
    """What the medium could carry; only a port with a medium has one of its own."""
    if could_pps is not None:
        return f"{could_pps:,}"
    return NOT_SAID if record.trial.nics else NO_MEDIUM


def _latency(measured: FormSource) -> list[str]:
    """26.2: at which rate, how often and for how long, and what the time is of."""
    rows = []
    trips = [one for one in measured.records if one.trial.dimension is Dimension.LATENCY]
    fractions = [one for one, _ in of_method(measured.records, "r-plus")]
    for each in [*repeated(trips), *repeated(fractions)]:
        found: dict[tuple[str, str], list[tuple[Record, Latency]]] = {}
        for one in each.records:
            for kind, rate, latency in _times_of(one):
                found.setdefault((kind, rate), []).append((one, latency))
        where = each.device, each.size, each.streams
        rows += [[*where, *key, *_delays(trials)] for key, trials in found.items()]
    heading = ["device", "frame size", "pairs", "time", "frames/s", "trials", "trial s", "samples",
               "minimum us", "mean us", "median us", "p99 us", "p99.9 us",
               "maximum us"]  # fmt: skip
    lines = _table(heading, rows)
    if lines:
        lines += [
            "",
            "Times are from when a frame was handed to the sender's port until the receiver had "
            "the whole of it, by one clock: those of store-and-forward devices (RFC 1242). A "
            "figure is the mean of that figure over the trials; RFC 2544 wants 20 trials of 120 s "
            "(`repetitions: 20`, `duration: 120s`).",
        ]
    return lines


def _times_of(one: Record) -> Iterator[tuple[str, str, Latency]]:
    """What was timed, at which rate, and the times."""
    if one.latency is not None and one.trial.dimension is Dimension.LATENCY:
        yield "round trip", f"{one.trial.rate_pps:,}" if one.trial.rate_pps else "max", one.latency
    if one.method is not None and one.method.method == "r-plus":
        for part in one.method.latency:
            yield "one way", f"{part.fraction:.0%} of R+", part.latency


def _delays(trials: Sequence[tuple[Record, Latency]]) -> list[object]:
    """How many trials, how long, of how many samples; then the means of what each found, in us."""
    lengths = sorted({one.trial.duration_s for one, _ in trials})
    columns = zip(*(_figures_ns(found) for _, found in trials), strict=True)
    micro = [words.number(statistics.fmean(column) / 1e3) for column in columns]
    samples = sum(found.count for _, found in trials)
    return [len(trials), ", ".join(f"{one:g}" for one in lengths), samples, *micro]


def _figures_ns(found: Latency) -> list[float]:
    told = found.percentiles_ns
    return [found.min_ns, found.mean_ns, told["50"], told["99"], told["99.9"], found.max_ns]


def _loss(measured: FormSource) -> list[str]:
    """26.3: loss over the offered load, as a share of what the medium could carry."""
    rows = []
    swept = (one for one, _ in of_method(measured.records, "loss-vs-load"))
    trials = (
        (each, one, one.method, trial)
        for each in repeated(swept)
        for one in each.records
        if one.method is not None
        for trial in sorted(one.method.trials, key=lambda t: -t.offered_pps)
    )
    for each, one, found, trial in trials:
        most, could = highest_load_pps(found), measured.theoretical_pps(one)
        rows.append(
                [each.device, each.size, each.streams, f"{trial.offered_pps:,.0f}",
                 f"{trial.offered_pps / could:.1%}" if could else _medium(one, None),
                 f"{trial.offered_pps / most:.0%}" if most else "-",
                 f"{loss_share(trial) * 100:.6g}", f"{trial.duration_s:g}"]
        )  # fmt: skip
    heading = ["device", "frame size", "pairs", "offered frames/s", "of the theoretical rate",
               "of the highest load", "loss %", "trial s"]  # fmt: skip
    return _table(heading, rows)


def highest_load_pps(found: MethodResult) -> float:
    """The highest that was offered; 0 where nothing was."""
    return max((trial.offered_pps for trial in found.trials), default=0.0)


def loss_share(trial: MethodTrial) -> float:
    """Of the frames that were offered."""
    return trial.lost_frames / trial.offered_frames if trial.offered_frames else 0.0


def _back_to_back(measured: FormSource) -> list[str]:
    """26.4, and section 6 of RFC 9004: mean, deviation, least and most."""
    rows = []
    runs = [one for one, _ in of_method(measured.records, "back-to-back")]
    for each in repeated(runs):
        where = each.device, each.size, each.streams
        group = each.records
        figures = [one.method.figure("longest burst") for one in group if one.method]
        held = [one.value for one in figures if one is not None]
        if not held:
            rows.append([*where, "none: the shortest burst lost frames",
                         *["-"] * 4, _share(0, len(figures))])  # fmt: skip
            continue
        times = [one.method.figure("buffer time") for one in group if one.method]
        buffers = [one.value for one in times if one is not None]
        rows.append(
            [*where, f"{statistics.fmean(held):,.1f}",
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


def _figures_of(method: str) -> Callable[[FormSource], list[str]]:
    """Every figure of a method, as it is in the records."""

    def make(measured: FormSource) -> list[str]:
        rows = [
            [one.trial.switch, one.trial.packet_size_bytes, figure.name,
             f"{figure.value:.6g}", figure.unit]
            for one, found in of_method(measured.records, method)
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


_Part = tuple[str, str, Callable[[FormSource], list[str]]]
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
