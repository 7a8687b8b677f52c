"""The built-in campaign `quick`, shortened, started without privileges: as an ordinary user and in
an ordinary container. It ranks three contenders and lists the skipped ones with the reason."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from switchmark.switch.registry import SWITCHES
from tests.integration.ordinary_container import OrdinaryContainer, ordinary_container
from tests.integration.ordinary_user import OrdinaryUser, ordinary_user

pytestmark = [pytest.mark.integration, pytest.mark.alone]
# One block of one point, because the number of blocks of a proof depends on the machine's noise.
SHORT = ("dimension=throughput", "packet_size=64", "duration=1s", "repetitions=1")
QUICK = ["run", "quick", *(word for one in SHORT for word in ("--set", one))]
OF_A_USER = ("linux-bridge", "basicfwd", "ovs-dpdk", "testpmd", "tc-redirect", "af-packet")
OF_A_CONTAINER = ("basicfwd", "ovs-dpdk", "testpmd", "vpp", "bess")


@pytest.fixture
def user() -> Iterator[OrdinaryUser]:
    with ordinary_user() as account:
        yield account


@pytest.fixture
def container(tmp_path: Path) -> Iterator[OrdinaryContainer]:
    with ordinary_container(tmp_path) as docker:
        yield docker


def first_three(preferred: tuple[str, ...]) -> list[str]:
    """Return the first three of these that are installed; skips the test if there are fewer."""
    found = [name for name in preferred if SWITCHES[name]().availability().available][:3]
    if len(found) < 3:
        pytest.skip(f"only {', '.join(found) or 'none'} of {', '.join(preferred)} is installed")
    return found


def check_ranked(done: subprocess.CompletedProcess[str], expected: list[str]) -> None:
    assert done.returncode == 0, done.stdout + done.stderr
    ranked = re.findall(r"^ +(\S+), 64 B .* forwarded", done.stdout, re.M)
    assert sorted({*ranked} - {"baseline"}) == sorted(expected), done.stdout + done.stderr
    assert re.search(r"\d+ trials finished, 0 failed", done.stderr), done.stderr


def test_ordinary_user_ranks_three(user: OrdinaryUser) -> None:
    expected = first_three(OF_A_USER)
    done = user.run(*QUICK)
    check_ranked(done, expected)
    first = done.stderr.splitlines()[0]
    assert first.startswith("quick: ") and "an ordinary user cannot make control groups" in first
    assert "processes in network namespaces (environment netns), not LXC containers" in first


def test_ordinary_container_ranks_three(container: OrdinaryContainer) -> None:
    expected = first_three(OF_A_CONTAINER)
    done = container.run(*QUICK)
    check_ranked(done, expected)
    first = done.stderr.splitlines()[0]
    assert first.startswith("quick: ") and "linux-bridge" in first.partition(" left out ")[0]
    assert "this container cannot make network namespaces" in first
    assert "remedy: docker run --privileged" in first
    assert "plain processes (environment bare)" in first
