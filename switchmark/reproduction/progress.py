"""How far an item's run is: which of its blocks are whole, and which trials it lacks."""

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
    """The trials of a run by what has become of them."""

    planned: tuple[Trial, ...]
    ended: frozenset[str]  # ids of those that have a record, of a failure, too
    lacking: tuple[Trial, ...]  # those that are to be measured yet

    @property
    def is_part(self) -> bool:
        """Whether trials have not been begun."""
        return any(trial.id not in self.ended for trial in self.planned)

    @property
    def words(self) -> str:
        """What there is: `3 of 8 blocks, 27 of 72 trials`."""
        blocks = {trial.repetition for trial in self.planned}
        due = Counter(trial.repetition for trial in self.planned if trial.id not in self.ended)
        ended = len(self.planned) - due.total()
        return (
            f"{len(blocks - due.keys())} of {len(blocks)} block{'s' if len(blocks) > 1 else ''}, "
            f"{ended} of {len(self.planned)} trials"
        )


def progress_of(steps: Sequence[Step], statuses: Mapping[str, str]) -> RunProgress:
    """The progress of a run with these steps, of which some have ended in these ways."""
    planned = {step.plan.trial.id: step.plan.trial for step in steps}
    lacking = [one for name, one in planned.items() if statuses.get(name) != "finished"]
    return RunProgress(tuple(planned.values()), frozenset(statuses), tuple(lacking))


def steps_of(run: Run, state: ItemState, there: Installed, site: Site | None) -> tuple[Step, ...]:
    """The steps of the item's run as it would go on here; none where it cannot."""
    more = [one for one in settings_of(run) if one not in state.settings]
    return state_of(state.item, there, more=more, site=site).steps if more else state.steps
