"""A container runtime as CNI knows it: runs the plugins of a list for a network namespace.

ADD goes through the chain in order, each plugin with the result of the plugin before it. DEL goes
through it in reverse, with the result of the whole ADD, and is repeated once after a failure. The
plugins run in a private host. GC is never run: it would remove attachments of others.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.host.container_networks import cni_result
from switchmark.host.container_networks.cni_result import Result
from switchmark.host.container_networks.conflist import ConfigurationList, parse
from switchmark.host.container_networks.private_host import CNI_STATE, PrivateHost
from switchmark.host.kernel.namespaces import NETNS_DIR
from switchmark.host.kernel.procfs import SESSION_VARIABLE

USUAL_FOLDERS = ("/opt/cni/bin", "/usr/lib/cni", "/usr/libexec/cni")
TIMEOUT_S = 60.0
TIMEOUT_AGAIN_S = 10.0  # for a program that did not end in time before
LEFT_OPEN_S = 5.0  # for children of a plugin that keep its output open
MOST_OUTPUT = 1 << 20
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# The kernel options without which a plugin fails with "operation not supported".
KERNEL_OPTIONS = {
    "bandwidth": "CONFIG_NET_SCH_TBF and CONFIG_IFB",
    "bridge": "CONFIG_BRIDGE and CONFIG_VETH, with vlan also CONFIG_BRIDGE_VLAN_FILTERING",
    "firewall": "CONFIG_NETFILTER and its tables",
    "ipvlan": "CONFIG_IPVLAN",
    "macvlan": "CONFIG_MACVLAN",
    "portmap": "CONFIG_NF_NAT and the tables of iptables",
    "ptp": "CONFIG_VETH",
    "vlan": "CONFIG_VLAN_8021Q",
    "vrf": "CONFIG_NET_VRF",
}
_EXHAUSTED = "no ip addresses available"  # the words of host-local
_REPAIR = "correct the plugin, or use another one"
_NOT_SUPPORTED = ("operation not supported", "not supported by the kernel", "unknown device type")


class PluginError(TrialFailed):
    """A plugin failed; the message has its own words."""


class PluginHung(TrialFailed):
    """A plugin, or a process that it left, did not end in time."""


_HUNG: set[Path] = set()  # the programs that did not end in time in this process


@dataclass(frozen=True, slots=True)
class PluginRun:
    """A plugin that has run: its output, and the seconds from its start to its end."""

    exit_code: int
    stdout: str
    stderr: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Place:
    """The place of an attachment: the container's identity, its namespace and its device."""

    container: str
    netns: str  # a name of `ip netns`
    ifname: str


def plugin_folders(named: str) -> tuple[Path, ...]:
    """Return the folders of plugins: the named one, or the usual ones that exist."""
    if named:
        return (Path(named).absolute(),)  # plugins and the ledger do not know the current folder
    listed = [part for part in os.environ.get("CNI_PATH", "").split(":") if part.startswith("/")]
    return tuple(Path(one) for one in (*listed, *USUAL_FOLDERS) if Path(one).is_dir())


def find_plugin(name: str, folders: Sequence[Path]) -> Path:
    """Return the program of a plugin. Raises UnavailableError if there is none."""
    for program in (folder / name for folder in folders):
        if program.is_file():
            if not os.access(program, os.X_OK):
                raise UnavailableError(
                    f"CNI plugin {name}: {program} is not executable", remedy=f"chmod +x {program}"
                )
            if program.resolve().is_relative_to(CNI_STATE.parent) and not CNI_STATE.is_dir():
                raise UnavailableError(
                    f"CNI plugin {name}: {program} is below {CNI_STATE.parent}, which a private "
                    f"host replaces if the machine has no {CNI_STATE}",
                    remedy=f"mkdir {CNI_STATE}, or copy the plugins to another folder",
                )
            return program
    searched = ", ".join(map(str, folders)) or ", ".join(USUAL_FOLDERS)
    raise UnavailableError(
        f"CNI plugin {name} is not in {searched}",
        remedy="apt install containernetworking-plugins, or name its folder in switch_options: "
        "{plugins: FOLDER}",
    )


