"""Virtual machines on another host: the agent, the proxy on the local host, the clocks, and
refusals."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.environment.support.base import VirtualMachine
from switchmark.environment.vm.engine import GuestEngine
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.experiment.steps import plan_steps
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import PortKind
from switchmark.remote import agent as agents
from switchmark.remote.agent import HostAgent
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.contact import HostLost
from switchmark.remote.exchange import RemoteLines
from switchmark.remote.hello import MachineMade, NodeMade
from switchmark.remote.node import CREATE_GUEST_S, CREATE_S, create_node
from switchmark.remote.site import FarSide, Site
from switchmark.testbed.testbed import Cable, SshTarget, Testbed
from switchmark.trial import latency, measure_trial
from switchmark.trial.deployment import Deployment
from tests.unit.engine_lines import event
from tests.unit.trial_fakes import (
    SESSION,
    FakeEngine,
    FakeEnvironment,
    FakeNode,
    placement,
    plan_for,
    trial,
)

SPEC = NodeSpec("rx0", (NodePort(PortKind.TAP, "02:00:00:00:00:02", ""),), (1,))
DETAILS = {"accelerator": "KVM", "clock_error_us": "not compared"}
INSTALLED = installed()


@dataclass
class MachineNode(FakeNode):
    """A node that is a virtual machine."""

    emulated: bool = True
    boot_timeout_s: float = 240.0
    patience: float = 15.0
    bridges: bool = False

    def spawn_engine(self, args: Any) -> Any:
        return GuestEngine(super().spawn_engine(args))

    def spawn_bridge(self) -> Any:
        self.bridges = True
        return self.spawn_engine(["sender"])

    def process_ids(self) -> list[int]:
        return [4711]

    def details(self) -> dict[str, str]:
        return DETAILS


class MachineEnvironment(FakeEnvironment):
    """Makes virtual machines."""

    def create(self, session: Any, spec: NodeSpec) -> MachineNode:
        return MachineNode(super().create(session, spec).spec, self)


def end_engine(_name: str, engine: FakeEngine) -> None:
    engine.terminate()


@dataclass
class FakeChannel:
    sent: list[dict[str, Any]] = field(default_factory=list)

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def lines(self) -> list[str]:
        deadline = time.monotonic() + 300
        while not any("ended" in message for message in self.sent) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [message["line"] for message in self.sent if "line" in message]


class TestAgent:
    """The agent's operations on a virtual machine."""

    @staticmethod
    def agent_with_node(
        monkeypatch: pytest.MonkeyPatch, environment: FakeEnvironment
    ) -> tuple[HostAgent, FakeChannel, NodeMade]:
        monkeypatch.setattr(agents, "ENVIRONMENTS", {"qemu": lambda: environment})
        channel = FakeChannel()
        agent = HostAgent(SESSION, channel)  # type: ignore[arg-type]
        message = json.loads(json.dumps(to_plain(agent.do_create("qemu", to_plain(SPEC)))))
        return agent, channel, from_plain(NodeMade, message)

    def test_agent_sends_the_properties_of_a_machine(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, _, node = self.agent_with_node(monkeypatch, MachineEnvironment())
        assert node.machine == MachineMade(True, 240.0, 15.0, DETAILS)
        _, _, node = self.agent_with_node(monkeypatch, FakeEnvironment())
        assert node.machine is None

    def test_agent_forwards_lines_and_sends_no_commands(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With commands from two programs, each would receive answers to the other."""
        environment = MachineEnvironment()
        agent, channel, node = self.agent_with_node(monkeypatch, environment)
        number = agent.do_spawn_engine(node.node, ["sender"])["process"]
        agent.do_process(number, "write_line", ["start at=5"])
        environment.engines["rx0"].exit_code = 0
        lines = channel.lines()
        assert environment.engines["rx0"].commands == ["start at=5"]
        assert lines[1] == event("started", t_ns=10**9), "the time is that of the guest"

    def test_agent_forgets_processes_that_ended_early(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A campaign has thousands of processes. The bench reads the errors of the last ones."""
        monkeypatch.setattr(agents, "MOST_ENDED", 2)
        environment = FakeEnvironment()
        agent, _, node = self.agent_with_node(monkeypatch, environment)
        started, engines = [], []
        for _ in range(5):
            started.append(agent.do_spawn_engine(node.node, ["sender"])["process"])
            engines.append(environment.engines["rx0"])
            if len(engines) > 1:  # the first engine continues
                engines[-1].terminate()
        known = []
        for number in started:
            with suppress(SwitchmarkError):
                agent.do_process(number, "stderr_tail")
                known.append(number)
        assert known == [started[0], *started[2:]]
        with pytest.raises(SwitchmarkError, match="has ended long ago"):
            agent.do_process(started[1], "terminate")
        engines[0].terminate()

    def test_agent_meters_the_cpu_time_of_qemu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        metered: list[tuple[Any, Any]] = []
        agent, _, _ = self.agent_with_node(monkeypatch, MachineEnvironment())
        reading = SimpleNamespace(take=lambda *pids: metered.append(pids))
        monkeypatch.setattr(agents, "CpuReading", reading)
        agent.do_begin_meter([])
        agent.do_end_meter()
        assert metered == [((), [4711])] * 2

    def test_only_machines_make_a_bridge(self, monkeypatch: pytest.MonkeyPatch) -> None:
        agent, _, node = self.agent_with_node(monkeypatch, MachineEnvironment())
        machine = cast(MachineNode, agent._nodes[node.node])
        machine.world.change = end_engine
        agent.do_spawn_bridge(node.node)
        assert machine.bridges
        agent, _, node = self.agent_with_node(monkeypatch, FakeEnvironment())
        with pytest.raises(UsageError, match="rx0: is not a virtual machine"):
            agent.do_spawn_bridge(node.node)


class FakeConnection:
    """An agent with a guest whose clock is `behind_ns` behind the local host's."""

    target = SshTarget("right", "192.0.2.7")

    def __init__(self, machine: MachineMade | None, behind_ns: int = 0) -> None:
        self.lost: str | None = None
        self.requests: list[tuple[str, float]] = []
        self.commands: list[str] = []
        self._machine = machine
        self._behind_ns = behind_ns
        self._lines = RemoteLines()

    def process(self, _number: int) -> RemoteLines:
        return self._lines

    def ask(self, request: str, takes_s: float = 0.0, /, **values: Any) -> None:
        self.ask_for(object, request, takes_s, **values)

    def ask_for(self, _kind: object, request: str, takes_s: float = 0.0, /, **values: Any) -> Any:
        if self.lost is not None:
            raise HostLost(self.lost)
        self.requests.append((request, takes_s))
        answers: dict[str, Callable[[], Any]] = {
            "create": lambda: NodeMade(3, SPEC, None, self._machine),
            "process": lambda: self._receive(values["arguments"][0]),
            "node": lambda: DETAILS | {"accelerator": "KVM, switched on"},
        }
        return answers.get(request, lambda: {"process": 1, "pid": 99})()

    def _receive(self, line: str) -> None:
        self.commands.append(line)
        if line == "counters":
            answer = event("counters", t_ns=time.monotonic_ns() - self._behind_ns)
            self._lines.lines.take(answer.encode() + b"\n")


def remote_machine(behind_ns: int = 0) -> tuple[FakeConnection, Any]:
    connection = FakeConnection(MachineMade(True, 240.0, 15.0, DETAILS), behind_ns)
    return connection, create_node(connection, "qemu", SPEC)  # type: ignore[arg-type]


def test_proxy_of_a_machine_is_a_machine() -> None:
    """Its creation has a longer timeout than that of other nodes."""
    connection, node = remote_machine()
    with pytest.raises(UnavailableError, match="cannot be run on host right"):
        node.spawn_program(["/opt/vnf"], {})
    assert isinstance(node, VirtualMachine)
    assert (node.emulated, node.boot_timeout_s, node.patience) == (True, 240.0, 15.0)
    assert node.process_ids() == (), "the local host has none of its processes"
    assert connection.requests == [("create", CREATE_GUEST_S)]
    plain = FakeConnection(None)
    other = create_node(plain, "lxc", SPEC)  # type: ignore[arg-type]
    assert not isinstance(other, VirtualMachine) and plain.requests == [("create", CREATE_S)]


def test_times_of_a_remote_guest_are_converted() -> None:
    behind_ns = time.monotonic_ns() // 2
    connection, node = remote_machine(behind_ns)
    engine = node.spawn_engine(["receiver"])
    assert node.details() == DETAILS | {"accelerator": "KVM, switched on"}
    at_ns = time.monotonic_ns() + 10**9
    engine.write_line(f"start at={at_ns}")
    inside_ns = int(connection.commands[-1].rpartition("=")[2])
    error_ns = engine.clock_error_ns
    assert error_ns is not None and abs(at_ns - behind_ns - inside_ns) <= error_ns + 1
    connection._lines.lines.take(event("started", t_ns=inside_ns).encode() + b"\n")
    started = json.loads(engine.read_line(5.0))
    assert abs(started["t_ns"] - at_ns) <= 1
    assert re.fullmatch(r"\d+", node.details()["clock_error_us"])
    assert node.spawn_bridge().pid == 99


@pytest.mark.parametrize(("boot_s", "patience"), [("1e999", "1"), ("60", "1e9"), ("60", "0")])
def test_impossible_timeouts_of_a_machine_are_refused(boot_s: str, patience: str) -> None:
    text = (
        f'{{"emulated": true, "boot_timeout_s": {boot_s}, "patience": {patience}, "details": {{}}}}'
    )
    with pytest.raises(ValueError, match="times out of range"):
        from_plain(MachineMade, json.loads(text))


def test_node_of_a_lost_host_has_its_earlier_details() -> None:
    connection, node = remote_machine()
    connection.lost = "gone"
    assert node.details() == DETAILS
    node.close()


@pytest.mark.parametrize(("guests", "ahead_ns"), [(True, 0), (False, 7)])
def test_times_of_a_guest_are_not_corrected_by_the_host(guests: bool, ahead_ns: int) -> None:
    environment: FakeEnvironment = MachineEnvironment() if guests else FakeEnvironment()
    far = SimpleNamespace(
        begin=placement,
        create=lambda spec, _place: environment.create(SESSION, spec),
        ahead_ns=7,
    )
    plan = replace(plan_for(trial(location="remote")), far=cast(FarSide, far))
    deployment = Deployment(SESSION, plan)
    environment.engines = cast(FakeEnvironment, plan.environment).engines
    environment.change = lambda *_: None
    with deployment:
        local, remote = deployment.engines
        assert (local.far, local.ahead_ns, local.in_guest) == (False, 0, False)
        assert (remote.far, remote.ahead_ns, remote.in_guest) == (True, ahead_ns, guests)


@pytest.mark.parametrize("guests", [True, False])
def test_one_way_times_do_not_use_the_clock_of_a_guest(
    guests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    clocks: list[object] = []
    monkeypatch.setattr(latency, "measure", lambda *given: clocks.append(given[-1]))
    plan = replace(plan_for(trial("latency")), far=cast(FarSide, "the hosts' clocks"))
    engines = [SimpleNamespace(in_guest=False), SimpleNamespace(in_guest=guests)]
    deployment = SimpleNamespace(engines=engines, ends=[], guest=None, streams=[])
    measure_trial._traffic(cast(Deployment, deployment), plan, None, lambda: None)  # type: ignore[arg-type]
    assert clocks == [None if guests else "the hosts' clocks"]


def planned(text: str) -> list[tuple[str, str, str, str]]:
    testbed = Testbed(
        Path("lab.yaml"), "left", SshTarget("right", "192.0.2.7"), Cable("eth1", "eth2")
    )
    campaign = f"switch: linux-bridge\nenvironment: qemu\nlocation: remote\n{text}"
    loaded = load_text(campaign, "u.yaml", INSTALLED.known)
    plans = [step.plan for step in plan_steps(loaded, INSTALLED, site=Site(testbed))]
    return [
        (p.trial.switch, p.trial.location, p.trial.environment, p.port_kind.value) for p in plans
    ]


@pytest.mark.parametrize("scenario", ["v2v", "p2v", "loopback-2"])
def test_baseline_of_guests_on_two_hosts_is_the_cable(scenario: str) -> None:
    assert planned(f"dimension: throughput\nscenario: {scenario}\n") == [
        ("direct", "remote", "netns", "veth"), ("linux-bridge", "remote", "qemu", "tap"),
    ]  # fmt: skip


@pytest.mark.parametrize("location", ["local", "remote"])
@pytest.mark.parametrize("method", ["r-plus", "one-way"])
@pytest.mark.parametrize("scenario", ["v2v", "p2v", "pairs-2"])
def test_one_way_times_between_guests_are_refused(
    scenario: str, method: str, location: str
) -> None:
    """The clock of a guest begins at its start, so the difference would be in the times."""
    text = f"switch: linux-bridge\nmethod: {method}\nscenario: {scenario}\nlocation: {location}\n"
    text += "rate: 100\ndimension: throughput\n"
    assert_refused(text + "environment: qemu\n", f"method {method} times frames .* its own clock;")
    expand_text(text + "environment: netns\n")


def test_one_way_times_between_testers_are_permitted() -> None:
    expand_text("switch: linux-bridge\nmethod: r-plus\nscenario: loopback-1\nenvironment: qemu\n")


def expand_text(text: str) -> None:
    expand(
        load_text(text, "unit.yaml", INSTALLED.known), INSTALLED.switches, INSTALLED.environments
    )


def assert_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        expand_text(text)
