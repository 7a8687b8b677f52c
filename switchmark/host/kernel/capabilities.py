"""Running without root: the capabilities that network namespaces and devices require.

An account that is not root can have them from its Python (file capabilities) or from its login.
Either way the programs that the bench starts (`ip`, the engine) need them, too, and get them only
as ambient capabilities: see capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.host.kernel.mounts import checked, libc

# By their numbers in linux/capability.h: what `ip netns`, veth devices and bridges, packet
# sockets and a state directory in /run take.
NEEDED = {"dac_override": 1, "net_admin": 12, "net_raw": 13, "sys_admin": 21}
SETCAP = ",".join(f"cap_{name}" for name in NEEDED) + "+ep"
# What no bench uses, and nothing that it starts: neither switches, tools nor container engines.
NEVER = {
    "net_broadcast": 11, "ipc_owner": 15, "sys_pacct": 20, "sys_boot": 22, "sys_time": 25,
    "sys_tty_config": 26, "lease": 28, "audit_control": 30, "mac_override": 32, "syslog": 34,
    "wake_alarm": 35, "block_suspend": 36, "audit_read": 37, "checkpoint_restore": 40,
    "linux_immutable": 9,
}  # fmt: skip
FILES = {"dac_override": 1}  # reading and writing what belongs to others
READING = {"dac_read_search": 2}  # files of others, in folders closed to others
LISTENING = {"net_bind_service": 10}  # at ports below `UNPRIVILEGED_PORT`
UNPRIVILEGED_PORT = 1024
_VERSION_3 = 0x20080522
_PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_CAP_AMBIENT, _RAISE = 24, 38, 47, 2
_SETPCAP = 8  # what it takes to narrow the bounding set
_NUMBERS = 64


def hand_on() -> None:
    """Pass the capabilities of this process on to everything that it starts. Does nothing if some
    are missing, or for user id 0, to whose programs execve(2) passes them itself. Raises
    OSError."""
    if os.geteuid() == 0 or not _needed(_set("CapPrm")):
        return
    with _own_sets() as words:
        words[2] |= _bits(NEEDED.values())
    for number in NEEDED.values():
        _checked(libc().prctl(_PR_CAP_AMBIENT, _RAISE, number, 0, 0))


def give_up_unused() -> None:
    """Give up what no bench uses, for good, and for everything that is started from now on. Before
    this process has other threads. Raises OSError."""
    _keep((1 << _NUMBERS) - 1 - _bits(NEVER.values()))


def keep_only(kept: Iterable[int]) -> None:
    """Give up all other capabilities, and whatever programs could gain, for good. Before this
    process has other threads. Raises OSError."""
    _keep(_bits(kept))
    _checked(libc().prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))


def _keep(kept: int) -> None:
    for number in range(_NUMBERS):
        if not kept >> number & 1 and libc().prctl(_PR_CAPBSET_DROP, number, 0, 0, 0) != 0:
            break  # the kernel knows no more of them, or an account may not
    with _own_sets() as words:
        for index in range(6):
            words[index] &= kept >> 32 * (index // 3) & 0xFFFFFFFF


@contextmanager
def _own_sets() -> Iterator[ctypes.Array[ctypes.c_uint32]]:
    """The effective, permitted and inheritable set of this process, twice 32 bits each, which are
    set as they are left. Raises OSError."""
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    words = (ctypes.c_uint32 * 6)()
    _checked(libc().capget(header, words))
    yield words
    _checked(libc().capset(header, words))


def _bits(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in set(numbers))


def narrowed_to(may: Sequence[str], words: Iterable[str] = ()) -> list[str]:
    """The words before a command line that start it with these capabilities and no others, for
    good; with `dac_override`, too, where one of its `words` is a path through a folder that its
    owner keeps to himself, such as the home of who built the program.

    A bench that is not root hands on what it has of them. Without CAP_SETPCAP the bounding set
    cannot be narrowed; the programs of an account get nothing from it either. Raises
    UnavailableError without `setpriv`."""
    if (setpriv := shutil.which("setpriv")) is None:
        raise UnavailableError(
            "no `setpriv` program, which starts programs with no more rights than they need",
            remedy="apt install util-linux",
        )
    if any(is_closed(word) for word in words if word.startswith("/")):
        may = [*may, "dac_override"]
    held = _set("CapAmb")
    handed_on = _words([one for one in may if held >> NEEDED.get(one, 63) & 1])
    bounds = ["--bounding-set", _words(may)] if has_capability(_SETPCAP) else []
    sets = ["--inh-caps", handed_on, "--ambient-caps", handed_on, *bounds]
    return [setpriv, "--no-new-privs", *sets, "--"]


def is_closed(path: str | Path) -> bool:
    """Whether root needs `dac_override` on the way to this file or folder."""
    named, real = Path(path).absolute(), Path(os.path.realpath(path))  # (of a loop of links, too)
    for place in {named, *named.parents, real, *real.parents}:
        with suppress(OSError):
            found = place.stat()
            if found.st_uid != os.geteuid() and not found.st_mode & 0o001:
                return True
    return False


def _words(names: Sequence[str]) -> str:
    return ",".join(["-all", *(f"+{name}" for name in names)])


def has_capability(number: int) -> bool:
    """Return True if the capability of this number is in the effective set of the process."""
    return bool(_set("CapEff") >> number & 1)


def _needed(held: int) -> bool:
    return all(held >> number & 1 for number in NEEDED.values())


def _set(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1], 16)
    return 0


def _checked(result: int) -> None:
    checked(result, "capabilities cannot be handed on")
