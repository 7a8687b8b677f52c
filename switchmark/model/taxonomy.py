"""Classes of switches, in the terms of table 1 of Zhang et al., "Comparing the Performance of
State-of-the-Art Software Switches for NFV", CoNEXT 2019.

The rows of its seven switches are the paper's; the others are our reading of the same terms.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Taxonomy:
    """One row of the table.

    `architecture`: `self-contained` (its own data path) or `modular` (one builds it from
    parts). `paradigm`: `structured` code or `match/action` tables. `processing`: `RTC` (one thread
    takes a frame from port to port, run to completion) or `pipeline`."""

    architecture: str
    paradigm: str
    processing: str
    reprogrammable: str  # while it runs: low, medium, high
    language: str
    purpose: str

    @property
    def short(self) -> str:
        """The classes alone, for a table."""
        return f"{self.architecture}, {self.paradigm}, {self.processing}"


SELF, MODULAR = "self-contained", "modular"
STRUCTURED, MATCH_ACTION = "structured", "match/action"
RTC, PIPELINE = "RTC", "pipeline"
