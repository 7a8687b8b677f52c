"""Which campaigns a pool of testbeds cannot run."""

from __future__ import annotations

from switchmark.errors import Refusal
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.expectation import ExpectedFigure


def pool_refusal(campaign: CampaignDefinition) -> Refusal | None:
    """Return why a pool cannot run this campaign, and what to do; None if it can."""
    if campaign.until_ci is not None:
        return Refusal(
            "how often each trial is repeated follows from its own interval (until_ci), which a "
            "pool does not watch",
            "set repetitions, or prove and budget",
        )
    if any(one.figure is ExpectedFigure.SLOWER_THAN_BASELINE for one in campaign.expect):
        return Refusal(
            "expects slower_than_baseline, but a pool measures baselines outside of blocks",
            "expect throughput or rtt_p50",
        )
    if campaign.time_budget_s is not None:
        return Refusal("has a time_budget, which a pool does not keep to", "set repetitions")
    return None
