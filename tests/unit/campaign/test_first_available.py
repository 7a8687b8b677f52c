"""`first_available`: the first switches and environments of a campaign's lists that can run are
measured, and one sentence says what was left out, why, and what takes its place."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.campaign.find import find_campaign
from switchmark.campaign.first_available import choose, sentence
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.cli.main import run as switchmark
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UsageError
from switchmark.experiment import execute, prepare, steps
from switchmark.experiment.prepare import Prepared
from switchmark.host import facts, place
from switchmark.host.facts import Cpu
from switchmark.host.place import Facility, Kind, remedies
from switchmark.model.capabilities import Availability, available, unavailable
from switchmark.model.ports import ConnectMode
from switchmark.results.run_directory import Run
from switchmark.switch.support.base import Switch
from tests.unit.campaign_fakes import KNOWN

THERE = installed()
NO_NAMESPACES = unavailable("this container cannot fly (not permitted)", "docker run --wings")
ABSENT = unavailable("program `x` not found", "apt install x")
CAMPAIGN = """\
switch: [linux-bridge, basicfwd, ovs-dpdk, ovs-netdev]
environment: [lxc, netns, veth-only]
connect_mode: cross-connect
first_available: {switch: 2, environment: 1}
throughput: {rate: max}
latency: {rate: 1000}
"""
NOUNS = {"lxc": "LXC containers", "veth-only": "plain processes"}


def chosen(text: str = CAMPAIGN, **absent: Availability) -> tuple[set[str], set[str], str | None]:
    """The switches and environments that are measured if these are absent, and the sentence."""
    available_names = {name.replace("_", "-"): answer for name, answer in absent.items()}

    def answer(name: str) -> Availability:
        return available_names.get(name, available("1"))

    campaign = load_text(text, "c.yaml", KNOWN)
    campaign, choices = choose(campaign, answer, lambda _, name: answer(name))
    return (
        {name for sweep in campaign.sweeps for name in sweep.switch},
        {name for sweep in campaign.sweeps for name in sweep.environment},
        sentence(choices, lambda name: NOUNS.get(name, "")),
    )


def test_preferred_ones_are_taken_without_a_word() -> None:
    assert chosen() == ({"linux-bridge", "basicfwd"}, {"lxc"}, None)
    # Those behind them are not even asked.
    assert chosen(ovs_dpdk=ABSENT, netns=ABSENT)[2] is None


def test_absent_switch_is_replaced_by_the_next() -> None:
    switches, environments, text = chosen(linux_bridge=ABSENT, ovs_dpdk=ABSENT)
    assert (switches, environments) == ({"basicfwd", "ovs-netdev"}, {"lxc"})
    assert text == (
        "linux-bridge and ovs-dpdk were left out because program `x` not found (remedy: apt "
        "install x), and ovs-netdev is measured instead"
    )


def test_environments_are_named_by_their_nodes() -> None:
    assert chosen(lxc=NO_NAMESPACES, netns=NO_NAMESPACES)[1:] == (
        {"veth-only"},
        "the traffic applications are plain processes (environment veth-only), not LXC containers "
        "(lxc) or in netns, because this container cannot fly (not permitted; remedy: docker run "
        "--wings)",
    )


def test_same_reason_is_given_once() -> None:
    text = chosen(linux_bridge=NO_NAMESPACES, lxc=NO_NAMESPACES)[2]
    assert text == (
        "the switch linux-bridge was left out because this container cannot fly (not permitted; "
        "remedy: docker run --wings), and ovs-dpdk is measured instead; the traffic "
        "applications are in environment netns, not LXC containers (lxc), for the same reason"
    )


def test_too_few_are_measured_all_the_same() -> None:
    switches, _, text = chosen(linux_bridge=ABSENT, ovs_dpdk=ABSENT, ovs_netdev=ABSENT)
    assert switches == {"basicfwd"}
    assert text is not None and text.endswith("and only basicfwd can run here")
    switches, _, text = chosen(linux_bridge=ABSENT, basicfwd=NO_NAMESPACES, ovs_netdev=ABSENT)
    assert switches == {"ovs-dpdk"}
    assert text == (
        "linux-bridge and basicfwd were left out (linux-bridge: program `x` not found (remedy: apt "
        "install x); basicfwd: this container cannot fly (not permitted; remedy: docker run "
        "--wings)), and ovs-dpdk is measured instead; of the others in the campaign's list, none "
        "can run here"
    )


def test_nothing_available_keeps_the_preferred() -> None:
    everything = dict.fromkeys(("linux_bridge", "basicfwd", "ovs_dpdk", "ovs_netdev"), ABSENT)
    assert chosen(**everything) == ({"linux-bridge", "basicfwd"}, {"lxc"}, None)


def test_set_replaces_a_list() -> None:
    campaign = load_text(CAMPAIGN, "c.yaml", KNOWN, ["environment=netns", "switch=ovs-dpdk"])
    campaign, choices = choose(campaign, lambda _: available("1"), lambda *_: available("1"))
    assert {sweep.environment for sweep in campaign.sweeps} == {("netns",)}
    assert {sweep.switch for sweep in campaign.sweeps} == {("ovs-dpdk",)}
    assert sentence(choices) is None


@pytest.mark.parametrize("value", ["0", "101", "two", "{switch: 2}"])
def test_bad_count_is_refused_by_its_place(value: str) -> None:
    text = CAMPAIGN.replace("switch: 2,", f"switch: {value},")
    with pytest.raises(UsageError, match=r"^c.yaml:4: first_available.switch: "):
        load_text(text, "c.yaml", KNOWN)


def test_budget_is_for_the_switches_that_are_taken() -> None:
    """Two switches for half a second each, and not all four that are listed."""
    text = CAMPAIGN.replace("latency: {rate: 1000}", "duration: 500ms")
    assert load_text(f"{text}budget: 1s\n", "c.yaml", KNOWN).budget_s == 1.0
    with pytest.raises(UsageError, match=r"budget: 900ms ends within .* measure 1 s"):
        load_text(f"{text}budget: 900ms\n", "c.yaml", KNOWN)


# The built-in campaign `quick` in the three kinds of place.

NEVER_IN_A_CONTAINER = set(Facility) - {Facility.PACKET_SOCKET, Facility.HUGEPAGES}
NEVER_OF_A_USER = {
    Facility.BPF, Facility.XDP_SOCKET, Facility.CONTROL_GROUPS, Facility.REAL_TIME,
    Facility.FORCED_BUFFERS, Facility.PHYSICAL_ADDRESSES, Facility.KERNEL_SETTINGS,
}  # fmt: skip
INSTALLED = ("linux-bridge", "basicfwd", "ovs-dpdk", "testpmd", "tc-redirect", "af-packet")
BY_PLACE = ("linux-bridge", "tc-redirect", "af-packet", "ovs-netdev")


@pytest.fixture
def quick_in(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Prepared]:
    """`quick`, prepared in a place that refuses facilities; programs of `there` are installed."""

    def prepared(
        kind: Kind, refused: set[Facility], available_names: Sequence[str] = INSTALLED
    ) -> Prepared:
        def can(facility: Facility) -> Availability:
            if facility in refused:
                return remedies.refusal(facility, kind, "Operation not permitted")
            return available("yes")

        def availability(switch: Switch, _mode: ConnectMode) -> Availability:
            if switch.name not in (*available_names, "direct"):
                return unavailable("not installed", "install it")
            requested = (
                place.missing(Facility.NETWORK_NAMESPACE) if switch.name in BY_PLACE else None
            )
            return requested or available("1")

        monkeypatch.setattr(place, "can", can)
        cpus = [Cpu(number, (0, number), 0) for number in range(4)]
        monkeypatch.setattr(facts, "read_cpus", lambda: cpus)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(4)))
        monkeypatch.setattr(prepare, "find_engine", lambda: Path("/engine"))
        monkeypatch.setattr(prepare, "refused_command_lines", lambda *_: [])
        monkeypatch.setattr(prepare, "too_little_memory", lambda *_: [])
        for module in (prepare, steps):
            monkeypatch.setattr(module, "availability_for", availability)
        for name in ("lxc", "netns"):
            needs = [Facility.NETWORK_NAMESPACE]
            needs += [Facility.CONTROL_GROUPS] if name == "lxc" else []
            monkeypatch.setattr(
                ENVIRONMENTS[name], "availability",
                lambda _, needs=needs: place.missing(*needs) or available("1"),
            )  # fmt: skip
        return prepare.prepare(find_campaign("quick", THERE.known), THERE)

    return prepared


def measured(found: Prepared) -> tuple[list[str], set[str]]:
    assert found.refused == []
    trials = [step.plan.trial for step in found.steps if not step.is_baseline]
    return sorted({one.switch for one in trials}), {one.environment for one in trials}


def test_quick_of_root_measures_what_it_prefers(quick_in: Callable[..., Prepared]) -> None:
    found = quick_in(Kind.ROOT, set())
    assert measured(found) == (["basicfwd", "linux-bridge", "ovs-dpdk"], {"lxc"})
    assert found.instead is None


def test_quick_of_a_user_runs_in_namespaces(quick_in: Callable[..., Prepared]) -> None:
    found = quick_in(Kind.USER, NEVER_OF_A_USER)
    assert measured(found) == (["basicfwd", "linux-bridge", "ovs-dpdk"], {"netns"})
    assert found.instead == (
        "the traffic applications are processes in network namespaces (environment netns), not LXC "
        "containers (lxc), because an ordinary user cannot make control groups (Operation not "
        "permitted; remedy: run it as root: sudo switchmark ...)"
    )


def test_quick_in_a_container_runs_processes(quick_in: Callable[..., Prepared]) -> None:
    found = quick_in(Kind.CONTAINER, NEVER_IN_A_CONTAINER)
    assert measured(found) == (["basicfwd", "ovs-dpdk", "testpmd"], {"bare"})
    assert found.instead == (
        "the switch linux-bridge was left out because this container cannot make network "
        "namespaces (Operation not permitted; remedy: docker run --privileged), and testpmd is "
        "measured instead; the traffic applications are plain processes (environment bare), not "
        "LXC containers (lxc) or processes in network namespaces (netns), for the same reason"
    )


def test_quick_below_two_cpus_is_refused_with_all_reasons(
    quick_in: Callable[..., Prepared], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a container with `--cpus 1.5`, the switches with sockets lack a CPU, not namespaces."""
    limits = replace(place.limits(), cpu_quota=1.5)
    monkeypatch.setattr(place, "limits", lambda: limits)
    monkeypatch.setattr(place, "kind", lambda: Kind.CONTAINER)
    found = quick_in(Kind.CONTAINER, NEVER_IN_A_CONTAINER)
    title, *reasons = found.refused
    assert title == "none of the switches can run here"
    assert [reason.partition(": ")[0] for reason in reasons] == [
        "linux-bridge and tc-redirect",
        "basicfwd, ovs-dpdk, testpmd, af-packet, vpp and bess",
        "ovs-netdev",
    ]
    assert "this container cannot make network namespaces" in reasons[0]
    assert reasons[1].endswith(
        ": the switch polls and needs a CPU beside that of the applications, and this process has "
        "a CPU quota of 1.5; allow 2 CPUs (docker run --cpus=N), or measure switches that do not "
        "poll"
    )


