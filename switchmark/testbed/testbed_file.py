"""The testbed file: the hosts of a trial between hosts, how to reach them, how they are cabled.

One host is the machine the bench runs on (`local: true`); the others are reached by SSH, or are
pods that are reached by `kubectl exec`. A cable names the two interfaces that face each other; the
first one that begins at this machine carries the trials with `location: remote`.
"""

from __future__ import annotations

import math
import os
import re
from pathlib import Path

from switchmark.errors import UsageError
from switchmark.host.kernel.pci import pci_address
from switchmark.language.source import (
    CampaignError,
    ExpectedFile,
    Items,
    Node,
    Problem,
    SourcePlace,
    Text,
    YamlMapping,
    parse,
    read_file,
)
from switchmark.testbed.testbed import (
    NO_CABLE,
    Cable,
    HealthLimits,
    PodTarget,
    SshTarget,
    Target,
    Testbed,
)


class FileFields:
    """Reads single fields; a field that is wrong is noted in `problems`, and read as None."""

    def __init__(self, path: Path, problems: list[Problem]) -> None:
        self.path = path
        self.problems = problems

    def text(self, table: YamlMapping, key: str, name: str) -> str | None:
        """Read a text that is not empty."""
        node = table.entries.get(name)
        if node is None:
            return None
        if not isinstance(node, Text) or not node.text:
            self.note(node.place, f"{key}.{name}", "has no value; write one, or leave the key out")
            return None
        return node.text

    def number(self, table: YamlMapping, key: str, name: str, least: float) -> float | None:
        """Read a number greater than `least`."""
        if (text := self.text(table, key, name)) is None:
            return None
        try:
            number = float(text)
        except ValueError:
            number = math.nan
        if not (math.isfinite(number) and number > least):
            place = table.key_places[name]
            self.note(place, f"{key}.{name}", f"'{text}' is not a number above {least:g}")
            return None
        return number

    def file(self, table: YamlMapping, key: str, name: str, content: str) -> Path | None:
        """Read the path of a file; a relative one begins at the testbed file's folder."""
        text = self.text(table, key, name)
        if text is None:
            return None
        path = self.path.resolve().parent / Path(text).expanduser()
        if not path.is_file():
            place = table.key_places[name]
            self.note(place, f"{key}.{name}", f"{path} is not a file; name the file of {content}")
            return None
        return path

    def only_keys(self, table: YamlMapping, known: tuple[str, ...], key: str = "") -> None:
        """Note every key of the mapping `key` (empty: the whole file) that is not known."""
        for name in table.entries:
            if name not in known:
                whole = f"{key}.{name}" if key else name
                text = f"is not a key here; the keys are: {', '.join(known)}"
                self.note(table.key_places[name], whole, text)

    def note(self, place: SourcePlace, key: str, message: str) -> None:
        """Note a problem with the field `key` at this place of the file."""
        self.problems.append(Problem(place, key, message))


BECOME = ("none", "sudo")
HOST_KEYS = (
    "local", "address", "port", "user", "key", "known_hosts", "become", "python", "settings",
)  # fmt: skip
POD_KEYS = ("pod", "context", "kubeconfig", "python", "settings")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_POD_PART = r"[A-Za-z0-9][A-Za-z0-9.-]{0,252}"
_POD = re.compile(rf"({_POD_PART})/({_POD_PART})(?:/({_POD_PART}))?")
_SETTING = re.compile(r"SWITCHMARK_[A-Z0-9_]+")


def read_hosts(fields: FileFields, hosts: YamlMapping) -> tuple[str | None, dict[str, Target]]:
    """Read the hosts: the local one's name (None where it is wrong), and the others by name."""
    local: list[str] = []
    targets: dict[str, Target] = {}
    for name, node in hosts.entries.items():
        key = f"hosts.{name}"
        if not _NAME.fullmatch(name):
            fields.note(node.place, key, "a host's name is letters, digits, '.', '_' and '-'")
        elif not isinstance(node, YamlMapping):
            fields.note(node.place, key, "write its keys, e.g. {address: 192.0.2.7}")
        elif "local" in node.entries:
            local += _local(fields, name, node)
        elif "pod" in node.entries:
            if (pod := _pod(fields, name, node)) is not None:
                targets[name] = pod
        elif (target := _target(fields, name, node)) is not None:
            targets[name] = target
    if len(local) != 1:
        problem = "two hosts are local" if local else "no host is local"
        remedy = "write `local: true` only for the host of the bench"
        fields.note(hosts.place, "hosts", f"{problem}; {remedy}")
        return None, targets
    return local[0], targets


def _local(fields: FileFields, name: str, node: YamlMapping) -> list[str]:
    key = f"hosts.{name}"
    for other in node.entries:
        if other != "local":
            place = node.key_places[other]
            fields.note(place, f"{key}.{other}", "is of no use for the local host; leave it out")
    if fields.text(node, key, "local") != "true":
        fields.note(node.place, f"{key}.local", "can only be true; leave it out otherwise")
        return []
    return [name]


