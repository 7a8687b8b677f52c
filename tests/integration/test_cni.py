"""`switch: cni` with the real plugins: traffic, proof, faults, and nothing left on the machine.

Everything runs in a network namespace of the test, so that its rules and settings are not those of
other programs on the machine.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.errors import SwitchmarkError, UnavailableError
from switchmark.host.container_networks.cni import USUAL_FOLDERS
from switchmark.host.container_networks.probe import Listener, wait_for_answer
from switchmark.host.host import Session
from switchmark.host.kernel import namespaces, procfs
from switchmark.host.network.counted import CountedDevice, read_counts
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.cni import Cni
from tests.integration.machine import needs_root
from tests.integration.switch_rig import mac_of, traces
from tests.integration.waiting import until
from tests.truths import truth

PLUGINS = next((Path(one) for one in USUAL_FOLDERS if Path(one, "bridge").exists()), None)
pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
    pytest.mark.skipif(PLUGINS is None, reason="apt install containernetworking-plugins"),
]
WANTED = [SwitchPort(k, PortKind.ATTACHMENT, mac_of(k)) for k in (0, 1)]
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]]}
BRIDGE = {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "ipam": IPAM}
# A plugin of the test: it reports each call by a pipe, passes results on, and can wait or fail.
GATE = """#!{python}
import json, os, subprocess, sys, time
command = os.environ["CNI_COMMAND"]
request = json.load(sys.stdin)
if command == "VERSION":
    print(json.dumps({{"cniVersion": "1.1.0", "supportedVersions": {versions}}}))
    sys.exit()
with open({pipe!r}, "w") as pipe:
    pipe.write(json.dumps([command, "prevResult" in request, os.environ.get("CNI_NETNS")]) + "\\n")
if command == "ADD" and request.get("leaves"):
    nothing = subprocess.DEVNULL
    subprocess.Popen(["sleep", "600"], start_new_session=True, stdout=nothing, stderr=nothing)
if command == "ADD":
    time.sleep(request.get("delay", 0))
if command == "ADD" and request.get("waits"):
    time.sleep(600)
if command in request.get("fails", []):
    print(json.dumps({{"code": 100, "msg": "the gate is closed"}}))
    sys.exit(1)
if command == "ADD":
    print(json.dumps(request["prevResult"]))
