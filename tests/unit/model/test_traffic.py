"""Mixes, flows, IP versions and VLANs: read, refused by name, handed to the engine; old ids."""

from __future__ import annotations

from itertools import pairwise

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.load import load_settings, load_text
from switchmark.campaign.notation import expand_notation, from_notation, to_notation
from switchmark.engine.arguments import engine_args
from switchmark.errors import UsageError
from switchmark.language.source import CampaignError
from switchmark.model import traffic
from switchmark.model.choices import Dimension
from switchmark.model.node import NodePort
from switchmark.model.parameter_table import BY_NAME
from switchmark.model.parameter_type import Known
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from switchmark.switch.registry import SWITCHES

KNOWN = Known(switches=("linux-bridge", "ovs-netdev"), environments=("netns",))


def trials(**settings: str) -> list[Trial]:
    campaign = load_settings({"switch": "linux-bridge", **settings}, KNOWN, name="t", overrides=[])
    return expand(campaign, {n: SWITCHES[n]().capabilities for n in ("linux-bridge", "ovs-netdev")})


def args_of(trial: Trial, end: int) -> dict[str, str]:
    macs, ips = ("02:53:4d:00:03:01", "02:53:4d:00:03:02"), ("10.64.3.1/24", "10.64.3.2/24")
    port = NodePort(
        PortKind.VETH,
        macs[end],
        ips[end],
        1500,
        peer_mac=macs[1 - end],
        peer_ip=ips[1 - end],
        device_inside="eth0",
    )
    arguments = engine_args(trial, port, ("sender", "receiver")[end], 3, end, "yield")
    return dict(pairwise(arguments))


def test_a_plain_trial_keeps_the_id_it_had_before_these_keys() -> None:
    trial = Trial(dimension=Dimension.THROUGHPUT, switch="linux-bridge", packet_size_bytes=64)
    assert trial.id == OLD_ID
    for field, value in (
        ("packet_mix", "imix"),
        ("flows", "10"),
        ("ip_version", 6),
        ("vlan", "5"),
    ):
        assert trial.model_copy(update={field: value}).id != trial.id


OLD_ID = "a64c45028135ff3d"


@pytest.mark.parametrize(
    ("text", "smallest", "largest", "mean"),
    [
        ("imix", 64, 1518, (7 * 64 + 4 * 570 + 1518) / 12),
        ("genome:aaafag", 64, 1518, (4 * 64 + 1280 + 1518) / 6),
        ("genome:aAz:A=300:z=1522", 64, 1522, (64 + 300 + 1522) / 3),
        ("64*3+1518", 64, 1518, (3 * 64 + 1518) / 4),
        ("genome:3afag", 64, 1518, (4 * 64 + 1280 + 1518) / 6),
        ("genome:2A10a:A=300", 64, 300, (2 * 300 + 10 * 64) / 12),
        ("random:100-200:seed=7", 100, 200, 150),
        ("random:imix", 64, 1518, (7 * 64 + 4 * 570 + 1518) / 12),
        ("random:64*3+1518:seed=2", 64, 1518, (3 * 64 + 1518) / 4),
        ("512", 512, 512, 512),
    ],
)
def test_mixes(text: str, smallest: int, largest: int, mean: float) -> None:
    assert traffic.PacketMix(text).sizes == traffic.Mix(smallest, largest, mean)


@pytest.mark.parametrize(
    "text",
    ["", "imixx", "64+", "64*0", "63+64", "64+9019", "genome:", "genome:aj", "genome:aA",
     "genome:A:A=5", "genome:a:b=100", "random:64", "random:100-64", "random:64-100:sed=1",
     "64*1025", "64 + 570", "random:64*3", "random:64+63", "random:imix:sed=1", "genome:0a",
     "genome:a3", "genome:3:A=300", "genome:1025a"],
)  # fmt: skip
def test_mixes_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        traffic.read_mix(text)


def test_a_list_is_a_sweep_and_a_sum_is_a_mix() -> None:
    assert [t.packet_size_bytes for t in trials(packet_size="64, 1518", burst="32")] in (
        [64, 1518],
        [1518, 64],
    )
    (test_trial,) = trials(packet_mix="64+1518")
    assert test_trial.packet_size_bytes == 791
    assert test_trial.frame_sizes.largest == 1518
    assert trials(packet_size="64+1518") == [test_trial]
    assert set(trials(packet_size="imix, 64+1518")) == set(trials(packet_mix="imix, 64+1518"))
    with pytest.raises(CampaignError, match="write packet_mix: imix"):
        trials(packet_size="64, imix")
    with pytest.raises(CampaignError, match="written twice"):
        load_text("switch: ovs\npacket_size: imix\npacket_mix: 64+1518", "c.yaml", Known())
    changed = load_text("switch: ovs\npacket_size: imix", "c.yaml", Known(), ["packet_size=64"])
    assert changed.sweeps[0].packet_mix == ("",)
    with pytest.raises(CampaignError, match="is not a mix of sizes"):
        trials(packet_mix="64..1518 step 64")


