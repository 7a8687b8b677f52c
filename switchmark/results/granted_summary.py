"""What the place granted all repetitions of a trial; several values where it was not the same."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain

from switchmark.results.groups import Records

BUFFERS, SCHEDULING = "mixed-socket-buffers", "mixed-scheduling"  # marks


@dataclass(frozen=True, slots=True)
class GrantedSummary:
    """The different values over the repetitions, as text; none: it does not apply, or the records
    are older."""

    receive_buffer_bytes: tuple[str, ...]
    send_buffer_bytes: tuple[str, ...]
    applications_class: tuple[str, ...]
    switch_class: tuple[str, ...]
    place: tuple[str, ...]  # the kind of it


def summarise_granted(records: Records) -> GrantedSummary:
    """The values of these records."""
    values = {
        name: tuple(sorted({str(one) for one in records.known(name)}))
        for name in GrantedSummary.__dataclass_fields__
    }
    return GrantedSummary(**values)


def mixed(compared: list[GrantedSummary]) -> list[str]:
    """The marks of rows that are compared with each other."""

    def several(*names: str) -> bool:
        return any(len({*chain(*(getattr(one, name) for one in compared))}) > 1 for name in names)

    checks = {
        BUFFERS: several("receive_buffer_bytes", "send_buffer_bytes"),
        SCHEDULING: several("applications_class", "switch_class"),
    }
    return [mark for mark, holds in checks.items() if holds]
