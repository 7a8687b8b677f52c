"""The capabilities of a foreign instrument's programs on the host: those that its ports declare,
and no others; and the failure without each of them."""

from __future__ import annotations

import errno
import os
import platform
import re
import resource
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.host.host import Session
from switchmark.host.kernel import procfs
from switchmark.instrument.registry import INSTRUMENTS
from switchmark.instrument.support.base import Instrument, Job, Launched
from switchmark.instrument.support.polled_run import PolledRun
from switchmark.model.ports import PortKind
from switchmark.trial.instrument_run import station_of
from tests.integration.machine import needs_root, node_spec
from tests.integration.thread_calls import KILL, call_by, instruction_of, landlock_version
from tests.integration.waiting import until
from tests.unit.trial_fakes import trial

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("state_dir"), needs_root]

# linux/capability.h
NUMBERS = {"net_admin": 12, "net_raw": 13, "ipc_lock": 14}
STARTERS = {"ip", "setpriv", "env", "stdbuf", Path(sys.executable).resolve().name}
CAN_ASK = platform.machine() == "x86_64" and landlock_version() >= 6
LOCKED_BYTES = 64 << 10  # less than any instrument locks
# Messages of programs that start without a capability, but lack a feature.
SAYS = {(PortKind.VHOST_USER, "ipc_lock"): "mlockall() failed"}
READY_S = 30.0
LACKING_READY_S = 5.0
RUN_S = 1.0
KINDS = {"netns": (PortKind.VETH,), "bare": (PortKind.VETH, PortKind.VHOST_USER)}
# Not on a wire without a switch: it sets the MTU of its end, which DPDK's vhost driver refuses.
NO_WIRE = {("pktgen-dpdk", PortKind.VHOST_USER)}
CASES = [
    (name, environment, kind)
    for name in INSTRUMENTS
    if INSTRUMENTS[name]().sends_frames
    for environment in INSTRUMENTS[name]().abilities.environments
    for kind in INSTRUMENTS[name]().abilities.linux_capabilities or ()
    if kind in KINDS.get(environment, ()) and (name, kind) not in NO_WIRE
]


def available_instrument(name: str) -> Instrument:
    instrument = INSTRUMENTS[name]()
    if not (found := instrument.availability()).available:
        pytest.skip(f"{name}: {found.reason}; {found.remedy}")
    return instrument


@contextmanager
def launched(
    instrument: Instrument, environment: str, kind: PortKind, session: Session
) -> Iterator[Launched]:
    """Start the instrument between two nodes on a wire."""
    specs = (node_spec("tx0", 0, kind), node_spec("rx0", 1, kind))
    source, target = ENVIRONMENTS[environment]().create_wire(session, *specs)
    dimension = instrument.abilities.dimensions[0].value
    request = trial(dimension, rate_pps=1000 if instrument.abilities.paces else None, burst=1)
    try:
        job = Job(
            request,
            station_of("tx0", source, instrument.abilities, session.run_dir),
            station_of("rx0", target, instrument.abilities, session.run_dir),
            session.run_dir,
            0.5,
        )
        run = instrument.launch(job)
        try:
            yield run
        finally:
            run.close()
    finally:
        for node in (source, target):
            node.close()


@contextmanager
def little_locked_memory() -> Iterator[None]:
    """Limit the locked memory of started programs."""
    before = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    resource.setrlimit(resource.RLIMIT_MEMLOCK, (LOCKED_BYTES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_MEMLOCK, before)


def messages_of(run: Launched) -> list[str]:
    """Return the messages of both programs of testpmd."""
    assert isinstance(run, PolledRun)
    return [one.program.spawned.stderr_tail() for one in (run._source, run._target)]


def counted(run: Launched) -> int:
    """Return the number of arrived frames, by the counters of the kernel on a new wire."""
    try:
        return run.finish(READY_S).target.frames
    except TrialFailed as error:
        if (more := re.search(r"contradict each other: (\d+) frames received", str(error))) is None:
            raise
        return int(more[1])


def measure(run: Launched) -> int:
    """Let it run; return the number of arrived frames. Wait less if it cannot begin."""
    run.wait_ready(LACKING_READY_S)
    run.begin(RUN_S)
    while run.running():
        time.sleep(0.05)
    return counted(run)


def has_begun(pid: int) -> bool:
    """Return True if the process runs the program itself, not its launcher."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/exe").readlink().name not in STARTERS
    return True  # it has ended


def mask(names: Sequence[str]) -> int:
    return sum(1 << NUMBERS[name] for name in names)


@pytest.mark.parametrize(("name", "environment", "kind"), CASES)
def test_running_instrument_has_declared_capabilities(
    name: str, environment: str, kind: PortKind, session: Session
) -> None:
    instrument = available_instrument(name)
    declared = instrument.abilities.linux_capabilities
    assert declared is not None
    with launched(instrument, environment, kind, session) as run:
        run.wait_ready(READY_S)
        run.begin(RUN_S)
        until(lambda: len(run.process_ids()) > 1 and all(map(has_begun, run.process_ids())), "both")
        programs = 0
        for process in procfs.session_processes(session.id):
            for path in Path(f"/proc/{process.pid}/task").glob("*/status"):
                status = dict(re.findall(r"^(Cap\w+|NoNewPrivs):\t(\w+)$", path.read_text(), re.M))
                assert status["NoNewPrivs"] == "1"
                assert int(status["CapInh"], 16) == int(status["CapAmb"], 16) == 0
                assert status["CapPrm"] == status["CapEff"] == status["CapBnd"]
                assert int(status["CapBnd"], 16) == mask(declared[kind])
                programs += 1
        assert programs >= 2, "a program at each end"
        if (
            instrument.abilities.writes is not None and CAN_ASK
        ):  # host/test_sandbox.py tests the rest
            for pid in run.process_ids():
                assert call_by(instruction_of(pid), pid, KILL, os.getpid(), 0) == -errno.EPERM
        while run.running():
            time.sleep(0.05)
        assert counted(run) > 0


@pytest.mark.parametrize(
    ("name", "environment", "kind", "capability"),
    [
        (*case, capability)
        for case in {(name, kind): (name, place, kind) for name, place, kind in CASES}.values()
        for capability in (INSTRUMENTS[case[0]]().abilities.linux_capabilities or {})[case[2]]
    ],
)
def test_each_capability_is_needed(
    name: str, environment: str, kind: PortKind, capability: str, session: Session
) -> None:
    instrument = available_instrument(name)
    declared = instrument.abilities.linux_capabilities
    assert declared is not None
    left = tuple(other for other in declared[kind] if other != capability)
    instrument.abilities = replace(instrument.abilities, linux_capabilities={kind: left})
    with little_locked_memory(), launched(instrument, environment, kind, session) as run:
        try:
            frames = measure(run)
        except SwitchmarkError as error:
            assert name.partition("-")[0] in str(error)
        else:
            assert not frames or all(
                SAYS[kind, capability] in output for output in messages_of(run)
            )
