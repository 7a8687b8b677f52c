"""Function vxlan under load: every counted frame has the outer header of its tunnel, and wrong
tunnels are found, in each switch that has the function."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from switchmark.certify.support.rig import plan_for
from switchmark.function.support.table import FunctionTable
from switchmark.host.session import open_session
from switchmark.record import Record
from switchmark.switch.bess import Bess
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.ovs_afxdp import OvsAfxdp
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.ovs_netdev import OvsNetdev
from switchmark.switch.vpp import Vpp
from switchmark.trial import function_proof
from switchmark.trial.evidence import Baseline
from switchmark.trial.run import run_trial
from tests.integration.machine import needs_root

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]
Change = Callable[[FunctionTable], FunctionTable]
ATTEMPTS = 3
KINDS: tuple[Any, ...] = (LinuxBridge, OvsNetdev, OvsAfxdp, OvsDpdk, Vpp, Bess)
SETTINGS = {
    "function": "forward+vxlan", "tunnels": "20", "flows": "200", "rate": "2k", "burst": "1",
    "duration": "1s", "interval": "100ms",
}  # fmt: skip
WAYS = {
    "encap": {"direction": "encap"},
    "decap": {"direction": "decap"},
    "both": {"direction": "both", "bidirectional": "true"},
}


def unchanged(table: FunctionTable) -> FunctionTable:
    return table


def with_last_vni(change: Callable[[FunctionTable], int]) -> Change:
    """Return a change of the VNI of the last tunnel. The bench verifies paths by the first one."""

    def changed(table: FunctionTable) -> FunctionTable:
        *others, last = table.tunnels
        return replace(table, tunnels=(*others, replace(last, vni=change(table))))

    return changed


def measured(kind: Any, change: Change = unchanged, **settings: str) -> Record:
    """Return the record of a trial whose switch gets a changed table. On a machine so busy that no
    sample is whole, the trial runs again."""

    class Given(kind):  # type: ignore[misc]
        def start(self, *arguments: object) -> None:
            assert self.function_table is not None
            self.function_table = change(self.function_table)
            super().start(*arguments)

    switch = Given()
    if not switch.availability().available:
        pytest.skip(f"{switch.name}: {switch.availability().reason}")
    for _ in range(ATTEMPTS):
        plan = plan_for(Given(), **{**SETTINGS, **settings})
        with open_session(measuring=False) as session:
            record = run_trial(
                session, plan, campaign="tunnels", run_id="tunnels", provenance={},
                observe=lambda _: None, baseline=Baseline(),
            )  # fmt: skip
        if "kept it from its core" not in (record.message or ""):
            break
    assert record.status == "finished", record.message
    assert record.function is not None and record.verdict is not None
    assert record.throughput is not None and record.throughput.forwarded_pps > 0
    return record


@pytest.mark.parametrize(
    ("kind", "way"),
    [*((kind, "encap") for kind in KINDS), (LinuxBridge, "decap"), (OvsNetdev, "decap"),
     (LinuxBridge, "both"), (OvsNetdev, "both")],
)  # fmt: skip
def test_right_frames_in_tunnels_violate_nothing(kind: Any, way: str) -> None:
    record = measured(kind, **WAYS[way])
    note = record.function
    assert note is not None and record.verdict is not None
    assert (note.wrong_next_hop, note.wrong_header, note.denied_arrived) == (0, 0, 0)
    assert note.denied_sent > 0
    assert "function-violated" not in record.verdict.marks


@pytest.mark.parametrize("kind", KINDS)
def test_wrong_vni_under_load_is_found(kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A switch that encapsulates a twentieth of the frames with another VNI."""
    monkeypatch.setattr(function_proof, "probes_of", lambda _table: [])
    record = measured(kind, with_last_vni(lambda table: table.tunnels[-1].vni + 5000))
    note = record.function
    assert note is not None and record.verdict is not None
    assert note.wrong_header > 0 and note.denied_arrived == 0
    assert "function-violated" in record.verdict.marks
    assert not record.verdict.valid


@pytest.mark.parametrize("kind", KINDS)
def test_unknown_vni_that_passes_under_load_is_found(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A switch that decapsulates frames with a VNI that it must not have."""
    monkeypatch.setattr(function_proof, "probes_of", lambda _table: [])
    record = measured(
        kind, with_last_vni(lambda table: table.unknown_tunnel.vni), direction="decap"
    )
    note = record.function
    assert note is not None and record.verdict is not None
    assert note.denied_arrived > 0
    assert "function-violated" in record.verdict.marks


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_largest_number_of_tunnels_is_performed(kind: Any) -> None:
    """The scale that the switch declares loads, passes its proof, and carries load."""
    scale = kind.capabilities.functions["vxlan"].scale
    record = measured(kind, tunnels=str(scale), flows=str(scale))
    note = record.function
    assert note is not None and note.announced == note.read_back
    assert (note.wrong_next_hop, note.wrong_header, note.denied_arrived) == (0, 0, 0)
