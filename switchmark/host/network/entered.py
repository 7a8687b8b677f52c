"""Opens endpoints that exist already: finds their process and network namespace."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import UnavailableError, UsageError
from switchmark.host.kernel.namespaces import NETNS_DIR
from switchmark.host.kernel.procfs import ProcessIdentity, parse_pid
from switchmark.host.network import cri
from switchmark.host.network.handle import HeldBy, NamespaceHandle, own_namespace
from switchmark.host.process_output import stdout_of
from switchmark.host.programs import which
from switchmark.model.endpoints import Endpoint, EndpointKind

DOCKER_FORMAT = "{{.State.Running}} {{.State.Pid}}"
PACKAGES = {"docker": "docker.io", "podman": "podman", "lxc-info": "lxc"}


@dataclass(frozen=True, slots=True)
class OpenEndpoint:
    """An endpoint with its open namespace."""

    endpoint: Endpoint
    handle: NamespaceHandle
    holder: HeldBy | None = None  # the process whose namespace it is
    device: str | None = None  # the only device of the endpoint; None: any

    def moved(self) -> str | None:
        """The reason why the endpoint is no longer the one that was opened; None if it is."""
        if self.holder is not None:
            now = self.holder.moved_to()
            if now is None:
                return f"{self.endpoint} has ended or was restarted"
            if now != self.handle.inode:
                return f"{self.endpoint} is in another network namespace than before"
        elif self.endpoint.kind is EndpointKind.NETNS:
            try:
                now = (NETNS_DIR / self.endpoint.name).stat().st_ino
            except OSError:
                now = None
            if now != self.handle.inode:
                return f"{self.endpoint} was removed or made again"
        return None


@contextmanager
def opened(endpoints: Sequence[Endpoint]) -> Iterator[list[OpenEndpoint]]:
    """Open endpoints; close them at the end. Raises UnavailableError, UsageError."""
    with ExitStack() as stack:
        found = []
        for endpoint in endpoints:
            found.append(open_endpoint(endpoint))
            stack.callback(found[-1].handle.close)
        yield found


def open_endpoint(endpoint: Endpoint) -> OpenEndpoint:
    """Open the network namespace of an endpoint. Raises UnavailableError, UsageError."""
    match endpoint.kind:
        case EndpointKind.NETNS:
            return OpenEndpoint(endpoint, _opened(endpoint, NETNS_DIR / endpoint.name))
        case EndpointKind.DEVICE:
            return _device(endpoint)
        case EndpointKind.ADDRESS:
            raise UsageError(f"{endpoint}: an address cannot be entered; name it as the second end")
        case EndpointKind.PID:
            return _of_process(endpoint, int(endpoint.name))
        case EndpointKind.DOCKER | EndpointKind.PODMAN:
            return _of_process(endpoint, _container_pid(endpoint))
        case EndpointKind.LXC:
            return _of_process(endpoint, _lxc_pid(endpoint))
        case EndpointKind.POD:
            return _of_process(endpoint, cri.pid_of_pod(endpoint.name))


def _device(endpoint: Endpoint) -> OpenEndpoint:
    handle = own_namespace()
    lines = handle.inside(Path("/proc/thread-self/net/dev").read_text).splitlines()[2:]
    if endpoint.name not in {line.partition(":")[0].strip() for line in lines}:
        handle.close()
        raise UnavailableError(
            f"{endpoint}: there is no such network device", remedy="see `ip link`"
        )
    return OpenEndpoint(endpoint, handle, device=endpoint.name)


def _of_process(endpoint: Endpoint, pid: int) -> OpenEndpoint:
    identity = ProcessIdentity.of(pid)
    if identity is None:
        raise UnavailableError(f"{endpoint}: process {pid} does not run", remedy="see `ps -e`")
    handle = _opened(endpoint, Path(f"/proc/{pid}/ns/net"))
    if not identity.alive():
        handle.close()
        raise UnavailableError(f"{endpoint}: process {pid} has just ended", remedy="try again")
    return OpenEndpoint(endpoint, handle, HeldBy(identity))


def _opened(endpoint: Endpoint, path: Path) -> NamespaceHandle:
    try:
        return NamespaceHandle.open(path, str(endpoint))
    except PermissionError:
        raise UnavailableError(
            f"{endpoint}: another user's network namespace cannot be seen", remedy="use sudo"
        ) from None
    except FileNotFoundError:
        raise UnavailableError(
            f"{endpoint}: there is no {path}", remedy="see `ip netns` and `lsns -t net`"
        ) from None
    except OSError as error:
        raise UnavailableError(f"{endpoint}: {path}: {error.strerror}") from None


def _container_pid(endpoint: Endpoint) -> int:
    program = endpoint.kind.value
    _require(endpoint, program)
    answer = (
        stdout_of([program, "inspect", "--type", "container", "-f", DOCKER_FORMAT, endpoint.name])
        or ""
    ).split()
    if len(answer) != 2:
        raise UnavailableError(
            f"{endpoint}: {program} has no such container", remedy=f"see `{program} ps`"
        )
    pid = parse_pid(answer[1])
    if answer[0] != "true" or pid is None:
        raise UnavailableError(
            f"{endpoint}: the container does not run", remedy=f"{program} start {endpoint.name}"
        )
    return pid


def _lxc_pid(endpoint: Endpoint) -> int:
    _require(endpoint, "lxc-info")
    pid = parse_pid(stdout_of(["lxc-info", "-n", endpoint.name, "-p", "-H"]) or "")
    if pid is None:
        raise UnavailableError(
            f"{endpoint}: LXC has no such container that runs", remedy="see `lxc-ls --running`"
        )
    return pid


def _require(endpoint: Endpoint, program: str) -> None:
    if which(program) is None:
        raise UnavailableError(
            f"{endpoint}: there is no `{program}` program here",
            remedy=f"apt install {PACKAGES[program]}",
        )
