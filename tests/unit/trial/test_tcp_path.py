"""The congestion control of connections: those of the application, and no others."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.errors import UsageError
from switchmark.host.kernel.device_counters import EndCounters
from switchmark.host.network.counted import CountedDevice, DeviceCount, KnownNetwork
from switchmark.switch.existing import Existing
from switchmark.trial.tcp_path import (
    far_ends,
    offloads_on,
    path_devices,
    read_end,
    seen_congestion_control,
)


class FakeHost:
    """Notes the command, and answers as `ss` does."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def run(self, command: list[str], **_: object) -> SimpleNamespace:
        self.commands.append(command)
        return SimpleNamespace(exit_code=0, stdout="ESTAB 0 0 a b\n\t cubic wscale:7,7 rto:201\n")


def node(**port: object) -> Any:
    usual = {"ip": "10.0.0.1/24", "peer_ip": "10.9.9.9/32", "tcp_port": None, "peer_tcp_port": None}
    return SimpleNamespace(netns="n", spec=SimpleNamespace(port=SimpleNamespace(**usual | port)))


@pytest.mark.parametrize(
    ("is_client", "port", "query"),
    [
        (True, {}, ["dst", "10.9.9.9:18001"]),
        (True, {"peer_tcp_port": 8080}, ["dst", "10.9.9.9:8080"]),
        (False, {}, ["src", "10.0.0.1:18001"]),
        (False, {"tcp_port": 17123}, ["src", "10.0.0.1:17123"]),
    ],
)
def test_only_connections_of_the_application_are_asked_for(
    is_client: bool, port: dict[str, object], query: list[str]
) -> None:
    """A program of the user may have the usual port of the bench at its end."""
    host = FakeHost()
    session: Any = SimpleNamespace(host=host)
    control = seen_congestion_control(session, node(**port), ("reno", "cubic"), is_client=is_client)
    assert control == "cubic"
    (command,) = host.commands
    assert command[-2:] == query


class FakePod:
    """The far end of a path; it has offloads that no device here has."""

    label = "host db (pod shop/db)"

    def offloads(self, device: str) -> dict[str, bool]:
        return {f"of {device} in the pod": True}

    def end_counters(self, device: str) -> EndCounters:
        return EndCounters({f"of {device} in the pod": 1}, 2, 3)


def end_of(name: str, netns: str | None, device: str) -> Any:
    port = SimpleNamespace(device_inside=device, made_port=None, device_switch_side=None)
    return SimpleNamespace(netns=netns, spec=SimpleNamespace(name=name, port=port))


def test_device_of_a_pod_is_read_by_its_agent(monkeypatch: pytest.MonkeyPatch) -> None:
    """`lo` is also a device of this namespace, which must not be read in its place."""
    pod: Any = FakePod()
    switch = Existing()
    switch.far_end = pod
    far_device = CountedDevice(None, "lo", pod.label, read=lambda: DeviceCount(0, 0))
    network = KnownNetwork("k", [CountedDevice("/proc/self/ns/net", "lo"), far_device])
    monkeypatch.setattr(switch, "network", lambda: network)
    ends = [end_of("tx0", "/proc/self/ns/net", "lo"), end_of("rx0", None, "lo")]
    assert far_ends(switch) == (None, pod)
    devices = path_devices(ends, switch)
    assert [(one.label, one.far) for one in devices] == [("tx0/lo", None), ("rx0/lo", pod)]
    assert read_end(ends[1], pod) == EndCounters({"of lo in the pod": 1}, 2, 3)
    assert offloads_on(devices[1:]) == {"rx0/lo": {"of lo in the pod": True}}


def test_end_without_a_namespace_needs_an_agent() -> None:
    with pytest.raises(UsageError, match="needs a device in a network namespace"):
        read_end(end_of("rx0", None, "lo"), None)


def test_device_of_an_end_is_listed_once_under_two_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The path names a namespace by its open descriptor, and the bench by its name."""
    switch = Existing()
    fd = os.open("/proc/self/ns/net", os.O_RDONLY)
    try:
        network = KnownNetwork("k", [CountedDevice(f"/proc/self/fd/{fd}", "lo")])
        monkeypatch.setattr(switch, "network", lambda: network)
        ends = [end_of("tx0", "/proc/self/ns/net", "lo"), end_of("rx0", "/proc/self/ns/net", "x")]
        assert [one.label for one in path_devices(ends, switch)] == ["tx0/lo", "rx0/x"]
    finally:
        os.close(fd)
