"""The other host of a trial: its connection, engine, cores, clock and switch.

The first trial that needs a site opens it, and it stays open. If the connection is lost, the next
trial opens it again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeVar

from switchmark.engine.binary import find_engine
from switchmark.errors import UnavailableError
from switchmark.host.cores.counters import MeterReading
from switchmark.host.cores.cpu_time import CpuReading
from switchmark.host.cores.placement import Demand, place
from switchmark.host.facts import Facts
from switchmark.host.host import Session
from switchmark.host.interface_check import check_facing
from switchmark.host.kernel import procfs
from switchmark.host.local import LocalHost
from switchmark.model.capabilities import Availability
from switchmark.model.choices import WIRE
from switchmark.model.node import NodeSpec
from switchmark.model.ports import ConnectMode, MadePort, SwitchCounters, SwitchPort
from switchmark.model.topology import NodePlace
from switchmark.record import Placement
from switchmark.record.cost import CpuCost
from switchmark.record.runs import ClockOffset, FarHost
from switchmark.remote import bundle
from switchmark.remote.codec import to_plain
from switchmark.remote.contact import ClockReading, HostLost
from switchmark.remote.host import RemoteHost
from switchmark.remote.node import RemoteNode, create_node
from switchmark.testbed.testbed import Testbed

T = TypeVar("T")

KEPT_FACTS = (
    "kernel",
    "distribution",
    "architecture",
    "cpu_model",
    "governor",
    "turbo",
    "smt_active",
    "clock_source",
    "memory_total_mb",
    "load_average",
)


class Site:
    """The other host of a testbed. `close` undoes everything there; it can be opened again."""

    def __init__(self, testbed: Testbed) -> None:
        from switchmark.remote.connection import Connection  # the SSH library loads slowly

        self.testbed = testbed
        self.connection = Connection(testbed.far)
        self.engine_version = ""

    def open(self) -> None:
        """Connect, unless connected. Raises UnavailableError with the remedy."""
        if self.connection.lost is None:
            return
        engine = find_engine().read_bytes()
        self.connection.close()
        self.connection.open()
        self.connection.ask("settings", variables=dict(self.testbed.far.settings))
        self.engine_version = self.connection.ask_for(str, "engine", 10.0, data=engine)

    def close(self) -> str:
        """Undo everything there; return the end of the agent's standard error."""
        return self.connection.close()

    def begin_meter(self, cores: Sequence[int]) -> CpuReading:
        """Read the CPU time of that host's switch and of all its cores, and start its hardware
        counters: for the switch or, if it has no process, on these cores."""
        return self.connection.ask_for(CpuReading, "begin_meter", 5.0, cores=list(cores))

    def end_meter(self) -> MeterReading:
        """Read the CPU time and the counts since `begin_meter`."""
        return self.connection.ask_for(MeterReading, "end_meter", 5.0)

    @property
    def is_this_machine(self) -> bool:
        """Return True if that host runs on this host's kernel, as a container does. Each then
        counts the other's programs as foreign load."""
        hello = self.connection.hello
        return hello is not None and hello.boot_id == procfs.boot_id()

    def availability(
        self, environment: str, switch: str, mode: ConnectMode, program: str = ""
    ) -> dict[str, Availability]:
        """Return whether that host can run the environment and the switch, by their labels;
        `program` is the switch's."""
        return self.connection.ask_for(
            dict[str, Availability],
            "availability",
            30.0,
            environment=environment,
            switch=switch,
            mode=mode.value,
            program=program,
            cable=self.testbed.cable.far,
        )

    def place(self, demand: Demand) -> Placement:
        """Choose the trial's cores on that host."""
        return place(self.facts.cpus, frozenset(self.facts.usable_cpus), demand)

    @property
    def facts(self) -> Facts:
        """The facts of that host. The site must be open."""
        assert self.connection.hello is not None
        return self.connection.hello.facts

    def session(self, here: Session) -> Session:
        """Return the agent's session, for single commands on that host. Its ledger is on that host
        also; this host's ledger refuses entries with its names."""
        hello = self.connection.hello
        assert hello is not None, "the site is open"
        host = RemoteHost(self.connection)
        return replace(here, id=hello.session, host=host, run_dir=hello.run_dir)


