"""Keys of networks that exist already: combinations that are refused when a campaign is read."""

from __future__ import annotations

import pytest

from switchmark.campaign.expand import leave_out_unable
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.experiment.steps import plan_steps
from switchmark.host import facts
from switchmark.model.campaign import CampaignDefinition
from switchmark.trial.plan import Cores

ENDPOINTS = "endpoints: netns:a+netns:b\n"
TO_A_POD = "location: remote\nendpoints: netns:a+pod:shop/db\n"
BETWEEN_NODES = ("tcp-stream", "tcp-rr", "tcp-crr", "udp-stream", "udp-rr")
FOREIGN_BETWEEN_NODES = (
    ("tcp-stream", "iperf3"), ("udp-stream", "iperf3"), ("tcp-rr", "sockperf"),
    ("udp-rr", "sockperf"), ("http", "switchmark"), ("dns", "dnsperf"),
)  # fmt: skip
ATTACH = "switch_options: {attach: br0}\n"
ADDRESSES = "addresses: 10.77.0.201/24+10.77.0.202/24\n"


def read(text: str) -> CampaignDefinition:
    return load_text(f"name: x\n{text}", "x.yaml", installed().known)


def check(text: str) -> None:
    """Read a campaign and expand it, as `plan` does."""
    here = installed()
    campaign, _ = leave_out_unable(read(text), here.switches, here.environments)
    plan_steps(campaign, here, baselines=False, site=None, cores=Cores(facts.read_cpus()))


@pytest.mark.parametrize(
    "text",
    [
        ENDPOINTS,
        ATTACH + ADDRESSES,
        "switch_options: {attach: ovs:br-int, attach_vlan: 7}\n" + ADDRESSES,
        "switch_options: {attach: docker:shop}\n",
        ENDPOINTS + "rate: 1k\nmax_rate: 5k\nabort_if: 3\n",
        ENDPOINTS + "workload: tcp-rr\nrate: 1k\nmax_rate: 5k\nabort_if: 3\n",
        ATTACH + ADDRESSES + "workload: tcp-rr\nrate: 1k\n",
        *(TO_A_POD + f"workload: {name}\nrate: 1M\n" for name in BETWEEN_NODES),
        *(
            TO_A_POD + f"workload: {name}\ngenerator: {program}\nrate: 1k\n"
            for name, program in FOREIGN_BETWEEN_NODES
        ),
    ],
)
def test_a_network_of_the_user_is_planned(text: str) -> None:
    check("switch: existing\n" + text)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("switch: existing\n", "neither is given"),
        ("switch: existing\n" + ENDPOINTS + ATTACH, "both are given"),
        ("switch: existing\n" + ATTACH, "need free addresses"),
        ("switch: existing\n" + ENDPOINTS + ADDRESSES, "endpoints have their addresses"),
        ("switch: existing\nswitch_options: {attach: docker:x}\n" + ADDRESSES, "Docker chooses"),
        ("switch: existing\nswitch_options: {attach: docker:x, attach_vlan: 7}\n", "attach_vlan"),
        ("switch: existing\nswitch_options: {attach: 'vde:x'}\n", "it takes a bridge"),
        ("switch: existing\nswitch_options: {attach: br0, attach_vlan: 4095}\n" + ADDRESSES,
         "1 to 4094"),
        ("switch: existing\npairs: 2\n" + ENDPOINTS, "at most 2 ports"),
        ("switch: existing\nmethod: recovery\nrate: 1k\n" + ENDPOINTS, "recovery"),
        ("switch: existing\nio: raw\n" + ENDPOINTS, "io raw"),
        ("switch: existing\nenvironment: lxc\n" + ENDPOINTS, "choose another environment"),
        ("switch: existing\nworkload: tcp-stream\noffload: off\n" + ENDPOINTS, "stay as they are"),
        ("switch: existing\nworkload: tcp-rr\ncongestion_control: cubic\n" + ENDPOINTS,
         "stay as they are"),
        ("switch: existing\nworkload: http\ngenerator: h2load\n" + TO_A_POD,
         "h2load sends as fast as it can.*capped.*use generator: switchmark"),
        ("switch: existing\nworkload: redis\n" + TO_A_POD,
         "redis-benchmark sends as fast as it can.*use workload: .*tcp-rr"),
        ("switch: existing\ngenerator: iperf3\nrate: 1k\n" + TO_A_POD, "iperf3 takes veth ports"),
        ("switch: linux-bridge\nlocation: remote\nworkload: tcp-rr\n",
         "tcp-rr works between two hosts only to a pod"),
        ("switch: existing\nworkload: udp-stream\ngenerator: iperf3\nrate: 1M\n"
         "endpoints: netns:a+address:10.0.0.1:80+netns:b\n",
         "iperf3 sends datagrams only beside.*use generator: switchmark"),
        ("switch: linux-bridge\n" + ENDPOINTS, "endpoints belongs to switch existing"),
        ("switch: linux-bridge\n" + ADDRESSES, "addresses belongs to switch existing"),
        ("switch: linux-bridge\nmax_rate: 1k\n", "max_rate belongs to switch existing"),
        ("switch: existing\nendpoints: web+db\n", "not KIND:NAME"),
        ("switch: existing\naddresses: 10.0.0.1/24\n" + ATTACH, "not two addresses"),
        ("switch: existing\naddresses: 10.0.0.1/24+10.0.1.1/24\n" + ATTACH, "different networks"),
        ("switch: existing\naddresses: 10.0.0.1/24+10.0.0.1/24\n" + ATTACH, "both ends have"),
        ("switch: existing\naddresses: 10.0.0.0/24+10.0.0.1/24\n" + ATTACH, "network itself"),
        ("switch: existing\naddresses: 10.0.0.1/24+10.0.0.255/24\n" + ATTACH, "network itself"),
        ("switch: existing\naddresses: 127.0.0.1/8+127.0.0.2/8\n" + ATTACH, "host in a network"),
    ],
)  # fmt: skip
def test_an_impossible_combination_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        check(text)


def test_an_application_may_dial_an_address() -> None:
    check("switch: existing\nworkload: tcp-rr\nendpoints: netns:a+address:10.0.0.1:80+netns:b\n")
