"""Combinations of scenarios, VNFs, environments and ports that are refused before a start."""

from __future__ import annotations

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.errors import UsageError
from switchmark.model.choices import Dimension
from switchmark.model.trial import Trial

THERE = installed()


def trials_of(text: str) -> list[Trial]:
    campaign = load_text(f"dimension: throughput\n{text}\n", "unit.yaml", THERE.known)
    return expand(campaign, THERE.switches, THERE.environments)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("switch: direct\nscenario: loopback-1", "two ends, and cannot connect a chain"),
        (
            "switch: direct\nscenario: p2v",
            "connects two ends of the same kind, and p2v has two kinds",
        ),
        (
            "switch: ovs-dpdk\nconnect_mode: cross-connect\nscenario: loopback-1\nvnf: bridge",
            "needs network devices, and vhost-user is a socket",
        ),
        (
            "switch: linux-bridge\nscenario: loopback-1\nvnf: l2fwd",
            "needs buffers of DPDK, and veth has none; use vnf: forwarder",
        ),
        (
            "switch: vale\nscenario: loopback-1\nvnf: bridge",
            "only connect_mode cross-connect can carry a chain of them, which vale does",
        ),
        (
            "switch: ovs-netdev\nconnect_mode: learning\nscenario: loopback-1\nvnf: bridge",
            "write connect_mode: cross-connect",
        ),
        ("switch: linux-bridge\nvcpus: 2\nenvironment: lxc", "lxc has no virtual CPUs"),
        ("switch: direct\nscenario: p2p\nnics: a/b+c/d", "without ports of the host"),
        ("switch: macvlan\nscenario: p2p\nnics: a/b+c/d", "takes no port of the host"),
        *(
            (
                f"switch: {switch}\nio: af-xdp\nvlan: {vlan}\npacket_size: 128",
                f"vlan {vlan}: {switch} passes tags outside",
            )
            for switch in ("linux-bridge", "tc-redirect", "macvlan")
            for vlan in ("100", "200.100")
        ),
        (
            "switch: linux-bridge\nscenario: p2p\nnics: a/b+c/d\nio: udp",
            "nics keep their addresses",
        ),
        ("switch: linux-bridge\nscenario: p2p\nnics: a/0000:01:00.0+c/d", "drives no PCI port"),
        ("switch: linux-bridge\nscenario: p2p\nnics: 0000:01:00.0/b+c/d", "write io: dpdk"),
        ("switch: linux-bridge\nscenario: p2p\nnics: a/b", "there are 2 testers .tx0, rx0."),
        ("switch: linux-bridge\nscenario: v2v\nnics: a/b", "there are 0 testers .none in"),
        ("switch: linux-bridge\nscenario: p2p\nnics: a/b+c/a", "names a twice"),
        ("switch: linux-bridge\nscenario: p2p\nnics: a-b", "write e.g. eth2/eth3.eth4/eth5"),
        (
            "switch: linux-bridge\nscenario: p2p\nnics: a/b+c/d\nlocation: remote",
            "nics work on one host only",
        ),
        (
            "switch: linux-bridge\nenvironment: docker\nio: af-xdp",
            "only with all capabilities .SYS_ADMIN",
        ),
        ("switch: linux-bridge\nenvironment: bare\nio: udp", "share that of the host"),
        ("switch: linux-bridge\nscenario: pairs-4\npairs: 2", "leave pairs out"),
        ("switch: vpp\nscenario: chains-64x64", "chains of 64 VNFs|takes at most"),
        ("switch: linux-bridge\nscenario: pairs-501", "addresses for 500 pairs, not for 501"),
        ("switch: ovs-dpdk\nscenario: chains-101x1", "101 chains of 1 VNFs make 404 ports"),
        (
            "switch: linux-bridge\nscenario: [p2p, p2v]\nnics: a/b",
            "names 1 of TESTER/SWITCH, and there are 2",
        ),
        (
            "switch: linux-bridge\nscenario: p2p\npairs: 5\nnics: a/b",
            "there are 10 testers .tx0, rx0, tx1, rx1, tx2, rx2, tx3, rx3 and 2 more.",
        ),
        (
            "switch: sriov\nswitch_options: {vf_driver: vfio}\nio: [dpdk, raw]",
            "ports are only for io dpdk, not for raw; use io: dpdk, or vf_driver: kernel",
        ),
        ("switch: sriov\nswitch_options: {vf_driver: vfio}", "not for auto; use io: dpdk"),
        (
            "switch: sriov\nswitch_options: {vf_driver: vfio}\nio: dpdk\nscenario: loopback-1",
            "VNFs use devices; use a scenario without a chain",
        ),
        ("switch: direct\nlocation: remote\npairs: 2", "one cable connects one pair, not 2"),
        (
            "switch: direct\nlocation: remote\nio: udp",
            "which belongs to the host and does not change",
        ),
        (
            "switch: direct\nlocation: remote\nenvironment: bare",
            "direct moves the cable into a namespace",
        ),
        ("switch: direct\nlocation: remote\nport_kind: memif", "direct uses the cable as its port"),
        (
            "switch: sriov\nlocation: remote\nswitch_options: {vlan: pair}",
            "vlan is pair, which works on one host only.*; use vlan: none",
        ),
        ("switch: macvlan\nlocation: remote", "cannot use the cable between two hosts"),
        ("switch: macvlan\nlocation: remote", "its ports exist only as devices on"),
        ("switch: sriov\nscenario: p2p\nnics: eth1/eth2", "sriov takes no port of the host"),
        ("switch: macvlan\nlocation: remote\nport_kind: macvlan", "which has no cable"),
        (
            "switch: af-packet\nlocation: remote\npairs: 2\nconnect_mode: cross-connect",
            "cross-connect can carry one pair only",
        ),
        (
            "switch: linux-bridge\nlocation: remote\nconnect_mode: static-mac",
            "there are many behind the cable between hosts",
        ),
        ("switch: linux-bridge\nlocation: remote\nmethod: recovery", "recovery works on one host"),
        (
            "switch: linux-bridge\nlocation: remote\nmethod: calibrate",
            "method calibrate measures the baseline; use switch: direct",
        ),
        (
            "switch: ovs-netdev\nconnect_mode: cross-connect\nscenario: loopback-1\n"
            "vnf: /usr/bin/true\nlocation: remote",
            "a user's VNF works on one host only",
        ),
    ],
)
def test_refused_with_a_reason_and_a_remedy(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        trials_of(text)


def test_latency_is_not_bidirectional() -> None:
    with pytest.raises(UsageError, match="round trips always use both directions"):
        campaign = load_text(
            "switch: ovs-dpdk\ndimension: latency\nbidirectional: true\n", "u.yaml", THERE.known
        )
        expand(campaign, THERE.switches, THERE.environments)


def test_too_few_ports() -> None:
    limited = next(
        (name, capabilities)
        for name, capabilities in THERE.switches.items()
        if capabilities.max_ports is not None
    )
    name, capabilities = limited
    chain = (capabilities.max_ports or 0) // 2
    if chain > 64:
        pytest.skip(f"{name} takes more ports than the longest chain has")
    with pytest.raises(
        UsageError, match=f"takes at most {capabilities.max_ports} ports, and 1 x loopback"
    ):
        trials_of(f"switch: {name}\nscenario: loopback-{chain}")


def test_scenarios_with_numbers_become_one_name_and_pairs() -> None:
    trials = trials_of("switch: linux-bridge\nscenario: [pairs-4, chains-2x3, loopback-1, p2p]")
    found = {(trial.scenario, trial.pairs) for trial in trials}
    assert found == {("pairs", 4), ("loopback-3", 2), ("loopback-1", 1), ("p2p", 1)}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("switch: basicfwd\nscenario: chains-2x1", "basicfwd has no rules that divide frames"),
        ("switch: ovs-dpdk\nscenario: loopback-1", "needs several chains with one sender"),
        (
            "switch: ovs-dpdk\nscenario: chains-2x1\nbidirectional: true",
            "needs traffic in one direction",
        ),
        ("switch: ovs-dpdk\nscenario: chains-2x1\nflows: 4", "for each chain; leave flows out"),
    ],
)
def test_split_with_impossible_keys_is_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        trials_of(f"{text}\nsplit: src-mac\nconnect_mode: cross-connect")


