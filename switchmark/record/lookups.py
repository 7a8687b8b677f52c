"""The stages of a switch's lookup that decided on the frames of a trial."""

from __future__ import annotations

from switchmark.model.value import Count, Value


class LookupNote(Value):
    """Frames between the two readings around the traffic, by the stage that decided on them, and
    the sizes of the caches at both readings."""

    simple_match_hits: Count  # decided by the ingress port alone
    emc_hits: Count  # exact match cache
    smc_hits: Count  # signature match cache
    megaflow_hits: Count  # wildcard cache
    upcalls: Count  # in no cache: decided by the tables of the switch
    failed_upcalls: Count
    megaflows_before: Count  # entries of the wildcard cache
    megaflows_after: Count
    subtables_before: Count | None  # masks of the wildcard cache, by thread and ingress port
    subtables_after: Count | None
