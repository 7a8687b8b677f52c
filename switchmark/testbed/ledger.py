"""The ledger of everything the bench has made on the machine and not yet undone.

One append-only JSON-lines file per session under `STATE_DIR`. An entry is written before
the thing is made; a strike is written after it is undone. Undoing is idempotent, so a
thing that was never made does no harm. `clean.py` replays ledgers whose owner is dead.
"""

from __future__ import annotations
