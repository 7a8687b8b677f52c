"""A range file of Pktgen-DPDK: both ports from 4000 to 5000, up by 1.

From https://github.com/atoonk/dpdk_pktgen/issues/1, which asks for the number of flows. Fields that
advance in step have as many combinations as the longer range has values: 1,001, and neither 1,000
nor the product, 1,002,001.
"""

from __future__ import annotations

from pathlib import Path

from tests.cases.frames import parse
from tests.cases.test_back_to_back_examples import back_to_back, sent


def test_ports_in_step_are_1001_flows(tmp_path: Path) -> None:
    frames = {"choice": "fixed_packets", "fixed_packets": {"packets": 2002}}
    config = back_to_back(duration=frames, rate={"choice": "pps", "pps": 100_000})
    up = {"choice": "increment", "increment": {"start": 4000, "step": 1, "count": 1001}}
    config["flows"][0]["packet"][2]["udp"] = {"src_port": up, "dst_port": up}
    ports = [parse(one.data).ports for one in sent(config, tmp_path)]
    assert ports == [(4000 + n % 1001, 4000 + n % 1001) for n in range(2002)]
    assert len(set(ports)) == 1001
