"""Workloads that a campaign may have, the program that runs each, and refusals with one line."""

from __future__ import annotations

from pathlib import Path

import pytest

from switchmark.campaign.expand import expand
from switchmark.campaign.installed import installed
from switchmark.campaign.load import load_file, load_settings
from switchmark.campaign.notation import from_notation, to_notation
from switchmark.campaign.port_kinds import usable_ports
from switchmark.errors import UsageError
from switchmark.model.ports import PortKind
from switchmark.model.trial import Trial
from switchmark.workload.registry import WORKLOADS, workload_names

THERE = installed()


def planned(**given: str) -> list[Trial]:
    campaign = load_settings(
        {"switch": "linux-bridge", "duration": "2s", **given}, THERE.known, name="c"
    )
    return expand(campaign, THERE.switches, THERE.environments)


def refusal(**given: str) -> str:
    with pytest.raises(UsageError) as caught:
        planned(**given)
    assert caught.value.exit_code == 2
    text = str(caught.value)
    assert "\n" not in text, "one line"
    return text


def test_the_folder_is_the_registry_of_workloads() -> None:
    assert workload_names()[0] == "frames"
    assert {"tcp-stream", "tcp-rr"} <= set(WORKLOADS)
    for name, workload in WORKLOADS.items():
        assert workload.name == name


def test_each_workload_has_its_usual_program() -> None:
    trials = {one.workload: one for one in planned(workload="tcp-stream, tcp-rr", streams="4")}
    assert trials["tcp-stream"].generator == WORKLOADS["tcp-stream"].generator
    assert trials["tcp-stream"].tcp_streams == 4
    assert trials["tcp-rr"].tcp_streams == 1, (
        "keys that a workload does not read keep their defaults"
    )


def test_a_trial_of_frames_keeps_its_id() -> None:
    (single,) = planned()
    assert single.generator == "switchmark" and "workload" not in to_notation(single)


def test_a_notation_with_a_workload_is_read_back() -> None:
    (single,) = planned(workload="tcp-stream", rate="1Gbps", offload="off")
    assert single.rate_pps == 1_000_000_000
    assert from_notation(to_notation(single), THERE.known) == single


@pytest.mark.parametrize(
    "given",
    [
        {"workload": "tcp-rr", "request_size": "1048576", "response_size": "1048576"},
        {"workload": "http", "response_size": "16M"},
        {"workload": "tcp-stream", "rate": "8bps"},
        {"workload": "udp-stream", "rate": "400kbps", "datagram_size": "1000"},
    ],
)
def test_the_limits_of_the_engine_are_planned(given: dict[str, str]) -> None:
    (single,) = planned(**given)
    assert single.workload == given["workload"]


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"rate": "1Gbps"}, "does not name its layer; write 1Gbps-l1"),
        ({"workload": "tcp-stream", "rate": "1Gbps-l1"}, "bits/s of payload; write 1Gbps"),
        ({"workload": "tcp-stream", "rate": "20Gbps"}, "above the highest set rate"),
        ({"workload": "tcp-rr", "rate": "1Mbps"}, "the rate of tcp-rr is requests/s"),
        ({"workload": "tcp-stream", "dimension": "latency"}, "no requests that could be timed"),
        ({"workload": "tcp-rr", "streams": "2"}, "streams: workload tcp-rr does not read it"),
        ({"streams": "2"}, "streams: workload frames does not read it"),
        ({"offload": "off"}, "offload: workload frames does not read it"),
        ({"workload": "frames, tcp-rr"}, "give workload: frames a sweep for itself"),
        ({"workload": "tcp-rr", "packet_size": "512"}, "the kernel chooses the frames"),
        ({"workload": "tcp-rr", "burst": "8"}, "has no bursts"),
        ({"workload": "tcp-rr", "scenario": "loopback-1"}, "needs a path without VNFs"),
        ({"workload": "tcp-rr", "method": "ndr-pdr"}, "makes many trials"),
        ({"workload": "tcp-rr", "generator": "iperf3"}, "iperf3 does not run workload tcp-rr"),
        (
            {
                "workload": "tcp-rr",
                "generator": "sockperf",
                "request_size": "64",
                "response_size": "65",
            },
            "as many bytes",
        ),
        ({"workload": "udp-rr", "rate": "1k", "request_size": "1473"}, "18 to 1472 bytes"),
        ({"workload": "udp-rr", "rate": "1k", "request_size": "17"}, "18 to 1472 bytes"),
        ({"workload": "udp-rr"}, "switchmark needs a rate"),
        ({"workload": "udp-rr", "rate": "1k", "response_size": "9"}, "does not read it"),
        ({"workload": "udp-stream", "datagram_size": "1473"}, "above the largest datagram"),
        ({"workload": "tcp-stream", "datagram_size": "100"}, "udp-stream"),
        ({"workload": "udp-stream", "dimension": "latency"}, "no requests that could be timed"),
        ({"workload": "udp-stream", "congestion_control": "reno"}, "does not read it"),
        ({"workload": "redis", "rate": "1k"}, "has no rate"),
        ({"workload": "redis", "generator": "memtier", "rate": "1k"}, "has no rate"),
        ({"workload": "redis", "dimension": "latency", "rate": "max"}, "measures no latency"),
        (
            {"workload": "http", "generator": "wrk2", "rate": "1k", "duration": "20s"},
            "wrk2 measures no throughput",
        ),
        (
            {"workload": "http", "generator": "wrk2", "dimension": "latency", "rate": "1k"},
            "leaves out its first 10 s",
        ),
        ({"workload": "tcp-rr", "switch": "t4p4s"}, "takes veth and macvlan and"),
        ({"workload": "tcp-rr", "environment": "bare"}, "each need a network namespace"),
        ({"workload": "tcp-rr", "environment": "qemu"}, "does not run in qemu"),
        ({"generator": "iperf3", "environment": "docker"}, "does not run in docker"),
        ({"workload": "tcp-rr", "congestion_control": "a b"}, "is not a name"),
        (
            {
                "workload": "tcp-rr",
                "switch": "existing",
                "endpoints": "netns:a+netns:b",
                "offload": "off",
            },
            "devices and routes stay as they are",
        ),
        ({"workload": "tcp-rr", "connections": "0"}, "connections"),
        (
            {"workload": "tcp-rr", "congestion_control": "cubik"},
            "'cubik' is not a congestion control of Linux; write cubic",
        ),
        ({"workload": "tcp-rr", "congestion_control": "fast"}, "write e.g. cubic, reno or bbr"),
        ({"workload": "tpc-rr"}, "did you mean tcp-rr"),
        ({"workload": "tcp-rr", "request_size": "1048577"}, "at most 1048576 bytes, not 1048577"),
        ({"workload": "tcp-crr", "response_size": "16M"}, "use 1048576 or less"),
        ({"workload": "tcp-stream", "rate": "7bps"}, "use 8bps or more"),
        (
            {"workload": "udp-stream", "rate": "100kbps", "datagram_size": "1000"},
            "use 400000bps or more, or a smaller datagram_size",
        ),
    ],
)  # fmt: skip
def test_an_impossible_workload_is_refused(given: dict[str, str], says: str) -> None:
    assert says in refusal(**given)


