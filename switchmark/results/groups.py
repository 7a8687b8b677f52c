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
    import polars as pl  # read when there is a table: `run` knows rows long before


def differing(points: Iterable[Point]) -> list[str]:
    """The fields that have not the same value in all of these points."""
    seen: dict[str, set[str]] = {}
    for one in points:
        for name, value in one:
            seen.setdefault(name, set()).add(str(value))
    return [name for name, values in seen.items() if len(values) > 1]


_SLICE_ROWS = 1024


class Columns(Protocol):
    """Columns by their names, as a dictionary has them."""

    def get(self, name: str, /) -> Sequence[Any] | None:
        """The values of a column, a row each; None for an unknown one."""


class _Slice:
    """Some rows of the table. A column becomes a list when it is first read: a summary reads half
    of the hundred and fifty."""

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
        self.level = LEVEL  # of intervals: stricter where the campaign looked again and again

    def __len__(self) -> int:
        return len(self._rows)

    def column(self, name: str) -> Sequence[Any]:
        """One value a record, None where a record has none; all None for an unknown column."""
        values = self._columns.get(name)
        if values is None:
            return [None] * len(self._rows)
        if isinstance(self._rows, range):
            return values[self._rows.start : self._rows.stop]
        return [values[row] for row in self._rows]

    def known(self, name: str) -> list[Any]:
        """The values of the records that have one."""
        return [value for value in self.column(name) if value is not None]

    def has(self, name: str) -> bool:
        """Whether there are records and each has a value."""
        return len(self._rows) > 0 and None not in self.column(name)

    def over(self, name: str) -> Estimate:
        """Mean, median and interval of a column of numbers that every record has."""
        return estimate(self.column(name), self.level)

    def first(self, name: str) -> Any:
        """A column's value in the first record. Raises IndexError where there is none."""
        values = self._columns.get(name)
        return None if values is None else values[self._rows[0]]

    def last(self, name: str) -> Any:
        """A column's value in the last record. Raises IndexError where there is none."""
        values = self._columns.get(name)
        return None if values is None else values[self._rows[-1]]


@dataclass(frozen=True, slots=True)
class Group:
    """The repetitions of one trial."""

    finished: Records
    failed: Records


def groups(frame: pl.DataFrame) -> Iterator[list[Group]]:
    """Group records by what was asked *and* what was done; failures, of which less is known, join
    the first group that asked the same.

    Yields the groups of one slice of the table at a time, so that only this slice is held."""
    import polars as pl

    asked = [
        f"asked_{one.field}" if f"asked_{one.field}" in frame.columns else one.field for one in KEYS
    ]
    different = frame.select(pl.col(asked).n_unique()).row(0)
    varying = [name for name, count in zip(asked, different, strict=True) if count > 1]
    order = frame.select(
        pl.arg_sort_by(*varying, "repetition", "started_at", maintain_order=True)
    ).to_series()
    for start, bounds in _slices(_bounds(frame, varying, order)):
        columns = _Slice(frame[order[start : bounds[-1]]])
        begins = (start, *bounds[:-1])
        yield [
            group
            for begin, end in zip(begins, bounds, strict=True)
            for group in _by_what_was_done(columns, range(begin - start, end - start))
        ]


def _bounds(frame: pl.DataFrame, varying: Sequence[str], order: pl.Series) -> list[int]:
    """The ends of the groups, as positions in the order."""
    import polars as pl

    if not len(order):
        return []
    changes = pl.repeat(False, len(order), eager=True)
    for name in varying:
        values = frame[name].gather(order)
        changes |= values.ne_missing(values.shift(1))
    return [end for end in changes.arg_true().to_list() if end > 0] + [len(order)]


def _slices(bounds: Sequence[int]) -> Iterator[tuple[int, list[int]]]:
    """Slices of whole groups, a thousand rows each: where each starts and ends."""
    start, ends = 0, list[int]()
    for end in bounds:
        ends.append(end)
        if end - start >= _SLICE_ROWS:
            yield start, ends
            start, ends = end, []
    if ends:
        yield start, ends


def _by_what_was_done(columns: Columns, rows: range) -> Iterator[Group]:
    failed: list[int] = []
    by_done: dict[tuple[Any, ...], list[int]] = {}
    every = Records(columns, rows)
    columns_done = (*RESOLVED_BY_PLAN, "page_size_kib")
    done = zip(*map(every.column, columns_done), strict=True)
    for row, status, what in zip(rows, every.column("status"), done, strict=True):
        if status == "failed":
            failed.append(row)
        else:
            by_done.setdefault(what, []).append(row)
    finished = list(by_done.values())
    if not failed and len(finished) == 1:
        yield Group(Records(columns, rows), Records(columns, ()))
        return
    yield Group(Records(columns, finished[0] if finished else ()), Records(columns, failed))
    for group in finished[1:]:
        yield Group(Records(columns, group), Records(columns, ()))
