"""A trial as a plain value, and the table of its parameters: a field, its type, its default, and
the row that says everything else (parameter_type.py).

The tuple (D, L, S, V, P, R, B) of Ara et al. names a trial; the other parameters extend it as
`key=value`, in the order of this table. Sizes are L2 frame sizes with FCS (RFC 2544). A new
parameter goes to the end: so notations and ids of trials without it stay as they are.
"""

import hashlib
import json
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.language.values import format_rate, format_seconds
from switchmark.model import parameter_parsers as read
from switchmark.model import rates, traffic
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
from switchmark.model.cpu_choice import ANY_CPUS, AUTO_CPUS, CpuChoice
from switchmark.model.endpoints import Addresses, Endpoints, read_addresses, read_endpoints
from switchmark.model.functions import (
    MIXED,
    PLAIN_FORWARDING,
    FunctionList,
    PrefixLength,
    read_functions,
    read_prefix_length,
)
from switchmark.model.io import Io
from switchmark.model.lists import ComparedKeys, Fractions
from switchmark.model.nics import Nics, read_nics
from switchmark.model.options import SwitchOptions, read_options
from switchmark.model.parameter_type import (
    BEFORE_ONE,
    Axis,
    Kind,
    Parameter,
    Wire,
    counted,
    label_scale,
)
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.rates import Schedule
from switchmark.model.scenario import Scenario
from switchmark.model.workload import AUTO_GENERATOR, FRAMES

