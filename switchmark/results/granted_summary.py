"""Resources that the place granted to the repetitions of a trial."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from switchmark.results.groups import Records

BUFFERS, SCHEDULING = "mixed-socket-buffers", "mixed-scheduling"  # marks


@dataclass(frozen=True, slots=True)
class GrantedSummary:
    """The different values over the repetitions, as text. An empty tuple: not applicable, or the
    records are older."""

    receive_buffer_bytes: tuple[str, ...]
    send_buffer_bytes: tuple[str, ...]
    applications_class: tuple[str, ...]
    switch_class: tuple[str, ...]
    place: tuple[str, ...]  # kind of place


def summarise_granted(records: Records) -> GrantedSummary:
    """Summarise the granted resources of these records."""
    values = {
        name: tuple(sorted({str(value) for value in records.known(name)}))
        for name in GrantedSummary.__dataclass_fields__
    }
    return GrantedSummary(**values)


def mixed(compared: list[GrantedSummary]) -> list[str]:
    """Return the marks for a comparison of these rows."""

    def several(*names: str) -> bool:
        return any(
            len({*chain(*(getattr(summary, name) for summary in compared))}) > 1 for name in names
        )

    checks = {
        BUFFERS: several("receive_buffer_bytes", "send_buffer_bytes"),
        SCHEDULING: several("applications_class", "switch_class"),
    }
    return [mark for mark, holds in checks.items() if holds]
