"""switchmark: which virtual switch should carry my traffic, and what does it cost?"""

import os

# Read by polars when it is first imported, which else keeps for itself what it has freed: a
# third of the memory that a summary of many records takes.
os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:0,muzzy_decay_ms:0")

__version__ = "0.1.0"
