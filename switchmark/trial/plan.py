"""The plan of a trial: port kind, connect mode, cores, nodes. Planning changes nothing."""

from __future__ import annotations

import math
import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from switchmark.campaign.installed import Installed
from switchmark.campaign.port_kinds import usable_ports, why_not
from switchmark.campaign.rules.between import ports_between
from switchmark.campaign.rules.layout import cable_problem, nodes_have_devices
from switchmark.engine.arguments import UNFORCED, io_of, needed_capabilities, vnf_capabilities
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.environment.support.base import Environment
from switchmark.errors import UsageError
from switchmark.function.registry import table_of
from switchmark.function.support.table import FunctionTable
from switchmark.host import place, tuning
from switchmark.host.cores.placement import Demand, first_threads, place_within
from switchmark.host.facts import Cpu
from switchmark.host.network.cri import split_name
from switchmark.host.network.guard_rails import PacketLoad
from switchmark.instrument.registry import abilities_for
from switchmark.instrument.support.udp import frame_bytes
from switchmark.model.campaign import CampaignDefinition, TrimPolicy, VerifyPolicy
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import OWN_ENGINE, WIRE
from switchmark.model.functions import ROUTE
from switchmark.model.io import Io, sends_datagrams
from switchmark.model.node import NodeSpec
from switchmark.model.page_size import PageSize
from switchmark.model.ports import SOCKET_KINDS, ConnectMode, PortKind
from switchmark.model.topology import NodePlace, Topology, wire_kind
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES
from switchmark.record import Placement
from switchmark.remote.pod_end import PodEnd
from switchmark.remote.site import FarSide, Site, SiteSwitch
from switchmark.scenario.registry import expand as expand_scenario
from switchmark.scenario.support.draw import Labels
from switchmark.scenario.support.split import split_of
from switchmark.switch.direct import Direct
from switchmark.switch.existing import FRAME_KEY, Existing
from switchmark.switch.existing import Request as NetworkRequest
from switchmark.switch.registry import SWITCHES
from switchmark.switch.support.across import AcrossHosts, CableEnds
from switchmark.switch.support.base import (
    HasPages,
    HasSocketBuffers,
    Switch,
    has_main_thread,
    plug_in,
    splits,
)
from switchmark.switch.support.contained import HOST
from switchmark.switch.support.options import configured
from switchmark.testbed.testbed import PodTarget
from switchmark.trial.engine_datagrams import datagram_bytes
from switchmark.trial.engine_workload import write_bytes
from switchmark.trial.neighbour import cores_of
from switchmark.workload.registry import WORKLOADS, protocol_of

SEGMENT_BYTES = 1448  # payload of a full TCP segment
SEGMENT_HEADERS_BYTES = 14 + 20 + 32 + 4  # Ethernet, IPv4, TCP with timestamps, FCS
CONNECTION_PACKETS = 4  # each way, to open and to close a connection
NEW_CONNECTIONS = "tcp-crr"  # the workload with a connection for each request
BARE = "bare"
WIRE_ENVIRONMENT = "netns"  # environment of the testers, separate from host and containers


class Cores:
    """The machine's cores. A campaign has many trials and few different demands, so each demand is
    placed once."""

    def __init__(
        self,
        cpus: Sequence[Cpu],
        usable: Collection[int] | None = None,
        tuned: str = tuning.AS_IS,
    ) -> None:
        """`usable`: the CPUs of another machine that a bench there may use; `tuned`: the profile by
        which the machine is set before the first trial. On this machine a CPU quota also counts."""
        without_smt = tuning.parse(tuned).get("smt") == "off"
        self._cpus = tuple(first_threads(cpus) if without_smt else cpus)
        self._usable = frozenset(os.sched_getaffinity(0) if usable is None else usable)
        self._quota = place.limits().cpu_quota if usable is None else None
        self._placed: dict[Demand, Placement] = {}

    def place(self, demand: Demand) -> Placement:
        """Return the placement for this demand; see `placement.place_within`. Raises UsageError."""
        if demand not in self._placed:
            self._placed[demand] = place_within(self._cpus, self._usable, demand, self._quota)
        return self._placed[demand]


