"""The table of trials between hosts, as text cells: `show` and the report print the same.

Columns in which no row has a figure are left out, and rows without any, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from switchmark.report import words
from switchmark.results.between_hosts import BetweenHostsSummary


def _micro(value: float | None) -> str | None:
    return None if value is None else words.number(value / 1e3)


def _number(value: float | None) -> str | None:
    return None if value is None else words.number(value)


def _clock(ahead_ns: float | None, uncertainty_ns: float | None) -> str | None:
    """A clock's offset, rounded to its uncertainty."""
    if ahead_ns is None or uncertainty_ns is None:
        return None
    return f"{ahead_ns / 1e9:+.6f} s ± {words.number(uncertainty_ns / 1e3)} µs"


_Cell = Callable[[BetweenHostsSummary], str | None]
_COLUMNS: dict[str, _Cell] = {
    "one-way min µs": lambda one: _micro(one.one_way_min_ns),
    "p50": lambda one: _micro(one.one_way_p50_ns),
    "p99": lambda one: _micro(one.one_way_p99_ns),
    "all ±": lambda one: _micro(one.one_way_uncertainty_ns),
    "clock ahead by": lambda one: _clock(one.clock_ahead_ns, one.clock_uncertainty_ns),
    "afterwards": lambda one: _clock(one.clock_ahead_after_ns, one.clock_uncertainty_after_ns),
    "switch cores": lambda one: _number(one.far_switch_cores_used),
    "applications": lambda one: _number(one.far_applications_cores_used),
    "softirq": lambda one: _number(one.far_softirq_cores_used),
    "in all": lambda one: _number(one.far_total_cores_used),
    "ns a frame": lambda one: _number(one.far_ns_per_frame),
}
BETWEEN_HOSTS_TITLE = (
    "The other host: one-way times to it in µs with the uncertainty of the clocks, by how much its "
    "clock is ahead, and cores used there"
)


def between_hosts_table(
    found: Sequence[BetweenHostsSummary],
) -> tuple[list[str], dict[int, list[str]]]:
    """The headings, and the cells of each row that has any figure, by its index."""
    cells = [[show(one) for show in _COLUMNS.values()] for one in found]
    kept = [
        column for column in range(len(_COLUMNS)) if any(row[column] is not None for row in cells)
    ]
    names = list(_COLUMNS)
    return [names[column] for column in kept], {
        index: [row[column] or "-" for column in kept]
        for index, row in enumerate(cells)
        if any(cell is not None for cell in row)
    }
