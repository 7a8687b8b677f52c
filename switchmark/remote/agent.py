"""The bench's agent on another host: it does there what the bench would do here.

It is sent over the connection and run from memory; it speaks JSON lines on its standard streams. It
opens a session of its own, so everything it makes is in a ledger on that host. When its input ends
or falls silent, whatever the reason, it undoes all of it and ends; after a `kill -9` the next agent
there does.
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
from switchmark.host.cores.cpu_time import CpuReading
from switchmark.host.facts import gather
from switchmark.host.host import Session, Spawned
from switchmark.host.interface_check import check_facing
from switchmark.host.kernel import capabilities, procfs
from switchmark.host.kernel.heap import return_free_memory
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

LOCK_WAIT_S = 30.0  # for an agent that is just undoing what it made
MOST_ENDED = 16  # processes that can still be asked for their last words when another one begins
ENGINE_PLACES = ("/var/tmp", "/dev/shm", "/tmp")  # where /run may not hold programs


class HostAgent:
    """The requests of the bench: each `do_` method answers one."""

    def __init__(self, session: Session, channel: Channel) -> None:
        self._session = session
        self._channel = channel
        self._processes: dict[int, Spawned] = {}
        self._nodes: dict[int, Node] = {}
        self._switch: Switch | None = None
        self._made_ports: Switch | None = None  # it has made ports, and is not started yet
        self._next = 0
        self._counters = HardwareCounters()
        self._energy = EnergyReading({}, {})

    def answer(self, request: dict[str, Any]) -> None:
        """Do what is asked, and answer with the result or the error."""
        number, what = request.pop("id"), request.pop("do")
        try:
            done = getattr(self, f"do_{what}")(**request)
            self._channel.send({"id": number, "ok": to_plain(done)})
        except (SwitchmarkError, OSError, TimeoutError, ValueError) as error:
            kind = type(error).__name__
            self._channel.send({"id": number, "error": str(error), "kind": kind})

    def do_engine(self, data: bytes) -> str:
        """Store the engine where programs may lie, under a name that nobody can foresee; returns
        the version that it prints."""
        problem = ""
        for folder in (self._session.run_dir, *map(Path, ENGINE_PLACES)):
            if not folder.is_dir():
                continue
            place = folder / f"switchmark-{self._session.id}-{secrets.token_hex(8)}"
            try:
                engine = self._write_engine(place, data)
                version = self._session.host.run([str(engine), "--version"]).stdout.splitlines()[0]
            except (OSError, SwitchmarkError) as error:  # mounted so that no program may run
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
        self, args: list[str], cores: list[int] | None, may: Any = None, **options: Any
    ) -> dict[str, int]:
        """Start a process of the host."""
        rights = None if may is None else from_plain(Rights, may)
        return self._keep(self._session.host.spawn(args, cores=cores, may=rights, **options))

    def do_process(self, process: int, act: str, arguments: Sequence[Any] = ()) -> Any:
        """Call a method of a process."""
        if process not in self._processes:
            raise SwitchmarkError(f"process {process}: has ended long ago, or never began")
        return getattr(self._processes[process], act)(*arguments)

    def do_settings(self, variables: dict[str, str]) -> None:
        """Store the paths of this host's programs, as the testbed file gives them."""
        os.environ.update(variables)

    def do_availability(
        self, environment: str, switch: str, mode: str, program: str, cable: str
    ) -> dict[str, Availability]:
        """Whether this host can run environment and switch, with this end of a cable."""
        asked = configured(make_switch(switch), "", program)
        plug_in(asked, cable)
        return {
            f"environment {environment}": ENVIRONMENTS[environment]().availability(),
            f"switch {switch}": availability_for(asked, ConnectMode(mode)),
        }

    def do_facing(self, device: str, mtu_bytes: int) -> None:
        """Whether the device can be lent to a switch."""
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
            raise UsageError(f"{machine.spec.name}: is no virtual machine")
        return self._keep(machine.spawn_bridge())

    def do_node(self, node: int, question: str) -> Any:
        """Ask a node one of its questions."""
        return getattr(self._nodes[node], question)()

    def do_close_node(self, node: int) -> None:
        """End what runs in a node, and remove it."""
        self._nodes[node].close()
        del self._nodes[node]

    def do_begin_meter(self, cores: list[int]) -> CpuReading:
        """Read the use of this host's cores, by the switch and in all, and start the counters;
        those of an in-kernel switch count on these cores."""
        pids = self._switch.process_ids() if self._switch else ()
        self._counters.close()
        self._counters = HardwareCounters.open_for(pids, cores)
        self._energy = EnergyReading.take()
        return CpuReading.take(pids, self._machines())

    def do_end_meter(self) -> MeterReading:
        """Read what has been used and counted since `do_begin_meter`."""
        pids = self._switch.process_ids() if self._switch else ()
        clocks = CpuReading.take(pids, self._machines())
        counted = self._counters.stop()
        return MeterReading(
            clocks, counted, self._counters.absent, self._energy, EnergyReading.take(),
            energy_absent(),
        )  # fmt: skip

    def do_make_ports(
        self, name: str, options: str, program: str, small_pages: bool, wanted: list[Any]
    ) -> list[MadePort]:
        """Have the switch of this host make its ports, before the nodes; it is started later."""
        switch = configured(make_switch(name), options, program, small_pages=small_pages)
        if not isinstance(switch, MakesPorts):
            raise UsageError(f"{name}: it makes no ports itself")
        self._switch = switch  # from now on there is something to stop
        made = switch.make_ports(self._session, [from_plain(SwitchPort, port) for port in wanted])
        self._made_ports = switch
        return made

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
        """Start the switch of this host, the one that has made its ports where one has."""
        made, self._made_ports = self._made_ports, None
        self._switch = made or configured(
            make_switch(name), options, program, small_pages=small_pages
        )
        own = [from_plain(SwitchPort, port) for port in ports]
        self._switch.start(self._session, own, ConnectMode(mode), cores)

    def do_switch(self, question: str, arguments: Sequence[Any] = ()) -> Any:
        """Ask the switch one of its questions. Raises where it is not started, or has been
        stopped."""
        if self._switch is None:
            return "not started" if question == "alive" else None
        if question == "stop":
            self._made_ports = None
        found = getattr(self._switch, question)(*arguments)
        if question == "details":
            return running_programs(self._switch.process_ids()) | found
        return found

    def _machines(self) -> list[int]:
        """The processes of this host's virtual machines."""
        machines = [one for one in self._nodes.values() if isinstance(one, VirtualMachine)]
        return [pid for machine in machines for pid in machine.process_ids()]

    def _keep(self, process: Spawned) -> dict[str, int]:
        if isinstance(process, GuestEngine):
            process = process.machine  # the bench compares the guest's clock with its own
        ended = [number for number, one in self._processes.items() if one.poll() is not None]
        for number in ended[:-MOST_ENDED]:
            del self._processes[number]
        self._next += 1
        number = self._next
        self._processes[number] = process
        threading.Thread(target=self._forward, args=(number, process), daemon=True).start()
        return {"process": number, "pid": process.pid}

    def _forward(self, number: int, process: Spawned) -> None:
        """Pass on the output of a process, and how it ended."""
        while True:
            try:
                line = process.read_line(60.0)
            except TimeoutError:
                continue
            if line is None:
                break
            self._channel.send({"process": number, "line": line})
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
    """The greeting: what this host is."""
    return Hello(
        session=session.id,
        run_dir=session.run_dir,
        hostname=socket.gethostname(),
        boot_id=procfs.boot_id(),
        facts=gather(),
    )


def main() -> None:
    """Serve until the bench is done, or gone."""
    os.environ["PATH"] = os.environ.get("PATH", "/usr/bin:/bin") + ":/usr/sbin:/sbin"
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    capabilities.drop_unused()
    return_free_memory()
    channel = Channel()
    code = 0
    try:
        capabilities.make_ambient()
        with open_session(measuring=True, wait_s=LOCK_WAIT_S) as session:
            clean_stale()  # now, after an agent that was waited for, too
            agent = HostAgent(session, channel)
            channel.send({"id": 0, "ok": to_plain(hello(session))})
            gc.freeze()  # what is loaded stays: the collector need not look through it again
            while (request := channel.following()) is not None:
                agent.answer(request)
    except SwitchmarkError as error:
        channel.send({"id": 0, "error": str(error), "kind": type(error).__name__})
        code = error.exit_code
    except OSError as error:
        channel.send({"id": 0, "error": f"cannot work there: {error}", "kind": "UnavailableError"})
        code = UnavailableError.exit_code
    except SystemExit:
        pass  # the input ended: all is undone
    sys.stderr.flush()
    os._exit(code)  # threads that wait for input or for a process are not waited for
