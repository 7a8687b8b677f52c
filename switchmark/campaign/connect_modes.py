"""Which connect mode `auto` stands for, and whether switches would be compared in unlike modes.

Switches are compared in one mode, which each of them has, unless the campaign permits several
modes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from switchmark.errors import Refusal
from switchmark.model.campaign import CampaignDefinition, Sweep
from switchmark.model.capabilities import Capabilities
from switchmark.model.choices import WIRE
from switchmark.model.functions import ROUTE
from switchmark.model.ports import ConnectMode


def choose_modes(
    campaign: CampaignDefinition, capabilities: Mapping[str, Capabilities]
) -> tuple[dict[str, ConnectMode], list[Refusal]]:
    """The connect mode that `auto` stands for, by switch, and the reasons that forbid the
    comparison. Sweeps with the base `route` need no choice. Without leave to mix, all switches take
    one mode that each of them has: the one that is the natural mode of the most. With leave, each
    takes its own natural mode."""
    sweeps = [sweep for sweep in campaign.sweeps if any(f.base != ROUTE for f in sweep.function)]
    everyone = list(dict.fromkeys(s for sweep in sweeps for s in sweep.switch))
    natural = {switch: capabilities[switch].connect_modes[0] for switch in everyone}
    automatic = list(
        dict.fromkeys(
            switch
            for sweep in sweeps
            for switch in sweep.switch
            if None in sweep.connect_mode and switch != WIRE
        )
    )
    chosen = dict(natural)
    if automatic and not campaign.mixed_connect_modes:
        shared = [
            mode
            for mode in ConnectMode
            if all(mode in capabilities[switch].connect_modes for switch in automatic)
        ]
        if not shared:
            return {}, [_no_shared_mode(automatic, capabilities)]
        favourite = max(shared, key=lambda m: sum(natural[switch] is m for switch in automatic))
        chosen |= dict.fromkeys(automatic, favourite)
    if campaign.mixed_connect_modes:
        return chosen, []
    return chosen, _mixed(sweeps, chosen)


def _no_shared_mode(switches: Sequence[str], capabilities: Mapping[str, Capabilities]) -> Refusal:
    offers = "; ".join(f"{s}: {', '.join(capabilities[s].connect_modes)}" for s in switches)
    return Refusal(
        f"no connect mode is common to all switches ({offers})",
        "choose switches that share one",
        instead="set mixed_connect_modes: true to run each in its own",
    )


def _mixed(sweeps: Sequence[Sweep], chosen: Mapping[str, ConnectMode]) -> list[Refusal]:
    modes: dict[str, set[ConnectMode]] = {}
    for sweep in sweeps:
        for switch in sweep.switch:
            if switch != WIRE:
                found = modes.setdefault(switch, set())
                found.update(chosen[switch] if m is None else m for m in sweep.connect_mode)
    if len({frozenset(found) for found in modes.values()}) <= 1:
        return []
    runs = "; ".join(f"{switch}: {', '.join(sorted(found))}" for switch, found in modes.items())
    return [
        Refusal(
            f"the switches would run in different connect modes ({runs})",
            "give all of them the same",
            instead="set mixed_connect_modes: true to compare them all the same",
        )
    ]
