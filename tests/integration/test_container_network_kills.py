"""`cni` and `docker-network` change nothing on the host of a user: neither trials that end nor
benches that are killed at any moment.

The host of the test has rules, settings, a bridge and address files of a user. A wrapper around the
plugins, or around `docker`, stops at the moment in question, so that no moment depends on luck.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from switchmark.environment.support.rootfs import no_busybox
from switchmark.host.container_networks.cni import USUAL_FOLDERS
from tests.integration.machine import needs_root
from tests.integration.own_network import OwnNetwork, own_network
from tests.integration.two_hosts import children

PLUGINS = next((Path(one) for one in USUAL_FOLDERS if Path(one, "bridge").exists()), None)
DOCKER = shutil.which("docker")
pytestmark = [pytest.mark.integration, needs_root]
needs_plugins = pytest.mark.skipif(
    PLUGINS is None, reason="apt install containernetworking-plugins"
)
needs_docker = pytest.mark.skipif(
    DOCKER is None or shutil.which("dockerd") is None or no_busybox() is not None,
    reason="no dockerd (docker.io), or no static busybox",
)
slow = pytest.mark.slow
PODMAN = shutil.which("podman")
CONTROLLERS = Path("/sys/fs/cgroup/unified/cgroup.controllers")  # exists in hybrid mode only


def no_podman() -> str:
    """Return why Podman cannot run containers here; empty if it can."""
    if PODMAN is None or no_busybox() is not None:
        return "no podman, or no static busybox"
    if shutil.which("crun") and CONTROLLERS.exists() and CONTROLLERS.read_text().strip():
        return "crun refuses control groups of which version 2 also has controllers"
    return ""


needs_podman = pytest.mark.skipif(bool(no_podman()), reason=no_podman() or "podman runs")
# Everything on a host that a container network could change.
USERS = """
ip link add br0 address 52:54:00:11:22:33 mtu 1400 type bridge; ip link set br0 up
ip addr add 10.77.0.1/24 dev br0
ip link add up0 type veth peer name up1; ip link set up0 up; ip link set up1 up
sysctl -qw net.ipv4.ip_forward=0 net.ipv4.conf.all.rp_filter=2
iptables -N MINE; iptables -A MINE -s 192.0.2.0/24 -j DROP; iptables -A FORWARD -j MINE
iptables -t nat -A POSTROUTING -s 10.77.0.0/24 ! -o br0 -j MASQUERADE
nft add table inet mine; nft add chain inet mine c '{ type filter hook input priority 5; }'
nft add rule inet mine c tcp dport 22 accept
mount -t tmpfs own /var/lib/cni 2>/dev/null || { mount -t tmpfs own /var/lib; mkdir /var/lib/cni; }
mkdir -p /var/lib/cni/networks/net; echo pod >/var/lib/cni/networks/net/10.88.0.2
"""
RULES = """iptables-save | grep -v '^#' | sed 's/\\[.*\\]//'; nft -s list ruleset
ip -o link show br0; sysctl -a 2>/dev/null | grep -e '^net.ipv4.ip_forward ' -e rp_filter -e bridge
find /var/lib/cni -printf '%p %m %s\\n' | sort; cat /proc/modules 2>/dev/null || true
find /var/lib/containers /dev/shm/libpod_lock /run/containers 2>/dev/null || true"""
# It waits while the file `hold` has the name of the moment, and reports the moment once.
WRAPPER = """#!{python}
import os, subprocess, sys, time
words = [word for word in sys.argv[1:] if word in ("network", "create", "run", "rm")]
command = os.environ.get("CNI_COMMAND") or " ".join(words[:2 if words[:1] == ["network"] else 1])
def wait(when):
    name = " ".join([os.path.basename(sys.argv[0]), command, when])
    reported = False
    while os.path.exists({hold!r}) and open({hold!r}).read() == name:
        if not reported:
            os.write(os.open({pipe!r}, os.O_WRONLY), name.encode())
            reported = True
        time.sleep(0.02)
