"""Virtual machines on another host: what the agent tells of one and passes on, what stands in for
it here, whose clock its times are of, and what cannot be."""

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
TOLD = {"accelerator": "KVM", "clock_error_us": "not compared"}
THERE = installed()


@dataclass
class MachineNode(FakeNode):
    """A node that is a machine."""

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
        return TOLD


class MachineRoom(FakeEnvironment):
    """Makes machines."""

    def create(self, session: Any, spec: NodeSpec) -> MachineNode:
        made = super().create(session, spec)
        return MachineNode(made.spec, self)


def ended(_name: str, engine: FakeEngine) -> None:
    engine.terminate()


@dataclass
class FakeChannel:
    sent: list[dict[str, Any]] = field(default_factory=list)

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)

    def lines(self) -> list[str]:
        deadline = time.monotonic() + 300
        while not any("ended" in one for one in self.sent) and time.monotonic() < deadline:
            time.sleep(0.01)
        return [one["line"] for one in self.sent if "line" in one]


class TestAgent:
    """What the agent does with a machine."""

    @staticmethod
    def made(
        monkeypatch: pytest.MonkeyPatch, environment: FakeEnvironment
    ) -> tuple[HostAgent, FakeChannel, NodeMade]:
        monkeypatch.setattr(agents, "ENVIRONMENTS", {"qemu": lambda: environment})
        channel = FakeChannel()
        agent = HostAgent(SESSION, channel)  # type: ignore[arg-type]
        told = json.loads(json.dumps(to_plain(agent.do_create("qemu", to_plain(SPEC)))))
        return agent, channel, from_plain(NodeMade, told)

    def test_it_tells_what_a_machine_is(self, monkeypatch: pytest.MonkeyPatch) -> None:
        _, _, made = self.made(monkeypatch, MachineRoom())
        assert made.machine == MachineMade(True, 240.0, 15.0, TOLD)
        _, _, made = self.made(monkeypatch, FakeEnvironment())
        assert made.machine is None

    def test_it_passes_on_what_the_guest_says_and_asks_it_nothing(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Two who read one guest's answers would take each other's."""
        room = MachineRoom()
        agent, channel, made = self.made(monkeypatch, room)
        number = agent.do_spawn_engine(made.node, ["sender"])["process"]
        agent.do_process(number, "write_line", ["start at=5"])
        room.engines["rx0"].exit_code = 0
        lines = channel.lines()
        assert room.engines["rx0"].commands == ["start at=5"]
        assert lines[1] == event("started", t_ns=10**9), "by the guest's own clock"

    def test_it_forgets_processes_that_have_ended(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A campaign has thousands; the last ones are asked for their last words."""
        monkeypatch.setattr(agents, "MOST_ENDED", 2)
        room = FakeEnvironment()
        agent, _, made = self.made(monkeypatch, room)
        started, engines = [], []
        for _ in range(5):
            started.append(agent.do_spawn_engine(made.node, ["sender"])["process"])
            engines.append(room.engines["rx0"])
            if len(engines) > 1:  # (the first one runs on)
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

    def test_it_meters_qemu(self, monkeypatch: pytest.MonkeyPatch) -> None:
        seen: list[tuple[Any, Any]] = []
        agent, _, _ = self.made(monkeypatch, MachineRoom())
        reading = SimpleNamespace(take=lambda *pids: seen.append(pids))
        monkeypatch.setattr(agents, "CpuReading", reading)
        agent.do_begin_meter([])
        agent.do_end_meter()
        assert seen == [((), [4711])] * 2

    def test_a_bridge_is_made_by_machines_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        agent, _, made = self.made(monkeypatch, MachineRoom())
        machine = cast(MachineNode, agent._nodes[made.node])
        machine.world.change = ended
        agent.do_spawn_bridge(made.node)
        assert machine.bridges
        agent, _, made = self.made(monkeypatch, FakeEnvironment())
        with pytest.raises(UsageError, match="rx0: is not a virtual machine"):
            agent.do_spawn_bridge(made.node)


class FakeConnection:
    """An agent whose guest's clock began `behind_ns` after ours."""

    target = SshTarget("right", "192.0.2.7")

    def __init__(self, machine: MachineMade | None, behind_ns: int = 0) -> None:
        self.lost: str | None = None
        self.asked: list[tuple[str, float]] = []
        self.said: list[str] = []
        self._machine = machine
        self._behind_ns = behind_ns
        self._lines = RemoteLines()

    def process(self, _number: int) -> RemoteLines:
        return self._lines

    def ask(self, what: str, takes_s: float = 0.0, /, **values: Any) -> None:
        self.ask_for(object, what, takes_s, **values)

    def ask_for(self, _kind: object, what: str, takes_s: float = 0.0, /, **values: Any) -> Any:
        if self.lost is not None:
            raise HostLost(self.lost)
        self.asked.append((what, takes_s))
        answers: dict[str, Callable[[], Any]] = {
            "create": lambda: NodeMade(3, SPEC, None, self._machine),
            "process": lambda: self._heard(values["arguments"][0]),
            "node": lambda: TOLD | {"accelerator": "KVM, switched on"},
        }
        return answers.get(what, lambda: {"process": 1, "pid": 99})()

    def _heard(self, line: str) -> None:
        self.said.append(line)
        if line == "counters":
            answer = event("counters", t_ns=time.monotonic_ns() - self._behind_ns)
            self._lines.lines.take(answer.encode() + b"\n")


def machine_there(behind_ns: int = 0) -> tuple[FakeConnection, Any]:
    connection = FakeConnection(MachineMade(True, 240.0, 15.0, TOLD), behind_ns)
    return connection, create_node(connection, "qemu", SPEC)  # type: ignore[arg-type]


def test_a_machine_there_is_one_here_too_and_has_time_to_be_made() -> None:
    connection, node = machine_there()
    with pytest.raises(UnavailableError, match="cannot be run on host right"):
        node.spawn_program(["/opt/vnf"], {})
    assert isinstance(node, VirtualMachine)
    assert (node.emulated, node.boot_timeout_s, node.patience) == (True, 240.0, 15.0)
    assert node.process_ids() == (), "none of this host"
    assert connection.asked == [("create", CREATE_GUEST_S)]
    plain = FakeConnection(None)
    other = create_node(plain, "lxc", SPEC)  # type: ignore[arg-type]
    assert not isinstance(other, VirtualMachine) and plain.asked == [("create", CREATE_S)]


def test_times_of_a_guest_there_become_ours() -> None:
    behind_ns = time.monotonic_ns() // 2
    connection, node = machine_there(behind_ns)
    engine = node.spawn_engine(["receiver"])
    assert node.details() == TOLD | {"accelerator": "KVM, switched on"}
    at_ns = time.monotonic_ns() + 10**9
    engine.write_line(f"start at={at_ns}")
    inside_ns = int(connection.said[-1].rpartition("=")[2])
    error_ns = engine.clock_error_ns
    assert error_ns is not None and abs(at_ns - behind_ns - inside_ns) <= error_ns + 1
    connection._lines.lines.take(event("started", t_ns=inside_ns).encode() + b"\n")
    told = json.loads(engine.read_line(5.0))
    assert abs(told["t_ns"] - at_ns) <= 1
    assert re.fullmatch(r"\d+", node.details()["clock_error_us"])
    assert node.spawn_bridge().pid == 99


@pytest.mark.parametrize(("boot_s", "patience"), [("1e999", "1"), ("60", "1e9"), ("60", "0")])
def test_times_that_no_machine_takes_are_not_waited_for(boot_s: str, patience: str) -> None:
    text = (
        f'{{"emulated": true, "boot_timeout_s": {boot_s}, "patience": {patience}, "details": {{}}}}'
    )
    with pytest.raises(ValueError, match="times out of range"):
        from_plain(MachineMade, json.loads(text))


def test_of_a_lost_host_is_known_what_was_known_before() -> None:
    connection, node = machine_there()
    connection.lost = "gone"
    assert node.details() == TOLD
    node.close()


@pytest.mark.parametrize(("guests", "ahead_ns"), [(True, 0), (False, 7)])
def test_the_other_host_s_clock_is_not_taken_off_a_guest_s_times(
    guests: bool, ahead_ns: int
) -> None:
    room: FakeEnvironment = MachineRoom() if guests else FakeEnvironment()
    far = SimpleNamespace(
        begin=placement,
        create=lambda spec, _place: room.create(SESSION, spec),
        ahead_ns=7,
    )
    made = plan_for(trial(location="remote"))
    plan = replace(made, far=cast(FarSide, far))
    deployment = Deployment(SESSION, plan)
    room.engines, room.change = cast(FakeEnvironment, plan.environment).engines, lambda *_: None
    with deployment:
        near, there = deployment.engines
        assert (near.far, near.ahead_ns, near.in_guest) == (False, 0, False)
        assert (there.far, there.ahead_ns, there.in_guest) == (True, ahead_ns, guests)


@pytest.mark.parametrize("guests", [True, False])
def test_the_way_there_is_not_timed_by_a_guest_s_clock(
    guests: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[object] = []
    monkeypatch.setattr(latency, "measure", lambda *given: seen.append(given[-1]))
    plan = replace(plan_for(trial("latency")), far=cast(FarSide, "the hosts' clocks"))
    engines = [SimpleNamespace(in_guest=False), SimpleNamespace(in_guest=guests)]
    deployment = SimpleNamespace(engines=engines, ends=[], guest=None, streams=[])
    measure_trial._traffic(cast(Deployment, deployment), plan, None, lambda: None)  # type: ignore[arg-type]
    assert seen == [None if guests else "the hosts' clocks"]


def planned(text: str) -> list[tuple[str, str, str, str]]:
    testbed = Testbed(
        Path("lab.yaml"), "left", SshTarget("right", "192.0.2.7"), Cable("eth1", "eth2")
    )
    whole = f"switch: linux-bridge\nenvironment: qemu\nlocation: remote\n{text}"
    steps = plan_steps(load_text(whole, "u.yaml", THERE.known), THERE, site=Site(testbed))
    return [
        (one.plan.trial.switch, one.plan.trial.location, one.plan.trial.environment,
         one.plan.port_kind.value)
        for one in steps
    ]  # fmt: skip


@pytest.mark.parametrize("scenario", ["v2v", "p2v", "loopback-2"])
def test_guests_on_both_hosts_are_judged_by_the_cable(scenario: str) -> None:
    assert planned(f"dimension: throughput\nscenario: {scenario}\n") == [
        ("direct", "remote", "netns", "veth"), ("linux-bridge", "remote", "qemu", "tap"),
    ]  # fmt: skip


@pytest.mark.parametrize("location", ["local", "remote"])
@pytest.mark.parametrize("method", ["r-plus", "one-way"])
@pytest.mark.parametrize("scenario", ["v2v", "p2v", "pairs-2"])
def test_frames_are_not_timed_from_one_guest_to_another(
    scenario: str, method: str, location: str
) -> None:
    """The two clocks began with their guests: two seconds apart, seconds were what came out."""
    text = f"switch: linux-bridge\nmethod: {method}\nscenario: {scenario}\nlocation: {location}\n"
    text += "rate: 100\ndimension: throughput\n"
    refused(text + "environment: qemu\n", f"method {method} times frames .* its own clock;")
    asked(text + "environment: netns\n")


def test_between_wire_ends_frames_are_timed() -> None:
    asked("switch: linux-bridge\nmethod: r-plus\nscenario: loopback-1\nenvironment: qemu\n")


def asked(text: str) -> None:
    expand(load_text(text, "unit.yaml", THERE.known), THERE.switches, THERE.environments)


def refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        asked(text)
