"""A node that is a virtual machine: it boots for the engine, and is switched off after it.

QEMU's process with all of its threads is pinned to the node's cores, and so are the virtual CPUs.
The session's ledger has it like any process. Its memory is a memfd without a name, which the kernel
frees when the process ends. The ledger also has the devices and sockets of its ports. The switch
that created a virtual function binds it to vfio-pci, and removes it.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from switchmark.environment.support.batons import without_baton
from switchmark.environment.vm import command as words
from switchmark.environment.vm.accelerator import Accelerator
from switchmark.environment.vm.command import GuestPort
from switchmark.environment.vm.engine import GuestEngine, clock_error_us
from switchmark.environment.vm.image import Image, with_program
from switchmark.environment.vm.packages import Qemu
from switchmark.environment.vm.patience import patience
from switchmark.errors import TrialFailed, UnavailableError
from switchmark.host.host import Session, Spawned
from switchmark.host.process_output import last_lines
from switchmark.host.undo.entries import File
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import MadePort, PortKind
from switchmark.model.rights import Rights
from switchmark.port.attached import Attached

DEV_VHOST_NET = Path("/dev/vhost-net")
BOOT_S, EMULATED_BOOT_S = 60.0, 240.0
EMULATED_PATIENCE = 15.0
OPENED_S = 20.0  # in which QEMU has opened a tap device
LOCKS_MEMORY = "ipc_lock"  # a device writes into a guest's memory whenever it likes: all is locked


class QemuNode:
    """A machine with its ports; the machine runs as long as the engine in it."""

    netns: str | None = None  # its devices are out of the host's sight

    def __init__(
        self,
        session: Session,
        attached: Attached,
        image: Image,
        qemu: Qemu,
        accelerator: Accelerator,
    ) -> None:
        """The machine, not yet switched on; `attached` holds its ports on the host."""
        ports = tuple(_seen_inside(port, n) for n, port in enumerate(attached.spec.ports))
        self.spec: NodeSpec = replace(attached.spec, ports=ports)
        longer = patience()
        self.boot_timeout_s = (EMULATED_BOOT_S if accelerator.emulated else BOOT_S) * longer
        self.patience = (EMULATED_PATIENCE if accelerator.emulated else 1.0) * longer
        self._session = session
        self._attached = attached
        self._functions = functions_of(attached.spec)
        self._image = image
        self._qemu = qemu
        self._accelerator = accelerator
        self._engines: list[GuestEngine] = []
        self._pinned: list[int] = []  # the cores to which the kernel has pinned it
        self._in_kernel = not accelerator.emulated and os.access(DEV_VHOST_NET, os.R_OK | os.W_OK)
        self._job = session.run_dir / f"job-{attached.spec.name}"
        attached.entries.append(session.ledger.record(File(str(self._job))))

    @property
    def emulated(self) -> bool:
        """True if it runs without hardware support."""
        return self._accelerator.emulated

    def spawn_engine(self, args: Sequence[str]) -> Spawned:
        """Boot the machine, with `switchmark-traffic ARGS` as its only task.

        Raises UnavailableError if it already runs, TrialFailed if QEMU does not run."""
        arguments = without_baton(args)
        return self._switch_on(words.job(self.spec.ports, arguments), arguments)

    def spawn_bridge(self) -> Spawned:
        """Switch the machine on, with its kernel's bridge between its ports as its only task.

        Raises as `spawn_engine`."""
        return self._switch_on(words.bridge_job(self.spec.ports), ())

    def _switch_on(self, job: str, args: Sequence[str]) -> GuestEngine:
        if any(engine.poll() is None for engine in self._engines):
            raise UnavailableError(f"machine {self.spec.name}: something runs in it already")
        self._job.write_text(job)
        dpdk = any(words.uses_dpdk(args, n) for n in range(len(self.spec.ports)))
        command = words.command(
            self._qemu,
            self._image,
            self._accelerator.name,
            [self._guest_port(port, n, args) for n, port in enumerate(self.spec.ports)],
            name=f"sm{self._session.id}-{self.spec.name}",
            job_file=self._job,
            hugepages=words.HUGEPAGES if dpdk else 0,
            vcpus=self._vcpus,
        )
        # Its taps are there, and who may open /dev/net/tun may take one that belongs to nobody.
        rights = Rights((LOCKS_MEMORY,) if self._functions else ())
        started = self._session.host.spawn(command, cores=self.spec.cores or None, rights=rights)
        engine = GuestEngine(started)
        self._engines.append(engine)
        self._pinned = sorted(os.sched_getaffinity(engine.pid))
        for port in self.spec.ports:
            if port.kind is PortKind.TAP:
                self._wait_opened(str(port.device_switch_side), engine)
        return engine

    def spawn_program(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        rights: Rights | None = None,
        folder: Path | None = None,
    ) -> Spawned:
        """Boot the machine, with a program of the host as its only task. The program and its
        libraries are added to the image. It prints one line before it starts the program.

        Raises as `spawn_engine`, and UnavailableError if a library is missing."""
        del rights, folder  # the guest has its own rights and no folder of the host
        self._image = with_program(self._image, Path(args[0]), self._session.run_dir)
        return self._switch_on(words.program_job(self.spec.ports, args, env), ())

    def device_frames(self) -> tuple[int, int] | None:
        """None: the host cannot see the guest's devices."""
        return None

    def device_drops(self) -> tuple[int, int] | None:
        """None: the host cannot see the guest's devices."""
        return None

    def process_ids(self) -> list[int]:
        """QEMU's process, while it runs."""
        return [engine.pid for engine in self._engines if engine.poll() is None]

    def details(self) -> dict[str, str]:
        """See `VirtualMachine`."""
        kinds = {port.kind for port in self.spec.ports}
        found = {
            "accelerator": "software emulation (TCG)" if self.emulated else "KVM",
            "accelerator_reason": self._accelerator.reason,
            "qemu": ".".join(map(str, self._qemu.version)),
            "guest_kernel": f"Linux {self._image.release}",
            "image": self._image.key,
            "vcpus": str(self._vcpus),
            "pinned_to": ",".join(map(str, self._pinned)),
            "memory_mb": str(words.MEMORY_MB),
            "memory_kind": "memfd, shared",
            "offloads": "off",
            "clock_error_us": clock_error_us(self._engines),
        }
        if PortKind.TAP in kinds:
            found["tap_worker"] = "the kernel (vhost-net)" if self._in_kernel else "QEMU's process"
        if self._functions:
            found["memory_kind"] += ", locked"
            found["functions"] = f"{', '.join(self._functions.values())}, by vfio-pci"
        return found

    def close(self) -> None:
        """Switch it off, and remove its ports. Idempotent."""
        for engine in self._engines:
            if engine.poll() is None:
                engine.terminate()
        self._engines.clear()
        self._attached.detach(self._session)

    @property
    def _vcpus(self) -> int:
        return self.spec.vcpus or max(1, len(self.spec.cores))

    def _guest_port(self, port: NodePort, number: int, args: Sequence[str]) -> GuestPort:
        """The port with its MAC address: the application's, where the application drives the device
        itself."""
        mac = port.mac if words.uses_dpdk(args, number) else port.device_mac or port.mac
        return GuestPort(
            port.kind,
            mac,
            socket=port.socket_host,
            tap=port.device_switch_side,
            in_kernel=self._in_kernel,
            function=self._functions.get(number),
        )

    def _wait_opened(self, tap: str, engine: GuestEngine) -> None:
        """Wait until QEMU has opened its taps, which then have a carrier. After that the switch may
        move the device to its namespace, where QEMU would not find it."""
        deadline = time.monotonic() + OPENED_S
        while not _has_carrier(tap):
            if (code := engine.poll()) is not None:
                raise TrialFailed(
                    f"machine {self.spec.name}: QEMU ended with exit code {code}: "
                    f"{last_lines(engine.stderr_tail())}"
                )
            if time.monotonic() > deadline:
                raise TrialFailed(
                    f"machine {self.spec.name}: QEMU did not open {tap} in {OPENED_S:g} s"
                )
            time.sleep(0.01)


def functions_of(spec: NodeSpec) -> dict[int, str]:
    """The PCI addresses of the functions that a machine is given, by the number of the port."""
    made_ports = {number: port.made_port for number, port in enumerate(spec.ports)}
    return {number: made.pci for number, made in made_ports.items() if made and made.pci}


def _has_carrier(device: str) -> bool:
    """Return True if the other end of a device is open. Raises TrialFailed if it is gone."""
    try:
        return Path("/sys/class/net", device, "carrier").read_text().strip() == "1"
    except FileNotFoundError:
        raise TrialFailed(f"{device}: was removed while its machine started") from None
    except OSError:  # it is down
        return False


def _seen_inside(port: NodePort, number: int) -> NodePort:
    """The port as the guest has it: a network device at its place on the PCI bus, for the kernel's
    driver or for DPDK's."""
    return replace(
        port,
        device_inside=words.device_name(number),
        socket_inside=None,
        made_port=MadePort(pci=words.pci_address(number)),
    )
