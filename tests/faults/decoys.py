"""Things of a user on the host with names similar to those of the bench, which must not be
touched."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from tests.faults.bench import USER_BRIDGE

STARTS_S = 120.0
SCHEMA = Path("/usr/share/openvswitch")
NAME = f"smdecoy{secrets.token_hex(4)}"  # control groups are visible on all private hosts


@contextmanager
def decoys() -> Iterator[None]:
    """A bridge with rules of tc and netfilter, a namespace with an address, a route, files, a
    mount, a cgroup, a process with the engine's name, a container and the database of a switch, the
    last two if the machine has the programs."""
    bridge = f"smb{os.getpid()}"
    program = Path("/run") / NAME / "switchmark-traffic"
    group = Path("/sys/fs/cgroup/cpu") / NAME
    _ip("link", "add", bridge, "type", "bridge")
    Path(f"/proc/sys/net/ipv6/conf/{bridge}/disable_ipv6").write_text("1")  # it sends nothing
    _ip("address", "add", "198.51.100.1/24", "dev", bridge)
    _ip("link", "set", bridge, "up")
    _user_bridge()
    _ip("route", "add", "203.0.113.0/24", "via", "198.51.100.2")
    _ip("netns", "add", NAME)
    _ip("-n", NAME, "link", "set", "lo", "up")
    _ip("-n", NAME, "address", "add", "198.51.100.9/32", "dev", "lo")
    program.parent.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", NAME, str(program.parent)], check=True)
    shutil.copy("/bin/sleep", program)
    for folder in ("/tmp", "/dev/shm", "/run"):
        (Path(folder) / f"{NAME}.socket").write_text("a user's")
    with suppress(OSError):
        group.mkdir()
    _filter(bridge)
    with ExitStack() as undo:
        undo.callback(_remove, group)
        undo.enter_context(_running(program, "100000"))
        if shutil.which("lxc-execute"):
            undo.enter_context(_container(program.parent))
        if shutil.which("ovsdb-server"):
            undo.enter_context(_database(program.parent))
        yield


def _user_bridge() -> None:
    """Make a bridge with a port, to which cases with a network of the user attach their ends."""
    _ip("link", "add", USER_BRIDGE, "address", "52:54:00:73:6d:01", "mtu", "1600", "type", "bridge")
    _ip("link", "add", f"{USER_BRIDGE}p", "mtu", "1600", "type", "veth", "peer", f"{USER_BRIDGE}q")
    for device in (f"{USER_BRIDGE}p", f"{USER_BRIDGE}q", USER_BRIDGE):
        Path(f"/proc/sys/net/ipv6/conf/{device}/disable_ipv6").write_text("1")
        _ip("link", "set", device, "up")
    _ip("link", "set", f"{USER_BRIDGE}p", "master", USER_BRIDGE)


def _filter(bridge: str) -> None:
    subprocess.run(["tc", "qdisc", "add", "dev", bridge, "clsact"], check=True)
    command = ["tc", "filter", "add", "dev", bridge, "ingress", "prio", "7", "protocol", "ip"]
    subprocess.run([*command, "u32", "match", "u32", "0", "0", "flowid", "1:1"], check=True)
    if shutil.which("nft"):
        subprocess.run(["nft", "add", "table", "inet", NAME], check=False)


@contextmanager
def _running(*words: str | Path) -> Iterator[None]:
    nothing = subprocess.DEVNULL
    with subprocess.Popen(words, stdin=nothing, stdout=nothing, stderr=nothing) as process:
        try:
            yield
        finally:
            process.kill()


@contextmanager
def _container(folder: Path) -> Iterator[None]:
    """A container of LXC that runs `sleep`; its groups contain the decoys' name."""
    (folder / NAME / "rootfs").mkdir(parents=True)
    (folder / NAME / "config").write_text(
        f"lxc.uts.name = {NAME}\nlxc.rootfs.path = dir:/\nlxc.net.0.type = empty\n"
        "lxc.console.path = none\nlxc.apparmor.profile = unconfined\nlxc.autodev = 0\n"
    )
    where = ("-P", str(folder), "-n", NAME)
    with _running("lxc-execute", *where, "--", "/bin/sleep", "100000"):
        subprocess.run(["lxc-wait", *where, "-s", "RUNNING", "-t", f"{STARTS_S:.0f}"], check=True)
        yield
        subprocess.run(["lxc-stop", *where, "-k"], check=False)


@contextmanager
def _database(folder: Path) -> Iterator[None]:
    """An Open vSwitch database: a user's own switch has a server beside the bench's."""
    file = folder / "conf.db"
    subprocess.run(["ovsdb-tool", "create", file, *SCHEMA.glob("vswitch.ovsschema")], check=True)
    door = f"punix:{folder}/db.sock"
    with _running("ovsdb-server", file, f"--remote={door}", f"--unixctl={folder}/ctl"):
        deadline = time.monotonic() + STARTS_S
        while not (folder / "db.sock").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        yield


def _remove(group: Path) -> None:
    with suppress(OSError):
        group.rmdir()


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)
