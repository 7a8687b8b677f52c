"""Options of a switch, from the text of a campaign to the switch."""

from __future__ import annotations

import re

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.errors import UsageError
from switchmark.language.source import CampaignError
from switchmark.model.options import cores_refusal, join, parse
from switchmark.switch.ovs_dpdk import OvsDpdk
from switchmark.switch.registry import SWITCHES, make_switch
from switchmark.switch.support.options import configured


def options_of(text: str) -> list[str]:
    installation = installed()
    campaign = load_text(text, "c.yaml", installation.known)
    trials = expand(campaign, installation.switches, installation.environments)
    return sorted(trial.switch_options for trial in trials)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("{vlan_filtering: on}", ["vlan_filtering:on"]),
        ("{vlan_filtering: on, static_fdb: off}", ["static_fdb:off+vlan_filtering:on"]),
        ("vlan_filtering:on+static_fdb:off", ["static_fdb:off+vlan_filtering:on"]),
        ("[{static_fdb: on}, {static_fdb: off}]", ["static_fdb:off", "static_fdb:on"]),
        ("none, vlan_filtering:on", ["", "vlan_filtering:on"]),
        ("{}", [""]),
    ],
)  # fmt: skip
def test_as_campaigns_write_them(written: str, read: list[str]) -> None:
    assert options_of(f"switch: linux-bridge\nswitch_options: {written}\n") == read


@pytest.mark.parametrize(
    ("written", "says"),
    [
        ("{vlan_filtering: 3}", "switch option vlan_filtering is '3'; it takes on, off"),
        ("{emc: on}", "no switch option 'emc' (it has: vlan_filtering, static_fdb, acl_engine)"),
        ("vlan_filtering", "c.yaml:2: switch_options: 'vlan_filtering' is not NAME:VALUE"),
        ("{vlan_filtering: [on, off]}", "c.yaml:2: switch_options: a list does not belong here"),
        ("{vlan_filtering: }", "switch_options: has no value"),
    ],
)  # fmt: skip
def test_unknown_option_is_refused(written: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        options_of(f"switch: linux-bridge\nswitch_options: {written}\n")
    assert says in str(error.value)


@pytest.mark.parametrize("rest", ["\nconnect_mode: cross-connect", ""])
def test_option_that_a_mode_cannot_have_is_refused(rest: str) -> None:
    """Also where the mode is the one that all switches share."""
    text = "switch: linux-bridge\nswitch_options: {static_fdb: on}\n"
    assert options_of(text) == ["static_fdb:on"]
    assert options_of(text.replace("on}", "off}") + "connect_mode: cross-connect\n")
    expected = (
        "static_fdb is on, which connect_mode cross-connect cannot have; use learning, static"
    )
    others = (
        "sweeps:\n- {switch: basicfwd}\n- {switch: linux-bridge, switch_options: {static_fdb: on}}"
    )
    with pytest.raises(UsageError, match=expected):
        options_of(others + rest)
    with pytest.raises(UsageError, match=expected):
        options_of(text + "connect_mode: cross-connect\n")


def test_a_switch_without_options_refuses_all() -> None:
    with pytest.raises(
        UsageError, match=r"tc-redirect has no switch option 'emc' \(it has: none\)"
    ):
        options_of("switch: tc-redirect\nswitch_options: {emc: on}\n")
    with pytest.raises(UsageError, match="tc-redirect has no switch options"):
        configured(make_switch("tc-redirect"), "emc:on")


def test_a_notation_names_them() -> None:
    text = "(V=ovs-dpdk, P=64, switch_options=pmd_maxsleep_us:50+emc:off)"
    trial = from_notation(text)
    assert trial.switch_options == "emc:off+pmd_maxsleep_us:50"
    assert "switch_options=emc:off+pmd_maxsleep_us:50" in to_notation(trial)
    assert from_notation(to_notation(trial)) == trial
    assert join(parse(trial.switch_options)) == trial.switch_options
    with pytest.raises(CampaignError, match="given twice"):
        from_notation("(V=ovs-dpdk, P=64, switch_options=emc:off+emc:on)")


@pytest.mark.parametrize("name", SWITCHES)
def test_every_default_is_allowed(name: str) -> None:
    for option in SWITCHES[name]().capabilities.options:
        assert option.takes(option.default), f"{name}: {option.name}"
        assert option.meaning and option.allowed
        configured(make_switch(name), f"{option.name}:{option.default}")


def test_a_profile_sets_what_is_not_chosen() -> None:
    switch = configured(OvsDpdk(), "profile:balanced")
    assert isinstance(switch, OvsDpdk)
    assert switch.option("rxq_affinity") == "ingress"
    assert switch.option("pmd_maxsleep_us") == "0"
    switch.configure({"profile": "low-latency", "rxq_affinity": "auto"})
    assert switch.option("rxq_affinity") == "auto"
    assert OvsDpdk().option("rxq_affinity") == "auto"
    for wrong in ("10001", "-1", "x"):
        with pytest.raises(UsageError, match="it takes 0 to 10000"):
            switch.configure({"pmd_maxsleep_us": wrong})


@pytest.mark.parametrize(
    ("chosen", "cores", "output"),
    [
        (
            "profile:balanced",
            1,
            r"ingress \(profile:balanced\), which takes 2 cores",
        ),
        ("rxq_affinity:ingress", 1, "ingress, which takes 2 cores"),
        ("profile:balanced", 2, ""),
        ("profile:balanced+rxq_affinity:auto", 1, ""),
        ("profile:low-latency", 1, ""),
    ],
)
def test_option_for_two_cores_is_refused_at_read(chosen: str, cores: int, output: str) -> None:
    capabilities = OvsDpdk().capabilities
    refused = cores_refusal("ovs-dpdk", capabilities, parse(chosen), cores)
    assert bool(refused) == bool(output)
    assert re.search(output, str(refused or ""))
    text = f"switch: ovs-dpdk\nswitch_options: {chosen}\nswitch_cores: {cores}\n"
    if output:
        with pytest.raises(UsageError, match=output):
            options_of(text)
    else:
        assert options_of(text) == [join(parse(chosen))]


@pytest.mark.parametrize(
    "name", [name for name in SWITCHES if SWITCHES[name]().capabilities.options]
)
def test_every_option_stands_in_the_record(name: str) -> None:
    """The check works without a start of the switch."""
    assert "option_details" in type(make_switch(name)).details.__code__.co_names
