"""Campaigns on a pool with random faults: tools/pool-chaos.

The first campaign has many short trials on simulated testbeds, the second has fewer on real ones: a
Linux bridge and a baseline between namespaces, each agent with its own state directory. Faults
occur until the campaign ends, for --minutes at most. Then it must end without help. A seed gives
the same order of faults, not the same moments.
"""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from switchmark.store.address import read_store_address
from switchmark.store.database import open_connection
from tests.faults import snapshot
from tests.known_state import establish
from tests.pool_judge import check_campaign
from tests.pool_rig import PoolRig, pool_rig, slowness

CONTENDERS = 2
LEASE_S = 4.0  # and what its block adds
CLOCKS_S = (0.0, 300.0, -240.0)
REAL_LEASE_S = 10.0  # three agents on two cores speak late
AROUND_A_REAL_TRIAL_MS = 500.0  # for its deployment on a busy machine
SETTLES_S = 60.0
LOGS = Path("build/pool-chaos")
NOTHING_LOST = "nothing lost, doubled or left behind"
REAL = """name: real
switch: [linux-bridge, direct]
rate: 0.02M
environment: netns
duration: {duration_ms:.0f}ms
repetitions: {blocks}
"""


class Chaos:
    """The faults, by name."""

    def __init__(self, rig: PoolRig, agents: list[str], blocks: int, seed: int) -> None:
        self._rig = rig
        self._agents = agents
        self._blocks = blocks
        self.lease_s = REAL_LEASE_S if rig.campaign else LEASE_S
        self._random = random.Random(seed)
        self.done: Counter[str] = Counter()
        self.faults: dict[str, Callable[[], None]] = {
            "agent killed": self._agent_killed,
            "agent stopped beyond its lease": self._agent_asleep,
            "agent ended": self._agent_ended,
            "two agents for one testbed": self._second_agent,
            "scheduler restarted": self._scheduler,
            "PostgreSQL crashed": lambda: self._postgres("immediate"),
            "PostgreSQL restarted": lambda: self._postgres("fast"),
            "PostgreSQL slow": self._slow,
            "objects gone": self._objects,
            "client gone": self._client,
            "two clients": self._two_clients,
        }
        if not rig.campaign:  # a real testbed checks itself
            self.faults["testbed unfit"] = self._unfit

    def inject(self) -> None:
        """Inject a random fault, each equally often."""
        least = min(self.done[name] for name in self.faults)
        name = self._random.choice([one for one in self.faults if self.done[one] == least])
        print(f"{time.strftime('%H:%M:%S')}  {name}", flush=True)
        self.faults[name]()
        self.done[name] += 1

    def _some_agent(self) -> str:
        return self._random.choice(self._agents)

    def _pause(self, low_s: float, high_s: float) -> None:
        time.sleep(self._random.uniform(low_s, high_s))

    def _agent_killed(self) -> None:
        name = self._some_agent()
        self._rig.kill(name)
        self._pause(0, 6)
        self._rig.agent(name)

    def _agent_asleep(self) -> None:
        name = self._some_agent()
        self._rig.signal(name, signal.SIGSTOP)
        self._pause(self.lease_s + 1, self.lease_s + 6)
        self._rig.signal(name, signal.SIGCONT)

    def _agent_ended(self) -> None:
        name = self._some_agent()
        self._rig.end(name)
        self._rig.agent(name)

    def _second_agent(self) -> None:
        name = self._some_agent()
        self._rig.agent(name, place="elsewhere", name="second")
        assert self._rig.exit_code("second") == 3, self._rig.output("second")

    def _scheduler(self) -> None:
        self._rig.kill("serve")
        self._pause(0, 4)
        self._rig.serve()

    def _postgres(self, how: str) -> None:
        self._rig.postgres.stop(how)
        self._pause(0, 3)
        self._rig.postgres.start()

    def _slow(self) -> None:
        """Lock the table of blocks for a while."""
        with open_connection(read_store_address(self._rig.store)) as db, db.transaction():
            db.execute("LOCK TABLE pool_blocks IN ACCESS EXCLUSIVE MODE")
            self._pause(1, 3)

    def _objects(self) -> None:
        away = self._rig.objects.rename(self._rig.folder / "away")
        self._pause(1, 8)
        away.rename(self._rig.objects)

    def _client(self) -> None:
        self._rig.kill("client")
        self._pause(0, 3)
        self._new_client("client")

    def _two_clients(self) -> None:
        self._new_client("another")
        self._pause(0, 3)
        self._rig.kill("another")

    def _unfit(self) -> None:
        file = self._rig.state_of(self._some_agent()) / "unfit"
        file.write_text("the baseline is half of its rate")
        self._pause(2, 5)
        file.unlink()

    def _new_client(self, name: str) -> None:
        self._rig.client(name, self._blocks, CONTENDERS, self.lease_s)


