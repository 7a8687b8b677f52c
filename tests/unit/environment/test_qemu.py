"""The environment `qemu` without QEMU: command line, the guest's job, image, refusals."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_text
from switchmark.engine.arguments import engine_args, port_spec
from switchmark.environment import qemu
from switchmark.environment.support.base import VirtualMachine
from switchmark.environment.vm import accelerator, archive, image, packages
from switchmark.environment.vm.accelerator import Accelerator
from switchmark.environment.vm.command import (
    EMULATED,
    KVM,
    GuestPort,
    bridge_job,
    command,
    job,
    pci_address,
    program_job,
)
from switchmark.environment.vm.engine import GuestEngine
from switchmark.environment.vm.image import Image
from switchmark.environment.vm.node import QemuNode
from switchmark.environment.vm.packages import Kernel, Qemu
from switchmark.errors import TrialFailed, UnavailableError, UsageError
from switchmark.experiment.steps import Step, plan_steps
from switchmark.host import place
from switchmark.host.host import Session
from switchmark.host.kernel import netlink
from switchmark.host.undo.ledger import Ledger
from switchmark.model.capabilities import unavailable
from switchmark.model.io import Io
from switchmark.model.node import NodePort, NodeSpec
from switchmark.model.ports import MadePort, PortKind
from switchmark.model.rights import Rights
from switchmark.port.attached import Attached
from tests.unit.engine_lines import event

IMAGE = Image(Path("/c/vmlinux"), Path("/c/initramfs"), "6.1.0", "abc")
OLD, NEW = Qemu(Path("/usr/bin/qemu"), (7, 2)), Qemu(Path("/usr/bin/qemu"), (10, 0))
JOB = Path("/run/job")
INSTALLED = installed()


def arguments(qemu: Qemu, accelerator: str, *ports: GuestPort, hugepages: int = 0) -> list[str]:
    return command(qemu, IMAGE, accelerator, ports, name="sm1-a", job_file=JOB, hugepages=hugepages)


def value(line: list[str], option: str) -> str:
    return line[line.index(option) + 1]


def devices(line: list[str]) -> list[str]:
    return [line[n + 1] for n, argument in enumerate(line) if argument == "-device"]


def test_vhost_user_port_shares_memory_and_listens() -> None:
    port = GuestPort(PortKind.VHOST_USER, "02:00:00:00:00:01", socket=Path("/run/s"))
    line = arguments(OLD, EMULATED, port, hugepages=64)
    assert "memory-backend-memfd,id=memory,size=384M,share=on" in line
    assert value(line, "-machine") == "q35,memory-backend=memory"
    assert "socket,id=cport0,path=/run/s,server=on" in line
    assert "vhost-user,id=port0,chardev=cport0" in line
    (net,) = [device for device in devices(line) if device.startswith("virtio-net-pci")]
    assert "mac=02:00:00:00:00:01,addr=0x10" in net and "csum=off" in net
    assert net.endswith(",vectors=0"), "otherwise this version of QEMU crashes without KVM"
    assert "hugepages=64" in value(line, "-append")
    # It prevents "Kernel panic: IO-APIC + timer doesn't work!" on a busy machine.
    assert "no_timer_check" in value(line, "-append").split()


def test_tap_is_opened_by_its_name_without_a_script() -> None:
    port = GuestPort(PortKind.TAP, "02:00:00:00:00:01", tap="sm1a", in_kernel=True)
    line = arguments(NEW, KVM, port)
    assert value(line, "-netdev") == ("tap,id=port0,ifname=sm1a,script=no,downscript=no,vhost=on")
    assert "vectors" not in " ".join(line) and "hugepages" not in value(line, "-append")
    assert value(line, "-cpu") == "host" and value(arguments(OLD, EMULATED), "-cpu") == "max"


def test_guest_has_only_its_ports_and_the_engine_channel() -> None:
    port = GuestPort(PortKind.TAP, "02:00:00:00:00:01", tap="t")
    line = arguments(NEW, EMULATED, port, replace(port, tap="u"))
    kinds = [device.partition(",")[0] for device in devices(line)]
    assert kinds == ["virtio-serial-pci", "virtserialport", "virtio-net-pci", "virtio-net-pci"]
    assert "-nodefaults" in line and value(line, "-sandbox").startswith("on,")
    assert "stdio,id=engine,signal=off" in line, "standard input and output are the engine's"


def test_virtual_function_is_assigned_to_the_guest() -> None:
    function = GuestPort(PortKind.VF, "02:00:00:00:00:01", function="0000:01:10.2")
    line = arguments(OLD, EMULATED, function, replace(function, function="0000:01:10.4"))
    assert devices(line)[2:] == [
        "vfio-pci,host=0000:01:10.2,id=port0,addr=0x10,rombar=0",
        "vfio-pci,host=0000:01:10.4,id=port1,addr=0x11,rombar=0",
    ]
    assert "-netdev" not in line, "the guest has the NIC itself"


def port(number: int, **more: object) -> NodePort:
    tap = NodePort(PortKind.TAP, f"02:00:00:00:00:0{number}", f"10.0.0.{number}/24", **more)  # type: ignore[arg-type]
    return replace(tap, peer_ip="10.0.0.9/24", peer_mac="02:00:00:00:00:09")


def run_job(text: str) -> list[str]:
    """Return the output of a shell that runs the job with `echo` in the place of the tools."""
    script = f'b=echo\n{text}\nports\necho "dpdk: $dpdk"\neval "printf \'%s|\' $run"\n'
    done = subprocess.run(["sh", "-eu", "-c", script], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_job_sets_up_kernel_devices_and_quotes_arguments() -> None:
    args = ["sender", "--port", "raw:dev=eth0,mmsg", "--note", "a b'$c"]
    output = run_job(job([port(1, device_mac="06:00:00:00:00:01", mtu_bytes=9000)], args))
    engine = "/usr/bin/switchmark-traffic|sender|--port|raw:dev=eth0,mmsg|--note|a b'$c|"
    assert output == ["ip link set eth0 mtu 9000 up", "dpdk: ", engine]


def test_job_sets_addresses_if_the_guest_uses_its_ip_stack() -> None:
    output = run_job(job([port(1)], ["sender", "--port", "udp:dev=eth0"]))
    assert "ip addr add 10.0.0.1/24 dev eth0" in output
    assert "arp -i eth0 -s 10.0.0.9 02:00:00:00:00:09" in output


def test_job_leaves_the_devices_of_dpdk_alone() -> None:
    args = [
        "forwarder",
        *(text for n in (0, 1) for text in ("--port", f"dpdk:pci={pci_address(n)}")),
    ]
    output = run_job(job([port(1), port(2)], args))
    assert output[0] == "dpdk: 0000:00:10.0 0000:00:11.0"


def test_job_waits_for_the_device_of_a_virtual_function() -> None:
    """Some drivers make the device some time after loading. Some guests have no driver."""
    text = job([replace(port(1), kind=PortKind.VF)], ["sender", "--port", "raw:dev=eth0,mmsg"])
    output = run_job('there() { echo "there: $1"; }\n' + text)
    assert output[:2] == ["there: /sys/class/net/eth0", "ip link set eth0 mtu 1500 up"]
    output = run_job('there() { return 1; }\noff() { echo "off: $1"; }\n' + text)
    assert output[0].startswith(
        "off: no driver of this kernel makes a VF eth0; SWITCHMARK_VM_KERNEL"
    )
    args = ["sender", "--port", f"dpdk:pci={pci_address(0)}"]
    assert "there" not in job([replace(port(1), kind=PortKind.VF)], args)


def test_job_of_a_bridge_joins_its_ports() -> None:
    text = bridge_job([port(1), port(2, mtu_bytes=9000)])
    output = run_job(re.sub(r">/sys/\S+", ">/dev/null", text))
    assert output[:2] == ["ip link set eth0 mtu 1500 up", "ip link set eth1 mtu 9000 up"]
    assert "brctl addif br0 eth1" in output and "ip link set br0 up" in output
    script = text.replace("/usr/bin/busybox sh", "sh") + '\neval "$run"'
    done = subprocess.run(
        ["sh", "-euc", script], input="x", capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["event"] == "ready"


@pytest.fixture
def fake_kernel(tmp_path: Path) -> Kernel:
    kernel = Kernel(tmp_path / "k", "6.9")
    (kernel.modules / "kernel").mkdir(parents=True)
    lines = []
    for name, needs in (
        ("qemu_fw_cfg", ()), ("uio", ()), ("uio_pci_generic", ("uio",)), ("virtio", ()),
        ("virtio_pci", ("virtio",)), ("virtio_net", ("virtio",)), ("other", ()),
    ):  # fmt: skip
        (kernel.modules / f"kernel/{name}.ko").write_bytes(name.encode())
        deps = " ".join(f"kernel/{need}.ko" for need in needs)
        lines.append(f"kernel/{name}.ko: {deps}".rstrip())
    (kernel.modules / "modules.dep").write_text("\n".join(lines) + "\n")
    kernel.image.parent.mkdir()
    kernel.image.write_bytes(b"\0" * 4096)
    return kernel


def entries(data: bytes) -> dict[str, tuple[int, bytes]]:
    """Return the mode and the content of each file in a cpio archive."""
    files, at = {}, 0
    while at < len(data):
        head = data[at : at + 110]
        assert head[:6] == b"070701"
        mode, size, length = (int(head[6 + 8 * k : 14 + 8 * k], 16) for k in (1, 6, 11))
        name = data[at + 110 : at + 110 + length - 1].decode()
        at += (110 + length + 3) // 4 * 4
        files[name] = (mode, data[at : at + size])
        at += (size + 3) // 4 * 4
    return files


def test_image_has_the_root_and_the_needed_modules(
    fake_kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    root = tmp_path / "root"
    (root / "usr/bin").mkdir(parents=True)
    (root / "usr/bin/busybox").write_bytes(b"box")
    (root / "bin").symlink_to("usr/bin")
    first = image.image_of(fake_kernel, root)
    assert first.release == "6.9" and first.kernel == fake_kernel.image, "it is not compressed"
    inside = entries(first.initramfs.read_bytes())
    assert inside.pop("TRAILER!!!")
    assert inside["usr/bin/busybox"][1] == b"box"
    assert stat.S_ISLNK(inside["bin"][0]) and inside["bin"][1] == b"usr/bin"
    assert stat.S_IMODE(inside["init"][0]) == 0o755
    assert inside["modules/first"][1] == b"qemu_fw_cfg.ko"
    order = inside["modules/then"][1].decode().split()
    assert order == [
        "uio.ko", "uio_pci_generic.ko", "virtio.ko", "virtio_pci.ko", "virtio_net.ko",
    ]  # fmt: skip
    assert inside["modules/virtio_net.ko"][1] == b"virtio_net"
    assert "modules/other.ko" not in inside
    stamp = first.initramfs.stat().st_mtime_ns
    assert image.image_of(fake_kernel, root).initramfs.stat().st_mtime_ns == stamp, "cached"
    (fake_kernel.modules / "kernel/virtio_net.ko").write_bytes(b"another virtio_net")
    assert image.image_of(fake_kernel, root).key != first.key


def test_image_has_drivers_of_the_given_virtual_functions(
    fake_kernel: Kernel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (fake_kernel.modules / "modules.alias").write_text(
        "# Aliases extracted from modules themselves.\n"
        "alias fs-9p 9p\n"
        "alias pci:v00008086d000010CAsv*sd*bc*sc*i* other\n"
        "alias pci:v00008086d00001889sv*sd*bc*sc*i* virtio_net\n"
    )
    igbvf = "pci:v00008086d000010CAsv00001AF4sd00001100bc02sc00i00"
    assert archive.modules_for(fake_kernel, [igbvf, igbvf]) == ["other"]
    assert archive.modules_for(fake_kernel, ["pci:v000015B3d0000101Esv0sd0bc02sc00i00"]) == []
    roots: dict[tuple[str, ...], Path] = {}

    def build_root(_engine: Path, drivers: tuple[str, ...]) -> Path:
        return roots.setdefault(drivers, tmp_path / f"root{len(roots)}")

    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(image, "kernel", lambda: fake_kernel)
    monkeypatch.setattr(image, "build_root", build_root)
    plain = image.build_image(Path("/engine"))
    given = image.build_image(Path("/engine"), [igbvf])
    assert "modules/other.ko" not in entries(plain.initramfs.read_bytes())
    order = entries(given.initramfs.read_bytes())["modules/then"][1].decode().split()
    assert order[-1] == "other.ko", "after uio_pci_generic, which can bind the VF"
    assert [("net_e1000" in drivers, "net_virtio" in drivers) for drivers in roots] == [
        (False, True), (True, True),
    ]  # fmt: skip


def test_first_process_is_a_valid_shell_script() -> None:
    subprocess.run(["sh", "-n"], input=image.INIT.encode(), check=True)
    assert "SWITCHMARK_VM_TRAFFIC" in image.INIT, "the remedy for a missing instruction"


def test_decompressed_returns_the_kernel_as_elf(tmp_path: Path) -> None:
    assert archive.decompressed(b"\x7fELFplain") == b"\x7fELFplain"
    import lzma

    assert archive.decompressed(lzma.compress(b"\x7fELF1") + b"\0\0\0\5") == b"\x7fELF1"


class FakeMachine:
    """A QEMU whose guest's clock is `behind_ns` behind the host's."""

    pid = 4711

    def __init__(self, behind_ns: int) -> None:
        self.behind_ns = behind_ns
        self.commands: list[str] = []
        self.lines: deque[str | None] = deque()

    def write_line(self, line: str) -> None:
        self.commands.append(line)
        if line == "counters":
            now_ns = time.monotonic_ns() - self.behind_ns
            self.lines.append(event("counters", t_ns=now_ns))

    def read_line(self, timeout_s: float) -> str | None:
        if not self.lines:
            raise TimeoutError
        return self.lines.popleft()


def test_times_of_the_guest_are_converted_to_the_host() -> None:
    behind_ns = time.monotonic_ns() // 2  # the host may have started a minute ago
    machine = FakeMachine(behind_ns)
    engine = GuestEngine(machine)  # type: ignore[arg-type]
    at_ns = time.monotonic_ns() + 10**9
    machine.lines.append(event("verification", sent=3))  # sent before the request
    engine.write_line(f"start duration=1 at={at_ns}")
    assert engine.clock_error_ns is not None
    start = machine.commands[-1]
    assert start.startswith("start duration=1 at=")
    inside_ns = int(start.rpartition("=")[2])
    assert abs(inside_ns - (at_ns - behind_ns)) <= engine.clock_error_ns + 1
    assert json.loads(engine.read_line(0) or "")["event"] == "verification", "no line is lost"
    machine.lines.append(event("interval", t_ns=inside_ns))
    interval = json.loads(engine.read_line(0) or "")
    assert abs(interval["t_ns"] - at_ns) <= 1
    machine.lines.append(event("result"))
    assert engine.read_line(0) == event("result"), "it has no time"
    machine.lines.append("no JSON")
    assert engine.read_line(0) == "no JSON"
    with pytest.raises(TimeoutError):
        engine.read_line(0)


def test_exit_code_is_that_of_the_engine_not_of_qemu() -> None:
    class Ended(FakeMachine):
        stderr = (
            "/run/job: line 1\r\nguest: engine ended with exit code 132\r\n"
            "guest: the engine has instructions that this CPU lacks\r\n"
            "[   10.907327] reboot: Power down\r\n"
        )

        def poll(self) -> int | None:
            return 0

        def stderr_tail(self) -> str:
            return self.stderr

    engine = GuestEngine(Ended(0))  # type: ignore[arg-type]
    assert engine.poll() == 132
    assert engine.stderr_tail().splitlines() == [
        "/run/job: line 1", "guest: the engine has instructions that this CPU lacks",
    ]  # fmt: skip
    Ended.stderr = "qemu: terminating on signal 15"
    assert engine.poll() == 0
    Ended.stderr = (
        "[    4.0] sysrq: Trigger a crash\r\n[    4.0] Kernel panic - not syncing: sysrq triggered"
        " crash\r\n[    4.0] Call Trace:\r\n[    4.1] Kernel Offset: disabled\r\n"
    )
    assert engine.stderr_tail().splitlines()[-1].endswith("not syncing: sysrq triggered crash")
    Ended.stderr = "Killed\r\n[    9.0] ACPI: PM: Preparing to enter system sleep state S5\r\n"
    assert engine.stderr_tail() == "Killed"
    Ended.stderr = ""
    assert engine.stderr_tail() == "the guest was reset or switched off"
    Ended.stderr = "guest: engine ended with exit code 0\r\n"
    assert engine.stderr_tail() == ""


def node(tmp_path: Path, accelerator: Accelerator, *ports: NodePort) -> QemuNode:
    ledger = Ledger.create(tmp_path, "abc123")
    session = Session("abc123", None, ledger, tmp_path)  # type: ignore[arg-type]
    return QemuNode(session, Attached(NodeSpec("tx0", ports, (1,)), None), IMAGE, OLD, accelerator)


def test_failed_machine_leaves_no_port(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a later trial of the session finds the names in use."""
    deleted: list[str] = []

    def refuse(_device: str, _mtu_bytes: int) -> None:
        raise OSError("no tap")

    monkeypatch.setattr(qemu, "accelerator_here", lambda _: Accelerator(KVM, ""))
    monkeypatch.setattr(qemu, "guest_engine", lambda **_: Path("/engine"))
    monkeypatch.setattr(qemu, "build_image", lambda *_: IMAGE)
    monkeypatch.setattr(packages, "qemu", lambda: OLD)
    monkeypatch.setattr(netlink, "create_tap", refuse)
    monkeypatch.setattr(netlink, "delete_link", deleted.append)
    with pytest.raises(OSError, match="no tap"):
        qemu.QemuEnvironment().create(session, NodeSpec("tx0", (port(1),), (1,)))
    assert deleted == [f"sm{session.id}tx0"]
    assert session.ledger.outstanding() == []


