"""A bench that is killed at any moment leaves nothing after `clean`, and the user's things stay."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from switchmark.environment.registry import ENVIRONMENTS
from switchmark.host.undo.clean import clean_stale
from tests.integration.machine import every_environment, needs_root, own_state, remains
from tests.integration.waiting import DEADLINE_S

pytestmark = [pytest.mark.integration, needs_root]
ROOT = Path(__file__).parents[2]
# The smallest number of lines that a deployment and its end write.
FEWEST = {"bare": 8} | dict.fromkeys(set(ENVIRONMENTS) - {"bare"}, 15)
DECOY = f"smdecoy{os.getpid() % 1000}"  # the user's, although it begins like the bench's names

# Deploys two nodes and a bridge, queries both engines, takes all down, and kills itself right after
# line number `last` of the ledger (0: never). The first line that it prints is its session.
DEPLOY = """
import os, signal, sys
from switchmark.environment.registry import ENVIRONMENTS
from switchmark.model.ports import PortKind
from switchmark.host.undo.ledger import Ledger
from switchmark.host.session import open_session
from switchmark.host.undo.entries import NetworkDevice
from tests.integration.machine import node_spec

def deploy(environment, last, wait=False):
    append, lines = Ledger._append, 0

    def append_and_die(ledger, line):
        nonlocal lines
        append(ledger, line)
        lines += 1
        if lines == 1:
            print(ledger.session, flush=True)
        if lines == last:
            os.kill(os.getpid(), signal.SIGKILL)

    Ledger._append = append_and_die
    with open_session() as session:
        bridge = f"sm{session.id}br"
        entry = session.ledger.record(NetworkDevice(bridge))
        session.host.run(["ip", "link", "add", bridge, "type", "bridge"])
        session.host.run(["sh", "-c", "setsid sleep 1000 >/dev/null 2>&1 &"])
        guests = environment.name == "qemu"  # whose answers take their time
        kind = PortKind.TAP if guests else PortKind.VETH
        specs = [node_spec(name, end, kind) for end, name in enumerate(("tx0", "rx0"))]
        nodes = [environment.create(session, spec) for spec in specs]
        engines = [node.spawn_engine(["/bin/busybox", "cat"]) for node in nodes]
        for engine in [] if guests else engines:
            engine.write_line("x")
            assert engine.read_line(60) == "x"
        print("deployed", flush=True)
        if wait:
            sys.stdin.read()
        for node in nodes:
            node.close()
        session.ledger.undo(entry)
    print(lines, flush=True)

environment = ENVIRONMENTS[sys.argv[1]]()
"""
ONCE = DEPLOY + "deploy(environment, 0, '--wait' in sys.argv)"
# Forks a process for each number that it reads, because Python takes long to start.
MANY = (
    DEPLOY
    + """
while line := sys.stdin.readline():
    if (child := os.fork()) == 0:
        deploy(environment, int(line))
        os._exit(0)
    print("ended", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
)


