"""Running flows. Each has a sender and a receiver of the traffic engine, and their counters.

One thread reads the output of all engines. A flow has ended when its receiver has waited for the
last frames, so the counts of an ended flow are final.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from switchmark.engine.binary import find_engine
from switchmark.engine.events import Result
from switchmark.engine.process import EngineProcess, close_engines
from switchmark.errors import SwitchmarkError
from switchmark.formatting import printable
from switchmark.host.cores.placement import CATCH_UP_US, SHARED_CATCH_UP_US
from switchmark.host.host import Session
from switchmark.model.page_size import PageSize
from switchmark.otg.checked import check_plans
from switchmark.otg.plan import FlowPlan
from switchmark.otg.progress import CounterSums, Moment, in_step
from switchmark.otg.refusal import Refused

READY_TIMEOUT_S = 20.0
RESULT_TIMEOUT_S = 10.0
RESULT_TIMEOUT_A_FLOW_S = 0.1  # in addition: many engines share the cores while they end
EXIT_TIMEOUT_S = 5.0  # from the results of the engines; after it they are killed
SAMPLE_S = 0.1  # interval of the engines' counters; longer if there are many flows
SAMPLED_FLOWS = 32  # more flows have longer intervals, in proportion to their number
LEAD_NS = 20_000_000  # the least time from the command to the first sender to the common start
_POLL_S = 0.02
_BUSY_SHARE = 3  # the watching thread rests three times as long as it works, up to SAMPLE_S
FANOUT = "PACKET_FANOUT"  # an error of DPDK's af-packet driver contains this name
_FANOUT_TRIES = 5
_LOST_LINK = "its peer or device went away during the flow"


@dataclass
class RunningFlow:
    """One flow, from its start until its next start."""

    plan: FlowPlan
    sender: EngineProcess
    receiver: EngineProcess | None
    is_ending: bool = False  # the sender has ended, and the receiver waits for late frames
    ended: bool = False
    warnings: list[str] = field(default_factory=list)
    _faults: dict[str, str] = field(init=False, default_factory=dict)  # by role, or ""
    # time.monotonic() of the request to exit, which follows both results
    _closing_s: float | None = field(init=False, default=None)
    _sent: CounterSums = field(init=False)
    _received: CounterSums = field(init=False)

    def __post_init__(self) -> None:
        outer_bytes = self.plan.outer_bytes
        self._sent = CounterSums("tx_offered", "tx_bytes", outer_bytes)
        self._received = CounterSums("rx_frames", "rx_bytes", outer_bytes)

    @property
    def engines(self) -> list[EngineProcess]:
        """Both engines, the receiver first: it must listen before anything is sent."""
        return [engine for engine in (self.receiver, self.sender) if engine is not None]

    def counts(self) -> tuple[Moment, Moment]:
        """Return the sums of sent and received frames, copies included, at matching times. The
        rates of an engine that has ended are 0."""
        sent, received = self._sent.last, self._received.last
        if not self.is_ending and not self.sender.has_result and self.receiver is not None:
            if self.receiver.has_result:
                earlier = [moment for moment in self._received.moments if moment.t_ns <= sent.t_ns]
                received = earlier[-1] if earlier else received
            else:
                sent, received = in_step(self._sent.moments, self._received.moments)
        if self.sender.has_result:
            totals = self.sender.result.totals
            frames = totals.tx_offered
            sent = Moment(sent.t_ns, frames, totals.tx_bytes + self.plan.outer_bytes * frames)
            if self.receiver is not None and self.receiver.has_result:
                totals = self.receiver.result.totals
                frames = totals.rx_frames
                size_bytes = totals.rx_bytes + self.plan.outer_bytes * frames
                received = Moment(received.t_ns, frames, size_bytes)
        if self.ended:
            sent = Moment(sent.t_ns, sent.frames, sent.size_bytes)
        if self.ended or self.receiver is None or self.receiver.has_result:
            received = Moment(received.t_ns, received.frames, received.size_bytes)
        return sent, received

    @property
    def is_whole(self) -> bool:
        """Return True if both engines worked to the end, so that missing frames were lost."""
        return self.ended and not self.fault

    def missing(self) -> tuple[int, int]:
        """Return the numbers of frames that were lost, and that the receiver's port dropped or
        missed. The flow must be whole and have a receiver."""
        assert self.receiver is not None
        loss, totals = self.receiver.result.loss, self.receiver.result.totals
        unique = loss.received_unique if loss is not None else totals.rx_frames
        missing = max(0, self.sender.result.totals.tx_offered - unique)
        port_drops = min(missing, totals.rx_socket_drops + totals.rx_missed_away)
        return missing - port_drops, port_drops

    def as_printed(self) -> dict[str, Any]:
        """Return all output of the engines, which is the response of the extension."""
        return {
            "fault": self.fault or None,
            "warnings": self.warnings,
            "sender": self.sender.as_run().model_dump(mode="json"),
            "receiver": self.receiver.as_run().model_dump(mode="json") if self.receiver else None,
        }

    @property
    def fault(self) -> str:
        """The faults of both ends; empty if there are none."""
        return "; ".join(self._faults.values())

    def take(self) -> bool:
        """Read the new output of the engines, and change to the next state. Return True if the flow
        has just ended. This does not wait for an engine to exit: the counters of all other flows
        would be old meanwhile."""
        if self.ended:
            return False
        if self._closing_s is None:
            self._read_output()
        if self._closing_s is not None and self._can_be_closed():
            close_engines(self.engines)
            self.ended = True
        return self.ended

    def _read_output(self) -> None:
        has_both_results = has_failed = False
        try:
            for engine in self.engines:
                engine.pump(0.0)
            self._note_faults()
            if self.sender.has_result and not self.is_ending:
                self.is_ending = True
                if self.receiver is not None and not self.receiver.has_result:
                    self.receiver.request_stop(self.sender.result.totals.tx_offered)
            receiver_done = self.receiver is None or self.receiver.has_result
            has_both_results = self.sender.has_result and receiver_done
        except SwitchmarkError as error:
            self._fail("", str(error))
            has_failed = True
        self._sent.take(self.sender.intervals)
        if self.receiver is not None:
            self._received.take(self.receiver.intervals)
        if has_both_results or has_failed:
            self._closing_s = time.monotonic()
            for engine in self.engines:
                engine.request_exit()
            self._judge(is_whole=has_both_results and not self.fault)

    def _can_be_closed(self) -> bool:
        """Return True if both engines have exited, or should have exited long ago."""
        assert self._closing_s is not None
        return (
            not any(engine.process_ids() for engine in self.engines)
            or time.monotonic() - self._closing_s > EXIT_TIMEOUT_S
        )

    def _note_faults(self) -> None:
        """Note an engine that failed, that printed an incomplete result, or whose port was down for
        a while."""
        for engine in self.engines:
            if engine.has_result and (problem := _problem(engine.result)):
                self._fail(engine.role, problem)
            elif engine.intervals and engine.intervals[-1].lost_link:
                self._fail(engine.role, _LOST_LINK)

    def _fail(self, end: str, fault: str) -> None:
        """Note the first fault of an end, or of the flow if there is none. Either end may notice a
        fault of the link first."""
        if end not in self._faults and (end or not self._faults):
            self._faults[end] = f"{end}: {fault}" if end else fault
            self.warnings.append(f"{self._faults[end]}; the loss is unknown")

    def _judge(self, is_whole: bool) -> None:
        """Warn of losses and delays that the device under test did not cause."""
        if self.sender.has_result:
            self.warnings += _late(self.sender.result)
        if is_whole and self.receiver is not None:
            lost, port_drops = self.missing()
            if port_drops:
                self.warnings.append(
                    f"{port_drops} of {lost + port_drops} missing frames were dropped by the "
                    "receiver's own port, or missed while it had no core; they do not count as loss"
                )
            if lost and (other := self.receiver.result.totals.rx_other):
                self.warnings.append(
                    f"{lost} frames are missing, and {other} other frames arrived (rx_other): "
                    "perhaps the network or the port changed their headers. An AF_XDP port behind "
                    "a Linux switch does not see VLAN tags (docs/engine-io.md)"
                )


def _problem(result: Result) -> str:
    """Return the reason why a result is incomplete; empty if it is complete."""
    if not result.partial and result.reason != "failure":
        return ""
    return result.fault or "its port failed"


def _late(result: Result) -> list[str]:
    """Return a warning if the sender missed its schedule."""
    totals = result.totals
    missed = totals.tx_intended - totals.tx_offered
    if missed * 1000 <= totals.tx_intended:
        return []
    reason = (
        "the sender had no core in time"
        if 2 * totals.tx_late >= missed
        else "the port did not take them"
    )
    return [
        f"the rate was missed by {100 * missed / totals.tx_intended:.2g} %: "
        f"{missed} of {totals.tx_intended} frames did not leave when they were due: {reason}"
    ]


@dataclass
class Traffic:
    """All flows of a configuration. A context manager; several threads can call it.

    `idle`: the engines' idle strategy; None: each start chooses it by the number of free cores.
    `notify` gets each warning when it arises. `small_pages`: DPDK ports use ordinary pages, not
    hugepages."""

    session: Session
    idle: str | None = None
    notify: Callable[[str], None] = lambda text: print(printable(text), file=sys.stderr)
    plans: list[FlowPlan] = field(default_factory=list)
    running: dict[str, RunningFlow] = field(default_factory=dict)
    small_pages: bool = False

    def __post_init__(self) -> None:
        self.lock = threading.RLock()  # protects the state that requests read; held for short times
        self._changing = threading.RLock()  # serialises the start, stop and exchange of flows
        self._files: Path | None = None
        self._unreported: list[str] = []
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="switchmark-otg", daemon=True)

    def __enter__(self) -> Traffic:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()
        self.forget()

    def configure(self, plans: Sequence[FlowPlan]) -> None:
        """Replace the flows by others, without starting these. Raises `Refused`, and changes
        nothing, if the engine does not accept their options."""
        with self._changing, ExitStack() as undo:
            files = Path(tempfile.mkdtemp(prefix="flows-", dir=self.session.run_dir))
            undo.callback(shutil.rmtree, files, ignore_errors=True)
            for n, plan in enumerate(plans):
                if plan.replay is not None:
                    plan.replay.write(files / _file_name(n))
            common = self._common_options(len(plans))
            engines = [
                (plan, [role, *arguments])
                for n, plan in enumerate(plans)
                for role, arguments in _roles(plan, files / _file_name(n), common)
            ]
            check_plans(self.session.host, [plan for plan, _ in engines], [a for _, a in engines])
            undo.pop_all()
            self.forget()
            with self.lock:
                self.plans, self._files = list(plans), files

    def forget(self) -> None:
        """End and forget all flows."""
        with self._changing:
            with self.lock:
                flows = [flow for flow in self.running.values() if not flow.ended]
                self.running, self.plans = {}, []
            close_engines([engine for flow in flows for engine in flow.engines])
            if self._files is not None:
                shutil.rmtree(self._files, ignore_errors=True)
                self._files = None

    def start(self, names: Iterable[str] | None) -> None:
        """Start these flows, or all, at the same time. Raises `Refused` if a flow runs already or
        cannot start."""
        with self._changing:
            plans = self._named(names)
            with self.lock:
                active = {name for name, flow in self.running.items() if not flow.ended}
            for plan in plans:
                if plan.name in active:
                    raise Refused(f"flow {plan.name}: runs already")
            common = self._common_options(len(active) + len(plans))
            started: list[RunningFlow] = []
            with ExitStack() as undo:
                undo.callback(lambda: close_engines([e for flow in started for e in flow.engines]))
                try:
                    started += [self._spawned(plan, common) for plan in plans]
                    self._begin(started)
                except SwitchmarkError as error:
                    raise Refused(str(error), code=500) from error
                undo.pop_all()
            with self.lock:
                self.running = self.running | {flow.plan.name: flow for flow in started}

    def stop(self, names: Iterable[str] | None) -> None:
        """End these flows, or all; return when they have ended."""
        with self._changing:
            with self.lock:
                plans = self._named(names)
                flows = [self.running[plan.name] for plan in plans if plan.name in self.running]
                for flow in flows:
                    if not flow.ended and not flow.sender.has_result:
                        flow.sender.request_stop()
            timeout_s = RESULT_TIMEOUT_S + RESULT_TIMEOUT_A_FLOW_S * len(flows)
            deadline = time.monotonic() + timeout_s
            while any(not flow.ended for flow in flows):
                if time.monotonic() > deadline:
                    raise Refused("a flow did not end in time", code=500)
                time.sleep(_POLL_S)

    def take_warnings(self) -> list[str]:
        """Return the warnings that no earlier call returned."""
        with self.lock:
            warnings, self._unreported = self._unreported, []
            return warnings

    def _named(self, names: Iterable[str] | None) -> list[FlowPlan]:
        requested = list(names or ())
        known = {plan.name: plan for plan in self.plans}
        for name in requested:
            if name not in known:
                raise Refused(f"there is no flow {name}")
        return [known[name] for name in requested] if requested else self.plans

    def _common_options(self, flows: int) -> tuple[str, ...]:
        """Return the options of all engines, which depend on whether each can have a whole core."""
        crowded = 2 * flows + 1 > len(os.sched_getaffinity(0))
        shared = "yield" if flows == 1 else "sleep"  # several that yield would use whole cores
        idle = self.idle or (shared if crowded else "poll")
        late_us = SHARED_CATCH_UP_US if crowded else CATCH_UP_US
        pages = ("--dpdk-pages", PageSize.SMALL.value) if self.small_pages else ()
        interval_s = SAMPLE_S * max(1, math.ceil(flows / SAMPLED_FLOWS))
        return (
            *("--idle", idle, "--catch-up-us", str(late_us), "--interval", f"{interval_s:g}"),
            *pages,
        )

    def _spawned(self, plan: FlowPlan, common: Sequence[str]) -> RunningFlow:
        assert self._files is not None
        file = self._files / _file_name(self.plans.index(plan))
        engines = {
            role: self._engine(plan, role, arguments)
            for role, arguments in _roles(plan, file, common)
        }
        return RunningFlow(plan, engines["sender"], engines.get("receiver"))

    def _engine(self, plan: FlowPlan, role: str, args: list[str]) -> EngineProcess:
        spawned = self.session.host.spawn([str(find_engine()), role, *args, "--session"])
        return EngineProcess(spawned=spawned, node=plan.name, role=role, pair=0, args=[role, *args])

    def _begin(self, flows: Sequence[RunningFlow]) -> None:
        for flow in flows:
            self._wait_ready(flow)
        for flow in flows:
            if flow.plan.tunnel_row:
                flow.sender.send_table(flow.plan.tunnel_row, 1, "tunnels")
        before_ns = time.monotonic_ns()
        for flow in flows:
            if flow.receiver is not None:
                flow.receiver.ask_start({})
        for flow in flows:
            if flow.receiver is not None:
                flow.receiver.wait_started()
        # No sender must begin before all senders have their command. This takes about as long as
        # the commands to the receivers took.
        now_ns = time.monotonic_ns()
        at_ns = now_ns + LEAD_NS + 2 * (now_ns - before_ns)
        for flow in flows:
            flow.sender.ask_start({"at": at_ns})
        for flow in flows:
            flow.sender.wait_started()

    def _wait_ready(self, flow: RunningFlow) -> None:
        """Wait until both engines have opened their ports.

        DPDK's af-packet driver computes the number of its fanout group from the process ID and the
        index of the device. The kernel refuses a group that another device uses. So this starts
        another process, whose group has another number."""
        for role in ("receiver", "sender"):
            for tries_left in reversed(range(_FANOUT_TRIES)):
                engine: EngineProcess | None = getattr(flow, role)
                if engine is None:
                    break
                try:
                    engine.wait_ready(READY_TIMEOUT_S)
                    break
                except SwitchmarkError as error:
                    if FANOUT not in str(error) or not tries_left:
                        raise
                    engine.close()
                    setattr(flow, role, self._engine(flow.plan, role, engine.args[1:]))

    def _watch(self) -> None:
        rest_s = _POLL_S
        while not self._over.wait(rest_s):
            started_s = time.thread_time()
            with self.lock:
                flows = list(self.running.values())
            for flow in flows:
                with self.lock:
                    if self.running.get(flow.plan.name) is not flow:
                        continue  # another thread closes it
                    known = len(flow.warnings)
                    flow.take()
                    new = [f"flow {flow.plan.name}: {text}" for text in flow.warnings[known:]]
                    self._unreported += new
                for warning in new:
                    self.notify(warning)
            rest_s = rest_after(time.thread_time() - started_s)


def rest_after(cpu_s: float) -> float:
    """Return the time in s that the watching thread rests after this CPU time. Time without a core
    is not work, and a rest has a limit: metrics must not be older than a sample and a round."""
    return min(SAMPLE_S, max(_POLL_S, _BUSY_SHARE * cpu_s))


def _file_name(number: int) -> str:
    return f"flow-{number}.pcap"


def _roles(plan: FlowPlan, file: Path, common: Sequence[str]) -> list[tuple[str, list[str]]]:
    """Return the roles of a flow's engines, the receiver first, and their options. Those of the
    plan come last, so that they override the common options."""
    replayed = () if plan.replay is None else ("--replay", str(file), *plan.replay.arguments)
    sender = ("sender", [*common, *plan.sender, *replayed])
    if plan.rx is None:
        return [sender]
    port = plan.rx.waiting_spec if "sleep" in common else plan.rx.spec
    return [("receiver", [*common, *plan.receiver, "--port", port]), sender]
