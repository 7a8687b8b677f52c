"""Every method as a campaign runs it, on a simulated switch of known capacity."""

from __future__ import annotations

import re

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.load import load_text
from switchmark.errors import UsageError
from switchmark.method.registry import METHODS
from switchmark.model.changes import Change
from switchmark.record import MethodResult
from switchmark.simulation.switch import Behaviour
from switchmark.trial.judge import method_checks
from tests.unit.campaign_fakes import KNOWN, SWITCHES
from tests.unit.method_fakes import LATE_NS, TIMED, run_simulated

CAPACITY_PPS = 2e6
SWITCH = Behaviour(capacity_pps=CAPACITY_PPS)
CLOSE = pytest.approx(CAPACITY_PPS, rel=0.02)


def value(found: MethodResult, name: str) -> float:
    figure = found.figure(name)
    assert figure is not None, f"{name} is none of {[one.name for one in found.figures]}"
    return figure.value


@pytest.mark.parametrize("name", [name for name, one in METHODS.items() if one.needs_load])
def test_result_has_all_trials(name: str) -> None:
    change = Change("4 ports added", lambda: None)
    found = run_simulated(name, SWITCH, changes=(change,), goals="quick", rate_pps=1_000_000)
    assert found.method == name
    assert found.trial_count == len(found.trials) > 0
    assert found.spent_s == pytest.approx(sum(one.elapsed_s for one in found.trials))
    assert found.budget_s == METHODS[name].default_budget_s
    assert found.warm_up_trials >= 2, "trials before the begin of the method"
    assert found.notes[-1] == "3 frames were reordered"


def test_budget_of_campaign_replaces_default() -> None:
    assert run_simulated("back-to-back", SWITCH, budget_s=9.0).budget_s == 9.0


def test_ndr_bounds_contain_the_capacity() -> None:
    found = run_simulated("ndr-pdr", SWITCH, goals="quick")
    ndr, pdr = found.bounds
    assert (found.headline, ndr.goal, pdr.goal) == ("NDR", "NDR", "PDR")
    assert ndr.lower_pps is not None and ndr.upper_pps is not None
    assert ndr.lower_pps <= CAPACITY_PPS <= ndr.upper_pps
    assert ndr.reached and ndr.decided_by == "switch"
    assert value(found, "NDR") == ndr.lower_pps


def test_ndr_limited_by_sender_is_at_least() -> None:
    found = run_simulated("ndr-pdr", Behaviour(capacity_pps=9e6, sender_ceiling_pps=1e6),
                          goals="quick")  # fmt: skip
    assert found.headline == "NDR at least"
    assert (found.figures[0].high, found.bounds[0].decided_by) == (None, "sender")


def test_ndr_at_highest_load_is_at_least() -> None:
    found = run_simulated("ndr-pdr", Behaviour(capacity_pps=9e6), goals="quick",
                          rate_pps=1_000_000)  # fmt: skip
    assert (found.headline, value(found, "NDR at least")) == ("NDR at least", 1e6)
    assert (found.figures[0].high, found.bounds[0].decided_by) == (None, "range")


def test_r_plus_and_one_way_times_at_fractions_of_it() -> None:
    found = run_simulated("r-plus", Behaviour(capacity_pps=CAPACITY_PPS, sender_ceiling_pps=4e6))
    assert value(found, "R+") == CLOSE
    assert [one.fraction for one in found.latency] == [0.1, 0.5, 0.99]
    assert value(found, "one-way median at 0.5 R+") == TIMED.percentiles_ns["50"]


def test_calibrate_finds_ceiling_lateness_and_floor() -> None:
    found = run_simulated("calibrate", Behaviour(capacity_pps=9e6, sender_ceiling_pps=4e6))
    assert value(found, "ceiling") == pytest.approx(4e6, rel=0.02)
    assert value(found, "latest frame at 50 % of the ceiling") == LATE_NS
    assert value(found, "one-way floor, median") == TIMED.percentiles_ns["50"]


def test_calibrate_keeps_its_budget() -> None:
    noisy = Behaviour(capacity_pps=CAPACITY_PPS, trial_noise=0.2)
    found = run_simulated("calibrate", noisy, budget_s=60.0, duration_s=5.0)
    assert found.stopped == "budget" and found.spent_s <= 60.0


def test_plateau_has_height_and_followed_load() -> None:
    found = run_simulated("plateau", SWITCH)
    assert found.headline == "plateau"
    assert value(found, "plateau") == CLOSE
    assert value(found, "followed to") <= CAPACITY_PPS


