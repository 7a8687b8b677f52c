"""A configuration is refused by a path when a client sets it, otherwise its flows start."""

from __future__ import annotations

import json
import subprocess
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from switchmark.engine.binary import find_engine
from switchmark.host.local import LocalHost
from switchmark.otg import headers, types
from switchmark.otg.capture import check_captures
from switchmark.otg.checked import check_plans, refusal_of
from switchmark.otg.plan import MOST_FILE_BYTES, plan_flows
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused, check_choices
from switchmark.otg.service import Service
from switchmark.otg.traffic import _roles

PORTS = {name: TrafficPort(name, "null:", None, shared=True) for name in ("a", "b")}
COMMON = ("--idle", "sleep", "--catch-up-us", "9000", "--interval", "0.1")
MACS = st.sampled_from(["02:00:00:00:00:01", "02:00:ff:ff:ff:fa", "ff:ff:ff:ff:ff:ff"])
IP4 = st.sampled_from(["10.0.0.1", "255.255.255.250", "0.0.0.0"])
IP6 = st.sampled_from(["2001:db8::1", "2001:2::ffff:fffa", "::"])
UDP = st.sampled_from([1, 5000, 65535, 2, 3, 4, 0])
COUNTS = st.sampled_from([1, 2, 7, 300, 70_000])
SIZES = st.sampled_from([100, 128, 300, 1518, 1518, 9018, 64, 9019])
NUMBERS = st.one_of(
    st.sampled_from([0, 1e-9, 0.00001, 1, 3.3, 1e6, 1e12, 1e30, 1e308]), st.floats(0, 100)
)
WHOLE = st.sampled_from([1, 3, 100, 65_537, 10**6, 10**10, 2 * 10**10, 2**31 - 1])
LONG = st.one_of(WHOLE, st.just(2**63 - 1))


def choices(**parts: Any) -> Any:
    """Return a strategy for a part that has one of these alternatives."""
    return st.one_of(
        *(
            value.map(lambda chosen, name=name: {"choice": name, name: chosen})
            for name, value in parts.items()
        )
    )


def pattern(value: Any, step: Any) -> Any:
    counter = st.fixed_dictionaries({"start": value, "step": step, "count": COUNTS})
    return choices(
        value=value,
        values=st.lists(value, min_size=1, max_size=3),
        increment=counter,
        decrement=counter,
    )


GAPS = choices(nanoseconds=NUMBERS, microseconds=NUMBERS, bytes=NUMBERS)
ADDRESSES = {
    "ethernet": {"src": pattern(MACS, MACS), "dst": pattern(MACS, MACS)},
    "ipv4": {"src": pattern(IP4, IP4), "dst": pattern(IP4, IP4)},
    "ipv6": {"src": pattern(IP6, IP6), "dst": pattern(IP6, IP6)},
    "udp": {"src_port": pattern(UDP, UDP), "dst_port": pattern(UDP, UDP)},
}
HEADERS = {
    name: st.fixed_dictionaries(fields).map(
        lambda header, name=name: {"choice": name, name: header}
    )
    for name, fields in ADDRESSES.items()
}
TAG = st.sampled_from([1, 100, 200, 300, 4094, 4095]).map(
    lambda number: {"choice": "vlan", "vlan": {"id": {"choice": "value", "value": number}}}
)
VNI = st.sampled_from([0, 1, 2**24 - 1])
TUNNEL = st.tuples(
    HEADERS["ethernet"],
    HEADERS["ipv4"],
    pattern(UDP, UDP).map(
        lambda port: {"choice": "udp", "udp": {"src_port": port, "dst_port": {"value": 4789}}}
    ),
    pattern(VNI, VNI).map(lambda vni: {"choice": "vxlan", "vxlan": {"vni": vni}}),
)
PACKETS = st.tuples(
    st.one_of(st.just(()), TUNNEL),
    HEADERS["ethernet"],
    st.lists(TAG, max_size=2),
    st.one_of(HEADERS["ipv4"], HEADERS["ipv6"]),
    HEADERS["udp"],
).map(lambda parts: [*parts[0], parts[1], *parts[2], parts[3], parts[4]])
TUNNELS = f"tunnels rows=1\ntunnels {b64encode(bytes(24)).decode()}\n"
FLOWS = st.fixed_dictionaries(
    {
        "packet": PACKETS,
        "size": choices(
            fixed=SIZES,
            increment=st.fixed_dictionaries({"start": SIZES, "end": SIZES, "step": COUNTS}),
            random=st.fixed_dictionaries({"min": SIZES, "max": SIZES}),
            weight_pairs=choices(
                predefined=st.just("imix"),
                custom=st.lists(
                    st.fixed_dictionaries({"size": SIZES, "weight": NUMBERS}), max_size=3
                ),
            ),
        ),
    },
    optional={
        "rate": choices(
            pps=LONG, bps=LONG, kbps=LONG, mbps=LONG, gbps=WHOLE, percentage=NUMBERS
        ),
        "duration": choices(
            continuous=st.just({}),
            fixed_packets=st.fixed_dictionaries({"packets": WHOLE}),
            fixed_seconds=st.fixed_dictionaries({"seconds": NUMBERS}),
            burst=st.fixed_dictionaries(
                {"bursts": st.one_of(st.just(0), WHOLE), "packets": WHOLE},
                optional={"inter_burst_gap": GAPS},
            ),
        ),
    },
)  # fmt: skip
ENDS = {"choice": "port", "port": {"tx_name": "p1", "rx_names": ["p2"]}}


