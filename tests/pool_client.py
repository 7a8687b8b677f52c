"""A client that submits a campaign and follows it, as `run --pool` does.

The campaign is a file, or one of the simulated switch with this number of blocks:
python -m tests.pool_client --store URL (--blocks N --contenders N | --campaign FILE) [--lease-s S]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from switchmark.campaign.load import load_text
from switchmark.errors import SwitchmarkError
from switchmark.pool.client import follow, submit_campaign
from switchmark.pool.database import PoolDatabase
from switchmark.store.address import read_store_address
from tests.pool_fakes import simulated_text, with_simulated


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--store", required=True)
    parser.add_argument("--blocks", type=int, default=0)
    parser.add_argument("--contenders", type=int, default=2)
    parser.add_argument("--campaign", type=Path)
    parser.add_argument("--lease-s", type=float, default=60.0)
    arguments = parser.parse_args()

    def say(text: str) -> None:
        print(f"client: {text}", file=sys.stderr, flush=True)

    installed = with_simulated()
    name = arguments.campaign.name if arguments.campaign else "simulated.yaml"
    simulated = simulated_text(arguments.blocks, arguments.contenders)
    text = arguments.campaign.read_text() if arguments.campaign else simulated
    database = PoolDatabase(read_store_address(arguments.store))
    try:
        submitted = submit_campaign(
            database,
            load_text(text, name, installed.known),
            installed,
            say,
            campaign_text=text,
            shortest_lease_s=arguments.lease_s,
        )
        print(submitted.run, flush=True)
        status = follow(database, submitted.run, say, is_new=submitted.is_new)
        return 0 if status.state == "finished" else 1
    except SwitchmarkError as error:
        say(str(error))
        return error.exit_code


if __name__ == "__main__":
    sys.exit(main())
