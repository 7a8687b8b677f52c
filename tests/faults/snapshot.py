"""Everything on a host that a bench could have made, to be compared before and after.

It is taken in a private host (`tools/faults` makes it) without other programs, so every difference
belongs to the bench, whether or not it has a name of the bench."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from tests.faults import decoys

FOLDERS = ("/tmp", "/run", "/dev/shm", "/var/tmp", "/dev/hugepages")
SYSCTLS = (
    "net", "vm", "kernel/sched_rt_runtime_us", "kernel/core_pattern", "kernel/numa_balancing",
    "kernel/nmi_watchdog", "kernel/perf_event_paranoid", "kernel/randomize_va_space",
)  # fmt: skip
VOLATILE = (
    "/net/netfilter/nf_conntrack_count", "route/gc_", "/random/", "vm/stat_refresh",
)  # fmt: skip
MOUNTS = Path("/proc/self/mountinfo")
HUGEPAGES = Path("/sys/kernel/mm/hugepages")
RULES = (("nft", "--stateless", "list", "ruleset"), ("iptables-save",), ("ip6tables-save",))
_COUNTED = re.compile(r"\[\d+:\d+\]")
_NAMESPACE = re.compile(r"(cgroup|ipc|mnt|net|pid|time|user|uts):\[\d+\]")
_OCTAL = re.compile(r"\\([0-7]{3})")  # as mountinfo writes a space
_TIMER = re.compile(r"\w+_timer [\d.]+ ")
# Files that programs of the system make once and keep.
OF_THE_SYSTEM = (
    "/run/lxc",
    "/run/netns",
    "/run/mount",
    "/run/lock",
    "/run/dpdk",
    "/run/docker",
    "/run/containerd",
)


_foreign: set[str] = set()
_foreign_places: set[str] = set()  # their mount points


def leave_out_mounts() -> None:
    """Exclude existing mounts and the files in them: they belong to the surrounding host, whose
    users may remove them. A checkout in /tmp is mounted into the host's /tmp, and tests and Python
    write into it (.hypothesis, __pycache__)."""
    _foreign.update(_mounts())
    _foreign_places.update(_mount_places())


def take(own_folders: Iterable[Path], sessions: Iterable[str]) -> dict[str, set[str]]:
    """Return the objects by kind.

    `own_folders` are the folders of the matrix itself. `sessions` are those of the bench, whose
    names are searched among objects of other programs (cgroups)."""
    return {
        "links": _lines("ip", "-d", "-o", "link"),
        "addresses": _lines("ip", "-o", "address"),
        "routes": _lines("ip", "route", "show", "table", "all")
        | _lines("ip", "-6", "route", "show", "table", "all")
        | _lines("ip", "rule"),
        "queues": _lines("tc", "qdisc", "show"),
        "filters": _filters(),
        "packet rules": _packet_rules(),
        "namespaces": _namespaces(),
        "namespaces without a name": _unnamed_namespaces(),
        "BPF": bpf_objects(),
        "hugepages": _hugepages(),
        "sysctls": _sysctls(),
        "cgroups": _cgroups(list(sessions)),
        "mounts": _mounts(),
        "files": _files(list(own_folders)),
        "sockets": _sockets(),
        "shared memory": _lines("cat", "/proc/sysvipc/shm"),
        "processes": _processes(),
    }


def differences(before: dict[str, set[str]], after: dict[str, set[str]]) -> list[str]:
    """Return a line for each additional or missing object."""
    found = []
    for kind, things in before.items():
        found += [f"{kind}: left behind: {one}" for one in sorted(after[kind] - things)]
        found += [f"{kind}: taken away: {one}" for one in sorted(things - after[kind])]
    return found


def _lines(*words: str) -> set[str]:
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    return {_TIMER.sub("", " ".join(line.split())) for line in done.stdout.splitlines()}


def _namespaces() -> set[str]:
    """Return namespaces by name with their content."""
    found = set()
    folder = Path("/run/netns")
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        inside = _lines("ip", "-n", path.name, "-o", "address")
        found.add(f"{path.name}: {'; '.join(sorted(inside))}")
    return found


def _filters() -> set[str]:
    """Return filters of tc by device and direction."""
    return {
        f"{device.name} {direction}: {line}"
        for device in Path("/sys/class/net").iterdir()
        for direction in ("ingress", "egress")
        for line in _lines("tc", "filter", "show", "dev", device.name, direction)
    }


def _packet_rules() -> set[str]:
    """Return rules of netfilter by any installed tool, without counters and handles."""
    found = set()
    for command in RULES:
        if shutil.which(command[0]):
            lines = {_COUNTED.sub("", line) for line in _lines(*command)}
            found |= {f"{command[0]}: {line}" for line in lines if line and line[0] != "#"}
    return found


def _unnamed_namespaces() -> set[str]:
    """Return namespaces of processes by kind and number; mounts keep the others by name."""
    links = []
    for process in Path("/proc").glob("[0-9]*"):
        for folder in ("ns", "fd"):
            with suppress(OSError):
                links += list((process / folder).iterdir())
    return {target for target in map(_target, links) if _NAMESPACE.fullmatch(target)}


def bpf_objects() -> set[str]:
    """Return programs, maps and links that processes hold; devices list attached programs."""
    found = set()
    for path in Path("/proc").glob("[0-9]*/fd/*"):
        if (target := _target(path)).startswith(("anon_inode:bpf", "anon_inode:[bpf")):
            found.add(f"{path.parts[2]}: {target}")
    return found


def _target(link: Path) -> str:
    with suppress(OSError):
        return str(link.readlink())
    return ""


def _hugepages() -> set[str]:
    """Return the number of reserved hugepages by size; other programs use free hugepages."""
    found = set()
    for path in HUGEPAGES.glob("*/nr_*hugepages"):
        found.add(f"{path.parent.name}/{path.name}: {path.read_text().strip()}")
    return found


def _sysctls() -> set[str]:
    return {
        f"{path}={text.strip()}"
        for name in SYSCTLS
        for path in _files_under(f"/proc/sys/{name}")
        if not any(word in path for word in VOLATILE) and (text := _text(path)) is not None
    }


def _files_under(top: str) -> Iterator[str]:
    """Yield the file itself or the files of the folder; disappearing files are skipped."""
    yield top
    for folder, _, files in os.walk(top):
        yield from (f"{folder}/{name}" for name in files)


def _text(path: str) -> str | None:
    with suppress(OSError):
        return Path(path).read_text(errors="replace")
    return None


def _cgroups(sessions: list[str]) -> set[str]:
    names = [*sessions, decoys.NAME]
    return {
        folder
        for folder, _, _ in os.walk("/sys/fs/cgroup")
        if any(name in Path(folder).name for name in names)
    }


def _mounts() -> set[str]:
    found = set()
    for line in MOUNTS.read_text(errors="replace").splitlines():
        columns = line.split()
        rest = columns[columns.index("-") + 1 :]
        found.add(f"{columns[4]} {columns[5]} {rest[0]}")
    return found - _foreign


def _mount_places() -> set[str]:
    lines = MOUNTS.read_text(errors="replace").splitlines()
    return {_OCTAL.sub(lambda found: chr(int(found[1], 8)), line.split()[4]) for line in lines}


def _files(own_folders: list[Path]) -> set[str]:
    found = set()
    left_out = {*map(str, own_folders), *_foreign_places}
    for top in FOLDERS:
        for folder, folders, files in os.walk(top):
            folders[:] = [one for one in folders if f"{folder}/{one}" not in left_out]
            paths = [f"{folder}/{one}" for one in (*folders, *files)]
            found |= {path for path in paths if path not in left_out}
    return {one for one in found if not one.startswith(OF_THE_SYSTEM) or "sm" in Path(one).name}


def _sockets() -> set[str]:
    lines = _lines("ss", "-H", "-n", "-a", "-t", "-u", "-w", "-0")
    paths = Path("/proc/net/unix").read_text(errors="replace").splitlines()
    return lines | {columns[7] for line in paths if len(columns := line.split()) > 7}


def _processes() -> set[str]:
    """Return processes by number: a program of the user that was killed and restarted is
    another."""
    found = set()
    for path in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            command = (path / "cmdline").read_bytes().decode(errors="replace").split("\0")
            state = (path / "stat").read_text(errors="replace").rpartition(")")[2].split()[0]
            # sshd writes the number of waiting connections into its title.
            title = command[0].partition(" [listener]")[0]
            if title.startswith("sshd: ") and title.endswith(("[accepted]", "[net]", "[preauth]")):
                continue  # sshd is accepting a connection in a temporary process
            if int(path.name) != os.getpid() and title and state != "Z":
                found.add(f"{path.name} {' '.join([title, *command[1:]])[:150].strip()}")
    return found
