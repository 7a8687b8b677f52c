"""A foreign generator: a program of another project that sends and receives at a trial's two ends.

A foreign generator is one file of `switchmark/instrument/`, with a class of the file's name. The
bench deploys, teaches and verifies with the engine, which then leaves the ports. The generator
takes them, runs once, and reports its counts. Missing information is listed, never guessed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Protocol

from switchmark.errors import Refusal, UsageError
from switchmark.host.host import Spawned
from switchmark.host.programs import ProgramPlace
from switchmark.instrument.support.program import THIS_HOST
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

# Parameters that every generator supports within its limits, and those that concern only the bench.
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
    """The abilities of a generator. Planning reads them without access to the machine."""

    description: str
    ports: Mapping[PortKind, Io]  # with the I/O by which the engine verifies the port before
    cannot_know: tuple[str, ...]  # information that only a record of the engine has
    largest_burst: int
    dimensions: tuple[Dimension, ...] = (Dimension.THROUGHPUT,)
    environments: tuple[str, ...] = ("netns",)
    paces: bool = True  # supports `rate`
    saturates: bool = True  # supports `rate: max`
    shortest_sample_s: float | None = 0.1  # None: it has no samples
    whole_seconds: bool = False  # True: durations are whole seconds
    largest_frame_bytes: int | None = None  # with FCS; None: limited only by its port
    most_rate_pps: int | None = None
    # Frames besides its load that it may send over the same ports in a trial, in both directions.
    own_frames: int = 0
    # Capabilities of its programs on the host, by port kind; None: all that the bench has.
    linux_capabilities: Mapping[PortKind, tuple[str, ...]] | None = None
    # Places besides the session's folder in which its programs write, make and remove files of the
    # host; None: unknown, so they may write everywhere.
    writes: tuple[str, ...] | None = None
    # Page sizes and memory of a DPDK program.
    page_sizes: tuple[PageSize, ...] = ()
    memory_mb: int = 0
    # The largest number of flows of a load of network functions (docs/functions.md) that it sends
    # in turn; 0: it does not support them, and `no_functions` is the reason.
    function_flows: int = 0
    no_functions: str = "its frames have the addresses of two sockets"
    any_headers: bool = False  # also IPv6, tags and tunnels in that load; otherwise only IPv4
    # Programs of the server, which the second end needs if it is on another host.
    servers: tuple[str, ...] = ()
    # Parameters of the ends that may have another value than the default.
    fields: frozenset[str] = COMMON_FIELDS


FILES_OF = "application-"  # begins the name of the folder of a node


@dataclass(frozen=True, slots=True)
class Station:
    """One end: the node in which a program of the generator runs."""

    node: str
    port: NodePort
    cores: tuple[int, ...]  # empty: the kernel chooses
    spawn: Callable[[Sequence[str]], Spawned]  # runs a program there, on its cores, with its rights
    place: ProgramPlace = THIS_HOST

    @property
    def first_core(self) -> int:
        """A core for a program that needs the number of a core."""
        return self.cores[0] if self.cores else 0


@dataclass(frozen=True, slots=True)
class Job:
    """The requested run of a generator."""

    trial: Trial
    source: Station  # sender or client
    target: Station  # receiver or server
    folder: Path  # for files; removed with the session
    sample_s: float
    load: tuple[LoadFrame, ...] = ()  # frames of network functions, one for each flow

    def folder_at(self, station: Station) -> Path:
        """Return the folder for the files of an application at one end."""
        return station.place.make_folder(self.folder, f"{FILES_OF}{station.node}")


def application_folder(folder: Path, node: str) -> Path:
    """Return the folder for the files of an application in a node, which a container of the node
    also sees. `folder`: that of the session."""
    return THIS_HOST.make_folder(folder, f"{FILES_OF}{node}")


class Launched(Protocol):
    """A generator whose programs have been started. `close` may be called at any time."""

    def wait_ready(self, timeout_s: float) -> None:
        """Return when arriving frames will be counted. Raises TrialFailed."""
        ...

    def begin(self, duration_s: float) -> None:
        """Let the traffic begin. Raises TrialFailed."""
        ...

    def running(self) -> bool:
        """Return True while its traffic runs. Raises TrialFailed if a program has died."""
        ...

    def finish(self, timeout_s: float) -> Reading:
        """Return its counts after its traffic. Raises TrialFailed with one line if its programs
        fail or their output cannot be read."""
        ...

    def process_ids(self) -> Sequence[int]:
        """Return the processes whose CPU time belongs to the traffic."""
        ...

    def close(self) -> None:
        """End its programs. Idempotent."""
        ...


class Instrument(Protocol):
    """A traffic program of another project."""

    name: str
    abilities: Abilities  # for frames, or for its first workload if it sends no frames
    sends_frames: bool = True
    # Abilities by workload, for the workloads besides frames (`support/workload.py`).
    workloads: Mapping[str, Abilities] = MappingProxyType({})

    def availability(self) -> Availability:
        """Return the version, or why this machine lacks the program, with the remedy. Changes
        nothing."""
        ...

    def refusals(self, sweep: Sweep) -> Iterator[Refusal]:
        """Yield further refusals besides its `abilities`, with remedies."""
        del sweep
        return iter(())

    def launch(self, job: Job) -> Launched:
        """Start the programs that must run before the traffic of frames."""
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
