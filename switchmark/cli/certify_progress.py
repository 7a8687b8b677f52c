"""What a person sees while `certify` works: what is tried, what is decided, the time left."""

from __future__ import annotations

import time
from types import TracebackType

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from switchmark.cli.output import console, note
from switchmark.language.duration import format_duration


class CertifyProgress:
    """Draws on standard error; where nobody looks, one line for each way to a port."""

    def __init__(self, deadline: float, *, quiet: bool = False) -> None:
        screen = console(stderr=True)
        self._deadline = deadline
        self._words = not quiet and not screen.is_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[left]}"),
            console=screen,
            disable=quiet or not screen.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None
        self._way = ""

    def __enter__(self) -> CertifyProgress:
        self._bar.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._bar.stop()

    def begin(self, way: str) -> None:
        """Another way to a port."""
        self._way = way
        if self._words:
            note(f"{way}: {self._left()} left at most")

    def observe(self, truth: str, decided: int, of: int) -> None:
        """A turn of this truth begins."""
        if self._task is None:
            self._task = self._bar.add_task("", total=of, left="")
        self._bar.update(
            self._task, total=of, completed=decided, description=f"{self._way}: {truth}",
            left=f"{self._left()} left at most",
        )  # fmt: skip

    def _left(self) -> str:
        return format_duration(max(0.0, self._deadline - time.monotonic()))
