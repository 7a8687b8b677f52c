"""A round of each reference check of `certify`, in every run of the checks. Whole certificates take
minutes (test_certify.py). If a round has an error, more rounds follow, which the rule of `certify`
judges."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from switchmark.certify.registry import CHECKS
from switchmark.certify.support.certification import SETTINGS
from switchmark.certify.support.reference_check import ReferenceCheck, RigKind, Round
from switchmark.certify.support.rig import Rig, deploy
from switchmark.certify.support.series import Series
from switchmark.errors import ContradictoryCounts, TrialFailed, UnavailableError
from switchmark.record.certificate import REFUTED
from switchmark.statistics.boundaries import FIRST_ANALYSIS
from switchmark.switch.linux_bridge import LinuxBridge
from tests.integration.machine import needs_root

pytestmark = [
    pytest.mark.alone,
    pytest.mark.integration,
    pytest.mark.usefixtures("module_state_dir"),
    needs_root,
]


@pytest.fixture(scope="module")
def rig(request: pytest.FixtureRequest, module_state_dir: None) -> Iterator[Rig]:
    """The deployment that checks of one kind share."""
    with deploy(LinuxBridge(), io="raw-mmsg", **SETTINGS[request.param]) as rig:
        yield rig


@pytest.mark.parametrize(
    ("rig", "name"),
    [
        (one.rig_kind, name)
        for stand in RigKind
        for name, one in CHECKS.items()
        if one.rig_kind is stand
    ],
    indirect=["rig"],
    scope="module",
)
def test_round_agrees_with_reference(rig: Rig, name: str) -> None:
    check = CHECKS[name]
    series = Series(check)
    for _ in range(FIRST_ANALYSIS):
        try:
            result = check.measure(rig)
        except UnavailableError as error:
            pytest.skip(str(error))
        except TrialFailed as error:  # other programs used the cores
            series.add_failure(str(error), 0, contradicts=isinstance(error, ContradictoryCounts))
        else:
            if agrees(check, result):
                return
            series.add(result, None, 0)
        assert series.outcome != REFUTED, (series.rounds, series.failures)
    errors = [round_.errors for round_ in series.rounds]
    pytest.skip(f"machine too busy for a decision: {errors}, {series.failures}")


def agrees(check: ReferenceCheck, result: Round) -> bool:
    """Return True if there are known errors, and all are within the tolerance."""
    errors = {name: error for name, error in result.errors.items() if not math.isnan(error)}
    return bool(errors) and all(
        -check.tolerance_below(name) <= error <= check.tolerance(name)
        for name, error in errors.items()
    )
