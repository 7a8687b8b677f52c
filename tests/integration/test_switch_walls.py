"""The sandbox of a running foreign switch holds for all its threads
(tests/unit/host/test_sandbox.py defines it), also for those of its helpers."""

from __future__ import annotations

import errno
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.host.host import Session
from switchmark.host.kernel import procfs
from switchmark.model.ports import PortKind
from switchmark.switch.registry import SWITCHES
from tests.integration.machine import needs_root
from tests.integration.switch_rig import REAL, VhostEnd, available
from tests.integration.switch_rights import OWN, VETH, ends_of, switch_of
from tests.integration.switch_traffic import bring_up, natural_mode
from tests.integration.test_engine_confinement import OPEN, address_of
from tests.integration.thread_calls import (
    KILL,
    call_by,
    instruction_of,
    landlock_version,
    needs_ptrace,
)

pytestmark = [
    pytest.mark.integration,
    pytest.mark.usefixtures("state_dir"),
    needs_root,
    needs_ptrace,
    pytest.mark.skipif(landlock_version() < 6, reason="signals are confined from version 6 on"),
]

WALLED = [name for name in REAL if SWITCHES[name]().capabilities.writes is not None]
CASES = [(name, OWN) for name in WALLED]
CASES += [
    (name, VETH) for name in WALLED if PortKind.VETH in SWITCHES[name]().capabilities.port_kinds[1:]
]


@pytest.mark.parametrize(("name", "ports"), CASES)
def test_running_switch_is_in_its_sandbox(
    name: str, ports: str, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    available(name)
    switch = switch_of(name, ports)
    with (
        tempfile.NamedTemporaryFile(dir="/var/tmp") as file,  # some switches may write in /tmp
        ends_of(session, switch, ports) as ends,
    ):
        monkeypatch.setenv("SM_TEST_FILE", file.name)
        rig = {end.process.pid for end in ends if isinstance(end, VhostEnd)}
        try:
            bring_up(switch, session, ends, natural_mode(switch), max(os.sched_getaffinity(0)))
            started = {one.pid for one in procfs.session_processes(session.id)} - rig
            assert set(switch.process_ids()) <= started
            for pid in started:
                path, by = address_of(pid, "SM_TEST_FILE"), instruction_of(pid)
                checked = set()
                for thread in [int(one.name) for one in Path(f"/proc/{pid}/task").iterdir()]:
                    with suppress(ProcessLookupError):  # some threads end
                        assert call_by(by, thread, KILL, os.getpid(), 0) == -errno.EPERM
                        assert call_by(by, thread, OPEN, path, os.O_WRONLY) == -errno.EACCES
                        checked.add(thread)
                assert pid in checked
        finally:
            switch.stop()


def test_foreign_programs_have_a_sandbox() -> None:
    """All whose capabilities are declared; the engine confines itself."""
    engine_switches = {"af-packet", "basicfwd", "reference"}
    for name in REAL:
        capabilities = SWITCHES[name]().capabilities
        if capabilities.linux_capabilities is not None:
            assert (capabilities.writes is None) == (name in engine_switches), name
