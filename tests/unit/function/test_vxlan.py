"""Tunnels: which frame leaves inside which tunnel, and the outer headers that are accepted."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.function.registry import cases, forwarded
from switchmark.function.support.frames import Frame
from switchmark.function.support.table import FunctionTable, Tunnel
from switchmark.function.support.wire import (
    arrived_frame,
    encapsulated,
    free_fields,
    split_outer,
    wire_bytes,
)
from switchmark.function.vxlan import FUNCTION
from switchmark.model.functions import FunctionList
from tests.integration.function_rig import right_table, trial_of


def table(**keys: object) -> FunctionTable:
    keys = {"function": FunctionList.of("forward+vxlan"), "tunnels": 300, **keys}
    return right_table(trial_of("linux-bridge", **keys))[0]


def turned(tunnel: Tunnel) -> Tunnel:
    """Return the tunnel as its remote end sees it."""
    return replace(
        tunnel, local=tunnel.remote, remote=tunnel.local, local_mac=tunnel.remote_mac,
        remote_mac=tunnel.local_mac,
    )  # fmt: skip


@pytest.mark.parametrize("version", [4, 6])
@pytest.mark.parametrize(("direction", "access"), [("encap", 0), ("both", 0), ("decap", 1)])
def test_stations_choose_tunnels_and_vnis_are_distinct(
    direction: str, access: int, version: int
) -> None:
    """Frames to a station leave the underlay port in its tunnel, and come back out of it."""
    neutral = table(direction=direction, ip_version=version)
    assert neutral.access_port == access
    assert len({tunnel.vni for tunnel in neutral.tunnels}) == 300
    assert len({tunnel.station_mac for tunnel in neutral.tunnels}) == 300
    outcomes = [(case, forwarded(neutral, case.passing)) for case in cases(neutral)]
    into = [after for case, after in outcomes if case.passing.ingress == access and after]
    out = [after for case, after in outcomes if case.passing.received_in and after]
    dropped = [case.name for case, after in outcomes if after is None]
    tunnels = [after for after in into if after.tunnel is not None]
    assert len(tunnels) > 2
    assert all(after.egress == access ^ 1 for after in tunnels)
    assert all(after.egress == access and after.tunnel is None for after in out)
    assert sum("must be dropped" in name for name in dropped) == 4


@pytest.mark.parametrize("version", [4, 6])
def test_encapsulated_frame_is_read_back(version: int) -> None:
    """The frame of the remote end has right checksums, VNI and addresses."""
    neutral = table(ip_version=version)
    tunnel = neutral.tunnels[7]
    case = next(case for case in cases(neutral) if case.passing.received_in == neutral.tunnels[0])
    inner = case.passing.frame
    data = encapsulated(inner.to_bytes(), tunnel)
    assert len(data) == len(inner.to_bytes()) + (50 if version == 4 else 70)
    expected = replace(case.passing, tunnel=turned(tunnel))
    assert arrived_frame(neutral, data, expected) == (inner, [])
    assert free_fields(data)["udp_checksum"] == "right"
    wrong = replace(expected, tunnel=replace(turned(tunnel), vni=9, remote_mac="02:00:00:00:00:09"))
    _, mistakes = arrived_frame(neutral, data, wrong)
    assert mistakes[0] == "VNI is 107, not 9"
    assert len(mistakes) == 2


def test_frames_that_are_not_tunnels_are_refused() -> None:
    """Each message says what is wrong with the outer headers."""
    neutral = table()
    plain = next(iter(cases(neutral))).passing
    with pytest.raises(ValueError, match="UDP port 17001"):
        split_outer(wire_bytes(plain, None))
    data = bytearray(encapsulated(plain.frame.to_bytes(), neutral.tunnels[0]))
    for place, message in [(18, "IPv4 checksum"), (60, "UDP checksum")]:
        broken = bytearray(data)
        broken[place] ^= 1
        with pytest.raises(ValueError, match=message):
            split_outer(bytes(broken))
    frame = Frame("02:00:00:00:00:01", "02:00:00:00:00:02", "10.0.0.1", "10.0.0.2", 1, 4789, b"")
    with pytest.raises(ValueError, match="shorter than the outer headers"):
        split_outer(frame.to_bytes())


def test_frame_without_room_for_its_tunnel_is_refused() -> None:
    trial = trial_of("linux-bridge", function=FunctionList.of("forward+vxlan"))
    assert not list(FUNCTION.refusals(trial))
    (refusal,) = FUNCTION.refusals(trial.changed({"packet_size_bytes": 8969}))
    assert refusal.remedy == "use 8968 or less"
