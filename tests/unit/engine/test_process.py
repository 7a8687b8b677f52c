"""The engine client: each fault of an engine is reported by its cause and within a time limit."""

from __future__ import annotations

import json
from base64 import b64decode
from collections import deque
from dataclasses import dataclass
from typing import Any

import pytest

from switchmark.engine.events import Totals
from switchmark.engine.process import table_row, tunnel_row
from switchmark.errors import TrialFailed
from tests.unit.engine_lines import counted, event
from tests.unit.trial_fakes import (
    T0,
    FakeEngine,
    S,
    interval,
    process,
    result,
    samples,
)


def started(*lines: str) -> dict[str, object]:
    return {"start": lambda _: [event("started", t_ns=T0), *lines]}


def test_trial_from_ready_to_result() -> None:
    fake = FakeEngine(started(*samples(3, rx_frames=7), result()))  # type: ignore[arg-type]
    fake.lines.append(event("ready", role="receiver", ports=[]))
    engine = process(fake, "receiver")
    engine.wait_ready(1)
    assert engine.ready.role == "receiver"
    engine.start(duration=2, frame_size=64)
    assert fake.commands == ["start duration=2 frame-size=64"]
    assert engine.started_ns == T0
    assert engine.wait_result(1).duration_ns == 2 * S
    assert [line.rx_frames for line in engine.intervals] == [7] * 3
    run = engine.as_run()
    assert (run.node, run.role, len(run.intervals)) == ("re0", "receiver", 3)
    assert run.ready == json.loads(event("ready", role="receiver", ports=[]))
    assert run.result == json.loads(result()), "the record has the printed fields"
    assert run.intervals[0].counters["rx_frames"] == 7
    assert run.intervals[0].counters.keys() == Totals.model_fields.keys()


def test_second_trial_discards_the_first() -> None:
    fake = FakeEngine(started(*samples(2), result()))  # type: ignore[arg-type]
    engine = process(fake)
    engine.start()
    engine.wait_result(1)
    fake.answers = {"start": lambda _: [event("started", t_ns=T0 + 5)]}
    engine.start()
    assert not engine.has_result and engine.intervals == [] and engine.started_ns == T0 + 5


def test_verification_and_counters() -> None:
    engine = process(FakeEngine())
    assert engine.verify(16) == 16
    assert engine.counters() == counted()


def frame(number: int) -> str:
    return event("captured", length_bytes=60, hex=f"{number:02x}" * 60)


def test_inject_sends_many_frames_in_several_commands() -> None:
    fake = FakeEngine()
    fake.answers["inject"] = lambda fake: [
        event("injected", accepted=[True] * (len(fake.commands[-1].split()) - 2))
    ]
    engine = process(fake)
    assert engine.inject([b"\x01" * 14, b"\x02" * 15], port=1) == (True, True)
    assert fake.commands == [f"inject port=1 {'01' * 14} {'02' * 15}"]
    assert engine.inject([bytes(9014)] * 7) == (True,) * 7
    assert [len(line.split()) - 2 for line in fake.commands[1:]] == [3, 3, 1]
    assert max(map(len, fake.commands)) < 65_534
    assert engine.inject([]) == ()


def test_inject_with_a_wrong_number_of_answers_fails() -> None:
    fake = FakeEngine({"inject": lambda _: [event("injected", accepted=[True])]})
    with pytest.raises(TrialFailed, match="answered for 1 of 2 frames"):
        process(fake).inject([bytes(14), bytes(14)])


def capturing(*frames: str) -> FakeEngine:
    """An engine that captures these frames."""

    def answer(fake: FakeEngine) -> list[str]:
        count = int(fake.commands[-1].split()[1])
        return [event("capturing", frames=count), *(frames if count else ())]

    return FakeEngine({"capture": answer})


def test_captured_returns_all_frames_without_waiting() -> None:
    fake = capturing(frame(1), frame(2))
    engine = process(fake)
    engine.capture(2)
    assert [frame.data for frame in engine.captured(60)] == [b"\x01" * 60, b"\x02" * 60]
    assert fake.commands == ["capture 2"]


def test_captured_at_its_timeout_ends_the_capture() -> None:
    fake = capturing(frame(1))
    engine = process(fake)
    engine.capture(9)
    assert len(engine.captured(0.01)) == 1
    assert fake.commands == ["capture 9", "capture 0"]
    engine.capture(1)
    assert len(engine.captured(60)) == 1, "frames of an earlier capture do not count"


def test_captured_ends_when_there_is_enough() -> None:
    fake = capturing(frame(1), frame(2), frame(3))
    engine = process(fake)
    engine.capture(9)
    frames = engine.captured(60, enough=lambda some: some[-1:] != [] and some[-1].data[0] == 2)
    assert len(frames) == 3, "frames that came before the end of the capture also count"
    assert fake.commands == ["capture 9", "capture 0"]


