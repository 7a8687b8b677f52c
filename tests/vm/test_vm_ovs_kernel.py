"""Open vSwitch's kernel datapath, with the module of the distribution's kernel package."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.vm.conftest import check_contract, check_forwarded, contract, records, trial
from tests.vm.guest import Machine, Outcome

JOB = f"""\
modprobe openvswitch
{trial("ovs --rate 2k")} || true
cp -r /tmp/results /exchange/
"""
GROUPS = "mount -t cgroup2 cgroup2 /sys/fs/cgroup\n"
# Other switches of Open vSwitch also have its name.
ONLY = "ovs and not netdev and not dpdk and not afxdp"


def test_ovs_kernel_datapath(
    new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    outcome = keep(new_machine().run(JOB))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "ovs", "learning")
    assert record.verification is not None
    assert record.verification.witness_frames == 0
    assert record.reconciliation is not None
    assert record.reconciliation.agrees
    assert "Linux 6" in record.switch_details["version"]


@pytest.mark.parametrize("place", ["lxc", "docker"])
def test_daemons_in_a_container(
    place: str, new_machine: Callable[..., Machine], keep: Callable[[Outcome], Outcome]
) -> None:
    """The datapath is the kernel's, in the network namespace of the container."""
    line = trial(f"ovs --rate 500 --set switch_environment={place}")
    job = f"modprobe openvswitch\n{GROUPS}{line} || true\ncp -r /tmp/results /exchange/\n"
    outcome = keep(new_machine().run(job))
    outcome.check()
    (record,) = records(outcome)
    check_forwarded(record, "ovs", "learning")
    assert f"in {place}]" in record.topology[0]


@pytest.mark.parametrize(
    ("which", "count"),
    [("forwards", 3), ("(starts or killed)", 2), ("not (forwards or starts or killed)", 5)],
    ids=["frames", "life-and-death", "requests"],
)
def test_contract(
    which: str,
    count: int,
    new_machine: Callable[..., Machine],
    keep: Callable[[Outcome], Outcome],
) -> None:
    """The tests of every switch, in parts that are short enough for an emulated guest: frames in
    all three modes; starting, stopping, dying, `kill -9` and cleaning; refusals, a second instance
    on the same ports and beside the first, missing resources."""
    job = f"modprobe openvswitch\n{contract(f'{ONLY} and {which}')}"
    check_contract(keep(new_machine().run(job)), count)
