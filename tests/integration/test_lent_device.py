"""A device of the host that is lent to a switch or a node, and a teardown that is interrupted at
any moment or comes before everything is made."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.host.kernel import netlink
from switchmark.host.session import open_session
from switchmark.model.ports import PortKind
from switchmark.switch.support.private import Resources
from tests.integration.machine import needs_root, node_spec, own_state
from tests.integration.two_hosts import sh

pytestmark = [pytest.mark.integration, needs_root]
DEVICE, PEER = "smlenttest0", "smlentpeer0"


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    sh("ip", "link", "add", DEVICE, "type", "veth", "peer", "name", PEER)
    yield from own_state(monkeypatch, tmp_path)
    sh("ip", "link", "delete", PEER, check=False)


def is_at_home() -> bool:
    return Path("/sys/class/net", DEVICE).exists()


@pytest.mark.parametrize("when", ["before", "after"])
def test_device_goes_back_although_its_return_is_interrupted(
    state: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Afterwards the namespace is removed, and the kernel would remove a virtual device with it."""
    fetch_back, calls = netlink.fetch_back, []

    def interrupted(device: str, netns: str, *, promiscuous: bool) -> None:
        calls.append(device)
        if len(calls) == 1 and when == "before":
            raise SystemExit(143)
        fetch_back(device, netns, promiscuous=promiscuous)
        if len(calls) == 1:
            raise SystemExit(143)

    monkeypatch.setattr(netlink, "fetch_back", interrupted)
    with open_session() as session:
        resources = Resources(session)
        namespace = resources.namespace()
        namespace.adopt([DEVICE], [DEVICE])
        assert not is_at_home()
        with pytest.raises(SystemExit):
            resources.undo()
        assert is_at_home()
        assert namespace.name not in sh("ip", "netns")
    assert calls == [DEVICE, DEVICE]


def test_device_goes_back_at_once_if_its_node_fails(state: Path) -> None:
    """A later trial of the session needs it."""
    spec = node_spec("tx0", 0)
    lent = replace(spec.port, lent=DEVICE)
    none = replace(spec.port, kind=PortKind.TAP)  # no namespace can have it
    environment = ENVIRONMENTS["netns"]()
    with open_session() as session:
        with pytest.raises(UsageError, match="kind tap"):
            environment.create(session, replace(spec, ports=(lent, none)))
        assert is_at_home()
        node = environment.create(session, replace(spec, ports=(lent,)))
        assert not is_at_home()
        node.close()
        assert is_at_home()
