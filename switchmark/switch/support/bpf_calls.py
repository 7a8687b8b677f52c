"""The bpf(2) calls for maps, for programs, and for their places in the kernel.

Numbers and layouts are those of the kernel's ABI (include/uapi/linux/bpf.h). No library is needed.
The log of the kernel's verifier names errors in a program.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import struct
from collections.abc import Sequence
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.host.facts import parse_cpu_list
from switchmark.host.kernel.mounts import libc

SYSCALL_NUMBER = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361, "s390x": 351}
POSSIBLE_CORES = Path("/sys/devices/system/cpu/possible")
MAP_CREATE, MAP_LOOKUP, MAP_UPDATE, MAP_DELETE, MAP_NEXT_KEY = 0, 1, 2, 3, 4
PROG_LOAD, LINK_CREATE = 5, 28
RAW_TRACEPOINT_OPEN = 17
MAP_HASH, MAP_ARRAY, MAP_PERCPU_ARRAY, MAP_DEVMAP = 1, 2, 6, 14
MAP_DEVMAP_HASH = 25
PROG_TYPE_TC, PROG_TYPE_XDP, PROG_TYPE_RAW_TRACEPOINT = 3, 6, 17
ATTACH_XDP = 37
XDP_HAS_FRAGS = 1 << 5  # a frame may be in several buffers, as frames above 3.5 kB are
XDP_DRIVER_MODE = 1 << 2  # only native XDP, because generic XDP is a different path

LOG_BYTES = 1 << 16


def create_map(kind: int, key_bytes: int, value_bytes: int, entries: int) -> int:
    """Make a map, and return its file descriptor."""
    attributes = struct.pack("=IIII", kind, key_bytes, value_bytes, entries)
    return _bpf(MAP_CREATE, attributes, "make a map")


def update(map_fd: int, key: bytes, value: bytes) -> None:
    """Write one element of a map."""
    buffers = (
        ctypes.create_string_buffer(key, len(key)),
        ctypes.create_string_buffer(value, len(value)),
    )
    _bpf(MAP_UPDATE, _element(map_fd, *buffers), "write to a map")


def delete(map_fd: int, key: bytes) -> None:
    """Delete one element of a map."""
    key_buffer = ctypes.create_string_buffer(key, len(key))
    _bpf(MAP_DELETE, _element(map_fd, key_buffer), "delete from a map")


def look_up_per_core(map_fd: int, key: int) -> list[tuple[int, int]]:
    """Return the two 64-bit numbers that each core has under a key of a per-core array."""
    cores = possible_cores()
    key_buffer, value = ctypes.c_uint32(key), ctypes.create_string_buffer(16 * cores)
    _bpf(MAP_LOOKUP, _element(map_fd, key_buffer, value), "read a map")
    return list(struct.iter_unpack("=QQ", value.raw))


def look_up(map_fd: int, key: int, value_bytes: int) -> bytes:
    """Return the value of a key in an array."""
    key_buffer, value = ctypes.c_uint32(key), ctypes.create_string_buffer(value_bytes)
    _bpf(MAP_LOOKUP, _element(map_fd, key_buffer, value), "read a map")
    return value.raw


def count_keys(map_fd: int, key_bytes: int) -> int:
    """Return the number of keys in a map, which must not change meanwhile."""
    key = None
    following = ctypes.create_string_buffer(key_bytes)
    count = 0
    while True:
        place = 0 if key is None else ctypes.addressof(key)
        attributes = struct.pack("=IIQQQ", map_fd, 0, place, ctypes.addressof(following), 0)
        if _call(MAP_NEXT_KEY, attributes) < 0:
            if ctypes.get_errno() == errno.ENOENT:
                return count
            raise UnavailableError(_refused("list a map"))
        count += 1
        key = ctypes.create_string_buffer(following.raw, key_bytes)


def load_xdp(program: bytes) -> int:
    """Load an XDP program into the kernel, and return its file descriptor; see `load_program`."""
    return load_program(PROG_TYPE_XDP, program, "an XDP program", XDP_HAS_FRAGS)


def load_program(
    kind: int, program: bytes, name: str, flags: int = 0, licence_name: bytes = b"Apache-2.0"
) -> int:
    """Load a program of this type into the kernel, and return its file descriptor.

    Some helpers require the GPL as the program's licence. Raises `UnavailableError` with the end of
    the verifier's log."""
    text = ctypes.create_string_buffer(program, len(program))
    licence = ctypes.create_string_buffer(licence_name)
    log = ctypes.create_string_buffer(LOG_BYTES)
    for log_level in (0, 1):  # the log takes time, so it is only requested after an error
        attributes = struct.pack(
            "=IIQQIIQII16s",
            *(kind, len(program) // 8, ctypes.addressof(text), ctypes.addressof(licence)),
            *((log_level, LOG_BYTES, ctypes.addressof(log)) if log_level else (0, 0, 0)),
            *(0, flags, b"switchmark"),
        )
        try:
            return _bpf(PROG_LOAD, attributes, f"load {name}")
        except UnavailableError as error:
            message = " / ".join(log.value.decode(errors="replace").splitlines()[-3:])
            if log_level:
                raise UnavailableError(f"{error}: {message}") from None
    raise AssertionError("the second attempt returns or raises")


def attach_xdp(program_fd: int, interface_index: int) -> int:
    """Attach a program natively to a device in the calling thread's namespace. Return the link,
    which ends with its file descriptor or with the device."""
    attributes = struct.pack("=IIII", program_fd, interface_index, ATTACH_XDP, XDP_DRIVER_MODE)
    return _bpf(LINK_CREATE, attributes, "attach an XDP program to a device")


def attach_to_tracepoint(program_fd: int, name: str) -> int:
    """Attach a program to a tracepoint of the kernel. It ends with the returned descriptor."""
    text = ctypes.create_string_buffer(name.encode())
    attributes = struct.pack("=QII", ctypes.addressof(text), program_fd, 0)
    return _bpf(RAW_TRACEPOINT_OPEN, attributes, f"run a program at its tracepoint {name}")


def possible_cores() -> int:
    """Return the number of cores with values in per-core maps. Raises OSError if the kernel does
    not report it, since the kernel would then write beyond a buffer."""
    return len(parse_cpu_list(POSSIBLE_CORES.read_text()))


def close_all(descriptors: Sequence[int]) -> None:
    """Close the descriptors of maps, programs and links."""
    for descriptor in descriptors:
        os.close(descriptor)


def _element(
    map_fd: int,
    key: ctypes.Array[ctypes.c_char] | ctypes.c_uint32,
    value: ctypes.Array[ctypes.c_char] | None = None,
) -> bytes:
    place = 0 if value is None else ctypes.addressof(value)
    return struct.pack("=IIQQQ", map_fd, 0, ctypes.addressof(key), place, 0)


def _bpf(command: int, attributes: bytes, action: str) -> int:
    result = _call(command, attributes)
    if result < 0:
        raise UnavailableError(_refused(action))
    return result


def _refused(action: str) -> str:
    return f"BPF: the kernel does not {action}: {os.strerror(ctypes.get_errno())}"


def _call(command: int, attributes: bytes) -> int:
    number = SYSCALL_NUMBER.get(platform.machine())
    if number is None:
        raise UnavailableError(
            f"BPF: the system call's number on {platform.machine()} is not known"
        )
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    return int(libc().syscall(number, command, ctypes.byref(buffer), len(attributes)))
