"""A whole pool on this machine: store, scheduler, agents with testbeds, and clients.

Each is a process that can be killed, stopped and started again. Testbeds are simulated, unless
there is a campaign for real testbeds."""

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
from functools import cache
from pathlib import Path
from typing import TypeVar

from switchmark.errors import SwitchmarkError
from switchmark.pool import campaigns
from switchmark.pool.database import PoolDatabase
from switchmark.pool.security import new_certificate
from switchmark.pool.values import CampaignStatus
from switchmark.store.address import read_store_address
from switchmark.store.errors import StoreAwayError
from switchmark.store.store import init_store
from tests.host_clock import clock_ahead, remove_shared
from tests.postgres import Cluster, cluster

T = TypeVar("T")
ROOT = Path(__file__).parents[1]
PATIENCE_S = 120.0  # on a quick machine
QUICK_START_S = 1.5  # for a program to start on it
SHARED = "health: {busy_cores: 1000, wire_tolerance: 1000}\n"  # all of them are on this machine


@dataclass
class PoolRig:
    """The processes of a pool, by name."""

    folder: Path
    postgres: Cluster
    port: int
    trial_ms: float = 20.0
    running: dict[str, subprocess.Popen[str]] = field(default_factory=dict)
    clocks_s: dict[str, float] = field(default_factory=dict)  # how far each testbed's is ahead
    place: str = ""  # record files are stored there
    campaign: str = ""  # that real testbeds measure; "": one of the simulated switch, on such
    host_clocks_s: dict[str, float] = field(default_factory=dict)  # as libfaketime sets them
    pids: set[int] = field(default_factory=set)  # all processes that were ever started

    @property
    def slowness(self) -> float:
        """See `slowness`."""
        return slowness()

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
        """Return the options of programs with different state directories, as on separate
        machines."""
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
        """Start an agent of this testbed, with its own state directory."""
        where = ["--store", self.store, "--pool", self.pool, *self.credentials]
        command = ["tests.pool_agent", testbed, *where, "--trial-ms", str(self.trial_ms),
                   "--clock-ahead-s", str(self.clocks_s.get(testbed, 0.0))]  # fmt: skip
        if self.campaign:
            file = self.folder / f"{testbed}.yaml"
            file.write_text(f"hosts: {{{testbed}: {{local: true}}}}\n{SHARED}")
            command = ["switchmark.cli.main", "agent", "--testbed", str(file), *where]
        self._start(name or testbed, command, self.state_of(place or testbed))

    def client(self, name: str, blocks: int, contenders: int = 2, lease_s: float = 60.0) -> None:
        """Start a client that submits and follows the campaign: that of the real testbeds, or one
        of the simulated switch with this number of blocks."""
        campaign_args = ["--blocks", str(blocks), "--contenders", str(contenders)]
        if self.campaign:
            file = self.folder / "campaign.yaml"
            file.write_text(self.campaign)
            campaign_args = ["--campaign", str(file)]
        module = [
            "tests.pool_client",
            "--store",
            self.store,
            "--lease-s",
            str(lease_s),
            *campaign_args,
        ]
        self._start(name, module)

    def state_of(self, place: str) -> Path:
        """The state directory of a testbed's agent."""
        folder = self.folder / place
        folder.mkdir(exist_ok=True)
        return folder

    def _start(self, name: str, module: list[str], state: Path | None = None) -> None:
        # PGAPPNAME is the name of its connections in the database.
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
        """Send the signal to this process alone."""
        self.running[name].send_signal(number)

    def kill(self, name: str) -> None:
        """Kill it with SIGKILL and wait for its end."""
        self.running[name].kill()
        self.running.pop(name).wait()

    def end(self, name: str) -> int:
        """End it with SIGTERM; return its exit code."""
        process = self.running.pop(name)
        process.send_signal(signal.SIGCONT)
        process.terminate()
        try:
            return process.wait(60 * self.slowness)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def exit_code(self, name: str) -> int:
        """Wait for the end of a process that ends by itself."""
        return self.running.pop(name).wait(PATIENCE_S * self.slowness)

    def output(self, name: str) -> str:
        """Return the output of a process so far."""
        with suppress(FileNotFoundError):
            return (self.folder / f"{name}.log").read_text()
        return ""

    def state(self) -> CampaignStatus | None:
        """Return the state of the only campaign; None before it is submitted, or without the
        store."""
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
        """Wait until so many trials are stored."""

        def there() -> CampaignStatus | None:
            now = self.state()
            return now if now is not None and sum(now.trials.values()) >= count else None

        return wait_for(there, f"{count} trials", self)

    def wait_finished(self) -> CampaignStatus:
        """Wait for the end of the campaign while trials are stored."""
        progress = (-1, time.monotonic())
        while True:
            now = self.state()
            if now is not None and now.state != "open":
                return now
            stored = progress[0] if now is None else sum(now.trials.values())
            if stored != progress[0]:
                progress = (stored, time.monotonic())
            limit_s = PATIENCE_S * self.slowness
            if time.monotonic() - progress[1] > limit_s:
                problem = f"no trial was stored for {limit_s:.0f} s ({stored} are)"
                raise AssertionError(f"{problem}\n{self.log_tails()}")
            time.sleep(0.1)

    def log_tails(self) -> str:
        """Return the end of each log."""
        logs = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {log.name}\n{log.read_text()[-2000:]}" for log in logs)

    def keep_logs(self, directory: Path) -> None:
        """Copy the logs of all programs and of PostgreSQL, and all events, to the directory."""
        directory.mkdir(parents=True, exist_ok=True)
        for log in self.folder.glob("*.log"):
            shutil.copy(log, directory)
        with suppress(OSError):
            shutil.copy(self.postgres.folder / "log", directory / "postgresql.log")
        try:
            text = "\n".join([*self.table("pool_events"), *self.table("pool_blocks")])
        except SwitchmarkError as error:
            text = f"the database cannot be read: {error}"
        (directory / "events").write_text(text + "\n")

    def table(self, name: str) -> list[str]:
        """Return the rows of a table of the pool."""
        database = self.database()
        try:
            with database.transaction() as db:
                rows = db.execute(f"SELECT * FROM {name} ORDER BY id".encode()).fetchall()
        finally:
            database.close()
        return [" ".join(str(value)[:200] for value in row) for row in rows]

    def events(self) -> list[str]:
        """Return all events."""
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
    look: Callable[[], T | None], goal: str, rig: PoolRig, patience_s: float | None = None
) -> T:
    """Wait until the function returns a value; by default, for longer on a slower machine."""
    limit_s = PATIENCE_S * rig.slowness if patience_s is None else patience_s
    deadline = time.monotonic() + limit_s
    while (value := look()) is None:
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {limit_s:.0f} s in vain for {goal}\n{rig.log_tails()}")
        time.sleep(0.1)
    return value


