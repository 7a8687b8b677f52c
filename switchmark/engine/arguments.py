"""The engine's command line: which I/O on which port, which addresses, which load."""

from __future__ import annotations

from switchmark.host.cores.placement import CATCH_UP_US
from switchmark.instrument.registry import abilities_for
from switchmark.method.registry import METHODS
from switchmark.model.campaign import sample_s
from switchmark.model.choices import OWN_ENGINE, PLAIN, WIRE, Idle
from switchmark.model.io import IO_ROWS, Io
from switchmark.model.nics import is_pci
from switchmark.model.node import NodePort
from switchmark.model.ports import SOCKET_KINDS, PortKind
from switchmark.model.rates import CONSTANT
from switchmark.model.traffic import ONE_FLOW
from switchmark.model.trial import Trial
from switchmark.model.workload import FRAMES

RING = Trial.model_fields["ring"].default
UDP_PORT_A, UDP_PORT_B = 17000, 17001
SATURATED_PATIENCE = "40ms"
UNFORCED = "unforced"  # socket buffers, within the machine's limits
SENDING = ("sender", "client", "duplex")  # roles that follow a schedule


def resolve_io(io: Io, kind: PortKind) -> Io:
    """The I/O that `auto` stands for on a port of this kind: the fastest the engine has."""
    if io is not Io.AUTO:
        return io
    if kind in SOCKET_KINDS:
        return Io.DPDK
    if kind is PortKind.ATTACHMENT:
        return Io.UDP_MMSG
    return Io.NETMAP if kind is PortKind.VALE else Io.RAW_MMSG


def io_of(trial: Trial, kind: PortKind) -> Io:
    """The I/O of applications in this trial. Before a foreign instrument takes the ports, our
    applications use them in its way, past the IP stack or through it."""
    if trial.io is Io.AUTO and (trial.generator != OWN_ENGINE or trial.workload != FRAMES):
        abilities = abilities_for(trial.generator, trial.workload)
        tool_io = abilities.ports.get(kind) if abilities is not None else None
        return tool_io or resolve_io(Io.AUTO, kind)
    return resolve_io(trial.io, kind)


L2FWD_DRAIN_US = 100  # BURST_TX_DRAIN_US of DPDK's examples/l2fwd

# Those of a VNF that is a program of the user's.
PROGRAM_CAPABILITIES = ("net_raw", "ipc_lock", "sys_nice")


def needed_capabilities(io: Io, kind: PortKind) -> tuple[str, ...]:
    """Capabilities (without CAP_, in small letters) that an application in a container needs for
    this I/O on a port of this kind; a UDP socket needs none."""
    if kind is PortKind.VALE:  # it is handed in, opened
        return ()
    if kind in SOCKET_KINDS:  # there is no device of which more could be wanted
        return tuple(one for one in IO_ROWS[io].container if not one.startswith("net_"))
    return IO_ROWS[io].container


def vnf_capabilities(vnf: str, kind: PortKind) -> tuple[str, ...]:
    """The Linux capabilities that a VNF in a chain needs."""
    if vnf.startswith("/"):
        return PROGRAM_CAPABILITIES
    if vnf == "bridge":  # in the namespace, made from outside
        return ()
    return needed_capabilities(Io.RAW if vnf == "pcap" else resolve_io(Io.AUTO, kind), kind)


def engine_args(
    trial: Trial,
    port: NodePort,
    role: str,
    pair: int,
    end: int,
    idle: str,
    catch_up_us: int = CATCH_UP_US,
) -> list[str]:
    """Return the engine's command line for one end of a pair."""
    own_ip, peer_ip = (ip.partition("/")[0] for ip in (port.ip, port.peer_ip))
    if trial.ip_version == 6:  # frames only; no device has these addresses
        own_ip, peer_ip = (f"2001:2:0:{pair:x}::{1 + one:x}" for one in (end, 1 - end))
    own_udp, peer_udp = (UDP_PORT_A, UDP_PORT_B) if end == 0 else (UDP_PORT_B, UDP_PORT_A)
    args = [
        role,
        "--port", port_spec(
            port,
            _io_at(trial, port),
            trial.ring,
            timed=_is_timed(trial),
            blocks=idle == Idle.BLOCK,
        ),
        "--src-mac", port.mac,
        "--dst-mac", port.peer_mac,
        "--src-ip", own_ip,
        "--dst-ip", peer_ip,
        "--src-port", str(port.udp_port or own_udp),
        "--dst-port", str(port.peer_udp_port or peer_udp),
        "--frame-size", trial.packet_mix or str(trial.packet_size_bytes),
        "--stream", str(pair),
        "--burst", str(trial.burst),
        "--interval", f"{sample_s(trial.interval_s, trial.duration_s):g}",
        "--idle", _between_frames(idle),
        "--session",
    ]  # fmt: skip
    args += _pages(port)
    device = port.lent or (port.nic.tester if port.nic else "")
    if is_pci(device):
        args += ["--eal", f"--allow={device}"]  # DPDK would take every NIC without it
    plain = trial.method == PLAIN  # other methods set these options for each trial
    if role in ("sender", "duplex"):
        args += ["--catch-up-us", str(catch_up_us)]
    if _loses_anyway(trial) and role not in ("sender", "server"):
        args += ["--patience", SATURATED_PATIENCE]
    if role in SENDING:
        if not trial.schedule.has_own_rate:
            args += ["--rate", str(trial.rate_pps or "max")]
        if plain and trial.schedule != CONSTANT:
            args += ["--schedule", trial.schedule]
    if plain and trial.probe_rate_pps is not None:
        beside = ["--probe-rate", str(trial.probe_rate_pps)]
        args += beside if role == "client" else ["--probes", "1"]
    if trial.touch:
        args.append("--touch")
    args += _buffers(trial)
    if trial.split == "src-mac":
        # One address for each chain. Frames come out of the chains with other ones.
        args += ["--flows", f"{trial.pairs}:src-mac"] if end == 0 else []
    elif trial.flows != ONE_FLOW and trial.function.is_plain:  # functions have a table of flows
        args += ["--flows", trial.flows if end == 0 else trial.flows.mirrored]
    if tags := _tags(trial, end):
        args += ["--vlan", tags]
    return args


