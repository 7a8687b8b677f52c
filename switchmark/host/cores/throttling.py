"""The number and duration of stops that the kernel imposed because a CPU quota was used up."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.host.kernel import cgroups


@dataclass(frozen=True, slots=True)
class Throttling:
    """The kernel's counts for one control group since it was made."""

    periods: int
    throttled_periods: int
    throttled_s: float  # summed over CPUs

    @classmethod
    def of(cls, group: Path) -> Throttling:
        """Read the counts of a group that may have a quota. Raises OSError."""
        values = _values(group / "cpu.stat")
        return cls(values.get("nr_periods", 0), values.get("nr_throttled", 0), _seconds(values))


@dataclass(frozen=True, slots=True)
class OwnThrottling:
    """The throttling of this process and of all that it starts, by the groups that it is in."""

    throttled_periods: int = 0  # summed over the groups with a quota
    throttled_s: float = 0.0  # summed over these groups and over CPUs
    # The same time by the account of the innermost group alone, which also has the throttling of
    # parents that a container does not see (Linux 6.6).
    innermost_s: float = 0.0

    @classmethod
    def read(cls) -> OwnThrottling:
        """Read the present counts."""
        with suppress(OSError):
            return cls.of(cgroups.own_groups("cpu"))
        return cls()

    @classmethod
    def of(cls, groups: list[Path]) -> OwnThrottling:
        """Read the counts of these groups, innermost first; those without a quota count 0."""
        counts = []
        for group in groups:
            with suppress(OSError, ValueError):
                counts.append(Throttling.of(group))
        innermost_s = 0.0
        for group in groups[:1]:
            with suppress(OSError, ValueError):
                innermost_s = _seconds(_values(group / "cpu.stat.local"))
        return cls(
            sum(count.throttled_periods for count in counts),
            sum(count.throttled_s for count in counts),
            innermost_s,
        )

    def since(self, before: OwnThrottling) -> OwnThrottling:
        """Return the throttling from `before` to this reading."""
        return OwnThrottling(
            max(0, self.throttled_periods - before.throttled_periods),
            max(0.0, self.throttled_s - before.throttled_s),
            max(0.0, self.innermost_s - before.innermost_s),
        )

    @property
    def seconds(self) -> float:
        """The time for which this process's group was stopped, summed over CPUs."""
        return max(self.throttled_s, self.innermost_s)


def _values(path: Path) -> dict[str, int]:
    lines = (line.split() for line in path.read_text().splitlines())
    return {name: int(value) for name, value in lines}


def _seconds(values: dict[str, int]) -> float:
    """Return the throttled time from the field of version 1 (ns) or version 2 (us)."""
    return values.get("throttled_time", 1000 * values.get("throttled_usec", 0)) / 1e9
