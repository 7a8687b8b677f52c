"""The hosts of a testbed file: the local one, and how the others are reached by SSH."""

from __future__ import annotations

import re
from pathlib import Path

from switchmark.language.source import YamlMapping
from switchmark.testbed.file_fields import FileFields
from switchmark.testbed.testbed import SshTarget

BECOME = ("none", "sudo")
HOST_KEYS = (
    "local", "address", "port", "user", "key", "known_hosts", "become", "python", "settings",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,62}")
_SETTING = re.compile(r"SWITCHMARK_[A-Z0-9_]+")


def read_hosts(fields: FileFields, hosts: YamlMapping) -> tuple[str | None, dict[str, SshTarget]]:
    """Read the hosts: the local one's name (None where it is wrong), and the others by name."""
    local: list[str] = []
    targets: dict[str, SshTarget] = {}
    for name, node in hosts.entries.items():
        key = f"hosts.{name}"
        if not _NAME.fullmatch(name):
            fields.note(node.place, key, "a host's name is letters, digits, '.', '_' and '-'")
        elif not isinstance(node, YamlMapping):
            fields.note(node.place, key, "write its keys, e.g. {address: 192.0.2.7}")
        elif "local" in node.entries:
            local += _local(fields, name, node)
        elif (target := _target(fields, name, node)) is not None:
            targets[name] = target
    if len(local) != 1:
        what = "two hosts are local" if local else "no host is local"
        remedy = "write `local: true` for the one that the bench runs on, and for no other"
        fields.note(hosts.place, "hosts", f"{what}; {remedy}")
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
        fields.note(node.place, f"{key}.port", f"'{port}' is no TCP port, 1 to 65535")
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
            text = "is no setting of the bench; their names begin with SWITCHMARK_"
            fields.note(table.key_places[name], f"{key}.settings.{name}", text)
        elif (value := fields.text(table, f"{key}.settings", name)) is not None:
            found.append((name, value))
    return tuple(found)
