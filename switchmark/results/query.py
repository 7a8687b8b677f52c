"""Reads a results directory as a table, one row a record, through DuckDB.

DuckDB reads the files in batches of bounded size. It takes from each document a given list of
fields with given types, without the bulky raw samples. DuckDB's `read_json` is not used, because it
makes a vector for each column of every file, which is thirty times slower for many small files. An
invalid file is named in `RecordTable.problems`, never skipped silently.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path

import duckdb
import numpy as np
import polars as pl

from switchmark.errors import SwitchmarkError
from switchmark.model.trial import LATER_FIELDS
from switchmark.record.page_sizes import DPDK, DPDK_GENERATORS, DPDK_PORTS, HUGE_KIB
from switchmark.results.columns import COLUMNS, Column
from switchmark.results.documents import CorruptResultError, read_record
from switchmark.results.run_directory import open_run

FULL_CHECK_LIMIT = 2000  # up to this number of records, each is validated against the whole schema
_BATCH_BYTES = 16 << 20
_BATCH_FILES = 8192
_AT_ONCE = 16  # columns that are sorted at the same time


@dataclass(frozen=True, slots=True)
class RecordTable:
    """The records of a run as a polars frame, and a line for every refused file."""

    frame: pl.DataFrame
    problems: tuple[str, ...]


def read_table(run_directory: Path) -> RecordTable:
    """Return all current records of a run, one row each, in order of their start."""
    paths = open_run(run_directory).file_names()
    refused = refused_files(paths) if len(paths) <= FULL_CHECK_LIMIT else {}
    good = [path for path in paths if path not in refused]
    while True:  # again without the files that other processes changed meanwhile
        try:
            frame = select(good, COLUMNS)
            break
        except CorruptResultError as error:
            culprits = refused_files(good)
            if not culprits:
                raise SwitchmarkError(f"{run_directory}: {error}") from error
            refused |= culprits
            good = [path for path in good if path not in culprits]
    frame = _with_defaults(_with_page_sizes(frame))
    frame, unsound = _split_unsound(frame, good)
    problems = tuple(line for _, line in sorted((refused | unsound).items()))
    return RecordTable(_sorted(frame, "started_at", "file"), problems)


def _sorted(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Sort the frame a few columns at a time, so that the whole table is never in memory twice."""
    order = frame.select(pl.arg_sort_by(*by)).to_series()
    for begin in range(0, frame.width, _AT_ONCE):
        few = frame.columns[begin : begin + _AT_ONCE]
        frame = frame.with_columns(pl.col(few).gather(order))
    return frame


def _with_page_sizes(frame: pl.DataFrame) -> pl.DataFrame:
    """Add the page size to records that were made before trials had the key `page_size`."""
    uses_dpdk = (
        pl.col("port_kind").is_in(list(DPDK_PORTS))
        | (pl.col("io") == DPDK)
        | pl.col("generator").is_in(list(DPDK_GENERATORS))
        | pl.col("switch_hugepages_mb").is_not_null()
    )
    is_old = pl.col("page_size_set").is_null() & pl.col("page_size_kib").is_null()
    size = pl.when(is_old & uses_dpdk.fill_null(False)).then(HUGE_KIB).otherwise("page_size_kib")
    return frame.with_columns(size.cast(pl.Int64).alias("page_size_kib"))


def _with_defaults(frame: pl.DataFrame) -> pl.DataFrame:
    """Fill in the defaults of fields that older records lack."""
    return frame.with_columns(
        pl.col(name).fill_null(default)
        for name, default in LATER_FIELDS.items()
        if default is not None
    )


def select(paths: Sequence[str], columns: Sequence[Column]) -> pl.DataFrame:
    """Return the table of these files. A file without JSON gives a row of nulls. Raises
    CorruptResultError if a file was removed, a text is not UTF-8, or a value does not have the type
    of its column."""
    try:
        with connect() as connection:
            frames = [_batch(connection, batch, columns) for batch in _batches(paths)]
            if not frames:
                kinds = ", ".join(f'NULL::{column.kind} AS "{column.name}"' for column in columns)
                nothing = connection.sql(f"SELECT NULL::VARCHAR AS file, {kinds} LIMIT 0")
                return _frame(nothing)
    except (duckdb.Error, OSError) as error:
        raise CorruptResultError(f"records cannot be read: {error}") from error
    return pl.concat(frames, rechunk=False)


