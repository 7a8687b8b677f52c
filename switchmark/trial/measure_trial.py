"""The measured part of a trial: verify, warm up, traffic between two readings, conclude."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import asdict
from typing import Any

from switchmark.engine.arguments import UDP_PORT_B
from switchmark.engine.loads import forwarded_pps
from switchmark.errors import TrialFailed
from switchmark.host.build_identity import running_programs
from switchmark.host.cores.affinity import restricted_to
from switchmark.host.cores.cpu_time import ThreadTimes
from switchmark.host.facts import is_emulated
from switchmark.host.kernel.procfs import hugepages_kib, resident_kib
from switchmark.instrument.support.udp import TCP_PORT, UDP_PORT
from switchmark.method.registry import METHODS
from switchmark.model.choices import OWN_ENGINE, PLAIN, Dimension
from switchmark.model.ports import SwitchCounters
from switchmark.model.workload import FRAMES
from switchmark.record import (
    Figures,
    FunctionNote,
    Neighbour,
    Placement,
    Reconciliation,
    Verification,
)
from switchmark.switch.support.base import (
    HasNetwork,
    PerformsFunctions,
    Splits,
    Switch,
    WatchesNetwork,
)
from switchmark.switch.support.tools import program_details
from switchmark.trial import foreign, latency, method_run, throughput, transfer
from switchmark.trial.connect_mode import wrong_mode
from switchmark.trial.cost import (
    ApplicationCpu,
    Meter,
    begin_remote_cost,
    hosts_used,
    quota_since,
    remote_cost,
    without_neighbour,
)
from switchmark.trial.crossing import CrossingWatch, payload_bytes
from switchmark.trial.deployment import Deployment
from switchmark.trial.evidence import Baseline, Evidence
from switchmark.trial.function_proof import prove
from switchmark.trial.function_traffic import copy_counts, function_counts
from switchmark.trial.granted import granted
from switchmark.trial.judge import verdict
from switchmark.trial.limit import limit
from switchmark.trial.neighbour import NoisyNeighbour
from switchmark.trial.plan import TrialPlan
from switchmark.trial.policing import measure_policing
from switchmark.trial.reconcile import CounterReading, reconcile
from switchmark.trial.recording import JudgedFacts, MeasuredFacts, Measurement, Stopwatch
from switchmark.trial.verification import PairEnds, verify, wait_reachable
from switchmark.trial.workload_runs import WorkloadRuns
from switchmark.workload.registry import protocol_of

COUNTERS_SETTLE_S = 0.5
_COUNTERS_POLL_S = 0.05
MOST_READ_TWICE = 20_000  # entries of a switch's tables


def measure_deployed(
    deployment: Deployment,
    plan: TrialPlan,
    baseline: Baseline,
    watch: Stopwatch,
    observe: Callable[[float | None], None],
) -> tuple[Figures, MeasuredFacts]:
    """Verify, run the traffic, read the counters and judge. Return the figures, and the other facts
    of the measurement."""
    switch, trial = plan.switch, plan.trial
    _wait_forwarding(deployment, plan)
    checked = _verified(deployment, plan)
    function = _proven(deployment, plan)
    pids = switch.process_ids()
    watch.lap("verify")

    def tick() -> None:
        _check(deployment, has_processes=bool(pids))
        observe(_live_pps(deployment.streams))

    _warm_up(deployment, plan, tick)
    deployment.forget_faults()  # faults of the warm-up do not concern the measurement
    crossing_watch = CrossingWatch.begin(switch, deployment.session.id)
    before = deployment.read()
    neighbour = NoisyNeighbour(deployment.session, trial, plan.placement)
    quota = deployment.running_switch.limit
    throttled_before = quota.read() if quota is not None else None
    remote_before = begin_remote_cost(plan.far) if plan.far else None
    state_before = deployment.state_reader.read()
    with Meter.begin(switch, plan.placement, _machine_pids(deployment)) as meter:
        threads, begun = ThreadTimes.of(pids), time.monotonic()
        measurement, noise = _run_beside(
            neighbour, lambda: _traffic(deployment, plan, baseline, tick)
        )
        measured_s = time.monotonic() - begun
        switch_s, switch_waited = _used_by_switch(threads, pids)
        here = [one for one in deployment.engines if one.has_result and not one.far]
        application_cpu = measurement.cpu or [ApplicationCpu.of(one) for one in here]
        shared, all_cpu = meter.quota(), [*application_cpu, *deployment.vnf_work()]
        used = without_neighbour(
            meter.end(all_cpu, measurement.passed_frames, baseline.ns_per_frame), noise
        )
    state_after = deployment.state_reader.read()
    if plan.far is not None and remote_before is not None:
        plan.far.cpu = remote_cost(deployment, plan.far, remote_before, measurement)
    limited = quota_since(throttled_before, trial, quota, used.switch_cores_used)
    watch.lap("measure")
    deployment.check_alive()
    pinning = deployment.running_switch.unpinned()
    if deployment.running_switch.restarted:
        before = deployment.read()  # the counters of the new process began at 0
    if plan.far is not None:
        plan.far.end()
    after, reconciled = _reconciled(deployment, before)
    function, violations = _with_counts(
        function, before, after, plan.switch, copy_counts(deployment.ends, deployment.monitors)
    )

    crossing = (
        crossing_watch.end(
            _payload(deployment, measurement),
            measurement.passed_frames / measured_s,
            _dialled(deployment),
        )
        if crossing_watch is not None
        else None
    )
    note = deployment.guest.note(before, after) if deployment.guest else None
    hosts = hosts_used(plan.far.as_record() if plan.far else None, used)
    evidence = Evidence(
        sender=measurement.source_counters,
        receiver=measurement.sink_counters,
        sent_frames=measurement.sent_frames,
        socket_drops=measurement.socket_drops,
        baseline=baseline,
        kept_samples=measurement.kept_samples,
        on_schedule=measurement.on_schedule,
        in_kernel=not pids,
        cpu_wait_share=max(one.run_delay_share or 0.0 for one in hosts),
        others_cores=max(one.taken_cores for one in hosts),
        switch_wait_share=switch_waited,
        sample_noise_pps=measurement.sample_noise_pps,
        two_bands=measurement.steady is not None and measurement.steady.two_bands is not None,
        witness_frames=_witness(after) - _witness(before),
        counters_agree=reconciled.agrees
        and (note is None or note.agrees)
        and (not isinstance(deployment.guest, WorkloadRuns) or deployment.guest.agrees),
        stretch=measurement.stretch,
        throttled=shared.throttled,
        limit_in_force=limited is None or limited.in_force,
        cable_lost=reconciled.cable_lost,
        faults=tuple(deployment.faults()),
        contradictions=tuple(deployment.contradictions()),
        uncertain_losses=tuple(deployment.uncertain_losses()),
        engines_are_fast=all(one.ready.build.fast for one in deployment.engines),
        emulated=is_emulated() or any(machine.emulated for machine in deployment.machines),
        function_violations=violations,
        clock_step_ns=max((one.ready.clock_step_ns for one in deployment.engines), default=0.0),
        counts_polls=deployment.guest is None,
        shared=crossing is not None and crossing.shared,
        network_changed=crossing is not None and crossing.changed,
    )
    bound = limit(trial, measurement.figures, evidence)
    judged = JudgedFacts(
        steady=measurement.steady,
        limit=bound,
        verdict=verdict(
            trial, bound, measurement.figures, evidence, _whole_placement(deployment), checked,
            mixed_connect_modes=plan.mixed_connect_modes,
        ),
        trim=measurement.trim,
        cpu=used,
    )  # fmt: skip
    return measurement.figures, MeasuredFacts(
        judged=judged,
        instrument=note,
        transport=deployment.guest.transport(switch_s)
        if isinstance(deployment.guest, WorkloadRuns)
        else None,
        state_before=state_before,
        state_after=state_after,
        cpu_quota=limited,
        group_quota=shared,
        neighbour=noise,
        granted=granted(trial, here, switch.process_ids()),
        verification=checked,
        function=function,
        lookups=meter.lookups,
        switch_details={
            **running_programs(switch.process_ids()), **switch.details(),
            **program_details(trial.program), **pinning,
            **({"stand_in": reason} if (reason := plan.stand_in()) else {}),
        },
        switch_counters_before=_plain(before.switch),
        switch_counters_after=_plain(after.switch),
        reconciliation=reconciled,
        crossing=crossing,
    )  # fmt: skip


def _used_by_switch(before: ThreadTimes, pids: Sequence[int]) -> tuple[float | None, float]:
    """Return the seconds that the processes of a switch have run since `before` (None: it has
    none), and the share of the time that they waited for a core."""
    after = ThreadTimes.of(pids)
    return before.ran_s(after) if pids else None, before.waiting_share(after)


def _check(deployment: Deployment, *, has_processes: bool) -> None:
    """Raise `TrialFailed` if the switch or a VNF has died, or the users' network has slowed
    down."""
    if has_processes:  # a query of a kernel switch starts a program, which would disturb the trial
        deployment.check_alive()
    else:
        deployment.check_vnfs()
    if isinstance(deployment.switch, WatchesNetwork):
        deployment.switch.check_watch()


def _payload(deployment: Deployment, measurement: Measurement) -> int:
    """Return the bytes of payload that the applications received, both ways."""
    guest = deployment.guest
    if isinstance(guest, WorkloadRuns) and guest.reading is not None:
        return (guest.reading.payload_forth or 0) + guest.reading.payload_back
    return payload_bytes(deployment.plan.trial, measurement.passed_frames)


def _dialled(deployment: Deployment) -> tuple[str, str]:
    """Return the address and port that the first end sends to, and those of the second end, which
    differ if the network translates addresses."""
    trial, pair = deployment.plan.trial, deployment.ends[0]
    near, far = (deployment.nodes[end.node].spec.port for end in (pair.a, pair.b))
    if protocol_of(trial.workload) == "tcp":
        usual, ports = TCP_PORT, (near.peer_tcp_port, far.tcp_port)
    else:
        usual = UDP_PORT_B if trial.generator == OWN_ENGINE else UDP_PORT
        ports = (near.peer_udp_port, far.udp_port)
    addresses = (ip.partition("/")[0] for ip in (near.peer_ip, far.ip))
    dialled, answering = (
        f"{address}:{port or usual}" for address, port in zip(addresses, ports, strict=True)
    )
    return dialled, answering


def _verified_by(switch: Switch) -> str:
    """Return the proof of a path that datagrams of the engine cannot take; empty for others."""
    return switch.network().verified_by if isinstance(switch, HasNetwork) else ""


def _wait_forwarding(deployment: Deployment, plan: TrialPlan) -> None:
    """Return when all applications reach each other and the switch has learnt their addresses."""
    if _verified_by(plan.switch):
        return
    try:
        wait_reachable(deployment.ends, plan.verify.timeout_s)
    except TrialFailed:
        deployment.check_alive()  # its error is clearer than a timeout
        raise
    plan.switch.wait_converged()


def _warm_up(deployment: Deployment, plan: TrialPlan, tick: Callable[[], None]) -> None:
    """Warm up before the traffic that counts. A foreign program replaces the engine and warms up
    itself."""
    if plan.trial.generator != OWN_ENGINE or plan.trial.workload != FRAMES:
        deployment.hand_over()
    elif plan.trial.dimension is Dimension.LATENCY:
        latency.warm_up(deployment.ends, plan.policy, tick)


def _verified(deployment: Deployment, plan: TrialPlan) -> Verification:
    """Check that frames reach their ports, and that the switch forwards by the connect mode."""

    if proof := _verified_by(plan.switch):
        return Verification(
            frames_sent=0, frames_arrived=0, strays=0, witness_frames=None, passed=True,
            message=proof,
        )  # fmt: skip

    def monitor_frames() -> int | None:
        return plan.switch.counters().witness_rx_frames

    checked = verify(deployment.ends, plan.verify, monitor_frames)
    # Broadcasts are not sent through VNFs, which may handle them in any way, nor into the users'
    # networks. Functions have their own proof, and a container network has no rule for broadcasts.
    chained = any(path.via for path in plan.topology.paths)
    capabilities = plan.switch.capabilities
    unchecked = capabilities.foreign or capabilities.is_network or not plan.trial.function.is_plain
    if not checked.passed or plan.topology.direct or chained or unchecked:
        return checked
    wrong = wrong_mode(deployment.ends, plan.mode, monitor_frames)
    if not wrong:
        return checked
    message = f"connect mode {plan.mode.value} was asked for, but {wrong}"
    return checked.model_copy(update={"wrong_mode": wrong, "passed": False, "message": message})


def _proven(deployment: Deployment, plan: TrialPlan) -> FunctionNote | None:
    """Prove the functions of the trial; None if the switch only forwards. Raises `TrialFailed`."""
    table = plan.function_table()
    if table is None:
        return None
    switch = plan.switch
    assert isinstance(switch, PerformsFunctions), "campaign/rules/functions.py refuses it"
    testers = {
        port.index: engine
        for engine in [*deployment.engines, *deployment.monitors]
        for port in plan.topology.node(engine.node).ports
    }
    note = prove(switch.name, table, testers, switch.function_entries)
    if plan.trial.dimension is Dimension.THROUGHPUT:
        policing = measure_policing(switch, table, deployment.streams, deployment.check_alive)
        note = note.model_copy(update={"policing": policing})
    pids = switch.process_ids()
    if not pids:
        return note
    sizes = {"memory_kib": resident_kib(pids), "hugepages_kib": hugepages_kib(pids)}
    return note.model_copy(update=sizes)


def _machine_pids(deployment: Deployment) -> list[int]:
    return [pid for machine in deployment.machines for pid in machine.process_ids()]


def _with_counts(
    note: FunctionNote | None,
    before: CounterReading,
    after: CounterReading,
    switch: Switch,
    copies: dict[str, int],
) -> tuple[FunctionNote | None, int]:
    """Return the note with the counts of the traffic, and the number of violations: wrong frames,
    and a difference in the tables of the switch. Reading back a large table takes seconds, and is
    left out."""
    if note is None:
        return None, 0
    assert isinstance(switch, PerformsFunctions)
    counts = function_counts(after).since(function_counts(before))
    is_small = note.entries <= MOST_READ_TWICE
    differs = is_small and switch.function_entries().disagreement is not None
    return note.model_copy(update=asdict(counts) | copies), counts.violations + differs


def _traffic(
    deployment: Deployment, plan: TrialPlan, baseline: Baseline, tick: Callable[[], None]
) -> Measurement:
    """Run the measured traffic, once or in the many trials of a method. The bench leaves the
    switch's cores free, except for a method that restarts the switch."""
    trial, streams = plan.trial, deployment.streams
    restarts = trial.method != PLAIN and METHODS[trial.method].restarts_switch
    apart = plan.placement.switch_cores and not restarts
    with restricted_to(plan.placement.bench_cores) if apart else nullcontext():
        if isinstance(deployment.guest, WorkloadRuns):
            return transfer.measure(trial, deployment.guest, plan.policy, tick)
        if deployment.guest is not None:
            return foreign.measure(trial, deployment.guest, plan.policy, tick)
        if trial.method != PLAIN:
            return method_run.measure(trial, deployment, baseline.forwarded_pps, tick)
        if trial.dimension is Dimension.THROUGHPUT:
            return throughput.measure(trial, streams, plan.policy, tick, deployment.monitors)
        guests = any(engine.in_guest for engine in deployment.engines)
        clocks = None if guests else plan.far  # a guest's clock is neither host's
        return latency.measure(trial, deployment.ends, plan.policy, tick, clocks)


