"""Parts of trials on two hosts that need no second host: the archive, and the two switches."""

from __future__ import annotations

import io
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from copy import copy
from pathlib import Path

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import UnavailableError, UsageError
from switchmark.host.facts import Cpu
from switchmark.host.host import Completed
from switchmark.host.interface_check import check_facing
from switchmark.model.capabilities import Availability, Capabilities
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import (
    ConnectMode,
    MadePort,
    PortCounters,
    PortKind,
    SwitchCounters,
    SwitchPort,
)
from switchmark.model.rights import Rights
from switchmark.remote import bundle
from switchmark.remote.agent import HostAgent
from switchmark.remote.codec import from_plain, to_plain
from switchmark.switch.linux_bridge import LinuxBridge
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.across import AcrossHosts, CableEnds


@pytest.mark.parametrize(
    "value",
    [
        NodeSpec(
            "v0-1", (NodePort(PortKind.VETH, "m", "ip", made_port=MadePort("d")),), (1, 2), ("p",)
        ),
        NodeSpec("x", (NodePort(PortKind.MEMIF, "m", "", socket_host=Path("/s")),), ()),
        SwitchPort(3, PortKind.VETH, "m", "dev", cable=True),
        SwitchCounters({7: PortCounters(1, 2, 3, 4)}, 9),
        SwitchCounters({}, None),
        Cpu(3, (0, 1), 0, True),
        LinuxBridge.capabilities,
        Rights(("net_admin",), ("/dev/net/tun",)),
        Rights(),
    ],
)
def test_values_are_equal_after_the_connection(value: object) -> None:
    import json

    sent = json.loads(json.dumps(to_plain(value)))
    assert from_plain(type(value), sent) == value


PRINT_REGISTRIES = """
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.switch.registry import SWITCHES
print(*[make().name for registry in (SWITCHES, ENVIRONMENTS) for make in registry.values()])
"""


def test_archive_has_all_imports_of_the_agent() -> None:
    """Without access to this installation, the agent can be imported from the archive, and finds
    all switches and environments there."""
    with zipfile.ZipFile(io.BytesIO(bundle.archive())) as archive:
        names = archive.namelist()
    assert "switchmark/remote/agent.py" in names and len(names) == len(set(names))
    assert bundle.archive() == bundle.archive.__wrapped__(), "the same content, the same bytes"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", bundle.BOOTSTRAP.replace("main()\n", PRINT_REGISTRIES)],
        input=f"{len(bundle.archive())}\n".encode() + bundle.archive(),
        capture_output=True,
        timeout=300,
        check=False,
    )
    names = " ".join([*(make().name for make in SWITCHES.values()), *ENVIRONMENTS])
    assert (done.stdout.decode(), done.stderr, done.returncode) == (f"{names}\n", b"", 0)


def test_incomplete_archive_is_not_run() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-c", bundle.BOOTSTRAP],
        input=b"1000\nabc",
        capture_output=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 1 and b"the connection ended while the agent was sent" in done.stderr


def test_agent_starts_without_a_password() -> None:
    assert bundle.command("python3", "none").startswith("python3 -I -c '")
    assert bundle.command("/opt/my python", "sudo").startswith("sudo -n -- '/opt/my python' -I")


class FakeSwitch:
    """Records the calls and its ports, and returns given counters."""

    name = "fake"
    capabilities = Capabilities((PortKind.VETH,), (ConnectMode.LEARNING,), polling=False)

    def __init__(self, counted: SwitchCounters, log: list[str], name: str) -> None:
        self.counted, self.log, self.label = counted, log, name
        self.ports: Sequence[SwitchPort] = ()

    def availability(self) -> Availability:
        return Availability(True)

    def start(self, *given: object) -> None:
        (self.ports,) = (argument for argument in given if isinstance(argument, list))
        self.log.append(f"{self.label} starts")

    def check_facing(self, device: str, mtu_bytes: int) -> None:
        self.log.append(f"{device} {mtu_bytes}")

    def wait_ports_up(self, timeout_s: float) -> None:
        self.log.append(f"{self.label} up")

    def wait_converged(self) -> None:
        self.log.append(f"{self.label} settles")

    def counters(self) -> SwitchCounters:
        return self.counted

    def alive(self) -> str | None:
        return "far died" if self.label == "far" else None

    def process_ids(self) -> Sequence[int]:
        return (7,)

    def details(self) -> dict[str, str]:
        return {"version": self.label}

    def stop(self) -> None:
        self.log.append(f"{self.label} stops")
        if self.label == "near":
            raise OSError("stuck")


