"""A frame of the proof as bytes on a port: plain, or inside a tunnel's outer headers."""

from __future__ import annotations

from switchmark.function.support.frames import Frame, parse
from switchmark.function.support.functions import Passing
from switchmark.function.support.table import FunctionTable, Tunnel


def wire_bytes(passing: Passing, tunnel: Tunnel | None) -> bytes:
    """Return the bytes of a frame as the tester sends it."""
    if tunnel is not None:
        raise NotImplementedError("tunnels are part of the function vxlan")
    return passing.frame.to_bytes()


def arrived_frame(table: FunctionTable, data: bytes, expected: Passing) -> tuple[Frame, list[str]]:
    """Return the frame that arrived, without outer headers, and what is wrong with these. Raises
    ValueError if the bytes are not such a frame."""
    del table
    if expected.tunnel is not None:
        raise ValueError("tunnels are part of the function vxlan")
    return parse(data), []
