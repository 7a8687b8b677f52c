"""The root file system of the containers, which is read-only and shared by all.

It has a static BusyBox, the engine, its shared libraries and the DPDK drivers that it may load. It
is built once for each set of these files and stored in the cache directory. Its key depends on the
content of the engine, whose path on a remote host differs between sessions, and on the paths, sizes
and times of the other files.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path

from switchmark.environment.support.building import building
from switchmark.errors import UnavailableError
from switchmark.host.programs import digest
from switchmark.host.state import cache_folder
from switchmark.model.capabilities import Availability, unavailable_for

ENGINE_INSIDE = "/usr/bin/switchmark-traffic"
BUSYBOX_INSIDE = "/usr/bin/busybox"
APPLETS = ("sh", "cat", "ls", "ip", "mount", "ps", "sleep", "taskset")

# All DPDK drivers that the engine may load: buses, the default mempool, and the ports of the
# engine's `dpdk` backend. EAL must find each exactly once.
DPDK_DRIVERS = (
    "bus_vdev",
    "bus_pci",
    "mempool_ring",
    "net_virtio",
    "net_vhost",
    "net_memif",
    "net_af_packet",
    "net_null",
    "net_ring",
    "net_tap",
)
# The drivers of virtual functions, for guests that have such ports.
OF_FUNCTIONS = ("net_e1000", "net_ixgbe", "net_iavf")

LDD_TIMEOUT_S = 30.0
FORMAT = "4"  # raise when the layout changes, so that old roots are not used


def build_root(engine: Path, drivers: Sequence[str] = DPDK_DRIVERS) -> Path:
    """Return the root directory for this engine; build it if it is missing. Raises
    UnavailableError."""
    busybox = find_busybox()
    needed = _needed(engine, engine.stat().st_mtime_ns, tuple(drivers))
    root = cache_folder("roots") / key_of(f"{FORMAT} {digest(engine)}", [busybox, *needed])
    if not root.is_dir():
        _build(root, engine, busybox, needed)
    return root


@cache
def _needed(engine: Path, _mtime_ns: int, names: tuple[str, ...]) -> tuple[Path, ...]:
    """Return the files that the engine loads. `ldd` needs some milliseconds, so this is cached."""
    libraries = shared_libraries(engine)
    drivers = dpdk_drivers(libraries, names)
    for driver in drivers:
        libraries = sorted({*libraries, *shared_libraries(driver)})
    return (*libraries, *drivers)


@cache
def find_busybox() -> Path:
    """Return the path of BusyBox. It must be static, without libraries. Raises UnavailableError."""
    path = shutil.which("busybox")
    if path is None or shared_libraries(Path(path)):
        raise UnavailableError(
            "no static BusyBox on this machine", remedy="apt install busybox-static"
        )
    return Path(path).resolve()


def no_busybox() -> Availability | None:
    """Return None if there is a BusyBox, which has the tools of containers and guests; otherwise
    the remedy."""
    try:
        find_busybox()
    except UnavailableError as error:
        return unavailable_for(error)
    return None


def shared_libraries(program: Path) -> list[Path]:
    """Return the shared libraries and the loader of a program, by `ldd`; empty for a static
    program."""
    try:
        done = subprocess.run(
            ["ldd", str(program)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="surrogateescape",  # file names are bytes
            check=False,
            timeout=LDD_TIMEOUT_S,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UnavailableError(f"{program}: ldd cannot list its libraries: {error}") from None
    if done.returncode != 0:
        return []  # "not a dynamic executable"
    missing = re.findall(r"(\S+) => not found", done.stdout)
    if missing:
        raise UnavailableError(f"{program}: its library {missing[0]} is not installed")
    return sorted(Path(path) for path in re.findall(r"(/\S+) \(0x", done.stdout))


def dpdk_drivers(libraries: Sequence[Path], names: Sequence[str] = DPDK_DRIVERS) -> list[Path]:
    """Return the DPDK drivers that belong to the EAL among these libraries; empty without DPDK."""
    eal = [path for path in libraries if path.name.startswith("librte_eal.so.")]
    if not eal:
        return []
    abi = eal[0].name.removeprefix("librte_eal.so.").split(".")[0]
    folders = sorted(eal[0].resolve().parent.glob(f"dpdk/pmds-{abi}.*"))
    paths = [folder / f"librte_{name}.so" for folder in folders for name in names]
    return [path for path in paths if path.exists()]


def key_of(content: str, files: Iterable[Path]) -> str:
    """Return a key of the cache, from a text and the paths, sizes and times of these files."""
    key = hashlib.sha256(content.encode())
    for path in files:
        status = path.stat()
        key.update(f"{path}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return key.hexdigest()[:16]


def _build(root: Path, engine: Path, busybox: Path, libraries: Sequence[Path]) -> None:
    with building(root) as new_root:
        for folder in ("usr/bin", "usr/lib", "dev", "proc", "sys", "run", "tmp", "etc", "var"):
            (new_root / folder).mkdir(parents=True)
        for name in ("bin", "sbin", "lib", "lib64"):
            (new_root / name).symlink_to(f"usr/{name.replace('sbin', 'bin')}")
        (new_root / "usr/lib64").mkdir()
        (new_root / "var/run").symlink_to("../run")
        shutil.copy2(busybox, new_root / BUSYBOX_INSIDE.lstrip("/"))
        shutil.copy2(engine, new_root / ENGINE_INSIDE.lstrip("/"))
        for applet in APPLETS:
            (new_root / "usr/bin" / applet).symlink_to("busybox")
        for library in libraries:
            install(new_root, library)
        with suppress(FileNotFoundError):  # some loaders have no such cache
            shutil.copy2("/etc/ld.so.cache", new_root / "etc/ld.so.cache")
        _set_modes(new_root)


def _set_modes(root: Path) -> None:
    """Let all users read the root and only the owner write, independent of the umask. The mode of
    the directory is 0700 until this call."""
    for path in root.rglob("*"):
        if not path.is_symlink():
            path.chmod(path.stat().st_mode & ~0o022)
    root.chmod(0o755)


def install(root: Path, path: Path) -> None:
    """Copy a file to its path on the host, with the symbolic links that lead to it."""
    place = root / str(path.parent.resolve() / path.name).lstrip("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if place.is_symlink() or place.exists():
        return
    if path.is_symlink():
        target = Path(os.readlink(path))  # noqa: PTH115
        place.symlink_to(target)
        install(root, path.parent / target)
    else:
        shutil.copy2(path, place)
