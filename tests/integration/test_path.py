"""`switchmark path` shows real networks and changes nothing."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import needs_root
from tests.integration.own_network import (
    PAIR_ON_A_BRIDGE,
    ROUTED,
    TWO_BRIDGES,
    OwnNetwork,
    own_network,
)

pytestmark = [pytest.mark.integration, needs_root]


@pytest.fixture(scope="module")
def host() -> Iterator[OwnNetwork]:
    folder = Path(f"/var/tmp/smpath{os.getpid()}")
    with own_network(folder) as network:
        network.sh(PAIR_ON_A_BRIDGE + ROUTED + TWO_BRIDGES)
        yield network
    shutil.rmtree(folder, ignore_errors=True)


def shown(host: OwnNetwork, a: str, b: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(host.bench("path", a, b, "--json").stdout)
    return found


def stations(trace: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["device"], one["action"]) for one in trace["stations"]]


def test_a_bridged_path_is_shown_both_ways(host: OwnNetwork) -> None:
    found = shown(host, "netns:a", "netns:b")
    assert stations(found["forth"]) == [
        ("eth0", "sends"), ("va", "receives"), ("br0", "bridges"), ("vb", "sends"),
        ("eth0", "receives"),
    ]  # fmt: skip
    assert found["forth"]["arrives"] and found["back"]["arrives"]
    assert (found["forth"]["routers"], found["mtu"]) == (0, 1400)
    assert found["refused"] == []
    by_label = {one["label"]: one for one in found["namespaces"]}
    assert by_label["this host"]["bridges"] == {"br0": ["va", "vb"]}


def test_a_routed_path_has_a_router(host: OwnNetwork) -> None:
    found = shown(host, "netns:a", "netns:c")
    assert ("br0", "routes") in stations(found["forth"])
    assert found["forth"]["routers"] == found["back"]["routers"] == 1
    assert found["forth"]["arrives"] and found["back"]["arrives"]


def test_two_bridges_that_a_veth_pair_joins_are_followed(host: OwnNetwork) -> None:
    """Both ends of the pair are in one namespace. A trial proves the same path."""
    found = shown(host, "netns:d", "netns:e")
    expected = ["eth0", "vd", "br2", "j2", "j3", "br3", "ve", "eth0"]
    assert [device for device, _ in stations(found["forth"])] == expected
    assert found["forth"]["arrives"] and found["back"]["arrives"] and found["refused"] == []
    done = host.bench(
        "trial", "existing", "--no-baseline", "--json", "--rate", "200", "--duration", "1s",
        "--set", "endpoints=netns:d+netns:e", "--results", str(host.folder / "r"), check=False,
    )  # fmt: skip
    (record,) = json.loads(done.stdout)
    assert record["status"] == "finished", record["message"]
    counted = [one["device"] for one in record["crossing"]["devices"]]
    assert counted == [one for one in expected if not one.startswith("br")]


# How a device is made, and the commands that put it before the network of the endpoints f and g.
UNDER = {
    "vlan": """
ip -n f link add link eth0 name eth0.7 type vlan id 7; ip -n f link set eth0.7 up
ip -n g link add link eth0 name eth0.7 type vlan id 7; ip -n g link set eth0.7 up
""",
    "bond": """
ip -n f link add bond0 type bond mode active-backup; ip -n f link set eth0 down
ip -n f link set eth0 master bond0; ip -n f link set bond0 up
""",
}
KIND_PROBES = {"vlan": ("link", "br0", "type", "vlan", "id", "7"), "bond": ("type", "bond")}
PAIR = """
for n in f g; do
  ip netns add $n; ip netns exec $n sysctl -qw $QUIET
  ip link add v$n type veth peer name eth0 netns $n; ip link set v$n master br0 up
  ip -n $n link set lo up; ip -n $n link set eth0 up
