"""A foreign instrument: a program of others that sends and receives at a trial's two ends.

An instrument is one file of `switchmark/instrument/`, with a class of the file's name. The bench
deploys, teaches and verifies with its own engine, which then leaves the ports; the instrument takes
them, runs once, and reports its counts. What it cannot know is stated, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from switchmark.errors import Refusal, UsageError
from switchmark.host.host import Spawned
from switchmark.instrument.support.reading import Reading
from switchmark.model.campaign import Sweep
from switchmark.model.capabilities import Availability
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.node import NodePort
from switchmark.model.page_size import PageSize
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES

if TYPE_CHECKING:
    from switchmark.function.support.load_frames import LoadFrame
    from switchmark.instrument.support.workload import LaunchedWorkload

# What every instrument is asked for, within limits that it says, and what the bench sees to.
COMMON_FIELDS = frozenset({
    "dimension", "pairs", "packet_size_bytes", "rate_pps", "burst", "scenario", "vnf", "generator",
})  # fmt: skip

# The information that is missing if a program only counts frames.
COUNTS_ALONE = (
    "which frames were lost, because its frames have no numbers",
    "copies (a copy hides a lost frame)",
    "reordering",
    "damaged frames and frames of other programs, which count as received",
    "times",
)


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an instrument can do. Planning reads this and never touches the machine."""

    description: str
    ports: Mapping[PortKind, Io]  # and the I/O by which our engine tries the same port before it
    cannot_know: tuple[str, ...]  # what a record by our engine tells, and one by it does not
    largest_burst: int
    dimensions: tuple[Dimension, ...] = (Dimension.THROUGHPUT,)
    environments: tuple[str, ...] = ("netns",)
    paces: bool = True  # keeps to `rate`
    saturates: bool = True  # knows `rate: max`
    shortest_sample_s: float | None = 0.1  # None: it tells no samples
    whole_seconds: bool = False  # of its durations
    largest_frame_bytes: int | None = None  # with FCS; None: whatever its port takes
    most_rate_pps: int | None = None
    # Frames beside its load that it may send over the same ports, both ways together, in a trial.
    own_frames: int = 0
    # What of root's rights its programs keep on the host, by kind of port; None: all that the bench
    # has.
    linux_capabilities: Mapping[PortKind, tuple[str, ...]] | None = None
    # Where else than in the session's folder its programs write, make and remove files of the host;
    # None: that is not known, and they have no wall around them.
    writes: tuple[str, ...] | None = None
    # Of a DPDK program: which pages its memory can have, and how much each takes.
    page_sizes: tuple[PageSize, ...] = ()
    memory_mb: int = 0
    # Most flows of a load of network functions (docs/functions.md) that it sends in turn; 0: none,
    # and `no_functions` is the reason.
    function_flows: int = 0
    no_functions: str = "its frames have the addresses of two sockets"
    any_headers: bool = False  # of that load: IPv6, tags and tunnels; otherwise plain IPv4 alone
    # Parameters of the ends that may have another value than the default.
    fields: frozenset[str] = COMMON_FIELDS


@dataclass(frozen=True, slots=True)
class Station:
    """One end: the node in which a program of the instrument runs."""

    node: str
    port: NodePort
    cores: tuple[int, ...]  # none: wherever the kernel likes
    spawn: Callable[[Sequence[str]], Spawned]  # runs a program there, on its cores, with its rights

    @property
    def first_core(self) -> int:
        """A core for a program that wants one named."""
        return self.cores[0] if self.cores else 0


@dataclass(frozen=True, slots=True)
class Job:
    """The run that an instrument is asked for."""

    trial: Trial
    source: Station  # sends, or asks
    target: Station  # receives, or answers
    folder: Path  # for files; goes away with the session
    sample_s: float
    load: tuple[LoadFrame, ...] = ()  # frames of network functions, one a flow; empty: none


class Launched(Protocol):
    """An instrument whose programs have been started. `close` may be called at any time."""

    def wait_ready(self, timeout_s: float) -> None:
        """Return once frames that come will be counted. Raises TrialFailed."""
        ...

    def begin(self, duration_s: float) -> None:
        """Let the traffic begin. Raises TrialFailed."""
        ...

    def running(self) -> bool:
        """Whether its traffic is under way. Raises TrialFailed where a program has died."""
        ...

    def finish(self, timeout_s: float) -> Reading:
        """Its counts, once its traffic is over. Raises TrialFailed with one line where its programs
        fail or print what cannot be understood."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Processes whose CPU time is the traffic's."""
        ...

    def close(self) -> None:
        """End its programs. Idempotent."""
        ...


class Instrument(Protocol):
    """A traffic program that we did not write."""

    name: str
    abilities: Abilities  # for frames; of a program that sends none, for its first workload
    sends_frames: bool = True
    # By the workloads that it runs beside frames (`support/workload.py`).
    workloads: Mapping[str, Abilities] = MappingProxyType({})

    def availability(self) -> Availability:
        """The instrument's version, or why this machine lacks it, and the remedy. Changes
        nothing."""
        ...

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """What it cannot do beyond its `abilities`, and what to do instead."""
        del sweep
        return iter(())

    def launch(self, job: Job) -> Launched:
        """Start everything that must be there before the traffic of frames."""
        del job
        raise UsageError(f"{self.name} sends no frames")

    def launch_workload(self, job: Job) -> LaunchedWorkload:
        """Start the server of the trial's workload."""
        raise UsageError(f"{self.name} runs no {job.trial.workload}")

    def abilities_for(self, workload: str) -> Abilities | None:
        """Return the abilities for a workload; None if the program does not run it."""
        if workload == FRAMES:
            return self.abilities if self.sends_frames else None
        return self.workloads.get(workload)
