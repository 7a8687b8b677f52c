"""`switchmark certify`: check the measurements on this machine against the kernel."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from switchmark.certify.registry import CHECKS
from switchmark.certify.support.certification import PORTS, Certification, outcome_of
from switchmark.cli import complete
from switchmark.cli.grouped_help import OUTPUT
from switchmark.cli.namespaces import Private
from switchmark.cli.options import Quiet, seconds_of
from switchmark.cli.output import note, print_json, print_remark
from switchmark.cli.progress import CertifyProgress
from switchmark.engine.arguments import resolve_io
from switchmark.errors import UnavailableError, UsageError
from switchmark.experiment.certified import Certificates
from switchmark.formatting import format_duration
from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.model.io import Io
from switchmark.model.ports import PortKind
from switchmark.record import Certificate, CertifiedFigure
from switchmark.record.certificate import NOT_TRIED, PROVEN, REFUTED, UNDECIDED
from switchmark.switch.testpmd import Testpmd

EPILOG = """
Examples:
  switchmark certify                        the default I/O of each port kind
  switchmark certify --io udp --io af-xdp   two kinds of I/O on a veth port
  switchmark certify --budget 1m            less time, more may stay undecided
  switchmark certify --truth delay          only this reference check
  switchmark certify --json | jq '.[].figures'

Exit codes:
  0    every figure is proven
  1    a figure is refuted: do not use it on this machine
  2    wrong input
  3    a figure is undecided (those that are not tried do not count), or the
       command cannot run here
"""
CODES = {PROVEN: 0, REFUTED: 1, UNDECIDED: UnavailableError.exit_code}
SHORTEST_S, LONGEST_S = 10.0, 3600.0
MOST_LINES = 25


def command(
    io: Annotated[
        list[str] | None,
        typer.Option("--io", metavar="IO", help="How the engine sends and "
                     "receives, for example udp, af-xdp or dpdk; can be repeated. Default: auto, "
                     "the fastest for the port kind.",
                     autocompletion=complete.ios),
    ] = None,
    port_kind: Annotated[
        list[str] | None,
        typer.Option("--port-kind", metavar="KIND", help="veth or vhost-user; can be "
                     "repeated. Default: all that can be checked here; veth alone if --io is "
                     "given."),
    ] = None,
    budget: Annotated[
        str, typer.Option("--budget", metavar="TIME", help="Time for all reference checks.")
    ] = "5m",
    truth: Annotated[
        list[str] | None,
        typer.Option("--truth", metavar="NAME", help="Run only this reference check, and store no "
                     "certificate; can be repeated."),
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="End at the first figure that is refuted.")
    ] = False,
    _private: Private = False,
    json: Annotated[bool, typer.Option("--json", help="Print the certificates as JSON.",
                      rich_help_panel=OUTPUT)] = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Check the measurements on this machine against the kernel, and show which are proven.

    Counts are compared with counters of the kernel, rates with its clock, one-way times and round
    trips with its timestamps. For loss, copies, reordering and delay, the kernel injects a known
    amount. The certificate is stored on this machine, and later records refer to it.
    """
    ways = _ways(io or [], port_kind or [])
    for name in truth or []:
        if name not in CHECKS:
            raise UsageError(f"--truth {name}: is not known; there are: {', '.join(CHECKS)}")
    budget_s = seconds_of("--budget", budget, SHORTEST_S, LONGEST_S)
    place.require("certify", Facility.NETWORK_NAMESPACE, Facility.BPF)
    for cleaned in clean_stale():
        note(f"cleaned up after a bench that was killed: session {cleaned.session}")
    certificates = Certificates.of_this_machine()
    results: list[Certificate] = []
    deadline = time.monotonic() + budget_s
    with open_session() as session, CertifyProgress(deadline, quiet=quiet) as progress:
        for number, (kind, way) in enumerate(ways):
            share_s = (deadline - time.monotonic()) / (len(ways) - number)
            progress.begin(f"{kind} {way}")
            certificate = Certification(
                session, kind, way, share_s, progress.observe, truth or (), fail_fast
            )
            results.append(certificate.run())
            if not truth:
                _keep(certificates, results[-1])
    if json:
        print_json(results)
    else:
        for line in summary_lines(results, is_stored=not truth):
            print_remark(line.strip(), len(line) - len(line.lstrip()))
    return CODES[outcome_of(results)]


def _ways(ios: Sequence[str], kinds: Sequence[str]) -> list[tuple[PortKind, Io]]:
    """Return the ways to a port that the options name."""
    for word in ios:
        if word not in set(Io):
            raise UsageError(f"--io {word}: is not known; there are: {', '.join(Io)}")
    for word in kinds:
        if word not in PORTS:
            raise UsageError(
                f"--port-kind {word}: cannot be certified; use one of {', '.join(PORTS)}, whose "
                "frames an independent source counts"
            )
    requested = [PortKind(word) for word in kinds] or (PORTS[:1] if ios else _usual())
    ways = [(kind, resolve_io(Io(word), kind)) for kind in requested for word in ios or [Io.AUTO]]
    for kind, way in ways:
        if kind is not PortKind.VETH and way is not Io.DPDK:
            raise UsageError(f"--io {way}: does not reach {kind} ports; leave it out")
    if any(io is Io.NETMAP for _, io in ways):
        raise UsageError("--io netmap: takes the port away from the kernel, which could not count")
    return list(dict.fromkeys(ways))


