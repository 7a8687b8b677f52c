"""Counters of the devices on a path, by which a trial proves that its traffic crossed them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from switchmark.errors import TrialFailed
from switchmark.host.cores.cpu_time import ThreadTimes
from switchmark.host.kernel import device_counters

ENDS = "ends "  # begins the group of devices in the namespaces of ends


@dataclass(frozen=True, slots=True)
class CountedDevice:
    """A device whose counters move if traffic crosses the network."""

    namespace: str | None  # name or path of its network namespace; None: this one
    device: str
    label: str = ""  # a name of the namespace for people
    group: str = ""  # devices that count the traffic together; empty: the device alone counts it
    # Reads the counters of a device on another host; None: it is on this host.
    read: Callable[[], DeviceCount] | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class DeviceCount:
    """Packets and bytes of a device, received and sent together."""

    packets: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Relay:
    """A program that receives the traffic in a host and sends it on."""

    program: str
    pids: tuple[int, ...]
    namespace: str  # the host; its IP stack delivers packets to no other program


@dataclass(frozen=True, slots=True)
class RelayCount:
    """The counters of the IP stack around a relay, and the CPU time of its threads."""

    bytes: int  # received in IP packets
    forwarded_packets: int  # routed past all programs
    threads: ThreadTimes


@dataclass(frozen=True, slots=True)
class PathFacts:
    """Facts of the path that packets of the bench showed before the trial."""

    source_address: str = ""
    source_seen: str = ""
    translated: bool = False
    ttl_forth: int | None = None
    ttl_back: int | None = None
    path_mtu: int | None = None


@dataclass(frozen=True, slots=True)
class KnownNetwork:
    """A network under test: the devices that prove a crossing, and what else is known of it."""

    key: str  # names it among the networks of this machine
    devices: Sequence[CountedDevice]
    path: Sequence[str] = ()  # a line for each device
    facts: PathFacts = PathFacts()
    relay: Relay | None = None  # a program that the traffic must cross
    verified_by: str = ""  # proof of the path, if datagrams cannot take it
    digest: Callable[[], str] = field(default=lambda: "")  # hash of rules, settings and devices now
    others: bool = False  # other senders may use it: their traffic is counted before a trial
    expiring: Callable[[], Sequence[str]] = field(
        default=lambda: ()
    )  # kernel state that expires by itself


def read_counts(devices: Sequence[CountedDevice]) -> dict[CountedDevice, DeviceCount]:
    """Read the counters of devices. Raises TrialFailed if one is gone."""
    tables: dict[str | None, Mapping[str, Sequence[int]]] = {}
    counts = {}
    for counted in devices:
        if counted.read is not None:
            counts[counted] = counted.read()
            continue
        if counted.namespace not in tables:
            try:
                tables[counted.namespace] = device_counters.all_device_counters(counted.namespace)
            except OSError as error:
                raise TrialFailed(
                    f"{counted.label or counted.namespace}: cannot be entered ({error.strerror})"
                ) from None
        fields = tables[counted.namespace].get(counted.device)
        if fields is None:
            raise TrialFailed(f"device {counted.device} of {counted.label or 'this host'} is gone")
        counts[counted] = DeviceCount(fields[1] + fields[9], fields[0] + fields[8])
    return counts


def read_relay(relay: Relay) -> RelayCount:
    """Read the counters around a relay. Raises TrialFailed if its namespace is gone."""
    try:
        counters = device_counters.protocol_counters(relay.namespace)
    except OSError as error:
        raise TrialFailed(f"{relay.namespace}: cannot be entered ({error.strerror})") from None
    return RelayCount(
        counters.get("IpExt.InOctets", 0),
        counters.get("Ip.ForwDatagrams", 0),
        ThreadTimes.of(relay.pids),
    )
