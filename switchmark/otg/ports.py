"""The ports that `switchmark otg --port` offers: the location by which clients name a port, and the
option by which the engine opens it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.host.place import Facility

_SHARED = ("raw", "packet_mmap", "io_uring")  # any number of programs may use such a port
_ON_DEVICES = (*_SHARED, "af_xdp")
_BY_DPDK = ("virtio-user", "vhost", "memif", "pci")
_AS_WRITTEN = ("dpdk", "netmap", "null")
# The facilities of this place that ports of a kind need.
_NEEDS = {
    "raw": (Facility.PACKET_SOCKET,),
    "packet_mmap": (Facility.PACKET_SOCKET,),
    "io_uring": (Facility.PACKET_SOCKET, Facility.IO_URING),
    "af_xdp": (Facility.XDP_SOCKET,),
    "dpdk:af-packet": (Facility.PACKET_SOCKET,),
    "dpdk:af-xdp": (Facility.XDP_SOCKET,),
}
_EXAMPLE = "eth1, eth1=af_xdp or p2=virtio-user:/run/p2.sock,server"


@dataclass(frozen=True, slots=True)
class TrafficPort:
    """One port of the server."""

    location: str
    spec: str  # the engine's `--port`
    device: str | None  # the kernel's device, which has a state and which tcpdump can capture
    shared: bool  # several flows may use it

    @property
    def needs(self) -> tuple[Facility, ...]:
        """The facilities of this place that the engine needs to open the port."""
        kind, _, rest = self.spec.partition(":")
        return _NEEDS.get(f"dpdk:{rest.partition('=')[0]}" if kind == "dpdk" else kind, ())

    @property
    def loses_outer_tag(self) -> bool:
        """Return True if the port gives the outer of two VLAN tags as 802.1Q, which the engine
        refuses there."""
        return self.spec.startswith("dpdk:af-packet=")

    @property
    def waiting_spec(self) -> str:
        """The port for a receiver that waits in the kernel, so that hundreds of receivers need no
        core while nothing arrives. `spec` if the kind of port cannot wait there."""
        kind = self.spec.partition(":")[0]
        can_wait = kind in _SHARED and "block" not in self.spec.split(",")
        return f"{self.spec},block" if can_wait else self.spec

    @property
    def taken_device(self) -> str | None:
        """The device whose frames a receiver at this port gets before the kernel does; None if
        there is no such device."""
        kind, _, rest = self.spec.partition(":")
        if kind == "af_xdp":
            return self.device
        if kind == "netmap":
            return rest.partition(",")[0].rstrip("*^")
        if kind == "dpdk" and rest.startswith("af-xdp="):
            return rest.removeprefix("af-xdp=").partition(",")[0]
        return None

    @property
    def is_up(self) -> bool:
        """Return True if the link of the device is up; True for a port without a device."""
        if self.device is None:
            return True
        try:
            return _read(self.device, "operstate") in ("up", "unknown")
        except OSError:
            return False

    @property
    def speed_mbps(self) -> int | None:
        """The speed of its device; None if it is unknown."""
        return self._number("speed")

    @property
    def mtu_bytes(self) -> int | None:
        """The MTU of its device; None if there is no device."""
        return self._number("mtu")

    def _number(self, name: str) -> int | None:
        if self.device is None:
            return None
        try:
            value = int(_read(self.device, name))
        except (OSError, ValueError):
            return None
        return value if value > 0 else None


def _read(device: str, name: str) -> str:
    return (Path("/sys/class/net") / device / name).read_text(encoding="ascii").strip()


def parse_port(text: str) -> TrafficPort:
    """Read `LOCATION[=KIND[:REST]]`. Raises UsageError."""
    location, equals, access = text.partition("=")
    kind, _, rest = access.partition(":")
    if not location or (equals and not kind):
        raise UsageError(f"--port {text}: write LOCATION=KIND, e.g. {_EXAMPLE}")
    if not equals:
        kind, rest = "raw", "mmsg"
    if kind in _ON_DEVICES:
        more = f",{rest}" if rest else ""
        device = location
        if rest.startswith("dev="):
            device, _, other = rest.removeprefix("dev=").partition(",")
            more = f",{other}" if other else ""
        if not (Path("/sys/class/net") / device).exists():
            raise UsageError(f"--port {text}: there is no device {device} (ip link)")
        return TrafficPort(location, f"{kind}:dev={device}{more}", device, kind in _SHARED)
    if kind in _BY_DPDK and rest:
        return TrafficPort(location, f"dpdk:{kind}={rest}", None, shared=False)
    if kind in _AS_WRITTEN:
        return TrafficPort(location, f"{kind}:{rest}", None, shared=kind == "null")
    known = ", ".join((*_ON_DEVICES, *_BY_DPDK, *_AS_WRITTEN))
    raise UsageError(f"--port {text}: {kind} is not a kind of port", remedy=f"known are {known}")


def parse_ports(texts: list[str]) -> dict[str, TrafficPort]:
    """Read all ports, by location. Raises UsageError if a location is repeated, or for no ports."""
    if not texts:
        raise UsageError(f"--port: give at least one, e.g. --port {_EXAMPLE}")
    ports: dict[str, TrafficPort] = {}
    for text in texts:
        port = parse_port(text)
        if port.location in ports:
            raise UsageError(f"--port {text}: the location {port.location} is repeated")
        ports[port.location] = port
    return ports
