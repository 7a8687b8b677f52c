"""Container networks: the devices on the way, and the options."""

from __future__ import annotations

import pytest

from switchmark.errors import UsageError
from switchmark.host.container_networks.conflist import parse
from switchmark.switch.cni import Cni, _with_own_state
from switchmark.switch.docker_network import DockerNetwork
from switchmark.switch.support.network import Link, devices_behind


def test_devices_behind_a_veth_are_its_peer_and_its_bridge() -> None:
    host = [
        Link("lo", "", 1, None, ""),
        Link("cni0", "bridge", 2, None, ""),
        Link("veth1", "veth", 3, 2, "cni0"),
    ]
    eth0 = Link("eth0", "veth", 2, 3, "")
    assert [one.name for one in devices_behind(eth0, host)] == ["veth1", "cni0"]
    assert devices_behind(Link("eth0", "veth", 2, 9, ""), host) == []


def test_bridges_in_a_circle_end() -> None:
    host = [Link("a", "bridge", 1, None, "b"), Link("b", "bridge", 2, None, "a")]
    assert [one.name for one in devices_behind(Link("e", "veth", 9, 1, ""), host)] == ["a", "b"]


def test_options_are_checked_when_a_campaign_is_planned(tmp_path: object) -> None:
    for options, message in (
        ({"conflist": "nope"}, "it takes bridge, bridge-masq, ptp, macvlan, or the path of a file"),
        ({"conflist": f"{tmp_path}/none"}, "cannot be read"),
        ({"plugins": f"{tmp_path}/none"}, "not a folder"),
        ({"overlay": "vxlan", "conflist": "macvlan"}, "plugin macvlan does not route"),
        ({"overlay": "vxlan", "conflist": "bridge-masq"}, "ipMasq is true"),
    ):
        with pytest.raises(UsageError, match=message):
            Cni().configure(options)
    Cni().configure({"conflist": "ptp", "plugins": str(tmp_path)})


def test_address_files_are_kept_in_the_private_host() -> None:
    text = (
        '{"cniVersion": "1.0.0", "name": "n", "plugins": '
        '[{"type": "a", "ipam": {"type": "host-local", "dataDir": "/run/my/x"}}]}'
    )
    changed = _with_own_state(parse(text, "x"))
    assert changed.plugins[0]["ipam"]["dataDir"] == "/var/lib/cni/data/run/my/x"
    assert _with_own_state(changed) is changed


def test_contradictory_options_of_docker_are_refused() -> None:
    for options, message in (
        ({"overlay": "vxlan", "driver": "macvlan"}, "overlay joins bridges, and driver is macvlan"),
        ({"overlay": "vxlan", "publish": "nat"}, "the client is outside the hosts"),
        ({"publish": "proxy"}, "translates the addresses past the proxy"),
        ({"publish": "proxy", "driver": "host", "iptables": "off"}, "cannot publish ports"),
    ):
        with pytest.raises(UsageError, match=message):
            DockerNetwork().configure(options)


def test_daemons_of_two_hosts_have_different_addresses() -> None:
    switch = DockerNetwork()
    switch.configure({"overlay": "vxlan-1550"})
    first, second = (switch.daemon_options(number) for number in (0, 1))
    assert {"--bip=10.79.0.1/16", "--fixed-cidr=10.79.0.0/17", "--mtu=1500"} <= set(first)
    assert {"--bip=10.79.128.1/16", "--fixed-cidr=10.79.128.0/17"} <= set(second)