"""


class Gate:
    """A folder with the real plugins and the gate, and the calls that the gate has reported."""

    def __init__(self, folder: Path, versions: tuple[str, ...] = ("0.4.0", "1.0.0")) -> None:
        assert PLUGINS is not None
        self.folder = folder / "plugins"
        self.folder.mkdir()
        for program in PLUGINS.iterdir():
            (self.folder / program.name).symlink_to(program)
        pipe = folder / "pipe"
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        gate = self.folder / "gate"
        text = GATE.format(
            python=Path(sys.executable).resolve(),
            versions=json.dumps(list(versions)),
            pipe=str(pipe),
        )
        gate.write_text(text)
        gate.chmod(0o755)

    def calls(self) -> list[list[object]]:
        """The calls since the last question."""
        with suppress(BlockingIOError):
            return [json.loads(line) for line in os.read(self._pipe, 65536).splitlines()]
        return []

    def close(self) -> None:
        os.close(self._pipe)


@pytest.fixture
def gate(tmp_path: Path) -> Iterator[Gate]:
    created = Gate(tmp_path)
    yield created
    created.close()


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[str]:
    """A network namespace in which a bench runs as on a separate machine."""
    name = f"smt{os.getpid()}m"
    subprocess.run(["ip", "netns", "add", name], check=True)
    yield name
    subprocess.run(["ip", "netns", "del", name], check=True)


def state_of(machine: str) -> list[str]:
    """Everything that a plugin could change on the machine."""
    commands = ("iptables-save", "ip -o link", "ip route", "sysctl net.ipv4.ip_forward")
    entered = ["nsenter", f"--net=/run/netns/{machine}"]
    texts = [
        subprocess.run(
            [*entered, *each.split()], capture_output=True, text=True, check=False
        ).stdout
        for each in commands
    ]
    lines = [line for text in texts for line in text.splitlines() if not line.startswith("#")]
    return [*lines, str(Path("/var/lib/cni").exists())]


def switch_with(conflist: Path | str, plugins: Path | None = None, overlay: str = "off") -> Cni:
    switch = Cni()
    options = {"conflist": str(conflist), "overlay": overlay}
    switch.configure(options | ({"plugins": str(plugins)} if plugins else {}))
    return switch


def written(folder: Path, *plugins: dict[str, object], version: str = "1.0.0") -> Path:
    path = folder / "net.conflist"
    path.write_text(json.dumps({"cniVersion": version, "name": "net", "plugins": plugins}))
    return path


@pytest.mark.parametrize(
    ("conflist", "routers", "translated"),
    [("bridge", 0, False), ("bridge-masq", 0, False), ("ptp", 1, False), ("macvlan", 0, False)],
)
def test_built_in_networks_carry_datagrams_and_prove_it(
    conflist: str, routers: int, translated: bool, session: Session
) -> None:
    switch = switch_with(conflist)
    created = switch.make_ports(session, WANTED)
    try:
        ends = [one.end for one in created]
        assert all(end is not None and end.device == "eth0" for end in ends)
        switch.start(session, WANTED, ConnectMode.NETWORK, [])
        assert switch.alive() is None
        network = switch.network()
        assert network.facts.ttl_forth == 64 - routers
        assert network.facts.translated is translated
        assert len(network.devices) == (2 if conflist == "macvlan" else 4)
        assert read_counts(network.devices)
        assert network.digest() == network.digest() != ""
        assert switch.details()["cni_version"] == "1.0.0"
    finally:
        switch.stop()
    assert traces(session.id) <= {str(session.run_dir)}
    assert session.ledger.outstanding() == [] or not any(
        "cni" in str(one.entry) for one in session.ledger.outstanding()
    )


@pytest.mark.parametrize(
    ("conflist", "overlay", "mtu"), [("bridge", "vxlan", 1450), ("ptp", "vxlan-1550", 1500)]
)
def test_two_hosts_reach_each_other_only_through_vxlan(
    conflist: str, overlay: str, mtu: int, session: Session
) -> None:
    switch = switch_with(conflist, overlay=overlay)
    created = switch.make_ports(session, WANTED)
    try:
        ends = [one.end for one in created if one.end is not None]
        switch.start(session, WANTED, ConnectMode.NETWORK, [])
        network = switch.network()
        assert network.facts.ttl_forth == network.facts.ttl_back == 62, "a router in each host"
        between = ("vxlan-a", "underlay-a", "underlay-b", "vxlan-b")
        assert " - ".join(between) in network.path[0]
        first, second = (host.namespace.name for host in switch.hosts)
        assert first != second and {ends[0].ip[:8], ends[1].ip[:8]} == {"10.77.0.", "10.77.12"}
        assert [one.device for one in network.devices[-4:]] == list(between)
        for end in ends:
            shown = subprocess.run(
                ["ip", "-n", end.netns, "link", "show", "eth0"],
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert f"mtu {mtu} " in shown.stdout
        before = read_counts(network.devices)
        listener = Listener(ends[1].netns, ends[1].ip.partition("/")[0])
        wait_for_answer(ends[0].netns, listener, ends[1].ip.partition("/")[0], 5.0)
        after = read_counts(network.devices)
        assert all(after[one].packets - before[one].packets >= 2 for one in network.devices)
        subprocess.run(["ip", "-n", first, "link", "set", "vxlan-a", "down"], check=True)
        with pytest.raises(SwitchmarkError, match="no answer"):
            wait_for_answer(ends[0].netns, listener, ends[1].ip.partition("/")[0], 0.3)
        listener.close()
    finally:
        switch.stop()
    assert traces(session.id) <= {str(session.run_dir)}


def test_attachments_in_two_hosts_are_in_the_second(session: Session) -> None:
    """The first answer of a timed attachment crosses the overlay, whatever its number."""
    switch = switch_with("bridge", overlay="vxlan")
    switch.make_ports(session, WANTED)
    try:
        switch.start(session, WANTED, ConnectMode.NETWORK, [])
        crossed = CountedDevice(switch.hosts[1].namespace.name, "vxlan-b")
        for number in (1000, 1001):
            before = read_counts([crossed])[crossed].packets
            assert switch.attach_timed(number).answer_s > 0
            assert read_counts([crossed])[crossed].packets >= before + 2
            assert switch.detach_timed(number) > 0
    finally:
        switch.stop()
    assert traces(session.id) <= {str(session.run_dir)}


def test_a_removed_device_is_noticed(session: Session) -> None:
    switch = switch_with("bridge")
    created = switch.make_ports(session, WANTED)
    try:
        switch.start(session, WANTED, ConnectMode.NETWORK, [])
        end = created[1].end
        assert end is not None
        subprocess.run(["ip", "-n", end.netns, "link", "del", "eth0"], check=True)
        assert switch.alive() == f"device eth0 of {end.netns} is gone"
    finally:
        switch.stop()


def test_missing_kernel_option_is_named(tmp_path: Path, session: Session) -> None:
    plugin: dict[str, object] = {"type": "ipvlan", "master": "up0", "ipam": IPAM}
    switch = switch_with(written(tmp_path, plugin))
    try:
        switch.make_ports(session, WANTED)
    except SwitchmarkError as error:
        assert "CNI plugin ipvlan: ADD: " in str(error)
        assert "CONFIG_IPVLAN" in str(error)
    finally:
        switch.stop()
    assert traces(session.id) <= {str(session.run_dir)}


def test_a_chain_gets_results_in_order_and_dels_in_reverse(
    gate: Gate, tmp_path: Path, session: Session
) -> None:
    switch = switch_with(written(tmp_path, BRIDGE, {"type": "gate"}), gate.folder)
    switch.make_ports(session, WANTED)
    calls = gate.calls()
    assert [call[:2] for call in calls] == [["ADD", True], ["ADD", True], ["CHECK", True]]
    switch.stop()
    assert [call[:2] for call in gate.calls()] == [["DEL", True], ["DEL", True]]


def test_a_failed_add_is_followed_by_del(gate: Gate, tmp_path: Path, session: Session) -> None:
    closed: dict[str, object] = {"type": "gate", "fails": ["ADD"]}
    switch = switch_with(written(tmp_path, BRIDGE, closed), gate.folder)
    with pytest.raises(SwitchmarkError, match="CNI plugin gate: ADD: the gate is closed"):
        switch.make_ports(session, WANTED)
    assert [call[0] for call in gate.calls()] == ["ADD", "DEL"]
    assert traces(session.id) <= {str(session.run_dir)}


def test_a_failed_add_is_reported_before_a_failed_del(
    gate: Gate, tmp_path: Path, session: Session
) -> None:
    """The second end finds no free address, and the first cannot be detached."""
    few = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/30"}]]}
    closed: dict[str, object] = {"type": "gate", "fails": ["DEL"]}
    switch = switch_with(written(tmp_path, {**BRIDGE, "ipam": few}, closed), gate.folder)
    with pytest.raises(SwitchmarkError, match=r"no IP addresses available.*a larger range") as met:
        switch.make_ports(session, WANTED)
    assert "taking it down failed: CNI plugin gate: DEL" in met.value.__notes__[0]
    assert traces(session.id) <= {str(session.run_dir)}


def test_equal_addresses_are_named(tmp_path: Path, session: Session) -> None:
    static = {"type": "static", "addresses": [{"address": "10.88.0.5/16"}]}
    switch = switch_with(written(tmp_path, {**BRIDGE, "ipam": static}))
    with pytest.raises(
        SwitchmarkError, match=r"have the same address 10\.88\.0\.5/16; use an ipam"
    ):
        switch.make_ports(session, WANTED)
    assert traces(session.id) <= {str(session.run_dir)}


def test_processes_that_a_plugin_left_end_with_the_switch(
    gate: Gate, tmp_path: Path, session: Session
) -> None:
    leaving: dict[str, object] = {"type": "gate", "leaves": True}
    switch = switch_with(written(tmp_path, BRIDGE, leaving), gate.folder)
    switch.make_ports(session, WANTED)
    assert len(procfs.session_processes(session.id)) == 2
    switch.stop()
    assert procfs.session_processes(session.id) == []


def test_missing_address_and_missing_route_are_named(session: Session) -> None:
    switch = switch_with("bridge")
    created = switch.make_ports(session, WANTED)
    try:
        end = created[1].end
        assert end is not None
        with pytest.raises(SwitchmarkError, match=r"listen at 10\.99\.0\.1 in .*; check that"):
            Listener(end.netns, "10.99.0.1")
        subprocess.run(["ip", "-n", end.netns, "route", "flush", "all"], check=True)
        listener = Listener(end.netns, end.ip.partition("/")[0])
        with pytest.raises(SwitchmarkError, match=r"\(0 datagrams, .* s; Network is unreachable\)"):
            wait_for_answer(end.netns, listener, "10.99.0.1", 0.1)
        listener.close()
    finally:
        switch.stop()


def test_a_failed_del_is_repeated_once(gate: Gate, tmp_path: Path, session: Session) -> None:
    closed: dict[str, object] = {"type": "gate", "fails": ["DEL"]}
    switch = switch_with(written(tmp_path, BRIDGE, closed), gate.folder)
    switch.make_ports(session, WANTED[:2])
    gate.calls()
    with pytest.raises(OSError, match="the gate is closed"):
        switch.stop()
    assert [call[0] for call in gate.calls()].count("DEL") == 4


def test_version_1_1_asks_for_the_status_first(tmp_path: Path, session: Session) -> None:
    gate = Gate(tmp_path, ("1.0.0", "1.1.0"))
    try:
        alone: dict[str, object] = {"type": "gate", "fails": ["STATUS"]}
        switch = switch_with(written(tmp_path, alone, version="1.1.0"), gate.folder)
        with pytest.raises(SwitchmarkError, match="STATUS: the gate is closed"):
            switch.make_ports(session, WANTED)
        assert [call[0] for call in gate.calls()] == ["STATUS"]
        both = written(tmp_path, BRIDGE, {"type": "gate"}, version="1.1.0")
        switch = switch_with(both, gate.folder)
        with pytest.raises(UnavailableError, match=r"cniVersion is 1\.1\.0, and its plugins"):
            switch.make_ports(session, WANTED)
    finally:
        gate.close()


def test_plugins_cannot_write_the_files_of_the_machine(
    gate: Gate, tmp_path: Path, session: Session
) -> None:
    """The real `host-local` with a folder of the machine: it gets one of the session."""
    place = tmp_path / "addresses"
    ipam = {**IPAM, "dataDir": str(place)}
    switch = switch_with(written(tmp_path, {**BRIDGE, "ipam": ipam}))
    switch.make_ports(session, WANTED)
    switch.stop()
    assert not place.exists()


@truth("attach", "a plugin that sleeps for 200 ms", "kernel", "0 ms below")
def test_attach_times_a_known_delay(gate: Gate, tmp_path: Path, session: Session) -> None:
    """ADD takes no less time than its plugin, which waits for 200 ms."""
    for delay_s in (0.0, 0.2):
        plugin: dict[str, object] = {"type": "gate", "delay": delay_s}
        switch = switch_with(written(tmp_path, BRIDGE, plugin), gate.folder)
        try:
            switch.make_ports(session, WANTED)
            switch.start(session, WANTED, ConnectMode.NETWORK, [])
            times = [switch.attach_timed(1000 + k) for k in range(5)]
            assert all(0 < one.add_s < one.answer_s for one in times)
            assert all(switch.detach_timed(1000 + k) > 0 for k in range(5))
            assert switch.seconds_to_start() > 0
            assert not list(Path("/run/netns").glob(f"sm{session.id}e100*"))
        finally:
            switch.stop()
        gate.calls()
        assert all(one.add_s >= delay_s for one in times), "a lower bound holds on any machine"


STAGES = ("between the plugins", "attached")


@pytest.mark.parametrize("overlay", ["off", "vxlan"])
@pytest.mark.parametrize("stage", STAGES)
def test_a_killed_bench_leaves_nothing(
    stage: str, overlay: str, gate: Gate, tmp_path: Path, machine: str
) -> None:
    """Killed while the second plugin of a chain runs, and while everything is attached."""
    waits: dict[str, object] = {"type": "gate", "waits": stage == STAGES[0]}
    path = written(tmp_path, {**BRIDGE, "ipMasq": overlay == "off"}, waits)
    before = state_of(machine)
    command = ["nsenter", f"--net=/run/netns/{machine}", sys.executable, "-m", __name__]
    with subprocess.Popen(
        [*command, str(path), str(gate.folder), "waits", overlay],
        stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2],
    ) as bench:  # fmt: skip
        assert bench.stdout is not None
        session_id = bench.stdout.readline().strip()
        if stage == STAGES[0]:
            reported: list[list[object]] = []
            until(lambda: bool(reported.extend(gate.calls()) or reported), "the second plugin runs")
        else:
            assert bench.stdout.readline().strip() == "attached"
            reported = gate.calls()
        assert reported[0][0] == "ADD"
        assert len(state_of(machine)) == len(before), "all of it is in the private host"
        bench.send_signal(signal.SIGKILL)
    (cleaned,) = clean_stale()
    assert cleaned.session == session_id and cleaned.problems == []
    with_result = stage != STAGES[0]
    deletes = [call for call in gate.calls() if call[0] == "DEL"]
    assert [call[1] for call in deletes] == [with_result] * (2 if with_result else 1)
    assert traces(session_id) == set()
    assert state_of(machine) == before


def test_a_bench_that_ends_leaves_the_machine_as_it_was(machine: str, tmp_path: Path) -> None:
    before = state_of(machine)
    path = written(tmp_path, BRIDGE, {"type": "portmap", "capabilities": {"portMappings": True}})
    command = ["nsenter", f"--net=/run/netns/{machine}", sys.executable, "-m", __name__]
    done = subprocess.run(
        [*command, str(path), str(PLUGINS), "ends", "off"],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert state_of(machine) == before
    assert shutil.which("iptables-save"), "the state above has the firewall"


def attach_and_wait(conflist: str, plugins: str, overlay: str, *, wait: bool) -> None:
    """Print the session, attach two ends, print `attached`, and wait to be killed."""
    switch = switch_with(conflist, Path(plugins), overlay)
    with open_session(measuring=False) as session:
        print(session.id, flush=True)
        switch.make_ports(session, WANTED)
        try:
            print("attached", flush=True)
            assert namespaces.NETNS_DIR.is_dir()
            if wait:
                time.sleep(600)
        finally:
            switch.stop()


if __name__ == "__main__":
    attach_and_wait(sys.argv[1], sys.argv[2], sys.argv[4], wait=sys.argv[3] == "waits")
