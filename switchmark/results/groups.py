"""Records that differ only in the repetition, from the table of a run, and the fields in which
test points differ.

The table is read in the order of the campaign, in slices and by columns, because a hundred thousand
rows as Python dictionaries would need many times the time and the memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from switchmark.model.parameter_table import KEYS, RESOLVED_BY_PLAN
from switchmark.record.page_sizes import Point
from switchmark.statistics.means import LEVEL, Estimate, estimate

if TYPE_CHECKING:
    import polars as pl  # loaded when a table is read, because `run` needs rows much earlier


def differing(points: Iterable[Point]) -> list[str]:
    """Return the fields that differ between these test points."""
    values: dict[str, set[str]] = {}
    for point in points:
        for name, value in point:
            values.setdefault(name, set()).add(str(value))
    return [name for name, different in values.items() if len(different) > 1]


_SLICE_ROWS = 1024


class Columns(Protocol):
    """Columns by their names, as a dictionary has them."""

    def get(self, name: str, /) -> Sequence[Any] | None:
        """Return the values of a column, one for each row; None for an unknown column."""


class _Slice:
    """Some rows of the table. A column becomes a list when it is first read, because a summary
    reads only half of the 150 columns."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame
        self._made: dict[str, list[Any] | None] = {}

    def get(self, name: str, /) -> list[Any] | None:
        """See `Columns`."""
        if name not in self._made:
            column = self._frame.get_column(name, default=None)
            self._made[name] = None if column is None else column.to_list()
        return self._made[name]


class Records:
    """Some rows of the table of results, by column."""

    __slots__ = ("_columns", "_rows", "level")

    def __init__(self, columns: Columns, rows: range | Sequence[int]) -> None:
        self._columns = columns
        self._rows = rows
        self.level = LEVEL  # level of intervals; stricter after several interim analyses

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Sequence[Any]:
        """Return one value for each record, None for a missing value; all None for an unknown
        column."""
        values = self._columns.get(name)
        if values is None:
            return [None] * len(self._rows)
        if isinstance(self._rows, range):
            return values[self._rows.start : self._rows.stop]
        return [values[row] for row in self._rows]

    def known(self, name: str) -> list[Any]:
        """Return the values of the records that have one."""
        return [value for value in self.column(name) if value is not None]

    def has(self, name: str) -> bool:
        """Return True if there are records and each has a value."""
        return len(self._rows) > 0 and None not in self.column(name)

    def over(self, name: str) -> Estimate:
        """Return mean, median and interval of a column of numbers that every record has."""
        return estimate(self.column(name), self.level)

    def first(self, name: str) -> Any:
        """Return a column's value in the first record. Raises IndexError if there is no record."""
        values = self._columns.get(name)
        return None if values is None else values[self._rows[0]]

    def last(self, name: str) -> Any:
        """Return a column's value in the last record. Raises IndexError if there is no record."""
        values = self._columns.get(name)
        return None if values is None else values[self._rows[-1]]


@dataclass(frozen=True, slots=True)
class Group:
    """The repetitions of one trial."""

    finished: Records
    failed: Records


def groups(frame: pl.DataFrame) -> Iterator[list[Group]]:
    """Group records by the requested parameters and by the modes used. A failed trial may lack its
    modes; it joins the first group with the same requested parameters.

    Yields the groups of one slice of the table at a time, so that only this slice is in memory."""
    import polars as pl

    requested = [
        f"asked_{parameter.field}"
        if f"asked_{parameter.field}" in frame.columns
        else parameter.field
        for parameter in KEYS
    ]
    different = frame.select(pl.col(requested).n_unique()).row(0)
    varying = [name for name, count in zip(requested, different, strict=True) if count > 1]
    order = frame.select(
        pl.arg_sort_by(*varying, "repetition", "started_at", maintain_order=True)
    ).to_series()
    for start, bounds in _slices(_bounds(frame, varying, order)):
        columns = _Slice(frame[order[start : bounds[-1]]])
        begins = (start, *bounds[:-1])
        yield [
            group
            for begin, end in zip(begins, bounds, strict=True)
            for group in _group_by_modes(columns, range(begin - start, end - start))
        ]


def _bounds(frame: pl.DataFrame, varying: Sequence[str], order: pl.Series) -> list[int]:
    """Return the ends of the groups, as positions in the order."""
    import polars as pl

    if not len(order):
        return []
    changes = pl.repeat(False, len(order), eager=True)
    for name in varying:
        values = frame[name].gather(order)
        changes |= values.ne_missing(values.shift(1))
    return [end for end in changes.arg_true().to_list() if end > 0] + [len(order)]


def _slices(bounds: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Yield slices of whole groups with about a thousand rows: the start, and the ends of
    groups."""
    start, ends = 0, list[int]()
    for end in bounds:
        ends.append(end)
        if end - start >= _SLICE_ROWS:
            yield start, ends
            start, ends = end, []
    if ends:
        yield start, ends


def _group_by_modes(columns: Columns, rows: range) -> Iterator[Group]:
    failed: list[int] = []
    by_done: dict[tuple[Any, ...], list[int]] = {}
    every = Records(columns, rows)
    columns_done = (*RESOLVED_BY_PLAN, "page_size_kib")
    done = zip(*map(every.column, columns_done), strict=True)
    for row, status, modes in zip(rows, every.column("status"), done, strict=True):
        if status == "failed":
            failed.append(row)
        else:
            by_done.setdefault(modes, []).append(row)
    finished = list(by_done.values())
    if not failed and len(finished) == 1:
        yield Group(Records(columns, rows), Records(columns, ()))
        return
    yield Group(Records(columns, finished[0] if finished else ()), Records(columns, failed))
    for group in finished[1:]:
        yield Group(Records(columns, group), Records(columns, ()))
