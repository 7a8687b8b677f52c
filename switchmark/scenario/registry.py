"""The scenarios by name: a file of this folder with the `PLACES` of the two ends of each path.

Some names carry numbers: `loopback-3` is a chain of three VNFs, `pairs-4` four pairs, `chains-2x3`
two chains of three VNFs each. `resolve` reads them.
"""

from __future__ import annotations

from switchmark.errors import UsageError
from switchmark.model.scenario import WRITTEN, Resolved, resolve
from switchmark.model.topology import NodePlace, Topology
from switchmark.model.trial import Trial
from switchmark.plugins import PluginRegistry
from switchmark.scenario.support.layout import lay_out, with_nics
from switchmark.scenario.support.split import lay_out_split

PLACES: PluginRegistry[tuple[NodePlace, NodePlace]] = PluginRegistry(
    "switchmark.scenario", lambda module, _name: module.PLACES
)


def resolve_names(trial: Trial) -> Trial:
    """The trial with the scenario's canonical name, and the number of paths in `pairs`. Raises
    UsageError for an unknown scenario."""
    found = _known(trial.scenario)
    if found.name == trial.scenario and found.pairs in (None, trial.pairs):
        return trial
    return trial.model_copy(update={"scenario": found.name, "pairs": found.pairs or trial.pairs})


def expand(trial: Trial) -> Topology:
    """The topology of a trial that the rules of campaigns allow. Raises UsageError for an unknown
    scenario."""
    found, trial = _known(trial.scenario), resolve_names(trial)
    if trial.split == "none":
        topology = lay_out(trial, PLACES[found.kind], found.chain)
    else:
        topology = lay_out_split(trial, found.chain)
    return with_nics(topology, trial.nics)


def _known(name: str) -> Resolved:
    found = resolve(name)
    if found is None:
        raise UsageError(f"scenario '{name}': not known", remedy=f"known: {', '.join(WRITTEN)}")
    return found
