"""Whether guests run on the CPU itself (KVM) or are emulated in software, found by trying.

That /dev/kvm can be opened says little: under some hypervisors no guest kernel survives on it. So
our own image is booted once, with nothing to do but to switch itself off. The outcome is kept until
the next boot of this machine.
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
LARGEST_BYTES = 4096  # of what is kept
JOB = "dpdk=\nports() { off switchmark-tried; }\n"


@dataclass(frozen=True, slots=True)
class Accelerator:
    """How guests run here, and how that is known."""

    name: str  # as QEMU calls it
    reason: str

    @property
    def emulated(self) -> bool:
        """Whether guests are emulated: their rates prove function, never performance."""
        return self.name != KVM


def no_kvm() -> str | None:
    """Why there is no KVM at all; None where it can be tried."""
    if not DEV_KVM.exists():
        return f"no {DEV_KVM}"
    return None if os.access(DEV_KVM, os.R_OK | os.W_OK) else f"{DEV_KVM}: not permitted"


def known(qemu: Qemu) -> Accelerator | None:
    """The outcome, as far as it is known without trying; None: not known."""
    if (reason := no_kvm()) is not None:
        return Accelerator(EMULATED, reason)
    with suppress(OSError):
        return believed(read_trusted(_memory(qemu), LARGEST_BYTES))
    return None


def believed(content: bytes) -> Accelerator | None:
    """The outcome in a kept file; None where it has another form."""
    with suppress(ValueError, TypeError, RecursionError):
        found = Accelerator(**json.loads(content))
        if found.name in (KVM, EMULATED) and isinstance(found.reason, str):
            found.reason.encode()  # (no record holds what has no encoding)
            return found
    return None


def choose(host: Host, qemu: Qemu, image: Image) -> Accelerator:
    """Choose KVM where our image gets to its end on it, else emulation. Takes a second, or
    `TRIAL_S`."""
    if (found := known(qemu)) is not None:
        return found
    problem = _try(host, qemu, image)
    found = Accelerator(KVM, "a guest was started on it")
    if problem is not None:
        found = Accelerator(EMULATED, f"{DEV_KVM} is there, but starts no guest: {problem}")
    write_atomically(_memory(qemu), json.dumps(asdict(found)), 0o600)
    return found


def _memory(qemu: Qemu) -> Path:
    key = hashlib.sha256(f"{boot_id()} {qemu.program} {qemu.version}".encode()).hexdigest()[:16]
    return machines_folder() / f"kvm-{key}.json"


def _try(host: Host, qemu: Qemu, image: Image) -> str | None:
    """Why a guest does not get to its end on KVM; None where it does."""
    timeout_s = TRIAL_S * patience()
    job = machines_folder() / "kvm-job"  # (a file in /tmp would outlive a bench that is killed)
    write_atomically(job, JOB, 0o600)
    words = command(qemu, image, KVM, (), name="switchmark-kvm", job_file=job)
    try:
        done = host.run(words, timeout_s=timeout_s, check=False)
    except SwitchmarkError:  # a guest that KVM cannot run stands still
        return f"it did not get to its end in {timeout_s:g} s"
    if "switchmark-tried" in done.stderr:
        return None
    lines = [line.strip() for line in done.stderr.splitlines() if line.strip()]
    return lines[0] if lines else f"QEMU ended with exit code {done.exit_code}"
