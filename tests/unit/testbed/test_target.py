"""Described machines that do not exist here: campaigns are planned for them and checked."""

from __future__ import annotations

import json
import re
from importlib import resources
from pathlib import Path

import pytest

from switchmark.cli.main import run as switchmark
from switchmark.cli.plan import make_plan
from switchmark.cli.plan_checks import refused_by_run
from switchmark.errors import UsageError
from switchmark.model.ports import CableEnd
from switchmark.model.topology import NodePlace, TopologyNode
from switchmark.reproduction.paper import paper_names, read_paper
from switchmark.testbed.target import find_target, read_target, target_names
from switchmark.trial.plan import TrialPlan

TARGETS = resources.files("switchmark.testbed") / "targets"


def test_a_described_machine_has_the_cpus_as_linux_numbers_them() -> None:
    target = read_target("sockets: 2\ncores: 3\nthreads: 2\nisolated: 1-2, 5\n", "lab.yaml")
    assert [(one.id, one.core, one.node) for one in target.cpus][:4] == [
        (0, (0, 0), 0), (1, (0, 1), 0), (2, (0, 2), 0), (3, (1, 0), 1),
    ]  # fmt: skip
    assert target.cpus[6].core == target.cpus[0].core, "its SMT sibling"
    assert [one.id for one in target.cpus if one.isolated] == [1, 2, 5]
    assert target.lacks(["vpp"], ["lxc"], ["eth9"]) == [], "unmentioned parts are present"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("sockets: 2", "lab.yaml:1: cores: is missing; write e.g. cores: 12"),
        ("cores: none", "lab.yaml:1: cores: 'none' is not a number"),
        ("cores: 2\ncoers: 3", "lab.yaml:2: coers: unknown key; did you mean cores?"),
        ("cores: 2\nisolated: a-b", "lab.yaml:2: isolated: 'a-b' is not a CPU; write e.g. 2-5, 8"),
    ],
)
def test_wrong_description_is_reported_with_its_line(text: str, says: str) -> None:
    with pytest.raises(UsageError) as error:
        read_target(text, "lab.yaml")
    assert says in str(error.value)


def test_an_unknown_machine_is_answered_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"did you mean zhang2019\?; or name a file"):
        find_target("zhang2018")


@pytest.mark.parametrize("name", paper_names())
def test_every_item_plans_on_the_machine_of_its_paper(name: str) -> None:
    paper = read_paper(name)
    assert paper.target in target_names()
    for campaign in dict.fromkeys(item.campaign for item in paper.items):
        plan = make_plan(campaign, [], paper.target)
        assert plan.placed
        refused = refused_by_run(plan.prepared, plan.installed, plan.target, None)
        assert refused + plan.prepared.left_out == [], "nothing is refused or left out"


CABLED = {  # two pairs of ports of the machine with a cable between them
    CableEnd.INTERFACE: ["eth1", "eth2", "eth3", "eth4"],
    CableEnd.PCI: ["0000:01:00.0", "0000:01:00.1", "0000:81:00.0", "0000:81:00.1"],
}

REFUSED = "drives no PCI port itself"


def with_nics(paper: str, names: list[str], folder: Path) -> str:
    """Return the file of the paper's machine with these NICs instead of the listed NICs."""
    text = (TARGETS / f"{paper}.yaml").read_text()
    listed = ", ".join(f'"{name}"' for name in names)
    changed, count = re.subn(r"(?m)^nics:.*$", f"nics: [{listed}]", text)
    assert count == 1
    file = folder / f"{paper}.yaml"
    file.write_text(changed)
    return str(file)


@pytest.mark.parametrize("end", CABLED)
@pytest.mark.parametrize("name", paper_names())
def test_items_with_wire_ends_have_plans_with_nics(
    tmp_path: Path, name: str, end: CableEnd
) -> None:
    """Interfaces suffice for every switch of the papers, PCI ports only for those on DPDK; the
    others are left out, or refused by name."""
    paper, names = read_paper(name), CABLED[end]
    machine = with_nics(paper.target, names, tmp_path)
    for campaign in dict.fromkeys(item.campaign for item in paper.items):
        plain = make_plan(campaign, [], paper.target)
        known = plain.installed.switches
        wires = max(len(wire_ends(placed)) for placed in plain.placed.values())
        if wires == 0:
            continue
        nics = "+".join(f"{names[2 * k]}/{names[2 * k + 1]}" for k in range(wires))
        switches = {placed.trial.switch for placed in plain.placed.values()}
        able = {one for one in switches if end in known[one].cable_ends}
        assert able == switches or end is CableEnd.PCI, campaign
        if not able or (able != switches and not plain.campaign.skip_unavailable):
            with pytest.raises(UsageError, match=REFUSED):
                make_plan(campaign, [f"nics={nics}"], machine)
            continue
        plan = make_plan(campaign, [f"nics={nics}"], machine)
        plans = list(plan.placed.values())
        assert refused_by_run(plan.prepared, plan.installed, plan.target, None) == []
        left_out = plan.prepared.left_out
        assert {line.split()[0] for line in left_out if REFUSED in line} == switches - able, (
            left_out
        )
        assert {placed.trial.switch for placed in plans} == able
        for placed in plans:
            nodes_nics = [node.nic for node in wire_ends(placed)]
            assert [nic.both for nic in nodes_nics if nic] == [
                (names[2 * k], names[2 * k + 1]) for k in range(wires)
            ]