TRAFFIC, LAYOUT, PLACE, CORES = Kind.TRAFFIC, Kind.LAYOUT, Kind.PLACE, Kind.CORES
METHOD, CONTENDER, BOOKKEEPING = Kind.METHOD, Kind.CONTENDER, Kind.BOOKKEEPING
FUNCTION = Kind.FUNCTION
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
        "the measured quantity: `throughput` (frames per second that arrive at the receiver) "
        "or `latency` (round-trip time between client and server)", letter="D")]
    location: Annotated[Literal["local", "remote"], Parameter(
        "location", LAYOUT, SAME, "local, remote",
        "the hosts of the two ends of a path: `local` (both on this host), or `remote` (the "
        "receiving end, and the second half of a chain, on the other host of the testbed file; "
        "docs/testbed.md)",
        letter="L")] = "local"
    pairs: Annotated[int, Parameter(
        "pairs", LAYOUT, SAME, "1vs1, 2vs2, 4",
        "number of pairs of traffic applications that run at the same time; `4vs4` is the same as "
        "`4`",
        letter="S", read=read.pairs, show="{0}vs{0}".format, limits=read.PAIRS, ranges=True,
        say=lambda value: f"{value} pair{'' if value == 1 else 's'}", axis=Axis("pairs"))] = 1
    switch: Annotated[Name, Parameter(
        "switch", CONTENDER, PLANNED, "[linux-bridge, ovs-dpdk, basicfwd]",
        "the switch under test; `switchmark list switches` prints the names; `all` means all "
        "switches except `direct` (the baseline without a switch) and those that docs/switches.md "
        "describes as not part of `all`",
        letter="V", names=lambda known: known.switches,
        every=lambda known: known.contenders)]
    packet_size_bytes: Annotated[int, Parameter(
        "packet_size", TRAFFIC, SAME, "64..512 step 64, 1024, 1500",
        "Ethernet frame with FCS, 64 to 9018 (on a cable each frame takes 20 bytes more). Several "
        "sizes make a sweep; a mix of sizes in one trial is `packet_mix`", unit="bytes", letter="P",
        read=read.packet_size, limits=read.FRAME, ranges=True, usual=MIN_FRAME_BYTES,
        say="{} B".format, axis=Axis("frame size with FCS (bytes)"))]
    rate_pps: Annotated[int | None, Parameter(
        "rate", TRAFFIC, PACE, "1M..20M step 1M",
        "intended load of each pair; with `bidirectional`, of each direction of each pair. `max` "
        "sends as fast as the port accepts. Bit rates need a layer: `1Gbps-l1` (with the 20 bytes "
        "between frames on a cable), `500Mbps-l2` (frames with FCS) or `80% of 10Gbps` (layer 1); "
        "the packet size converts them into packets/s", unit="packets/s, each direction of a pair",
        letter="R", read=read.words(rates.load), show=format_rate, none="max", limits=rates.PPS,
        ranges=True, as_written=rates.BitRate, usual_latency=1000,
        say=lambda value: "rate max" if value is None else f"rate {format_rate(value)} pps",
        axis=Axis("intended load of a pair (frames/s)",
                  label=lambda value: format_rate(round(value))))] = None
    burst: Annotated[int, Parameter(  # round trips go singly: a burst measures its own queue
        "burst", TRAFFIC, SAME, "32, 128",
        "packets that the sender gives to its port at once, 1 to 4096",
        unit="packets", letter="B", limits=read.BURST, ranges=True, usual_latency=1,
        axis=Axis("burst (frames)"))] = 32
    schedule: Annotated[Schedule, Parameter(  # in its shortest form (rates.py)
        "schedule", TRAFFIC, PACE, "poisson, on-off:10ms:90ms",
        "times at which bursts are sent: `constant` (equal distances), `poisson` or "
        "`poisson:SEED` (exponential distances with the same mean), `on-off:ON:OFF` (at `rate` "
        "during ON, nothing during OFF), `ramp:FROM:TO:OVER` (replaces `rate`)",
        read=read.words(rates.schedule), say="{} schedule".format)] = rates.CONSTANT
    probe_rate_pps: Annotated[int | None, Parameter(
        "probe_rate", TRAFFIC, PACE, "1k",
        "latency under load: a separate stream of timed packets at this rate, beside a load of "
        "`rate` and `burst` that is not timed. For dimension latency and for methods that time "
        "frames; with traffic in both directions it is the rate of each direction. `none`: every "
        "frame is timed",
        unit="packets/s, each direction of a pair", show=format_rate, none="none",
        limits=read.PROBE_RATE,
        read=read.words(read.probe_rate), as_written=rates.BitRate,
        say=lambda v: f"probes at {format_rate(v)} pps" if v else "every frame timed")] = None
    scenario: Annotated[Scenario, Parameter(
        "scenario", LAYOUT, SAME, "loopback-1, loopback-2",
        "topology: `pairs`, `p2p`, `p2v`, `v2p`, `v2v`, `loopback-N` (a chain of N VNFs), "
        "`pairs-N`, `chains-MxN` (M chains of N VNFs); docs/scenarios.md",
        read=read.scenario, say=str,
        axis=Axis("VNFs in the chain", lambda value: Scenario.of(value).chain_length,
                  log=False))] = Scenario("pairs")
    environment: Annotated[Name, Parameter(
        "environment", PLACE, SAME, "lxc",
        "where the traffic applications run; `switchmark list environments` prints the names",
        names=lambda known: known.environments)] = "netns"
    connect_mode: Annotated[ConnectMode | None, Parameter(
        "connect_mode", CONTENDER, PLANNED, "learning",
        "rule by which the switch chooses the output port: `cross-connect`, `learning`, "
        "`static-mac`, `veb` (by the addresses of the switch's ports), or `auto`: a mode that all "
        "chosen switches have",
        none="auto", resolved=True)] = None
    port_kind: Annotated[PortKind | None, Parameter(
        "port_kind", CONTENDER, PLANNED, "veth",
        "type of the ports between applications and switch: `veth`, `vhost-user`, `tap`, `memif`, "
        "`macvlan`, `vf`, `vale`, or `auto`: the fastest one that the switch, the environment and "
        "`io` all support", none="auto", resolved=True, by_switch=True)] = None
    io: Annotated[Io, Parameter(
        "io", CONTENDER, PLANNED, "udp, udp-mmsg",
        "interface through which the applications send and receive: "
        f"{', '.join(f'`{io}`' for io in Io if io is not Io.AUTO)}, or `auto`: the fastest for "
        "the port kind", resolved=True, by_switch=True)] = Io.AUTO
    idle: Annotated[Idle, Parameter(
        "idle", CONTENDER, SAME, "yield",
        "action of an application while its ring is full or empty: `poll`, `yield`, `sleep`, "
        "`baton` (applications on one core take turns), `block` (sleep in the kernel until a "
        "frame arrives or is due; sockets only), or `auto`: chosen by the number of cores",
        noun="idle strategy", by_switch=True)] = Idle.AUTO
    touch: Annotated[bool, Parameter(
        "touch", TRAFFIC, SAME, "true",
        "write and verify every payload byte at both ends",
        say=lambda value: "payload touched" if value else "payload untouched")] = False
    method: Annotated[Name, Parameter(
        "method", METHOD, DEFAULT, "ndr-pdr",
        "how a figure is found: `plain` (one trial at the set rate), or a method of many trials "
        "from `switchmark list methods` (docs/methods.md). Then `rate` limits the load, and "
        "`duration` is the length of one of its trials, except for `ndr-pdr` (`goals` define it) "
        "and `soak` (the total time)", names=lambda known: known.methods)] = PLAIN
    goals: Annotated[Name, Parameter(
        "goals", METHOD, DEFAULT, "rfc2544",
        "set of goals of an `ndr-pdr` search: `csit`, `rfc2544`, `tst009` or `quick`. All have the "
        "loss ratios 0 (NDR) and 0.5 % (PDR); they differ in the length of a trial, the number of "
        "trials and the width (docs/methods.md)",
        names=lambda known: known.goals, noun="preset of goals")] = "csit"
    budget_s: Annotated[Seconds | None, Parameter(
        "method_budget", METHOD, DEFAULT, "5m",
        "time limit of a method, including its overhead; `auto`: the default of the method",
        unit="time", read=read.time, show=format_seconds, none="auto")] = None
    duration_s: Annotated[Seconds, Parameter(
        "duration", METHOD, ANY, "5s",
        "length of a trial; the warm-up of a latency trial comes before it",
        unit="time", read=read.time, show=format_seconds, say="{:g} s".format)] = 10.0
    interval_s: Annotated[Seconds, Parameter(
        "interval", METHOD, ANY, "100ms",
        "length of one sample inside a trial. In trials of less than 5 s, the value 200ms becomes "
        "`duration` / 25, whether it is the default or stands in the file",
        unit="time", read=read.time, show=format_seconds, say="samples of {:g} s".format,
        of_result=False)] = 0.2
    switch_options: Annotated[SwitchOptions, Parameter(  # `name:value+name:value`, sorted
        "switch_options", CONTENDER, DEFAULT, "vlan_filtering:on+static_fdb:on",
        "settings of the switch itself; docs/switch-options.md lists them with their defaults. "
        "`none` leaves each option at its default. Also written as a mapping, `{vlan_filtering: "
        "on}`. A switch that does not have the option refuses it",
        read=read.words(read_options), none="none", mapping=True,
        say=lambda value: value.replace("+", ", ").replace(":", " ") or "default options",
        )] = SwitchOptions("")
    switch_cores: Annotated[int, Parameter(
        "switch_cores", CONTENDER, DEFAULT, "1, 2",
        "cores for a switch that polls",
        unit="cores", limits=read.CORES, ranges=True, by_switch=True,
        say=lambda value: f"{value} core{'s' if value > 1 else ''}")] = 1
    spare_cores: Annotated[int, Parameter(
        "spare_cores", CONTENDER, PLANNED, "1",
        "number of cores that no program uses. With 1, the applications of a baseline (`direct`) "
        "have the same cores as beside a switch that polls",
        unit="cores", limits=read.SPARE, ranges=True, by_switch=True,
        say=lambda value: f"{value or 'no'} core{'s' if value > 1 else ''} idle")] = 0
    packet_mix: Annotated[traffic.PacketMix, Parameter(  # packet_size_bytes: the rounded mean
        "packet_mix", TRAFFIC, SAME, "imix, genome:aaafag, 64*7+570*4+1518",
        "frames of several sizes in one trial: `imix` (64, 570, 1518 as 7:4:1), a genome of RFC "
        "6985, sizes in turn, or `random:64-1518`; replaces `packet_size`",
        read=read.words(traffic.read_mix), none="none")] = traffic.PacketMix("")
    flows: Annotated[traffic.Flows, Parameter(
        "flows", TRAFFIC, SAME, "1, 1000, 1M:src-ip+src-port:zipf=1.0",
        "number of flows of a pair, 1 to 1M, and the fields in which they differ (default "
        "`src-ip`), joined by `+`; `:zipf=1.0` sends some flows more often than others",
        read=read.words(traffic.read_flows),
        axis=Axis("flows", lambda value: float(value.number), label_scale))] = traffic.ONE_FLOW
    ip_version: Annotated[Literal[4, 6], Parameter(
        "ip_version", TRAFFIC, SAME, "4, 6",
        "IP version of the frames; the header of IPv6 is 20 bytes longer, so the smallest size is "
        "84",
        noun="IP version")] = 4
    vlan: Annotated[traffic.Vlan, Parameter(
        "vlan", TRAFFIC, SAME, "none, 100, 200.100",
        "VLAN ID of tagged frames (802.1Q), or two IDs (`200.100`, the outer tag is 802.1ad); "
        "each tag takes 4 bytes of the frame", read=read.words(traffic.read_vlan), none="none")
        ] = traffic.Vlan("")
    repetition: Annotated[int, Parameter(
        "repetition", BOOKKEEPING, DEFAULT, "1",
        "number of the repetition",
        limits=read.REPETITION, ranges=True)] = 0
    split: Annotated[Literal["none", "src-mac", "flow"], Parameter(
        "split", LAYOUT, DEFAULT, "none, src-mac, flow",
        "for `chains-MxN`: one sender and one receiver for all chains, and the switch distributes "
        "the frames by source MAC address (`src-mac`, one address for each chain) or by a hash of "
        "the flow (`flow`); `none`: each chain has its own ends", noun="way to split",
        say=lambda value: "not split" if value == "none" else f"split by {value}")] = "none"
    bidirectional: Annotated[bool, Parameter(
        "bidirectional", LAYOUT, SAME, "false, true",
        "both ends of a path send, each at `rate`; the result has both directions and their sum",
        say=lambda value: "both ways" if value else "one way")] = False
    vnf: Annotated[str, Field(pattern=VNF_PATTERN), Parameter(
        "vnf", LAYOUT, DEFAULT, "forwarder, bridge",
        "VNF of a chain: `forwarder` (of the engine, over DPDK or packet sockets), `l2fwd` (the "
        "same, but it holds frames until it has 32 or until 100 us have passed, as the DPDK "
        "sample does), `bridge` (a Linux bridge), `pcap` (one system call for each frame), or the "
        "absolute path of a program, which is started as `PROGRAM PORT-A PORT-B`",
        read=read.kind_or_path(VNFS, "kind of VNF"))] = "forwarder"
    cpu_limit: Annotated[float | None, Field(gt=0, le=1), Parameter(
        "cpu_limit", CORES, DEFAULT, "100%, 75%, 50%, 25%, 12.5%",
        "CPU time that the process of a switch may use, as a share of each of its cores (a quota "
        "of its control group); `none`: no limit", unit="share", read=read.cpu_limit,
        show=lambda value: f"{value * 100:.6g}%", none="none",
        say=lambda value: "no CPU limit" if value is None else f"{value * 100:g} % CPU",
        axis=Axis("CPU time the switch may use (% of each of its cores)",
                  lambda value: round(100 * value, 6), log=False))] = None
    switch_environment: Annotated[Literal["host", "netns", "lxc", "docker"], Parameter(
        "switch_environment", CONTENDER, DEFAULT, "host, lxc, docker",
        "where the switch runs: `host`, its own network namespace (`netns`), or a container "
        "(`lxc`, `docker`), whose control group then has the `cpu_limit`. docs/environments.md "
        "lists the switches that can run in each", noun="place for a switch",
        say=lambda value: "on the host" if value == "host" else f"in {value}")] = "host"
    vcpus: Annotated[int | None, Field(ge=1, le=MAX_VCPUS), Parameter(
        "vcpus", LAYOUT, DEFAULT, "1, 2",
        "virtual CPUs of each virtual machine (environment `qemu`). They run on the cores that "
        "the placement gives to this machine, and share them if there are fewer cores than virtual "
        "CPUs; `auto`: one for each core", unit="CPUs",
        limits=read.VCPUS, ranges=True, none="auto",
        say=lambda value: f"{value} vCPUs" if value else "a vCPU a core")] = None
    switch_cpus: Annotated[CpuChoice, Parameter(
        "switch_cpus", CORES, SAME, "2",
        "cores of the switch, as many as `switch_cores`: `2+3`; `any`: not pinned, the kernel may "
        "move its threads over all cores of the trial that are not isolated; `auto`: chosen by the "
        "placement",
        read=read.cores("auto", "any"),
        say=lambda value: {"any": "switch not pinned", "auto": "switch pinned"}.get(
            value, f"switch on cores {value}"))] = AUTO_CPUS
    application_cpus: Annotated[CpuChoice, Parameter(
        "application_cpus", CORES, SAME, "4+5+6",
        "list of cores: the first traffic application gets the first core, and so on; VNFs follow "
        "the applications. If there are more programs than cores, the list starts again; `auto`: "
        "chosen by the placement",
        read=read.cores("auto", in_turn=True))] = AUTO_CPUS
    main_cpu: Annotated[CpuChoice, Parameter(
        "main_cpu", CORES, DEFAULT, "0",
        "core of the main thread of a switch whose main thread does not forward (`ovs-dpdk`, "
        "`testpmd`, `vpp`); `auto`: not a forwarding core, if there are others",
        read=read.one_core)] = AUTO_CPUS
    smt: Annotated[Literal["auto", "avoid", "siblings"], Parameter(
        "smt", CORES, SAME, "avoid, siblings",
        "use of SMT siblings: `avoid` (one CPU of each physical core), `siblings` (applications "
        "run on the siblings of the cores of the switch), `auto`: siblings are used last",
        noun="use of SMT siblings")] = "auto"
    numa: Annotated[Literal["auto", "same", "other", "generator-apart"], Parameter(
        "numa", CORES, SAME, "same, other",
        "NUMA nodes: `same` (applications and switch on one node), `other` (applications on "
        "another node than the switch), `generator-apart` (testers on another node; applications "
        "and VNFs on the node of the switch, each on a separate core), `auto`: one node if it has "
        "enough cores",
        noun="placement on NUMA nodes")] = "auto"
    neighbour: Annotated[str, Field(pattern=VNF_PATTERN), Parameter(
        "neighbour", CORES, DEFAULT, "none, cache",
        "background load during a trial: `cpu`, `cache`, `memory`, `stream`, `switch`, `socket` "
        "(all from stress-ng), `apache` (a web server with 100 clients), the absolute path of a "
        "program, or `none`",
        read=read.kind_or_path(NEIGHBOURS, "kind of neighbour"),
        say=lambda value: "no neighbour" if value == "none" else f"neighbour {value}")] = "none"
    neighbour_cpus: Annotated[CpuChoice, Parameter(
        "neighbour_cpus", CORES, DEFAULT, "any, switch",
        "cores of the background load: those of the `switch` or of the `applications`, cores by "
        "number (`0+1`), or `any` (not pinned). It has one worker for each core; without pinning "
        "it has one worker",
        read=read.cores("any", "switch", "applications"))] = ANY_CPUS
    nics: Annotated[Nics, Parameter(
        "nics", LAYOUT, DEFAULT, "eth2/eth3+eth4/eth5",
        "real ports of this host: pairs TESTER/SWITCH of ports that a cable joins, with `+` "
        "between the pairs; in `eth2/eth3` the tester (the sender or receiver) uses eth2, the "
        "switch eth3. A port is a network device, or a PCI address that is bound to a driver for "
        "DPDK (docs/scenarios.md); `none`: virtual ports",
        read=read.words(read_nics), none="none")] = Nics("")
    ring: Annotated[Literal[256, 512, 1024, 2048, 4096], Parameter(
        "ring", LAYOUT, SAME, "256, 1024",
        "frames that each ring of a vhost-user port of an application or a VNF holds: `256`, "
        "`512`, `1024`, `2048` or `4096`. A longer ring outlasts longer pauses of the program "
        "that empties it, and needs more cache",
        unit="frames", noun="ring size", say="rings of {}".format)] = 256
    program: Annotated[str, Field(pattern=PROGRAM_PATTERN), Parameter(
        "program", CONTENDER, DEFAULT, "/opt/vpp-new/bin/vpp",
        "absolute path of the executable of a switch that is a program; for `basicfwd` and other "
        "switches that are part of the engine, a build of `switchmark-traffic`. `auto`: found as "
        "docs/switches.md describes",
        read=read.program, none="auto", by_switch=True, is_path=True,
        say=lambda value: value or "program as found")] = ""
    contender: Annotated[NameOrNone, Parameter(
        "contender", CONTENDER, DEFAULT, "new",
        "name of the contender in results; `contenders` sets it; `none`: the name of the switch",
        read=read.contender, none="none", by_switch=True,
        say=lambda value: value or "no name")] = ""
    compared: Annotated[ComparedKeys, Parameter(  # parameter_table.py adds `read`

        "compared", METHOD, ANY, "cpu_limit+switch_cpus",
        "keys in which compared trials may differ. Possible are `environment` and the keys from "
        "`cpu_limit` to `page_size` in the table of contenders; each combination of their values "
        "is then a contender. With `contenders` these are the keys of the entries, so `compared` "
        "need not be written",
        none="none", by_switch=True,
        say=lambda value: f"compared by {value}" if value else "compared by no cores",
        )] = ComparedKeys("")
    fractions: Annotated[Fractions, Parameter(
        "fractions", METHOD, DEFAULT, "0.95, 0.1+0.5+0.99",
        "shares of R+ (the mean forwarding rate under saturation) at which the method `r-plus` "
        "measures one-way times, joined by `+`",
        read=read.fractions, say="at {} R+".format)] = Fractions("0.1+0.5+0.99")
    generator: Annotated[Name, Parameter(
        "generator", CONTENDER, SAME, "switchmark, iperf3",
        "program that sends and receives the traffic: `switchmark` (the engine), or a foreign "
        "generator from `switchmark list generators`. docs/instruments.md lists the combinations "
        "that each of them excludes. `auto` is the usual program of the workload, and the default "
        "for a workload other than frames",
        names=lambda known: known.generators and (AUTO_GENERATOR, *known.generators),
        say="traffic by {}".format)] = OWN_ENGINE
    socket_buffers: Annotated[Literal["largest", "unforced"], Parameter(
        "socket_buffers", LAYOUT, SAME, "unforced",
        "buffers of the sockets of applications, VNFs and the switch `af-packet`: `largest` (64 "
        "MiB if the kernel permits), or `unforced` (at most `net.core.rmem_max` and `wmem_max`, "
        "as for an ordinary user). The record has the granted sizes; the kernel counts 64 MiB as "
        "128 MiB",
        noun="choice of socket buffers",
        say="{} socket buffers".format)] = "largest"
    page_size: Annotated[Literal["auto", "huge", "4KiB"], Parameter(
        "page_size", CORES, SAME, "huge, 4KiB",
        "page size of the packet memory of DPDK programs and VPP: `huge`, `4KiB` (needs no "
        "hugepages), or `auto`: `huge` for the whole run if enough hugepages are free, otherwise "
        "`4KiB`. Trials without such memory ignore it (docs/page-sizes.md)", noun="page size",
        say=lambda value: "page size as the run has it" if value == "auto" else
            "hugepages" if value == "huge" else "pages of 4 KiB")] = "auto"
    function: Annotated[FunctionList, Parameter(
        "function", FUNCTION, DEFAULT, "forward, route, route+acl",
        "the work of the switch on each frame: a base, `forward` or `route`, and functions joined "
        "to it by `+`, such as `route+acl`; `switchmark list functions` prints them, and "
        "docs/functions.md defines them", read=read.words(read_functions),
        say="function {}".format)] = PLAIN_FORWARDING
    routes: Annotated[int, Parameter(
        "routes", FUNCTION, DEFAULT, "1, 1000, 100k, 1M",
        "number of routes of function `route`", unit="routes", limits=read.ROUTES, ranges=True,
        say=counted("route"), axis=Axis("routes", label=label_scale))] = 1
    prefix_length: Annotated[PrefixLength, Parameter(
        "prefix_length", FUNCTION, DEFAULT, "mix, 24, 32",
        "prefix length of the routes: a number, or `mix` (lengths as in a full routing table of "
        "the Internet, some prefixes inside others)", read=read.words(read_prefix_length),
        say="prefix length {}".format)] = PrefixLength(MIXED)
    rules: Annotated[int, Parameter(
        "rules", FUNCTION, DEFAULT, "0, 10, 1000, 10k",
        "number of rules of function `acl`; 0: no list, for a baseline", unit="rules",
        limits=read.RULES, ranges=True, say=counted("rule"),
        axis=Axis("rules", lambda value: float(value) or BEFORE_ONE, label_scale))] = 100
    rule_hit: Annotated[Literal["last", "uniform", "none"], Parameter(
        "rule_hit", FUNCTION, DEFAULT, "last, uniform",
        "rule of an access control list that permits the load: the `last` one, behind denials that "
        "do not match; `uniform`: permits that are spread over the list; `none`: no rule matches, "
        "and the default permits", noun="choice of the matching rule",
        say=lambda value: f"the load matches {'no rule' if value == 'none' else value}")] = "last"
    masks: Annotated[int, Parameter(
        "masks", FUNCTION, DEFAULT, "1, 4, 16",
        "number of different prefix lengths of the source addresses in the generated denials of "
        "`acl`",
        unit="masks",
        limits=read.MASKS, ranges=True, say=counted("mask"), axis=Axis("masks"))] = 1
    tunnels: Annotated[int, Parameter(
        "tunnels", FUNCTION, DEFAULT, "1, 100, 1000",
        "number of tunnels of function `vxlan`, each with its own VNI", unit="tunnels",
        limits=read.TUNNELS, ranges=True, say=counted("tunnel"),
        axis=Axis("tunnels", label=label_scale))] = 1
    vni: Annotated[int, Parameter(
        "vni", FUNCTION, DEFAULT, "100",
        "VXLAN network identifier of the first tunnel; the next ones follow", limits=read.VNI,
        say="VNI {}".format)] = 100
    vid: Annotated[int, Parameter(
        "vid", FUNCTION, DEFAULT, "100",
        "VLAN ID that function `vlan` pushes or pops", limits=read.VID,
        say="VLAN {}".format)] = 100
    direction: Annotated[Literal["auto", "encap", "decap", "both", "push", "pop"], Parameter(
        "direction", FUNCTION, DEFAULT, "encap, decap",
        "direction of `vxlan` (`encap`, `decap`, `both`) or `vlan` (`push`, `pop`, `both`) on the "
        "way of the load; `both` needs traffic both ways; `auto`: `encap` or `push`",
        noun="direction of a function", say="direction {}".format)] = "auto"
    cir_bps: Annotated[int, Parameter(
        "cir", FUNCTION, DEFAULT, "100M",
        "committed information rate of function `policer` (RFC 2697), in bits/s of L2 frames "
        "without FCS", unit="bits/s", limits=read.CIR, show=format_rate,
        say=lambda value: f"CIR {format_rate(value)}bit/s", axis=Axis("CIR (bits/s)"))
        ] = 100_000_000
    cbs_bytes: Annotated[int, Parameter(
        "cbs", FUNCTION, DEFAULT, "64k",
        "committed burst size of function `policer`, in bytes of L2 frames without FCS",
        unit="bytes", limits=read.CBS, show=format_rate,
        say=lambda value: f"CBS {format_rate(value)}B")] = 256_000
    routes_file: Annotated[str, Field(pattern=PROGRAM_PATTERN), Parameter(
        "routes_file", FUNCTION, DEFAULT, "/srv/tables/full.csv",
        "absolute path of a CSV file with the prefixes of function `route`, in place of generated "
        "ones; `routes` must then be left out (docs/functions.md)",
        read=read.table_file, none="none", is_path=True,
        say=lambda value: f"routes of {value}" if value else "generated routes")] = ""
    rules_file: Annotated[str, Field(pattern=PROGRAM_PATTERN), Parameter(
        "rules_file", FUNCTION, DEFAULT, "/srv/tables/acl1_1k",
        "absolute path of a file with the rules of function `acl`, in CSV or in the format of "
        "ClassBench; `rules` must then be left out (docs/functions.md)",
        read=read.table_file, none="none", is_path=True,
        say=lambda value: f"rules of {value}" if value else "generated rules")] = ""
    at_once: Annotated[int, Parameter(
        "at_once", METHOD, DEFAULT, "1, 8",
        "number of network namespaces that method `attach` attaches to the network at the same "
        "time",
        limits=read.AT_ONCE, ranges=True, axis=Axis("attachments at once"),
        say=lambda value: f"{value} attachment{'' if value == 1 else 's'} at once")] = 1
    change_rate: Annotated[int, Parameter(
        "change_rate", METHOD, DEFAULT, "100, 1k, 10k",
        "changes of a table per second that method `reconfiguration` makes while the switch "
        "performs `route` or `acl`", unit="changes/s",
        limits=read.CHANGE_RATE, ranges=True, axis=Axis("changes of a table/s"),
        say=lambda value: f"{value} changes/s")] = 1000
    workload: Annotated[Name, Parameter(
        "workload", TRAFFIC, SAME, "tcp-stream, tcp-rr",
        "the traffic: `frames` (of `packet_size`, by the engine or a generator of frames), or an "
        "application from `switchmark list workloads` (docs/workloads.md). Its `rate` is "
        "requests/s of each pair; of `tcp-stream` and `udp-stream` it is bits/s of payload. "
        "`generator` chooses the program",
        names=lambda known: known.workloads)] = FRAMES
    offload: Annotated[Literal["on", "off"], Parameter(
        "offload", CONTENDER, SAME, "on, off",
        "segmentation (TSO, GSO), receive offload (GRO) and checksum offload of the devices at "
        "both ends and of the ports of the switch, for workloads over TCP: `on` (as "
        "the kernel sets a new veth, without GRO; a switch that loses the state of an offload has "
        "it off, docs/workloads.md), or `off`",
        noun="offload", say="offload {}".format)] = "on"
    congestion_control: Annotated[NameOrNone, Parameter(
        "congestion_control", CONTENDER, SAME, "cubic, bbr",
        "congestion control of TCP at both ends, one that the kernel has; `default`: the default "
        "of the machine, which the record states",
        read=read.contender, none="default",
        say=lambda value: f"congestion control {value or 'of the machine'}")] = ""
    tcp_streams: Annotated[int, Parameter(
        "streams", TRAFFIC, SAME, "1, 4",
        "connections of `tcp-stream` that send at the same time",
        limits=read.STREAMS, ranges=True, axis=Axis("streams"),
        say=lambda value: f"{value} stream{'' if value == 1 else 's'}")] = 1
    connections: Annotated[int, Parameter(
        "connections", TRAFFIC, SAME, "1, 32",
        "connections of a workload of requests that are open at the same time",
        limits=read.CONNECTIONS, ranges=True, axis=Axis("connections"),
        say=lambda value: f"{value} connection{'' if value == 1 else 's'}")] = 1
    request_bytes: Annotated[int, Parameter(
        "request_size", TRAFFIC, SAME, "64, 1024",
        "payload of a request", unit="bytes", limits=read.MESSAGE, ranges=True,
        axis=Axis("request (bytes)"), say="requests of {} B".format)] = 64
    response_bytes: Annotated[int, Parameter(
        "response_size", TRAFFIC, SAME, "64, 16384",
        "payload of a response", unit="bytes", limits=read.MESSAGE, ranges=True,
        axis=Axis("response (bytes)"), say="responses of {} B".format)] = 64
    datagram_bytes: Annotated[int, Parameter(
        "datagram_size", TRAFFIC, SAME, "64, 1400",
        "payload of each datagram of `udp-stream`; the default also fits into a VXLAN network",
        unit="bytes", limits=read.DATAGRAM, ranges=True,
        axis=Axis("datagram (bytes)"), say="datagrams of {} B".format)] = 1400
    endpoints: Annotated[Endpoints, Parameter(
        "endpoints", CONTENDER, DEFAULT, "docker:web+docker:db",
        "two endpoints that run, for switch `existing`: `netns:NAME`, `pid:N`, `docker:NAME`, "
        "`podman:NAME`, `lxc:NAME`, `pod:NAMESPACE/NAME` or `dev:NAME`, with `+` between them; "
        "`A+address:IP:PORT+B` leads from A through a published port or a service to B "
        "(docs/existing.md); `none`: the bench makes its ends",
        read=read.words(read_endpoints), none="none", by_switch=True,
        say=lambda value: value.replace("+", " to ") or "ends of the bench")] = Endpoints("")
    addresses: Annotated[Addresses, Parameter(
        "addresses", CONTENDER, DEFAULT, "10.77.0.201/24+10.77.0.202/24",
        "free IPv4 addresses, with prefix length, of the two ends that the bench attaches to a "
        "bridge of the user (`switch_options: {attach: br0}`). It refuses addresses that somebody "
        "answers for; `none`: no bridge is attached, or a Docker network is attached and Docker "
        "chooses the addresses",
        read=read.words(read_addresses), none="none", by_switch=True,
        say=lambda value: value.replace("+", " to ") or "no addresses")] = Addresses("")
    max_rate_pps: Annotated[int | None, Parameter(
        "max_rate", METHOD, DEFAULT, "5k",
        "highest `rate` of a trial through a network that leads out of this machine, which needs "
        "the option `--yes-this-network`. With `none`, such a trial has at most 1k packets/s, 10 "
        "Mbit/s and 10 s",
        unit="packets/s", show=format_rate, none="none", limits=read.PPS_CAP,
        say=lambda v: f"at most {format_rate(v)} pps" if v else "the usual cap")] = None
    abort_if: Annotated[int | None, Parameter(
        "abort_if", METHOD, DEFAULT, "3, 10",
        "switch `existing`: beside the load, the bench sends ten probes per second. A trial fails "
        "as soon as the median of their round trips is more than this many times the median before "
        "the load; `none`: no probes",
        limits=read.ABORT, none="none",
        say=lambda v: f"aborted at {v} times the round trip" if v else "not aborted")] = None
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
        """This trial with other values, which must be valid. `model_copy` and its own trial
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
        """The name of this trial's means in results: that of the contender, or of the switch."""
        return self.contender or self.switch

    @property
    def frame_sizes(self) -> traffic.Mix:
        """The frames' sizes in bytes, with FCS."""
        if self.packet_mix:
            return self.packet_mix.sizes
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
