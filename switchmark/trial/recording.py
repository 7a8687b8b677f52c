"""Makes the record of a trial from what is known of it, however the trial ended.

A record whose figures contradict each other is refused; a record of a failed trial, without
figures, takes its place.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from switchmark.campaign.notation import to_notation
from switchmark.model.trial import Trial
from switchmark.record import Figures, Record
from switchmark.trial.failure import one_line
from switchmark.trial.stopwatch import Stopwatch

_WITH_FIGURES = ("steady", "limit", "verdict", "trim", "cpu")
_ALWAYS_KNOWN = {
    "trial_id",
    "trial",
    "campaign",
    "run_id",
    "started_at",
    "notation",
    "status",
    "message",
    "ended_at",
    "timing",
}


def failed_record(
    trial: Trial, *, campaign: str, run_id: str, begun: datetime, error: Exception
) -> Record:
    """The record of a trial of which nothing is known but why it failed."""
    asked = what_was_asked(trial, campaign, run_id, begun)
    return Record(**as_failed(asked, one_line(error)), ended_at=_utc(max(begun, datetime.now(UTC))))


def what_was_asked(trial: Trial, campaign: str, run_id: str, begun: datetime) -> dict[str, Any]:
    """The facts of a trial that are known before anything is planned or made."""
    return {
        "trial_id": trial.id,
        "trial": trial,
        "campaign": campaign,
        "run_id": run_id,
        "started_at": _utc(begun),
        "notation": to_notation(trial),
    }


def as_failed(facts: dict[str, Any], message: str) -> dict[str, Any]:
    """These facts as those of a failed trial, which has no figures; the first reason is the first
    one told."""
    kept = {name: fact for name, fact in facts.items() if name not in _WITH_FIGURES}
    reasons = "; ".join(filter(None, [facts.get("message"), message]))
    return kept | {"status": "failed", "message": reasons}


def made_record(
    figures: Figures, facts: dict[str, Any], begun: datetime, watch: Stopwatch
) -> Record:
    """The record of a trial that has ended: these very figures, where it has not failed, and the
    other facts. Contradictory figures are left out, and the record says so; where other facts are
    refused, too, it holds only what was asked."""
    # (by the monotonic clock: the real-time one may be set back meanwhile)
    ended_at = _utc(begun + timedelta(seconds=watch.whole_s))
    facts |= {"ended_at": ended_at, "timing": watch.timing()}
    held = dict(figures) if facts["status"] == "finished" else {}
    try:
        return Record(**held, **facts)
    except Exception as error:
        refused = one_line(error)
    try:
        return Record(**as_failed(facts, f"the figures contradict each other: {refused}"))
    except Exception:
        known = {name: fact for name, fact in facts.items() if name in _ALWAYS_KNOWN}
        return Record(**as_failed(known, f"the facts of what ran contradict each other: {refused}"))


def _utc(moment: datetime) -> str:
    return moment.isoformat(timespec="milliseconds")
