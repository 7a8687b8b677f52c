"""Deploying and taking down: the order, and what happens when any step fails."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from switchmark.engine.arguments import (
    engine_args,
    forwarder_args,
    needed_capabilities,
    port_spec,
    resolve_io,
    vnf_capabilities,
)
from switchmark.environment.support.base import Traits
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.containers.confined import lxc_config
from switchmark.model.io import Io
from switchmark.model.node import NodePort
from switchmark.model.ports import ConnectMode, MadePort, PortKind
from switchmark.model.trial import Trial
from switchmark.trial.deployment import Deployment
from switchmark.trial.plan import TrialPlan
from tests.unit.trial_fakes import (
    SESSION,
    FakeEngine,
    FakeEnvironment,
    FakeSwitch,
    plan_for,
    trial,
    with_port_kind,
)

ONE_PAIR = [
    "create tx0",
    "create rx0",
    "spawn rx0",
    "spawn tx0",
    "start switch",
    "ports up",
]
TAKEN_DOWN = ["end rx0", "end tx0", "stop switch", "close tx0", "close rx0"]


def deploy(plan: TrialPlan) -> Deployment:
    return Deployment(SESSION, plan)


def test_receivers_start_first_and_all_is_undone_in_reverse() -> None:
    switch = FakeSwitch()
    with deploy(plan_for(switch=switch)) as deployment:
        assert switch.log == ONE_PAIR
        assert [engine.role for engine in deployment.engines] == ["sender", "receiver"]
        assert all(engine.ready.role == engine.role for engine in deployment.engines)
        del switch.log[:]
    assert switch.log == TAKEN_DOWN


class SwitchOfFunctions(FakeSwitch):
    """Its ports are PCI functions, which the applications drive themselves."""

    def make_ports(self, session: Any, requested: Any) -> list[MadePort]:
        self._do("make ports")
        self.wanted = list(requested)
        return [MadePort(pci=f"0000:01:10.{port.index}") for port in requested]


def test_functions_of_the_applications_go_after_them() -> None:
    """The kernel waits until a function is closed, and the bench would wait for the kernel."""
    switch = SwitchOfFunctions("sriov")
    plan = with_port_kind(plan_for(trial(io=Io.DPDK), switch), PortKind.VF)
    with deploy(plan):
        assert switch.log == ["make ports", *ONE_PAIR]
        del switch.log[:]
    assert switch.log == [*TAKEN_DOWN[:2], *TAKEN_DOWN[3:], "stop switch"]


@pytest.mark.parametrize("guests", [False, True])
def test_switch_gets_the_ports_of_virtual_machines(guests: bool) -> None:
    switch, environment = SwitchOfFunctions("sriov"), FakeEnvironment(traits=Traits(guests=guests))
    plan = plan_for(trial(io=Io.DPDK), switch, environment)
    with deploy(with_port_kind(plan, PortKind.VF)):
        assert [port.to_guest for port in switch.wanted] == [guests, guests]


def test_a_wire_is_made_in_one_piece() -> None:
    switch = FakeSwitch("direct")
    with deploy(plan_for(trial(switch="direct"), switch)):
        assert switch.log == ONE_PAIR
        del switch.log[:]
    assert switch.log == TAKEN_DOWN


@pytest.mark.parametrize("step", range(len(ONE_PAIR)))
def test_a_step_that_fails_undoes_those_before_it(step: int) -> None:
    switch = FakeSwitch(fail_at=ONE_PAIR[step])
    environment = FakeEnvironment(fail_at=ONE_PAIR[step])
    with (
        pytest.raises(SwitchmarkError, match=f"^{ONE_PAIR[step]} failed$"),
        deploy(plan_for(switch=switch, environment=environment)),
    ):
        pytest.fail("not reached")
    done, undone = switch.log[: step + 1], switch.log[step + 1 :]
    assert done == ONE_PAIR[: step + 1]
    spawned = [what for what in done[:-1] if what.startswith("spawn")]
    created = [what for what in done[:-1] if what.startswith("create")]
    expected = [what.replace("spawn", "end") for what in spawned]
    expected += [what.replace("create", "close") for what in created]
    if step >= ONE_PAIR.index("start switch"):
        expected.insert(len(spawned), "stop switch")  # also after an error in its start
    assert undone == expected


def test_an_engine_that_does_not_get_ready() -> None:
    def mute(name: str, engine: FakeEngine) -> None:
        if name == "rx0":
            engine.lines.clear()
            engine.exit_code = 1
            engine.stderr = "EAL: no hugepages"

    switch = FakeSwitch()
    with (
        pytest.raises(TrialFailed, match="receiver in rx0 ended with exit code 1: EAL: no huge"),
        deploy(plan_for(switch=switch, environment=FakeEnvironment(change=mute))),
    ):
        pytest.fail("not reached")
    assert switch.log[-4:] == ["end tx0", "stop switch", "close tx0", "close rx0"]


@pytest.mark.parametrize("failing", ["stop switch", "close rx0", "close tx0"])
def test_error_in_take_down_is_reported_and_stops_nothing(failing: str) -> None:
    switch, environment = FakeSwitch(), FakeEnvironment()
    deployment = deploy(plan_for(switch=switch, environment=environment))
    with pytest.raises(SwitchmarkError, match=f"{failing} failed"), deployment:
        switch.fail_at = environment.fail_at = failing
        del switch.log[:]
    assert switch.log == TAKEN_DOWN


def test_an_engine_that_does_not_end_keeps_nothing_else_up() -> None:
    def stubborn(name: str, engine: FakeEngine) -> None:
        engine.stubborn = name == "rx0"

    switch, environment = FakeSwitch(), FakeEnvironment(change=stubborn)
    deployment = deploy(plan_for(switch=switch, environment=environment))
    with pytest.raises(TimeoutError, match="rx0: still running"), deployment:
        del switch.log[:]
    assert switch.log == ["end tx0", "stop switch", "close tx0", "close rx0"]


@pytest.mark.parametrize("error", [TrialFailed("the first fault"), KeyboardInterrupt()])
def test_a_fault_on_the_way_down_does_not_hide_the_first(error: BaseException) -> None:
    switch = FakeSwitch()
    with pytest.raises(type(error)) as caught, deploy(plan_for(switch=switch)):
        switch.fail_at = "stop switch"
        raise error
    assert caught.value is error
    assert error.__notes__ == ["and taking it down failed: stop switch failed"]


def test_end_of_switch_output_is_read_before_the_stop() -> None:
    switch = FakeSwitch(dies_after=0)
    deployment = deploy(plan_for(switch=switch))
    with pytest.raises(TrialFailed), deployment:
        raise TrialFailed("no frame arrived")
    assert deployment.running_switch.death == "was killed by signal 9: its last words"
    healthy = deploy(plan_for())
    with pytest.raises(TrialFailed), healthy:
        raise TrialFailed("no frame arrived")
    assert healthy.running_switch.death == ""


def test_check_alive() -> None:
    switch = FakeSwitch(dies_after=1)
    with deploy(plan_for(switch=switch)) as deployment:
        deployment.check_alive()
        with pytest.raises(TrialFailed, match="linux-bridge: was killed by signal 9: its last"):
            deployment.check_alive()


def test_ports_are_numbered_pair_by_pair() -> None:
    requested: list[Any] = []

    class RecordingSwitch(FakeSwitch):
        def start(self, session: Any, ports: Any, mode: Any, cores: Any) -> None:
            requested.extend([ports, mode, cores])
            super().start(session, ports, mode, cores)

    with deploy(plan_for(trial(pairs=2, packet_size_bytes=9018), RecordingSwitch())):
        ports, mode, cores = requested
    assert [port.index for port in ports] == [0, 1, 2, 3]
    assert len({port.mac for port in ports}) == 4
    assert {port.mtu_bytes for port in ports} == {9000}
    assert mode is ConnectMode.LEARNING and cores == [0]


def spec(kind: PortKind = PortKind.VETH, **port: Any) -> NodePort:
    where = {"peer_mac": "02:00:00:00:00:02", "peer_ip": "10.0.0.2", "device_inside": "eth0"}
    return NodePort(kind, "02:00:00:00:00:01", "10.0.0.1/24", **(where | port))


def value_of(args: list[str], flag: str) -> str:
    return args[args.index(flag) + 1]


def test_engine_arguments() -> None:
    requested = trial(packet_size_bytes=1500, burst=8, rate_pps=1000, interval_s=0.5)
    args = engine_args(requested, spec(), "sender", 3, 0, "yield")
    assert args[0] == "sender" and "--session" in args and "--touch" not in args
    expected = {
        "--port": "raw:dev=eth0,mmsg",
        "--src-mac": "02:00:00:00:00:01",
        "--dst-mac": "02:00:00:00:00:02",
        "--src-ip": "10.0.0.1",
        "--dst-ip": "10.0.0.2",
        "--src-port": "17000",
        "--dst-port": "17001",
        "--frame-size": "1500",
        "--stream": "3",
        "--burst": "8",
        "--interval": "0.5",
        "--idle": "yield",
        "--rate": "1000",
    }
    assert {flag: value_of(args, flag) for flag in expected} == expected


def test_the_other_end_mirrors_the_ports_and_sets_no_rate() -> None:
    args = engine_args(trial(), spec(), "receiver", 0, 1, "poll")
    assert (value_of(args, "--src-port"), value_of(args, "--dst-port")) == ("17001", "17000")
    assert "--rate" not in args
    assert value_of(engine_args(trial(), spec(), "sender", 0, 0, "poll"), "--rate") == "max"
    touched: Trial = trial(touch=True)
    assert "--touch" in engine_args(touched, spec(), "receiver", 0, 1, "poll")


def test_application_that_sleeps_has_a_blocking_port() -> None:
    args = engine_args(trial(io=Io.RAW), spec(), "receiver", 0, 1, "block")
    assert value_of(args, "--port").endswith(",block")
    assert value_of(args, "--idle") == "yield"
    assert "block" not in value_of(engine_args(trial(), spec(), "sender", 0, 0, "poll"), "--port")


@pytest.mark.parametrize(
    ("io", "port", "expected"),
    [
        (Io.UDP, spec(), "udp:dev=eth0"),
        (Io.UDP_MMSG, spec(), "udp:dev=eth0,mmsg"),
        (Io.RAW, spec(), "raw:dev=eth0"),
        (Io.RAW_MMSG, spec(), "raw:dev=eth0,mmsg"),
        (Io.PACKET_MMAP, spec(), "packet_mmap:dev=eth0"),
        (Io.AF_XDP, spec(), "af_xdp:dev=eth0"),
        (Io.IO_URING, spec(), "io_uring:dev=eth0"),
        (Io.DPDK, spec(), "dpdk:af-packet=eth0"),
        (Io.NETMAP, spec(), "netmap:eth0"),
        (
            Io.NETMAP,
            spec(PortKind.VALE, made_port=MadePort(netmap="vale0:p1,door=/run/vhost/netmap0.door")),
            "netmap:vale0:p1,door=/run/vhost/netmap0.door",
        ),
        (Io.DPDK, spec(socket_inside="/s/p"), "dpdk:virtio-user=/s/p,server"),
        (
            Io.DPDK,
            spec(PortKind.VHOST_USER, socket_inside="/s/p", back_end=True),
            "dpdk:vhost=/s/p,client",
        ),
        (
            Io.DPDK,
            spec(PortKind.MEMIF, socket_inside="/s/p"),
            "dpdk:memif=/s/p,role=server,id=0",
        ),
        (
            Io.DPDK,
            spec(PortKind.MEMIF, socket_inside="/s/p", back_end=True),
            "dpdk:memif=/s/p,role=client,id=0",
        ),
    ],
)
def test_port_specifications(io: Io, port: NodePort, expected: str) -> None:
    assert port_spec(port, io) == expected


@pytest.mark.parametrize(
    ("requested", "ring"),
    [
        ({}, ""),
        ({"method": "r-plus"}, ",ring=v2"),
        ({"method": "calibrate"}, ",ring=v2"),
        ({"method": "ndr-pdr"}, ""),
        ({"rate_pps": 1000, "probe_rate_pps": 100}, ",ring=v2"),
    ],
)
def test_frames_that_are_timed_are_handed_over_at_once(
    requested: dict[str, Any], ring: str
) -> None:
    """packet_mmap's ring for counting hands frames over in blocks, up to 1 ms late."""
    args = engine_args(trial(io=Io.PACKET_MMAP, **requested), spec(), "receiver", 0, 1, "poll")
    assert args[args.index("--port") + 1] == f"packet_mmap:dev=eth0{ring}"


