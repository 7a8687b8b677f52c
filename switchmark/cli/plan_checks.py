"""What `run` would refuse of a plan, on this machine or on a described one (`--target`)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from switchmark.campaign.expand import leave_out_unable
from switchmark.campaign.rules.layout import cable_problem
from switchmark.errors import UnavailableError, UsageError
from switchmark.experiment.steps import Step, check_available, leave_out_unavailable
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.nics import parse_nics
from switchmark.testbed.target import Target
from switchmark.testbed.testbed_file import find_testbed, required

if TYPE_CHECKING:
    from switchmark.campaign.installed import Installed
    from switchmark.trial.plan import TrialPlan


def refused_by_run(
    campaign: CampaignDefinition,
    plans: Sequence[TrialPlan],
    there: Installed,
    target: Target | None,
    testbed: Path | None,
) -> list[str]:
    """A line for each thing that `run` would refuse, or leave out if it may. Raises UsageError for
    a testbed file that cannot be read."""
    if target is not None and testbed is None:
        problems = _of_hosts(campaign, target)
    else:
        problems = _of_testbed(campaign, there, testbed)
    _, unable = leave_out_unable(campaign, there.switches, there.environments)
    problems += [f"left out: {reason}" for reason in unable]
    if target is not None:
        return problems + target.lacks(
            [plan.trial.switch for plan in plans],
            [plan.environment.name for plan in plans],
            [name for plan in plans for nic in parse_nics(plan.trial.nics) for name in nic.both],
        )
    steps = [Step(plan, None) for plan in plans]
    try:
        if campaign.skip_unavailable:
            steps, missing = leave_out_unavailable(steps)
            problems += [f"left out: {reason}" for reason in missing]
        check_available(steps)
    except UnavailableError as error:
        problems += str(error).splitlines()
    return problems


def _of_hosts(campaign: CampaignDefinition, target: Target) -> list[str]:
    """Why the target's machines are too few for a campaign between two."""
    remote = any("remote" in sweep.location for sweep in campaign.sweeps)
    if not remote or target.hosts is None or target.hosts > 1:
        return []
    return [f"target {target.name} is one host, and location: remote needs two (hosts: 2)"]


def _of_testbed(campaign: CampaignDefinition, there: Installed, path: Path | None) -> list[str]:
    """Why there is no testbed, or its cable cannot be a port; no host is connected to. Raises
    UsageError for a file that cannot be read, which is bad input."""
    remote = [sweep for sweep in campaign.sweeps if "remote" in sweep.location]
    if not remote and path is None:
        return []
    testbed = find_testbed(path)
    try:
        cable = required(testbed).cable
    except UsageError as error:
        return [str(error)]
    found = [
        cable_problem(switch, there.switches[switch], end)
        for sweep in remote
        for switch in sweep.switch
        for end in (cable.near, cable.far)
    ]
    return [f"testbed: {problem}" for problem in dict.fromkeys(found) if problem]