class SiteSwitch:
    """The switch of that host, as `AcrossHosts` uses it."""

    def __init__(self, site: Site, name: str, options: str, program: str = "") -> None:
        self.name = name
        self._options = options
        self.cores: Sequence[int] = ()  # set before `start`
        self._connection = site.connection
        self.program = program  # the path on this host; empty: that host's default
        self.small_pages = False  # see `HasPages`

    @property
    def _configuration(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "options": self._options,
            "program": self.program,
            "small_pages": self.small_pages,
        }

    def check_facing(self, device: str, mtu_bytes: int) -> None:
        """Raise UnavailableError if the interface cannot be lent to the switch."""
        self._connection.ask("facing", 5.0, device=device, mtu_bytes=mtu_bytes)

    def make_ports(self, ports: Sequence[SwitchPort]) -> list[MadePort]:
        """See `FarSwitch`."""
        return self._connection.ask_for(
            list[MadePort],
            "make_ports",
            60.0,
            ports=to_plain(list(ports)),
            **self._configuration,
        )

    def start(self, ports: Sequence[SwitchPort], mode: ConnectMode) -> None:
        """See `FarSwitch`."""
        self._connection.ask(
            "start_switch",
            60.0,
            ports=to_plain(list(ports)),
            mode=mode.value,
            cores=list(self.cores),
            **self._configuration,
        )

    def wait_ports_up(self, timeout_s: float) -> None:
        """See `Switch`."""
        self._ask("wait_ports_up", timeout_s, [timeout_s])

    def wait_converged(self) -> None:
        """See `Switch`."""
        self._ask("wait_converged", 10.0)

    def counters(self) -> SwitchCounters:
        """See `Switch`."""
        return self._ask_for(SwitchCounters, "counters")

    def alive(self) -> str | None:
        """See `Switch`."""
        kind: Any = str | None
        died = self._ask_for(kind, "alive")
        return None if died is None else f"on {self._connection.target}: {died}"

    def details(self) -> dict[str, str]:
        """See `Switch`."""
        return self._ask_for(dict[str, str], "details")

    def stop(self) -> None:
        """See `Switch`; on a lost host the agent stops it."""
        with suppress(HostLost):
            self._ask("stop", 30.0)

    def _ask(self, question: str, takes_s: float, arguments: Sequence[Any] = ()) -> None:
        self._connection.ask("switch", takes_s, question=question, arguments=list(arguments))

    def _ask_for(self, kind: type[T], question: str) -> T:
        return self._connection.ask_for(kind, "switch", 10.0, question=question)


@dataclass
class FarSide:
    """One trial's part on the other host."""

    site: Site
    demand: Demand
    environment: str
    wires: str  # the environment of wire ends
    switch: SiteSwitch
    placement: Placement | None = None
    clock: ClockReading | None = None
    clock_after: ClockReading | None = None
    cpu: CpuCost | None = None  # over the measurement
    # The check of a network that the user has between the hosts; None: a cable joins them.
    check_network: Callable[[], list[str]] | None = None

    def begin(self) -> Placement:
        """Connect to the host, choose cores there, compare the clocks."""
        self.clock = self.clock_after = self.placement = self.cpu = None
        self.site.open()
        self.placement = self.place()
        self.switch.cores = self.placement.switch_cores
        self.clock = self.compare()
        return self.placement

    def place(self) -> Placement:
        """Choose the trial's cores on that host; a bare cable needs none for a switch."""
        placement = self.site.place(self.demand)
        is_bare = self.switch.name == WIRE
        return placement.model_copy(update={"switch_cores": []}) if is_bare else placement

    @property
    def lost(self) -> str:
        """The reason why the connection was lost during this trial; empty if it was not."""
        return (self.site.connection.lost or "") if self.placement is not None else ""

    def end(self) -> None:
        """Compare the clocks again, since they drift during a trial."""
        self.clock_after = self.compare()

    def compare(self) -> ClockReading:
        """Compare the two hosts' clocks now."""
        return self.site.connection.read_clock()

    @property
    def ahead_ns(self) -> int:
        """The lead of that host's clock over this host's, in ns."""
        return self.clock.ahead_ns if self.clock else 0

    def create(self, spec: NodeSpec, where: NodePlace) -> RemoteNode:
        """Create a node there, on its chosen cores."""
        assert self.placement is not None
        cores = tuple(self.placement.application_cores[spec.name])
        environment = self.wires if where is NodePlace.WIRE else self.environment
        return create_node(self.site.connection, environment, replace(spec, cores=cores))

    def check(self, mode: ConnectMode) -> list[str]:
        """Return one line for each environment and switch that the host cannot run. Raises
        UnavailableError if the host cannot be reached, or an end of the cable cannot be lent."""
        self.site.open()
        if self.check_network is not None:
            return self.check_network()
        self._check_cable()
        switch = self.switch.name, mode, self.switch.program
        availabilities = self.site.availability(self.environment, *switch)
        if self.wires != self.environment:
            availabilities |= self.site.availability(self.wires, *switch)
        return [
            f"{label} cannot run on {self.site.testbed.far}: {availability.refusal}"
            for label, availability in availabilities.items()
            if not availability.available
        ]

    def _check_cable(self) -> None:
        testbed, cable = self.site.testbed, self.site.testbed.cable
        try:
            check_facing(LocalHost(), cable.near, 0)
            self.switch.check_facing(cable.far, 0)
        except UnavailableError as error:
            raise UnavailableError(f"{testbed.path}: cables: {error}") from None

    def as_record(self) -> FarHost:
        """The other host's part of the record."""
        testbed, hello = self.site.testbed, self.site.connection.hello
        facts = to_plain(hello.facts) if hello else {}
        return FarHost(
            name=testbed.far.name,
            address=testbed.far.address,
            hostname=hello.hostname if hello else "",
            near_interface=testbed.cable.near,
            far_interface=testbed.cable.far,
            agent_version=bundle.version(),
            engine_version=self.site.engine_version,
            placement=self.placement,
            clock_before=_offset(self.clock),
            clock_after=_offset(self.clock_after),
            cpu=self.cpu,
            facts={name: facts[name] for name in KEPT_FACTS if name in facts},
            same_machine=self.site.is_this_machine,
        )


def _offset(reading: ClockReading | None) -> ClockOffset | None:
    return None if reading is None else ClockOffset(**asdict(reading))
