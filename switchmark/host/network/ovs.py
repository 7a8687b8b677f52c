"""Open vSwitch of the user: its settings, and ports of the bench in it.

The database is that of `OVS_RUNDIR`, or the usual one. Flows, controllers and settings of the user
are read and never changed.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from switchmark.errors import UnavailableError
from switchmark.host.process_output import last_line, run_command
from switchmark.host.programs import which

TIMEOUT_S = 10.0
USUAL = "/var/run/openvswitch"
GONE = ("no port named", "no bridge named")


def database() -> str:
    """The database of Open vSwitch here, as the argument of `--db`."""
    return f"unix:{os.environ.get('OVS_RUNDIR', USUAL)}/db.sock"


def missing() -> str | None:
    """Return why Open vSwitch cannot be used here; None if it can."""
    if which("ovs-vsctl") is None:
        return "there is no `ovs-vsctl` program here"
    if not Path(database().removeprefix("unix:")).exists():
        return f"no Open vSwitch runs here ({database()})"
    return None


def vsctl(db: str, *args: str) -> str | None:
    """The output of `ovs-vsctl`; None if it fails."""
    done = _run(db, *args)
    return done.stdout.strip() if done is not None and done.returncode == 0 else None


def _run(db: str, *args: str) -> subprocess.CompletedProcess[str] | None:
    try:
        return run_command(["ovs-vsctl", f"--db={db}", "--timeout=8", *args], TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return None


def nothing_passes(db: str, bridge: str) -> bool:
    """Return True if a bridge forwards nothing: fail mode `secure`, and no flow."""
    if vsctl(db, "get-fail-mode", bridge) != "secure":
        return False
    folder = db.removeprefix("unix:").rpartition("/")[0]
    try:
        done = run_command(["ovs-ofctl", "dump-flows", f"unix:{folder}/{bridge}.mgmt"], TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0 and "actions=" not in done.stdout


def add_port(db: str, bridge: str, device: str, session: str, vlan: int | None) -> None:
    """Add a device to a bridge. Raises UnavailableError."""
    tag = [f"tag={vlan}"] if vlan is not None else []
    mark = ["--", "set", "Port", device, f"external_ids:switchmark={session}"]
    done = _run(db, "add-port", bridge, device, *tag, *mark)
    if done is None or done.returncode != 0:
        reason = last_line(done.stderr, "it does not answer") if done else "it does not answer"
        raise UnavailableError(f"{device} cannot become a port of {bridge}: {reason}")


def delete_port(db: str, bridge: str, device: str) -> None:
    """Delete a port of the bench, which may be gone. Raises OSError."""
    if which("ovs-vsctl") is None or not Path(db.removeprefix("unix:")).exists():
        return  # the database is gone, and the port with it
    done = _run(db, "--if-exists", "del-port", bridge, device)
    if done is None or (done.returncode != 0 and not any(text in done.stderr for text in GONE)):
        reason = last_line(done.stderr, "ovs-vsctl fails") if done else "ovs-vsctl does not answer"
        raise OSError(f"port {device} of {bridge}: {reason}")


def settings(db: str, bridge: str) -> dict[str, str]:
    """The settings of a bridge that decide what its ports are like, with its ports."""
    names = ("datapath_type", "fail_mode", "stp_enable", "rstp_enable", "protocols")
    return {name: vsctl(db, "get", "bridge", bridge, name) or "unknown" for name in names}
