"""`policer`: frames above a committed information rate are dropped (RFC 2697, without marking).

Each port polices the frames that enter it with a token bucket. Tokens arrive at `cir`, the bucket
holds at most `cbs`, and a frame that finds too few tokens is dropped. Both values count bytes of
the L2 frame without FCS, independent of the bytes that the switch itself counts. No frame is
queued.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import FunctionTable, Policer
from switchmark.model.choices import FCS_BYTES
from switchmark.model.trial import Trial


class PolicerFunction:
    """A token bucket at each port."""

    name = "policer"
    meaning = "frames that enter a port above the rate cir, with bursts of up to cbs, are dropped"
    keys = ("cir", "cbs")
    scale_key: str | None = None
    unit = ""
    filters = True

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """Refuse a burst size that no frame of the load fits into."""
        longest = trial.frame_sizes.largest - FCS_BYTES
        if trial.cbs_bytes < longest:
            yield Refusal(
                f"{trial.cbs_bytes} bytes is below a frame of {longest} bytes without FCS, so "
                "every such frame would be dropped",
                f"use {longest} or more",
                key="cbs",
            )

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Set the rate and the burst."""
        return replace(table, policer=Policer(trial.cir_bps, trial.cbs_bytes))

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Pass the frame: the proof sends far below any rate. `trial/policing.py` measures the
        rate."""
        del table
        return passing

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield a frame at each port, below the rate."""
        for port in table.ports:
            yield Case(f"a frame below the rate at port {port.index}",
                       load_frame(table, port.index))  # fmt: skip


FUNCTION = PolicerFunction()
