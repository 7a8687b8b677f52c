"""One-way times between hosts: clocks that differ, drift and run at other rates are allowed for."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from switchmark.cli.show import show
from switchmark.engine.events import EngineCounters, Ready, parse
from switchmark.engine.process import EngineProcess
from switchmark.model.choices import Dimension
from switchmark.record import ClockOffset, FarHost, Figures, Latency
from switchmark.remote.contact import ClockReading
from switchmark.report.html import write_report
from switchmark.report.tables import BETWEEN_HOSTS_TITLE, between_hosts_table
from switchmark.results.between_hosts import BetweenHostsSummary
from switchmark.results.export import columns, flat_rows
from switchmark.results.summary import summary
from switchmark.statistics.histogram import Histogram
from switchmark.trial.cost import hosts_used
from switchmark.trial.one_way import ClockCorrection, TimedRun, corrected
from switchmark.trial.verification import PairEnds
from tests.unit.engine_lines import counted, event, timed
from tests.unit.records import synthetic_record, synthetic_trial, write_run

AHEAD_NS = 5_000_000_000_000


@dataclass
class World:
    """True time, and what each clock makes of it."""

    now_ns: float = 1e12
    drift: float = 0.0  # drift of the remote clock against the local clock
    error_ns: int = 0  # error of a comparison of the clocks
    uncertainty_ns: int = 50_000

    def mono(self, far: bool) -> float:
        return self.now_ns + (AHEAD_NS + (self.now_ns - 1e12) * self.drift if far else 0)

    def compare(self) -> ClockReading:
        ahead = round(self.mono(True) - self.mono(False)) + self.error_ns
        return ClockReading(ahead, self.uncertainty_ns)


class FakeEngine(EngineProcess):
    """It only reports its clocks, with their own tick rate and their own start."""

    def __init__(self, world: World, *, far: bool, hz: float, from_ticks: int) -> None:
        super().__init__(None, "n", "sender", 0, [], far=far)  # type: ignore[arg-type]
        self._ready = cast(Ready, parse(event("ready", tsc_hz=hz)))
        self._trial_hz = hz
        self.world = world
        self.from_ticks = from_ticks

    def ticks(self) -> float:
        return self.from_ticks + self.world.mono(self.far) / 1e9 * self.trial_hz

    def ask(self, line: str) -> None:
        assert line == "counters"
        self.read = counted(
            ticks=round(self.ticks()), t_ns=round(self.world.mono(self.far)), tsc_hz=self.trial_hz
        )

    def counted(self, timeout_s: float = 2.0) -> EngineCounters:
        del timeout_s
        return self.read

    def measures(self, sent_ticks: float) -> float:
        """Return the time of a stamp now, computed like the engine from its arguments."""
        assert self.sender_clock is not None
        ticks, at_ns, hz = map(int, self.sender_clock.split(":"))
        here = self.ticks() + (at_ns - self.world.mono(self.far)) * self.trial_hz / 1e9
        since = self.ticks() - here - (sent_ticks - ticks) * self.trial_hz / hz
        return since * 1e9 / self.trial_hz


def test_a_clock_that_is_known_better_later_adds_no_uncertainty() -> None:
    """The rate of `ready` is known to one part in a million, that of `counters` better."""
    world = World(drift=0.0, error_ns=0)
    a = FakeEngine(world, far=False, hz=3e9, from_ticks=7)
    b = FakeEngine(world, far=True, hz=2.4e9, from_ticks=123)
    a._ready = cast(Ready, parse(event("ready", tsc_hz=3e9 * (1 + 2e-6))))
    run = TimedRun(world, [PairEnds(a, b)], duration_s=10.0)
    world.now_ns += 10_000_000_000
    (correction,) = run.end()
    assert correction.uncertainty_ns <= 50_000 + 1_000


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("drift", "error_ns"), [(0.0, 0), (0.0, 40_000), (20e-6, 0), (-20e-6, -50_000)]
)
def test_the_true_time_is_within_the_uncertainty(
    reverse: bool, drift: float, error_ns: int
) -> None:
    world = World(drift=drift, error_ns=error_ns)
    near = FakeEngine(world, far=False, hz=3e9, from_ticks=7)
    far = FakeEngine(world, far=True, hz=2.4e9, from_ticks=123_456_789_012)
    a, b = (far, near) if reverse else (near, far)
    run = TimedRun(world, [PairEnds(a, b)], duration_s=2.0)
    observed = []
    for _ in range(11):  # through the run
        sent = a.ticks()
        world.now_ns += 30_000  # on the way
        observed.append(b.measures(sent))
        world.now_ns += 200_000_000
    (correction,) = run.end()
    drifted_ns = abs(drift) * 2.3e9
    assert correction.uncertainty_ns <= 50_000 + drifted_ns + 1_000
    for item in observed:
        assert item > 0, "the margin keeps it there"
        assert abs(item - correction.less_ns - 30_000) <= correction.uncertainty_ns
    assert b.sender_clock is None


def test_a_histogram_is_shifted_sample_by_sample() -> None:
    after = Histogram.of({150_000: 3, 1_150_000: 5, 99_000: 1}).shifted(100_000)
    assert after.count == 9
    assert after.percentiles_ns(["40", "90"])["40"] == pytest.approx(50_000, abs=150)
    assert after.percentiles_ns(["90"])["90"] == pytest.approx(1_050_000, abs=1_200)
    assert after.values_at_ranks([1]) == [1.0], "no time is below 0"


def one_way(uncertainty_ns: float) -> Latency:
    latency = synthetic_record(synthetic_trial(dimension=Dimension.LATENCY)).latency
    assert latency is not None
    return latency.model_copy(update={"kind": "one_way", "clock_uncertainty_ns": uncertainty_ns})


def test_a_result_is_corrected_as_a_whole() -> None:
    latency = one_way(0)
    output = timed(
        {
            "count": latency.count, "min_ns": 3_000, "max_ns": 90_000, "mean_ns": 7_000.5,
            "from_actual": latency.histogram, "from_intended": latency.intended_histogram,
            "ipdv": {"count": 7}, "pdv": {"base_ns": 70_000},
            "intended": {"min_ns": 500, "max_ns": 9_000, "mean_ns": 4_000},
        }
    )  # fmt: skip
    found = corrected(output, ClockCorrection(1_000, 50))
    assert (found.min_ns, found.mean_ns, found.max_ns) == (2_000, 6_000.5, 89_000)
    late = found.intended
    assert (late.min_ns, late.mean_ns, late.max_ns) == (0, 3_000, 8_000)
    assert found.pdv.base_ns == 69_000
    median = latency.percentiles_ns["50"]
    assert found.from_actual.percentiles_ns()["50"] == pytest.approx(median - 1_000, rel=2e-3)
    assert found.ipdv == output.ipdv and found.count == latency.count
    assert output.min_ns == 3_000, "the engine's own words stay"


@pytest.mark.parametrize(("share", "marked"), [(0.99, False), (1.01, True)])
def test_times_below_clock_uncertainty_are_marked(share: float, marked: bool) -> None:
    median = one_way(0).percentiles_ns["50"]
    assert Figures(one_way=one_way(share * median)).clocks_uncertain is marked


def test_between_hosts_no_one_way_time_is_without_uncertainty() -> None:
    trial = synthetic_trial(dimension=Dimension.LATENCY, location="remote")
    bare = one_way(1).model_copy(update={"clock_uncertainty_ns": None})
    with pytest.raises(ValueError, match="clock_uncertainty_ns"):
        synthetic_record(trial, one_way=bare)
    assert synthetic_record(trial, one_way=one_way(1)).one_way is not None


def test_rows_tell_of_the_other_host(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trial = synthetic_trial(dimension=Dimension.LATENCY, location="remote")
    cost = synthetic_record(trial).cpu
    far = FarHost(
        name="right", address="192.0.2.7", hostname="right", near_interface="a",
        far_interface="b", agent_version="1", engine_version="1", placement=None,
        clock_before=ClockOffset(ahead_ns=AHEAD_NS + 1_234_000, uncertainty_ns=51_000),
        clock_after=ClockOffset(ahead_ns=AHEAD_NS, uncertainty_ns=52_000), facts={}, cpu=cost,
    )  # fmt: skip
    run = write_run(tmp_path, [synthetic_record(trial, one_way=one_way(51_500), far_host=far)])
    (row,) = summary(run)
    assert row.between.one_way_uncertainty_ns == 51_500
    assert cost is not None and row.between.far_total_cores_used == cost.total_cores_used
    (flat,) = flat_rows([row])
    assert flat["one_way_p50_ns"] == one_way(0).percentiles_ns["50"]
    assert set(flat) == set(columns())
    clock = "+5000.001234 s ± 51.0 µs"
    assert show(str(run), full=True) == 0
    assert clock in capsys.readouterr().out
    write_report(run, tmp_path / "report.html")
    page = (tmp_path / "report.html").read_text()
    assert clock in page and BETWEEN_HOSTS_TITLE in page


def test_a_row_of_one_host_says_nothing_of_another() -> None:
    nothing = BetweenHostsSummary(*[None] * 13)
    assert between_hosts_table([nothing]) == ([], {})


@pytest.mark.parametrize(("same", "others"), [(False, [0.9, 0.2]), (True, [0.4, 0.0])])
def test_programs_of_same_machine_are_not_others(same: bool, others: list[float]) -> None:
    cost = synthetic_record().cpu
    assert cost is not None
    here = cost.model_copy(update={"others_cores_used": 0.9})
    remote = cost.model_copy(
        update={
            "others_cores_used": 0.2, "applications_cores_used": 0.3, "switch_cores_used": 0.2
        }
    )  # fmt: skip
    far = cast(FarHost, SimpleNamespace(cpu=remote, same_machine=same))
    found = hosts_used(far, here)
    assert [one.others_cores_used or 0.0 for one in found] == pytest.approx(others)
    assert [one.run_delay_share for one in found] == [here.run_delay_share, remote.run_delay_share]
    assert hosts_used(None, here) == [here]
