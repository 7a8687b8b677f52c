"""Where the bench keeps what it must remember on a machine: ledgers, sockets, caches.

Environment variables move both places, so that tests and users without `/run` have their own; a
moved state directory is a separate bench that sees no other.
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
_STRANGE = re.compile(r"[^A-Za-z0-9._+/-]")  # characters that some programs take amiss in a path


def state_dir() -> Path:
    """The directory of ledgers and run directories (`SWITCHMARK_STATE_DIR`)."""
    if not (named := os.environ.get("SWITCHMARK_STATE_DIR")):
        return SYSTEM_STATE if _can_write(SYSTEM_STATE) else user_state()
    path = Path(named)
    if not path.is_absolute():
        raise UsageError(f"SWITCHMARK_STATE_DIR={path}: must be an absolute path")
    if _STRANGE.search(str(path)):
        raise UsageError(
            f"SWITCHMARK_STATE_DIR={path}: letters, digits and . _ + - / only, since LXC's mount"
            " entries and switches' command lines take nothing else"
        )
    if len(str(path)) > LONGEST_STATE_DIR:
        raise UsageError(
            f"SWITCHMARK_STATE_DIR={path}: {len(str(path))} characters, longer than"
            f" {LONGEST_STATE_DIR}",
            remedy="socket paths below it would not fit: choose a shorter one",
        )
    return path


def user_state() -> Path:
    """The state directory of a user who cannot write /run: by the XDG Base Directory Specification,
    or in /tmp, as in a container whose user has no entry in /etc/passwd."""
    named = Path(os.environ.get("XDG_RUNTIME_DIR", ""))  # (a relative path must be ignored)
    path = named / SYSTEM_STATE.name
    fits = len(str(path)) <= LONGEST_STATE_DIR and not _STRANGE.search(str(path))
    if named.is_absolute() and fits and _can_write(path):
        return path
    return Path(f"/tmp/{SYSTEM_STATE.name}-{os.geteuid()}")


def cache_dir() -> Path:
    """The directory of things that are kept between runs (`SWITCHMARK_CACHE_DIR`)."""
    if named := os.environ.get("SWITCHMARK_CACHE_DIR"):
        path = Path(named)
        if not path.is_absolute():
            raise UsageError(f"SWITCHMARK_CACHE_DIR={path}: must be an absolute path")
        return path
    return SYSTEM_CACHE if _can_write(SYSTEM_CACHE) else user_cache()


def user_cache() -> Path:
    """The cache directory of a user who cannot write the system's, by the XDG Base Directory
    Specification."""
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))  # (a relative path must be ignored)
    base = named if named.is_absolute() else Path(os.path.expanduser("~/.cache"))  # noqa: PTH111
    return base / SYSTEM_CACHE.name


def _can_write(folder: Path) -> bool:
    """Whether this process may write in a folder, or make it if it does not exist."""
    nearest = next(one for one in (folder, *folder.parents) if one.exists())
    return os.access(nearest, os.W_OK, effective_ids=True)


def state_folder() -> Path:
    """The state directory, made now if need be; see `own_folder`."""
    return own_folder(state_dir(), "SWITCHMARK_STATE_DIR", "its entries are executed as root")


def cache_folder(name: str) -> Path:
    """A folder of the cache directory, made now if need be; see `own_folder`."""
    trust = "what is kept there is run as root"
    own_folder(cache_dir(), "SWITCHMARK_CACHE_DIR", trust)
    return own_folder(cache_dir() / name, "SWITCHMARK_CACHE_DIR", trust)


def own_folder(folder: Path, setting: str, trust: str, mode: int = 0o755) -> Path:
    """A folder that only this user can have written in, made now if need be, whatever the umask
    says. `trust` says what would follow if others could. Raises UnavailableError, UsageError."""
    try:
        make_folder(folder, mode)
    except (FileExistsError, NotADirectoryError, FileNotFoundError):
        raise UsageError(
            f"{folder}: cannot be made a folder", remedy=f"name another with {setting}"
        ) from None
    except PermissionError:
        raise UnavailableError(
            f"{folder}: cannot be written", remedy=f"name another with {setting}"
        ) from None
    if not folder.is_dir():
        raise UsageError(f"{folder}: is no folder", remedy=f"name another with {setting}")
    if not os.access(folder, os.W_OK, effective_ids=True):
        raise UnavailableError(
            f"{folder}: cannot be written", remedy=f"name another with {setting}"
        )
    seen = folder.stat()
    if problem := not_ours(seen):
        raise UsageError(
            f"{folder}: {problem}, and {trust}",
            remedy="remove it, or look at what is in it, and chown and chmod it (go-w)",
        )
    if seen.st_mode & 0o077 & ~mode:
        raise UsageError(
            f"{folder}: others may read it (mode {stat.S_IMODE(seen.st_mode):o}), and {trust}",
            remedy="remove it",
        )
    return folder


def make_folder(folder: Path, mode: int = 0o755) -> None:
    """Make a folder, and those above it, in which nobody else can write, whatever the umask; leave
    one that is there as it is. Raises OSError."""
    if folder.exists():
        return
    make_folder(folder.parent)
    with suppress(FileExistsError):  # made meanwhile
        folder.mkdir(mode=mode)
        folder.chmod(mode)


def read_trusted(path: Path, most_bytes: int) -> bytes:
    """The content of a file that nobody but this user and root could have written. Raises OSError,
    for any other one, too."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(fd, "rb") as file:
        seen = os.fstat(fd)
        if (seen.st_uid != 0 and not_ours(seen)) or seen.st_mode & 0o022:
            raise PermissionError(errno.EPERM, "others could have written it", str(path))
        if not stat.S_ISREG(seen.st_mode) or seen.st_size > most_bytes:
            raise OSError(errno.EINVAL, "no file of ours", str(path))
        return file.read(most_bytes)


def not_ours(found: os.stat_result) -> str | None:
    """Why a file or folder must not be trusted, since others could have written it; None when only
    this user can. A ledger tells root what to remove."""
    if found.st_uid != os.geteuid():
        return f"belongs to another user (uid {found.st_uid})"
    if found.st_mode & 0o022:
        return f"others may write it (mode {stat.S_IMODE(found.st_mode):o})"
    return None
