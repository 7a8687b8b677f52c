"""The answer in words: which switch is best at which size, how sure that is, and what to mind."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from switchmark.formatting import amount, format_ns, number, percent, scale_of, with_prefix
from switchmark.model.choices import Dimension
from switchmark.record import Record
from switchmark.record.marks import MARKS
from switchmark.record.page_sizes import in_words
from switchmark.report import words
from switchmark.results.ranking import Comparison, compare, headline
from switchmark.results.rows import SummaryRow

_SPELT_OUT = 6  # points of one dimension that get a sentence each; beyond, they are grouped
_REASONS = 6  # placements that are told apart


@dataclass(frozen=True, slots=True)
class Answer:
    """One finding: where, who, how much, and how it relates to the others."""

    where: str
    winner: str
    figure: str
    rivals: tuple[tuple[str, str, str], ...]  # name, figure, how far behind
    detail: str
    proven: bool  # ahead of every other one by a significant difference, or alone
    marks: tuple[str, ...] = ()  # trust marks of the winner's number


@dataclass(frozen=True, slots=True)
class Caveat:
    """One caveat about the numbers; each line is a statement of its own."""

    title: str
    lines: tuple[str, ...]
    invalidates: bool = False
    mark: str = ""  # the trust mark it is about


def answers(rows: Sequence[SummaryRow], dimension: Dimension) -> list[Answer]:
    """The findings on throughput or latency: the best points one by one, then the others in
    groups."""
    comparisons = compare([row for row in rows if row.trial.dimension is dimension])
    if len(comparisons) <= _SPELT_OUT:
        return [_spelt_out(one, _where(one, comparisons)) for one in comparisons]
    winners: dict[str, list[Comparison]] = defaultdict(list)
    for one in comparisons:
        winners[one.best.contender].append(one)
    grouped = []
    for winner, won in sorted(winners.items(), key=lambda item: -len(item[1])):
        sure = sum(all(d.significant for _, d in one.others) for one in won if one.others)
        values = sorted(headline(one.best).mean for one in won)
        tested = sum(bool(one.others) for one in won)
        grouped.append(
            Answer(
                where=f"{len(won)} of {len(comparisons)} points",
                winner=winner,
                rivals=(),
                figure=f"{_amount(values[0], dimension)} to {_amount(values[-1], dimension)}",
                detail=f"Ahead of every other switch by a significant difference at {sure} of the "
                f"{tested} points with others to compare: "
                + "; ".join(_where(one, comparisons) for one in won[:12])
                + (" ..." if len(won) > 12 else "")
                + ".",
                proven=sure == tested,
                marks=tuple(dict.fromkeys(mark for one in won for mark in one.best.marks)),
            )
        )
    return grouped


def caveats(rows: Sequence[SummaryRow], records: Sequence[Record]) -> list[Caveat]:
    """Trust marks with their meaning, placement, and what keeps rows from being compared."""
    done = [row for row in rows if row.finished]
    found = []
    if placed := _placement(records):
        found.append(Caveat("Where it ran", placed))
    names = dict.fromkeys(mark for row in done for mark in row.marks)
    for name in sorted(names, key=lambda n: not (n in MARKS and MARKS[n].invalidates)):
        bearers = [row for row in done if name in row.marks]
        who = _who(bearers, len(done))
        if name in MARKS:
            mark = MARKS[name]
            found.append(
                Caveat(mark.title, (f"{who}. {mark.explanation}",), mark.invalidates, name)
            )
        else:
            found.append(Caveat(name, (f"{who}. The records of these trials explain it.",)))
    singles = sum(row.finished == 1 for row in done)
    if singles:
        text = (
            f"{singles} of {len(done)} rows rest on one repetition: they have no confidence "
            "interval, and no difference from them can be called significant. "
            "Raise repetitions in the campaign."
        )
        found.append(Caveat("Measured once", (text,)))
    return found


def _spelt_out(one: Comparison, where: str) -> Answer:
    best = headline(one.best)
    latency = one.best.latency is not None
    scale, unit = (1e3, "µs") if latency else scale_of(best.mean, "pps")
    figure = _amount(best.mean, one.best.trial.dimension)
    if one.best.throughput is not None:
        bits = one.best.throughput.forwarded_l2_bps.mean
        figure += f", {with_prefix(bits, 'bit/s')} L2"
    how = "longer" if latency else "less"
    same = "" if one.best.trial.rate_pps is None else " of the same rate"  # not all it could
    rivals = tuple(
        (
            row.contender,
            _amount(headline(row).mean, row.trial.dimension),
            f"{number(difference.ratio)} times {how}, {difference.note}",
        )
        for row, difference in one.others
    )
    rivals += tuple(
        (row.contender, "not ranked", "its number is not valid") for row in one.left_out
    )
    detail = [words.interval(best, scale, unit)]
    level = [row.contender for row, difference in one.others if not difference.significant]
    if level:
        detail.insert(0, f"no proven lead over {', '.join(level)}")
    if one.baseline is not None and (wire := headline(one.baseline).mean):
        detail.append(
            f"the bare wire takes {format_ns(wire)}"
            if latency
            else f"{percent(best.mean / wire)} of what the bare wire carries{same}"
        )
    return Answer(
        where, one.best.contender, figure, rivals, "; ".join(detail), not level, one.best.marks
    )


def _where(one: Comparison, comparisons: Sequence[Comparison]) -> str:
    return words.point(dict(one.point), words.varying_fields([other.best for other in comparisons]))


def _amount(value: float, dimension: Dimension) -> str:
    return amount(value, "ns" if dimension is Dimension.LATENCY else "pps")


def _who(bearers: Sequence[SummaryRow], total: int) -> str:
    if len(bearers) == total:
        return "All rows" if total > 1 else "The only row"
    names = list(dict.fromkeys(row.contender for row in bearers))
    return f"{len(bearers)} of {total} rows ({', '.join(names)})"


def _placement(records: Sequence[Record]) -> tuple[str, ...]:
    """A line about cores, their users and the ports, from the records themselves."""
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
    lines = [
        f"{len(cores)} core{'' if len(cores) == 1 else 's'} used; oversubscribed in {shared} of "
        f"{len(placements)} trials; idle strategy {', '.join(sorted({p.idle for p in placements}))}"
    ]
    users: dict[str, dict[str, None]] = defaultdict(dict)
    for record in records:
        if record.placement is not None:
            users[record.placement.reason][record.trial.called] = None
    lines += [f"{', '.join(sorted(who))}: {reason}" for reason, who in users.items()][:_REASONS]
    if ports := _by_value((r.trial.called, r.port_kind) for r in records):
        lines.append(f"Ports: {ports}")
    if modes := _by_value((r.trial.called, r.connect_mode) for r in records):
        lines.append(f"Connect modes: {modes}")
    pages = (
        (r.trial.called, in_words(r.page_size_kib)) for r in records if r.page_size_kib is not None
    )
    if found := _by_value(pages):
        lines.append(f"DPDK's memory: {found}")
    lines += dict.fromkeys(one for r in records if r.granted for one in r.granted.differs)
    return tuple(f"{line}." for line in lines)


def _by_value(pairs: Iterable[tuple[str, str | None]]) -> str:
    """Switches by what they used: `veth (linux-bridge), vhost-user (ovs-dpdk)`."""
    users: dict[str, dict[str, None]] = defaultdict(dict)
    for switch, value in pairs:
        if value:
            users[value][switch] = None
    return ", ".join(f"{value} ({', '.join(sorted(names))})" for value, names in users.items())
