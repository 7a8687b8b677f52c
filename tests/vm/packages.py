"""The guest's kernel and, where the host's is too old, QEMU: distribution packages, fetched by
apt into a cache and unpacked with `dpkg -x`. Nothing is installed.

`SWITCHMARK_VM_KERNEL` names an unpacked kernel package (a folder with `boot` and `lib/modules`)
to use instead, `SWITCHMARK_QEMU` a `qemu-system-x86_64`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DEFAULT_KERNEL = "linux-image-amd64"
IGB_SINCE = (8, 0)  # the first QEMU with an emulated NIC that has virtual functions
BACKPORTS = """\
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
http://deb.debian.org/debian bookworm-backports main
"""
QEMU_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")


class NotHereError(Exception):
    """Something a test needs is not to be had on this machine; says what and the remedy."""


@dataclass(frozen=True)
class Kernel:
    """An unpacked kernel package."""

    root: Path
    release: str

    @property
    def image(self) -> Path:
        return self.root / "boot" / f"vmlinuz-{self.release}"

    @property
    def modules(self) -> Path:
        return self.root / "lib/modules" / self.release


@dataclass(frozen=True)
class Qemu:
    """A QEMU for x86-64 guests."""

    program: Path
    version: tuple[int, ...]

    @property
    def data(self) -> list[str]:
        """Where an unpacked one has its firmware, as arguments."""
        share = self.program.parent.parent / "share"
        return [word for name in ("qemu", "seabios") for word in ("-L", str(share / name))]


def cache_folder() -> Path:
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    folder = base / "switchmark" / "vm"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@cache
def kernel(release: str | None = None) -> Kernel:
    """The guest's kernel: the one that was named, or the distribution's, or of that release."""
    if named := os.environ.get("SWITCHMARK_VM_KERNEL"):
        found = unpacked_kernel(Path(named))
        if found is None:
            raise NotHereError(f"SWITCHMARK_VM_KERNEL={named}: no boot/vmlinuz-* in it")
        if release in (None, found.release):
            return with_dependencies(found)
    root = cache_folder() / f"kernel-{release or 'default'}"
    if (found := unpacked_kernel(root)) is None:
        package = f"linux-image-{release}" if release else default_kernel_package()
        unpack([package], root)
        found = unpacked_kernel(root)
    if found is None:
        raise NotHereError(f"package {package} holds no kernel image")
    return with_dependencies(found)


def unpacked_kernel(root: Path) -> Kernel | None:
    images = sorted((root / "boot").glob("vmlinuz-*"))
    return Kernel(root, images[-1].name.removeprefix("vmlinuz-")) if images else None


def with_dependencies(found: Kernel) -> Kernel:
    """`modprobe` in the guest wants an index, which a package makes when it is installed."""
    if not (found.modules / "modules.dep").exists():
        depmod = shutil.which("depmod", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
        if depmod is None:
            raise NotHereError("program `depmod` not found; apt install kmod")
        subprocess.run([depmod, "-b", str(found.root), found.release], check=True)
    return found


def default_kernel_package() -> str:
    answer = subprocess.run(
        ["apt-cache", "depends", DEFAULT_KERNEL], capture_output=True, text=True, check=False
    )
    match = re.search(r"Depends: (linux-image-\S+)", answer.stdout)
    if match is None:
        raise NotHereError(
            f"apt knows no {DEFAULT_KERNEL}; run apt-get update, or name an unpacked kernel "
            "package: SWITCHMARK_VM_KERNEL=FOLDER"
        )
    return match[1]


@cache
def qemu(*, with_igb: bool = False) -> Qemu:
    """A QEMU; with an emulated igb, where that is asked for, from backports if need be."""
    name = os.environ.get("SWITCHMARK_QEMU") or "qemu-system-x86_64"
    found = shutil.which(name)
    if found is None:
        raise NotHereError(f"program `{name}` not found; apt install qemu-system-x86")
    usual = Qemu(Path(found), version_of(found))
    if not with_igb or usual.version >= IGB_SINCE:
        return usual
    root = cache_folder() / "qemu"
    program = root / "usr/bin/qemu-system-x86_64"
    if not program.exists():
        unpack(QEMU_PACKAGES, root, BACKPORTS)
    return Qemu(program, version_of(str(program)))


def version_of(program: str) -> tuple[int, ...]:
    answer = subprocess.run([program, "--version"], capture_output=True, text=True, check=False)
    match = re.search(r"version (\d+)\.(\d+)", answer.stdout)
    if match is None:
        reason = (answer.stderr.strip().splitlines() or ["it says no version"])[-1]
        raise NotHereError(f"{program} does not run: {reason}")
    return int(match[1]), int(match[2])


def unpack(packages: Sequence[str], root: Path, sources: str | None = None) -> None:
    """Fetch packages and unpack them under `root`, all or nothing."""
    work = root.with_name(root.name + ".part")
    shutil.rmtree(work, ignore_errors=True)
    (work / "debs").mkdir(parents=True)
    options = private_sources(work, sources) if sources else []
    answer = subprocess.run(
        ["apt-get", *options, "-q", "download", *packages],
        cwd=work / "debs",
        capture_output=True,
        text=True,
        check=False,
    )
    if answer.returncode != 0:
        reason = (answer.stderr.strip().splitlines() or ["apt gave no reason"])[-1]
        raise NotHereError(f"{', '.join(packages)}: apt-get download failed ({reason})")
    for package in sorted((work / "debs").glob("*.deb")):
        subprocess.run(["dpkg", "-x", str(package), str(work)], check=True)
    shutil.rmtree(work / "debs")
    work.rename(root)


def private_sources(work: Path, sources: str) -> list[str]:
    """Options for an apt that knows these sources only, and leaves the host's lists alone."""
    (work / "apt/lists/partial").mkdir(parents=True)
    (work / "apt/sources.list").write_text(sources)
    options = [
        f"-oDir::Etc::sourcelist={work}/apt/sources.list",
        "-oDir::Etc::sourceparts=/dev/null",
        f"-oDir::State::Lists={work}/apt/lists",
        f"-oDir::Cache={work}/apt",
        "-oAPT::Sandbox::User=root",
    ]
    answer = subprocess.run(
        ["apt-get", *options, "-q", "update"], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0 or "Failed to fetch" in answer.stderr:
        raise NotHereError("bookworm-backports cannot be reached; set SWITCHMARK_QEMU (8.0 on)")
    return options
