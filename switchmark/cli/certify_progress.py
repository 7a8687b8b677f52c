"""The progress of `certify`: what is tried, what is decided, the time left."""

from __future__ import annotations

import time

from switchmark.cli.bar import Bar
from switchmark.cli.output import note
from switchmark.formatting import format_duration


class CertifyProgress(Bar):
    """Draws on standard error; where that is no terminal, one line for each way to a port."""

    def __init__(self, deadline: float, *, quiet: bool = False) -> None:
        super().__init__("left", quiet=quiet)
        self._deadline = deadline
        self._in_lines = not quiet and not self.console.is_terminal
        self._way = ""

    def begin(self, way: str) -> None:
        """Note that another way to a port begins."""
        self._way = way
        if self._in_lines:
            note(f"{way}: {self._left()} left at most")

    def observe(self, truth: str, decided: int, of: int) -> None:
        """Note that a turn of this truth begins."""
        self.show(f"{self._way}: {truth}", decided, of, left=f"{self._left()} left at most")

    def _left(self) -> str:
        return format_duration(max(0.0, self._deadline - time.monotonic()))
