"""Control groups of the bench are removed together with the processes in them."""

from __future__ import annotations

import subprocess

import pytest

from switchmark.host.kernel import cgroups
from switchmark.host.kernel.procfs import ProcessIdentity

pytestmark = pytest.mark.integration
NAME = "smgroupstest"


def test_named_group_is_removed_and_its_processes_ended() -> None:
    """A container engine leaves such a group if it could not start a container."""
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        groups = []
        try:
            for base in cgroups.bases():
                group = base / NAME / "nested"
                try:
                    group.mkdir(parents=True)
                    groups.append(group)
                    (group / "cgroup.procs").write_text(f"{sleeper.pid}\n")
                except OSError:  # cpuset without cores or version 2 takes no process
                    continue
            members = {one.pid for one in cgroups.members([group.parent for group in groups])}
            if sleeper.pid not in members:
                pytest.skip("no hierarchy here takes a process")
            cgroups.remove_named(NAME)
            assert sleeper.wait(10) is not None
            assert [group for group in groups if group.parent.exists()] == []
        finally:
            sleeper.kill()
    cgroups.remove_named(NAME)
    assert ProcessIdentity.of(sleeper.pid) is None