wait("before")
code = subprocess.call([{real!r}, *sys.argv[1:]])
wait("after")
sys.exit(code)
"""
IPAM = {"type": "host-local", "ranges": [[{"subnet": "10.88.0.0/16"}]]}
MAIN: dict[str, dict[str, object]] = {
    "bridge": {"type": "bridge", "bridge": "cni0", "isGateway": True, "ipMasq": True, "ipam": IPAM},
    "ptp": {"type": "ptp", "ipMasq": True, "ipam": IPAM},
    "macvlan": {"type": "macvlan", "master": "up0", "ipam": IPAM},
}
SECOND = {"bridge": "firewall", "ptp": "firewall", "macvlan": "tuning"}
MEASUREMENT = "measurement"


class Moments:
    """A folder of programs that stop at a moment, and the moments that were met."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.programs = folder / "programs"
        self.programs.mkdir()
        self._hold, pipe = folder / "hold", folder / "pipe"
        os.mkfifo(pipe)
        self._pipe = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
        python = str(Path(sys.executable).resolve())  # a path without spaces, for the first line
        self._wrapped = {"python": python, "hold": str(self._hold), "pipe": str(pipe)}

    def wrap(self, real: Path, *, stops: bool = True) -> None:
        path = self.programs / real.name
        if stops:
            path.write_text(WRAPPER.format(real=str(real), **self._wrapped))
            path.chmod(0o755)
        else:
            path.symlink_to(real)

    def hold(self, moment: str) -> None:
        self._hold.write_text(moment)

    def release(self) -> None:
        self._hold.unlink(missing_ok=True)

    def is_met(self) -> bool:
        with suppress(BlockingIOError):
            return bool(os.read(self._pipe, 4096))
        return False

    def close(self) -> None:
        self.release()
        os.close(self._pipe)


@pytest.fixture(scope="module")
def host() -> Iterator[OwnNetwork]:
    folder = Path(f"/var/tmp/smkill{os.getpid()}")
    with own_network(folder) as network:
        network.environment["SWITCHMARK_CACHE_DIR"] = str(folder / "cache")
        network.sh(USERS)
        yield network
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def moments(host: OwnNetwork) -> Iterator[Moments]:
    folder = host.folder / "moments"
    created = Moments(folder)
    yield created
    created.close()
    shutil.rmtree(folder)


def whole_state(host: OwnNetwork) -> list[str]:
    return [*host.state().splitlines(), *host.sh(RULES).splitlines()]


def wait_for(host: OwnNetwork, moments: Moments, moment: str, bench: subprocess.Popen[str]) -> None:
    """Wait until the bench is at the moment."""
    deadline = time.monotonic() + 60
    while not (measures(bench) if moment == MEASUREMENT else moments.is_met()):
        assert time.monotonic() < deadline, "the moment was not met"
        assert bench.poll() is None, bench.communicate()[0]
        time.sleep(0.02)


def measures(bench: subprocess.Popen[str]) -> bool:
    """Return True if both applications of a trial of this bench run."""
    programs, pids = [], children(bench.pid)
    while pids:
        pid = pids.pop()
        pids += children(pid)
        with suppress(OSError):
            programs.append(Path(f"/proc/{pid}/comm").read_text())
    return sum(name.startswith("switchmark-traf") for name in programs) >= 2


def killed(
    host: OwnNetwork, moments: Moments, moment: str, settings: list[str], deletes: bool
) -> None:
    """Kill a bench at a moment, and check what is left of it before and after `clean`."""
    before = whole_state(host)
    rules = host.sh(RULES)
    moments.hold(moment)
    duration = "1s" if deletes else "20s"
    bench = host.spawn(
        sys.executable, "-m", "switchmark", "trial", *settings, "--no-baseline", "--rate", "200",
        "--burst", "1", "--duration", duration, "--results", str(host.folder / "r"),
    )  # fmt: skip
    try:
        wait_for(host, moments, moment, bench)
        assert host.sh(RULES) == rules, "everything is in the private host"
    finally:
        bench.kill()
        bench.wait()
    if deletes:
        moments.release()  # `clean` also runs DEL
    done = host.bench("clean")
    assert "could not" not in done.stdout + done.stderr
    moments.release()
    assert whole_state(host) == before
    assert not list((host.folder / "s").glob("*.ledger"))
    assert not list((host.folder / "cache").glob("*-sm*")), "no storage of a container engine"
    assert str(moments.programs) not in host.sh("ps -eo args")


