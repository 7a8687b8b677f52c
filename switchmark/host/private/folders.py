"""The file systems of the private namespaces: fresh /proc, /sys, /run, /tmp, /var/tmp, /dev/shm.

Settings of the whole machine are read-only: those of /sys, control groups, and those of /proc
except /proc/sys/net, which belongs to the network namespace. Otherwise root could change them, or a
user who may make control groups, and they would stay changed after the bench is killed.

Folders in /tmp and the like that the bench needs (its own programs, the working directory, what
its arguments name) stay visible and writable at their paths, so that results land where the user
expects them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.host.kernel.mounts import MS_BIND, mounts_below
from switchmark.host.private.calls import (
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    MS_SLAVE,
    mount,
)

RUN, TMP, PROC, SYS = Path("/run"), Path("/tmp"), Path("/proc"), Path("/sys")
CGROUPS = SYS / "fs/cgroup"
MACHINE = ("irq", "bus", "fs", "acpi", "sysrq-trigger")  # settings of the machine in /proc
HIDDEN = {RUN: 0o755, TMP: 0o1777, Path("/var/tmp"): 0o1777, Path("/dev/shm"): 0o1777}  # modes
MOST_LINKS = 40  # symbolic links on the way to a file, as the kernel has it
_SYSTEM = MS_NOSUID | MS_NODEV | MS_NOEXEC


@dataclass(slots=True)
class Layout:
    """The hidden folders, and the paths below them that stay visible."""

    hidden: dict[Path, int] = field(default_factory=dict)  # with the modes of the new folders
    visible: set[Path] = field(default_factory=set)  # folders below them, and files below /run
    links: dict[Path, Path] = field(default_factory=dict)  # symbolic links below them, and targets

    @property
    def temporary(self) -> Path:
        """The folder for temporary files: /tmp, or if that stays as it is, a folder in /run."""
        return TMP if TMP.resolve() in self.hidden else RUN / "tmp"


def plan_layout(
    needed: Iterable[str | Path], hidden: Mapping[Path, int] = HIDDEN, run: Path = RUN
) -> Layout:
    """The layout in which these paths stay usable; a path need not exist.

    A file is replaced by renaming, for which its folder must be the real one. So if a path lies
    directly in /tmp, /var/tmp or /dev/shm, that folder is not hidden. `run` always is: the state
    of the bench lies there."""
    layout = Layout({top.resolve(): mode for top, mode in hidden.items()})
    run = run.resolve()
    visible = set()
    for path in needed:
        place = _resolve(Path(path), layout)
        top = next((top for top in layout.hidden if place.is_relative_to(top)), None)
        if top is None:
            continue
        while not (_is(Path.is_dir, place) or (top == run and _is(Path.exists, place))):
            place = place.parent
        if place != top:
            layout.visible.add(place)
        elif top != run:
            visible.add(top)
    layout.hidden = {top: mode for top, mode in layout.hidden.items() if top not in visible}
    layout.visible = {
        place
        for place in layout.visible
        if _lies_in(place, layout.hidden) and layout.visible.isdisjoint(place.parents)
    }
    layout.links = {
        link: target
        for link, target in layout.links.items()
        if _lies_in(link, layout.hidden) and not _lies_in(link, layout.visible)
    }
    return layout


def _resolve(path: Path, layout: Layout) -> Path:
    """The path without symbolic links; those in hidden folders are noted, to be made again."""
    found = _normal(path)
    for _ in range(MOST_LINKS):
        steps = [*reversed(found.parents), found]
        link = next((step for step in steps if _is(Path.is_symlink, step)), None)
        if link is None:
            break
        target = link.readlink()
        if _lies_in(link, layout.hidden):
            layout.links[link] = target
        found = _normal(link.parent / target / found.relative_to(link))
    return found


def _is(kind: Callable[[Path], bool], path: Path) -> bool:
    """Return True if a path is of this kind; False if this user cannot read its folder."""
    try:
        return kind(path)
    except OSError:
        return False


def _normal(path: Path) -> Path:
    """The absolute path without `..`."""
    return Path(os.path.abspath(path))  # noqa: PTH100  (`absolute` keeps `..`)


def _lies_in(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(folder) for folder in folders)


def make_mounts(layout: Layout) -> None:
    """Mount the layout in the mount namespace of this process, which must be a new one. Raises
    OSError."""
    mount("none", Path("/"), "", MS_REC | MS_SLAVE)  # keeps the mounts below out of the parent
    visible = {place: _open(place) for place in sorted(layout.visible)}
    cgroups = _open(CGROUPS) if CGROUPS.is_dir() else None
    mount("switchmark", SYS, "sysfs", _SYSTEM)  # shows the new network namespace
    if cgroups is not None:
        _bind(cgroups, CGROUPS)
    for point in mounts_below(SYS):
        if os.path.ismount(point):  # the new sysfs covers mounts such as /sys/kernel/tracing
            _make_read_only(Path(point))
    for folder, mode in layout.hidden.items():
        if folder.is_dir():
            mount("switchmark", folder, "tmpfs", MS_NOSUID | MS_NODEV, f"mode={mode:o}")
    for place, fd in visible.items():
        is_folder = Path(f"/proc/self/fd/{fd}").is_dir()
        (place if is_folder else place.parent).mkdir(parents=True, exist_ok=True)
        if not is_folder:
            place.touch()
        _bind(fd, place)
    for link, target in layout.links.items():
        link.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            link.symlink_to(target)
    for folder in (RUN / "lock", layout.temporary):
        folder.mkdir(exist_ok=True)
        with suppress(OSError):  # /tmp may be the machine's own
            folder.chmod(0o1777)
    # Last: the paths of open files are in the old one.
    mount("switchmark", PROC, "proc", _SYSTEM)
    settings = [one for one in (PROC / "sys").iterdir() if one.name != "net"]
    for place in (*settings, *(PROC / name for name in MACHINE)):
        if place.exists():
            mount(str(place), place, "none", MS_BIND)
            _make_read_only(place)


def _make_read_only(point: Path) -> None:
    """Remount a mount read-only in this namespace, with its other options unchanged."""
    options = os.statvfs(point).f_flag & _SYSTEM
    mount("none", point, "", MS_REMOUNT | MS_BIND | MS_RDONLY | options)


def _open(path: Path) -> int:
    return os.open(path, os.O_PATH | os.O_CLOEXEC)


def _bind(fd: int, target: Path) -> None:
    mount(f"/proc/self/fd/{fd}", target, "none", MS_BIND | MS_REC)
    os.close(fd)