def _run_beside(
    neighbour: NoisyNeighbour, traffic: Callable[[], Measurement]
) -> tuple[Measurement, Neighbour | None]:
    """Run the traffic with the neighbour, which runs only during the traffic."""
    try:
        neighbour.start()
        measurement = traffic()
        return measurement, neighbour.stop()
    finally:
        neighbour.close()


def _reconciled(
    deployment: Deployment, before: CounterReading
) -> tuple[CounterReading, Reconciliation]:
    """Compare the counters after the traffic. While they disagree, read them again for a moment,
    because some are late and a frame may still be in flight."""
    relayed = isinstance(deployment.switch, HasNetwork) and deployment.switch.network().relay
    ends_connections = bool(relayed) and protocol_of(deployment.plan.trial.workload) == "tcp"
    patience = max([1.0, *(machine.patience for machine in deployment.machines)])
    deadline = time.monotonic() + COUNTERS_SETTLE_S * patience
    while True:
        after = deployment.read()
        found = reconcile(
            deployment.ends,
            before,
            after,
            [path.via for path in deployment.plan.topology.paths],
            deployment.cable(),
            deployment.switch.split if isinstance(deployment.switch, Splits) else None,
            ends_connections=ends_connections,
        )
        if found.agrees or time.monotonic() > deadline:
            return after, found
        time.sleep(_COUNTERS_POLL_S)


def _whole_placement(deployment: Deployment) -> Placement:
    """Return the placement of this host, oversubscribed if either host had too few cores."""
    local, remote = deployment.plan.placement, deployment.far_placement
    is_crowded = local.oversubscribed or (remote is not None and remote.oversubscribed)
    return local.model_copy(update={"oversubscribed": is_crowded})


def _witness(reading: CounterReading) -> int:
    return reading.switch.witness_rx_frames or 0


def _live_pps(ends: Sequence[PairEnds]) -> float | None:
    """Return the current forwarding rate of all streams, from the last sample of each receiver or
    client."""
    receiving = [pair.a if pair.b.role == "server" else pair.b for pair in ends]
    last = [engine.intervals[-1:] for engine in receiving]
    return sum(forwarded_pps(samples) for samples in last) if any(last) else None


def _plain(counters: SwitchCounters) -> dict[str, Any]:
    """Return counters as JSON has them, with port indices as strings."""
    return {
        "ports": {str(index): asdict(port) for index, port in counters.ports.items()},
        "witness_rx_frames": counters.witness_rx_frames,
    }