def test_a_split_goes_by_rules_and_needs_flows() -> None:
    requested = "switch: ovs-dpdk\nscenario: chains-2x1\n"
    with pytest.raises(UsageError, match="write connect_mode: cross-connect"):
        trials_of(f"{requested}split: src-mac\nconnect_mode: learning")
    with pytest.raises(UsageError, match="sends one flow through one chain"):
        trials_of(f"{requested}split: flow\nconnect_mode: cross-connect")
    (trial,) = trials_of(f"{requested}split: src-mac\nconnect_mode: cross-connect")
    assert trial.streams == 1 and trial.pairs == 2


def test_notation_carries_them() -> None:
    text = "(V=ovs-dpdk, scenario=loopback-2, vnf=/usr/bin/true, bidirectional=true)"
    trial = from_notation(text, THERE.known)
    assert (trial.scenario, trial.vnf, trial.bidirectional) == (
        "loopback-2", "/usr/bin/true", True,
    )  # fmt: skip
    assert from_notation(to_notation(trial)) == trial
    for wrong in ("scenario=loopbck-2", "scenario=loopback-x", "vnf=frwarder", "vnf=/a b"):
        with pytest.raises(UsageError, match=r"did you mean|known:|not a path"):
            from_notation(f"(V=ovs-dpdk, {wrong})", THERE.known)


