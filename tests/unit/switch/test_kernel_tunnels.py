"""VXLAN devices of a bridge: the neutral table goes in, and lines of `ip` and `bridge` come out."""

from __future__ import annotations

from switchmark.model.functions import FunctionList
from switchmark.switch.support.kernel_tunnels import (
    announced,
    entry_lines,
    tunnel_lines,
    underlay_lines,
)
from tests.integration.function_rig import right_table, trial_of


def test_each_tunnel_is_a_device_with_a_static_entry() -> None:
    """The underlay port has room for outer headers, and the tunnel for whole inner frames."""
    trial = trial_of("linux-bridge", function=FunctionList.of("forward+vxlan"), tunnels=3, vni=7)
    table, topology = right_table(trial)
    assert "link set dev u mtu 1550" in list(underlay_lines(table, "u", 1500))
    lines = list(tunnel_lines(2, table.tunnels[2], "br", "u", 1500))
    assert lines[0] == (
        "link add vx2 mtu 1500 type vxlan id 9 local 198.19.1.1 remote 198.19.1.2 dstport 4789 "
        "dev u nolearning noudpcsum"
    )
    assert len(list(entry_lines(table, "a"))) == 4
    assert announced(table) == {"vxlan devices": 3, "static bridge entries": 4}
    assert topology.frame_size_bytes == 64 + 50
