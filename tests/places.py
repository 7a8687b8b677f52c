"""Marks that skip a test, with the reason, if the place does not allow a facility of the operating
system that the test needs (`switchmark/host/place`)."""

from __future__ import annotations

import os
import subprocess
import tempfile
from functools import cache

import pytest

from switchmark.host import place
from switchmark.host.place import Facility

NAMESPACES = (Facility.NETWORK_NAMESPACE, Facility.NETWORK_DEVICE)


def reason_to_skip(*facilities: Facility) -> str | None:
    """Return the reason why this place does not allow one of these facilities, or None."""
    answer = place.missing(*facilities)
    return None if answer is None else f"needs more than this place allows: {answer.reason}"


def needs(*facilities: Facility) -> pytest.MarkDecorator:
    """Return a mark for tests that need these facilities."""
    reason = reason_to_skip(*facilities)
    return pytest.mark.skipif(reason is not None, reason=reason or "")


needs_namespaces = needs(*NAMESPACES)


@cache
def _becomes_another_user() -> bool:
    """Return True if a program can be started as the user `nobody`, and can own a file."""
    command = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "true"]
    try:
        with tempfile.NamedTemporaryFile() as file:
            os.chown(file.name, 65534, -1)
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


needs_another_user = pytest.mark.skipif(
    not _becomes_another_user(), reason="needs more than this place allows: another user's id"
)
