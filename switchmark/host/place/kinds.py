"""The kind of place in which the bench runs. It chooses the words of a remedy and nothing else:
whether something can be done is found by trying it (`tries`)."""

from __future__ import annotations

import os
from enum import StrEnum
from functools import cache
from pathlib import Path

from switchmark.host.kernel.capabilities import NEEDED, has_capability
from switchmark.host.place.tries import user_namespace
from switchmark.host.private.start import Reason, is_inside

# Files and environment variables by which container engines mark a container.
POD_FILE, POD_VARIABLE = "/run/secrets/kubernetes.io", "KUBERNETES_SERVICE_HOST"
MARK_FILES = ("/.dockerenv", "/run/.containerenv", POD_FILE)
MARK_VARIABLES = ("container", POD_VARIABLE)
ALL_USERS = 0xFFFFFFFF  # the length of the identity mapping in /proc/self/uid_map


class PlaceKind(StrEnum):
    """The kinds of place (docs/places.md)."""

    ROOT = "root"  # root of a machine, or a privileged container
    USER = "user"  # an ordinary user, also in a user namespace that the user made
    CONTAINER = "container"  # a container whose root may not administer the host
    PRIVATE = "private"  # namespaces of the bench's own (--private) of a user who needs none


Kind = PlaceKind  # for use as `place.Kind`


@cache
def kind() -> Kind:
    """The kind of this place."""
    if (reason := is_inside()) is not None:
        return Kind.PRIVATE if reason is Reason.CHOICE else Kind.USER
    in_user_namespace = is_user_namespace(Path("/proc/self/uid_map").read_text())
    if has_capability(NEEDED["sys_admin"]) and not in_user_namespace:
        return Kind.ROOT
    # Root without CAP_SYS_ADMIN exists in containers only, whether they are marked or not. If such
    # a container allows user namespaces, it offers what an ordinary user has.
    if (is_marked() or os.geteuid() == 0) and not _makes_user_namespaces():
        return Kind.CONTAINER
    return Kind.USER


def _makes_user_namespaces() -> bool:
    try:
        user_namespace()
    except OSError:
        return False
    return True


def is_user_namespace(uid_map: str) -> bool:
    """Return True if a text of /proc/PID/uid_map is not that of the initial user namespace."""
    return [int(number) for number in uid_map.split()] != [0, 0, ALL_USERS]


def is_marked() -> bool:
    """Return True if a container engine has left a mark of this being a container."""
    return any(map(os.path.exists, MARK_FILES)) or any(map(os.environ.get, MARK_VARIABLES))


def is_pod() -> bool:
    """Return True if this container belongs to a pod of Kubernetes."""
    return Path(POD_FILE).exists() or bool(os.environ.get(POD_VARIABLE))
