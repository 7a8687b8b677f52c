"""The switch of one trial from its ports to its end: its place, its cores, its limit of CPU time,
a restart in mid-trial.

The nodes are created between its namespace and its start, and the applications end before it. The
deployment therefore calls each step, and provides the stack that undoes the steps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from switchmark.environment.support.base import Node
from switchmark.errors import SwitchmarkError
from switchmark.host.cores.affinity import check_unpinned, count_migrations, unpin
from switchmark.host.cores.cpu_limit import CpuLimit
from switchmark.host.host import Session
from switchmark.host.kernel.procfs import threads_of
from switchmark.model.node import NodeSpec
from switchmark.model.ports import MADE_BY_SWITCH, MadePort, PortKind, SwitchPort
from switchmark.switch.support import contained
from switchmark.switch.support.base import Discardable, Logging, MakesPorts, PerformsFunctions
from switchmark.switch.support.private import prepare_namespace
from switchmark.trial.nodes import switch_ports, with_switch_at

if TYPE_CHECKING:
    from switchmark.trial.plan import TrialPlan

PORTS_UP_TIMEOUT_S = 20.0


class RunningSwitch:
    """The steps in the life of a deployment's switch."""

    def __init__(
        self, session: Session, plan: TrialPlan, nodes: Mapping[str, Node], undo: ExitStack
    ) -> None:
        self.switch = plan.switch
        self.limit: CpuLimit | None = None
        self.restarted = False  # on purpose, in mid-trial
        self.death = ""  # how the switch died, if it did and the trial failed
        self.last_output = ""  # the end of its output then
        self._session = session
        self._plan = plan
        self._nodes = nodes  # in the order of their ports, as soon as they exist
        self._undo = undo
        # The session of the switch may put its programs into containers.
        self._inside = contained.contained(session, plan.trial.switch_environment)
        self._runs = False
        self._moves_before: int | None = None  # migrations of a switch that is not pinned

    def make_ports(self) -> list[MadePort]:
        """Make the ports that exist only as part of the switch, in the order of its port
        numbers."""
        plan, specs = self._plan, self._plan.specs()
        if not isinstance(self.switch, MakesPorts) or specs[0].port.kind not in MADE_BY_SWITCH:
            return []
        self._undo.callback(self.switch.stop)
        ports = [
            (port, plan.environment_of(node.place).traits.guests)
            for node, spec in zip(plan.topology.nodes, specs, strict=True)
            for port in spec.ports
        ]
        requested = [
            SwitchPort(index, port.kind, port.mac, mtu_bytes=port.mtu_bytes, to_guest=guest)
            for index, (port, guest) in enumerate(ports)
        ]
        return self.switch.make_ports(self._session, requested)

    def prepare(self, specs: Sequence[NodeSpec]) -> list[NodeSpec]:
        """Prepare the switch's namespace, and return the nodes with the switch's ends of their veth
        pairs in it."""
        far = self._plan.topology.far_names
        local = [spec for spec in specs if spec.name not in far]
        new_ports = [p for spec in local for p in spec.ports if not (p.nic or p.lent)]
        if not isinstance(self.switch, Discardable) or self._plan.topology.direct:
            return list(specs)
        if all(port.kind is not PortKind.VETH for port in new_ports):
            return list(specs)
        name, entry = prepare_namespace(self._session)
        self._undo.callback(self._session.ledger.undo, entry)
        return [with_switch_at(name, spec) if spec in local else spec for spec in specs]

    def end_with(self, made_ports: Sequence[MadePort]) -> None:
        """Put the end of the switch on the stack, and the steps that follow it."""
        self._undo.callback(self._remove_limit)
        self._undo.callback(contained.close, self._inside)
        # The kernel cannot remove a PCI function before the application that drives it has ended.
        # The switch is then stopped when the nodes are closed.
        if not any(port.pci for port in made_ports):
            self._undo.callback(self._end)

    def start(self) -> None:
        """Start the switch with the ports of the nodes."""
        self._start()
        self._runs = True

    def impose_limits(self) -> None:
        """Impose the limit of CPU time and remove the pins, after the ports are up. A start needs
        more CPU time than forwarding, and a switch pins its threads while it starts."""
        self._unpin()
        plan = self._plan
        if plan.trial.cpu_limit is not None:
            cores = plan.trial.cpu_limit * max(1, len(plan.placement.switch_cores))
            own_group = not contained.has_own_cgroup(plan.trial.switch_environment)
            self.limit = CpuLimit.impose(
                self._session, self.switch.process_ids(), cores, own_group=own_group
            )
            self._undo.callback(self.limit.lift)

    def restart(self) -> None:
        """Kill the switch like a crash, and start it again with the same ports. State in the kernel
        is removed and set up again, and the counters begin at 0. The limit of CPU time is imposed
        again when the ports are up."""
        if self.limit is not None:
            self.limit.about_to_restart()
        pids = [str(pid) for pid in self.switch.process_ids()]
        if pids:
            self._session.host.run(["kill", "-KILL", *pids], check=False)
        self.switch.stop()
        self.restarted = True
        self._start()
        if self.limit is not None or self._plan.placement.switch_free_cores:
            self.switch.wait_ports_up(PORTS_UP_TIMEOUT_S)
        self._unpin()
        if self.limit is not None:
            self.limit.impose_again(self.switch.process_ids())

    def unpinned(self) -> dict[str, str]:
        """Return where the threads of a switch ran that must not be pinned; empty for a pinned
        switch. Raises `TrialFailed` if the switch has pinned itself meanwhile."""
        cores, pids = self._plan.placement.switch_free_cores, self.switch.process_ids()
        if not cores:
            return {}
        check_unpinned(pids, cores)
        where = f"none: {len(threads_of(pids))} threads on any of {','.join(map(str, cores))}"
        moves = count_migrations(pids)
        if moves is None or self._moves_before is None:
            return {"pinning": where}
        return {"pinning": f"{where}, moved {moves - self._moves_before} times"}

    @property
    def log(self) -> str:
        """The reason of the switch's death, and below it the complete output with all traces."""
        output = self.last_output if self.last_output not in self.death else ""
        return "\n".join(filter(None, [self.death, output]))

    def keep_last_output(self) -> None:
        """Store how the switch died, if it has, for the record of a trial that failed."""
        if self._runs:
            with suppress(SwitchmarkError, OSError):
                self.death = self.switch.alive() or ""
                if self.death and isinstance(self.switch, Logging):
                    self.last_output = self.switch.output().strip()

    def _start(self) -> None:
        """Start the switch with its functions, on the host or in a container."""
        if isinstance(self.switch, PerformsFunctions):
            self.switch.function_table = self._plan.function_table()
        self.switch.start(
            self._inside,
            switch_ports(self._nodes.values()),
            self._plan.mode,
            self._plan.placement.switch_cores,
        )

    def _end(self) -> None:
        """End the switch and its ports for good."""
        if isinstance(self.switch, Discardable):
            self.switch.discard()
        else:
            self.switch.stop()

    def _unpin(self) -> None:
        if cores := self._plan.placement.switch_free_cores:
            unpin(self.switch.process_ids(), cores)
            self._moves_before = count_migrations(self.switch.process_ids())

    def _remove_limit(self) -> None:
        if self.limit is not None:
            self.limit.remove()