@pytest.fixture
def state(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    yield from own_state(monkeypatch, tmp_path)


@pytest.fixture(params=every_environment())
def environment(request: pytest.FixtureRequest) -> str:
    if not (availability := ENVIRONMENTS[request.param]().availability()).available:
        pytest.skip(f"{request.param}: {availability.reason}; {availability.remedy}")
    return str(request.param)


def run(*command: str) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


@pytest.fixture
def decoys(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user's namespace, bridge, veth, process and container; yields their state."""
    with ExitStack() as undo:
        run("ip", "netns", "add", DECOY)
        undo.callback(run, "ip", "netns", "del", DECOY)
        run("ip", "link", "add", DECOY, "type", "bridge")
        undo.callback(run, "ip", "link", "del", DECOY)
        run("ip", "link", "add", f"{DECOY}v", "type", "veth", "peer", "name", f"{DECOY}w")
        undo.callback(run, "ip", "link", "del", f"{DECOY}v")
        run("ip", "link", "set", f"{DECOY}v", "master", DECOY)
        process = subprocess.Popen(["sleep", "1000"], env={"SWITCHMARK_SESSION": "decoy0"})
        undo.callback(process.wait)
        undo.callback(process.kill)
        lxcpath = tmp_path / "lxc-of-a-user"
        root = lxcpath / DECOY / "rootfs"
        root.mkdir(parents=True)
        (lxcpath / DECOY / "config").write_text(
            f"lxc.uts.name = {DECOY}\nlxc.rootfs.path = dir:/\nlxc.net.0.type = empty\n"
            "lxc.console.path = none\nlxc.apparmor.profile = unconfined\nlxc.autodev = 0\n"
        )
        undo.enter_context(container(lxcpath))
        before = look(process.pid, lxcpath)
        yield before
        assert look(process.pid, lxcpath) == before, "the user's things were changed"


class container:  # noqa: N801
    """A user's running container."""

    def __init__(self, lxcpath: Path) -> None:
        self.where = ("-P", str(lxcpath), "-n", DECOY)
        self.process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> None:
        if not ENVIRONMENTS["lxc"]().availability().available:
            return
        command = ["lxc-execute", *self.where, "--", "/bin/sleep", "1000"]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
        run("lxc-wait", *self.where, "-s", "RUNNING", "-t", "60")

    def __exit__(self, *_: object) -> None:
        if self.process is not None:
            subprocess.run(["lxc-stop", *self.where, "-k"], check=False)
            self.process.wait()
            lock = Path("/run/lxc/lock", *Path(self.where[1]).parts[1:])
            (lock / f".{DECOY}").unlink(missing_ok=True)
            with suppress(OSError):  # up to the first group that is not empty
                for folder in (lock, *lock.parents):
                    folder.rmdir()


def look(pid: int, lxcpath: Path) -> dict[str, str]:
    links = [one for one in json.loads(run("ip", "-j", "link")) if DECOY in one["ifname"]]
    groups = sorted(
        f"{folder}/{group}"
        for folder, groups, _ in os.walk(
            "/sys/fs/cgroup"
        )  # groups of others may disappear meanwhile
        for group in groups
        if DECOY in group
    )
    container = run("lxc-ls", "-P", str(lxcpath), "-f", "-F", "NAME,STATE,PID")
    files = sorted((str(path), path.lstat().st_mtime_ns) for path in lxcpath.rglob("*"))
    return {
        "netns": str([name for name in run("ip", "netns").split() if DECOY in name]),
        "links": json.dumps(links, sort_keys=True),
        "process": Path(f"/proc/{pid}/stat").read_text().split()[21],
        "cgroups": str(groups),
        "container": container,
        "files": str(files),
    }


def deploy(environment: str, *more: str, code: str = ONCE) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", code, environment, *more],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


@contextmanager
def deployer(environment: str) -> Iterator[Callable[[int], tuple[str, int]]]:
    """Deploy and die after a line of the ledger; return the session and the exit code."""
    process = deploy(environment, code=MANY)
    assert process.stdin is not None and process.stdout is not None
    requests, answers = process.stdin, process.stdout

    def die_after(last: int) -> tuple[str, int]:
        requests.write(f"{last}\n")
        requests.flush()
        lines = []
        while not (line := answers.readline()).startswith("ended"):
            assert line, "the deployer ended"
            lines.append(line.strip())
        return lines[0], int(line.split()[1])

    try:
        yield die_after
    finally:
        process.kill()
        process.communicate()


def remains_soon(state: Path, session_id: str) -> list[str]:
    """Return what remains after the kernel has finished, as it removes namespaces later."""
    deadline = time.monotonic() + DEADLINE_S
    while (left := remains(state, session_id)) and time.monotonic() < deadline:
        time.sleep(0.02)
    return left


def test_undisturbed_run_leaves_nothing(
    state: Path, environment: str, decoys: dict[str, str]
) -> None:
    child = deploy(environment)
    out, _ = child.communicate(timeout=DEADLINE_S)
    session_id, deployed, lines = out.split()
    assert child.returncode == 0 and deployed == "deployed" and int(lines) > FEWEST[environment]
    assert remains_soon(state, session_id) == []
    assert clean_stale() == []


def test_killed_after_any_line_of_the_ledger(
    state: Path, environment: str, decoys: dict[str, str]
) -> None:
    last, most = 1, 60
    with deployer(environment) as die_after:
        # A private dockerd takes seconds to start, so only some of the lines.
        for last in range(1, most, 8 if environment == "docker" else 1):
            session_id, code = die_after(last)
            if code == 0:
                break
            assert code == -signal.SIGKILL, session_id
            done = clean_stale()
            assert [one.session for one in done] == [session_id]
            assert done[0].problems == [], f"killed after line {last}"
            assert remains_soon(state, session_id) == [], f"killed after line {last}"
    assert FEWEST[environment] < last < most - 1, "deployment and teardown were tried"


@pytest.mark.parametrize("delay_s", [0.01, 0.05, 0.2])
def test_clean_spares_a_running_session_until_it_is_killed(
    state: Path, environment: str, decoys: dict[str, str], delay_s: float
) -> None:
    child = deploy(environment, "--wait")
    assert child.stdout is not None and child.stdin is not None
    session_id = child.stdout.readline().strip()
    assert child.stdout.readline() == "deployed\n"
    time.sleep(delay_s)
    assert len(remains(state, session_id)) > 3, "there is something to clean"
    assert clean_stale() == [], "not while it runs"
    child.kill()
    child.wait()
    dry = clean_stale(dry_run=True)
    removed = "link" if environment == "bare" else "netns"
    assert len(dry) == 1 and any(removed in text for text in dry[0].removed)
    assert clean_stale()[0].problems == []
    assert remains_soon(state, session_id) == []
    child.stdin.close()
    child.stdout.close()


def test_next_session_starts_after_a_kill(state: Path, environment: str) -> None:
    """The measuring lock ends with its holder, and nothing blocks the next session."""
    first = deploy(environment, "--wait")
    assert first.stdout is not None
    session_id = first.stdout.readline().strip()
    assert first.stdout.readline() == "deployed\n"
    first.kill()
    first.communicate()
    clean_stale()
    second = deploy(environment)
    out, _ = second.communicate(timeout=DEADLINE_S)
    assert second.returncode == 0 and "deployed" in out
    assert remains_soon(state, session_id) == []


def test_command_lists_and_cleans(
    state: Path, environment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    child = deploy(environment, "--wait")
    assert child.stdout is not None
    session_id = child.stdout.readline().strip()
    assert child.stdout.readline() == "deployed\n"
    child.kill()
    child.communicate()

    def clean(*options: str) -> dict[str, object]:
        call = f"command({', '.join(options)})"
        code = f"from switchmark.cli.clean import command; raise SystemExit({call})"
        return json.loads(run(sys.executable, "-c", code))

    dry = clean("json=True", "dry_run=True", "cache=False")
    assert dry["dry_run"] is True and dry["sessions"][0]["session"] == session_id  # type: ignore[index]
    done = clean("json=True", "dry_run=False", "cache=False")
    assert done["sessions"][0]["removed"] and not done["sessions"][0]["problems"]  # type: ignore[index]
    assert clean("json=True", "dry_run=False", "cache=False")["sessions"] == []
    assert remains_soon(state, session_id) == []
