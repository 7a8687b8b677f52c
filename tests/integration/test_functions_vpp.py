"""VXLAN in VPP, on veth ports: the proof passes in each direction, and finds planted errors."""

from __future__ import annotations

import pytest

from switchmark.model.functions import FunctionList
from switchmark.model.ports import ConnectMode
from switchmark.model.trial import Trial
from tests.function_mutations import Mutation, mutations_of
from tests.integration import function_rig
from tests.integration.machine import needs_root
from tests.integration.switch_rig import veth_ends

pytestmark = [pytest.mark.integration, needs_root]


@pytest.fixture(autouse=True)
def veth_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """VPP prefers vhost-user ports, which the rig cannot drive."""
    monkeypatch.setattr(
        function_rig, "port_ends", lambda session, _, count: veth_ends(session, count)
    )


def vxlan(direction: str, tunnels: int) -> Trial:
    function = FunctionList.of("forward+vxlan")
    return function_rig.trial_of("vpp", function=function, direction=direction, tunnels=tunnels)


@pytest.mark.parametrize("direction", ["encap", "decap", "both"])
def test_vpp_tunnels_pass_their_proof(direction: str) -> None:
    """Each station has its tunnel; frames of unknown tunnels are dropped."""
    note = function_rig.run_proof(vxlan(direction, 40), mode=ConnectMode.CROSS_CONNECT)
    assert note.announced == note.read_back == {"tunnels": 40}
    assert note.must_arrive > 10 and note.must_not_arrive > 3


@pytest.mark.parametrize("mutation", mutations_of(("vxlan",)), ids=lambda one: one.name)
def test_planted_error_in_tunnels_is_found(mutation: Mutation) -> None:
    function_rig.assert_is_found(vxlan("encap", 4), mutation, ConnectMode.CROSS_CONNECT)
