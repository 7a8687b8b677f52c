"""The text of `switchmark doctor`: the kind of place, switches that can and cannot be measured with
the shortest remedy, then the machine. Lines are wrapped, and each reason is printed once."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping

from switchmark.cli.output import text_width
from switchmark.formatting import format_duration, printable
from switchmark.host.diagnosis import Finding, Level
from switchmark.host.place import Facility, Kind
from switchmark.model.capabilities import Availability

APT = "apt install "
PLACES = {
    Kind.ROOT: "root of a machine, or of a privileged container",
    Kind.PRIVATE: "root in private namespaces of the run",
    Kind.USER: "an ordinary user: each run has private namespaces, which end with it",
    Kind.CONTAINER: "an ordinary container, which takes most privileges away, also from root",
}
# The consequence of a missing facility. Facilities that a switch or an environment requires are
# already printed with it.
CONSEQUENCES: dict[Facility, str] = {
    Facility.HUGEPAGES: "DPDK uses 4 KiB pages",
    Facility.MEMORY_POLICY: "DPDK uses 4 KiB pages",
    Facility.HUGETLBFS: "BESS uses 4 KiB pages",
    Facility.LOCKED_MEMORY: "VPP uses 4 KiB pages",
    Facility.IO_URING: "I/O of kind io-uring cannot be used",
    Facility.PERF: "cycles and instructions per frame are not recorded",
    Facility.REAL_TIME: "programs that share a core do so less exactly, without real-time priority",
    Facility.FORCED_BUFFERS: "socket buffers are as large as net.core.rmem_max allows",
    Facility.KERNEL_SETTINGS: "the machine cannot be tuned (key tuning)",
    Facility.TUN: "there are no tap ports",
    Facility.PACKET_SOCKET: "packet sockets cannot be used (I/O raw, packet-mmap)",
    Facility.CONTROL_GROUPS: "CPU time cannot be limited (key cpu_limit)",
    Facility.BPF: "XDP programs and AF_XDP cannot be used",
    Facility.USER_NAMESPACE: "a run cannot start itself in private namespaces (option --private)",
}


def place_lines(
    kind: Kind, switches: Mapping[str, Availability], environments: Mapping[str, Availability]
) -> Iterator[str]:
    """The kind of place, and what can and cannot be measured in it."""
    yield f"place: {PLACES[kind]}"
    yield ""
    yield "can be measured here"
    ready = {name: entry.version for name, entry in switches.items() if entry.available}
    width = max(map(len, ready), default=0)
    for name, version in ready.items():
        yield from _wrapped(f"{name.ljust(width)}  {version or ''}".rstrip(), 2, 4 + width)
    where = [name for name, entry in environments.items() if entry.available]
    noun = "environment" if len(where) == 1 else "environments"
    yield from _wrapped(f"in the {noun} {', '.join(where) or 'none'}", 2, 4)
    groups: dict[Availability, list[str]] = {}
    named = {f"environment {name}": entry for name, entry in environments.items()}
    for name, entry in [*switches.items(), *named.items()]:
        if not entry.available:
            groups.setdefault(entry, []).append(name)
    if groups:
        yield ""
        yield "cannot be measured here"
        for entry, names in groups.items():
            yield from _wrapped(f"{', '.join(names)}: {entry.reason}", 2, 4)
            if remedies := ", or ".join(filter(None, (entry.remedy, entry.instead))):
                yield from _wrapped(f"remedy: {remedies}", 4, 6)


def facility_lines(
    kind: Kind, facilities: Mapping[Facility, Availability], printed: Mapping[str, Availability]
) -> Iterator[str]:
    """The consequences of missing facilities, without reasons that are already printed."""
    reasons = {entry.reason for entry in printed.values()}
    lacking: dict[str, Availability] = {}
    for facility, consequence in CONSEQUENCES.items():
        answer = facilities[facility]
        if not answer.available and answer.reason not in reasons:
            lacking.setdefault(consequence, answer)
    if kind is not Kind.ROOT and facilities[Facility.NETWORK_NAMESPACE].available:
        lacking.pop(CONSEQUENCES[Facility.USER_NAMESPACE], None)  # the run has them already
    if lacking:
        yield ""
        yield "works differently here; the switches above can still be measured"
    for consequence, answer in lacking.items():
        remedy = f" (remedy: {answer.remedy})" if answer.remedy else ""
        yield from _wrapped(f"{consequence}{remedy}", 2, 4)


def program_lines(programs: Mapping[str, Availability]) -> Iterator[str]:
    """The traffic engine, and KVM."""
    yield ""
    for name, entry in programs.items():
        yield from _wrapped(f"{name}: {entry.refusal or entry.version}", 0, 2)


def generator_lines(generators: Mapping[str, Availability]) -> Iterator[str]:
    """The optional programs that make traffic: those that are here, then how to get the others."""
    here = [f"{name} {entry.version}" for name, entry in generators.items() if entry.available]
    yield ""
    yield from _wrapped(
        f"optional programs that make traffic: {', '.join(here) or 'none installed'}", 0, 2
    )
    lacking = {
        name: entry.remedy or "" for name, entry in generators.items() if not entry.available
    }
    packages = [remedy.removeprefix(APT) for remedy in lacking.values() if remedy.startswith(APT)]
    if packages:
        yield from _wrapped(f"not installed: {APT}{' '.join(sorted(set(packages)))}", 2, 4)
    for name, remedy in lacking.items():
        if not remedy.startswith(APT):
            yield from _wrapped(f"{name}: {remedy}", 2, 4)


def machine_lines(title: str, findings: list[Finding]) -> Iterator[str]:
    """Findings about the machine: those that bear on results first, then those that are good."""
    yield ""
    yield from _wrapped(title, 0, 2)
    for level in (Level.POOR, Level.NOTE):
        for entry in findings:
            if entry.level is level:
                yield from _wrapped(
                    f"{level}  {entry.topic}: {entry.value}: {_meaning(entry)}", 2, 8
                )
    good = [f"{entry.topic} ({entry.value})" for entry in findings if entry.level is Level.GOOD]
    if good:
        yield from _wrapped(f"{Level.GOOD}  {'; '.join(good)}", 2, 8)


def watched_title(watched_s: float) -> str:
    """The title of the findings about the watched machine."""
    return f"the machine, watched for {format_duration(watched_s)}"


def verdict_lines(verdict: str) -> Iterator[str]:
    """The last line: whether anything can be measured."""
    yield ""
    yield from _wrapped(verdict, 0, 2)


def _meaning(finding: Finding) -> str:
    if finding.remedy is None:
        return finding.meaning
    return f"{finding.meaning}. Remedy: {finding.remedy}"


def _wrapped(text: str, first: int, rest: int) -> list[str]:
    return textwrap.wrap(
        printable(text), text_width(), initial_indent=" " * first, subsequent_indent=" " * rest,
        break_long_words=False, break_on_hyphens=False, drop_whitespace=True,
    )  # fmt: skip