def _target(fields: FileFields, name: str, node: YamlMapping) -> SshTarget | None:
    key = f"hosts.{name}"
    before = len(fields.problems)
    fields.only_keys(node, HOST_KEYS, key)
    address = fields.text(node, key, "address")
    if address is None:
        fields.note(
            node.place,
            f"{key}.address",
            "is missing; give a name or an IP address for SSH, or `local: true`",
        )
        return None
    port = fields.text(node, key, "port") or "22"
    if not (port.isascii() and port.isdigit() and 1 <= int(port) <= 65535):
        fields.note(node.place, f"{key}.port", f"'{port}' is not a TCP port, 1 to 65535")
        return None
    become = fields.text(node, key, "become") or "none"
    if become not in BECOME:
        has = " or ".join(BECOME)
        fields.note(node.place, f"{key}.become", f"'{become}' is not known; use {has}")
        return None
    settings = _settings(fields, node, key)
    ssh_key = fields.file(node, key, "key", "a private key")
    known_hosts = fields.file(node, key, "known_hosts", "host keys, see ssh-keyscan")
    if len(fields.problems) > before:
        return None
    return SshTarget(
        name,
        address,
        int(port),
        fields.text(node, key, "user"),
        ssh_key,
        known_hosts or Path("~/.ssh/known_hosts").expanduser(),
        become,
        fields.text(node, key, "python") or "python3",
        settings,
    )


def _pod(fields: FileFields, name: str, node: YamlMapping) -> PodTarget | None:
    key = f"hosts.{name}"
    before = len(fields.problems)
    fields.only_keys(node, POD_KEYS, key)
    text = fields.text(node, key, "pod") or ""
    match = _POD.fullmatch(text)
    if text and match is None:
        fields.note(
            node.key_places["pod"],
            f"{key}.pod",
            f"'{text}' is not a pod; write NAMESPACE/NAME or NAMESPACE/NAME/CONTAINER",
        )
    kubeconfig = fields.file(node, key, "kubeconfig", "a cluster's address and keys")
    settings = _settings(fields, node, key)
    if len(fields.problems) > before or match is None:
        return None
    return PodTarget(
        name,
        match[1],
        match[2],
        match[3] or "",
        fields.text(node, key, "context"),
        kubeconfig,
        fields.text(node, key, "python") or "python3",
        settings,
    )


def _settings(fields: FileFields, node: YamlMapping, key: str) -> tuple[tuple[str, str], ...]:
    """The paths of that host's programs, by the variables that hold them on this one."""
    table = node.entries.get("settings")
    if table is None:
        return ()
    if not isinstance(table, YamlMapping):
        text = "is a mapping, e.g. {SWITCHMARK_VPP: /usr/local/bin/vpp}"
        fields.note(table.place, f"{key}.settings", text)
        return ()
    found = []
    for name in table.entries:
        if not _SETTING.fullmatch(name):
            text = "is not a setting of the bench; their names begin with SWITCHMARK_"
            fields.note(table.key_places[name], f"{key}.settings.{name}", text)
        elif (value := fields.text(table, f"{key}.settings", name)) is not None:
            found.append((name, value))
    return tuple(found)


VARIABLE = "SWITCHMARK_TESTBED"
KEYS = ("hosts", "cables", "health")
_INTERFACE = re.compile(r"[^\s/:]{1,15}")
_EXAMPLE = "hosts: {left: {local: true}, right: {address: 192.0.2.7}}"
_MAPPING = f"a testbed is a mapping with the keys hosts and cables, e.g. {_EXAMPLE}"


def find_testbed(path: Path | None) -> Testbed | None:
    """Read this testbed file, or else the one in SWITCHMARK_TESTBED; None without both."""
    if path is None and (named := os.environ.get(VARIABLE)):
        path = Path(named)
    return None if path is None else read_testbed(path)


def required(testbed: Testbed | None) -> Testbed:
    """Return the testbed. Raises UsageError for None."""
    if testbed is None:
        raise UsageError(
            "there is no testbed: location: remote needs another host",
            remedy="describe it in a testbed "
            f"file (docs/testbed.md) and give it as --testbed FILE or in {VARIABLE}",
        )
    return testbed


def read_testbed(path: Path) -> Testbed:
    """Read and check a testbed file. Raises CampaignError with a line for each problem."""
    reader, table = _begun(path)
    reader.health(table)
    found = reader.testbed(table)
    if reader.problems or found is None:
        raise CampaignError(reader.problems)
    return found


def read_pool_testbed(path: Path) -> tuple[Testbed | None, HealthLimits]:
    """Read a pool's testbed file: its hosts (None where it names the local one alone), and the
    limits of its health. Raises CampaignError with a line for each problem."""
    reader, table = _begun(path)
    limits = reader.health(table)
    hosts = table.entries.get("hosts")
    found = None
    if isinstance(hosts, YamlMapping) and len(hosts.entries) == 1 and reader.is_alone(hosts):
        reader.only_keys(table, ("hosts", "health"))
    else:
        found = reader.testbed(table)
    if reader.problems:
        raise CampaignError(reader.problems)
    return found, limits


