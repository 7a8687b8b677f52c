"""`reference`: a forwarder with set delay, loss, rate and disorder, so that its figures are known.

The role `reference` of the engine runs between the ports of each pair. `all` does not include this
switch, which is for trying methods on a known value (docs/evidence/reference-checks.md). Faults are
switch options (`switch_options: {limit_pps: 100000}`), so the notation of a trial and the record
contain them.
"""

from __future__ import annotations

from dataclasses import replace

from switchmark.model.capabilities import SwitchOption
from switchmark.model.io import Io
from switchmark.model.ports import ConnectMode
from switchmark.switch.af_packet import AfPacket

UP_TO = 1_000_000_000


def _count(name: str, meaning: str, most: int = UP_TO) -> SwitchOption:
    return SwitchOption(name, f"{meaning}; 0: none", "0", range=(0, most))


def _share(name: str, meaning: str) -> SwitchOption:
    return SwitchOption(name, meaning, "0", form=r"0|1|0\.[0-9]{1,9}")


FAULTS = (
    _count("delay_us", "delay of every frame in us", 10_000_000),
    _count("jitter_us", "variation of the delay in us", 10_000_000),
    SwitchOption("jitter", "distribution of the variation", "uniform", ("uniform", "normal")),
    _count("drop_every", "loses every n-th data frame"),
    _count("duplicate_every", "sends every n-th data frame twice"),
    _count("reorder_every", "delays every n-th data frame until later frames have passed"),
    _count("corrupt_every", "damages every n-th data frame"),
    _share("drop_share", "loses data frames with this probability"),
    _share("duplicate_share", "sends data frames twice with this probability"),
    _share("reorder_share", "delays data frames with this probability until others have passed"),
    _share("corrupt_share", "damages data frames with this probability"),
    SwitchOption("fault_seed", "seed of the random faults", "1", range=(0, UP_TO)),
    _count("limit_pps", "loses frames above this rate, in each direction separately"),
    SwitchOption(
        "limit_burst",
        "largest burst in spite of `limit_pps`",
        "256",
        range=(1, 1_000_000),
    ),
    _count("cost_ns", "time for each frame in ns, with the work of the switch itself", 1_000_000),
    SwitchOption("queue", "frames that can wait; a power of two", "8192", range=(2, 1 << 24)),
)


class Reference(AfPacket):
    """The engine as a forwarder with set faults, over veth."""

    name = "reference"
    capabilities = replace(
        AfPacket.capabilities,
        known_truth=True,
        description="set delay, loss, disorder and rate, for trying methods; not part of `all`",
        options=FAULTS,
        taxonomy=None,
    )

    @property
    def faults(self) -> dict[str, str]:
        """The faults that are set, as the engine's options name them; those that are 0 or the
        default are left out."""
        values = {one.name: (self.option(one.name), one.default) for one in FAULTS}
        return {
            name.replace("_", "-"): value
            for name, (value, default) in values.items()
            if value != default
        }

    role = "reference"

    def _io(self) -> Io:
        return Io.RAW_MMSG

    def _more_arguments(self, _tag: str) -> list[str]:
        return [word for name, value in self.faults.items() for word in (f"--{name}", value)]

    def details(self) -> dict[str, str]:
        """See `BasicForwarder`; and the faults that are set, in short."""
        faults = ", ".join(f"{name} {value}" for name, value in self.faults.items())
        return {
            "version": str(self.availability().version),
            "datapath": "the traffic engine between raw sockets, one process a pair",
            "connect_mode": ConnectMode.CROSS_CONNECT.value,
            "cores": ",".join(map(str, self._cores)),
            "idle": self._idle,
            "faults": faults or "none",
            **self.option_details(),
        }
