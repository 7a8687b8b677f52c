"""The state directory (ledgers, sockets) and the cache directory of the bench on a machine.

Environment variables move both, for tests and for users without `/run`. A bench with a moved state
directory is separate: it does not see other benches.
"""

from __future__ import annotations

import errno
import os
import re
import stat
from contextlib import suppress
from pathlib import Path

from switchmark.errors import UnavailableError, UsageError

# A UNIX socket path holds 107 characters; sockets lie some 45 below the state directory.
LONGEST_STATE_DIR = 60
SYSTEM_STATE = Path("/run/switchmark")
SYSTEM_CACHE = Path("/var/cache/switchmark")
_STRANGE = re.compile(r"[^A-Za-z0-9._+/-]")  # characters that some programs refuse in a path


def state_dir() -> Path:
    """Return the directory of ledgers and run directories (`SWITCHMARK_STATE_DIR`)."""
    if not (named := os.environ.get("SWITCHMARK_STATE_DIR")):
        return SYSTEM_STATE if _can_write(SYSTEM_STATE) else user_state()
    path = Path(named)
    if not path.is_absolute():
        raise UsageError(f"SWITCHMARK_STATE_DIR={path}: must be an absolute path")
    if _STRANGE.search(str(path)):
        raise UsageError(
            f"SWITCHMARK_STATE_DIR={path}: use only letters, digits and . _ + - /, since LXC's"
            " mount entries and command lines of switches accept no other characters"
        )
    if len(str(path)) > LONGEST_STATE_DIR:
        raise UsageError(
            f"SWITCHMARK_STATE_DIR={path}: {len(str(path))} characters, longer than"
            f" {LONGEST_STATE_DIR}",
            remedy="socket paths below it would not fit: choose a shorter one",
        )
    return path


def user_state() -> Path:
    """Return the state directory of a user who cannot write to /run.

    It follows the XDG Base Directory Specification. Otherwise it is in /tmp, for example in a
    container whose user has no entry in /etc/passwd."""
    named = Path(os.environ.get("XDG_RUNTIME_DIR", ""))  # The specification forbids relative paths.
    path = named / SYSTEM_STATE.name
    fits = len(str(path)) <= LONGEST_STATE_DIR and not _STRANGE.search(str(path))
    if named.is_absolute() and fits and _can_write(path):
        return path
    return Path(f"/tmp/{SYSTEM_STATE.name}-{os.geteuid()}")


def cache_dir() -> Path:
    """Return the directory of files that are kept between runs (`SWITCHMARK_CACHE_DIR`)."""
    if named := os.environ.get("SWITCHMARK_CACHE_DIR"):
        path = Path(named)
        if not path.is_absolute():
            raise UsageError(f"SWITCHMARK_CACHE_DIR={path}: must be an absolute path")
        return path
    return SYSTEM_CACHE if _can_write(SYSTEM_CACHE) else user_cache()


def user_cache() -> Path:
    """Return the cache directory of a user who cannot write to the system's cache directory.

    It follows the XDG Base Directory Specification."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))  # The specification forbids relative paths.
    base = named if named.is_absolute() else Path(os.path.expanduser("~/.cache"))  # noqa: PTH111
    return base / SYSTEM_CACHE.name


def _can_write(folder: Path) -> bool:
    """Return True if this process may write to a folder, or create it if it does not exist."""
    nearest = next(path for path in (folder, *folder.parents) if path.exists())
    return os.access(nearest, os.W_OK, effective_ids=True)


def state_folder() -> Path:
    """Return the state directory, created if it does not exist; see `own_folder`."""
    return own_folder(state_dir(), "SWITCHMARK_STATE_DIR", "its entries are executed as root")


def cache_folder(name: str) -> Path:
    """Return a folder of the cache directory, created if it does not exist; see `own_folder`."""
    trust = "root runs programs that are stored there"
    own_folder(cache_dir(), "SWITCHMARK_CACHE_DIR", trust)
    return own_folder(cache_dir() / name, "SWITCHMARK_CACHE_DIR", trust)


def own_folder(folder: Path, setting: str, trust: str, mode: int = 0o755) -> Path:
    """Return a folder to which only this user can have written; create it if it does not exist.

    The umask has no effect. `trust` is the danger if other users could write to it, for the
    message. Raises UnavailableError, UsageError."""
    try:
        make_folder(folder, mode)
    except (FileExistsError, NotADirectoryError, FileNotFoundError):
        raise UsageError(
            f"{folder}: cannot be created", remedy=f"name another with {setting}"
        ) from None
    except PermissionError:
        raise UnavailableError(
            f"{folder}: cannot be written", remedy=f"name another with {setting}"
        ) from None
    if not folder.is_dir():
        raise UsageError(f"{folder}: is not a folder", remedy=f"name another with {setting}")
    if not os.access(folder, os.W_OK, effective_ids=True):
        raise UnavailableError(
            f"{folder}: cannot be written", remedy=f"name another with {setting}"
        )
    status = folder.stat()
    if problem := not_ours(status):
        raise UsageError(
            f"{folder}: {problem}, and {trust}",
            remedy="remove it, or check its content, and chown and chmod it (go-w)",
        )
    if status.st_mode & 0o077 & ~mode:
        raise UsageError(
            f"{folder}: others may read it (mode {stat.S_IMODE(status.st_mode):o}), and {trust}",
            remedy="remove it",
        )
    return folder


def make_folder(folder: Path, mode: int = 0o755) -> None:
    """Create a folder and its parents so that no other user can write to them.

    The umask has no effect. An existing folder is left as it is. Raises OSError."""
    if folder.exists():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):  # Another process created it meanwhile.
        folder.mkdir(mode=mode)
        folder.chmod(mode)


def read_trusted(path: Path, most_bytes: int) -> bytes:
    """Return the content of a file that only this user and root could have written.

    Raises OSError, also for a file that others could have written."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if (status.st_uid != 0 and not_ours(status)) or status.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "others could have written it", str(path))
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            raise OSError(errno.EINVAL, "not a file of the bench", str(path))
        return file.read(most_bytes)


def not_ours(status: os.stat_result) -> str | None:
    """Return why other users could have written a file or folder; None if only this user can.

    Such a file must not be trusted: a ledger lists files that root removes."""
    if status.st_uid != os.geteuid():
        return f"belongs to another user (uid {status.st_uid})"
    if status.st_mode & 0o022:
        return f"others may write it (mode {stat.S_IMODE(status.st_mode):o})"
    return None
