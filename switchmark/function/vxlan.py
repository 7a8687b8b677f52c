"""`vxlan`: Ethernet frames inside UDP (RFC 7348), between an access port and an underlay port.

The two ports of the pair have different parts. A frame that enters the access port leaves the
underlay port inside a tunnel, which the frame's destination MAC address chooses: each tunnel has a
station behind it. A frame that enters the underlay port inside a known tunnel leaves the access
port without its outer headers. The inner frame stays unchanged. Frames with another VNI, other
outer addresses or another UDP port, and frames without a tunnel, are dropped there.

With `encap` the load enters the access port, with `decap` the underlay port, with `both` each of
them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from switchmark.errors import Refusal
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.samples import load_frame
from switchmark.function.support.table import HOP_MAC, STATION_MAC, FunctionTable, Tunnel
from switchmark.model.choices import MAX_FRAME_BYTES, Dimension
from switchmark.model.functions import OUTER_BYTES
from switchmark.model.topology import router_mac
from switchmark.model.trial import Trial

DIRECTIONS = ("encap", "decap", "both")
LARGEST_VNI = 2**24 - 1
RANDOM_TUNNELS = 30


class Vxlan:
    """Tunnels between an access port and an underlay port."""

    name = "vxlan"
    meaning = "frames are put into VXLAN tunnels, or taken out of them, by their MAC address or VNI"
    keys = ("tunnels", "vni", "direction")
    scale_key: str | None = "tunnels"
    unit = "tunnels"
    filters = False

    def refusals(self, trial: Trial) -> Iterator[Refusal]:
        """Refuse directions of other functions, VNIs that do not exist, and several pairs."""
        if trial.direction not in ("auto", *DIRECTIONS):
            yield Refusal(
                f"{trial.direction} is not a direction of vxlan",
                f"use {', '.join(DIRECTIONS)}",
                key="direction",
            )
        if trial.vni + trial.tunnels - 1 > LARGEST_VNI:
            yield Refusal(
                f"{trial.vni} leaves no VNIs for {trial.tunnels} tunnels: {LARGEST_VNI} is the "
                "largest",
                "use a smaller vni",
                key="vni",
            )
        if (trial.direction == "both") is not trial.bidirectional:
            yield Refusal(
                "direction: both is traffic both ways, and needs bidirectional: true",
                "give both, or use direction: encap or decap without bidirectional",
                key="direction",
            )
        if trial.flows.number < trial.tunnels:
            yield Refusal(
                f"{trial.flows.number} flows leave some of {trial.tunnels} tunnels without load",
                f"use {trial.tunnels} flows or more",
                key="flows",
            )
        yield from _load_refusals(trial)
        if trial.pairs > 1:
            yield Refusal(
                "function vxlan has one access port and one underlay port", "use pairs: 1",
                key="pairs",
            )  # fmt: skip

    def fill(self, table: FunctionTable, trial: Trial) -> FunctionTable:
        """Make the tunnels: all lead to one remote end, and have one VNI and one station each."""
        direction = "encap" if trial.direction == "auto" else trial.direction
        table = replace(table, tunnel_direction=direction)
        port = table.ports[table.underlay_port]
        local = port.address.partition("/")[0]
        first = Tunnel(
            trial.vni, local, local.removesuffix("1") + "2", router_mac(port.index),
            HOP_MAC.format(hop=0, port=port.index),
        )  # fmt: skip
        tunnels = [
            replace(first, vni=trial.vni + k, station_mac=STATION_MAC.format(k >> 8, k & 255))
            for k in range(trial.tunnels)
        ]
        return replace(table, tunnels=tuple(tunnels))

    def apply(self, table: FunctionTable, passing: Passing) -> Passing | None:
        """Put the frame into its tunnel, or take it out."""
        if passing.ingress == table.access_port:
            mac = passing.frame.destination_mac
            tunnel = next((t for t in table.tunnels if t.station_mac == mac), None)
            if tunnel is None:
                return None
            return replace(passing, egress=table.underlay_port, tunnel=tunnel)
        if passing.received_in not in table.tunnels:
            return None
        return replace(passing, egress=table.access_port, received_in=None)

    def cases(self, table: FunctionTable) -> Iterator[Case]:
        """Yield frames into and out of the first, the last and random tunnels, frames with a wrong
        VNI or outer address, and a frame without a tunnel at the underlay port."""
        import numpy as np

        count = len(table.tunnels)
        drawn = np.random.default_rng([table.seed, 5]).integers(0, count, RANDOM_TUNNELS)
        for number in sorted({0, count - 1, *map(int, drawn)}):
            tunnel = table.tunnels[number]
            yield Case(f"a frame into the tunnel with VNI {tunnel.vni}", _inward(table, tunnel))
            yield Case(f"a frame out of the tunnel with VNI {tunnel.vni}", _outward(table, tunnel))
        tunnel = table.tunnels[0]
        unknown = table.unknown_tunnel
        yield Case(f"a frame with the unknown VNI {unknown.vni}, which must be dropped",
                   _outward(table, replace(tunnel, vni=unknown.vni)))  # fmt: skip
        yield Case("a frame to an unknown station, which must be dropped", _inward(table, unknown))
        elsewhere = tunnel.local.removesuffix("1") + "9"
        yield Case("a frame to another outer address, which must be dropped",
                   _outward(table, replace(tunnel, local=elsewhere)))  # fmt: skip
        yield Case("a frame without a tunnel at the underlay port, which must be dropped",
                   load_frame(table, table.underlay_port))  # fmt: skip


def _inward(table: FunctionTable, tunnel: Tunnel) -> Passing:
    passing = load_frame(table, table.access_port)
    return replace(passing, frame=replace(passing.frame, destination_mac=tunnel.station_mac))


def _outward(table: FunctionTable, tunnel: Tunnel) -> Passing:
    """Return a frame of the tunnel's station to the tester at the access port."""
    passing = load_frame(table, table.underlay_port)
    frame = replace(passing.frame, source_mac=tunnel.station_mac)
    return replace(passing, frame=frame, received_in=tunnel)


def _load_refusals(trial: Trial) -> Iterator[Refusal]:
    """Refuse frames that the traffic engine cannot send or receive in tunnels."""
    if trial.ip_version != 4:
        yield Refusal(
            "the traffic engine has VXLAN over IPv4 only", "use ip_version: 4", key="ip_version"
        )
    if trial.dimension is Dimension.LATENCY:
        yield Refusal(
            "round trips through tunnels are not built; the engine does not echo their frames",
            "use throughput: or method: one-way",
            key="function",
        )
    if trial.vlan:
        yield Refusal(
            f"{trial.vlan} is a tag, and tunnels are proven with untagged frames", "leave it out",
            key="vlan",
        )  # fmt: skip
    most = MAX_FRAME_BYTES - OUTER_BYTES[4]
    if trial.frame_sizes.largest > most:
        yield Refusal(
            f"{trial.frame_sizes.largest} is too long for a frame in a tunnel",
            f"use {most} or less", key="packet_size",
        )  # fmt: skip


FUNCTION = Vxlan()
