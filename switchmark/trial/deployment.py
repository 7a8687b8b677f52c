"""Everything of one trial that exists on the machine: nodes, switch, running applications.

The order of the start takes the least time. Nodes are first, because the switch needs their ports.
The applications follow, since they make the vhost-user sockets and start slowly. The switch is
last, and only then does the bench wait. The reverse order takes everything down, also after errors.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

from switchmark.engine.arguments import engine_args
from switchmark.engine.binary import find_engine
from switchmark.engine.process import EngineProcess, close_engines, counters_of
from switchmark.environment.support.base import Node, VirtualMachine, patience_with
from switchmark.environment.support.closing import close_nodes
from switchmark.errors import TrialFailed, UnavailableError
from switchmark.function.support.table import FunctionTable
from switchmark.host import hugepages
from switchmark.host.cores.machine_state import StateReader, cores_used
from switchmark.host.host import Session
from switchmark.model.topology import TopologyNode
from switchmark.model.workload import FRAMES
from switchmark.record import Placement
from switchmark.trial.cost import ApplicationCpu
from switchmark.trial.function_traffic import (
    engine_port,
    has_flow_table,
    load_tables,
    receiver_args,
    sender_args,
    tunnel_args,
)
from switchmark.trial.instrument_run import InstrumentRun
from switchmark.trial.memory_needs import lacking_for
from switchmark.trial.nodes import create_nodes, with_made
from switchmark.trial.reconcile import CounterReading, DeviceDrops
from switchmark.trial.recording import one_line
from switchmark.trial.running_switch import RunningSwitch
from switchmark.trial.verification import PairEnds
from switchmark.trial.vnf import Vnf, start_vnf
from switchmark.trial.workload_runs import WorkloadRuns

if TYPE_CHECKING:
    from switchmark.trial.plan import TrialPlan

READY_TIMEOUT_S = 20.0


class Deployment:
    """A context manager. Inside, every application is ready and every port is up."""

    state_reader: StateReader  # reads the state of the cores used

    def __init__(self, session: Session, plan: TrialPlan) -> None:
        self.session = session
        self.plan = plan
        self.switch = plan.switch
        self.nodes: dict[str, Node] = {}  # in the order of their ports
        self.ends: list[PairEnds] = []  # path by path
        self.monitor: EngineProcess | None = None  # at the monitor port of a mirror
        self.vnfs: list[Vnf] = []
        self.machine_details: dict[str, dict[str, str]] = {}  # by node, after the end
        self._spawned: list[EngineProcess] = []
        # A foreign program has the ports after the engines have left them.
        self.guest: InstrumentRun | WorkloadRuns | None = None
        self._undo = ExitStack()
        self.running_switch = RunningSwitch(session, plan, self.nodes, self._undo)
        self.far_placement: Placement | None = None  # on the cores of the remote host

    def __enter__(self) -> Deployment:
        try:
            self._deploy()
        except BaseException as error:  # a failure half-way undoes the first half
            self._take_down(error)
            raise
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._take_down(error)

    @property
    def engines(self) -> list[EngineProcess]:
        """The applications at all ends, pair by pair."""
        return [engine for pair in self.ends for engine in (pair.a, pair.b)]

    @property
    def machines(self) -> list[VirtualMachine]:
        """The nodes that are virtual machines."""
        return [node for node in self.nodes.values() if isinstance(node, VirtualMachine)]

    @property
    def streams(self) -> list[PairEnds]:
        """Sender and receiver of each stream. A pair has one stream, or one for each direction of
        bidirectional traffic."""
        forward = list(self.ends)
        if not self.plan.trial.bidirectional:
            return forward
        return [*forward, *(PairEnds(pair.b, pair.a, "reverse") for pair in forward)]

    @property
    def monitors(self) -> list[EngineProcess]:
        """The application at the monitor port of a mirror, if there is one."""
        return [] if self.monitor is None else [self.monitor]

    def faults(self) -> list[str]:
        """Return the faults of the applications that spoil their results, each once."""
        return list(dict.fromkeys(fault for engine in self.engines for fault in engine.faults))

    def contradictions(self) -> list[str]:
        """Return the contradictions between the applications' counters, each once."""
        return list(dict.fromkeys(one for engine in self.engines for one in engine.contradictions))

    def uncertain_losses(self) -> list[str]:
        """Return the losses of the applications that are known only between two bounds."""
        return list(
            dict.fromkeys(one for engine in self.engines for one in engine.uncertain_losses)
        )

    def forget_faults(self) -> None:
        """Begin new lists of faults and doubts, for the next measurement."""
        for engine in self.engines:
            engine.faults.clear()
            engine.contradictions.clear()
            engine.uncertain_losses.clear()

    def read(self) -> CounterReading:
        """Read all counters; the values are meaningful while no traffic runs."""
        if self.guest is not None:
            applications = self.guest.counters()
        else:
            named = (engine.node for engine in self.engines)
            applications = dict(zip(named, counters_of(self.engines), strict=True))
        return CounterReading(
            applications=applications,
            devices={
                name: DeviceDrops(*drops)
                for name, node in self.nodes.items()
                if (drops := node.device_drops()) is not None
            },
            switch=self.switch.counters(),
            vnfs={vnf.node: vnf.read() for vnf in self.vnfs},
            denied={engine.node: engine.denied_sent for engine in self.engines},
        )

    def hand_over(self) -> InstrumentRun | WorkloadRuns:
        """End the engines and give their ports to a foreign program, which counts frames from the
        return on. Raises `TrialFailed`."""
        close_engines(self._spawned)
        trial = self.plan.trial
        self.guest = (
            InstrumentRun(self.session, trial, self.ends[0], self.nodes, self._flow_table())
            if trial.workload == FRAMES
            else WorkloadRuns(self.session, trial, self.ends, self.nodes, self.switch)
        )
        self._undo.callback(self.guest.close)
        self.guest.wait_ready(READY_TIMEOUT_S)
        self.switch.wait_ports_up(READY_TIMEOUT_S)
        if isinstance(self.guest, WorkloadRuns):
            self.guest.prepare()  # a container takes time to start
        return self.guest

    def vnf_work(self, *, far: bool = False) -> list[ApplicationCpu]:
        """Return the CPU time of the VNFs of this host since the counters were read; `far`: of the
        remote host."""
        remote_names = self.plan.topology.far_names
        vnfs = [vnf for vnf in self.vnfs if (vnf.node in remote_names) == far]
        for vnf in vnfs:
            vnf.read()
        return [vnf.cpu for vnf in vnfs if vnf.cpu is not None]

    def cable(self) -> tuple[int, int] | None:
        """Return the numbers of the cable's two ends in the counters: local end, remote end."""
        if self.plan.far is None or not self.plan.far.site.testbed.cable.exists:
            return None
        count = self.plan.topology.port_count
        return count, count + 1

    def check_alive(self) -> None:
        """Raise `TrialFailed` when the switch has died, or a VNF."""
        if died := self.switch.alive():
            raise TrialFailed(f"{self.switch.name}: {died}")
        self.check_vnfs()

    def check_vnfs(self) -> None:
        """Raise `TrialFailed` when a VNF has died."""
        for vnf in self.vnfs:
            if died := vnf.died():
                raise TrialFailed(died)

    def _take_down(self, error: BaseException | None) -> None:
        """Undo everything. An error on the way does not hide an earlier error; entries that could
        not be undone stay in the ledger."""
        self._undo.callback(self._keep_last_output, error)  # before the programs are removed
        try:
            self._undo.close()
        except Exception as problem:
            if error is None:
                raise
            error.add_note(f"and taking it down failed: {one_line(problem)}")

    def _keep_last_output(self, error: BaseException | None) -> None:
        """Store the last output of machines, and of a switch that died, while they still exist."""
        if error is not None:
            self.running_switch.keep_last_output()
        self.machine_details = {
            name: node.details()
            for name, node in self.nodes.items()
            if isinstance(node, VirtualMachine)
        }

    def _deploy(self) -> None:
        plan = self.plan
        # The check comes before the applications, which take memory from the same pools.
        if (refusal := lacking_for(plan, hugepages.pools(), free=True)) is not None:
            raise UnavailableError(refusal)
        if plan.far is not None:
            self.far_placement = plan.far.begin()
        switch_made = self.running_switch.make_ports()
        specs = with_made(plan.specs(), switch_made)
        self._undo.callback(lambda: close_nodes(list(self.nodes.values())))
        create_nodes(self.session, plan, self.running_switch.prepare(specs), self.nodes)
        self._undo.callback(lambda: close_engines(self._spawned))
        self._undo.callback(self._close_vnfs)
        for path in plan.topology.paths:
            for name in path.via:
                self.vnfs.append(self._start_vnf(name, plan.topology.node(name).pair))
            # The receiver starts first: it must exist before the first frame.
            b = self._spawn(path.target, 1)
            a = self._spawn(path.source, 0)
            self.ends.append(PairEnds(a, b))
        if plan.topology.monitor is not None:
            self.monitor = self._spawn(plan.topology.monitor.name, 1)
        self.running_switch.end_with(switch_made)
        cores = cores_used(plan.placement)
        self.state_reader = StateReader(self.session.host, find_engine, cores)
        self._undo.callback(self.state_reader.close)
        self._undo.callback(self._request_exits)
        self.running_switch.start()
        boots = [machine.boot_timeout_s for machine in self.machines]
        timeout_s = max([READY_TIMEOUT_S, *boots])
        for engine in self._spawned:
            engine.wait_ready(timeout_s)
        for vnf in self.vnfs:
            vnf.wait_ready(timeout_s)
        if (table := self._flow_table()) is not None:
            load_tables(plan.trial, table, self.ends, self.monitors)
        self.switch.wait_ports_up(timeout_s)
        self.state_reader.wait_ready()
        self.running_switch.impose_limits()

    def _request_exits(self) -> None:
        """Request the exit of the applications, so that they end while the switch does."""
        for engine in self._spawned:
            engine.request_exit()
        for vnf in self.vnfs:
            vnf.request_exit()

    def _start_vnf(self, name: str, pair: int) -> Vnf:
        plan, node = self.plan, self.nodes[name]
        if not plan.topology.node(name).far or plan.far is None or self.far_placement is None:
            return start_vnf(self.session, plan.trial, node, pair, plan.placement.idle)
        session = plan.far.site.session(self.session)
        return start_vnf(session, plan.trial, node, pair, self.far_placement.idle)

    def _close_vnfs(self) -> None:
        for vnf in self.vnfs:
            vnf.request_exit()
        with ExitStack() as each:
            for vnf in self.vnfs:
                each.callback(vnf.close)

    def _flow_table(self) -> FunctionTable | None:
        """Return the neutral table if the flows of the load come from it."""
        return self.plan.function_table() if has_flow_table(self.plan.trial) else None

    def _function_args(self, place: TopologyNode) -> list[str]:
        """Return the options of an engine for the network functions of the trial."""
        table, port = self._flow_table(), place.ports[0].index
        if table is None:
            return []
        args = [] if place.role == "receiver" else sender_args(table)
        if place.role != "sender":
            args += receiver_args(table, port)
        return args + tunnel_args(table, port)

    def _spawn(self, name: str, end: int) -> EngineProcess:
        plan, node, place = self.plan, self.nodes[name], self.plan.topology.node(name)
        placement = (self.far_placement if place.far else None) or plan.placement
        in_guest = isinstance(node, VirtualMachine)
        args = engine_args(
            plan.trial,
            engine_port(self._flow_table(), place.ports[0].index, node.spec.port),
            place.role,
            place.pair,
            end,
            placement.idle,
            placement.catch_up_us,
        )
        args += self._function_args(place)
        engine = EngineProcess(
            spawned=node.spawn_engine(args),
            node=name,
            role=place.role,
            pair=place.pair,
            cores=tuple(node.spec.cores or ()),
            args=args,
            far=place.far,
            # The times of a guest are already converted to the local clock.
            ahead_ns=plan.far.ahead_ns if place.far and plan.far and not in_guest else 0,
            in_guest=in_guest,
            patience=patience_with(node),
        )
        self._spawned.append(engine)
        return engine