def test_details_of_a_node_have_the_accelerator_and_its_reason(tmp_path: Path) -> None:
    machine = node(tmp_path, Accelerator(EMULATED, "no /dev/kvm"), port(1))
    assert isinstance(machine, VirtualMachine) and machine.emulated and machine.netns is None
    assert machine.details()["accelerator"] == "software emulation (TCG)"
    assert machine.details()["accelerator_reason"] == "no /dev/kvm"
    assert machine.details()["tap_worker"] == "QEMU's process"
    assert machine.patience > 1 and machine.process_ids() == []
    machine.close()


class FakeHost:
    """Records the programs, and starts none."""

    def __init__(self) -> None:
        self.started: list[tuple[list[str], Rights]] = []

    def spawn(self, args: list[str], *, cores: object, rights: Rights) -> FakeMachine:
        self.started.append((args, rights))
        machine = FakeMachine(0)
        machine.pid = os.getpid()
        return machine


def test_machine_with_a_virtual_function_can_only_lock_memory(
    tmp_path: Path,
) -> None:
    vf = replace(port(1), kind=PortKind.VF, made_port=MadePort(pci="0000:01:10.2"))
    machine, host = node(tmp_path, Accelerator(KVM, ""), vf), FakeHost()
    machine._session = replace(machine._session, host=host)
    guest_port = machine.spec.port
    assert port_spec(guest_port, Io.RAW_MMSG) == "raw:dev=eth0,mmsg"
    assert port_spec(guest_port, Io.DPDK) == "dpdk:pci=0000:00:10.0", "the address in the guest"
    machine.spawn_engine(["sender", "--port", "dpdk:pci=0000:00:10.0"])
    ((line, rights),) = host.started
    assert rights == Rights(("ipc_lock",)), "vfio must lock the guest's memory"
    assert "vfio-pci,host=0000:01:10.2,id=port0,addr=0x10,rombar=0" in line
    assert "dpdk=0000:00:10.0" in (tmp_path / "job-tx0").read_text()
    assert machine.details()["functions"] == "0000:01:10.2, by vfio-pci"
    assert machine.details()["memory_kind"] == "memfd, shared, locked"


