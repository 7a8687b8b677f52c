"""The headers of a flow: Ethernet, VLAN tags, IPv4 or IPv6, UDP, each field by its pattern, the
client's own payload, and the outer headers of VXLAN."""

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

MOST_FLOWS = 1_000_000  # of the engine
ENGINE_BITS = 32  # the lowest bits of an address, in which the engine counts
_ENGINE_FIELDS = ("src-mac", "dst-mac", "src-ip", "dst-ip", "src-port", "dst-port")  # of a cycle
MOST_MODIFIER_CHARACTERS = 100_000  # of all modifiers of a flow, on a command line
# The fields that a router leaves as they are: receivers compare them.
_COMPARED = {"src-ip", "dst-ip", "src-port", "dst-port", "vlan", "service-vlan", "id", "flow-label"}
# Further fields by header: the attribute of the API, and the field of the engine.
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

    name: str  # of the field, in the engine
    text: str
    path: str  # of the field in the configuration

    @property
    def arguments(self) -> tuple[str, str]:
        """The option and its value."""
        return "--modify", f"{self.name}={self.text}"


@dataclass(frozen=True, slots=True)
class OuterHeaders:
    """The outer headers of VXLAN, with all fields that are set."""

    path: str  # of the VXLAN header
    src_mac: str  # of the first frame
    dst_mac: str
    modifiers: tuple[Modifier, ...]


@dataclass(frozen=True, slots=True)
class Headers:
    """The headers of all frames of a flow."""

    cycle: Cycle
    ip_version: int
    counted: tuple[tuple[str, int], ...]  # fields with more than one value that count up by 1
    others: bool  # whether there are fields that do not, or a port 0, which the engine refuses
    several: tuple[Modifier, ...] = ()  # addresses and ports with several values, or 0
    further: tuple[Modifier, ...] = ()  # all other fields that are set
    outer: OuterHeaders | None = None  # of VXLAN; the other fields are those of the inner frame

    @property
    def outer_bytes(self) -> int:
        """The length of the outer headers."""
        return OUTER_BYTES[4] if self.outer is not None else 0

    @property
    def modifiers(self) -> tuple[Modifier, ...]:
        """The fields that the engine modifies. Fields that count up by 1 are its flows, unless
        another field is modified."""
        if self.flows() is not None:
            return self.further
        return (*self.several, *self.further, *(self.outer.modifiers if self.outer else ()))

    @property
    def are_short(self) -> bool:
        """Return True if a command line has room for the modifiers."""
        return sum(len(one.text) for one in self.modifiers) <= MOST_MODIFIER_CHARACTERS

    def flows(self) -> str | None:
        """The engine's `--flows`, empty for one flow; None if it cannot describe them."""
        if self.others or self.outer is not None:
            return None
        if not self.counted:
            return ""
        count = lcm(*(many for _, many in self.counted))
        if count > MOST_FLOWS:
            return None
        return f"{count}:" + "+".join(f"{name}={many}" for name, many in self.counted)

    def sender_arguments(self, *, replays: bool) -> list[str]:
        """The engine's options for the addresses of the first frame and its tags, which frames of a
        file have already."""
        if replays:
            return self._addresses(turned=False)
        modified = [word for one in self.modifiers for word in one.arguments]
        tunnel: list[str] = []
        if self.outer is not None:
            tunnel = ["--encap", "vxlan", "--outer-src-mac", self.outer.src_mac,
                      "--outer-dst-mac", self.outer.dst_mac]  # fmt: skip
        return [*self._addresses(turned=False), *self._vlan(), *tunnel, *modified]

    def receiver_arguments(self, flows: str | None, *, replays: bool) -> list[str]:
        """The receiver's options: the same from the other end. Where frames come from a file, only
        the fields that are the same in all are verified. Modified fields that a router changes are
        not compared."""
        found = [
            *self._addresses(turned=True, constant_only=replays or flows is None),
            *self._vlan(),
            *(["--decap", "vxlan"] if self.outer is not None else []),
        ]
        if not replays:
            compared = [one for one in self.modifiers if one.name in _COMPARED | _OUTER_COMPARED]
            found += [word for one in compared for word in one.arguments]
        if flows and not replays:
            count, _, fields = flows.partition(":")
            turned = "+".join(_MIRRORED[one[:3]] + one[3:] for one in fields.split("+"))
            found += ["--flows", f"{count}:{turned}"]
        return found

    def _addresses(self, *, turned: bool, constant_only: bool = False) -> list[str]:
        cycle = self.cycle
        found: list[str] = []
        for name, values in zip(_ENGINE_FIELDS, cycle.fields, strict=True):
            if (constant_only and len(values) > 1) or values[0] == 0:  # (a port)
                continue
            own = _MIRRORED[name[:3]] + name[3:] if turned else name
            found += [f"--{own}", str(values[0])]
        if constant_only and (len(cycle.src_ip) > 1 or len(cycle.dst_ip) > 1):
            found += ["--ip-version", str(self.ip_version)]
        return found

    def _vlan(self) -> list[str]:
        tags = ".".join(map(str, self.cycle.vlans))
        return ["--vlan", tags] if tags else []


