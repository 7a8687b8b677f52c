"""Finds the last good run before a run, as the reference of a comparison.

From the oldest run on, a stretch of equal level is good if it is not worse than the last good one,
by more than the threshold. An unfixed loss of speed never becomes the reference, however old."""

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
    """The run to compare with, and the reason why no newer run was chosen."""

    directory: Path
    why: str


def last_good(
    directory: Path, folders: Sequence[Path], metrics: Sequence[Metric], threshold: float
) -> LastGood:
    """Return the last good run of these folders before `directory`, on the same machine, with the
    same trials. Raises UsageError if there is none."""
    # The run itself, or a copy of it, may be among the folders; then the time is the same.
    begun = _started(directory)
    earlier = [folder for folder in folders if _started(folder) < begun]
    figures = [
        figure
        for figure in read_history(
            [*earlier, directory], metrics, threshold=threshold, with_zeros=True
        ).figures
        if any(run.directory == directory for run in figure.runs)
    ]
    tried = [run for figure in figures for run in figure.runs if run.directory != directory]
    started = {run.directory: run.started_at for run in tried}
    candidates = sorted(started, key=lambda folder: (started[folder], folder))
    if not candidates:
        raise UsageError(
            f"--against last-good: there is no earlier run of the trials of {directory} on its "
            "machine; name a run to compare with"
        )
    bad: dict[Path, str] = {}
    for figure in figures:
        bad |= _bad(figure, directory, threshold)
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


def _bad(figure: PastFigure, newest: Path, threshold: float) -> dict[Path, str]:
    """Return the runs of a series that are not good, with reasons. The newest run, which is being
    judged, does not count."""
    reasons = {
        run.directory: "a trial of it has no valid figure"
        for run in figure.runs
        if not run.values and (figure.metric.higher_is_better or not run.zeros)
    }
    good: float | None = None
    for stretch in figure.stretches:
        runs = [run for run in stretch if run.directory != newest]
        if not runs:
            continue
        level = level_of(runs)
        better = level / good if good is not None else 1.0
        if not figure.metric.higher_is_better:
            better = 1 / better
        if better < 1 - threshold:
            since = runs[0].started_at.strftime("%Y-%m-%d")
            why = f"{figure.switch} {figure.metric.name} is worse since {since}"
            reasons |= dict.fromkeys((run.directory for run in runs), why)
        else:
            good = level
    return reasons
