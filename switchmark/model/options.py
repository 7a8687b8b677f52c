"""Options of one switch that a campaign may choose: `switch_options: {emc: off}`.

A switch names its options in its `Capabilities`; other options are refused when the
campaign is read. As text, in notations and records, a choice is `emc:off+pmd_maxsleep_us:50`,
sorted by name; no choice is `none`, and leaves every option at its default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property

from switchmark.errors import Refusal
from switchmark.model.capabilities import Capabilities, SwitchOption
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode
from switchmark.model.written import WrittenValue

NONE = "none"


_OPTION = re.compile(r"([a-z][a-z0-9_]*)\s*:\s*([A-Za-z0-9._/:-]+)")


class SwitchOptions(WrittenValue):
    """The options that a campaign chooses for a switch."""

    @cached_property
    def chosen(self) -> Mapping[str, str]:
        """The value of each chosen option. Raises ValueError that names the bad part."""
        return parse(self)


def parse(text: str) -> dict[str, str]:
    """Read `emc:off+pmd_maxsleep_us:50` as a mapping. Raises ValueError that names the bad part."""
    if text in ("", NONE):
        return {}
    options: dict[str, str] = {}
    for part in text.split("+"):
        match = _OPTION.fullmatch(part.strip())
        if match is None:
            raise ValueError(f"'{part.strip()}' is not NAME:VALUE; write e.g. emc:off+n:1, or none")
        if match[1] in options:
            raise ValueError(f"'{match[1]}' is given twice; keep one")
        options[match[1]] = match[2]
    return options


def read_options(text: str) -> SwitchOptions:
    """Read options of a campaign; they are sorted by name. Raises ValueError."""
    return SwitchOptions.of(join(parse(text)))


def join(options: Mapping[str, str]) -> str:
    """Write the mapping as text that `parse` reads; empty for no options."""
    return "+".join(f"{name}:{value}" for name, value in sorted(options.items()))


def refusal(name: str, capabilities: Capabilities, options: Mapping[str, str]) -> Refusal | None:
    """Return why the switch cannot take these options, in one line; None if it can."""
    known = {option.name: option for option in capabilities.options}
    for option, value in options.items():
        if option not in known:
            has = ", ".join(known) or "none"
            return Refusal(f"{name} has no switch option '{option}' (it has: {has})")
        if not known[option].takes(value):
            takes = known[option].allowed
            return Refusal(f"{name}: switch option {option} is '{value}'; it takes {takes}")
    return None


def mode_refusal(
    name: str, capabilities: Capabilities, options: Mapping[str, str], mode: ConnectMode
) -> Refusal | None:
    """Return why the switch cannot take these options in this connect mode; None if it can."""
    for option in capabilities.options:
        value = options.get(option.name, option.default)
        if value != option.default and option.modes and mode not in option.modes:
            return Refusal(
                f"{name}: switch option {option.name} is {value}, which connect_mode {mode} cannot "
                f"have",
                f"use {', '.join(option.modes)}, or {option.name}: {option.default}",
            )
    return None


def between_refusal(
    name: str, capabilities: Capabilities, options: Mapping[str, str]
) -> Refusal | None:
    """Return why the switch cannot take these options between two hosts; None if it can."""
    values = in_force(capabilities, options)
    for option in capabilities.options:
        value = values[option.name]
        if value in option.one_host:
            return Refusal(
                f"{name}: switch option {option.name} is {value}, which works on one host only: "
                f"{option.one_host[value]}",
                f"use {option.name}: {option.default}",
            )
    return None


def longest_frame(
    name: str, capabilities: Capabilities, options: Mapping[str, str]
) -> tuple[int | None, str]:
    """Return the longest frame with FCS that the switch takes with these options (None: it limits
    none), and a clause for messages that names the switch or its option."""
    longest, takes = capabilities.longest_frame_bytes, f"{name} takes"
    values = in_force(capabilities, options)
    for option in capabilities.options:
        value = values[option.name]
        limit = option.longest_frame.get(value)
        if limit is not None and (longest is None or limit < longest):
            longest, takes = limit, f"{name} takes with {option.name}: {value}"
    return longest, takes


def io_required(
    capabilities: Capabilities, options: Mapping[str, str]
) -> Iterator[tuple[SwitchOption, str, Io]]:
    """Yield the options in force whose values permit only one I/O of the applications, with the
    value and the I/O."""
    values = in_force(capabilities, options)
    for option in capabilities.options:
        value = values[option.name]
        if value in option.only_io:
            yield option, value, option.only_io[value]


def in_force(capabilities: Capabilities, options: Mapping[str, str]) -> dict[str, str]:
    """Return the value of every option: the chosen value, otherwise the value that a chosen option
    implies, otherwise the default."""
    values = {option.name: option.default for option in capabilities.options}
    for option in capabilities.options:
        values.update(option.sets.get(options.get(option.name, option.default), {}))
    return values | dict(options)


def cores_refusal(
    name: str, capabilities: Capabilities, options: Mapping[str, str], cores: int
) -> Refusal | None:
    """Return why the switch cannot take these options on so many cores; None if it can."""
    values = in_force(capabilities, options)
    for option in capabilities.options:
        value = values[option.name]
        least = option.least_cores.get(value, 1)
        if cores < least:
            chosen = "" if option.name in options else f" ({join(options)})"
            return Refusal(
                f"{name}: switch option {option.name} is {value}{chosen}, which takes {least} "
                f"cores or more, not switch_cores: {cores}",
                f"use {least}, or another value",
            )
    return None
