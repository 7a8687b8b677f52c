"""`switch: existing`: networks that the test has made, in a separate host, measured by the bench.

The bench leaves the networks as they were, also after `kill -9`.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.integration.machine import needs_root
from tests.integration.own_network import PAIR_ON_A_BRIDGE, ROUTED, OwnNetwork, own_network

pytestmark = [pytest.mark.integration, needs_root]
FREE = "10.77.0.201/24+10.77.0.202/24"
SHORT = ("--set", "duration=1s", "--set", "rate=200", "--set", "burst=1")


@pytest.fixture(scope="module")
def shared_host() -> Iterator[OwnNetwork]:
    folder = Path(f"/var/tmp/smexist{os.getpid()}")
    with own_network(folder) as network:
        network.sh(PAIR_ON_A_BRIDGE + ROUTED)
        yield network
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def host(shared_host: OwnNetwork) -> Iterator[OwnNetwork]:
    """The host, which every test leaves as it was."""
    before = shared_host.state(learned=False)
    yield shared_host
    assert shared_host.state(learned=False) == before
    left = [path.name for path in (shared_host.folder / "s").glob("*.ledger")]
    assert left == []


def trial(host: OwnNetwork, *settings: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    arguments = [word for setting in settings for word in ("--set", setting)]
    results = ["--results", str(host.folder / "r")]
    return host.bench(
        "trial", "existing", "--no-baseline", "--json", *SHORT, *arguments, *results, check=check
    )


def record(host: OwnNetwork, *settings: str) -> dict[str, Any]:
    (found,) = json.loads(trial(host, *settings).stdout)
    assert found["status"] == "finished", found["message"]
    return dict(found)


def message(host: OwnNetwork, *settings: str) -> str:
    """The message of a trial that fails, or of a start that is refused."""
    done = trial(host, *settings, check=False)
    assert done.returncode != 0
    return done.stderr + done.stdout


def test_two_namespaces_are_measured_and_the_crossing_proven(host: OwnNetwork) -> None:
    found = record(host, "endpoints=netns:a+netns:b", "packet_size=64")
    crossing = found["crossing"]
    assert [one["device"] for one in crossing["devices"]] == ["eth0", "va", "vb", "eth0"]
    assert all(one["bytes"] >= crossing["least_bytes"] > 0 for one in crossing["devices"])
    assert (crossing["ttl_forth"], crossing["ttl_back"], crossing["path_mtu"]) == (64, 64, 1400)
    assert crossing["source_seen"] == "10.77.0.2" and not crossing["translated"]
    assert not crossing["shared"] and not crossing["changed"]
    assert found["throughput"]["forwarded_pps"] > 0
    assert "wrong-connect-mode" not in found["verdict"]["marks"]


def test_round_trips_cross_a_router(host: OwnNetwork) -> None:
    found = record(host, "endpoints=netns:a+netns:c", "dimension=latency", "duration=1s")
    assert found["crossing"]["ttl_forth"] == found["crossing"]["ttl_back"] == 63
    assert found["latency"]["percentiles_ns"]["50"] > 0


def test_a_frame_above_the_path_mtu_is_refused(host: OwnNetwork) -> None:
    text = message(host, "endpoints=netns:a+netns:b", "packet_size=1500")
    assert "the path carries 1400" in text and "use packet_size up to 1418" in text


def test_a_smaller_mtu_at_the_second_end_is_refused(host: OwnNetwork) -> None:
    """No router reports it: the frames would be lost without a message."""
    host.sh("ip -n b link set eth0 mtu 1280")
    try:
        text = message(host, "endpoints=netns:a+netns:b", "packet_size=1400")
        assert "the path carries 1280" in text and "cannot run here" in text
    finally:
        host.sh("ip -n b link set eth0 mtu 1400")


def test_two_endpoints_in_one_namespace_are_refused(host: OwnNetwork) -> None:
    text = message(host, "endpoints=dev:vc+dev:br0")
    assert "are in one network namespace" in text and "cannot run here" in text


def test_a_device_without_an_address_is_refused(host: OwnNetwork) -> None:
    text = message(host, "endpoints=netns:a+dev:va")
    assert "dev:va: device va has no global IPv4 address" in text


def test_an_address_that_both_ends_have_is_refused(host: OwnNetwork) -> None:
    host.sh("ip -n b addr add 10.77.0.2/24 dev eth0")
    try:
        text = message(host, "endpoints=netns:a+netns:b")
        assert "10.77.0.2 is an address of netns:b" in text
    finally:
        host.sh("ip -n b addr del 10.77.0.2/24 dev eth0")


def test_a_published_port_is_a_path(host: OwnNetwork) -> None:
    """Packets to an address of the host are translated to another port of an endpoint."""
    hook = "'{ type nat hook prerouting priority -100; }'"
    host.sh(f"nft add table ip t; nft add chain ip t p {hook}; "
            "nft add rule ip t p ip daddr 10.77.0.1 udp dport 8080 dnat to 10.78.0.2:17123; "
            "nft add chain ip t o '{ type nat hook postrouting priority 100; }'; "
            "nft add rule ip t o ip daddr 10.78.0.2 masquerade")  # fmt: skip
    try:
        found = record(host, "endpoints=netns:a+address:10.77.0.1:8080+netns:c")
        crossing = found["crossing"]
        assert crossing["translated"] and crossing["source_seen"] == "10.78.0.1"
        assert found["throughput"]["forwarded_pps"] > 0
        receiver = next(one for one in found["engines"] if one["role"] == "receiver")
        assert "17123" in receiver["args"]
    finally:
        host.sh("nft delete table ip t")


DNAT = """
nft add table ip t; nft add chain ip t p '{ type nat hook prerouting priority -100; }'
nft add rule ip t p ip daddr %s tcp dport 8080 counter dnat to 10.78.0.2:17123
"""


@pytest.mark.parametrize("address", ["10.77.0.1", "10.96.0.17"])
@pytest.mark.parametrize("workload", ["tcp-rr", "tcp-stream"])
def test_an_application_dials_a_published_port_or_a_service(
    host: OwnNetwork, workload: str, address: str
) -> None:
    """The first address is that of the router, the second one is in a rule only. The port is
    translated for TCP alone, so no datagram could arrive. A connection of the user has the usual
    port of the bench in the client's namespace; its congestion control is not read."""
    host.sh(DNAT % address)
    user = host.spawn("ip", "netns", "exec", "a", sys.executable, "-c", OTHER_CONNECTION)
    try:
        assert user.stdout is not None and user.stdout.readline() == "open\n"
        done = host.bench(
            "trial", "existing", "--no-baseline", "--json", "--duration", "3s", "--rate",
            "200" if workload == "tcp-rr" else "10Mbps", "--set", f"workload={workload}",
            "--set", f"endpoints=netns:a+address:{address}:8080+netns:c",
            "--results", str(host.folder / "r"),
        )  # fmt: skip
        (found,) = json.loads(done.stdout)
        assert found["status"] == "finished", found["message"]
        crossing = found["crossing"]
        assert crossing["dialled"] == f"{address}:8080"
        assert crossing["answered_at"] == "10.78.0.2:17123"
        assert crossing["translated"] and crossing["source_seen"] == "10.77.0.2"
        assert (crossing["ttl_forth"], crossing["ttl_back"]) == (63, 63)
        far = crossing["devices"][-1]
        assert far["device"] == "eth0" and far["bytes"] >= crossing["least_bytes"] > 0
        assert f"a TCP connection to {address}:8080" in found["verification"]["message"]
        assert found["transfer"]["completed_per_s"] > 0
        (mine,) = set(found["transport"]["congestion_control"].values())
        assert mine != "reno", "that of the user's connection"
        counted = host.sh("nft list ruleset | grep -o 'counter packets [0-9]*'").split()[-1]
        assert int(counted) >= 3, "the probes and the application"
    finally:
        user.kill()
        user.wait()
        host.sh("nft delete table ip t")


