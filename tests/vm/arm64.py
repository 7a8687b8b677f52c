"""A guest of 64-bit ARM under software emulation, for calls that need a kernel of that architecture
(io_uring, Landlock, seccomp, BPF, packet rings, namespaces), which user-mode emulation cannot run.

    python -m tests.vm.arm64 FOLDER COMMAND...

`FOLDER` is that of tools/arm64: `root` (arm64 packages) and `kernel` (an unpacked kernel package).
The guest's root is FOLDER/root and this checkout is there under its own path, both under a layer in
memory. Exits with the command's exit code.
"""

from __future__ import annotations

import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

from switchmark.environment.vm.archive import archive, module_files
from switchmark.environment.vm.packages import Kernel, unpacked_kernel, with_dependencies
from tests.vm.guest import PROJECT, share

# A module without a file is built into the kernel.
MODULES = ("virtio_pci", "9pnet_virtio", "9p", "overlay", "veth", "bridge", "tun", "af_packet_diag")
LIMIT_S = 1800.0
VENV = "/opt/switchmark"
INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mkdir -p /proc /sys /dev /lower /project /upper /host
$b mount -t proc proc /proc
$b mount -t sysfs sysfs /sys
$b mount -t devtmpfs devtmpfs /dev
for m in $($b cat /modules.list); do $b insmod /modules/$m || echo "init: $m failed"; done
options=trans=virtio,version=9p2000.L,msize=262144
$b mount -t 9p -o $options,cache=loose,ro root /lower
$b mount -t tmpfs tmpfs /upper
$b mkdir /upper/upper /upper/work
$b mount -t overlay -o lowerdir=/lower,upperdir=/upper/upper,workdir=/upper/work overlay /host
for d in proc sys dev; do $b mount --move /$d /host/$d; done
for d in run tmp dev/shm dev/pts exchange var/tmp; do $b mkdir -p /host/$d; done
for d in run tmp dev/shm var/tmp; do $b mount -t tmpfs tmpfs /host/$d; done
$b mount -t devpts devpts /host/dev/pts
$b mount -t 9p -o $options exchange /host/exchange
$b mkdir -p /host{project}
$b mount -t 9p -o $options,cache=loose,ro project /project
$b mkdir /upper/project /upper/of_project
layers=lowerdir=/project,upperdir=/upper/project,workdir=/upper/of_project
$b mount -t overlay -o $layers overlay /host{project}
$b chroot /host /bin/sh /exchange/start >/host/exchange/output 2>&1
echo $? >/host/exchange/code
$b sync
$b poweroff -f
"""
START = """\
export PATH={venv}/bin:/usr/sbin:/usr/bin HOME=/root LANG=C.UTF-8 PYTHONDONTWRITEBYTECODE=1
export SWITCHMARK_TRAFFIC={project}/build-arm64/switchmark-traffic
ip link set lo up
cd {project}
{command}
"""


def initramfs(folder: Path, kernel: Kernel) -> Path:
    """Make the archive that mounts the shared folders and starts the command."""
    modules = module_files(kernel, MODULES)
    places = (folder / "kernel" / name / "busybox" for name in ("bin", "usr/bin"))
    busybox = next(place for place in places if place.exists())
    place = folder / "initramfs.cpio"
    place.write_bytes(
        archive(
            [
                *((name, 0o040755, b"") for name in ("bin", "modules")),
                ("init", 0o100755, INIT.replace("{project}", str(PROJECT)).encode()),
                ("bin/busybox", 0o100755, busybox.read_bytes()),
                ("modules.list", 0o100644, "\n".join(path.name for path in modules).encode()),
                *((f"modules/{path.name}", 0o100644, path.read_bytes()) for path in modules),
            ]
        )
    )
    return place


def run(folder: Path, command: list[str]) -> int:
    """Boot, run the command, print its output, and return its exit code."""
    kernel = unpacked_kernel(folder / "kernel")
    if kernel is None:
        raise SystemExit(f"{folder / 'kernel'}: no kernel package is unpacked there")
    kernel = with_dependencies(kernel)
    with tempfile.TemporaryDirectory(prefix="smarm64", dir="/var/tmp") as shared:
        exchange = Path(shared)
        script = START.format(venv=VENV, project=PROJECT, command=shlex.join(command))
        (exchange / "start").write_text(script)
        subprocess.run(
            [
                *("qemu-system-aarch64", "-machine", "virt", "-cpu", "max,pauth-impdef=on"),
                *("-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048M"),
                *("-no-reboot", "-nodefaults", "-display", "none", "-monitor", "none"),
                *("-serial", f"file:{exchange / 'console'}"),
                *("-kernel", str(kernel.image), "-initrd", str(initramfs(folder, kernel))),
                *("-append", "console=ttyAMA0 panic=-1 quiet net.ifnames=0"),
                *share("root", folder / "root", writable=False),
                *share("project", PROJECT, writable=False),
                *share("exchange", exchange, writable=True),
            ],
            stdin=subprocess.DEVNULL, timeout=LIMIT_S, check=True,
        )  # fmt: skip
        for name in ("output", "code"):
            if not (exchange / name).exists():
                print((exchange / "console").read_text(errors="replace")[-3000:])
                raise SystemExit("the guest ended before its command did")
        print((exchange / "output").read_text(errors="replace"), end="")
        return int((exchange / "code").read_text())


if __name__ == "__main__":
    sys.exit(run(Path(sys.argv[1]).resolve(), sys.argv[2:]))
