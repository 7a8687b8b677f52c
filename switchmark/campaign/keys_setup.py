"""What stands between the ends: switch, nodes and VNFs, where they live, how they are joined."""

from __future__ import annotations

from switchmark.campaign import key_values as read
from switchmark.campaign import model, values
from switchmark.campaign.key import Key
from switchmark.campaign.model import Io
from switchmark.switch import options
from switchmark.testbed import nics

KEYS: tuple[Key, ...] = (
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
