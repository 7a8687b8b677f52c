"""The keys that describe trials: one table, from which everything else follows.

The loader, the notation, `--set`, the error messages and the tables of docs/campaigns.md
all read `KEYS`, so a key is added to the table of its subject (`keys_*.py`) and to `Trial`,
and nowhere else.
"""

from __future__ import annotations

from switchmark.campaign import keys_cores, keys_measurement, keys_setup, keys_traffic
from switchmark.campaign.key import Key
from switchmark.campaign.model import Trial

_BY_FIELD = {
    key.field: key
    for table in (keys_measurement, keys_setup, keys_traffic, keys_cores)
    for key in table.KEYS
}
KEYS: tuple[Key, ...] = tuple(_BY_FIELD[one] for one in Trial.model_fields if one in _BY_FIELD)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}
BY_LETTER: dict[str, Key] = {key.letter: key for key in KEYS if key.letter}
