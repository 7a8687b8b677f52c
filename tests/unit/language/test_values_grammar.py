"""The bench reads values as tests/grammar.txt has them, and so does the engine: see there."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from switchmark.campaign.expand import trials_of
from switchmark.campaign.load import load_text
from switchmark.campaign.notation import parse_settings
from switchmark.language import values
from switchmark.language.source import CampaignError
from switchmark.language.values import BadValueError, Limits
from switchmark.model import rates, traffic
from switchmark.model.choices import MAX_FRAME_BYTES, MIN_FRAME_BYTES
from switchmark.model.parameter_table import BY_NAME
from tests.unit.campaign_fakes import KNOWN

FRAME_BYTES = 64
ANY = Limits(0, 2**63, "below it", "above it", suffixes=True)
SIZE = Limits(MIN_FRAME_BYTES, MAX_FRAME_BYTES, "too small", "too large")
A_YEAR_S = 366 * 86_400.0


def _ns(text: str) -> str:
    return str(round(values.seconds(text, 0.0, A_YEAR_S) * values.NS_PER_S))


def _rate(text: str) -> str:
    rate = rates.rate(text)
    if isinstance(rate, rates.BitRate):
        rate = rate.pps(FRAME_BYTES)
    return "max" if rate is None else str(rate)


def _size(text: str) -> str:
    if any(sign in text for sign in "*+:") or text == "imix":
        mix = traffic.PacketMix(text).sizes
    else:
        mix = traffic.Mix(*[values.whole(text, SIZE)] * 3)
    return f"{mix.smallest}-{mix.largest}/{mix.mean:.2f}"


def _schedule(text: str) -> str:
    match rates.schedule(text).split(":"):
        case ["on-off", on, off]:
            return f"on-off:{_ns(on)}:{_ns(off)}"
        case ["ramp", low, high, over]:
            ends = [end if end == "0" else _rate(end) for end in (low, high)]
            return f"ramp:{':'.join(ends)}:{_ns(over)}"
        case message:
            return ":".join(message)


READERS: dict[str, Callable[[str], str]] = {
    "count": lambda text: str(values.whole(text, ANY)),
    "time": _ns,
    "share": lambda text: str(round(values.share(text) * 1e9)),
    "rate": _rate,
    "size": _size,
    "flows": lambda text: str(values.whole(traffic.read_flows(text).split(":")[0], ANY)),
    "vlan": traffic.read_vlan,
    "schedule": _schedule,
}


def _option(name: str, text: str) -> str:
    """Return the value of a trial whose campaign sets the key of an engine option to this text."""
    dimension = "latency" if name == "probe_rate" else "throughput"
    rest = "" if name == "duration" else "duration: 10s\n"
    if name == "schedule" and not text.startswith("ramp"):
        rest += "rate: 1k\n"
    if name in ("vlan", "ip_version"):  # they make the frame longer
        rest += "packet_size: 128\n"
    written = f"switch: ovs-dpdk\ndimension: {dimension}\n{rest}{name}: '{text}'\n"
    (trial,) = trials_of(load_text(written, "test", KNOWN).sweeps[0])
    match name:
        case "packet_size" | "frame_size":
            mix = trial.frame_sizes
            return f"{mix.smallest}-{mix.largest}/{mix.mean:.2f}"
        case "schedule" | "flows":
            return READERS[name](text)
        case "duration" | "interval":
            return str(round(getattr(trial, BY_NAME[name].field) * values.NS_PER_S))
    row = BY_NAME[name]
    value = getattr(trial, row.field)
    return str(value) if value not in (None, "") else str(row.none)


def _examples() -> list[tuple[str, str, str]]:
    file = Path(__file__).parents[2] / "grammar.txt"
    lines = [line for line in file.read_text().splitlines() if line and not line.startswith("#")]
    return [(kind, value, text) for kind, value, text in (line.split(None, 2) for line in lines)]


@pytest.mark.parametrize(("kind", "value", "text"), _examples())
def test_grammar_examples_have_their_values(kind: str, value: str, text: str) -> None:
    option = kind.removeprefix("--").replace("-", "_")
    read = partial(_option, option) if kind.startswith("--") else READERS[kind]
    if value == "refused":
        with pytest.raises((ValueError, CampaignError), match=r"\S"):
            read(text)
    else:
        assert read(text) == value


def test_refusal_names_the_remedy() -> None:
    for text, message in (("+1s", "write a time"), ("0.1ns", "finer than a nanosecond")):
        with pytest.raises(BadValueError, match=message):
            values.seconds(text, 0.0, A_YEAR_S)


@pytest.mark.parametrize("name", ["packet_size", "frame_size", "frame-size", "packet-size"])
def test_packet_size_has_four_spellings(name: str) -> None:
    for text, overrides in (
        (f"{name}: 64, 1500", []),
        (f"throughput: {{{name}: '64, 1500'}}", []),
        (f"sweeps:\n  - {name}: 64, 1500", []),
        ("packet_size: 96", [f"{name}=64, 1500"]),
        ("packet_size: 96", [f"throughput.{name}=64, 1500"]),
    ):
        campaign = load_text(f"switch: ovs-dpdk\n{text}\n", "test", KNOWN, overrides)
        assert campaign.sweeps[0].packet_size_bytes == (64, 1500)


def test_two_spellings_of_one_key_are_refused() -> None:
    with pytest.raises(CampaignError, match="packet_size: is written twice"):
        load_text("switch: ovs-dpdk\npacket_size: 64\nframe_size: 64\n", "test", KNOWN)
    assert parse_settings("V=ovs, frame_size=64")["packet_size"] == "64"


def test_rate_has_several_spellings() -> None:
    sweep = load_text("switch: ovs-dpdk\nrate: 800kpps, 1.5M pps, 1000\n", "test", KNOWN).sweeps[0]
    assert sweep.rate_pps == (800_000, 1_500_000, 1000)
