"""The limits of the figures of a run: marks, cores and ports, and rows with one repetition."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from switchmark.model.choices import Idle
from switchmark.record import Record
from switchmark.record.marks import MARKS
from switchmark.record.page_sizes import in_words
from switchmark.results.rows import SummaryRow

_MOST_PLACEMENTS = 6  # placements that are listed
_IDLE: dict[str, str] = {Idle.BATON: "baton (those on one core take turns)"}


@dataclass(frozen=True, slots=True)
class Caveat:
    """One limit of the figures. Each line is a complete statement."""

    title: str
    lines: tuple[str, ...]
    invalidates: bool = False
    mark: str = ""  # the name of the mark, if the caveat explains a mark


def caveats(rows: Sequence[SummaryRow], records: Sequence[Record]) -> list[Caveat]:
    """Return the placement, the marks with their meaning, and the rows that cannot be tested."""
    done = [row for row in rows if row.finished]
    result = []
    if placement := _placement(records):
        result.append(Caveat("Cores and ports", placement))
    names = dict.fromkeys(mark for row in done for mark in row.marks)
    for name in sorted(names, key=lambda n: not (n in MARKS and MARKS[n].invalidates)):
        bearers = [row for row in done if name in row.marks]
        share = _share(bearers, done)
        if name in MARKS:
            mark = MARKS[name]
            result.append(
                Caveat(mark.title, (f"{share}. {mark.explanation}",), mark.invalidates, name)
            )
        else:
            result.append(Caveat(name, (f"{share}. The records of these trials explain it.",)))
    compared = [row for row in done if not row.is_baseline] or done
    singles = sum(row.finished == 1 for row in compared)
    if singles:
        text = (
            f"{singles} of {len(compared)} rows have one repetition. They have no interval, "
            "and no difference from them can be tested. Set `repetitions` to 5 or more in the "
            "campaign."
        )
        result.append(Caveat("One repetition", (text,)))
    return result


def _share(bearers: Sequence[SummaryRow], done: Sequence[SummaryRow]) -> str:
    total = len(done)
    if len(bearers) == total:
        return "All rows" if total > 1 else "The only row"
    names = list(dict.fromkeys(row.contender for row in bearers))
    rows = "rows, baselines included" if any(row.is_baseline for row in done) else "rows"
    return f"{len(bearers)} of {total} {rows} ({', '.join(names)})"


def _placement(records: Sequence[Record]) -> tuple[str, ...]:
    """Return lines about cores, their users and the ports, from the records."""
    placements = [record.placement for record in records if record.placement is not None]
    if not placements:
        return ()
    cores = {
        core
        for p in placements
        for part in (p.switch_cores, p.bench_cores, *p.application_cores.values())
        for core in part
    }
    shared = sum(p.oversubscribed for p in placements)
    idle = ", ".join(_IDLE.get(name, name) for name in sorted({p.idle for p in placements}))
    lines = [
        f"{len(cores)} core{'' if len(cores) == 1 else 's'} used; oversubscribed in {shared} of "
        f"{len(placements)} trials; idle strategy of the applications (`idle`): {idle}"
    ]
    users: dict[str, dict[str, None]] = defaultdict(dict)
    for record in records:
        if record.placement is not None:
            users[record.placement.reason][record.trial.called] = None
    lines += [f"{', '.join(sorted(names))}: {reason}" for reason, names in users.items()][
        :_MOST_PLACEMENTS
    ]
    if ports := _by_value((r.trial.called, r.port_kind) for r in records):
        lines.append(f"Ports: {ports}")
    if modes := _by_value((r.trial.called, r.connect_mode) for r in records):
        lines.append(f"Connect modes: {modes}")
    pages = (
        (r.trial.called, in_words(r.page_size_kib)) for r in records if r.page_size_kib is not None
    )
    if page_sizes := _by_value(pages):
        lines.append(f"Memory pages of DPDK: {page_sizes}")
    lines += dict.fromkeys(text for r in records if r.granted for text in r.granted.differs)
    return tuple(f"{line}." for line in lines)


def _by_value(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Return values with the switches that used them: `veth (linux-bridge), vhost-user (bess)`."""
    users: dict[str, dict[str, None]] = defaultdict(dict)
    for switch, value in pairs:
        if value:
            users[value][switch] = None
    return ", ".join(f"{value} ({', '.join(sorted(names))})" for value, names in users.items())
