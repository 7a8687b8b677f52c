"""Two hosts on this machine, for tests between hosts.

A host is a process with a network, a file system view (with /run, /tmp, /root, /home and /dev/shm),
a name and optionally another clock, and an sshd. Two networks join them: one for control, and the
cable, whose rate the kernel limits in a separate namespace between the two ends, so that the hosts
cannot lift the limit."""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from switchmark.certify.support.rig import AUTOGROUP_NICE, set_autogroup_nice

ROOT = Path(__file__).parent.parent.parent
SSHD = "/usr/sbin/sshd"
PRIVATE = {"/run": 755, "/tmp": 1777, "/root": 700, "/home": 755, "/dev/shm": 1777}
QUIET = "echo 1 >/proc/sys/net/ipv6/conf/default/disable_ipv6"  # a cable sends no frames
DEADLINE_S = 60.0  # only a hanging process needs so long
MISSING = "no sshd here (apt install openssh-server)"


def sh(*args: str, inside: int | None = None, check: bool = True) -> str:
    """Run a command in the namespaces of a process; return its output."""
    done = subprocess.run(
        [*(enter(inside) if inside else []), *args],
        check=False,
        capture_output=True,
        text=True,
        timeout=60,
    )
    if check and done.returncode:
        raise AssertionError(f"{' '.join(args)}: {done.stderr or done.stdout}")
    return done.stdout


def programs() -> dict[str, str]:
    """Return the paths of a user's own switches, which are the same on both hosts."""
    own_variables = {"SWITCHMARK_TRAFFIC", "SWITCHMARK_STATE_DIR", "SWITCHMARK_TESTBED"}
    found = {name: value for name, value in os.environ.items() if name.startswith("SWITCHMARK_")}
    return {name: value for name, value in found.items() if value and name not in own_variables}


def enter(pid: int) -> list[str]:
    return ["nsenter", "-t", str(pid), "-n", "-m", "-u", "-T", "--"]


def children(pid: int) -> list[int]:
    """Return the children of a process, by its threads."""
    found = []
    for path in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(one) for one in path.read_text().split()]
    return found


def kept_folders() -> list[Path]:
    """Return the folders in /root or /tmp that both hosts need: the checkout, Python and the
    engine."""
    engine = Path(os.environ.get("SWITCHMARK_TRAFFIC", ROOT / "engine"))
    needed = [ROOT, Path(sys.prefix), Path(sys.base_prefix), engine.parent]
    needed += [Path(one).resolve().parents[1] for one in programs().values() if Path(one).exists()]
    hidden = {one for one in needed if any(one.is_relative_to(folder) for folder in PRIVATE)}
    return sorted(one for one in hidden if not hidden & set(one.parents))


def _private_folders(aside: Path) -> str:
    """Return the commands that give a host private folders, with kept folders at their places,
    whose paths may contain spaces."""
    mounts = {
        shlex.quote(str(aside / str(number))): shlex.quote(str(folder))
        for number, folder in enumerate(kept_folders())
    }
    steps = [
        f"mkdir -p {place}; mount --rbind {folder} {place}" for place, folder in mounts.items()
    ]
    steps += [f"mount -t tmpfs -o mode={mode} own {folder}" for folder, mode in PRIVATE.items()]
    steps += [
        f"mkdir -p {folder}; mount --move {place} {folder}" for place, folder in mounts.items()
    ]
    return "; ".join(steps)