def test_a_deeper_ring_is_the_vhost_user_ports() -> None:
    port = spec(PortKind.VHOST_USER, socket_inside="/s/p")
    assert port_spec(port, Io.DPDK, 1024) == "dpdk:virtio-user=/s/p,server,queue-size=1024"
    assert port_spec(spec(), Io.RAW, 1024) == "raw:dev=eth0"


def test_the_rings_of_a_vnf_are_as_deep() -> None:
    ports = tuple(spec(PortKind.VHOST_USER, socket_inside=f"/s/{end}") for end in "ab")
    args = forwarder_args(trial(ring=1024), ports, "poll")
    assert [words[1] for words in pairwise(args) if words[0] == "--port"] == [
        f"dpdk:virtio-user=/s/{end},server,queue-size=1024" for end in "ab"
    ]


@pytest.mark.parametrize("io", [Io.PACKET_MMAP, Io.AF_XDP, Io.IO_URING])
def test_a_port_without_a_device_is_refused_by_name(io: Io) -> None:
    port = NodePort(PortKind.VHOST_USER, "02:53:4d:00:00:01", "10.64.0.1/24", 1500)
    with pytest.raises(AssertionError, match=f"io {io.value} on a vhost-user port: campaign/rules"):
        port_spec(port, io)


def test_pci_function_is_only_for_dpdk() -> None:
    vf_port = MadePort(pci="0000:01:10.0")
    port = NodePort(PortKind.VF, "02:53:4d:00:00:01", "10.64.0.1/24", 1500, made_port=vf_port)
    assert port_spec(port, Io.DPDK) == "dpdk:pci=0000:01:10.0"
    with pytest.raises(AssertionError, match="io raw-mmsg on a vf port: campaign/rules"):
        port_spec(port, Io.RAW_MMSG)