def _tags(trial: Trial, end: int) -> str:
    """Return the VLAN tags of the frames at one end of a pair. Function `vlan` has them behind its
    trunk port."""
    if "vlan" not in trial.function.names or trial.switch == WIRE:
        return trial.vlan
    trunk = 0 if trial.direction == "pop" else 1
    return str(trial.vid) if end == trunk else ""


def _buffers(trial: Trial) -> list[str]:
    """The engine's option about the buffers of its sockets."""
    return ["--unforced-buffers"] if trial.socket_buffers == UNFORCED else []


def _pages(port: NodePort) -> list[str]:
    return ["--dpdk-pages", "4KiB"] if port.small_pages else []


def _io_at(trial: Trial, port: NodePort) -> Io:
    """The trial's I/O on this very port: the end of a cable may be a NIC that only DPDK reaches."""
    nic = port.lent is not None and port.made_port is not None
    is_auto = trial.io is Io.AUTO and trial.generator == OWN_ENGINE
    return Io.DPDK if nic and is_auto else io_of(trial, port.kind)


def _is_timed(trial: Trial) -> bool:
    """Return True if the command line must make a receiver time frames. Other methods than
    `plain` set this for each trial."""
    if trial.method == PLAIN:
        return trial.probe_rate_pps is not None
    return METHODS[trial.method].times_frames


def _loses_anyway(trial: Trial) -> bool:
    """Return True if the trial saturates the switch, which then loses frames as a rule: of millions
    those few hundred in its rings are not worth a long wait. One that a quota keeps from its core
    is waited for."""
    saturated = trial.rate_pps is None and not trial.schedule.has_own_rate
    return saturated and trial.method == PLAIN and trial.cpu_limit is None


def _between_frames(idle: str) -> str:
    """The engine's `--idle` for ports whose receive call sleeps: then it only applies while a ring
    is full."""
    return Idle.YIELD.value if idle == Idle.BLOCK else idle


def port_spec(
    port: NodePort, io: Io, ring: int = RING, *, timed: bool = False, blocks: bool = False
) -> str:
    """The engine's `--port` value for a node's port. `timed`: frames must not be handed over late.
    The ring that packet_mmap has for a mere counter does that, by up to a millisecond. `blocks`: it
    sleeps in the kernel until a frame comes, where the I/O can."""
    if io is Io.DPDK:
        return f"dpdk:{_dpdk_port(port, ring)}"
    if io is Io.NETMAP and port.made_port is not None and port.made_port.netmap is not None:
        return f"netmap:{port.made_port.netmap}"
    assert port.device_inside is not None and io is not Io.AUTO, (
        f"io {io} on a {port.kind} port: campaign/rules refuses it"
    )
    if io is Io.NETMAP:
        return f"netmap:{port.device_inside}"
    row = IO_ROWS[io]
    parts = [
        (row.arguments or "").replace("DEVICE", port.device_inside),
        row.timed if timed else None,
        "block" if blocks and row.blocks else None,
    ]
    return f"{row.backend}:{','.join(filter(None, parts))}"


def _dpdk_port(port: NodePort, ring: int) -> str:
    if port.made_port is not None and port.made_port.pci is not None:
        return f"pci={port.made_port.pci}"
    if port.socket_inside is None:
        return f"af-packet={port.device_inside}"
    if port.kind is PortKind.MEMIF:
        return f"memif={port.socket_inside},role={'client' if port.back_end else 'server'},id=0"
    if port.back_end:
        return f"vhost={port.socket_inside},client"
    size = "" if ring == RING else f",queue-size={ring}"
    return f"virtio-user={port.socket_inside},server{size}"


def forwarder_args(trial: Trial, ports: tuple[NodePort, ...], idle: str) -> list[str]:
    """The engine's command line for a VNF. Each port has different addresses, so that learning
    switches also forward each frame to the right port."""
    a, b = ports
    io = Io.RAW if trial.vnf == "pcap" else resolve_io(Io.AUTO, a.kind)
    gathers = ["--gather-us", str(L2FWD_DRAIN_US)] if trial.vnf == "l2fwd" else []
    return [
        "forwarder",
        "--port", port_spec(a, io, trial.ring),
        "--port", port_spec(b, io, trial.ring),
        "--mac-update",
        "--src-mac", a.mac,
        "--dst-mac", a.peer_mac,
        "--src-mac-b", b.mac,
        "--dst-mac-b", b.peer_mac,
        *gathers,
        *_buffers(trial),
        *_pages(a),
        "--frame-size", str(trial.frame_sizes.largest),
        "--interval", "1",
        "--idle", _between_frames(idle),
        "--session",
    ]  # fmt: skip
