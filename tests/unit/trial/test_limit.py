"""The division of a load between pairs, and the limit of a search."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from switchmark.engine.loads import NO_FRAMES
from switchmark.model.choices import Dimension
from switchmark.model.trial import Trial
from switchmark.record import (
    Figures,
    GoalBounds,
    MethodFigure,
    MethodResult,
    MethodTrial,
    Transfer,
)
from switchmark.trial.deployed_measurer import rates_of
from switchmark.trial.evidence import Baseline, Evidence
from switchmark.trial.judge import method_checks
from switchmark.trial.limit import limit, method_limit
from tests.unit.trial_fakes import trial


@given(st.floats(1, 1e9), st.integers(1, 64))
def test_the_shares_sum_to_the_load_and_differ_by_one_frame(load: float, pairs: int) -> None:
    rates = [int(rate) for rate in rates_of(load, pairs)]
    assert sum(rates) == max(pairs, round(load))
    assert max(rates) - min(rates) <= 1
    assert min(rates) >= 1


def test_everything_is_everything_for_each_pair() -> None:
    assert rates_of(math.inf, 3) == ["max"] * 3


def result(decided_by: str, lower: float, *, drops: int = 0, best: float = 1e6) -> MethodResult:
    method_trial = MethodTrial(
        intended_pps=best, offered_pps=best, forwarded_pps=best, offered_frames=1_000_000,
        lost_frames=100, unoffered_frames=0, duration_s=1, elapsed_s=1, ring_full_share=0,
        socket_drops=drops, duplicates=0, reordered=0, corrupt=0, late_max_ns=0, drained=True,
    )  # fmt: skip
    return MethodResult.model_validate(
        {
            "method": "ndr-pdr", "headline": "NDR", "stopped": "done", "spent_s": 1,
            "budget_s": None, "warm_up_trials": 0, "notes": [], "trial_count": 1,
            "trials": [method_trial],
            "figures": [MethodFigure(name="NDR", value=lower, unit="pps")],
            "bounds": [
                GoalBounds.model_validate(
                    {"goal": "NDR", "loss_ratio": 0, "width": 0.01, "lower_pps": lower,
                     "upper_pps": lower * 1.01, "conditional_throughput_pps": lower,
                     "decided_by": decided_by, "mixed_from_pps": None, "mixed_to_pps": None,
                     "notes": []}
                )
            ],
        }
    )  # fmt: skip


def evidence(*, wire: float | None, in_kernel: bool) -> Evidence:
    return Evidence(
        sender=NO_FRAMES, receiver=NO_FRAMES, baseline=Baseline(forwarded_pps=wire), kept_samples=1,
        on_schedule=True, in_kernel=in_kernel, cpu_wait_share=0, others_cores=0,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("found", "wire", "in_kernel", "limited_by"),
    [
        (result("switch", 1e6), 2e6, False, "switch"),
        (result("switch", 1.9e6), 2e6, False, "generator"),  # within 10 % of the wire
        (result("sender", 0.9e6), 2e6, False, "generator"),
        (result("sender", 0.9e6), 2e6, True, "generator"),
        (result("cores", 0.9e6), 2e6, True, "cpu-shared"),
        (result("noise", 1e6), 2e6, False, "unknown"),
        (result("switch", 1e6, drops=60), 2e6, False, "receiver"),
        (result("switch", 1e6, drops=10), 2e6, False, "switch"),
    ],
)
def test_limit_of_a_search(
    found: MethodResult, wire: float, in_kernel: bool, limited_by: str
) -> None:
    trial = Trial(
        dimension=Dimension.THROUGHPUT, switch="a-switch", packet_size_bytes=64,
        method="ndr-pdr",
    )  # fmt: skip
    assert method_limit(trial, found, evidence(wire=wire, in_kernel=in_kernel)).factor == limited_by


@pytest.mark.parametrize(("cable_lost", "limited_by"), [(60, "link"), (40, "switch")])
def test_a_search_between_hosts_can_be_limited_by_the_cable(
    cable_lost: int, limited_by: str
) -> None:
    trial = Trial(
        dimension=Dimension.THROUGHPUT, switch="a-switch", packet_size_bytes=64,
        method="ndr-pdr", location="remote",
    )  # fmt: skip
    found = result("switch", 1e6)
    assert sum(one.lost_frames for one in found.trials) == 100
    evidence_of_trial = replace(evidence(wire=2e6, in_kernel=False), cable_lost=cable_lost)
    assert method_limit(trial, found, evidence_of_trial).factor == limited_by


@pytest.mark.parametrize(("waited", "limited_by"), [(0.6, "cpu-shared"), (0.2, "switch")])
def test_mostly_waiting_switch_was_not_the_limit(waited: float, limited_by: str) -> None:
    trial = Trial(
        dimension=Dimension.THROUGHPUT, switch="a-switch", packet_size_bytes=64, method="ndr-pdr"
    )
    evidence_of_trial = replace(evidence(wire=None, in_kernel=False), switch_wait_share=waited)
    found = method_limit(trial, result("switch", 1e6), evidence_of_trial)
    assert found.factor == limited_by
    assert f"the switch was kept from its core {waited:.0%} of the time" in found.evidence


def test_marks_of_a_search() -> None:
    checks = method_checks(result("noise", 1e6), 1)
    assert checks["noise-decided"]
    assert not checks["out-of-budget"]
    assert not checks["nothing-arrived"]


@pytest.mark.parametrize(("copies", "marked"), [(1001, True), (1000, False)])
def test_copies_of_a_search_are_marked(copies: int, marked: bool) -> None:
    found = result("switch", 1e6)
    method_trial = found.trials[0].model_copy(update={"duplicates": copies})
    checks = method_checks(found.model_copy(update={"trials": [method_trial]}), 1)
    assert checks["copied-frames"] is marked


@pytest.mark.parametrize(("drops", "expected"), [(0, "switch"), (100, "switch"), (300, "receiver")])
def test_datagrams_that_full_sockets_dropped_are_the_receivers(drops: int, expected: str) -> None:
    """Of 1000 datagrams 400 were lost: the socket is the limit if it dropped at least half."""
    observed = Transfer(
        unit="bit/s", intended_per_s=None, offered_per_s=1e6, completed_per_s=6e5, stdev_per_s=0,
        goodput_bps=6e5, payload_bps=6e5, loss_ratio=0.4, samples=10,
    )  # fmt: skip
    known = replace(
        evidence(wire=None, in_kernel=True),
        baseline=Baseline(transfer_per_s=1e6),
        sent_frames=1000,
        socket_drops=drops,
    )
    single = trial(workload="udp-stream", rate_pps=None)
    assert limit(single, Figures(transfer=observed), known).factor == expected
