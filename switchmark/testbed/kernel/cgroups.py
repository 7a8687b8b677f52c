"""Control groups of both versions: where their hierarchies are, and taking groups away."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from switchmark.testbed.kernel.mounts import mounted

PATIENCE_S = (
    10.0  # a group stays busy until its last process has ended, on a full machine for seconds
)


def roots() -> list[Path]:
    """The mount point of every hierarchy on this machine."""
    found = {Path(one.point) for one in mounted() if one.kind in ("cgroup", "cgroup2")}
    return sorted(path for path in found if path.is_dir())


def bases() -> list[Path]:
    """The root of every hierarchy, and our own group in it (where others may nest theirs)."""
    lines = Path("/proc/self/cgroup").read_text().splitlines()
    own = {line.split(":", 2)[2].strip("/") for line in lines}
    found = {root / path for root in roots() for path in ("", *own)}
    return sorted(path for path in found if path.is_dir())


def remove_tree(group: Path) -> None:
    """Remove a group and those nested in it; gone already is fine. Raises OSError while
    something still runs in one of them."""
    deadline = time.monotonic() + PATIENCE_S
    nested = sorted(
        (path for path in group.rglob("*") if path.is_dir()), key=lambda p: -len(p.parts)
    )
    for path in (*nested, group):
        while True:
            try:
                path.rmdir()
            except FileNotFoundError:
                break
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.002)
            else:
                break


def remove_named(name: str) -> None:
    """Remove the groups of this name from every hierarchy. Raises OSError."""
    for base in bases():
        group = base / name
        with suppress(FileNotFoundError):
            if group.is_dir():
                remove_tree(group)
