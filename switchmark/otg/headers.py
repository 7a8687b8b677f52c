"""The headers of a flow, each field by its pattern: Ethernet, VLAN tags, IPv4 or IPv6, UDP, the
client's payload, and the outer headers of VXLAN."""

from __future__ import annotations

import ipaddress
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import lcm
from typing import Any

from switchmark.function.support.wire import VNI_IS_VALID, VXLAN_PORT
from switchmark.model.functions import OUTER_BYTES
from switchmark.otg import types
from switchmark.otg.frames import Cycle
from switchmark.otg.refusal import Refused, chosen

MOST_FLOWS = 1_000_000  # the engine supports no more
ENGINE_BITS = 32  # the engine counts in the lowest bits of an address
# The engine's names for the fields of a cycle.
_ENGINE_FIELDS = ("src-mac", "dst-mac", "src-ip", "dst-ip", "src-port", "dst-port")
MOST_MODIFIER_CHARACTERS = 100_000  # a command line has room for these modifiers of a flow
# Receivers compare the fields that a router does not change.
_COMPARED = {"src-ip", "dst-ip", "src-port", "dst-port", "vlan", "service-vlan", "id", "flow-label"}
# Further fields by header, each as the attribute of the API and the field of the engine.
_FURTHER = {
    "vlan": (("priority", "pcp"), ("cfi", "dei")),
    "ipv4": (
        ("priority.raw", "traffic-class"), ("priority.dscp.phb", "dscp"),
        ("priority.dscp.ecn", "ecn"), ("identification", "id"), ("dont_fragment", "df"),
        ("time_to_live", "ttl"),
    ),
    "ipv6": (
        ("traffic_class", "traffic-class"), ("flow_label", "flow-label"), ("hop_limit", "ttl"),
    ),
}  # fmt: skip
# Fields of the outer headers of VXLAN. They are the same at both ends of a flow.
_OUTER_COMPARED = {"outer-src-ip", "outer-dst-ip", "outer-src-port", "vni"}
_MIRRORED = {"src": "dst", "dst": "src"}
_ORDER = "ethernet, up to two vlan, ipv4 or ipv6, udp, custom"
_OUTER_KINDS = ["ethernet", "ipv4", "udp", "vxlan"]


@dataclass(frozen=True, slots=True)
class _Field:
    """The values of one field in turn."""

    values: tuple[Any, ...]
    counts_up: bool  # by 1, as the engine does


@dataclass(frozen=True, slots=True)
class Modifier:
    """A field that the engine's `--modify` sets."""

    name: str  # the engine's name for the field
    text: str
    path: str  # the field in the configuration

    @property
    def arguments(self) -> tuple[str, str]:
        """The option and its value."""
        return "--modify", f"{self.name}={self.text}"


@dataclass(frozen=True, slots=True)
class OuterHeaders:
    """The outer headers of VXLAN, with all fields that are set."""

    path: str  # the VXLAN header in the configuration
    src_mac: str  # the addresses of the first frame
    dst_mac: str
    modifiers: tuple[Modifier, ...]


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of all frames of a flow."""

    cycle: Cycle
    ip_version: int
    counted: tuple[tuple[str, int], ...]  # fields that count up by 1, and how many values they have
    has_uncounted: bool  # a field has several values that do not count up, or a port is 0
    several: tuple[Modifier, ...] = ()  # addresses and ports that have several values, or are 0
    further: tuple[Modifier, ...] = ()  # all other fields that are set
    outer: OuterHeaders | None = None  # if set, the other attributes describe the inner frame

    @property
    def outer_bytes(self) -> int:
        """The length of the outer headers."""
        return OUTER_BYTES[4] if self.outer is not None else 0

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """The fields that the engine modifies. If all fields with several values count up by 1, the
        engine makes them as flows instead."""
        if self.flows() is not None:
            return self.further
        return (*self.several, *self.further, *(self.outer.modifiers if self.outer else ()))

    @property
    def are_short(self) -> bool:
        """Return True if a command line has room for the modifiers."""
        return sum(len(modifier.text) for modifier in self.modifiers) <= MOST_MODIFIER_CHARACTERS

    def flows(self) -> str | None:
        """Return the engine's `--flows`, empty for one flow; None if it cannot describe them."""
        if self.has_uncounted or self.outer is not None:
            return None
        if not self.counted:
            return ""
        flow_count = lcm(*(count for _, count in self.counted))
        if flow_count > MOST_FLOWS:
            return None
        return f"{flow_count}:" + "+".join(f"{name}={count}" for name, count in self.counted)

    def sender_arguments(self, *, replays: bool) -> list[str]:
        """Return the sender's options for the headers. Frames from a file have tags and modified
        fields already."""
        if replays:
            return self._addresses(mirrored=False)
        modified = [text for modifier in self.modifiers for text in modifier.arguments]
        tunnel: list[str] = []
        if self.outer is not None:
            tunnel = ["--encap", "vxlan", "--outer-src-mac", self.outer.src_mac,
                      "--outer-dst-mac", self.outer.dst_mac]  # fmt: skip
        return [*self._addresses(mirrored=False), *self._vlan(), *tunnel, *modified]

    def receiver_arguments(self, flows: str | None, *, replays: bool) -> list[str]:
        """Return the receiver's options, in which source and destination are exchanged. Of frames
        from a file, the engine verifies only the fields that are the same in all. It does not
        compare modified fields that a router changes."""
        arguments = [
            *self._addresses(mirrored=True, constant_only=replays or flows is None),
            *self._vlan(),
            *(["--decap", "vxlan"] if self.outer is not None else []),
        ]
        if not replays:
            for modifier in self.modifiers:
                if modifier.name in _COMPARED | _OUTER_COMPARED:
                    arguments += modifier.arguments
        if flows and not replays:
            count, _, fields = flows.partition(":")
            arguments += ["--flows", f"{count}:" + "+".join(map(_mirrored, fields.split("+")))]
        return arguments

    def _addresses(self, *, mirrored: bool, constant_only: bool = False) -> list[str]:
        cycle = self.cycle
        arguments: list[str] = []
        for name, values in zip(_ENGINE_FIELDS, cycle.fields, strict=True):
            if (constant_only and len(values) > 1) or values[0] == 0:  # the engine refuses port 0
                continue
            arguments += [f"--{_mirrored(name) if mirrored else name}", str(values[0])]
        if constant_only and (len(cycle.src_ip) > 1 or len(cycle.dst_ip) > 1):
            arguments += ["--ip-version", str(self.ip_version)]
        return arguments

    def _vlan(self) -> list[str]:
        tags = ".".join(map(str, self.cycle.vlans))
        return ["--vlan", tags] if tags else []


