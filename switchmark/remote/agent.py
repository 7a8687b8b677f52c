"""The bench's agent on another host: it runs the bench's requests there.

The bench sends it over the connection, and Python runs it from memory. It exchanges JSON lines on
its standard streams. It opens a session on that host, so a ledger there records everything that it
creates. When its input ends or falls silent, the agent undoes everything and ends. After a
`kill -9` the next agent on that host undoes it.
"""

from __future__ import annotations

import gc
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from switchmark.engine.binary import NAME
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.environment.support.base import Node, VirtualMachine
from switchmark.environment.vm.engine import GuestEngine
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host.build_identity import running_programs
from switchmark.host.cores.counters import (
    EnergyReading,
    HardwareCounters,
    MeterReading,
    energy_absent,
)
from switchmark.host.cores.cpu_time import CpuReading, process_cpu_s
from switchmark.host.facts import gather
from switchmark.host.host import Session, Spawned
from switchmark.host.interface_check import check_facing
from switchmark.host.kernel import capabilities, procfs
from switchmark.host.kernel.heap import return_free_memory
from switchmark.host.network.own_end import OwnEnd
from switchmark.host.session import open_session
from switchmark.host.undo.clean import clean_stale
from switchmark.host.undo.entries import Directory
from switchmark.model.capabilities import Availability
from switchmark.model.node import NodeSpec
from switchmark.model.ports import ConnectMode, MadePort, SwitchPort
from switchmark.model.rights import Rights
from switchmark.remote.channel import Channel
from switchmark.remote.codec import from_plain, to_plain
from switchmark.remote.hello import Hello, MachineMade, NodeMade
from switchmark.switch.registry import make_switch
from switchmark.switch.support.base import MakesPorts, Switch, availability_for, plug_in
from switchmark.switch.support.options import configured

LOCK_WAIT_S = 30.0  # another agent may be undoing its changes
MOST_ENDED = 16  # ended processes whose standard error can still be read when the next starts
ENGINE_PLACES = ("/var/tmp", "/dev/shm", "/tmp")  # used if /run is mounted noexec