def read_headers(packet: Sequence[types.FlowHeader] | None, path: str) -> Headers:
    """Read the headers of a flow. Raises `Refused` for what is not UDP over IP over Ethernet."""
    parts = [(chosen(one), one, f"{path}[{n}]") for n, one in enumerate(packet or ())]
    outer, parts = _outer_headers(parts, path)
    kinds = [kind for kind, _, _ in parts]
    vlans = kinds.count("vlan")
    wanted = ["ethernet", *["vlan"] * vlans]
    tail = kinds[len(wanted) :]
    if (
        kinds[: len(wanted)] != wanted
        or vlans > 2
        or tail[:2] not in (["ipv4", "udp"], ["ipv6", "udp"])
        or tail[2:] not in ([], ["custom"])
    ):
        told = ", ".join(kinds) or "nothing"
        behind = " behind vxlan" if outer is not None else ""
        raise Refused(f"{path}: supported are {_ORDER}{behind}, in this order; not {told}")
    held = {kind: getattr(one, kind) or _empty(kind) for kind, one, _ in parts if kind != "vlan"}
    at = {kind: f"{where}.{kind}" for kind, _, where in parts}
    network = tail[0]
    address = _address(4 if network == "ipv4" else 6)
    places = (
        ("ethernet", "src", _MAC), ("ethernet", "dst", _MAC),
        (network, "src", address), (network, "dst", address),
        ("udp", "src_port", _PORT), ("udp", "dst_port", _PORT),
    )  # fmt: skip
    fields = {
        own: _field(getattr(held[part], name), f"{at[part]}.{name}", kind)
        for own, (part, name, kind) in zip(_ENGINE_FIELDS, places, strict=True)
    }
    tags = [_vlan_id(one.vlan, where) for kind, one, where in parts if kind == "vlan"]
    further = [
        Modifier(_tag_field("vlan", n, vlans), text, f"{parts[1 + n][2]}.vlan.id")
        for n, (_, text) in enumerate(tags)
        if text
    ]
    for n, (kind, one, where) in enumerate(parts):
        for name, field in _FURTHER.get(kind, ()):
            pattern = _attribute(getattr(one, kind), name)
            if pattern is not None:
                own = _tag_field(field, n - 1, vlans) if kind == "vlan" else field
                spot = f"{where}.{kind}.{name}"
                further.append(Modifier(own, _modifier_text(pattern, spot), spot))
    cycle = Cycle(
        **{name.replace("-", "_"): one.values for name, one in fields.items()},
        vlans=tuple(tag for tag, _ in tags),
        payload=_payload(held["custom"], at["custom"]) if "custom" in held else b"",
    )
    several = {name: one for name, one in fields.items() if len(one.values) > 1}
    return Headers(
        cycle=cycle,
        ip_version=4 if network == "ipv4" else 6,
        counted=tuple((name, len(one.values)) for name, one in several.items() if one.counts_up),
        others=any(not one.counts_up for one in several.values())
        or any(0 in fields[name].values for name in ("src-port", "dst-port")),
        several=tuple(
            Modifier(own, _modifier_text(pattern, spot), spot)
            for own, (part, name, _) in zip(_ENGINE_FIELDS, places, strict=True)
            if (own in several or 0 in fields[own].values)
            for spot in [f"{at[part]}.{name}"]
            for pattern in [getattr(held[part], name)]
        ),
        further=tuple(further),
        outer=outer,
    )


_Part = tuple[str, types.FlowHeader, str]  # kind, header, path


def _outer_headers(parts: list[_Part], path: str) -> tuple[OuterHeaders | None, list[_Part]]:
    """Split off the headers up to that of VXLAN. Raises `Refused` for what the engine cannot
    send."""
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
        [getattr(one, kind) or _empty(kind) for kind, one, _ in parts[:count]],
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
            raise Refused(f"{path}: is missing, which is {default}; VXLAN has {supported}")
    elif chosen(pattern) != "value" or pattern.value != supported:
        raise Refused(f"{path}: the value {supported} is supported alone; use it")


