"""Parts of the boot files of a guest: the uncompressed kernel, and archives for an initramfs."""

from __future__ import annotations

import fnmatch
import lzma
import os
import re
import stat
import struct
import subprocess
import zlib
from collections.abc import Iterable
from pathlib import Path

from switchmark.atomic_files import write_atomically
from switchmark.environment.vm.packages import Kernel, machines_folder

Entry = tuple[str, int, bytes]  # path, mode with type, content (of a link: its target)


def kernel_image(kernel: Kernel) -> Path:
    """Return the kernel to boot: the plain ELF file if it can be extracted, otherwise the image of
    the package. The ELF file starts sooner, without decompression under emulation."""
    plain = machines_folder() / f"vmlinux-{kernel.release}"
    if plain.exists():
        return plain
    packed = kernel.image.read_bytes()
    setup_sectors = packed[0x1F1] or 4
    offset, length = struct.unpack_from("<II", packed, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    try:
        bytes_ = decompressed(packed[begin : begin + length])
    except (lzma.LZMAError, zlib.error, OSError, subprocess.SubprocessError):
        return kernel.image
    if not bytes_.startswith(b"\x7fELF"):
        return kernel.image
    write_atomically(plain, bytes_, 0o600)
    return plain


def decompressed(payload: bytes) -> bytes:
    """Decompress the payload by the method of its first bytes; four bytes of length follow it."""
    if payload.startswith(b"\xfd7zXZ"):
        return lzma.LZMADecompressor(lzma.FORMAT_XZ).decompress(payload)
    if payload.startswith(b"\x1f\x8b"):
        return zlib.decompressobj(31).decompress(payload)
    if payload.startswith(b"\x28\xb5\x2f\xfd"):
        return subprocess.run(
            ["zstd", "-dcq"], input=payload[:-4], capture_output=True, check=True, timeout=60
        ).stdout
    return payload


def archive(entries: Iterable[Entry]) -> bytes:
    """Return a cpio archive (newc) in the kernel's form."""
    return b"".join(newc(*entry) for entry in [*entries, ("TRAILER!!!", 0, b"")])


def newc(name: str, mode: int, content: bytes) -> bytes:
    """Return one entry of a cpio archive."""
    encoded = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(encoded), 0)
    head = b"070701" + b"".join(b"%08X" % field for field in fields) + encoded
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)


def tree(root: Path) -> list[Entry]:
    """Return every folder, file and link below a folder, with relative paths."""
    entries: list[Entry] = []
    for path in sorted(root.rglob("*")):
        status = path.lstat()
        content = b""
        if stat.S_ISLNK(status.st_mode):
            content = os.fsencode(path.readlink())
        elif stat.S_ISREG(status.st_mode):
            content = path.read_bytes()
        entries.append((str(path.relative_to(root)), status.st_mode, content))
    return entries


def module_files(kernel: Kernel, names: Iterable[str]) -> list[Path]:
    """Return the files of these modules, each after its dependencies; built-in modules have no
    file."""
    needs: dict[str, tuple[Path, list[str]]] = {}
    for line in (kernel.modules / "modules.dep").read_text().splitlines():
        path, _, others = line.partition(":")
        needs[_module_name(path)] = (
            kernel.modules / path,
            [_module_name(other) for other in others.split()],
        )
    ordered: dict[str, Path] = {}

    def take(name: str) -> None:
        if name in needs and name not in ordered:
            path, others = needs[name]
            for other in others:
                take(other)
            ordered[name] = path

    for name in names:
        take(name)
    return list(ordered.values())


def modules_for(kernel: Kernel, devices: Iterable[str]) -> list[str]:
    """Return the modules that drive these devices, which have the form of the kernel's `modalias`;
    nothing for built-in or missing drivers."""
    text = (kernel.modules / "modules.alias").read_text()
    rows = [line.split() for line in text.splitlines() if line.startswith("alias pci:")]
    aliases = set(devices)
    found = [
        name
        for _, pattern, name in rows
        if any(fnmatch.fnmatchcase(device, pattern) for device in aliases)
    ]
    return list(dict.fromkeys(found))


def _module_name(path: str) -> str:
    return re.sub(r"\.ko(\..*)?$", "", Path(path).name).replace("-", "_")
