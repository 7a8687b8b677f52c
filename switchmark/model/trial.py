"""A trial as a plain value, and the table of its parameters: a field, its type, its default, and
the row that says everything else (parameter.py).

The tuple (D, L, S, V, P, R, B) of Ara et al. names a trial; the other parameters extend it as
`key=value`, in the order of this table. Sizes are L2 frame sizes with FCS (RFC 2544). A new
parameter goes to the end: so notations and ids of trials without it stay as they are.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.language.values import format_rate, format_seconds
from switchmark.model import rates, traffic
from switchmark.model import readers as read
from switchmark.model.choices import (
    MAX_TIME_S,
    MAX_VCPUS,
    MIN_FRAME_BYTES,
    MIN_TIME_S,
    NAME_PATTERN,
    NEIGHBOURS,
    OWN_ENGINE,
    PLAIN,
    PROGRAM_PATTERN,
    VNF_PATTERN,
    VNFS,
    Dimension,
    Idle,
)
from switchmark.model.io import Io
from switchmark.model.nics import FORM, read_nics
from switchmark.model.parameter import Axis, Kind, Parameter, Wire
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.scenario import chain_length

TRAFFIC, LAYOUT, PLACE, CORES = Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE, Kind.CORES
METHOD, CONTENDER, BOOKKEEPING = Kind.METHOD, Kind.CONTENDER, Kind.BOOKKEEPING
SAME, PACE, ANY, DEFAULT, PLANNED = Wire.SAME, Wire.PACE, Wire.ANY, Wire.DEFAULT, Wire.PLANNED
Name = Annotated[str, Field(pattern=NAME_PATTERN)]
NameOrNone = Annotated[str, Field(pattern=rf"^$|{NAME_PATTERN}")]
Seconds = Annotated[float, Field(ge=MIN_TIME_S, le=MAX_TIME_S)]


class Frozen(BaseModel):
    """A value that never changes and has no other fields than those named."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)


