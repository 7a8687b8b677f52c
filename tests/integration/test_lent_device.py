"""A device of the host's own that a switch or a node has, and an end that is interrupted at any
moment, or comes before all is made."""

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
def test_it_goes_back_although_its_return_is_interrupted(
    state: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """What follows removes the namespace, and the kernel a virtual device with it."""
    fetch_back, asked = netlink.fetch_back, []

    def interrupted(device: str, netns: str, *, promiscuous: bool) -> None:
        asked.append(device)
        if len(asked) == 1 and when == "before":
            raise SystemExit(143)
        fetch_back(device, netns, promiscuous=promiscuous)
        if len(asked) == 1:
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
    assert asked == [DEVICE, DEVICE]


def test_it_goes_back_at_once_where_the_node_that_has_it_cannot_be_made(state: Path) -> None:
    """A later trial of the session needs it."""
    spec = node_spec("tx0", 0)
    lent = replace(spec.port, lent=DEVICE)
    none = replace(spec.port, kind=PortKind.TAP)  # which no namespace can have
    environment = ENVIRONMENTS["netns"]()
    with open_session() as session:
        with pytest.raises(UsageError, match="kind tap"):
            environment.create(session, replace(spec, ports=(lent, none)))
        assert is_at_home()
        node = environment.create(session, replace(spec, ports=(lent,)))
        assert not is_at_home()
        node.close()
        assert is_at_home()