def document(**flow: Any) -> Any:
    return {
        "ports": [{"name": "p1", "location": "a"}, {"name": "p2", "location": "b"}],
        "layer1": [{"name": "l", "port_names": ["p1"], "speed": "speed_10_gbps"}],
        "flows": [{"name": "f", "tx_rx": ENDS, **flow}],
    }


def accepted(flow: Any, folder: Any) -> Any:
    """Return the commands of a flow; raise `Refused` if the flow is refused."""
    (plan,) = plan_flows(types.Config.model_validate(document(**flow)), PORTS)
    file = folder / "flow.pcap"
    if plan.replay is not None:
        plan.replay.write(file)
    commands = [[role, *options] for role, options in _roles(plan, file, COMMON)]
    check_plans(LocalHost(), [plan] * len(commands), commands)
    return commands


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(flow=FLOWS)
def test_a_configuration_is_refused_by_path_or_starts(tmp_path: Path, flow: Any) -> None:
    try:
        types.Config.model_validate(document(**flow))
    except ValueError:  # outside the published bounds, which other tests check
        return
    try:
        commands = accepted(flow, tmp_path)
    except Refused as refused:
        assert refused.code == 400
        assert all(error.startswith("flows[0].") for error in refused.errors), refused.errors
        return
    for command in commands:
        tables = TUNNELS if "--encap" in command else ""
        begun = subprocess.run(
            [find_engine(), *command, "--session"], input=f"{tables}start\nstop\n", text=True,
            capture_output=True, check=False, timeout=60,
        )  # fmt: skip
        assert '"event":"started"' in begun.stdout, (command, begun.stderr)


@pytest.mark.parametrize(
    ("flow", "message"),
    [
        ({"rate": {"pps": 2 * 10**10}}, "flows[0].rate.pps: '20000000000' is neither"),
        ({"rate": {"gbps": 20_000}}, "flows[0].rate.gbps: "),
        (
            {"duration": {"fixed_seconds": {"seconds": 2e6}}},
            "flows[0].duration.fixed_seconds: '2000000.0s' is not a time",
        ),
    ],
)
def test_a_refusal_of_the_engine_names_the_field(tmp_path: Path, flow: Any, message: Any) -> None:
    packet: list[Any] = [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}]
    with pytest.raises(Refused) as caught:
        accepted({"packet": packet, **flow}, tmp_path)
    assert str(caught.value).startswith(message)


def test_a_share_below_a_thousandth_of_a_percent_is_accepted(tmp_path: Path) -> None:
    packet: list[Any] = [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}]
    sender = accepted({"packet": packet, "rate": {"percentage": 0.00001}}, tmp_path)[1]
    assert sender[sender.index("--rate") + 1] == "0.00001%"


def test_a_message_without_an_option_keeps_the_path_of_its_flow() -> None:
    packet: list[Any] = [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}]
    (plan,) = plan_flows(types.Config.model_validate(document(packet=packet)), PORTS)
    assert refusal_of(plan, "sender", "out of memory") == "flows[0]: out of memory"
    message = refusal_of(plan, "receiver", "--port null:x: no such key")
    assert message == "flows[0].tx_rx.port.rx_names: no such key"


@pytest.mark.parametrize(
    ("part", "message"),
    [
        (types.FlowRate(choice="pps", mbps=3), "mbps: choice is pps; leave out"),
        (types.FlowRate(pps=5, mbps=3), "mbps: pps is also given; leave out"),
        (
            types.FlowHeader(choice="ipv4", ipv6=types.FlowIpv6()),
            "ipv6: choice is ipv4; leave out",
        ),
        (
            types.FlowDuration(choice="continuous", fixed_packets=types.FlowFixedPackets()),
            "fixed_packets: choice is continuous",
        ),
    ],
)
def test_a_value_beside_another_choice_is_refused(part: Any, message: Any) -> None:
    with pytest.raises(Refused) as caught:
        check_choices(part)
    assert str(caught.value).startswith(message)


