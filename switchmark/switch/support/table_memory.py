"""Memory of the tables of a switch: a reading before and after they are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.host.kernel.procfs import kernel_tables_kib, resident_kib
from switchmark.model.functions import TableMemory


class MemoryBefore:
    """A reading before the load: of processes, or of the kernel if there are none."""

    def __init__(self, pids: Sequence[int] = ()) -> None:
        self._pids = tuple(pids)
        self._kib = self._read()

    def _read(self) -> int:
        return resident_kib(self._pids) if self._pids else kernel_tables_kib()

    def after(self) -> TableMemory:
        """Read again, after the load."""
        return TableMemory(self._kib, self._read(), not self._pids)
