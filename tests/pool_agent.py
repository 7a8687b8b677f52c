"""An agent with a simulated testbed, for tests of the pool with real processes.

    python -m tests.pool_agent TESTBED --store URL --pool HOST:PORT [--trial-ms N]

A trial sleeps for its length. Meanwhile it holds a lock of the testbed, which detects a second
trial at the same time, and a file represents the leftovers of a killed trial."""

from __future__ import annotations

import argparse
import fcntl
import os
import random
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from switchmark.errors import SwitchmarkError
from switchmark.host.state import state_dir
from switchmark.model.trial import Trial
from switchmark.pool.agent import HealthCheck, StoreArchive, agent_of
from switchmark.pool.agent_loop import run_agent
from switchmark.pool.database import PoolDatabase
from switchmark.pool.security import contact, credentials_of
from switchmark.pool.values import BlockLease
from switchmark.record import Record
from switchmark.store.address import read_store_address
from tests.unit.block_fakes import at_rate
from tests.unit.records import synthetic_record, synthetic_trial


class SimulatedTestbed:
    """Sleeps instead of measuring, and returns a synthetic record."""

    def __init__(self, testbed: str, trial_s: float, clock_ahead_s: float) -> None:
        self._testbed = testbed
        self._trial_s = trial_s
        self._ahead = timedelta(seconds=clock_ahead_s)
        self._folder = state_dir()
        self._numbers = random.Random(testbed)

    @property
    def _deployed(self) -> Path:
        return self._folder / "deployed"

    def clean(self) -> list[str]:
        self._deployed.unlink(missing_ok=True)
        return []

    def check(self, profile: Mapping[str, Any] | None, wire_pps: list[float]) -> HealthCheck:
        """Fail while a file contains a reason."""
        with suppress(FileNotFoundError):
            return HealthCheck((self._folder / "unfit").read_text(), profile or {}, ())
        self.clean()
        return HealthCheck(None, profile or {"simulated": True}, () if wire_pps else (1e6,))

    def measure(
        self,
        lease: BlockLease,
        before: Callable[[Trial], None],
        keep: Callable[[Record], None],
    ) -> None:
        for trial in lease.todo:
            before(trial)
            keep(self._trial(trial, lease))

    def _trial(self, trial: Trial, lease: BlockLease) -> Record:
        with (self._folder / "traffic.lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SwitchmarkError("two trials at once on one testbed") from None
            self._deployed.write_text(trial.id)
            begun = datetime.now(UTC) + self._ahead
            time.sleep(self._trial_s)
            ended = datetime.now(UTC) + self._ahead
            self._deployed.unlink()
        # A record of the usual shape that is marked as synthetic.
        record = synthetic_record(synthetic_trial(switch="direct", duration_s=trial.duration_s))
        loads = record.throughput
        assert loads is not None
        # Each contender is 1.5 times as fast as the previous.
        rate_pps = 1e6 * 1.5 ** int(trial.contender[1:]) * self._numbers.lognormvariate(0, 0.03)
        return record.model_copy(
            update={
                "trial": trial,
                "throughput": at_rate(loads, rate_pps),
                "engines": [],
                "trial_id": trial.id,
                "campaign": lease.campaign,
                "run_id": lease.run_id,
                "started_at": begun.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "ended_at": ended.strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
                "switch_details": {"version": "of the simulation: nothing was measured"},
                "provenance": {
                    "synthetic": True,
                    "testbed": self._testbed,
                    "pid": os.getpid(),
                    "fencing_token": lease.token,
                },
            }
        )


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("testbed")
    parser.add_argument("--store", required=True)
    parser.add_argument("--pool", required=True)
    parser.add_argument("--trial-ms", type=float, default=20)
    parser.add_argument("--clock-ahead-s", type=float, default=0)
    for name in ("authority", "certificate", "key"):
        parser.add_argument(f"--{name}", type=Path)
    arguments = parser.parse_args()
    credentials = credentials_of(arguments.authority, arguments.certificate, arguments.key)

    def say(message: str) -> None:
        print(f"{arguments.testbed}: {message}", file=sys.stderr, flush=True)

    database = PoolDatabase(read_store_address(arguments.store))
    archive = StoreArchive(database)
    executor = SimulatedTestbed(
        arguments.testbed, arguments.trial_ms / 1e3, arguments.clock_ahead_s
    )

    def clock() -> float:
        return time.time() + arguments.clock_ahead_s

    try:
        with agent_of(arguments.testbed, database, archive, executor, say, clock) as agent:
            run_agent(agent, *contact(arguments.pool, credentials), say)
    except SwitchmarkError as error:
        say(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
