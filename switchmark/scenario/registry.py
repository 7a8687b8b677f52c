"""The scenarios there are, by name. A new one is a module here and a line below."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.campaign.model import Trial
from switchmark.scenario import pairs
from switchmark.scenario.topology import Topology

SCENARIOS: dict[str, Callable[[Trial], Topology]] = {
    "pairs": pairs.expand,
}
