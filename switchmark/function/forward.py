"""`forward`: the switch passes frames on unchanged, by its connect mode."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import FunctionTable
from switchmark.model.trial import Trial


class Forward:
    """The base without any change: port 2k to port 2k + 1 and back."""

    name = "forward"
    meaning = "frames pass unchanged, by the connect mode; the base of functions on layer 2"
    keys: tuple[str, ...] = ()
    scale_key: str | None = None
    unit = ""
    filters = False

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """It has no keys."""
        del trial
        return iter(())

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """It needs no entries."""
        del trial
        return table

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Return the frame at the other port of its pair."""
        del table
        return replace(passing, egress=passing.ingress ^ 1)

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield a frame each way."""
        for port in table.ports:
            yield Case(f"a frame that enters port {port.index}", load_frame(table, port.index))


FUNCTION = Forward()
