"""Sets a CPU quota on processes by control groups of version 1 or 2.

The session creates a group and moves the processes with all their threads into it, or it uses the
group of their container. The kernel's counts for the group (periods, throttled periods) are read
back. The version is that of the hierarchy with the `cpu` controller.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.host.cores.throttling import Throttling
from switchmark.host.host import Session
from switchmark.host.kernel import cgroups
from switchmark.host.kernel.mounts import read_mounts
from switchmark.host.undo.entries import Cgroup, CgroupController

PERIOD_US = 100_000  # the kernel's default, and that of the container engines


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy in which CPU quotas are set on this machine."""

    version: int  # 1 or 2
    root: Path


def find_hierarchy(mountinfo: bytes | None = None) -> Hierarchy | None:
    """Return the hierarchy with the `cpu` controller; None if there is none."""
    unified = None
    for mount in read_mounts(mountinfo):
        if mount.kind == "cgroup" and "cpu" in mount.options:
            return Hierarchy(1, Path(mount.point))
        if mount.kind == "cgroup2":
            unified = Path(mount.point)
    if unified is None:
        return None
    with suppress(OSError):
        if mountinfo is not None or "cpu" in (unified / "cgroup.controllers").read_text().split():
            return Hierarchy(2, unified)
    return None


def group_of(pids: Sequence[int], hierarchy: Hierarchy) -> Path | None:
    """Return the group that contains all these processes, if it can have a quota.

    None if they are in several groups, or in the root group."""
    paths = {
        member.path
        for pid in pids
        for member in cgroups.memberships(pid)
        if ("cpu" in member.controllers if hierarchy.version == 1 else member.hierarchy == "0")
    }
    if len(paths) != 1 or not (path := paths.pop()):
        return None
    group = hierarchy.root / path
    setting = "cpu.max" if hierarchy.version == 2 else "cpu.cfs_quota_us"
    return group if (group / setting).exists() else None


class CpuLimit:
    """A group with a quota and its processes. Call `lift` before the processes are ended."""

    def __init__(self, session: Session, hierarchy: Hierarchy, cores: float) -> None:
        self.hierarchy = hierarchy
        self.quota_us = round(cores * PERIOD_US)
        self._session = session
        self._made = hierarchy.root / f"sm{session.id}-limit"
        self._group = self._made
        self._entries: list[int] = []
        self._past = Throttling(0, 0, 0.0)  # counts of groups that ended with their container

    @property
    def group(self) -> str:
        """The path of the control group below the root of its hierarchy."""
        return str(self._group.relative_to(self.hierarchy.root))

    @classmethod
    def impose(
        cls, session: Session, pids: Sequence[int], cores: float, *, own_group: bool = True
    ) -> CpuLimit:
        """Limit these processes together to `cores` seconds of CPU time per second.

        The session creates a group for them (`own_group`), or uses the group of their container.
        Raises UnavailableError if the kernel has no quotas."""
        hierarchy = find_hierarchy()
        if hierarchy is None:
            raise UnavailableError(
                "cpu_limit: no control group hierarchy with the cpu controller is mounted",
                remedy="mount -t cgroup2 cgroup2 /sys/fs/cgroup",
            )
        limit = cls(session, hierarchy, cores)
        try:
            limit._hold(pids, own_group)
        except BaseException:
            with suppress(OSError):  # The group may still contain processes.
                limit.remove()
            raise
        return limit

    def about_to_restart(self) -> None:
        """Save the kernel's counts: the group of a container ends with the container."""
        if self._group != self._made:
            self._past = self.read()

    def impose_again(self, pids: Sequence[int]) -> None:
        """Limit the processes that replaced those that have ended."""
        self._hold(pids, own_group=self._group == self._made)

    def _hold(self, pids: Sequence[int], own_group: bool) -> None:
        shared = None if own_group else group_of(pids, self.hierarchy)
        self._group = shared or self._made
        if shared is not None:
            self._set(str(self.quota_us))
            return
        if not self._group.is_dir():
            self._make()
        self._set(str(self.quota_us))
        for pid in pids:
            (self._group / "cgroup.procs").write_text(str(pid))

    def _make(self) -> None:
        ledger = self._session.ledger
        if self.hierarchy.version == 2:
            control = self.hierarchy.root / "cgroup.subtree_control"
            if "cpu" not in control.read_text().split():
                self._entries.append(ledger.record(CgroupController(str(control), "cpu")))
                control.write_text("+cpu")
        self._entries.append(ledger.record(Cgroup(str(self._group))))
        self._group.mkdir()

    def _set(self, quota_us: str) -> None:
        if self.hierarchy.version == 2:
            (self._group / "cpu.max").write_text(f"{quota_us} {PERIOD_US}")
            return
        (self._group / "cpu.cfs_period_us").write_text(str(PERIOD_US))
        (self._group / "cpu.cfs_quota_us").write_text(quota_us)

    def in_force(self) -> bool:
        """Return True if the kernel reports the quota that was set."""
        if self.hierarchy.version == 2:
            text = (self._group / "cpu.max").read_text().split()
            return text == [str(self.quota_us), str(PERIOD_US)]
        return int((self._group / "cpu.cfs_quota_us").read_text()) == self.quota_us

    def read(self) -> Throttling:
        """Return the kernel's counts since the limit was first imposed."""
        now = Throttling.of(self._group)
        return Throttling(
            self._past.periods + now.periods,
            self._past.throttled_periods + now.throttled_periods,
            self._past.throttled_s + now.throttled_s,
        )

    def lift(self) -> None:
        """Lift the limit, since a program also needs CPU time to end. Idempotent."""
        with suppress(OSError):
            self._set("max" if self.hierarchy.version == 2 else "-1")

    def remove(self) -> None:
        """Remove the group once its processes have ended. Idempotent."""
        for entry in reversed(self._entries):
            self._session.ledger.undo(entry)
