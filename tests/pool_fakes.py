"""A simulated switch and campaigns with it, for tests of the pool alone.

No installation has this switch, so no campaign of a user can use it.
"""

from __future__ import annotations

from dataclasses import replace

from switchmark.campaign.installed import Installed, installed
from switchmark.campaign.load import load_text
from switchmark.model.campaign import CampaignDefinition
from switchmark.model.capabilities import Capabilities
from switchmark.model.ports import ConnectMode, PortKind

SIMULATED = "simulated"


def with_simulated() -> Installed:
    """Return the installed components and the simulated switch."""
    known = installed()
    simulated = Capabilities(
        port_kinds=(PortKind.VETH,),
        connect_modes=(ConnectMode.CROSS_CONNECT,),
        polling=False,
        in_kernel=True,
        multi_core=True,
        known_truth=True,
        description="a switch of the simulation: nothing is measured",
    )
    return replace(known, switches={**known.switches, SIMULATED: simulated})


def simulated_text(blocks: int, contenders: int = 2, name: str = "simulated") -> str:
    """Return a campaign of so many blocks of contenders that differ only in their name; with 0
    blocks it runs until all is decided."""
    length = f"repetitions: {blocks}" if blocks else "prove: 5%\nbudget: 10m"
    text = (
        f"name: {name}\nswitch: simulated\nduration: 100ms\n{length}\n"
        "environment: netns\ncontenders:\n"
    )
    named = (f"  c{one}: {{switch_cores: {one + 1}}}\n" for one in range(contenders))
    return text + "".join(named)


def simulated_campaign(
    blocks: int, contenders: int = 2, name: str = "simulated"
) -> CampaignDefinition:
    """Return that campaign, parsed."""
    text = simulated_text(blocks, contenders, name)
    return load_text(text, f"{name}.yaml", with_simulated().known)