def _begun(path: Path) -> tuple[_TestbedReader, YamlMapping]:
    problems: list[Problem] = []
    table = parse(read_file(path), str(path), problems, ExpectedFile(_MAPPING, _MAPPING))
    return _TestbedReader(path, problems), table


class _TestbedReader(FileFields):
    """Reads the parts of a file; a part that is wrong is noted in `problems`, and read as None."""

    def testbed(self, table: YamlMapping) -> Testbed | None:
        self.only_keys(table, KEYS)
        hosts, cables = table.entries.get("hosts"), table.entries.get("cables")
        if not isinstance(hosts, YamlMapping) or not hosts.entries:
            place = table.place if hosts is None else hosts.place
            self.note(place, "hosts", f"names no hosts; write e.g. {_EXAMPLE}")
            return None
        near, targets = read_hosts(self, hosts)
        if near is None:
            return None
        if not targets:
            self.note(hosts.place, "hosts", "needs a second host, one with an address or a pod")
            return None
        pods = [name for name, target in targets.items() if isinstance(target, PodTarget)]
        if cables is None and pods:
            pod = targets.pop(pods[0])
            return Testbed(self.path, near, pod, NO_CABLE, tuple(targets.values()))
        cable = self._first_cable(cables, table.place, near, targets, set(hosts.entries))
        if cable is None:
            return None
        far = targets.pop(cable[0])
        return Testbed(self.path, near, far, cable[1], tuple(targets.values()))

    def is_alone(self, hosts: YamlMapping) -> bool:
        """Return True if the file has only the local host."""
        return all(
            isinstance(node, YamlMapping) and "local" in node.entries
            for node in hosts.entries.values()
        ) and bool(read_hosts(self, hosts)[0])

    def health(self, table: YamlMapping) -> HealthLimits:
        """Read the limits of the testbed's health in a pool."""
        node = table.entries.get("health")
        if node is None:
            return HealthLimits()
        if not isinstance(node, YamlMapping):
            self.note(node.place, "health", "is a mapping, e.g. {busy_cores: 2, wire_tolerance: 3}")
            return HealthLimits()
        self.only_keys(node, ("busy_cores", "wire_tolerance"), "health")
        busy = self.number(node, "health", "busy_cores", 0)
        tolerance = self.number(node, "health", "wire_tolerance", 1)
        return HealthLimits(busy, HealthLimits().wire_tolerance if tolerance is None else tolerance)

    def _first_cable(
        self,
        cables: Node | None,
        place: SourcePlace,
        near: str,
        targets: dict[str, Target],
        hosts: set[str],
    ) -> tuple[str, Cable] | None:
        """The first cable that begins here: its other host and the two interfaces."""
        if not isinstance(cables, Items) or not cables.items:
            where = place if cables is None else cables.place
            self.note(where, "cables", f"is not a list; write e.g. - {{{near}: eth1, ...}}")
            return None
        used: set[tuple[str, str]] = set()
        found: list[tuple[str, Cable]] = []
        for number, node in enumerate(cables.items):
            ends = self._ends(node, f"cables[{number}]", hosts)
            for end in ends.items():
                if end in used:
                    text = f"{end[0]}'s {end[1]} is in two cables; an interface has one cable"
                    self.note(node.place, f"cables[{number}]", text)
                used.add(end)
            others = [name for name in ends if name in targets]
            if pods := [name for name in others if isinstance(targets[name], PodTarget)]:
                text = f"{pods[0]} is a pod, which has no cable; leave the cable out"
                self.note(node.place, f"cables[{number}]", text)
            if near in ends and others:
                found.append((others[0], Cable(ends[near], ends[others[0]])))
        if not found and not self.problems:
            self.note(cables.place, "cables", f"none joins {near} with another host")
            return None
        return found[0] if found else None

    def _ends(self, node: Node, key: str, hosts: set[str]) -> dict[str, str]:
        if not isinstance(node, YamlMapping) or len(node.entries) != 2:
            self.note(node.place, key, "has two ends: write {host: interface, host: interface}")
            return {}
        ends = {}
        for host in node.entries:
            interface = self.text(node, key, host)
            if host not in hosts:
                known = ", ".join(sorted(hosts))
                text = f"is not a host of this file, which has: {known}"
                self.note(node.place, f"{key}.{host}", text)
            elif interface is not None and (address := pci_address(interface)) is not None:
                ends[host] = address
            elif interface is None or not _INTERFACE.fullmatch(interface):
                text = (
                    f"'{interface or ''}' is neither an interface (1 to 15 characters) nor a PCI "
                    "address (0000:03:00.0)"
                )
                self.note(node.place, f"{key}.{host}", text)
            else:
                ends[host] = interface
        return ends
