from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_file, load_settings, load_text
from switchmark.language.source import CampaignError
from switchmark.model.campaign import CampaignDefinition, Sweep
from switchmark.model.choices import Dimension
from switchmark.model.io import Io
from switchmark.model.parameter_table import BY_LETTER, KEYS, PARAMETERS
from switchmark.model.parameter_type import Known
from switchmark.model.ports import ConnectMode, PortKind
from switchmark.model.trial import Trial
from tests.unit.campaign_fakes import KNOWN


def load(text: str, *overrides: str) -> CampaignDefinition:
    return load_text(text, "c.yaml", KNOWN, overrides)


def test_the_shortest_campaign_has_every_default() -> None:
    campaign = load("switch: linux-bridge")
    assert campaign.name == "c"
    assert campaign.repetitions == 1
    assert campaign.count == 1
    (sweep,) = campaign.sweeps
    trial = Trial(dimension=Dimension.THROUGHPUT, switch="linux-bridge", packet_size_bytes=64)
    for field in Sweep.model_fields:
        expected = getattr(trial, field)
        assert getattr(sweep, field) == (expected if field == "dimension" else (expected,)), field


def test_the_full_language() -> None:
    campaign = load("""\
name: my-campaign
description: >
  folded over
  two lines
switch: [linux-bridge, ovs-dpdk, basicfwd]
environment: lxc
dimension: [throughput, latency]
packet_size: 64..512 step 64, 1024, 1500      # bytes, L2 frame with FCS
rate: 1M..20M step 1M, max
burst: 32, 128
pairs: 1vs1, 2vs2, 4
io: [udp, raw-mmsg]
idle: poll
touch: yes
duration: 5s
interval: 100ms
repetitions: 3
connect_mode: learning
port_kind: veth
switch_cores: 1, 2
spare_cores: 0
scenario: pairs
location: local
seed: 42
trim: {warm_up: 2s, cool_down: 0s}
verify: {frames: 20, min_arrived: 90%, max_strays: 2, timeout: 10s}
mixed_connect_modes: true
latency: {rate: 1000, burst: 1}
""")
    assert campaign.name == "my-campaign"
    assert campaign.description == "folded over two lines"
    throughput, latency = campaign.sweeps
    assert throughput.dimension is Dimension.THROUGHPUT
    assert throughput.packet_size_bytes == (64, 128, 192, 256, 320, 384, 448, 512, 1024, 1500)
    assert throughput.rate_pps == (*range(1_000_000, 20_000_001, 1_000_000), None)
    assert throughput.burst == (32, 128)
    assert throughput.pairs == (1, 2, 4)
    assert throughput.io == (Io.UDP, Io.RAW_MMSG)
    assert throughput.touch == (True,)
    assert throughput.duration_s == (5.0,)
    assert throughput.interval_s == (0.1,)
    assert throughput.connect_mode == (ConnectMode.LEARNING,)
    assert throughput.port_kind == (PortKind.VETH,)
    assert throughput.switch_cores == (1, 2)
    assert latency.rate_pps == (1000,)
    assert latency.burst == (1,)
    assert latency.packet_size_bytes == throughput.packet_size_bytes
    assert (campaign.trim.warm_up_s, campaign.trim.cool_down_s) == (2.0, 0.0)
    assert campaign.verify.model_dump() == {
        "frames": 20, "min_arrived_ratio": 0.9, "max_strays": 2, "timeout_s": 10.0,
    }  # fmt: skip
    assert campaign.seed == 42
    assert campaign.count == 3 * (3 * 10 * 21 * 2 * 3 * 2 * 2 + 3 * 10 * 3 * 2 * 2)


def test_rates_and_bursts_have_defaults_by_dimension() -> None:
    throughput, latency = load("switch: ovs-dpdk\ndimension: throughput, latency").sweeps
    assert (throughput.rate_pps, throughput.burst) == ((None,), (32,))
    assert (latency.rate_pps, latency.burst) == ((1000,), (1,))


def test_sections_alone_say_what_is_measured() -> None:
    dimensions = [s.dimension for s in load("switch: ovs-dpdk\nlatency: {rate: 10k}").sweeps]
    assert dimensions == [Dimension.LATENCY]


def test_the_nearest_value_wins() -> None:
    campaign = load("""\
switch: linux-bridge
dimension: [throughput, latency]
rate: 1
burst: 2
throughput: {rate: 3}
sweeps:
  - {packet_size: 64}
  - {packet_size: 65, rate: 4}
  - packet_size: 66
    throughput: {rate: 5}
""")
    got = {(s.packet_size_bytes[0], s.dimension.value): s.rate_pps[0] for s in campaign.sweeps}
    assert got == {
        (64, "throughput"): 3, (64, "latency"): 1,
        (65, "throughput"): 4, (65, "latency"): 4,
        (66, "throughput"): 5, (66, "latency"): 1,
    }  # fmt: skip
    assert {s.burst for s in campaign.sweeps} == {(2,)}


