"""Capabilities and options of a switch as plain values, and its availability on this machine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from switchmark.errors import Refusal, SwitchmarkError
from switchmark.model.functions import FunctionSupport
from switchmark.model.io import Io
from switchmark.model.page_size import PageSize
from switchmark.model.ports import CableEnd, ConnectMode, PortKind
from switchmark.model.taxonomy import Taxonomy

# Usual time of the bench around a trial, in seconds: medians that `bench/overhead` holds every
# switch to, in netns and lxc. Other environments take longer, which the first trials show.
IN_KERNEL_OVERHEAD_S = 0.2  # and of a wire without a switch
PROGRAM_OVERHEAD_S = 0.3


@dataclass(frozen=True, slots=True)
class SwitchOption:
    """A setting of a switch that a campaign may choose: one of some words, a whole number in a
    range, or text of a given form."""

    name: str
    meaning: str
    default: str
    choices: tuple[str, ...] = ()
    range: tuple[int, int] | None = None
    form: str = ""  # a regular expression
    described: str = "a probability, 0 to 1"  # values of that form, for messages
    path: str = ""  # the option also takes a path with a slash, of such a thing; empty: no path
    modes: tuple[ConnectMode, ...] = ()  # where it can be other than the default; none: everywhere
    # By value: the fewest `switch_cores` it can be had with, and the other options that it sets.
    least_cores: Mapping[str, int] = field(default_factory=dict, hash=False)
    sets: Mapping[str, Mapping[str, str]] = field(default_factory=dict, hash=False)
    only_io: Mapping[str, Io] = field(default_factory=dict, hash=False)  # that its ports then take
    one_host: Mapping[str, str] = field(default_factory=dict, hash=False)  # values, and why
    # By value: the longest frame with FCS, if it is shorter than the switch's.
    longest_frame: Mapping[str, int] = field(default_factory=dict, hash=False)

    @property
    def allowed(self) -> str:
        """The values that the option takes, in words for messages and tables."""
        if self.form:
            return self.described
        if self.path:
            return f"{', '.join(self.choices)}, or the path of {self.path} with a / in it"
        return ", ".join(self.choices) if self.range is None else "{} to {}".format(*self.range)

    def takes(self, value: str) -> bool:
        """Return True if the option takes this value."""
        if self.path and "/" in value:
            return True
        if self.form:
            return re.fullmatch(self.form, value) is not None
        if self.range is None:
            return value in self.choices
        low, high = self.range
        return value.isascii() and value.isdigit() and low <= int(value) <= high


@dataclass(frozen=True, slots=True)
class WrittenMemory:
    """The memory that a switch's trial writes to at least, as measured with small frames. Pages of
    4 KiB count from the first write on, so the whole of DPDK's memory need not be there."""

    switch_share: float = 0.1  # share of the DPDK memory of the switch
    engine_share: float = 0.1  # share of the DPDK memory of the engines
    own_mb: int = 8  # other memory of the switch


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Capabilities of a switch. Placement and planning read them without access to the machine."""

    port_kinds: tuple[PortKind, ...]  # in order of preference
    connect_modes: tuple[ConnectMode, ...]  # the first is the switch's own natural mode
    polling: bool  # it busy-polls, so it needs its own core
    in_kernel: bool = False  # no process: it works in the senders' softirq; also for `direct`
    # It hands on VLAN tags beside the frame, where XDP programs do not see them.
    hides_tags: bool = False
    # Frames cross it as packets of the kernel, with their offload state: checksums that are not
    # filled in yet, and segments of TCP that are not cut yet. A program that reads frames from a
    # device loses that state.
    keeps_offloads: bool = False
    # Kinds of port beside `port_kinds` for workloads of applications, which need a device.
    application_ports: tuple[PortKind, ...] = ()
    overhead_s: float | None = None  # per trial; None: the usual overhead (`usual_overhead_s`)
    multi_core: bool = False
    main_thread: bool = False  # a thread that does not forward and can have its own core
    max_ports: int | None = None
    longest_frame_bytes: int | None = None  # with FCS; None: it limits no frame of the engine
    # Page sizes for its buffers, if they lie in memory of DPDK, or of a program that takes
    # hugepages as DPDK does.
    page_sizes: tuple[PageSize, ...] = ()
    written_memory: WrittenMemory = WrittenMemory()
    takes_program: bool = False  # `program` may name the executable (`WithProgram`)
    known_truth: bool = False  # for trying methods on; no contender, never listed or ranked
    splits: bool = False  # can deal the frames of one port out to several (`Split`)
    runs_in: tuple[str, ...] = ("host",)  # values of `switch_environment`
    # Linux capabilities that its program keeps on the host, by kind of port; None: all that the
    # bench has (`switch/support/rights.py`).
    linux_capabilities: Mapping[PortKind, tuple[str, ...]] | None = field(default=None, hash=False)
    # Other folders of the host than its own (`Resources.folder`) in which its program writes and
    # removes files; None: unknown, and it runs without a file-system sandbox.
    writes: tuple[str, ...] | None = None
    reconfigures: bool = False  # ports and rules can be changed while it runs (`changes.py`)
    cannot_reconfigure: str = ""  # why they cannot, where that is known
    # Functions whose tables can be changed while it runs (`ChangesTables`), and why others cannot.
    changes_tables: tuple[str, ...] = ()
    cannot_change_tables: Mapping[str, str] = field(default_factory=dict, hash=False)
    # Kinds of ports for a cable to another host; if empty, `uncabled` gives the reason.
    cable_ends: tuple[CableEnd, ...] = (CableEnd.INTERFACE,)
    uncabled: str = ""
    # A network that the bench did not make, or whose rule of forwarding is not known: learning,
    # addresses and flooding are not verified.
    foreign: bool = False
    # It is a container network: it gives addresses to its ends, and applications reach each
    # other through the IP stack only.
    is_network: bool = False
    attaches: bool = False  # namespaces can be attached while it runs (method attach)
    is_nic: bool = False  # it is a NIC: a cable to another host is plugged into the switch itself
    # Fallback port kinds, each with a text that plans and figures with such ports show: the result
    # belongs to another data path.
    stand_ins: Mapping[PortKind, str] = field(default_factory=dict, hash=False)
    description: str = ""
    taxonomy: Taxonomy | None = None  # None: no contender
    options: tuple[SwitchOption, ...] = ()
    # Network functions by name, and the reasons why functions that it could have are not here.
    functions: Mapping[str, FunctionSupport] = field(default_factory=dict, hash=False)
    functions_not_built: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def only_routes(self) -> bool:
        """Return True if the switch is a router, which cannot pass frames on unchanged."""
        return self.connect_modes == (ConnectMode.ROUTE,)

    def can_connect(self, mode: ConnectMode) -> bool:
        """Return True if the switch has this connect mode; `route` may come with the function."""
        return mode in self.connect_modes or (
            mode is ConnectMode.ROUTE and "route" in self.functions
        )

    @property
    def usual_overhead_s(self) -> float:
        """Seconds from the start of one trial to that of the next, less its duration, before trials
        of a run have shown it."""
        if self.overhead_s is not None:
            return self.overhead_s
        return IN_KERNEL_OVERHEAD_S if self.in_kernel else PROGRAM_OVERHEAD_S

    @property
    def needs_hugepages(self) -> bool:
        """Return True for a switch whose buffers can lie in hugepages only."""
        return self.page_sizes == (PageSize.HUGE,)

    @property
    def is_contender(self) -> bool:
        """Return True if the switch is compared with others. The baseline `direct` is not, and
        neither are the switches for tests of methods."""
        return self.taxonomy is not None and not self.known_truth


ONE_BUFFER_FRAME_BYTES = 1518  # the longest frame of switches whose buffers are of 2 KiB


@dataclass(frozen=True, slots=True)
class Availability:
    """The version of a program that this machine can run, or why it cannot run it."""

    available: bool
    version: str | None = None
    reason: str | None = None
    remedy: str | None = None
    instead: str | None = None  # an alternative to the remedy

    @property
    def refusal(self) -> Refusal | None:
        """The reason why this machine cannot run the program; None if it can."""
        if self.available:
            return None
        return Refusal(self.reason or "", self.remedy or "", self.instead or "")

    @property
    def clause(self) -> str:
        """The reason with the remedy in parentheses, as a part of a sentence."""
        return Refusal(self.reason or "", self.remedy or "").clause


def available(version: str | None) -> Availability:
    """Return the availability of a program that can run here, in this version."""
    return Availability(True, version=version)


def unavailable(
    reason: str | None, remedy: str | None = None, instead: str | None = None
) -> Availability:
    """Return the availability of a program that cannot run here, for this reason."""
    return Availability(False, reason=reason, remedy=remedy, instead=instead or None)


def refused(refusal: Refusal) -> Availability:
    """Return the availability of a program that cannot run here, by this refusal."""
    return unavailable(refusal.reason, refusal.remedy or None, refusal.instead)


def unavailable_for(error: SwitchmarkError) -> Availability:
    """Return the same for an error: its refusal."""
    return refused(error.refusal)
