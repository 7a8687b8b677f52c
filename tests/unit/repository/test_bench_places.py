"""bench/places and bench/pages: the order of measurements, and the tables of their results."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from typing import Any

import pytest

from switchmark.record import Granted, Record
from tests.unit.histories import scaled
from tests.unit.records import synthetic_record, synthetic_trial, write_run

BENCH = Path(__file__).parents[3] / "bench"


def load(name: str) -> Any:
    """Load a program of bench/ as a module."""
    loader = SourceFileLoader(f"bench_{name}", str(BENCH / name))
    spec = spec_from_loader(loader.name, loader)
    assert spec is not None
    module = module_from_spec(spec)
    sys.modules[loader.name] = module
    loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def places() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(BENCH))
        patch.setattr(sys, "dont_write_bytecode", True)
        yield load("places")


class Process:
    """A bench that starts these trials."""

    def __init__(self, trials: Sequence[tuple[int, str]], log: list[tuple[str, int, str]]) -> None:
        self.trials, self.log, self.place = list(trials), log, ""
        self.stdin = self
        self.waiting: tuple[int, str] | None = None

    @property
    def stdout(self) -> Iterator[str]:
        if self.trials:
            self.waiting = self.trials.pop(0)
            yield json.dumps({"next": self.waiting})
        else:
            yield '{"folder": "/x"}\n'

    def write(self, word: str) -> None:
        if word == "go\n" and self.waiting:
            self.log.append((self.place, *self.waiting))
        elif word == "stop\n":
            self.trials.clear()

    def flush(self) -> None:
        pass

    def wait(self) -> int:
        return 0


def alternated(
    places: Any, p0: Sequence[tuple[int, str]], p1: Sequence[tuple[int, str]], budget_s: float = 60
) -> list[tuple[str, int, str]]:
    log: list[tuple[str, int, str]] = []
    sides = []
    for place, trials in (("P0", p0), ("P1", p1)):
        process = Process(trials, log)
        process.place = place
        sides.append(places.Side(place, Path("/x"), process))
    places.alternate(sides, budget_s, seed=1)
    assert [side.directory for side in sides] == [Path("/x")] * 2
    return log


def test_both_places_measure_a_trial_one_after_the_other(places: Any) -> None:
    trials = [(block, name) for block in range(20) for name in "abc"]
    log = alternated(places, trials, trials)
    pairs = list(zip(log[::2], log[1::2], strict=True))
    assert [one[1:] for one, _ in pairs] == [other[1:] for _, other in pairs] == trials
    assert {one[0] for one, _ in pairs} == {"P0", "P1"}, "either may be first"


def test_contender_missing_at_one_place_does_not_block_pairs(places: Any) -> None:
    trials = [(block, name) for block in range(3) for name in "abc"]
    fewer = [trial for trial in trials if (trial != (1, "b") and trial[0] < 2) or trial[1] == "a"]
    log = alternated(places, trials, fewer)
    for trial in fewer:
        where = {place: log.index((place, *trial)) for place in ("P0", "P1")}
        assert abs(where["P0"] - where["P1"]) == 1, f"{trial} is not a pair"


def test_bench_ends_with_a_complete_block(places: Any) -> None:
    trials = [(block, name) for block in range(9) for name in "ab"]
    log = alternated(places, trials, trials, budget_s=0.0)
    assert sorted(log) == sorted((place, *one) for place in ("P0", "P1") for one in trials[:2])


def records(rate_pps: float, received: int = 8 << 20, switch: str = "linux-bridge") -> list[Record]:
    given = Granted(
        place="root", in_user_namespace=False, asked_buffer_bytes=128 << 20,
        receive_buffer_bytes=received, send_buffer_bytes=received, applications_class="other",
    )  # fmt: skip
    return [
        scaled(
            synthetic_record(
                synthetic_trial(switch=switch, repetition=number), marks=[], number=number,
                granted=given,
            ),
            rate_pps * (1 + number % 3 / 1000),
        )
        for number in range(12)
    ]  # fmt: skip


def test_the_table_has_the_paired_ratio_and_compares_settings(
    places: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    p0 = write_run(tmp_path / "p0", records(1e6))
    p1 = write_run(tmp_path / "p1", records(0.9e6))
    assert places.table({"P0": p0, "P1": p1})
    (row,) = [line for line in capsys.readouterr().out.splitlines() if "linux-bridge" in line]
    assert "| 0.900 |" in row and "| 12 | no |" in row
    other = write_run(tmp_path / "other", records(1e6, received=128 << 20))
    assert not places.table({"P0": other, "P1": p0})
    output = capsys.readouterr().out
    assert "NOT THE SAME" in output and "socket buffers 128 MiB / 8 MiB" in output
    assert "| 1.000 | 1.000 to 1.000 | 12 | yes |" in output
