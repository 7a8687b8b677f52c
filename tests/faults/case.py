"""A case of the matrix, drawn by its seed alone: the same seed is the same case."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

from tests.faults.inflict import FAULTS, Fault
from tests.faults.phases import PHASES


@dataclass(frozen=True, slots=True)
class Case:
    """What is done to a bench, and when."""

    seed: int
    fault: Fault
    phase: str
    switch: str
    environment: str
    finished_before: int  # trials, of the three that the campaign has
    delay: float  # share of the phase's first moments that passes before the fault

    def __str__(self) -> str:
        return (
            f"case {self.seed}: {self.fault.name} in {self.phase} (trial "
            f"{self.finished_before + 1}), {self.switch}, {self.environment}"
        )


def draw(
    seed: int, pairs: Sequence[tuple[str, str]], faults: Sequence[Fault] = tuple(FAULTS)
) -> Case:
    """The case of this seed, on a machine that has these switches in these environments."""
    rng = random.Random(seed)
    fault = rng.choice(faults)
    phase = rng.choice(fault.phases or list(PHASES))
    switch, environment = rng.choice(fault.pairs_of(pairs))
    return Case(
        seed=seed,
        fault=fault,
        phase=phase,
        switch=switch,
        environment=environment,
        finished_before=0 if phase == "plan" else rng.randrange(2),
        delay=rng.random(),
    )
