"""A laptop that hands in a campaign of the simulated switch and follows it, as `run --pool` does.

python -m tests.pool_laptop --store URL --blocks N --contenders N [--lease-s S]
"""

from __future__ import annotations

import argparse
import sys

from switchmark.errors import SwitchmarkError
from switchmark.pool.database import PoolDatabase
from switchmark.pool.laptop import follow, hand_in
from switchmark.store.address import read_store_address
from tests.pool_fakes import simulated_campaign, simulated_text, with_simulated


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--blocks", type=int, required=True)
    parser.add_argument("--contenders", type=int, default=2)
    parser.add_argument("--lease-s", type=float, default=60.0)
    asked = parser.parse_args()

    def say(words: str) -> None:
        print(f"laptop: {words}", file=sys.stderr, flush=True)

    database = PoolDatabase(read_store_address(asked.store))
    try:
        done = hand_in(
            database,
            simulated_campaign(asked.blocks, asked.contenders),
            with_simulated(),
            campaign_text=simulated_text(asked.blocks, asked.contenders),
            shortest_lease_s=asked.lease_s,
        )
        print(done.run, flush=True)
        return 0 if follow(database, done.run, say, is_new=done.is_new).state == "finished" else 1
    except SwitchmarkError as error:
        say(str(error))
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
