"""The lookups of a switch around the traffic of a trial."""

from __future__ import annotations

from switchmark.record.lookups import LookupNote
from switchmark.switch.support.base import Switch
from switchmark.switch.support.lookups import CountsLookups, LookupCounts, since


def read_lookups(switch: Switch) -> LookupCounts | None:
    """Return the counts of a switch that reports its lookups."""
    return switch.lookups() if isinstance(switch, CountsLookups) else None


def lookup_note(switch: Switch, before: LookupCounts | None) -> LookupNote | None:
    """Return the lookups since an earlier reading."""
    after = read_lookups(switch)
    if before is None or after is None:
        return None
    return LookupNote(
        **since(before, after),
        megaflows_before=before.megaflows,
        megaflows_after=after.megaflows,
        subtables_before=before.subtables,
        subtables_after=after.subtables,
    )
