"""The reports of standards as Markdown, from the records of a run.

`rfc2544`: the report formats of RFC 2544, section 26, with the back-to-back frames of RFC 9004, and
the throughput with filters of section 11.4.
`tst009`: the report that ETSI GS NFV-TST 009 requires for its benchmarks. For a part that was not
measured, the report has the command that measures it. Figures that are not valid are listed as left
out. form_graphs.py draws the graphs that the standards require.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from switchmark.model.rates import L1_OVERHEAD_BYTES, BitRate
from switchmark.record import Record
from switchmark.report.form_source import FormSource, budget_note, is_valid, size_text
from switchmark.report.form_tables import (
    back_to_back,
    figures,
    filters,
    latency,
    latency_and_variation,
    loss,
    throughput,
)
from switchmark.report.host_facts import engine_versions
from switchmark.results.certified import certified, of_records
from switchmark.results.run_info import RunInfo


class Form(StrEnum):
    """The standard of a form."""

    RFC2544 = "rfc2544"
    TST009 = "tst009"


def form_text(
    form: Form,
    info: RunInfo,
    records: Sequence[Record],
    medium: BitRate | None = None,
    graphs: Mapping[str, str] | None = None,
) -> str:
    """Return the whole report. `graphs` are files with graphs, by the method of their part."""
    measured = FormSource.of(records, medium)
    parts = _RFC2544 if form is Form.RFC2544 else _TST009
    title = {
        Form.RFC2544: "Report after RFC 2544, sections 11.4 and 26, and RFC 9004",
        Form.TST009: "Report after ETSI GS NFV-TST 009",
    }[form]
    lines = [f"# {title}", "", *_set_up(info, measured)]
    shown: set[str] = set()  # methods that have a part already
    for heading, settings, make in parts:
        method = settings.partition(" ")[0]
        lines_of_part = make(measured, method)
        lines += ["", f"## {heading}", "", *(lines_of_part or _missing(settings))]
        if method in shown:
            continue
        shown.add(method)
        lines += budget_note(measured.repeated(method), method)
        if (file := (graphs or {}).get(method)) is not None:
            lines += ["", f"![{heading}]({file})"]
    lines += ["", "## Left out", "", *_left_out(records)]
    return "\n".join(lines) + "\n"


def _missing(settings: str) -> list[str]:
    command = f"switchmark trial SWITCH --method {settings}"
    return [f"Not measured in this run; `{command}` measures it."]


def _marks(record: Record) -> str:
    return ", ".join(record.verdict.marks if record.verdict else ())


def _left_out(records: Sequence[Record]) -> list[str]:
    lines = [
        f"- {record.notation}: {record.message or _marks(record)}"
        for record in records
        if record.status == "failed" or not is_valid(record)
    ]
    return lines or ["Nothing: every trial finished, and is valid."]


def _set_up(info: RunInfo, measured: FormSource) -> list[str]:
    """Return the first part of both standards: device under test, tester, traffic."""
    records = measured.records
    devices = dict.fromkeys(
        (one.trial.switch, one.switch_details.get("version", "unknown")) for one in records
    )
    trials = [one.trial for one in records]
    engines = [f"engine {one}" for one in engine_versions(records)]
    facts = {
        "Campaign": f"{info.campaign}, {info.started_at}, run {info.run_id}",
        "Devices under test": "; ".join(f"{name} ({version})" for name, version in devices),
        "Tester": ", ".join(
            [f"switchmark {info.switchmark_version}", *engines, "software time stamps"]
        ),
        "Instruments": certified(of_records(records)),
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
        + ", ".join(
            dict.fromkeys(
                map(size_text, sorted(records, key=lambda one: one.trial.frame_sizes.mean))
            )
        ),
    }
    return [f"- {name}: {value or 'unknown'}" for name, value in facts.items()]


# Heading; method with its settings; function that writes the part.
_Part = tuple[str, str, Callable[[FormSource, str], list[str]]]

_RFC2544: tuple[_Part, ...] = (
    ("26.1 Throughput", "ndr-pdr --set goals=rfc2544", throughput),
    ("26.2 Latency", "r-plus", latency),
    ("26.3 Frame loss rate", "loss-vs-load", loss),
    ("26.4 Back-to-back frames (RFC 9004)", "back-to-back", back_to_back),
    ("26.5 System recovery and 26.6 Reset", "recovery", figures),
    (
        "11.4 Filters",
        "ndr-pdr --set goals=rfc2544 --set function=route+acl --set 'rules=0, 1, 25'",
        filters,
    ),
)

_TST009: tuple[_Part, ...] = (
    ("Throughput, and capacity at a loss ratio", "ndr-pdr --set goals=tst009", throughput),
    ("Latency and delay variation", "r-plus", latency_and_variation),
    ("Loss", "loss-vs-load", loss),
    ("Loss over a long time", "soak", figures),
    ("Burst: back-to-back frames", "back-to-back", back_to_back),
)
