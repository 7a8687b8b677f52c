"""A CPU quota on processes, through control groups of version 1 or 2.

The group is made for the session, and the processes are put into it with all their threads; or it
is the group that their container has given them. The kernel's counts for it (periods, throttled
periods) are read back. The version is the one whose hierarchy has the `cpu` controller.
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
from switchmark.host.kernel.mounts import mounted
from switchmark.host.undo.entries import Cgroup, CgroupController

PERIOD_US = 100_000  # the kernel's default, and that of the container engines


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """The hierarchy in which CPU quotas are set on this machine."""

    version: int  # 1 or 2
    root: Path


def find_hierarchy(mountinfo: bytes | None = None) -> Hierarchy | None:
    """The hierarchy with the `cpu` controller; None on a machine without."""
    unified = None
    for one in mounted(mountinfo):
        if one.kind == "cgroup" and "cpu" in one.options:
            return Hierarchy(1, Path(one.point))
        if one.kind == "cgroup2":
            unified = Path(one.point)
    if unified is None:
        return None
    with suppress(OSError):
        if mountinfo is not None or "cpu" in (unified / "cgroup.controllers").read_text().split():
            return Hierarchy(2, unified)
    return None


def group_of(pids: Sequence[int], hierarchy: Hierarchy) -> Path | None:
    """The one group that holds all these processes and is neither the root nor without quota; None
    where there is none."""
    found = {
        one.path
        for pid in pids
        for one in cgroups.memberships(pid)
        if ("cpu" in one.controllers if hierarchy.version == 1 else one.hierarchy == "0")
    }
    if len(found) != 1 or not (own := found.pop()):
        return None
    group = hierarchy.root / own
    setting = "cpu.max" if hierarchy.version == 2 else "cpu.cfs_quota_us"
    return group if (group / setting).exists() else None


class CpuLimit:
    """A group with a quota and processes in it. `lift` before they are asked to end."""

    def __init__(self, session: Session, hierarchy: Hierarchy, cores: float) -> None:
        self.hierarchy = hierarchy
        self.quota_us = round(cores * PERIOD_US)
        self._session = session
        self._made = hierarchy.root / f"sm{session.id}-limit"
        self._group = self._made
        self._entries: list[int] = []
        self._past = Throttling(0, 0, 0.0)  # of groups that went away with their container

    @property
    def group(self) -> str:
        """The control group, seen from the root of its hierarchy."""
        return str(self._group.relative_to(self.hierarchy.root))

    @classmethod
    def impose(
        cls, session: Session, pids: Sequence[int], cores: float, *, own_group: bool = True
    ) -> CpuLimit:
        """Limit these processes together to `cores` of CPU time a second, in a group made for it or
        in the container's group that they share. Raises UnavailableError where the kernel has no
        quotas."""
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
            with suppress(OSError):  # what is still in the group goes first
                limit.remove()
            raise
        return limit

    def about_to_restart(self) -> None:
        """Keep the kernel's counts: a container's group goes away with the container."""
        if self._group != self._made:
            self._past = self.read()

    def impose_again(self, pids: Sequence[int]) -> None:
        """Limit the processes that took the place of those that have ended."""
        self._hold(pids, own_group=self._group == self._made)

    def _hold(self, pids: Sequence[int], own_group: bool) -> None:
        lent = None if own_group else group_of(pids, self.hierarchy)
        self._group = lent or self._made
        if lent is not None:
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
        """Whether the kernel says that the quota is the one that was set."""
        if self.hierarchy.version == 2:
            text = (self._group / "cpu.max").read_text().split()
            return text == [str(self.quota_us), str(PERIOD_US)]
        return int((self._group / "cpu.cfs_quota_us").read_text()) == self.quota_us

    def read(self) -> Throttling:
        """The kernel's counts since the limit was first imposed."""
        now = Throttling.of(self._group)
        return Throttling(
            self._past.periods + now.periods,
            self._past.throttled_periods + now.throttled_periods,
            self._past.throttled_s + now.throttled_s,
        )

    def lift(self) -> None:
        """Lift the limit, since a program needs CPU time to end, too. Idempotent."""
        with suppress(OSError):
            self._set("max" if self.hierarchy.version == 2 else "-1")

    def remove(self) -> None:
        """Remove the group once its processes have ended. Idempotent."""
        for entry in reversed(self._entries):
            self._session.ledger.undo(entry)
