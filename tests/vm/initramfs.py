"""The initramfs of a test guest: BusyBox and the modules needed to reach the host's files over 9p.

The guest's root is the host's own, read-only, under a layer in memory: engine, bench and Python are
available as on the host, and changes in the guest never reach the host.
"""

from __future__ import annotations

from pathlib import Path

from switchmark.atomic_files import write_atomically
from switchmark.environment.vm.archive import archive, module_files
from switchmark.environment.vm.packages import Kernel, machines_folder
from switchmark.errors import UnavailableError

BOOT_MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay")
BUSYBOX = Path("/bin/busybox")

INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev /lower /upper /host
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
for m in $($b cat /modules.list); do $b insmod /modules/$m || echo "init: $m failed"; done
$b mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,ro,msize=262144 root /lower
$b mount -t tmpfs tmpfs /upper
$b mkdir /upper/upper /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work overlay /host
for d in proc sys dev; do $b mount --move /$d /host/$d; done
$b ln -s /proc/self/fd/2 /host/dev/stderr
for d in run tmp dev/shm dev/pts exchange; do $b mkdir -p /host/$d; done
for d in run dev/shm; do $b mount -t tmpfs tmpfs /host/$d; done
$b mount -t devpts devpts /host/dev/pts
$b mkdir -p /host/lib/modules /host/run/lock
$b mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,ro,msize=262144 modules \
  /host/lib/modules
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 exchange /host/exchange
exec $b chroot /host /bin/sh /exchange/start
"""


def initramfs(kernel: Kernel) -> Path:
    """Build the archive, which takes a tenth of a second."""
    if not BUSYBOX.exists() or b"statically" not in file_kind(BUSYBOX):
        raise UnavailableError("no static BusyBox at /bin/busybox; apt install busybox-static")
    modules = module_files(kernel, BOOT_MODULES)
    entries: list[tuple[str, int, bytes]] = [
        *((name, 0o040755, b"") for name in ("bin", "modules")),
        ("init", 0o100755, INIT.encode()),
        ("bin/busybox", 0o100755, BUSYBOX.read_bytes()),
        ("modules.list", 0o100644, "\n".join(path.name for path in modules).encode()),
        *((f"modules/{path.name}", 0o100644, path.read_bytes()) for path in modules),
    ]
    place = machines_folder() / f"initramfs-tests-{kernel.release}.cpio"
    write_atomically(place, archive(entries), 0o600)
    return place


def file_kind(path: Path) -> bytes:
    """Return `statically` if an ELF file needs no dynamic linker."""
    return b"" if b"/ld-linux-x86-64" in path.read_bytes() else b"statically"
