"""One line about the certificates under which the records of a report were made."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from pydantic import ValidationError

from switchmark.record import CertificateNote, Record
from switchmark.results.rows import SummaryRow

HOW = "run `switchmark certify`"
Note = CertificateNote | None


def of_records(records: Iterable[Record]) -> Iterator[Note]:
    """Return the notes of the finished records."""
    return (record.certificate for record in records if record.status == "finished")


def of_rows(rows: Iterable[SummaryRow]) -> Iterator[Note]:
    """Return the notes of all repetitions."""
    return of_texts(text for row in rows for text, count in row.certificates for _ in range(count))


def of_texts(texts: Iterable[str | None]) -> Iterator[Note]:
    """Return the notes of a column of the table of a run; None for an invalid note."""
    return map(_read, texts)


@lru_cache(maxsize=256)
def _read(text: str | None) -> Note:
    try:
        return None if text is None else CertificateNote.model_validate_json(text)
    except ValidationError:
        return None


def certified(certificates: Iterable[Note]) -> str:
    """Return one line for all records of a report: the date of the certificates, or the reason why
    there is none and the remedy. A single record without a valid certificate turns the line into
    the reason, with the number of such records."""
    notes = list(certificates)
    if not notes:
        return f"not certified: nothing was measured; {HOW}"
    bad = [note for note in notes if _why_not(note)]
    if bad:
        how_many = "" if len(bad) == len(notes) else f"{len(bad)} of {len(notes)} trials: "
        helps = any(note is None or note.covers for note in bad)
        return f"not certified: {how_many}{_why_not(bad[0])}{f'; {HOW}' if helps else ''}"
    good = [note for note in notes if note is not None]
    dates, names = sorted({note.made_at[:10] for note in good}), sorted({note.id for note in good})
    proven = {name.partition(":")[0] for note in good for name in note.proven}
    return (
        f"certified {' and '.join(dates)} ({', '.join(names)}) until switchmark, kernel, engine, "
        f"microcode or cores change: {', '.join(sorted(proven))}"
    )


def _why_not(note: Note) -> str:
    if note is None:
        return "this machine had no certificate for the port kinds and I/O of these trials"
    if not note.covers:
        return f"the certificate of {note.made_at[:10]} does not cover such trials ({note.why})"
    if not note.holds:
        return f"the certificate of {note.made_at[:10]} had expired ({note.why})"
    if note.refuted:
        return f"refuted: {', '.join(note.refuted)}"
    if note.undecided:
        return f"undecided: {', '.join(note.undecided)}"
    return "" if note.proven else "nothing could be tried on this machine"