@dataclass(frozen=True, slots=True)
class _ArrowStream:
    """The rows of a query as an Arrow stream, without the other methods of a relation. Polars
    accepts DuckDB's relations but calls these methods, and DuckDB then prints leaks when the
    process ends. DuckDB's `pl()` and `to_arrow_table()` need pyarrow, which is larger than all
    other dependencies."""

    relation: duckdb.DuckDBPyRelation

    def __arrow_c_stream__(self, schema: object = None) -> object:
        return self.relation.__arrow_c_stream__(schema)


def _frame(relation: duckdb.DuckDBPyRelation) -> pl.DataFrame:
    """Return the rows. The query runs here, so that an error is a duckdb.Error and not one of
    Polars."""
    return pl.DataFrame(_ArrowStream(relation.materialize()))


def _batch(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[Column]
) -> pl.DataFrame:
    """Read a batch in the fast way, which fails for any invalid document or value; then in the slow
    way, which reports the error. To check JSON doubles the time, and to check types costs even
    more."""
    try:
        return _typed(_texts(connection, paths, columns), columns)
    except (duckdb.InvalidInputException, pl.exceptions.PolarsError):
        texts = f"({_places(columns, 'CASE WHEN json_valid(content) THEN content END')})"
        fields = ", ".join(
            f'{_expression(index, column)} AS "{column.name}"'
            for index, column in enumerate(columns, start=1)
        )
        sql = f"SELECT file, {fields} FROM {texts}"
        return _frame(connection.sql(sql, params=_files(paths)))


def _places(columns: Sequence[Column], content: str) -> str:
    """Return a query for the file, and the text at each column's place in the document."""
    places = ", ".join(f"'{column.place}'" for column in columns)
    return f"""
        SELECT filename AS file, json_extract_string({content}, [{places}]) AS found
        FROM read_text($paths)
    """


def _files(paths: Sequence[str]) -> dict[str, list[str]]:
    return {"paths": list(map(as_utf8, paths))}


def _texts(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[Column]
) -> pl.DataFrame:
    return _frame(connection.sql(_places(columns, "content"), params=_files(paths)))


def _typed(texts: pl.DataFrame, columns: Sequence[Column]) -> pl.DataFrame:
    """Return the texts of all columns, which follow each other, converted to their types."""
    found, width = texts["found"].explode(), len(columns)
    repeated = found[width:].eq_missing(found[:-width]).to_numpy()  # the text of the row before
    is_constant = np.logical_and.reduce(repeated.reshape(-1, width))
    typed = {"file": _copied(texts["file"])}
    constants = []
    for index, column in enumerate(columns):
        if column.kind != "VARCHAR[]" and is_constant[index]:
            constants.append(_constant(found[index], column.kind).alias(column.name))
        else:
            typed[column.name] = _cast(found.gather_every(width, index), column.kind)
    frame = pl.DataFrame(typed).with_columns(constants)
    return frame.select("file", *(column.name for column in columns))


@lru_cache(maxsize=1024)
def _constant(text: str | None, kind: str) -> pl.Expr:
    """Return a column with this value, stored once. Most columns of a run have one value or none,
    which would take 16 bytes a row as text and 8 bytes as a number."""
    series = _cast(pl.Series([text], dtype=pl.String), kind)
    return pl.lit(series[0], dtype=series.dtype)


def _cast(texts: pl.Series, kind: str) -> pl.Series:
    """The text as this DuckDB type. Raises PolarsError where it is not of the type."""
    match kind:
        case "BIGINT":
            return texts.cast(pl.Int64)
        case "DOUBLE":
            return texts.cast(pl.Float64)
        case "BOOLEAN":
            return texts.replace_strict({"true": True, "false": False}, return_dtype=pl.Boolean)
        case "VARCHAR[]":
            return texts.str.json_decode(pl.List(pl.String))
        case _:
            return _copied(texts)


