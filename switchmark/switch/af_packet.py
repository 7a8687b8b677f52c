"""`af-packet`: port-to-port forwarding between kernel devices, by raw sockets.

Our engine in its `forwarder` role, one process a pair, as `basicfwd`, but with AF_PACKET in
place of DPDK: what a userspace forwarder pays that has nothing but sockets. The ports lie in
a namespace of its own while it runs.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.environment.engine_binary import find_engine
from switchmark.switch.base import Capabilities, ConnectMode, PortKind, Probe, SwitchPort
from switchmark.switch.basicfwd import (
    ETHERNET_AND_FCS_BYTES,
    INTERVAL_S,
    BasicForwarder,
    Pair,
)
from switchmark.switch.ports import check_request, device_of, lent_of, require
from switchmark.switch.private import Footprint
from switchmark.switch.tools import kernel_release, not_root
from switchmark.testbed.host import Session


class AfPacket(BasicForwarder):
    """The engine as a port-to-port forwarder over AF_PACKET."""

    name = "af-packet"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH,),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=True,
        multi_core=True,
        description="port-to-port forwarding by the traffic engine, raw sockets (AF_PACKET)",
    )

    def probe(self) -> Probe:
        """Available where the engine is built."""
        return not_root() or self._engine_probe()

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Take the ports in; one forwarder a pair."""
        require(self.name, self.probe())
        check_request(self.name, self.capabilities, ports, mode)
        pairs = [(ports[k], ports[k + 1]) for k in range(0, len(ports), 2)]
        self._idle = "poll" if len(pairs) <= len(cores) else "yield"
        self._cores = tuple(cores)
        self._footprint = Footprint(session)
        try:
            namespace = self._footprint.namespace("sw")
            namespace.adopt([device_of(port) for port in ports], lent_of(ports))
            for k, pair in enumerate(pairs):
                core = cores[k % len(cores)]
                process = self._footprint.spawn(
                    self._command(pair, core), cores=[core], netns=namespace.name
                )
                self._pairs.append(Pair(process, (device_of(pair[0]), device_of(pair[1]))))
        except BaseException:
            self.stop()
            raise

    def _command(self, pair: tuple[SwitchPort, SwitchPort], core: int) -> list[str]:
        frame_bytes = max(port.mtu_bytes for port in pair) + ETHERNET_AND_FCS_BYTES
        ports = [word for port in pair for word in ("--port", f"raw:dev={device_of(port)},mmsg")]
        return [
            *(str(find_engine()), "forwarder", *ports),
            *("--start", "now", "--core", str(core), "--idle", self._idle),
            *("--interval", str(INTERVAL_S), "--frame-size", str(frame_bytes)),
        ]

    def details(self) -> dict[str, str]:
        """Versions and placement."""
        return {
            "version": f"{self.probe().version}, Linux {kernel_release()}",
            "datapath": "raw sockets (AF_PACKET, mmsg), one process a pair",
            "connect_mode": ConnectMode.CROSS_CONNECT.value,
            "cores": ",".join(map(str, self._cores)),
            "idle": self._idle,
        }