def test_captured_frames_beyond_the_number_fail() -> None:
    engine = process(capturing(frame(1), frame(2)))
    engine.capture(1)
    with pytest.raises(TrialFailed, match="more captured frames than it may"):
        engine.captured(60)
        engine.counters()


def loading(kind: str) -> FakeEngine:
    """An engine that counts the rows of 16 bytes that it gets."""
    rows = [0, 0]

    def answer(fake: FakeEngine) -> list[str]:
        word = fake.commands[-1].split()[1]
        if word.startswith("rows="):
            rows[:] = [int(word.removeprefix("rows=")), 0]
        else:
            rows[1] += len(b64decode(word)) // 16
        return [event("table", kind=kind, rows=rows[0], loaded=rows[1])]

    return FakeEngine({kind: answer})


def test_send_table_splits_rows_at_row_boundaries() -> None:
    fake = loading("table")
    row = table_row(b"\x0a\0\0\1", b"\x14\0\0\1", (1000, 2000), 1, 2)
    assert row.hex() == "0a0000011400000103e807d000010002"
    tunnel = tunnel_row(
        70000, b"\x01\2\3\4", b"\5\6\7\x08", "02:00:00:00:00:01", "02:00:00:00:00:02"
    )
    assert tunnel.hex() == "000111700102030405060708" + "020000000001" + "020000000002"
    process(fake).send_table(row * 10_000, 10_000, zipf=1.1, seed=3)
    assert fake.commands[0] == "table rows=10000 zipf=1.1 seed=3"
    assert len(fake.commands) == 5 and max(map(len, fake.commands)) < 65_534
    parts = [b64decode(line.split()[1]) for line in fake.commands[1:]]
    assert b"".join(parts) == row * 10_000
    assert all(len(part) % 16 == 0 for part in parts)


def test_send_table_of_no_rows_removes_it() -> None:
    fake = loading("denied")
    process(fake).send_table(b"", 0, "denied")
    assert fake.commands == ["denied rows=0"]


def test_send_table_that_is_not_loaded_whole_fails() -> None:
    fake = loading("table")
    with pytest.raises(TrialFailed, match="loaded 3 of 4 rows of its table"):
        process(fake).send_table(bytes(48), 4)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("Segmentation fault", "not an event: Segmentation fault"),
        ("[1, 2]", "not an event"),
        ('"text"', "not an event"),
        ("7", "not an event"),
        ('{"v": 2}', "not an event"),
        ('{"event": "ready"}', "not an event"),
        ('{"v": 2, "event": "ready"', "not an event"),
        ('{"v": 1, "event": "ready"}', "protocol 1, the bench 2: install both from the same"),
        ('{"v": 2, "event": "error", "message": "no such device eth7"}', "no such device eth7"),
    ],
)
def test_line_that_is_not_an_event_fails(line: str, message: str) -> None:
    engine = process(FakeEngine(lines=deque([line])))
    with pytest.raises(TrialFailed, match=message):
        engine.wait_ready(1)


def test_long_invalid_line_is_cut_in_the_message() -> None:
    engine = process(FakeEngine(lines=deque(["x" * 5000])))
    with pytest.raises(TrialFailed) as caught:
        engine.wait_ready(1)
    assert len(str(caught.value)) < 300


def test_missing_field_is_reported_with_engine_and_field() -> None:
    line = interval(0, 0.2).replace('"index"', '"other"')
    engine = process(FakeEngine(started(line)))  # type: ignore[arg-type]
    engine.start()
    with pytest.raises(TrialFailed, match="sender in se0 printed 'interval' with index: Field req"):
        engine.pump(0)


def test_missing_event_raises_an_error() -> None:
    engine = process(FakeEngine())
    with pytest.raises(TrialFailed, match="sender in se0 is not ready"):
        _ = engine.ready
    with pytest.raises(TrialFailed, match="sender in se0 has no result"):
        _ = engine.result
    assert engine.as_run().result == {}


def test_times_of_another_host_are_converted() -> None:
    engine = process(FakeEngine(started(*samples(1), result())))  # type: ignore[arg-type]
    engine.ahead_ns = 7
    engine.start()
    engine.wait_result(1)
    assert engine.started_ns == T0 - 7
    assert engine.intervals[0].t_ns == T0 + S // 5 - 7


def test_exit_during_a_trial_has_code_and_last_error_line() -> None:
    fake = FakeEngine(started(*samples(1)), stderr="warming up\nEAL: out of memory\n")  # type: ignore[arg-type]
    engine = process(fake)
    engine.start()
    fake.exit_code = 1
    with pytest.raises(TrialFailed) as caught:
        engine.wait_result(5)
    assert str(caught.value) == "sender in se0 ended with exit code 1: EAL: out of memory"
    assert len(engine.intervals) == 1, "the record has the intervals before the exit"