class FakeHost:
    """Returns the same output for each command."""

    name = "fake"

    def __init__(self, stdout: str, exit_code: int = 0) -> None:
        self.done = Completed((), exit_code, stdout, "")

    def run(self, *_args: object, **_options: object) -> Completed:
        return self.done


def link(**more: object) -> str:
    import json

    return json.dumps([{"flags": ["UP"], "mtu": 1500, "qdisc": "mq", "addr_info": []} | more])


def test_switches_of_two_hosts_act_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """A chain of two VNFs has ports 0, 1 and 2 on the local host and 3, 4 and 5 on the remote."""
    log: list[str] = []
    ports = {index: PortCounters(index, index) for index in range(4)}
    near = FakeSwitch(SwitchCounters(ports, 2), log, "near")
    far = FakeSwitch(SwitchCounters({k: PortCounters(10 + k, 0) for k in range(4)}, 3), log, "far")
    both = AcrossHosts(near, far, CableEnds("eth1", "eth2", frozenset({3, 4, 5})))
    monkeypatch.setattr(
        "switchmark.switch.support.across.check_facing", lambda *_: log.append("checked")
    )
    session = type("S", (), {"host": FakeHost(link())})()
    all_ports = [SwitchPort(k, PortKind.VETH, f"m{k}", f"d{k}", mtu_bytes=1600) for k in range(6)]
    both.start(session, all_ports, ConnectMode.LEARNING, ())
    assert log == ["checked", "eth2 1600", "far starts", "near starts"]
    assert [(p.index, p.device, p.cable) for p in near.ports] == [
        (0, "d0", False), (1, "d1", False), (2, "d2", False), (3, "eth1", True)
    ]  # fmt: skip
    assert [(p.index, p.device, p.cable) for p in far.ports] == [
        (0, "eth2", True), (1, "d3", False), (2, "d4", False), (3, "d5", False)
    ]  # fmt: skip
    counted = both.counters()
    assert counted.witness_rx_frames == 5
    assert {index: port.rx_frames for index, port in counted.ports.items()} == {
        0: 0, 1: 1, 2: 2, 6: 3, 7: 10, 3: 11, 4: 12, 5: 13
    }  # fmt: skip
    assert both.alive() == "far died" and both.process_ids() == (7,)
    assert both.details() == {"version": "near", "cable": "eth1 to eth2", "far:version": "far"}
    with pytest.raises(OSError, match="stuck"):
        both.stop()
    assert log[-2:] == ["near stops", "far stops"], (
        "a switch that fails to stop does not prevent the other's stop"
    )


def test_copy_has_a_separate_local_switch() -> None:
    near, far = (FakeSwitch(SwitchCounters({}), [], name) for name in ("near", "far"))
    both = AcrossHosts(near, far, CableEnds("eth1", "eth2", frozenset({1})))  # type: ignore[arg-type]
    copied = copy(both)
    assert copied.near is not near and copied.near.details() == near.details()
    assert (copied.far, copied.cable) == (far, both.cable)


class MakingSwitch(FakeSwitch):
    """A switch that makes its ports before it starts."""

    def make_ports(self, *given: object) -> list[MadePort]:
        (ports,) = (argument for argument in given if isinstance(argument, list))
        self.log.append(f"{self.label} makes " + " ".join(str(port.index) for port in ports))
        assert [port.index for port in ports] == list(range(len(ports)))
        return [MadePort(netmap=f"{self.label}:p{p.index}") for p in ports if not p.cable]


