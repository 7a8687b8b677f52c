"""`reference`: known truth, a forwarder of our own with set delay, loss, rate and disorder.

The engine's `reference` role between the ports of each pair. It is no contender: it is there
so that every method can be made to find a value that was set (docs/methods.md, "Known
truth"). The faults are switch options (`switch_options: {limit_pps: 100000}`), and so part of
what names a trial; the record's switch details hold them, too.
"""

from __future__ import annotations

from collections.abc import Sequence

from switchmark.environment.engine_binary import find_engine
from switchmark.switch.base import (
    Capabilities,
    ConnectMode,
    PortKind,
    Probe,
    SwitchOption,
    SwitchPort,
)
from switchmark.switch.basicfwd import INTERVAL_S, BasicForwarder, Pair
from switchmark.switch.options import WithOptions
from switchmark.switch.ports import check_request, device_of, lent_of, require
from switchmark.switch.private import Footprint
from switchmark.switch.tools import not_root
from switchmark.testbed.host import Session

UP_TO = 1_000_000_000


def _count(name: str, meaning: str, most: int = UP_TO) -> SwitchOption:
    return SwitchOption(name, f"{meaning}; 0: none", "0", range=(0, most))


def _share(name: str, meaning: str) -> SwitchOption:
    return SwitchOption(name, meaning, "0", form=r"0|1|0\.[0-9]{1,9}")


FAULTS = (
    _count("delay_us", "holds every frame for so long", 10_000_000),
    _count("jitter_us", "varies the delay by so much", 10_000_000),
    SwitchOption("jitter", "how the delay varies", "uniform", ("uniform", "normal")),
    _count("drop_every", "loses one data frame in so many"),
    _count("duplicate_every", "sends one data frame in so many twice"),
    _count("reorder_every", "lets one data frame in so many be overtaken"),
    _count("corrupt_every", "damages one data frame in so many"),
    _share("drop_share", "loses data frames with this probability"),
    _share("duplicate_share", "sends data frames twice with this probability"),
    _share("reorder_share", "lets data frames be overtaken with this probability"),
    _share("corrupt_share", "damages data frames with this probability"),
    SwitchOption("fault_seed", "of what happens by probability", "1", range=(0, UP_TO)),
    _count("limit_pps", "loses what comes faster, each direction by itself"),
    SwitchOption(
        "limit_burst", "frames that may pass at once in spite of it", "256", range=(1, 1_000_000)
    ),
    SwitchOption("queue", "frames that can wait: a power of two", "8192", range=(2, 1 << 24)),
)


class Reference(WithOptions, BasicForwarder):
    """The engine as a forwarder with set faults, over veth."""

    name = "reference"
    capabilities = Capabilities(
        port_kinds=(PortKind.VETH,),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=True,
        multi_core=True,
        known_truth=True,
        description="known truth for trying methods: set delay, loss, disorder, rate; no contender",
        options=FAULTS,
    )

    @property
    def faults(self) -> dict[str, str]:
        """What is set, as the engine's options name it; what is 0 or its default is left out."""
        values = {one.name: (self.option(one.name), one.default) for one in FAULTS}
        return {
            name.replace("_", "-"): value
            for name, (value, default) in values.items()
            if value != default
        }

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
        pairs = [(ports[k], ports[k + 1]) for k in range(0, len(ports), 2)]
        self._idle = "poll" if len(pairs) <= len(cores) else "yield"
        self._cores = tuple(cores)
        self._footprint = Footprint(session)
        try:
            namespace = self._footprint.namespace("rf")
            namespace.adopt([device_of(port) for port in ports], lent_of(ports))
            for k, pair in enumerate(pairs):
                core = cores[k % len(cores)]
                devices = (device_of(pair[0]), device_of(pair[1]))
                process = self._footprint.spawn(
                    self._command(devices, max(p.mtu_bytes for p in pair) + 18, core),
                    cores=[core],
                    netns=namespace.name,
                )
                self._pairs.append(Pair(process, devices))
        except BaseException:
            self.stop()
            raise

    def _command(self, devices: tuple[str, str], frame_bytes: int, core: int) -> list[str]:
        ports = [word for device in devices for word in ("--port", f"raw:dev={device},mmsg")]
        set_to = [word for name, value in self.faults.items() for word in (f"--{name}", value)]
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
