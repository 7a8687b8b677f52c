"""The throughput of an application, and the facts of the transport under it."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from switchmark.model.value import Amount, Count, Ratio, Value
from switchmark.model.workload import BITS, TransferUnit


class PairTransfer(Value):
    """The share of one pair in the throughput, in the unit and the kept window of the whole."""

    pair: Count
    began_after_ns: Count  # after the first pair
    offered_per_s: Amount
    completed_per_s: Amount


class Transfer(Value):
    """The throughput of an application in the kept window: payload of a stream, or requests that
    were answered. Rates are in `unit`."""

    unit: TransferUnit
    intended_per_s: Amount | None  # all pairs together; None: as much as possible
    offered_per_s: Amount  # written by the client, or asked
    completed_per_s: Amount  # read by the server, or answered
    stdev_per_s: Amount  # deviation of completed_per_s over the kept samples
    # `completed_per_s` under the name of its unit; the other one is None.
    goodput_bps: Amount | None = None
    transactions_per_s: Amount | None = None
    payload_bps: Amount  # that arrived, both directions together
    loss_ratio: Ratio = 0.0  # requests without an answer, or lost datagrams, whole trial
    samples: Count = 0  # kept
    pairs: list[PairTransfer] = Field(default_factory=list)  # empty: there is one pair

    @model_validator(mode="after")
    def _figures_agree(self) -> Transfer:
        same = self.goodput_bps if self.unit == BITS else self.transactions_per_s
        if same != self.completed_per_s:
            raise ValueError(
                f"transfer.completed_per_s is {self.completed_per_s} {self.unit}, but the figure "
                f"of that unit is {same}"
            )
        return self


class EndCpu(Value):
    """CPU time of the processes of one part of a trial. Softirq work that the kernel does for them
    on their cores may be charged to them; other softirq work is in `cpu.softirq_cores_used`."""

    seconds: Amount  # user and system
    per_gigabit_s: Amount | None = None  # a gigabit of payload; None: nothing arrived
    per_request_us: Amount | None = None  # None: there are no requests


class Transport(Value):
    """The transport of an application's payload by the kernel. Counts are changes over the traffic;
    a map has an entry for each node, or for each device as NODE/DEVICE."""

    protocol: Literal["tcp", "udp"]
    # As the kernel's connections had it while they were open; empty: none was seen open.
    congestion_control: dict[str, str] = Field(default_factory=dict)
    retransmitted_segments: dict[str, Count] = Field(default_factory=dict)
    checksum_errors: dict[str, Count] = Field(default_factory=dict)
    listen_overflows: dict[str, Count] = Field(default_factory=dict)
    datagrams_dropped: dict[str, Count] = Field(default_factory=dict)  # the socket was full
    time_wait: dict[str, Count] = Field(default_factory=dict)  # sockets left behind, for 60 s
    # By the program's own count: payload in bytes that arrived, and requests (None: a stream).
    payload_forth: Count = 0  # client to server
    payload_back: Count = 0
    requests_sent: Count | None = None
    requests_answered: Count | None = None
    # As the device of the receiving end counted: packets that the switch forwarded to it.
    packets_forth: Count = 0  # client to server
    bytes_forth: Count = 0  # with headers, without FCS
    packets_back: Count = 0
    bytes_back: Count = 0
    offloads: dict[str, dict[str, bool]] = Field(default_factory=dict)  # by device, as read back
    offload_note: str = ""  # why they are not all as asked
    unknown: list[str] = Field(default_factory=list)  # facts that the bench could not read
    client_cpu: EndCpu | None = None
    server_cpu: EndCpu | None = None
    switch_cpu: EndCpu | None = None  # None: it has no process

    @property
    def bytes_per_packet_forth(self) -> float | None:
        """Return the mean size of packets that were forwarded to the server. Beyond the MTU these
        are segments that the kernel has not cut yet."""
        return self.bytes_forth / self.packets_forth if self.packets_forth else None

    @property
    def bytes_per_packet_back(self) -> float | None:
        """Return the same of packets that were forwarded to the client."""
        return self.bytes_back / self.packets_back if self.packets_back else None
