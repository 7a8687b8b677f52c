"""Running flows: for each a sender and a receiver of the traffic engine, and their counts.

One thread takes in what the engines print. A flow has stopped when its receiver has waited for the
last frames, so that the counts of a stopped flow are final.
"""

from __future__ import annotations

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
SAMPLE_S = 0.1
LEAD_NS = 20_000_000  # at least, between the command to the first sender and the common start
_POLL_S = 0.02
_BUSY_SHARE = 3  # the watching thread rests so many times as long as it works
FANOUT = "PACKET_FANOUT"  # in the error of DPDK's af-packet driver
_FANOUT_TRIES = 5
_LOST_LINK = "its peer or device went away during the flow"


@dataclass
class RunningFlow:
    """One flow, from its start until the next one."""

    plan: FlowPlan
    sender: EngineProcess
    receiver: EngineProcess | None
    is_ending: bool = False  # the sender has ended, the receiver waits for late frames
    fault: str = ""
    ended: bool = False
    warnings: list[str] = field(default_factory=list)
    _sent: CounterSums = field(init=False)
    _received: CounterSums = field(init=False)

    def __post_init__(self) -> None:
        outer_bytes = self.plan.outer_bytes
        self._sent = CounterSums("tx_offered", "tx_bytes", outer_bytes)
        self._received = CounterSums("rx_frames", "rx_bytes", outer_bytes)

    @property
    def engines(self) -> list[EngineProcess]:
        """Both engines, the receiver first: it must listen before anything is sent."""
        return [one for one in (self.receiver, self.sender) if one is not None]

    def counts(self) -> tuple[Moment, Moment]:
        """What was sent and received, copies included, at moments that fit together. The rates of
        an engine that has ended are 0."""
        sent, received = self._sent.last, self._received.last
        if not self.is_ending and not self.sender.has_result and self.receiver is not None:
            if self.receiver.has_result:
                before = [one for one in self._received.moments if one.t_ns <= sent.t_ns]
                received = before[-1] if before else received
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
        """Whether both engines worked to the end, so that what is missing was lost."""
        return self.ended and not self.fault

    def missing(self) -> tuple[int, int]:
        """How many frames did not arrive: those lost on the way, and those that the receiver's own
        port dropped or missed. Only of a flow that is whole and has a receiver."""
        assert self.receiver is not None
        loss, totals = self.receiver.result.loss, self.receiver.result.totals
        unique = loss.received_unique if loss is not None else totals.rx_frames
        missing = max(0, self.sender.result.totals.tx_offered - unique)
        own = min(missing, totals.rx_socket_drops + totals.rx_missed_away)
        return missing - own, own

    def as_printed(self) -> dict[str, Any]:
        """Everything that the engines printed about it: the answer of the extension."""
        return {
            "fault": self.fault or None,
            "warnings": self.warnings,
            "sender": self.sender.as_run().model_dump(mode="json"),
            "receiver": self.receiver.as_run().model_dump(mode="json") if self.receiver else None,
        }

    def take(self) -> bool:
        """Take in what has been printed, and go on to the next state; returns whether the flow has
        just ended."""
        if self.ended:
            return False
        try:
            for engine in self.engines:
                engine.pump(0.0)
            self._note_faults()
            if self.sender.has_result and not self.is_ending:
                self.is_ending = True
                if self.receiver is not None and not self.receiver.has_result:
                    self.receiver.request_stop(self.sender.result.totals.tx_offered)
            receiver_done = self.receiver is None or self.receiver.has_result
            self.ended = self.sender.has_result and receiver_done
        except SwitchmarkError as error:
            self._fail(str(error))
            self.ended = True
        self._sent.take(self.sender.intervals)
        if self.receiver is not None:
            self._received.take(self.receiver.intervals)
        if self.ended:
            close_engines(self.engines)
            self._judge()
        return self.ended

    def _note_faults(self) -> None:
        """An engine may end by a fault of its port, print a result that lacks a part, or go on
        after its port was down."""
        for engine in self.engines:
            if engine.has_result and (problem := _problem(engine.result)):
                self._fail(f"{engine.role}: {problem}")
            elif engine.intervals and engine.intervals[-1].lost_link:
                self._fail(f"{engine.role}: {_LOST_LINK}")

    def _fail(self, fault: str) -> None:
        if not self.fault:
            self.fault = fault
            self.warnings.append(f"{fault}; no loss can be told")

    def _judge(self) -> None:
        """Warn of what the client could take for the work of the device under test."""
        if self.sender.has_result:
            self.warnings += _late(self.sender.result)
        if self.is_whole and self.receiver is not None:
            lost, own = self.missing()
            if own:
                self.warnings.append(
                    f"{own} of {lost + own} missing frames were dropped by the receiver's own "
                    "port, or missed while it had no core; they do not count as loss"
                )
            if lost and (other := self.receiver.result.totals.rx_other):
                self.warnings.append(
                    f"{lost} frames are missing, and {other} of another kind arrived: the network "
                    "or the port changed their headers. An AF_XDP port behind a Linux switch does "
                    "not see VLAN tags (docs/engine-io.md)"
                )


