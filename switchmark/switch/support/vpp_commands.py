"""VPP's start-up configuration, and its CLI commands for the ports and the connect mode."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from switchmark.model.capabilities import SwitchOption
from switchmark.model.choices import STANDARD_MTU_BYTES
from switchmark.model.ports import ConnectMode, PortKind, SwitchPort
from switchmark.switch.support.ports import device_of, peer_index, socket_of
from switchmark.switch.support.program import MAC_AGING_S

BUFFERS = 16384  # per NUMA node; VPP's default
HEAP_MB, STATISTICS_MB = 512, 16
BRIDGE_DOMAIN = 1
PLUGINS = (
    "vhost_plugin.so",
    "memif_plugin.so",
    "af_packet_plugin.so",
)  # in older releases part of VPP itself
CABLE = "cable"  # with the port's number: the interface of a NIC that VPP drives itself
WITNESS = "pipe0.0"  # the monitor port: frames into one end of a pipe end at the other end
MEMIF_RING = 256  # chosen by the client, VPP; the same number as for other port kinds
OPTIONS = (
    SwitchOption(
        "rx_mode",
        "how VPP reads its ports: by polling, after a notification, or by load",
        "polling",
        ("polling", "interrupt", "adaptive"),
    ),
    SwitchOption(
        "cross_connect",
        "command behind `cross-connect`: `set interface l2 xconnect`, or the shorter `l2patch`",
        "xconnect",
        ("xconnect", "l2patch"),
    ),
    SwitchOption(
        "rx_workers",
        "assignment of ports to workers: `pairs`: pairs of ports in turn, so that each sender has "
        "a separate worker if there are enough; `all`: every port in turn, so that of two workers "
        "one has the senders and the other the receivers; `auto`: VPP assigns them",
        "auto",
        ("auto", "pairs", "all"),
    ),
    SwitchOption(
        "cable_driver",
        "driver of VPP for the interface of a cable (`location: remote`, `nics`)",
        "af-packet",
        ("af-packet", "af-xdp"),
    ),
)
DEFAULTS: Mapping[str, str] = {option.name: option.default for option in OPTIONS}


def startup_config(
    folder: Path,
    prefix: str,
    main_core: int,
    workers: Sequence[int],
    more_plugins: Sequence[str] = (),
    nics: Mapping[int, str] | None = None,
    *,
    small_pages: bool = False,
    heap_mb: int = HEAP_MB,
    statistics_mb: int = STATISTICS_MB,
) -> str:
    """Return the start-up configuration, with all paths in the folder and only needed plugins."""
    listed = ",".join(map(str, workers))
    plugins = " ".join(f"plugin {name} {{ enable }}" for name in (*PLUGINS, *more_plugins))
    named = " ".join(f"dev {pci} {{ name {CABLE}{k} }}" for k, pci in (nics or {}).items())
    devices = f"dpdk {{ {named} }}\n" if named else ""
    pages = "4K" if small_pages else "default-hugepage"
    return f"""\
unix {{ nodaemon nobanner cli-no-pager runtime-dir {folder}/run
  cli-listen {folder}/cli.sock pidfile {folder}/run/vpp.pid }}
api-segment {{ prefix {prefix} }}
socksvr {{ socket-name {folder}/api.sock }}
statseg {{ socket-name {folder}/stats.sock size {statistics_mb}M }}
cpu {{ main-core {main_core}{f" corelist-workers {listed}" if workers else ""} }}
memory {{ main-heap-size {heap_mb}M main-heap-page-size 4K }}
buffers {{ buffers-per-numa {BUFFERS} default data-size 2048 page-size {pages} }}
plugins {{ plugin default {{ disable }} {plugins} }}
{devices}"""


def interfaces_of(ports: Sequence[SwitchPort]) -> dict[int, str]:
    """Return VPP's name of each port. VPP numbers vhost-user interfaces in their order."""
    names, vhosts = {}, 0
    for port in ports:
        if port.pci:
            names[port.index] = f"{CABLE}{port.index}"
        elif port.kind is PortKind.VETH:
            names[port.index] = f"host-{device_of(port)}"
        elif port.kind is PortKind.MEMIF:
            names[port.index] = f"memif{port.index + 1}/0"
        else:
            names[port.index] = f"VirtualEthernet0/0/{vhosts}"
            vhosts += 1
    return names


