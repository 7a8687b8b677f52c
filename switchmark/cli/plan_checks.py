"""The reasons for which `run` would refuse a plan, here or on a described machine."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.campaign.rules.layout import cable_problem
from switchmark.errors import UsageError
from switchmark.model.campaign import CampaignDefinition
from switchmark.testbed.target import Target
from switchmark.testbed.testbed_file import find_testbed, required

if TYPE_CHECKING:
    from switchmark.campaign.installed import Installed
    from switchmark.experiment.prepare import Prepared


def refused_by_run(
    prepared: Prepared, installed: Installed, target: Target | None, testbed: Path | None
) -> list[str]:
    """Return a line for each reason for which `run` would refuse the campaign. Raises UsageError
    for a testbed file that cannot be read."""
    if target is not None and testbed is None:
        problems = _of_hosts(prepared.campaign, target)
    else:
        problems = _of_testbed(prepared.campaign, installed, testbed)
    return problems + prepared.refused


def _of_hosts(campaign: CampaignDefinition, target: Target) -> list[str]:
    """Return the reason if the target has too few hosts for a campaign between two hosts."""
    remote = any("remote" in sweep.location for sweep in campaign.sweeps)
    if not remote or target.hosts is None or target.hosts > 1:
        return []
    return [f"target {target.name} is one host, and location: remote needs two (hosts: 2)"]


def _of_testbed(campaign: CampaignDefinition, installed: Installed, path: Path | None) -> list[str]:
    """Return the reasons if there is no testbed, or its cable cannot be a port. Raises
    UsageError for a file that cannot be read, which is bad input."""
    remote = [sweep for sweep in campaign.sweeps if "remote" in sweep.location]
    if not remote and path is None:
        return []
    testbed = find_testbed(path)
    try:
        cable = required(testbed).cable
    except UsageError as error:
        return [str(error)]
    problems = [
        cable_problem(switch, installed.switches[switch], end)
        for sweep in remote
        for switch in sweep.switch
        for end in (cable.near, cable.far)
        if cable.exists
    ]
    return [f"testbed: {problem}" for problem in dict.fromkeys(problems) if problem]
