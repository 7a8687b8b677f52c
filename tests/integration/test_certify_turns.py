"""One round of each reference check of `certify` in every run of the checks; whole certificates
take minutes (test_certify.py). If a round is off, more follow, judged by certify's own rule."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from switchmark.certify.registry import TRUTHS
from switchmark.certify.support.certification import SETTINGS
from switchmark.certify.support.series import Series
from switchmark.certify.support.stand import Rig, deployed
from switchmark.certify.support.truth import Stand, Truth, Turn
from switchmark.errors import ContradictoryCounts, TrialFailed, UnavailableError
from switchmark.record.certificate import REFUTED
from switchmark.statistics.boundaries import FIRST_LOOK
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
    """The deployment of a rig, for all of its reference checks."""
    with deployed(LinuxBridge(), io="raw-mmsg", **SETTINGS[request.param]) as deployment:
        yield deployment


@pytest.mark.parametrize(
    ("rig", "name"),
    [(one.stand, name) for stand in Stand for name, one in TRUTHS.items() if one.stand is stand],
    indirect=["rig"],
    scope="module",
)
def test_turn_agrees_with_the_truth(rig: Rig, name: str) -> None:
    truth = TRUTHS[name]
    series = Series(truth)
    for _ in range(FIRST_LOOK):
        try:
            found = truth.turn(rig)
        except UnavailableError as error:
            pytest.skip(str(error))
        except TrialFailed as error:  # without a core there is no figure
            series.failed(str(error), 0, contradicts=isinstance(error, ContradictoryCounts))
        else:
            if agrees(truth, found):
                return
            series.add(found, None, 0)
        assert series.outcome != REFUTED, (series.turns, series.failures)
    pytest.skip(f"machine too busy to decide: {[one.errors for one in series.turns]}, "
                f"{series.failures}")  # fmt: skip


def agrees(truth: Truth, turn: Turn) -> bool:
    """Return True if there are figures and all are within tolerance; NaN figures do not count."""
    errors = {name: error for name, error in turn.errors.items() if not math.isnan(error)}
    return bool(errors) and all(
        -truth.tolerance_below(name) <= error <= truth.tolerance(name)
        for name, error in errors.items()
    )
