"""The keys that describe trials: one table, from which everything else follows.

The loader, the notation, `--set`, the error messages and the tables of docs/campaigns.md
all read `KEYS`, so a key is added here and in `Trial`, and nowhere else.
"""

from __future__ import annotations

from switchmark.campaign import key_values as read
from switchmark.campaign import model, rates, traffic, values
from switchmark.campaign.key import Key
from switchmark.campaign.model import Dimension, Idle, Io, Method
from switchmark.switch import options
from switchmark.testbed import nics

KEYS: tuple[Key, ...] = (
    Key(
        "dimension",
        "dimension",
        "what is measured: `throughput` (forwarded frames/s, sender to receiver) or `latency` "
        "(round-trip time, client and server)",
        lambda text, _known: Dimension(values.choice(text, tuple(Dimension), "dimension")),
        str,
        "throughput, latency",
        letter="D",
    ),
    Key(
        "location",
        "location",
        "where the two ends of a path are: `local`, both on this host; `remote`, the receiving one "
        "(and the second half of a chain) on the other host of the testbed file (docs/testbed.md)",
        lambda text, _known: values.choice(text, ("local", "remote"), "location"),
        str,
        "local, remote",
        letter="L",
    ),
    Key(
        "pairs",
        "pairs",
        "how many pairs of traffic applications run at the same time; `4vs4` is the same as `4`",
        read.pairs,
        lambda value: f"{value}vs{value}",
        "1vs1, 2vs2, 4",
        letter="S",
        ranges=True,
    ),
    Key(
        "switch",
        "switch",
        "the switch under test; `switchmark list switches` names them",
        lambda text, known: values.choice(text, known.switches, "switch"),
        str,
        "[linux-bridge, ovs-dpdk, basicfwd]",
        letter="V",
    ),
    Key(
        "packet_size",
        "packet_size_bytes",
        "Ethernet frame with FCS, 64 to 9018 (the wire adds 20 bytes a frame); several make a "
        "sweep, a mix of sizes is `packet_mix`",
        read.packet_size,
        str,
        "64..512 step 64, 1024, 1500",
        unit="bytes",
        letter="P",
        ranges=True,
    ),
    Key(
        "rate",
        "rate_pps",
        "load offered to each pair; `max` sends as fast as the port takes it; also in bits of a "
        "named layer, `1Gbps-l1` (as on the wire) or `500Mbps-l2` (frames with FCS), or "
        "`80% of 10Gbps`, turned into packets/s by the packet size",
        read.rate,
        values.format_rate,
        "1M..20M step 1M",
        unit="packets/s a pair",
        letter="R",
        ranges=True,
    ),
    Key(
        "burst",
        "burst",
        "packets handed to the port at a time, 1 to 4096",
        read.whole(read.BURST),
        str,
        "32, 128",
        unit="packets",
        letter="B",
        ranges=True,
    ),
    Key(
        "schedule",
        "schedule",
        "when bursts are sent: `constant` (equal distances), `poisson` or `poisson:SEED` "
        "(exponential distances, the same mean), `on-off:ON:OFF` (at `rate` for a time, then "
        "nothing for a time), `ramp:FROM:TO:OVER` (in place of `rate`)",
        lambda text, _known: rates.schedule(text),
        str,
        "poisson, on-off:10ms:90ms",
    ),
    Key(
        "probe_rate",
        "probe_rate_pps",
        "latency under load: time a stream of its own at this rate, and let `rate` and `burst` be "
        "an untimed load beside it (dimension latency, methods r-plus and calibrate); `none`: "
        "time every frame",
        read.probe_rate,
        lambda value: "none" if value is None else values.format_rate(value),
        "1k",
        unit="packets/s a pair",
    ),
    Key(
        "environment",
        "environment",
        "where the traffic applications live; `switchmark list environments` names them",
        lambda text, known: values.choice(text, known.environments, "environment"),
        str,
        "lxc",
    ),
    Key(
        "scenario",
        "scenario",
        "how the nodes are joined: `pairs`, `p2p`, `p2v`, `v2p`, `v2v`, `loopback-N` (a chain of N "
        "VNFs), `pairs-N`, `chains-MxN` (M chains of N); docs/scenarios.md",
        read.scenario,
        str,
        "loopback-1, loopback-2",
    ),
    Key(
        "connect_mode",
        "connect_mode",
        "how the switch chooses the output port: `cross-connect`, `learning`, `static-mac`, `veb` "
        "(by the addresses of its own ports), or `auto`: a mode that all chosen switches have",
        read.connect_mode,
        lambda value: "auto" if value is None else str(value),
        "learning",
    ),
    Key(
        "port_kind",
        "port_kind",
        "where the applications meet the switch: `veth`, `vhost-user`, `tap`, `memif`, "
        "`macvlan`, `vf`, `vale`, or `auto`: the switch's best that the environment has "
        "and `io` can use",
        read.port_kind,
        lambda value: "auto" if value is None else str(value),
        "veth",
    ),
    Key(
        "io",
        "io",
        "how the applications talk to their port: `udp`, `udp-mmsg`, `raw`, `raw-mmsg`, "
        "`packet-mmap`, `af-xdp`, `io-uring`, `dpdk`, `netmap`, or `auto`: the fastest for the "
        "port",
        lambda text, _known: Io(values.choice(text, tuple(Io), "io")),
        str,
        "udp, udp-mmsg",
    ),
    Key(
        "idle",
        "idle",
        "what an application does while its ring is full or empty: `poll`, `yield`, `sleep`, or "
        "`auto`: by the cores there are",
        lambda text, _known: Idle(values.choice(text, tuple(Idle), "idle strategy")),
        str,
        "yield",
    ),
    Key(
        "touch",
        "touch",
        "write and verify every payload byte at both ends",
        lambda text, _known: values.boolean(text),
        lambda value: "true" if value else "false",
        "true",
    ),
    Key(
        "method",
        "method",
        "how a throughput is found: `plain` (one run at the set rate), `ndr-pdr`, `r-plus`, "
        "`plateau`, `loss-vs-load`, `back-to-back`, `soak`, `recovery`, `reconfiguration` or "
        "`calibrate` "
        "(docs/methods.md); `rate` then bounds the load, and `duration` is one trial's",
        lambda text, _known: Method(values.choice(text, tuple(Method), "method")),
        str,
        "ndr-pdr",
    ),
    Key(
        "goals",
        "goals",
        "what an `ndr-pdr` search looks for: `csit`, `rfc2544`, `tst009` or `quick`",
        lambda text, _known: values.choice(text, model.GOALS, "preset of goals"),
        str,
        "rfc2544",
    ),
    Key(
        "budget",
        "budget_s",
        "the time a method may take, its own overhead included; `auto`: the method's default",
        lambda text, known: None if text == "auto" else read.time(text, known),
        lambda value: "auto" if value is None else values.format_seconds(value),
        "5m",
        unit="time",
    ),
    Key(
        "duration",
        "duration_s",
        "how long a trial lasts (a latency trial's warm-up comes before it)",
        read.time,
        values.format_seconds,
        "5s",
        unit="time",
    ),
    Key(
        "interval",
        "interval_s",
        "length of one sample inside a trial",
        read.time,
        values.format_seconds,
        "200ms",
        unit="time",
    ),
    Key(
        "switch_options",
        "switch_options",
        "settings of the switch itself (table in docs/switches.md), also written as a mapping, "
        "`{vlan_filtering: on}`; a switch without the option refuses it",
        read.switch_options,
        lambda value: value or options.NONE,
        "vlan_filtering:on+static_fdb:on",
        mapping=True,
    ),
    Key(
        "switch_cores",
        "switch_cores",
        "cores given to a switch that polls",
        read.whole(read.CORES),
        str,
        "1, 2",
        unit="cores",
        ranges=True,
    ),
    Key(
        "spare_cores",
        "spare_cores",
        "cores left idle on purpose, as a polling switch would use them (for the bare wire)",
        read.whole(read.SPARE),
        str,
        "1",
        unit="cores",
        ranges=True,
    ),
    Key(
        "packet_mix",
        "packet_mix",
        "frames of several sizes in one trial: `imix` (64, 570, 1518 as 7:4:1), a genome of "
        "RFC 6985, sizes in turn, or `random:64-1518`; takes the place of `packet_size`",
        read.words(traffic.read_mix),
        lambda value: value or traffic.NO_WORD,
        "imix, genome:aaafag, 64*7+570*4+1518",
    ),
    Key(
        "flows",
        "flows",
        "how many flows a pair sends, 1 to 1M, and the fields in which they differ (default "
        "`src-ip`), joined by `+`; `:zipf=1.0` makes some popular",
        read.words(traffic.read_flows),
        str,
        "1, 1000, 1M:src-ip+src-port:zipf=1.0",
    ),
    Key(
        "ip_version",
        "ip_version",
        "IP version of the frames; IPv6 takes 20 bytes more, so 84 is the smallest size",
        lambda text, _known: int(values.choice(text, ("4", "6"), "IP version")),
        str,
        "4, 6",
    ),
    Key(
        "vlan",
        "vlan",
        "VLAN ID with which frames are tagged (802.1Q), or two (`200.100`: 802.1ad outside); "
        "each tag takes 4 bytes of the frame",
        read.words(traffic.read_vlan),
        lambda value: value or traffic.NO_WORD,
        "none, 100, 200.100",
    ),
    Key(
        "split",
        "split",
        "of `chains-MxN`: one sender and one receiver for all chains, and the switch deals the "
        "frames out, by source MAC address (`src-mac`, one for each chain) or by a hash of the "
        "flow (`flow`); `none`: each chain has ends of its own",
        lambda text, _known: values.choice(text, model.SPLITS, "way to split"),
        str,
        "none, src-mac, flow",
    ),
    Key(
        "bidirectional",
        "bidirectional",
        "both ends of a path send, each at `rate`; the result keeps both directions and their sum",
        lambda text, _known: values.boolean(text),
        lambda value: "true" if value else "false",
        "false, true",
    ),
    Key(
        "vnf",
        "vnf",
        "what stands in a chain: `forwarder` (the engine's, by DPDK or packet sockets), `bridge` "
        "(a Linux bridge in the VNF), `pcap` (one system call a frame), or the absolute path of a "
        "program, run as `PROGRAM PORT-A PORT-B`",
        read.vnf,
        str,
        "forwarder, bridge",
    ),
    Key(
        "cpu_limit",
        "cpu_limit",
        "CPU time that a switch with a process of its own may use, as a share of each of its cores "
        "(a quota of its control group); `none`: all",
        read.cpu_limit,
        lambda value: "none" if value is None else f"{value * 100:.6g}%",
        "100%, 75%, 50%, 25%, 12.5%",
        unit="share",
    ),
    Key(
        "switch_environment",
        "switch_environment",
        "where the switch runs: `host`, a network namespace of its own (`netns`), or a container "
        "(`lxc`, `docker`), whose control group then carries `cpu_limit`; which switch can: "
        "docs/environments.md",
        lambda text, _known: values.choice(text, model.SWITCH_ENVIRONMENTS, "place for a switch"),
        str,
        "host, lxc, docker",
    ),
    Key(
        "switch_cpus",
        "switch_cpus",
        "which cores the switch gets, as many as `switch_cores` says: `2+3`; `auto`: by placement",
        read.cores(("auto",)),
        str,
        "2",
    ),
    Key(
        "application_cpus",
        "application_cpus",
        "which cores the traffic applications and VNFs get, one after the other, from the first "
        "again where there are more of them; `auto`: by placement",
        read.cores(("auto",)),
        str,
        "4+5+6",
    ),
    Key(
        "main_cpu",
        "main_cpu",
        "the core of the switch's main thread, where that does not forward (`ovs-dpdk`, `testpmd`, "
        "`vpp`); `auto`: off the forwarding cores where there are others",
        read.one_core,
        str,
        "0",
    ),
    Key(
        "smt",
        "smt",
        "SMT siblings: `avoid` (one CPU of each physical core is used at all), `siblings` "
        "(applications run on the siblings of the switch's cores), `auto`: used last",
        lambda text, _known: values.choice(text, model.SMT_WORDS, "use of SMT siblings"),
        str,
        "avoid, siblings",
    ),
    Key(
        "numa",
        "numa",
        "NUMA nodes: `same` (applications and switch on one node), `other` (applications on "
        "another than the switch), `auto`: one node while it has cores",
        lambda text, _known: values.choice(text, model.NUMA_WORDS, "placement on NUMA nodes"),
        str,
        "same, other",
    ),
    Key(
        "neighbour",
        "neighbour",
        "background load while a trial measures: `cpu`, `cache`, `memory`, `stream`, `switch`, "
        "`socket` (stress-ng), or the absolute path of a program; `none`",
        read.neighbour,
        str,
        "none, cache",
    ),
    Key(
        "neighbour_cpus",
        "neighbour_cpus",
        "where that load is pinned: `switch` or `applications` (their cores), cores as `0+1`, or "
        "`any` (not pinned); it has a worker a core, unpinned one",
        read.cores(("any", "switch", "applications")),
        str,
        "any, switch",
    ),
    Key(
        "nics",
        "nics",
        "real ports of this host for the wire ends, in turn, each as the tester's port and that of "
        "the switch that it is cabled to: network devices, or PCI addresses bound to a driver for "
        "DPDK (docs/scenarios.md); `none`: wire ends stand in for them",
        read.words(nics.read_nics),
        lambda value: value or nics.NO_WORD,
        "eth2/eth3+eth4/eth5",
    ),
    Key(
        "ring",
        "ring",
        "frames that each ring of an application's vhost-user port holds: `256`, `512`, `1024`, "
        "`2048` or `4096`; a deeper one outlasts longer pauses of whoever empties it, and costs "
        "cache",
        lambda text, _known: int(values.choice(text, model.RINGS, "ring size")),
        str,
        "256, 1024",
        unit="frames",
    ),
)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
BY_LETTER: dict[str, Key] = {key.letter: key for key in KEYS if key.letter}
