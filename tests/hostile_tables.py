"""Readers of the tables of a run with untrusted records, which are checked one by one or, if there
are many, only in part."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any
from unittest import mock

from switchmark.results import query
from switchmark.results.origins import read_origins
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summarise
from tests.hostile_inputs import BAD, SCRATCH, Reader, altered
from tests.unit.records import quick_records, synthetic_record, write_run

NONE = -1  # no record is checked against the whole schema
RECORDS = [synthetic_record().model_dump(mode="json")]
RECORDS += [record.model_dump(mode="json") for record in quick_records(1)[:1]]


def _tables(limit: int) -> Callable[[Any], None]:
    def read(document: Any) -> None:
        folder = SCRATCH / f"tables{limit}"
        run = next(iter(folder.glob("*/run.json")), None)
        directory = run.parent if run else write_run(folder, [])
        for path in (directory / "trials").iterdir():
            path.unlink()
        for record, content in zip(RECORDS, (document, *RECORDS[1:]), strict=True):
            (directory / "trials" / f"{record['trial_id']}.json").write_text(json.dumps(content))
        with mock.patch.object(query, "FULL_CHECK_LIMIT", limit):
            summarise(directory, query.read_table(directory))
        read_origins(open_run(directory))

    return read


TABLES = {
    "tables of a run": Reader(_tables(query.FULL_CHECK_LIMIT), altered(RECORDS[0]), BAD),
    "tables of many records": Reader(_tables(NONE), altered(RECORDS[0]), BAD),
}
