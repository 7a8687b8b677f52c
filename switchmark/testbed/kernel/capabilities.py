"""Running without root: the capabilities that network namespaces and devices require.

An account that is not root can have them from its Python (file capabilities) or from its login.
Either way the programs that the bench starts (`ip`, the engine) need them, too, and get them only
as ambient capabilities: see capabilities(7).
"""

from __future__ import annotations

import ctypes
import os
import shutil
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.testbed.kernel.mounts import libc

# By their numbers in linux/capability.h: what `ip netns`, veth devices and bridges, packet
# sockets and a state directory in /run take.
NEEDED = {"dac_override": 1, "net_admin": 12, "net_raw": 13, "sys_admin": 21}
SETCAP = ",".join(f"cap_{name}" for name in NEEDED) + "+ep"
_VERSION_3 = 0x20080522
_PR_CAP_AMBIENT, _RAISE = 47, 2


def enough() -> bool:
    """Whether this process is root, or everything that it starts has the capabilities."""
    return os.geteuid() == 0 or _needed(_set("CapAmb"))


def hand_on() -> None:
    """Pass the capabilities of this process on to everything that it starts. Does nothing for root,
    or where some are missing. Raises OSError."""
    if os.geteuid() == 0 or not _needed(_set("CapPrm")):
        return
    header = (ctypes.c_uint32 * 2)(_VERSION_3, 0)
    words = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; twice 32 bits each
    _checked(libc().capget(header, words))
    words[2] |= sum(1 << number for number in NEEDED.values())
    _checked(libc().capset(header, words))
    for number in NEEDED.values():
        _checked(libc().prctl(_PR_CAP_AMBIENT, _RAISE, number, 0, 0))


def narrowed_to(may: Sequence[str], words: Iterable[str] = ()) -> list[str]:
    """The words before a command line that start it with these capabilities and no others, for
    good; with `dac_override`, too, where one of its `words` is a path through a folder that its
    owner keeps to himself, such as the home of who built the program.

    A bench that is not root hands on what it has of them; it cannot narrow the bounding set, from
    which such a program gets nothing either. Raises UnavailableError without `setpriv`."""
    if (setpriv := shutil.which("setpriv")) is None:
        raise UnavailableError(
            "no `setpriv` program, which starts programs with no more rights than they need; "
            "apt install util-linux"
        )
    if any(_closed(word) for word in words if word.startswith("/")):
        may = [*may, "dac_override"]
    if os.geteuid() == 0:
        handed_on, bounds = "-all", ["--bounding-set", _words(may)]
    else:
        held = _set("CapAmb")
        handed_on, bounds = _words([one for one in may if held >> NEEDED.get(one, 63) & 1]), []
    sets = ["--inh-caps", handed_on, "--ambient-caps", handed_on, *bounds]
    return [setpriv, "--no-new-privs", *sets, "--"]


def _closed(path: str) -> bool:
    """Whether root needs `dac_override` on the way to this file or folder."""
    named, real = Path(path), Path(path).resolve()
    for place in {named, *named.parents, real, *real.parents}:
        with suppress(OSError):
            found = place.stat()
            if found.st_uid != os.geteuid() and not found.st_mode & 0o001:
                return True
    return False


def _words(names: Sequence[str]) -> str:
    return ",".join(["-all", *(f"+{name}" for name in names)])


def _needed(held: int) -> bool:
    return all(held >> number & 1 for number in NEEDED.values())


def _set(name: str) -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1], 16)
    return 0


def _checked(result: int) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"capabilities cannot be handed on: {os.strerror(number)}")
