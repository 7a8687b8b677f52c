"""Rates in bits and of a line, and schedules: their results and refusals."""

from __future__ import annotations

import pytest

from switchmark.campaign.expand import trials_of
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.language.source import CampaignError
from switchmark.language.values import BadValueError
from switchmark.model import rates
from switchmark.model.choices import Dimension
from switchmark.model.trial import Trial
from tests.unit.campaign_fakes import KNOWN


def trials(text: str) -> list[Trial]:
    campaign = load_text(f"switch: linux-bridge\n{text}\n", "c.yaml", KNOWN)
    return [trial for sweep in campaign.sweeps for trial in trials_of(sweep)]


@pytest.mark.parametrize(
    ("text", "size", "pps"),
    [
        ("10Gbps-l1", 64, 14_880_952),  # the number every book gives
        ("10Gbit/s-l1", 1518, 812_744),
        ("1Gbps-l2", 64, 1_953_125),
        ("100% of 10Gbps", 64, 14_880_952),
        ("50 % of 10Gbps-l1", 64, 7_440_476),
        ("0.5% of 1Gbit/s", 1518, 406),
        ("1bps-l1", 9018, 1),  # not less than one frame a second
    ],
)
def test_bits_become_frames_by_the_packet_size(text: str, size: int, pps: int) -> None:
    (trial,) = trials(f"rate: {text}\npacket_size: {size}\nburst: 1")
    assert trial.rate_pps == pps
    assert from_notation(to_notation(trial)) == trial


def test_every_packet_size_has_its_own_rate() -> None:
    found = {
        t.packet_size_bytes: t.rate_pps for t in trials("rate: 1Gbps-l1\npacket_size: 64, 512")
    }
    assert found == {64: 1_488_095, 512: 234_962}


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("1Gbps", "'1Gbps' does not name its layer; write 1Gbps-l1"),
        ("1Gbps-l3", "does not name its layer"),
        ("80%", "'80%' does not say of which line; write e.g. 80% of 10Gbps"),
        ("80% of 10G", "does not say of which line"),
        ("80% of 10Gbps-l2", "does not say of which line"),
        ("0% of 10Gbps", "sends nothing"),
        ("120% of 10Gbps", "is not a share"),
        ("xGbps-l1", "is not a number"),
        ("20000Gbps-l1", "above any link"),
        ("1GBps-l1", "is not a number"),
    ],
)
def test_rates_that_say_too_little_are_refused(text: str, because: str) -> None:
    with pytest.raises(CampaignError) as error:
        trials(f"rate: {text}")
    assert str(error.value).startswith("c.yaml:2: rate: ")
    assert because in str(error.value)


@pytest.mark.parametrize(
    ("text", "short"),
    [
        ("constant", "constant"),
        ("poisson", "poisson"),
        ("poisson:42", "poisson:42"),
        ("on-off:0.01:90000us", "on-off:10ms:90ms"),
        ("ramp:1000:1000k:10", "ramp:1k:1M:10s"),
        ("ramp:0:1Gbps-l1:500ms", "ramp:0:1Gbps-l1:500ms"),
    ],
)
def test_schedules_have_one_shortest_form(text: str, short: str) -> None:
    assert rates.schedule(text) == rates.schedule(short) == short


@pytest.mark.parametrize(
    ("text", "because"),
    [
        ("posson", "is not a schedule; write constant, poisson"),
        ("constant:1", "is not a schedule"),
        ("poisson:x", "is not a number"),
        ("on-off:10ms", "is not a schedule"),
        ("on-off:0s:1s", "below the least time"),
        ("ramp:1k:2k", "is not a schedule"),
        ("ramp:0:0:1s", "sends nothing"),
        ("ramp:max:1k:1s", "cannot be an end of a ramp"),
        ("ramp:10%:1k:1s", "cannot be an end of a ramp"),
        ("ramp:1Gbps:1k:1s", "does not name its layer"),
    ],
)
def test_bad_schedules_say_what_to_write(text: str, because: str) -> None:
    with pytest.raises(BadValueError, match=because):
        rates.schedule(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("schedule: poisson", "c.yaml:2: schedule: poisson has no meaning at rate max"),
        ("schedule: ramp:1k:2k:1s\nrate: 5", "c.yaml:2: schedule: a ramp has its own rates"),
        ("schedule: on-off:1ms:1ms\nmethod: ndr-pdr", "c.yaml:2: schedule: methods of many trials"),
        ("probe_rate: 1k", "c.yaml:2: probe_rate: a throughput trial measures no times"),
        (
            "probe_rate: 1k\nmethod: soak\nrate: 5",
            "c.yaml:2: probe_rate: a throughput trial measures no times",
        ),
        (
            "fractions: 0.5",
            "c.yaml:2: fractions: method plain does not read it; use method: r-plus",
        ),
        ("goals: quick\nmethod: soak\nrate: 5", "c.yaml:2: goals: method soak does not read it"),
        ("probe_rate: 10M\ndimension: latency", "c.yaml:2: probe_rate: 10M is not a low rate"),
        (
            "probe_rate: 1Gbps-l1\ndimension: latency\npacket_size: [64, 1500]",
            "c.yaml:2: probe_rate: 1Gbps-l1 is 1488095 frames/s of 64 bytes, which is not a "
            "low rate",
        ),
        (
            "rate: 10000Gbps-l1",
            "c.yaml:2: rate: 10000Gbps-l1 is 14880952381 frames/s of 64 bytes, which is above any",
        ),
    ],
)
def test_impossible_rates_and_schedules_are_refused(text: str, message: str) -> None:
    with pytest.raises(CampaignError) as error:
        trials(text)
    assert str(error.value).startswith(message)


def test_possible_rates_and_schedules_are_accepted() -> None:
    assert trials("schedule: poisson\nmethod: r-plus\nprobe_rate: 1k")[0].probe_rate_pps == 1000
    (both,) = trials("method: one-way\nrate: 10k\nprobe_rate: 1k\nbidirectional: true")
    assert both.probe_rate_pps == 1000, "of each direction"
    (ramp,) = trials("schedule: ramp:1k:1M:10s\ndimension: latency")
    assert ramp.rate_pps is None  # not the 1000 a second of other round trips
    assert from_notation(to_notation(ramp)) == ramp


def test_ids_of_trials_without_these_keys_are_those_of_before() -> None:
    trial = Trial(
        dimension=Dimension.THROUGHPUT, switch="linux-bridge", packet_size_bytes=64,
        rate_pps=1_000_000, burst=64,
    )  # fmt: skip
    assert trial.id == "a59e37788d8f03ef"
    others = {
        trial.model_copy(update={"schedule": "poisson"}).id,
        trial.model_copy(update={"schedule": "poisson:7"}).id,
        trial.model_copy(update={"probe_rate_pps": 1000}).id,
    }
    assert len(others | {trial.id}) == 4
