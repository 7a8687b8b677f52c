"""Network configuration lists: every mistake is one line with its place and the remedy."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from switchmark.errors import UsageError
from switchmark.host.container_networks import conflist
from switchmark.host.container_networks.conflist import BUILT_IN, built_in, load, parse

GOOD = {"cniVersion": "1.0.0", "name": "net", "plugins": [{"type": "bridge"}]}


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_lists_are_valid(name: str) -> None:
    network = built_in(name)
    assert network.types and network.versions == ("1.0.0",)
    assert network.ipam_types() == ("host-local",)


def test_a_list_may_be_one_plugin_alone() -> None:
    network = parse('{"cniVersion": "0.4.0", "name": "n", "type": "ptp"}', "x.conf")
    assert (network.types, network.versions) == (("ptp",), ("0.4.0",))


def test_several_versions_come_highest_first() -> None:
    text = json.dumps({**GOOD, "cniVersions": ["0.4.0", "1.1.0", "1.0.0", "9.0.0"]})
    assert parse(text, "x").versions == ("1.1.0", "1.0.0", "0.4.0")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("{\n  'name': 1}", "x: line 2, column 3: not JSON"),
        ("[]", 'x: its JSON is not an object; write {"cniVersion": ...}'),
        ("[" * 100_000, "x: not usable JSON"),
        ('{"name": "n", "plugins": NaN}', "x: not usable JSON"),
        (json.dumps({**GOOD, "name": "-net"}), 'x: name is "-net"; use letters'),
        (json.dumps({**GOOD, "name": None}), "x: name is missing"),
        (json.dumps({**GOOD, "plugins": []}), r"x: plugins is \[\]; write a list"),
        (json.dumps({**GOOD, "plugins": ["a"]}), r'x: plugins\[0\] is "a"; write an object'),
        (json.dumps({**GOOD, "plugins": [{"type": "../sh"}]}), r"x: plugins\[0\]: type is"),
        (json.dumps({**GOOD, "plugins": [{"type": "a", "ipam": 3}]}), r"plugins\[0\]: ipam is 3"),
        (
            json.dumps({**GOOD, "plugins": [{"type": "a", "ipam": {"type": "/x"}}]}),
            r"plugins\[0\]: ipam.type is",
        ),
        *(
            (json.dumps({**GOOD, "plugins": [{"type": "a", "master": name}]}), "name of a device")
            for name in ("a b", "lo", "..", "x" * 16)
        ),
        *(
            (
                json.dumps({**GOOD, "plugins": [{"type": "a", "ipam": {"type": "b", **part}}]}),
                r"plugins\[0\]: ipam (subnet|address) is .fd00::.*IPv6 is off in the private host",
            )
            for part in (
                {"subnet": "fd00::/64"},
                {"addresses": [{"address": "fd00::1/64"}]},
                {"ranges": [[{"subnet": "10.0.0.0/8"}], [{"subnet": "fd00::/64"}]]},
            )
        ),
        (json.dumps({**GOOD, "cniVersion": "0.2.0"}), "x: cniVersion is .0.2.0.; use one of 0.3.0"),
        (json.dumps({**GOOD, "cniVersions": [1]}), "x: cniVersions is"),
        (json.dumps({**GOOD, "plugins": [{"type": "a"}] * 33}), "x: plugins: 33 plugins"),
    ],
)
def test_mistakes_have_a_place_and_a_remedy(text: str, place: str) -> None:
    with pytest.raises(UsageError, match=place) as raised:
        parse(text, "x")
    assert "\n" not in str(raised.value)


def test_files_that_cannot_be_lists(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cannot be read"):
        load(tmp_path / "none.conflist")
    large = tmp_path / "large"
    large.write_bytes(b" " * (conflist.MOST_BYTES + 1))
    with pytest.raises(UsageError, match="larger than 1 MiB"):
        load(large)
    large.write_bytes(b"\xff\xfe")
    with pytest.raises(UsageError, match="not UTF-8"):
        load(large)


def test_a_named_pipe_is_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.conflist")
    with pytest.raises(UsageError, match="is a named pipe; name a file"):
        load(tmp_path / "pipe.conflist")


def test_an_unknown_name_lists_the_built_in_ones() -> None:
    with pytest.raises(UsageError, match="with a / in it"):
        built_in("my.conflist")


IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/16"}]]}
ROUTED = {"type": "bridge", "isGateway": True, "ipam": IPAM}


def of_plugin(**changed: object) -> conflist.ConfigurationList:
    return parse(json.dumps({**GOOD, "plugins": [{**ROUTED, **changed}, {"type": "tuning"}]}), "x")


def test_two_hosts_get_halves_of_the_subnet_and_the_mtu() -> None:
    for side, subnet in enumerate(("10.9.0.0/17", "10.9.128.0/17")):
        network, part = conflist.of_host(of_plugin(), side, 1450)
        assert str(part) == subnet
        assert network.plugins[0]["ipam"]["ranges"] == [[{"subnet": subnet}]]
        assert network.plugins[0]["mtu"] == 1450
        assert network.types == ("bridge", "tuning")
    network, _ = conflist.of_host(of_plugin(mtu=1400), 1, 1450)
    assert network.plugins[0]["mtu"] == 1400, "a smaller MTU of the list stays"
    alone = {"type": "host-local", "subnet": "10.9.0.0/24"}
    _, part = conflist.of_host(of_plugin(ipam=alone), 1, 1450)
    assert str(part) == "10.9.0.128/25"


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"type": "macvlan"}, "plugin macvlan does not route"),
        ({"isGateway": False}, "isGateway is missing"),
        ({"ipMasq": True}, "ipMasq is true"),
        ({"mtu": 1451}, "mtu is 1451, and the overlay carries 1450"),
        ({"mtu": "1"}, 'mtu is "1"'),
        ({"ipam": {"type": "static"}}, "ipam must be host-local with one subnet"),
        ({"ipam": {**IPAM, "subnet": "10.8.0.0/16"}}, "with one subnet"),
        ({"ipam": {"type": "host-local", "ranges": [[{"subnet": "10.9.0.0/24",
                                                      "gateway": "10.9.0.9"}]]}}, "gateway"),
        ({"ipam": {"type": "host-local", "ranges": 3}}, "with one subnet"),
        ({"ipam": {"type": "host-local", "subnet": "10.9.0.0/29"}}, "at most /28"),
        ({"ipam": {"type": "host-local", "subnet": "fd00::/64"}}, "leave it out, because IPv6"),
        ({"ipam": {"type": "host-local", "subnet": "ten"}}, "write an IPv4 subnet"),
    ],
)  # fmt: skip
def test_lists_that_do_not_route_between_hosts_are_refused(
    changed: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message) as raised:
        conflist.of_host(of_plugin(**changed), 0, 1450)
    assert str(raised.value).startswith("x: plugins[0]") and "; " in str(raised.value)
