"""`reproduce` on a simulated clock: trials are invented, everything around them is real."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.find import find_campaign
from switchmark.campaign.installed import installed
from switchmark.cli import reproduce_items
from switchmark.experiment.execute import Executed
from switchmark.record import Timing
from switchmark.reproduction import progress
from switchmark.reproduction.paper import Item, Paper
from switchmark.reproduction.run import latest
from switchmark.reproduction.state import ItemState
from switchmark.results.run_directory import Run
from tests.unit.records import synthetic_record

THERE = installed()
SPREAD = 0.1


def loads(records: list[Any], factor: Mapping[str, float], seed: int) -> list[Any]:
    """Return the records with loads of this factor of 1 Mpps, and a spread."""
    source = np.random.default_rng(seed)
    scaled = []
    for record in records:
        pps = 1e6 * factor[record.trial.io.value] * math.exp(source.normal(0, SPREAD))
        (pair,) = record.throughput.pairs
        throughput = record.throughput.model_copy(update={
            "forwarded_pps": pps, "forwarded_l2_bps": pps * 8 * record.trial.packet_size_bytes,
            "forwarded_l1_bps": pps * 8 * (record.trial.packet_size_bytes + 20),
            "pairs": [pair.model_copy(update={"forwarded_pps": pps})],
        })  # fmt: skip
        scaled.append(record.model_copy(update={"throughput": throughput}))
    return scaled


@dataclass
class Bench:
    """Runs items of a paper; each trial takes its traffic's time, and `around_s`."""

    paper: Paper
    results: Path
    rates: Mapping[str, float]  # factor of 1 Mpps, by I/O
    around_s: float = 0.5
    now_s: float = 0.0
    begun: list[str] = field(default_factory=list)  # ids of trials in order

    def put_in(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Replace the machine."""
        clock = SimpleNamespace(monotonic=lambda: self.now_s)
        monkeypatch.setattr(reproduce_items, "time", clock)
        monkeypatch.setattr(reproduce_items, "state_of", self.state)
        monkeypatch.setattr(progress, "state_of", self.state)
        monkeypatch.setattr(reproduce_items, "execute", self.execute)

    def state(
        self, item: Item, known: Any = THERE, *, more: Sequence[str] = (), site: Any = None
    ) -> ItemState:
        campaign = find_campaign(item.campaign, known.known, list(more))
        steps = [
            SimpleNamespace(plan=SimpleNamespace(trial=trial))
            for trial in expand(campaign, known.switches, known.environments)
        ]
        return ItemState(item, campaign, tuple(steps), trials=4)  # type: ignore[arg-type]

    def execute(self, campaign: Any, installed: Any, request: Any) -> Executed:
        settings = {"set": list(request.overrides)}
        common: dict[str, Any] = {"campaign_text": "", "settings": settings, "host": {}}
        directory = latest(request.results, campaign.name)
        run_context = (
            Run.resume(directory, **common)
            if request.resume and directory is not None
            else Run.create(request.results, campaign=campaign.name,
                            definition=campaign.model_dump(mode="json"), **common)
        )  # fmt: skip
        with run_context as run:
            known = run.finished_ids()
            trials = expand(campaign, installed.switches, installed.environments)
            new = [synthetic_record(one, marks=[]) for one in trials if one.id not in known]
            for record in loads(new, self.rates, seed=3 + len(known)):
                if not request.may_begin(record.trial):
                    break
                self.begun.append(record.trial_id)
                traffic_s = record.trial.duration_s
                timing = Timing(deploy_s=self.around_s, verify_s=0, teardown_s=0,
                                overhead_s=self.around_s, measure_s=traffic_s)  # fmt: skip
                run.write(record.model_copy(update={"timing": timing}))
                self.now_s += traffic_s + self.around_s
                request.observer.trial_ended(run.read(record.trial_id))
            statuses = run.statuses()
            if not statuses:
                run.discard_empty()
            return Executed(run.directory, statuses)

    def reproduce(self, name: str, budget_s: float | None, *, again: bool = False) -> None:
        """Reproduce one item."""
        assert self.run([name], budget_s, again=again) == 0

    def run(self, names: Sequence[str], budget_s: float | None, *, again: bool = False) -> int:
        """Run these items; returns how many failed."""
        items = [self.paper.item(name) for name in names]
        runner = reproduce_items.ItemRunner(
            THERE, self.results, budget_s, [], None, None, again=again, quiet=True, began=self.now_s
        )
        states = {(self.paper.name, item.name): self.state(item) for item in items}
        return runner.run([(self.paper, items)], states)
