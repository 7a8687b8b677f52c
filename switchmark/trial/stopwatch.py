"""Where the bench's time around a measurement goes."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from switchmark.results.record import Timing


@dataclass
class Stopwatch:
    """Runs from the moment when it is made; times are in seconds."""

    seconds: dict[str, float] = field(default_factory=dict)
    _last: float = field(default_factory=time.monotonic)
    _first: float = field(default_factory=time.monotonic)

    def lap(self, name: str) -> None:
        """Charge the time since the last lap to this part of the trial."""
        now = time.monotonic()
        self.seconds[name] = self.seconds.get(name, 0.0) + now - self._last
        self._last = now

    @property
    def whole_s(self) -> float:
        """The time since it was made."""
        return time.monotonic() - self._first

    def timing(self) -> Timing:
        """The parts, as the record keeps them."""
        whole = self.whole_s
        measure = self.seconds.get("measure", 0.0)
        return Timing(
            deploy_s=self.seconds.get("deploy", 0.0),
            verify_s=self.seconds.get("verify", 0.0),
            measure_s=measure,
            teardown_s=self.seconds.get("teardown", 0.0),
            overhead_s=whole - measure,
        )
