"""The command line of a node's QEMU, and its guest's job. Pure: values to values.

The devices sit at fixed places of the guest's PCI bus, so that the engine in it can be told of them
before there is a guest. Offloads are off, as on every port of a trial: frames leave and arrive as
they are on the wire.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from switchmark.environment.support.rootfs import BUSYBOX_INSIDE, ENGINE_INSIDE
from switchmark.environment.vm.image import JOB, Image
from switchmark.environment.vm.packages import Qemu
from switchmark.model.node import NodePort
from switchmark.model.ports import PortKind

KVM, EMULATED = "kvm", "tcg,thread=multi"  # as QEMU calls them
MEMORY_MB = 384
HUGEPAGES = 64  # of 2 MB: what the engine's DPDK ports take (64 MB unless they need more), and EAL
FIRST_SLOT = 0x10  # of the ports, on the guest's PCI bus
SERIAL_SLOT = 0x08
QUEUE_SIZE = 1024  # of the receive ring, and over vhost-user of the transmit ring, too
# Before, an emulated virtio device with message-signalled interrupts crashes QEMU when its
# back end is another process.
FIRST_WITHOUT_TRAP = (8, 0)
JOINED = '{"v":2,"event":"ready","role":"bridge"}'
STARTS = '{"v":2,"event":"ready","role":"program"}'
# With two ports there is nothing to learn: what comes in by one goes out by the other.
BRIDGE_LINES = (
    "$b brctl addbr br0",
    "$b brctl stp br0 off",
    "$b brctl setfd br0 0",
    "echo 0 >/sys/class/net/br0/bridge/multicast_snooping",
)
OFFLOADS = (
    *("csum", "gso", "guest_csum", "guest_tso4", "guest_tso6", "guest_ecn", "guest_ufo"),
    *("host_tso4", "host_tso6", "host_ecn", "host_ufo"),
)
NO_DRIVER = "SWITCHMARK_VM_KERNEL names another kernel"
SANDBOX = "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"


@dataclass(frozen=True, slots=True)
class GuestPort:
    """A port of the machine, and what is behind it on the host."""

    kind: PortKind
    mac: str
    socket: Path | None = None  # vhost-user: QEMU listens there
    tap: str | None = None
    in_kernel: bool = False  # of a tap: by vhost-net
    function: str | None = None  # of the host's PCI bus: the guest has the device itself


def pci_address(number: int) -> str:
    """The place of port `number` on the guest's PCI bus."""
    return f"0000:00:{FIRST_SLOT + number:02x}.0"


def device_name(number: int) -> str:
    """The name of the device in the guest's kernel, if no other driver has it."""
    return f"eth{number}"


def job(ports: Sequence[NodePort], engine_args: Sequence[str]) -> str:
    """The guest's job, for the shell that is its first process."""
    driven = [n for n in range(len(ports)) if uses_dpdk(engine_args, n)]
    kernels = [n for n in range(len(ports)) if n not in driven]
    # Devices are counted as the kernel finds them, without those that it does not drive.
    lines = [line for n in kernels for line in _set_up(ports[n], device_name(n))]
    return _job([ENGINE_INSIDE, *engine_args], lines, driven)


def bridge_job(ports: Sequence[NodePort]) -> str:
    """The job of a guest whose kernel joins its ports and prints a line once it does."""
    devices = [device_name(number) for number in range(len(ports))]
    lines = [
        *(f"$b ip link set {device} mtu {port.mtu_bytes} up"
          for device, port in zip(devices, ports, strict=True)),
        *BRIDGE_LINES,
        *(f"$b brctl addif br0 {device}" for device in devices),
        *(f"echo 0 >/sys/class/net/{device}/brport/learning" for device in devices),
        "$b ip link set br0 up",
    ]  # fmt: skip
    return _job([BUSYBOX_INSIDE, "sh", "-c", f"echo '{JOINED}'; exec cat >/dev/null"], lines)


def program_job(ports: Sequence[NodePort], args: Sequence[str], env: Mapping[str, str]) -> str:
    """The job of a guest that runs a program of the user's and prints a line right before it
    starts.

    The program ends when the machine's standard input does, so that nothing runs on without us; its
    output is among the guest's last words."""
    lines = [line for n, port in enumerate(ports) for line in _set_up(port, device_name(n))]
    settings = shlex.join(f"{name}={value}" for name, value in env.items())
    script = (
        f"echo '{STARTS}'; exec 4<&0; {settings} {shlex.join(args)} </dev/null >&2 & p=$!; "
        "{ cat <&4 >/dev/null; kill $p; } & wait $p"
    )
    return _job([BUSYBOX_INSIDE, "sh", "-c", script], lines)


