"""switchmark: which virtual switch should carry my traffic, and what does it cost?

The Python API (docs/python.md): `Campaign`, `Results`, `Progress`, `Reproduction`."""

import os
from typing import TYPE_CHECKING, Any

from switchmark.version import __version__

# polars reads this variable when it is first imported. Without it, polars does not return freed
# memory to the system, which is a third of the memory that a summary of many records takes.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")

__all__ = ["Campaign", "Progress", "Reproduction", "Results", "__version__"]

if TYPE_CHECKING:
    from switchmark.api import Campaign, Progress, Reproduction, Results


def __getattr__(name: str) -> Any:
    """Import a name of the API at its first use, so that the command line starts without it."""
    if name in __all__:
        from switchmark import api

        return getattr(api, name)
    raise AttributeError(f"module 'switchmark' has no attribute '{name}'")
