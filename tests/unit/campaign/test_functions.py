"""Functions in campaigns: the refused combinations, and the connect mode that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.function.registry import sample_table
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import Dimension
from switchmark.model.functions import FunctionList, FunctionSupport
from switchmark.model.parameter_type import Known
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.trial import Trial
from switchmark.switch.registry import SWITCHES as REAL

ROUTER = Capabilities(
    port_kinds=(PortKind.VETH,),
    connect_modes=(ConnectMode.ROUTE,),
    polling=False,
    functions={
        "route": FunctionSupport(scale=1000, limit="its table is small"),
        "acl": FunctionSupport(ip_versions=(4,), bases=("route",)),
    },
)
BRIDGE = Capabilities(
    port_kinds=(PortKind.VETH,),
    connect_modes=(ConnectMode.LEARNING, ConnectMode.CROSS_CONNECT),
    polling=False,
    functions={"acl": FunctionSupport(bases=("forward",))},
    functions_not_built={"route": "it has no addresses"},
)
TUNNELS = replace(
    BRIDGE, functions={"vxlan": FunctionSupport(scale=100, limit="more were not tried")}
)
SWITCHES = {"router": ROUTER, "bridge": BRIDGE, "tunnels": TUNNELS}


def trials(text: str) -> list[Trial]:
    known = Known(switches=tuple(SWITCHES), environments=("netns",))
    return expand(load_text(f"packet_size: 84\n{text}", "c.yaml", known, []), SWITCHES)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("switch: router", "router only routes, and cannot forward frames unchanged; use function"),
        ("switch: bridge\nfunction: route", "no function route here: it has no addresses"),
        ("switch: router\nfunction: route\nroutes: 2000",
         "at most 1000 routes for route, not 2000: its table is small; use 1000 or less"),
        ("switch: router\nfunction: route+acl\nip_version: 6", "router has acl for IPv4 only"),
        ("switch: bridge\nfunction: forward+acl\nroutes: 5", "routes: function forward+acl does"),
        ("switch: router\nfunction: route\nconnect_mode: learning", "leave connect_mode out"),
        ("switch: bridge\nconnect_mode: route", "bridge cannot do connect_mode route"),
        ("switch: router\nfunction: route\nprefix_length: 64", "64 is not a prefix length of IPv4"),
        ("switch: router\nfunction: route\nroutes: 500\nprefix_length: 8", "routes: 500 is above"),
        ("switch: router\nfunction: route\nbidirectional: true", "go one way"),
        ("switch: router\nfunction: route\nio: udp", "proven by whole frames"),
        ("switch: router\nfunction: route\nflows: 9:dst-ip", "write flows: N or N:zipf=S"),
        ("switch: router\nfunction: route\nscenario: loopback-1", "use scenario: pairs"),
        ("switch: router\nfunction: route\ndimension: latency\nflows: 9", "addresses of the"),
        ("switch: tunnels\nfunction: forward+vxlan\ntunnels: 10\nflows: 9",
         "9 flows leave some of 10 tunnels without load; use 10 flows or more"),
        ("switch: tunnels\nfunction: forward+vxlan\nbidirectional: true", "is traffic both"),
        ("switch: tunnels\nfunction: forward+vxlan\ndirection: both", "needs bidirectional: true"),
        ("switch: tunnels\nfunction: forward+vxlan\ndirection: push", "push is not a direction"),
        ("switch: tunnels\nfunction: forward+vxlan\nip_version: 6", "VXLAN over IPv4 only"),
        ("switch: tunnels\nfunction: forward+vxlan\ndimension: latency", "round trips through"),
        ("switch: tunnels\nfunction: forward+vxlan\nvlan: 5", "5 is a tag"),
        ("switch: tunnels\nfunction: forward+vxlan\ntunnels: 101\nflows: 200",
         "at most 100 tunnels for vxlan, not 101"),
        ("switch: router\nfunction: route+acl\nmasks: 4\nrules: 2", "above the number of rules, 2"),
    ],
)  # fmt: skip
def test_an_impossible_function_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        trials(text)
    assert message in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("function: nat", "'nat' is not a function; use forward, route, acl"),
        ("function: acl", "'acl' has no base; write forward+acl or route+acl"),
        ("function: acl+route", "has a base behind the first place"),
        ("function: route+acl+acl", "'acl' is given twice"),
        ("prefix_length: 129", "'129' is not a prefix length"),
        ("routes: 0", "use 1 or more"),
        ("rules_file: table.csv", "'table.csv' is not an absolute path"),
    ],
)
def test_a_mistake_in_a_value_has_its_line(text: str, message: str) -> None:
    with pytest.raises(UsageError) as caught:
        trials(f"switch: router\n{text}")
    assert "c.yaml:3: " in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    "text", ["direction: encap", "direction: decap", "direction: both\nbidirectional: true"]
)
def test_tunnels_have_each_direction(text: str) -> None:
    (trial,) = trials(f"switch: tunnels\nfunction: forward+vxlan\ntunnels: 5\nflows: 9\n{text}")
    assert trial.tunnels == 5 and trial.direction in text


FILE = "permit, 198.18.0.0/15, 0.0.0.0/0, udp, any, 1000-2000\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("switch: vpp\nfunction: forward+policer\ncbs: 4000", "vpp: cbs is 4000; VPP raises it"),
        ("switch: vpp\nfunction: forward+policer\ncir: 10500", "vpp: cir is 10500"),
        ("switch: vpp\nfunction: forward+vlan\nswitch_options: {cross_connect: l2patch}",
         "l2patch passes whole interfaces"),
        ("switch: linux-router\nfunction: route+policer\ncir: 30G", "nftables cannot keep a frame"),
        ("switch: linux-bridge\nfunction: forward+policer\npacket_mix: imix", "frames of one size"),
        ("switch: bess\nfunction: forward+acl\nrules_file: FILE", "rule 0 has ports 1000-2000"),
        ("switch: xdp-redirect\nfunction: route+acl\nrules_file: FILE", "a range of ports"),
        ("switch: fastclick\nfunction: route\nroutes: 5k\nip_version: 6",
         "at most 1000 routes with IPv6, not 5000"),
        ("switch: snabb\nfunction: forward+acl\nrules_file: LONG", "at most 250 rules for acl"),
    ],
)  # fmt: skip
def test_a_table_beyond_a_switch_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """A campaign with real switches is refused when it is read, without a switch that starts."""
    for name, lines in (("FILE", FILE), ("LONG", FILE * 300)):
        (tmp_path / name).write_text(lines)
        text = text.replace(name, str(tmp_path / name))
    capabilities = {name: make().capabilities for name, make in REAL.items()}
    known = Known(switches=tuple(REAL), environments=("netns",))
    size = "" if "packet_mix" in text else "packet_size: 84\n"
    with pytest.raises(UsageError, match=message):
        expand(load_text(f"{size}{text}", "c.yaml", known, []), capabilities)


def test_the_sample_of_a_table_is_small_and_has_all_masks() -> None:
    trial = Trial(switch="bess", dimension=Dimension.THROUGHPUT, packet_size_bytes=64)
    functions = FunctionList.of("route+acl")
    changed = trial.changed({"function": functions, "routes": 10**6, "rules": 10**5, "masks": 16})
    table = sample_table(changed)
    assert table.routes is None and len(table.rules) < 300
    assert len({rule.source.partition("/")[2] for rule in table.rules if not rule.permit}) == 16


def test_a_router_has_the_connect_mode_route() -> None:
    (trial,) = trials("switch: router\nfunction: route\nroutes: 10")
    assert trial.connect_mode is ConnectMode.ROUTE
    assert trial.function.names == ("route",)


def test_functions_are_one_value_in_the_order_of_their_names() -> None:
    found = trials("switch: router\nfunction: route, route+acl")
    assert [str(trial.function) for trial in found] == ["route", "route+acl"]


def test_bases_may_stand_in_one_campaign() -> None:
    found = trials(
        "sweeps: [{switch: router, function: route}, {switch: bridge, function: forward+acl}]"
    )
    modes = {trial.switch: trial.connect_mode for trial in found}
    assert modes == {"router": ConnectMode.ROUTE, "bridge": ConnectMode.LEARNING}


def test_a_missing_file_is_refused_when_the_campaign_is_read() -> None:
    with pytest.raises(UsageError, match="routes_file: /no/such/table: No such file"):
        trials("switch: router\nfunction: route\nroutes_file: /no/such/table")


def test_keys_of_other_functions_are_ignored_in_trials() -> None:
    found = trials("switch: router\nfunction: route, route+acl\nrules: 0, 10")
    assert sorted((str(one.function), one.rules) for one in found) == [
        ("route", 100), ("route+acl", 0), ("route+acl", 10),
    ]  # fmt: skip
