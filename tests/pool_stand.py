"""A whole pool on this machine: store, scheduler, agents with testbeds, laptops; each a process of
its own that can be killed, stopped and started again. Testbeds are simulated, unless a campaign for
real ones is given."""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

from switchmark.pool import campaigns
from switchmark.pool.database import PoolDatabase
from switchmark.pool.own_certificate import new_certificate
from switchmark.pool.values import CampaignStatus
from switchmark.store.address import read_store_address
from switchmark.store.errors import StoreAwayError
from switchmark.store.store import init_store
from tests.host_clock import clock_ahead, remove_shared
from tests.postgres import Cluster, cluster

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
PATIENCE_S = 300.0
SHARED = "health: {busy_cores: 1000, wire_tolerance: 1000}\n"  # all of them are on this machine


@dataclass
class PoolStand:
    """The processes of a pool, by name."""

    folder: Path
    postgres: Cluster
    port: int
    trial_ms: float = 20.0
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    clocks_s: dict[str, float] = field(default_factory=dict)  # how far each testbed's is ahead
    place: str = ""  # of the record files
    campaign: str = ""  # that real testbeds measure; "": one of the simulated switch, on such
    host_clocks_s: dict[str, float] = field(default_factory=dict)  # as libfaketime sets them
    pids: set[int] = field(default_factory=set)  # of all that were ever started

    @property
    def store(self) -> str:
        return self.postgres.url()

    @property
    def pool(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def objects(self) -> Path:
        return self.folder / "objects"

    @property
    def credentials(self) -> list[str]:
        """The options of programs whose state directories are not the same, as on machines."""
        file = self.folder / "pool.pem"
        if not file.exists():
            file.write_bytes(new_certificate())
        return [f"--{name}={file}" for name in ("authority", "certificate", "key")]

    def database(self) -> PoolDatabase:
        return PoolDatabase(read_store_address(self.store))

    def serve(self) -> None:
        """Start the scheduler."""
        self._start("serve", ["switchmark.cli.main", "pool", "serve", "--store", self.store,
                              "--listen", self.pool, *self.credentials])  # fmt: skip

    def agent(self, testbed: str, place: str | None = None, name: str | None = None) -> None:
        """Start an agent of this testbed, in a state directory of its own."""
        where = ["--store", self.store, "--pool", self.pool, *self.credentials]
        command = ["tests.pool_agent", testbed, *where, "--trial-ms", str(self.trial_ms),
                   "--clock-ahead-s", str(self.clocks_s.get(testbed, 0.0))]  # fmt: skip
        if self.campaign:
            file = self.folder / f"{testbed}.yaml"
            file.write_text(f"hosts: {{{testbed}: {{local: true}}}}\n{SHARED}")
            command = ["switchmark.cli.main", "agent", "--testbed", str(file), *where]
        self._start(name or testbed, command, self.state_of(place or testbed))

    def laptop(self, name: str, blocks: int, contenders: int = 2, lease_s: float = 60.0) -> None:
        """Start one that hands in and follows the campaign: the simulated one of so many blocks,
        or that of the real testbeds."""
        asked = ["--blocks", str(blocks), "--contenders", str(contenders)]
        if self.campaign:
            file = self.folder / "campaign.yaml"
            file.write_text(self.campaign)
            asked = ["--campaign", str(file)]
        words = ["tests.pool_laptop", "--store", self.store, "--lease-s", str(lease_s), *asked]
        self._start(name, words)

    def state_of(self, place: str) -> Path:
        """The state directory of a testbed's agent."""
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        return folder

    def _start(self, name: str, module: list[str], state: Path | None = None) -> None:
        # (PGAPPNAME: what its connections are called in the database)
        env = dict(os.environ, PYTHONPATH=str(ROOT), PGAPPNAME=name)
        if state is not None:
            env["SWITCHMARK_STATE_DIR"] = str(state)
        if name in self.host_clocks_s:
            env |= clock_ahead(self.host_clocks_s[name])
        with (self.folder / f"{name}.log").open("a") as log:
            self.running[name] = subprocess.Popen(
                [sys.executable, "-m", *module], env=env, cwd=ROOT, stdout=log, stderr=log,
                text=True, start_new_session=True,
            )  # fmt: skip
        self.pids.add(self.running[name].pid)

    def signal(self, name: str, number: signal.Signals) -> None:
        """Send it to this process alone."""
        self.running[name].send_signal(number)

    def kill(self, name: str) -> None:
        """As `kill -9`, and wait until it is gone."""
        self.running[name].kill()
        self.running.pop(name).wait()

    def end(self, name: str) -> int:
        """SIGTERM; its exit code."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            return process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def exit_code(self, name: str) -> int:
        """Wait for the end of a process that ends by itself."""
        return self.running.pop(name).wait(PATIENCE_S)

    def said(self, name: str) -> str:
        """What a process has said so far."""
        with suppress(FileNotFoundError):
            return (self.folder / f"{name}.log").read_text()
        return ""

    def state(self) -> CampaignStatus | None:
        """Of the only campaign; None before it is submitted, or while the store is away."""
        database = self.database()
        try:
            with database.transaction() as db:
                found = campaigns.campaigns(db)
            return found[0] if found else None
        except StoreAwayError:
            return None
        finally:
            database.close()

    def wait_trials(self, count: int) -> CampaignStatus:
        """Until so many trials are stored."""

        def there() -> CampaignStatus | None:
            now = self.state()
            return now if now is not None and sum(now.trials.values()) >= count else None

        return wait_for(there, f"{count} trials", self)

    def wait_finished(self, patience_s: float = PATIENCE_S) -> CampaignStatus:
        """Until the campaign is over."""

        def over() -> CampaignStatus | None:
            now = self.state()
            return now if now is not None and now.state != "open" else None

        return wait_for(over, "the end of the campaign", self, patience_s)

    def events(self) -> list[str]:
        """All that happened."""
        database = self.database()
        with database.transaction() as db:
            rows = db.execute("SELECT words FROM pool_events ORDER BY id").fetchall()
        database.close()
        return [row[0] for row in rows]

    def close(self) -> None:
        for name in list(self.running):
            with suppress(ProcessLookupError):
                self.signal(name, signal.SIGCONT)
            self.kill(name)
        for pid in self.pids:
            remove_shared(pid)


def wait_for(
    look: Callable[[], T | None], what: str, stand: PoolStand, patience_s: float = PATIENCE_S
) -> T:
    deadline = time.monotonic() + patience_s
    while (found := look()) is None:
        if time.monotonic() > deadline:
            logs = "\n".join(
                f"== {one.name}\n{one.read_text()[-2000:]}" for one in stand.folder.glob("*.log")
            )
            raise AssertionError(f"waited {patience_s:.0f} s in vain for {what}\n{logs}")
        time.sleep(0.1)
    return found


@contextmanager
def pool_stand(
    trial_ms: float = 20.0,
    database: Callable[[], AbstractContextManager[Cluster]] = cluster,
    place: str | None = None,
    campaign: str = "",
    kind: type[PoolStand] | None = None,
) -> Iterator[PoolStand]:
    """A store that is set up, and nothing that runs yet; everything ends with the block. Record
    files are at `place`, or in a folder of the stand; `campaign`: for real testbeds."""
    folder = Path(f"/tmp/smpool{secrets.token_hex(3)}")
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        with database() as server:
            stand = (kind or PoolStand)(folder, server, port, trial_ms, campaign=campaign)
            stand.objects.mkdir()
            stand.place = place or str(stand.objects)
            set_up_store(stand)
            try:
                yield stand
            finally:
                stand.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def set_up_store(stand: PoolStand) -> None:
    """As `switchmark store init` does."""
    init_store(read_store_address(stand.store), stand.place)
