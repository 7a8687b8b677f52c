"""`cni`: a network of CNI plugins, in a host that is a network namespace.

The bench is the container runtime: it runs the plugins of a configuration list for each end. The
list and the folder of the plugins are the user's or built in. Devices that a list names as parents
(`master`) are veth pairs of the bench in that host.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from ipaddress import IPv4Network
from pathlib import Path

from switchmark.errors import SwitchmarkError, TrialFailed, UsageError
from switchmark.host import place
from switchmark.host.container_networks import conflist
from switchmark.host.container_networks.cni import (
    Place,
    Runtime,
    find_plugin,
    plugin_folders,
)
from switchmark.host.container_networks.cni_result import Result
from switchmark.host.container_networks.conflist import BUILT_IN, UPLINK, ConfigurationList
from switchmark.host.container_networks.probe import Listener, wait_for_answer
from switchmark.host.place import Facility
from switchmark.host.process_output import output_of
from switchmark.host.programs import not_installed
from switchmark.host.undo.entries import CniAttachment
from switchmark.model.attaching import AttachTimes
from switchmark.model.capabilities import (
    Availability,
    SwitchOption,
    available,
    unavailable_for,
)
from switchmark.model.ports import NetworkEnd, SwitchPort
from switchmark.switch.support import overlay
from switchmark.switch.support.in_kernel import veth_lines
from switchmark.switch.support.network import (
    ANSWER_TIMEOUT_S,
    NETWORK,
    Host,
    NetworkSwitch,
    end_processes_in,
)

DEVICE = "eth0"
AUTO = "auto"


class Cni(NetworkSwitch):
    """A network of one configuration list; each end is an attachment."""

    name = "cni"
    capabilities = replace(
        NETWORK,
        attaches=True,
        overhead_s=1.0,
        cannot_reconfigure="its plugins attach and detach ends, which method attach measures",
        description="network of CNI plugins; the bench is the container runtime",
        options=(
            SwitchOption(
                "conflist",
                "network configuration list of CNI",
                "bridge",
                BUILT_IN,
                path="a file",
            ),
            SwitchOption(
                "plugins",
                "folder of the plugins; `auto`: CNI_PATH, /opt/cni/bin, /usr/lib/cni",
                AUTO,
                (AUTO,),
                path="a folder",
            ),
            overlay.OPTION,
        ),
    )

    def configure(self, options: Mapping[str, str]) -> None:
        """See `WithOptions`; also read the list. Raises UsageError with the place of a mistake."""
        super().configure(options)
        self.networks()
        folder = self.option("plugins")
        if folder != AUTO and not Path(folder).is_dir():
            raise UsageError(
                f"cni: switch option plugins is {folder}, which is not a folder",
                remedy="name the folder that contains the plugins",
            )

    def configuration(self) -> ConfigurationList:
        """Return the chosen list. Raises UsageError."""
        chosen = self.option("conflist")
        return conflist.load(Path(chosen)) if "/" in chosen else conflist.built_in(chosen)

    def networks(self) -> list[tuple[ConfigurationList, IPv4Network | None]]:
        """Return the list of each host, with its subnet if there are two hosts. Raises
        UsageError."""
        network, chosen = self.configuration(), self.option(overlay.OPTION.name)
        if chosen == overlay.OFF:
            return [(network, None)]
        mtu_bytes = overlay.inner_mtu_bytes(chosen)
        return [conflist.of_host(network, side, mtu_bytes) for side in (0, 1)]

    def folders(self) -> tuple[Path, ...]:
        """Return the folders of plugins."""
        chosen = self.option("plugins")
        return plugin_folders("" if chosen == AUTO else chosen)

    def availability(self) -> Availability:
        """Available with network namespaces, `ip`, and the plugins of the list."""
        problem = place.missing(Facility.NETWORK_NAMESPACE) or not_installed("ip", "iproute2")
        if problem is not None:
            return problem
        try:
            network, folders = self.configuration(), self.folders()
            programs = [
                find_plugin(kind, folders) for kind in (*network.types, *network.ipam_types())
            ]
        except SwitchmarkError as error:
            return unavailable_for(error)
        return available(f"{_version_of(programs[0])} in {programs[0].parent}")

    def prepare_host(self, host: Host) -> None:
        """Make the parents that the list names, and a default route over the uplink."""
        if host is self.hosts[0]:
            self._runtimes: list[Runtime] = []
            self._attached: dict[int, tuple[Runtime, Place, Result, int]] = {}
            self._listener: Listener | None = None
            self._mutex = threading.Lock()
            self._checked = ""
        self.resources.at_end(partial(end_processes_in, self.session.id, host.namespace.name))
        written, _ = self.networks()[len(self._runtimes)]
        self._network = network = _with_own_state(written)
        runtime = Runtime(host.private, network, self.folders(), self.session.id)
        self._runtimes.append(runtime)
        self._parents = tuple(dict.fromkeys((UPLINK, *network.parents)))
        pairs = [(parent, f"smfar{number}") for number, parent in enumerate(self._parents)]
        host.namespace.batch(
            "ip",
            [
                *veth_lines(pairs),
                f"address add 192.0.2.2/24 dev {UPLINK}",
                f"route add default via 192.0.2.1 dev {UPLINK}",
            ],
        )
        runtime.status()

    def make_ends(self, requested: Sequence[SwitchPort]) -> list[NetworkEnd]:
        """Attach a namespace for each port."""
        if self.overlay is not None:
            subnets = [subnet for _, subnet in self.networks() if subnet is not None]
            self.overlay.route_subnets(subnets)
        count = len(self._runtimes)
        ends = [
            self.attach(port.index, self._runtimes[port.index % count])[0] for port in requested
        ]
        for number, end in enumerate(ends):
            if same := next((one for one in ends[:number] if one.ip == end.ip), None):
                raise TrialFailed(
                    f"{self._network.where}: {same.netns} and {end.netns} have the same address "
                    f"{end.ip}",
                    remedy="use an ipam plugin that gives each attachment an address, such as "
                    "host-local",
                )
        runtime, place, result, _ = self._attached[requested[0].index]
        self._checked = runtime.check(place, result.document)
        return ends

    def attach(self, number: int, runtime: Runtime) -> tuple[NetworkEnd, float]:
        """Make a namespace and run ADD for it; return the end, and the seconds of ADD. DEL removes
        the objects that a failed ADD created."""
        netns = self.make_end_namespace(f"sm{self.session.id}e{number}")
        place = Place(f"sm{self.session.id}-{number}", netns, DEVICE)
        begun = _entry(runtime, place, "")
        ledger = self.session.ledger
        with ledger.making(begun) as (entry_of_begin,):
            begun_s = time.monotonic()
            result = runtime.add(place)
            seconds = time.monotonic() - begun_s
        # The result is kept before anything relies on it: DEL needs it.
        entry_with_result = self.resources.note(replace(begun, result=json.dumps(result.document)))
        ledger.strike(entry_of_begin)
        self._attached[number] = (runtime, place, result, entry_with_result)
        interface, cidr, gateway = result.inside(netns, DEVICE)
        return NetworkEnd(netns, DEVICE, interface.mac, cidr, gateway), seconds

    def attach_timed(self, number: int) -> AttachTimes:
        """See `Attacher`: the first end of the first pair answers. With two hosts, it is in the
        first and the new end is in the second, so that the answer crosses the overlay."""
        end, add_s = self.attach(number, self._runtimes[-1])
        begun_s = time.monotonic()
        wait_for_answer(end.netns, self._answering(), self._first_address, ANSWER_TIMEOUT_S)
        return AttachTimes(add_s, add_s + time.monotonic() - begun_s)

    def detach_timed(self, number: int) -> float:
        """See `Attacher`. Raises TrialFailed if DEL fails twice; the ledger then has it."""
        runtime, place, result, entry = self._attached.pop(number)
        begun_s = time.monotonic()
        runtime.delete(place, result.document)
        seconds = time.monotonic() - begun_s
        self.session.ledger.strike(entry)
        self.remove_end_namespace(place.netns)
        return seconds

    @property
    def _first_address(self) -> str:
        return self.ends[0].ip.partition("/")[0]

    def _answering(self) -> Listener:
        """Return the listener at the first end, which is made once."""
        with self._mutex:
            if self._listener is None:
                self._listener = Listener(self.ends[0].netns, self._first_address)
                self.resources.at_end(self._listener.close)
            return self._listener

    def seconds_to_start(self) -> float:
        """Return the seconds that starting all programs of an ADD takes, by VERSION."""
        kinds = (*self._network.types, *self._network.ipam_types())
        return sum(self._runtimes[0].seconds_to_start(kind) for kind in kinds)

    def details(self) -> dict[str, str]:
        """The list, its plugins, and what the runtime saw."""
        digest = hashlib.sha256(self._runtimes[0].network.text.encode()).hexdigest()[:16]
        stood_in = [parent for parent in self._parents if parent in self._network.parents]
        return {
            "version": self.availability().version or "",
            "datapath": "kernel, senders' softirq: as the plugins set it up",
            "connect_mode": self.mode.value,
            **self.option_details(),
            "cni_version": self._runtimes[0].version,
            "network": self._network.name,
            "chain": " ".join(self._network.types),
            "conflist_sha256": digest,
            "mtu": self.mtu,
            **self.overlay_details(),
            **self.network_state(),
            "check": self._checked or "no objection",
            **({"parents": f"{', '.join(stood_in)}: veth pairs of the bench"} if stood_in else {}),
        }


def _entry(runtime: Runtime, place: Place, result: str) -> CniAttachment:
    return CniAttachment(
        container=place.container,
        netns=place.netns,
        ifname=place.ifname,
        host=runtime.host.netns,
        folder=str(runtime.host.folder),
        conflist=runtime.network.text,
        plugins=":".join(map(str, runtime.folders)),
        result=result,
    )


def _version_of(program: Path) -> str:
    """Return the version that a plugin prints if it is started without a command."""
    printed = output_of([program], {"PATH": "/usr/bin:/bin"})
    found = re.search(r"plugin\s+v?(\d+(?:\.\d+){1,3})\b", printed[:1000])
    spoken = re.findall(r"\b\d+\.\d+\.\d+\b", printed[:1000])
    return f"plugins {found[1]}" if found else f"plugins for CNI {spoken[-1] if spoken else '1'}"


def _with_own_state(network: ConfigurationList) -> ConfigurationList:
    """Return the list with the address files of `host-local` in the private host, which can write
    only there."""
    document = json.loads(network.text)
    changed = False
    for plugin in document.get("plugins", [document]):
        ipam = plugin.get("ipam")
        data = ipam.get("dataDir") if isinstance(ipam, dict) else None
        if isinstance(data, str) and not data.startswith("/var/lib/cni/"):
            ipam["dataDir"] = f"/var/lib/cni/data{data}"
            changed = True
    return conflist.parse(json.dumps(document), network.where) if changed else network
