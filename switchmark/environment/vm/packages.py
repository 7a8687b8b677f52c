"""A guest's kernel and the QEMU that runs it, from distribution packages.

The kernel is fetched by apt into the cache, unpacked with `dpkg -x`, and never installed.
`SWITCHMARK_VM_KERNEL` names an unpacked kernel package (a folder with `boot` and `lib/modules`) to
use instead, `SWITCHMARK_QEMU` a `qemu-system-x86_64`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from switchmark.environment.support.building import building
from switchmark.errors import UnavailableError
from switchmark.host.process_output import NOTHING, last_line, run_command
from switchmark.host.programs import not_installed, which
from switchmark.host.state import cache_dir, cache_folder
from switchmark.model.capabilities import Availability, unavailable

DEFAULT_KERNEL = "linux-image-amd64"  # Debian's; it depends on the one of today's version
KERNEL_SETTING, QEMU_SETTING = "SWITCHMARK_VM_KERNEL", "SWITCHMARK_QEMU"
FETCH_S = 300.0


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package."""

    root: Path
    release: str

    @property
    def image(self) -> Path:
        """The kernel as it is packaged, with its decompressor."""
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        """The folder of its modules and their index."""
        return self.root / "lib/modules" / self.release


@dataclass(frozen=True)
class Qemu:
    """A QEMU for x86-64 guests."""

    program: Path
    version: tuple[int, ...]

    @property
    def data(self) -> list[str]:
        """The arguments that name the firmware of an unpacked QEMU."""
        share = self.program.parent.parent / "share"
        return [word for name in ("qemu", "seabios") for word in ("-L", str(share / name))]


def machines_folder() -> Path:
    """The part of the cache for virtual machines. Raises UnavailableError, UsageError."""
    return cache_folder("machines")


def kernel_at_hand() -> Kernel | None:
    """The guest's kernel, if it is named, or was fetched before. Nothing is changed."""
    if named := os.environ.get(KERNEL_SETTING):
        return unpacked_kernel(Path(named))
    return unpacked_kernel(cache_dir() / "machines" / "kernel-default")


def kernel_problem() -> Availability | None:
    """Unavailable, where no kernel can be had; None where one is there, or apt can fetch one."""
    if kernel_at_hand() is not None:
        return None
    if named := os.environ.get(KERNEL_SETTING):
        reason = f"{KERNEL_SETTING}={named}: no boot/vmlinuz-* in it"
        return unavailable(reason, remedy="name an unpacked package")
    for program in ("apt-get", "dpkg"):
        if which(program) is None:
            return unavailable(
                f"no {program} to fetch a guest's kernel with",
                remedy=f"unpack a kernel package and name its folder: {KERNEL_SETTING}=FOLDER",
            )
    return not_installed("depmod", "kmod")


@cache
def kernel(release: str | None = None) -> Kernel:
    """The guest's kernel: the one that was named, the distribution's, or the one of this release;
    fetched now if need be. Raises UnavailableError."""
    if named := os.environ.get(KERNEL_SETTING):
        found = unpacked_kernel(Path(named))
        if found is None:
            raise UnavailableError(f"{KERNEL_SETTING}={named}: no boot/vmlinuz-* in it")
        if release in (None, found.release):
            return with_dependencies(found)
    root = machines_folder() / f"kernel-{release or 'default'}"
    if (found := unpacked_kernel(root)) is None:
        package = f"linux-image-{release}" if release else default_kernel_package()
        unpack([package], root)
        found = unpacked_kernel(root)
        if found is None:
            raise UnavailableError(f"package {package} holds no kernel image")
    return with_dependencies(found)


def unpacked_kernel(root: Path) -> Kernel | None:
    """Return the newest kernel in a folder; None if there is no kernel or no such folder."""
    found: list[str] = []
    with suppress(OSError):
        found = [path.name.removeprefix("vmlinuz-") for path in (root / "boot").glob("vmlinuz-*")]
    return Kernel(root, max(found, key=_by_number)) if found else None


def _by_number(release: str) -> list[tuple[bool, int, str]]:
    """A key that sorts 6.1.0-10 after 6.1.0-9."""
    parts = re.findall(r"\d+|\D+", release)
    return [(one.isdigit(), int(one) if one.isdigit() else 0, one) for one in parts]


def with_dependencies(found: Kernel) -> Kernel:
    """Create the index of the modules' dependencies, which installing the package would create."""
    if not (found.modules / "modules.dep").exists():
        depmod = which("depmod")
        if depmod is None:
            raise UnavailableError("program `depmod` not found", remedy="apt install kmod")
        _run([str(depmod), "-b", str(found.root), found.release])
    return found


def default_kernel_package() -> str:
    """The kernel package of today's version. Raises UnavailableError."""
    output = _run(["apt-cache", "depends", DEFAULT_KERNEL], check=False)
    match = re.search(r"Depends: (linux-image-\S+)", output)
    if match is None:
        raise UnavailableError(
            f"apt knows no {DEFAULT_KERNEL}",
            remedy=f"run apt-get update, or name an unpacked kernel "
            f"package: {KERNEL_SETTING}=FOLDER",
        )
    return match[1]


def qemu_program() -> str | None:
    """The path of QEMU; None: there is none."""
    return shutil.which(os.environ.get(QEMU_SETTING) or "qemu-system-x86_64")


@cache
def qemu(program: str | None = None) -> Qemu:
    """The QEMU that is named, or the machine's. Raises UnavailableError."""
    found = program or qemu_program()
    if found is None:
        name = os.environ.get(QEMU_SETTING) or "qemu-system-x86_64"
        raise UnavailableError(f"program `{name}` not found", remedy="apt install qemu-system-x86")
    match = re.search(r"version (\d+)\.(\d+)", _run([found, "--version"]))
    if match is None:
        raise UnavailableError(f"{found} does not run: it prints no version")
    return Qemu(Path(found), (int(match[1]), int(match[2])))


def unpack(packages: Sequence[str], root: Path, options: Sequence[str] = ()) -> None:
    """Fetch packages and unpack them under `root`, all or nothing. Raises UnavailableError."""
    with building(root) as work:  # a private folder, since packages could be replaced otherwise
        debs = work / "debs"
        debs.mkdir()
        _run(["apt-get", *options, "-q", "download", *packages], cwd=debs)
        for package in sorted(debs.glob("*.deb")):
            _run(["dpkg", "-x", str(package), str(work)])
        shutil.rmtree(debs)
        work.chmod(0o755)


def _run(args: Sequence[str], *, cwd: Path | None = None, check: bool = True) -> str:
    """The output of a program, in English. Raises UnavailableError where it does not run or is too
    slow, and with `check` where it fails, with its last words."""
    try:
        answer = run_command(args, FETCH_S, cwd=cwd, umask=0o022)
    except subprocess.TimeoutExpired:
        raise UnavailableError(f"{' '.join(args)}: not done in {FETCH_S:g} s") from None
    except OSError as error:
        raise UnavailableError(f"{args[0]} does not run: {error.strerror}") from None
    if check and answer.returncode != 0:
        raise UnavailableError(f"{' '.join(args)}: failed ({last_line(answer.stderr, NOTHING)})")
    return answer.stdout
