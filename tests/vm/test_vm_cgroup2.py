"""CPU quotas with the `cpu` controller of control groups version 2, in a guest that mounts no other
hierarchy, for switches on the host and in containers."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from switchmark.record import Record
from tests.vm.conftest import (
    HUGEPAGES,
    check_contract,
    check_forwarded,
    inside,
    records,
    trial,
)
from tests.vm.guest import Machine, Outcome

PREPARE = f"""\
mount -t cgroup2 cgroup2 /sys/fs/cgroup
{HUGEPAGES}
controllers() {{ cat /sys/fs/cgroup/cgroup.subtree_control; }}
controllers >/exchange/before
"""
FINISH = """
controllers >/exchange/after
find /sys/fs/cgroup -type d -name '*sm*' >/exchange/groups
cp -r /tmp/results /exchange/
"""


def measured(
    limits: list[str],
    more: str,
    machine: Machine,
    keep: Callable[[Outcome], Outcome],
) -> list[Record]:
    """Run a trial of each limit; no group of the bench may remain."""
    parameters = f"basicfwd --rate 500 --set connect_mode=cross-connect{more} --set cpu_limit="
    job = "".join(f"{trial(parameters + limit)} || true\n" for limit in limits)
    outcome = keep(machine.run(f"{PREPARE}{job}{FINISH}"))
    outcome.check()
    assert (outcome.folder / "groups").read_text() == ""
    if not more:  # LXC and Docker enable all controllers permanently.
        before, after = ((outcome.folder / name).read_text() for name in ("before", "after"))
        assert after == before
    return records(outcome, len(limits))


def check_quota(record: Record, share: float) -> None:
    """Check that a program that always polls used its quota and was throttled in most periods, by
    the kernel's counts."""
    check_forwarded(record, "basicfwd", "cross-connect")
    quota = record.cpu_quota
    assert quota is not None and quota.used_cores is not None
    assert (quota.cgroup_version, quota.share) == (2, share)
    assert quota.in_force, quota
    assert 0 < quota.used_cores <= share * 1.1 + 0.05, quota
    assert quota.periods > 0
    assert quota.throttled_periods > quota.periods / 2, quota
    assert quota.throttled_s > 0
    assert record.verdict is not None and "limit-not-in-force" not in record.verdict.marks


def test_quota_of_a_program_on_the_host(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    half, eighth = measured(["50%", "12.5%"], "", new_machine(), keep)
    check_quota(half, 0.5)
    check_quota(eighth, 0.125)
    for record in (half, eighth):
        assert record.cpu_quota is not None and record.cpu_quota.group.endswith("-limit")


def test_limits_are_read_and_refused(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    """As with groups of version 1: a quota, memory and tasks, also those of parents."""
    job = inside("tests/integration/test_place_limits.py", "process_reads or memory or less_than")
    enabled = "echo '+cpu +memory +pids' >/sys/fs/cgroup/cgroup.subtree_control\n"
    outcome = keep(new_machine().run(f"{PREPARE}{enabled}{job}"))
    check_contract(outcome, 3)


@pytest.mark.parametrize("place", ["lxc", "docker"])
def test_quota_of_a_program_in_a_container(
    place: str, new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    """The group belongs to its container."""
    more = f" --set switch_environment={place}"
    (record,) = measured(["25%"], more, new_machine(), keep)
    check_quota(record, 0.25)
    assert record.cpu_quota is not None
    assert not record.cpu_quota.group.endswith("-limit"), (
        "a group of the bench, not the container's"
    )
    assert f"in {place}]" in record.topology[0]
