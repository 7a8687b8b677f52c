"""A host of the test's own: a network namespace that plays the host, with the networks in it.

The bench and every program of a test run inside, so that only namespaces, bridges and containers
of the test are ever seen.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from switchmark.host.kernel import procfs

STATE = "SWITCHMARK_STATE_DIR"
ROOT = Path(__file__).resolve().parents[2]
SETUP = """set -e
mount -t tmpfs -o mode=755 own /run; mkdir -p /run/netns /run/lock /run/groups
mount --rbind /sys/fs/cgroup /run/groups
mount -t sysfs own /sys
mount --rbind /run/groups /sys/fs/cgroup
umount -l /run/groups; rmdir /run/groups
sysctl -qw $QUIET
ip link set lo up
touch "$READY"
exec sleep 600
"""
# Without IPv6 the kernel sends nothing by itself, which the bench would count as traffic of others.
QUIET = "net.ipv6.conf.all.disable_ipv6=1 net.ipv6.conf.default.disable_ipv6=1"


class OwnNetwork:
    """A network namespace and a mount namespace as a host; `run` runs programs there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        ready = folder / "ready"
        self._holder = subprocess.Popen(
            ["unshare", "--net", "--mount", "--propagation", "private", "bash", "-c", SETUP],
            env={**os.environ, "READY": str(ready), "QUIET": QUIET},
        )
        while not ready.exists():
            assert self._holder.poll() is None, "the host of the test did not start"
        self.environment = {
            **os.environ,
            STATE: str(folder / "s"),
            "PYTHONPATH": str(ROOT),
            "QUIET": QUIET,
        }

    def command(self, args: Sequence[str]) -> list[str]:
        """The command line of a program in this host."""
        return ["nsenter", "-t", str(self._holder.pid), "--net", "--mount", "--", *args]

    def run(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run a program to its end."""
        done = subprocess.run(
            self.command(args), capture_output=True, text=True, check=False, cwd=ROOT,
            env=self.environment, timeout=300,
        )  # fmt: skip
        assert not check or done.returncode == 0, f"{args}: {done.stdout}{done.stderr}"
        return done

    def sh(self, script: str) -> str:
        """Run a script of the shell, which ends at the first failure."""
        return self.run("bash", "-ec", script).stdout

    def bench(self, *args: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        """Run `switchmark`."""
        return self.run(sys.executable, "-m", "switchmark", *args, check=check)

    def spawn(self, *args: str) -> subprocess.Popen[str]:
        """Start a program."""
        return subprocess.Popen(
            self.command(args), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
            cwd=ROOT, env=self.environment,
        )  # fmt: skip

    def engines(self, *texts: str) -> list[int]:
        """Return the traffic engines of this host, and of its pods, with these texts in their
        command lines. Another host of a test, which runs at the same time, may have the same
        addresses."""
        found = []
        for pid in procfs.pids():
            with suppress(OSError):
                command = Path(f"/proc/{pid}/cmdline").read_bytes().decode().replace("\0", " ")
                if all(text in command for text in ("switchmark-traffic", *texts)):
                    settings = Path(f"/proc/{pid}/environ").read_bytes().decode().split("\0")
                    if any(one.startswith(f"{STATE}={self.folder}/") for one in settings):
                        found.append(pid)
        return found

    def state(self, *, learned: bool = True) -> str:
        """Devices, addresses, routes, bridges, rules and settings of the host and its namespaces,
        without counters and ages. `learned`: also neighbours and the tables of bridges, which the
        kernel learns from traffic and forgets."""
        script = """
        show() { $1 ip -d link; $1 ip addr; $1 ip rule; $1 ip route show table all
          $1 ip -6 route show table all; $1 bridge link
          [ -z "$LEARNED" ] || { $1 ip neigh | awk '{ $NF = ""; print }'
            $1 bridge fdb | sort; }
          $1 nft -s list ruleset; $1 tc qdisc; $1 tc filter show dev lo
          $1 sysctl -a 2>/dev/null | grep -v -e random -e count -e inode -e dentry -e file-nr \\
            -e '^kernel' -e '^fs' -e '^vm' | sort; }
        show ""
        for name in $(ip netns | cut -d' ' -f1 | sort); do echo "== $name"
          show "ip netns exec $name"; done
        ls -la /run/netns | awk '{ print $1, $NF }'
        """
        text = self.run("env", f"LEARNED={learned or ''}", "bash", "-c", script).stdout
        return "\n".join(map(_without_timers, text.splitlines()))

    def end(self) -> None:
        """End the host, and with it all that is in it."""
        with suppress(ProcessLookupError):
            self._holder.kill()
        self._holder.wait()


def _without_timers(line: str) -> str:
    return re.sub(r"\b\w+_timer\s+\S+ ?| tentative\b", "", line)


@contextmanager
def own_network(folder: Path) -> Iterator[OwnNetwork]:
    """A host of the test's own, which ends with the context."""
    host = OwnNetwork(folder)
    try:
        yield host
    finally:
        host.end()


OVS = """
mkdir -p $D; ovsdb-tool create $D/conf.db /usr/share/openvswitch/vswitch.ovsschema
ovsdb-server $D/conf.db --remote=punix:$D/db.sock --unixctl=$D/db.ctl \\
  --pidfile=$D/db.pid --detach --no-chdir --log-file=$D/db.log
ovs-vsctl --db=unix:$D/db.sock --no-wait init
OVS_RUNDIR=$D ovs-vswitchd unix:$D/db.sock --unixctl=$D/vs.ctl --pidfile=$D/vs.pid --detach \\
  --no-chdir --log-file=$D/vs.log
ovs-vsctl --db=unix:$D/db.sock --timeout=20 add-br br-int -- set bridge br-int datapath_type=netdev
ip link set br-int up
"""
OVS_PAIR = """
for n in a b; do
  ip netns add $n; ip netns exec $n sysctl -qw $QUIET
  ip link add v$n type veth peer name eth0 netns $n; ip link set v$n up
  ip -n $n link set lo up; ip -n $n link set eth0 up
  ovs-vsctl --db=unix:$D/db.sock --timeout=20 add-port br-int v$n
done
ip -n a addr add 10.79.0.2/24 dev eth0; ip -n b addr add 10.79.0.3/24 dev eth0
"""
PAIR_ON_A_BRIDGE = """
ip link add br0 address 52:54:00:11:22:33 mtu 1400 type bridge
ip addr add 10.77.0.1/24 dev br0; ip link set br0 up
for n in a b; do
  ip netns add $n; ip netns exec $n sysctl -qw $QUIET
  ip link add v$n type veth peer name eth0 netns $n
  ip link set v$n mtu 1400 master br0 up
  ip -n $n link set lo up; ip -n $n link set eth0 mtu 1400 up
done
ip -n a addr add 10.77.0.2/24 dev eth0; ip -n b addr add 10.77.0.3/24 dev eth0
for n in a b; do ip -n $n route add default via 10.77.0.1; done
"""
ROUTED = """
ip netns add c; ip netns exec c sysctl -qw $QUIET
ip link add vc type veth peer name eth0 netns c; ip link set vc up
ip addr add 10.78.0.1/24 dev vc; ip -n c link set lo up; ip -n c link set eth0 up
ip -n c addr add 10.78.0.2/24 dev eth0; ip -n c route add default via 10.78.0.1
sysctl -qw net.ipv4.ip_forward=1
"""
TWO_BRIDGES = """
ip link add br2 address 52:54:00:11:22:34 type bridge; ip link set br2 up
ip link add br3 address 52:54:00:11:22:35 type bridge; ip link set br3 up
ip link add j2 type veth peer name j3; ip link set j2 master br2 up; ip link set j3 master br3 up
for n in d e; do
  ip netns add $n; ip netns exec $n sysctl -qw $QUIET
  ip link add v$n type veth peer name eth0 netns $n; ip link set v$n up
  ip -n $n link set lo up; ip -n $n link set eth0 up
done
ip link set vd master br2; ip link set ve master br3
ip -n d addr add 10.76.0.2/24 dev eth0; ip -n e addr add 10.76.0.3/24 dev eth0
"""