KUBE_PROXY = """
iptables-nft -t nat -N SVC; iptables-nft -t nat -N SEP
iptables-nft -t nat -A PREROUTING -d 10.96.0.19/32 -p tcp --dport 8080 -j SVC
iptables-nft -t nat -A SVC -j SEP
iptables-nft -t nat -A SEP -p tcp -j DNAT --to-destination 10.78.0.2:17124
"""


@pytest.mark.skipif(not shutil.which("iptables-nft"), reason="apt install iptables")
def test_a_service_of_chains_of_iptables_is_dialled(host: OwnNetwork) -> None:
    """Address and translation are in different chains, as kube-proxy makes them."""
    host.sh(KUBE_PROXY)
    try:
        done = host.bench(
            "trial", "existing", "--no-baseline", "--json", "--duration", "3s", "--rate", "100",
            "--set", "workload=tcp-crr", "--results", str(host.folder / "r"),
            "--set", "endpoints=netns:a+address:10.96.0.19:8080+netns:c",
        )  # fmt: skip
        (found,) = json.loads(done.stdout)
        assert found["status"] == "finished", found["message"]
        assert found["crossing"]["dialled"] == "10.96.0.19:8080"
        assert found["crossing"]["answered_at"] == "10.78.0.2:17124"
        assert found["transfer"]["completed_per_s"] > 0
    finally:
        host.sh("nft delete table ip nat")