def test_loss_vs_load_finds_the_highest_clean_load() -> None:
    found = run_simulated("loss-vs-load", SWITCH)
    assert value(found, "lossless to") == pytest.approx(2e6, rel=0.26)
    assert value(found, "worst loss") == pytest.approx(0.6, abs=0.01)


def test_back_to_back_finds_the_buffer() -> None:
    found = run_simulated("back-to-back", Behaviour(capacity_pps=CAPACITY_PPS, buffer_frames=3000))
    assert found.headline == "longest burst"
    assert value(found, "buffer") == pytest.approx(3000, rel=0.1)


def test_soak_without_loss_has_an_upper_limit() -> None:
    found = run_simulated("soak", SWITCH, rate_pps=1_000_000, duration_s=10.0)
    ratio = found.figure("loss ratio")
    assert ratio is not None
    assert (ratio.value, ratio.low, ratio.high) == (0.0, 0.0, pytest.approx(3e-7))
    assert value(found, "longest clean") == 10.0


def test_soak_in_two_bands_is_marked() -> None:
    flapping = Behaviour(capacity_pps=2e6, second_band=0.8)
    found = run_simulated("soak", flapping, rate_pps=2_100_000, duration_s=7200.0)
    assert method_checks(found, sent=1)["two-bands"]
    assert len([note for note in found.notes if "two bands" in note]) == 1


def test_recovery_restarts_the_switch_and_times_it() -> None:
    done: list[str] = []
    found = run_simulated("recovery", SWITCH, restart=lambda: done.append("restarted"))
    assert done == ["restarted"]
    assert value(found, "recovery") == pytest.approx(0.1)
    assert value(found, "reset: outage") == pytest.approx(0.1, rel=0.01)
    assert value(found, "throughput") == CLOSE


def test_reconfiguration_makes_every_change() -> None:
    done: list[str] = []
    changes = tuple(Change(name, lambda name=name: done.append(name)) for name in ("a", "b"))
    found = run_simulated("reconfiguration", SWITCH, changes=changes)
    assert done == ["a", "b"]
    assert found.headline == "longest outage"
    assert {"nothing done: outage", "a: outage", "b: silence"} <= {
        one.name for one in found.figures
    }
    assert value(found, "load") == pytest.approx(CAPACITY_PPS / 2, rel=0.02)


def test_first_packets_and_known_flows_are_timed() -> None:
    found = run_simulated("first-packet", SWITCH, rate_pps=100_000)
    assert found.headline == "first packet median"
    assert value(found, "first packet p99") == TIMED.percentiles_ns["99"]
    assert value(found, "known flow median") == TIMED.percentiles_ns["50"]
    assert [one.burst for one in found.latency] == [1, 1]
    assert any("takes 1 times as long" in note for note in found.notes)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("flows: 999\nrate: 1k", "1000 frames need as many flows, not 999; raise flows"),
        ("flows: 1k\nrate: 1k\nduration: 2s", "2000 frames need as many flows, not 1000"),
        ("flows: 1k:zipf=1.1\nrate: 1k", "zipf does not; leave zipf out of flows"),
        ("flows: 1k", "needs a set load; give rate, e.g. 5k"),
        ("flows: 1k\nrate: 1k\nprobe_rate: 10", "times every frame; leave probe_rate out"),
    ],
)
def test_first_packet_refuses_repeated_flows(keys: str, message: str) -> None:
    text = f"switch: ovs-dpdk\npacket_size: 64\nmethod: first-packet\n{keys}"
    if "duration" not in keys:
        text += "\nduration: 1s"
    with pytest.raises(UsageError, match=re.escape(message)):
        expand(load_text(text, "c.yaml", KNOWN), SWITCHES)


def test_one_way_times_at_set_load_and_fractions() -> None:
    found = run_simulated("one-way", SWITCH, rate_pps=100_000)
    assert found.headline == "one-way median"
    assert value(found, "one-way mean") == TIMED.mean_ns
    assert value(found, "one-way max") == TIMED.max_ns
    assert value(found, "one-way stdev") == TIMED.stdev_ns
    assert [one.load_pps for one in found.latency] == [100_000]
    chosen = run_simulated("r-plus", SWITCH, fractions="0.95")
    assert [one.fraction for one in chosen.latency] == [0.95]
    assert value(chosen, "one-way mean at 0.95 R+") == TIMED.mean_ns
