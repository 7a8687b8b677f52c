"""Campaigns on a pool through a random schedule of faults: tools/pool-chaos.

One of many short trials on simulated testbeds, then one of fewer on real ones: Linux bridge and
bare wire between namespaces, each agent with a state directory of its own. The faults go on until
the campaign is over; after --minutes they stop, and it must end by itself. A seed gives the same
schedule of faults, not the same moments.
"""

from __future__ import annotations

import argparse
import random
import signal
import time
from collections import Counter
from collections.abc import Callable

from switchmark.store.address import read_store_address
from switchmark.store.database import open_connection
from tests.faults import snapshot
from tests.known_state import establish
from tests.pool_judge import check_campaign
from tests.pool_stand import PoolStand, pool_stand

CONTENDERS = 2
LEASE_S = 4.0  # and what its block adds
CLOCKS_S = (0.0, 300.0, -240.0)
REAL_LEASE_S = 10.0  # three agents on two cores speak late
AROUND_A_REAL_TRIAL_MS = 500.0  # what deploying it takes on a busy machine
SETTLES_S = 30.0
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

    def __init__(self, stand: PoolStand, agents: list[str], blocks: int, seed: int) -> None:
        self._stand = stand
        self._agents = agents
        self._blocks = blocks
        self.lease_s = REAL_LEASE_S if stand.campaign else LEASE_S
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
            "laptop gone": self._laptop,
            "two laptops": self._two_laptops,
        }
        if not stand.campaign:  # (a real one judges itself)
            self.faults["testbed unfit"] = self._unfit

    def strike(self) -> None:
        """One fault, each as often as the others."""
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
        self._stand.kill(name)
        self._pause(0, 6)
        self._stand.agent(name)

    def _agent_asleep(self) -> None:
        name = self._some_agent()
        self._stand.signal(name, signal.SIGSTOP)
        self._pause(self.lease_s + 1, self.lease_s + 6)
        self._stand.signal(name, signal.SIGCONT)

    def _agent_ended(self) -> None:
        name = self._some_agent()
        self._stand.end(name)
        self._stand.agent(name)

    def _second_agent(self) -> None:
        name = self._some_agent()
        self._stand.agent(name, place="elsewhere", name="second")
        assert self._stand.exit_code("second") == 3, self._stand.said("second")

    def _scheduler(self) -> None:
        self._stand.kill("serve")
        self._pause(0, 4)
        self._stand.serve()

    def _postgres(self, how: str) -> None:
        self._stand.postgres.stop(how)
        self._pause(0, 3)
        self._stand.postgres.start()

    def _slow(self) -> None:
        """Nobody gets at the queue for a while."""
        with open_connection(read_store_address(self._stand.store)) as db, db.transaction():
            db.execute("LOCK TABLE pool_blocks IN ACCESS EXCLUSIVE MODE")
            self._pause(1, 3)

    def _objects(self) -> None:
        away = self._stand.objects.rename(self._stand.folder / "away")
        self._pause(1, 8)
        away.rename(self._stand.objects)

    def _laptop(self) -> None:
        self._stand.kill("laptop")
        self._pause(0, 3)
        self._new_laptop("laptop")

    def _two_laptops(self) -> None:
        self._new_laptop("another")
        self._pause(0, 3)
        self._stand.kill("another")

    def _unfit(self) -> None:
        file = self._stand.state_of(self._some_agent()) / "unfit"
        file.write_text("the bare wire carries half of what it did")
        self._pause(2, 5)
        file.unlink()

    def _new_laptop(self, name: str) -> None:
        self._stand.laptop(name, self._blocks, CONTENDERS, self.lease_s)


def simulated(minutes: float, trials: int, agents: int, seed: int) -> None:
    """Many trials, as long as it takes to have some left for the faults."""
    trial_ms = max(20.0, 0.8 * minutes * 60e3 * agents / trials)
    with pool_stand(trial_ms) as stand:
        names = _testbeds(agents)
        stand.clocks_s = dict(zip(names, CLOCKS_S * agents, strict=False))
        _campaign_of(stand, names, minutes, trials, seed)
        for name in names:
            stand.end(name)
            left = stand.state_of(name) / "deployed"
            assert not left.exists(), f"left behind on {name}"
    print(f"{trials} simulated trials on {agents} testbeds, {trial_ms:.0f} ms each: {NOTHING_LOST}")


def real(minutes: float, trials: int, agents: int, seed: int) -> None:
    """Fewer trials that measure; what they leave of namespaces, links, groups, processes and files
    is looked for in all of the host."""
    own = 0.8 * minutes * 60e3 * agents / trials - AROUND_A_REAL_TRIAL_MS
    duration_ms = min(max(300.0, own), 5000.0)
    campaign = REAL.format(duration_ms=duration_ms, blocks=trials // CONTENDERS)
    snapshot.leave_out_mounts()
    before = snapshot.take([], ())
    with pool_stand(campaign=campaign) as stand:
        names = _testbeds(agents)
        _campaign_of(stand, names, minutes, trials, seed)
        for name in names:
            stand.end(name)
    _check_host(before)
    print(f"{trials} real trials on {agents} testbeds, {duration_ms:.0f} ms each: {NOTHING_LOST}")


def _testbeds(agents: int) -> list[str]:
    return [f"lab{number + 1}" for number in range(agents)]


def _campaign_of(
    stand: PoolStand, names: list[str], minutes: float, trials: int, seed: int
) -> None:
    """Hand it in, let faults happen, and judge what came of it."""
    stand.serve()
    for name in names:
        stand.agent(name)
    chaos = Chaos(stand, names, trials // CONTENDERS, seed)
    stand.laptop("laptop", trials // CONTENDERS, CONTENDERS, chaos.lease_s)
    stand.wait_trials(1)
    begun = time.monotonic()
    while time.monotonic() - begun < 60 * minutes:
        now = stand.state()
        if now is not None and now.state != "open":
            break
        chaos.strike()
        time.sleep(1)
    over = stand.wait_finished(patience_s=1200 + 60 * minutes)
    assert over.state == "finished" and over.trials == {"finished": trials}, over
    assert stand.exit_code("laptop") == 0
    check_campaign(stand)
    print(f"the campaign was over after {time.monotonic() - begun:.0f} s")
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(chaos.done.items())))
    print(f"events: {len(stand.events())}")


def _check_host(before: dict[str, set[str]]) -> None:
    """It is what it was. (Sockets of TCP close in their own time.)"""
    deadline = time.monotonic() + SETTLES_S
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
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    if asked.trials:
        simulated(asked.minutes, asked.trials, asked.agents, asked.seed)
    if asked.real_trials:
        real(asked.minutes, asked.real_trials, asked.agents, asked.seed)


if __name__ == "__main__":
    main()
