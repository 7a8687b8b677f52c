"""Facilities that the place of the bench allows: root of a machine, an ordinary user, an ordinary
container. All code that needs a privilege calls this package.

Each facility is tried once in a process by really using it. The user id decides nothing: root of a
container may be refused everything, and an account may have been given what it needs.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.host.place import remedies
from switchmark.host.place.facility import Facility
from switchmark.host.place.kinds import Kind, kind
from switchmark.host.place.limits import PlaceLimits, read_limits
from switchmark.host.place.remedies import COMMAND
from switchmark.host.place.tries import TRIES
from switchmark.host.private.start import is_inside
from switchmark.model.capabilities import Availability, available, unavailable

__all__ = [
    "Facility", "Kind", "PlaceLimits", "can", "forget", "hidden_networks", "kind",
    "limits", "missing", "require", "require_proc", "try_all",
]  # fmt: skip

PROC = Path("/proc")


@cache
def can(facility: Facility) -> Availability:
    """Return whether the place allows a facility; if not, with the reason and the remedy in this
    place. The first call tries it, which takes some milliseconds. Raises UnavailableError if /proc
    is not mounted."""
    require_proc()
    try:
        TRIES[facility]()
    except OSError as error:
        reason = error.strerror or str(error)
        if facility is Facility.NETWORK_NAMESPACE and kind() is Kind.USER and is_inside() is None:
            return _no_private_namespaces(reason)
        return remedies.refusal(facility, kind(), reason, error.errno)
    return available("yes")


def require_proc() -> None:
    """Raise UnavailableError if /proc is not mounted: without it, the bench cannot recognize
    processes and mounts."""
    if not (PROC / "self").exists():
        raise UnavailableError(f"{PROC} is not mounted; as root: mount -t proc proc {PROC}")


def _no_private_namespaces(reason: str) -> Availability:
    """Return the reason why an ordinary user cannot create network namespaces in a user
    namespace."""
    answer = can(Facility.USER_NAMESPACE)
    if not answer.available:
        return answer
    text = "an ordinary user cannot make network namespaces outside of a user namespace"
    return unavailable(f"{text} ({reason})", COMMAND)


def missing(*facilities: Facility) -> Availability | None:
    """The first of these facilities that the place does not allow, with reason and remedy; None if
    it allows all."""
    answers = map(can, facilities)
    return next((answer for answer in answers if not answer.available), None)


def hidden_networks() -> Availability | None:
    """Return why the networks, processes and containers of the host are not visible, with the
    remedy; None if they are."""
    if is_inside() is None:
        return None
    remedy = remedies.SHARE if kind() is Kind.PRIVATE else remedies.SUDO
    return unavailable(
        "the bench runs in private namespaces, which hide the networks, processes and containers "
        "of the host",
        remedy,
    )


def require(user: str, *facilities: Facility) -> None:
    """Raise UnavailableError, with reason and remedy, if the place does not allow one of these
    facilities, which `user` needs."""
    if (answer := missing(*facilities)) is not None:
        raise UnavailableError(f"{user}: {answer.refusal}")


def limits() -> PlaceLimits:
    """The present limits of CPU time, memory, tasks and files in this place."""
    return read_limits()


def try_all(facilities: Iterable[Facility] = Facility) -> dict[Facility, Availability]:
    """Try these facilities, before the process gives up its capabilities or to list them."""
    return {facility: can(facility) for facility in facilities}


def forget() -> None:
    """Try everything anew: this process has moved to other namespaces."""
    can.cache_clear()
    kind.cache_clear()