def test_datagrams_of_an_application_reach_a_published_port(host: OwnNetwork) -> None:
    host.sh((DNAT % "10.77.0.1").replace("tcp", "udp"))
    try:
        done = host.bench(
            "trial", "existing", "--no-baseline", "--json", "--duration", "3s", "--rate", "100",
            "--set", "workload=udp-rr", "--results", str(host.folder / "r"),
            "--set", "endpoints=netns:a+address:10.77.0.1:8080+netns:c",
        )  # fmt: skip
        (found,) = json.loads(done.stdout)
        assert found["status"] == "finished", found["message"]
        assert found["crossing"]["dialled"] == "10.77.0.1:8080"
        assert found["crossing"]["answered_at"] == "10.78.0.2:17123"
        assert found["transfer"]["completed_per_s"] > 0
    finally:
        host.sh("nft delete table ip t")


def refused_requests(host: OwnNetwork, endpoints: str) -> str:
    """The message of a trial of requests that fails, or is refused."""
    done = host.bench(
        "trial", "existing", "--no-baseline", "--set", "workload=tcp-rr", "--rate", "200",
        "--duration", "1s", "--set", f"endpoints={endpoints}",
        "--results", str(host.folder / "r"), check=False,
    )  # fmt: skip
    assert done.returncode != 0
    return done.stderr + done.stdout


# A connection of the user whose near port is the usual one of the bench, with another control.
OTHER_CONNECTION = """
import socket, time
server = socket.create_server(("127.0.0.1", 4000))
client = socket.socket()
client.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"reno")
client.bind(("127.0.0.1", 18001))
client.connect(("127.0.0.1", 4000))
print("open", flush=True)
time.sleep(60)
"""


def test_an_address_that_leads_elsewhere_is_refused(host: OwnNetwork) -> None:
    """No rule translates it: the path ends before anything is sent."""
    text = refused_requests(host, "netns:a+address:10.96.0.18:8080+netns:c")
    assert "the path is not known to its end" in text or "no route to 10.96.0.18" in text


def test_a_published_port_that_a_program_uses_is_refused(host: OwnNetwork) -> None:
    host.sh(DNAT % "10.77.0.1")
    listening = LISTENING.replace("10.77.0.3", "10.78.0.2").replace("17000", "17123")
    user = host.spawn("ip", "netns", "exec", "c", sys.executable, "-c", listening)
    try:
        assert user.stdout is not None and user.stdout.readline() == "bound\n"
        text = refused_requests(host, "netns:a+address:10.77.0.1:8080+netns:c")
        assert "TCP port 17123 is in use at 10.78.0.2" in text
    finally:
        user.kill()
        user.wait()
        host.sh("nft delete table ip t")


def test_ports_in_use_are_avoided(host: OwnNetwork) -> None:
    user = host.spawn("ip", "netns", "exec", "b", sys.executable, "-c",
                      "import socket, time; s = socket.socket(socket.AF_INET, 2); "
                      "s.bind(('10.77.0.3', 17000)); print('bound', flush=True); "
                      "time.sleep(60)")  # fmt: skip
    try:
        assert user.stdout is not None and user.stdout.readline() == "bound\n"
        found = record(host, "endpoints=netns:a+netns:b")
        receiver = next(one for one in found["engines"] if one["role"] == "receiver")
        at = receiver["args"].index("--src-port")
        assert receiver["args"][at + 1] == "17001"
    finally:
        user.kill()
        user.wait()


def test_ends_are_attached_to_a_bridge_and_removed(host: OwnNetwork) -> None:
    found = record(host, "switch_options=attach:br0", f"addresses={FREE}")
    crossing = found["crossing"]
    names = [one["device"] for one in crossing["devices"]]
    assert names[0] == names[-1] == "eth0" and all(one.startswith("sm") for one in names[1:3])
    assert crossing["path_mtu"] == 1400


