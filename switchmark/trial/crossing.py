"""Proof that the traffic of a trial crossed the network in question.

The counters of the network's devices are read before and after the measurement. Each must have
counted at least the payload that the applications received; otherwise the traffic took another
path, and the trial fails. Bytes are compared, because one packet of an application can be several
on a device, or the reverse (segmentation offloads).
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from switchmark.errors import TrialFailed
from switchmark.host.network.counted import (
    CountedDevice,
    DeviceCount,
    KnownNetwork,
    RelayCount,
    read_counts,
    read_relay,
)
from switchmark.model.trial import Trial
from switchmark.record.crossing import CountedOn, Crossing, Relayed
from switchmark.switch.support.base import HasNetwork, Switch, WatchesNetwork

SILENCE_S = 0.5  # in which the packets of others are counted
SHARED = 0.05  # share of the load that others may send without a mark
HEADER_BYTES = 46  # Ethernet with FCS, IPv4 and UDP in a frame of the engine
LATE = 0.01  # share of the payload that may have been counted before the window
_FIRST_STATES: dict[tuple[str, str], str] = {}  # hash of each network, by session and key


@dataclass(frozen=True, slots=True)
class CrossingWatch:
    """The counters before the traffic."""

    network: KnownNetwork
    session: str
    state: str
    other_packets_per_s: float | None
    before: dict[CountedDevice, DeviceCount]
    relay_before: RelayCount | None = None

    @classmethod
    def begin(cls, switch: Switch, session: str) -> CrossingWatch | None:
        """Read the counters of a switch that is a network with devices; None for others."""
        if not isinstance(switch, HasNetwork):
            return None
        network = switch.network()
        state, rate = network.digest(), None
        if network.others:
            first, begun = read_counts(network.devices), time.monotonic()
            time.sleep(SILENCE_S)
            then, seconds = read_counts(network.devices), time.monotonic() - begun
            rate = (
                max((then[one].packets - first[one].packets for one in then), default=0) / seconds
            )
        if isinstance(switch, WatchesNetwork):  # after the silence, which its probes would end
            switch.begin_watch()
        relay = read_relay(network.relay) if network.relay is not None else None
        return cls(network, session, state, rate, read_counts(network.devices), relay)

    def end(
        self, least_bytes: int, packets_per_s: float, dialled: tuple[str, str] = ("", "")
    ) -> Crossing:
        """Compare the counters with the payload that the applications received. `packets_per_s` is
        the load, both ways; `dialled` are the addresses that the client dialled and at which the
        server listened. Raises TrialFailed if a device did not count the traffic."""
        after = read_counts(self.network.devices)
        devices = [
            CountedOn(
                namespace=one.label or one.namespace or "this host",
                device=one.device,
                packets=max(0, count.packets - self.before[one].packets),
                bytes=max(0, count.bytes - self.before[one].bytes),
            )
            for one, count in after.items()
        ]
        together: dict[str, list[CountedOn]] = {}
        for number, (counted, device) in enumerate(zip(after, devices, strict=True)):
            together.setdefault(counted.group or str(number), []).append(device)
        for group in together.values():
            if (total := sum(device.bytes for device in group)) < (1 - LATE) * least_bytes:
                names = ", ".join(f"{device.device} ({device.namespace})" for device in group)
                raise TrialFailed(
                    f"the traffic did not cross {names}: counted "
                    f"{total} bytes, and the applications received {least_bytes}",
                    remedy="`switchmark path` shows the path of the kernel",
                )
        relay = self._relayed(least_bytes)
        first = _FIRST_STATES.setdefault((self.session, self.network.key), self.state)
        now, others, facts = self.network.digest(), self.other_packets_per_s, self.network.facts
        return Crossing(
            devices=devices,
            least_bytes=least_bytes,
            other_packets_per_s=others,
            shared=others is not None and others > SHARED * packets_per_s,
            changed=not first == self.state == now,
            state=now,
            relay=relay,
            dialled=dialled[0],
            answered_at=dialled[1],
            path=list(self.network.path),
            source_address=facts.source_address,
            source_seen=facts.source_seen,
            translated=facts.translated,
            ttl_forth=facts.ttl_forth,
            ttl_back=facts.ttl_back,
            path_mtu=facts.path_mtu,
            expiring=list(self.network.expiring()),
        )

    def _relayed(self, least_bytes: int) -> Relayed | None:
        """Return the work of the program on the path; None without one. Raises TrialFailed if the
        kernel forwarded the traffic past it."""
        relay, before = self.network.relay, self.relay_before
        if relay is None or before is None:
            return None
        after = read_relay(relay)
        found = Relayed(
            program=relay.program,
            processes=len(relay.pids),
            bytes=max(0, after.bytes - before.bytes),
            forwarded_packets=max(0, after.forwarded_packets - before.forwarded_packets),
            cpu_s=before.threads.ran_s(after.threads),
        )
        if found.forwarded_packets or not found.cpu_s or found.bytes < (1 - LATE) * least_bytes:
            raise TrialFailed(
                f"{relay.program} did not carry the traffic: its host received {found.bytes} bytes "
                f"and forwarded {found.forwarded_packets} packets past it, it ran for "
                f"{found.cpu_s:.3g} s, and the applications received {least_bytes} bytes"
            )
        return found


def payload_bytes(trial: Trial, frames: int) -> int:
    """The payload of so many frames of a trial, without their headers."""
    return int(frames * max(0.0, trial.frame_sizes.mean - HEADER_BYTES))
