"""The image that a node's machine boots: the distribution's kernel, and an initramfs of the bench.

It holds what a container's root holds (the engine with its libraries, a static BusyBox), the few
kernel modules that its devices need, and a script as its first process. It is built once for each
set of these and kept in the cache, under a key of their names, sizes and times. A machine's job
comes with its command line, through QEMU's firmware configuration device.
"""

from __future__ import annotations

import itertools
import os
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from switchmark.atomic_files import write_atomically
from switchmark.environment.support.rootfs import (
    DPDK_DRIVERS,
    OF_FUNCTIONS,
    build_root,
    install,
    key_of,
    shared_libraries,
)
from switchmark.environment.vm.archive import (
    archive,
    kernel_image,
    module_files,
    modules_for,
    tree,
)
from switchmark.environment.vm.packages import Kernel, kernel, machines_folder
from switchmark.errors import UnavailableError

# In the order in which they are loaded. A module that is not there is built into the kernel.
FIRST = "qemu_fw_cfg"  # the job is read through it before the other modules are loaded
MODULES = ("uio_pci_generic", "virtio_pci", "virtio_console", "virtio_net", "bridge")

JOB = "opt/switchmark/job"  # the item of QEMU's firmware configuration
MOST_MIB, MOST_FILES = 64, 10_000  # limits of a user's program, its folder and its libraries
ILLEGAL_INSTRUCTION = 132  # exit code of a program that was ended by SIGILL

# The root lies in memory and can be written: nothing is mounted over /tmp and /run, where a program
# of the user's may be. The job sets `dpdk` (PCI addresses that DPDK drives), `run` (the command, as
# a shell line), and the function `ports` (sets up the devices that the kernel drives).
INIT = f"""\
#!/usr/bin/busybox sh
export PATH=/usr/bin
b=/usr/bin/busybox
say() {{ echo "guest: $*"; }}
load() {{ for m in $($b cat $1); do $b insmod /modules/$m || say "module $m: not loaded"; done; }}
off() {{ say "$*"; $b poweroff -f; }}
there() {{
  n=0
  until [ -e $1 ] || [ $n -ge 300 ]; do n=$((n + 1)); $b sleep 0.1; done
  [ -e $1 ]
}}
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
load /modules/first
$b cat /sys/firmware/qemu_fw_cfg/by_name/{JOB}/raw >/run/job || off "nothing to do was handed over"
. /run/job
for d in $dpdk; do echo uio_pci_generic >/sys/bus/pci/devices/$d/driver_override; done
load /modules/then
$b ip link set lo up
ports
there '/dev/vport*p1' && exec 3<>"$(echo /dev/vport*p1)" || off "no channel to the bench"
eval "$run <&3 >&3"
code=$?
say "engine ended with exit code $code"
[ $code -ne {ILLEGAL_INSTRUCTION} ] || say "the engine has instructions that this CPU lacks:" \\
  "build one with meson setup build-vm -Dmarch=x86-64-v2; SWITCHMARK_VM_TRAFFIC=FILE names it"
$b poweroff -f
"""


@dataclass(frozen=True, slots=True)
class Image:
    """A kernel and an initramfs to boot."""

    kernel: Path
    initramfs: Path
    release: str  # the kernel's release
    key: str  # the initramfs's key


def build_image(engine: Path, functions: Sequence[str] = ()) -> Image:
    """The image for this engine, built now or before; with drivers for PCI functions that the guest
    is given, each as the kernel describes it (`modalias`). Raises UnavailableError."""
    drivers = (*DPDK_DRIVERS, *OF_FUNCTIONS) if functions else DPDK_DRIVERS
    guest_kernel = kernel()
    modules = modules_for(guest_kernel, functions) if functions else []
    return image_of(guest_kernel, build_root(engine, drivers), modules)


def image_of(guest_kernel: Kernel, root: Path, more_modules: Sequence[str] = ()) -> Image:
    """The image of a kernel and a root directory."""
    first = module_files(guest_kernel, (FIRST,))
    names = (*MODULES, *more_modules)
    then = [path for path in module_files(guest_kernel, names) if path not in first]
    key = key_of(f"{INIT}\0{root.name}\0{guest_kernel.release}\0", [*first, *then])
    initramfs = machines_folder() / f"initramfs-{key}.cpio"
    if not initramfs.exists():
        write_atomically(initramfs, contents(root, first, then), 0o600)
    return Image(kernel_image(guest_kernel), initramfs, guest_kernel.release, key)


def with_program(image: Image, program: Path, work: Path) -> Image:
    """The image with a program of the host's, the files of its folder (but for those of /usr) and
    the libraries that they load, each under the path that it has here: a second archive behind the
    first. They are copied below `work`, a folder of the session's, until it is made.

    Raises UnavailableError where a library is missing, or they are too large."""
    beside = [] if program.resolve().is_relative_to("/usr") else _files(program.parent)
    programs = {program, *(path for path in beside if os.access(path, os.X_OK))}
    libraries = {path for one in programs for path in shared_libraries(one)}
    files = sorted({*programs, *beside, *libraries})
    if sum(path.stat().st_size for path in files) > MOST_MIB << 20:
        raise UnavailableError(
            f"{program.parent}: holds more than {MOST_MIB} MiB, which do not fit into a guest",
            remedy="put the program into a separate folder",
        )
    key = key_of(image.key, files)
    initramfs = machines_folder() / f"initramfs-{key}.cpio"
    if not initramfs.exists():
        with tempfile.TemporaryDirectory(dir=work) as folder:
            for path in files:
                install(Path(folder), path)
            more = archive(tree(Path(folder)))
            write_atomically(initramfs, image.initramfs.read_bytes() + more, 0o600)
    return replace(image, initramfs=initramfs, key=key)


def _files(folder: Path) -> list[Path]:
    """The files below a folder; where there are very many, more than fit into a guest."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return list(itertools.islice(found, MOST_FILES))


def contents(root: Path, first: list[Path], then: list[Path]) -> bytes:
    """The content of the archive: the root's files, the modules and their order, the first
    process."""
    files = {path.name: path.read_bytes() for path in (*first, *then)}
    for name, listed in (("first", first), ("then", then)):
        files[name] = "\n".join(path.name for path in listed).encode()
    return archive(
        [
            *tree(root),
            ("init", 0o100755, INIT.encode()),
            ("modules", 0o040755, b""),
            *((f"modules/{name}", 0o100644, content) for name, content in files.items()),
        ]
    )
