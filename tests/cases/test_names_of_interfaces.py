"""Interface names with dots, of 15 characters, with unusual characters.

From https://github.com/openshift/assisted-service/pull/5389 (enp94s0f0np0.2507),
https://github.com/mininet/mininet/issues/1133, https://github.com/xebd/accel-ppp/issues/112
(eth5.501.116). A legal name works; a name that the grammar of an option excludes is refused in one
line.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.errors import UsageError
from switchmark.otg.ports import parse_port
from tests.cases.engine import PATIENT, run_engine
from tests.cases.planning import planned, refusal
from tests.integration.engine_tools import ip
from tests.integration.machine import needs_root

NAMES = ("enp94s0f0np0.25", "eth5.501.116", "DE-CIX_e1-1", "x+y", "veth0@if7")


@pytest.fixture(scope="module")
def namespace() -> Iterator[str]:
    """A namespace with a pair of devices for each name; one device of each pair is up."""
    name = f"smcases{os.getpid()}"
    ip("netns", "add", name)
    try:
        for number, device in enumerate(NAMES):
            pair = ["type", "veth", "peer", "name", f"peer{number}"]
            ip("-n", name, "link", "add", "name", device, *pair)
            for end in (device, f"peer{number}"):
                ip("-n", name, "link", "set", end, "up")
        yield name
    finally:
        ip("netns", "del", name)


@pytest.mark.integration
@needs_root
@pytest.mark.parametrize("kind", ["raw:dev={},mmsg", "packet_mmap:dev={}", "af_xdp:dev={}"])
@pytest.mark.parametrize("device", NAMES)
def test_engine_sends_by_each_name(namespace: str, device: str, kind: str) -> None:
    """The kernel's counter of that device has all frames."""
    peer = f"peer{NAMES.index(device)}"
    before = received_by(namespace, peer)
    options = ["--port", kind.format(device), "--dst-mac", "02:00:00:00:0b:02", "--rate", "10k"]
    pace = ["--burst", "10", "--duration", "0.01", *PATIENT]
    totals = run_engine("sender", *options, *pace, namespace=namespace).totals
    assert totals["tx_offered"] == 100
    assert received_by(namespace, peer) - before >= 100  # the kernel may also send frames


def received_by(namespace: str, device: str) -> int:
    """Return the frames that a device has received, by the kernel."""
    (link,) = json.loads(ip("-n", namespace, "-j", "-s", "link", "show", "dev", device))
    return int(link["stats64"]["rx"]["packets"])


def test_name_beyond_the_kernel_is_refused_in_one_line() -> None:
    """16 characters are one more than allowed."""
    ended = run_engine("sender", "--port", "raw:dev=abcdefghijklmnop", "--dst-mac",
                       "02:00:00:00:0b:02", "--rate", "1k", "--duration", "0.01")  # fmt: skip
    assert "abcdefghijklmnop" in ended.refusal


def test_location_that_is_not_a_device_is_refused_by_name() -> None:
    for name in ("a=b", "veth0@if7", "nothere.1"):
        with pytest.raises(UsageError) as refused:
            parse_port(name)
        assert len(str(refused.value).splitlines()) == 1
        assert name.partition("=")[0] in str(refused.value)


def test_campaign_of_a_long_or_odd_name_is_named_or_refused(tmp_path: Path) -> None:
    """Users name contenders: eth0.100 is allowed, a slash is not."""
    text = "switch: linux-bridge\ncontenders: {%s: {environment: netns}, b: {io: udp}}\n"
    names = {one.contender for one in planned(tmp_path, text % "eth0.100").trials}
    assert names == {"eth0.100", "b"}
    assert "2/3" in refusal(tmp_path, text % '"2/3"')
