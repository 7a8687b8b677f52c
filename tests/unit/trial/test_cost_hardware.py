"""Hardware counters and energy: the arithmetic, and honest absence."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from switchmark.host.cores import counters as hardware
from switchmark.host.cores.counters import EnergyReading, HardwareCounters, energy_absent
from switchmark.trial.cost import energy_between, hardware_use


def test_own_instructions_are_counted_or_the_reason_is_given() -> None:
    counters = HardwareCounters.open_for([os.getpid()], [])
    sum(range(2_000_000))
    found = hardware_use(counters.stop(), frames=1000)
    if found is None:
        pytest.skip(f"no hardware counters: {counters.absent}")
    assert found.events["instructions"] > 2_000_000
    assert found.instructions_per_frame == found.events["instructions"] / 1000
    assert found.scope == "the switch's threads"


def test_a_counter_that_is_refused_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hardware, "_open", lambda *_: -2)
    counters = HardwareCounters.open_for([], [0])
    assert "no hardware counters" in counters.absent
    assert hardware_use(counters.stop(), 1) is None
    monkeypatch.setattr(hardware, "_open", lambda *_: -13)
    assert "perf_event_paranoid" in HardwareCounters.open_for([], [0]).absent
    monkeypatch.setattr(hardware.platform, "machine", lambda: "vax")
    assert "vax" in HardwareCounters.open_for([], [0]).absent


def zone(root: Path, name: str, label: str, energy_uj: int, wraps_uj: int = 10**9) -> None:
    folder = root / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "name").write_text(f"{label}\n")
    (folder / "energy_uj").write_text(f"{energy_uj}\n")
    (folder / "max_energy_range_uj").write_text(f"{wraps_uj}\n")


def test_energy_is_a_difference_that_survives_a_wrap(tmp_path: Path) -> None:
    zone(tmp_path, "intel-rapl:0", "package-0", 5_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 999_000_000)
    before = EnergyReading.take(tmp_path)
    zone(tmp_path, "intel-rapl:0", "package-0", 9_000_000)
    zone(tmp_path, "intel-rapl:0:0", "core", 1_000_000)
    found = energy_between(before, EnergyReading.take(tmp_path), frames=1_000_000)
    assert found is not None
    assert found.joules["package-0 (intel-rapl:0)"] == pytest.approx(4.0)
    assert found.joules["core (intel-rapl:0:0)"] == pytest.approx(2.0)
    assert found.microjoules_per_frame == pytest.approx(4.0), "of the packages alone"


def test_no_energy_has_a_reason(tmp_path: Path) -> None:
    assert energy_between(EnergyReading.take(tmp_path), EnergyReading.take(tmp_path), 1) is None
    assert "no RAPL domain" in energy_absent(tmp_path)
    assert "no powercap tree" in energy_absent(tmp_path / "none")
