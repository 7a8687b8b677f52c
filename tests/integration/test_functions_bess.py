"""VXLAN in BESS: the proof passes in each direction, and finds planted errors.

The ports are veth ends on packet sockets of DPDK, which the rig can drive; trials have vhost-user
ports, with the same modules between them."""

from __future__ import annotations

import pytest

from switchmark.model.functions import FunctionList
from switchmark.model.ports import ConnectMode
from switchmark.model.trial import Trial
from tests.function_mutations import Mutation, mutations_of
from tests.integration import function_rig
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, needs_root]


@pytest.fixture(autouse=True)
def packet_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give BESS ports of another kind, and the rights that they take."""
    function_rig.give_bess_veth_ports(monkeypatch)


def vxlan(direction: str, tunnels: int) -> Trial:
    function = FunctionList.of("forward+vxlan")
    return function_rig.trial_of("bess", function=function, direction=direction, tunnels=tunnels)


@pytest.mark.parametrize(("direction", "tunnels"), [("encap", 1), ("decap", 40), ("both", 40)])
def test_bess_tunnels_pass_their_proof(direction: str, tunnels: int) -> None:
    """Each station has its tunnel; frames of unknown tunnels are dropped."""
    note = function_rig.run_proof(vxlan(direction, tunnels), mode=ConnectMode.CROSS_CONNECT)
    assert note.announced == note.read_back == {"stations": tunnels, "tunnels": tunnels}
    assert note.must_arrive > 1 and note.must_not_arrive > 3


@pytest.mark.parametrize("mutation", mutations_of(("vxlan",)), ids=lambda one: one.name)
def test_planted_error_in_tunnels_is_found(mutation: Mutation) -> None:
    function_rig.assert_is_found(vxlan("encap", 4), mutation, ConnectMode.CROSS_CONNECT)
