"""`mirror`: each frame that enters port 0 is also copied to a monitor port.

The way of the frame itself does not change. The monitor port is one port more than the pairs have;
a tester receives there, and sends nothing. The copy is the frame as it entered, without any change.
Frames that enter other ports are not copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import FunctionTable, Mirror
from switchmark.model.choices import PLAIN
from switchmark.model.functions import FORWARD
from switchmark.model.trial import Trial

SOURCE = 0  # the mirrored port


class MirrorFunction:
    """Copies of the frames that enter a port."""

    name = "mirror"
    meaning = "each frame that enters port 0 is also copied to a monitor port"
    filters = False
    keys: tuple[str, ...] = ()
    scale_key: str | None = None
    unit = ""

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """Refuse other functions beside it, and methods that do not count copies."""
        if trial.function.names != (FORWARD, self.name):
            yield Refusal(f"{trial.function}: mirror is proven alone, on base forward",
                          "use function: forward+mirror", key="function")  # fmt: skip
        if trial.method != PLAIN:
            yield Refusal(f"{trial.method} does not count the copies of function mirror",
                          f"use method: {PLAIN}", key="method")  # fmt: skip

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Mirror the first port to the one behind all pairs."""
        del trial
        return replace(table, mirror=Mirror(SOURCE, len(table.ports)))

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Copy the frame to the monitor port, as it entered."""
        assert table.mirror is not None
        if passing.ingress != table.mirror.source:
            return passing
        return replace(passing, copies=(table.mirror.monitor,))

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield a frame that is copied, and one at each other port, which is not."""
        for port in table.ports:
            copied = "a copy" if port.index == SOURCE else "no copy"
            yield Case(f"a frame at port {port.index}, of which there must be {copied}",
                       load_frame(table, port.index, dscp=10))  # fmt: skip


FUNCTION = MirrorFunction()
