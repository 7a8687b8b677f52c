"""Captures the frames that arrive at a device of the kernel in a pcap file, by tcpdump."""

from __future__ import annotations

import shutil
import struct
import time
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from switchmark.host.host import Session, Spawned
from switchmark.host.kernel import procfs
from switchmark.model.choices import FCS_BYTES
from switchmark.model.rights import Rights
from switchmark.otg.plan import FlowPlan
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused
from switchmark.otg.types import Capture, Config

READY_TIMEOUT_S = 10.0
# A capture is stopped after its file has not grown for the first time, or after the second time.
REST_S, MOST_REST_S = 0.1, 5.0
_POLL_S = 0.01
_BUFFER_KIB = 16384
_MAGICS = tuple(struct.pack("=I", magic) for magic in (0xA1B2C3D4, 0xA1B23C4D))  # us, ns
_FILE_HEAD_BYTES, _FRAME_HEAD = 24, struct.Struct("=IIII")
# The last field of the file's header is the link type. Its upper bits are the length of the FCS in
# 16-bit words.
_LINK = struct.Struct("=I")
_LINK_AT = _FILE_HEAD_BYTES - _LINK.size
_HAS_FCS = 1 << 26 | (FCS_BYTES // 2) << 28
_NO_TCPDUMP = "needs tcpdump on the server (apt install tcpdump)"
_MOST_FRAME_BYTES = 0xFFFFFFFF - FCS_BYTES  # the field of the length has 32 bits


@dataclass
class RunningCapture:
    """The capture of one port, running or ended."""

    process: Spawned
    file: Path
    is_over: bool = False

    def stop(self) -> None:
        """End the capture; its file is then complete.

        tcpdump loses the frames in its ring when it is terminated. So this waits until the file no
        longer grows. The file does not grow either while tcpdump has no core, so tcpdump must also
        wait for frames."""
        if not self.is_over:
            self._wait_for_rest()
            self.process.terminate(grace_s=5.0)
            self.is_over = True

    def _wait_for_rest(self) -> None:
        deadline = time.monotonic() + MOST_REST_S
        last_size, since = -1, time.monotonic()
        while time.monotonic() < min(since + REST_S, deadline):
            size = self.file.stat().st_size if self.file.exists() else 0
            if size != last_size or not procfs.is_waiting(self.process.pid):
                last_size, since = size, time.monotonic()
            time.sleep(_POLL_S)


def check_captures(
    config: Config, ports: Mapping[str, TrafficPort], plans: Iterable[FlowPlan]
) -> None:
    """Raise `Refused` for captures that cannot be made, or that would stay empty."""
    known = {port.name: ports[port.location or ""] for port in config.ports or ()}
    taken = {plan.rx.taken_device: plan for plan in plans if plan.rx is not None}
    for n, capture in enumerate(config.captures or ()):
        path = f"captures[{n}]"
        if not capture.overwrite:
            raise Refused(f"{path}.overwrite: false is not supported")
        for name in capture.port_names:
            if name not in known:
                raise Refused(f"{path}.port_names: there is no port {name}")
            device = known[name].device
            if device is None:
                raise Refused(
                    f"{path}.port_names: port {name} is not a device of the kernel, so tcpdump "
                    "cannot listen there; offer it as raw"
                )
            if device in taken:
                raise Refused(
                    f"{path}.port_names: flow {taken[device].name} receives at device {device} "
                    f"past the kernel (port {taken[device].rx_name}), so tcpdump sees none of its "
                    "frames; offer that port as raw"
                )
            if shutil.which("tcpdump") is None:
                raise Refused(f"{path}: {_NO_TCPDUMP}", code=500)


def start_capture(
    session: Session, port: str, device: str | None, request: Capture
) -> RunningCapture:
    """Start tcpdump; return when it listens. Raises `Refused`."""
    if device is None:
        raise Refused(
            f"port.capture: port {port} is not a device of the kernel, so tcpdump cannot listen "
            "there; offer it as raw"
        )
    program = shutil.which("tcpdump")
    if program is None:
        raise Refused(f"port.capture: {_NO_TCPDUMP}", code=500)
    number = len(list(session.run_dir.glob("capture-*.pcap")))
    file, log = (session.run_dir / f"capture-{number}.{end}" for end in ("pcap", "log"))
    snap = ["-s", str(request.packet_size)] if request.packet_size else []
    quick = ["-U", "--immediate-mode", "-B", str(_BUFFER_KIB)]
    process = session.host.spawn(
        [program, "-i", device, "-Q", "in", "-w", str(file), *quick, "-Z", "root", *snap],
        log=log,
        rights=Rights(("net_raw", "setgid", "setuid")),  # tcpdump sets both IDs for `-Z`
    )
    deadline = time.monotonic() + READY_TIMEOUT_S
    while "listening on" not in _text(log):
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            lines = _text(log).strip().splitlines() or ["it printed no error"]
            raise Refused(f"port.capture: tcpdump: {lines[-1]}", code=500)
        time.sleep(_POLL_S)
    return RunningCapture(process, file)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def with_fcs(pcap: bytes) -> bytes:
    """Return the capture with the frame check sequence behind every frame, as other generators
    give it.

    The kernel removes the FCS, so it is computed again. The file's header states that the frames
    have an FCS, so that readers can leave it out. A frame that was cut gets none, though its length
    counts the FCS.

    Raises ValueError if the file is not a pcap file in this machine's byte order, or if it has a
    frame of 4 GiB."""
    if pcap[:4] not in _MAGICS:
        raise ValueError("it is not a pcap file in this machine's byte order")
    whole, at = bytearray(pcap[:_FILE_HEAD_BYTES]), _FILE_HEAD_BYTES
    (link,) = _LINK.unpack_from(whole, _LINK_AT)
    _LINK.pack_into(whole, _LINK_AT, link | _HAS_FCS)
    while at + _FRAME_HEAD.size <= len(pcap):
        seconds, fraction, captured, length = _FRAME_HEAD.unpack_from(pcap, at)
        at += _FRAME_HEAD.size
        frame = pcap[at : at + captured]
        at += captured
        if max(len(frame), length) > _MOST_FRAME_BYTES:
            raise ValueError(f"a frame has {length} bytes")
        if captured == length:
            frame += zlib.crc32(frame).to_bytes(FCS_BYTES, "little")
        whole += _FRAME_HEAD.pack(seconds, fraction, len(frame), length + FCS_BYTES) + frame
    return bytes(whole)
