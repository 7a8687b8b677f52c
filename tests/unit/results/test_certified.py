"""Each output with figures has one line that states whether their generators were certified:
`show`, every form of `compare`, the forms of standards, pages of papers."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.cli import main
from switchmark.record import CertificateNote, Record
from switchmark.report.form import Form, form_text
from switchmark.results.certified import HOW, certified, of_records, of_rows
from switchmark.results.query import read_table
from switchmark.results.run_directory import open_run
from switchmark.results.summary import summarise
from tests.unit.records import (
    quick_records,
    synthetic_failure,
    synthetic_record,
    synthetic_trial,
    write_run,
)

NOTE = CertificateNote(
    id="0123abcd", made_at="2026-01-02T03:04:05Z", outcome="proven", holds=True, proven=["rate: f"]
)
UNCERTIFIED = (
    "not certified: this machine had no certificate for the port kinds and I/O of these trials; "
    f"{HOW}"
)
CERTIFIED = (
    "certified 2026-01-02 (0123abcd) until switchmark, kernel, engine, microcode or cores "
    "change: rate"
)


def noted(records: list[Record], note: CertificateNote | None = NOTE) -> list[Record]:
    return [record.model_copy(update={"certificate": note}) for record in records]


@pytest.mark.parametrize(("note", "line"), [(None, UNCERTIFIED), (NOTE, CERTIFIED)])
def test_tables_and_forms_contain_the_certificate_line(
    note: CertificateNote | None, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    records = noted(quick_records(5), note)
    run, other = (str(write_run(tmp_path / name, records)) for name in "ab")
    capsys.readouterr()

    def output(*arguments: str) -> str:
        assert main.run(list(arguments)) in (0, 5), capsys.readouterr().err
        return "".join(capsys.readouterr())

    shown = " ".join(output("show", run).split())
    assert f"{line[0].upper()}{line[1:]}".removesuffix(f"; {HOW}") in shown
    assert f"A, B: {line}" in output("compare", run, other)
    assert f"{run}, {other}: {line}" in output("compare", run, other, run)
    assert line in output("compare", run, "--contenders", "ovs-dpdk", "basicfwd")
    for form in Form:
        assert f"Instruments: {line}" in form_text(form, open_run(Path(run)).info, records)


def test_table_counts_uncertified_trials_as_records_do(tmp_path: Path) -> None:
    expired = NOTE.model_copy(update={"holds": False, "why": "kernel was 1 and is 2"})
    records = quick_records(3)
    records = [*noted(records[:4]), *noted(records[4:6], expired), *noted(records[6:], None)]
    records.append(synthetic_failure(synthetic_trial(packet_size_bytes=128)))
    folder = write_run(tmp_path, records)
    by_rows = certified(of_rows(summarise(folder, read_table(folder))))
    due = f"not certified: {len(records) - 5} of {len(records) - 1} trials: "
    assert by_rows.startswith(due) and certified(of_records(records)).startswith(due)


def test_invalid_note_counts_as_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("switchmark.results.query.FULL_CHECK_LIMIT", 0)  # as of a large run
    folder = write_run(tmp_path, noted([synthetic_record()]))
    (path,) = map(Path, open_run(folder).file_names())
    path.write_text(path.read_text().replace('"0123abcd"', "[7]"))
    assert certified(of_rows(summarise(folder, read_table(folder)))) == UNCERTIFIED
