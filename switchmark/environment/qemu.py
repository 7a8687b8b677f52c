"""Virtual machines: QEMU with a guest kernel, in which only the engine runs.

A port is a virtio-net device of the guest: over vhost-user, where QEMU shares the guest's memory
with a switch in user space, or over a tap device, which a switch in the kernel takes as any other.
Or it is a virtual function of a NIC, which the guest is given itself (vfio-pci).
Guests use KVM if one starts on it, otherwise software emulation, which the record states and marks.
"""

from __future__ import annotations

import os
from pathlib import Path

from switchmark.engine.binary import NAME as ENGINE
from switchmark.engine.binary import find_engine
from switchmark.environment.support.base import Traits
from switchmark.environment.support.rootfs import no_busybox
from switchmark.environment.vm import accelerator, packages
from switchmark.environment.vm.image import build_image
from switchmark.environment.vm.node import QemuNode, functions_of
from switchmark.errors import SwitchmarkError, UnavailableError, UsageError
from switchmark.host import place
from switchmark.host.host import Host, Session
from switchmark.host.place import Facility
from switchmark.model.capabilities import Availability, available, unavailable, unavailable_for
from switchmark.model.node import NodeSpec
from switchmark.model.ports import PortKind
from switchmark.port.attach import attach
from switchmark.port.attached import in_host_namespace

ENGINE_SETTING = "SWITCHMARK_VM_TRAFFIC"
PCI_DEVICES = Path("/sys/bus/pci/devices")


class QemuEnvironment:
    """Makes nodes that are virtual machines."""

    name = "qemu"
    # Emulated: 1 to 8 guests, which are switched on one after the other, added 3.6 to 3.9 s each on
    # two cores. With KVM it was not measured.
    traits = Traits(noun="virtual machines", guests=True, start_s=1.5, emulated_start_s=3.7)

    def availability(self) -> Availability:
        """Available with QEMU, a guest's kernel or apt to fetch it, a static BusyBox, and root."""
        if (problem := place.missing(Facility.NETWORK_NAMESPACE) or no_busybox()) is not None:
            return problem
        if os.uname().machine != "x86_64":
            return unavailable("only x86-64 guests are made", remedy="use another environment")
        try:
            qemu = packages.qemu()
            packages.machines_folder()
        except (UnavailableError, UsageError) as error:
            return unavailable_for(error)
        if (problem := packages.kernel_problem()) is not None:
            return problem
        guest = packages.kernel_at_hand()
        kernel = f"guest Linux {guest.release}" if guest else "its kernel is fetched at first use"
        version = ".".join(map(str, qemu.version))
        return available(f"QEMU {version}, {kernel}, {_how(qemu)}")

    def port_kinds(self) -> tuple[PortKind, ...]:
        """The kinds of port that its nodes can have."""
        return (PortKind.VHOST_USER, PortKind.TAP, PortKind.VF)

    def create(self, session: Session, spec: NodeSpec) -> QemuNode:
        """Make a machine, not yet switched on, with its ports for a switch, whole or not at all."""
        qemu, how = packages.qemu(), accelerator_here(session.host)
        functions = [_described(address) for address in functions_of(spec).values()]
        image = build_image(guest_engine(emulated=how.emulated), functions)
        place = in_host_namespace(spec)
        with place.or_nothing(session):
            return QemuNode(session, attach(session, place, taps=True), image, qemu, how)

    def create_wire(self, session: Session, a: NodeSpec, b: NodeSpec) -> tuple[QemuNode, QemuNode]:
        """Never asked for: a machine's port needs a switch behind it (campaign/rules/layout.py)."""
        del session
        raise AssertionError(f"wire {a.name}-{b.name} of virtual machines")


def accelerator_here(host: Host) -> accelerator.Accelerator:
    """Return the accelerator of guests here. If it is unknown, a guest is started to try it, which
    takes a second, or `accelerator.TRIAL_S`. Raises UnavailableError if no guest can be started."""
    qemu = packages.qemu()
    found = accelerator.known(qemu)
    return found or accelerator.choose(host, qemu, build_image(find_engine()))


def _described(address: str) -> str:
    """The kernel's alias of a PCI function, which selects its driver."""
    return (PCI_DEVICES / address / "modalias").read_text().strip()


def guest_engine(*, emulated: bool) -> Path:
    """Return the engine for guests: `SWITCHMARK_VM_TRAFFIC` if it is set; in an emulated guest,
    whose CPU may lack instructions of the host's engine, the engine in ./build-vm; otherwise the
    host's engine. Raises UnavailableError."""
    if named := os.environ.get(ENGINE_SETTING):
        if not (os.access(named, os.X_OK) and Path(named).is_file()):
            raise UnavailableError(f"{ENGINE_SETTING}={named}: not an executable file")
        return Path(named).resolve()
    portable = Path("build-vm") / ENGINE
    return portable.resolve() if emulated and portable.is_file() else find_engine()


def has_kvm() -> bool | None:
    """Return whether guests run here with KVM; None if it was not tried yet."""
    try:
        found = accelerator.known(packages.qemu())
    except SwitchmarkError:
        return False
    return None if found is None else not found.emulated


def kvm_here() -> Availability:
    """Return whether guests run on the CPU itself, without starting a guest to find out."""
    remedy = "without it virtual machines are emulated, and their results marked not valid"
    try:
        found = accelerator.known(packages.qemu())
    except UnavailableError:
        reason = accelerator.no_kvm()
        return Availability(
            reason is None,
            version="unknown, because QEMU is not installed",
            reason=reason,
            remedy=remedy,
        )
    if found is None:
        return available(f"{accelerator.DEV_KVM} is there; tried with the first guest")
    if found.emulated:
        return unavailable(found.reason, remedy=remedy)
    return available(found.reason)


def _how(qemu: packages.Qemu) -> str:
    """Describe whether KVM works, without starting a guest to find out."""
    found = accelerator.known(qemu)
    if found is None:
        return "KVM is tried at first use"
    emulation = f"software emulation, marked so in results ({found.reason})"
    return emulation if found.emulated else "KVM"
