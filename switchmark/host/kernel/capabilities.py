"""Capabilities of the bench and of the programs that it starts (capabilities(7)).

An account that is not root can have capabilities from its Python (file capabilities) or from its
login. The programs that the bench starts (`ip`, the engine) also need them, and inherit them only
as ambient capabilities.
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.host.kernel.mounts import check_result, libc

# With their numbers in linux/capability.h. `ip netns`, veth devices, bridges, packet sockets and a
# state directory in /run require them.
NEEDED = {"dac_override": 1, "net_admin": 12, "net_raw": 13, "sys_admin": 21}
# Neither the bench nor switches, tools and container engines use these.
NEVER = {
    "net_broadcast": 11, "ipc_owner": 15, "sys_pacct": 20, "sys_boot": 22, "sys_time": 25,
    "sys_tty_config": 26, "lease": 28, "audit_control": 30, "mac_override": 32, "syslog": 34,
    "wake_alarm": 35, "block_suspend": 36, "audit_read": 37, "checkpoint_restore": 40,
    "linux_immutable": 9,
}  # fmt: skip
FILES = {"dac_override": 1}  # to read and write files of other users
READING = {"dac_read_search": 2}  # to read files in folders that other users have closed
LISTENING = {"net_bind_service": 10}  # to listen at ports below `UNPRIVILEGED_PORT`
UNPRIVILEGED_PORT = 1024
_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _RAISE = 24, 38, 47, 2
_SETPCAP = 8  # required to remove capabilities from the bounding set
_NUMBERS = 64


def make_ambient() -> None:
    """Let all programs that this process starts inherit its capabilities.

    It does nothing if some are missing, or for user ID 0, whose programs get them from execve(2).
    Raises OSError."""
    if os.geteuid() == 0 or not _needed(_set("CapPrm")):
        return
    with _capability_sets() as sets:
        sets[2] |= _bits(NEEDED.values())
    for number in NEEDED.values():
        _checked(libc().prctl(_PR_CAP_AMBIENT, _RAISE, number, 0, 0))


def drop_unused() -> None:
    """Drop the capabilities in `NEVER` permanently, also for all programs that are started later.

    Call it before this process has other threads. Raises OSError."""
    _keep((1 << _NUMBERS) - 1 - _bits(NEVER.values()))


def keep_only(numbers: Iterable[int]) -> None:
    """Drop all capabilities except these permanently, and prevent programs from gaining any.

    Call it before this process has other threads. Raises OSError."""
    _keep(_bits(numbers))
    _checked(libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _keep(mask: int) -> None:
    for number in range(_NUMBERS):
        if not mask >> number & 1 and libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # The kernel has no more capabilities, or the account may not drop them.
    with _capability_sets() as sets:
        for index in range(6):
            sets[index] &= mask >> 32 * (index // 3) & 0xFFFFFFFF


@contextmanager
def _capability_sets() -> Iterator[ctypes.Array[ctypes.c_uint32]]:
    """Read the effective, permitted and inheritable sets of this process, two words of 32 bits
    each, and set them to the values that the caller leaves in the array. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)()
    _checked(libc().capget(header, sets))
    yield sets
    _checked(libc().capset(header, sets))


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def capability_prefix(names: Sequence[str], arguments: Iterable[str] = ()) -> list[str]:
    """Return the prefix of a command line that limits its program to these capabilities.

    `dac_override` is added if one of the `arguments` is a path through a folder that is closed to
    other users, for example the home of the user who built the program. A bench that is not root
    passes on the capabilities that it has. Without CAP_SETPCAP the bounding set cannot be reduced;
    programs of such an account gain nothing from the set. Raises UnavailableError without
    `setpriv`."""
    if (setpriv := shutil.which("setpriv")) is None:
        raise UnavailableError(
            "no `setpriv` program, which starts programs with the fewest privileges",
            remedy="apt install util-linux",
        )
    if any(is_closed(path) for path in arguments if path.startswith("/")):
        names = [*names, "dac_override"]
    ambient = _set("CapAmb")
    inherited = _setpriv_list([name for name in names if ambient >> NEEDED.get(name, 63) & 1])
    bounds = ["--bounding-set", _setpriv_list(names)] if has_capability(_SETPCAP) else []
    sets = ["--inh-caps", inherited, "--ambient-caps", inherited, *bounds]
    return [setpriv, "--no-new-privs", *sets, "--"]


def is_closed(path: str | Path) -> bool:
    """Return True if root needs `dac_override` to reach this file or folder."""
    # realpath also returns a path for a loop of links.
    named, real = Path(path).absolute(), Path(os.path.realpath(path))
    for place in {named, *named.parents, real, *real.parents}:
        with suppress(OSError):
            status = place.stat()
            if status.st_uid != os.geteuid() and not status.st_mode & 0o001:
                return True
    return False


def _setpriv_list(names: Sequence[str]) -> str:
    return ",".join(["-all", *(f"+{name}" for name in names)])


def has_capability(number: int) -> bool:
    """Return True if the capability of this number is in the effective set of the process."""
    return bool(_set("CapEff") >> number & 1)


def _needed(capabilities: int) -> bool:
    return all(capabilities >> number & 1 for number in NEEDED.values())


def _set(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1], 16)
    return 0


def _checked(result: int) -> None:
    check_result(result, "capabilities cannot be set")
