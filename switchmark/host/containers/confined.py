"""Settings of LXC and Docker for containers with the fewest privileges that work.

The root file system is read-only, the root user has only the named capabilities, and files are
written to small file systems in memory. Applications and switches get different capabilities.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

_LXC = """\
lxc.uts.name = {name}
lxc.rootfs.path = dir:{root}
lxc.rootfs.options = ro
{network}
lxc.mount.auto = proc:mixed sys:ro
lxc.mount.entry = tmpfs proc/bus tmpfs ro,nosuid,nodev,noexec,size=4k,optional 0 0
lxc.mount.entry = tmpfs proc/fs tmpfs ro,nosuid,nodev,noexec,size=4k,optional 0 0
lxc.mount.entry = tmpfs proc/irq tmpfs ro,nosuid,nodev,noexec,size=4k,optional 0 0
lxc.no_new_privs = 1
lxc.mount.entry = tmpfs run tmpfs rw,nosuid,nodev,noexec,size={run_mib}m,mode=755 0 0
lxc.mount.entry = tmpfs tmp tmpfs rw,nosuid,nodev,noexec,size=16m,mode=1777 0 0
lxc.autodev = 1
lxc.tty.max = 0
lxc.pty.max = 1
lxc.console.path = none
lxc.cap.keep = {linux_capabilities}
lxc.apparmor.profile = unconfined
{seccomp}lxc.log.level = WARN
lxc.log.file = {log}
"""

# LXC's filter forbids kernel modules, kexec and file handles.
_SECCOMP = Path("/usr/share/lxc/config/common.seccomp")

DOCKER_SCRATCH = ("--tmpfs", "/tmp:rw,noexec,nosuid,size=16m")  # for temporary files


def lxc_network(netns: Path | None) -> str:
    """Return the setting of the container's network: this namespace, or one without devices."""
    return "lxc.net.0.type = empty" if netns is None else f"lxc.namespace.share.net = {netns}"


def lxc_config(
    name: str,
    root: Path,
    log: Path,
    *,
    network: str,
    linux_capabilities: Iterable[str],
    run_mib: int,
) -> str:
    """Return the configuration; mounts may be added at its end.

    `linux_capabilities` are in lower case without prefix, `run_mib` is the size of /run in MiB."""
    return _LXC.format(
        seccomp=f"lxc.seccomp.profile = {_SECCOMP}\n" if _SECCOMP.exists() else "",
        name=name,
        root=root,
        log=log,
        network=network,
        linux_capabilities=" ".join(linux_capabilities) or "none",
        run_mib=run_mib,
    )


def docker_least(run_mib: int) -> list[str]:
    """Return the options of `docker run` without capabilities; `run_mib` is the size of /run."""
    return [
        *("--pull", "never", "--read-only", "--cap-drop", "ALL", "--log-driver", "none"),
        *("--security-opt", "no-new-privileges"),
        *("--tmpfs", f"/run:rw,noexec,nosuid,size={run_mib}m"),
    ]


def docker_capabilities(linux_capabilities: Iterable[str]) -> list[str]:
    """Return the options that add these capabilities; their names are as for LXC."""
    return [text for name in linux_capabilities for text in ("--cap-add", name.upper())]
