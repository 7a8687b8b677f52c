"""Results and errors of CNI plugins, checked: a plugin is a program of others."""

from __future__ import annotations

import ipaddress
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from switchmark.errors import TrialFailed
from switchmark.formatting import encodable, printable
from switchmark.host.process_output import refuse_constant

MOST_ENTRIES = 1024  # the limit for interfaces, addresses and routes
_MAC = re.compile(r"[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}")
_LONGEST_TEXT = 400


@dataclass(frozen=True, slots=True)
class Interface:
    """A device that a plugin reports. An empty sandbox means that it is on the host."""

    name: str
    mac: str
    sandbox: str


@dataclass(frozen=True, slots=True)
class Address:
    """An address with its prefix length, and the gateway of its network."""

    cidr: str
    gateway: str
    interface: int | None  # index into the interfaces


@dataclass(frozen=True, slots=True)
class Result:
    """The result of an ADD, and its document, which the next plugin and DEL get."""

    document: Mapping[str, Any]
    interfaces: tuple[Interface, ...] = ()
    addresses: tuple[Address, ...] = ()
    routes: tuple[str, ...] = field(default=())

    def inside(self, netns_path: str, ifname: str) -> tuple[Interface, str, str]:
        """Return the device in the namespace, its IPv4 address and the gateway (may be empty).

        Raises TrialFailed if the result names no such device or no IPv4 address."""
        for index, interface in enumerate(self.interfaces):
            if interface.sandbox and interface.name == ifname:
                for address in self.addresses:
                    if address.interface in (None, index) and "." in address.cidr:
                        return interface, address.cidr, address.gateway
                raise TrialFailed(
                    f"the network gave {ifname} no IPv4 address",
                    remedy="give the configuration list an ipam plugin with an IPv4 subnet",
                )
        named = ", ".join(one.name for one in self.interfaces) or "none"
        raise TrialFailed(
            f"the result of ADD names no device {ifname} in {netns_path} (it names: {named})",
            remedy="the first plugin of the list must create the device",
        )


def parse_result(text: str, plugin: str) -> Result:
    """Check the output of a successful ADD. Raises TrialFailed that names the plugin."""
    document = _object(text, plugin, "ADD")
    if "interfaces" not in document and isinstance(document.get("msg"), str):
        problem, _ = error_text(text, "")
        raise _bad(plugin, "ADD", f"its exit code is 0, and it printed an error: {problem}")
    return read_result(document, plugin)


def read_result(document: dict[str, Any], plugin: str) -> Result:
    """Check a result that is JSON already. Raises TrialFailed that names the plugin."""

    def entries(key: str) -> list[dict[str, Any]]:
        value = document.get(key) or []
        good = isinstance(value, list) and all(isinstance(one, dict) for one in value)
        if not good or len(value) > MOST_ENTRIES:
            raise _bad(plugin, "ADD", f"{key} is not a list of at most {MOST_ENTRIES} objects")
        return value

    interfaces = tuple(
        Interface(
            _text(one, "name", plugin), _mac(one, plugin), _text(one, "sandbox", plugin, empty=True)
        )
        for one in entries("interfaces")
    )
    addresses = tuple(_address(one, len(interfaces), plugin) for one in entries("ips"))
    routes = tuple(_text(one, "dst", plugin) for one in entries("routes"))
    return Result(document, interfaces, addresses, routes)


def parse_versions(text: str, plugin: str) -> tuple[str, ...]:
    """Return the versions of the protocol that a plugin supports. Raises TrialFailed."""
    supported = _object(text, plugin, "VERSION").get("supportedVersions")
    if not isinstance(supported, list) or not all(isinstance(one, str) for one in supported):
        raise _bad(plugin, "VERSION", "supportedVersions is not a list of texts")
    return tuple(one for one in supported if len(one) < 32)


def error_text(stdout: str, stderr: str) -> tuple[str, int | None]:
    """Return the message and the code of a plugin that failed. The message is one line; the
    plugin's own words, which may be anything."""
    document: Any = None
    for text in (stdout, stderr):
        try:
            document = json.loads(text, parse_constant=refuse_constant)
        except (ValueError, RecursionError):
            continue
        if isinstance(document, dict) and isinstance(document.get("msg"), str):
            details, code = document.get("details"), document.get("code")
            message = document["msg"] + (f" ({details})" if isinstance(details, str) and details
                                       else "")  # fmt: skip
            is_code = isinstance(code, int) and not isinstance(code, bool)
            return _one_line(message) or "it gave no reason", code if is_code else None
    return _one_line(stderr) or _one_line(stdout) or "it gave no reason", None


def _one_line(text: str) -> str:
    return printable(encodable(" ".join(text.split())))[:_LONGEST_TEXT]


def _object(text: str, plugin: str, command: str) -> dict[str, Any]:
    if not text.strip():
        raise _bad(plugin, command, "its exit code is 0, and it printed nothing")
    try:
        document = json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError):
        raise _bad(plugin, command, "its output is not JSON") from None
    if not isinstance(document, dict):
        raise _bad(plugin, command, "its output is not a JSON object")
    return document


def _text(entry: Mapping[str, Any], key: str, plugin: str, *, empty: bool = False) -> str:
    value = entry.get(key, "" if empty else None)
    if not isinstance(value, str) or (not value and not empty) or len(value) > _LONGEST_TEXT:
        raise _bad(plugin, "ADD", f"{key} is not a short text")
    if printable(encodable(value)) != value:
        raise _bad(plugin, "ADD", f"{key} has control characters")
    return value


def _mac(entry: Mapping[str, Any], plugin: str) -> str:
    mac = _text(entry, "mac", plugin, empty=True)
    if mac and _MAC.fullmatch(mac) is None:
        raise _bad(plugin, "ADD", f"mac {mac} is not a MAC address")
    return mac.lower()


def _address(entry: Mapping[str, Any], interfaces: int, plugin: str) -> Address:
    cidr, gateway = _text(entry, "address", plugin), _text(entry, "gateway", plugin, empty=True)
    try:
        ipaddress.ip_interface(cidr)
        if gateway:
            ipaddress.ip_address(gateway)
    except ValueError as error:
        raise _bad(plugin, "ADD", str(error)) from None
    index = entry.get("interface")
    if index is not None and (
        isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < interfaces
    ):
        raise _bad(plugin, "ADD", "an address names an interface that is not in the result")
    return Address(cidr, gateway, index)


def _bad(plugin: str, command: str, reason: str) -> TrialFailed:
    return TrialFailed(
        f"CNI plugin {plugin}: {command}: {reason}",
        remedy="correct the plugin, or use another one",
    )
