"""What the bench may not do for lack of root's rights: each answer is None where it may."""

from __future__ import annotations

import os

from switchmark.model.capabilities import Availability, unavailable
from switchmark.testbed.kernel import capabilities

_NOT_ROOT = unavailable("not root", remedy="run switchmark as root (sudo)")


def not_root() -> Availability | None:
    """Unavailable for everybody but root."""
    return None if os.geteuid() == 0 else _NOT_ROOT


def no_rights() -> Availability | None:
    """Unavailable without what making namespaces and plain kernel devices takes: root, or its
    capabilities."""
    return None if capabilities.enough() else _NOT_ROOT