def test_patience_multiplies_the_timeouts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usual = node(tmp_path, Accelerator(KVM, ""), port(1))
    monkeypatch.setenv("SWITCHMARK_VM_PATIENCE", "10")
    slow = node(tmp_path / "slow", Accelerator(KVM, ""), port(1))
    assert (slow.boot_timeout_s, slow.patience) == (10 * usual.boot_timeout_s, 10 * usual.patience)
    for text in ("much", "0.5", "nan", "1e9"):
        monkeypatch.setenv("SWITCHMARK_VM_PATIENCE", text)
        with pytest.raises(UsageError, match=f"SWITCHMARK_VM_PATIENCE={text}: not a number from"):
            node(tmp_path / text, Accelerator(KVM, ""), port(1))


def test_virtual_cpus_are_one_per_core_by_default(tmp_path: Path) -> None:
    machine = node(tmp_path, Accelerator(KVM, ""), port(1))
    assert machine.details()["vcpus"] == "1"
    machine.spec = replace(machine.spec, vcpus=3)
    assert machine.details()["vcpus"] == "3"


def test_removed_tap_and_ended_qemu_are_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Ended(FakeMachine):
        def poll(self) -> int | None:
            return -15

        def stderr_tail(self) -> str:
            return ""

    machine, engine = node(tmp_path, Accelerator(KVM, "")), GuestEngine(Ended(0))  # type: ignore[arg-type]
    with pytest.raises(TrialFailed, match="sm-none: was removed while its machine started"):
        machine._wait_opened("sm-none", engine)
    monkeypatch.setattr("switchmark.environment.vm.node._has_carrier", lambda _device: False)
    with pytest.raises(
        TrialFailed, match="machine tx0: QEMU ended with exit code -15: it printed nothing"
    ):
        machine._wait_opened("tap0", engine)