class HostAgent:
    """Answers the bench's requests: one `do_` method for each kind."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._channel = channel
        self._processes: dict[int, Spawned] = {}
        self._nodes: dict[int, Node] = {}
        self._switch: Switch | None = None
        self._made_ports: Switch | None = None  # a switch with ports that is not started yet
        self._next = 0
        self._counters = HardwareCounters()
        self._energy = EnergyReading({}, {})
        self._end = OwnEnd()
        self._cpu_s: dict[int, float] = {}  # CPU time by PID, for ended processes

    def answer(self, request: dict[str, Any]) -> None:
        """Run the request, and send the result or the error."""
        number, action = request.pop("id"), request.pop("do")
        try:
            result = getattr(self, f"do_{action}")(**request)
            self._channel.send({"id": number, "ok": to_plain(result)})
        except (SwitchmarkError, OSError, TimeoutError, ValueError) as error:
            kind = type(error).__name__
            self._channel.send({"id": number, "error": str(error), "kind": kind})

    def do_engine(self, data: bytes) -> str:
        """Store the engine in a folder from which programs can run, under an unpredictable name;
        return the version that it prints."""
        problem = ""
        for folder in (self._session.run_dir, *map(Path, ENGINE_PLACES)):
            if not folder.is_dir():
                continue
            place = folder / f"switchmark-{self._session.id}-{secrets.token_hex(8)}"
            try:
                engine = self._write_engine(place, data)
                version = self._session.host.run([str(engine), "--version"]).stdout.splitlines()[0]
            except (OSError, SwitchmarkError) as error:  # the folder is mounted noexec
                problem = str(error)
                continue
            os.environ["SWITCHMARK_TRAFFIC"] = str(engine)
            return version
        raise UnavailableError(f"the traffic engine does not run here: {problem or 'no place'}")

    def _write_engine(self, place: Path, data: bytes) -> Path:
        self._session.ledger.record(Directory(str(place)))
        place.mkdir(mode=0o755)
        engine = place / NAME
        engine.write_bytes(data)
        engine.chmod(0o755)
        return engine

    def do_run(self, args: list[str], **options: Any) -> Any:
        """Run a command to its end."""
        return self._session.host.run(args, **options)

    def do_spawn(
        self, args: list[str], cores: list[int] | None, rights: Any = None, **options: Any
    ) -> dict[str, int]:
        """Start a process on the host."""
        rights = None if rights is None else from_plain(Rights, rights)
        return self._keep(self._session.host.spawn(args, cores=cores, rights=rights, **options))

    def do_process(self, process: int, act: str, arguments: Sequence[Any] = ()) -> Any:
        """Call a method of a process."""
        if process not in self._processes:
            raise SwitchmarkError(f"process {process}: has ended long ago, or never began")
        spawned = self._processes[process]
        if act == "terminate":
            self._keep_cpu(spawned)
        return getattr(spawned, act)(*arguments)

    def do_cpu_s(self, pids: list[int]) -> float:
        """Return the CPU time of processes of the bench; of an ended process, all its time."""
        return sum(max(process_cpu_s(pid), self._cpu_s.get(pid, 0.0)) for pid in pids)

    def _keep_cpu(self, process: Spawned) -> None:
        """Keep the CPU time of a process that ends, before it is reaped."""
        if used_s := process_cpu_s(process.pid):
            self._cpu_s[process.pid] = used_s

    def do_make_folder(self, name: str) -> Path:
        """Make a folder that is removed with the session."""
        folder = self._session.run_dir / Path(name).name
        folder.mkdir(mode=0o700, exist_ok=True)
        return folder

    def do_write(self, folder: str, name: str, data: bytes) -> None:
        """Write a file into such a folder."""
        (self.do_make_folder(folder) / Path(name).name).write_bytes(data)

    def do_settings(self, variables: dict[str, str]) -> None:
        """Store the paths of this host's programs from the testbed file."""
        os.environ.update(variables)

    def do_availability(
        self, environment: str, switch: str, mode: str, program: str, cable: str
    ) -> dict[str, Availability]:
        """Return whether this host can run the environment, and the switch with this end of a
        cable."""
        candidate = configured(make_switch(switch), "", program)
        plug_in(candidate, cable)
        return {
            f"environment {environment}": ENVIRONMENTS[environment]().availability(),
            f"switch {switch}": availability_for(candidate, ConnectMode(mode)),
        }

    def do_facing(self, device: str, mtu_bytes: int) -> None:
        """Raise if the device cannot be lent to a switch."""
        check_facing(self._session.host, device, mtu_bytes)

    def do_create(self, environment: str, spec: dict[str, Any]) -> NodeMade:
        """Make a node."""
        node = ENVIRONMENTS[environment]().create(self._session, from_plain(NodeSpec, spec))
        self._next += 1
        self._nodes[self._next] = node
        return NodeMade(self._next, node.spec, node.netns, MachineMade.of(node))

    def do_spawn_engine(self, node: int, args: list[str]) -> dict[str, int]:
        """Start the engine in a node."""
        return self._keep(self._nodes[node].spawn_engine(args))

    def do_spawn_bridge(self, node: int) -> dict[str, int]:
        """Start a virtual machine whose kernel joins its ports."""
        machine = self._nodes[node]
        if not isinstance(machine, VirtualMachine):
            raise UsageError(f"{machine.spec.name}: is not a virtual machine")
        return self._keep(machine.spawn_bridge())

    def do_node(self, node: int, question: str) -> Any:
        """Call a method of a node."""
        return getattr(self._nodes[node], question)()

    def do_close_node(self, node: int) -> None:
        """End the processes in a node, and remove the node."""
        self._nodes[node].close()
        del self._nodes[node]

    def do_end(self, question: str, arguments: Sequence[Any]) -> Any:
        """Call a method of the end of a path in this host's network namespace."""
        return getattr(self._end, question)(*arguments)

    def do_begin_meter(self, cores: list[int]) -> CpuReading:
        """Read the CPU time of the switch and of all cores, and start the hardware counters; for
        an in-kernel switch they count on these cores."""
        pids = self._switch.process_ids() if self._switch else ()
        self._counters.close()
        self._counters = HardwareCounters.open_for(pids, cores)
        self._energy = EnergyReading.take()
        return CpuReading.take(pids, self._machines())

    def do_end_meter(self) -> MeterReading:
        """Read the CPU time and the counts since `do_begin_meter`."""
        pids = self._switch.process_ids() if self._switch else ()
        clocks = CpuReading.take(pids, self._machines())
        counts = self._counters.stop()
        return MeterReading(
            clocks, counts, self._counters.absent, self._energy, EnergyReading.take(),
            energy_absent(),
        )  # fmt: skip

    def do_make_ports(
        self, name: str, options: str, program: str, small_pages: bool, ports: list[Any]
    ) -> list[MadePort]:
        """Let this host's switch create its ports, before the nodes; it is started later."""
        switch = configured(make_switch(name), options, program, small_pages=small_pages)
        if not isinstance(switch, MakesPorts):
            raise UsageError(f"{name}: it makes no ports itself")
        self._switch = switch  # before it creates ports, so that `stop` removes them
        made_ports = switch.make_ports(
            self._session, [from_plain(SwitchPort, port) for port in ports]
        )
        self._made_ports = switch
        return made_ports

    def do_start_switch(
        self,
        name: str,
        options: str,
        program: str,
        small_pages: bool,
        ports: list[Any],
        mode: str,
        cores: list[int],
    ) -> None:
        """Start this host's switch: the switch that has created ports, or a new one."""
        prepared, self._made_ports = self._made_ports, None
        self._switch = prepared or configured(
            make_switch(name), options, program, small_pages=small_pages
        )
        switch_ports = [from_plain(SwitchPort, port) for port in ports]
        self._switch.start(self._session, switch_ports, ConnectMode(mode), cores)

    def do_switch(self, question: str, arguments: Sequence[Any] = ()) -> Any:
        """Call a method of the switch. Raises if it is not started, or has been stopped."""
        if self._switch is None:
            return "not started" if question == "alive" else None
        if question == "stop":
            self._made_ports = None
        answer = getattr(self._switch, question)(*arguments)
        if question == "details":
            return running_programs(self._switch.process_ids()) | answer
        return answer

    def _machines(self) -> list[int]:
        """The processes of this host's virtual machines."""
        machines = [node for node in self._nodes.values() if isinstance(node, VirtualMachine)]
        return [pid for machine in machines for pid in machine.process_ids()]

    def _keep(self, process: Spawned) -> dict[str, int]:
        if isinstance(process, GuestEngine):
            process = process.machine  # the bench compares the guest's clock with its own
        ended = [key for key, other in self._processes.items() if other.poll() is not None]
        for number in ended[:-MOST_ENDED]:
            self._cpu_s.pop(self._processes.pop(number).pid, None)
        self._cpu_s.pop(process.pid, None)  # an earlier process had this number
        self._next += 1
        number = self._next
        self._processes[number] = process
        threading.Thread(target=self._forward, args=(number, process), daemon=True).start()
        return {"process": number, "pid": process.pid}

    def _forward(self, number: int, process: Spawned) -> None:
        """Pass on the output of a process, and its exit code."""
        while True:
            try:
                line = process.read_line(60.0)
            except TimeoutError:
                continue
            if line is None:
                break
            self._channel.send({"process": number, "line": line})
        self._keep_cpu(process)
        while True:
            try:
                code = process.wait(60.0)
            except TimeoutError:
                continue
            except (SwitchmarkError, OSError, AssertionError):
                return  # the session is over
            self._channel.send({"process": number, "ended": code})
            return


