"""What a guest boots: the kernel without its wrapping, and an initramfs of our own that holds
BusyBox and the modules needed to reach the host's files over 9p.

The guest's root is the host's own, read-only, under a layer in memory: our engine, the bench
and its Python are there as they are on the host, and nothing the guest does reaches the host.
"""

from __future__ import annotations

import lzma
import re
import struct
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path

from tests.vm.packages import Kernel, NotHereError, cache_folder

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
for d in run tmp dev/shm dev/pts exchange; do $b mkdir -p /host/$d; done
for d in run dev/shm; do $b mount -t tmpfs tmpfs /host/$d; done
$b mount -t devpts devpts /host/dev/pts
$b mkdir -p /host/lib/modules /host/run/lock
$b mount -t 9p -o trans=virtio,version=9p2000.L,cache=loose,ro,msize=262144 modules \
  /host/lib/modules
$b mount -t 9p -o trans=virtio,version=9p2000.L,msize=262144 exchange /host/exchange
exec $b chroot /host /bin/sh /exchange/start
"""


def kernel_image(kernel: Kernel) -> Path:
    """The kernel to boot: the plain ELF file where it can be taken out (it starts sooner, and
    needs no decompression under emulation), else the image as packaged."""
    plain = cache_folder() / f"vmlinux-{kernel.release}"
    if plain.exists():
        return plain
    packed = kernel.image.read_bytes()
    setup_sectors = packed[0x1F1] or 4
    offset, length = struct.unpack_from("<II", packed, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    try:
        bytes_ = decompressed(packed[begin : begin + length])
    except (lzma.LZMAError, zlib.error, OSError, subprocess.CalledProcessError):
        return kernel.image
    if not bytes_.startswith(b"\x7fELF"):
        return kernel.image
    plain.write_bytes(bytes_)
    return plain


def decompressed(payload: bytes) -> bytes:
    """By its first bytes; behind it stand four bytes of length."""
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(
            ["zstd", "-dcq"], input=payload[:-4], capture_output=True, check=True
        ).stdout
    return payload


def initramfs(kernel: Kernel) -> Path:
    """The archive, made anew each time: it takes a tenth of a second."""
    if not BUSYBOX.exists() or b"statically" not in file_kind(BUSYBOX):
        raise NotHereError("no static BusyBox at /bin/busybox; apt install busybox-static")
    modules = module_files(kernel, BOOT_MODULES)
    entries: list[tuple[str, int, bytes]] = [
        *((name, 0o040755, b"") for name in ("bin", "modules")),
        ("init", 0o100755, INIT.encode()),
        ("bin/busybox", 0o100755, BUSYBOX.read_bytes()),
        ("modules.list", 0o100644, "\n".join(path.name for path in modules).encode()),
        *((f"modules/{path.name}", 0o100644, path.read_bytes()) for path in modules),
    ]
    archive = cache_folder() / f"initramfs-{kernel.release}.cpio"
    archive.write_bytes(b"".join(newc(*entry) for entry in [*entries, ("TRAILER!!!", 0, b"")]))
    return archive


def file_kind(path: Path) -> bytes:
    """`statically` where an ELF file asks for no dynamic linker."""
    return b"" if b"/ld-linux-x86-64" in path.read_bytes() else b"statically"


def newc(name: str, mode: int, content: bytes) -> bytes:
    """One entry of a cpio archive, as the kernel reads it."""
    encoded = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return padded(head) + padded(content)


def padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def module_files(kernel: Kernel, wanted: Iterable[str]) -> list[Path]:
    """The files of these modules, each after those it needs; built-in ones have none."""
    needs: dict[str, tuple[Path, list[str]]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[module_name(path)] = kernel.modules / path, [module_name(o) for o in others.split()]
    ordered: dict[str, Path] = {}

    def take(name: str) -> None:
        if name in needs and name not in ordered:
            path, others = needs[name]
            for other in others:
                take(other)
            ordered[name] = path

    for name in wanted:
        take(name)
    return list(ordered.values())


def module_name(path: str) -> str:
    return re.sub(r"\.ko(\..*)?$", "", Path(path).name).replace("-", "_")