def _mirrored(field: str) -> str:
    """Return a field of the engine with source and destination exchanged."""
    return _MIRRORED[field[:3]] + field[3:]


def read_headers(packet: Sequence[types.FlowHeader] | None, path: str) -> Headers:
    """Read the headers of a flow. Raises `Refused` unless they are UDP over IP over Ethernet."""
    parts = [(chosen(header), header, f"{path}[{n}]") for n, header in enumerate(packet or ())]
    outer, parts = _outer_headers(parts, path)
    kinds = [kind for kind, _, _ in parts]
    vlans = kinds.count("vlan")
    link = ["ethernet", *["vlan"] * vlans]
    tail = kinds[len(link) :]
    if (
        kinds[: len(link)] != link
        or vlans > 2
        or tail[:2] not in (["ipv4", "udp"], ["ipv6", "udp"])
        or tail[2:] not in ([], ["custom"])
    ):
        given = ", ".join(kinds) or "nothing"
        behind = " behind vxlan" if outer is not None else ""
        raise Refused(f"{path}: supported are {_ORDER}{behind}, in this order; not {given}")
    headers = {
        kind: getattr(header, kind) or _empty(kind) for kind, header, _ in parts if kind != "vlan"
    }
    at = {kind: f"{where}.{kind}" for kind, _, where in parts}
    network = tail[0]
    address = _address(4 if network == "ipv4" else 6)
    places = (
        ("ethernet", "src", _MAC), ("ethernet", "dst", _MAC),
        (network, "src", address), (network, "dst", address),
        ("udp", "src_port", _PORT), ("udp", "dst_port", _PORT),
    )  # fmt: skip
    fields = {
        field: _field(getattr(headers[part], name), f"{at[part]}.{name}", kind)
        for field, (part, name, kind) in zip(_ENGINE_FIELDS, places, strict=True)
    }
    tags = [_vlan_id(header.vlan, where) for kind, header, where in parts if kind == "vlan"]
    further = [
        Modifier(_tag_field("vlan", n, vlans), text, f"{parts[1 + n][2]}.vlan.id")
        for n, (_, text) in enumerate(tags)
        if text
    ]
    for n, (kind, header, where) in enumerate(parts):
        for name, engine_name in _FURTHER.get(kind, ()):
            pattern = _attribute(getattr(header, kind), name)
            if pattern is not None:
                modified = _tag_field(engine_name, n - 1, vlans) if kind == "vlan" else engine_name
                spot = f"{where}.{kind}.{name}"
                further.append(Modifier(modified, _modifier_text(pattern, spot), spot))
    cycle = Cycle(
        **{name.replace("-", "_"): field.values for name, field in fields.items()},
        vlans=tuple(tag for tag, _ in tags),
        payload=_payload(headers["custom"], at["custom"]) if "custom" in headers else b"",
    )
    several = {name: field for name, field in fields.items() if len(field.values) > 1}
    return Headers(
        cycle=cycle,
        ip_version=4 if network == "ipv4" else 6,
        counted=tuple(
            (name, len(field.values)) for name, field in several.items() if field.counts_up
        ),
        has_uncounted=any(not field.counts_up for field in several.values())
        or any(0 in fields[name].values for name in ("src-port", "dst-port")),
        several=tuple(
            Modifier(field, _modifier_text(pattern, spot), spot)
            for field, (part, name, _) in zip(_ENGINE_FIELDS, places, strict=True)
            if (field in several or 0 in fields[field].values)
            for spot in [f"{at[part]}.{name}"]
            for pattern in [getattr(headers[part], name)]
        ),
        further=tuple(further),
        outer=outer,
    )


