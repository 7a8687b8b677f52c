"""macvlan, bridge, OVS or SR-IOV for containers, compared only if they do the same work.

From https://github.com/spidernet-io/cni-plugins/issues/108,
https://github.com/moby/moby/issues/35032 and https://github.com/moby/moby/issues/37685. A macvlan
forwards by the addresses of its ports, a bridge learns: figures of different modes are not ranked
as equals unless the user requests it. Unknown kinds of switch ports are refused with the list of
known kinds."""

from __future__ import annotations

from pathlib import Path

from tests.cases.planning import planned, refusal

FOR_CONTAINERS = "switch: [macvlan, linux-bridge, ovs-netdev, tc-redirect]\nenvironment: docker\n"


def test_different_modes_are_refused_with_a_remedy(tmp_path: Path) -> None:
    line = refusal(tmp_path, FOR_CONTAINERS)
    for word in ("macvlan: veb", "mixed_connect_modes: true"):
        assert word in line


def test_different_modes_on_request_use_their_own_modes(tmp_path: Path) -> None:
    plan = planned(tmp_path, FOR_CONTAINERS, "mixed_connect_modes=true")
    modes = {one.switch: str(one.connect_mode) for one in plan.trials}
    assert modes["macvlan"] == "veb"
    assert modes["linux-bridge"] != "veb"


def test_unknown_port_kind_is_refused_with_the_kinds(tmp_path: Path) -> None:
    """An OVS user requests an internal port."""
    line = refusal(tmp_path, "switch: ovs-netdev\nport_kind: internal\n")
    assert "'internal'" in line and "veth" in line
