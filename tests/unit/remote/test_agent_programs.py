"""The agent runs servers of other projects: their CPU time and their files."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from switchmark.host.session import open_session
from switchmark.remote.agent import HostAgent
from tests.unit.trial_fakes import SESSION


class FakeChannel:
    def __init__(self) -> None:
        self.sent: list[dict[str, Any]] = []

    def send(self, message: dict[str, Any]) -> None:
        self.sent.append(message)


BUSY = "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"


@pytest.mark.parametrize("script", [BUSY, f"{BUSY}; echo ready; exec sleep 60"])
def test_cpu_time_of_an_ended_program_is_kept(script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """iperf3 ends by itself, and sockperf is ended by the bench."""
    folder = tempfile.TemporaryDirectory()  # short enough for the paths of sockets
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", folder.name)
    with folder, open_session(measuring=False) as session:
        channel = FakeChannel()
        agent = HostAgent(session, channel)  # type: ignore[arg-type]
        started = agent.do_spawn(["sh", "-c", script], None)
        deadline = time.monotonic() + 60
        awaited = "line" if "ready" in script else "ended"
        while not any(awaited in message for message in channel.sent):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        if awaited == "line":
            assert agent.do_cpu_s([started["pid"]]) > 0
            agent.do_process(started["process"], "terminate", [1.0])
        used_s = agent.do_cpu_s([started["pid"]])
        assert 0.001 < used_s < 60
        assert agent.do_cpu_s([started["pid"]]) == used_s, "it has ended"


def test_files_are_written_only_into_the_session(tmp_path: Path) -> None:
    agent = HostAgent(replace(SESSION, run_dir=tmp_path), FakeChannel())  # type: ignore[arg-type]
    assert agent.do_make_folder("nginx-rx0") == tmp_path / "nginx-rx0"
    agent.do_write("../nginx-rx0", "../nginx.conf", b"daemon off;")
    assert (tmp_path / "nginx-rx0" / "nginx.conf").read_text() == "daemon off;"
