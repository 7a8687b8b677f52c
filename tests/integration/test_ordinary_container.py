"""An ordinary container measures the switches with socket ports without any privilege, and refuses
the others with the reason."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from switchmark.host.place import Facility
from switchmark.host.place.remedies import TEXTS, ContainerRemedy
from switchmark.switch.registry import SWITCHES as KNOWN
from tests.integration.machine import needs_root
from tests.integration.ordinary_container import OrdinaryContainer, ordinary_container

pytestmark = [pytest.mark.integration, needs_root]
# Switches whose ports can be sockets and that need no privilege (docs/places.md).
SWITCHES = ("basicfwd", "testpmd", "ovs-dpdk", "vpp", "bess", "fastclick")
SETTINGS = ("repeat_disturbed=3",
    "environment=bare", "duration=0.5s", "rate=5k", "repetitions=1", "idle=sleep",
    "interval=25ms",  # many samples: a busy machine spoils some of them
)  # fmt: skip
OPTIONS = {
    "without options": (),
    # A pod that follows the `restricted` standard, or OpenShift, starts it like this.
    "any user, no capability": (
        "--user=12345:12345", "--cap-drop=ALL", "--security-opt=no-new-privileges", "--read-only",
        "--tmpfs=/tmp:mode=1777", "--env=HOME=/tmp",
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OrdinaryContainer]:
    with ordinary_container(tmp_path_factory.mktemp("container")) as docker:
        yield docker


def settings(*words: str) -> list[str]:
    return [part for word in words for part in ("--set", word)]


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_switches_with_sockets_forward_and_count(
    container: OrdinaryContainer, tmp_path: Path, options: tuple[str, ...]
) -> None:
    here = [name for name in SWITCHES if KNOWN[name]().availability().available]
    if not here:
        pytest.skip("no switch is installed whose ports are sockets")
    (tmp_path / "all.yaml").write_text(
        f"name: all\nswitch: [direct, {', '.join(here)}]\nport_kind: vhost-user\n"
    )
    tmp_path.chmod(0o777)
    done = container.run(
        "run", "all.yaml", "--quiet", *settings(*SETTINGS), options=options, results=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "left behind" not in done.stderr
    records = records_in(tmp_path)
    assert {record["trial"]["switch"] for record in records} == {"direct", *here}
    for record in records:
        assert record["status"] == "finished", record
        assert record["throughput"]["forwarded_pps"] > 0, record
        assert record["page_size_kib"] == 4, "the filter refuses DPDK's calls for hugepages"
        if record["trial"]["switch"] == "direct":
            continue
        counted = record["reconciliation"]
        assert counted["sent"] > 0 and counted["agrees"], counted
        if record["trial"]["switch"] == "ovs-dpdk":
            assert record["switch_details"]["datapath"] == "dummy"


def records_in(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(path.read_text()) for path in folder.glob("results/*/trials/*.json")]


@pytest.mark.parametrize(
    ("args", "remedy"),
    [
        (("linux-bridge",), "docker run --privileged"),
        (("basicfwd", "--environment", "netns"), "environment=bare"),
        (("direct", "--environment", "bare", "--set", "port_kind=veth"), "--cap-add NET_ADMIN"),
        (("basicfwd", "--environment", "bare", "--set", "cpu_limit=50%"), "on the host"),
    ],
)
def test_switch_that_needs_a_privilege_is_refused(
    container: OrdinaryContainer, args: tuple[str, ...], remedy: str
) -> None:
    done = container.run("trial", *args)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert "cannot run here: this container cannot make " in line and remedy in line


def test_user_without_capabilities_makes_namespaces(
    container: OrdinaryContainer, tmp_path: Path
) -> None:
    """The options that `doctor` recommends let any user measure switches of the kernel."""
    remedy = TEXTS[Facility.USER_NAMESPACE].container
    assert isinstance(remedy, ContainerRemedy)
    options = OPTIONS["any user, no capability"]
    tmp_path.chmod(0o777)
    done = container.run(
        "trial", "linux-bridge", "--environment", "netns", "--quiet", "--no-baseline", "--json",
        *settings("duration=0.5s", "rate=5k"),
        options=(*options, *remedy.docker.split()), results=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished" and record["throughput"]["forwarded_pps"] > 0


@pytest.mark.parametrize("ipv6", ["off", "on"])
def test_devices_need_one_capability_only(container: OrdinaryContainer, ipv6: str) -> None:
    """A veth pair between two processes with NET_ADMIN, without a namespace. Docker disables IPv6
    in containers. Where it is enabled it cannot be disabled from inside, but frames of the kernel
    must not count."""
    setting = f"net.ipv6.conf.default.disable_ipv6={int(ipv6 == 'off')}"
    done = container.run(
        "trial", "direct", "--quiet", "--no-baseline", "--json",
        *settings(*SETTINGS, "port_kind=veth"),
        options=("--cap-add=NET_ADMIN", f"--sysctl={setting}"),
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished" and record["throughput"]["forwarded_pps"] > 0
    assert record["verification"]["passed"], record["verification"]
