"""The congestion control of connections: those of the application, and no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from switchmark.trial.tcp_path import seen_congestion_control


class FakeHost:
    """Notes the command, and answers as `ss` does."""

    def __init__(self) -> None:
        self.commands: list[list[str]] = []

    def run(self, command: list[str], **_: object) -> SimpleNamespace:
        self.commands.append(command)
        return SimpleNamespace(exit_code=0, stdout="ESTAB 0 0 a b\n\t cubic wscale:7,7 rto:201\n")


def node(**port: object) -> Any:
    usual = {"ip": "10.0.0.1/24", "peer_ip": "10.9.9.9/32", "tcp_port": None, "peer_tcp_port": None}
    return SimpleNamespace(netns="n", spec=SimpleNamespace(port=SimpleNamespace(**usual | port)))


@pytest.mark.parametrize(
    ("is_client", "port", "query"),
    [
        (True, {}, ["dst", "10.9.9.9:18001"]),
        (True, {"peer_tcp_port": 8080}, ["dst", "10.9.9.9:8080"]),
        (False, {}, ["src", "10.0.0.1:18001"]),
        (False, {"tcp_port": 17123}, ["src", "10.0.0.1:17123"]),
    ],
)
def test_only_connections_of_the_application_are_asked_for(
    is_client: bool, port: dict[str, object], query: list[str]
) -> None:
    """A program of the user may have the usual port of the bench at its end."""
    host = FakeHost()
    session: Any = SimpleNamespace(host=host)
    control = seen_congestion_control(session, node(**port), ("reno", "cubic"), is_client=is_client)
    assert control == "cubic"
    (command,) = host.commands
    assert command[-2:] == query
