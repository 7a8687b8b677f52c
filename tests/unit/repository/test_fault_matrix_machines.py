"""Cases of the fault matrix with a virtual machine: which are drawn, and the monitor of QEMU."""

from __future__ import annotations

import random
import socket
import subprocess
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from switchmark.environment.vm import packages
from tests.faults import machines
from tests.faults.bench import MACHINES, Job, campaign
from tests.faults.case import Scope, draw
from tests.faults.judge import Verdict
from tests.faults.machines import MACHINE_FAULTS, OTHERS, OWN
from tests.faults.row import Row
from tests.faults.table import tell, tell_all

PAIRS = [(switch, "qemu") for switch in machines.SWITCHES]


def test_all_faults_of_machines_are_drawn_with_their_command(
    capsys: pytest.CaptureFixture[str],
) -> None:
    cases = [draw(seed, Scope(PAIRS, MACHINE_FAULTS)) for seed in range(1000)]
    assert {case.fault.name for case in cases} == {*OTHERS, *(fault.name for fault in OWN)}
    row = Row.of(Verdict(cases[7], met=True, findings=["lost"]))
    tell(row)
    tell_all([row])
    output = capsys.readouterr().out
    assert "tools/faults --case 7 " in output and " --environments qemu " in output
    assert f"| {row.fault} | 1 | 1 | 0 | 1 |" in output


def test_a_campaign_with_machines_has_one_a_trial() -> None:
    text, trials = campaign("linux-bridge", MACHINES[0], "local")
    assert "scenario: p2v" in text and trials == 2
    text, trials = campaign("linux-bridge", "netns", "local")
    assert "scenario: v2v" in text and trials == 2


def test_qemu_gets_a_monitor_and_its_guest_an_argument(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = tmp_path / "usr" / "bin" / "qemu-system-x86_64"
    real.parent.mkdir(parents=True)
    real.write_text('#!/bin/sh\n[ $# -gt 1 ] || echo "QEMU emulator version 7.2.22"\n'
                    'for word in "$@"; do echo "$word"; done\n')  # fmt: skip
    real.chmod(0o755)
    kernel = packages.Kernel(tmp_path / "kernel", "6.1")
    monkeypatch.setenv(packages.QEMU_SETTING, str(real))
    monkeypatch.setattr(packages, "kernel_at_hand", lambda: kernel)
    packages.qemu.cache_clear()
    try:
        more = machines.prepare(tmp_path)
    finally:
        packages.qemu.cache_clear()
    script = more[packages.QEMU_SETTING]

    def words(*args: str) -> list[str]:
        done = subprocess.run([script, *args], capture_output=True, text=True, check=True)
        return done.stdout.splitlines()

    assert words("--version") == ["QEMU emulator version 7.2.22", "--version"]
    arguments = words("-append", "quiet panic=-1", "-smp", "1")
    assert arguments[:4] == ["-append", "quiet panic=-1", "-smp", "1"]
    assert arguments[4:6] == ["-append", "quiet panic=-1 sysrq_always_enabled=1"]
    assert arguments[7].startswith(f"socket,id=faults,path={tmp_path}/{machines.FOLDER}/")
    assert (Path(script).parent.parent / "share").readlink() == tmp_path / "usr" / "share"
    assert more[packages.KERNEL_SETTING] == str(kernel.root)


def test_monitor_gets_the_command_and_its_reverse(
    socket_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machines, "ANSWERS_S", 600.0)  # a thread here may wait for its core
    commands: list[str] = []
    (socket_folder / machines.FOLDER).mkdir()
    with socket.socket(socket.AF_UNIX) as door:
        door.bind(str(socket_folder / machines.FOLDER / "42"))
        door.listen()

        def answer() -> None:
            for _ in range(2):
                with door.accept()[0] as monitor:
                    monitor.sendall(b"QEMU 7.2 monitor\r\n(qemu) ")
                    commands.append(monitor.recv(100).decode())
                    monitor.sendall(b"(qemu) ")

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        (paused,) = (fault for fault in OWN if fault.name == "a guest is paused")
        places = SimpleNamespace(campaign=socket_folder / "7" / "faults.yaml")
        job = cast(Job, SimpleNamespace(places=places, machines=lambda: [42]))
        undo = paused.inflict(job, random.Random(1))
        assert undo is not None and commands == ["stop\n"]
        undo()
        thread.join()
    assert commands == ["stop\n", "cont\n"]


def test_nothing_is_done_without_a_machine_or_monitor(tmp_path: Path) -> None:
    (reset,) = (fault for fault in OWN if fault.name == "a guest is reset")
    places = SimpleNamespace(campaign=tmp_path / "7" / "faults.yaml")
    for pids in ([], [42]):
        job = cast(Job, SimpleNamespace(places=places, machines=lambda pids=pids: pids))
        assert reset.inflict(job, random.Random(1)) is None


def test_lack_of_qemu_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(packages.QEMU_SETTING, "/nowhere/qemu")
    packages.qemu.cache_clear()
    try:
        assert "/nowhere/qemu" in (machines.problem() or "")
    finally:
        packages.qemu.cache_clear()
