"""The memory of switches that are DPDK programs: in hugepages or on ordinary pages."""

from __future__ import annotations

from switchmark.host import hugepages

SMALL_PAGE_BYTES = 4096


def on_small_pages(buffer_bytes: int) -> int:
    """Return the memory that a buffer of a DPDK pool takes on small pages, where DPDK lets none
    cross from one page into another, and begins one that is larger than a page with a page."""
    if buffer_bytes > SMALL_PAGE_BYTES:
        return -(-buffer_bytes // SMALL_PAGE_BYTES) * SMALL_PAGE_BYTES
    return SMALL_PAGE_BYTES // (SMALL_PAGE_BYTES // buffer_bytes)


class WithPages:
    """A switch whose memory lies in hugepages unless it is told otherwise before its start."""

    name: str
    small_pages: bool = False  # on ordinary pages, of 4 KiB on x86-64

    def eal_memory(self, memory_mb: int) -> list[str]:
        """Return EAL's options for so many MiB. Both kinds lie in a memfd, so that they need no
        mount, leave no files, and can be shared with a vhost-user peer."""
        amount = ["-m", str(memory_mb)]
        if self.small_pages:
            return ["--no-huge", "--no-shconf", *amount]
        return ["--in-memory", *amount]

    def buffer_takes(self, buffer_bytes: int) -> int:
        """Return the memory that a buffer of a DPDK pool takes."""
        return on_small_pages(buffer_bytes) if self.small_pages else buffer_bytes

    def require_memory(self, memory_mb: int) -> None:
        """Raise UnavailableError, with the remedy, if so many MiB of hugepages are needed and not
        free."""
        if not self.small_pages:
            hugepages.require(self.name, memory_mb)

    def memory_details(self, memory_mb: int) -> dict[str, str]:
        """Return the memory that was taken, for the record."""
        return {"memory_mb" if self.small_pages else "hugepages_mb": str(memory_mb)}
