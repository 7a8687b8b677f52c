"""The command line of a node's QEMU, and its guest's job. Pure: values to values.

The devices have fixed addresses on the guest's PCI bus, so that the arguments of its engine are
known before its start. Offloads are off, as on every port of a trial, so frames leave and arrive in
the form that they have on the cable.
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

KVM, EMULATED = "kvm", "tcg,thread=multi"  # names in QEMU
MEMORY_MB = 384
HUGEPAGES = 64  # pages of 2 MB for the engine's DPDK ports (64 MB or more) and EAL
FIRST_SLOT = 0x10  # the first port's slot on the guest's PCI bus
SERIAL_SLOT = 0x08
QUEUE_SIZE = 1024  # receive ring, and with vhost-user also transmit ring
# In older versions an emulated virtio device with message-signalled interrupts crashes QEMU if its
# back end is another process.
FIRST_WITHOUT_TRAP = (8, 0)
JOINED = '{"v":2,"event":"ready","role":"bridge"}'
STARTS = '{"v":2,"event":"ready","role":"program"}'
# With two ports a bridge needs no learning: a frame from one port leaves through the other.
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
    """A port of the machine, and its back end on the host."""

    kind: PortKind
    mac: str
    socket: Path | None = None  # vhost-user: QEMU listens there
    tap: str | None = None
    in_kernel: bool = False  # True: a tap uses vhost-net
    function: str | None = None  # PCI address on the host, if the guest has the device itself


def pci_address(number: int) -> str:
    """Return the address of port `number` on the guest's PCI bus."""
    return f"0000:00:{FIRST_SLOT + number:02x}.0"


def device_name(number: int) -> str:
    """Return the name of the device in the guest's kernel, if no other driver has it."""
    return f"eth{number}"


def job(ports: Sequence[NodePort], engine_args: Sequence[str]) -> str:
    """Return the guest's job, for the shell that is its first process."""
    driven = [n for n in range(len(ports)) if uses_dpdk(engine_args, n)]
    kernels = [n for n in range(len(ports)) if n not in driven]
    # Device numbers count only the devices that the kernel drives, in the order of the bus.
    lines = [line for n in kernels for line in _set_up(ports[n], device_name(n))]
    return _job([ENGINE_INSIDE, *engine_args], lines, driven)


def bridge_job(ports: Sequence[NodePort]) -> str:
    """Return the job of a guest whose kernel bridges its ports, and which then prints a line."""
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
    """Return the job of a guest that prints a line and then starts a program of the user.

    The program ends when the machine's standard input ends, so that it never runs without the
    bench; its output goes to the guest's standard error."""
    lines = [line for n, port in enumerate(ports) for line in _set_up(port, device_name(n))]
    settings = shlex.join(f"{name}={value}" for name, value in env.items())
    script = (
        f"echo '{STARTS}'; exec 4<&0; {settings} {shlex.join(args)} </dev/null >&2 & p=$!; "
        "{ cat <&4 >/dev/null; kill $p; } & wait $p"
    )
    return _job([BUSYBOX_INSIDE, "sh", "-c", script], lines)


def _job(run: Sequence[str], set_up: Sequence[str], driven: Sequence[int] = ()) -> str:
    """Return a job: a command, lines that set up the kernel's devices, and the ports of DPDK."""
    return "\n".join(
        [
            f"dpdk={shlex.quote(' '.join(map(pci_address, driven)))}",
            f"run={shlex.quote(shlex.join(run))}",
            *("ports() {", "  :", *(f"  {line}" for line in set_up), "}", ""),
        ]
    )


def uses_dpdk(engine_args: Sequence[str], number: int) -> bool:
    """Return True if the engine drives the port itself."""
    return f"dpdk:pci={pci_address(number)}" in engine_args


def _set_up(port: NodePort, device: str) -> list[str]:
    lines = []
    if port.kind is PortKind.VF:  # some drivers make the device later, and some VFs have none here
        exists = f"there /sys/class/net/{device}"
        lines.append(f'{exists} || off "no driver of this kernel makes a VF {device}; {NO_DRIVER}"')
    lines.append(f"$b ip link set {device} mtu {port.mtu_bytes} up")
    if port.ip and port.device_mac is None:  # otherwise the engine has a different address
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
    """Return the command line. Standard input and output belong to the engine; standard error has
    the messages of QEMU, the guest's kernel and the engine."""
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
        *("-append", kernel_arguments(hugepages)),
        *("-fw_cfg", f"name={JOB},file={job_file}"),
        *("-chardev", "file,id=words,path=/dev/stderr", "-serial", "chardev:words"),
        *("-device", f"virtio-serial-pci,addr={SERIAL_SLOT:#x}"),
        *("-chardev", "stdio,id=engine,signal=off"),
        *("-device", "virtserialport,chardev=engine,nr=1,name=engine"),
        *(word for n, port in enumerate(ports) for word in _port(port, n, quirk)),
    ]


def kernel_arguments(hugepages: int) -> str:
    """Return the guest kernel's command line. The kernel sends no frames itself, does not boot
    twice, and does not check its timers, which seem broken on an emulated machine without a
    core."""
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
