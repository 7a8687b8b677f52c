"""From trials to steps: which baselines there are, who shares them, and where they run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.errors import UnavailableError, UsageError
from switchmark.experiment import steps as planning
from switchmark.experiment.steps import Step, check_available, leave_out_unavailable, plan_steps
from switchmark.host import place
from switchmark.host.facts import Cpu
from switchmark.host.kernel import congestion_control
from switchmark.host.place import Facility
from switchmark.model.capabilities import Availability
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.remote.site import Site
from switchmark.switch.af_packet import AfPacket
from switchmark.testbed.testbed import Cable, SshTarget, Testbed

INSTALLED = installed()
KNOWN = INSTALLED.known


@pytest.fixture(autouse=True)
def four_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    cpus = [Cpu(number, (0, number), 0) for number in range(4)]
    monkeypatch.setattr(planning, "read_cpus", lambda: cpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2, 3})


def steps_of(text: str, *, baselines: bool = True) -> tuple[list[Step], list[Step]]:
    """(wires, trials) of a campaign."""
    campaign = load_text(text, "unit.yaml", KNOWN)
    steps = plan_steps(campaign, INSTALLED, baselines=baselines)
    wires = [step for step in steps if step.baseline is None]
    assert steps[: len(wires)] == wires, "baselines come first"
    return wires, steps[len(wires) :]


ONE = "switch: linux-bridge\ndimension: throughput\npacket_size: 64\n"


def test_one_baseline_serves_all_repetitions() -> None:
    wires, trials = steps_of(ONE + "repetitions: 5\n")
    assert len(wires) == 1 and len(trials) == 5
    assert {step.baseline for step in trials} == {wires[0].plan.trial}
    assert len({step.plan.trial.id for step in trials}) == 5


def test_switches_with_equal_placement_share_baseline() -> None:
    wires, trials = steps_of(
        "switch: [linux-bridge, ovs-netdev, ovs-dpdk, basicfwd]\ndimension: throughput\n"
        "packet_size: 64\nmixed_connect_modes: true\n"
    )
    found = {step.plan.trial.switch: step.baseline for step in trials}
    assert found["ovs-dpdk"] == found["basicfwd"], "both poll, on vhost-user"
    assert found["linux-bridge"] != found["ovs-netdev"], "ovs-netdev has its own core"
    assert len(wires) == 3
    kinds = {name: wire.port_kind for name, wire in found.items() if wire is not None}
    assert kinds == {
        "linux-bridge": PortKind.VETH,
        "ovs-netdev": PortKind.VETH,
        "ovs-dpdk": PortKind.VHOST_USER,
        "basicfwd": PortKind.VHOST_USER,
    }


def test_baseline_has_the_cores_of_the_trial(monkeypatch: pytest.MonkeyPatch) -> None:
    """The generator is on another NUMA node than the switch and the application."""
    cpus = [Cpu(number, (number // 4, number), number // 4) for number in range(8)]
    monkeypatch.setattr(planning, "read_cpus", lambda: cpus)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    ((wire,), (step,)) = steps_of(
        "switch: basicfwd\ndimension: throughput\npacket_size: 64\nconnect_mode: cross-connect\n"
        "scenario: p2v\nnuma: generator-apart\n"
    )
    placed = step.plan.placement.application_cores
    assert placed == {"tx0": [4], "rx0": [2]}
    assert wire.plan.placement.application_cores == placed


def test_each_load_has_its_baseline() -> None:
    wires, _ = steps_of(ONE.replace("64", "64, 1500") + "rate: 100k, max\n")
    loads = {(w.plan.trial.packet_size_bytes, w.plan.trial.rate_pps) for w in wires}
    assert loads == {(64, 100_000), (64, None), (1500, 100_000), (1500, None)}


def test_connect_modes_share_the_baseline() -> None:
    wires, trials = steps_of(
        "switch: linux-bridge\ndimension: throughput\npacket_size: 64\n"
        "connect_mode: [learning, static-mac]\nmixed_connect_modes: true\n"
    )
    assert len(wires) == 1 and len(trials) == 2
    assert wires[0].plan.trial.connect_mode is ConnectMode.CROSS_CONNECT


@pytest.mark.parametrize(("switch", "spare"), [("linux-bridge", 0), ("ovs-dpdk", 1)])
def test_baseline_leaves_core_of_switch_idle(switch: str, spare: int) -> None:
    """Otherwise the applications would have more resources than in the trial."""
    wires, trials = steps_of(ONE.replace("linux-bridge", switch))
    wire, measured = wires[0].plan, trials[0].plan
    assert wire.trial.spare_cores == spare and wire.placement.switch_cores == []
    assert wire.placement.application_cores == measured.placement.application_cores
    assert wire.placement.idle == measured.placement.idle
    assert len(measured.placement.switch_cores) == spare
    assert ("stays idle" in wire.placement.reason) == bool(spare)
    used = {core for cores in wire.placement.application_cores.values() for core in cores}
    assert not used & set(measured.placement.switch_cores)


def test_baseline_leaves_all_cores_of_switch_idle() -> None:
    wires, _ = steps_of(ONE.replace("linux-bridge", "ovs-dpdk") + "switch_cores: [1, 2]\n")
    assert sorted(wire.plan.trial.spare_cores for wire in wires) == [1, 2]


def test_baseline_needs_no_baseline() -> None:
    wires, trials = steps_of(ONE.replace("linux-bridge", "direct"))
    assert len(wires) == 1 and trials == []
    assert wires[0].plan.trial.spare_cores == 0


def test_steps_without_baselines_have_none() -> None:
    campaign = load_text(ONE, "unit.yaml", KNOWN)
    steps = plan_steps(campaign, INSTALLED, baselines=False)
    assert [(step.plan.trial.switch, step.baseline) for step in steps] == [("linux-bridge", None)]


def test_auto_io_and_its_value_share_a_baseline() -> None:
    wires, _ = steps_of(ONE + "io: [auto, raw-mmsg]\n")
    assert len(wires) == 1 and wires[0].plan.trial.io.value == "raw-mmsg"


def test_plans_have_the_policies_of_the_campaign() -> None:
    _, trials = steps_of(ONE + "trim:\n  warm_up: 2s\n  cool_down: 1s\nverify:\n  frames: 99\n")
    plan = trials[0].plan
    assert (plan.policy.warm_up_s, plan.verify.frames) == (2.0, 99)
    assert [spec.name for spec in plan.specs()] == ["tx0", "rx0"]


def test_unavailable_switches_are_reported_before_start() -> None:
    wires, trials = steps_of(
        "switch: [ovs-netdev, ovs-dpdk]\ndimension: throughput\npacket_size: 64\n"
    )
    for step in (*wires, *trials):
        name = step.plan.switch.name
        step.plan.switch.availability = lambda n=name: Availability(  # type: ignore[method-assign,misc]
            not n.startswith("ovs"), reason=f"no {n} here", remedy=f"apt install {n}"
        )
        step.plan.environment.availability = lambda: Availability(True)  # type: ignore[method-assign]
    with pytest.raises(UnavailableError) as caught:
        check_available([*wires, *trials])
    lines = str(caught.value).splitlines()
    assert len(lines) == 2, "one line for each switch"
    assert "switch ovs-dpdk cannot run here: no ovs-dpdk here; apt install ovs-dpdk" in lines


@pytest.mark.parametrize(
    ("switch", "port", "environment", "wires"),
    [
        ("basicfwd", "vhost-user", "bare", "bare"),
        ("vpp", "memif", "bare", "bare"),
        ("basicfwd", "vhost-user", "netns", "netns"),
        ("vpp", "veth", "bare", "netns"),
    ],
)
def test_wire_ends_of_sockets_need_no_network_namespace(
    switch: str, port: str, environment: str, wires: str
) -> None:
    _, (step,) = steps_of(
        f"switch: {switch}\ndimension: throughput\npacket_size: 64\nscenario: p2v\n"
        f"connect_mode: cross-connect\nenvironment: {environment}\nport_kind: {port}\n"
    )
    assert next(each.name for each in step.plan.environments()) == wires
    assert {each.name for each in step.plan.environments()} == {environment, wires}


@pytest.mark.parametrize("missing", [Facility.NETWORK_DEVICE, Facility.PACKET_SOCKET])
def test_bare_needs_the_facilities_of_its_ports(
    monkeypatch: pytest.MonkeyPatch, missing: Facility
) -> None:
    """Sockets need no facility of the operating system, but devices do."""

    def can(facility: Facility) -> Availability:
        return Availability(facility is not missing, reason=f"no {facility}", remedy="ask for it")

    monkeypatch.setattr(place, "can", can)
    for port, problem in (
        ("memif", None),
        ("veth", f"environment bare cannot run here: no {missing}; ask for it"),
    ):
        wires, _ = steps_of(
            "switch: direct\ndimension: throughput\npacket_size: 64\nenvironment: bare\n"
            f"port_kind: {port}\n"
        )
        if problem is None:
            check_available(wires)
            continue
        with pytest.raises(UnavailableError) as caught:
            check_available(wires)
        assert str(caught.value) == problem


def test_io_needs_its_facility_and_can_be_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def can(facility: Facility) -> Availability:
        return Availability(facility is not Facility.XDP_SOCKET, reason="no BPF", remedy="sudo")

    monkeypatch.setattr(place, "can", can)
    wires, trials = steps_of(
        "switch: linux-bridge\ndimension: throughput\npacket_size: 64\nenvironment: netns\n"
        "io: [raw, af-xdp]\n"
    )
    with pytest.raises(UnavailableError, match="io af-xdp cannot run here: no BPF; sudo"):
        check_available([*wires, *trials])
    able, reasons = leave_out_unavailable([*wires, *trials])
    assert reasons == ["io af-xdp: no BPF; sudo"]
    assert {step.plan.trial.io for step in able} == {Io.RAW}


def test_cpu_limit_needs_a_control_group(monkeypatch: pytest.MonkeyPatch) -> None:
    def can(facility: Facility) -> Availability:
        return Availability(facility is not Facility.CONTROL_GROUPS, reason="no", remedy="sudo")

    monkeypatch.setattr(place, "can", can)
    _, trials = steps_of("switch: vpp\ndimension: throughput\npacket_size: 64\ncpu_limit: 50%\n")
    for step in trials:
        step.plan.switch.availability = lambda: Availability(True)  # type: ignore[method-assign]
    with pytest.raises(UnavailableError, match=r"^cpu_limit cannot run here: no; sudo$"):
        check_available(trials)


def test_unavailable_parts_with_one_reason_share_a_line() -> None:
    wires, trials = steps_of("switch: linux-bridge\ndimension: throughput\npacket_size: 64\n")
    missing = Availability(False, reason="no namespaces", remedy="use sudo")
    for step in (*wires, *trials):
        step.plan.switch.availability = lambda: missing  # type: ignore[method-assign]
        step.plan.environment.availability = lambda: missing  # type: ignore[method-assign]
    with pytest.raises(UnavailableError) as caught:
        check_available([*wires, *trials])
    assert str(caught.value) == (
        "switch direct, switch linux-bridge, environment netns cannot run here: "
        "no namespaces; use sudo"
    )


def test_unavailable_switches_can_be_left_out() -> None:
    wires, trials = steps_of(
        "switch: [linux-bridge, ovs-netdev, basicfwd]\ndimension: throughput\npacket_size: 64\n"
        "mixed_connect_modes: true\n"
    )
    for step in trials:
        here = step.plan.switch.name != "basicfwd"
        step.plan.switch.availability = lambda h=here: Availability(  # type: ignore[method-assign,misc]
            h, reason="no engine", remedy="build it"
        )
    able, reasons = leave_out_unavailable([*wires, *trials])
    assert {s.plan.switch.name for s in able} == {"direct", "linux-bridge", "ovs-netdev"}
    assert any(s.plan.port_kind == "vhost-user" for s in wires)
    assert all(s.plan.port_kind == "veth" for s in able), "its baseline is also left out"
    assert reasons == ["basicfwd: no engine; build it"]
    for step in trials:
        step.plan.switch.availability = lambda: Availability(  # type: ignore[method-assign]
            False, reason="nothing"
        )
    with pytest.raises(UnavailableError, match="none of the switches can run here\n"):
        leave_out_unavailable([*wires, *trials])


@pytest.mark.parametrize(
    ("io", "own_device_mac"),
    [("udp", False), ("udp-mmsg", False), ("raw", True), ("raw-mmsg", True), ("auto", True)],
)
def test_only_udp_sockets_use_the_device_address(io: str, own_device_mac: bool) -> None:
    """The kernel's IP stack gets frames with the address of the device. Only UDP sockets use it."""
    _, (step,) = steps_of(f"switch: linux-bridge\nio: {io}\n")
    a, b = step.plan.specs()
    for end, peer in ((a, b), (b, a)):
        assert end.port.peer_mac == peer.port.mac
        assert (end.port.device_mac is not None) is own_device_mac
        assert end.port.device_mac != end.port.mac