@pytest.mark.parametrize("switch", ["basicfwd", "bess", "fastclick", "ovs-dpdk", "testpmd"])
def test_applications_have_a_device_at_switches_with_sockets(switch: str) -> None:
    """Frames keep the socket, and a port of frames cannot be such a device."""
    capabilities = THERE.switches[switch]
    ports = THERE.environments["netns"]
    assert usable_ports(capabilities, ports, workload="tcp-rr") == [PortKind.VETH]
    assert PortKind.VETH not in usable_ports(capabilities, ports)
    assert [one.workload for one in planned(switch=switch, workload="tcp-rr")] == ["tcp-rr"]
    assert "port_kind" in refusal(switch=switch, port_kind="veth")


@pytest.mark.parametrize("environment", ["lxc", "docker"])
@pytest.mark.parametrize("workload", [name for name in WORKLOADS if name != "udp-rr"])
def test_applications_run_in_containers(workload: str, environment: str) -> None:
    rate = "1k" if workload == "dns" else "max"
    (trial,) = planned(workload=workload, environment=environment, rate=rate)
    assert (trial.workload, trial.environment) == (workload, environment)


def test_an_unknown_congestion_control_is_refused_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "c.yaml"
    file.write_text("switch: linux-bridge\nworkload: tcp-rr\ncongestion_control: cubik\n")
    with pytest.raises(UsageError, match=r"c\.yaml:3: congestion_control: 'cubik' is not"):
        campaign = load_file(file, THERE.known)
        expand(campaign, THERE.switches, THERE.environments)


def test_a_known_congestion_control_is_left_to_the_kernel() -> None:
    """Another machine may have it: whether this kernel does is asked before a run."""
    assert planned(workload="tcp-rr", congestion_control="hybla")


def test_several_pairs_run_an_application() -> None:
    (trial,) = planned(workload="tcp-rr", pairs="3")
    assert trial.pairs == 3
    assert "one pair only" in refusal(generator="iperf3", pairs="2")


def test_a_frame_longer_than_the_overlay_carries_is_refused() -> None:
    options = "overlay:vxlan"
    says = refusal(switch="cni", switch_options=options, packet_size="1469")
    assert "1469 is above 1468, the longest frame that cni takes with overlay: vxlan" in says
    assert planned(switch="cni", switch_options=options, packet_size="1468")
    assert planned(switch="cni", switch_options="overlay:vxlan-1550", packet_size="1518")


@pytest.mark.parametrize("workload", ["frames", "udp-stream"])
def test_datagrams_that_docker_proxy_would_forget_are_refused(workload: str) -> None:
    proxied = {"switch": "docker-network", "switch_options": "publish:proxy+iptables:off"}
    load = {"frames": "1k", "udp-stream": "1Mbps"}[workload]
    says = refusal(**proxied, workload=workload, rate=load, duration="61s")
    assert "docker-proxy forgets a client after 90 s without an answer" in says
    assert planned(**proxied, workload=workload, rate=load, duration="60s")
    assert planned(**proxied, workload="tcp-rr", duration="61s")
    nat = {"switch": "docker-network", "switch_options": "publish:nat"}
    assert planned(**nat, workload=workload, rate=load, duration="61s")


def test_methods_of_many_trials_are_refused_at_docker_proxy() -> None:
    says = refusal(
        switch="docker-network", switch_options="publish:proxy+iptables:off", method="ndr-pdr"
    )
    assert "method ndr-pdr sends frames in one direction for longer" in says


@pytest.mark.parametrize("options", ["publish:nat", "driver:host"])
def test_a_client_outside_the_host_has_one_pair(options: str) -> None:
    assert planned(switch="docker-network", switch_options=options, workload="tcp-rr")
    assert "has one server; use pairs: 1" in refusal(
        switch="docker-network", switch_options=options, workload="tcp-rr", pairs="2"
    )
    assert planned(switch="docker-network", workload="tcp-rr", pairs="2")
