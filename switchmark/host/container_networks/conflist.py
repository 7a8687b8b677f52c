"""Network configuration lists of CNI: reads them, checks them, and has some built in.

A list is a file of the user (`*.conflist`, or a `*.conf` with one plugin) or a built-in list. Each
mistake is an error with its place and the remedy.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from ipaddress import IPv4Network, ip_network
from pathlib import Path
from typing import Any

from switchmark.errors import UsageError
from switchmark.host.process_output import refuse_constant

MOST_BYTES = 1 << 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.\-]*")  # CNI specification, section 1
VERSIONS = ("0.3.0", "0.3.1", "0.4.0", "1.0.0", "1.1.0")
UPLINK = "uplink"  # the device of the private host that stands in for the host's own port
DEVICE = re.compile(r"(?!lo$|\.{1,2}$)[^\s/:%]{0,15}")  # a name of a device, or none
MOST_PLUGINS = 32
SMALLEST_SUBNET = 28  # prefix length that two hosts can share

_IPAM = {
    "type": "host-local",
    "ranges": [[{"subnet": "10.77.0.0/16"}]],
    "routes": [{"dst": "0.0.0.0/0"}],
}
_BRIDGE = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipam": _IPAM}
_BUILT_IN: dict[str, list[dict[str, Any]]] = {
    "bridge": [_BRIDGE],
    "bridge-masq": [{**_BRIDGE, "ipMasq": True, "hairpinMode": True}],
    "ptp": [{"type": "ptp", "ipam": _IPAM}],
    "macvlan": [
        {
            "type": "macvlan",
            "mode": "bridge",
            "master": UPLINK,
            "ipam": {"type": "host-local", "ranges": [[{"subnet": "10.77.0.0/16"}]]},
        }
    ],
}
BUILT_IN = tuple(_BUILT_IN)


@dataclass(frozen=True, slots=True)
class ConfigurationList:
    """A checked configuration list."""

    where: str  # the file or the built-in name, for messages
    name: str
    versions: tuple[str, ...]  # the highest version of the protocol first
    plugins: tuple[Mapping[str, Any], ...]
    disables_check: bool
    text: str

    @property
    def types(self) -> tuple[str, ...]:
        """The plugins of the chain, in the order of ADD."""
        return tuple(str(plugin["type"]) for plugin in self.plugins)

    @property
    def parents(self) -> tuple[str, ...]:
        """The devices of the host on which the plugins create devices."""
        named = (plugin.get("master") for plugin in self.plugins)
        return tuple(dict.fromkeys(name for name in named if isinstance(name, str) and name))

    def ipam_types(self) -> tuple[str, ...]:
        """The address plugins that the plugins of the chain run."""
        parts = (plugin.get("ipam") for plugin in self.plugins)
        types = (part.get("type") for part in parts if isinstance(part, dict))
        return tuple(dict.fromkeys(name for name in types if isinstance(name, str) and name))


def built_in(name: str) -> ConfigurationList:
    """Return a built-in list. Raises UsageError if there is no such list."""
    if name not in _BUILT_IN:
        raise UsageError(
            f"conflist: '{name}' is not a built-in configuration list",
            remedy=f"write {', '.join(BUILT_IN)}, or the path of a file with a / in it",
        )
    document = {"cniVersion": "1.0.0", "name": f"sm-{name}", "plugins": _BUILT_IN[name]}
    return parse(json.dumps(document), f"built-in list {name}")


def load(path: Path) -> ConfigurationList:
    """Read a list from a file. Raises UsageError."""
    try:
        if path.is_fifo():  # a reader of it would wait without end
            raise UsageError(f"conflist {path}: is a named pipe", remedy="name a file")
        with path.open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(
            f"conflist {path}: cannot be read ({error.strerror})", remedy="correct the path"
        ) from None
    if len(raw) > MOST_BYTES:
        raise UsageError(
            f"conflist {path}: larger than {MOST_BYTES >> 20} MiB",
            remedy="name a network configuration list",
        )
    try:
        return parse(raw.decode(), str(path))
    except UnicodeDecodeError:
        raise UsageError(
            f"conflist {path}: its text is not UTF-8", remedy="save the file as UTF-8"
        ) from None


def parse(text: str, where: str) -> ConfigurationList:
    """Check the text of a list. Raises UsageError with the place of the mistake."""
    document = _document(text, where)
    plugins = document.get("plugins", [document])
    name = document.get("name")
    if not isinstance(name, str) or NAME.fullmatch(name) is None:
        raise _wrong(where, "name", name, "use letters, digits and . _ -, beginning with a letter "
                     "or digit")  # fmt: skip
    if not isinstance(plugins, list) or not plugins:
        raise _wrong(where, "plugins", plugins, "write a list of at least one plugin")
    if len(plugins) > MOST_PLUGINS:
        raise UsageError(f"{where}: plugins: {len(plugins)} plugins, at most {MOST_PLUGINS}")
    for number, plugin in enumerate(plugins):
        _check_plugin(plugin, f"{where}: plugins[{number}]")
    return ConfigurationList(
        where=where,
        name=name,
        versions=_versions(document, where),
        plugins=tuple(plugins),
        disables_check=document.get("disableCheck") in (True, "true"),
        text=text,
    )


def of_host(
    network: ConfigurationList, side: int, mtu_bytes: int
) -> tuple[ConfigurationList, IPv4Network]:
    """Return the list for one of two hosts with an overlay between them, and the subnet of that
    host, which is half of the list's. Raises UsageError for a list whose network does not route
    between hosts."""
    where = f"{network.where}: plugins[0]"
    document = json.loads(network.text)
    plugin = document.get("plugins", [document])[0]
    kind = plugin["type"]
    if kind not in ("bridge", "ptp"):
        raise UsageError(
            f"{where}: plugin {kind} does not route, and an overlay between hosts needs routes",
            remedy="use a list that begins with bridge or ptp, or overlay: off",
        )
    if kind == "bridge" and not (plugin.get("isGateway") or plugin.get("isDefaultGateway")):
        raise UsageError(
            f"{where}: isGateway is missing, and an overlay between hosts needs a router on each",
            remedy="write isGateway: true",
        )
    if plugin.get("ipMasq"):
        raise UsageError(
            f"{where}: ipMasq is true: it would translate the addresses of packets into the "
            "overlay, so that the other host could not begin",
            remedy="leave ipMasq out",
        )
    given = plugin.get("mtu") or 0
    if not isinstance(given, int) or given > mtu_bytes:
        raise UsageError(
            f"{where}: mtu is {json.dumps(given)[:20]}, and the overlay carries {mtu_bytes}",
            remedy=f"write at most {mtu_bytes}, or leave mtu out",
        )
    plugin["mtu"] = given or mtu_bytes
    entry = _only_subnet(plugin.get("ipam", {}), where)
    subnet = _half(entry["subnet"], side, where)
    entry["subnet"] = str(subnet)
    return parse(json.dumps(document), network.where), subnet


def _only_subnet(ipam: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Return the object of an address section with its only subnet. Raises UsageError."""
    entries = _entries(ipam)
    keys = set(entries[0]) if len(entries) == 1 and isinstance(entries[0], dict) else set()
    fixed = keys & {"rangeStart", "rangeEnd", "gateway"}
    if ipam.get("type") == "host-local" and "subnet" in keys and not fixed:
        only: dict[str, Any] = entries[0]
        return only
    raise UsageError(
        f"{where}: ipam must be host-local with one subnet, of which each host gets a half",
        remedy="write ipam with type host-local and one IPv4 subnet without rangeStart, rangeEnd "
        "and gateway, or overlay: off",
    )


