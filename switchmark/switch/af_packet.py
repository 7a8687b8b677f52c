"""`af-packet`: port-to-port forwarding between kernel devices, by raw sockets.

The engine in its `forwarder` role, with one process for each pair like `basicfwd`, but with
AF_PACKET in place of DPDK. It shows the cost of a userspace forwarder that has only sockets. The
ports are in its own namespace while it runs.
"""

from __future__ import annotations

from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.model.capabilities import Availability, Capabilities, SwitchOption
from switchmark.model.io import IO_ROWS, Io
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.model.taxonomy import RTC, SELF, STRUCTURED, Taxonomy
from switchmark.switch.basicfwd import BasicForwarder
from switchmark.switch.support.ports import device_of
from switchmark.switch.support.rights import SOCKET
from switchmark.switch.support.tools import kernel_release

IO = SwitchOption(
    "io",
    "interface to its ports, as in the key `io`: `raw-mmsg`: one call transfers up to 256 "
    "frames; `raw`: one call transfers one frame",
    Io.RAW_MMSG.value,
    (Io.RAW_MMSG.value, Io.RAW.value),
)
ENGINE = (*SOCKET, "setgid", "setuid")  # the last two to become another user than root


class AfPacket(BasicForwarder):
    """The engine as a port-to-port forwarder over AF_PACKET."""

    name = "af-packet"
    unforced_buffers = False
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH, PortKind.TAP),
        linux_capabilities=dict.fromkeys((PortKind.VETH, PortKind.TAP), ENGINE),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=True,
        takes_program=True,
        multi_core=True,
        options=(IO,),
        taxonomy=Taxonomy(SELF, STRUCTURED, RTC, "low", "C", "port-to-port forwarding"),
        description="port-to-port forwarding by the traffic engine, raw sockets (AF_PACKET)",
    )

    def availability(self) -> Availability:
        """Available if the engine is built, and packet sockets can be opened."""
        return (
            place.missing(Facility.NETWORK_NAMESPACE, Facility.PACKET_SOCKET)
            or self._check_engine()
        )

    def _check_means(self, pairs: int) -> None:
        """Check nothing, since sockets need no separate memory."""

    def _end_of(self, port: SwitchPort) -> str:
        return device_of(port)

    def _io(self) -> Io:
        return Io(self.option(IO.name))

    def _port_of(self, port: SwitchPort) -> str:
        row = IO_ROWS[self._io()]
        assert row.arguments is not None  # a packet socket has a device
        return f"{row.backend}:{row.arguments.replace('DEVICE', device_of(port))}"

    def _more_arguments(self, _tag: str) -> list[str]:
        return ["--unforced-buffers"] if self.unforced_buffers else []

    def details(self) -> dict[str, str]:
        """Versions and placement."""
        return {
            "version": f"{self.availability().version}, Linux {kernel_release()}",
            "datapath": f"{IO_ROWS[self._io()].meaning}, one process a pair",
            **self.option_details(),
            "connect_mode": ConnectMode.CROSS_CONNECT.value,
            "cores": ",".join(map(str, self._cores)),
            "idle": self._idle,
        }