@pytest.mark.parametrize(
    ("text", "mirrored", "fields"),
    [
        ("1000", "1000:dst-ip", {"src-ip"}),
        ("1000:zipf=1.0", "1000:dst-ip:zipf=1.0", {"src-ip"}),
        ("1M:src-ip/random+dst-port=7:seed=3", "1M:dst-ip/random+src-port=7:seed=3",
         {"src-ip", "dst-port"}),
        ("50:vlan+src-mac", "50:vlan+dst-mac", {"vlan", "src-mac"}),
    ],
)  # fmt: skip
def test_flows(text: str, mirrored: str, fields: set[str]) -> None:
    assert traffic.read_flows(text) == text
    assert traffic.Flows(text).mirrored == mirrored
    assert traffic.Flows(text).fields == fields
    if text.startswith("1000"):
        assert traffic.ONE_FLOW.fields == frozenset()


@pytest.mark.parametrize(
    "text", ["0", "1000001", "2M", "x", "5:colour", "5:src-ip=x", "5:src-ip/x", "5:zipf=x", "5:"]
)
def test_flows_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        traffic.read_flows(text)


def test_numbers_of_flows_are_the_same_however_written() -> None:
    assert traffic.read_flows("1k") == traffic.read_flows("1000") == "1000"
    assert traffic.read_vlan("none") == ""
    assert traffic.read_vlan("200.100") == "200.100"
    for bad in ("0", "4095", "1.2.3", "x", "", "1."):
        with pytest.raises(ValueError, match="VLAN ID"):
            traffic.read_vlan(bad)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"ip_version": "6"}, "64 is below 84, the smallest IPv6 frame"),
        ({"vlan": "5", "packet_mix": "imix"}, "packet-mix: 64 is below 68"),
        ({"ip_version": "6", "vlan": "200.100", "packet_size": "91"}, "91 is below 92"),
        ({"flows": "10", "io": "udp"}, "io udp cannot send 10: the kernel writes the headers"),
        ({"flows": "10:vlan"}, "no tag to differ in; give vlan"),
        ({"flows": "10:src-mac"}, "not every src-mac; use connect_mode: cross-connect"),
        ({"flows": "10:dst-mac", "connect_mode": "learning"}, "use connect_mode: cross-connect"),
    ],
)
def test_impossible_traffic_is_refused(settings: dict[str, str], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        trials(**settings)


def test_engine_arguments_differ_between_ends() -> None:
    (trial,) = trials(
        packet_mix="92*3+1518", flows="100:src-ip+dst-port:zipf=1.0", ip_version="6", vlan="200.100"
    )
    sender, receiver = args_of(trial, 0), args_of(trial, 1)
    assert sender["--frame-size"] == receiver["--frame-size"] == "92*3+1518"
    assert sender["--flows"] == "100:src-ip+dst-port:zipf=1.0"
    assert receiver["--flows"] == "100:dst-ip+src-port:zipf=1.0"
    assert sender["--src-ip"] == receiver["--dst-ip"] == "2001:2:0:3::1"
    assert sender["--dst-ip"] == receiver["--src-ip"] == "2001:2:0:3::2"
    assert sender["--vlan"] == receiver["--vlan"] == "200.100"
    plain = args_of(trials()[0], 0)
    assert plain["--src-ip"] == "10.64.3.1"
    assert not {"--flows", "--vlan"} & set(plain)


def test_notations_carry_them() -> None:
    (trial,) = trials(packet_mix="genome:aA:A=300", flows="10:src-ip=3+src-port=10:zipf=1.5")
    text = to_notation(trial)
    assert "P=182" in text
    assert from_notation(text) == trial
    both = expand_notation("(V=ovs, vlan={none, 5}, P=68)")
    assert [t.vlan for t in both] == ["", "5"]


def test_every_interval_must_fit_into_the_shortest_trial() -> None:
    """The default is shorter in short trials: another one may be the longest there."""
    assert trials(duration="500ms", interval="100ms, 200ms")
    with pytest.raises(UsageError, match="500ms leaves fewer than 3 samples of 150ms"):
        trials(duration="500ms", interval="150ms, 200ms")


def test_example_of_interval_differs_from_default() -> None:
    row = BY_NAME["interval"]
    assert "the value 200ms becomes" in row.meaning
    assert row.value(row.example, KNOWN) != row.default
