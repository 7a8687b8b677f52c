"""A trial and a campaign as plain values: what is asked, before anything touches a machine.

The tuple (D, L, S, V, P, R, B) of Ara et al. names a trial; the other fields extend it as
`key=value`. Sizes are L2 frame sizes with FCS (RFC 2544).
"""

from __future__ import annotations

import hashlib
import json
from enum import StrEnum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from switchmark.switch.base import ConnectMode, PortKind


class Dimension(StrEnum):
    """What is measured (D)."""

    THROUGHPUT = "throughput"  # sender -> receiver, forwarded frames per second
    LATENCY = "latency"  # client <-> server, round-trip time


class Io(StrEnum):
    """How the traffic application talks to its port. `auto` takes the fastest for the port."""

    AUTO = "auto"
    UDP = "udp"
    UDP_MMSG = "udp-mmsg"
    RAW = "raw"
    RAW_MMSG = "raw-mmsg"
    DPDK = "dpdk"


class Idle(StrEnum):
    """What a traffic application does when its ring is full or empty. `auto`: by placement."""

    AUTO = "auto"
    POLL = "poll"
    YIELD = "yield"
    SLEEP = "sleep"


class Trial(BaseModel):
    """One measurement, completely described. Frozen; equal descriptions have equal ids."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    dimension: Dimension
    location: Literal["local"] = "local"  # L
    pairs: int = Field(default=1, ge=1)  # S: NvsN
    switch: str  # V
    packet_size_bytes: int = Field(ge=64, le=9018)  # P, with FCS
    rate_pps: int | None = Field(default=None, ge=1)  # R per pair; None is `max`
    burst: int = Field(default=32, ge=1, le=4096)  # B

    scenario: str = "pairs"
    environment: str = "netns"
    connect_mode: ConnectMode | None = None  # None: not yet chosen (planning fills it in)
    port_kind: PortKind | None = None  # None: the switch's first that the environment has
    io: Io = Io.AUTO
    idle: Idle = Idle.AUTO
    touch: bool = False
    duration_s: float = Field(default=10.0, gt=0)
    interval_s: float = Field(default=0.2, gt=0)
    switch_cores: int = Field(default=1, ge=1)
    spare_cores: int = Field(default=0, ge=0)  # left idle on purpose, as a switch would use them
    repetition: int = Field(default=0, ge=0)

    @property
    def id(self) -> str:
        """16 hex digits of the whole description: the key under which its record is kept."""
        text = json.dumps(self.model_dump(mode="json"), sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]
