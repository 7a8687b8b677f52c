"""A capture is complete, however little CPU time tcpdump gets."""

from __future__ import annotations

import os
import shutil
import signal
import threading
from pathlib import Path

import pytest

from switchmark.host.host import Session
from switchmark.otg.capture import start_capture
from switchmark.otg.types import Capture
from tests.integration.machine import needs_root
from tests.integration.otg_server import packets
from tests.integration.switch_rig import BROADCAST, FRAME_BYTES, veth_ends

pytestmark = [pytest.mark.integration, pytest.mark.usefixtures("state_dir"), needs_root]
FRAMES = 60
HELD_S = 0.5  # longer than a file must stay unchanged


@pytest.mark.skipif(shutil.which("tcpdump") is None, reason="no tcpdump (apt install tcpdump)")
def test_frames_while_tcpdump_was_stopped_are_captured(session: Session) -> None:
    with veth_ends(session, 1) as (end,):
        running = start_capture(
            session, "p1", end.port.device, Capture(port_names=["p1"], name="c")
        )
        pid = running.process.pid
        assert Path(f"/proc/{pid}/comm").read_text() == "tcpdump\n"
        os.kill(pid, signal.SIGSTOP)
        end.send(BROADCAST, FRAMES)
        later = threading.Timer(HELD_S, os.kill, (pid, signal.SIGCONT))
        later.start()
        running.stop()
        later.join()
        with running.file.open("rb") as data:
            assert [len(one) for one in packets(data)] == [FRAME_BYTES] * FRAMES
