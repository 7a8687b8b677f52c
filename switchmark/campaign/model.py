"""A trial and a campaign as plain values: what is asked, before anything touches a machine.

The tuple (D, L, S, V, P, R, B) of Ara et al. names a trial; the other fields extend it as
`key=value`. Sizes are L2 frame sizes with FCS (RFC 2544).
"""

from __future__ import annotations

import hashlib
import json
import math
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.campaign import rates, traffic
from switchmark.switch.base import ConnectMode, PortKind
from switchmark.testbed import nics

MIN_FRAME_BYTES = 64  # the smallest Ethernet frame, with FCS
MAX_FRAME_BYTES = 9018  # a jumbo frame of 9000 bytes of payload, with header and FCS
MAX_RATE_PPS = 10_000_000_000
MAX_BURST = 4096
MAX_PROBE_RATE_PPS = 1_000_000
MAX_PAIRS = 1024
MAX_CORES = 1024
MAX_REPETITIONS = 10_000
MAX_REPEATS = 100
MIN_TIME_S = 0.001
MAX_TIME_S = 604_800.0  # a week
SPLITS = ("none", "src-mac", "flow")
RINGS = ("256", "512", "1024", "2048", "4096")
WIRE = "direct"  # no switch at all, so it has no connect mode that could be unfair
SWITCH_ENVIRONMENTS = ("host", "netns", "lxc", "docker")
SMT_WORDS, NUMA_WORDS = ("auto", "avoid", "siblings"), ("auto", "same", "other")
CORES_PATTERN = r"^\d{1,4}(\+\d{1,4})*$"
NEIGHBOURS = ("none", "cpu", "cache", "memory", "stream", "switch", "socket")  # or a path
VNF_PATTERN = r"^([a-z][a-z0-9-]*|/[A-Za-z0-9._+/-]+)$"  # a kind, or an absolute path
NAME_PATTERN = r"^[A-Za-z0-9][A-Za-z0-9._+-]*$"  # what a notation can carry


class Dimension(StrEnum):
    """What is measured (D)."""

    THROUGHPUT = "throughput"  # sender -> receiver, forwarded frames per second
    LATENCY = "latency"  # client <-> server, round-trip time


class Method(StrEnum):
    """How the figure is found. `plain` is one run; the others make many trials on one
    deployment (docs/methods.md)."""

    PLAIN = "plain"
    NDR_PDR = "ndr-pdr"
    R_PLUS = "r-plus"
    PLATEAU = "plateau"
    LOSS_VS_LOAD = "loss-vs-load"
    BACK_TO_BACK = "back-to-back"
    SOAK = "soak"
    CALIBRATE = "calibrate"
    RECOVERY = "recovery"
    RECONFIGURATION = "reconfiguration"


# Presets of what a search looks for; switchmark/method/goal.py holds them.
GOALS = ("csit", "rfc2544", "tst009", "quick")


class Io(StrEnum):
    """How the traffic application talks to its port. `auto` takes the fastest for the port."""

    AUTO = "auto"
    UDP = "udp"
    UDP_MMSG = "udp-mmsg"
    RAW = "raw"
    RAW_MMSG = "raw-mmsg"
    PACKET_MMAP = "packet-mmap"
    AF_XDP = "af-xdp"
    IO_URING = "io-uring"
    DPDK = "dpdk"
    NETMAP = "netmap"


class Idle(StrEnum):
    """What a traffic application does when its ring is full or empty. `auto`: by placement."""

    AUTO = "auto"
    POLL = "poll"
    YIELD = "yield"
    SLEEP = "sleep"


# What stands in a chain: the engine's forwarder by its fastest I/O, a Linux bridge inside the
# VNF, the engine's forwarder as a program over libpcap would be (packet sockets, one system
# call a frame), or a program of the user's by its absolute path.
VNFS = ("forwarder", "bridge", "pcap")