def planned(text: str) -> list[Step]:
    campaign = f"environment: qemu\nswitch: linux-bridge\ndimension: throughput\n{text}"
    return plan_steps(load_text(campaign, "unit.yaml", INSTALLED.known), INSTALLED, baselines=False)


def test_virtual_cpus_come_from_the_campaign() -> None:
    steps = planned("scenario: v2v\nvcpus: [1, 2, auto]\n")
    vcpus = [spec.vcpus for step in steps for spec in step.plan.specs()]
    assert sorted(vcpus, key=str) == [1, 1, 2, 2, None, None]
    assert "-smp" in arguments(OLD, KVM) and len({step.plan.trial.id for step in steps}) == 3


def test_program_of_the_user_is_the_only_job_of_a_guest() -> None:
    ports = [port(1), port(2)]
    text = program_job(ports, ["/opt/my vnf", "eth0", "eth1"], {"SWITCHMARK_MAC_A": "02:00"})
    assert "$b ip link set eth1 mtu 1500 up" in text
    script = shlex.split(shlex.split(text.splitlines()[1].removeprefix("run="))[0])
    assert script[:3] == ["/usr/bin/busybox", "sh", "-c"]
    assert "SWITCHMARK_MAC_A=02:00 '/opt/my vnf' eth0 eth1 </dev/null" in script[3]
    done = subprocess.run(
        ["sh", "-c", script[3].replace("'/opt/my vnf' eth0 eth1", "sleep 60")],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 128 + signal.SIGTERM, "it ends at the end of its input"
    assert json.loads(done.stdout)["role"] == "program"


def test_image_with_a_program_has_its_folder_and_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(image, "machines_folder", lambda: tmp_path)
    folder, base = tmp_path / "mine", tmp_path / "base"
    folder.mkdir()
    base.write_bytes(archive.archive([("init", 0o100755, b"x")]))
    shutil.copy2("/bin/true", folder / "vnf")
    (folder / "table").write_text("a table")
    plain = replace(IMAGE, initramfs=base, key="k")
    (work := tmp_path / "work").mkdir()
    used: list[Path] = []
    install = image.install
    monkeypatch.setattr(
        image, "install", lambda root, path: (used.append(root), install(root, path))
    )
    extended = image.with_program(plain, folder / "vnf", work)
    assert {root.parent for root in used} == {work}, (
        "the session removes this folder after a killed bench"
    )
    assert not list(work.iterdir())
    inside = entries(extended.initramfs.read_bytes()[base.stat().st_size :])
    assert inside[f"{folder}/vnf".lstrip("/")][0] == 0o100755
    assert inside[f"{folder}/table".lstrip("/")][1] == b"a table"
    assert any("libc.so.6" in name for name in inside)
    assert image.with_program(plain, folder / "vnf", work) == extended and extended.key != "k"
    monkeypatch.setattr(image, "MOST_MIB", 0)
    with pytest.raises(UnavailableError, match="mine: holds more than 0 MiB"):
        image.with_program(plain, folder / "vnf", work)


def test_ports_have_the_names_of_the_guest(tmp_path: Path) -> None:
    first, second = node(tmp_path, Accelerator(KVM, ""), port(1), port(2)).spec.ports
    assert port_spec(first, Io.RAW_MMSG) == "raw:dev=eth0,mmsg"
    assert port_spec(second, Io.DPDK) == "dpdk:pci=0000:00:11.0"


def assert_refused(text: str, reason: str) -> None:
    with pytest.raises(UsageError, match=reason):
        campaign = load_text(f"environment: qemu\n{text}\n", "unit.yaml", INSTALLED.known)
        expand(campaign, INSTALLED.switches, INSTALLED.environments)


def test_impossible_campaigns_are_refused_at_planning() -> None:
    assert_refused("switch: direct", "two virtual machines cannot be connected without a switch")
    assert_refused(
        "switch: xdp-redirect", "xdp-redirect has veth ports, and environment qemu offers"
    )
    assert_refused(
        "switch: linux-bridge\nscenario: loopback-1\nvnf: /no/such", "does not exist; build or"
    )
    with pytest.raises(UsageError, match="vcpus: netns has no virtual CPUs; leave it out, or use"):
        campaign = load_text("switch: linux-bridge\nvcpus: 2", "unit.yaml", INSTALLED.known)
        expand(campaign, INSTALLED.switches, INSTALLED.environments)


def test_baseline_of_machines_exists_if_the_ends_are_veth() -> None:
    def steps(scenario: str) -> list[tuple[str, str, str]]:
        text = f"environment: qemu\nswitch: linux-bridge\nscenario: {scenario}\n"
        campaign = load_text(f"dimension: throughput\n{text}", "unit.yaml", INSTALLED.known)
        plans = [step.plan for step in plan_steps(campaign, INSTALLED)]
        return [(p.trial.switch, p.trial.environment, p.port_kind.value) for p in plans]

    assert steps("v2v") == [("linux-bridge", "qemu", "tap")]
    assert steps("loopback-1") == [
        ("direct", "netns", "veth"), ("linux-bridge", "qemu", "tap"),
    ]  # fmt: skip


def test_ends_of_a_chain_of_machines_are_veth() -> None:
    text = "environment: qemu\nswitch: linux-bridge\ndimension: throughput\nscenario: loopback-1\n"
    (step,) = plan_steps(load_text(text, "unit.yaml", INSTALLED.known), INSTALLED, baselines=False)
    kinds = [[port.kind.value for port in spec.ports] for spec in step.plan.specs()]
    assert kinds == [["veth"], ["tap", "tap"], ["veth"]]
    args = engine_args(step.plan.trial, step.plan.specs()[0].ports[0].__class__(
        PortKind.VETH, "02:00:00:00:00:01", "10.0.0.1/24", device_inside="eth0"
    ), "sender", 0, 0, "poll")  # fmt: skip
    assert args[args.index("--port") + 1] == "raw:dev=eth0,mmsg"


def test_missing_programs_are_reported_with_a_remedy(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(place, "missing", lambda *_: None)
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="aarch64"))
    availability = qemu.QemuEnvironment().availability()
    assert not availability.available and "only x86-64 guests" in (availability.reason or "")
    monkeypatch.setattr(os, "uname", lambda: SimpleNamespace(machine="x86_64"))
    packages.qemu.cache_clear()
    monkeypatch.setenv("SWITCHMARK_QEMU", str(tmp_path / "none"))
    availability = qemu.QemuEnvironment().availability()
    assert not availability.available and availability.remedy == "apt install qemu-system-x86"
    monkeypatch.setenv("SWITCHMARK_VM_KERNEL", str(tmp_path))
    assert packages.kernel_problem() == unavailable(
        f"SWITCHMARK_VM_KERNEL={tmp_path}: no boot/vmlinuz-* in it", "name an unpacked package"
    )
    monkeypatch.setenv("SWITCHMARK_VM_TRAFFIC", str(tmp_path / "engine"))
    with pytest.raises(UnavailableError, match="not an executable file"):
        qemu.guest_engine(emulated=True)
    packages.qemu.cache_clear()


