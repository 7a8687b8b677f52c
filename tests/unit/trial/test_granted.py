"""Grants of the place are recorded, and comparisons across different grants carry a mark."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from switchmark.cli import main
from switchmark.engine.events import SocketBuffers
from switchmark.engine.process import EngineProcess
from switchmark.host.kernel.procfs import class_in_words, scheduling_classes
from switchmark.record import Granted, Record
from switchmark.results.export import flat_rows
from switchmark.results.summary import summary
from switchmark.switch.af_packet import AfPacket
from switchmark.trial.granted import granted
from tests.unit.histories import dated, scaled
from tests.unit.records import synthetic_record, synthetic_trial, write_run
from tests.unit.trial_fakes import trial

ASKED, CAPPED = 128 << 20, 8 << 20


def engine(received: int | None, policy: str = "other", priority: int = 0) -> EngineProcess:
    """An application, with a socket if it has a buffer."""
    buffers = received and SocketBuffers(
        asked_bytes=ASKED, receive_bytes=received, send_bytes=ASKED, busy_poll=False
    )
    used = SimpleNamespace(policy=policy, priority=priority, nice=0)
    fake = SimpleNamespace(
        ready=SimpleNamespace(ports=[SimpleNamespace(buffers=buffers or None)]),
        has_result=True,
        result=SimpleNamespace(cpu=SimpleNamespace(scheduling=used)),
    )
    return cast(EngineProcess, fake)


def test_buffers_below_the_request_are_reported() -> None:
    found = granted(trial(), [engine(ASKED), engine(CAPPED)], [os.getpid()])
    assert (found.asked_buffer_bytes, found.receive_buffer_bytes) == (ASKED, CAPPED)
    assert found.send_buffer_bytes == ASKED
    (line,) = found.differs
    assert "of 64 MiB, and got 4 MiB for receiving and 64 MiB for sending" in line
    assert not granted(trial(), [engine(ASKED)], []).differs
    assert not granted(trial(socket_buffers="unforced"), [engine(CAPPED)], []).differs


def test_applications_without_sockets_have_no_buffers() -> None:
    found = granted(trial(), [engine(None)], [])
    assert found.asked_buffer_bytes is found.receive_buffer_bytes is found.switch_class is None
    assert found.applications_class == "other"
    mixed = granted(trial(), [engine(None), engine(None, "fifo", 50)], [])
    assert mixed.applications_class == "fifo 50; other"


def test_scheduling_classes_are_those_of_the_kernel() -> None:
    """The record has the lower priority of a program, independent of the bench's priority."""
    nice = os.getpriority(os.PRIO_PROCESS, 0)
    process = subprocess.Popen(["nice", "-n", "3", "sleep", "60"])
    try:
        name = Path(f"/proc/{process.pid}/comm")
        while name.read_text().strip() != "sleep":  # until `nice` has become it
            time.sleep(0.001)
        assert scheduling_classes([process.pid]) == {f"other nice {min(19, nice + 3)}"}
    finally:
        process.kill()
        process.wait()
    assert scheduling_classes([process.pid]) == set()
    assert class_in_words("fifo", 50, 0) == "fifo 50"
    assert class_in_words("other", 0, 0) == "other"


def test_af_packet_does_not_force_buffers_on_request() -> None:
    switch = AfPacket()
    assert switch._more_arguments("x") == []
    switch.unforced_buffers = True
    assert switch._more_arguments("x") == ["--unforced-buffers"]


def records(received: int | None, switch: str = "linux-bridge", **more: Any) -> list[Record]:
    given = Granted(
        place="root", in_user_namespace=False, asked_buffer_bytes=received and ASKED,
        receive_buffer_bytes=received, send_buffer_bytes=received, **{
            "applications_class": "other", **more,
        },
    )  # fmt: skip
    return [
        synthetic_record(
            synthetic_trial(switch=switch, repetition=number), marks=[], number=number,
            granted=given,
        )
        for number in range(3)
    ]  # fmt: skip


def marks(root: Path, stored: Sequence[Record]) -> dict[str, tuple[str, ...]]:
    return {row.trial.switch: row.marks for row in summary(write_run(root, list(stored)))}


def test_only_rows_with_other_buffers_are_marked(tmp_path: Path) -> None:
    alike = [*records(ASKED), *records(ASKED, "ovs-netdev"), *records(None, "basicfwd")]
    assert set(marks(tmp_path / "alike", alike).values()) == {()}
    mixed = [*records(ASKED), *records(CAPPED, "ovs-netdev")]
    found = marks(tmp_path / "mixed", mixed)
    assert set(found.values()) == {("mixed-socket-buffers",)}
    classes = [*records(ASKED), *records(ASKED, "ovs-netdev", applications_class="fifo 50")]
    found = marks(tmp_path / "classes", classes)
    assert set(found.values()) == {("mixed-scheduling",)}


def test_grants_are_columns(tmp_path: Path) -> None:
    (row,) = flat_rows(summary(write_run(tmp_path, records(CAPPED, switch_class="other nice 3"))))
    assert row["receive_buffer_bytes"] == str(CAPPED)
    assert (row["switch_class"], row["place"]) == ("other nice 3", "root")


def test_compare_marks_runs_with_other_grants(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b = write_run(tmp_path, records(ASKED)), write_run(tmp_path, records(CAPPED))
    assert main.run(["compare", str(a), str(b)]) == 0
    output = " ".join(capsys.readouterr().out.split())
    assert "mixed-socket-buffers" in output
    assert "mixed-scheduling" not in output
    assert main.run(["compare", str(a), str(a)]) == 0
    assert "mixed-socket-buffers" not in capsys.readouterr().out


def test_history_names_other_grants_beside_a_change(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for night in range(12):
        received, rate_pps = (ASKED, 1e6) if night < 6 else (CAPPED, 0.8e6)
        records_of_runs = [
            scaled(one, rate_pps * (1 + night / 1e4 + number / 1e5))
            for number, one in enumerate(records(received))
        ]
        dated(write_run(tmp_path, records_of_runs, campaign="nightly"), night)
    assert main.run(["history", "linux-bridge", "--results", str(tmp_path), "--json"]) == 0
    (series,) = json.loads(capsys.readouterr().out)["series"]
    (change,) = series["changes"]
    assert f"granted: socket buffers of {ASKED} and {ASKED} bytes / " in change["also_different"][0]
    assert "scheduling" not in change["also_different"][0], "it did not change"
