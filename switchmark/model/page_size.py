"""The pages of the memory that DPDK programs keep packets in."""

from __future__ import annotations

from enum import StrEnum


class PageSize(StrEnum):
    """The pages that are asked for; how large hugepages are, the machine decides."""

    HUGE = "huge"
    SMALL = "4KiB"


EITHER = (PageSize.HUGE, PageSize.SMALL)
