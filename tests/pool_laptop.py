"""A laptop that hands in a campaign and follows it, as `run --pool` does: one of the simulated
switch, of so many blocks, or the file that is given.

python -m tests.pool_laptop --store URL (--blocks N --contenders N | --campaign FILE) [--lease-s S]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from switchmark.campaign.load import load_text
from switchmark.errors import SwitchmarkError
from switchmark.pool.database import PoolDatabase
from switchmark.pool.laptop import follow, hand_in
from switchmark.store.address import read_store_address
from tests.pool_fakes import simulated_text, with_simulated


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--blocks", type=int, default=0)
    parser.add_argument("--contenders", type=int, default=2)
    parser.add_argument("--campaign", type=Path)
    parser.add_argument("--lease-s", type=float, default=60.0)
    asked = parser.parse_args()

    def say(words: str) -> None:
        print(f"laptop: {words}", file=sys.stderr, flush=True)

    there = with_simulated()
    name = asked.campaign.name if asked.campaign else "simulated.yaml"
    simulated = simulated_text(asked.blocks, asked.contenders)
    text = asked.campaign.read_text() if asked.campaign else simulated
    database = PoolDatabase(read_store_address(asked.store))
    try:
        done = hand_in(
            database,
            load_text(text, name, there.known),
            there,
            say,
            campaign_text=text,
            shortest_lease_s=asked.lease_s,
        )
        print(done.run, flush=True)
        return 0 if follow(database, done.run, say, is_new=done.is_new).state == "finished" else 1
    except SwitchmarkError as error:
        say(str(error))
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
