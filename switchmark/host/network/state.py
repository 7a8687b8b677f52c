"""The state of a network namespace: devices, addresses, default routes, firewall, settings.

Only reading. The texts of other programs and the names of devices are untrusted.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from switchmark.host.kernel.device_settings import offloads_of
from switchmark.host.network.handle import NamespaceHandle, read_inside
from switchmark.host.process_output import parse_json, parsing
from switchmark.host.programs import which

SETTINGS = (
    "ipv4/ip_forward",
    "ipv4/conf/all/rp_filter",
    "bridge/bridge-nf-call-iptables",
    "bridge/bridge-nf-call-ip6tables",
    "bridge/bridge-nf-call-arptables",
    "netfilter/nf_conntrack_max",
    "ipv4/ip_local_port_range",
    "ipv4/tcp_congestion_control",
)
CONNTRACK_COUNT = "netfilter/nf_conntrack_count"
BONDS = ("bond", "team")
TUNNELS = frozenset({
    "vxlan", "geneve", "gre", "gretap", "ip6gre", "ip6gretap", "erspan", "ipip", "sit", "ip6tnl",
    "wireguard", "vti", "xfrm",
})  # fmt: skip
_NUMBERS = ("index", "peer_index", "peer_namespace")  # a device that is made again has others
FIREWALL_COUNTERS = ("packets", "bytes", "handle", "used", "expires")


@dataclass(frozen=True, slots=True)
class Link:
    """A network device."""

    index: int
    name: str
    kind: str  # name of the kernel's driver, e.g. `veth`; empty: hardware or loopback
    mac: str
    mtu_bytes: int
    up: bool
    loopback: bool
    peer_index: int | None  # the other end of a veth, or the parent of a macvlan or a VLAN device
    peer_namespace: int | None  # number of the namespace of that device; None: the same
    master: str | None  # the bridge or bond that it is a port of
    qdisc: str
    xdp: bool
    addresses: tuple[str, ...]  # with prefix length, IPv4 first; only global ones
    info: Mapping[str, Any] = field(default_factory=dict, hash=False)
    offloads: Mapping[str, bool] = field(default_factory=dict, hash=False)

    @property
    def is_physical(self) -> bool:
        """Return True for a device that can lead out of the machine by itself."""
        return not self.kind and not self.loopback

    @property
    def is_tunnel(self) -> bool:
        """Return True for a tunnel, whose packets go to another host."""
        return self.kind in TUNNELS


@dataclass(frozen=True, slots=True)
class Firewall:
    """The rules in force in a namespace: their numbers, and a hash without their counters."""

    program: str  # that was asked; empty: none could be
    tables: int = 0
    base_chains: tuple[str, ...] = ()  # HOOK FAMILY TABLE/CHAIN, policy DROP marked
    rules: int = 0
    nat_rules: int = 0
    digest: str = ""


@dataclass(frozen=True, slots=True)
class NamespaceState:
    """The state of a network namespace at one moment."""

    label: str
    inode: int
    links: Mapping[str, Link]
    default_devices: tuple[str, ...]  # that its default routes use
    gateways: tuple[str, ...]
    settings: Mapping[str, str]
    conntrack_count: int | None
    firewall: Firewall

    def by_index(self, index: int) -> Link | None:
        """The device of this number; None if there is none."""
        return next((link for link in self.links.values() if link.index == index), None)

    def ports_of(self, bridge: str) -> list[Link]:
        """The ports of a bridge."""
        return [link for link in self.links.values() if link.master == bridge]

    def addresses(self) -> set[str]:
        """All global addresses, without prefix lengths."""
        texts = (text for link in self.links.values() for text in link.addresses)
        return {text.partition("/")[0] for text in texts}

    def digest(self, devices: Collection[str] | None = None) -> str:
        """A hash of all that decides how these devices (None: all) treat packets, without counters.
        Equal hashes at two moments mean that nothing has changed."""
        names = set(self.links) if devices is None else set(devices)
        links = {
            name: {key: value for key, value in asdict(link).items() if key not in _NUMBERS}
            for name, link in self.links.items()
            if name in names
        }
        text = json.dumps(
            {
                "links": links,
                "routes": [self.default_devices, self.gateways],
                "settings": dict(self.settings),
                "firewall": asdict(self.firewall),
            },
            sort_keys=True,
            default=str,
        )
        return hashlib.sha256(text.encode()).hexdigest()[:16]


def read_state(handle: NamespaceHandle) -> NamespaceState:
    """Read the state of a namespace. Raises OSError if it cannot be entered, TrialFailed if `ip`
    prints something unknown."""
    links = parse_links(
        handle.output_of(["ip", "-j", "-d", "address", "show"]) or "[]",
        handle.inside(_offloads),
    )
    devices, gateways = parse_default_routes(
        handle.output_of(["ip", "-j", "-4", "route", "show", "default"]) or "[]"
    )
    count = read_inside(handle, f"/proc/sys/net/{CONNTRACK_COUNT}")
    return NamespaceState(
        label=handle.label,
        inode=handle.inode,
        links=links,
        default_devices=devices,
        gateways=gateways,
        settings={
            name: value
            for name in SETTINGS
            if (value := read_inside(handle, f"/proc/sys/net/{name}")) is not None
        },
        conntrack_count=int(count) if count is not None and count.isdigit() else None,
        firewall=read_firewall(handle),
    )


def parse_links(
    text: str, offloads: Mapping[str, Mapping[str, bool]] | None = None
) -> dict[str, Link]:
    """The devices that `ip -j -d address show` prints. Raises TrialFailed."""
    rows = parse_json("ip -j", text)
    with parsing("ip -j"):
        rows = [row for row in rows if row]
        indices = {str(row["ifname"]): int(row["ifindex"]) for row in rows}
        links = (_link(row, offloads or {}, indices) for row in rows)
        return {link.name: link for link in links}


def _link(
    row: Mapping[str, Any],
    offloads: Mapping[str, Mapping[str, bool]],
    indices: Mapping[str, int],
) -> Link:
    about = row.get("linkinfo", {})
    flags, name = row["flags"], str(row["ifname"])
    # `ip` prints the name of a device in the same namespace, and the index of any other one.
    index = row.get("link_index", indices.get(str(row.get("link"))))
    number = row.get("link_netnsid")
    addresses = [
        (entry["family"] != "inet", f"{entry['local']}/{entry['prefixlen']}")
        for entry in row.get("addr_info", [])
        if entry.get("scope") == "global" and "local" in entry
    ]
    return Link(
        index=int(row["ifindex"]),
        name=name,
        kind=str(about.get("info_kind", "")),
        mac=str(row.get("address", "")),
        mtu_bytes=int(row["mtu"]),
        up="UP" in flags,
        loopback="LOOPBACK" in flags,
        peer_index=int(index) if index is not None else None,
        peer_namespace=int(number) if number is not None else None,
        master=str(row["master"]) if "master" in row else None,
        qdisc=str(row.get("qdisc", "")),
        xdp="xdp" in row,
        addresses=tuple(address for _, address in sorted(addresses)),
        info=_settings_of(about.get("info_data", {})),
        offloads=dict(offloads.get(name, {})),
    )


# Of bridges, bonds, macvlan and VLAN devices, and tunnels; without timers and counters.
_KEPT = (
    "mode", "stp_state", "forward_delay", "vlan_filtering", "mcast_snooping", "ageing_time", "id",
    "remote", "local", "port", "nf_call_iptables", "protocol", "active_slave",
)  # fmt: skip


def _settings_of(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: data[name] for name in _KEPT if name in data}


def _offloads() -> dict[str, dict[str, bool]]:
    lines = Path("/proc/thread-self/net/dev").read_text().splitlines()[2:]
    names = (line.partition(":")[0].strip() for line in lines)
    return {name: offloads_of(name) for name in names}


def parse_default_routes(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The devices and the gateways of default routes. Raises TrialFailed."""
    rows = parse_json("ip -j", text)
    with parsing("ip -j"):
        hops = [hop for row in rows for hop in (row, *row.get("nexthops", []))]
        devices = dict.fromkeys(str(hop["dev"]) for hop in hops if "dev" in hop)
        gateways = dict.fromkeys(str(hop["gateway"]) for hop in hops if "gateway" in hop)
        return tuple(devices), tuple(gateways)


