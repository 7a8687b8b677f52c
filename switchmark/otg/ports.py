"""The ports that `switchmark otg --port` offers: a client's name for each (its location), and how
the engine reaches it."""

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
    device: str | None  # of the kernel; None: there is none to ask or to listen at
    shared: bool  # whether several flows may leave by it, and arrive

    @property
    def needs(self) -> tuple[Facility, ...]:
        """The facilities of this place that the engine needs to open the port."""
        kind, _, rest = self.spec.partition(":")
        return _NEEDS.get(f"dpdk:{rest.partition('=')[0]}" if kind == "dpdk" else kind, ())

    @property
    def loses_outer_tag(self) -> bool:
        """Whether the outer of two VLAN tags arrives as 802.1Q, which the engine refuses there."""
        return self.spec.startswith("dpdk:af-packet=")

    @property
    def waiting_spec(self) -> str:
        """The same port for a receiver that waits in the kernel, so that hundreds of receivers need
        no core while nothing arrives; as it is where no kernel can wait."""
        kind = self.spec.partition(":")[0]
        waits = kind in _SHARED and "block" not in self.spec.split(",")
        return f"{self.spec},block" if waits else self.spec

    @property
    def taken_device(self) -> str | None:
        """The device of the kernel whose frames a receiver here takes before the kernel sees them;
        None if there is no such device."""
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
        """Whether its link is up; a port that is no device is up while it can be opened."""
        if self.device is None:
            return True
        try:
            return _read(self.device, "operstate") in ("up", "unknown")
        except OSError:
            return False

    @property
    def speed_mbps(self) -> int | None:
        """The speed of its device; None where that is not known."""
        return self._number("speed")

    @property
    def mtu_bytes(self) -> int | None:
        """The MTU of its device; None where there is none."""
        return self._number("mtu")

    def _number(self, name: str) -> int | None:
        if self.device is None:
            return None
        try:
            found = int(_read(self.device, name))
        except (OSError, ValueError):
            return None
        return found if found > 0 else None


def _read(device: str, name: str) -> str:
    return (Path("/sys/class/net") / device / name).read_text(encoding="ascii").strip()


def parse_port(text: str) -> TrafficPort:
    """Read `LOCATION[=KIND[:REST]]`. Raises UsageError."""
    location, equals, how = text.partition("=")
    kind, _, rest = how.partition(":")
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
    raise UsageError(f"--port {text}: {kind} is no kind of port", remedy=f"known are {known}")


def parse_ports(texts: list[str]) -> dict[str, TrafficPort]:
    """Read all ports, by location. Raises UsageError for one that is named twice, or for none."""
    if not texts:
        raise UsageError(f"--port: give at least one, e.g. --port {_EXAMPLE}")
    ports: dict[str, TrafficPort] = {}
    for text in texts:
        port = parse_port(text)
        if port.location in ports:
            raise UsageError(f"--port {text}: the location {port.location} is there already")
        ports[port.location] = port
    return ports
