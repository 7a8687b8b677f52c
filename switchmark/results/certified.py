"""The certificate under which records were made, in a line for people."""

from __future__ import annotations

from collections.abc import Iterable

from switchmark.results.record import CertificateNote, Record

HOW = "run `switchmark certify`"


def certified(records: Iterable[Record]) -> str:
    """One line for all records of a report: since when the instruments are certified, or why not
    and how to certify them. Records are only as good as the worst: one record without a valid
    certificate makes the line say so, with the number of such records."""
    notes = [one.certificate for one in records if one.status == "finished"]
    if not notes:
        return f"not certified: nothing was measured; {HOW}"
    bad = [note for note in notes if _why_not(note)]
    if bad:
        how_many = "" if len(bad) == len(notes) else f"{len(bad)} of {len(notes)} trials: "
        helps = any(note is None or note.covers for note in bad)
        return f"not certified: {how_many}{_why_not(bad[0])}{f'; {HOW}' if helps else ''}"
    made = sorted({note.made_at[:10] for note in notes if note is not None})
    names = sorted({note.id for note in notes if note is not None})
    proven = {name.partition(":")[0] for note in notes if note is not None for name in note.proven}
    return (
        f"certified {' and '.join(made)} ({', '.join(names)}) until kernel, engine, microcode or "
        f"cores change: {', '.join(sorted(proven))}"
    )


def _why_not(note: CertificateNote | None) -> str:
    if note is None:
        return "there was no certificate for this port and I/O"
    if not note.covers:
        return f"the certificate of {note.made_at[:10]} is not about such trials ({note.why})"
    if not note.holds:
        return f"the certificate of {note.made_at[:10]} had expired ({note.why})"
    if note.refuted:
        return f"refuted: {', '.join(note.refuted)}"
    if note.undecided:
        return f"undecided: {', '.join(note.undecided)}"
    return "" if note.proven else "nothing could be tried on this machine"