def test_an_address_in_use_is_refused(host: OwnNetwork) -> None:
    text = message(host, "switch_options=attach:br0", "addresses=10.77.0.9/24+10.77.0.3/24")
    assert "10.77.0.3 is in use in br0" in text
    text = message(host, "switch_options=attach:br0", "addresses=10.77.0.1/24+10.77.0.9/24")
    assert "10.77.0.1 is in use in br0" in text


def test_a_bridge_whose_mac_would_change_is_refused(host: OwnNetwork) -> None:
    host.sh("ip link add brz type bridge; ip link set brz up")
    try:
        text = message(host, "switch_options=attach:brz", f"addresses={FREE}")
        assert "would change its MAC address" in text
        assert "sm" not in host.sh("ip -br link")
    finally:
        host.sh("ip link del brz")


@pytest.mark.parametrize(
    ("name", "make", "reason"),
    [
        ("nope", "true", "no network device nope"),
        ("vc", "true", "vc is not a bridge"),
        ("brz", "ip link add brz type bridge stp_state 1; ip link set brz up", "spanning tree"),
        ("brz", "ip link add brz type bridge", "is down"),
    ],
)
def test_a_network_that_cannot_take_ends_is_refused(
    host: OwnNetwork, name: str, make: str, reason: str
) -> None:
    host.sh(make)
    try:
        assert reason in message(host, f"switch_options=attach:{name}", f"addresses={FREE}")
    finally:
        host.sh("ip link del brz 2>/dev/null || true")


def test_a_vlan_needs_a_bridge_that_filters(host: OwnNetwork) -> None:
    text = message(host, "switch_options=attach:br0+attach_vlan:7", f"addresses={FREE}")
    assert "does not filter VLANs" in text


def test_the_default_route_needs_its_name_and_a_low_rate(host: OwnNetwork) -> None:
    host.sh("ip route add default via 10.77.0.2")
    try:
        settings = ("switch_options=attach:br0", f"addresses={FREE}")
        assert "br0 is the device of this host's default route" in message(host, *settings)
        arguments = [word for one in settings for word in ("--set", one)]
        begin = ("trial", "existing", "--no-baseline", "--json", *SHORT, *arguments,
                 "--results", str(host.folder / "r"))  # fmt: skip
        done = host.bench(*begin, "--yes-this-network", "br0")
        assert json.loads(done.stdout)[0]["status"] == "finished"
        done = host.bench(*begin, "--yes-this-network", "br0", "--set", "rate=5k", check=False)
        assert done.returncode == 3 and "at most 1000 packets/s" in done.stderr
        done = host.bench(*begin, "--yes-this-network", "br1", check=False)
        assert done.returncode == 3 and "default route" in done.stderr
    finally:
        host.sh("ip route del default")


def wait_for(condition: Any, seconds: float = 120) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("settings", [
    ("endpoints=netns:a+netns:b",),
    ("switch_options=attach:br0", f"addresses={FREE}"),
])  # fmt: skip
@pytest.mark.parametrize("moment", ["making", "measuring"])
def test_a_killed_bench_leaves_nothing_after_clean(
    host: OwnNetwork, settings: tuple[str, ...], moment: str
) -> None:
    arguments = [word for one in settings for word in ("--set", one)]
    running = host.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "20s", *arguments, "--results", str(host.folder / "r"),
    )  # fmt: skip
    try:
        wait_for(lambda: "sm" in host.sh("ip netns; ip -br link"))
        if moment == "measuring":
            wait_for(lambda: host.engines("10.77.0.2"))
            time.sleep(1.5)
        running.send_signal(signal.SIGKILL)
        running.wait()
        done = host.bench("clean")
        assert "could not" not in done.stdout + done.stderr
        assert "sm" not in host.sh("ip netns; ip -br link")
    finally:
        running.kill()
        running.wait()


RESTARTING = """
ip netns add r; ip link add vr type veth peer name eth0 netns r
ip link set vr mtu 1400 master br0 up
ip -n r link set lo up; ip -n r link set eth0 mtu 1400 up; ip -n r addr add 10.77.0.4/24 dev eth0
"""


