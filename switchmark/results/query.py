"""Read a results directory as a table, one row a record, through DuckDB.

DuckDB reads the files in batches of bounded size and takes from each document a stated list
of places with stated types, leaving the bulky raw samples behind. (Its `read_json` makes a
vector a column for every file, which is thirty times slower for many small files.) A file
that cannot be believed is named in `RecordTable.problems` and left out, never skipped in silence.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl

from switchmark.errors import SwitchmarkError
from switchmark.model.parameter import Parameter
from switchmark.model.parameters import PARAMETERS, RESOLVED_BY_PLAN
from switchmark.model.trial import LATER_FIELDS
from switchmark.results.between_hosts import BETWEEN_HOSTS_PLACES
from switchmark.results.quality_summary import QUALITY_PLACES
from switchmark.results.store import CorruptResultError, open_run, read_record
from switchmark.statistics.histogram import PERCENTILES, Histogram

FULL_CHECK_LIMIT = 2000  # up to so many records, each is validated against the whole schema
_MEMORY_LIMIT = "400MB"
_BATCH_BYTES = 16 << 20
_BATCH_FILES = 8192

CPU_NUMBERS = (
    *("applications_system_cores", "ksoftirqd_cores_used", "stolen_cores", "ns_per_frame"),
    *("beyond_wire_ns_per_frame", "switch_ns_per_frame", "mpps_per_core", "switch_busy_share"),
    *("switch_busy_cycles_per_frame", "switch_useful_ns_per_frame"),
)
HARDWARE_NUMBERS = (
    *("instructions_per_cycle", "cache_miss_ratio", "cycles_per_frame"),
    *("cache_misses_per_frame", "dtlb_misses_per_frame"),
)


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the table: where in the document (JSON pointer), and its type."""

    name: str
    place: str
    kind: str = "VARCHAR"


@dataclass(frozen=True, slots=True)
class RecordTable:
    """The records of a run as a polars frame, and a line for every file that was refused."""

    frame: pl.DataFrame
    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Histograms:
    """The two latency histograms of one trial."""

    trial_id: str
    actual: Histogram
    intended: Histogram


def read_table(run_directory: Path) -> RecordTable:
    """All current records of a run, one row each in order of their start."""
    paths = open_run(run_directory).file_names()
    refused = _refused(paths) if len(paths) <= FULL_CHECK_LIMIT else {}
    good = [path for path in paths if path not in refused]
    try:
        frame = _select(good, _COLUMNS)
    except duckdb.Error as error:
        culprits = _refused(good)
        if not culprits:
            raise SwitchmarkError(f"{run_directory}: cannot be read: {error}") from error
        refused |= culprits
        good = [path for path in good if path not in culprits]
        frame = _select(good, _COLUMNS)
    frame = _with_defaults(frame)
    frame, unsound = _split_unsound(frame, good)
    problems = tuple(line for _, line in sorted((refused | unsound).items()))
    return RecordTable(_sorted(frame, "started_at", "file"), problems)


def _sorted(frame: pl.DataFrame, *by: str) -> pl.DataFrame:
    """Column by column out of the frame, so that the whole table is never there twice."""
    order = frame.select(pl.arg_sort_by(*by)).to_series()
    return pl.DataFrame([frame.drop_in_place(name).gather(order) for name in frame.columns])


def _with_defaults(frame: pl.DataFrame) -> pl.DataFrame:
    """Records of before a field existed have its default."""
    return frame.with_columns(
        pl.col(name).fill_null(default)
        for name, default in LATER_FIELDS.items()
        if default is not None
    )


def read_histograms(run_directory: Path, trial_ids: Iterable[str]) -> Iterator[Histograms]:
    """The encoded latency histograms of these trials, in no particular order."""
    run = open_run(run_directory)
    frame = _select([str(run.path_of(trial_id)) for trial_id in trial_ids], _HISTOGRAM_COLUMNS)
    for row in frame.iter_rows(named=True):
        actual, intended = (Histogram(row[name]) for name in ("histogram", "intended_histogram"))
        yield Histograms(row["trial_id"], actual, intended)