def _usual() -> list[PortKind]:
    """Return the port kinds that can be tested on this machine."""
    return [kind for kind in PORTS if kind is PortKind.VETH or Testpmd().availability().available]


def _keep(certificates: Certificates, results: Certificate) -> None:
    try:
        certificates.keep(results)
    except OSError as error:
        note(f"certify: cannot store the certificate in {certificates.directory}: {error.strerror}")


def summary_lines(results: Sequence[Certificate], *, is_stored: bool = True) -> list[str]:
    """Return the findings in 25 lines at most, without the last figures if there are more."""
    lines, brief = [], len(results) > 2
    for certificate in results:
        proven, all_ = len(certificate.of(PROVEN)), len(certificate.figures)
        state = (
            f"{len(certificate.lines_ns)} states of the machine"
            if len(certificate.lines_ns) > 1
            else ""
        )
        parts = [f"{proven} of {all_} figures in {format_duration(certificate.spent_s)}", state]
        way = f"{certificate.port_kind} {certificate.io}"
        lines.append(f"{way}: {certificate.outcome}, {', '.join(filter(None, parts))}")
        for truth in dict.fromkeys(figure.truth for figure in certificate.figures):
            figures = [figure for figure in certificate.figures if figure.truth == truth]
            if figures[0].outcome != NOT_TRIED and (not brief or _is_open(figures)):
                lines.append(f"  {_line(figures, certificate)}")
        lines += [f"  {line}" for line in _not_tried(certificate)]
    ids = ", ".join(certificate.id for certificate in results)
    holds = f"certificate {ids}, until switchmark, kernel, engine, microcode or cores change"
    last = (
        holds if is_stored else "no certificate is stored, because only some reference checks ran"
    )
    if (more := len(lines) - MOST_LINES + 1) > 0:
        lines[-more - 1 :] = [f"  ... {more + 1} more: switchmark certify --json"]
    return [*lines, last]


def _is_open(figures: Sequence[CertifiedFigure]) -> bool:
    return any(figure.outcome != PROVEN for figure in figures)


def _not_tried(certificate: Certificate) -> list[str]:
    """Return a line for each reason why reference checks were not tried."""
    named: dict[str, list[str]] = {}
    for figure in certificate.figures:
        if figure.outcome == NOT_TRIED:
            named.setdefault(figure.why, []).append(figure.truth)
    return [f"{'not tried':<12}{', '.join(truths)}: {why}" for why, truths in named.items()]


def _line(figures: Sequence[CertifiedFigure], of: Certificate) -> str:
    worst = next(
        figure for outcome in (REFUTED, UNDECIDED, NOT_TRIED, PROVEN) for figure in figures
        if figure.outcome == outcome
    )  # fmt: skip
    name = "" if worst.outcome == PROVEN else f"{worst.quantity}: "
    text = f"{worst.truth:<12}{worst.outcome:<10} {name}{_interval(worst, figures)}"
    levels = [
        f"{name.partition(': ')[2].partition(',')[0]} {_amount(value)}{name.rpartition(',')[2]}"
        for name, value in of.levels.items()
        if name.startswith(f"{worst.truth}: ") and "," in name
    ]
    parts = "; ".join(filter(None, [text, *levels, worst.why]))
    return f"{parts} ({worst.against})"


def _amount(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _interval(worst: CertifiedFigure, figures: Sequence[CertifiedFigure]) -> str:
    if worst.low is None or worst.high is None:
        return "no figure yet"
    if not worst.within:
        share = f"share of wrong frames at most {worst.high:.1g}, from {worst.frames:,} frames"
        return f"{worst.low:.1g} to {worst.high:.1g} wrong" if worst.low else share
    known = [figure for figure in figures if figure.low is not None and figure.high is not None]
    shown = known if worst.outcome == PROVEN else [worst]
    low = min(figure.low if figure.low is not None else math.inf for figure in shown)
    high = max(figure.high if figure.high is not None else -math.inf for figure in shown)
    above = max(figure.within for figure in shown)
    below = max(
        figure.within if figure.within_below is None else figure.within_below for figure in shown
    )
    scale, unit = {"ratio": (100, " %"), "ns": (1e-3, " us")}.get(worst.unit, (1, f" {worst.unit}"))
    requested = f"{above * scale:g}" + (f", below {below * scale:g}" if below != above else "")
    return f"off by {low * scale:+.2f} to {high * scale:+.2f}{unit} (required: {requested})"
