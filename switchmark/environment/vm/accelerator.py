"""The accelerator of guests, KVM or emulation, found by a test.

An accessible /dev/kvm is not a proof, because under some hypervisors guest kernels crash on it.
Therefore the bench boots its image once, and the guest switches itself off. The outcome is stored
until the next boot of this machine.
"""

from __future__ import annotations

import hashlib
import json
import os
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from switchmark.atomic_files import write_atomically
from switchmark.environment.vm.command import EMULATED, KVM, command
from switchmark.environment.vm.image import Image
from switchmark.environment.vm.packages import Qemu, machines_folder
from switchmark.environment.vm.patience import patience
from switchmark.errors import SwitchmarkError
from switchmark.host.host import Host
from switchmark.host.kernel.procfs import boot_id
from switchmark.host.state import read_trusted

DEV_KVM = Path("/dev/kvm")
TRIAL_S = 15.0
LARGEST_BYTES = 4096  # limit of the stored file
JOB = "dpdk=\nports() { off switchmark-tried; }\n"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """The accelerator of guests on this machine, and the evidence for it."""

    name: str  # the name in QEMU
    reason: str

    @property
    def emulated(self) -> bool:
        """Return True if guests are emulated. Their rates prove function, never performance."""
        return self.name != KVM


def no_kvm() -> str | None:
    """Return why there is no KVM; None if it can be tested."""
    if not DEV_KVM.exists():
        return f"no {DEV_KVM}"
    return None if os.access(DEV_KVM, os.R_OK | os.W_OK) else f"{DEV_KVM}: not permitted"


def known(qemu: Qemu) -> Accelerator | None:
    """Return the outcome if it is known without a test; None otherwise."""
    if (reason := no_kvm()) is not None:
        return Accelerator(EMULATED, reason)
    with suppress(OSError):
        return parse_outcome(read_trusted(_memory(qemu), LARGEST_BYTES))
    return None


def parse_outcome(content: bytes) -> Accelerator | None:
    """Return the outcome in a stored file; None if it has another form."""
    with suppress(ValueError, TypeError, RecursionError):
        found = Accelerator(**json.loads(content))
        if found.name in (KVM, EMULATED) and isinstance(found.reason, str):
            found.reason.encode()  # a record cannot contain text without an encoding
            return found
    return None


def choose(host: Host, qemu: Qemu, image: Image) -> Accelerator:
    """Choose KVM if the image runs to its end on it, otherwise emulation. The test takes a second,
    or `TRIAL_S`."""
    if (found := known(qemu)) is not None:
        return found
    problem = _try(host, qemu, image)
    found = Accelerator(KVM, "a guest was started on it")
    if problem is not None:
        found = Accelerator(EMULATED, f"{DEV_KVM} exists, but starts no guest: {problem}")
    write_atomically(_memory(qemu), json.dumps(asdict(found)), 0o600)
    return found


def _memory(qemu: Qemu) -> Path:
    key = hashlib.sha256(f"{boot_id()} {qemu.program} {qemu.version}".encode()).hexdigest()[:16]
    return machines_folder() / f"kvm-{key}.json"


def _try(host: Host, qemu: Qemu, image: Image) -> str | None:
    """Return why a guest does not run to its end on KVM; None if it does."""
    timeout_s = TRIAL_S * patience()
    job = machines_folder() / "kvm-job"  # a file in /tmp would stay after a crash of the bench
    write_atomically(job, JOB, 0o600)
    arguments = command(qemu, image, KVM, (), name="switchmark-kvm", job_file=job)
    try:
        done = host.run(arguments, timeout_s=timeout_s, check=False)
    except SwitchmarkError:  # a guest that KVM cannot run hangs
        return f"it did not end within {timeout_s:g} s"
    if "switchmark-tried" in done.stderr:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"QEMU ended with exit code {done.exit_code}"
