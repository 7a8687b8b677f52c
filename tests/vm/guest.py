"""A virtual machine that runs one job and ends: boots the distribution's kernel with the host's
files under a layer in memory, runs a shell script as root, hands back its output and exit code.

KVM where a guest really boots on it, software emulation else. Emulated guests prove that
something works; how fast it works they do not tell.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from tests.vm.initramfs import initramfs, kernel_image
from tests.vm.packages import Kernel, Qemu, kernel, qemu

PROJECT = Path(__file__).parents[2]
MEMORY_MB = 1536
LIMIT_S = 180.0  # of each test
KVM_TRIAL_S = 20.0
DEV_KVM = Path("/dev/kvm")

START = """\
export PATH={path} HOME=/tmp LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export SWITCHMARK_TRAFFIC={engine} SWITCHMARK_STATE_DIR=/run/switchmark
{mounts}
/bin/busybox hostname guest
ip link set lo up
cd {project}
sh -eu /exchange/job >/exchange/output 2>&1
echo $? >/exchange/code
sync
echo o >/proc/sysrq-trigger
sleep 60
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
    memory_backend: bool = False  # shared with a vhost-user switch on the host

    def command(self, exchange: Path) -> list[str]:
        """The QEMU command line; the machine ends by itself when its job has."""
        shares = {"root": Path("/"), "modules": self.kernel.root / "lib/modules"}
        memory = f"memory-backend-memfd,id=mem,size={MEMORY_MB}M,share=on"
        return [
            str(self.qemu.program),
            *self.qemu.data,
            *("-accel", self.accelerator, "-cpu", "max" if "tcg" in self.accelerator else "host"),
            *("-smp", "2", "-m", f"{MEMORY_MB}M", "-no-reboot", "-nodefaults", "-nic", "none"),
            *("-display", "none", "-monitor", "none"),
            *("-serial", f"file:{exchange / 'console'}"),
            *(
                ("-machine", "q35,memory-backend=mem", "-object", memory)
                if self.memory_backend
                else ("-machine", "q35")
            ),
            *("-kernel", str(kernel_image(self.kernel)), "-initrd", str(initramfs(self.kernel))),
            *("-append", f"console=ttyS0 panic=-1 quiet net.ifnames=0 {self.append}".strip()),
            *(word for tag, path in shares.items() for word in share(tag, path, writable=False)),
            *share("exchange", exchange, writable=True),
            *self.devices,
        ]

    def write_job(self, exchange: Path, job: str) -> None:
        """What the guest runs after booting, in the project's folder."""
        (exchange / "job").write_text(job)
        (exchange / "start").write_text(
            START.format(
                path=shlex.quote(f"{Path(sys.executable).parent}:/usr/sbin:/usr/bin:/sbin:/bin"),
                engine=shlex.quote(str(engine())),
                mounts="",
                project=shlex.quote(str(PROJECT)),
            )
        )

    def run(self, job: str, limit_s: float = LIMIT_S) -> Outcome:
        """Boot, run the job, and return when the machine is off."""
        exchange = Path(tempfile.mkdtemp(prefix="smvm", dir="/var/tmp"))
        self.write_job(exchange, job)
        begun = time.monotonic()
        process = subprocess.Popen(
            self.command(exchange),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(exchange / "qemu").open("w"),
        )
        try:
            process.wait(limit_s)
        except subprocess.TimeoutExpired:
            pass
        finally:
            process.kill()
            process.wait()
        return outcome(exchange, time.monotonic() - begun)


def share(tag: str, path: Path, *, writable: bool) -> list[str]:
    """A folder of the host that the guest mounts by its tag."""
    access = "" if writable else ",readonly=on"
    folder = f"local,path={path},mount_tag={tag},security_model=none,multidevs=remap{access}"
    return ["-virtfs", folder]


def outcome(exchange: Path, seconds: float) -> Outcome:
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


def engine() -> Path:
    """The engine that the guest runs: the one that this process would run."""
    from switchmark.environment.engine_binary import find_engine

    return find_engine()


@cache
def accelerator(program: Qemu, guest_kernel: Kernel) -> str:
    """`kvm` where our kernel gets as far as running a job on it, else `tcg`."""
    if os.access(DEV_KVM, os.R_OK | os.W_OK):
        tried = Machine(guest_kernel, program, "kvm").run("true", KVM_TRIAL_S)
        if tried.code == 0:
            return "kvm"
    return "tcg,thread=multi"


@contextlib.contextmanager
def machine(
    *,
    release: str | None = None,
    devices: Sequence[str] = (),
    append: str = "",
    with_igb: bool = False,
    memory_backend: bool = False,
) -> Iterator[Machine]:
    """A machine of the distribution's kernel, or of the release that a module was built for."""
    guest_kernel, program = kernel(release), qemu(with_igb=with_igb)
    yield Machine(
        guest_kernel,
        program,
        accelerator(program, guest_kernel),
        tuple(devices),
        append,
        memory_backend,
    )
