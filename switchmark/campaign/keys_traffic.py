"""What is sent: frames, load, and when."""

from __future__ import annotations

from switchmark.campaign import key_values as read
from switchmark.campaign import rates, traffic, values
from switchmark.campaign.key import Key

KEYS: tuple[Key, ...] = (
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
        "touch",
        "touch",
        "write and verify every payload byte at both ends",
        lambda text, _known: values.boolean(text),
        lambda value: "true" if value else "false",
        "true",
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
        "bidirectional",
        "bidirectional",
        "both ends of a path send, each at `rate`; the result keeps both directions and their sum",
        lambda text, _known: values.boolean(text),
        lambda value: "true" if value else "false",
        "false, true",
    ),
)