def _job(run: Sequence[str], set_up: Sequence[str], driven: Sequence[int] = ()) -> str:
    """What to run, how the kernel's devices are set up, and the ports that DPDK drives."""
    return "\n".join(
        [
            f"dpdk={shlex.quote(' '.join(map(pci_address, driven)))}",
            f"run={shlex.quote(shlex.join(run))}",
            *("ports() {", "  :", *(f"  {line}" for line in set_up), "}", ""),
        ]
    )


def uses_dpdk(engine_args: Sequence[str], number: int) -> bool:
    """Whether the engine drives that port itself."""
    return f"dpdk:pci={pci_address(number)}" in engine_args


def _set_up(port: NodePort, device: str) -> list[str]:
    lines = []
    if port.kind is PortKind.VF:  # some drivers make the device later, and some VFs have none here
        there = f"there /sys/class/net/{device}"
        lines.append(f'{there} || off "no driver of this kernel makes a VF {device}; {NO_DRIVER}"')
    lines.append(f"$b ip link set {device} mtu {port.mtu_bytes} up")
    if port.ip and port.device_mac is None:  # else the engine brings its own address
        peer = port.peer_ip.partition("/")[0]
        lines += [
            f"$b ip addr add {port.ip} dev {device}",
            f"$b arp -i {device} -s {peer} {port.peer_mac}",
        ]
    return lines


def command(
    qemu: Qemu,
    image: Image,
    accelerator: str,
    ports: Sequence[GuestPort],
    *,
    name: str,
    job_file: Path,
    hugepages: int = 0,
    vcpus: int = 1,
) -> list[str]:
    """The whole command line. Standard input and output are the engine's; on standard error are the
    complaints of QEMU, the guest's kernel and the engine."""
    quirk = _quirk(qemu, accelerator)
    memory = f"memory-backend-memfd,id=memory,size={MEMORY_MB}M,share=on"
    return [
        str(qemu.program),
        *qemu.data,
        *("-name", f"{name},debug-threads=on", "-sandbox", SANDBOX),
        *("-no-user-config", "-nodefaults", "-no-reboot", "-display", "none", "-monitor", "none"),
        *("-machine", "q35,memory-backend=memory", "-object", memory, "-m", f"{MEMORY_MB}M"),
        *("-accel", accelerator, "-cpu", "host" if accelerator == KVM else "max"),
        *("-smp", str(vcpus)),
        *("-kernel", str(image.kernel), "-initrd", str(image.initramfs)),
        *("-append", kernel_words(hugepages)),
        *("-fw_cfg", f"name={JOB},file={job_file}"),
        *("-chardev", "file,id=words,path=/dev/stderr", "-serial", "chardev:words"),
        *("-device", f"virtio-serial-pci,addr={SERIAL_SLOT:#x}"),
        *("-chardev", "stdio,id=engine,signal=off"),
        *("-device", "virtserialport,chardev=engine,nr=1,name=engine"),
        *(word for n, port in enumerate(ports) for word in _port(port, n, quirk)),
    ]


def kernel_words(hugepages: int) -> str:
    """The guest kernel's own command line: no frames of its own, no second boot, and no check of
    its timers, which an emulated machine without a core would take for broken."""
    pages = f" hugepages={hugepages}" if hugepages else ""
    return f"console=ttyS0 quiet panic=-1 no_timer_check net.ifnames=0 ipv6.disable=1{pages}"


def _quirk(qemu: Qemu, accelerator: str) -> str:
    return ",vectors=0" if accelerator != KVM and qemu.version < FIRST_WITHOUT_TRAP else ""


def _port(port: GuestPort, number: int, quirk: str) -> list[str]:
    name = f"port{number}"
    if port.function is not None:
        place = f"id={name},addr={FIRST_SLOT + number:#x}"
        return ["-device", f"vfio-pci,host={port.function},{place},rombar=0"]
    rings = f"rx_queue_size={QUEUE_SIZE}"
    if port.kind is PortKind.VHOST_USER:
        rings += f",tx_queue_size={QUEUE_SIZE}"
        behind = [
            *("-chardev", f"socket,id=c{name},path={port.socket},server=on"),
            *("-netdev", f"vhost-user,id={name},chardev=c{name}"),
        ]
    else:
        vhost = "on" if port.in_kernel else "off"
        tap = f"tap,id={name},ifname={port.tap},script=no,downscript=no,vhost={vhost}"
        behind = ["-netdev", tap]
    off = "".join(f",{offload}=off" for offload in OFFLOADS)
    device = f"virtio-net-pci,netdev={name},mac={port.mac},addr={FIRST_SLOT + number:#x}"
    return [*behind, "-device", f"{device},romfile=,{rings}{off}{quirk}"]