def test_command_to_an_ended_engine_reports_the_cause() -> None:
    """The cause is its exit code or its last error, not the broken pipe."""
    fake = FakeEngine(exit_code=-9)
    with pytest.raises(TrialFailed, match="sender in se0 ended with exit code -9"):
        process(fake).verify(1)
    lines = deque([event("error", message="port died")])
    fake = FakeEngine(exit_code=1, lines=lines, stderr="switchmark-traffic: port died\n")
    with pytest.raises(TrialFailed, match=r"^sender in se0 port died$"):
        process(fake).request_stop()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("ready", "no 'ready' event within 0.1 s"),
        ("verify", "no 'verification' event within 0.1 s"),
        ("counters", "no 'counters' event within 0.1 s"),
        ("start", "no 'started' event within 0.1 s"),
        ("result", "no result within 0.1 s"),
    ],
)
def test_missing_event_has_a_deadline(
    call: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("switchmark.engine.process.ANSWER_TIMEOUT_S", 0.1)
    no_answers: Any = dict.fromkeys(("verify", "counters", "start"), lambda _: [])
    engine = process(FakeEngine(no_answers, stderr="busy"))
    calls = {
        "ready": lambda: engine.wait_ready(0.1),
        "verify": lambda: engine.verify(1, timeout_s=0.1),
        "counters": lambda: engine.counters(timeout_s=0.1),
        "start": engine.start,
        "result": lambda: engine.wait_result(0.1),
    }
    with pytest.raises(TrialFailed, match=f"{message}: busy"):
        calls[call]()


def test_result_in_the_pipe_counts_after_the_deadline() -> None:
    """A bench that had no core reads the pipe late."""
    engine = process(FakeEngine(started(*samples(2), result())))  # type: ignore[arg-type]
    engine.start()
    assert engine.wait_result(0).duration_ns == 2 * S


def test_pump_reads_all_lines_and_returns() -> None:
    fake = FakeEngine(started(*samples(4)))  # type: ignore[arg-type]
    engine = process(fake)
    engine.start()
    engine.pump(0.05)
    assert len(engine.intervals) == 4 and not engine.has_result
    engine.pump(0.05)
    assert len(engine.intervals) == 4


def test_close_ends_the_input_and_terminates_later() -> None:
    fake = FakeEngine()
    process(fake).close()
    assert fake.exit_code == 0
    dead = FakeEngine(exit_code=3)
    process(dead).close()
    assert dead.exit_code == 3

    class Stuck(FakeEngine):
        def close_input(self) -> None:
            pass

    stuck = Stuck()
    process(stuck).close()
    assert stuck.exit_code == -15


@dataclass
class Flooding(FakeEngine):
    """Prints the same line again and again, faster than the bench reads."""

    line: str = event("verification", sent=1)

    def read_line(self, timeout_s: float) -> str:
        return self.lines.popleft() if self.lines else self.line


def test_flood_of_lines_does_not_stop_the_deadlines(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in (("PUMP_S", 0.05), ("_LAST_WORDS_S", 0.05)):
        monkeypatch.setattr(f"switchmark.engine.process.{name}", value)
    monkeypatch.setattr("switchmark.engine.deadline.READ_ON_S", 0.1)
    fake = Flooding(started() | {"counters": lambda _: []})  # type: ignore[arg-type]
    engine = process(fake)
    engine.start()
    assert engine.pump(0)
    with pytest.raises(TrialFailed, match=r"no result within 0.1 s"):
        engine.wait_result(0.1)
    with pytest.raises(TrialFailed, match=r"no 'counters' event within 0.1 s"):
        engine.counters(timeout_s=0.1)
    fake.exit_code = 1
    with pytest.raises(TrialFailed, match="takes no more commands"):
        engine.request_stop()


def test_too_many_intervals_fail_the_trial(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("switchmark.engine.process.SPARE_INTERVALS", 100)
    engine = process(Flooding(started(), line=interval(0, 0.2)))  # type: ignore[arg-type]
    engine.start()
    with pytest.raises(TrialFailed, match=r"sender in se0 printed \d+ intervals, too many"):
        engine.wait_result(1)
    assert 100 < len(engine.intervals) < 100 + 2 * 1000


def test_all_samples_of_a_long_trial_are_read_after_a_delay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("switchmark.engine.process.PUMP_S", 0.01)
    fake = FakeEngine(started(*samples(20_000, 0.001), result(20.0)))  # type: ignore[arg-type]
    engine = process(fake)
    engine.start()
    engine._asked_s -= 20.0
    assert engine.wait_result(0).duration_ns == 20 * S
    assert len(engine.intervals) == 20_000
