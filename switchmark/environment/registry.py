"""The environments there are, by name. A new one is a module here and a line below."""

from __future__ import annotations

from collections.abc import Callable

from switchmark.environment.bare import BareEnvironment
from switchmark.environment.base import Environment
from switchmark.environment.docker import DockerEnvironment
from switchmark.environment.lxc import LxcEnvironment
from switchmark.environment.netns import NetnsEnvironment
from switchmark.environment.qemu import QemuEnvironment

ENVIRONMENTS: dict[str, Callable[[], Environment]] = {
    "bare": BareEnvironment,
    "netns": NetnsEnvironment,
    "lxc": LxcEnvironment,
    "docker": DockerEnvironment,
    "qemu": QemuEnvironment,
}
