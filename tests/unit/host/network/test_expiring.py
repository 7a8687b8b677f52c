"""State of the kernel that expires by itself: what appeared, and when it expires."""

from __future__ import annotations

from dataclasses import replace

import pytest

from switchmark.host.network import expiring
from switchmark.host.network.expiring import ExpiringState, remaining, time_wait_of
from switchmark.host.network.handle import NamespaceHandle

NOTHING = ExpiringState(0, 0, frozenset(), frozenset())
HANDLE = NamespaceHandle(-1, 1, "shop")
SETTINGS = {
    "nf_conntrack_udp_timeout_stream": "120",
    "nf_conntrack_tcp_timeout_time_wait": "110",
    "eth0/gc_stale_time": "60",  # a namespace of a container has no folder `default`
    "eth1/gc_stale_time": "90",
}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    def read_inside(_: NamespaceHandle, path: str) -> str | None:
        return next((value for end, value in SETTINGS.items() if path.endswith(f"/{end}")), None)

    monkeypatch.setattr(expiring, "read_inside", read_inside)
    monkeypatch.setattr(
        expiring, "read", {"/proc/sys/net/ipv4/neigh/default/gc_thresh1": "128"}.get
    )


@pytest.mark.parametrize(
    ("after", "line"),
    [
        ({"conntrack": 7}, "7 entries of conntrack, which expire after 120 s for UDP, 110 s for "
                           "TCP that has ended"),
        ({"time_wait": 2210}, "2210 sockets in TIME_WAIT, which end after 60 s"),
        ({"neighbours": frozenset({"10.0.0.2 at eth0"})},
         "10.0.0.2 at eth0 as neighbours, which the kernel removes after 60 s without use as soon "
         "as it has more than 128 neighbours"),
        ({"learned": frozenset({"02:00:00:00:00:01 at br0"})},
         "02:00:00:00:00:01 at br0 in tables of bridges, which expire after the ageing time of "
         "the bridge (usually 300 s)"),
    ],
)  # fmt: skip
def test_new_state_is_reported_with_its_expiry(after: dict[str, object], line: str) -> None:
    lines = remaining(HANDLE, "shop", NOTHING, replace(NOTHING, **after))  # type: ignore[arg-type]
    assert list(lines) == [f"shop: {line}"]


def test_state_that_was_there_or_cannot_be_read_is_not_reported() -> None:
    busy = ExpiringState(9, 9, frozenset({"a at b"}), frozenset({"c at d"}))
    unknown = ExpiringState(None, None, None, None)
    for before, after in ((busy, busy), (busy, NOTHING), (unknown, busy), (NOTHING, unknown)):
        assert list(remaining(HANDLE, "shop", before, after)) == []


@pytest.mark.parametrize(
    ("devices", "limit", "text"),
    [
        (("eth0", "eth1"), "128", "after 90 s without use as soon as it has more than 128 nei"),
        (("eth0", "gone0"), None, "after some time without use as soon as it has enough nei"),
    ],
)
def test_unknown_settings_of_neighbours_are_not_named(
    devices: tuple[str, ...], limit: str | None, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(expiring, "read", lambda _: limit)
    after = replace(NOTHING, neighbours=frozenset(f"10.0.0.2 at {name}" for name in devices))
    (line,) = remaining(HANDLE, "shop", NOTHING, after)
    assert text in line


def test_many_entries_are_shortened() -> None:
    after = replace(NOTHING, neighbours=frozenset(f"10.0.0.{n} at eth0" for n in range(9)))
    (line,) = remaining(HANDLE, "shop", NOTHING, after)
    assert "10.0.0.2 at eth0 and 6 more as neighbours" in line


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("sockets: used 9\nTCP: inuse 4 orphan 0 tw 12 alloc 5 mem 1\n", 12),
        ("TCP: inuse 4 tw", None),
        ("TCP: inuse 4 tw x", None),
        ("TCP: inuse 4\n", None),
        ("", None),
    ],
)
def test_sockets_in_time_wait_are_counted(text: str, count: int | None) -> None:
    assert time_wait_of(text) == count
