"""Instruments on sockets: sizes, addresses, ports."""

from __future__ import annotations

from switchmark.instrument.support.base import Station
from switchmark.model.trial import Trial

# The usual ports of foreign instruments and of applications over TCP. In a network of the user,
# the bench chooses ports that are free there.
UDP_PORT = 18_000
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


def tcp_port(station: Station) -> int:
    """The port at which a TCP server of this end listens."""
    return station.port.tcp_port or TCP_PORT


def peer_tcp_port(station: Station) -> int:
    """The port at which this end reaches the TCP server of its peer."""
    return station.port.peer_tcp_port or TCP_PORT


def udp_port(station: Station) -> int:
    """The port at which a UDP server of this end listens."""
    return station.port.udp_port or UDP_PORT


def peer_udp_port(station: Station) -> int:
    """The port at which this end reaches the UDP server of its peer."""
    return station.port.peer_udp_port or UDP_PORT
