"""`reference`: known truth, a forwarder of our own with set delay, loss, rate and disorder.

The engine's `reference` role between the ports of each pair. It is no contender: it is there
so that every method can be made to find a value that was set (docs/methods.md, "Known
truth"). The faults come from the constructor, or from SWITCHMARK_REFERENCE, for instance
`SWITCHMARK_REFERENCE=limit-pps=100000,drop-every=1000`; the record's switch details hold them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence

from switchmark.environment.engine_binary import find_engine
from switchmark.errors import UsageError
from switchmark.switch.base import Capabilities, ConnectMode, PortKind, Probe, SwitchPort
from switchmark.switch.basicfwd import INTERVAL_S, BasicForwarder, Pair
from switchmark.switch.ports import check_request, device_of, require
from switchmark.switch.private import Footprint
from switchmark.switch.tools import not_root
from switchmark.testbed.host import Session

VARIABLE = "SWITCHMARK_REFERENCE"
_NUMBER, _SHARE, _SHAPE = r"[0-9]+", r"0|1|0\.[0-9]{1,9}", "uniform|normal"
FAULTS = {
    "delay-us": _NUMBER,
    "jitter-us": _NUMBER,
    "jitter": _SHAPE,
    "drop-every": _NUMBER,
    "duplicate-every": _NUMBER,
    "reorder-every": _NUMBER,
    "corrupt-every": _NUMBER,
    "drop-share": _SHARE,
    "duplicate-share": _SHARE,
    "reorder-share": _SHARE,
    "corrupt-share": _SHARE,
    "fault-seed": _NUMBER,
    "limit-pps": _NUMBER,
    "limit-burst": _NUMBER,
    "queue": _NUMBER,
}
_WRITTEN = {_NUMBER: "N", _SHARE: "P", _SHAPE: _SHAPE}


def read_faults(text: str) -> dict[str, str]:
    """`delay-us=100,drop-share=0.001` as a mapping; raises `UsageError` for anything else."""
    faults: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, _, value = item.partition("=")
        if name not in FAULTS or not re.fullmatch(FAULTS[name], value):
            known = ", ".join(f"{name}={_WRITTEN[form]}" for name, form in FAULTS.items())
            raise UsageError(
                f"{VARIABLE}: '{item}' is not a fault; write {known} (P: a probability, 0 to 1)"
            )
        faults[name] = value
    return faults


class Reference(BasicForwarder):
    """The engine as a forwarder with set faults, over veth."""

    name = "reference"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH,),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=True,
        multi_core=True,
        description="known truth for trying methods: set delay, loss, disorder, rate; no contender",
    )

    def __init__(self, faults: Mapping[str, float | str] | None = None) -> None:
        super().__init__()
        self._given = faults

    @property
    def faults(self) -> dict[str, str]:
        """What is set, as the engine's options name it."""
        if self._given is not None:
            return {name: str(value) for name, value in self._given.items()}
        return read_faults(os.environ.get(VARIABLE, ""))

    def probe(self) -> Probe:
        """Available where the engine is built."""
        if (answer := not_root()) is not None:
            return answer
        return self._engine_probe()

    def start(
        self, session: Session, ports: Sequence[SwitchPort], mode: ConnectMode, cores: Sequence[int]
    ) -> None:
        """Take the ports into a namespace of its own; one process a pair."""
        require(self.name, self.probe())
        check_request(self.name, self.capabilities, ports, mode)
        faults = self.faults
        pairs = [(ports[k], ports[k + 1]) for k in range(0, len(ports), 2)]
        self._idle = "poll" if len(pairs) <= len(cores) else "yield"
        self._cores = tuple(cores)
        self._footprint = Footprint(session)
        try:
            namespace = self._footprint.namespace("rf")
            namespace.adopt([device_of(port) for port in ports])
            for k, pair in enumerate(pairs):
                core = cores[k % len(cores)]
                devices = (device_of(pair[0]), device_of(pair[1]))
                process = self._footprint.spawn(
                    self._command(devices, max(p.mtu_bytes for p in pair) + 18, core, faults),
                    cores=[core],
                    netns=namespace.name,
                )
                self._pairs.append(Pair(process, devices))
        except BaseException:
            self.stop()
            raise

    def _command(
        self, devices: tuple[str, str], frame_bytes: int, core: int, faults: Mapping[str, str]
    ) -> list[str]:
        ports = [word for device in devices for word in ("--port", f"raw:dev={device},mmsg")]
        set_to = [word for name, value in faults.items() for word in (f"--{name}", value)]
        return [
            *(str(find_engine()), "reference", *ports, *set_to),
            *("--start", "now", "--core", str(core), "--idle", self._idle),
            *("--interval", str(INTERVAL_S), "--frame-size", str(frame_bytes)),
        ]

    def details(self) -> dict[str, str]:
        """What was set."""
        faults = ", ".join(f"{name} {value}" for name, value in self.faults.items())
        return {
            "version": str(self.probe().version),
            "datapath": "the traffic engine between raw sockets, one process a pair",
            "connect_mode": ConnectMode.CROSS_CONNECT.value,
            "cores": ",".join(map(str, self._cores)),
            "idle": self._idle,
            "faults": faults or "none",
        }
