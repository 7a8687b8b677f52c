"""Certificates: the checks of the instruments on a machine.

`switchmark certify` makes a certificate for each way of reaching a port; a record holds the part
about its own way, and whether the certificate still holds.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from switchmark.model.value import Amount, Count, FreeForm, UtcTime, Value

Outcome = Literal["proven", "refuted", "undecided"]
CertifiedOutcome = Literal["proven", "refuted", "undecided", "not tried"]
PROVEN: Outcome = "proven"
REFUTED: Outcome = "refuted"
UNDECIDED: Outcome = "undecided"
NOT_TRIED: CertifiedOutcome = "not tried"


class CertifiedFigure(Value):
    """One figure of the bench compared with the same figure from another source."""

    truth: str  # the name of the check: counts, rate, delay ...
    quantity: str  # the quantity in that check
    against: str  # the other source
    outcome: CertifiedOutcome
    unit: str  # frames (of which a share), ratio, ns
    low: float | None = None  # interval of the error, measured less true; None: none yet
    high: float | None = None
    within: Amount = 0.0  # the permitted error; 0: every frame must be counted
    within_below: Amount | None = None  # the permitted error below zero, if it differs
    frames: Count = 0  # that were counted, where counts are exact
    turns: Count = 0
    by_state: dict[str, float] = Field(default_factory=dict)  # median error, fast and slow
    why: str = ""  # it was not tried, or what it would take


class Certificate(Value):
    """The checks of one port kind and I/O on this machine in its present state."""

    schema_version: Literal[1] = 1
    id: str
    made_at: UtcTime
    spent_s: Amount
    switchmark_version: str
    port_kind: str
    io: str
    machine: FreeForm  # facts on which its validity depends: kernel, microcode, engine, cores ...
    cores: list[Count]  # the applications' cores
    idle: str
    lines_ns: list[Amount] = Field(default_factory=list)  # cache line, in its fast and slow state
    others_cores: Amount = 0.0  # used by other programs meanwhile, median over the turns
    figures: list[CertifiedFigure]
    # Medians of floor, ceiling ...: the time seen of a step may lie below zero.
    levels: dict[str, float] = Field(default_factory=dict)

    @property
    def outcome(self) -> Outcome:
        """Refuted if one figure is refuted; proven if all figures that were tried are proven."""
        outcomes = {figure.outcome for figure in self.figures}
        if REFUTED in outcomes:
            return REFUTED
        return PROVEN if PROVEN in outcomes and UNDECIDED not in outcomes else UNDECIDED

    def of(self, outcome: str) -> list[str]:
        """The figures with this outcome, by name."""
        return [f"{one.truth}: {one.quantity}" for one in self.figures if one.outcome == outcome]


class CertificateNote(Value):
    """The certificate under which a record was made."""

    id: str
    made_at: UtcTime
    outcome: Outcome
    covers: bool = True  # it is about trials that measured as this one did
    holds: bool  # and nothing that it depends on has changed since
    why: str = ""  # it does not cover the trial, or does not hold any more
    proven: list[str] = Field(default_factory=list)
    refuted: list[str] = Field(default_factory=list)
    undecided: list[str] = Field(default_factory=list)
    not_tried: list[str] = Field(default_factory=list)
