"""The base of switches that are programs on DPDK. The state of their ports comes from telemetry
(version 2), which a control thread answers."""

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
    """Return the answers to these queries. Raises OSError, TrialFailed."""
    answers = []
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as connection:
        connection.settimeout(ANSWER_TIMEOUT_S)
        connection.connect(path)
        connection.recv(ANSWER_BYTES)  # version and process
        for question in questions:
            connection.send(question.encode())
            answers.append(telemetry(connection.recv(ANSWER_BYTES), question))
    return answers


def telemetry(answer: bytes, question: str) -> Any:
    """Return the content of an answer of DPDK's telemetry. Raises TrialFailed for another form."""
    with parsing("DPDK's telemetry"):
        return json.loads(answer)[question.partition(",")[0]]


class TelemetrySwitch(WithOptions, ProgramSwitch):
    """A program on DPDK with telemetry; `launch` sets the path of its socket, and the numbers of
    its ports."""

    _telemetry: str  # the path of its socket
    _numbers: Mapping[int, int]  # DPDK's number of each port

    @staticmethod
    def telemetry_socket(folder: Path, prefix: str) -> str:
        """Return the path of the socket for this runtime directory and file prefix of DPDK."""
        return check_socket_path(folder / "dpdk" / prefix / "dpdk_telemetry.v2")

    def answers_so_far(self, question: str) -> Any:
        """Return the answer to a query while the program starts; None without an answer."""
        try:
            return ask_telemetry(self._telemetry, [question])[0]
        except (OSError, TrialFailed):
            return None

    def ask(self, topic: str, count: int) -> list[Any]:
        """Return the answers about DPDK's first ports. Raises `TrialFailed` without an answer."""
        try:
            return ask_telemetry(self._telemetry, [f"/ethdev/{topic},{n}" for n in range(count)])
        except (OSError, TrialFailed) as error:
            problem = self.alive() or f"telemetry does not answer /ethdev/{topic} ({error})"
            raise TrialFailed(f"{self.name}: {problem}") from None

    def waiting(self) -> list[SwitchPort]:
        """Return the ports whose DPDK device has no link."""
        links = self.ask("link_status", len(self.ports))
        with parsing(self.name):
            return [p for p in self.ports if links[self._numbers[p.index]]["status"] != "UP"]
