"""A set rate is not multiplied by queues, pairs or directions.

From https://github.com/pktgen/Pktgen-DPDK/issues/356 (twice the rate with two transmit cores) and
/issues/380 (divided twice); opnfv/nfvbench d04f640 counted one direction as two, opnfv/vswitchperf
da059df4 took the share of one direction's line for two. `--rate` is the rate of the port, whatever
its queues; a campaign's rate is that of each pair and each direction, and a share of a line refers
to one direction."""

from __future__ import annotations

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.load import load_settings
from switchmark.model.parameter_type import Known
from switchmark.switch.registry import SWITCHES
from tests.cases.engine import PATIENT, run_engine

KNOWN = Known(switches=("linux-bridge",), environments=("netns",), scenarios=("pairs",))


@pytest.mark.parametrize("queues", [1, 2, 4, 16])
def test_rate_of_a_port_is_that_of_all_its_queues(queues: int) -> None:
    """100,000 a second for 0.2 s are 20,000 frames together; the last burst of a queue is
    complete."""
    options = ["--rate", "100k", "--duration", "0.2", "--burst", "5", "--queues", str(queues)]
    totals = run_engine("sender", "--port", "null:", *options, *PATIENT).totals
    assert totals["tx_intended"] == totals["tx_offered"]
    assert abs(totals["tx_offered"] - 20_000) <= 5 * queues


@pytest.mark.parametrize("pairs", [1, 2, 4])
@pytest.mark.parametrize("bidirectional", ["false", "true"])
def test_rate_of_a_campaign_is_that_of_each_pair_and_direction(
    pairs: int, bidirectional: str
) -> None:
    settings = {"switch": "linux-bridge", "packet_size": "64", "pairs": str(pairs)}
    for rate, expected in (("10k", 10_000), ("10% of 1Gbps", 148_810)):
        more = {"rate": rate, "bidirectional": bidirectional}
        campaign = load_settings(settings | more, KNOWN, name="t", overrides=[])
        (trial,) = expand(campaign, {"linux-bridge": SWITCHES["linux-bridge"]().capabilities})
        assert trial.rate_pps == expected
