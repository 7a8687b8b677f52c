"""The scenarios by name. Each file of this folder has the `PLACES` of the two ends of a path.

Some names contain numbers: `loopback-3` is a chain of three VNFs, `pairs-4` is four pairs,
`chains-2x3` is two chains of three VNFs each.
"""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.model.scenario import WRITTEN, Scenario
from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.plugins import PluginRegistry
from switchmark.scenario.support.layout import lay_out, with_nics
from switchmark.scenario.support.split import lay_out_split

PLACES: PluginRegistry[tuple[NodePlace, NodePlace]] = PluginRegistry(
    "switchmark.scenario", lambda module, _name: module.PLACES
)


def resolve_names(trial: Trial) -> Trial:
    """Return the trial with the canonical name of its scenario, and with the number of paths in
    `pairs`. Raise UsageError for an unknown scenario."""
    scenario = _known(trial.scenario)
    if scenario == scenario.canonical and scenario.paths in (None, trial.pairs):
        return trial
    pairs = scenario.paths or trial.pairs
    return trial.model_copy(update={"scenario": scenario.canonical, "pairs": pairs})


def expand(trial: Trial) -> Topology:
    """Return the topology of a trial that satisfies the rules of campaigns. Raise UsageError for an
    unknown scenario."""
    scenario, trial = trial.scenario, resolve_names(trial)
    if trial.split == "none":
        topology = lay_out(trial, PLACES[scenario.kind], scenario.chain)
    else:
        topology = lay_out_split(trial, scenario.chain)
    return with_nics(topology, trial.nics.cables)


def _known(scenario: Scenario) -> Scenario:
    if not scenario.is_known:
        known = ", ".join(WRITTEN)
        raise UsageError(f"scenario '{scenario}': not known", remedy=f"known: {known}")
    return scenario
