"""Ports of the OTG server: the facilities that they need, and the memory of DPDK ports."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from switchmark.cli import otg
from switchmark.errors import UnavailableError
from switchmark.host import place
from switchmark.host.place import Facility
from switchmark.model.capabilities import unavailable
from switchmark.otg.ports import parse_port
from switchmark.otg.traffic import Traffic


@pytest.mark.parametrize(
    ("text", "needs"),
    [
        ("lo", {Facility.PACKET_SOCKET}),
        ("lo=packet_mmap", {Facility.PACKET_SOCKET}),
        ("lo=io_uring", {Facility.PACKET_SOCKET, Facility.IO_URING}),
        ("lo=af_xdp", {Facility.XDP_SOCKET}),
        ("p=dpdk:af-packet=lo", {Facility.PACKET_SOCKET}),
        ("p=dpdk:af-xdp=lo", {Facility.XDP_SOCKET}),
        ("p=vhost:/run/p.sock", set()),
        ("p=null", set()),
    ],
)
def test_port_needs_facilities_of_its_kind(text: str, needs: set[Facility]) -> None:
    assert set(parse_port(text).needs) == needs


def test_server_refuses_a_port_that_is_not_permitted(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*facilities: Facility) -> object:
        refused = Facility.PACKET_SOCKET in facilities
        return unavailable("packet sockets are refused", remedy="use sudo") if refused else None

    monkeypatch.setattr(place, "missing", missing)
    with pytest.raises(UnavailableError, match=r"--port lo: packet sockets are refused; use sudo"):
        otg.command(port=["lo"])


@pytest.mark.parametrize("small", [True, False])
def test_engines_use_small_pages_if_there_are_no_hugepages(small: bool) -> None:
    common = Traffic(Mock(), small_pages=small)._common_options(1)
    assert ("--dpdk-pages" in common) is small