def between_hosts(text: str, cable: Cable) -> list[Step]:
    testbed = Testbed(Path("lab.yaml"), "left", SshTarget("right", "192.0.2.7"), cable)
    campaign = load_text(text + "location: remote\n", "unit.yaml", KNOWN)
    return plan_steps(campaign, INSTALLED, site=Site(testbed))


def test_baseline_between_hosts_uses_cable_if_possible() -> None:
    both = Cable("eth1", "eth2")
    wire, step = between_hosts(ONE, both)
    assert wire.plan.trial.location == "remote" and wire.plan.far is not None
    assert wire.plan.switch.details()["cable"] == "eth1 to eth2"
    assert step.plan.switch.name == "linux-bridge"
    wire, step = between_hosts(ONE.replace("linux-bridge", "testpmd"), both)
    assert (wire.plan.port_kind, wire.plan.trial.io) == (PortKind.VETH, "dpdk")
    assert step.plan.port_kind is PortKind.VHOST_USER
    wire, _ = between_hosts(ONE + "environment: bare\n", both)
    assert wire.plan.trial.environment == "netns", "the cable is moved into a namespace"
    wire, _ = between_hosts(ONE + "pairs: 2\n", both)
    assert wire.plan.trial.location == "local" and wire.plan.far is None
    wire, _ = between_hosts(ONE + "io: udp\n", both)
    assert wire.plan.trial.location == "local"


