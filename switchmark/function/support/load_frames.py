"""The load of network functions as whole frames, for instruments that send what they are given."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from switchmark.function.support.flows import load_flows
from switchmark.function.support.frames import Frame
from switchmark.function.support.samples import load_frame
from switchmark.function.support.wire import wire_bytes
from switchmark.model.choices import FCS_BYTES

if TYPE_CHECKING:
    from switchmark.function.support.functions import Passing
    from switchmark.function.support.table import FunctionTable
    from switchmark.model.trial import Trial


@dataclass(frozen=True, slots=True)
class LoadFrame:
    """A frame of the load as a tester sends it into a port of the switch."""

    passing: Passing

    @property
    def frame(self) -> Frame:
        """The frame without outer headers."""
        return self.passing.frame

    def to_bytes(self) -> bytes:
        """Return the frame without FCS, in its tunnel if the load enters the underlay port."""
        return wire_bytes(self.passing, self.passing.received_in)


def load_frames(table: FunctionTable, trial: Trial) -> tuple[LoadFrame, ...]:
    """Return a frame of each flow of the load that enters port 0, the same flows as the engine
    sends."""
    rows = load_flows(table, trial.flows.number, [1], seed=table.seed)
    tag = table.vlan.vid if table.vlan is not None and table.vlan.is_trunk(0) else None
    frames = []
    for number in range(len(rows)):
        passing = load_frame(
            table, 0,
            source=str(ipaddress.ip_address(rows.sources[number].tobytes())),
            destination=str(ipaddress.ip_address(rows.destinations[number].tobytes())),
            source_port=int(rows.source_ports[number]),
            destination_port=int(rows.destination_ports[number]),
            vid=tag,
        )  # fmt: skip
        if table.tunnels:
            tunnel = table.tunnels[int(rows.tunnels[number])]
            if table.access_port == 0:
                frame = replace(passing.frame, destination_mac=tunnel.station_mac)
                passing = replace(passing, frame=frame)
            else:
                frame = replace(passing.frame, source_mac=tunnel.station_mac)
                passing = replace(passing, frame=frame, received_in=tunnel)
        headers = len(replace(passing.frame, payload=b"").to_bytes())
        payload = bytes(trial.packet_size_bytes - FCS_BYTES - headers)
        frames.append(LoadFrame(replace(passing, frame=replace(passing.frame, payload=payload))))
    return tuple(frames)