_Part = tuple[str, types.FlowHeader, str]  # kind, header, path


def _outer_headers(parts: list[_Part], path: str) -> tuple[OuterHeaders | None, list[_Part]]:
    """Split the headers behind that of VXLAN. Raises `Refused` for outer headers that the engine
    cannot send."""
    kinds = [kind for kind, _, _ in parts]
    if "vxlan" not in kinds:
        return None, parts
    count = kinds.index("vxlan") + 1
    if kinds[:count] != _OUTER_KINDS:
        raise Refused(
            f"{path}: supported in front of vxlan are ethernet, ipv4 and udp, in this order; not "
            + ", ".join(kinds[: count - 1])
        )
    (ethernet, ipv4, udp, vxlan), at = (
        [getattr(header, kind) or _empty(kind) for kind, header, _ in parts[:count]],
        [f"{where}.{kind}" for kind, _, where in parts[:count]],
    )
    _check_constant(udp.dst_port, f"{at[2]}.dst_port", 0, VXLAN_PORT)
    _check_constant(vxlan.flags, f"{at[3]}.flags", VNI_IS_VALID, VNI_IS_VALID)
    for name in ("reserved0", "reserved1"):
        _check_constant(getattr(vxlan, name), f"{at[3]}.{name}", 0, 0)
    macs = [
        _field(getattr(ethernet, name), f"{at[0]}.{name}", _MAC).values for name in ("src", "dst")
    ]
    fields = [
        *((ethernet, at[0], name, f"{name}-mac")
          for name, values in zip(("src", "dst"), macs, strict=True) if len(values) > 1),
        (ipv4, at[1], "src", "src-ip"), (ipv4, at[1], "dst", "dst-ip"),
        (udp, at[2], "src_port", "src-port"),
        *((ipv4, at[1], name, field) for name, field in _FURTHER["ipv4"]
          if _attribute(ipv4, name) is not None),
    ]  # fmt: skip
    modifiers = [
        Modifier(f"outer-{field}", _modifier_text(_attribute(part, name), spot, default), spot)
        for part, where, name, field in fields
        for spot, default in [(f"{where}.{name}", "0.0.0.0" if field.endswith("-ip") else "0")]
    ]
    vni = f"{at[3]}.vni"
    modifiers.append(Modifier("vni", _modifier_text(vxlan.vni, vni), vni))
    outer = OuterHeaders(at[3], macs[0][0], macs[1][0], tuple(modifiers))
    return outer, parts[count:]


def _check_constant(pattern: Any, path: str, default: int, supported: int) -> None:
    """Refuse a field of VXLAN that has another value than the engine writes."""
    if pattern is None:
        if default != supported:
            raise Refused(f"{path}: is missing, so its value is {default}; set it to {supported}")
    elif chosen(pattern) != "value" or pattern.value != supported:
        raise Refused(f"{path}: only the value {supported} is supported; use it")


def _attribute(part: Any, name: str) -> Any:
    """Return an attribute by its dotted name; None if a step of the name is missing, or if another
    alternative is chosen."""
    for step in name.split("."):
        if part is None or (step in ("raw", "dscp") and chosen(part) != step):
            return None
        part = getattr(part, step)
    return part


def _tag_field(name: str, place: int, vlans: int) -> str:
    """Return the engine's name for a field of a tag."""
    return f"service-{name}" if vlans == 2 and place == 0 else name


def _modifier_text(pattern: Any, path: str, default: str = "0") -> str:
    """Return a pattern as the value of the engine's `--modify`; `default` if there is no
    pattern."""
    if pattern is None:
        return default
    choice = chosen(pattern)
    match choice:
        case "value":
            return str(pattern.value)
        case "values":
            if not pattern.values:
                raise Refused(f"{path}.values: holds no values")
            return "values," + ",".join(map(str, pattern.values))
    part = getattr(pattern, choice) or type(pattern).model_fields[choice].annotation.__args__[0]()
    if part.count < 1:
        raise Refused(f"{path}.{choice}: count is {part.count}; use 1 or more")
    if choice == "random":
        return f"random,{part.min},{part.max},{part.count},{part.seed}"
    return f"{choice},{part.start},{part.step},{part.count}"


