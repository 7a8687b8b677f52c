"""The limit and the marks of a figure follow from its evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from switchmark.engine.loads import NO_FRAMES
from switchmark.record import Figures, Latency, Limit, PairLoads, Throughput, Verification
from switchmark.record.marks import MARKS, explain
from switchmark.trial.evidence import Baseline, Evidence
from switchmark.trial.judge import verdict
from switchmark.trial.limit import limit
from tests.unit.engine_lines import counters
from tests.unit.records import synthetic_histogram
from tests.unit.trial_fakes import placement, trial

EVIDENCE = Evidence(
    sender=counters(tx_offered=1_000_000, tx_polls=1000, ring_full_polls=0),
    receiver=counters(idle_polls=500, useful_polls=500),
    baseline=Baseline(forwarded_pps=1e6),
    kept_samples=10,
    on_schedule=True,
    in_kernel=False,
    cpu_wait_share=0.0,
    others_cores=0.0,
    sent_frames=1_000_000,
)
PASSED = Verification(
    frames_sent=4, frames_arrived=4, strays=0, witness_frames=0, passed=True, message="fine"
)
FULL_RING = counters(tx_offered=1_000_000, tx_polls=1000, ring_full_polls=50)
NO_WAITING = counters(idle_polls=4, useful_polls=96)


def figures_of(forwarded: float = 500e3, **changes: Any) -> Figures:
    offered = changes.get("offered_pps", forwarded)
    load = PairLoads(pair=0, intended_pps=None, offered_pps=offered, forwarded_pps=forwarded)
    values: dict[str, Any] = {
        "intended_pps": None,
        "offered_pps": offered,
        "forwarded_pps": forwarded,
        "forwarded_l2_bps": forwarded * 512,
        "forwarded_l1_bps": forwarded * 672,
        "forwarded_stdev_pps": 0.0,
        "loss_ratio": 0.0,
        "pairs": [load],
    }
    return Figures(throughput=Throughput(**(values | changes)))


@pytest.mark.parametrize(("on_the_cable", "expected"), [(60_000, "link"), (40_000, "switch")])
def test_link_is_the_limit_if_cable_lost_most_frames(on_the_cable: int, expected: str) -> None:
    pair = PairLoads(
        pair=0, intended_pps=None, offered_pps=5e5, forwarded_pps=5e5, lost_frames=100_000
    )
    found = limit(
        trial(),
        figures_of(loss_ratio=0.16, pairs=[pair]),
        replace(EVIDENCE, cable_lost=on_the_cable),
    )
    assert found.factor == expected
    assert f"{on_the_cable} frames were lost on the cable between the hosts" in found.evidence


def rtt(median_ns: float = 20_000.0) -> Figures:
    text = synthetic_histogram(20_000, 100)
    marks = dict.fromkeys(("50", "90", "99", "99.9", "99.99", "99.999"), median_ns)
    return Figures(
        latency=Latency(
            kind="rtt",
            count=100,
            min_ns=1000,
            mean_ns=20_000,
            stdev_ns=10,
            max_ns=90_000,
            percentiles_ns=marks,
            intended_percentiles_ns=marks,
            histogram=text,
            intended_histogram=text,
            lost=0,
        )
    )


@pytest.mark.parametrize(
    ("expected", "why", "figures", "evidence", "switch"),
    [
        ("unknown", "no frame arrived", figures_of(0), {}, "ovs-dpdk"),
        # A load that was met limits nothing, whatever else was seen.
        ("rate", "100.00% of the intended load", figures_of(5e5, intended_pps=5e5), {}, "ovs-dpdk"),
        ("rate", "99.50% of", figures_of(497_500, intended_pps=5e5), {}, "ovs-dpdk"),
        ("rate", "ring", figures_of(5e5, intended_pps=5e5), {"sender": FULL_RING}, "ovs-dpdk"),
        (
            "switch",
            "0.60 % of offered",
            figures_of(497_000, intended_pps=5e5, loss_ratio=0.006),
            {},
            "ovs-dpdk",
        ),
        # The receiver: it never waited while frames were refused or lost before it, or its
        # own socket dropped them.
        (
            "receiver",
            "4% of the receiver's polls",
            figures_of(),
            {"sender": FULL_RING, "receiver": NO_WAITING},
            "ovs-dpdk",
        ),
        (
            "receiver",
            "1.00 % of offered frames were lost",
            figures_of(loss_ratio=0.01),
            {"receiver": NO_WAITING},
            "ovs-dpdk",
        ),
        ("generator", "50%", figures_of(), {"receiver": NO_WAITING}, "ovs-dpdk"),
        (
            "receiver",
            "1001 frames were dropped at the receiver's own socket",
            figures_of(loss_ratio=0.001),
            {"socket_drops": 1001},
            "linux-bridge",
        ),
        (
            "switch",
            "1000 frames were dropped",
            figures_of(loss_ratio=0.001),
            {"socket_drops": 1000},
            "linux-bridge",
        ),
        (
            "receiver",
            "socket",
            figures_of(1e6),
            {"socket_drops": 5000},
            "direct",
        ),
        # The wire itself shows what the applications can do.
        ("generator", "0% of transmit", figures_of(), {"baseline": Baseline()}, "direct"),
        ("generator", "5% of transmit", figures_of(), {"sender": FULL_RING}, "direct"),
        # Close to the wire: the applications.
        ("generator", "90% of the baseline", figures_of(9e5), {"sender": FULL_RING}, "ovs-dpdk"),
        ("generator", "110% of the baseline", figures_of(1.1e6), {"sender": FULL_RING}, "ovs-dpdk"),
        # Far from it, with evidence behind the sender: the switch.
        ("switch", "89% of the baseline", figures_of(8.9e5), {"sender": FULL_RING}, "ovs-dpdk"),
        ("switch", "5% of transmit calls", figures_of(), {"sender": FULL_RING}, "ovs-dpdk"),
        ("switch", "0.10 % of offered", figures_of(loss_ratio=0.001), {}, "ovs-dpdk"),
        ("switch", "50% of the baseline", figures_of(), {"in_kernel": True}, "linux-bridge"),
        # Far from it, without: the sender had room and did not use it.
        ("generator", "50% of the baseline", figures_of(), {}, "ovs-dpdk"),
        # More was offered than came through, although no gap shows it yet: a queue took it in.
        ("switch", "89% of the offered", figures_of(4.45e5, offered_pps=5e5), {}, "ovs-dpdk"),
        ("generator", "45% of the baseline", figures_of(4.5e5, offered_pps=5e5), {}, "ovs-dpdk"),
        # No ceiling known.
        ("unknown", "0% of transmit calls", figures_of(), {"baseline": Baseline()}, "ovs-dpdk"),
        (
            "unknown",
            "0% of transmit",
            figures_of(),
            {"baseline": Baseline(), "in_kernel": True},
            "linux-bridge",
        ),
        (
            "switch",
            "5% of transmit",
            figures_of(),
            {"baseline": Baseline(), "sender": FULL_RING},
            "ovs-dpdk",
        ),
        # A baseline that was slower than the switch is not a ceiling.
        ("unknown", "slower baseline is not a ceiling", figures_of(1.2e6), {}, "ovs-dpdk"),
        ("switch", "not a ceiling", figures_of(1.2e6), {"sender": FULL_RING}, "ovs-dpdk"),
        ("unknown", "not a ceiling", figures_of(1.2e6), {"in_kernel": True}, "linux-bridge"),
    ],
)
def test_limit_of_throughput(
    expected: str, why: str, figures: Figures, evidence: dict[str, Any], switch: str
) -> None:
    found = limit(trial(switch=switch), figures, replace(EVIDENCE, **evidence))
    assert found.factor == expected
    assert any(why in note for note in found.evidence), found.evidence


def test_waiting_for_a_core_is_evidence() -> None:
    found = limit(trial(), figures_of(), replace(EVIDENCE, cpu_wait_share=0.25))
    assert "an application waited for a core 25% of the time" in found.evidence
    quiet = limit(trial(), figures_of(), replace(EVIDENCE, cpu_wait_share=0.10))
    assert not any("waited" in note for note in quiet.evidence)


@pytest.mark.parametrize(
    ("sent", "received", "waited", "expected"),
    [
        ({}, {"rx_missing": 8000, "rx_missed_away": 4000}, 0.0, "cpu-shared"),
        ({}, {"rx_missing": 8000, "rx_missed_away": 3000}, 0.0, "switch"),
        ({"tx_dropped": 7000}, {"rx_missing": 8000, "rx_missed_away": 4000}, 0.4, "cpu-shared"),
        ({"tx_dropped": 8000, "tx_late": 5000}, {}, 0.4, "cpu-shared"),
        ({"tx_dropped": 8000, "tx_late": 5000}, {}, 0.0, "switch"),  # late, but not for a core
        ({"tx_dropped": 8000, "tx_late": 3000}, {}, 0.4, "switch"),  # the port refused most
    ],
)
def test_core_wait_is_the_limit_if_it_explains_missing_frames(
    sent: dict[str, int], received: dict[str, int], waited: float, expected: str
) -> None:
    evidence = replace(
        EVIDENCE,
        sender=counters(tx_offered=1_000_000, tx_polls=1000, ring_full_polls=100, **sent),
        receiver=counters(idle_polls=500, useful_polls=500, **received),
        cpu_wait_share=waited,
    )
    assert limit(trial(), figures_of(loss_ratio=0.008), evidence).factor == expected


@pytest.mark.parametrize(
    ("share", "late", "expected"),
    [
        (0.05, 0, "cpu-shared"),  # 50,000 of a million fell due while the switch was away
        (0.02, 0, "switch"),
        (0.02, 40_000, "switch"),  # late, but no sender waited: its own trouble
        (0.5, 0, "cpu-shared"),
    ],
)
def test_limit_of_refused_frames_while_switch_waited(
    share: float, late: int, expected: str
) -> None:
    sender = counters(tx_offered=920_000, tx_dropped=80_000, tx_late=late)
    evidence = replace(EVIDENCE, sender=sender, switch_wait_share=share)
    bare = replace(evidence, baseline=Baseline(forwarded_pps=9e6, met_its_load=True))
    found = limit(trial(), figures_of(intended_pps=1.3e6), bare)
    assert found.factor == expected
    assert f"the switch was kept from its core {share:.0%} of the time" in found.evidence


def test_not_sent_says_whose_fault_it_was() -> None:
    output = limit(
        trial(), figures_of(), replace(EVIDENCE, sender=counters(tx_dropped=973, tx_late=900))
    ).evidence
    message = "973 frames were not sent: the port refused 73, the sender came late for 900"
    assert message in output


def test_no_polls_are_not_backpressure() -> None:
    none = replace(EVIDENCE, sender=NO_FRAMES, receiver=NO_FRAMES)
    assert none.refused_share == 0.0 and none.idle_share == 1.0


FLOOR = Baseline(rtt_median_ns=10_000)


@pytest.mark.parametrize(
    ("expected", "why", "median_ns", "evidence", "switch"),
    [
        ("cpu-shared", "waited for a core 11%", 20e3, {"cpu_wait_share": 0.11}, "ovs-dpdk"),
        ("cpu-shared", "waited", 20e3, {"cpu_wait_share": 0.5}, "direct"),
        ("generator", "20.0 us", 20e3, {"baseline": Baseline()}, "direct"),
        ("unknown", "no baseline", 20e3, {"baseline": Baseline()}, "ovs-dpdk"),
        ("switch", "the median of the baseline is 10.0 us", 20e3, {"baseline": FLOOR}, "ovs-dpdk"),
        ("generator", "median round trip 11.0 us", 11e3, {"baseline": FLOOR}, "ovs-dpdk"),
        ("switch", "11.2 us", 11.2e3, {"baseline": FLOOR}, "ovs-dpdk"),
        ("generator", "9.5 us", 9.5e3, {"baseline": FLOOR}, "ovs-dpdk"),
        (
            "unknown",
            "the baseline was slower than the switch, so it gives no floor",
            9e3,
            {"baseline": FLOOR},
            "ovs-dpdk",
        ),
    ],
)
def test_limit_of_latency(
    expected: str, why: str, median_ns: float, evidence: dict[str, Any], switch: str
) -> None:
    requested = trial("latency", switch=switch, rate_pps=1000)
    found = limit(requested, rtt(median_ns), replace(EVIDENCE, **evidence))
    assert found.factor == expected
    assert any(why in note for note in found.evidence), found.evidence


def marks(
    figures: Figures | None = None,
    expected: str = "switch",
    switch: str = "ovs-dpdk",
    verification: Verification = PASSED,
    mixed: bool = False,
    oversubscribed: bool = False,
    **evidence: Any,
) -> list[str]:
    found = verdict(
        trial(switch=switch),
        Limit(factor=expected, evidence=[]),  # type: ignore[arg-type]
        figures or figures_of(),
        replace(EVIDENCE, **evidence),
        placement(oversubscribed=oversubscribed),
        verification,
        mixed_connect_modes=mixed,
    )
    assert found.explanations == [explain(mark) for mark in found.marks]
    assert found.valid == (not any(MARKS[mark].invalidates for mark in found.marks))
    return found.marks


def unproven(**changes: Any) -> Verification:
    return PASSED.model_copy(update={"passed": False, **changes})


def corrupt(count: int) -> Figures:
    load = PairLoads(pair=0, intended_pps=None, offered_pps=5e5, forwarded_pps=5e5, corrupt=count)
    return figures_of(pairs=[load])


def copied(count: int) -> Figures:
    pair = {"intended_pps": None, "offered_pps": 2.5e5, "forwarded_pps": 2.5e5}
    copies = (count - count // 2, count // 2)
    return figures_of(pairs=[PairLoads(pair=k, duplicates=n, **pair) for k, n in enumerate(copies)])


def test_nothing_to_say() -> None:
    assert marks() == []
    assert marks(rtt(), baseline=FLOOR) == []


@pytest.mark.parametrize(
    ("mark", "holds", "holds_not"),
    [
        ("oversubscribed", {"oversubscribed": True}, {}),
        ("throttled", {"throttled": True}, {"throttled": False}),
        (
            "generator-bound",
            {"expected": "generator"},
            {"expected": "generator", "switch": "direct"},
        ),
        ("receiver-bound", {"expected": "receiver"}, {"expected": "receiver", "switch": "direct"}),
        (
            "unstable",
            {"figures": figures_of(forwarded_stdev_pps=50_001)},
            {"figures": figures_of(forwarded_stdev_pps=50_000)},
        ),
        ("short-window", {"kept_samples": 4}, {"kept_samples": 5}),
        ("disturbed", {"others_cores": 0.11}, {"others_cores": 0.10}),
        ("schedule-missed", {"on_schedule": False}, {}),
        ("lossy-receiver-socket", {"socket_drops": 1}, {}),
        ("duration-stretched", {"stretch": 0.021}, {"stretch": 0.02}),
        (
            "wrong-connect-mode",
            {"verification": unproven(wrong_mode="a table of addresses passed a broadcast")},
            {"verification": unproven()},
        ),
        ("flooding", {"verification": unproven(strays=1)}, {"verification": unproven()}),
        ("flooding", {"verification": unproven(witness_frames=1)}, {}),
        ("flooding", {"witness_frames": 1001}, {"witness_frames": 1000}),
        (
            "flooding",
            {"receiver": counters(rx_foreign=1001)},
            {"receiver": counters(rx_foreign=1000)},
        ),
        (
            "flooding",
            {"sender": counters(rx_foreign=2, tx_offered=1000)},
            {"sender": counters(rx_foreign=1, tx_offered=1000)},
        ),
        ("unverified", {"verification": unproven()}, {"verification": unproven(strays=1)}),
        ("no-baseline", {"baseline": Baseline()}, {"baseline": FLOOR}),
        ("no-baseline", {"baseline": Baseline()}, {"baseline": Baseline(), "switch": "direct"}),
        ("mixed-connect-modes", {"mixed": True}, {"mixed": True, "switch": "direct"}),
        ("corrupt-frames", {"figures": corrupt(1)}, {"figures": corrupt(0)}),
        (
            "corrupt-frames",
            {"figures": rtt(), "sender": counters(rx_corrupt=1)},
            {"figures": rtt()},
        ),
        ("copied-frames", {"figures": copied(1001)}, {"figures": copied(1000)}),
        ("nothing-arrived", {"figures": figures_of(0)}, {"figures": rtt()}),
        (
            "receiver-away",
            {"receiver": counters(rx_missing=300, rx_missed_away=150), "sender": FULL_RING},
            {"receiver": counters(rx_missing=302, rx_missed_away=150), "sender": FULL_RING},
        ),
        (
            "receiver-away",
            {"receiver": counters(rx_missing=101, rx_missed_away=101), "sender": FULL_RING},
            {"receiver": counters(rx_missing=100, rx_missed_away=100), "sender": FULL_RING},
        ),
        ("partial", {"faults": ("sender in tx0: port 0 failed",)}, {}),
        ("contradictory-counts", {"contradictions": ("receiver in rx0: 11 of 10",)}, {}),
        ("uncertain-loss", {"uncertain_losses": ("receiver in rx0: 0 to 3",)}, {}),
    ],
)
def test_marks(mark: str, holds: dict[str, Any], holds_not: dict[str, Any]) -> None:
    assert mark in marks(**holds)
    assert mark not in marks(**holds_not)


@pytest.mark.parametrize(
    ("figures", "evidence", "found"),
    [
        (figures_of(9e5), {"sender": FULL_RING}, ["generator-bound"]),
        (figures_of(loss_ratio=0.01), {"receiver": NO_WAITING}, ["receiver-bound"]),
        (figures_of(loss_ratio=0.01), {}, []),  # the switch's own limit: nothing to warn of
    ],
)
def test_evidence_leads_to_the_mark(
    figures: Figures, evidence: dict[str, Any], found: list[str]
) -> None:
    """From the evidence to the verdict, by way of the limit that the judge itself names."""
    bound = limit(trial(), figures, replace(EVIDENCE, **evidence))
    assert marks(figures, expected=bound.factor, **evidence) == found


def test_latency_has_no_window_marks() -> None:
    assert marks(rtt(), kept_samples=1, baseline=FLOOR) == []


def test_marks_come_together_and_one_invalidates_all() -> None:
    found = marks(figures_of(0), expected="unknown", oversubscribed=True, mixed=True)
    assert found == ["oversubscribed", "mixed-connect-modes", "nothing-arrived"]


@pytest.mark.parametrize(("median_ns", "marked"), [(3_900, True), (4_100, False)])
def test_a_clock_whose_step_is_a_hundredth_of_the_time_is_marked(
    median_ns: float, marked: bool
) -> None:
    """A counter of 25 MHz, as many 64-bit ARM machines have, steps by 40 ns."""
    found = marks(figures=rtt(median_ns), clock_step_ns=40.0)
    assert ("coarse-clock" in found) == marked


def test_a_coarse_clock_marks_no_rate() -> None:
    assert "coarse-clock" not in marks(clock_step_ns=1e6)


@pytest.mark.parametrize("method", ["recovery", "reconfiguration", "soak"])
def test_methods_that_are_about_outages_may_meet_them(method: str) -> None:
    found = verdict(
        trial(method=method),
        Limit(factor="unknown", evidence=[]),
        figures_of(),
        replace(EVIDENCE, faults=("sender in tx0: port 0: its peer went away",)),
        placement(),
        PASSED,
        mixed_connect_modes=False,
    )
    assert "partial" not in found.marks
