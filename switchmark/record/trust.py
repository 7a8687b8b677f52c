"""What was checked before a trial, what limited its figure, and how far to trust it."""

from __future__ import annotations

from typing import Literal

from pydantic import model_validator

from switchmark.model.value import Count, Value


class Verification(Value):
    """The pre-flight check: learning frames both ways, arrival, no flooding."""

    frames_sent: Count
    frames_arrived: Count
    strays: Count  # frames of one pair seen at another pair's port
    witness_frames: Count | None  # frames that left the switch's third port after teaching
    passed: bool
    message: str
    wrong_mode: str = ""  # how it forwards otherwise than the connect mode says; empty: it does not


class Limit(Value):
    """What limited the number, from measured evidence."""

    what: Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]
    evidence: list[str]


class TrialVerdict(Value):
    """How far the number can be trusted."""

    valid: bool
    marks: list[str]  # names from `record/marks.py`, e.g. "oversubscribed"
    explanations: list[str]  # one sentence a mark: what it means and what to do

    @model_validator(mode="after")
    def _every_mark_is_explained(self) -> TrialVerdict:
        if len(self.marks) != len(self.explanations):
            raise ValueError(
                f"verdict has {len(self.marks)} marks but {len(self.explanations)} explanations"
            )
        return self
