"""The cost of functions: shares against the contender's own baseline in the same block."""

import pytest

from switchmark.model.functions import FunctionList, read_functions
from switchmark.model.trial import Trial
from switchmark.record.metric import RUN_METRICS, method_metric
from switchmark.results.blocks import Observed
from switchmark.results.function_share import baselines_of, function_shares, share_sentences

METRICS = {metric.name: metric for metric in RUN_METRICS}
FORWARDED, RTT = METRICS["forwarded"], METRICS["rtt-p50"]


def trial(function: str, switch: str = "ovs-dpdk", **keys: object) -> Trial:
    return Trial(
        dimension="throughput", switch=switch, packet_size_bytes=64,
        function=read_functions(function), **keys,
    )  # fmt: skip


def measured(of: Trial, figures: list[float], metric: object = FORWARDED) -> list[Observed]:
    return [
        Observed(trial=of, block=block, part=0, start_s=10.0 * block, end_s=10.0 * block + 1,
                 figures={metric: figure})
        for block, figure in enumerate(figures)
    ]  # fmt: skip


def test_a_share_is_the_ratio_within_a_block() -> None:
    with_rules, without = trial("route+acl", rules=10_000), trial("route+acl", rules=0)
    # Block 1 is twice as slow for both: the ratio does not see it.
    observed = [
        *measured(with_rules, [0.9e6, 0.45e6, 0.91e6, 0.89e6, 0.9e6]),
        *measured(without, [1e6, 0.5e6, 1e6, 1e6, 1e6]),
    ]
    (share,) = function_shares(observed, {with_rules.id: "ovs-dpdk"})
    assert share.value == pytest.approx(0.9, rel=0.01)
    assert share.ratio is not None
    assert share.ratio.low < 0.9 < share.ratio.high
    assert share.scale == (10_000, "rules")
    (text,) = share_sentences([share])
    assert text.startswith(
        "At 10,000 rules (route+acl), rate of each contender divided by its rate without rules: "
        "ovs-dpdk 0.90 (0."
    )


def test_the_best_comes_first_and_two_pairs_have_no_interval() -> None:
    names, observed = {}, []
    for switch, kept_share in (("linux-router", 0.01), ("ovs-dpdk", 0.92)):
        with_rules = trial("route+acl", switch, rules=100)
        names[with_rules.id] = switch
        observed += measured(with_rules, [kept_share * 1e6] * 2)
        observed += measured(trial("route+acl", switch, rules=0), [1e6] * 2)
    (text,) = share_sentences(function_shares(observed, names))
    assert text == (
        "At 100 rules (route+acl), rate of each contender divided by its rate without rules: "
        "ovs-dpdk 0.92 (2 pairs of trials, no interval), "
        "linux-router 0.010 (2 pairs of trials, no interval)"
    )


def test_sentences_are_in_the_order_of_scales() -> None:
    observed, names = measured(trial("route", routes=1), [1e6] * 3), {}
    for routes in (1000, 5, 100):
        of = trial("route", routes=routes)
        names[of.id] = "vpp"
        observed += measured(of, [0.9e6] * 3)
    texts = share_sentences(function_shares(observed, names))
    assert [text.split(" ")[1] for text in texts] == ["5", "100", "1,000"]


def test_rates_come_before_times() -> None:
    observed, names = [], {}
    for rate, metric in (("max", FORWARDED), ("10k", RTT)):
        for routes in (1, 1000, 5):
            of = trial("route", routes=routes, rate_pps=None if rate == "max" else 10_000)
            names[of.id] = "vpp"
            observed += measured(of, [2.0] * 3, metric)
    texts = share_sentences(function_shares(observed[::-1], names))
    heads = [(text.split(" ")[1], "rtt-p50" in text) for text in texts]
    assert heads == [("5", False), ("1,000", False), ("5", True), ("1,000", True)]


def test_times_are_factors() -> None:
    slow, fast = trial("route", routes=1000), trial("route", routes=1)
    observed = [*measured(slow, [12e3] * 3, RTT), *measured(fast, [10e3] * 3, RTT)]
    (text,) = share_sentences(function_shares(observed, {slow.id: "vpp"}))
    assert text.endswith(" divided by its rtt-p50 with one route: vpp 1.20 (1.20 to 1.20)")


