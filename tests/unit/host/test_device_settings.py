"""A refusing device is distinguished from a failed request to the kernel."""

from __future__ import annotations

import errno
import os
import resource
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from switchmark.host.kernel import device_settings, netlink
from switchmark.host.kernel.device_settings import OFFLOADS_OFF, RequestRefused
from switchmark.switch.xdp_redirect import XdpRedirect

NO_DEVICE = "smnodevice0"
WAYS: dict[str, Callable[[], object]] = {
    "promiscuous": lambda: device_settings.is_promiscuous("lo"),
    "offloads": lambda: device_settings.disable_offloads("lo"),
    "driver": lambda: device_settings.driver_of("lo"),
    "up": lambda: device_settings.set_up("lo"),
}


@contextmanager
def no_descriptors() -> Iterator[None]:
    """Prevent this process from opening files, whatever is closed meanwhile, and pytest from
    changing its capture."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("way", WAYS)
def test_without_descriptors_nothing_is_known_of_a_device(way: str) -> None:
    with no_descriptors(), pytest.raises(OSError, match="Too many open files") as error:
        WAYS[way]()
    assert error.value.errno == errno.EMFILE
    assert not isinstance(error.value, RequestRefused)


@pytest.mark.parametrize("way", WAYS)
def test_forbidden_socket_is_not_a_refusal_of_the_device(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(socket, "socket", forbidden)
    with pytest.raises(PermissionError):
        WAYS[way]()


@pytest.fixture
def ethtool() -> None:
    """Skip under user-mode emulation, which lacks the call."""
    try:
        device_settings.set_by_ethtool(NO_DEVICE, OFFLOADS_OFF["tx-checksumming"], 0)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            pytest.skip("this kernel has no call SIOCETHTOOL")


@pytest.mark.usefixtures("ethtool")
def test_missing_device_refuses() -> None:
    assert device_settings.is_promiscuous(NO_DEVICE) is False
    assert device_settings.driver_of(NO_DEVICE) is None
    device_settings.disable_offloads(NO_DEVICE)
    with pytest.raises(RequestRefused) as error:
        device_settings.set_by_ethtool(NO_DEVICE, OFFLOADS_OFF["tx-checksumming"], 0)
    assert error.value.errno == errno.ENODEV


@pytest.mark.usefixtures("ethtool")
def test_receive_offload_of_a_missing_device_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def inside(netns: str | None, act: Callable[[], object]) -> object:
        if netns is not None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return act()

    monkeypatch.setattr(netlink, "inside", inside)
    for end in (netlink.VethEnd(NO_DEVICE), netlink.VethEnd("lo", netns="smgone")):
        netlink.set_receive_offload(end, False)
        with pytest.raises(OSError, match=r"No such (device|file)"):
            netlink.set_receive_offload(end, True)


def test_receive_offload_is_unknown_if_the_request_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netlink, "inside", lambda _netns, act: act())
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        netlink.set_receive_offload(netlink.VethEnd("lo"), False)


def test_devices_of_a_switch_are_removed_nevertheless(monkeypatch: pytest.MonkeyPatch) -> None:
    def not_asked(*_: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    undone: list[bool] = []
    monkeypatch.setattr(netlink, "set_receive_offload", not_asked)
    switch = XdpRedirect()
    switch._woken.append(netlink.VethEnd("lo"))
    switch._resources = SimpleNamespace(undo=lambda: undone.append(True))  # type: ignore[assignment]
    with pytest.raises(OSError, match="Too many open files"):
        switch.stop()
    assert undone
