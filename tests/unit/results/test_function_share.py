"""The cost of functions: shares against the contender's own baseline in the same block."""

import pytest

from switchmark.model.functions import read_functions
from switchmark.model.trial import Trial
from switchmark.record.metric import RUN_METRICS
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
        "ovs-dpdk 0.92 (2 pairs, no interval), linux-router 0.01 (2 pairs, no interval)"
    )


def test_sentences_are_in_the_order_of_scales() -> None:
    observed, names = measured(trial("route", routes=1), [1e6] * 3), {}
    for routes in (1000, 5, 100):
        of = trial("route", routes=routes)
        names[of.id] = "vpp"
        observed += measured(of, [0.9e6] * 3)
    texts = share_sentences(function_shares(observed, names))
    assert [text.split(" ")[1] for text in texts] == ["5", "100", "1,000"]


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
