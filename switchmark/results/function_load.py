"""The load of a function's tables in each repetition of a row: time, entries and memory."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from switchmark.results.groups import Records

# column of the table of records -> its place in the document, and its type
FUNCTION_COLUMNS = {
    "function_announced": ("/function/announced", "VARCHAR"),
    "function_load_time_s": ("/function/load_time_s", "DOUBLE"),
    "function_memory_before_kib": ("/function/memory_before_kib", "BIGINT"),
    "function_memory_after_kib": ("/function/memory_after_kib", "BIGINT"),
    "function_memory_is_kernel": ("/function/memory_is_kernel", "BOOLEAN"),
    "function_memory_kib": ("/function/memory_kib", "BIGINT"),
    "function_hugepages_kib": ("/function/hugepages_kib", "BIGINT"),
    "function_loads_at_start": ("/function/loads_at_start", "BOOLEAN"),
    "policing_error": ("/function/policing/error", "DOUBLE"),
    "policing_unjudged": ("/function/policing/unjudged", "VARCHAR"),
}


@dataclass(frozen=True, slots=True)
class FunctionLoad:
    """The tables of one repetition, and the judgement of its policer."""

    entries: int  # native entries
    load_time_s: float
    table_memory_kib: int | None  # growth while the tables were loaded; None: unknown
    memory_is_kernel: bool  # `table_memory_kib` is that of the kernel, of all programs
    process_kib: int | None  # memory of the processes with their hugepages; None: in the kernel
    loads_at_start: bool  # `load_time_s` has further work in it
    policing_error: float | None  # relative; None: without a policer, or not judged
    policing_unjudged: str | None  # the reason


def summarise_function_loads(records: Records) -> tuple[FunctionLoad, ...]:
    """Return the load of each repetition that had a function."""
    columns = (records.column(name) for name in FUNCTION_COLUMNS)
    return tuple(_load(*values) for values in zip(*columns, strict=True) if values[0] is not None)


def _load(
    announced: str, load_time_s: float | None, before_kib: int | None, after_kib: int | None,
    is_kernel: bool | None, resident_kib: int | None, hugepages_kib: int | None,
    loads_at_start: bool | None, error: float | None, unjudged: str | None,
) -> FunctionLoad:  # fmt: skip
    memory_kib = None if before_kib is None or after_kib is None else after_kib - before_kib
    return FunctionLoad(
        entries=_total(json.loads(announced)),
        load_time_s=load_time_s or 0.0,
        table_memory_kib=memory_kib,
        memory_is_kernel=bool(is_kernel),
        process_kib=None if resident_kib is None else resident_kib + (hugepages_kib or 0),
        loads_at_start=bool(loads_at_start),
        policing_error=error,
        policing_unjudged=unjudged,
    )


def _total(announced: Any) -> int:
    """Return the sum of the counts; a record of somebody else may have other values."""
    if not isinstance(announced, dict):
        return 0
    return sum(count for count in announced.values() if isinstance(count, int))