def simulated(minutes: float, trials: int, agents: int, seed: int, logs: Path) -> None:
    """Measure many trials, long enough for faults to meet some of them."""
    trial_ms = max(20.0, 0.8 * minutes * 60e3 * agents / trials)
    with pool_rig(trial_ms, logs=logs / f"{seed}-simulated") as rig:
        names = _testbeds(agents)
        rig.clocks_s = dict(zip(names, CLOCKS_S * agents, strict=False))
        _campaign_of(rig, names, minutes, trials, seed)
        for name in names:
            rig.end(name)
            left = rig.state_of(name) / "deployed"
            assert not left.exists(), f"left behind on {name}"
    print(f"{trials} simulated trials on {agents} testbeds, {trial_ms:.0f} ms each: {NOTHING_LOST}")


def real(minutes: float, trials: int, agents: int, seed: int, logs: Path) -> None:
    """Measure fewer real trials; afterwards the host must have no new namespaces, links, control
    groups, processes or files."""
    trial_ms = 0.8 * minutes * 60e3 * agents / trials - AROUND_A_REAL_TRIAL_MS
    duration_ms = min(max(300.0, trial_ms), 5000.0)
    campaign = REAL.format(duration_ms=duration_ms, blocks=trials // CONTENDERS)
    snapshot.leave_out_mounts()
    before = snapshot.take([], ())
    with pool_rig(campaign=campaign, logs=logs / f"{seed}-real") as rig:
        names = _testbeds(agents)
        _campaign_of(rig, names, minutes, trials, seed)
        for name in names:
            rig.end(name)
    _check_host(before)
    print(f"{trials} real trials on {agents} testbeds, {duration_ms:.0f} ms each: {NOTHING_LOST}")


def _testbeds(agents: int) -> list[str]:
    return [f"lab{number + 1}" for number in range(agents)]


def _campaign_of(rig: PoolRig, names: list[str], minutes: float, trials: int, seed: int) -> None:
    """Submit the campaign, inject faults, and check the results."""
    rig.serve()
    for name in names:
        rig.agent(name)
    chaos = Chaos(rig, names, trials // CONTENDERS, seed)
    rig.client("client", trials // CONTENDERS, CONTENDERS, chaos.lease_s)
    rig.wait_trials(1)
    begun = time.monotonic()
    while time.monotonic() - begun < 60 * minutes:
        now = rig.state()
        if now is not None and now.state != "open":
            break
        chaos.inject()
        time.sleep(1)
    over = rig.wait_finished()
    assert over.state == "finished" and over.trials == {"finished": trials}, over
    assert rig.exit_code("client") == 0, rig.output("client")
    check_campaign(rig)
    print(f"the campaign was over after {time.monotonic() - begun:.0f} s")
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(chaos.done.items())))
    print(f"events: {len(rig.events())}")


def _check_host(before: dict[str, set[str]]) -> None:
    """Wait until the host is as before. TCP sockets close later."""
    deadline = time.monotonic() + SETTLES_S * slowness()
    while left := [one for one in _left(before) if not one.startswith("sockets:")]:
        assert time.monotonic() < deadline, "\n".join(left)
        time.sleep(0.5)


def _left(before: dict[str, set[str]]) -> list[str]:
    return snapshot.differences(before, snapshot.take([], ()))


def main() -> None:
    establish()
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, required=True, help="of faults, at most, for each")
    parser.add_argument("--trials", type=int, default=1000, help="simulated ones (1000)")
    parser.add_argument("--real-trials", type=int, default=60, help="(60)")
    parser.add_argument("--agents", type=int, default=3, help="(3)")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--logs", type=Path, default=LOGS, help=f"of a failed run ({LOGS})")
    arguments = parser.parse_args()
    print(f"seed {arguments.seed}", flush=True)
    if arguments.trials:
        simulated(
            arguments.minutes, arguments.trials, arguments.agents, arguments.seed, arguments.logs
        )
    if arguments.real_trials:
        real(
            arguments.minutes,
            arguments.real_trials,
            arguments.agents,
            arguments.seed,
            arguments.logs,
        )


if __name__ == "__main__":
    main()