def _copied(texts: pl.Series) -> pl.Series:
    """Return a copy of the texts, because a few short texts would keep the whole batch in
    memory."""
    return texts + ""


def _expression(index: int, column: Column) -> str:
    if column.kind.endswith("[]"):
        return f"CAST(CAST(found[{index}] AS JSON) AS {column.kind})"
    return f"CAST(found[{index}] AS {column.kind})"


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    """Yield files whose sizes sum to about `_BATCH_BYTES`, so that memory stays bounded."""
    batch: list[str] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += os.stat(path).st_size  # noqa: PTH116  (a Path object for each file is slow)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def refused_files(paths: Iterable[str]) -> dict[str, str]:
    """Return the files that are not valid records, each with the reason."""
    refused = {}
    for path in paths:
        try:
            read_record(Path(path))
        except CorruptResultError as error:
            refused[path] = str(error)
    return refused


def _split_unsound(
    frame: pl.DataFrame, paths: Sequence[str]
) -> tuple[pl.DataFrame, dict[str, str]]:
    """Separate the files that are not one complete record, each with the reason."""
    has_figure = pl.any_horizontal(
        pl.col("forwarded_pps", "completed_per_s", "rtt_mean_ns", "method_figures").is_not_null()
    )
    concluded = pl.all_horizontal(
        pl.col("valid", "marks", "limited_by", "oversubscribed").is_not_null()
    )
    mask = frame.select(
        (pl.col("schema_version") == 1)
        & pl.all_horizontal(
            pl.col("trial_id", "status", "started_at", "notation", "switch").is_not_null()
        )
        & pl.col("status").is_in(["finished", "failed"])
        & ((pl.col("status") == "failed") | (has_figure & concluded))
        & (pl.col("file").str.split("/").list.last() == pl.col("trial_id") + ".json")
    ).to_series()
    if len(frame) == len(paths) and mask.fill_null(False).all():
        return frame, {}  # as usual: no copy of the table, no set of all names
    sound = frame.filter(mask)
    accepted = set(sound["file"].to_list())
    missing = [path for path in paths if as_utf8(path) not in accepted]
    reasons = refused_files(missing)
    for path in missing:
        reasons.setdefault(path, f"{path}: is not one complete record; move the file away")
    return sound, reasons


def as_utf8(path: str) -> str:
    """Return a path in the form that DuckDB and polars need: text whose UTF-8 encoding is the name
    of the file. Python decodes names by the locale, so its text differs if the locale is not UTF-8.
    Raises SwitchmarkError for a name that is not UTF-8."""
    if path.isascii():
        return path
    try:
        return os.fsencode(path).decode("utf-8")
    except UnicodeDecodeError:
        raise SwitchmarkError(
            f"{path!a}: the name is not UTF-8; move the results to a folder whose name is"
        ) from None


def from_utf8(text: str) -> str:
    """Return a path of `as_utf8` in the form that Python's own functions need."""
    return text if text.isascii() else os.fsdecode(text.encode("utf-8"))


_MEMORY_LIMIT = "400MB"


def connect() -> duckdb.DuckDBPyConnection:
    """Return a separate connection, which its context closes; threads share the database.

    The connection has no progress bar, because DuckDB would print it on standard output after two
    seconds, in the middle of our tables and JSON."""
    connection = _database().cursor()
    with suppress(duckdb.InvalidInputException):  # a notebook has no progress bar
        connection.execute("SET enable_progress_bar = false")
    return connection


@cache
def _database() -> duckdb.DuckDBPyConnection:
    """Return the database, which is empty. It is closed before the interpreter ends, because DuckDB
    would otherwise print leaks."""
    atexit.register(_database.cache_clear)
    return duckdb.connect(
        config={"memory_limit": _MEMORY_LIMIT, "threads": 2, "preserve_insertion_order": False}
    )
