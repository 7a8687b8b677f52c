"""Network functions of Open vSwitch in each datapath of user space: the proof passes with real
frames, and finds planted errors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host.session import open_session
from switchmark.model.choices import Dimension
from switchmark.model.functions import FunctionList
from switchmark.record import FunctionNote, Record
from switchmark.scenario.registry import expand
from switchmark.switch.ovs_afxdp import OvsAfxdp
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.support.ovs_switch import OvsSwitch
from switchmark.trial.deployment import Deployment
from switchmark.trial.evidence import Baseline
from switchmark.trial.function_proof import prove
from switchmark.trial.run import run_trial
from switchmark.trial.verification import wait_reachable
from tests.function_mutations import MUTATIONS, Mutation
from tests.integration.machine import needs_root

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
Change = Callable[[FunctionTable], FunctionTable]
CELLS = {
    "route": {"function": "route", "routes": "300"},
    "route v6": {"function": "route", "routes": "300", "ip_version": "6", "packet_size": "84"},
    "route+acl": {"function": "route+acl", "routes": "20", "rules": "200", "masks": "4"},
    "route+acl v6": {
        "function": "route+acl", "routes": "20", "rules": "200", "rule_hit": "uniform",
        "ip_version": "6", "packet_size": "84",
    },
    "forward+acl": {"function": "forward+acl", "rules": "200", "rule_hit": "none"},
    "push": {"function": "forward+vlan", "connect_mode": "cross-connect"},
    "pop": {
        "function": "forward+vlan", "direction": "pop", "packet_size": "68",
        "connect_mode": "learning",
    },
    "policer": {"function": "forward+policer", "cir": "10M", "cbs": "64k"},
    "mirror": {"function": "forward+mirror", "connect_mode": "learning"},
    "mirror of one pair": {
        "function": "forward+mirror", "connect_mode": "cross-connect", "scenario": "pairs-2",
    },
    "route+policer": {"function": "route+policer", "routes": "10"},
}  # fmt: skip
PLANTED = {
    "missing route": "route",
    "wrong next-hop MAC": "route v6",
    "wrong egress port": "route",
    "TTL not decremented": "route",
    "swapped rules": "route+acl",
    "missing rule": "route+acl",
    "wrong VLAN ID": "push",
    "mirror without copies": "mirror of one pair",  # an untaught learning switch floods
}


def unchanged(table: FunctionTable) -> FunctionTable:
    return table


def given_another_table(kind: type[OvsSwitch], change: Change) -> OvsSwitch:
    """Return a switch that gets a changed table."""

    class Planted(kind):  # type: ignore[misc, valid-type]
        def start(self, *arguments: object) -> None:
            assert self.function_table is not None
            self.function_table = change(self.function_table)
            super().start(*arguments)

    return Planted()  # type: ignore[no-any-return]


@contextmanager
def deployed(
    kind: type[OvsSwitch],
    settings: dict[str, str],
    change: Change = unchanged,
    tunnels: str = "",
) -> Iterator[tuple[Deployment, FunctionTable]]:
    """Deploy a switch with a changed table; yield the right one too."""
    switch = given_another_table(kind, change)
    if not switch.availability().available:
        pytest.skip(f"{switch.name}: {switch.availability().reason}")
    plan = plan_for(switch, **settings)
    if tunnels:  # campaigns refuse IPv6, since the engine cannot send a load in its tunnels
        function = FunctionList.of("forward+vxlan")
        trial = plan.trial.changed(
            {"function": function, "direction": tunnels, "tunnels": 20,
             "dimension": Dimension.LATENCY}
        )  # fmt: skip
        plan = replace(plan, trial=trial, topology=expand(trial))
    table = plan.function_table()
    assert table is not None
    with open_session(measuring=False) as session, Deployment(session, plan) as deployment:
        # A planted error may also stop the frames of the bench, as a tunnel does.
        if change is unchanged and not tunnels:
            wait_reachable(deployment.ends, plan.verify.timeout_s)
        switch.wait_converged()
        yield deployment, table


@contextmanager
def proof(
    kind: type[OvsSwitch],
    settings: dict[str, str],
    change: Change = unchanged,
    tunnels: str = "",
) -> Iterator[FunctionNote]:
    """Deploy a switch with a changed table, and prove it by the right one."""
    with deployed(kind, settings, change, tunnels) as (deployment, table):
        switch, plan = deployment.switch, deployment.plan
        assert isinstance(switch, OvsSwitch)
        testers = {
            port.index: engine
            for engine in [*deployment.engines, *deployment.monitors]
            for port in plan.topology.node(engine.node).ports
        }
        yield prove(switch.name, table, testers, switch.function_entries)


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("kind", [OvsNetdev, OvsAfxdp, OvsDpdk])
def test_function_passes_its_proof(kind: type[OvsSwitch], cell: str) -> None:
    with proof(kind, CELLS[cell]) as note:
        assert note.announced == note.read_back
        assert note.must_arrive > 0
        assert note.must_not_arrive > 0 or "policer" in cell or "mirror" in cell


@pytest.mark.parametrize("direction", ["encap", "decap"])
@pytest.mark.parametrize("version", ["4", "6"])
@pytest.mark.parametrize("kind", [OvsNetdev, OvsAfxdp, OvsDpdk])
def test_tunnels_pass_their_proof(kind: type[OvsSwitch], version: str, direction: str) -> None:
    """Frames of 20 tunnels have the right outer headers, and others are dropped."""
    settings = {"ip_version": version, "packet_size": "84"}
    with proof(kind, settings, tunnels=direction) as note:
        assert note.announced == note.read_back == {"tunnel entries": 40}
        assert note.must_arrive > 0 and note.must_not_arrive > 0


@pytest.mark.parametrize("kind", [OvsNetdev, OvsAfxdp, OvsDpdk])
def test_wrong_vni_is_found(kind: type[OvsSwitch]) -> None:
    mutation = next(one for one in MUTATIONS if one.name == "wrong VNI")
    with (
        pytest.raises(TrialFailed, match=mutation.message),
        proof(kind, {}, mutation.change, tunnels="encap"),
    ):
        pass


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
@pytest.mark.parametrize("kind", [OvsNetdev, OvsAfxdp, OvsDpdk])
def test_planted_error_is_found(kind: type[OvsSwitch], mutation: Mutation) -> None:
    if mutation.name not in PLANTED:
        pytest.skip(f"function {mutation.function} has a separate test")
    settings = CELLS[PLANTED[mutation.name]]
    with (
        pytest.raises(TrialFailed, match=mutation.message),
        proof(kind, settings, mutation.change),
    ):
        pass


def record_of(**settings: str) -> Record:
    """Return the record of a whole trial with ovs-netdev."""
    switch = OvsNetdev()
    if not switch.availability().available:
        pytest.skip(f"{switch.name}: {switch.availability().reason}")
    plan = plan_for(switch, duration="1s", **settings)
    with open_session() as session:
        record = run_trial(
            session, plan, campaign="lookups", run_id="lookups", baseline=Baseline(),
            provenance={}, observe=lambda _: None,
        )  # fmt: skip
    assert record.status == "finished", record.message
    return record


def test_record_has_copies_beside_the_loss_of_frames() -> None:
    note = record_of(function="forward+mirror", rate="1000").function
    assert note is not None
    assert 0 < note.copies_arrived <= note.copies_due
    assert note.copies_doubled == 0


def test_record_has_lookups_and_memory() -> None:
    """Frames of one flow are decided by a cache, and counted in the record."""
    record = record_of(function="route", routes="10")
    assert record.lookups is not None and record.function is not None
    decided = record.lookups.emc_hits + record.lookups.megaflow_hits
    assert decided > record.lookups.upcalls
    assert record.lookups.megaflows_after > 0
    assert (record.function.memory_kib or 0) > 1000


def test_memory_of_the_daemon_grows_with_routes() -> None:
    """A rule of OpenFlow takes more than 100 bytes."""
    record = record_of(function="route", routes="10000", rate="1000")
    note = record.function
    assert note is not None and not note.memory_is_kernel
    assert (note.table_memory_kib or 0) > 10_000 * 100 // 1024