def test_trial_ids_do_not_change() -> None:
    """Records are kept under it: a new key of a trial must not change the ids there are."""
    plain = Trial(dimension=Dimension.THROUGHPUT, switch="linux-bridge", packet_size_bytes=64)
    assert plain.id == "a64c45028135ff3d"
    other = Trial(
        dimension=Dimension.LATENCY, switch="ovs", packet_size_bytes=1500, pairs=4,
        rate_pps=1000, burst=1, repetition=2,
    )  # fmt: skip
    assert other.id == "feacbe6452ecc30a"
    for change in ({"bidirectional": True}, {"vnf": "bridge"}):
        assert plain.model_copy(update=change).id != plain.id


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("switch: linux-bridge\ncpu_limit: 50%", "no separate CPU time for cpu_limit"),
        ("switch: linux-bridge\nswitch_cpus: 1", "on the senders' cores; use switch_cpus: auto"),
        ("switch: ovs-dpdk\nswitch_cpus: 1+2", "set switch_cores to the number of these, 2"),
        ("switch: basicfwd\nmain_cpu: 0", "no main thread that does not forward"),
        ("switch: linux-bridge\nsmt: siblings", "so smt: siblings has no meaning; name the cores"),
        ("switch: linux-bridge\nnuma: [same, other]", "so numa: other has no meaning"),
        ("switch: vpp\nnuma: generator-apart\nscenario: v2v", "no testers .*; use numa: same"),
        (
            "switch: vpp\nnuma: generator-apart\nscenario: p2p\napplication_cpus: 1",
            "places every application; use application_cpus: auto",
        ),
    ],
)
def test_cpu_time_and_cores_that_a_switch_does_not_have(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        trials_of(text)


def test_keys_of_cpu_time_and_neighbours() -> None:
    trials = trials_of(
        "switch: ovs-dpdk\ncpu_limit: [none, 100%, 12.5%]\nneighbour: [none, cache]\n"
        "neighbour_cpus: switch\nswitch_cpus: 3\napplication_cpus: 1+2\n"
        "main_cpu: 0\nsmt: avoid\nnuma: same"
    )
    assert {trial.cpu_limit for trial in trials} == {None, 1.0, 0.125}
    assert {trial.neighbour for trial in trials} == {"none", "cache"}
    assert all(from_notation(to_notation(trial), THERE.known) == trial for trial in trials)
    for wrong in ("cpu_limit: 0%", "neighbour: cahe", "switch_cpus: 1, 2", "neighbour_cpus: all"):
        with pytest.raises(
            UsageError, match=r"50%|did you mean|write e\.g\. 2\+3|the number of these, 1|all"
        ):
            trials_of(f"switch: ovs-dpdk\n{wrong}\nswitch_cores: 2")


def test_a_neighbour_that_is_not_there_is_nowhere() -> None:
    """One trial without it, not one for every place that it is not at."""
    installation = installed()
    text = "switch: linux-bridge\nneighbour: [none, cpu]\nneighbour_cpus: [any, 0+1]\n"
    trials = expand(
        load_text(text, "c.yaml", installation.known),
        installation.switches,
        installation.environments,
    )
    assert sorted((one.neighbour, one.neighbour_cpus) for one in trials) == [
        ("cpu", "0+1"), ("cpu", "any"), ("none", "any"),
    ]  # fmt: skip


def test_between_hosts_no_remedy_is_a_mode_that_the_switch_lacks() -> None:
    installation = installed()
    text = "switch: macvlan\nconnect_mode: veb\nenvironment: lxc\nlocation: remote\n"
    with pytest.raises(UsageError) as error:
        expand(
            load_text(text, "c.yaml", installation.known),
            installation.switches,
            installation.environments,
        )
    assert "macvlan cannot use the cable between two hosts" in str(error.value)
    assert "learning" not in str(error.value)


def test_only_what_the_kernel_hands_over_can_be_slept_for() -> None:
    for requested in ("io: [raw, udp-mmsg, packet-mmap]", "io: auto", "io: [af-xdp, io-uring]"):
        assert trials_of(f"switch: linux-bridge\nidle: block\n{requested}")
    for requested in ("switch: ovs-dpdk", "switch: linux-bridge\nio: dpdk"):
        with pytest.raises(UsageError, match=r"idle block: io dpdk on a .* use another idle"):
            trials_of(f"{requested}\nidle: block")
