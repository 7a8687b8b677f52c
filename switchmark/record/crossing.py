"""The proof that the traffic of a trial crossed the network in question, and by which path."""

from __future__ import annotations

from pydantic import Field

from switchmark.model.value import Amount, Count, Value


class CountedOn(Value):
    """The packets that one device of the path counted during the measurement, both ways."""

    namespace: str
    device: str
    packets: Count
    bytes: Count


class Relayed(Value):
    """The work of a program that received the traffic in a host and sent it on."""

    program: str
    processes: Count
    bytes: Count  # in IP packets that the host received
    forwarded_packets: Count  # that the host routed past the program
    cpu_s: Amount  # CPU time of the program


class Crossing(Value):
    """The counters of the devices on the path, and the facts of the path."""

    devices: list[CountedOn]
    least_bytes: Count  # payload that the applications received: each device counted at least this
    other_packets_per_s: Amount | None = None  # counted in silence before; None: not watched
    shared: bool = False  # others sent more than a twentieth of the load
    changed: bool = False  # rules, settings or devices differ from the first trial of this run
    state: str = ""  # hash of the rules, settings and devices on the path
    relay: Relayed | None = None  # None: the kernel forwards
    # Address and port that the client dialled, and those at which the server listened.
    dialled: str = ""
    answered_at: str = ""
    path: list[str] = Field(default_factory=list)  # a line for each device, in the order of packets
    source_address: str = ""  # the address that the first endpoint sends from
    source_seen: str = ""  # by the second one
    translated: bool = False  # the network rewrites addresses
    ttl_forth: Count | None = None  # TTL on arrival; each router takes 1 from 64
    ttl_back: Count | None = None
    path_mtu: Count | None = None  # the largest IP packet that passes whole
    expiring: list[str] = Field(default_factory=list)  # state of the kernel that expires by itself
