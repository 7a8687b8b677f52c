"""The keys that describe trials: one table, from which everything else follows.

The loader, the notation, `--set`, the error messages and the tables of docs/campaigns.md
all read `KEYS`, so a key is added here and in `Trial`, and nowhere else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from switchmark.campaign import model, rates, traffic, values
from switchmark.campaign.model import Dimension, Idle, Io, Method, Trial
from switchmark.campaign.values import BadValueError, Limits
from switchmark.scenario.registry import WRITTEN
from switchmark.switch import options
from switchmark.switch.base import ConnectMode, PortKind


@dataclass(frozen=True, slots=True)
class Known:
    """The names that exist on this installation; None takes any well-formed name."""

    switches: tuple[str, ...] | None = None
    environments: tuple[str, ...] | None = None
    scenarios: tuple[str, ...] | None = tuple(WRITTEN)


@dataclass(frozen=True, slots=True)
class Key:
    """One parameter of a trial as users write it."""

    name: str  # in campaign files, `--set` and notations
    field: str  # of Trial
    meaning: str
    read: Callable[[str, Known], Any]  # one value
    show: Callable[[Any], str]  # the same value as text; `read` takes it back
    example: str
    unit: str = ""
    letter: str | None = None  # of the (D, L, S, V, P, R, B) notation
    ranges: bool = False
    mapping: bool = False  # a value may be written as a mapping: {emc: off}

    def default(self, dimension: Dimension) -> Any:
        """The value when none is given; raises KeyError for keys that must be given."""
        if self.field == "rate_pps":
            return model.default_rate_pps(dimension)
        if self.field == "burst":
            return model.default_burst(dimension)
        if self.name == "packet_size":
            return model.MIN_FRAME_BYTES
        field = Trial.model_fields[self.field]
        if field.is_required():
            raise KeyError(self.name)
        return field.default

    def parse(self, text: str, known: Known) -> list[Any]:
        """A value, list or range as written; raises `BadValueError`."""
        return values.many(text, lambda item: self.read(item, known), ranges=self.ranges)


_FRAME = Limits(
    model.MIN_FRAME_BYTES,
    model.MAX_FRAME_BYTES,
    "below the smallest Ethernet frame (64 with FCS)",
    "above the largest frame the engine builds (9018 with FCS)",
)
_RATE = Limits(
    1, model.MAX_RATE_PPS, "not a rate", "above any link that exists (10G packets/s)", suffixes=True
)
_PROBE_RATE = Limits(
    1, model.MAX_PROBE_RATE_PPS, "not a rate", "no low rate (1M packets/s at most)", suffixes=True
)
_BURST = Limits(1, model.MAX_BURST, "not a burst", "above the largest burst")
_PAIRS = Limits(1, model.MAX_PAIRS, "not a number of pairs", "above the most pairs one host takes")
_CORES = Limits(1, model.MAX_CORES, "not a number of cores", "above any machine's cores")
_SPARE = Limits(0, model.MAX_CORES, "not a number of cores", "above any machine's cores")
_PAIRS_NOTATION = re.compile(r"(\d+)\s*vs\s*(\d+)", re.ASCII)


def _rate(text: str, _known: Known) -> int | rates.BitRate | None:
    if text == "max":
        return None
    return rates.bit_rate(text) or values.whole(text, _RATE)


def _probe_rate(text: str, _known: Known) -> int | None:
    return None if text == "none" else values.whole(text, _PROBE_RATE)


def _pairs(text: str, _known: Known) -> int:
    match = _PAIRS_NOTATION.fullmatch(text)
    if match and match[1] != match[2]:
        raise BadValueError(f"'{text}' is uneven; pairs have as many ends left as right, e.g. 2vs2")
    return values.whole(match[1] if match else text, _PAIRS)


def _scenario(text: str, known: Known) -> str:
    """Names with numbers in them (`loopback-3`) are known by the pattern (`loopback-N`)."""
    if known.scenarios is None:
        return values.choice(text, None, "scenario")
    patterns = {
        re.sub(r"[MN]", r"[1-9]\\d{0,3}", written, flags=re.ASCII) for written in known.scenarios
    }
    if any(re.fullmatch(pattern, text, re.ASCII) for pattern in patterns):
        return text
    return values.choice(text, known.scenarios, "scenario")


def _vnf(text: str, _known: Known) -> str:
    if text.startswith("/"):
        if not re.fullmatch(model.VNF_PATTERN, text, re.ASCII):
            raise BadValueError(
                f"'{values.shorten(text)}' is not a path that can be written here; use letters, "
                "digits, '.', '_', '+', '-' and '/'"
            )
        return text
    return values.choice(text, model.VNFS, "kind of VNF (or absolute path)")


def _cpu_limit(text: str, _known: Known) -> float | None:
    if text == "none":
        return None
    limit = values.share(text)
    if limit <= 0:
        raise BadValueError(f"{text} leaves the switch no CPU time; use e.g. 50%")
    return limit


def _cores(words: tuple[str, ...]) -> Callable[[str, Known], str]:
    """One of some words, or cores joined by `+`."""

    def read(text: str, _known: Known) -> str:
        if text in words or re.fullmatch(model.CORES_PATTERN, text, re.ASCII):
            return text
        raise BadValueError(
            f"'{values.shorten(text)}' are no cores; write e.g. 2+3, or {' or '.join(words)}"
        )

    return read


def _one_core(text: str, _known: Known) -> str:
    if text == "auto" or re.fullmatch(r"\d{1,4}", text, re.ASCII):
        return text
    raise BadValueError(f"'{values.shorten(text)}' is no core; write its number, or auto")


def _neighbour(text: str, _known: Known) -> str:
    if text.startswith("/"):
        return _vnf(text, _known)
    return values.choice(text, model.NEIGHBOURS, "kind of neighbour (or absolute path)")


def _connect_mode(text: str, _known: Known) -> ConnectMode | None:
    word = values.choice(text, ("auto", *ConnectMode), "connect mode")
    return None if word == "auto" else ConnectMode(word)


def _port_kind(text: str, _known: Known) -> PortKind | None:
    word = values.choice(text, ("auto", *PortKind), "port kind")
    return None if word == "auto" else PortKind(word)


def _switch_options(text: str, _known: Known) -> str:
    try:
        return options.join(options.parse(text))
    except ValueError as error:
        raise BadValueError(str(error)) from None


def _words(read: Callable[[str], str]) -> Callable[[str, Known], str]:
    def checked(text: str, _known: Known) -> str:
        try:
            return read(text)
        except ValueError as error:
            raise BadValueError(str(error)) from None

    return checked


def _packet_size(text: str, _known: Known) -> int:
    if re.match(r"imix$|genome:|random:|\d+[+*]", text):
        raise BadValueError(f"'{text}' is a mix of sizes in one trial; write packet_mix: {text}")
    return values.whole(text, _FRAME)


def _time(text: str, _known: Known) -> float:
    return values.seconds(text, model.MIN_TIME_S, model.MAX_TIME_S)


def _whole(limits: Limits) -> Callable[[str, Known], int]:
    return lambda text, _known: values.whole(text, limits)


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
        "where the two ends of a pair are: `local`, both on this host",
        lambda text, _known: values.choice(text, ("local",), "location"),
        str,
        "local",
        letter="L",
    ),
    Key(
        "pairs",
        "pairs",
        "how many pairs of traffic applications run at the same time; `4vs4` is the same as `4`",
        _pairs,
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
        _packet_size,
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
        _rate,
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
        _whole(_BURST),
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
        _probe_rate,
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
        _scenario,
        str,
        "loopback-1, loopback-2",
    ),
    Key(
        "connect_mode",
        "connect_mode",
        "how the switch chooses the output port: `cross-connect`, `learning`, `static-mac`, `veb` "
        "(by the addresses of its own ports), or `auto`: a mode that all chosen switches have",
        _connect_mode,
        lambda value: "auto" if value is None else str(value),
        "learning",
    ),
    Key(
        "port_kind",
        "port_kind",
        "where the applications meet the switch: `veth`, `vhost-user`, `tap`, `memif`, "
        "`macvlan`, `vf`, `vale`, or `auto`: the switch's best that the environment has "
        "and `io` can use",
        _port_kind,
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
        lambda text, known: None if text == "auto" else _time(text, known),
        lambda value: "auto" if value is None else values.format_seconds(value),
        "5m",
        unit="time",
    ),
    Key(
        "duration",
        "duration_s",
        "how long a trial lasts (a latency trial's warm-up comes before it)",
        _time,
        values.format_seconds,
        "5s",
        unit="time",
    ),
    Key(
        "interval",
        "interval_s",
        "length of one sample inside a trial",
        _time,
        values.format_seconds,
        "200ms",
        unit="time",
    ),
    Key(
        "switch_options",
        "switch_options",
        "settings of the switch itself (table in docs/switches.md), also written as a mapping, "
        "`{vlan_filtering: on}`; a switch without the option refuses it",
        _switch_options,
        lambda value: value or options.NONE,
        "vlan_filtering:on+static_fdb:on",
        mapping=True,
    ),
    Key(
        "switch_cores",
        "switch_cores",
        "cores given to a switch that polls",
        _whole(_CORES),
        str,
        "1, 2",
        unit="cores",
        ranges=True,
    ),
    Key(
        "spare_cores",
        "spare_cores",
        "cores left idle on purpose, as a polling switch would use them (for the bare wire)",
        _whole(_SPARE),
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
        _words(traffic.read_mix),
        lambda value: value or traffic.NO_WORD,
        "imix, genome:aaafag, 64*7+570*4+1518",
    ),
    Key(
        "flows",
        "flows",
        "how many flows a pair sends, 1 to 1M, and the fields in which they differ (default "
        "`src-ip`), joined by `+`; `:zipf=1.0` makes some popular",
        _words(traffic.read_flows),
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
        _words(traffic.read_vlan),
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
        _vnf,
        str,
        "forwarder, bridge",
    ),
    Key(
        "cpu_limit",
        "cpu_limit",
        "CPU time that a switch with a process of its own may use, as a share of each of its cores "
        "(a quota of its control group); `none`: all",
        _cpu_limit,
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
        _cores(("auto",)),
        str,
        "2",
    ),
    Key(
        "application_cpus",
        "application_cpus",
        "which cores the traffic applications and VNFs get, one after the other, from the first "
        "again where there are more of them; `auto`: by placement",
        _cores(("auto",)),
        str,
        "4+5+6",
    ),
    Key(
        "main_cpu",
        "main_cpu",
        "the core of the switch's main thread, where that does not forward (`ovs-dpdk`, `testpmd`, "
        "`vpp`); `auto`: off the forwarding cores where there are others",
        _one_core,
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
        _neighbour,
        str,
        "none, cache",
    ),
    Key(
        "neighbour_cpus",
        "neighbour_cpus",
        "where that load is pinned: `switch` or `applications` (their cores), cores as `0+1`, or "
        "`any` (not pinned); it has a worker a core, unpinned one",
        _cores(("any", "switch", "applications")),
        str,
        "any, switch",
    ),
)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
BY_LETTER: dict[str, Key] = {key.letter: key for key in KEYS if key.letter}
