"""A testbed of two hosts in a pool: its agent measures blocks with applications and switch on
different hosts, and leaves nothing on either."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from switchmark.results.run_directory import open_run
from switchmark.store.address import read_store_address
from switchmark.store.source import StoreSource
from switchmark.store.store import init_store
from tests.integration.two_hosts import TwoHosts, missing, run
from tests.places import needs_namespaces
from tests.postgres import Cluster

POOL = "127.0.0.1:8786"  # no other program listens in these namespaces
PATIENCE_S = 300.0

CAMPAIGN = """
name: far-blocks
location: remote
packet_size: 64
rate: 400
duration: 0.5s
repetitions: 2
trim: {warm_up: 0.1s, cool_down: 0.1s}
sweeps:
  - {switch: [linux-bridge, direct]}
"""

pytestmark = [
    pytest.mark.integration,
    pytest.mark.slow,
    needs_namespaces,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]


@contextmanager
def store(folder: Path) -> Iterator[str]:
    """A store that both hosts can reach: PostgreSQL's socket, and a folder for record files."""
    database = folder / "pg"
    database.mkdir()
    shutil.chown(database, "postgres")
    cluster = Cluster(database)
    cluster.make()
    try:
        (folder / "objects").mkdir()
        init_store(read_store_address(cluster.url()), str(folder / "objects"))
        yield cluster.url()
    finally:
        cluster.stop("immediate")
        for path in (database, folder / "objects", folder / "cache"):
            shutil.rmtree(path, ignore_errors=True)


@contextmanager
def pool(hosts: TwoHosts, engine: Path, url: str) -> Iterator[None]:
    """A scheduler and the testbed's agent; their output is printed at the end."""
    # The scheduler does not belong to the testbed, so its directory is elsewhere.
    program = [sys.executable, "-m", "switchmark.cli.main", "pool", "serve", "--store", url]
    serve = hosts.start([*program, "--listen", POOL], TMPDIR=str(hosts.folder))
    agent = hosts.bench(
        "agent", "--testbed", str(hosts.testbed), "--store", url, "--pool", POOL, engine=engine
    )
    try:
        yield
    finally:
        for process in (agent, serve):
            process.send_signal(signal.SIGTERM)
        for process in (agent, serve):
            print(run(process)[2])


def begin(hosts: TwoHosts, engine: Path, text: str) -> subprocess.Popen[str]:
    """Start a client that submits the campaign."""
    campaign = hosts.folder / "far-blocks.yaml"
    campaign.write_text(text)
    return hosts.bench("run", str(campaign), "--pool", POOL, "--quiet", engine=engine)


def check_records(url: str, hosts: TwoHosts, patch: pytest.MonkeyPatch) -> None:
    """Check four finished records of both hosts."""
    patch.setenv("SWITCHMARK_CACHE_DIR", str(hosts.folder / "cache"))
    found = StoreSource(read_store_address(url)).find("far-blocks")
    records = list(open_run(found.directory).records())
    assert len(records) == 4
    for record in records:
        assert record.status == "finished", record.message
        assert record.provenance["testbed"] == "testbed"
        assert record.trial.location == "remote"
        assert record.far_host is not None


def test_testbed_of_two_hosts_measures_blocks(
    hosts: TwoHosts, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with store(hosts.folder) as url:
        with pool(hosts, engine, url):
            code, out, stderr = run(begin(hosts, engine, CAMPAIGN), PATIENCE_S)
        assert code == 0, stderr
        assert "linux-bridge" in out and "direct" in out
        check_records(url, hosts, monkeypatch)
    assert hosts.remains() == []


def test_loss_of_the_second_host_is_not_a_result(
    hosts: TwoHosts, engine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The block goes back and is measured once that host can be reached again."""
    with store(hosts.folder) as url:
        before = hosts.cable_frames()
        with pool(hosts, engine, url):
            client = begin(hosts, engine, CAMPAIGN.replace("duration: 0.5s", "duration: 4s"))
            deadline = time.monotonic() + PATIENCE_S
            while hosts.cable_frames() < before + 300:  # more than for learning and verification
                assert client.poll() is None and time.monotonic() < deadline, "no traffic"
                time.sleep(0.05)
            for pid in hosts.right.sshd_sessions():
                os.kill(pid, signal.SIGKILL)
            code, _, stderr = run(client, PATIENCE_S)
        assert code == 0, stderr
        assert "testbed returns block" in stderr and "connection lost" in stderr
        check_records(url, hosts, monkeypatch)
    assert hosts.remains() == []


def test_testbed_without_its_second_host_is_out(hosts: TwoHosts, engine: Path) -> None:
    """This is not a result of the campaign."""
    away = hosts.folder / "away.yaml"
    away.write_text(hosts.testbed.read_text().replace(hosts.right.address, "192.0.2.99"))
    script = (
        "from pathlib import Path\n"
        "from switchmark.campaign.installed import installed\n"
        "from switchmark.pool.testbed_executor import TestbedExecutor\n"
        "from switchmark.testbed.testbed_file import read_pool_testbed\n"
        f"executor = TestbedExecutor(installed(), *read_pool_testbed(Path('{away}')))\n"
        "print(executor.check(None, []).problem)\n"
    )
    check = hosts.start([sys.executable, "-c", script], SWITCHMARK_TRAFFIC=str(engine))
    code, out, stderr = run(check, PATIENCE_S)
    assert code == 0, stderr
    assert out.startswith("the second host is not ready: ") and "192.0.2.99" in out
