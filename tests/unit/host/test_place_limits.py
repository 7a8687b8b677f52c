"""The limits of a process, read from trees of control groups in all layouts."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from pathlib import Path

import pytest

from switchmark.host.place.limits import PlaceLimits, read_limits

MIB = 1 << 20


class Tree:
    """Directories instead of mounted hierarchies, and the content of /proc for them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.mountinfo = b"1 0 0:1 / / rw - ext4 /dev/sda rw\n"
        self.told = b""

    def mount(self, name: str, kind: str, options: str, root: str = "/") -> Path:
        """Mount a hierarchy; `root` is the group that its mount point shows."""
        point = self.root / name
        point.mkdir(parents=True)
        where = os.fsencode(point).replace(b" ", rb"\040")
        line = f" rw - {kind} {kind} rw,{options}\n".encode()
        self.mountinfo += b"30 25 0:26 " + root.encode() + b" " + where + line
        return point

    def read(self) -> PlaceLimits:
        """Read the limits of a process in this tree."""
        return read_limits(self.told, self.mountinfo, shared=self.root / "no-shm")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path / "with space")


def fill(group: Path, files: Mapping[str, object]) -> Path:
    """Make a group with these files."""
    group.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        (group / name).write_text(f"{content}\n")
    return group


def test_version_2_takes_the_narrowest_of_all_parents(tree: Tree) -> None:
    top = tree.mount("cgroup", "cgroup2", "nsdelegate")
    tree.told = b"0::/pods/pod1/c1\n"
    pods = {"memory.max": "max", "memory.high": 900 * MIB, "memory.current": 700 * MIB}
    fill(top / "pods", {"cpu.max": "max 100000", "pids.max": 100, "pids.current": 95, **pods})
    fill(top / "pods" / "pod1", {"cpu.max": "150000 100000", "pids.max": "max"})
    memory_files = {"memory.max": 512 * MIB, "memory.high": "max", "memory.current": 300 * MIB}
    stat = f"anon {200 * MIB}\ninactive_file {90 * MIB}"
    fill(
        top / "pods" / "pod1" / "c1",
        {"cpu.max": "400000 100000", "memory.stat": stat, **memory_files},
    )
    found = tree.read()
    assert found.cpu_quota == 1.5
    assert found.memory_bytes == 512 * MIB
    assert found.memory_left_bytes == 200 * MIB, "the pods' group is the first to be full"
    assert (found.tasks, found.tasks_left) == (100, 5)


def test_page_cache_of_a_group_counts_as_free(tree: Tree) -> None:
    top = tree.mount("cgroup", "cgroup2", "rw")
    tree.told = b"0::/c1\n"
    memory_files = {"memory.max": 512 * MIB, "memory.current": 300 * MIB}
    fill(top / "c1", {**memory_files, "memory.stat": f"anon 1\ninactive_file {90 * MIB}"})
    assert tree.read().memory_left_bytes == 302 * MIB


def test_version_1_has_a_hierarchy_for_each_controller(tree: Tree) -> None:
    cpu = tree.mount("cpu,cpuacct", "cgroup", "cpu,cpuacct")
    memory = tree.mount("memory", "cgroup", "memory")
    pids = tree.mount("pids", "cgroup", "pids")
    tree.told = b"9:cpuset:/other\n4:memory:/docker/a\n2:cpu,cpuacct:/docker/b\n3:pids:/\n"
    fill(cpu, {"cpu.cfs_quota_us": -1, "cpu.cfs_period_us": 100000})
    fill(cpu / "docker", {"cpu.cfs_quota_us": 25000, "cpu.cfs_period_us": 50000})
    fill(cpu / "docker" / "b", {"cpu.cfs_quota_us": 300000, "cpu.cfs_period_us": 100000})
    fill(memory / "docker", {"memory.limit_in_bytes": 9223372036854771712})
    used = {"memory.usage_in_bytes": 100 * MIB, "memory.stat": f"total_inactive_file {MIB}"}
    fill(memory / "docker" / "a", {"memory.limit_in_bytes": 256 * MIB, **used})
    fill(pids, {"pids.max": "max", "pids.current": 3})
    found = tree.read()
    assert found.cpu_quota == 0.5, "the parent's quota"
    assert (found.memory_bytes, found.memory_left_bytes) == (256 * MIB, 157 * MIB)
    assert (found.tasks, found.tasks_left) == (None, None)