def read_firewall(handle: NamespaceHandle) -> Firewall:
    """The rules of nftables, and those of the older iptables if the kernel has any tables of it.
    (Without such tables its program would make them.)"""
    found = Firewall("")
    if which("nft") and (text := handle.output_of(["nft", "-j", "list", "ruleset"])) is not None:
        found = parse_ruleset(text)
    if read_inside(handle, "/proc/thread-self/net/ip_tables_names") and (
        text := handle.output_of(["iptables-legacy-save"])
    ):
        found = with_legacy(found, text)
    return found


def parse_ruleset(text: str) -> Firewall:
    """Count what `nft -j list ruleset` prints. Raises TrialFailed."""
    document = parse_json("nft -j", text)
    with parsing("nft -j"):
        entries = [entry for entry in document["nftables"] if "metainfo" not in entry]
        chains = [entry["chain"] for entry in entries if "chain" in entry]
        nat = {(chain["family"], chain["table"]) for chain in chains if chain.get("type") == "nat"}
        rules = [entry["rule"] for entry in entries if "rule" in entry]
        hooks = [
            f"{chain['hook']} {chain['family']} {chain['table']}/{chain['name']}"
            + (", policy drop" if chain.get("policy") == "drop" else "")
            for chain in chains
            if "hook" in chain
        ]
        plain = json.dumps(_without_counters(entries), sort_keys=True)
        return Firewall(
            "nft",
            tables=sum("table" in entry for entry in entries),
            base_chains=tuple(hooks),
            rules=len(rules),
            nat_rules=sum((rule["family"], rule["table"]) in nat for rule in rules),
            digest=hashlib.sha256(plain.encode()).hexdigest()[:16],
        )


def _without_counters(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            key: _without_counters(part)
            for key, part in value.items()
            if key not in FIREWALL_COUNTERS
        }
    return [_without_counters(part) for part in value] if isinstance(value, list) else value


def with_legacy(found: Firewall, text: str) -> Firewall:
    """Add the rules that `iptables-legacy-save` prints."""
    tables = re.split(r"(?m)^\*", text)[1:]
    rules = re.findall(r"(?m)^-A .*$", text)
    nat = [rule for table in tables if table.startswith("nat") for rule in table.split("\n-A ")[1:]]
    chains = re.findall(r"(?m)^:(\S+) (ACCEPT|DROP)\b", text)
    plain = hashlib.sha256((found.digest + "\n".join(rules)).encode()).hexdigest()[:16]
    return Firewall(
        "nft, iptables" if found.program else "iptables",
        tables=found.tables + len(tables),
        base_chains=(
            *found.base_chains,
            *(f"iptables {name}{', policy drop' if policy == 'DROP' else ''}"
              for name, policy in chains),
        ),
        rules=found.rules + len(rules),
        nat_rules=found.nat_rules + len(nat),
        digest=plain,
    )  # fmt: skip
