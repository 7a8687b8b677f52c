"""The summary of a run that several machines have measured, machine by machine."""

from __future__ import annotations

from collections import defaultdict

import polars as pl

from switchmark.results.machine_id import MachineId, name_machines
from switchmark.results.origins import read_origins
from switchmark.results.query import RecordTable
from switchmark.results.rows import SummaryRow
from switchmark.results.run_directory import Run
from switchmark.results.summary import summarise


def rows_by_machine(run: Run, table: RecordTable) -> dict[str, list[SummaryRow]]:
    """The rows of each machine's own records, by its name (that of its testbed, in a pool)."""
    measured: dict[MachineId, list[str]] = defaultdict(list)
    for trial_id, origin in read_origins(run).items():
        measured[origin.machine].append(trial_id)
    names = name_machines(measured)
    return {
        names[machine]: summarise(run.directory, _only(table, trial_ids))
        for machine, trial_ids in measured.items()
    }


def _only(table: RecordTable, trial_ids: list[str]) -> RecordTable:
    return RecordTable(table.frame.filter(pl.col("trial_id").is_in(trial_ids)), table.problems)
