"""Cuts a campaign into blocks: all contenders of a point once, in the order that its seed draws.

This needs nothing of a machine: a block's trials follow from the campaign and from what this
installation knows. Cores and ports are planned on the testbed that measures the block.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from switchmark.campaign.around import usual_around_s
from switchmark.campaign.expand import expand
from switchmark.campaign.installed import Installed
from switchmark.campaign.rules.pool import pool_refusal
from switchmark.errors import UsageError
from switchmark.method.registry import usual_time_s
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameters import point_of
from switchmark.model.trial import Trial

SHORTEST_LEASE_S = 60.0


@dataclass(frozen=True, slots=True)
class PlannedBlock:
    """A block: what is dispatched to a testbed as a whole."""

    trials: tuple[Trial, ...]
    lease_s: float


def blocks_of(
    campaign: CampaignDefinition, there: Installed, shortest_lease_s: float = SHORTEST_LEASE_S
) -> list[PlannedBlock]:
    """All blocks of the campaign in their order. Raises `UsageError` for what a pool cannot run."""
    if (refused := pool_refusal(campaign)) is not None:
        raise UsageError(f"{campaign.name}: {refused}")
    trials = expand(campaign, there.switches, there.environments)
    grouped = groupby(trials, key=lambda trial: (trial.repetition, point_of(trial)))
    return [_block(campaign, list(members), shortest_lease_s) for _, members in grouped]


def _block(
    campaign: CampaignDefinition, trials: Sequence[Trial], shortest_lease_s: float
) -> PlannedBlock:
    """A block with the length of its lease, which lasts from one message of its holder to the next:
    longer than the longest of its trials, the bare wire before it, and what slow machines and
    `repeat_disturbed` add."""
    longest_s = max(usual_time_s(one) + usual_around_s(one) for one in trials)
    times = 1 + campaign.repeat_disturbed
    return PlannedBlock(tuple(trials), shortest_lease_s + 3 * times * longest_s)