def commands(
    ports: Sequence[SwitchPort],
    mode: ConnectMode,
    options: Mapping[str, str] = DEFAULTS,
    router_macs: Mapping[int, str] | None = None,
    functions: Sequence[str] = (),
    before: Sequence[str] = (),
    joined: Mapping[int, str] | None = None,
    joins: Sequence[str] | None = None,
) -> list[str]:
    """Return the CLI commands for the ports, the connect mode and the functions; the last commands
    set the ports up. `router_macs`: the MAC address of each port, if it matters; `before`: commands
    of functions before the ports are connected; `joined`: the interfaces to connect; `joins`:
    commands that connect them instead of those of the connect mode."""
    names = interfaces_of(ports)
    lines = []
    for port in ports:
        name = names[port.index]
        lines += _create(port, options, (router_macs or {}).get(port.index))
        if port.kind is not PortKind.MEMIF:  # memif always accepts every frame
            lines.append(f"set interface promiscuous on {name}")
        if not _mode_comes_later(port, options):
            lines.append(f"set interface rx-mode {name} {options['rx_mode']}")
        if port.mtu_bytes > STANDARD_MTU_BYTES:
            lines.append(f"set interface mtu packet {port.mtu_bytes} {name}")
    lines += before
    ends = joined or names
    if joins is not None or mode in (ConnectMode.CROSS_CONNECT, ConnectMode.ROUTE):
        # With only two interfaces, VPP of 2026-08 corrupts its heap when their links come up, and
        # aborts or hangs in two of three starts (link_state_process). A third interface avoids it.
        lines.append("pipe create")
    if joins is not None:
        lines += joins
    elif mode is ConnectMode.CROSS_CONNECT:
        patch = options["cross_connect"] == "l2patch"
        command = "test l2patch rx {} tx {}" if patch else "set interface l2 xconnect {} {}"
        lines += [command.format(ends[k], ends[peer_index(k)]) for k in ends]
    elif mode is not ConnectMode.ROUTE:
        lines += _bridge(ports, ends, learning=mode is ConnectMode.LEARNING)
    # A sub-interface can be up only if its port is.
    up = dict.fromkeys([*names.values(), *ends.values()])
    return [*lines, *functions, *(f"set interface state {name} up" for name in up)]


def late_commands(
    ports: Sequence[SwitchPort], options: Mapping[str, str], workers: int = 0
) -> list[str]:
    """Return the commands that need the peers; without `workers` nothing is placed."""
    names = interfaces_of(ports)
    modes = [
        f"set interface rx-mode {names[port.index]} {options['rx_mode']}"
        for port in ports
        if _mode_comes_later(port, options)
    ]
    if workers == 0 or options["rx_workers"] == "auto":
        return modes
    together = 2 if options["rx_workers"] == "pairs" else 1
    return modes + [
        f"set interface rx-placement {names[port.index]} "
        f"queue 0 worker {port.index // together % workers}"
        for port in ports
    ]


def _mode_comes_later(port: SwitchPort, options: Mapping[str, str]) -> bool:
    """Return True if the receive mode needs the peer, as for a vhost-user queue, which polls until
    its peer has sent its notification descriptor."""
    return port.kind is PortKind.VHOST_USER and options["rx_mode"] != "polling"


def _create(port: SwitchPort, options: Mapping[str, str], mac: str | None) -> list[str]:
    if port.pci:
        return []  # VPP found it when it started
    if port.cable and options["cable_driver"] == "af-xdp":
        name = device_of(port)
        return [f"create interface af_xdp host-if {name} num-rx-queues 1 name host-{name}"]
    if port.kind is PortKind.VETH:
        # Offloads are off on the bench's devices. Without this option VPP then announces a header
        # to the kernel that it does not write, and the kernel sends no frame.
        address = f"hw-addr {mac} " if mac else ""
        return [f"create host-interface name {device_of(port)} {address}cksum-gso-disable"]
    if port.kind is PortKind.MEMIF:
        number = port.index + 1  # socket 0 is VPP's default
        return [
            f"create memif socket id {number} filename {socket_of(port)}",
            f"create interface memif id 0 socket-id {number} slave ring-size {MEMIF_RING} "
            f"buffer-size 2048{f' hw-addr {mac}' if mac else ''}",
        ]
    return [f"create vhost-user socket {socket_of(port)}{f' hwaddr {mac}' if mac else ''}"]


def _bridge(ports: Sequence[SwitchPort], names: Mapping[int, str], *, learning: bool) -> list[str]:
    on = int(learning)
    lines = [
        f"create bridge-domain {BRIDGE_DOMAIN} learn {on} forward 1 uu-flood {on} flood {on} "
        f"arp-term 0 mac-age {MAC_AGING_S // 60 if learning else 0}",
        "pipe create",
        f"set interface l2 bridge {WITNESS} {BRIDGE_DOMAIN}",
        *(f"set interface state {end} up" for end in ("pipe0", WITNESS, "pipe0.1")),
    ]
    lines += [f"set interface l2 bridge {name} {BRIDGE_DOMAIN}" for name in names.values()]
    if not learning:
        lines += [
            f"l2fib add {port.mac} {BRIDGE_DOMAIN} {names[port.index]} static"
            for port in ports
            if port.index in names
        ]
    return lines