def test_an_endpoint_that_restarts_fails_the_trial(host: OwnNetwork) -> None:
    """A process in the namespace plays the container. It ends and another one takes its place in
    another namespace of the same name."""
    host.sh(RESTARTING)
    user = host.spawn("ip", "netns", "exec", "r", "sleep", "100")
    pid = ""
    try:
        wait_for(lambda: bool(host.run("ip", "netns", "pids", "r").stdout.strip()))
        pid = host.run("ip", "netns", "pids", "r").stdout.split()[0]
        running = host.spawn(
            sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate",
            "200", "--duration", "4s", "--set", f"endpoints=netns:a+pid:{pid}",
            "--results", str(host.folder / "r"),
        )  # fmt: skip
        wait_for(lambda: host.engines("10.77.0.4"))
        time.sleep(1.5)
        user.kill()
        user.wait()
        output, _ = running.communicate(timeout=60)
        assert running.returncode == 1, output
        assert f"pid:{pid} has ended or was restarted" in " ".join(output.split())
    finally:
        user.kill()
        user.wait()
        host.sh("ip netns del r; ip link del vr 2>/dev/null || true")


def test_a_network_that_no_longer_answers_ends_the_trial(host: OwnNetwork) -> None:
    """A rule drops the probes' answers, and nothing else, in the middle of the trial."""
    running = host.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--no-baseline", "--rate", "200",
        "--duration", "30s", "--set", "endpoints=netns:a+netns:b", "--set", "abort_if=1000",
        "--results", str(host.folder / "r"),
    )  # fmt: skip
    chain = "'{ type filter hook output priority 0; }'"
    try:
        wait_for(lambda: host.engines("10.77.0.2"))
        time.sleep(8)
        host.sh(
            f"ip netns exec b nft add table ip t; ip netns exec b nft add chain ip t c {chain}; "
            "ip netns exec b nft add rule ip t c ip daddr 10.77.0.2 udp length 24 drop"
        )
        output, _ = running.communicate(timeout=60)
        assert running.returncode == 1, output
        assert "abort_if: " in output
    finally:
        running.kill()
        running.wait()
        host.sh("ip netns exec b nft delete table ip t 2>/dev/null || true")


def test_one_bench_at_a_time_measures_in_a_network(host: OwnNetwork) -> None:
    """A second bench, with another state folder, finds the lock of the first one."""
    arguments = ["--set", "endpoints=netns:a+netns:b", "--rate", "200", "--no-baseline"]
    running = host.spawn(
        sys.executable, "-m", "switchmark", "trial", "existing", "--duration", "20s", *arguments,
        "--results", str(host.folder / "r"),
    )  # fmt: skip
    try:
        wait_for(lambda: "sm" in host.sh("ip netns"))
        done = host.run(
            "env", f"SWITCHMARK_STATE_DIR={host.folder}/s2", sys.executable, "-m", "switchmark",
            "trial", "existing", "--duration", "1s", *arguments, "--results",
            str(host.folder / "r2"), check=False,
        )  # fmt: skip
        assert done.returncode != 0
        assert "another bench is measuring in netns:a+netns:b" in done.stderr + done.stdout
    finally:
        running.terminate()
        running.wait()


@pytest.mark.parametrize("settings", [
    ("endpoints=netns:a+netns:b",),
    ("switch_options=attach:br0", f"addresses={FREE}"),
])  # fmt: skip
def test_applications_cross_a_network_of_the_user(
    host: OwnNetwork, settings: tuple[str, ...]
) -> None:
    """The fixture checks that routes and settings of the endpoints are the same afterwards."""
    arguments = [word for setting in settings for word in ("--set", setting)]
    done = host.bench(
        "trial", "existing", "--no-baseline", "--json", "--set", "workload=tcp-rr", "--rate", "200",
        "--duration", "1s", *arguments, "--results", str(host.folder / "r"),
    )  # fmt: skip
    (found,) = json.loads(done.stdout)
    assert found["status"] == "finished", found["message"]
    assert found["transfer"]["transactions_per_s"] > 0
    assert found["crossing"]["least_bytes"] > 0


def test_connections_beyond_the_ports_are_refused(host: OwnNetwork) -> None:
    done = host.bench(
        "trial", "existing", "--no-baseline", "--set", "workload=tcp-crr", "--rate", "5k",
        "--duration", "10s", "--set", "endpoints=netns:a+netns:b", check=False,
    )  # fmt: skip
    assert done.returncode == 3 and "50000 connections" in done.stderr


