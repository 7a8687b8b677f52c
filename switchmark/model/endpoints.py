"""Endpoints that exist already: where the ends of a path are, as the user writes them.

`docker:web`, `netns:blue`, `pid:4711`, `lxc:db`, `podman:web`, `dev:eth2`, `pod:shop/web`, or the
address of a service or published port, `address:10.0.0.1:8080`. The `endpoints` of a trial are two
of these, joined by `+`; an address in the middle is the way from the first to the last.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from enum import StrEnum
from functools import cached_property

from switchmark.model.written import WrittenValue


class EndpointKind(StrEnum):
    """The kinds of endpoint."""

    NETNS = "netns"
    PID = "pid"
    DOCKER = "docker"
    PODMAN = "podman"
    LXC = "lxc"
    DEVICE = "dev"
    POD = "pod"
    ADDRESS = "address"


_NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,252}"
_LETTERS = "of letters, digits, `_`, `.` and `-`"
_FORMS: dict[EndpointKind, tuple[str, str]] = {
    EndpointKind.NETNS: (
        _NAME,
        f"a name in /run/netns {_LETTERS}; for another name use pid:N",
    ),
    EndpointKind.PID: (r"[1-9][0-9]{0,9}", "a process id"),
    EndpointKind.DOCKER: (_NAME, "the name or id of a container"),
    EndpointKind.PODMAN: (_NAME, "the name or id of a container"),
    EndpointKind.LXC: (_NAME, "the name of a container"),
    EndpointKind.DEVICE: (
        r"[A-Za-z0-9_.-]{1,15}",
        f"a network device of this host, a name {_LETTERS}",
    ),
    EndpointKind.POD: (
        rf"{_NAME}/{_NAME}(/{_NAME})?",
        "NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER of a pod",
    ),
}
FORM = r"^$|^[a-z]+:[A-Za-z0-9_./:-]+(\+[a-z]+:[A-Za-z0-9_./:-]+){1,2}$"
EXAMPLES = "docker:web+docker:db, netns:a+netns:b, docker:web+address:10.0.0.1:8080+docker:db"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One end of a path: its kind, and its name there."""

    kind: EndpointKind
    name: str

    @property
    def address(self) -> str:
        """The IP address of a service or published port."""
        return self.name.rpartition(":")[0] if self.port else self.name

    @property
    def port(self) -> int | None:
        """The port of a service; None if only the address is given."""
        _, colon, port = self.name.rpartition(":")
        return int(port) if self.kind is EndpointKind.ADDRESS and colon else None

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def read_endpoint(text: str) -> Endpoint:
    """Read one endpoint. Raises ValueError that names the bad part."""
    kind, colon, name = text.strip().partition(":")
    if not colon or kind not in set(EndpointKind):
        raise ValueError(
            f"{text.strip()!r} is not KIND:NAME; write e.g. docker:web (kinds: "
            f"{', '.join(EndpointKind)})"
        )
    known = EndpointKind(kind)
    if known is EndpointKind.ADDRESS:
        return Endpoint(known, _read_address(name))
    form, meaning = _FORMS[known]
    if re.fullmatch(form, name, re.ASCII) is None or name in (".", ".."):
        raise ValueError(f"{text.strip()!r}: {known} takes {meaning}")
    return Endpoint(known, name)


def _read_address(name: str) -> str:
    address, colon, port = name.partition(":")
    try:
        ip = ipaddress.IPv4Address(address)
    except ValueError:
        raise ValueError(
            f"'address:{name}': write an IPv4 address, with a port or without, e.g. "
            "address:10.0.0.1:8080"
        ) from None
    if ip.is_multicast or ip.is_unspecified or ip == ipaddress.IPv4Address("255.255.255.255"):
        raise ValueError(f"'address:{name}': {ip} is not the address of one host")
    if colon and not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):
        raise ValueError(f"'address:{name}': a port is a number from 1 to 65535")
    return name


class Endpoints(WrittenValue):
    """The endpoints of a trial, `A+B`, or `A+address:IP:PORT+B`; empty: the bench makes both."""

    form = FORM

    @cached_property
    def parts(self) -> tuple[Endpoint, ...]:
        """The endpoints in their order. Raises ValueError that names the bad part."""
        if not self:
            return ()
        parts = tuple(map(read_endpoint, self.split("+")))
        ends = (parts[0], parts[-1])
        if not 2 <= len(parts) <= 3:
            raise ValueError(f"'{self}' is not two endpoints; write e.g. {EXAMPLES}")
        if any(part.kind is EndpointKind.ADDRESS for part in ends):
            raise ValueError(
                f"'{self}': an address has no network namespace that the bench could enter; write "
                "it between the two ends: A+address:IP:PORT+B"
            )
        if any(part.port is None for part in parts[1:-1]):
            raise ValueError(f"'{self}': between two ends only address:IP:PORT can be written")
        if ends[0] == ends[1]:
            raise ValueError(f"'{self}': both ends are {ends[0]}; name two")
        return parts

    @property
    def ends(self) -> tuple[Endpoint, Endpoint]:
        """The two ends."""
        return self.parts[0], self.parts[-1]

    @property
    def through(self) -> Endpoint | None:
        """The service address or published port between the ends; None without one."""
        return self.parts[1] if len(self.parts) == 3 else None


def read_endpoints(text: str) -> Endpoints:
    """Read the value of a campaign. Raises ValueError."""
    endpoints = Endpoints.of(text.replace(" ", ""))
    _ = endpoints.parts
    return endpoints


_ADDRESS = r"[0-9.]{7,15}/[0-9]{1,2}"


class Addresses(WrittenValue):
    """The addresses of two ends that the bench attaches, with prefix length; empty: none."""

    form = rf"^({_ADDRESS}\+{_ADDRESS})?$"

    @cached_property
    def interfaces(self) -> tuple[ipaddress.IPv4Interface, ...]:
        """The two addresses. Raises ValueError that names the bad part."""
        if not self:
            return ()
        if re.fullmatch(self.form or "", self, re.ASCII) is None:
            raise ValueError(
                f"'{self}' is not two addresses with prefix length; write e.g. "
                "10.77.0.201/24+10.77.0.202/24"
            )
        found = tuple(_interface(text) for text in self.split("+"))
        if found[0].ip == found[1].ip:
            raise ValueError(f"'{self}': both ends have {found[0].ip}; name two addresses")
        if found[0].network != found[1].network:
            raise ValueError(f"'{self}': the two addresses are in different networks")
        return found


def _interface(text: str) -> ipaddress.IPv4Interface:
    try:
        interface = ipaddress.IPv4Interface(text)
    except ValueError:
        raise ValueError(f"'{text}' is not an IPv4 address with prefix length") from None
    ip, network = interface.ip, interface.network
    if ip.is_multicast or ip.is_unspecified or ip.is_loopback or interface.network.prefixlen < 8:
        raise ValueError(f"'{text}' is not the address of a host in a network")
    if network.prefixlen < 31 and ip in (network.network_address, network.broadcast_address):
        raise ValueError(f"'{text}' is the address of the network itself; name one of a host")
    return interface


def read_addresses(text: str) -> Addresses:
    """Read the value of a campaign. Raises ValueError."""
    addresses = Addresses.of(text.replace(" ", ""))
    _ = addresses.interfaces
    return addresses