def test_switch_of_each_host_makes_the_ports_of_its_nodes() -> None:
    """Two pairs have ports 0 and 2 on the local host, 1 and 3 on the remote. Each switch also
    numbers the end of the cable, which it does not make."""
    log: list[str] = []
    near, far = (MakingSwitch(SwitchCounters({}), log, name) for name in ("near", "far"))
    both = AcrossHosts(near, far, CableEnds("eth1", "eth2", frozenset({1, 3})))
    ports = [SwitchPort(k, PortKind.VALE, f"m{k}") for k in range(4)]
    made_ports = both.make_ports(object(), ports)  # type: ignore[arg-type]
    assert [port.netmap for port in made_ports] == ["near:p0", "far:p1", "near:p1", "far:p2"]
    assert log == ["near makes 0 1 2", "far makes 0 1 2"]
    with pytest.raises(OSError, match="stuck"):
        both.stop()
    assert log[-1] == "far stops", "a switch that made ports is stopped also if it never started"


def test_switch_that_cannot_make_ports_is_refused() -> None:
    near, far = (FakeSwitch(SwitchCounters({}), [], name) for name in ("near", "far"))
    both = AcrossHosts(near, far, CableEnds("eth1", "eth2", frozenset({1})))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="makes no ports itself"):
        both.make_ports(object(), [SwitchPort(0, PortKind.VALE, "m")])  # type: ignore[arg-type]


class TestAgent:
    """The agent starts the switch that made the ports."""

    @staticmethod
    def agent(monkeypatch: pytest.MonkeyPatch, log: list[str]) -> HostAgent:
        kinds = iter(f"switch{k}" for k in range(9))

        class Switch(MakingSwitch):
            def __init__(self) -> None:
                super().__init__(SwitchCounters({}), log, next(kinds))

        monkeypatch.setattr("switchmark.remote.agent.make_switch", lambda _name: Switch())
        monkeypatch.setattr(
            "switchmark.remote.agent.configured", lambda switch, *_, **_more: switch
        )
        return HostAgent(object(), object())  # type: ignore[arg-type]

    def test_switch_with_made_ports_starts_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log: list[str] = []
        agent = self.agent(monkeypatch, log)
        ports = [to_plain(SwitchPort(0, PortKind.VALE, "m"))]
        made_ports = to_plain(agent.do_make_ports("vale", "", "", False, ports))
        assert from_plain(list[MadePort], made_ports) == [MadePort(netmap="switch0:p0")]
        for _ in range(2):
            agent.do_start_switch("vale", "", "", False, ports, "learning", ())
        assert log == ["switch0 makes 0", "switch0 starts", "switch1 starts"]

    def test_stopped_switch_is_not_started(self, monkeypatch: pytest.MonkeyPatch) -> None:
        log: list[str] = []
        agent = self.agent(monkeypatch, log)
        ports = [to_plain(SwitchPort(0, PortKind.VALE, "m"))]
        agent.do_make_ports("vale", "", "", False, ports)
        agent.do_switch("stop")
        agent.do_start_switch("vale", "", "", False, ports, "learning", ())
        assert log == ["switch0 makes 0", "switch0 stops", "switch1 starts"]


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("", "interface eth1: is not there; name another one"),
        (link(flags=["LOOPBACK"]), "is the loopback"),
        (
            link(addr_info=[{"local": "192.0.2.7", "prefixlen": 24, "scope": "global"}]),
            "has the address 192.0.2.7/24, and the host would lose it",
        ),
        (link(master="br0"), "belongs to br0; take it out"),
        (link(qdisc="tbf"), "queueing discipline tbf, which would be lost"),
        (link(mtu=1400), "carries 1400 bytes, 1500 are needed; ip link set mtu 1500"),
    ],
)
def test_interfaces_in_use_are_refused(answer: str, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        check_facing(FakeHost(answer, 0 if answer else 1), "eth1", 1500)  # type: ignore[arg-type]


def test_interface_with_only_a_link_local_address_is_free() -> None:
    addresses = [{"local": "fe80::1", "prefixlen": 64, "scope": "link"}]
    check_facing(FakeHost(link(addr_info=addresses)), "eth1", 1500)  # type: ignore[arg-type]


def test_settings_are_set_before_the_agent_starts() -> None:
    value = "a'b\\n\"c"
    command = bundle.arguments(sys.executable, {"SWITCHMARK_X": value})
    code = command[-1].removesuffix(bundle.BOOTSTRAP)
    printed = subprocess.run(
        [*command[:-1], f"{code}print(os.environ['SWITCHMARK_X'])"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert printed.stdout == f"{value}\n"
    assert bundle.arguments("python3") == ["python3", "-I", "-c", bundle.BOOTSTRAP]
