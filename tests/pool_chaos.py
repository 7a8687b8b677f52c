"""A campaign on a pool of simulated testbeds through a random schedule of faults: tools/pool-chaos.

The faults go on until the campaign is over; after --minutes they stop, and the campaign must
end by itself. A seed gives the same schedule of faults, not the same moments.
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
from tests.pool_judge import check_campaign
from tests.pool_stand import PoolStand, pool_stand

CONTENDERS = 2
LEASE_S = 4.0  # and what its block adds
CLOCKS_S = (0.0, 300.0, -240.0)


class Chaos:
    """The faults, by name."""

    def __init__(self, stand: PoolStand, agents: list[str], blocks: int, seed: int) -> None:
        self._stand = stand
        self._agents = agents
        self._blocks = blocks
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
            "testbed unfit": self._unfit,
        }

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
        self._pause(LEASE_S + 1, LEASE_S + 6)
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
        self._stand.laptop(name, self._blocks, CONTENDERS, LEASE_S)


def run(minutes: float, trials: int, agents: int, seed: int) -> None:
    blocks = trials // CONTENDERS
    # Trials are as long as it takes to have some left for the faults.
    trial_ms = max(20.0, 0.8 * minutes * 60e3 * agents / trials)
    with pool_stand(trial_ms) as stand:
        names = [f"lab{number + 1}" for number in range(agents)]
        stand.clocks_s = dict(zip(names, CLOCKS_S * agents, strict=False))
        stand.serve()
        for name in names:
            stand.agent(name)
        chaos = Chaos(stand, names, blocks, seed)
        stand.laptop("laptop", blocks, CONTENDERS, LEASE_S)
        stand.wait_trials(1)
        begun = time.monotonic()
        while time.monotonic() - begun < 60 * minutes:
            now = stand.state()
            if now is not None and now.state != "open":
                break
            chaos.strike()
            time.sleep(1)
        over = stand.wait_finished(patience_s=600 + 60 * minutes)
        assert over.state == "finished" and over.trials == {"finished": trials}, over
        assert stand.exit_code("laptop") == 0
        for name in names:
            stand.end(name)
            left = stand.state_of(name) / "deployed"
            assert not left.exists(), f"left behind on {name}"
        check_campaign(stand)
        said = Counter(" ".join(one.split()[1:5]) for one in stand.events())
        took_s = time.monotonic() - begun
    print(f"{trials} trials in {took_s:.0f} s on {agents} testbeds, {trial_ms:.0f} ms each")
    print("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(chaos.done.items())))
    print(f"events: {sum(said.values())}")
    print("nothing lost, doubled or left behind")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, required=True)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--agents", type=int, default=3)
    parser.add_argument("--seed", type=int, default=int(time.time()))
    asked = parser.parse_args()
    print(f"seed {asked.seed}", flush=True)
    run(asked.minutes, asked.trials, asked.agents, asked.seed)


if __name__ == "__main__":
    main()