LISTENING = """
import socket, time
taken = socket.create_server(("10.77.0.3", 17000))
print("bound", flush=True)
time.sleep(60)
"""


def test_servers_listen_at_a_free_tcp_port(host: OwnNetwork) -> None:
    user = host.spawn("ip", "netns", "exec", "b", sys.executable, "-c", LISTENING)
    try:
        assert user.stdout is not None and user.stdout.readline() == "bound\n"
        done = host.bench(
            "trial", "existing", "--no-baseline", "--json", "--set", "workload=tcp-rr", "--rate",
            "200", "--duration", "1s", "--set", "endpoints=netns:a+netns:b",
            "--results", str(host.folder / "r"),
        )  # fmt: skip
        (found,) = json.loads(done.stdout)
        assert found["status"] == "finished", found["message"]
        assert "10.77.0.3:17001" in done.stdout
    finally:
        user.kill()
        user.wait()


CHANGING = """
name: changing
switch: existing
endpoints: netns:a+netns:b
rate: 200
burst: 1
duration: 2s
repetitions: 3
"""


def test_a_network_that_changes_during_a_run_is_marked(host: OwnNetwork) -> None:
    """A rule appears on the host of the bridge after the first trial."""
    campaign, results = host.folder / "changing.yaml", host.folder / "changing"
    campaign.write_text(CHANGING)
    running = host.spawn(
        sys.executable, "-m", "switchmark", "run", str(campaign), "--no-baseline", "--results",
        str(results),
    )  # fmt: skip
    try:
        wait_for(lambda: any(results.glob("*/trials/*.json")) or running.poll() is not None)
        host.sh("nft add table ip later; nft add chain ip later c "
                "'{ type filter hook forward priority 0; }'")  # fmt: skip
        output, _ = running.communicate(timeout=120)
        assert running.returncode == 0, output
    finally:
        running.kill()
        running.wait()
        host.run("nft", "delete", "table", "ip", "later", check=False)
    records = [json.loads(path.read_text()) for path in results.glob("*/trials/*.json")]
    records.sort(key=lambda one: one["started_at"])
    marked = [bool(one["crossing"]["changed"]) for one in records]
    assert (marked[0], marked[-1]) == (False, True)
    assert "network-changed" in json.dumps(records[-1]), output


def test_state_that_a_trial_leaves_is_reported_and_expires(host: OwnNetwork) -> None:
    """The entries of conntrack expire after the time that the record states."""
    timeouts = (
        "net.netfilter.nf_conntrack_udp_timeout_stream",
        "net.netfilter.nf_conntrack_udp_timeout",
    )
    saved = [host.sh(f"sysctl -n {key}").strip() for key in timeouts]
    hook = "'{ type filter hook forward priority 5; }'"
    host.sh(f"nft add table ip t; nft add chain ip t f {hook}; "
            "nft add rule ip t f ct state new accept; "
            + "; ".join(f"sysctl -qw {key}=4" for key in timeouts))  # fmt: skip
    count = "cat /proc/sys/net/netfilter/nf_conntrack_count"
    try:
        before = int(host.sh(count))
        crossing = record(host, "endpoints=netns:a+netns:c")["crossing"]
        (line,) = [line for line in crossing["expiring"] if "conntrack" in line]
        assert line.startswith("this host: ") and "expire after 4 s for UDP" in line
        deadline = time.monotonic() + 60
        while int(host.sh(count)) > before:
            assert time.monotonic() < deadline, "the entries have not expired"
            time.sleep(0.2)
    finally:
        pairs = zip(timeouts, saved, strict=True)
        host.sh("nft delete table ip t; " + "; ".join(f"sysctl -qw {k}={v}" for k, v in pairs))


def test_sockets_in_time_wait_are_reported(host: OwnNetwork) -> None:
    done = host.bench(
        "trial", "existing", "--no-baseline", "--json", "--rate", "50", "--duration", "1s",
        "--set", "endpoints=netns:a+netns:b", "--set", "workload=tcp-crr",
        "--results", str(host.folder / "r"),
    )  # fmt: skip
    (found,) = json.loads(done.stdout)
    assert found["status"] == "finished", found["message"]
    waiting = [line for line in found["crossing"]["expiring"] if "TIME_WAIT" in line]
    assert waiting and all(line.endswith("which end after 60 s") for line in waiting)
    assert sum(int(line.split(": ")[1].split()[0]) for line in waiting) > 0
