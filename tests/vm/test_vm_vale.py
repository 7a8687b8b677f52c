"""VALE and the engine's netmap backend, with a netmap.ko that the user has built.

`SWITCHMARK_NETMAP` names the folder that it lies in; the guest boots the kernel that it was
built for."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from switchmark.environment.engine_binary import find_engine
from tests.vm.conftest import check_forwarded, records, trial
from tests.vm.guest import Machine, Outcome

SETTING = "SWITCHMARK_NETMAP"


@pytest.fixture
def module() -> Path:
    folder = os.environ.get(SETTING)
    if not folder:
        pytest.skip(f"no netmap.ko is named; set {SETTING} to the folder of one")
    path = Path(folder, "netmap.ko").resolve()
    if not path.is_file():
        pytest.skip(f"{SETTING}={folder}: no netmap.ko in it")
    told = subprocess.run([find_engine(), "--help"], capture_output=True, text=True, check=False)
    if not re.search(r"^\s*netmap\b", told.stdout, re.MULTILINE):
        pytest.skip(f"{find_engine()} is built without netmap; build with -Dnetmap_headers=FOLDER")
    return path


@pytest.fixture
def guest(module: Path, new_machine: Callable[..., Machine]) -> Machine:
    found = re.search(rb"vermagic=(\S+)", module.read_bytes())
    assert found is not None, f"{module} does not say which kernel it is for"
    return new_machine(release=found[1].decode())


def test_vale_in_records(module: Path, guest: Machine, keep: Callable[[Outcome], Outcome]) -> None:
    """Ports that applications open themselves, and kernel devices attached in generic mode."""
    lines = [trial("vale --rate 5k"), trial("vale --rate 1k --set port_kind=veth")]
    job = f"insmod {shlex.quote(str(module))}\n" + "".join(f"{line} || true\n" for line in lines)
    outcome = keep(guest.run(job + "cp -r /tmp/results /exchange/\n"))
    outcome.check()
    native, attached = records(outcome, 2)
    for record in (native, attached):
        check_forwarded(record, "vale", "learning")
        assert record.verification is not None
        assert record.verification.witness_frames == 0
        assert record.reconciliation is not None
        assert record.reconciliation.agrees, record.reconciliation.findings
    assert (native.port_kind, native.io) == ("vale", "netmap")
    assert (attached.port_kind, attached.io) == ("veth", "raw-mmsg")
    assert attached.reconciliation is not None
    assert attached.reconciliation.paths[0].switch_received is not None


@pytest.mark.parametrize(
    "what",
    [
        "tests/integration/test_engine_netmap.py",
        "tests/integration/test_switch_contract.py tests/integration/test_switch_shortages.py "
        "-k vale",
    ],
    ids=["backend", "contract"],
)
def test_inside(
    what: str, module: Path, guest: Machine, keep: Callable[[Outcome], Outcome]
) -> None:
    job = f"insmod {shlex.quote(str(module))}\npython -m pytest -q -p no:cacheprovider {what}\n"
    outcome = keep(guest.run(job))
    outcome.check()
    assert " passed" in outcome.output