def plan_trial(
    campaign: CampaignDefinition,
    trial: Trial,
    installed: Installed,
    cores: Cores,
    site: Site | None = None,
) -> TrialPlan:
    """Make every choice that a trial leaves open: port kind, connect mode, cores."""
    capabilities = installed.switches[trial.switch]
    remote = trial.location == "remote"
    environment_ports = installed.environments[trial.environment]
    # A device of the host replaces the port, so the port must also be a device.
    as_device = nodes_have_devices(trial.nics, capabilities) and PortKind.VETH in environment_ports
    port_kind = PortKind.VETH if as_device else trial.port_kind
    kinds = usable_ports(
        capabilities, environment_ports, trial.io, port_kind, trial.generator, trial.workload
    )
    if remote:
        kinds = ports_between(trial.switch, kinds)
    topology = expand_scenario(trial)
    placement = _place(trial, capabilities, topology, cores)
    switch = configured(SWITCHES[trial.switch](), trial.switch_options, trial.program)
    if splits(switch):
        switch.split = split_of(trial, trial.scenario.chain)
    if has_main_thread(switch):
        switch.main_core = placement.switch_main_core
    if isinstance(switch, HasSocketBuffers):
        switch.unforced_buffers = trial.socket_buffers == UNFORCED
    if isinstance(switch, Existing):
        switch.request = NetworkRequest(
            endpoints=trial.endpoints,
            addresses=trial.addresses,
            rate_pps=trial.rate_pps,
            packets=packets_of(trial),
            max_rate_pps=trial.max_rate_pps,
            abort_if=trial.abort_if,
            frame_bytes=_largest_frame(trial),
            size_key=_size_key(trial),
            duration_s=trial.duration_s,
            new_connections=trial.workload == NEW_CONNECTIONS,
            is_remote=remote,
            servers=_servers_of(trial),
            is_tcp=protocol_of(trial.workload) == "tcp",
        )
    far = _far_side(trial, capabilities, topology, site) if remote and site is not None else None
    environment = ENVIRONMENTS[trial.environment]()
    plan = TrialPlan(
        trial=trial,
        topology=topology,
        environment=environment,
        switch=switch if far is None else _across(switch, far, topology),
        far=far,
        mode=_mode(trial, capabilities),
        port_kind=kinds[0],
        io=io_of(trial, kinds[0]),
        placement=placement,
        policy=campaign.trim.over(trial.duration_s),
        verify=campaign.verify,
        mixed_connect_modes=campaign.mixed_connect_modes,
        wires=_wire_environment(environment, wire_kind(kinds[0])),
    )
    return with_pages(plan, trial.page_size == PageSize.SMALL.value)


def _size_key(trial: Trial) -> str:
    """Return the key that sets the size of packets that the engine sends unfragmented."""
    if trial.workload == FRAMES or trial.generator != OWN_ENGINE:
        return FRAME_KEY
    if protocol_of(trial.workload) != "udp":
        return FRAME_KEY
    return "datagram_size" if WORKLOADS[trial.workload].is_stream else "request_size"


def _largest_frame(trial: Trial) -> int:
    if _size_key(trial) == FRAME_KEY:
        return trial.frame_sizes.largest
    return frame_bytes(datagram_bytes(trial))


def _servers_of(trial: Trial) -> tuple[str, ...]:
    abilities = abilities_for(trial.generator, trial.workload)
    return () if abilities is None else abilities.servers


def _mode(trial: Trial, capabilities: Capabilities) -> ConnectMode:
    """Return the connect mode: that of the trial, or the switch's natural one."""
    if trial.function.base == ROUTE and trial.switch != WIRE:
        return ConnectMode.ROUTE
    return trial.connect_mode or capabilities.connect_modes[0]


def packets_of(trial: Trial) -> PacketLoad | None:
    """Return the packets of the load in its busier direction; None for the highest rate. The rate
    of a stream is in bits/s, that of other applications in requests/s."""
    rate = trial.rate_pps
    if rate is None:
        return None
    if trial.workload == FRAMES:
        return PacketLoad(rate, trial.frame_sizes.largest)
    workload = WORKLOADS[trial.workload]
    if workload.protocol == "udp":
        size = datagram_bytes(trial)
        each_s = rate / (8 * size) if workload.is_stream else rate
        return PacketLoad(math.ceil(each_s), frame_bytes(size))
    if workload.is_stream:
        size = write_bytes(trial)
        each_s = rate / (8 * size)
    else:
        size, each_s = max(trial.request_bytes, trial.response_bytes, 1), float(rate)
    segments = math.ceil(size / SEGMENT_BYTES)
    opening = CONNECTION_PACKETS if trial.workload == NEW_CONNECTIONS else 0
    packets = segments + opening
    return PacketLoad(math.ceil(each_s * packets), size / packets + SEGMENT_HEADERS_BYTES)