@needs_plugins
@pytest.mark.parametrize(
    "main",
    ["bridge", *(pytest.param(name, marks=pytest.mark.slow) for name in ("ptp", "macvlan"))],
)
@pytest.mark.parametrize(
    "moment",
    ["MAIN ADD before", "MAIN ADD after", "SECOND ADD before", MEASUREMENT, "SECOND DEL after",
     "MAIN DEL before", "MAIN DEL after"],
)  # fmt: skip
def test_cni_killed_leaves_the_host_as_it_was(
    moment: str, main: str, host: OwnNetwork, moments: Moments
) -> None:
    assert PLUGINS is not None
    for program in PLUGINS.iterdir():
        moments.wrap(program, stops=program.name in (main, SECOND[main]))
    conflist = moments.programs.parent / "net.conflist"
    plugins = [MAIN[main], {"type": SECOND[main]}]
    conflist.write_text(json.dumps({"cniVersion": "1.0.0", "name": "net", "plugins": plugins}))
    options = f"switch_options=conflist:{conflist}+plugins:{moments.programs}"
    met = moment.replace("MAIN", main).replace("SECOND", SECOND[main])
    killed(host, moments, met, ["cni", "--set", options], deletes="DEL" in moment)


@needs_docker
@pytest.mark.parametrize(
    "moment",
    [pytest.param("docker network create after", marks=slow),
     pytest.param("docker run before", marks=slow), "docker run after", MEASUREMENT,
     "docker rm before", pytest.param("docker rm after", marks=slow)],
)  # fmt: skip
def test_docker_network_killed_leaves_the_host_as_it_was(
    moment: str, host: OwnNetwork, moments: Moments
) -> None:
    assert DOCKER is not None
    killed_with_engine(host, moments, moment, Path(DOCKER))


@needs_podman
@pytest.mark.parametrize(
    "moment",
    [pytest.param("podman run after", marks=slow), MEASUREMENT,
     pytest.param("podman rm before", marks=slow)],
)  # fmt: skip
def test_podman_killed_leaves_the_host_as_it_was(
    moment: str, host: OwnNetwork, moments: Moments
) -> None:
    assert PODMAN is not None
    killed_with_engine(host, moments, moment, Path(PODMAN))


def killed_with_engine(host: OwnNetwork, moments: Moments, moment: str, program: Path) -> None:
    moments.wrap(program)
    path = host.environment["PATH"]
    host.environment["PATH"] = f"{moments.programs}:{path}"
    options = f"switch_options=engine:{program.name}+driver:user-bridge+publish:nat"
    try:
        killed(
            host, moments, moment, ["docker-network", "--set", options],
            deletes=" rm " in moment,
        )  # fmt: skip
    finally:
        host.environment["PATH"] = path


@pytest.mark.parametrize(
    ("switch", "option"),
    [
        *(pytest.param("cni", f"conflist:{name}", marks=needs_plugins)
          for name in ("bridge-masq", "ptp", "macvlan")),
        pytest.param("docker-network", "publish:nat", marks=needs_docker),
        *(pytest.param("docker-network", options, marks=[needs_docker, slow])
          for options in ("driver:user-bridge", "driver:macvlan", "driver:host")),
        pytest.param("docker-network", "engine:podman+publish:nat", marks=needs_podman),
        *(pytest.param("docker-network", f"engine:podman+{options}", marks=[needs_podman, slow])
          for options in ("driver:user-bridge", "driver:macvlan", "driver:host")),
    ],
)  # fmt: skip
def test_trial_leaves_rules_settings_and_modules(
    switch: str, option: str, host: OwnNetwork
) -> None:
    before = whole_state(host)
    done = host.bench(
        "trial", switch, "--no-baseline", "--json", "--rate", "200", "--burst", "1", "--duration",
        "1s", "--set", f"switch_options={option}", "--results", str(host.folder / "r"),
    )  # fmt: skip
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished", record["message"]
    assert whole_state(host) == before
    shown = "\n".join(before)
    for text in ("-A FORWARD -j MINE", "tcp dport 22 accept", "52:54:00:11:22:33",
                 "net.ipv4.ip_forward = 0", "/var/lib/cni/networks/net/10.88.0.2"):  # fmt: skip
        assert text in shown, "the comparison has the state of the user"
