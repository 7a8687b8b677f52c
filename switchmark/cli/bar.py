"""The progress bar that long commands draw on standard error, where it is a terminal."""

from __future__ import annotations

from types import TracebackType
from typing import Any, Self

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn

from switchmark.cli.output import console


class Bar:
    """A bar with the current task, the share that is done, and texts beside it. A context
    manager."""

    def __init__(self, *words: str, quiet: bool = False) -> None:
        """`words` name the texts at its end, which `show` may set."""
        self.console = console(stderr=True)
        self._words: dict[str, Any] = dict.fromkeys(words, "")
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            *(TextColumn(f"{{task.fields[{word}]}}") for word in words),
            console=self.console,
            disable=quiet or not self.console.is_terminal,
            transient=True,
        )
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()

    def show(self, what: str, done: int, total: int | None, **words: Any) -> None:
        """Show that so many of all are done (None: not known of how many), and what is under
        way."""
        if self._task is None:
            self._task = self._progress.add_task("", total=total, **self._words)
        self._progress.update(self._task, total=total, completed=done, description=what, **words)

    def tell(self, **words: Any) -> None:
        """Set the texts at its end; does nothing before the first `show`."""
        if self._task is not None:
            self._progress.update(self._task, **words)

    def advance(self) -> None:
        """Count one more as done; does nothing before the first `show`."""
        if self._task is not None:
            self._progress.advance(self._task)
