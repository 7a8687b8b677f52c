"""No method claims more than its trials forwarded, whatever keeps frames from being offered.

The simulated senders block while a kernel switch works, are descheduled, or are too slow. No claim
may exceed the set capacity.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from switchmark.method.support.claims import broken_claims
from switchmark.method.support.measurer import Measurer
from switchmark.record import MethodResult
from switchmark.simulation.in_kernel import Blocking, BlockingSwitch
from switchmark.simulation.stalls import StallingSwitch, Stalls
from switchmark.simulation.switch import Behaviour, SimulatedSwitch
from tests.unit.method_fakes import run_simulated

CAPACITY_PPS = 0.5e6
CARRIED = {"R+", "plateau", "followed to", "lossless to", "forwarded", "NDR", "PDR"}
# Every method whose figures say how much a switch carries.
METHODS = ["ndr-pdr", "r-plus", "plateau", "loss-vs-load", "soak", "back-to-back"]


def carried_claims(found: MethodResult) -> dict[str, float]:
    names = {item.name: item.value for item in found.figures if item.unit == "pps"}
    claims = {
        name: value for name, value in names.items() if name.removesuffix(" at least") in CARRIED
    }
    for bounds in found.bounds:
        if bounds.lower_pps is not None:
            claims[f"bound of {bounds.goal}"] = bounds.lower_pps
        if bounds.conditional_throughput_pps is not None:
            claims[f"throughput of {bounds.goal}"] = bounds.conditional_throughput_pps
    return claims


def switches(share: float, seed: int) -> dict[str, Measurer]:
    """Switches of one capacity. The sender or the switch does not run for a share of the time."""
    stall = Stalls(per_s=max(0.1, share / 0.017))
    blocking = Blocking(capacity_pps=CAPACITY_PPS)
    return {
        "blocks": BlockingSwitch(blocking, seed),
        "blocks and is descheduled": BlockingSwitch(
            replace(blocking, descheduled_share=share), seed
        ),
        "is descheduled without a report": BlockingSwitch(
            replace(blocking, descheduled_share=share, unreported_share=1.0), seed
        ),
        "sender stalls": StallingSwitch(CAPACITY_PPS, replace(stall, parts=("sender",)), seed),
        "receiver stalls": StallingSwitch(CAPACITY_PPS, replace(stall, parts=("receiver",)), seed),
        "switch stalls": StallingSwitch(CAPACITY_PPS, replace(stall, parts=("switch",)), seed),
        "sender is too slow": SimulatedSwitch(
            Behaviour(capacity_pps=2 * CAPACITY_PPS, sender_ceiling_pps=CAPACITY_PPS), seed
        ),
        "loses": SimulatedSwitch(Behaviour(capacity_pps=CAPACITY_PPS), seed),
        "pushes back": SimulatedSwitch(
            Behaviour(capacity_pps=CAPACITY_PPS, back_pressure=True), seed
        ),
    }


KINDS = list(switches(0.0, 0))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=6, deadline=None)
@given(
    share=st.sampled_from([0.002, 0.02, 0.06, 0.15, 0.4]),
    seed=st.integers(0, 1000),
    beyond=st.sampled_from([1.02, 1.3, 1.9, 4.0]),
)
def test_claims_are_at_most_the_forwarded_rate(
    method: str, kind: str, share: float, seed: int, beyond: float
) -> None:
    load = {"rate_pps": round(beyond * CAPACITY_PPS)} if method != "r-plus" else {}
    more = {"goals": "quick"} if method == "ndr-pdr" else {}
    if method == "back-to-back":
        more["budget_s"] = 40
    found = run_simulated(
        method, switches(share, seed)[kind], in_kernel="blocks" in kind, **load, **more
    )
    assert broken_claims(found) == []
    assert all(value <= 1.011 * CAPACITY_PPS for value in carried_claims(found).values())


@pytest.mark.parametrize("beyond", [1.02, 1.3, 1.9, 4.0])
def test_ndr_of_kernel_switch_is_its_capacity(beyond: float) -> None:
    """The engine once excused all frames that a blocked sender gave up, and any load of up to twice
    the capacity counted as carried."""
    found = run_simulated(
        "ndr-pdr",
        BlockingSwitch(Blocking(capacity_pps=CAPACITY_PPS, trial_noise=0.0005)),
        in_kernel=True,
        wire_pps=3 * CAPACITY_PPS,
        rate_pps=round(beyond * CAPACITY_PPS),
        goals="csit",
    )
    for bounds in found.bounds:
        assert bounds.decided_by == "switch"
        assert bounds.confirmed
        assert bounds.lower_pps == pytest.approx(CAPACITY_PPS, rel=0.012)
        assert bounds.upper_pps == pytest.approx(CAPACITY_PPS, rel=0.012)
    assert [item.name for item in found.figures] == ["NDR", "PDR"]


def test_search_of_a_starved_sender_does_not_blame_the_switch() -> None:
    """Other programs use its core for most of each trial, so not even a low load is offered."""
    found = run_simulated(
        "ndr-pdr",
        BlockingSwitch(Blocking(capacity_pps=CAPACITY_PPS, descheduled_share=20.0)),
        in_kernel=True,
        rate_pps=1_344_000,
        goals="quick",
    )
    assert found.figures == []
    assert {item.decided_by for item in found.bounds} == {"cores"}
    assert {item.upper_pps for item in found.bounds} == {None}
    assert "was kept from its core" in found.bounds[0].notes[0]


def test_ndr_of_slow_sender_is_a_lower_bound() -> None:
    behaviour = Behaviour(capacity_pps=5e6, sender_ceiling_pps=CAPACITY_PPS)
    found = run_simulated("ndr-pdr", behaviour, rate_pps=2_000_000, goals="quick")
    assert [item.name for item in found.figures] == ["NDR at least", "PDR at least"]
    assert all(item.high is None for item in found.figures)


def result(lower: float, forwarded: float, pdr: float | None = None) -> MethodResult:
    """A finished search, and a trial at its lower bound."""
    found = run_simulated("ndr-pdr", Behaviour(capacity_pps=1e6), goals="quick")
    trial = found.trials[0].model_copy(
        update={
            "intended_pps": lower, "forwarded_pps": forwarded, "duration_s": 1.0,
            "offered_frames": round(forwarded), "lost_frames": 0,
        }
    )  # fmt: skip
    ndr, other = found.bounds
    return found.model_copy(
        update={
            "trials": [trial],
            "figures": [],
            "bounds": [
                ndr.model_copy(update={"lower_pps": lower}),
                other.model_copy(update={"lower_pps": pdr}),
            ],
        }
    )


def test_broken_claims_name_the_rule() -> None:
    assert broken_claims(result(1e6, 1e6)) == []
    assert broken_claims(result(1e6, 0.991e6)) == []
    (text,) = broken_claims(result(830e3, 682e3))
    assert text == (
        "NDR: the lower bound of 830000 pps is above the highest rate that its trials forwarded, "
        "682000 pps"
    )
    (text,) = broken_claims(result(50e3, 50e3, pdr=49e3))
    assert text == "NDR (50000 pps) is above PDR (49000 pps), which tolerates more loss"


def test_broken_claims_cover_single_figures() -> None:
    found = run_simulated("plateau", Behaviour(capacity_pps=1e6), rate_pps=3_000_000)
    assert broken_claims(found) == []
    wrong = found.figures[0].model_copy(update={"value": 1.2e6})
    (text,) = broken_claims(found.model_copy(update={"figures": [wrong]}))
    assert text.startswith(
        "the plateau, 1200000 pps, is above the highest rate that its trials forwarded"
    )