def test_without_kvm_guests_are_emulated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(accelerator, "DEV_KVM", tmp_path / "kvm")
    known = accelerator.known(OLD)
    assert known is not None and known.emulated and "no " in known.reason
    (tmp_path / "kvm").touch()
    assert accelerator.known(OLD) is None, "the device alone does not show that KVM works"


def test_kvm_is_tried_once_per_boot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from switchmark.host.host import Completed

    monkeypatch.setenv("SWITCHMARK_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(accelerator, "DEV_KVM", tmp_path / "kvm")
    monkeypatch.setenv("SWITCHMARK_VM_PATIENCE", "2")
    (tmp_path / "kvm").touch()

    class Host:
        tried = 0
        stderr = "KVM internal error. Suberror: 1\nmore\n"

        def run(self, args: list[str], timeout_s: float, **_: object) -> Completed:
            Host.tried += 1
            assert value(args, "-accel") == "kvm", shlex.join(args)
            assert timeout_s == 2 * accelerator.TRIAL_S
            job = Path(value(args, "-fw_cfg").rpartition("file=")[2])
            assert job.is_relative_to(tmp_path), (
                "the session removes this folder after a killed bench"
            )
            return Completed(tuple(args), 0, "", self.stderr)

    host = Host()
    for _ in range(2):
        chosen = accelerator.choose(host, OLD, IMAGE)  # type: ignore[arg-type]
        assert chosen.emulated and "Suberror" in chosen.reason
    assert Host.tried == 1
    host.stderr = "guest: switchmark-tried\n"
    assert accelerator.choose(host, NEW, IMAGE).name == KVM  # type: ignore[arg-type]
