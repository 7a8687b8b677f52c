"""The base of switches that are a separate program: it finds the program, starts one private
instance, waits for its peers, and detects its death.

A subclass defines how to find and start the program (`launch`), and returns the ports that still
wait for their peer (`waiting`) and its counters (`own_counters`).
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
from switchmark.switch.support.cable import AtInterface, adopt_ports
from switchmark.switch.support.options import WithProgram
from switchmark.switch.support.pages import WithPages
from switchmark.switch.support.ports import check_request, how_it_ended, require, socket_of
from switchmark.switch.support.private import POLL_S, Resources, WithResources, check_socket_path
from switchmark.switch.support.rights import rights_of
from switchmark.switch.support.tools import query_once

DEADLINE_S = 20.0  # for a busy machine; a start normally takes less than a second
MAC_AGING_S = 300  # the same for every learning switch


class ProgramSwitch(WithProgram, WithPages, WithResources):
    """A switch that is one process."""

    name: str
    capabilities: Capabilities
    setting: str  # the environment variable that names the program
    programs: Sequence[str]  # names of the program without the setting
    obtain: str  # how to get it
    needs: Sequence[Facility] = ()  # from the operating system, with any ports

    function_table: FunctionTable | None = None  # None: it only forwards
    session: Session
    netns: str | None = None  # the namespace of its devices; None without devices
    process: Spawned | None = None

    def program_for(self, mode: ConnectMode | None) -> Path | None:  # noqa: ARG002
        """Return the program for this connect mode (None: the first mode); None if it does not
        exist."""
        return self.chosen_program or find_program(self.setting, self.programs)

    def availability(self) -> Availability:
        """Available if the program runs, and there are hugepages if it needs them."""
        return self._check_program(self.program_for(None))

    def _check_program(self, program: Path | None) -> Availability:
        if (problem := place.missing(*self.needs)) is not None:
            return problem
        if program is None:
            return no_program(self.setting, self.programs[0], self.obtain)
        version = query_once(self.version_of, program)
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
        """Return the version on one line; empty if the program does not run."""
        raise NotImplementedError

    def check_more(self, program: Path, version: str) -> Availability:  # noqa: ARG002
        """Check further needs of the program."""
        return available(version)

    def memory_mb(self) -> int:
        """Return the memory of the instance for packets, in MiB."""
        raise NotImplementedError

    def hugepages_mb(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> list[int]:
        """See `TakesHugepages`."""
        planned = copy(self)
        planned.ports, planned.mode = tuple(ports), mode
        return [planned.memory_mb()]

    def launch(self, program: Path) -> None:
        """Start `self.process` in `self.netns`. Return when it forwards, or will forward as soon as
        its peers exist."""
        raise NotImplementedError

    def waiting(self) -> list[SwitchPort]:
        """Return the ports whose peer does not exist yet."""
        raise NotImplementedError

    def counters(self) -> SwitchCounters:
        """Return the frames of each port since the start."""
        return self._at_interface.added(self.own_counters())

    def own_counters(self) -> SwitchCounters:
        """Return the frames of each port since the start that the program itself counts."""
        raise NotImplementedError

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Start a private instance; undo everything after an error."""
        require(self.name, self.availability())
        mirror = self.function_table.mirror if self.function_table else None
        paired = ports[:-1] if mirror else ports  # the last port is the monitor port
        check_request(self.name, self.capabilities, paired, mode)
        require(self.name, availability_for(self, mode))
        for port in ports:
            if port.kind in (PortKind.VHOST_USER, PortKind.MEMIF) and not port.cable:
                check_socket_path(socket_of(port))
        program = self.program_for(mode)
        assert program is not None  # `availability` checks it
        self.session, self.ports, self.mode = session, tuple(ports), mode
        self.cores = tuple(cores)
        self.require_memory(self.memory_mb())
        self._resources = Resources(session)
        try:
            namespace = adopt_ports(self._resources, ports)
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
        """Start `self.process` in the namespace of its devices, with the rights that its ports
        need, on its first core or on the given cores."""
        pinned, rights = cores or self.cores[:1], rights_of(self, self.ports)
        self.process = self.resources.spawn(
            args, cores=pinned, env=env, netns=self.netns, rights=rights
        )

    def until(
        self, condition: Callable[[], bool], subject: str, timeout_s: float = DEADLINE_S
    ) -> None:
        """Poll for a condition. Raises `TrialFailed` if the switch dies, or after the timeout."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if (problem := self.alive()) is not None:
                raise TrialFailed(f"{self.name}: {problem}")
            if time.monotonic() > deadline:
                raise TrialFailed(
                    f"{self.name}: {subject} not within {timeout_s:g} s: {self.last_output()}"
                )
            time.sleep(POLL_S)

    def wait_ports_up(self, timeout_s: float) -> None:
        """Wait until every port has its peer."""
        self.wait_for_peers(
            lambda: [port.socket or port.device or "?" for port in self.waiting()], timeout_s
        )

    def wait_converged(self) -> None:
        """Return at once, because it uses learnt addresses at once."""

    def last_output(self) -> str:
        """Return the end of the program's output, on one line."""
        return last_lines(self.process.stderr_tail() if self.process else "")

    def output(self) -> str:
        """Return the end of the program's output."""
        return self.process.stderr_tail() if self.process else ""

    def alive(self) -> str | None:
        """Return None while the process runs, otherwise how it ended."""
        if self._resources is None or self.process is None:
            return "not started"
        if (code := self.process.poll()) is None:
            return None
        program = self.programs[0]
        return f"{program} (pid {self.process.pid}) {how_it_ended(code, self.last_output())}"

    def process_ids(self) -> Sequence[int]:
        """Return the process, whose threads all belong to the switch."""
        return () if self.process is None else (self.process.pid,)

    def details(self) -> dict[str, str]:
        """Return the common details for the record: version, connect mode, cores and memory."""
        return {
            "version": str(self.availability().version),
            "connect_mode": self.mode.value,
            "cores": ",".join(
                map(str, self.cores if self.capabilities.multi_core else self.cores[:1])
            ),
            **self.memory_details(self.memory_mb()),
        }

    def stop(self) -> None:
        """End it, and remove its objects."""
        super().stop()
        self.process = None


def dpdk_version(program: Path, *before: str) -> str:
    """Return the version that EAL in a program prints first, for example `DPDK 22.11.11`; empty
    without DPDK. `before` are the program's arguments before those of EAL."""
    quiet = ("--no-huge", "--no-pci", "--in-memory", "--no-telemetry")
    text = output_of(["stdbuf", "-oL", str(program), *before, "-v", *quiet, "-h"])
    found = re.search(r"DPDK \d+\.[\w.~+-]+", text)
    return found[0] if found else ""