class Runtime:
    """Runs the plugins of one configuration list in a private host."""

    def __init__(
        self,
        host: PrivateHost,
        network: ConfigurationList,
        folders: Sequence[Path],
        session: str,
    ) -> None:
        self.host = host
        self.network = network
        self.folders = tuple(folders)
        self._session = session
        self._version = ""

    @property
    def version(self) -> str:
        """The highest version of the protocol that the list and all its plugins support."""
        if not self._version:
            supported = [set(self.versions_of(kind)) for kind in self.network.types]
            common = [
                one for one in self.network.versions if all(one in each for each in supported)
            ]
            if not common:
                each = ", ".join(
                    f"{kind}: {', '.join(sorted(has)) or 'none'}"
                    for kind, has in zip(self.network.types, supported, strict=True)
                )
                raise UnavailableError(
                    f"{self.network.where}: cniVersion is {', '.join(self.network.versions)}, and "
                    f"its plugins support {each}",
                    remedy="write a version that all of them support",
                )
            self._version = common[0]
        return self._version

    def versions_of(self, kind: str) -> tuple[str, ...]:
        """Return the versions of the protocol that a plugin supports. Raises TrialFailed."""
        return cni_result.parse_versions(self._checked(kind, "VERSION", None, {}).stdout, kind)

    def seconds_to_start(self, kind: str) -> float:
        """Return the seconds that VERSION takes: the start of the program, and nothing else."""
        return self._checked(kind, "VERSION", None, {}).seconds

    def add(self, place: Place) -> Result:
        """Attach a namespace. Raises PluginError, TrialFailed; the caller must then `delete`."""
        result: Result | None = None
        for plugin in self.network.plugins:
            request = self._request(plugin, result.document if result else None)
            kind = str(plugin["type"])
            run = self._checked(kind, "ADD", place, request)
            result = cni_result.parse_result(run.stdout, kind)
        assert result is not None
        return result

    def delete(self, place: Place, result: Mapping[str, Any] | None) -> None:
        """Detach a namespace. A failed chain is run once more; then PluginError is raised."""
        try:
            self._delete(place, result)
        except TrialFailed:
            self._delete(place, result)

    def check(self, place: Place, result: Mapping[str, Any]) -> str:
        """Return what CHECK finds wrong; empty if nothing. It is a remark and never a verdict: the
        reference plugins also object to correct networks."""
        if self.network.disables_check or self.version in ("0.3.0", "0.3.1"):
            return ""
        try:
            for plugin in self.network.plugins:
                self._checked(str(plugin["type"]), "CHECK", place, self._request(plugin, result))
        except TrialFailed as error:
            return str(error)
        return ""

    def status(self) -> None:
        """Ask plugins of version 1.1 whether they can attach. Raises PluginError if not."""
        if self.version == "1.1.0":
            for plugin in self.network.plugins:
                self._checked(str(plugin["type"]), "STATUS", None, self._request(plugin, None))

    def _delete(self, place: Place, result: Mapping[str, Any] | None) -> None:
        problem: TrialFailed | None = None
        for plugin in reversed(self.network.plugins):  # the others have to be run nevertheless
            try:
                request = self._request(plugin, result)
                self._checked(str(plugin["type"]), "DEL", place, request)
            except TrialFailed as error:
                problem = problem or error
        if problem is not None:
            raise problem

    def _request(
        self, plugin: Mapping[str, Any], previous: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the input of a plugin: its entry without capabilities, which this runtime does not
        offer, with the network's name and version and the previous result."""
        request = {key: value for key, value in plugin.items() if key != "capabilities"}
        request |= {"cniVersion": self.version, "name": self.network.name}
        return request | ({"prevResult": previous} if previous is not None else {})

    def _checked(
        self, kind: str, command: str, place: Place | None, request: Mapping[str, Any]
    ) -> PluginRun:
        """Run a plugin. Raises PluginError with its words if it fails."""
        program = find_plugin(kind, self.folders)
        if command == "VERSION":
            request = {"cniVersion": self.network.versions[0]}
        run = self._run(program, command, place, json.dumps(request))
        if run.exit_code != 0:
            text, code = cni_result.error_text(run.stdout, run.stderr)
            if run.exit_code < 0:
                text = f"it was ended by signal {-run.exit_code}: {text}"
            raise PluginError(
                f"CNI plugin {kind}: {command}: {text}" + (f" (code {code})" if code else ""),
                remedy=self._remedy(kind, text),
            )
        return run

    def _remedy(self, kind: str, text: str) -> str:
        if any(words in text.lower() for words in _NOT_SUPPORTED) and kind in KERNEL_OPTIONS:
            return f"use a kernel with {KERNEL_OPTIONS[kind]}"
        if _EXHAUSTED in text.lower():
            return f"use a larger range in ipam of {self.network.where}, or fewer pairs and at_once"
        if "dhcp.sock" in text:
            return "use ipam with type host-local, because a private host has no DHCP daemon"
        return f"correct plugin {kind} of {self.network.where}"

    def _run(self, program: Path, command: str, place: Place | None, text: str) -> PluginRun:
        environment = {
            "PATH": _PATH,
            "LC_ALL": "C",
            SESSION_VARIABLE: self._session,
            "XTABLES_LOCKFILE": str(self.host.folder / "xtables.lock"),
            "CNI_COMMAND": command,
            "CNI_PATH": ":".join(map(str, self.folders)),
        }
        if place is not None:
            netns = NETNS_DIR / place.netns
            gone = command == "DEL" and not netns.exists()
            environment |= {
                "CNI_CONTAINERID": place.container,
                "CNI_NETNS": "" if gone else str(netns),
                "CNI_IFNAME": place.ifname,
            }
        timeout_s = TIMEOUT_AGAIN_S if program in _HUNG else TIMEOUT_S
        name = f"{program.name}: {command}"
        try:
            return self.host.inside(
                lambda: run_bounded([str(program)], text, environment, timeout_s, name)
            )
        except PluginHung:
            _HUNG.add(program)
            raise


def run_bounded(
    args: Sequence[str], text: str, environment: Mapping[str, str], timeout_s: float, name: str = ""
) -> PluginRun:
    """Run a program that may print too much or never end. It is killed with its process group then.
    The name is for messages.

    Raises TrialFailed."""
    begun = time.monotonic()
    name = name or Path(args[0]).name
    try:
        process = subprocess.Popen(
            list(args),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            start_new_session=True,
            cwd="/",
        )
    except OSError as error:
        raise TrialFailed(
            f"CNI plugin {name}: {args[0]} cannot be started ({error.strerror})", remedy=_REPAIR
        ) from None
    with process:
        try:
            stdout, stderr = _communicate(process, text.encode(), timeout_s, name)
        except BaseException:  # before the end of `with`, which waits for the program
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    seconds = time.monotonic() - begun
    return PluginRun(
        process.returncode, stdout.decode(errors="replace"), stderr.decode(errors="replace"),
        seconds,
    )  # fmt: skip


def _communicate(
    process: subprocess.Popen[bytes], data: bytes, timeout_s: float, name: str
) -> tuple[bytes, bytes]:
    """Write the input, read both outputs up to a limit, and wait for the end of the program. Raises
    TrialFailed beyond the limit, and PluginHung after the timeout."""
    assert process.stdin is not None and process.stdout is not None and process.stderr is not None
    outputs = {process.stdout: bytearray(), process.stderr: bytearray()}
    view, deadline = memoryview(data), time.monotonic() + timeout_s
    problem, remedy = f"not done within {timeout_s:g} s, killed", _REPAIR
    with (
        os.fdopen(os.pidfd_open(process.pid), "rb") as end,
        selectors.DefaultSelector() as selector,
    ):
        selector.register(end, selectors.EVENT_READ)
        os.set_blocking(process.stdin.fileno(), False)
        selector.register(process.stdin, selectors.EVENT_WRITE)
        for stream in outputs:
            selector.register(stream, selectors.EVENT_READ)
        while selector.get_map():
            remaining_s = deadline - time.monotonic()
            if remaining_s <= 0:
                raise PluginHung(f"CNI plugin {name}: {problem}", remedy=remedy)
            for key, _ in selector.select(remaining_s):
                if key.fileobj is end:
                    selector.unregister(end)
                    deadline = min(deadline, time.monotonic() + LEFT_OPEN_S)
                    problem = "it ended, and a process that it started keeps its output open"
                    remedy = "let that process close its standard output and standard error"
                    continue
                if key.fileobj is process.stdin:
                    view = _written(process, view)
                    if not view:
                        selector.unregister(process.stdin)
                        with suppress(BrokenPipeError):
                            process.stdin.close()
                    continue
                chunk = os.read(key.fd, 65536)
                buffer = outputs[key.fileobj]  # type: ignore[index]
                buffer += chunk
                if not chunk:
                    selector.unregister(key.fileobj)
                if len(buffer) > MOST_OUTPUT:
                    raise TrialFailed(
                        f"CNI plugin {name}: it printed more than {MOST_OUTPUT >> 20} MiB",
                        remedy=_REPAIR,
                    )
    return bytes(outputs[process.stdout]), bytes(outputs[process.stderr])


def _written(process: subprocess.Popen[bytes], view: memoryview) -> memoryview:
    """Write a part of the input; return the rest. A program that does not read it gets none."""
    assert process.stdin is not None
    try:
        return view[os.write(process.stdin.fileno(), view) :]
    except BlockingIOError:
        return view
    except BrokenPipeError:
        return view[len(view) :]


def undo_attachment(
    place: Place,
    host: PrivateHost,
    stored: str,
    folders: Sequence[str],
    result: str,
    session: str,
) -> None:
    """Run DEL with a stored list and a stored result (may be empty). A host that is gone took the
    attachment with it. Raises OSError if DEL fails twice."""
    if not host.exists():
        return
    try:
        network = parse(stored, "the stored configuration list")
        runtime = Runtime(host, network, [Path(one) for one in folders], session)
        runtime.delete(place, json.loads(result) if result else None)
    except (TrialFailed, UnavailableError, UsageError) as error:
        raise OSError(str(error)) from None
    finally:
        host.close()
