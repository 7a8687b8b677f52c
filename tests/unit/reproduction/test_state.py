"""What this machine can do of an item: what stands in for what, as far as it is known."""

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
    """A state folder of its own, and KVM of which nothing is known."""
    folder = Path(f"/tmp/smrs{os.getpid()}")
    monkeypatch.setenv("SWITCHMARK_STATE_DIR", str(folder))
    monkeypatch.setattr(packages, "qemu", lambda: QEMU)
    monkeypatch.setattr(accelerator, "known", lambda _qemu: None)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.parametrize(
    ("known", "stands_in", "says"),
    [
        (Accelerator(KVM, "a guest was started on it"), False, False),
        (Accelerator(EMULATED, "it starts no guest"), True, False),
        (None, True, True),
    ],
)
def test_guests_are_chosen_where_they_are_known_to_start(
    monkeypatch: pytest.MonkeyPatch, known: Accelerator | None, stands_in: bool, says: bool
) -> None:
    """/dev/kvm that opens is no promise: until a guest was tried, containers stand in."""
    monkeypatch.setattr(packages, "qemu", lambda: QEMU)
    monkeypatch.setattr(accelerator, "known", lambda _qemu: known)
    found = state.state_of(GUESTS, THERE)
    assert set(STAND_IN.set) <= set(found.settings) if stands_in else not found.settings
    assert any(UNTRIED in note for note in found.notes) is says


@pytest.mark.usefixtures("bench")
def test_kvm_is_tried_before_items_that_it_decides_and_no_others(
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
    assert len(tried) == 1, "and that it could not be tried is no error"
    monkeypatch.setattr(accelerator, "known", lambda _qemu: Accelerator(KVM, ""))
    state.try_kvm([GUESTS])
    assert len(tried) == 1, "it is known"


def test_a_guest_that_is_tried_ends_with_a_bench_that_is_ended(
    monkeypatch: pytest.MonkeyPatch, bench: Path
) -> None:
    """QEMU stands still where KVM starts no guest: nobody else would end it."""

    def is_ended(host: Host) -> Accelerator:
        (ledger,) = bench.glob("*.ledger")
        told = host.run(["sh", "-c", "echo $SWITCHMARK_SESSION"]).stdout.strip()
        assert told == ledger.stem, "after a SIGKILL `clean` finds it"
        assert signal.getsignal(signal.SIGTERM) != signal.SIG_DFL
        signal.raise_signal(signal.SIGTERM)
        raise AssertionError("it was ended")

    monkeypatch.setattr(state, "accelerator_here", is_ended)
    with pytest.raises(SystemExit):
        state.try_kvm([GUESTS])
    assert not list(bench.glob("*.ledger"))
