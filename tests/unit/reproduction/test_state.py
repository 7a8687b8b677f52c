"""The state of an item on this machine, with its substitutes."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.campaign.installed import installed
from switchmark.environment.vm import accelerator, packages
from switchmark.environment.vm.accelerator import Accelerator
from switchmark.environment.vm.command import EMULATED, KVM
from switchmark.environment.vm.packages import Qemu
from switchmark.errors import UnavailableError
from switchmark.host.host import Host
from switchmark.reproduction import state
from switchmark.reproduction.paper import read_paper

THERE = installed()
PAPER = read_paper("zhang2019")
GUESTS = PAPER.item("table4")  # between virtual machines
STAND_IN = GUESTS.stand_in[0]
QEMU = Qemu(Path("/usr/bin/qemu-system-x86_64"), (7, 2, 0))
UNTRIED = "whether guests start on KVM was not tried yet"


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A separate state folder, and KVM that was not tried."""
    folder = Path(f"/tmp/smrs{os.getpid()}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(folder))
    monkeypatch.setattr(packages, "qemu", lambda: QEMU)
    monkeypatch.setattr(accelerator, "known", lambda _qemu: None)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("known", "is_substituted", "has_remark"),
    [
        (Accelerator(KVM, "a guest was started on it"), False, False),
        (Accelerator(EMULATED, "it starts no guest"), True, False),
        (None, True, True),
    ],
)
def test_guests_are_used_if_they_are_known_to_start(
    monkeypatch: pytest.MonkeyPatch,
    known: Accelerator | None,
    is_substituted: bool,
    has_remark: bool,
) -> None:
    """An open /dev/kvm is not enough: containers replace guests until a guest has started."""
    monkeypatch.setattr(packages, "qemu", lambda: QEMU)
    monkeypatch.setattr(accelerator, "known", lambda _qemu: known)
    found = state.state_of(GUESTS, THERE)
    assert set(STAND_IN.set) <= set(found.settings) if is_substituted else not found.settings
    assert any(UNTRIED in note for note in found.notes) is has_remark


@pytest.mark.usefixtures("bench")
def test_kvm_is_tried_only_for_items_that_depend_on_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = []

    def fails(host: object) -> Accelerator:
        tried.append(host)
        raise UnavailableError("no guest's kernel")

    monkeypatch.setattr(state, "accelerator_here", fails)
    state.try_kvm([PAPER.item("fig4a")])
    assert not tried
    state.try_kvm([PAPER.item("fig4a"), GUESTS])
    assert len(tried) == 1, "a failed try is not an error"
    monkeypatch.setattr(accelerator, "known", lambda _qemu: Accelerator(KVM, ""))
    state.try_kvm([GUESTS])
    assert len(tried) == 1, "the result is known"


def test_guest_of_a_try_ends_with_the_bench(monkeypatch: pytest.MonkeyPatch, bench: Path) -> None:
    """If KVM starts no guest, QEMU hangs, and only the bench ends it."""

    def is_ended(host: Host) -> Accelerator:
        (ledger,) = bench.glob("*.ledger")
        session = host.run(["sh", "-c", "echo $SWITCHMARK_SESSION"]).stdout.strip()
        assert session == ledger.stem, "`clean` finds it after a SIGKILL"
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("SIGTERM did not end it")

    monkeypatch.setattr(state, "accelerator_here", is_ended)
    with pytest.raises(SystemExit):
        state.try_kvm([GUESTS])
    assert not list(bench.glob("*.ledger"))
