"""Reads the machine's state around a trial, in one or two milliseconds a reading.

Two threads of the engine hand a cache line to and fro on the cores that the trial uses; its process
waits between readings. The rest is a few small files of the kernel. A part that the machine does
not tell is left out of the reading.
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
    """The cores of a trial, each once: the switch's first, then the applications'."""
    applications = (core for own in placement.application_cores.values() for core in own)
    return list(dict.fromkeys([*placement.switch_cores, *applications]))[:MOST_CORES]


class StateReader:
    """Reads the state of some cores, as often as wanted. A context manager."""

    def __init__(self, host: Host, engine: Callable[[], Path], cores: Sequence[int]) -> None:
        """Start the process that measures. Where it cannot run, readings lack its part."""
        self._cores = list(cores)
        self._process: Spawned | None = None
        if len(self._cores) < 2:
            return  # there is no way to measure
        with suppress(SwitchmarkError):
            listed = ",".join(map(str, self._cores))
            self._process = host.spawn([str(engine()), "cache-line", listed])

    def __enter__(self) -> StateReader:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait_ready(self) -> None:
        """Wait for the first reading, which comes unasked: from then on the process answers at
        once."""
        if self._process is not None and self._answer() is None:
            self.close()

    def read(self) -> MachineState:
        """Read the state now."""
        lines_ns, steps_ns = self._measured()
        stolen = stolen_by_core_s()
        throttles = self._told("thermal_throttle/core_throttle_count")
        known = [stolen[core] for core in self._cores if core in stolen]
        return MachineState(
            at_ns=time.monotonic_ns(),
            cores=self._cores,
            lines_ns=lines_ns,
            steps_ns=steps_ns,
            stolen_s=round(sum(known), 3) if known else None,
            frequencies_mhz=[khz / 1000 for khz in self._told("cpufreq/scaling_cur_freq")],
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
            if (told := self._answer()) is not None:
                return told
        self.close()  # what it says later would be taken for the answer to another question
        return [], []

    def _answer(self) -> tuple[list[float | None], list[float | None]] | None:
        assert self._process is not None
        with suppress(TimeoutError, SwitchmarkError), parsing("cache-line"):
            line = self._process.read_line(ANSWER_S)
            if line is not None:
                told = json.loads(line)
                return list(told["lines_ns"]), list(told["steps_ns"])
        return None

    def _told(self, name: str) -> list[int]:
        """A number that the kernel keeps of each core; empty where a core has none."""
        texts = [read(_CPUS / f"cpu{core}" / name) for core in self._cores]
        return [int(text) for text in texts if text] if all(texts) else []


def _package_temperatures_c() -> Iterable[float]:
    for zone in _THERMAL.glob("thermal_zone*"):
        text = read(zone / "temp")
        if "pkg" in (read(zone / "type") or "") and text is not None:
            with suppress(ValueError):
                yield int(text) / 1000