@pytest.mark.parametrize(
    ("io", "kind", "linux_capabilities"),
    [
        (Io.UDP_MMSG, PortKind.VETH, set()),
        (Io.RAW_MMSG, PortKind.VETH, {"net_raw"}),
        (Io.DPDK, PortKind.VHOST_USER, {"sys_nice"}),
        (Io.DPDK, PortKind.VETH, {"sys_nice", "net_raw", "net_admin"}),
        (Io.AF_XDP, PortKind.VETH, {"net_raw", "net_admin", "bpf", "ipc_lock"}),
        (Io.IO_URING, PortKind.VETH, {"net_raw"}),
        (Io.NETMAP, PortKind.VALE, set()),
    ],
)
def test_a_container_may_do_what_its_io_needs(
    io: Io, kind: PortKind, linux_capabilities: set[str]
) -> None:
    assert set(needed_capabilities(io, kind)) == linux_capabilities


def test_a_vnf_may_do_what_it_needs_itself() -> None:
    """However the ends of its chain send and receive."""
    assert vnf_capabilities("bridge", PortKind.VETH) == ()
    assert vnf_capabilities("pcap", PortKind.VETH) == vnf_capabilities("forwarder", PortKind.VETH)
    assert vnf_capabilities("forwarder", PortKind.MEMIF) == ("sys_nice",)
    assert "net_raw" in vnf_capabilities("/opt/my-vnf", PortKind.VHOST_USER)


def test_container_without_capabilities_has_none(tmp_path: Path) -> None:
    """LXC interprets an empty list as all capabilities."""

    def config(*linux_capabilities: str) -> str:
        return lxc_config(
            "c",
            tmp_path,
            tmp_path / "log",
            network="",
            linux_capabilities=linux_capabilities,
            run_mib=1,
        )

    assert "lxc.cap.keep = none\n" in config()
    assert "lxc.cap.keep = net_raw sys_nice\n" in config("net_raw", "sys_nice")


def test_auto_is_resolved_by_port_kind() -> None:
    with pytest.raises(AssertionError, match="io auto on a veth port"):
        port_spec(spec(), Io.AUTO)
    assert resolve_io(Io.AUTO, PortKind.VETH) is Io.RAW_MMSG
    assert resolve_io(Io.AUTO, PortKind.VHOST_USER) is Io.DPDK
    assert resolve_io(Io.UDP, PortKind.VHOST_USER) is Io.UDP