done
"""


@pytest.mark.parametrize(
    ("kind", "near", "far"), [("vlan", "eth0.7", "eth0.7"), ("bond", "bond0", "eth0")]
)
def test_device_above_the_pair_is_followed(
    host: OwnNetwork, kind: str, near: str, far: str
) -> None:
    if host.run("ip", "link", "add", "t0", *KIND_PROBES[kind], check=False).returncode:
        pytest.skip(f"this kernel has no {kind} devices")
    try:
        host.sh("ip link del t0; " + PAIR + UNDER[kind])
        host.sh(
            f"ip -n f addr add 10.75.0.2/24 dev {near}; ip -n g addr add 10.75.0.3/24 dev {far}"
        )
        found = shown(host, "netns:f", "netns:g")
        names = [device for device, _ in stations(found["forth"])]
        assert names[:2] == [near, "eth0"] and names[-1] == far
        assert found["forth"]["arrives"] and found["back"]["arrives"] and found["refused"] == []
    finally:
        host.sh("ip netns del f; ip netns del g")


def test_a_process_and_a_namespace_are_the_same_endpoint(host: OwnNetwork) -> None:
    inside = host.spawn("ip", "netns", "exec", "b", "sleep", "60")
    try:
        while not host.run("ip", "netns", "pids", "b").stdout.strip():
            pass
        pid = host.run("ip", "netns", "pids", "b").stdout.split()[0]
        found = shown(host, "netns:a", f"pid:{pid}")
        assert found["forth"] == shown(host, "netns:a", "netns:b")["forth"]
        done = host.bench("path", "netns:b", f"pid:{pid}", check=False)
        assert done.returncode == 3 and "one network namespace" in done.stderr
    finally:
        inside.kill()
        inside.wait()


def test_the_default_route_of_the_host_is_refused(host: OwnNetwork) -> None:
    host.sh("ip route add default via 10.78.0.2 dev vc")
    try:
        found = shown(host, "netns:a", "netns:c")
        assert any(
            "vc is the device of this host's default route" in one for one in found["refused"]
        )
        assert shown(host, "netns:a", "netns:b")["refused"] == []
    finally:
        host.sh("ip route del default")


def test_nat_rules_are_counted(host: OwnNetwork) -> None:
    host.sh("nft add table ip nat; nft add chain ip nat post "
            "'{ type nat hook postrouting priority 100; }'; "
            "nft add rule ip nat post ip saddr 10.99.0.0/24 masquerade")  # fmt: skip
    try:
        found = shown(host, "netns:a", "netns:b")
        state = next(one for one in found["namespaces"] if one["label"] == "this host")
        assert (state["firewall"]["rules"], state["firewall"]["nat_rules"]) == (1, 1)
        text = host.bench("path", "netns:a", "netns:b").stdout
        assert "1 firewall rules (1 NAT)" in text
    finally:
        host.sh("nft delete table ip nat")


def test_the_command_changes_nothing(host: OwnNetwork) -> None:
    """The whole state of the host and its namespaces is equal before and after."""
    before = host.state()
    assert "10.77.0.2" in before and "52:54:00:11:22:33" in before
    for second in ("netns:b", "netns:c", "dev:br0", "address:10.77.0.1:80"):
        host.bench("path", "netns:a", second)
        host.bench("path", "netns:a", second, "--json")
    assert host.state() == before


def test_an_ordinary_user_reads_which_parts_are_not_visible(host: OwnNetwork) -> None:
    nobody = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=-all",
              sys.executable, "-m", "switchmark"]  # fmt: skip
    done = host.run(*nobody, "path", "netns:a", "netns:b", check=False)
    assert done.returncode == 3
    assert "netns:b: its network namespace cannot be entered" in done.stderr
    assert "sudo" in done.stderr
    done = host.run(*nobody, "path", "dev:br0", "address:10.77.0.2", "--json")
    found = json.loads(done.stdout)
    assert stations(found["forth"])[0] == ("br0", "bridges")
    assert not found["forth"]["arrives"] and found["unseen"]
    assert found["namespaces"][0]["firewall"]["program"] == ""


def test_a_pod_is_found_by_the_runtime(host: OwnNetwork) -> None:
    """A program plays `crictl`; the process of the sandbox is real."""
    inside = host.spawn("ip", "netns", "exec", "b", "sleep", "60")
    try:
        while not (pids := host.run("ip", "netns", "pids", "b").stdout.split()):
            pass
        ready = {"metadata": {"namespace": "shop", "name": "db"}, "state": "SANDBOX_READY"}
        answers = {
            "pods": {"items": [ready | {"id": "abc123"}]},
            "inspectp": {"info": {"pid": int(pids[0])}},
        }
        for name, answer in answers.items():
            (host.folder / name).write_text(json.dumps(answer))
        program = host.folder / "crictl"
        program.write_text(f'#!/bin/sh\nexec cat "{host.folder}/$1"\n')
        program.chmod(0o755)
        path = f"PATH={host.folder}:{os.environ['PATH']}"
        bench = ("env", path, sys.executable, "-m", "switchmark")
        found = json.loads(host.run(*bench, "path", "netns:a", "pod:shop/db", "--json").stdout)
        assert found["forth"] == shown(host, "netns:a", "netns:b")["forth"]
        done = host.run(*bench, "path", "netns:a", "pod:shop/web", check=False)
        assert done.returncode == 3 and "no such pod that is ready" in done.stderr
    finally:
        inside.kill()
        inside.wait()
