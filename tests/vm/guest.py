"""A virtual machine that runs one job and ends: it boots the distribution's kernel with the host's
files under a layer in memory, runs a shell script as root, and returns its output and exit code.

It uses KVM if a guest really boots on it, otherwise software emulation. Emulated guests show that
something works, but not how fast.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from switchmark.engine.binary import find_engine
from switchmark.environment.vm.archive import kernel_image
from switchmark.environment.vm.packages import Kernel, Qemu, kernel
from switchmark.errors import UnavailableError
from tests.vm.initramfs import initramfs
from tests.vm.packages import qemu

PROJECT = Path(__file__).parents[2]
MEMORY_MB = 1536
LIMIT_S = 180.0  # limit of each job
PATIENCE = 4  # on a machine with other programs
POLL_S = 0.2
KVM_TRIAL_S = 20.0
DEV_KVM = Path("/dev/kvm")
EMULATED = "tcg,thread=multi"
# A guest without a core while it checks its timers considers them broken and panics.
KERNEL_WORDS = "console=ttyS0 panic=-1 quiet net.ifnames=0 no_timer_check"

START = """\
export PATH={path} HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={project}
export SWITCHMARK_TRAFFIC={engine} SWITCHMARK_STATE_DIR=/run/switchmark
/bin/busybox hostname guest
ip link set lo up
cd {project}
sh -eu /exchange/job >/exchange/output 2>&1
echo $? >/exchange/code
sync
exec /bin/busybox poweroff -f
"""


@dataclass(frozen=True)
class Outcome:
    """The output of the job, and the end of job and machine."""

    code: int | None  # None: the job did not end
    output: str
    console: str
    seconds: float
    folder: Path  # files of the job in /exchange

    def check(self) -> None:
        """Fail the test unless the job succeeded."""
        assert self.code == 0, (
            f"the guest's job ended with {self.code} after {self.seconds:.0f} s:\n"
            f"{self.output[-6000:]}\n-- console --\n{self.console[-2000:]}"
        )


@dataclass(frozen=True)
class Machine:
    """The description of a guest: kernel, QEMU, and devices beside the shared folders."""

    kernel: Kernel
    qemu: Qemu
    accelerator: str
    devices: tuple[str, ...] = ()
    append: str = ""
    processors: str = "2"  # value of QEMU's -smp
    emulated_cpu: str = "max"
    memory_mb: int = MEMORY_MB

    @property
    def emulated(self) -> bool:
        return self.accelerator == EMULATED

    def command(self, exchange: Path) -> list[str]:
        """Return the QEMU command line; the machine ends by itself after its job."""
        shares = {"root": Path("/"), "modules": self.kernel.root / "lib/modules"}
        return [
            str(self.qemu.program),
            *self.qemu.data,
            *("-accel", self.accelerator, "-cpu", self.emulated_cpu if self.emulated else "host"),
            *("-machine", "q35", "-smp", self.processors, "-m", f"{self.memory_mb}M"),
            *("-no-reboot", "-nodefaults"),
            *("-display", "none", "-monitor", "none"),
            *("-serial", f"file:{exchange / 'console'}"),
            *("-kernel", str(kernel_image(self.kernel)), "-initrd", str(initramfs(self.kernel))),
            *("-append", f"{KERNEL_WORDS} {self.append}".strip()),
            *(word for tag, path in shares.items() for word in share(tag, path, writable=False)),
            *share("exchange", exchange, writable=True),
            *self.devices,
        ]

    def run(self, job: str, limit_s: float = LIMIT_S) -> Outcome:
        """Boot, run the job, and return when the machine is off."""
        return self.start(job).end(limit_s)

    def start(self, job: str) -> Running:
        """Boot, and run the job; the caller ends the machine."""
        exchange = new_exchange(job)
        with (exchange / "qemu").open("w") as errors:
            process = subprocess.Popen(
                self.command(exchange),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
            )
        return Running(process, exchange, time.monotonic())


@dataclass(frozen=True)
class Running:
    """A running machine."""

    process: subprocess.Popen[bytes]
    exchange: Path
    begun: float

    def end(self, limit_s: float = LIMIT_S) -> Outcome:
        """Wait until it is off. Time in which its threads waited for a core does not count, up to
        PATIENCE times the limit."""
        try:
            while self.process.poll() is None and self.passed_s() < PATIENCE * limit_s:
                if self.passed_s() - waited_s(self.process.pid) > limit_s:
                    break
                time.sleep(POLL_S)
        finally:
            self.process.kill()
            self.process.wait()
        return outcome(self.exchange, self.passed_s())

    def passed_s(self) -> float:
        """Return the seconds since it was switched on."""
        return time.monotonic() - self.begun


def waited_s(pid: int) -> float:
    """Return how long the threads of a process waited for a core together, in seconds.

    Often all CPUs of a guest wait for one of them."""
    waited = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            waited += int(path.read_text().split()[1])
    return waited / 1e9


def new_exchange(job: str) -> Path:
    """Return a folder for host and guest with the script that the guest runs after booting, inside
    the project's folder."""
    exchange = Path(tempfile.mkdtemp(prefix="smvm", dir="/var/tmp"))
    (exchange / "job").write_text(job)
    (exchange / "start").write_text(
        START.format(
            path=shlex.quote(f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"),
            engine=shlex.quote(str(guest_engine())),
            project=shlex.quote(str(PROJECT)),
        )
    )
    return exchange


def guest_engine() -> Path:
    """Return the engine that guests run: `SWITCHMARK_VM_TRAFFIC` if it is set, as an emulated CPU
    may lack instructions of the host's own engine."""
    named = os.environ.get("SWITCHMARK_VM_TRAFFIC")
    if named and not os.access(named, os.X_OK):
        raise UnavailableError(f"SWITCHMARK_VM_TRAFFIC={named}: not an executable file")
    return Path(named).resolve() if named else find_engine()


def share(tag: str, path: Path, *, writable: bool) -> list[str]:
    """Return QEMU's options for a folder of the host that the guest mounts by its tag."""
    access = "" if writable else ",readonly=on"
    folder = f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{access}"
    return ["-virtfs", folder]


def outcome(exchange: Path, seconds: float) -> Outcome:
    """Return the present content of the exchange folder."""

    def text(name: str) -> str:
        path = exchange / name
        return path.read_text(errors="replace") if path.exists() else ""

    code = text("code").strip()
    return Outcome(
        code=int(code) if code else None,
        output=text("output"),
        console=text("qemu") + text("console"),
        seconds=seconds,
        folder=exchange,
    )


@cache
def accelerator(program: Qemu, guest_kernel: Kernel) -> str:
    """Return `kvm` if the test kernel runs a job on it, otherwise emulation."""
    if os.access(DEV_KVM, os.R_OK | os.W_OK):
        tried = Machine(guest_kernel, program, "kvm").run("true", KVM_TRIAL_S)
        shutil.rmtree(tried.folder, ignore_errors=True)
        if tried.code == 0:
            return "kvm"
    return EMULATED


def machine(
    *,
    release: str | None = None,
    devices: tuple[str, ...] = (),
    append: str = "",
    with_igb: bool = False,
    processors: str = "2",
    emulated_cpu: str = "max",
    memory_mb: int = MEMORY_MB,
) -> Machine:
    """Return a machine with the distribution's kernel, or with the kernel of a module's release.

    Raises UnavailableError with the missing program or file."""
    guest_kernel, program = kernel(release), qemu(with_igb=with_igb)
    how = accelerator(program, guest_kernel)
    return Machine(guest_kernel, program, how, devices, append, processors, emulated_cpu, memory_mb)
