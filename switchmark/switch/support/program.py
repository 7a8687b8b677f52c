"""The base of switches that are a program of their own: it finds the program, starts one private
instance, waits for its peers, and notices its death.

A subclass says how the program is found and started (`launch`), which ports still wait for their
peer (`waiting`), and what it has counted (`own_counters`).
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path

from switchmark.errors import TrialFailed
from switchmark.function.support.table import FunctionTable
from switchmark.host import hugepages, place
from switchmark.host.host import Session, Spawned
from switchmark.host.place import Facility
from switchmark.host.process_output import last_lines, output_of
from switchmark.host.programs import find_program, no_program
from switchmark.model.capabilities import Availability, Capabilities, available, unavailable
from switchmark.model.ports import ConnectMode, PortKind, SwitchCounters, SwitchPort
from switchmark.switch.support.base import availability_for
from switchmark.switch.support.cable import AtInterface, take_in
from switchmark.switch.support.options import WithProgram
from switchmark.switch.support.pages import WithPages
from switchmark.switch.support.ports import check_request, how_it_ended, require, socket_of
from switchmark.switch.support.private import POLL_S, Resources, WithResources, check_socket_path
from switchmark.switch.support.rights import rights_of
from switchmark.switch.support.tools import asked_once

DEADLINE_S = 20.0  # generous: a loaded machine; a start normally takes below a second
MAC_AGING_S = 300  # the same for every learning switch


class ProgramSwitch(WithProgram, WithPages, WithResources):
    """A switch that is one process; subclasses say which."""

    name: str
    capabilities: Capabilities
    setting: str  # the environment variable that names the program
    programs: Sequence[str]  # what it is called otherwise
    obtain: str  # how to get it
    needs: Sequence[Facility] = ()  # from the operating system, whatever its ports are

    function_table: FunctionTable | None = None  # None: it only forwards
    session: Session
    netns: str | None = None  # where its devices are; None: it has none
    process: Spawned | None = None

    def program_for(self, mode: ConnectMode | None) -> Path | None:  # noqa: ARG002
        """The program for this connect mode (None: for its natural one); None where there is
        none."""
        return self.chosen_program or find_program(self.setting, self.programs)

    def availability(self) -> Availability:
        """Available if the program runs, and there are hugepages if it can do with nothing else."""
        return self._check_program(self.program_for(None))

    def _check_program(self, program: Path | None) -> Availability:
        if (problem := place.missing(*self.needs)) is not None:
            return problem
        if program is None:
            return no_program(self.setting, self.programs[0], self.obtain)
        version = asked_once(self.version_of, program)
        if not version:
            return unavailable(
                f"{program} does not run",
                remedy="choose another `program`"
                if self.chosen_program
                else f"{self.obtain}, and set {self.setting} to the program",
            )
        lacking = hugepages.none_reserved() if self.capabilities.needs_hugepages else None
        return lacking or self.check_more(program, version)

    def version_of(self, program: Path) -> str:
        """The version, on one line; empty when the program does not run."""
        raise NotImplementedError

    def check_more(self, program: Path, version: str) -> Availability:  # noqa: ARG002
        """Check what else the program needs."""
        return available(version)

    def memory_mb(self) -> int:
        """Memory for packets that the instance takes, in MiB."""
        raise NotImplementedError

    def hugepages_mb(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> list[int]:
        """See `TakesHugepages`."""
        planned = copy(self)
        planned.ports, planned.mode = tuple(ports), mode
        return [planned.memory_mb()]

    def launch(self, program: Path) -> None:
        """Start `self.process` in `self.netns` and return when it forwards, or will as soon as its
        peers come."""
        raise NotImplementedError

    def waiting(self) -> list[SwitchPort]:
        """The ports whose peer is not there yet."""
        raise NotImplementedError

    def counters(self) -> SwitchCounters:
        """Frames per port since start."""
        return self._at_interface.added(self.own_counters())

    def own_counters(self) -> SwitchCounters:
        """Frames per port since start, as far as the program itself counts them."""
        raise NotImplementedError

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start a private instance; nothing of it stays when that fails."""
        require(self.name, self.availability())
        mirror = self.function_table.mirror if self.function_table else None
        paired = ports[:-1] if mirror else ports  # the last port is the monitor port
        check_request(self.name, self.capabilities, paired, mode)
        require(self.name, availability_for(self, mode))
        for port in ports:
            if port.kind in (PortKind.VHOST_USER, PortKind.MEMIF) and not port.cable:
                check_socket_path(socket_of(port))
        program = self.program_for(mode)
        assert program is not None  # the availability has seen it
        self.session, self.ports, self.mode = session, tuple(ports), mode
        self.cores = tuple(cores)
        self.require_memory(self.memory_mb())
        self._resources = Resources(session)
        try:
            namespace = take_in(self._resources, ports)
            self.netns = namespace.name if namespace else None
            self._at_interface = AtInterface(namespace, ports)
            self.launch(program)
        except BaseException:
            self.stop()
            raise

    def run(
        self,
        args: Sequence[str],
        env: Mapping[str, str] | None = None,
        cores: Sequence[int] | None = None,
    ) -> None:
        """Start `self.process`, on its first core unless others are named, where its devices are,
        with the rights that its ports take."""
        pinned, rights = cores or self.cores[:1], rights_of(self, self.ports)
        self.process = self.resources.spawn(
            args, cores=pinned, env=env, netns=self.netns, rights=rights
        )

    def until(
        self, condition: Callable[[], bool], what: str, timeout_s: float = DEADLINE_S
    ) -> None:
        """Poll for a condition. Raises `TrialFailed` when the switch dies or time runs out."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if (words := self.alive()) is not None:
                raise TrialFailed(f"{self.name}: {words}")
            if time.monotonic() > deadline:
                raise TrialFailed(f"{self.name}: {what} not within {timeout_s:g} s: {self.said()}")
            time.sleep(POLL_S)

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait until every port has its peer."""
        self.wait_for_peers(
            lambda: [port.socket or port.device or "?" for port in self.waiting()], timeout_s
        )

    def wait_converged(self) -> None:
        """Return at once: what it has learnt is in force at once."""

    def said(self) -> str:
        """The last output of the program, on one line."""
        return last_lines(self.process.stderr_tail() if self.process else "")

    def output(self) -> str:
        """The end of the program's output, as it was written."""
        return self.process.stderr_tail() if self.process else ""

    def alive(self) -> str | None:
        """None while the process runs."""
        if self._resources is None or self.process is None:
            return "not started"
        if (code := self.process.poll()) is None:
            return None
        program = self.programs[0]
        return f"{program} (pid {self.process.pid}) {how_it_ended(code, self.said())}"

    def process_ids(self) -> Sequence[int]:
        """The process, all of whose threads are the switch's."""
        return () if self.process is None else (self.process.pid,)

    def details(self) -> dict[str, str]:
        """The details that all such switches record: version, connect mode, cores and memory."""
        return {
            "version": str(self.availability().version),
            "connect_mode": self.mode.value,
            "cores": ",".join(
                map(str, self.cores if self.capabilities.multi_core else self.cores[:1])
            ),
            **self.memory_details(self.memory_mb()),
        }

    def stop(self) -> None:
        """End it and remove everything it made."""
        super().stop()
        self.process = None


def dpdk_version(program: Path, *before: str) -> str:
    """The version that DPDK's environment layer in a program prints first, such as
    `DPDK 22.11.11`; empty without DPDK. `before` are the program's words before EAL's."""
    quiet = ("--no-huge", "--no-pci", "--in-memory", "--no-telemetry")
    text = output_of(["stdbuf", "-oL", str(program), *before, "-v", *quiet, "-h"])
    found = re.search(r"DPDK \d+\.[\w.~+-]+", text)
    return found[0] if found else ""
