"""The switch of one trial, from its ports to its end: where it runs, its pins, its limit of CPU
time, a restart in mid-trial.

Nodes are made between the making of its namespace and its start, and applications end before it
does: so the deployment says when each step is due, and lends the stack that undoes it.
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
        self.last_words = ""  # how it died, when the trial failed
        self.last_output = ""  # the end of its output then, whole
        self._session = session
        self._plan = plan
        self._nodes = nodes  # in the order of their ports, as soon as they are made
        self._undo = undo
        # What it is started with: it may put its programs into containers.
        self._inside = contained.contained(session, plan.trial.switch_environment)
        self._runs = False
        self._moves_before: int | None = None  # of one that is not pinned

    def make_ports(self) -> list[MadePort]:
        """Make the ports that exist only as part of the switch, in the order in which it numbers
        them."""
        plan, specs = self._plan, self._plan.specs()
        if not isinstance(self.switch, MakesPorts) or specs[0].port.kind not in MADE_BY_SWITCH:
            return []
        self._undo.callback(self.switch.stop)
        ports = [
            (port, plan.environment_of(node.place).traits.guests)
            for node, spec in zip(plan.topology.nodes, specs, strict=True)
            for port in spec.ports
        ]
        wanted = [
            SwitchPort(index, port.kind, port.mac, mtu_bytes=port.mtu_bytes, to_guest=guest)
            for index, (port, guest) in enumerate(ports)
        ]
        return self.switch.make_ports(self._session, wanted)

    def prepare(self, specs: Sequence[NodeSpec]) -> list[NodeSpec]:
        """Have the ends of our veth pairs made in the switch's namespace."""
        far = self._plan.topology.far_names
        here = [spec for spec in specs if spec.name not in far]
        ours = [p for spec in here for p in spec.ports if not (p.nic or p.lent)]
        if not isinstance(self.switch, Discardable) or self._plan.topology.direct:
            return list(specs)
        if all(port.kind is not PortKind.VETH for port in ours):
            return list(specs)
        name, entry = prepare_namespace(self._session)
        self._undo.callback(self._session.ledger.undo, entry)
        return [with_switch_at(name, spec) if spec in here else spec for spec in specs]

    def end_with(self, made: Sequence[MadePort]) -> None:
        """Put on the stack what ends the switch, and what has to be done after that."""
        self._undo.callback(self._remove_limit)
        self._undo.callback(contained.close, self._inside)
        # A function that an application drives itself goes after the application: the kernel would
        # not take it away before. (It is stopped all the same, when the nodes are closed.)
        if not any(port.pci for port in made):
            self._undo.callback(self._end)

    def start(self) -> None:
        """Start it with the ports of the nodes."""
        self._start()
        self._runs = True

    def impose_limits(self) -> None:
        """Impose the limit of CPU time and check the pins, once the ports are up: starting costs
        far more than forwarding, and a switch pins its threads while it starts."""
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
        """Kill the switch as a crash would, and start it anew with the same ports; state in the
        kernel is taken down and set up again. Its counters begin at 0 once more; the limit of its
        CPU time is imposed again once its ports are up."""
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
        """Where the threads of a switch ran that was not to be pinned; None for one that is. Raises
        `TrialFailed` when it has pinned itself meanwhile."""
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
        """How the switch died, and its output below, whole: traces that a line leaves out, too."""
        whole = self.last_output if self.last_output not in self.last_words else ""
        return "\n".join(filter(None, [self.last_words, whole]))

    def keep_last_words(self) -> None:
        """Keep how the switch died, if it has, for the record of a trial that failed."""
        if self._runs:
            with suppress(SwitchmarkError, OSError):
                self.last_words = self.switch.alive() or ""
                if self.last_words and isinstance(self.switch, Logging):
                    self.last_output = self.switch.output().strip()

    def _start(self) -> None:
        """Start it on the host or in a container, as the trial says, with its functions."""
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