class Trial(Frozen):
    """One measurement, completely described. Frozen; equal descriptions have equal ids."""

    # fmt: off
    dimension: Annotated[Dimension, Parameter(
        "dimension", LAYOUT, SAME, "throughput, latency",
        "what is measured: `throughput` (forwarded frames/s, sender to receiver) or `latency` "
        "(round-trip time, client and server)", letter="D")]
    location: Annotated[Literal["local", "remote"], Parameter(
        "location", LAYOUT, SAME, "local, remote",
        "where the two ends of a path are: `local`, both on this host; `remote`, the receiving one "
        "(and the second half of a chain) on the other host of the testbed file (docs/testbed.md)",
        letter="L")] = "local"
    pairs: Annotated[int, Parameter(
        "pairs", LAYOUT, SAME, "1vs1, 2vs2, 4",
        "how many pairs of traffic applications run at the same time; `4vs4` is the same as `4`",
        letter="S", read=read.pairs, show="{0}vs{0}".format, limits=read.PAIRS, ranges=True,
        say=lambda value: f"{value} pair{'' if value == 1 else 's'}", axis=Axis("pairs"))] = 1
    switch: Annotated[Name, Parameter(
        "switch", CONTENDER, PLANNED, "[linux-bridge, ovs-dpdk, basicfwd]",
        "the switch under test; `switchmark list switches` names them; `all`: every contender",
        letter="V", names=lambda known: known.switches,
        every=lambda known: known.contenders)]
    packet_size_bytes: Annotated[int, Parameter(
        "packet_size", TRAFFIC, SAME, "64..512 step 64, 1024, 1500",
        "Ethernet frame with FCS, 64 to 9018 (the wire adds 20 bytes a frame); several make a "
        "sweep, a mix of sizes (`imix`) is one value of `packet_mix`", unit="bytes", letter="P",
        read=read.packet_size, limits=read.FRAME, ranges=True, usual=MIN_FRAME_BYTES,
        say="{} B".format, axis=Axis("frame size with FCS (bytes)"))]
    rate_pps: Annotated[int | None, Parameter(
        "rate", TRAFFIC, PACE, "1M..20M step 1M",
        "load offered to each pair; `max` sends as fast as the port takes it; also in bits of a "
        "named layer, `1Gbps-l1` (as on the wire) or `500Mbps-l2` (frames with FCS), or "
        "`80% of 10Gbps`, turned into packets/s by the packet size", unit="packets/s a pair",
        letter="R", read=read.words(rates.rate), show=format_rate, none="max", limits=rates.PPS,
        ranges=True, as_written=rates.BitRate, usual_latency=1000,
        say=lambda value: "rate max" if value is None else f"rate {format_rate(value)} pps",
        axis=Axis("intended load of a pair (frames/s)",
                  label=lambda value: format_rate(round(value))))] = None
    burst: Annotated[int, Parameter(  # round trips go singly: a burst measures its own queue
        "burst", TRAFFIC, SAME, "32, 128", "packets handed to the port at a time, 1 to 4096",
        unit="packets", letter="B", limits=read.BURST, ranges=True, usual_latency=1,
        axis=Axis("burst (frames)"))] = 32
    schedule: Annotated[str, Parameter(  # in its shortest form (rates.py)
        "schedule", TRAFFIC, PACE, "poisson, on-off:10ms:90ms",
        "when bursts are sent: `constant` (equal distances), `poisson` or `poisson:SEED` "
        "(exponential distances, the same mean), `on-off:ON:OFF` (at `rate` for a time, then "
        "nothing for a time), `ramp:FROM:TO:OVER` (in place of `rate`)",
        read=read.words(rates.schedule), say="{} schedule".format)] = rates.CONSTANT
    probe_rate_pps: Annotated[int | None, Parameter(
        "probe_rate", TRAFFIC, PACE, "1k",
        "latency under load: time a stream of its own at this rate, and let `rate` and `burst` be "
        "an untimed load beside it (dimension latency, and methods that time frames; of traffic "
        "both ways, of each); `none`: time every frame",
        unit="packets/s a pair", show=format_rate, none="none", limits=read.PROBE_RATE,
        read=read.words(read.probe_rate), as_written=rates.BitRate,
        say=lambda v: f"probes at {format_rate(v)} pps" if v else "every frame timed")] = None
    scenario: Annotated[Name, Parameter(
        "scenario", LAYOUT, SAME, "loopback-1, loopback-2",
        "how the nodes are joined: `pairs`, `p2p`, `p2v`, `v2p`, `v2v`, `loopback-N` (a chain of N "
        "VNFs), `pairs-N`, `chains-MxN` (M chains of N); docs/scenarios.md",
        read=read.scenario, say=str,
        axis=Axis("VNFs in the chain", chain_length, log=False))] = "pairs"
    environment: Annotated[Name, Parameter(
        "environment", PLACE, SAME, "lxc",
        "where the traffic applications live; `switchmark list environments` names them",
        names=lambda known: known.environments)] = "netns"
    connect_mode: Annotated[ConnectMode | None, Parameter(
        "connect_mode", CONTENDER, PLANNED, "learning",
        "how the switch chooses the output port: `cross-connect`, `learning`, `static-mac`, `veb` "
        "(by the addresses of its own ports), or `auto`: a mode that all chosen switches have",
        none="auto", resolved=True)] = None
    port_kind: Annotated[PortKind | None, Parameter(
        "port_kind", CONTENDER, PLANNED, "veth",
        "where the applications meet the switch: `veth`, `vhost-user`, `tap`, `memif`, "
        "`macvlan`, `vf`, `vale`, or `auto`: the switch's best that the environment has "
        "and `io` can use", none="auto", resolved=True, by_switch=True)] = None
    io: Annotated[Io, Parameter(
        "io", CONTENDER, PLANNED, "udp, udp-mmsg",
        "how the applications talk to their port: "
        f"{', '.join(f'`{one}`' for one in Io if one is not Io.AUTO)}, or `auto`: the fastest for "
        "the port", resolved=True, by_switch=True)] = Io.AUTO
    idle: Annotated[Idle, Parameter(
        "idle", CONTENDER, SAME, "yield",
        "what an application does while its ring is full or empty: `poll`, `yield`, `sleep`, "
        "`baton` (those on one core take turns), `block` (it sleeps in the kernel until a frame "
        "comes or is due: blocking sockets), or `auto`: by the cores there are",
        noun="idle strategy", by_switch=True)] = Idle.AUTO
    touch: Annotated[bool, Parameter(
        "touch", TRAFFIC, SAME, "true", "write and verify every payload byte at both ends",
        say=lambda value: "payload touched" if value else "payload untouched")] = False
    method: Annotated[Name, Parameter(
        "method", METHOD, DEFAULT, "ndr-pdr",
        "how a throughput is found: `plain` (one run at the set rate), or by many trials; "
        "`switchmark list methods` names the methods (docs/methods.md); `rate` then bounds the "
        "load, and `duration` is one trial's", names=lambda known: known.methods)] = PLAIN
    goals: Annotated[Name, Parameter(
        "goals", METHOD, DEFAULT, "rfc2544",
        "what an `ndr-pdr` search looks for: `csit`, `rfc2544`, `tst009` or `quick`",
        names=lambda known: known.goals, noun="preset of goals")] = "csit"
    budget_s: Annotated[Seconds | None, Parameter(
        "method_budget", METHOD, DEFAULT, "5m",
        "the time a method may take, its own overhead included; `auto`: the method's default",
        unit="time", read=read.time, show=format_seconds, none="auto")] = None
    duration_s: Annotated[Seconds, Parameter(
        "duration", METHOD, ANY, "5s",
        "how long a trial lasts (a latency trial's warm-up comes before it)",
        unit="time", read=read.time, show=format_seconds, say="{:g} s".format)] = 10.0
    interval_s: Annotated[Seconds, Parameter(
        "interval", METHOD, ANY, "100ms",
        "length of one sample inside a trial; the default, also where it is written out, is at "
        "most a 25th of the trial",
        unit="time", read=read.time, show=format_seconds, say="samples of {:g} s".format,
        of_result=False)] = 0.2
    switch_options: Annotated[str, Parameter(  # `name:value+name:value`, sorted
        "switch_options", CONTENDER, DEFAULT, "vlan_filtering:on+static_fdb:on",
        "settings of the switch itself (table in docs/switch-options.md), also written as a "
        "mapping, `{vlan_filtering: on}`; a switch without the option refuses it",
        read=read.words(read.switch_options), none="none", mapping=True,
        say=lambda value: value.replace("+", ", ").replace(":", " ") or "default options")] = ""
    switch_cores: Annotated[int, Parameter(
        "switch_cores", CONTENDER, DEFAULT, "1, 2", "cores given to a switch that polls",
        unit="cores", limits=read.CORES, ranges=True, by_switch=True,
        say=lambda value: f"{value} core{'s' if value > 1 else ''}")] = 1
    spare_cores: Annotated[int, Parameter(
        "spare_cores", CONTENDER, PLANNED, "1",
        "cores left idle on purpose, as a polling switch would use them (for the bare wire)",
        unit="cores", limits=read.SPARE, ranges=True, by_switch=True,
        say=lambda value: f"{value or 'no'} core{'s' if value > 1 else ''} idle")] = 0
    packet_mix: Annotated[str, Parameter(  # packet_size_bytes is then the mean, rounded
        "packet_mix", TRAFFIC, SAME, "imix, genome:aaafag, 64*7+570*4+1518",
        "frames of several sizes in one trial: `imix` (64, 570, 1518 as 7:4:1), a genome of "
        "RFC 6985, sizes in turn, or `random:64-1518`; takes the place of `packet_size`",
        read=read.words(traffic.read_mix), none="none")] = ""
    flows: Annotated[str, Parameter(
        "flows", TRAFFIC, SAME, "1, 1000, 1M:src-ip+src-port:zipf=1.0",
        "how many flows a pair sends, 1 to 1M, and the fields in which they differ (default "
        "`src-ip`), joined by `+`; `:zipf=1.0` makes some popular",
        read=read.words(traffic.read_flows))] = "1"
    ip_version: Annotated[Literal[4, 6], Parameter(
        "ip_version", TRAFFIC, SAME, "4, 6",
        "IP version of the frames; IPv6 takes 20 bytes more, so 84 is the smallest size",
        noun="IP version")] = 4
    vlan: Annotated[str, Parameter(
        "vlan", TRAFFIC, SAME, "none, 100, 200.100",
        "VLAN ID with which frames are tagged (802.1Q), or two (`200.100`: 802.1ad outside); "
        "each tag takes 4 bytes of the frame", read=read.words(traffic.read_vlan), none="none")
        ] = ""
    repetition: Annotated[int, Parameter(
        "repetition", BOOKKEEPING, DEFAULT, "1", "which of several equal trials it is",
        limits=read.REPETITION, ranges=True)] = 0
    split: Annotated[Literal["none", "src-mac", "flow"], Parameter(
        "split", LAYOUT, DEFAULT, "none, src-mac, flow",
        "of `chains-MxN`: one sender and one receiver for all chains, and the switch deals the "
        "frames out, by source MAC address (`src-mac`, one for each chain) or by a hash of the "
        "flow (`flow`); `none`: each chain has ends of its own", noun="way to split",
        say=lambda value: "not split" if value == "none" else f"split by {value}")] = "none"
    bidirectional: Annotated[bool, Parameter(
        "bidirectional", LAYOUT, SAME, "false, true",
        "both ends of a path send, each at `rate`; the result keeps both directions and their sum",
        say=lambda value: "both ways" if value else "one way")] = False
    vnf: Annotated[str, Field(pattern=VNF_PATTERN), Parameter(
        "vnf", LAYOUT, DEFAULT, "forwarder, bridge",
        "what stands in a chain: `forwarder` (the engine's, by DPDK or packet sockets), `l2fwd` "
        "(the same, that holds frames until 32 are there or its timer of 100 us is up, as DPDK's "
        "sample does), `bridge` (a Linux bridge in the VNF), `pcap` (one system call a frame), or "
        "the absolute path of a program, run as `PROGRAM PORT-A PORT-B`",
        read=read.kind_or_path(VNFS, "kind of VNF"))] = "forwarder"
    cpu_limit: Annotated[float | None, Field(gt=0, le=1), Parameter(
        "cpu_limit", CORES, DEFAULT, "100%, 75%, 50%, 25%, 12.5%",
        "CPU time that a switch with a process of its own may use, as a share of each of its cores "
        "(a quota of its control group); `none`: all", unit="share", read=read.cpu_limit,
        show=lambda value: f"{value * 100:.6g}%", none="none",
        say=lambda value: "no CPU limit" if value is None else f"{value * 100:g} % CPU",
        axis=Axis("CPU time the switch may use (% of each of its cores)",
                  lambda value: round(100 * value, 6), log=False))] = None
    switch_environment: Annotated[Literal["host", "netns", "lxc", "docker"], Parameter(
        "switch_environment", CONTENDER, DEFAULT, "host, lxc, docker",
        "where the switch runs: `host`, a network namespace of its own (`netns`), or a container "
        "(`lxc`, `docker`), whose control group then carries `cpu_limit`; which switch can: "
        "docs/environments.md", noun="place for a switch",
        say=lambda value: "on the host" if value == "host" else f"in {value}")] = "host"
    vcpus: Annotated[int | None, Field(ge=1, le=MAX_VCPUS), Parameter(
        "vcpus", LAYOUT, DEFAULT, "1, 2",
        "virtual CPUs of each virtual machine (environment `qemu`); they run on the cores of its "
        "node, in turns where these are fewer; `auto`: as many as these", unit="CPUs",
        limits=read.VCPUS, ranges=True, none="auto",
        say=lambda value: f"{value} vCPUs" if value else "a vCPU a core")] = None
    switch_cpus: Annotated[str, Parameter(
        "switch_cpus", CORES, SAME, "2",
        "which cores the switch gets, as many as `switch_cores` says: `2+3`; `any`: it is not "
        "pinned, and the kernel moves its threads over all cores; `auto`: by placement",
        read=read.cores("auto", "any"),
        say=lambda value: {"any": "switch not pinned", "auto": "switch pinned"}.get(
            value, f"switch on cores {value}"))] = "auto"
    application_cpus: Annotated[str, Parameter(
        "application_cpus", CORES, SAME, "4+5+6",
        "which cores the traffic applications and VNFs get, one after the other, from the first "
        "again where there are more of them; `auto`: by placement",
        read=read.cores("auto", in_turn=True))] = "auto"
    main_cpu: Annotated[str, Parameter(
        "main_cpu", CORES, DEFAULT, "0",
        "the core of the switch's main thread, where that does not forward (`ovs-dpdk`, `testpmd`, "
        "`vpp`); `auto`: off the forwarding cores where there are others",
        read=read.one_core)] = "auto"
    smt: Annotated[Literal["auto", "avoid", "siblings"], Parameter(
        "smt", CORES, SAME, "avoid, siblings",
        "SMT siblings: `avoid` (one CPU of each physical core is used at all), `siblings` "
        "(applications run on the siblings of the switch's cores), `auto`: used last",
        noun="use of SMT siblings")] = "auto"
    numa: Annotated[Literal["auto", "same", "other", "generator-apart"], Parameter(
        "numa", CORES, SAME, "same, other",
        "NUMA nodes: `same` (applications and switch on one node), `other` (applications on "
        "another than the switch), `generator-apart` (wire ends on another, VNFs on the switch's, "
        "each with a core of its own), `auto`: one node while it has cores",
        noun="placement on NUMA nodes")] = "auto"
    neighbour: Annotated[str, Field(pattern=VNF_PATTERN), Parameter(
        "neighbour", CORES, DEFAULT, "none, cache",
        "background load while a trial measures: `cpu`, `cache`, `memory`, `stream`, `switch`, "
        "`socket` (stress-ng), `apache` (a web server with 100 clients), or the absolute path of a "
        "program; `none`",
        read=read.kind_or_path(NEIGHBOURS, "kind of neighbour"),
        say=lambda value: "no neighbour" if value == "none" else f"neighbour {value}")] = "none"
    neighbour_cpus: Annotated[str, Parameter(
        "neighbour_cpus", CORES, DEFAULT, "any, switch",
        "where that load is pinned: `switch` or `applications` (their cores), cores as `0+1`, or "
        "`any` (not pinned); it has a worker a core, unpinned one",
        read=read.cores("any", "switch", "applications"))] = "any"
    nics: Annotated[str, Field(pattern=FORM), Parameter(
        "nics", LAYOUT, DEFAULT, "eth2/eth3+eth4/eth5",
        "real ports of this host for the wire ends, in turn, each as the tester's port and that of "
        "the switch that it is cabled to: network devices, or PCI addresses bound to a driver for "
        "DPDK (docs/scenarios.md); `none`: wire ends stand in for them",
        read=read.words(read_nics), none="none")] = ""
    ring: Annotated[Literal[256, 512, 1024, 2048, 4096], Parameter(
        "ring", LAYOUT, SAME, "256, 1024",
        "frames that each ring of an application's or VNF's vhost-user port holds: `256`, `512`, "
        "`1024`, `2048` or `4096`; a deeper one outlasts longer pauses of whoever empties it, and "
        "costs cache", unit="frames", noun="ring size", say="rings of {}".format)] = 256
    program: Annotated[str, Field(pattern=PROGRAM_PATTERN), Parameter(
        "program", CONTENDER, DEFAULT, "/opt/vpp-new/bin/vpp",
        "the executable of a switch that is a program (of `basicfwd` and its like a build of "
        "`switchmark-traffic`), by its absolute path; `auto`: as docs/switches.md says",
        read=read.program, none="auto", by_switch=True, is_path=True,
        say=lambda value: value or "program as found")] = ""
    contender: Annotated[NameOrNone, Parameter(
        "contender", CONTENDER, DEFAULT, "new",
        "what results call the means that are compared; `contenders` sets it; `none`: the switch",
        read=read.contender, none="none", by_switch=True,
        say=lambda value: value or "no name")] = ""
    compared: Annotated[str, Parameter(
        "compared", METHOD, ANY, "cpu_limit+switch_cpus",
        "`environment` and keys of cores (`cpu_limit`, `neighbour` ...) that are compared, too: "
        "else trials that differ in them are not; `contenders` sets it to those of its entries",
        read=read.compared, none="none", by_switch=True,
        say=lambda value: f"compared by {value}" if value else "compared by no cores")] = ""
    fractions: Annotated[str, Parameter(
        "fractions", METHOD, DEFAULT, "0.95, 0.1+0.5+0.99",
        "the shares of R+ at which method `r-plus` takes one-way times, joined by `+`",
        read=read.fractions, say="at {} R+".format)] = "0.1+0.5+0.99"
    generator: Annotated[Name, Parameter(
        "generator", CONTENDER, SAME, "switchmark, iperf3",
        "what sends and receives the traffic: `switchmark` (its own engine), or an instrument of "
        "others; `switchmark list generators` names them, docs/instruments.md says what each "
        "cannot know", names=lambda known: known.generators,
        say="traffic by {}".format)] = OWN_ENGINE
    socket_buffers: Annotated[Literal["largest", "unforced"], Parameter(
        "socket_buffers", LAYOUT, SAME, "unforced",
        "buffers of the sockets of applications, VNFs and the switch `af-packet`: `largest` (64 "
        "MiB if the kernel permits), or `unforced` (at most `net.core.rmem_max` and `wmem_max`, as "
        "an ordinary user gets); the record has what was granted", noun="choice of socket buffers",
        say="{} socket buffers".format)] = "largest"
    page_size: Annotated[Literal["auto", "huge", "4KiB"], Parameter(
        "page_size", CORES, SAME, "huge, 4KiB",
        "the pages of the memory that DPDK programs (and VPP) keep packets in: `huge`, `4KiB` "
        "(ordinary pages, which need no hugepages), or `auto`: `huge` for a whole run if it can "
        "have all hugepages that it needs, otherwise `4KiB`; trials without such memory ignore it "
        "(docs/page-sizes.md)", noun="page size",
        say=lambda value: "page size as the run has it" if value == "auto" else
            "hugepages" if value == "huge" else "pages of 4 KiB")] = "auto"
    # fmt: on

    @property
    def id(self) -> str:
        """16 hex digits of the whole description: the key under which its record is kept. A field
        that was added later does not count while it has its default, so that older trials keep
        their ids."""
        described = {
            name: value
            for name, value in self.model_dump(mode="json").items()
            if name not in LATER_FIELDS or getattr(self, name) != LATER_FIELDS[name]
        }
        text = json.dumps(described, sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def repeated(self, repetition: int) -> "Trial":
        """This trial as another of its repetitions."""
        same = repetition == self.repetition
        return self if same else self.changed({"repetition": repetition})

    def changed(self, values: dict[str, Any]) -> "Trial":
        """This trial with other values, which must be valid. `model_copy` and a trial of its own
        would take many times the time and memory, and campaigns have up to 10^5 trials: all share
        one set of the names of the fields that were given."""
        other = Trial.__new__(Trial)
        put = object.__setattr__
        put(other, "__dict__", self.__dict__ | values)
        put(other, "__pydantic_fields_set__", _EVERY_FIELD)
        put(other, "__pydantic_extra__", None)
        put(other, "__pydantic_private__", None)
        return other

    @property
    def called(self) -> str:
        """The name of this trial's means in results: the contender's, else the switch's."""
        return self.contender or self.switch

    @property
    def frame_sizes(self) -> traffic.Mix:
        """The frames' sizes in bytes, with FCS."""
        if self.packet_mix:
            return traffic.mix(self.packet_mix)
        size = self.packet_size_bytes
        return traffic.Mix(size, size, float(size))

    @property
    def streams(self) -> int:
        """The number of streams of traffic: a bidirectional pair has two, and chains that one
        stream is split over share it."""
        if self.split != "none":
            return 1
        return self.pairs * (2 if self.bidirectional else 1)


# Of the first records; this set never grows.
_FIRST_FIELDS = frozenset({
    "dimension", "location", "pairs", "switch", "packet_size_bytes", "rate_pps", "burst",
    "scenario", "environment", "connect_mode", "port_kind", "io", "idle", "touch", "method",
    "goals", "budget_s", "duration_s", "interval_s", "switch_options", "switch_cores",
    "spare_cores", "repetition",
})  # fmt: skip
_EVERY_FIELD = set(Trial.model_fields)
# With their defaults, which older records mean.
LATER_FIELDS = {
    name: field.default for name, field in Trial.model_fields.items() if name not in _FIRST_FIELDS
}
