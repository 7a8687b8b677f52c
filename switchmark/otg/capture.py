"""Captures what arrives at a port of the kernel, as a pcap file, by tcpdump."""

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
from switchmark.model.rights import Rights
from switchmark.otg.plan import FlowPlan
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused
from switchmark.otg.types import Capture, Config

READY_TIMEOUT_S = 10.0
REST_S, MOST_REST_S = 0.1, 5.0  # of a file that no longer grows
_POLL_S = 0.01
_BUFFER_KIB = 16384
FCS_BYTES = 4
_MAGICS = tuple(struct.pack("=I", magic) for magic in (0xA1B2C3D4, 0xA1B23C4D))  # us, ns
_FILE_HEAD_BYTES, _FRAME_HEAD = 24, struct.Struct("=IIII")
_LINK = struct.Struct("=I")  # the last field of the file's header: the link type, and in its upper
_LINK_AT = _FILE_HEAD_BYTES - _LINK.size  # bits how many 16-bit words of FCS each frame has
_HAS_FCS = 1 << 26 | (FCS_BYTES // 2) << 28
_NO_TCPDUMP = "needs tcpdump on the server (apt install tcpdump)"
_LONGEST = 0xFFFFFFFF - FCS_BYTES  # of the 32 bits that tell it


@dataclass
class RunningCapture:
    """The capture of one port, running or ended."""

    process: Spawned
    file: Path
    is_over: bool = False

    def stop(self) -> None:
        """End the capture; its file is then complete.

        tcpdump loses what lies in its ring when it is told to end, so it is told once it waits for
        frames and the file no longer grows: without a core the file does not grow, either."""
        if not self.is_over:
            self._wait_for_rest()
            self.process.terminate(grace_s=5.0)
            self.is_over = True

    def _wait_for_rest(self) -> None:
        deadline = time.monotonic() + MOST_REST_S
        seen, since = -1, time.monotonic()
        while time.monotonic() < min(since + REST_S, deadline):
            size = self.file.stat().st_size if self.file.exists() else 0
            if size != seen or not procfs.is_waiting(self.process.pid):
                seen, since = size, time.monotonic()
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
                    f"past the kernel (port {taken[device].rx_name}), so tcpdump sees nothing of "
                    "it; offer that port as raw"
                )
            if shutil.which("tcpdump") is None:
                raise Refused(f"{path}: {_NO_TCPDUMP}", code=500)


def start_capture(
    session: Session, port: str, device: str | None, asked: Capture
) -> RunningCapture:
    """Start to capture what arrives; returns once that has begun. Raises `Refused`."""
    if device is None:
        raise Refused(f"port.capture: port {port} is no device of the kernel: nothing can listen")
    program = shutil.which("tcpdump")
    if program is None:
        raise Refused(f"port.capture: {_NO_TCPDUMP}", code=500)
    number = len(list(session.run_dir.glob("capture-*.pcap")))
    file, log = (session.run_dir / f"capture-{number}.{end}" for end in ("pcap", "log"))
    snap = ["-s", str(asked.packet_size)] if asked.packet_size else []
    quick = ["-U", "--immediate-mode", "-B", str(_BUFFER_KIB)]
    process = session.host.spawn(
        [program, "-i", device, "-Q", "in", "-w", str(file), *quick, "-Z", "root", *snap],
        log=log,
        rights=Rights(("net_raw", "setgid", "setuid")),  # (`-Z` sets what it has)
    )
    deadline = time.monotonic() + READY_TIMEOUT_S
    while "listening on" not in _text(log):
        if process.poll() is not None or time.monotonic() > deadline:
            process.terminate()
            words = _text(log).strip().splitlines()
            raise Refused(
                f"port.capture: tcpdump: {words[-1] if words else 'says nothing'}", code=500
            )
        time.sleep(_POLL_S)
    return RunningCapture(process, file)


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""


def with_fcs(pcap: bytes) -> bytes:
    """The capture with the frame check sequence behind every frame, as of other generators.

    The kernel takes it off: it is computed anew, and the file's header says that it is there, so
    that readers can leave it out. A frame that was cut short gets none, though its length counts
    it.

    Raises ValueError for what is no pcap file of this machine's byte order, or tells of a frame of
    4 GiB."""
    if pcap[:4] not in _MAGICS:
        raise ValueError("no pcap file")
    whole, at = bytearray(pcap[:_FILE_HEAD_BYTES]), _FILE_HEAD_BYTES
    (link,) = _LINK.unpack_from(whole, _LINK_AT)
    _LINK.pack_into(whole, _LINK_AT, link | _HAS_FCS)
    while at + _FRAME_HEAD.size <= len(pcap):
        seconds, fraction, held, length = _FRAME_HEAD.unpack_from(pcap, at)
        at += _FRAME_HEAD.size
        frame = pcap[at : at + held]
        at += held
        if max(len(frame), length) > _LONGEST:
            raise ValueError(f"a frame of {length} bytes")
        if held == length:
            frame += zlib.crc32(frame).to_bytes(FCS_BYTES, "little")
        whole += _FRAME_HEAD.pack(seconds, fraction, len(frame), length + FCS_BYTES) + frame
    return bytes(whole)
