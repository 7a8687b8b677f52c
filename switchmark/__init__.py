"""switchmark: which virtual switch should carry my traffic, and what does it cost?

The Python API (docs/python.md): `Campaign`, `Results`, `Progress`, `Reproduction`."""

import os
from typing import TYPE_CHECKING, Any

# Read by polars when it is first imported, which else keeps for itself what it has freed: a
# third of the memory that a summary of many records takes.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")

__version__ = "0.1.0"
__all__ = ["Campaign", "Progress", "Reproduction", "Results", "__version__"]

if TYPE_CHECKING:
    from switchmark.api import Campaign, Progress, Reproduction, Results


def __getattr__(name: str) -> Any:
    """A name of the API, imported when it is first asked for: the command line starts without
    it."""
    if name in __all__:
        from switchmark import api

        return getattr(api, name)
    raise AttributeError(f"module 'switchmark' has no attribute '{name}'")
