"""The last good run before a run: the newest one whose level is no worse than the good level before
it.

From the oldest run on, a stretch of level is good where it is no worse than the last good one
(beyond the threshold). A loss of speed that nobody repaired is no base to compare with, however
long it has lasted.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.model.value import parse_utc
from switchmark.record.metric import Metric
from switchmark.results.documents import read_info
from switchmark.results.history import PastFigure, level_of, read_history


@dataclass(frozen=True, slots=True)
class LastGood:
    """The run to compare with, and why no newer one."""

    directory: Path
    why: str  # it, and no newer one


def last_good(
    directory: Path, known: Sequence[Path], wanted: Sequence[Metric], threshold: float
) -> LastGood:
    """The last good one of these runs before this one, on the same machine, with the same trials.
    Raises UsageError where there is none."""
    # The run itself may lie among them, or elsewhere, or be a copy: its time is the same.
    begun = _started(directory)
    earlier = [folder for folder in known if _started(folder) < begun]
    figures = [
        one
        for one in read_history(
            [*earlier, directory], wanted, threshold=threshold, with_zeros=True
        ).figures
        if any(run.directory == directory for run in one.runs)
    ]
    tried = [run for one in figures for run in one.runs if run.directory != directory]
    started = {run.directory: run.started_at for run in tried}
    candidates = sorted(started, key=lambda folder: (started[folder], folder))
    if not candidates:
        raise UsageError(
            f"--against last-good: there is no earlier run of the trials of {directory} on its "
            "machine; name a run to compare with"
        )
    bad: dict[Path, str] = {}
    for one in figures:
        bad |= _bad(one, directory, threshold)
    good = [folder for folder in candidates if folder not in bad]
    if not good:
        raise UsageError(
            f"--against last-good: none of {len(candidates)} earlier runs is good "
            f"({bad[candidates[-1]]}); name a run to compare with"
        )
    why = f"last good: {good[-1]}"
    if newer := candidates[candidates.index(good[-1]) + 1 :]:
        why += f"; {len(newer)} newer passed over ({bad[newer[-1]]})"
    return LastGood(good[-1], why)


def _started(folder: Path) -> datetime:
    return parse_utc(read_info(folder).started_at)


def _bad(one: PastFigure, newest: Path, threshold: float) -> dict[Path, str]:
    """Runs of a series that are not good, and why. The newest, which is being judged, does not
    count."""
    found = {
        run.directory: "a trial of it has no valid figure"
        for run in one.runs
        if not run.values and (one.metric.higher_is_better or not run.zeros)
    }
    good: float | None = None
    for stretch in one.stretches:
        runs = [run for run in stretch if run.directory != newest]
        if not runs:
            continue
        level = level_of(runs)
        better = level / good if good is not None else 1.0
        if not one.metric.higher_is_better:
            better = 1 / better
        if better < 1 - threshold:
            since = runs[0].started_at.strftime("%Y-%m-%d")
            why = f"{one.switch} {one.metric.name} is worse since {since}"
            found |= dict.fromkeys((run.directory for run in runs), why)
        else:
            good = level
    return found