def with_pages(plan: TrialPlan, small: bool) -> TrialPlan:
    """Return the plan with the memory of its DPDK programs on small pages, or in hugepages. A
    generator that supports only one kind determines the kind."""
    if (page_sizes := instrument_pages(plan.trial)) is not None and len(page_sizes) == 1:
        small = page_sizes == (PageSize.SMALL,)
    if isinstance(plan.switch, HasPages):
        plan.switch.small_pages = small
    return replace(plan, small_pages=small)


def instrument_pages(trial: Trial) -> tuple[PageSize, ...] | None:
    """Return the kinds of pages that a foreign generator supports; None for the engine."""
    if trial.generator == OWN_ENGINE:
        return None
    abilities = abilities_for(trial.generator, trial.workload)
    return abilities.page_sizes if abilities is not None else ()


def _wire_environment(environment: Environment, kind: PortKind) -> Environment:
    """Return the environment of the testers. Testers with sockets need no network namespace if the
    applications are processes on the host; an ordinary container could not make one."""
    if kind in SOCKET_KINDS and not environment.traits.own_network:
        return environment
    return ENVIRONMENTS[WIRE_ENVIRONMENT]()


def _far_side(trial: Trial, capabilities: Capabilities, topology: Topology, site: Site) -> FarSide:
    # An application in a pod is a process in the pod's network namespace.
    is_pod = isinstance(site.testbed.far, PodTarget)
    return FarSide(
        site,
        _demand(trial, capabilities, topology.pairs(far=True)),
        BARE if is_pod else trial.environment,
        BARE if is_pod else WIRE_ENVIRONMENT,
        SiteSwitch(site, trial.switch, trial.switch_options, trial.program),
    )


def _across(switch: Switch, far: FarSide, topology: Topology) -> Switch:
    """Return the switch of a trial between two hosts: one switch on each host or, without a switch,
    the cable."""
    testbed = far.site.testbed
    cable = testbed.cable
    if isinstance(switch, Existing):
        return _to_pod(switch, far)
    if not cable.exists:
        raise UsageError(
            f"{testbed.path}: its other host is a pod, and {switch.name} needs a cable between the "
            "hosts",
            remedy="use switch: existing, or a host with an address and a cable",
        )
    if isinstance(switch, Direct):
        switch.cable = f"{cable.near} to {cable.far}"
        return switch
    for end in (cable.near, cable.far):
        if (refused := cable_problem(switch.name, switch.capabilities, end)) is not None:
            raise UsageError(refused.about(f"{far.site.testbed.path}: cables: {end}: "))
    plug_in(switch, cable.near)
    return AcrossHosts(switch, far.switch, CableEnds(cable.near, cable.far, topology.far_ports))


def _to_pod(switch: Existing, far: FarSide) -> Switch:
    """Return the network for a path to a pod on another node."""
    testbed = far.site.testbed
    if not isinstance(testbed.far, PodTarget):
        raise UsageError(
            f"{testbed.path}: {switch.name} between two hosts needs a pod as the other host",
            remedy="write e.g. hosts: {db: {pod: shop/db-0}} without cables",
        )
    second = switch.request.endpoints.ends[1].name
    if split_name(second)[:2] != (testbed.far.namespace, testbed.far.pod):
        raise UsageError(
            f"endpoints: the second one is pod:{second}, and the other host in {testbed.path} is "
            f"pod:{testbed.far.namespace}/{testbed.far.pod}",
            remedy="name the same pod in both",
        )
    switch.far_end = PodEnd(far.site)
    far.check_network = switch.far_problems
    return switch


def _place(trial: Trial, capabilities: Capabilities, topology: Topology, cores: Cores) -> Placement:
    demand = _demand(trial, capabilities, topology.pairs())
    if trial.numa == "generator-apart":
        demand = replace(demand, outside=_generator(topology))
    placement = cores.place(demand)
    if trial.neighbour != "none":
        beside = cores_of(trial, placement)
        placement = placement.model_copy(update={"neighbour_cores": beside})
    if trial.switch == WIRE:
        return placement.model_copy(update={"switch_cores": []})
    return placement


