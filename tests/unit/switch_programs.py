"""Helpers for tests of switches that are programs: ports, and scripts as programs."""

from __future__ import annotations

from pathlib import Path

from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch import t4p4s

CROSS, LEARNING, STATIC = (
    ConnectMode.CROSS_CONNECT,
    ConnectMode.LEARNING,
    ConnectMode.STATIC_MAC,
)
PORTS = [
    SwitchPort(k, PortKind.VHOST_USER, t4p4s.table()[k], socket=f"/run/p{k}.sock") for k in range(4)
]


def script(path: Path, text: str) -> str:
    """Write an executable file; return its path."""
    path.write_text(text if text.startswith("#!") else "#!/bin/sh\n" + text)
    path.chmod(0o755)
    return str(path)
