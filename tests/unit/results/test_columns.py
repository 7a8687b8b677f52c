"""The columns that the index of a store takes from a record are those that DuckDB takes."""

from __future__ import annotations

import json
from pathlib import Path

from switchmark.results.columns import COLUMNS, columns_of
from switchmark.results.query import read_table
from tests.unit.records import quick_records, synthetic_failure, synthetic_trial, write_run


def test_a_records_columns_are_those_of_the_table(tmp_path: Path) -> None:
    failed = synthetic_failure(synthetic_trial(packet_size_bytes=128), 'a "quoted"\tmessage ä')
    records = {record.trial_id: record for record in [failed, *quick_records(2)]}
    table = read_table(write_run(tmp_path, list(records.values())))
    assert table.problems == ()
    for row in table.frame.iter_rows(named=True):
        document = records[row["trial_id"]].model_dump(mode="json")
        found = columns_of(json.loads(json.dumps(document)))
        assert found == {
            column.name: row[column.name] for column in COLUMNS if row[column.name] is not None
        }