def _attribute(part: Any, name: str) -> Any:
    """Return a part of a part, or None if it, or a part around it, is not given or not meant."""
    for step in name.split("."):
        if part is None or (step in ("raw", "dscp") and chosen(part) != step):
            return None
        part = getattr(part, step)
    return part


def _tag_field(name: str, place: int, vlans: int) -> str:
    """Return the engine's name for a field of a tag."""
    return f"service-{name}" if vlans == 2 and place == 0 else name


def _modifier_text(pattern: Any, path: str, default: str = "0") -> str:
    """Return a pattern as the value of the engine's `--modify`; `default`: of a field of which
    nothing is given."""
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
        raise Refused(f"{path}.{choice}: count {part.count} cannot be; use 1 or more")
    if choice == "random":
        return f"random,{part.min},{part.max},{part.count},{part.seed}"
    return f"{choice},{part.start},{part.step},{part.count}"


def _empty(kind: str) -> Any:
    makes: dict[str, Callable[[], Any]] = {
        "ethernet": types.FlowEthernet, "ipv4": types.FlowIpv4, "ipv6": types.FlowIpv6,
        "udp": types.FlowUdp, "vxlan": types.FlowVxlan,
        "custom": lambda: types.FlowCustom(bytes=""),
    }  # fmt: skip
    return makes[kind]()


def _payload(custom: types.FlowCustom, path: str) -> bytes:
    digits = custom.bytes.replace(" ", "").replace(":", "").lower().removeprefix("0x")
    try:
        found = bytes.fromhex(digits)
    except ValueError:
        found = b""
    if not found:
        raise Refused(f"{path}.bytes: holds no hexadecimal bytes, such as 0a0b; {custom.bytes!r}")
    return found


def _vlan_id(vlan: types.FlowVlan | None, path: str) -> tuple[int, str]:
    """Return the VLAN ID, and the text of a modifier if it has a pattern of several values."""
    pattern = vlan.id if vlan is not None else None
    if pattern is not None and chosen(pattern) != "value":
        return 1, _modifier_text(pattern, f"{path}.vlan.id")
    tag = pattern.value if pattern is not None else 0
    if not 1 <= tag <= 4094:
        raise Refused(f"{path}.vlan.id.value: {tag} is no VLAN ID; use 1 to 4094")
    return tag, ""


@dataclass(frozen=True, slots=True)
class _FieldType:
    """How the values of a field are read, counted and written."""

    default: Any
    number: Callable[[Any], int]
    text: Callable[[int], Any]
    bits: int


def _mac_number(value: str) -> int:
    parts = value.split(":")
    if len(parts) != 6 or any(len(part) != 2 for part in parts):
        raise ValueError("is no MAC address; write 00:11:22:33:44:55")
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
                values = tuple(kind.text(kind.number(one)) for one in pattern.values)
                return _Field(values, counts_up=False)
            case "random":
                return _drawn(pattern.random, kind)
            case _:
                return _counted(getattr(pattern, choice), kind, down=choice == "decrement")
    except ValueError as error:
        raise Refused(f"{path}.{choice}: {error}") from None


def _drawn(draw: Any, kind: _FieldType) -> _Field:
    """Return random values for a file; the engine draws its values itself."""
    if draw is None:
        return _Field((kind.default,), counts_up=True)
    lowest, highest = kind.number(draw.min), kind.number(draw.max)
    if highest < lowest:
        raise ValueError(f"max {draw.max} is below min {draw.min}")
    if not 1 <= draw.count <= MOST_FLOWS:
        raise ValueError(f"count {draw.count} cannot be; use 1 to {MOST_FLOWS}")
    source = random.Random(draw.seed)
    values = tuple(kind.text(source.randint(lowest, highest)) for _ in range(draw.count))
    return _Field(values, counts_up=False)


def _counted(counter: Any, kind: _FieldType, *, down: bool) -> _Field:
    if counter is None:
        return _Field((kind.default,), counts_up=True)
    start, step = kind.number(counter.start), kind.number(counter.step)
    if not 1 <= counter.count <= MOST_FLOWS:
        raise ValueError(f"count {counter.count} cannot be; use 1 to {MOST_FLOWS}")
    by = -step if down else step
    whole = 1 << kind.bits
    values = tuple(kind.text((start + by * n) % whole) for n in range(counter.count))
    span = 1 << min(kind.bits, ENGINE_BITS)
    wraps = start % span + counter.count > span
    return _Field(values, counts_up=by == 1 and not wraps)
