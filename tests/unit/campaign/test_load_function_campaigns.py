"""The built-in campaigns of network functions: three scales, one-way times and findings."""

from __future__ import annotations

from importlib import resources

import pytest

from switchmark.campaign.load import load_text
from switchmark.function.registry import sample_table
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.parameter_type import Known
from switchmark.model.trial import Trial

FOLDER = resources.files("switchmark.campaign") / "builtin"
SCALES = {
    "routes": ("routes", [1, 1000, 100_000]),
    "rules": ("rules", [0, 100, 10_000]),
    "masks": ("masks", [1, 4, 16]),
    "flow-scale": ("flows", ["1", "10000", "1000000"]),
    "policers": ("packet_size_bytes", [64, 512, 1500]),
}


def campaign(name: str) -> CampaignDefinition:
    text = (FOLDER / f"{name}.yaml").read_text("utf-8")
    return load_text(text, f"{name}.yaml", Known(scenarios=None))


@pytest.mark.parametrize("name", SCALES)
def test_campaign_has_three_scales_and_one_way_times(name: str) -> None:
    field, values = SCALES[name]
    found = campaign(name)
    assert values in [list(getattr(sweep, field)) for sweep in found.sweeps]
    assert {method for sweep in found.sweeps for method in sweep.method} == {"plain", "one-way"}
    assert found.budget_s is not None and found.budget_s < 15 * 60
    assert found.prove == 0.25


@pytest.mark.parametrize("name", SCALES)
def test_campaign_has_findings_and_published_figures(name: str) -> None:
    found = campaign(name)
    assert found.published and found.findings
    assert all(finding.source for finding in found.findings)


@pytest.mark.parametrize("name", ["routes", "rules"])
def test_campaign_of_ipv6_differs_in_the_version_alone(name: str) -> None:
    field, values = SCALES[name]
    for four, six in zip(campaign(name).sweeps, campaign(f"{name}-ipv6").sweeps, strict=False):
        assert (list(four.ip_version), list(six.ip_version)) == ([4], [6])
        assert list(getattr(six, field)) == values


def test_filters_are_those_of_rfc_2544() -> None:
    """Section 11.4: none, one that permits the load, and 25 of which the last one permits it."""
    sweep = campaign("filters").sweeps[0]
    assert list(sweep.rules) == [0, 1, 25]
    assert list(sweep.rule_hit) == ["last"]
    assert list(sweep.neighbour) == ["none", "cache"]
    for rules in (1, 25):
        table = sample_table(Trial(
            switch="reference", dimension=sweep.dimension, packet_size_bytes=64,
            function=sweep.function[0], rules=rules,
        ))  # fmt: skip
        permits = [rule.permit for rule in table.rules[:rules]]  # behind them: the testers
        assert permits == [False] * (rules - 1) + [True]
