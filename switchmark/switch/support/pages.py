"""The memory of switches that are DPDK programs: in hugepages or on ordinary pages."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.host import hugepages
from switchmark.host.place import Facility

SMALL_PAGE_BYTES = 4096


def on_small_pages(buffer_bytes: int) -> int:
    """Return the memory of a buffer of a DPDK pool on small pages. There a buffer does not cross
    the end of a page, and a buffer that is larger than a page begins with a page."""
    if buffer_bytes > SMALL_PAGE_BYTES:
        return -(-buffer_bytes // SMALL_PAGE_BYTES) * SMALL_PAGE_BYTES
    return SMALL_PAGE_BYTES // (SMALL_PAGE_BYTES // buffer_bytes)


class WithPages:
    """A switch whose memory is in hugepages, unless `small_pages` is set before its start."""

    name: str
    needs_for_hugepages: Sequence[Facility] = ()  # beyond what DPDK programs need
    small_pages: bool = False  # on ordinary pages, of 4 KiB on x86-64

    def eal_memory(self, memory_mb: int) -> list[str]:
        """Return EAL's options for this memory. Both kinds of pages are in a memfd, which needs no
        mount, leaves no files, and can be shared with a vhost-user peer."""
        amount = ["-m", str(memory_mb)]
        if self.small_pages:
            return ["--no-huge", "--no-shconf", *amount]
        return ["--in-memory", *amount]

    def buffer_takes(self, buffer_bytes: int) -> int:
        """Return the memory that a buffer of a DPDK pool takes."""
        return on_small_pages(buffer_bytes) if self.small_pages else buffer_bytes

    def require_memory(self, memory_mb: int) -> None:
        """Raise UnavailableError, with the remedy, if this memory needs hugepages that are not
        free."""
        if not self.small_pages:
            hugepages.require(self.name, memory_mb)

    def memory_details(self, memory_mb: int) -> dict[str, str]:
        """Return the memory that was taken, for the record."""
        return {"memory_mb" if self.small_pages else "hugepages_mb": str(memory_mb)}