def _half(text: Any, side: int, where: str) -> IPv4Network:
    """Return the first or the second half of a subnet. Raises UsageError."""
    try:
        subnet = ip_network(str(text), strict=False)
    except ValueError:
        raise _wrong(where, "ipam subnet", text, "write an IPv4 subnet") from None
    if not isinstance(subnet, IPv4Network) or subnet.prefixlen > SMALLEST_SUBNET:
        raise _wrong(where, "ipam subnet", text,
                     f"write an IPv4 subnet of at most /{SMALLEST_SUBNET}")  # fmt: skip
    return list(subnet.subnets())[side]


def _document(text: str, where: str) -> dict[str, Any]:
    try:
        document = json.loads(text, parse_constant=refuse_constant)
    except json.JSONDecodeError as error:
        raise UsageError(
            f"{where}: line {error.lineno}, column {error.colno}: not JSON ({error.msg})",
            remedy="correct the file",
        ) from None
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{where}: not usable JSON ({error})", remedy="correct it") from None
    if not isinstance(document, dict):
        raise UsageError(f"{where}: its JSON is not an object", remedy='write {"cniVersion": ...}')
    return document


def _check_plugin(plugin: Any, place: str) -> None:
    if not isinstance(plugin, dict):
        raise _wrong(place, "", plugin, "write an object with a type")
    kind = plugin.get("type")
    if not isinstance(kind, str) or NAME.fullmatch(kind) is None:
        raise _wrong(place, "type", kind, "write the name of a plugin, without a path")
    for key, required in (("ipam", dict), ("capabilities", dict), ("master", str)):
        if key in plugin and not isinstance(plugin[key], required):
            form = "a text" if required is str else "an object"
            raise _wrong(place, key, plugin[key], f"write {form}")
    if not DEVICE.fullmatch(plugin.get("master", "")):
        raise _wrong(place, "master", plugin["master"],
                     "write the name of a device, of at most 15 characters")  # fmt: skip
    ipam = plugin.get("ipam", {})
    if ipam and (not isinstance(ipam.get("type"), str) or not NAME.fullmatch(ipam["type"])):
        raise _wrong(place, "ipam.type", ipam.get("type"), "write the name of an address plugin")
    for entry in _entries(ipam):
        for key in ("subnet", "address"):
            if isinstance(entry, dict) and ":" in str(entry.get(key)):
                raise _wrong(place, f"ipam {key}", entry[key],
                             "leave it out, because IPv6 is off in the private host")  # fmt: skip


def _entries(ipam: Mapping[str, Any]) -> list[Any]:
    """Return the objects with a subnet or an address in the address section of a plugin."""
    entries: list[Any] = [ipam] if "subnet" in ipam else []
    with suppress(TypeError):
        entries += ipam.get("addresses") or []
    with suppress(TypeError):
        entries += [entry for each in ipam.get("ranges") or [] for entry in each]
    return entries


def _versions(document: Mapping[str, Any], where: str) -> tuple[str, ...]:
    """The versions of the protocol that the list permits and that the bench supports."""
    requested = document.get("cniVersions") or [document.get("cniVersion", "1.0.0")]
    if not isinstance(requested, list) or not all(isinstance(one, str) for one in requested):
        raise _wrong(where, "cniVersions", requested, "write a list of versions")
    usable = [one for one in reversed(VERSIONS) if one in requested]
    if not usable:
        raise _wrong(where, "cniVersion", ", ".join(requested), f"use one of {', '.join(VERSIONS)}")
    return tuple(usable)


def _wrong(where: str, key: str, value: Any, remedy: str) -> UsageError:
    shown = "missing" if value is None else json.dumps(value, default=str)[:80]
    place = f"{where}: {key}" if key else where
    return UsageError(f"{place} is {shown}", remedy=remedy)
