"""The files of a running trial are closed to other users, whatever the umask of the bench's user;
only results follow the umask."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.integration.machine import needs_root
from tests.integration.main_job import POLLING, SHORT, Bench, need, settings, went_well

pytestmark = [pytest.mark.integration, needs_root]

OF_CONTAINERS = ("docker", "lxc")  # the content of these folders has other modes


@pytest.fixture
def no_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.parametrize(
    ("switch", "environment"),
    [
        ("ovs-netdev", "netns"),
        ("ovs-dpdk", "lxc"),
        ("testpmd", "bare"),
        pytest.param("basicfwd", "docker", marks=pytest.mark.slow),
    ],
)
def test_files_of_a_running_trial_are_private(
    bench: Bench, no_umask: None, switch: str, environment: str
) -> None:
    need((switch,), (environment,))
    options = settings(*SHORT, POLLING, f"environment={environment}", "rate=10k", "duration=2s")
    job = bench.start("trial", switch, "--no-baseline", *options)
    try:
        folder = bench.state / job.wait_session()
        job.wait_measuring()
        modes = {}
        for path in (folder, *folder.rglob("*")):
            with suppress(FileNotFoundError):  # a program may have removed it meanwhile
                modes[path] = path.lstat().st_mode
    finally:
        code, _, err = job.end()
    assert went_well(code, err), err
    assert any(stat.S_ISSOCK(mode) for mode in modes.values())
    others = 0o022 if environment == "docker" else 0o077  # its programs have another umask
    open_to_others = {
        str(path): stat.filemode(mode)
        for path, mode in modes.items()
        if mode & others and not set(path.relative_to(folder).parts[:-1]) & set(OF_CONTAINERS)
    }
    assert open_to_others == {}
    (record,) = bench.results.glob("*/trials/*.json")
    assert stat.S_IMODE(record.stat().st_mode) == 0o666, "results follow the user's umask"
