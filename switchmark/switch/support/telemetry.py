"""The base of switches that are programs on DPDK: telemetry (version 2), which a control thread of
theirs answers, has the state of their ports."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from switchmark.errors import TrialFailed
from switchmark.host.process_output import parsing
from switchmark.model.ports import SwitchPort
from switchmark.switch.support.options import WithOptions
from switchmark.switch.support.private import check_socket_path
from switchmark.switch.support.program import ProgramSwitch

ANSWER_TIMEOUT_S = 10.0
ANSWER_BYTES = 1 << 16


def ask_telemetry(path: str, questions: Sequence[str]) -> list[Any]:
    """The answers to these questions. Raises OSError, TrialFailed."""
    answers = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(path)
        connection.recv(ANSWER_BYTES)  # its version, and who it is
        for question in questions:
            connection.send(question.encode())
            answers.append(telemetry(connection.recv(ANSWER_BYTES), question))
    return answers


def telemetry(answer: bytes, question: str) -> Any:
    """What DPDK's telemetry answers. Raises TrialFailed for another form."""
    with parsing("DPDK's telemetry"):
        return json.loads(answer)[question.partition(",")[0]]


class TelemetrySwitch(WithOptions, ProgramSwitch):
    """A program on DPDK that answers; `launch` says where, and how DPDK numbers its ports."""

    _telemetry: str  # the path of its socket
    _numbers: Mapping[int, int]  # of each port, DPDK's

    @staticmethod
    def telemetry_socket(folder: Path, prefix: str) -> str:
        """The path of the socket, where DPDK's runtime directory and file prefix are these."""
        return check_socket_path(folder / "dpdk" / prefix / "dpdk_telemetry.v2")

    def answers_so_far(self, question: str) -> Any:
        """The answer to a question while the program starts; None while there is none."""
        try:
            return ask_telemetry(self._telemetry, [question])[0]
        except (OSError, TrialFailed):
            return None

    def ask(self, what: str, count: int) -> list[Any]:
        """What it tells of DPDK's first ports. Raises `TrialFailed` where it does not answer."""
        try:
            return ask_telemetry(self._telemetry, [f"/ethdev/{what},{n}" for n in range(count)])
        except (OSError, TrialFailed) as error:
            words = self.alive() or f"telemetry does not answer /ethdev/{what} ({error})"
            raise TrialFailed(f"{self.name}: {words}") from None

    def waiting(self) -> list[SwitchPort]:
        """The ports whose DPDK device has no link."""
        links = self.ask("link_status", len(self.ports))
        with parsing(self.name):
            return [p for p in self.ports if links[self._numbers[p.index]]["status"] != "UP"]
