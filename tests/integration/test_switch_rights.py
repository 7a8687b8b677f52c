"""The capabilities of a switch's programs on the host: those that its ports declare and no others,
for good; and the failure without each of them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.host.host import Session
from switchmark.host.kernel import procfs
from switchmark.model.ports import PortKind
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support import contained
from switchmark.switch.support.rights import CABLES, rights_of
from tests.integration.machine import needs_root
from tests.integration.switch_rig import REAL, VhostEnd, available, rig_kind
from tests.integration.switch_rights import OWN, VETH, ends_of, switch_of
from tests.integration.switch_traffic import bring_up, natural_mode

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
]

# linux/capability.h
NUMBERS = {
    "setgid": 6, "setuid": 7, "net_admin": 12, "net_raw": 13, "ipc_lock": 14, "sys_admin": 21,
    "sys_nice": 23,
}  # fmt: skip
PROGRAMS = [name for name in REAL if SWITCHES[name]().capabilities.linux_capabilities is not None]
CABLED = "ovs-dpdk"  # it reports at once what it cannot do
LOCKED_BYTES = 64 << 10  # less than any switch locks
# Messages of switches that start without a capability but lack a feature.
SAYS = {"testpmd": "mlockall\\(\\) failed"}
# Without them the engine has smaller socket buffers (test_engine_privileges.py), or stays root
# (test_engine_user.py).
NOT_SEEN = {
    (name, one) for name in ("af-packet", "reference") for one in ("net_admin", "setgid", "setuid")
}


def mask(names: tuple[str, ...]) -> int:
    return sum(1 << NUMBERS[name] for name in names)


def threads(pid: int) -> list[dict[str, str]]:
    """Return the capabilities of each thread; threads may end meanwhile."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/status"):
        with suppress(FileNotFoundError, ProcessLookupError):
            found.append(dict(re.findall(r"^(Cap\w+|NoNewPrivs):\t(\w+)$", path.read_text(), re.M)))
    return found


def declared(name: str, ports: str = OWN) -> tuple[str, ...]:
    """Return the capabilities that a switch declares for the ports of these tests."""
    capabilities = SWITCHES[name]().capabilities
    assert capabilities.linux_capabilities is not None
    if ports in CABLES:
        return tuple(CABLES[ports])
    kind = PortKind.VETH if ports == VETH else rig_kind(SWITCHES[name]())
    return capabilities.linux_capabilities[kind]


CASES = [(name, OWN) for name in PROGRAMS]
CASES += [("vpp", VETH), *((CABLED, driver) for driver in CABLES if driver)]


@pytest.mark.parametrize(("name", "ports"), CASES)
def test_running_switch_has_declared_capabilities(name: str, ports: str, session: Session) -> None:
    available(name)
    switch = switch_of(name, ports)
    with ends_of(session, switch, ports) as ends:
        rig = {end.process.pid for end in ends if isinstance(end, VhostEnd)}
        try:
            bring_up(switch, session, ends, natural_mode(switch), max(os.sched_getaffinity(0)))
            started = {one.pid for one in procfs.session_processes(session.id)} - rig
            assert set(switch.process_ids()) <= started
            its = rights_of(switch, [end.port for end in ends])
            assert its is not None and set(declared(name, ports)) == set(its.capabilities)
            for pid in started:
                expected = declared(name, ports) if pid in switch.process_ids() else ()
                for thread in threads(pid):
                    assert thread["NoNewPrivs"] == "1"
                    assert int(thread["CapInh"], 16) == int(thread["CapAmb"], 16) == 0
                    assert int(thread["CapBnd"], 16) == mask(expected)
                    # The engine drops the capabilities of its start.
                    assert thread["CapPrm"] == thread["CapEff"] in ("0" * 16, thread["CapBnd"])
        finally:
            switch.stop()


@pytest.mark.parametrize("place", ["lxc", pytest.param("docker", marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", ["basicfwd", "ovs-dpdk", "ovs-netdev", "testpmd"])
def test_switch_in_container_has_capabilities_of_its_ports(
    name: str, place: str, session: Session
) -> None:
    available(name)
    if reason := contained.problem(place):
        pytest.skip(reason)
    switch, apart = switch_of(name, OWN), contained.contained(session, place)
    with ends_of(session, switch, OWN) as ends:
        try:
            bring_up(switch, apart, ends, natural_mode(switch), max(os.sched_getaffinity(0)))
            allowed = {*declared(name)} & {*contained.CAPABILITIES}
            allowed |= {"sys_nice"} if place == "docker" else set()
            assert switch.process_ids()
            for pid in switch.process_ids():
                for thread in threads(pid):
                    assert int(thread["CapBnd"], 16) == mask(tuple(allowed))
        finally:
            switch.stop()
            contained.close(apart)


def started_with(name: str, ports: str, rights: tuple[str, ...]) -> str:
    """Return the output of a switch with these capabilities alone and a limit of locked memory."""
    done = subprocess.run(
        ["prlimit", f"--memlock={LOCKED_BYTES}:{LOCKED_BYTES}",
         sys.executable, "-m", "tests.integration.switch_rights", name, ports, *rights],
        capture_output=True, text=True, timeout=120, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def works(name: str, output: str) -> bool:
    return output.startswith("up") and not re.search(SAYS.get(name, "^$"), output)


@pytest.mark.parametrize(("name", "ports"), [case for case in CASES if declared(*case)])
def test_each_capability_is_needed(name: str, ports: str) -> None:
    available(name)
    all_of_it = declared(name, ports)
    output = started_with(name, ports, all_of_it)
    assert works(name, output), output
    for capability in all_of_it:
        if (name, capability) not in NOT_SEEN:
            left = tuple(other for other in all_of_it if other != capability)
            output = started_with(name, ports, left)
            assert not works(name, output), f"{name} starts without {capability}: {output}"