def _generator(topology: Topology) -> tuple[str, ...]:
    """Return the nodes of the generator, which are the testers. A baseline may have no tester,
    because it replaces a path from a tester to an application; then its sources count."""
    wires = tuple(node.name for node in topology.nodes if node.place is NodePlace.WIRE)
    return wires or tuple(path.source for path in topology.paths)


def _demand(trial: Trial, capabilities: Capabilities, pairs: tuple[tuple[str, ...], ...]) -> Demand:
    spare = trial.spare_cores
    return Demand(
        pairs=pairs,
        polling_switch=capabilities.polling or spare > 0,
        in_kernel_switch=capabilities.in_kernel and spare == 0,
        switch_cores=spare or trial.switch_cores,
        idle=trial.idle,
        switch_cpus=trial.switch_cpus.cores,
        unpinned_switch=trial.switch_cpus == "any" and trial.switch != WIRE,
        application_cpus=trial.application_cpus.cores,
        neighbour_cpus=trial.neighbour_cpus.cores,
        main_cpu=next(iter(trial.main_cpu.cores), None),
        smt=trial.smt,
        numa=trial.numa,
        is_baseline=trial.switch == WIRE,
    )


@dataclass(frozen=True, slots=True)
class TrialPlan:
    """A trial with every choice made, as a deployment needs it."""

    trial: Trial
    topology: Topology
    environment: Environment
    switch: Switch
    mode: ConnectMode
    port_kind: PortKind
    io: Io  # I/O of applications on ports of this kind, `auto` resolved
    placement: Placement
    policy: TrimPolicy
    verify: VerifyPolicy
    mixed_connect_modes: bool = False
    far: FarSide | None = None  # its part on the remote host
    wires: Environment | None = None  # environment of the testers; None: that of all nodes
    small_pages: bool = False  # DPDK's memory lies on the kernel's ordinary pages

    def function_table(self) -> FunctionTable | None:
        """Return the neutral table of the trial's functions; None if the switch only forwards. A
        large table takes seconds, so it is created on demand."""
        return None if self.topology.direct else table_of(self.trial, self.topology)

    def labels(self) -> Labels:
        """Return the labels of a drawing of the plan."""
        trial = self.trial
        vnf = trial.vnf.rpartition("/")[2]
        split = "" if trial.split == "none" else f", split by {trial.split}"
        where = "" if trial.switch_environment == HOST else f", in {trial.switch_environment}"
        return Labels(
            f"{trial.switch}, {self.mode}{split}{where}",
            trial.environment,
            self.port_kind.value,
            vnf,
        )

    def stand_in(self) -> str | None:
        """Return the reason for a fallback port kind; None if the ports are the switch's own."""
        capabilities = self.switch.capabilities
        if (text := capabilities.stand_ins.get(self.port_kind)) is None:
            return None
        place = self.environment
        reason = why_not(capabilities.port_kinds[0], place.name, place.port_kinds(), self.trial)
        return f"{text}; so because {reason}"

    def environment_of(self, place: NodePlace) -> Environment:
        """Return the environment of a node of the topology."""
        return self.wires if self.wires and place is NodePlace.WIRE else self.environment

    def environments(self) -> list[Environment]:
        """Return the environments in which nodes on this host are made."""
        places = (node.place for node in self.topology.nodes if not node.far)
        return list({id(one): one for one in map(self.environment_of, places)}.values())

    def specs(self) -> list[NodeSpec]:
        """Return the nodes that environments have to make. There are many plans and one trial at a
        time, so the nodes are computed on demand."""
        specs = self.topology.specs(
            self.port_kind,
            self.placement.application_cores,
            past_ip_stack=not sends_datagrams(self.io),
            linux_capabilities=needed_capabilities(self.io, self.port_kind),
            vnf_capabilities=vnf_capabilities(self.trial.vnf, self.port_kind),
        )
        # A guest has its own hugepages.
        small = self.small_pages and self.io is Io.DPDK and not self.environment.traits.guests
        return [
            replace(
                spec,
                vcpus=self.trial.vcpus,
                ports=tuple(replace(port, small_pages=small) for port in spec.ports),
            )
            for spec in specs
        ]