def hello(session: Session) -> Hello:
    """The greeting: facts about this host."""
    return Hello(
        session=session.id,
        run_dir=session.run_dir,
        hostname=socket.gethostname(),
        boot_id=procfs.boot_id(),
        facts=gather(),
    )


def main() -> None:
    """Serve until the bench ends the connection or it breaks."""
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    capabilities.drop_unused()
    return_free_memory()
    channel = Channel()
    code = 0
    try:
        capabilities.make_ambient()
        with open_session(measuring=True, wait_s=LOCK_WAIT_S) as session:
            clean_stale()  # after the lock: an agent that held it may have left changes
            agent = HostAgent(session, channel)
            channel.send({"id": 0, "ok": to_plain(hello(session))})
            gc.freeze()  # the collector need not scan the loaded modules again
            while (request := channel.following()) is not None:
                agent.answer(request)
    except SwitchmarkError as error:
        channel.send({"id": 0, "error": str(error), "kind": type(error).__name__})
        code = error.exit_code
    except OSError as error:
        channel.send(
            {"id": 0, "error": f"the agent cannot start: {error}", "kind": "UnavailableError"}
        )
        code = UnavailableError.exit_code
    except SystemExit:
        pass  # the input ended, and everything is undone
    sys.stderr.flush()
    os._exit(code)  # does not join the threads that wait for input or for a process
