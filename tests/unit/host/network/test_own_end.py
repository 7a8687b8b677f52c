"""The end of a path in this namespace, on the loopback device."""

from __future__ import annotations

import socket

from switchmark.host.network.own_end import OwnEnd


def test_port_of_an_end_is_free_for_udp_and_tcp() -> None:
    end = OwnEnd()
    try:
        first = end.open("127.0.0.1")
        assert (first.device, first.address) == ("lo", "127.0.0.1")
        with socket.create_server((first.address, first.port)):
            assert end.open("127.0.0.1").port > first.port
    finally:
        end.close()


def test_counters_of_an_end_grow_with_its_traffic() -> None:
    end = OwnEnd()
    before = end.end_counters("lo")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
        sender.sendto(bytes(100), ("127.0.0.1", 9))
    after = end.end_counters("lo")
    assert after.rx_packets > before.rx_packets
    assert after.rx_bytes >= before.rx_bytes + 100
    assert {"Tcp.RetransSegs", "Udp.RcvbufErrors", "TimeWait"} <= set(after.protocol)


def test_offloads_of_an_end_are_read_without_privileges() -> None:
    assert OwnEnd().offloads("lo")["scatter-gather"] is True


def test_sockets_and_programs_of_an_end_are_found() -> None:
    end = OwnEnd()
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert end.is_bound("tcp", server.getsockname()[1])
        assert not end.is_bound("udp", server.getsockname()[1])
    assert end.missing(["sh", "no-such-program"]) == ["no-such-program"]