@dataclass
class HostSpace:
    """One of the two hosts."""

    name: str
    address: str
    folder: Path  # outside of its private folders
    ahead_s: int = 0  # offset of its monotonic clock
    pid: int = 0
    holder: subprocess.Popen[bytes] | None = None
    sshd: subprocess.Popen[bytes] | None = None

    def begin(self) -> None:
        mounts = _private_folders(self.folder / f"{self.name}_kept")
        # /sys lists the network devices of the namespace in which it was mounted.
        mounts += "; mount -t sysfs own /sys"
        script = f"{mounts}; hostname {self.name}; echo up; exec sleep infinity"
        clock = ["--time", "--monotonic", str(self.ahead_s)] if self.ahead_s else []
        holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--uts", *clock, "--fork", "--kill-child",
             "--propagation", "private", "sh", "-ec", script],
            stdout=subprocess.PIPE,
        )  # fmt: skip
        self.holder = holder
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"up\n", f"host {self.name} could not be made"
        (self.pid,) = children(holder.pid)
        sh("ip", "link", "set", "lo", "up", inside=self.pid)

    def serve(self) -> None:
        """Start its sshd, which accepts one key."""
        key = self.folder / f"{self.name}_host_key"
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key))
        config = self.folder / f"{self.name}_sshd_config"
        config.write_text(
            f"ListenAddress {self.address}\nPort 22\nHostKey {key}\nUsePAM no\nStrictModes no\n"
            f"PermitRootLogin prohibit-password\nPidFile none\nUseDNS no\n"
            f"AuthorizedKeysFile {self.folder / 'authorized_keys'}\n"
        )
        sh("mkdir", "-p", "/run/sshd", inside=self.pid)
        log = (self.folder / f"{self.name}_sshd.log").open("wb")
        self.sshd = subprocess.Popen(
            [*enter(self.pid), SSHD, "-D", "-e", "-f", str(config)], stderr=log
        )
        log.close()

    def sshd_sessions(self) -> list[int]:
        """Return the processes that serve a connection."""
        assert self.sshd is not None
        return children(self.sshd.pid)

    def agent(self) -> int:
        """Return the process of the agent that a bench has started there."""
        (found,) = (pid for pid in self.pids() if b"memfd_create" in _words_of(pid))
        return found

    def processes(self) -> list[str]:
        """Return the command lines on it except for the holder and sshd.

        sshd may keep a cut connection for any time."""
        return list(self.programs().values())

    def programs(self) -> dict[int, str]:
        """Return the same by process."""
        own_pids = {self.pid, *(one.pid for one in (self.sshd, self.holder) if one)}
        found = {}
        for pid in self.pids():
            with suppress(OSError):
                if pid not in own_pids:
                    command = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                    found[pid] = b" ".join(command).decode(errors="replace")[:200]
        return {pid: one for pid, one in found.items() if not one.startswith("sshd: ")}

    def pids(self) -> list[int]:
        """Return all processes of its PID namespace."""
        here = Path(f"/proc/{self.pid}/ns/uts").readlink()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if (path / "ns/uts").readlink() == here:
                    found.append(int(path.name))
        return found

    def add_account(self, name: str) -> None:
        """Add an account without rights that exists on this host alone."""
        known = self.folder / "passwd"
        known.write_text(Path("/etc/passwd").read_text() + f"{name}:x:12345:12345::/home:/bin/sh\n")
        sh("mount", "--bind", str(known), "/etc/passwd", inside=self.pid)

    def remains(self) -> list[str]:
        """Return leftovers of a session: processes, namespaces, devices, files."""
        found = [f"process {one}" for one in self.processes()]
        listed = sh("sh", "-c", "ls -d /run/netns/* /run/switchmark/*.ledger /run/switchmark/sm* "
                    "/tmp/* /var/tmp/switchmark-* /dev/shm/* 2>/dev/null || true",
                    inside=self.pid)  # fmt: skip
        shared = kept_folders()  # with the folders in which they lie
        found += [one for one in listed.split() if not any(k.is_relative_to(one) for k in shared)]
        links = sh("ip", "-o", "link", "show", inside=self.pid).splitlines()
        found += [line for line in links if not line.split()[1].startswith(("lo:", "ctl", "cable"))]
        return found

    def end(self) -> None:
        for process in (self.sshd, self.holder):
            if process is not None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
                process.wait()
                if process.stdout:
                    process.stdout.close()


def _words_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:  # it has ended
        return b""


