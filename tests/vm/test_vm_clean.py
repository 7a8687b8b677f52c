"""The environment `qemu` leaves nothing behind, whenever the bench is killed, and touches nothing
of a user."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from switchmark.environment.vm import packages
from switchmark.errors import UnavailableError
from tests.integration import test_clean, test_environments
from tests.integration.machine import needs_root, own_state
from tests.integration.main_job import SHORT, Bench, campaign_file, need, new_bench, settings, until
from tests.integration.test_clean import decoys
from tests.integration.test_environments import decoys as all_decoys

__all__ = ["all_decoys", "decoys"]
pytestmark = [needs_root]


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the kernel that was downloaded before, whatever the cache."""
    need([], ["qemu"])
    try:
        monkeypatch.setenv(packages.KERNEL_SETTING, str(packages.kernel().root))
    except UnavailableError as error:
        pytest.skip(str(error))


@pytest.fixture
def state(kernel: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    yield from own_state(monkeypatch, tmp_path)


@pytest.fixture
def bench(kernel: None, tmp_path: Path) -> Iterator[Bench]:
    yield from new_bench(tmp_path)


def test_killed_after_any_line_of_the_ledger(state: Path, decoys: dict[str, str]) -> None:
    test_clean.test_killed_after_any_line_of_the_ledger(state, "qemu", decoys)


def users(where: dict[str, str]) -> dict[str, object]:
    """Return the state of the decoys alone, as other programs come and go."""
    state = test_environments.look(where)
    del state["namespaces"]
    for key, entries in state.items():
        if isinstance(entries, list):
            state[key] = [entry for entry in entries if "decoy" in json.dumps(entry)]
    assert state["addr"] and state["route"]
    return state


def is_up(device: str) -> bool:
    return Path("/sys/class/net", device, "operstate").read_text() == "up\n"


def test_programs_of_a_user_are_not_changed(
    bench: Bench, tmp_path: Path, all_decoys: dict[str, str]
) -> None:
    """Also a virtual machine of the user with its tap in a bridge."""
    run = test_environments.run
    run("ip", "tuntap", "add", "decoytap0", "mode", "tap")
    user_machine = [
        *(packages.qemu_program() or "", "-nodefaults", "-display", "none", "-S", "-m", "64"),
        *("-netdev", "tap,id=n,ifname=decoytap0,script=no,downscript=no"),
    ]
    process = subprocess.Popen(user_machine, stdin=subprocess.DEVNULL)
    try:
        run("ip", "link", "set", "decoytap0", "addrgenmode", "none")
        run("ip", "link", "set", "decoytap0", "master", "decoybr0", "up")
        for device in ("decoytap0", "decoybr0"):  # the kernel updates them some time later
            until(partial(is_up, device), f"{device} up", 30)
        before = users(all_decoys)
        file = campaign_file(
            tmp_path,
            "switch: [linux-bridge, ovs-dpdk]\nenvironment: qemu\nscenario: p2v\nrate: 1k\n"
            "connect_mode: learning\ndimension: throughput\nduration: 4s\n",
        )
        args = settings(*SHORT)
        code, _, err = bench.run("run", file, "--no-baseline", "--quiet", *args)
        assert code == 0, err
        assert {record.trial.switch for record in bench.records()} == {"linux-bridge", "ovs-dpdk"}
        after = users(all_decoys)
        for key, was in before.items():
            assert after[key] == was, key
        assert process.poll() is None, "the user's machine still runs"
    finally:
        process.kill()
        process.wait()
        run("ip", "link", "del", "decoytap0")
