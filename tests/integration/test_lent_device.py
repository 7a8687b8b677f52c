"""A device of the host's own that a switch has, and an end that is interrupted at any moment."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.switch.support.private import Resources
from switchmark.testbed.kernel import netlink
from switchmark.testbed.session import open_session
from tests.integration.machine import needs_root, own_state
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
