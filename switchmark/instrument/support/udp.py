"""Instruments on sockets: sizes, addresses, ports."""

from __future__ import annotations

from switchmark.instrument.support.base import Station
from switchmark.model.trial import Trial

UDP_PORT = 18_000  # of foreign instruments; our own applications have others
TCP_PORT = 18_001
ETHERNET, IPV4, UDP, FCS = 14, 20, 8, 4  # bytes around the payload in a frame


def payload_bytes(trial: Trial) -> int:
    """The payload in bytes of a datagram in a frame of the trial's size, which counts the FCS."""
    return trial.packet_size_bytes - ETHERNET - IPV4 - UDP - FCS


def frame_bytes(payload: int) -> int:
    """The size with FCS of a frame with a datagram of this payload."""
    return payload + ETHERNET + IPV4 + UDP + FCS


def address(station: Station) -> str:
    """The IP address of an end."""
    return station.port.ip.partition("/")[0]


def peer_address(station: Station) -> str:
    """The IP address at which this end reaches its peer, which may be that of a published port."""
    return station.port.peer_ip.partition("/")[0]