@dataclass
class TwoHosts:
    """Both hosts, joined. The bench runs on `left`."""

    folder: Path
    left: HostSpace
    right: HostSpace
    cable: subprocess.Popen[bytes] | None = None
    benches: list[subprocess.Popen[str]] = field(default_factory=list)

    @classmethod
    def make(cls, folder: Path, *, ahead_s: int = 0) -> TwoHosts:
        folder.mkdir(mode=0o755)
        hosts = cls(
            folder,
            HostSpace("left", "192.0.2.1", folder),
            HostSpace("right", "192.0.2.2", folder, ahead_s),
        )
        try:
            hosts._join()
        except BaseException:
            hosts.end()
            raise
        return hosts

    def _join(self) -> None:
        sh("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(self.folder / "key"))
        shutil.copy(self.folder / "key.pub", self.folder / "authorized_keys")
        self.cable = subprocess.Popen(
            ["unshare", "--net", "sh", "-ec", f"{QUIET}; echo up; exec sleep infinity"],
            stdout=subprocess.PIPE,
        )
        assert self.cable.stdout is not None
        assert self.cable.stdout.readline() == b"up\n"
        for host in (self.left, self.right):
            host.begin()
        left, right, middle = (str(pid) for pid in (self.left.pid, self.right.pid, self.cable.pid))
        veth = ("ip", "link", "add")
        sh(*veth, "ctl0", "netns", left, "type", "veth", "peer", "name", "ctl0", "netns", right)
        sh("nsenter", "-t", middle, "-n", "ip", "link", "add", "bridge0", "type", "bridge")
        for host in (self.left, self.right):
            self._plug_in(host)
            sh("ip", "addr", "add", f"{host.address}/24", "dev", "ctl0", inside=host.pid)
            sh("ip", "link", "set", "ctl0", "up", inside=host.pid)
        sh("nsenter", "-t", middle, "-n", "ip", "link", "set", "bridge0", "up")
        for host in (self.left, self.right):
            host.serve()
        self._write_testbed()

    def _plug_in(self, host: HostSpace) -> None:
        assert self.cable is not None
        middle, end = str(self.cable.pid), "c0" if host is self.left else "c1"
        sh("ip", "link", "add", "cable0", "netns", str(host.pid), "type", "veth",
           "peer", "name", end, "netns", middle)  # fmt: skip
        sh("ip", "link", "set", "cable0", "up", inside=host.pid)
        for arguments in (
            f"{end} master bridge0",
            f"{end} type bridge_slave learning off",
            f"{end} up",
        ):
            sh("nsenter", "-t", middle, "-n", "ip", "link", "set", *arguments.split())

    def plug_in_anew(self, host: HostSpace) -> None:
        """Restore the host's end of the cable.

        The kernel destroys a veth end with its namespace, but would give back a NIC."""
        assert self.cable is not None
        end = "c0" if host is self.left else "c1"
        sh("nsenter", "-t", str(self.cable.pid), "-n", "ip", "link", "delete", end, check=False)
        self._plug_in(host)

    def limit(self, mbit: int) -> None:
        """Limit both directions of the cable to so many Mbit/s of frames without FCS."""
        assert self.cable is not None
        for end in ("c0", "c1"):
            arguments = f"qdisc replace dev {end} root tbf rate {mbit}mbit burst 16kb limit 64kb"
            sh("nsenter", "-t", str(self.cable.pid), "-n", "tc", *arguments.split())

    def let_cable_poll(self) -> None:
        """Let the ends of the cable take frames from XDP like NICs.

        A veth end does so only while it polls, which receive offload enables."""
        assert self.cable is not None
        for end in ("c0", "c1"):
            arguments = f"ethtool -K {end} gro on"
            sh("nsenter", "-t", str(self.cable.pid), "-n", *arguments.split())

    @contextmanager
    def delayed(self, there_s: float) -> Iterator[None]:
        """Delay the cable from left to right, without a limit, for the block."""
        assert self.cable is not None
        inside = ["nsenter", "-t", str(self.cable.pid), "-n"]
        for end in ("c0", "c1"):
            sh(*inside, "ip", "link", "set", end, "nomaster")
        program = [sys.executable, str(ROOT / "tests/integration/delaying_cable.py")]
        carrier = subprocess.Popen(
            [*inside, *program, "c0", "c1", str(there_s)], stdout=subprocess.PIPE
        )
        try:
            assert carrier.stdout is not None and carrier.stdout.readline() == b"up\n"
            set_autogroup_nice(carrier.pid, AUTOGROUP_NICE)
            yield
        finally:
            carrier.kill()
            carrier.communicate()
            for end in ("c0", "c1"):
                sh(*inside, "ip", "link", "set", end, "master", "bridge0")
                sh(*inside, "ip", "link", "set", end, "type", "bridge_slave", "learning", "off")

    def cable_frames(self) -> int:
        """Return the frames that have entered the cable from the left."""
        assert self.cable is not None
        command = ["ip", "-s", "-j", "link", "show", "dev", "c0"]
        (found,) = json.loads(sh("nsenter", "-t", str(self.cable.pid), "-n", *command))
        return int(found["stats64"]["rx"]["packets"])

    def _write_testbed(self) -> None:
        deadline = time.monotonic() + DEADLINE_S
        known = self.folder / "known_hosts"
        while not (keys := sh("ssh-keyscan", "-t", "ed25519", self.right.address,
                              inside=self.left.pid, check=False)):  # fmt: skip
            assert time.monotonic() < deadline, "sshd does not answer"
            time.sleep(0.05)
        known.write_text(keys)
        self.testbed.write_text(
            "hosts:\n  left: {local: true}\n"
            f"  right: {{address: {self.right.address}, user: root, key: key, "
            f"known_hosts: known_hosts, settings: {json.dumps(programs())}}}\n"
            "cables:\n  - {left: cable0, right: cable0}\n"
            "health: {busy_cores: 1000, wire_tolerance: 1000}\n"  # both are on this machine
        )

    @property
    def testbed(self) -> Path:
        return self.folder / "testbed.yaml"

    def bench(self, *args: str, engine: Path) -> subprocess.Popen[str]:
        """Start `switchmark ARGS` on the left host."""
        command = [sys.executable, "-m", "switchmark.cli.main", *args]
        return self.start(command, SWITCHMARK_TRAFFIC=str(engine))

    def start(self, command: Sequence[str], **more: str) -> subprocess.Popen[str]:
        """Start a program on the left host."""
        environment = {
            **os.environ,
            **more,
            "PYTHONPATH": str(ROOT),
            "SWITCHMARK_TESTBED": str(self.testbed),
            "SWITCHMARK_CACHE_DIR": str(self.folder / "cache"),
        }
        environment.pop("SWITCHMARK_STATE_DIR", None)  # each host has its own /run
        bench = subprocess.Popen(
            [*enter(self.left.pid), *command],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self.benches.append(bench)
        return bench

    @contextmanager
    def favoured(self) -> Iterator[None]:
        """Give all new processes of the hosts priority over other programs for the block."""
        over = threading.Event()

        def favour() -> None:
            favoured: set[int] = set()
            while not over.wait(0.05):
                for pid in {*self.left.pids(), *self.right.pids()} - favoured:
                    favoured.add(pid)
                    set_autogroup_nice(pid, AUTOGROUP_NICE)

        thread = threading.Thread(target=favour)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def remains(self, patience_s: float = DEADLINE_S) -> list[str]:
        """Return leftovers on either host after pending cleanup has ended."""
        deadline = time.monotonic() + patience_s
        while (left := [*self.left.remains(), *self.right.remains()]) and (
            time.monotonic() < deadline
        ):
            time.sleep(0.1)
        return left

    def end(self) -> None:
        for bench in self.benches:
            if bench.poll() is None:
                bench.kill()
            bench.communicate()
        for host in (self.left, self.right):
            host.end()
        if self.cable is not None:
            self.cable.kill()
            self.cable.communicate()
        shutil.rmtree(self.folder, ignore_errors=True)


def run(bench: subprocess.Popen[str], timeout_s: float = 300.0) -> tuple[int, str, str]:
    """Wait for the end of a bench; return exit code and output."""
    out, err = bench.communicate(timeout=timeout_s)
    return bench.returncode, out, err


def missing() -> str | None:
    """Return why hosts are impossible on this machine."""
    needed: Sequence[str] = (SSHD, "ssh-keygen", "ssh-keyscan", "unshare", "nsenter", "tc")
    for program in needed:
        if shutil.which(program) is None:
            return MISSING if "ssh" in program else f"no {program} here"
    return None
