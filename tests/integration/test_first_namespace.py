"""A machine without network namespaces: the bench makes the first, `ip` the second."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]

# In a mount namespace with an empty /run, as after a first boot.
PROGRAM = """
import os, subprocess
from switchmark.host.kernel import netlink
from switchmark.host.kernel import namespaces
from switchmark.host.undo.entries import NetworkNamespace

subprocess.run(["mount", "-t", "tmpfs", "tmpfs", "/run"], check=True)
namespaces.create_namespace("smfirst")
subprocess.run(["ip", "netns", "add", "smsecond"], check=True)
NetworkNamespace("smfirst").undo()
print(*sorted(os.listdir("/run/netns")))
namespaces.create_namespace("smfirst")  # its name is free again
subprocess.run(["ip", "netns", "exec", "smfirst", "true"], check=True)
for name in ("smfirst", "smsecond"):
    NetworkNamespace(name).undo()
print(*sorted(os.listdir("/run/netns")))
"""


def test_a_namespace_can_be_removed_after_ip_made_another() -> None:
    done = subprocess.run(
        ["unshare", "--mount", sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["smsecond", ""]
