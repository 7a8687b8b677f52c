"""A testbed: its hosts and how they are reached, their cable, and when it is fit to measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class SshTarget:
    """A host that is reached by SSH."""

    name: str
    address: str
    port: int = 22
    user: str | None = None  # None: as whom the bench runs
    key: Path | None = None  # None: the user's own keys, or the agent's
    known_hosts: Path = Path("~/.ssh/known_hosts")
    become: str = "none"  # how the account gets the rights: it has them, or by sudo
    python: str = "python3"  # at least 3.11
    settings: tuple[tuple[str, str], ...] = ()  # environment variables of the bench there

    def __str__(self) -> str:
        return f"host {self.name} ({self.address})"


@dataclass(frozen=True, slots=True)
class PodTarget:
    """A pod that is reached by `kubectl exec`."""

    name: str
    namespace: str
    pod: str
    container: str = ""  # empty: the first one of the pod
    context: str | None = None  # a name in the kubeconfig file; None: the current one
    kubeconfig: Path | None = None  # None: the usual file
    python: str = "python3"  # at least 3.11
    settings: tuple[tuple[str, str], ...] = ()  # environment variables of the bench there

    @property
    def address(self) -> str:
        """The name of the pod, for people."""
        return f"pod {self.namespace}/{self.pod}"

    def __str__(self) -> str:
        return f"host {self.name} ({self.address})"


Target = SshTarget | PodTarget


@dataclass(frozen=True, slots=True)
class Cable:
    """Two interfaces that face each other: this machine's, and another host's. Each is the name of
    a network device, or the PCI address of a NIC that DPDK drives."""

    near: str
    far: str

    @property
    def exists(self) -> bool:
        """Return False if the hosts are joined only by a network that the user has."""
        return bool(self.near)


NO_CABLE = Cable("", "")


@dataclass(frozen=True, slots=True)
class Testbed:
    """The hosts that trials between hosts run on."""

    __test__ = False  # pytest would take it for a test by its name

    path: Path
    near: str  # how this machine is called
    far: Target
    cable: Cable
    others: tuple[Target, ...] = ()  # hosts that it names beside these two


@dataclass(frozen=True, slots=True)
class HealthLimits:
    """The limits within which a testbed of a pool may measure, as its owner sets them."""

    busy_cores: float | None = None  # cores that other programs use; None: half of all
    wire_tolerance: float = 1.5  # ratio of two baselines; a machine's states differ by less