def test_tunnels_have_forwarding_both_ways_as_baseline() -> None:
    keys = {"direction": "both", "bidirectional": True}
    names, observed = {}, measured(trial("forward", bidirectional=True), [1e6] * 2)
    for tunnels in (1, 1000):
        tunnelled = trial("forward+vxlan", tunnels=tunnels, **keys)
        names[tunnelled.id] = "ovs-dpdk"
        observed += measured(tunnelled, [0.5e6] * 2)
    first, second = share_sentences(function_shares(observed, names))
    ratio = "rate of each contender divided by its rate with function forward: ovs-dpdk 0.50"
    assert first.startswith(f"At 1 tunnel (forward+vxlan), {ratio}")
    assert second.startswith(f"At 1,000 tunnels (forward+vxlan), {ratio}")


def test_without_a_baseline_there_is_no_share() -> None:
    only = trial("route+acl", rules=100)
    assert function_shares(measured(only, [1e6] * 3), {only.id: "x"}) == []


@pytest.mark.parametrize(
    ("of", "baseline"),
    [
        (trial("route", routes=1000), trial("route", routes=1)),
        (trial("forward+acl", rules=9), trial("forward+acl", rules=0)),
        (trial("forward+acl", rules=9, masks=4), trial("forward+acl", rules=0, masks=4)),
    ],
)
def test_the_closest_baseline(of: Trial, baseline: Trial) -> None:
    assert next(baselines_of(of)) == baseline


def test_a_baseline_has_no_baseline() -> None:
    for plain in (trial("forward"), trial("route", routes=1), trial("forward+acl", rules=0)):
        assert list(baselines_of(plain)) == []


def test_bounds_of_searches_have_no_share() -> None:
    with_rules, without = trial("route+acl", rules=100), trial("route+acl", rules=0)
    names = {with_rules.id: "ovs-dpdk"}
    for name, count in (("NDR", 1), ("NDR at least", 0)):
        metric = method_metric(name, "pps")
        observed = [*measured(with_rules, [2e6], metric), *measured(without, [1e6], metric)]
        assert len(function_shares(observed, names)) == count


def test_sentences_name_neighbours_that_differ() -> None:
    observed, names = [], {}
    for neighbour in ("none", "cache"):
        with_rules = trial("route+acl", rules=100, neighbour=neighbour)
        names[with_rules.id] = "ovs-dpdk"
        observed += measured(with_rules, [1e6])
        observed += measured(trial("route+acl", rules=0, neighbour=neighbour), [2e6])
    texts = share_sentences(function_shares(observed, names))
    assert [text.partition(", rate")[0] for text in texts] == [
        "At 100 rules (route+acl), no neighbour",
        "At 100 rules (route+acl), neighbour cache",
    ]


def test_sentences_name_rates_and_sizes_that_differ() -> None:
    """Two sentences with the same beginning had the figures of two rates of a policer."""
    observed, names = [], {}
    for keys in ({"cir_bps": 10**7}, {"cir_bps": 10**9}):
        policed = trial("forward+policer", **keys)
        names[policed.id] = "ovs-dpdk"
        observed += measured(policed, [keys["cir_bps"] / 1e3] * 3)
    observed += measured(trial("forward"), [1e6] * 3)
    for size in (64, 1500):
        with_rules = trial("route+acl", rules=100).changed({"packet_size_bytes": size})
        names[with_rules.id] = "ovs-dpdk"
        without = trial("route+acl", rules=0).changed({"packet_size_bytes": size})
        observed += [*measured(with_rules, [1e6] * 3), *measured(without, [2e6] * 3)]
    texts = share_sentences(function_shares(observed, names))
    assert sorted(text.partition(", rate")[0] for text in texts) == [
        "At 100 rules (route+acl), 1500 B",
        "At 100 rules (route+acl), 64 B",
        "With forward+policer, frames of 64 B, CIR 10Mbit/s",
        "With forward+policer, frames of 64 B, CIR 1Gbit/s",
    ]


def test_share_of_an_unknown_function_is_left_out() -> None:
    """A record of a later version ended `show` with a traceback."""
    later = trial("route").changed({"function": FunctionList.of("teleport+acl"), "rules": 5})
    assert function_shares(measured(later, [1e6] * 3), {later.id: "ovs-dpdk"}) == []
