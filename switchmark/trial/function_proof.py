"""The proof of a network function: frames that must arrive as expected, and frames that must not.

Each frame of the proof has a number in its payload. All testers capture what arrives while the
frames are sent at a low rate. A frame must arrive at the port, and with the content, that the
neutral table says, exactly once, and nowhere else. The table that the switch got plays no part.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from switchmark.engine.events import Captured
from switchmark.engine.process import EngineProcess
from switchmark.errors import SwitchmarkError, TrialFailed
from switchmark.formatting import first_of
from switchmark.function.registry import cases, forwarded
from switchmark.function.support.frames import differences
from switchmark.function.support.functions import Case, Passing
from switchmark.function.support.table import FunctionTable
from switchmark.function.support.wire import arrived_frame, free_fields, wire_bytes
from switchmark.model.functions import FunctionEntries
from switchmark.record.function import FunctionNote

MAGIC = b"smproof!"
BATCH = 8  # frames sent together
GAP_S = 0.002  # between batches
ARRIVAL_TIMEOUT_S = 3.0
SILENCE_S = 0.15  # in which frames that must not arrive would have arrived
ATTEMPTS = 3  # for a frame that must arrive: an idle switch may lose the first one
MOST_VALUES = 4  # a record lists so many values of a free outer field
MOST_WRONG = 3  # that a message names
CAPTURE_SPARE = 4096


@dataclass(frozen=True, slots=True)
class Probe:
    """A frame of the proof with its number, and what must become of it."""

    number: int
    case: Case
    sent: bytes
    expected: Passing | None
    entered: Passing

    @property
    def egresses(self) -> tuple[int, ...]:
        """The ports at which the frame must arrive, once each."""
        if self.expected is None or self.expected.egress is None:
            return ()
        return (self.expected.egress, *self.expected.copies)


@dataclass
class Findings:
    """The frames that arrived, and their differences from the table."""

    arrivals: dict[tuple[int, int], int] = field(default_factory=dict)  # (probe, port) -> times
    wrong: list[str] = field(default_factory=list)
    sent_again: dict[int, int] = field(default_factory=dict)  # probe -> further times
    outer: list[dict[str, str]] = field(default_factory=list)  # free fields of outer headers


def probes_of(table: FunctionTable) -> list[Probe]:
    """Return the probes of all functions of a table."""
    probes = []
    for number, case in enumerate(cases(table)):
        payload = MAGIC + number.to_bytes(4) + bytes(len(case.passing.frame.payload) - 12)
        entered = replace(case.passing, frame=replace(case.passing.frame, payload=payload))
        probes.append(
            Probe(number, case, wire_bytes(entered, entered.received_in),
                  forwarded(table, entered), entered)
        )  # fmt: skip
    return probes


def prove(
    switch: str,
    table: FunctionTable,
    testers: Mapping[int, EngineProcess],
    entries: Callable[[], FunctionEntries],
) -> FunctionNote:
    """Send the frames of the proof and compare what arrives; `testers` by port of the switch.

    Raises `TrialFailed` with the first differences."""
    counted = entries()
    if (problem := counted.disagreement) is not None:
        raise TrialFailed(f"{switch}: its tables differ from the table that was written: {problem}")
    probes = probes_of(table)
    findings = Findings()
    repeated = 0
    open_ = probes
    for attempt in range(ATTEMPTS):
        _exchange(table, open_, probes, testers, findings)
        open_ = [
            p for p in probes if any((p.number, e) not in findings.arrivals for e in p.egresses)
        ]
        if not open_ or findings.wrong:
            break
        if attempt < ATTEMPTS - 1:
            repeated += len(open_)
            for probe in open_:
                again = findings.sent_again.get(probe.number, 0)
                findings.sent_again[probe.number] = again + 1
    wrong = [*findings.wrong, *_missing(open_)]
    if wrong:
        raise TrialFailed(
            f"{switch} does not perform function {'+'.join(table.functions)}: "
            f"{first_of(wrong, MOST_WRONG, '; ')}"
        )
    memory = counted.memory
    arriving = sum(bool(probe.egresses) for probe in probes)
    return FunctionNote(
        functions=list(table.functions),
        table=table.digest(),
        announced=dict(counted.announced),
        read_back=dict(counted.read_back),
        load_time_s=counted.load_time_s,
        memory_before_kib=memory.before_kib if memory else None,
        memory_after_kib=memory.after_kib if memory else None,
        memory_is_kernel=memory is not None and memory.is_kernel,
        loads_at_start=counted.loads_at_start,
        cases=len(probes),
        must_arrive=arriving,
        must_not_arrive=len(probes) - arriving,
        repeated=repeated,
        outer=summary(findings.outer),
    )


def summary(rows: Sequence[Mapping[str, str]]) -> dict[str, str]:
    """Return for each field its values, or their number if they are many."""
    values: dict[str, list[str]] = {}
    for row in rows:
        for name, value in row.items():
            values.setdefault(name, []).append(value)
    distinct = {name: sorted(set(every)) for name, every in values.items()}
    return {
        name: ", ".join(every) if len(every) <= MOST_VALUES else f"{len(every)} values"
        for name, every in distinct.items()
    }


def _missing(probes: Sequence[Probe]) -> Iterator[str]:
    for probe in probes:
        ports = " and ".join(str(port) for port in probe.egresses)
        yield f"{probe.case.name}: it did not arrive at port {ports}"


def _exchange(
    table: FunctionTable,
    sending: Sequence[Probe],
    probes: Sequence[Probe],
    testers: Mapping[int, EngineProcess],
    findings: Findings,
) -> None:
    """Send probes, and add what arrives to the findings."""
    for tester in testers.values():
        tester.capture(len(probes) * 2 + CAPTURE_SPARE)
    for at in range(0, len(sending), BATCH):
        by_port: dict[int, list[bytes]] = {}
        for probe in sending[at : at + BATCH]:
            by_port.setdefault(probe.entered.ingress, []).append(probe.sent)
        for port, frames in by_port.items():
            refused = testers[port].inject(frames).count(False)
            if refused:
                raise TrialFailed(f"port {port} did not accept {refused} frames of the proof")
        time.sleep(GAP_S)
    required = {(probe.number, port) for probe in sending for port in probe.egresses}
    time.sleep(SILENCE_S)
    deadline = time.monotonic() + ARRIVAL_TIMEOUT_S
    for port, tester in testers.items():
        numbers = {number for number, egress in required if egress == port}

        def is_complete(frames: Sequence[Captured], numbers: set[int] = numbers) -> bool:
            return numbers <= {n for one in frames if (n := _number(one.data)) is not None}

        for frame in tester.captured(max(0.0, deadline - time.monotonic()), is_complete):
            _examine(table, frame, port, probes, findings)


def _number(data: bytes) -> int | None:
    """Return the number of a probe; None for any other frame."""
    at = data.find(MAGIC)
    return None if at < 0 else int.from_bytes(data[at + 8 : at + 12])


def _examine(
    table: FunctionTable, captured: Captured, port: int, probes: Sequence[Probe], to: Findings
) -> None:
    """Compare a captured frame with the probe of its number."""
    number = _number(captured.data)
    if number is None or number >= len(probes):
        return
    probe = probes[number]
    if port not in probe.egresses:
        must = "must be dropped" if not probe.egresses else f"belongs to port {probe.egresses[0]}"
        to.wrong.append(f"{probe.case.name}: it arrived at port {port}, and {must}")
        return
    times = to.arrivals.get((number, port), 0) + 1
    to.arrivals[number, port] = times
    if times > 1 + to.sent_again.get(number, 0):
        to.wrong.append(f"{probe.case.name}: it arrived {times} times at port {port}")
        return
    assert probe.expected is not None
    # A copy is the frame as it entered; the frame itself is what the function made of it.
    is_copy = port in probe.expected.copies
    expected = probe.entered if is_copy else probe.expected
    try:
        frame, problems = arrived_frame(table, captured.data, expected)
        problems = [*problems, *differences(expected.frame, frame)]
        if expected.tunnel is not None:
            to.outer.append(free_fields(captured.data))
    except (ValueError, SwitchmarkError) as error:
        problems = [str(error)]
    if problems:
        to.wrong.append(f"{probe.case.name}: {', '.join(problems)}")