@pytest.mark.parametrize("resumes_there", [True, False])
def test_run_is_resumed_in_its_own_place_only(
    resumes_there: bool, quick_in: Callable[..., Prepared], tmp_path: Path
) -> None:
    begun = quick_in(Kind.USER, NEVER_OF_A_USER).campaign
    Run.create(
        tmp_path, campaign="quick", campaign_text="", definition=begun.model_dump(mode="json"),
        settings={}, host={},
    ).close()  # fmt: skip
    (folder,) = tmp_path.iterdir()
    if resumes_there:
        execute._refuse_another_choice(begun, folder)
        return
    container = quick_in(Kind.CONTAINER, NEVER_IN_A_CONTAINER).campaign
    with pytest.raises(
        UsageError, match="the run began with switch basicfwd, linux-bridge, ovs-dpdk"
    ):
        execute._refuse_another_choice(container, folder)


def test_quick_without_dpdk_ranks_three_of_the_kernel(quick_in: Callable[..., Prepared]) -> None:
    found = quick_in(Kind.ROOT, set(), ("linux-bridge", "tc-redirect", "af-packet"))
    assert measured(found) == (["af-packet", "linux-bridge", "tc-redirect"], {"lxc"})
    assert found.instead is not None
    assert found.instead.startswith("basicfwd, ovs-dpdk and testpmd were left out because not inst")


def test_plan_says_first_what_is_left_out(
    quick_in: Callable[..., Prepared], capsys: pytest.CaptureFixture[str]
) -> None:
    quick_in(Kind.CONTAINER, NEVER_IN_A_CONTAINER)  # leaves the machine faked
    assert switchmark(["plan", "quick"]) == 0
    shown = capsys.readouterr()
    assert shown.err.startswith("quick: the switch linux-bridge was left out because this cont")
    assert "V=testpmd" in shown.out and "linux-bridge" not in shown.out
