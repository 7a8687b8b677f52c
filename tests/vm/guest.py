"""A virtual machine that runs one job and ends: boots the distribution's kernel with the host's
files under a layer in memory, runs a shell script as root, hands back its output and exit code.

KVM where a guest really boots on it, software emulation else. Emulated guests prove that
something works; how fast it works they do not tell.
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
LIMIT_S = 180.0  # of each job
PATIENCE = 4  # on a machine that others use
POLL_S = 0.2
KVM_TRIAL_S = 20.0
DEV_KVM = Path("/dev/kvm")
EMULATED = "tcg,thread=multi"
# A guest that gets no core while it looks at its timers believes them broken, and panics.
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
    """What the job printed, and how it and the machine ended."""

    code: int | None  # None: it did not come to its end
    output: str
    console: str
    seconds: float
    folder: Path  # what the job left in /exchange

    def check(self) -> None:
        """Fail the test unless the job ended well."""
        assert self.code == 0, (
            f"the guest's job ended with {self.code} after {self.seconds:.0f} s:\n"
            f"{self.output[-6000:]}\n-- console --\n{self.console[-2000:]}"
        )


@dataclass(frozen=True)
class Machine:
    """A guest to be: its kernel, its QEMU, and devices beyond the shared folders."""

    kernel: Kernel
    qemu: Qemu
    accelerator: str
    devices: tuple[str, ...] = ()
    append: str = ""
    processors: str = "2"  # as QEMU's -smp takes them
    emulated_cpu: str = "max"
    memory_mb: int = MEMORY_MB

    @property
    def emulated(self) -> bool:
        return self.accelerator == EMULATED

    def command(self, exchange: Path) -> list[str]:
        """The QEMU command line; the machine ends by itself when its job has."""
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
        """Boot, and run the job. To be ended."""
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
    """A machine that is switched on."""

    process: subprocess.Popen[bytes]
    exchange: Path
    begun: float

    def end(self, limit_s: float = LIMIT_S) -> Outcome:
        """Wait until it is off. What its threads waited for a core that others had is no time of
        its own, up to PATIENCE times the limit."""
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
        """Since it was switched on."""
        return time.monotonic() - self.begun


def waited_s(pid: int) -> float:
    """How long the threads of a process stood in the queue for a core, all together: what one of
    a guest's CPUs has to do, the others often wait for."""
    waited = 0
    for path in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        with suppress(OSError):
            waited += int(path.read_text().split()[1])
    return waited / 1e9


def new_exchange(job: str) -> Path:
    """A folder that host and guest both write to, with what the guest runs after booting, in
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
    """The engine that guests run: `SWITCHMARK_VM_TRAFFIC` where it is set, for an emulated CPU
    may lack instructions that the host's own engine was built with."""
    named = os.environ.get("SWITCHMARK_VM_TRAFFIC")
    if named and not os.access(named, os.X_OK):
        raise UnavailableError(f"SWITCHMARK_VM_TRAFFIC={named}: not an executable file")
    return Path(named).resolve() if named else find_engine()


def share(tag: str, path: Path, *, writable: bool) -> list[str]:
    """A folder of the host that the guest mounts by its tag."""
    access = "" if writable else ",readonly=on"
    folder = f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{access}"
    return ["-virtfs", folder]


def outcome(exchange: Path, seconds: float) -> Outcome:
    """What is in the exchange folder now."""

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
    """`kvm` where our kernel gets as far as running a job on it, else emulation."""
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
    """A machine of the distribution's kernel, or of the release that a module was built for.

    Raises UnavailableError with what is missing."""
    guest_kernel, program = kernel(release), qemu(with_igb=with_igb)
    how = accelerator(program, guest_kernel)
    return Machine(guest_kernel, program, how, devices, append, processors, emulated_cpu, memory_mb)
