"""Control groups of ours are taken away with what still runs in them."""

from __future__ import annotations

import subprocess

import pytest

from switchmark.host.kernel import cgroups
from switchmark.host.kernel.procfs import ProcessIdentity

pytestmark = pytest.mark.integration
NAME = "smgroupstest"


def test_what_runs_in_a_named_group_is_ended_and_the_group_is_gone() -> None:
    """As after a container engine that could not start a container and went without it."""
    with subprocess.Popen(["sleep", "1000"]) as sleeper:
        made = []
        try:
            for base in cgroups.bases():
                group = base / NAME / "nested"
                try:
                    group.mkdir(parents=True)
                    made.append(group)
                    (group / "cgroup.procs").write_text(f"{sleeper.pid}\n")
                except OSError:  # no processes may be in it (cpuset without cores, version 2)
                    continue
            held = {one.pid for one in cgroups.members([group.parent for group in made])}
            if sleeper.pid not in held:
                pytest.skip("no hierarchy here takes a process")
            cgroups.remove_named(NAME)
            assert sleeper.wait(10) is not None
            assert [group for group in made if group.parent.exists()] == []
        finally:
            sleeper.kill()
    cgroups.remove_named(NAME)
    assert ProcessIdentity.of(sleeper.pid) is None