def test_a_choice_deep_in_a_document_has_its_path() -> None:
    packet = [{"ethernet": {"src": {"choice": "value", "value": "x", "values": ["y"]}}}]
    with pytest.raises(Refused, match=r"flows\[0\]\.packet\[0\]\.ethernet\.src\.values: choice"):
        check_choices(types.Config.model_validate(document(packet=packet)))


def test_an_address_with_a_zone_is_refused(tmp_path: Path) -> None:
    address = {"src": {"value": "fe80::1%eth0"}}
    packet = [{"ethernet": {}}, {"ipv6": address}, {"udp": {}}]
    message = r"flows\[0\]\.packet\[1\]\.ipv6\.src\.value: fe80::1%eth0 names a zone"
    with pytest.raises(Refused, match=message):
        accepted({"packet": packet}, tmp_path)


def test_a_location_of_two_ports_is_refused() -> None:
    config = document(packet=[])
    config["ports"][1]["location"] = "a"
    with pytest.raises(Refused, match=r"ports\[1\]\.location: a is also the location of port p1"):
        plan_flows(types.Config.model_validate(config), PORTS)


def test_frames_above_the_mtu_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrafficPort, "mtu_bytes", property(lambda port: 1500))
    packet: list[Any] = [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}]
    fitting, too_large = (
        types.Config.model_validate(document(packet=packet, size={"fixed": size}))
        for size in (1518, 1519)
    )
    plan_flows(fitting, PORTS)
    message = r"flows\[0\]\.size\.fixed: frames of 1519 bytes need an MTU of 1501; the device of"
    with pytest.raises(Refused, match=message):
        plan_flows(too_large, PORTS)


def test_files_of_all_flows_together_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headers, "MOST_MODIFIER_CHARACTERS", 0)  # forces the frames into files
    packet = [{"ethernet": {}}, {"ipv4": {}}, {"udp": {"src_port": {"values": [1, 5]}}}]
    config = document(packet=packet, size={"random": {"min": 9000, "max": 9018}})
    config["flows"] = [{**config["flows"][0], "name": f"f{n}"} for n in range(3)]
    assert 2 * 65_536 * 9018 > MOST_FILE_BYTES > 65_536 * 9018
    with pytest.raises(Refused, match=r"flows\[1\]\.size\.random: the files of frames"):
        plan_flows(types.Config.model_validate(config), PORTS)


def test_captures_of_frames_that_pass_the_kernel_are_refused() -> None:
    """The captured port may be another port of the device at which the flow receives."""
    ports = {
        "a": TrafficPort("a", "raw:dev=e1", "e1", shared=True),
        "b": TrafficPort("b", "raw:dev=e2", "e2", shared=True),
        "x": TrafficPort("x", "af_xdp:dev=e2", "e2", shared=False),
        "v": TrafficPort("v", "dpdk:vhost=/s", None, shared=False),
        "d": TrafficPort("d", "dpdk:af-xdp=e2,queue-size=64", None, shared=False),
    }
    packet: list[Any] = [{"ethernet": {}}, {"ipv4": {}}, {"udp": {}}]
    for receiver, captured, message in (
        ("b", "b", None),
        ("x", "x", "flow f receives at device e2 past the kernel (port p2)"),
        ("x", "b", "flow f receives at device e2 past the kernel (port p2)"),
        ("d", "b", "flow f receives at device e2 past the kernel (port p2)"),
        ("b", "v", "port p3 is not a device of the kernel"),
    ):
        body = document(packet=packet)
        body["layer1"] = []
        body["ports"][1]["location"] = receiver
        name = "p2"
        if captured != receiver:
            body["ports"].append({"name": "p3", "location": captured})
            name = "p3"
        body["captures"] = [{"name": "c", "port_names": [name]}]
        config = types.Config.model_validate(body)
        plans = plan_flows(config, ports)
        if message is None:
            check_captures(config, ports, plans)
            continue
        with pytest.raises(Refused) as caught:
            check_captures(config, ports, plans)
        assert f"captures[0].port_names: {message}" in str(caught.value)


def test_an_empty_body_does_not_erase_the_configuration() -> None:
    service = Service(PORTS, traffic=None)
    with pytest.raises(Refused, match="document: is empty"):
        service.routes["POST", "/config"](b"")


def test_numbers_that_are_not_finite_are_refused() -> None:
    text = json.dumps(document(packet=[], duration={"fixed_seconds": {"seconds": float("inf")}}))
    with pytest.raises(ValueError, match="finite number"):
        types.Config.model_validate_json(text)
