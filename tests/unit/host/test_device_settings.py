"""A device that refuses is told from a kernel that could not even be asked."""

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
    """This process may open no file more, whatever is closed meanwhile. (Nor may pytest change what
    it captures.)"""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


@pytest.mark.parametrize("way", WAYS)
def test_without_descriptors_nothing_is_known_of_a_device(way: str) -> None:
    with no_descriptors(), pytest.raises(OSError, match="Too many open files") as told:
        WAYS[way]()
    assert told.value.errno == errno.EMFILE
    assert not isinstance(told.value, RequestRefused)


@pytest.mark.parametrize("way", WAYS)
def test_a_socket_that_is_forbidden_is_no_refusal_of_the_device(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*_: object) -> None:
        raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(socket, "socket", forbidden)
    with pytest.raises(PermissionError):
        WAYS[way]()


@pytest.fixture
def ethtool() -> None:
    """User-mode emulation does not know the call."""
    try:
        device_settings.set_by_ethtool(NO_DEVICE, OFFLOADS_OFF["tx-checksumming"], 0)
    except OSError as error:
        if error.errno == errno.ENOSYS:
            pytest.skip("this kernel has no call SIOCETHTOOL")


@pytest.mark.usefixtures("ethtool")
def test_a_device_that_is_not_there_refuses() -> None:
    assert device_settings.is_promiscuous(NO_DEVICE) is False
    assert device_settings.driver_of(NO_DEVICE) is None
    device_settings.disable_offloads(NO_DEVICE)
    with pytest.raises(RequestRefused) as told:
        device_settings.set_by_ethtool(NO_DEVICE, OFFLOADS_OFF["tx-checksumming"], 0)
    assert told.value.errno == errno.ENODEV


@pytest.mark.usefixtures("ethtool")
def test_receive_offload_of_what_has_gone_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    def inside(netns: str | None, act: Callable[[], object]) -> object:
        if netns is not None:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))
        return act()

    monkeypatch.setattr(netlink, "inside", inside)
    for end in (netlink.VethEnd(NO_DEVICE), netlink.VethEnd("lo", netns="smgone")):
        netlink.set_receive_offload(end, False)
        with pytest.raises(OSError, match=r"No such (device|file)"):
            netlink.set_receive_offload(end, True)


def test_receive_offload_is_not_off_where_nobody_could_be_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(netlink, "inside", lambda _netns, act: act())
    with no_descriptors(), pytest.raises(OSError, match="Too many open files"):
        netlink.set_receive_offload(netlink.VethEnd("lo"), False)


def test_what_a_switch_has_made_goes_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
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