def _problem(result: Result) -> str:
    """What makes a result less than whole; empty if it is whole."""
    if not result.partial and result.reason != "failure":
        return ""
    return result.fault or "its port failed"


def _late(result: Result) -> list[str]:
    """By how much a sender missed its schedule, if it did."""
    totals = result.totals
    missed = totals.tx_intended - totals.tx_offered
    if missed * 1000 <= totals.tx_intended:
        return []
    why = (
        "the sender had no core in time"
        if 2 * totals.tx_late >= missed
        else "the port did not take them"
    )
    return [
        f"the rate was missed by {100 * missed / totals.tx_intended:.2g} %: "
        f"{missed} of {totals.tx_intended} frames did not leave when they were due: {why}"
    ]


@dataclass
class Traffic:
    """All flows of a configuration. A context manager; safe to call from several threads.

    `idle`: the engines' idle strategy; None: as the free cores allow, at each start. `notify` gets
    each warning when it arises. `small_pages`: DPDK ports use ordinary pages, not hugepages."""

    session: Session
    idle: str | None = None
    notify: Callable[[str], None] = lambda text: print(printable(text), file=sys.stderr)
    plans: list[FlowPlan] = field(default_factory=list)
    running: dict[str, RunningFlow] = field(default_factory=dict)
    small_pages: bool = False

    def __post_init__(self) -> None:
        self.lock = threading.RLock()  # of all that is read to answer; never held for long
        self._changing = threading.RLock()  # of what starts, stops and replaces flows
        self._files: Path | None = None
        self._untold: list[str] = []
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
        """Replace the flows by others, none of which runs. Raises `Refused`, and changes nothing,
        if the engine does not accept their options."""
        with self._changing, ExitStack() as undo:
            files = Path(tempfile.mkdtemp(prefix="flows-", dir=self.session.run_dir))
            undo.callback(shutil.rmtree, files, ignore_errors=True)
            for n, plan in enumerate(plans):
                if plan.replay is not None:
                    plan.replay.write(files / _file_name(n))
            ends = [
                (plan, [role, *arguments])
                for n, plan in enumerate(plans)
                for role, arguments in _roles(plan, files / _file_name(n), self._usual(len(plans)))
            ]
            check_plans(self.session.host, [one for one, _ in ends], [two for _, two in ends])
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
        """Begin these flows, or all, at one moment. Raises `Refused` if one runs already or cannot
        begin."""
        with self._changing:
            plans = self._named(names)
            with self.lock:
                active = {name for name, flow in self.running.items() if not flow.ended}
            for plan in plans:
                if plan.name in active:
                    raise Refused(f"flow {plan.name}: runs already")
            usual = self._usual(len(active) + len(plans))
            begun: list[RunningFlow] = []
            with ExitStack() as undo:
                undo.callback(lambda: close_engines([e for one in begun for e in one.engines]))
                try:
                    begun += [self._spawned(plan, usual) for plan in plans]
                    self._begin(begun)
                except SwitchmarkError as error:
                    raise Refused(str(error), code=500) from error
                undo.pop_all()
            with self.lock:
                self.running = self.running | {flow.plan.name: flow for flow in begun}

    def stop(self, names: Iterable[str] | None) -> None:
        """End these flows, or all; returns when they have ended."""
        with self._changing:
            with self.lock:
                wanted = [plan.name for plan in self._named(names)]
                flows = [self.running[name] for name in wanted if name in self.running]
                for flow in flows:
                    if not flow.ended and not flow.sender.has_result:
                        flow.sender.request_stop()
            patience_s = RESULT_TIMEOUT_S + RESULT_TIMEOUT_A_FLOW_S * len(flows)
            deadline = time.monotonic() + patience_s
            while any(not flow.ended for flow in flows):
                if time.monotonic() > deadline:
                    raise Refused("a flow did not end in time", code=500)
                time.sleep(_POLL_S)

    def take_warnings(self) -> list[str]:
        """The warnings of flows that no answer has had so far."""
        with self.lock:
            found, self._untold = self._untold, []
            return found

    def _named(self, names: Iterable[str] | None) -> list[FlowPlan]:
        wanted = list(names or ())
        known = {plan.name: plan for plan in self.plans}
        for name in wanted:
            if name not in known:
                raise Refused(f"there is no flow {name}")
        return [known[name] for name in wanted] if wanted else self.plans

    def _usual(self, flows: int) -> tuple[str, ...]:
        """The options of all engines, which depend on whether each has a core of its own."""
        crowded = 2 * flows + 1 > len(os.sched_getaffinity(0))
        shared = "yield" if flows == 1 else "sleep"  # those that yield take whole cores together
        idle = self.idle or (shared if crowded else "poll")
        late_us = SHARED_CATCH_UP_US if crowded else CATCH_UP_US
        pages = ("--dpdk-pages", PageSize.SMALL.value) if self.small_pages else ()
        return (
            *("--idle", idle, "--catch-up-us", str(late_us), "--interval", f"{SAMPLE_S:g}"),
            *pages,
        )

    def _spawned(self, plan: FlowPlan, usual: Sequence[str]) -> RunningFlow:
        assert self._files is not None
        file = self._files / _file_name(self.plans.index(plan))
        engines = {
            role: self._engine(plan, role, arguments)
            for role, arguments in _roles(plan, file, usual)
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
        begun_ns = time.monotonic_ns()
        for flow in flows:
            if flow.receiver is not None:
                flow.receiver.ask_start({})
        for flow in flows:
            if flow.receiver is not None:
                flow.receiver.wait_started()
        # No sender begins while others are still commanded, which takes as long as for receivers.
        now_ns = time.monotonic_ns()
        at_ns = now_ns + LEAD_NS + 2 * (now_ns - begun_ns)
        for flow in flows:
            flow.sender.ask_start({"at": at_ns})
        for flow in flows:
            flow.sender.wait_started()

    def _wait_ready(self, flow: RunningFlow) -> None:
        """Wait until both engines have opened their ports.

        DPDK's af-packet driver joins a fanout group of a number made from its process ID and its
        device's index, and the kernel refuses a group that has another device: another process has
        another number."""
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
            begun = time.monotonic()
            with self.lock:
                flows = list(self.running.values())
            for flow in flows:
                with self.lock:
                    known = len(flow.warnings)
                    flow.take()
                    new = [f"flow {flow.plan.name}: {one}" for one in flow.warnings[known:]]
                    self._untold += new
                for one in new:
                    self.notify(one)
            rest_s = max(_POLL_S, _BUSY_SHARE * (time.monotonic() - begun))


def _file_name(number: int) -> str:
    return f"flow-{number}.pcap"


def _roles(plan: FlowPlan, file: Path, usual: Sequence[str]) -> list[tuple[str, list[str]]]:
    """The roles of a flow's engines, the receiver first, and their options; what the plan says
    comes last, and so holds."""
    replayed = () if plan.replay is None else ("--replay", str(file), *plan.replay.arguments)
    found = [("sender", [*usual, *plan.sender, *replayed])]
    if plan.rx is None:
        return found
    port = plan.rx.waiting_spec if "sleep" in usual else plan.rx.spec
    return [("receiver", [*usual, *plan.receiver, "--port", port]), *found]
