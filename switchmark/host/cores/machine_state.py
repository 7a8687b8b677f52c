"""Reads the machine's state around a trial, in one or two milliseconds a reading.

Two threads of the engine pass a cache line back and forth between the cores that the trial uses.
Their process waits between readings. The other values come from small files of the kernel. A value
that the machine does not report is left out.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.host.cores.cpu_time import stolen_by_core_s
from switchmark.host.facts import read
from switchmark.host.host import Host, Spawned
from switchmark.host.process_output import parsing
from switchmark.model.machine_state import MachineState
from switchmark.model.placement import Placement

MOST_CORES = 8  # one line each from the first: a few ms in all
ANSWER_S = 0.5
_CPUS = Path("/sys/devices/system/cpu")
_THERMAL = Path("/sys/class/thermal")


def cores_used(placement: Placement) -> list[int]:
    """Return the different cores of a trial: first those of the switch, then the applications'."""
    applications = (core for cores in placement.application_cores.values() for core in cores)
    return list(dict.fromkeys([*placement.switch_cores, *applications]))[:MOST_CORES]


class StateReader:
    """Reads the state of some cores repeatedly. A context manager."""

    def __init__(self, host: Host, engine: Callable[[], Path], cores: Sequence[int]) -> None:
        """Start the process that measures. If it cannot run, readings have no cache-line times."""
        self._cores = list(cores)
        self._process: Spawned | None = None
        if len(self._cores) < 2:
            return  # A cache line cannot move between fewer than two cores.
        with suppress(SwitchmarkError):
            listed = ",".join(map(str, self._cores))
            self._process = host.spawn([str(engine()), "cache-line", listed])

    def __enter__(self) -> StateReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_ready(self) -> None:
        """Wait for the first reading, which the process prints when it is ready."""
        if self._process is not None and self._next_times() is None:
            self.close()

    def read(self) -> MachineState:
        """Read the state now."""
        lines_ns, steps_ns = self._measured()
        stolen = stolen_by_core_s()
        throttles = self._numbers("thermal_throttle/core_throttle_count")
        known = [stolen[core] for core in self._cores if core in stolen]
        return MachineState(
            at_ns=time.monotonic_ns(),
            cores=self._cores,
            lines_ns=lines_ns,
            steps_ns=steps_ns,
            stolen_s=round(sum(known), 3) if known else None,
            frequencies_mhz=[khz / 1000 for khz in self._numbers("cpufreq/scaling_cur_freq")],
            throttled=sum(throttles) if throttles else None,
            temperature_c=max(_package_temperatures_c(), default=None),
        )

    def close(self) -> None:
        """End the process. Idempotent."""
        if self._process is not None:
            self._process.close_input()
            with suppress(SwitchmarkError, TimeoutError):
                self._process.terminate()
            self._process = None

    def _measured(self) -> tuple[list[float | None], list[float | None]]:
        if self._process is None:
            return [], []
        with suppress(SwitchmarkError):
            self._process.write_line("line")
            if (times := self._next_times()) is not None:
                return times
        # A late line would be read as the next reading, so the process ends here.
        self.close()
        return [], []

    def _next_times(self) -> tuple[list[float | None], list[float | None]] | None:
        assert self._process is not None
        with suppress(TimeoutError, SwitchmarkError), parsing("cache-line"):
            line = self._process.read_line(ANSWER_S)
            if line is not None:
                event = json.loads(line)
                return list(event["lines_ns"]), list(event["steps_ns"])
        return None

    def _numbers(self, name: str) -> list[int]:
        """Return a number of each core from the kernel; empty if a core has none."""
        texts = [read(_CPUS / f"cpu{core}" / name) for core in self._cores]
        return [int(text) for text in texts if text] if all(texts) else []


def _package_temperatures_c() -> Iterable[float]:
    for zone in _THERMAL.glob("thermal_zone*"):
        text = read(zone / "temp")
        if "pkg" in (read(zone / "type") or "") and text is not None:
            with suppress(ValueError):
                yield int(text) / 1000