def test_hybrid_controllers_are_found_in_their_hierarchy(tree: Tree) -> None:
    """The unified tree has no cpu controller, but each process has a group in it."""
    tree.mount("unified", "cgroup2", "nsdelegate")
    cpu = tree.mount("cpu", "cgroup", "cpu")
    tree.told = b"1:cpu:/batch\n0::/user.slice\n"
    fill(cpu / "batch", {"cpu.cfs_quota_us": 120000, "cpu.cfs_period_us": 100000})
    assert tree.read().cpu_quota == 1.2


@pytest.mark.parametrize(
    ("membership", "root", "inside"),
    [
        ("/", "/", ""),  # its own namespace of control groups
        ("/docker/abc", "/docker/abc", ""),  # the host's names, its own group mounted
        ("/docker/abc/job", "/docker/abc", "job"),
        ("/", "/..", ""),  # a namespace that was made after the mount
        ("/gone", "/", ""),  # the group is not visible, and its parent also limits
    ],
)
def test_group_of_a_container_is_at_the_top(
    tree: Tree, membership: str, root: str, inside: str
) -> None:
    top = tree.mount("cgroup", "cgroup2", "rw", root)
    tree.told = f"0::{membership}\n".encode()
    fill(top, {"cpu.max": "200000 100000", "memory.max": 512 * MIB, "memory.current": 0})
    fill(top / inside, {"pids.max": 50, "pids.current": 20})
    found = tree.read()
    assert (found.cpu_quota, found.memory_left_bytes) == (2.0, 512 * MIB)
    assert found.tasks_left == 30


def test_mount_of_another_group_is_ignored(tree: Tree) -> None:
    top = tree.mount("cgroup", "cgroup2", "rw", "/docker/other")
    tree.told = b"0::/docker/abc\n"
    fill(top, {"cpu.max": "50000 100000"})
    assert tree.read().cpu_quota is None


@pytest.mark.parametrize("membership", [b"", b"0::/\n", b"garbage\n\n1:cpu:/x\n"])
@pytest.mark.parametrize("content", [None, "max", "", "many", "1 2 3"])
def test_missing_and_unreadable_files_do_not_limit(
    tree: Tree, membership: bytes, content: str | None
) -> None:
    top = tree.mount("cgroup", "cgroup2", "rw")
    tree.told = membership
    names = ("cpu.max", "memory.max", "memory.current", "memory.stat", "pids.max")
    fill(top, {name: content for name in names if content is not None})
    found = tree.read()
    assert (found.cpu_quota, found.memory_bytes, found.memory_left_bytes) == (None, None, None)
    assert (found.tasks, found.tasks_left, found.shared_memory_bytes) == (None, None, None)


def test_memory_of_the_machine(tmp_path: Path) -> None:
    meminfo = tmp_path / "meminfo"
    meminfo.write_text("MemTotal:  24684084 kB\nMemAvailable:  2048 kB\n")
    assert read_limits(b"", b"", meminfo=meminfo).available_bytes == 2 * MIB
    assert read_limits(b"", b"", meminfo=tmp_path / "gone").available_bytes is None


def test_limits_of_this_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {resource.RLIMIT_NOFILE: (64, 128), resource.RLIMIT_MEMLOCK: (65536, 65536)}
    endless = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    monkeypatch.setattr(resource, "getrlimit", lambda kind: given.get(kind, endless))
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {3, 1})
    found = read_limits(b"", b"", shared=tmp_path)
    assert (found.open_files, found.locked_memory_bytes, found.processes) == (64, 65536, None)
    assert found.allowed_cpus == (1, 3) and found.cpus == 2.0
    assert found.shared_memory_bytes and found.shared_memory_free_bytes is not None
