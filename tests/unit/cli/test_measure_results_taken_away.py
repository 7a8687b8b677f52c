"""Results that others remove or change while their comparison is printed: after the last trial no
write can fail. The test removes the folder before each access in turn."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.cli import measure
from switchmark.cli.measure import CommandRequest
from switchmark.errors import SwitchmarkError
from switchmark.experiment.execute import Executed
from switchmark.results.run_directory import open_run
from tests.unit.records import synthetic_record, synthetic_trial, write_run

ACCESSES = ("open", "os.listdir", "os.scandir", "os.rename")


class Meddler:
    """Does something just before the access of this number to a folder. Python's audit hooks stay
    for ever, so there is one."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        sys.addaudithook(self._on_access)

    def begin(self, folder: Path, number: int, act: Callable[[Path], object]) -> None:
        self.folder, self.left, self.act = folder, number, act

    @property
    def has_acted(self) -> bool:
        return self.left < 0

    def _on_access(self, event: str, given: tuple[Any, ...]) -> None:
        folder = self.folder
        if folder is None or event not in ACCESSES or not isinstance(given[0], str | Path):
            return
        if not os.fspath(given[0]).startswith(str(folder)):
            return
        self.left -= 1
        if self.left < 0:
            self.folder = None  # its own accesses do not count
            self.act(folder)


MEDDLER = Meddler()


def moved_away(run: Path) -> None:
    run.rename(run.with_name("gone"))


def record_removed(run: Path) -> None:
    min((run / "trials").iterdir()).unlink()


def record_torn(run: Path) -> None:
    torn = min((run / "trials").iterdir())
    torn.write_text(torn.read_text()[:300])


def runs(root: Path) -> Iterator[Path]:
    """Return the same run again and again, each in a separate folder."""
    records = [
        synthetic_record(synthetic_trial(packet_size_bytes=size), number=1) for size in (64, 1500)
    ]
    number = 0
    while True:
        yield write_run(root / str(number), records)
        number += 1


@pytest.mark.parametrize(
    ("act", "files"),
    [
        (moved_away, []),
        (moved_away, ["junit", "bmf"]),
        (record_removed, ["junit"]),
        (record_torn, ["junit"]),
    ],
)
def test_fate_of_results_at_the_end_is_a_line(
    act: Callable[[Path], object],
    files: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places: dict[str, Any] = {name: tmp_path / name for name in files}
    request = CommandRequest(campaign_text="", overrides=[], report=not files, **places)
    output = 0
    for number, directory in enumerate(runs(tmp_path)):
        done = Executed(directory, open_run(directory).statuses())
        monkeypatch.setattr(measure, "_execute", lambda *_, done=done: done)
        MEDDLER.begin(directory, number, act)
        nobody: Any = None
        try:
            measure.measure(nobody, nobody, request)
        except SwitchmarkError as error:
            output += 1
            assert len(str(error).splitlines()) == 1
        finally:
            MEDDLER.folder = None
        if not MEDDLER.has_acted:  # all accesses had their turn
            break
    assert number > 5
    assert output or act is not moved_away
