"""The checks before a trial, the limit of its figure, and the trust in it."""

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
    """The factor that limited the figure, from measured evidence."""

    factor: Literal["generator", "switch", "receiver", "link", "rate", "cpu-shared", "unknown"]
    evidence: list[str]


class TrialVerdict(Value):
    """The trust in the figure: whether it is valid, with marks."""

    valid: bool
    marks: list[str]  # names from `record/marks.py`, e.g. "oversubscribed"
    explanations: list[str]  # one sentence for each mark: its meaning and the remedy

    @model_validator(mode="after")
    def _every_mark_is_explained(self) -> TrialVerdict:
        if len(self.marks) != len(self.explanations):
            raise ValueError(
                f"verdict has {len(self.marks)} marks but {len(self.explanations)} explanations"
            )
        return self
