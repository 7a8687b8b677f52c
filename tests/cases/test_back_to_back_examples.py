"""The back-to-back files of otg-examples, unchanged and with UDP.

https://github.com/open-traffic-generator/otg-examples (8b62a4a) has flows of TCP, a bare Ethernet
header, pps as text, `gap: 12`, 9,000 bytes, 50 % of 200 Gbit/s, and a source address that increases
by 0.1.2.3. Fields that the generator cannot send are refused with their path when they are set; the
others are sent as written.
"""

from __future__ import annotations

import json
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest
import snappi
from pydantic import ValidationError

from switchmark.otg import types
from switchmark.otg.plan import plan_flows
from switchmark.otg.ports import TrafficPort
from switchmark.otg.refusal import Refused, from_validation
from tests.cases.engine import run_engine
from tests.cases.frames import Packet, parse, read_pcap

PORTS = {
    f"localhost:555{n}": TrafficPort(f"localhost:555{n}", f"raw:dev=v{n}", None, shared=True)
    for n in (5, 6)
}


def back_to_back(**changes: Any) -> dict[str, Any]:
    """Return such a configuration: one flow of 1,000 packets of 512 bytes at 100 a second."""
    value = lambda v: {"choice": "value", "value": v}  # noqa: E731
    packet = [
        {"choice": "ethernet", "ethernet": {"src": value("00:00:00:00:00:aa"),
                                            "dst": value("00:00:00:00:00:bb")}},
        {"choice": "ipv4", "ipv4": {"src": value("10.0.0.1"), "dst": value("10.0.0.2")}},
        {"choice": "udp", "udp": {"src_port": value(5000), "dst_port": value(6000)}},
    ]  # fmt: skip
    flow = {
        "name": "f1",
        "tx_rx": {"choice": "port", "port": {"tx_name": "p1", "rx_names": ["p2"]}},
        "packet": packet,
        "size": {"choice": "fixed", "fixed": 512},
        "rate": {"choice": "pps", "pps": 100},
        "duration": {"choice": "fixed_packets", "fixed_packets": {"packets": 1000, "gap": 12}},
        "metrics": {"enable": True, "loss": True},
    }
    ports = [{"name": "p1", "location": "localhost:5555"},
             {"name": "p2", "location": "localhost:5556"}]  # fmt: skip
    return {"ports": ports, "flows": [flow | changes]}


def plan(config: dict[str, Any]) -> Any:
    """Return the plan of the configuration's flow; refused as the server refuses it."""
    text = snappi.Api().config().deserialize(json.dumps(config)).serialize()
    try:
        (flow_plan,) = plan_flows(types.Config.model_validate_json(text), PORTS)
    except ValidationError as error:
        raise from_validation(error) from error
    return flow_plan


def sent(config: dict[str, Any], folder: Path) -> list[Packet]:
    """Return the frames of the configuration's flow, which the engine writes to a file."""
    flow_plan, options = plan(config), []
    given = iter(flow_plan.sender)
    for word in given:
        if word == "--port":
            next(given)
        else:
            options.append(word)
    if flow_plan.replay is not None:
        flow_plan.replay.write(folder / "flow.pcap")
        options += ["--replay", str(folder / "flow.pcap"), *flow_plan.replay.arguments]
    to = ["--port", f"pcap:write={folder / 'out.pcap'}", "--catch-up-us", "1000000000"]
    run_engine("sender", *options, *to).result  # noqa: B018 (the test fails if it has refused)
    return read_pcap(folder / "out.pcap")


def option(options: Any, name: str) -> str:
    options = list(options)
    return options[options.index(name) + 1]


def test_udp_is_sent_as_written(tmp_path: Path) -> None:
    """1,000 packets of 512 bytes at 100 a second; gap 12 is the gap of every wire. The test sends
    at 1,000 times that rate, so that it is short."""
    assert option(plan(back_to_back()).sender, "--rate") == "100"
    packets = sent(back_to_back(rate={"choice": "pps", "pps": 100_000}), tmp_path)
    assert len(packets) == 1000
    assert {one.wire_bytes + 4 for one in packets} == {512}
    assert all(parse(one.data).ports == (5000, 6000) for one in packets)


@pytest.mark.parametrize("headers", [["ethernet"], ["ethernet", "ipv4"]])
def test_headers_without_udp_are_refused_by_path(headers: list[str]) -> None:
    config = back_to_back()
    flow = config["flows"][0]
    flow["packet"] = [one for one in flow["packet"] if one["choice"] in headers]
    with pytest.raises(Refused, match=r"flows\[0\]\.packet"):
        plan(config)


def test_tcp_is_refused_by_path_and_kind() -> None:
    config = back_to_back()
    config["flows"][0]["packet"][2] = {"choice": "tcp", "tcp": {}}
    with pytest.raises(Refused, match=r"flows\[0\]\.packet\[2\].*tcp"):
        plan(config)


def test_half_of_200_gigabit_is_by_the_line() -> None:
    """50 % of 200 Gbit/s at 1,500 bytes: 10^11 bits of 1,520 bytes each, 8,223,684 a second."""
    assert 10**11 // (8 * 1520) == 8_223_684
    size, rate = {"choice": "fixed", "fixed": 1500}, {"choice": "percentage", "percentage": 50}
    seconds = {"choice": "fixed_seconds", "fixed_seconds": {"seconds": 1}}
    config = back_to_back(size=size, rate=rate, duration=seconds)
    config["layer1"] = [{"name": "l", "port_names": ["p1"], "speed": "speed_200_gbps"}]
    options = plan(config).sender
    assert float(option(options, "--rate").removesuffix("%")) == 50
    assert option(options, "--line-rate") == "200000Mbps"
    assert option(options, "--packet-size") == "1500"


def test_fields_in_step_are_the_frames_of_a_file(tmp_path: Path) -> None:
    """A source address that increases by 0.1.2.3 a hundred times, and a port that increases by 7
    with it: the frames have both, and after a hundred frames they begin again."""
    config = back_to_back(rate={"choice": "pps", "pps": 100_000})
    packet = config["flows"][0]["packet"]
    step = {"start": "10.0.0.1", "step": "0.1.2.3", "count": 100}
    packet[1]["ipv4"]["src"] = {"choice": "increment", "increment": step}
    up = {"start": 5000, "step": 7, "count": 100}
    packet[2]["udp"]["src_port"] = {"choice": "increment", "increment": up}
    datagrams = [parse(datagram.data) for datagram in sent(config, tmp_path)]
    assert len(datagrams) == 1000
    first, delta = int(ip_address("10.0.0.1")), int(ip_address("0.1.2.3"))
    for number, datagram in enumerate(datagrams):
        assert int(ip_address(datagram.source)) == first + delta * (number % 100)
        assert datagram.ports[0] == 5000 + 7 * (number % 100)
        assert datagram.sums_right