def _select(paths: Sequence[str], columns: Sequence[_Column]) -> pl.DataFrame:
    """The frame of these files. Raises duckdb.Error for text that is not UTF-8 or a value
    that is not of its column's type; what is not JSON at all gives a row of nulls."""
    with _connection() as connection:
        frames = [_batch(connection, batch, columns) for batch in _batches(paths)]
        if not frames:
            kinds = ", ".join(f'NULL::{column.kind} AS "{column.name}"' for column in columns)
            nothing = connection.sql(f"SELECT NULL::VARCHAR AS file, {kinds} LIMIT 0")
            return pl.DataFrame(nothing.to_arrow_table())
    return pl.concat(frames, rechunk=False)


def _batch(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[_Column]
) -> pl.DataFrame:
    """The quick way, which stops at the first surprise; then the one that knows what to say: to
    ask whether a document is JSON costs as much again as to read it, and types cost more."""
    try:
        return _typed(_texts(connection, paths, columns), columns)
    except (duckdb.InvalidInputException, pl.exceptions.PolarsError):
        texts = f"({_places(columns, 'CASE WHEN json_valid(content) THEN content END')})"
        fields = ", ".join(
            f'{_expression(index, column)} AS "{column.name}"'
            for index, column in enumerate(columns, start=1)
        )
        sql = f"SELECT file, {fields} FROM {texts}"
        return pl.DataFrame(connection.sql(sql, params=_files(paths)).to_arrow_table())


def _places(columns: Sequence[_Column], content: str) -> str:
    """A query for the file, and the text at each column's place in the document."""
    places = ", ".join(f"'{column.place}'" for column in columns)
    return f"""
        SELECT filename AS file, json_extract_string({content}, [{places}]) AS found
        FROM read_text($paths)
    """


def _files(paths: Sequence[str]) -> dict[str, list[str]]:
    return {"paths": list(paths)}


def _texts(
    connection: duckdb.DuckDBPyConnection, paths: Sequence[str], columns: Sequence[_Column]
) -> pl.DataFrame:
    return pl.DataFrame(
        connection.sql(_places(columns, "content"), params=_files(paths)).to_arrow_table()
    )


def _typed(texts: pl.DataFrame, columns: Sequence[_Column]) -> pl.DataFrame:
    """The texts of all columns, which follow each other, column by column in their types."""
    found = texts["found"].explode()
    return pl.DataFrame(
        [
            _own(texts["file"]),
            *(
                _as(found.gather_every(len(columns), index), column.kind).alias(column.name)
                for index, column in enumerate(columns)
            ),
        ]
    )


def _as(texts: pl.Series, kind: str) -> pl.Series:
    """Raises PolarsError for a text that is not of this DuckDB type."""
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
            return _own(texts)


def _own(texts: pl.Series) -> pl.Series:
    """The same in memory of their own: else a few short texts hold all of the batch's."""
    return texts + ""


def _expression(index: int, column: _Column) -> str:
    if column.kind.endswith("[]"):
        return f"CAST(CAST(found[{index}] AS JSON) AS {column.kind})"
    return f"CAST(found[{index}] AS {column.kind})"


def _batches(paths: Sequence[str]) -> Iterator[list[str]]:
    """Files whose sizes sum to about `_BATCH_BYTES`, so that memory stays bounded."""
    batch: list[str] = []
    size = 0
    for path in paths:
        batch.append(path)
        size += os.stat(path).st_size  # noqa: PTH116  (a Path for each of many costs more)
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_FILES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _connection() -> duckdb.DuckDBPyConnection:
    """Without DuckDB's progress bar, which it prints on standard output after two seconds, where
    our tables and JSON are."""
    connection = duckdb.connect(
        config={"memory_limit": _MEMORY_LIMIT, "threads": 2, "preserve_insertion_order": False}
    )
    with suppress(duckdb.InvalidInputException):  # in a notebook there is none
        connection.execute("SET enable_progress_bar = false")
    return connection


