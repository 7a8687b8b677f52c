"""A machine that a campaign is planned for, described in a file: `plan --target lab.yaml`.

    description: the rack's third server
    sockets: 2            # each a NUMA node
    cores: 12             # of each socket
    threads: 2            # of each core
    isolated: 2-11        # cores that the scheduler leaves alone
    switches: [ovs-dpdk, vpp]
    environments: [netns, lxc]
    nics: [eth2, "0000:03:00.0"]
    hosts: 2              # such machines, joined by a cable

A missing key permits everything: without `switches`, the machine has all switches. The machines of
the papers come with switchmark, under the papers' names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from switchmark.errors import UsageError
from switchmark.host.facts import Cpu
from switchmark.language import source, values
from switchmark.language.source import CampaignError, Items, Node, Problem, Text, YamlMapping
from switchmark.language.values import BadValueError, Limits
from switchmark.plugins import yaml_names

_FOLDER = resources.files("switchmark.testbed") / "targets"
_COUNT = Limits(1, 1024, "not a number of them", "more than any machine has")


@dataclass(frozen=True, slots=True)
class Target:
    """A described machine. None: whatever is requests for is there."""

    name: str
    description: str
    cpus: tuple[Cpu, ...]
    switches: tuple[str, ...] | None
    environments: tuple[str, ...] | None
    nics: tuple[str, ...] | None
    hosts: int | None  # such machines, joined by a cable

    def lacks(
        self, switches: Sequence[str], environments: Sequence[str], nics: Sequence[str]
    ) -> list[str]:
        """Return one line for each requested thing that is missing."""
        requests = (
            ("switch", switches, self.switches),
            ("environment", environments, self.environments),
            ("nics:", nics, self.nics),
        )
        return [
            f"target {self.name} has no {kind} {name}"
            + (f" (it has: {', '.join(held)})" if held else "")
            for kind, names, held in requests
            if held is not None
            for name in dict.fromkeys(names)
            if name not in held
        ]


def target_names() -> list[str]:
    """The names of the machines that come with switchmark."""
    return yaml_names(_FOLDER)


def find_target(machine: str) -> Target:
    """Find a machine by name or file. Raises `UsageError` with a line for all that is wrong."""
    if machine in target_names():
        return read_target((_FOLDER / f"{machine}.yaml").read_text("utf-8"), f"{machine}.yaml")
    if machine.endswith((".yaml", ".yml")) or "/" in machine:
        return read_target(source.read_file(Path(machine)), machine)
    raise UsageError(
        f"--target: {values.unknown(machine, target_names(), 'machine')}",
        remedy="or name a file (.yaml)",
    )


def read_target(text: str, where: str) -> Target:
    """Read a target from text; `where` names it in messages."""
    problems: list[Problem] = []
    table = source.parse(text, where, problems)
    found = _read(table, problems)
    if problems:
        raise CampaignError(problems)
    cpus = _cpus(*(found.get(name, 1) for name in ("sockets", "cores", "threads")))
    isolated = found.get("isolated", frozenset())
    return Target(
        Path(where).stem,
        found.get("description", ""),
        tuple(Cpu(one.id, one.core, one.node, one.id in isolated) for one in cpus),
        found.get("switches"),
        found.get("environments"),
        found.get("nics"),
        found.get("hosts"),
    )


def _read(table: YamlMapping, problems: list[Problem]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, node in table.entries.items():
        read = _READERS.get(name)
        if read is None:
            near = values.nearest(name, _READERS)
            text = f"unknown key; did you mean {near}?" if near else (
                f"unknown key; known: {', '.join(_READERS)}"
            )  # fmt: skip
            problems.append(Problem(table.key_places.get(name, node.place), name, text))
            continue
        try:
            found[name] = read(node)
        except BadValueError as error:
            problems += [Problem(node.place, name, message) for message in error.messages]
    if "cores" not in table.entries:
        problems.append(Problem(table.place, "cores", "is missing; write e.g. cores: 12"))
    return found


def _text(node: Node) -> str:
    if not isinstance(node, Text) or not node.text:
        raise BadValueError("has no value, or more than one; write one")
    return node.text


def _names(node: Node) -> tuple[str, ...]:
    items = node.items if isinstance(node, Items) else [node]
    return tuple(name.strip() for item in items for name in _text(item).split(","))


def _isolated(node: Node) -> frozenset[int]:
    """Read `2-5, 8`, as the kernel writes lists of CPUs."""
    found: set[int] = set()
    for part in ",".join(_names(node)).split(","):
        low, dash, high = part.strip().partition("-")
        try:
            found |= set(range(int(low), int(high if dash else low) + 1))
        except ValueError:
            raise BadValueError(f"'{part}' is not a CPU; write e.g. 2-5, 8") from None
    return frozenset(found)


_READERS: dict[str, Callable[[Node], Any]] = {
    "description": _text,
    "sockets": lambda node: values.whole(_text(node), _COUNT),
    "cores": lambda node: values.whole(_text(node), _COUNT),
    "threads": lambda node: values.whole(_text(node), _COUNT),
    "isolated": _isolated,
    "switches": _names,
    "environments": _names,
    "nics": _names,
    "hosts": lambda node: values.whole(_text(node), _COUNT),
}


def _cpus(sockets: int, cores: int, threads: int) -> list[Cpu]:
    """The CPUs, numbered as Linux numbers them: first one thread of every core, socket by
    socket."""
    return [
        Cpu(thread * sockets * cores + socket * cores + core, (socket, core), socket)
        for thread in range(threads)
        for socket in range(sockets)
        for core in range(cores)
    ]