def _empty(kind: str) -> Any:
    makers: dict[str, Callable[[], Any]] = {
        "ethernet": types.FlowEthernet, "ipv4": types.FlowIpv4, "ipv6": types.FlowIpv6,
        "udp": types.FlowUdp, "vxlan": types.FlowVxlan,
        "custom": lambda: types.FlowCustom(bytes=""),
    }  # fmt: skip
    return makers[kind]()


def _payload(custom: types.FlowCustom, path: str) -> bytes:
    digits = custom.bytes.replace(" ", "").replace(":", "").lower().removeprefix("0x")
    try:
        payload = bytes.fromhex(digits)
    except ValueError:
        payload = b""
    if not payload:
        raise Refused(f"{path}.bytes: {custom.bytes!r} is not hexadecimal; write bytes as 0a0b")
    return payload


def _vlan_id(vlan: types.FlowVlan | None, path: str) -> tuple[int, str]:
    """Return the VLAN ID, and the text of a modifier if the pattern has several values."""
    pattern = vlan.id if vlan is not None else None
    if pattern is not None and chosen(pattern) != "value":
        return 1, _modifier_text(pattern, f"{path}.vlan.id")
    tag = pattern.value if pattern is not None else 0
    if not 1 <= tag <= 4094:
        raise Refused(f"{path}.vlan.id.value: {tag} is not a VLAN ID; use 1 to 4094")
    return tag, ""


@dataclass(frozen=True, slots=True)
class _FieldType:
    """The functions that read and write the values of a field, and its length."""

    default: Any
    number: Callable[[Any], int]
    text: Callable[[int], Any]
    bits: int


def _mac_number(value: str) -> int:
    parts = value.split(":")
    if len(parts) != 6 or any(len(part) != 2 for part in parts):
        raise ValueError(f"{value} is not a MAC address; write it as 00:11:22:33:44:55")
    return int("".join(parts), 16)


def _mac_text(number: int) -> str:
    return ":".join(f"{number:012x}"[place : place + 2] for place in range(0, 12, 2))


def _address(version: int) -> _FieldType:
    family = ipaddress.IPv4Address if version == 4 else ipaddress.IPv6Address

    def number(value: str) -> int:
        if "%" in value:
            raise ValueError(f"{value} names a zone, which no frame carries; leave it out")
        return int(family(value))

    default, bits = ("0.0.0.0", 32) if version == 4 else ("::0", 128)
    return _FieldType(default, number, lambda n: str(family(n)), bits)


_MAC = _FieldType("00:00:00:00:00:00", _mac_number, _mac_text, 48)
_PORT = _FieldType(0, int, int, 16)


def _field(pattern: Any, path: str, kind: _FieldType) -> _Field:
    if pattern is None:
        return _Field((kind.default,), counts_up=True)
    choice = chosen(pattern)
    try:
        match choice:
            case "value":
                return _Field((kind.text(kind.number(pattern.value)),), counts_up=True)
            case "values":
                if not pattern.values:
                    raise ValueError("holds no values")
                values = tuple(kind.text(kind.number(value)) for value in pattern.values)
                return _Field(values, counts_up=False)
            case "random":
                return _drawn(pattern.random, kind)
            case _:
                return _counted(getattr(pattern, choice), kind, down=choice == "decrement")
    except ValueError as error:
        raise Refused(f"{path}.{choice}: {error}") from None


def _drawn(draw: Any, kind: _FieldType) -> _Field:
    """Return the random values for frames in a file; frames of the engine have its own."""
    if draw is None:
        return _Field((kind.default,), counts_up=True)
    lowest, highest = kind.number(draw.min), kind.number(draw.max)
    if highest < lowest:
        raise ValueError(f"max {draw.max} is below min {draw.min}")
    if not 1 <= draw.count <= MOST_FLOWS:
        raise ValueError(f"count is {draw.count}; use 1 to {MOST_FLOWS}")
    source = random.Random(draw.seed)
    values = tuple(kind.text(source.randint(lowest, highest)) for _ in range(draw.count))
    return _Field(values, counts_up=False)


def _counted(counter: Any, kind: _FieldType, *, down: bool) -> _Field:
    if counter is None:
        return _Field((kind.default,), counts_up=True)
    start, step = kind.number(counter.start), kind.number(counter.step)
    if not 1 <= counter.count <= MOST_FLOWS:
        raise ValueError(f"count is {counter.count}; use 1 to {MOST_FLOWS}")
    increment = -step if down else step
    modulus = 1 << kind.bits
    values = tuple(kind.text((start + increment * n) % modulus) for n in range(counter.count))
    span = 1 << min(kind.bits, ENGINE_BITS)
    wraps = start % span + counter.count > span
    return _Field(values, counts_up=increment == 1 and not wraps)