def _refused(paths: Iterable[str]) -> dict[str, str]:
    """Files that are not valid records, with the line that says why."""
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
    """Check that every file gave one row with what every record must have."""
    has_figure = pl.any_horizontal(
        pl.col("forwarded_pps", "rtt_mean_ns", "method_figures").is_not_null()
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
    read = set(sound["file"].to_list())
    missing = [path for path in paths if path not in read]
    reasons = _refused(missing)
    for path in missing:
        reasons.setdefault(path, f"{path}: is not one complete record; move the file away")
    return sound, reasons


def _sql_type(parameter: Parameter) -> str:
    """The DuckDB type of a parameter; everything that is not a number is text."""
    kind = int if parameter.is_number and parameter.choices else parameter.value_type
    return {int: "BIGINT", float: "DOUBLE", bool: "BOOLEAN"}.get(kind, "VARCHAR")


def _record_columns() -> list[_Column]:
    plain = ("trial_id", "status", "message", "started_at", "notation")
    columns = [_Column("schema_version", "/schema_version", "BIGINT")]
    columns += [_Column(name, f"/{name}") for name in (*plain, *RESOLVED_BY_PLAN)]
    for name, one in PARAMETERS.items():
        alias = f"asked_{name}" if one.resolved else name
        columns.append(_Column(alias, f"/trial/{name}", _sql_type(one)))
    columns += [
        _Column("oversubscribed", "/placement/oversubscribed", "BOOLEAN"),
        _Column("idle_used", "/placement/idle"),
        _Column("switch_placed_on", "/placement/switch_cores"),
        _Column("limited_by", "/limit/what"),
        _Column("valid", "/verdict/valid", "BOOLEAN"),
        _Column("marks", "/verdict/marks", "VARCHAR[]"),
        _Column("steady_mean_pps", "/steady/mean_pps", "DOUBLE"),
        _Column("steady_rest_pps", "/steady/mean_without_outliers_pps", "DOUBLE"),
        _Column("steady_change_p", "/steady/change_p", "DOUBLE"),
        _Column("method_headline", "/method/headline"),
        _Column("method_figures", "/method/figures"),
        _Column("method_bounds", "/method/bounds"),
        _Column("method_notes", "/method/notes", "VARCHAR[]"),
        _Column("method_stopped", "/method/stopped"),
        _Column("method_trials", "/method/trial_count", "BIGINT"),
        _Column("method_spent_s", "/method/spent_s", "DOUBLE"),
        _Column("rtt_count", "/latency/count", "BIGINT"),
        _Column("rtt_lost", "/latency/lost", "BIGINT"),
    ]
    numbers = {
        "throughput": ("intended_pps", "offered_pps", "forwarded_pps", "forwarded_l2_bps",
                       "forwarded_l1_bps", "forwarded_stdev_pps", "loss_ratio"),
        "cpu": ("switch_cores_used", "applications_cores_used", "softirq_cores_used",
                "run_delay_share", "total_cores_used", *CPU_NUMBERS),
        "cpu/hardware": HARDWARE_NUMBERS,
        "cpu/energy": ("microjoules_per_frame",),
        "timing": ("measure_s", "overhead_s"),
    }  # fmt: skip
    for part, names in numbers.items():
        columns += [_Column(name, f"/{part}/{name}", "DOUBLE") for name in names]
    places = QUALITY_PLACES | BETWEEN_HOSTS_PLACES
    columns += [_Column(name, place, "DOUBLE") for name, place in places.items()]
    for name in ("min_ns", "mean_ns", "stdev_ns", "max_ns"):
        columns.append(_Column(f"rtt_{name}", f"/latency/{name}", "DOUBLE"))
    for name in ("mean_ns", "stdev_ns", "max_ns"):
        columns.append(_Column(f"intended_rtt_{name}", f"/latency/intended_{name}", "DOUBLE"))
    columns += [
        _Column("rtt_intervals", "/latency/percentile_intervals_ns"),
        _Column("intended_rtt_intervals", "/latency/intended_percentile_intervals_ns"),
    ]
    for prefix, part in (("rtt", "percentiles_ns"), ("intended_rtt", "intended_percentiles_ns")):
        columns += [
            _Column(f"{prefix}_p{name}_ns", f"/latency/{part}/{name}", "DOUBLE")
            for name in PERCENTILES
        ]
    return columns


_COLUMNS = _record_columns()
_HISTOGRAM_COLUMNS = (
    _Column("trial_id", "/trial_id"),
    _Column("histogram", "/latency/histogram"),
    _Column("intended_histogram", "/latency/intended_histogram"),
)