@cache
def slowness() -> float:
    """Return how much longer this machine needs to start a program than a quick one; at least 1."""
    begin_s = time.monotonic()
    subprocess.run([sys.executable, "-c", "import switchmark.pool.scheduler"], cwd=ROOT, check=True)
    return max(1.0, (time.monotonic() - begin_s) / QUICK_START_S)


@contextmanager
def pool_rig(
    trial_ms: float = 20.0,
    database: Callable[[], AbstractContextManager[Cluster]] = cluster,
    place: str | None = None,
    campaign: str = "",
    kind: type[PoolRig] | None = None,
    logs: Path | None = None,
) -> Iterator[PoolRig]:
    """Set a store up; no program runs yet, and all end with the block.

    Record files are at `place`, or in a folder of the rig; `campaign` is for real testbeds. If the
    block fails, all logs are copied to `logs`."""
    slowness()  # measured before programs run
    folder = Path(f"/tmp/smpool{secrets.token_hex(3)}")
    folder.mkdir()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    try:
        with database() as server:
            rig = (kind or PoolRig)(folder, server, port, trial_ms, campaign=campaign)
            rig.objects.mkdir()
            rig.place = place or str(rig.objects)
            set_up_store(rig)
            try:
                yield rig
            except BaseException:
                if logs is not None:
                    rig.keep_logs(logs)
                    print(f"all logs are in {logs}", flush=True)
                raise
            finally:
                rig.close()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def set_up_store(rig: PoolRig) -> None:
    """Set up a store like `switchmark store init`."""
    init_store(read_store_address(rig.store), rig.place)
