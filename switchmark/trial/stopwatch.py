"""Where the bench's time around a measurement goes."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field

from switchmark.record import Timing


@dataclass
class Stopwatch:
    """Runs from the moment when it is made; times are in seconds."""

    seconds: dict[str, float] = field(default_factory=lambda: defaultdict(float))
    _last: float = field(default_factory=time.monotonic)
    _first: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Charge the time since the last lap to this part of the trial."""
        now = time.monotonic()
        self.seconds[name] += now - self._last
        self._last = now

    @property
    def whole_s(self) -> float:
        """The time since it was made."""
        return time.monotonic() - self._first

    def timing(self) -> Timing:
        """The parts, as the record keeps them."""
        return Timing(
            deploy_s=self.seconds["deploy"],
            verify_s=self.seconds["verify"],
            measure_s=self.seconds["measure"],
            teardown_s=self.seconds["teardown"],
            overhead_s=self.whole_s - self.seconds["measure"],
        )