def test_cable_that_switch_cannot_use_is_refused() -> None:
    nic = Cable("eth1", "0000:03:00.0")
    with pytest.raises(UsageError, match=r"lab\.yaml: cables: 0000:03:00\.0: linux-bridge takes"):
        between_hosts(ONE, nic)
    for switch in ("ovs-dpdk", "testpmd", "fastclick", "bess", "vpp", "t4p4s", "basicfwd"):
        more = "connect_mode: cross-connect\n"
        assert len(between_hosts(ONE.replace("linux-bridge", switch) + more, nic)) == 2


def test_threads_that_tuning_takes_offline_are_not_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Tuning takes them offline before the first trial."""
    cpus = [Cpu(number, (0, number % 2), 0) for number in range(4)]  # siblings: 0-2 1-3
    monkeypatch.setattr(planning, "read_cpus", lambda: cpus)

    def cores(more: str) -> set[int]:
        wires, trials = steps_of(ONE + more)
        placed = (step.plan.placement.application_cores for step in (*wires, *trials))
        return {core for item in placed for used in item.values() for core in used}

    assert cores("") == {1, 2}
    assert cores("tuning: smt:off\n") == {0, 1}


def test_switch_of_packet_sockets_gets_buffers_of_trial() -> None:
    text = "switch: af-packet\ndimension: throughput\npacket_size: 64\n"
    for more, unforced in (("", False), ("socket_buffers: unforced\n", True)):
        (wire,), (step,) = steps_of(text + more)
        assert isinstance(step.plan.switch, AfPacket)
        assert step.plan.switch.unforced_buffers is unforced
        assert (wire.plan.trial.socket_buffers == "unforced") is unforced


def test_unknown_congestion_control_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(congestion_control, "congestion_controls", lambda: ("reno", "cubic"))
    monkeypatch.setattr(congestion_control, "_loadable", lambda: frozenset({"vegas"}))
    wires, trials = steps_of(
        "switch: linux-bridge\ndimension: throughput\nworkload: tcp-stream\n"
        "congestion_control: [cubic, vegas, htcp]\n"
    )
    for step in (*wires, *trials):
        step.plan.switch.availability = lambda: Availability(True)  # type: ignore[method-assign]
        step.plan.environment.availability = lambda: Availability(True)  # type: ignore[method-assign]
    with pytest.raises(UnavailableError) as caught:
        check_available([*wires, *trials])
    assert str(caught.value) == (
        "congestion_control htcp cannot run here: this kernel has cubic, reno; use reno, or "
        "leave it out"
    )
