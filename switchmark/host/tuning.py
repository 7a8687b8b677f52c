"""Settings of the machine that change what is measured: applied only when asked for, restored.

A profile is `as-is` (nothing is touched), `papers` (what the literature sets before it
measures), or one's own: `governor:performance+turbo:off`. Every change is in the ledger
before it is made, so it is undone at the end of the campaign, after Ctrl-C, and after
`kill -9` by the next start.
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
SYSTEM = Path("/")  # tests have another
MOST_DIGITS = 9
MEMORY_LEFT_MB = 512  # for everybody else, when memory is taken for hugepages
_CPU = "sys/devices/system/cpu"


Files = Callable[[Path, str], Iterator[tuple[Path, str]]]  # below a root, for a value


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting that can be tuned."""

    name: str
    meaning: str
    values: tuple[str, ...]
    files: Files  # what to write where
    entry: Callable[[str, str, str], UndoEntry] = KernelSetting  # path, before, wanted


@dataclass
class Tuned:
    """The result of applying a profile: what was set, and what could not be."""

    profile: str
    changed: dict[str, list[str]] = field(default_factory=dict)  # path: before, after
    unchanged: list[str] = field(default_factory=list)  # had that value already
    not_possible: dict[str, str] = field(default_factory=dict)  # knob: why


_ON, _OFF = {"on": "1", "off": "0"}, {"on": "0", "off": "1"}  # the files' words for a value


def _files(*each: tuple[str, Mapping[str, str]]) -> Files:
    """The files that match a pattern, each with its word for the value: the value itself where no
    other is named."""

    def files(root: Path, value: str) -> Iterator[tuple[Path, str]]:
        for pattern, words in each:
            for path in sorted(root.glob(pattern)):
                yield path, words.get(value, value)

    return files


def _pages(root: Path, value: str) -> Iterator[tuple[Path, str]]:
    """The reserved pages of 2 MB. Raises ValueError when they would leave the machine too little
    memory, which the kernel would not refuse."""
    path = root / "sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages"
    available_mb = memory_mb(root / "proc/meminfo").get("MemAvailable")
    if available_mb is not None and path.exists():
        more_mb = 2 * (int(value) - int(path.read_text()))
        if more_mb > max(0, available_mb - MEMORY_LEFT_MB):
            raise ValueError(
                f"{value} pages take {more_mb} MiB more, {available_mb} MiB are available and "
                f"{MEMORY_LEFT_MB} of them are left to the machine; ask for fewer"
            )
    yield path, value


def _pages_entry(path: str, before: str, wanted: str) -> UndoEntry:
    return Hugepages(path, int(before), int(wanted))


KNOBS: dict[str, Knob] = {
    knob.name: knob
    for knob in (
        Knob("governor", "frequency governor of every CPU", ("performance", "powersave"),
             _files((f"{_CPU}/cpu[0-9]*/cpufreq/scaling_governor", {}))),
        Knob("turbo", "frequencies above the nominal one", ("on", "off"),
             _files((f"{_CPU}/intel_pstate/no_turbo", _OFF), (f"{_CPU}/cpufreq/boost", _ON))),
        Knob("smt", "second hardware threads", ("on", "off"), _files((f"{_CPU}/smt/control", {}))),
        # In the shallowest state, which stays, a CPU wakes within a microsecond.
        Knob("c-states", "sleep states deeper than the first", ("on", "off"),
             _files((f"{_CPU}/cpu[0-9]*/cpuidle/state[1-9]*/disable", _OFF))),
        Knob("thp", "transparent hugepages", ("always", "madvise", "never"),
             _files(("sys/kernel/mm/transparent_hugepage/enabled", {}))),
        Knob("numa-balancing", "pages that follow their users", ("on", "off"),
             _files(("proc/sys/kernel/numa_balancing", _ON))),
        # All on the first CPU, away from those that measure.
        Knob("irq-affinity", "where interrupts are handled", ("first-cpu",),
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
    """Read the settings of a profile, by name or written out. Raises ValueError, one line."""
    if text in PROFILES:
        return PROFILES[text]
    wanted: dict[str, str] = {}
    for part in text.split("+"):
        name, colon, value = part.partition(":")
        knob = KNOBS.get(name)
        if knob is None or not colon:
            known = ", ".join(KNOBS)
            raise ValueError(
                f"'{part}' is no profile ({', '.join(PROFILES)}) and sets none of {known}; "
                "write e.g. governor:performance+turbo:off"
            )
        number = value.isascii() and value.isdigit() and len(value) <= MOST_DIGITS
        if not (value in knob.values if knob.values else number):
            usable = ", ".join(knob.values) or f"a number of at most {MOST_DIGITS} digits"
            raise ValueError(f"{name}: '{value}' cannot be set; use {usable}")
        wanted[name] = value
    return wanted


def apply(session: Session, profile: str, system: Path = SYSTEM) -> Tuned:
    """Set what the profile says, as far as this machine can; never raises for what it cannot."""
    tuned = Tuned(profile)
    for name, value in parse(profile).items():
        knob = KNOBS[name]
        try:
            there = [pair for pair in knob.files(system, value) if pair[0].exists()]
        except ValueError as error:
            tuned.not_possible[name] = str(error)
            continue
        if not there:
            tuned.not_possible[name] = "this machine or kernel does not have it"
        for path, wanted in there:
            try:
                _set(session, knob, path, wanted, tuned)
            except OSError as error:
                tuned.not_possible[name] = f"{path}: {error.strerror}"
    return tuned


def _set(session: Session, knob: Knob, path: Path, wanted: str, tuned: Tuned) -> None:
    before = chosen_of(path.read_text())
    if before == wanted:
        tuned.unchanged.append(str(path))
        return
    entry = session.ledger.record(knob.entry(str(path), before, wanted))
    try:
        path.write_text(wanted + "\n")
    except OSError:
        with suppress(OSError):
            session.ledger.undo(entry)
        raise
    tuned.changed[str(path)] = [before, chosen_of(path.read_text())]