def test_overrides_win_over_everything() -> None:
    text = """\
switch: linux-bridge
rate: 1
throughput: {rate: 2, burst: 7}
latency: {rate: 3}
sweeps: [{rate: 4}, {throughput: {rate: 5}}]
"""
    rates = [s.rate_pps for s in load(text, "rate=9").sweeps]
    assert rates == [(9,)] * 4
    by_dimension = {
        (s.dimension.value, s.rate_pps) for s in load(text, "rate=9", "latency.rate=max").sweeps
    }
    assert by_dimension == {("throughput", (9,)), ("latency", (None,))}
    assert load(text, "dimension=latency").count == 2  # unused sections are then permitted
    assert load(text, "repetitions = 5", "trim.warm_up=0s").trim.warm_up_s == 0.0
    assert load(text, "name=other").name == "other"
    assert load(text, "packet_size={64, 1500}").sweeps[0].packet_size_bytes == (64, 1500)
    assert load(text, "switch=[linux-bridge, ovs-dpdk]").sweeps[0].switch[1] == "ovs-dpdk"


def test_flags_alone_make_a_campaign() -> None:
    given = {"switch": "linux-bridge", "packet_size": "1500", "rate": "1.5M"}
    campaign = load_settings(given, KNOWN, name="trial")
    assert campaign.name == "trial"
    assert campaign.sweeps[0].rate_pps == (1_500_000,)
    with pytest.raises(CampaignError) as error:
        load_settings({"packet_size": "40", "switch": "x"}, KNOWN, name="trial")
    assert str(error.value).splitlines() == [
        "--packet-size: 40 is below the smallest Ethernet frame (64 with FCS); use 64 or more",
        "--switch: unknown switch 'x'; known: direct, linux-bridge, ovs-netdev, ovs-dpdk, "
        "basicfwd, two-port, no-wires",
    ]


def test_published_figures() -> None:
    campaign = load("""\
switch: linux-bridge
dimension: [throughput, latency]
throughput: {rate: max}
io: [udp, raw]
published:
  - {match: {io: udp, packet_size: 64, rate: max}, value: 338k, unit: pps, source: A paper}
  - {match: {dimension: latency}, value: 12, unit: us, statistic: median, source: Another,
     note: best case}
""")
    first, second = campaign.published
    assert first.match == {"io": "udp", "packet_size_bytes": 64, "rate_pps": None}
    assert (first.value, first.unit, first.source, first.note) == (338_000, "pps", "A paper", "")
    assert second.note == "best case"
    trial = Trial(
        dimension=Dimension.THROUGHPUT, switch="linux-bridge", packet_size_bytes=64, io=Io.UDP
    )
    assert first.matches(trial)
    assert not first.matches(trial.model_copy(update={"io": Io.RAW}))
    assert not second.matches(trial)
    again = CampaignDefinition.model_validate_json(campaign.model_dump_json())
    assert again == campaign
    assert again.published[0].matches(trial)


def test_a_latency_trial_warms_up_outside_its_duration() -> None:
    campaign = load("switch: linux-bridge\ndimension: latency\nduration: 1s\ntime_budget: 1.2s")
    assert campaign.count == 1
    with pytest.raises(CampaignError, match=r"trials measure 1\.2 s, above the budget of 1\.1 s"):
        load("switch: linux-bridge\ndimension: latency\nduration: 1s\ntime_budget: 1.1s")


def test_files(tmp_path: Path) -> None:
    path = tmp_path / "my campaign.yaml"
    path.write_bytes(b"\xef\xbb\xbfswitch: linux-bridge\r\npacket_size: 64\r\n")
    assert load_file(path, KNOWN).name == "my-campaign"

    def line(bad: Path) -> str:
        with pytest.raises(CampaignError) as error:
            load_file(bad, KNOWN)
        return str(error.value)

    missing = tmp_path / "none.yaml"
    assert line(missing) == f"{missing}: cannot be read: No such file or directory"
    assert line(tmp_path) == f"{tmp_path}: cannot be read: Is a directory"
    path.write_bytes(b"name: \xff")
    assert line(path) == f"{path}: is not UTF-8 text (byte 6); save it as UTF-8"
    path.write_bytes(b"#" * 100_001)
    assert line(path) == (
        f"{path}: is larger than 100,000 bytes; a campaign file is a page of text"
    )


def test_names_without_a_registry_are_taken_as_they_are() -> None:
    campaign = load_text("switch: anything", "c.yaml", Known(scenarios=None))
    assert campaign.sweeps[0].switch == ("anything",)


def test_every_field_of_a_trial_has_a_key() -> None:
    assert list(PARAMETERS) == list(Trial.model_fields)
    assert {key.field for key in KEYS} == set(Sweep.model_fields)
    assert set(Trial.model_fields) - set(Sweep.model_fields) == {"repetition"}
    assert "".join(BY_LETTER) == "DLSVPRB"