def wire_ends(placed: TrialPlan) -> list[TopologyNode]:
    return [node for node in placed.topology.nodes if node.place is NodePlace.WIRE]


def test_a_campaign_between_hosts_needs_a_target_of_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lab = tmp_path / "lab.yaml"
    for hosts, refused in (("hosts: 1", True), ("hosts: 2", False), ("", False)):
        lab.write_text(f"cores: 8\n{hosts}\n")
        assert switchmark(["plan", "(V=linux-bridge, L=remote)", "--target", str(lab)]) == 0
        is_reported = (
            "target lab is one host, and location: remote needs two" in capsys.readouterr().err
        )
        assert is_reported is refused, hosts


def test_plan_reports_refusals_of_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lab = tmp_path / "lab.yaml"
    lab.write_text(
        "cores: 4\nswitches: [linux-bridge]\nenvironments: [netns]\nnics: [eth1, eth3, eth4]\n"
    )
    cell = "(V={linux-bridge, ovs-netdev}, scenario=p2p, nics=eth1/eth2+eth3/eth4)"
    assert switchmark(["plan", cell, "--target", str(lab)]) == 0
    err = capsys.readouterr().err
    assert "target lab has no switch ovs-netdev (it has: linux-bridge)" in err
    assert "target lab has no nics: eth2 (it has: eth1, eth3, eth4)" in err
    assert switchmark(["plan", cell, "--json"]) == 0
    refused = json.loads(capsys.readouterr().out)["refused_by_run"]
    assert any("eth1" in one for one in refused), "there is no such NIC here"


def test_plan_reports_switches_that_run_would_leave_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "job.yaml"
    job.write_text(
        "switch: [linux-bridge, macvlan]\nlocation: remote\ndimension: throughput\n"
        "mixed_connect_modes: true\nskip_unavailable: true\n"
    )
    assert switchmark(["plan", str(job), "--target", "ara2021"]) == 0
    stderr = capsys.readouterr().err
    assert "left out: macvlan cannot use the cable between two hosts" in stderr
    assert "would refuse" not in stderr


def test_plan_reads_the_same_testbed_file_as_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remote = "(V=linux-bridge, L=remote)"
    broken = tmp_path / "lab.yaml"
    broken.write_text("hosts: 5\n")
    for text in (remote, "(V=linux-bridge)"):
        for file in (tmp_path / "no.yaml", broken):
            assert switchmark(["plan", text, "--testbed", str(file)]) == 2
            out, err = capsys.readouterr()
            assert str(file) in err and len(err.splitlines()) == 1 and not out


def test_plan_beyond_the_cores_names_trial_and_remedy(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert switchmark(["plan", "(V=ovs-dpdk, switch_cores=900)"]) == 3
    err = capsys.readouterr().err
    assert "ovs-dpdk: (D=throughput" in err and "switch_cores: is 900" in err
    assert "--target FILE" in err
    assert switchmark(["plan", "(V=ovs-dpdk, switch_cores=8)", "--target", "ara2021"]) == 0
    assert "placement on ara2021" in capsys.readouterr().out


@pytest.mark.parametrize("switch", ["vpp", "ovs-dpdk"])
def test_pci_ports_need_no_io_if_nodes_have_sockets(switch: str) -> None:
    plan = make_plan(f"(V={switch}, scenario=p2v, nics=0000:01:00.0/0000:01:00.1)", [], "zhang2019")
    assert {str(placed.port_kind) for placed in plan.placed.values()} == {"vhost-user"}


def test_machine_of_zhang_has_the_generator_on_another_node() -> None:
    for item in ("fig1", "fig4a", "fig4b", "fig5", "fig6", "table3", "v2p"):
        plan = make_plan(f"zhang2019-{item}", [], "zhang2019")
        for placed in plan.placed.values():
            outside = [node.name for node in placed.topology.nodes if node.place == "wire"]
            for name, (core,) in placed.placement.application_cores.items():
                assert (core % 24 >= 12) == (name in outside), placed.placement.reason
