"""Network functions as plain values: the list of a trial, and the support that a switch declares.

A function is the work that a switch does on frames: it forwards, routes, filters, encapsulates,
tags, polices or mirrors them. The first entry of a list is its base, `forward` or `route`. Lists
are compared only if their base is the same (docs/functions.md).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from switchmark.errors import Refusal
from switchmark.model.written import WrittenValue
from switchmark.plugins import PluginRegistry

FORWARD, ROUTE = "forward", "route"
BASES = (FORWARD, ROUTE)
_FILES: PluginRegistry[None] = PluginRegistry("switchmark.function", lambda _module, _name: None)
OUTER_BYTES = {4: 50, 6: 70}  # length of outer VXLAN headers, by IP version
MIXED = "mix"  # prefix lengths as in a full routing table of the Internet


class FunctionList(WrittenValue):
    """The functions of a trial, joined by `+`; the first one is the base."""

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The functions, in the order of the text."""
        return tuple(self.split("+"))

    @property
    def base(self) -> str:
        """The base, `forward` or `route`."""
        return self.names[0]

    @property
    def added(self) -> tuple[str, ...]:
        """The functions beyond the base."""
        return self.names[1:]

    @property
    def is_plain(self) -> bool:
        """Return True if frames are forwarded unchanged, and nothing else."""
        return self == FORWARD


PLAIN_FORWARDING = FunctionList(FORWARD)


def function_names() -> tuple[str, ...]:
    """Return the names of all functions, the bases first. Each is a file of the package
    `function`."""
    return (*BASES, *(name for name in _FILES if name not in BASES))


def read_functions(text: str) -> FunctionList:
    """Read the functions of a campaign, such as `route+acl`. Raises ValueError."""
    names = [part.strip() for part in text.split("+")]
    known = function_names()
    for name in names:
        if name not in known:
            raise ValueError(
                f"'{name}' is not a function; use {', '.join(known)}, joined by + such as route+acl"
            )
        if names.count(name) > 1:
            raise ValueError(f"'{name}' is given twice in '{text}'; keep one")
    if any(name in BASES for name in names[1:]):
        raise ValueError(f"'{text}' has a base behind the first place; write one base, first")
    if names[0] not in BASES:
        raise ValueError(f"'{text}' has no base; write forward+{text} or route+{text}")
    return FunctionList.of("+".join([names[0], *sorted(names[1:])]))


class PrefixLength(WrittenValue):
    """The length of all prefixes of a routing table, or `mix`."""

    @cached_property
    def bits(self) -> int | None:
        """The length in bits; None: mixed lengths."""
        return None if self == MIXED else int(self)


def read_prefix_length(text: str) -> PrefixLength:
    """Read a prefix length of a campaign. Raises ValueError."""
    if text == MIXED or (re.fullmatch(r"[1-9]\d{0,2}", text, re.ASCII) and 8 <= int(text) <= 128):
        return PrefixLength.of(text)
    raise ValueError(f"'{text}' is not a prefix length; write 8 to 32 (IPv6: 16 to 128), or mix")


@dataclass(frozen=True, slots=True)
class FunctionSupport:
    """The support of one function by a switch: its largest scale, and the reason for the limit.

    `scale` counts the unit of the function: routes, rules, tunnels; None: the function has no
    scale, or no limit is known. `ip_versions`: the versions of the frames that it works on.
    `bases`: the bases to which it can be added (for a base: itself)."""

    scale: int | None = None
    limit: str = ""  # the reason for `scale`, as a clause
    ip_versions: tuple[int, ...] = (4, 6)
    bases: tuple[str, ...] = BASES
    version: str = ""  # version of the switch for which this was tried
    directions: tuple[str, ...] = ()  # which vxlan or vlan can have; empty: all
    # Limits of single options, or of an IP version: `option:value` -> (scale, reason).
    scale_by_option: Mapping[str, tuple[int, str]] = field(default_factory=dict, hash=False)
    # Campaign key -> the number of which its value must be a multiple.
    units: Mapping[str, int] = field(default_factory=dict, hash=False)


def support_refusal(
    switch: str,
    supported: Mapping[str, FunctionSupport],
    not_built: Mapping[str, str],
    functions: FunctionList,
    ip_version: int,
) -> Refusal | None:
    """Return why a switch cannot perform these functions; None if it can."""
    if functions.is_plain:
        return None
    for name in functions.names:
        if name == FORWARD:
            continue
        if name not in supported:
            reason = not_built.get(name, "")
            offers = ", ".join(supported) or "forward only"
            return Refusal(
                f"{switch} has no function {name} here"
                + (f": {reason}" if reason else f" (it has: {offers})"),
                f"leave {switch} out",
            )
        support = supported[name]
        if name not in BASES and functions.base not in support.bases:
            return Refusal(
                f"{switch} has {name} on base {' or '.join(support.bases)} only, not on "
                f"{functions.base}",
                f"use {support.bases[0]}+{name}",
            )
        if ip_version not in support.ip_versions:
            return Refusal(
                f"{switch} has {name} for IPv{support.ip_versions[0]} only",
                f"use ip_version: {support.ip_versions[0]}",
            )
    return None


def scale_refusal(
    switch: str, name: str, support: FunctionSupport, scale: int, unit: str
) -> Refusal | None:
    """Return why a switch cannot perform a function at this scale; None if it can."""
    if support.scale is None or scale <= support.scale:
        return None
    return Refusal(
        f"{switch} supports at most {support.scale} {unit} for {name}, not {scale}: "
        f"{support.limit}",
        f"use {support.scale} or less",
    )


def unit_refusal(
    switch: str, name: str, support: FunctionSupport, key: str, value: int
) -> Refusal | None:
    """Return why a switch cannot have this value of a key of a function; None if it can."""
    unit = support.units.get(key, 1)
    if value % unit == 0:
        return None
    nearest = [near for near in (value // unit * unit, (value // unit + 1) * unit) if near]
    return Refusal(
        f"{switch} has {key} of {name} in units of {unit}, not {value}",
        f"use {' or '.join(map(str, nearest))}",
    )


@dataclass(frozen=True, slots=True)
class TableMemory:
    """Memory before and after the load of the tables, in KiB. Of a program it is the resident
    memory of its processes without hugepages; of a BPF map, what the kernel charges for it; of the
    kernel, what the whole machine has allocated
    in kernel slabs and by vmalloc, so that other programs can also change it."""

    before_kib: int
    after_kib: int
    is_kernel: bool


@dataclass(frozen=True, slots=True)
class FunctionEntries:
    """The entries of a switch's own tables that a translation made, by table: their number as the
    translation announced it, and as it was read back; and the time to load them, in seconds."""

    announced: Mapping[str, int]
    read_back: Mapping[str, int]
    load_time_s: float = 0.0
    memory: TableMemory | None = None  # None: unknown
    loads_at_start: bool = False  # the load time is that of reading and compiling at the start

    @property
    def disagreement(self) -> str | None:
        """The first difference between both, in words; None if they agree."""
        for table in sorted(self.announced.keys() | self.read_back.keys()):
            required, reported = self.announced.get(table, 0), self.read_back.get(table)
            if reported is None:
                return f"{table}: {required} entries were written, and none can be read back"
            if required != reported:
                return f"{table}: {required} entries were written, {reported} were read back"
        return None