ONE_WAY = """\
switch: [linux-bridge, ovs-dpdk]
scenario: [p2p, pairs-4]
cpu_limit: [none, 50%]
published:
  - {match: {cpu_limit: 50%}, value: 50.99, unit: us, statistic: mean, source: x}
  - {match: {scenario: pairs-4}, value: 10.5G, unit: bps, layer: L1, direction: each, source: x}
  - over: switch
    values: {ovs-dpdk: 4.0, linux-bridge: 32}
    match: {scenario: p2p}
    unit: us
    statistic: mean
    path: one-way
    at: 0.5
    source: x
"""


def test_a_published_figure_says_what_it_is() -> None:
    mean, each, first, second = load(ONE_WAY).published
    assert (mean.value, mean.text, mean.words) == (50.99, "50.99 µs", "mean round-trip time")
    assert each.match == {"scenario": "pairs", "pairs": 4}, "under the name that trials have"
    assert (each.text, each.words) == ("10.5 Gbps", "mean load, L1, each direction")
    assert first.match == {"scenario": "p2p", "switch": "ovs-dpdk"}
    assert (first.text, first.words) == ("4.0 µs", "mean one-way time at 0.5 R+")
    assert (second.match["switch"], second.value) == ("linux-bridge", 32)


@pytest.mark.parametrize(
    ("match", "says"),
    [
        ("{scenario: chains-2x2}", "no trial has scenario loopback-2, the nearest has p2p, pairs"),
        ("{scenario: pairs-2}", "no trial has pairs 2vs2, the nearest has 4vs4"),
        ("{port_kind: vhost-user}", "no trial has port_kind vhost-user, the nearest has auto"),
        ("{packet_size: 128}", "no trial has packet_size 128, the nearest has 64"),
    ],
)
def test_a_match_of_no_trial_is_refused_with_the_nearest(match: str, says: str) -> None:
    figure = f"  - {{match: {match}, value: 1, unit: pps, source: x}}\n"
    with pytest.raises(CampaignError) as error:
        load(ONE_WAY + figure)
    assert str(error.value).startswith(f"c.yaml:15: published.match: {says}")


def test_figures_over_scenarios_have_names_of_trials() -> None:
    over = "  - {over: scenario, values: {p2p: 2M, pairs-4: 1M}, unit: pps, source: x}\n"
    *_, alone, four = load(ONE_WAY + over).published
    assert alone.match == {"scenario": "p2p"}
    assert four.match == {"scenario": "pairs", "pairs": 4}


def statistic_of(word: str) -> str | None:
    entry = f"{{match: {{}}, value: 1, unit: us, statistic: {word}, source: x}}"
    (figure,) = load(f"switch: linux-bridge\npublished: [{entry}]\n").published
    return figure.statistic


@pytest.mark.parametrize("word", ["p5", "p99", "p99.9", "p99.999", "median"])
def test_a_time_is_of_any_percentile_up_to_three_decimals(word: str) -> None:
    assert statistic_of(word) == word


@pytest.mark.parametrize("word", ["p100", "p99.", "p99.9999", "p", "median1"])
def test_unknown_statistic_is_refused(word: str) -> None:
    with pytest.raises(CampaignError, match=f"unknown statistic '{word}'"):
        statistic_of(word)


def test_match_removed_by_set_is_not_an_error() -> None:
    assert load_text(ONE_WAY, "c.yaml", KNOWN, ["scenario=p2p", "switch=ovs-dpdk"]).published


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ("{match: {}, value: 1, unit: us, source: x}", "statistic is missing; a time is one of"),
        ("{match: {}, value: 1, unit: bps, source: x}", "layer is missing; bits are counted on L1"),
        ("{match: {}, value: -1, unit: pps, source: x}", "-1 is below 0"),
        ("{over: switch, unit: pps, source: x}", "values is missing"),
        ("{match: {rate: 1Gbps-l2}, value: 1, unit: pps, source: x}", "in packets a second"),
        ("{over: rate, values: {1Gbps-l2: 1}, unit: pps, source: x}", "in packets a second"),
        ("{over: rate, values: {'1k, 2k': 1}, unit: pps, source: x}", "one value, not several"),
    ],
)
def test_a_figure_that_does_not_say_what_it_is_is_refused(entry: str, says: str) -> None:
    with pytest.raises(CampaignError, match=says):
        load(f"switch: linux-bridge\npublished: [{entry}]\n")


def test_all_switches_are_those_that_are_compared() -> None:
    here = installed().known
    (sweep,) = load_text("switch: all", "c.yaml", here).sweeps
    assert set(here.switches or ()) - set(sweep.switch) == {
        "direct",
        "reference",
        "cni",
        "docker-network",
        "existing",
        "linux-router",  # it only routes
    }
    (sweep,) = load_text("switch: [all, direct]", "c.yaml", here).sweeps
    assert set(here.switches or ()) - set(sweep.switch) == {
        "reference",
        "cni",
        "docker-network",
        "existing",
        "linux-router",
    }
