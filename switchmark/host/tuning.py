"""Tuning: settings of the machine that change results, applied on request and restored.

A profile is `as-is` (no change), `papers` (the settings of published studies), or a list such as
`governor:performance+turbo:off`. Every change is written to the ledger before it is made, so it is
undone at the end of the campaign, after Ctrl-C, and, after `kill -9`, by the next start.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.host.facts import memory_mb
from switchmark.host.host import Session
from switchmark.host.undo.entries import Hugepages, KernelSetting, UndoEntry, chosen_of

AS_IS, PAPERS = "as-is", "papers"
SYSTEM = Path("/")  # tests use another folder
MOST_DIGITS = 9
MEMORY_LEFT_MB = 512  # memory that hugepages must leave to all other programs
_CPU = "sys/devices/system/cpu"


# Returns the files below a root, and the text that each needs for a value.
Files = Callable[[Path, str], Iterator[tuple[Path, str]]]


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting that can be tuned."""

    name: str
    meaning: str
    values: tuple[str, ...]
    files: Files
    entry: Callable[[str, str, str], UndoEntry] = KernelSetting  # path, previous and new text


@dataclass
class Tuned:
    """The result of applying a profile."""

    profile: str
    changed: dict[str, list[str]] = field(default_factory=dict)  # path: before, after
    unchanged: list[str] = field(default_factory=list)  # paths that already had the value
    not_possible: dict[str, str] = field(default_factory=dict)  # knob: reason


_ON, _OFF = {"on": "1", "off": "0"}, {"on": "0", "off": "1"}  # texts of the kernel's files


def _files(*each: tuple[str, Mapping[str, str]]) -> Files:
    """Return the files that match these patterns, each with its texts by value.

    Without a text, the value itself is written."""

    def files(root: Path, value: str) -> Iterator[tuple[Path, str]]:
        for pattern, texts in each:
            for path in sorted(root.glob(pattern)):
                yield path, texts.get(value, value)

    return files


def _pages(root: Path, value: str) -> Iterator[tuple[Path, str]]:
    """Yield the file of the reserved pages of 2 MB.

    Raises ValueError if they would leave the machine too little memory; the kernel would accept
    the number."""
    path = root / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    available_mb = memory_mb(root / "proc/meminfo").get("MemAvailable")
    if available_mb is not None and path.exists():
        more_mb = 2 * (int(value) - int(path.read_text()))
        if more_mb > max(0, available_mb - MEMORY_LEFT_MB):
            raise ValueError(
                f"{value} pages need {more_mb} MiB more; {available_mb} MiB are available, and "
                f"{MEMORY_LEFT_MB} MiB must stay free; use fewer"
            )
    yield path, value


def _pages_entry(path: str, before: str, after: str) -> UndoEntry:
    return Hugepages(path, int(before), int(after))


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("governor", "frequency governor of every CPU", ("performance", "powersave"),
             _files((f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor", {}))),
        Knob("turbo", "frequencies above the nominal one", ("on", "off"),
             _files((f"{_CPU}/intel_pstate/no_turbo", _OFF), (f"{_CPU}/cpufreq/boost", _ON))),
        Knob("smt", "second hardware threads", ("on", "off"), _files((f"{_CPU}/smt/control", {}))),
        # The shallowest state stays on; a CPU wakes from it within a microsecond.
        Knob("c-states", "sleep states deeper than the first", ("on", "off"),
             _files((f"{_CPU}/cpu[0-9]*/cpuidle/state[1-9]*/disable", _OFF))),
        Knob("thp", "transparent hugepages", ("always", "madvise", "never"),
             _files(("sys/kernel/mm/transparent_hugepage/enabled", {}))),
        Knob("numa-balancing", "moves pages to the node that uses them", ("on", "off"),
             _files(("proc/sys/kernel/numa_balancing", _ON))),
        # All interrupts on the first CPU, away from the CPUs of trials.
        Knob("irq-affinity", "CPU that handles interrupts", ("first-cpu",),
             _files(("proc/irq/[0-9]*/smp_affinity_list", {"first-cpu": "0"}))),
        Knob("hugepages", "reserved pages of 2 MB", (), _pages, _pages_entry),
    )
}  # fmt: skip
PROFILES: dict[str, dict[str, str]] = {
    AS_IS: {},
    PAPERS: {
        "governor": "performance",
        "turbo": "off",
        "c-states": "off",
        "thp": "never",
        "numa-balancing": "off",
        "irq-affinity": "first-cpu",
    },
}


def parse(text: str) -> dict[str, str]:
    """Parse the name of a profile or a list of settings. Raises ValueError, with one line."""
    if text in PROFILES:
        return PROFILES[text]
    settings: dict[str, str] = {}
    for part in text.split("+"):
        name, colon, value = part.partition(":")
        knob = KNOBS.get(name)
        if knob is None or not colon:
            known = ", ".join(KNOBS)
            raise ValueError(
                f"'{part}' is neither a profile ({', '.join(PROFILES)}) nor a setting of {known}; "
                "write e.g. governor:performance+turbo:off"
            )
        number = value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS
        if not (value in knob.values if knob.values else number):
            usable = ", ".join(knob.values) or f"a number of at most {MOST_DIGITS} digits"
            raise ValueError(f"{name}: '{value}' cannot be set; use {usable}")
        settings[name] = value
    return settings


def apply(session: Session, profile: str, system: Path = SYSTEM) -> Tuned:
    """Apply a profile as far as this machine can; settings that fail are in the result."""
    tuned = Tuned(profile)
    for name, value in parse(profile).items():
        knob = KNOBS[name]
        try:
            existing = [pair for pair in knob.files(system, value) if pair[0].exists()]
        except ValueError as error:
            tuned.not_possible[name] = str(error)
            continue
        if not existing:
            tuned.not_possible[name] = "this machine or kernel does not have it"
        for path, text in existing:
            try:
                _set(session, knob, path, text, tuned)
            except OSError as error:
                tuned.not_possible[name] = f"{path}: {error.strerror}"
    return tuned


def _set(session: Session, knob: Knob, path: Path, text: str, tuned: Tuned) -> None:
    before = chosen_of(path.read_text())
    if before == text:
        tuned.unchanged.append(str(path))
        return
    entry = session.ledger.record(knob.entry(str(path), before, text))
    try:
        path.write_text(text + "\n")
    except OSError:
        with suppress(OSError):
            session.ledger.undo(entry)
        raise
    tuned.changed[str(path)] = [before, chosen_of(path.read_text())]
