"""Running flows: for each a sender and a receiver of the traffic engine, and their counts.

One thread takes in what the engines print. A flow has stopped when its receiver has waited for the
last frames, so that the counts of a stopped flow are final.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from switchmark.engine.binary import find_engine
from switchmark.engine.process import EngineProcess, close_engines
from switchmark.errors import SwitchmarkError
from switchmark.otg.plan import FlowPlan
from switchmark.otg.refusal import Refused
from switchmark.testbed.host import Session

READY_TIMEOUT_S = 20.0
RESULT_TIMEOUT_S = 10.0
SAMPLE_S = 0.1
LEAD_NS = 20_000_000  # between the word to all senders and their common start
_POLL_S = 0.02
_SENT, _RECEIVED = ("tx_offered", "tx_bytes"), ("rx_frames", "rx_bytes")  # counters


@dataclass
class RunningFlow:
    """One flow, from its start until the next one."""

    plan: FlowPlan
    sender: EngineProcess
    receiver: EngineProcess | None
    is_ending: bool = False  # the sender has ended, the receiver waits for what is under way
    fault: str = ""
    ended: bool = False

    @property
    def engines(self) -> list[EngineProcess]:
        """Both engines, the receiver first: it must listen before anything is sent."""
        return [one for one in (self.receiver, self.sender) if one is not None]

    def sent(self) -> tuple[int, int]:
        """Frames and bytes sent so far."""
        return _counts(self.sender, *_SENT)

    def received(self) -> tuple[int, int]:
        """Frames and bytes received so far; copies count."""
        return _counts(self.receiver, *_RECEIVED)

    def sent_a_second(self) -> tuple[float, float]:
        """Frames and bytes a second in the last sample; 0 once it has ended."""
        return _rates(None if self.ended else self.sender, *_SENT)

    def received_a_second(self) -> tuple[float, float]:
        """Frames and bytes a second in the last sample; 0 once it has ended."""
        return _rates(None if self.ended else self.receiver, *_RECEIVED)

    def as_printed(self) -> dict[str, Any]:
        """Everything that the engines printed about it: the answer of the extension."""
        return {
            "fault": self.fault or None,
            "sender": self.sender.as_run().model_dump(mode="json"),
            "receiver": self.receiver.as_run().model_dump(mode="json") if self.receiver else None,
        }

    def take(self) -> None:
        """Take in what has been printed, and go on to the next state."""
        if self.ended:
            return
        try:
            for engine in self.engines:
                engine.pump(0.0)
            if self.sender.has_result and not self.is_ending:
                self.is_ending = True
                if self.receiver is not None and not self.receiver.has_result:
                    self.receiver.request_stop(self.sender.result.totals.tx_offered)
            receiver_done = self.receiver is None or self.receiver.has_result
            self.ended = self.sender.has_result and receiver_done
        except SwitchmarkError as error:
            self.fault, self.ended = str(error), True
        if self.ended:
            close_engines(self.engines)


def _counts(engine: EngineProcess | None, frames: str, size: str) -> tuple[int, int]:
    """The sums of two counters of an engine so far."""
    if engine is None:
        return 0, 0
    seen = [engine.result.totals] if engine.has_result else engine.intervals
    return sum(getattr(one, frames) for one in seen), sum(getattr(one, size) for one in seen)


def _rates(engine: EngineProcess | None, frames: str, size: str) -> tuple[float, float]:
    if engine is None or not engine.intervals:
        return 0.0, 0.0
    last = engine.intervals[-1]
    duration_s = (last.duration_ns or 1) / 1e9
    return getattr(last, frames) / duration_s, getattr(last, size) / duration_s


@dataclass
class Traffic:
    """All flows of a configuration. A context manager; safe to call from several threads."""

    session: Session
    idle: str
    plans: list[FlowPlan] = field(default_factory=list)
    running: dict[str, RunningFlow] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.lock = threading.RLock()
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
        """Replace the flows by others, none of which runs."""
        with self.lock:
            self.forget()
            self.plans = list(plans)

    def forget(self) -> None:
        """End and forget all flows."""
        with self.lock:
            engines = [e for flow in self.running.values() if not flow.ended for e in flow.engines]
            self.running.clear()
        close_engines(engines)

    def start(self, names: Iterable[str] | None) -> None:
        """Begin these flows, or all, at one moment. Raises `Refused` where one runs already or
        cannot begin."""
        with self.lock:
            plans = self._named(names)
            for plan in plans:
                if plan.name in self.running and not self.running[plan.name].ended:
                    raise Refused(f"flow {plan.name}: runs already")
            begun: list[RunningFlow] = []
            with ExitStack() as undo:
                undo.callback(lambda: close_engines([e for one in begun for e in one.engines]))
                try:
                    for plan in plans:
                        begun.append(self._spawned(plan))
                    self._begin(begun)
                except SwitchmarkError as error:
                    raise Refused(str(error), code=500) from error
                undo.pop_all()
            self.running |= {flow.plan.name: flow for flow in begun}

    def stop(self, names: Iterable[str] | None) -> None:
        """End these flows, or all; returns when they have ended."""
        with self.lock:
            flows = [self.running[p.name] for p in self._named(names) if p.name in self.running]
            for flow in flows:
                if not flow.ended and not flow.sender.has_result:
                    flow.sender.request_stop()
        deadline = time.monotonic() + RESULT_TIMEOUT_S
        while any(not flow.ended for flow in flows):
            if time.monotonic() > deadline:
                raise Refused("a flow did not end in time", code=500)
            time.sleep(_POLL_S)

    def _named(self, names: Iterable[str] | None) -> list[FlowPlan]:
        wanted = list(names or ())
        known = {plan.name: plan for plan in self.plans}
        for name in wanted:
            if name not in known:
                raise Refused(f"there is no flow {name}")
        return [known[name] for name in wanted] if wanted else self.plans

    def _spawned(self, plan: FlowPlan) -> RunningFlow:
        engine = str(find_engine())
        usual = ("--idle", self.idle, "--interval", f"{SAMPLE_S:g}")
        more: list[str] = []
        if plan.replay is not None:
            path = self.session.run_dir / f"flow-{self.plans.index(plan)}.pcap"
            plan.replay.write(path)
            more = ["--replay", str(path), *(["--stamp"] if plan.replay.is_stamped else [])]
            has_end = "--duration" not in plan.sender
            more += ["--loops", str(_loops(plan))] if has_end else ["--loops", "0"]
        receiver = None
        if plan.rx is not None:
            receiver = self._engine(engine, plan, "receiver", [*plan.receiver, *usual])
        sender = self._engine(engine, plan, "sender", [*plan.sender, *more, *usual])
        return RunningFlow(plan, sender, receiver)

    def _engine(self, engine: str, plan: FlowPlan, role: str, args: list[str]) -> EngineProcess:
        spawned = self.session.host.spawn([engine, role, *args, "--session"])
        return EngineProcess(spawned=spawned, node=plan.name, role=role, pair=0, args=[role, *args])

    def _begin(self, flows: Sequence[RunningFlow]) -> None:
        for flow in flows:
            for engine in flow.engines:
                engine.wait_ready(READY_TIMEOUT_S)
        for flow in flows:
            if flow.receiver is not None:
                flow.receiver.start()
        at_ns = time.monotonic_ns() + LEAD_NS
        for flow in flows:
            flow.sender.ask_start({"at": at_ns})
        for flow in flows:
            flow.sender.wait_started()

    def _watch(self) -> None:
        while not self._over.wait(_POLL_S):
            with self.lock:
                for flow in self.running.values():
                    flow.take()


def _loops(plan: FlowPlan) -> int:
    assert plan.replay is not None
    return max(1, plan.frames // plan.replay.frames)
