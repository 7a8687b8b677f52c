"""QEMU with an emulated igb: where the host's is too old, packages of backports, fetched by apt
into the cache and unpacked with `dpkg -x`. Nothing is installed."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from switchmark.environment.vm import packages
from switchmark.environment.vm.packages import Qemu, machines_folder, unpack
from switchmark.errors import UnavailableError

IGB_SINCE = (8, 0)  # the first QEMU with an emulated NIC that has virtual functions
BACKPORTS = """\
deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] \
http://deb.debian.org/debian bookworm-backports main
"""
QEMU_PACKAGES = ("qemu-system-x86", "qemu-system-common", "qemu-system-data", "seabios")


@cache
def qemu(*, with_igb: bool = False) -> Qemu:
    """A QEMU; with an emulated igb, where that is asked for, from backports if need be."""
    usual = packages.qemu()
    if not with_igb or usual.version >= IGB_SINCE:
        return usual
    root = machines_folder() / "qemu"
    program = root / "usr/bin/qemu-system-x86_64"
    if not program.exists():
        unpack(QEMU_PACKAGES, root, private_sources(machines_folder() / "apt", BACKPORTS))
    return packages.qemu(str(program))


def private_sources(work: Path, sources: str) -> list[str]:
    """Options for an apt that knows these sources only, and leaves the host's lists alone."""
    (work / "lists/partial").mkdir(parents=True, exist_ok=True)
    (work / "sources.list").write_text(sources)
    options = [
        f"-oDir::Etc::sourcelist={work}/sources.list",
        "-oDir::Etc::sourceparts=/dev/null",
        f"-oDir::State::Lists={work}/lists",
        f"-oDir::Cache={work}",
        "-oAPT::Sandbox::User=root",
    ]
    answer = subprocess.run(
        ["apt-get", *options, "-q", "update"], capture_output=True, text=True, check=False
    )
    if answer.returncode != 0 or "Failed to fetch" in answer.stderr:
        raise UnavailableError("bookworm-backports cannot be reached; set SWITCHMARK_QEMU (8.0 on)")
    return options