def rewrites(vnf: str) -> bool:
    """Whether the VNF addresses each frame to the next station, as a learning switch needs."""
    return vnf in ("forwarder", "pcap")


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Trial(_Frozen):
    """One measurement, completely described. Frozen; equal descriptions have equal ids."""

    dimension: Dimension
    location: Literal["local", "remote"] = "local"  # L
    pairs: int = Field(default=1, ge=1, le=MAX_PAIRS)  # S: NvsN
    switch: str = Field(pattern=NAME_PATTERN)  # V
    packet_size_bytes: int = Field(ge=MIN_FRAME_BYTES, le=MAX_FRAME_BYTES)  # P, with FCS
    rate_pps: int | None = Field(default=None, ge=1, le=MAX_RATE_PPS)  # R per pair; None is `max`
    burst: int = Field(default=32, ge=1, le=MAX_BURST)  # B

    schedule: str = rates.CONSTANT  # in its shortest form (rates.py)
    probe_rate_pps: int | None = Field(default=None, ge=1, le=MAX_PROBE_RATE_PPS)  # a pair

    scenario: str = Field(default="pairs", pattern=NAME_PATTERN)
    environment: str = Field(default="netns", pattern=NAME_PATTERN)
    connect_mode: ConnectMode | None = None  # None: not yet chosen (planning fills it in)
    port_kind: PortKind | None = None  # None: the switch's first that the environment has
    io: Io = Io.AUTO
    idle: Idle = Idle.AUTO
    touch: bool = False
    method: Method = Method.PLAIN
    goals: Literal["csit", "rfc2544", "tst009", "quick"] = "csit"  # of a search
    budget_s: float | None = Field(default=None, ge=MIN_TIME_S, le=MAX_TIME_S)  # of a method
    duration_s: float = Field(default=10.0, ge=MIN_TIME_S, le=MAX_TIME_S)
    interval_s: float = Field(default=0.2, ge=MIN_TIME_S, le=MAX_TIME_S)
    switch_options: str = ""  # `name:value+name:value`, sorted; what is left out has its default
    switch_cores: int = Field(default=1, ge=1, le=MAX_CORES)
    # Left idle on purpose, as a switch would use them.
    spare_cores: int = Field(default=0, ge=0, le=MAX_CORES)
    packet_mix: str = ""  # sizes in turn or random; packet_size_bytes is then their mean, rounded
    flows: str = "1"  # how many, and in which fields they differ
    ip_version: int = Field(default=4, ge=4, le=6)
    vlan: str = ""  # ID, or outer.inner
    repetition: int = Field(default=0, ge=0, lt=MAX_REPETITIONS)
    split: Literal["none", "src-mac", "flow"] = "none"  # of one stream over several chains
    bidirectional: bool = False  # throughput: both ends send, each at the rate
    vnf: str = Field(default="forwarder", pattern=VNF_PATTERN)  # of a chain
    cpu_limit: float | None = Field(default=None, gt=0, le=1)  # share of each of the switch's cores
    switch_environment: Literal["host", "netns", "lxc", "docker"] = "host"
    switch_cpus: str = "auto"  # which cores: `2+3`
    application_cpus: str = "auto"  # dealt out in the order of the nodes
    main_cpu: str = "auto"  # of the switch's main thread
    smt: Literal["auto", "avoid", "siblings"] = "auto"
    numa: Literal["auto", "same", "other"] = "auto"  # of applications, seen from the switch
    neighbour: str = Field(default="none", pattern=VNF_PATTERN)  # background load while measuring
    neighbour_cpus: str = "any"  # where it is pinned: any, switch, applications, or cores
    nics: str = Field(default="", pattern=nics.FORM)  # ports of this host at the wire ends
    ring: int = Field(default=256, ge=256, le=4096)  # frames, of a vhost-user port's ring

    @property
    def id(self) -> str:
        """16 hex digits of the whole description: the key under which its record is kept.

        A field that came later does not count while it has its default: what was measured
        before there was such a field keeps its id."""
        later = Trial.model_fields.keys() - _FIRST_FIELDS
        described = {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name not in later or getattr(self, name) != Trial.model_fields[name].default
        }
        text = json.dumps(described, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def repeated(self, repetition: int) -> Trial:
        """This trial as another of its repetitions.

        What `model_copy` does in a fraction of its time and memory, since campaigns have up to
        10^5 of them: all share one set of the names of the fields that were given."""
        other = Trial.__new__(Trial)
        put = object.__setattr__
        put(other, "__dict__", self.__dict__ | {"repetition": repetition})
        put(other, "__pydantic_fields_set__", _EVERY_FIELD)
        put(other, "__pydantic_extra__", None)
        put(other, "__pydantic_private__", None)
        return other

    @property
    def frame_sizes(self) -> traffic.Mix:
        """The frames' sizes in bytes, with FCS."""
        if self.packet_mix:
            return traffic.mix(self.packet_mix)
        size = self.packet_size_bytes
        return traffic.Mix(size, size, float(size))

    @property
    def streams(self) -> int:
        """How many streams of traffic there are: a pair has two where it is bidirectional, and
        chains that one stream is split over have it in common."""
        if self.split != "none":
            return 1
        return self.pairs * (2 if self.bidirectional else 1)


_FIRST_FIELDS = frozenset({
    "dimension", "location", "pairs", "switch", "packet_size_bytes", "rate_pps", "burst",
    "scenario", "environment", "connect_mode", "port_kind", "io", "idle", "touch", "method",
    "goals", "budget_s", "duration_s", "interval_s", "switch_options", "switch_cores",
    "spare_cores", "repetition",
})  # fmt: skip
_EVERY_FIELD = set(Trial.model_fields)
LATER_FIELDS = tuple(name for name in Trial.model_fields if name not in _FIRST_FIELDS)


# Trials of full length that each method usually takes, and seconds of a search by its goals.
_USUAL_TRIALS = {
    Method.R_PLUS: 9,
    Method.PLATEAU: 12,
    Method.LOSS_VS_LOAD: 10,
    Method.CALIBRATE: 10,
    Method.RECOVERY: 3,
    Method.RECONFIGURATION: 5,
}
_SEARCH_TIME_S = {"csit": 60.0, "rfc2544": 160.0, "tst009": 300.0, "quick": 25.0}
_BURSTS_TIME_S = 120.0


def usual_time_s(trial: Trial) -> float:
    """Seconds of traffic: exact for a plain trial, the usual time for a method of many."""
    match trial.method:
        case Method.NDR_PDR:
            usual_s = _SEARCH_TIME_S[trial.goals]
        case Method.BACK_TO_BACK:
            usual_s = _BURSTS_TIME_S
        case _:
            usual_s = _USUAL_TRIALS.get(trial.method, 1) * trial.duration_s
    return usual_s if trial.budget_s is None else min(usual_s, trial.budget_s)


def default_rate_pps(dimension: Dimension) -> int | None:
    """The rate a pair is driven at when none is asked: saturating, or 1000/s for round trips."""
    return None if dimension is Dimension.THROUGHPUT else 1000


def default_burst(dimension: Dimension) -> int:
    """The burst when none is asked. Round trips go singly: a burst measures its own queue."""
    return 32 if dimension is Dimension.THROUGHPUT else 1


class Sweep(_Frozen):
    """A grid of trials: every combination of the values. The fields are those of `Trial`."""

    dimension: Dimension
    location: tuple[Literal["local", "remote"], ...]
    pairs: tuple[int, ...]
    switch: tuple[str, ...] = Field(min_length=1)
    packet_size_bytes: tuple[int, ...]
    rate_pps: tuple[int | rates.BitRate | None, ...]
    burst: tuple[int, ...]
    schedule: tuple[str, ...]
    probe_rate_pps: tuple[int | None, ...]
    scenario: tuple[str, ...]
    environment: tuple[str, ...]
    connect_mode: tuple[ConnectMode | None, ...]
    port_kind: tuple[PortKind | None, ...]
    io: tuple[Io, ...]
    idle: tuple[Idle, ...]
    touch: tuple[bool, ...]
    method: tuple[Method, ...]
    goals: tuple[Literal["csit", "rfc2544", "tst009", "quick"], ...]
    budget_s: tuple[float | None, ...]
    duration_s: tuple[float, ...]
    interval_s: tuple[float, ...]
    switch_options: tuple[str, ...]
    switch_cores: tuple[int, ...]
    spare_cores: tuple[int, ...]
    packet_mix: tuple[str, ...]
    flows: tuple[str, ...]
    ip_version: tuple[int, ...]
    vlan: tuple[str, ...]
    split: tuple[Literal["none", "src-mac", "flow"], ...]
    bidirectional: tuple[bool, ...]
    vnf: tuple[str, ...]
    cpu_limit: tuple[float | None, ...]
    switch_environment: tuple[Literal["host", "netns", "lxc", "docker"], ...]
    switch_cpus: tuple[str, ...]
    application_cpus: tuple[str, ...]
    main_cpu: tuple[str, ...]
    smt: tuple[Literal["auto", "avoid", "siblings"], ...]
    numa: tuple[Literal["auto", "same", "other"], ...]
    neighbour: tuple[str, ...]
    neighbour_cpus: tuple[str, ...]
    nics: tuple[str, ...]
    ring: tuple[int, ...]

    @property
    def count(self) -> int:
        """How many trials the grid has, without making them."""
        return math.prod(len(getattr(self, axis)) for axis in SWEPT_FIELDS)


SWEPT_FIELDS: tuple[str, ...] = tuple(name for name in Sweep.model_fields if name != "dimension")


class TrimPolicy(_Frozen):
    """What is left out of a trial: the first and last samples of a throughput trial (inside
    its duration); a latency trial has a warm-up run of its own before it (outside)."""

    warm_up_s: float = Field(default=1.0, ge=0)
    cool_down_s: float = Field(default=0.4, ge=0)


class VerifyPolicy(_Frozen):
    """What the check before each trial sends and what it demands."""

    probes: int = Field(default=16, ge=1)  # frames each way, a pair
    min_arrived_ratio: float = Field(default=1.0, ge=0, le=1)
    max_strays: int = Field(default=0, ge=0)  # frames at a port they were not meant for
    timeout_s: float = Field(default=15.0, gt=0)  # until every port passes frames


class Published(_Frozen):
    """A figure from the literature, to be printed beside what was measured here."""

    match: dict[str, str | int | float | bool | None]  # Trial field -> value
    value: float
    unit: Literal["pps", "bps", "ns", "us"]
    source: str
    note: str = ""

    def matches(self, trial: Trial) -> bool:
        """True when the figure was measured under what this trial describes."""
        return all(getattr(trial, field) == value for field, value in self.match.items())


class Campaign(_Frozen):
    """A set of trials, how often and in what order they run, and what is demanded of them."""

    name: str = Field(pattern=NAME_PATTERN)
    description: str = ""
    sweeps: tuple[Sweep, ...] = Field(min_length=1)
    repetitions: int = Field(default=1, ge=1, le=MAX_REPETITIONS)
    until_ci: float | None = Field(default=None, gt=0, lt=1)  # half the interval over the mean
    max_repetitions: int = Field(default=20, ge=1, le=MAX_REPETITIONS)  # with `until_ci`
    repeat_disturbed: int = Field(default=0, ge=0, le=MAX_REPEATS)  # of one measurement
    seed: int = Field(default=1, ge=0)  # of the order inside each block
    trim: TrimPolicy = TrimPolicy()
    verify: VerifyPolicy = VerifyPolicy()
    mixed_connect_modes: bool = False
    tuning: str = "as-is"  # of the machine, for the time of the campaign (testbed/tuning.py)
    skip_unavailable: bool = False  # leave out, by name, switches that the machine cannot run
    time_budget_s: float | None = Field(default=None, gt=0)  # of measuring
    published: tuple[Published, ...] = ()

    @property
    def count(self) -> int:
        """Trials at most, repetitions included (sweeps may overlap)."""
        return self.repetitions * sum(sweep.count for sweep in self.sweeps)
