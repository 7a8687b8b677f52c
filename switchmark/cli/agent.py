"""`switchmark agent`: this machine as a testbed of a pool."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from switchmark.cli.options import takes
from switchmark.cli.output import note
from switchmark.cli.pool_options import PoolContact, check_extra
from switchmark.errors import UsageError

EPILOG = """
Examples:
  switchmark agent --testbed lab1.yaml --pool 127.0.0.1:8786
  switchmark agent --testbed lab1.yaml --pool pool.lab:8786 \\
      --authority ca.pem --certificate lab1.pem --key lab1.key

The name of the testbed is that of its file, here lab1. The file lists its hosts
(docs/testbed.md). For a single host it contains `hosts: {lab1: {local: true}}`.

Exit codes: 0, 129 or 143 ended; 2 bad input; 3 another agent serves the testbed, or runs here.
"""


@takes(PoolContact)
def command(
    contact: PoolContact,
    testbed: Annotated[
        Path, typer.Option("--testbed", metavar="FILE", help="The hosts of this testbed.")
    ],
) -> int:
    """Let a pool measure on this machine, one block of trials at a time, until interrupted."""
    check_extra()
    from switchmark.campaign.installed import installed
    from switchmark.engine.binary import find_engine
    from switchmark.pool.agent import StoreArchive, agent_of
    from switchmark.pool.agent_loop import SECOND_HOST, run_agent
    from switchmark.pool.database import PoolDatabase
    from switchmark.pool.scheduler import store_of
    from switchmark.pool.testbed_executor import TestbedExecutor
    from switchmark.store.address import read_store_address
    from switchmark.testbed.testbed_file import read_pool_testbed

    if contact.pool is None:
        raise UsageError(
            "--pool HOST:PORT is missing", remedy="name the pool there, or in SWITCHMARK_POOL"
        )
    hosts, limits = read_pool_testbed(testbed)
    find_engine()  # raises if there is none, before a campaign waits for it
    where, security = contact.contact(contact.pool)
    store = contact.store or store_of(where, security)
    database = PoolDatabase(read_store_address(store))
    executor = TestbedExecutor(installed(), hosts, limits)
    archive = StoreArchive(database)
    try:
        with agent_of(testbed.stem, database, archive, executor, note) as agent:
            run_agent(agent, where, security, note, [SECOND_HOST] if hosts else [])
    except KeyboardInterrupt:
        note("ended")
    return 0
