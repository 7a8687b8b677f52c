"""The progress of an item's run: its complete blocks, and its missing trials."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from switchmark.campaign.installed import Installed
from switchmark.experiment.steps import Step
from switchmark.model.trial import Trial
from switchmark.remote.site import Site
from switchmark.reproduction.stages import settings_of
from switchmark.reproduction.state import ItemState, state_of
from switchmark.results.run_directory import Run


@dataclass(frozen=True, slots=True)
class RunProgress:
    """The trials of a run by their status."""

    planned: tuple[Trial, ...]
    ended: frozenset[str]  # ids of trials with a record, also of a failure
    lacking: tuple[Trial, ...]  # trials that are not finished

    @property
    def is_part(self) -> bool:
        """True if some trials have no record."""
        return any(trial.id not in self.ended for trial in self.planned)

    @property
    def words(self) -> str:
        """The progress as text: `3 of 8 blocks, 27 of 72 trials`."""
        blocks = {trial.repetition for trial in self.planned}
        due = Counter(trial.repetition for trial in self.planned if trial.id not in self.ended)
        ended = len(self.planned) - due.total()
        return (
            f"{len(blocks - due.keys())} of {len(blocks)} block{'s' if len(blocks) > 1 else ''}, "
            f"{ended} of {len(self.planned)} trials"
        )


def progress_of(steps: Sequence[Step], statuses: Mapping[str, str]) -> RunProgress:
    """Return the progress of a run with these steps and these statuses of trials."""
    planned = {step.plan.trial.id: step.plan.trial for step in steps}
    lacking = [trial for name, trial in planned.items() if statuses.get(name) != "finished"]
    return RunProgress(tuple(planned.values()), frozenset(statuses), tuple(lacking))


def steps_of(
    run: Run, state: ItemState, installed: Installed, site: Site | None
) -> tuple[Step, ...]:
    """Return the steps of the item's run if it is resumed here; empty if it cannot run."""
    more = [setting for setting in settings_of(run) if setting not in state.settings]
    return state_of(state.item, installed, more=more, site=site).steps if more else state.steps
