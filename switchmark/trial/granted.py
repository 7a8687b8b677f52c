"""Reads what the place granted the programs of a trial: socket buffers and scheduling classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from switchmark.engine.arguments import UNFORCED
from switchmark.engine.process import EngineProcess
from switchmark.host import place
from switchmark.host.kernel.procfs import class_in_words, scheduling_classes
from switchmark.host.place.kinds import is_user_namespace
from switchmark.model.trial import Trial
from switchmark.record import Granted


def granted(trial: Trial, engines: Sequence[EngineProcess], switch_pids: Iterable[int]) -> Granted:
    """Return the grants. Call it while the switch runs, after the applications' results."""
    buffers = [port.buffers for one in engines for port in one.ready.ports if port.buffers]
    requested = max((one.asked_bytes for one in buffers), default=None)
    receive = min((one.receive_bytes for one in buffers), default=None)
    send = min((one.send_bytes for one in buffers), default=None)
    used = [one.result.cpu.scheduling for one in engines if one.has_result]
    classes = {class_in_words(one.policy or "unknown", one.priority, one.nice) for one in used}
    least = min(receive or 0, send or 0)
    differs = []
    if trial.socket_buffers != UNFORCED and requested is not None and least < requested:
        differs.append(
            f"the applications requested socket buffers of {_mib(requested)}, and got "
            f"{_mib(receive)} for receiving and {_mib(send)} for sending (the kernel reports twice "
            "these sizes)"
        )
    return Granted(
        place=place.kind().value,
        in_user_namespace=is_user_namespace(Path("/proc/self/uid_map").read_text()),
        asked_buffer_bytes=requested,
        receive_buffer_bytes=receive,
        send_buffer_bytes=send,
        busy_poll=any(one.busy_poll for one in buffers),
        applications_class="; ".join(sorted(classes)) or None,
        switch_class="; ".join(sorted(scheduling_classes(switch_pids))) or None,
        differs=differs,
    )


def _mib(reported_bytes: int | None) -> str:
    """Return the size that a program requests for a buffer of which the kernel reports this size:
    the kernel doubles the size, to have room for its own data."""
    return f"{(reported_bytes or 0) / 2 / 2**20:.3g} MiB"
