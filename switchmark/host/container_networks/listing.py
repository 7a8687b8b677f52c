"""Lists the networks of this host: CNI, Docker, bridges and Open vSwitch. It only reads.

Each row states what a measurement would need. Names and texts of other programs are untrusted.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from switchmark.errors import SwitchmarkError
from switchmark.formatting import encodable, printable
from switchmark.host.container_networks import conflist
from switchmark.host.container_networks.cni import find_plugin, plugin_folders
from switchmark.host.network.guard_rails import judge_bridge
from switchmark.host.network.handle import own_namespace
from switchmark.host.network.state import NamespaceState, read_state
from switchmark.host.process_output import stdout_of
from switchmark.host.programs import which

CNI_FOLDERS = ("/etc/cni/net.d",)
_SUFFIXES = (".conflist", ".conf", ".json")
_OPTION_PATH = re.compile(r"[A-Za-z0-9._/-]+")  # as campaigns can write it
_DRIVERS = ("bridge", "macvlan", "ipvlan", "host")
_MOST = 1000
_TIMEOUT_S = 5.0


@dataclass(frozen=True, slots=True)
class NetworkRow:
    """A network of this host."""

    name: str
    kind: str
    details: str
    needs: str  # the command that measures it, or what is missing


def networks() -> list[NetworkRow]:
    """Return the networks of this host, in a fixed order."""
    rows = [*_cni(), *_docker()]
    state = _host_state()
    if state is not None:
        rows += _bridges(state)
    rows += _open_vswitch()
    return rows[:_MOST]


def _host_state() -> NamespaceState | None:
    with suppress(OSError, SwitchmarkError):
        handle = own_namespace()
        try:
            return read_state(handle)
        finally:
            handle.close()
    return None


def _cni(folders: tuple[str, ...] = CNI_FOLDERS) -> Iterator[NetworkRow]:
    for folder in map(Path, folders):
        with suppress(OSError):
            for path in sorted(folder.iterdir())[:_MOST]:
                if path.suffix in _SUFFIXES and path.is_file():
                    yield _cni_row(path)


def _cni_row(path: Path) -> NetworkRow:
    try:
        network = conflist.load(path)
        for kind in (*network.types, *network.ipam_types()):
            find_plugin(kind, plugin_folders(""))
    except SwitchmarkError as error:
        return NetworkRow(_text(str(path)), "cni", "", _text(str(error)))
    chain = "+".join(network.types)
    if _OPTION_PATH.fullmatch(str(path)) is None:
        needs = "a copy whose path has only letters, digits and . _ - /"
    else:
        needs = f"switchmark trial cni --set switch_options=conflist:{path}"
    return NetworkRow(_text(str(path)), "cni", f"{network.name}: {chain}", needs)


def _docker() -> Iterator[NetworkRow]:
    if which("docker") is None:
        return
    form = "{{.Name}}\t{{.Driver}}"
    text = stdout_of(["docker", "network", "ls", "--format", form], _TIMEOUT_S)
    for line in (text or "").splitlines()[:_MOST]:
        name, _, driver = line.partition("\t")
        known = driver in _DRIVERS and name != "none"
        needs = (
            f"one like it: switchmark trial docker-network --set switch_options=driver:"
            f"{'user-bridge' if driver == 'bridge' and name != 'bridge' else driver}"
            if known
            else f"driver {_text(driver)} is not measured"
        )
        yield NetworkRow(_text(name), "docker", _text(driver), needs)


def _bridges(state: NamespaceState) -> Iterator[NetworkRow]:
    for link in state.links.values():
        if link.kind != "bridge":
            continue
        ports = state.ports_of(link.name)
        verdict = judge_bridge(state, link.name, ())
        count = f"{len(ports)} port{'' if len(ports) == 1 else 's'}, MTU {link.mtu_bytes}"
        needs = "; ".join(_text(str(one)) for one in verdict.refusals) or "two free addresses"
        yield NetworkRow(_text(link.name), "bridge", count, needs)


def _open_vswitch(query: Callable[..., str | None] = stdout_of) -> Iterator[NetworkRow]:
    if which("ovs-vsctl") is None:
        return
    text = query(["ovs-vsctl", "--timeout=2", "--no-wait", "list-br"], _TIMEOUT_S)
    for name in (text or "").split()[:_MOST]:
        yield NetworkRow(_text(name), "ovs", "Open vSwitch bridge", "two free addresses")


def _text(text: str) -> str:
    return printable(encodable(" ".join(text.split())))[:300]
