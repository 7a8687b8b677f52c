"""Campaigns of before `budget` was that of a whole campaign are read as they were meant."""

from __future__ import annotations

import pytest

from switchmark.campaign.load import load_settings, load_text
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.model.campaign import CampaignDefinition
from tests.unit.campaign_fakes import KNOWN


def load(text: str, *overrides: str) -> CampaignDefinition:
    return load_text(f"switch: linux-bridge\n{text}\n", "c.yaml", KNOWN, overrides)


@pytest.mark.parametrize(
    "text",
    [
        "method: ndr-pdr\nbudget: 5m",
        "method: ndr-pdr\nmethod_budget: 5m",
        "method: [plain, ndr-pdr]\nbudget: 5m",
        "sweeps:\n- {method: ndr-pdr, budget: 5m}",
        "sweeps:\n- {throughput: {method: ndr-pdr, budget: 5m}}",
        "throughput: {method: ndr-pdr, budget: 5m}",
        "method: ndr-pdr\nthroughput: {budget: 5m}",
        "throughput: {method: ndr-pdr}\nbudget: 5m",
    ],
)
def test_the_budget_of_a_method(text: str) -> None:
    made = load(text)
    assert made.sweeps[0].budget_s == (300.0,)
    assert not made.proves


def test_the_budget_of_a_campaign() -> None:
    made = load("budget: 5m")
    assert made.budget_s == 300.0
    assert made.sweeps[0].budget_s == (None,)
    both = load("method: ndr-pdr\nprove: 5%\nbudget: 1h\nmethod_budget: 5m")
    assert (both.budget_s, both.sweeps[0].budget_s) == (3600.0, (300.0,))


def test_overrides_are_meant_alike() -> None:
    assert load("method: ndr-pdr", "budget=5m").sweeps[0].budget_s == (300.0,)
    assert load("budget: 1h", "method=ndr-pdr").sweeps[0].budget_s == (3600.0,)
    assert load("method: plain", "budget=5m").budget_s == 300.0
    of_section = load("throughput: {method: ndr-pdr}", "throughput.budget=5m")
    assert of_section.sweeps[0].budget_s == (300.0,)


def test_flags_and_notations() -> None:
    given = {"switch": "linux-bridge", "method": "ndr-pdr", "budget": "5m"}
    assert load_settings(given, KNOWN, name="trial").sweeps[0].budget_s == (300.0,)
    trial = from_notation("(V=linux-bridge, method=ndr-pdr, budget=5m)")
    assert trial.budget_s == 300.0
    assert "method_budget=300s" in to_notation(trial)
    assert from_notation(to_notation(trial)) == trial
