"""What a machine may lack for an environment: each answer is None where it is there."""

from __future__ import annotations

import os

from switchmark.environment.support.rootfs import find_busybox
from switchmark.errors import UnavailableError
from switchmark.model.capabilities import Availability, unavailable, unavailable_for
from switchmark.testbed.kernel import capabilities

_NOT_ROOT = unavailable("not root", remedy="run switchmark as root (sudo)")


def not_root() -> Availability | None:
    """Unavailable for everybody but root."""
    return None if os.geteuid() == 0 else _NOT_ROOT


def no_rights() -> Availability | None:
    """Unavailable without what making namespaces and devices takes: root, or its capabilities."""
    return None if capabilities.enough() else _NOT_ROOT


def no_busybox() -> Availability | None:
    """Unavailable without a static BusyBox, of which containers and guests have their tools."""
    try:
        find_busybox()
    except UnavailableError as error:
        return unavailable_for(error)
    return None
