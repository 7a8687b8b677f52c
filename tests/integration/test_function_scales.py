"""The largest declared scales of routes and rules: each is loaded, read back, and proven by frames.

    python -m pytest -m slow tests/integration/test_function_scales.py -k "million"

repeats the check of a million IPv4 routes in linux-router, ovs-netdev, vpp and bess."""

from __future__ import annotations

import pytest

from switchmark.model.functions import FunctionList
from switchmark.model.options import SwitchOptions
from switchmark.model.ports import ConnectMode
from switchmark.switch.registry import make_switch
from tests.integration import function_rig
from tests.integration.machine import needs_root

pytestmark = [pytest.mark.integration, pytest.mark.slow, needs_root]

LINEAR, SETS = "acl_engine:nft-linear", "acl_engine:nft-set"
ROUTERS = ("linux-router", "ovs-netdev", "vpp", "bess")
LISTS = (
    ("linux-router", LINEAR), ("linux-router", SETS), ("linux-bridge", LINEAR),
    ("linux-bridge", SETS), ("ovs-netdev", ""), ("vpp", ""),
    ("bess", "acl_lookup:linear"), ("bess", "acl_lookup:tuple-space"),
)  # fmt: skip


@pytest.fixture(autouse=True)
def veth_ports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give all switches veth ports, which the rig can drive: BESS by packet sockets of DPDK."""
    function_rig.give_bess_veth_ports(monkeypatch)


@pytest.mark.parametrize("switch", ROUTERS)
def test_million_routes_are_loaded_and_proven(switch: str) -> None:
    trial = function_rig.trial_of(
        switch,
        function=FunctionList.of("route"),
        routes=make_switch(switch).capabilities.functions["route"].scale,
    )
    assert trial.routes == 1_000_000
    note = function_rig.run_proof(trial)
    assert note.announced == note.read_back
    assert note.entries >= 1_000_000
    assert note.must_arrive > 50 and note.must_not_arrive >= 2


@pytest.mark.parametrize(("switch", "option"), LISTS)
def test_largest_list_is_loaded_and_proven(switch: str, option: str) -> None:
    support = make_switch(switch).capabilities.functions["acl"]
    scale, _ = support.scale_by_option.get(option, (support.scale, ""))
    assert scale is not None and scale >= 10_000
    base = "route" if switch == "linux-router" else "forward"
    mode = None if base == "route" else ConnectMode.CROSS_CONNECT
    trial = function_rig.trial_of(
        switch, function=FunctionList.of(f"{base}+acl"), rules=scale, routes=2,
        switch_options=SwitchOptions.of(option),
    )  # fmt: skip
    note = function_rig.run_proof(trial, mode=mode)
    assert note.announced == note.read_back
    assert note.entries >= scale
    assert note.must_arrive > 10 and note.must_not_arrive > 10
