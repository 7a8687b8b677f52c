"""The part of the Open Traffic Generator API 1.61.0 that is supported.

Made by tools/otg-types from the published OpenAPI document; do not edit. Every model is closed, so
that other fields are refused by their path.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

VERSION = "1.61.0"


def _long(value: object) -> object:
    """JSON made from protobuf writes whole numbers of 64 bits as text."""
    return int(value) if isinstance(value, str) and value.isdecimal() else value


Long = Annotated[int, BeforeValidator(_long)]


class Part(BaseModel):
    """Closed, and of no other type than the document's."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


class Capture(Part):
    """OTG `Capture`: Configuration for capture settings."""

    port_names: list[str]
    overwrite: bool = True
    packet_size: Annotated[int, Field(ge=0, le=65535)] | None = None
    format: Literal["pcap"] = "pcap"
    name: str


class CaptureRequest(Part):
    """OTG `Capture.Request`: The capture result request to the traffic generator."""

    port_name: str


class Config(Part):
    """OTG `Config`: A container for all models that are part of the configuration."""

    ports: list[Port] | None = None
    options: ConfigOptions | None = None
    layer1: list[Layer1] | None = None
    captures: list[Capture] | None = None
    flows: list[Flow] | None = None


class ConfigOptions(Part):
    """OTG `Config.Options`: Global configuration options."""

    port_options: PortOptions | None = None


class ControlState(Part):
    """OTG `Control.State`: Request for setting operational state of configured resources."""

    choice: Literal["port", "traffic"]
    port: StatePort | None = None
    traffic: StateTraffic | None = None


class Error(Part):
    """OTG `Error`: Error response generated while serving API request."""

    code: Annotated[int, Field(ge=0)]
    kind: Literal["validation", "internal"] | None = None
    errors: list[str]


class Flow(Part):
    """OTG `Flow`: A high level data plane traffic flow."""

    tx_rx: FlowTxRx
    packet: list[FlowHeader] | None = None
    size: FlowSize | None = None
    rate: FlowRate | None = None
    duration: FlowDuration | None = None
    metrics: FlowMetrics | None = None
    name: str


class FlowBurst(Part):
    """OTG `Flow.Burst`: Transmits continuous or fixed burst of packets."""

    bursts: Annotated[int, Field(ge=0)] = 0
    packets: Annotated[int, Field(ge=1)] = 1
    gap: Annotated[int, Field(ge=0)] = 12
    inter_burst_gap: FlowDurationInterBurstGap | None = None


class FlowContinuous(Part):
    """OTG `Flow.Continuous`: Transmit will be continuous and will not stop automatically."""

    gap: Annotated[int, Field(ge=0)] = 12


class FlowCustom(Part):
    """OTG `Flow.Custom`: Custom packet header."""

    bytes: str


class FlowDuration(Part):
    """OTG `Flow.Duration`: A container for different transmit durations."""

    choice: Literal["fixed_packets", "fixed_seconds", "burst", "continuous"] = "continuous"
    fixed_packets: FlowFixedPackets | None = None
    fixed_seconds: FlowFixedSeconds | None = None
    burst: FlowBurst | None = None
    continuous: FlowContinuous | None = None


class FlowDurationInterBurstGap(Part):
    """OTG `Flow.Duration.InterBurstGap`."""

    choice: Literal["bytes", "nanoseconds", "microseconds"] = "bytes"
    bytes: Annotated[float, Field(ge=0)] = 12
    nanoseconds: Annotated[float, Field(ge=0)] = 96
    microseconds: Annotated[float, Field(ge=0)] = 0.096


class FlowEthernet(Part):
    """OTG `Flow.Ethernet`: Ethernet packet header."""

    dst: PatternFlowEthernetDst | None = None
    src: PatternFlowEthernetSrc | None = None


class FlowFixedPackets(Part):
    """OTG `Flow.FixedPackets`."""

    packets: Annotated[int, Field(ge=1)] = 1
    gap: Annotated[int, Field(ge=0)] = 12


class FlowFixedSeconds(Part):
    """OTG `Flow.FixedSeconds`."""

    seconds: Annotated[float, Field(ge=0)] = 1
    gap: Annotated[int, Field(ge=0)] = 12


class FlowHeader(Part):
    """OTG `Flow.Header`: Configuration for all traffic packet headers."""

    choice: Literal["custom", "ethernet", "vlan", "vxlan", "ipv4", "ipv6", "udp"] = "ethernet"
    ethernet: FlowEthernet | None = None
    vlan: FlowVlan | None = None
    ipv4: FlowIpv4 | None = None
    ipv6: FlowIpv6 | None = None
    udp: FlowUdp | None = None
    vxlan: FlowVxlan | None = None
    custom: FlowCustom | None = None


class FlowIpv4(Part):
    """OTG `Flow.Ipv4`: IPv4 packet header."""

    priority: FlowIpv4Priority | None = None
    identification: PatternFlowIpv4Identification | None = None
    dont_fragment: PatternFlowIpv4DontFragment | None = None
    time_to_live: PatternFlowIpv4TimeToLive | None = None
    src: PatternFlowIpv4Src | None = None
    dst: PatternFlowIpv4Dst | None = None


class FlowIpv4Dscp(Part):
    """OTG `Flow.Ipv4.Dscp`: Differentiated services code point (DSCP) packet field."""

    phb: PatternFlowIpv4DscpPhb | None = None
    ecn: PatternFlowIpv4DscpEcn | None = None


class FlowIpv4Priority(Part):
    """OTG `Flow.Ipv4.Priority`: A container for ipv4 raw, tos, dscp ip priorities."""

    choice: Literal["raw", "dscp"] = "dscp"
    raw: PatternFlowIpv4PriorityRaw | None = None
    dscp: FlowIpv4Dscp | None = None


class FlowIpv6(Part):
    """OTG `Flow.Ipv6`: IPv6 packet header."""

    traffic_class: PatternFlowIpv6TrafficClass | None = None
    flow_label: PatternFlowIpv6FlowLabel | None = None
    hop_limit: PatternFlowIpv6HopLimit | None = None
    src: PatternFlowIpv6Src | None = None
    dst: PatternFlowIpv6Dst | None = None


class FlowLatencyMetrics(Part):
    """OTG `Flow.Latency.Metrics`."""

    enable: bool = False
    mode: Literal["store_forward", "cut_through"] = "store_forward"


class FlowMetric(Part):
    """OTG `Flow.Metric`: A container for flow metrics."""

    name: str | None = None
    port_tx: str | None = None
    port_rx: str | None = None
    transmit: Literal["started", "stopped", "paused"] | None = None
    frames_tx: Annotated[Long, Field(ge=0)] | None = None
    frames_rx: Annotated[Long, Field(ge=0)] | None = None
    bytes_tx: Annotated[Long, Field(ge=0)] | None = None
    bytes_rx: Annotated[Long, Field(ge=0)] | None = None
    frames_tx_rate: float | None = None
    frames_rx_rate: float | None = None
    loss: float | None = None
    timestamps: MetricTimestamp | None = None
    latency: MetricLatency | None = None


class FlowMetrics(Part):
    """OTG `Flow.Metrics`: The optional container for configuring flow metrics."""

    enable: bool = False
    loss: bool = False
    timestamps: bool = False
    latency: FlowLatencyMetrics | None = None


class FlowMetricsRequest(Part):
    """OTG `Flow.Metrics.Request`: The container for a flow metric request."""

    flow_names: list[str] | None = None
    metric_names: (
        list[
            Literal[
                "transmit",
                "frames_tx",
                "frames_rx",
                "bytes_tx",
                "bytes_rx",
                "frames_tx_rate",
                "frames_rx_rate",
            ]
        ]
        | None
    ) = None


class FlowPort(Part):
    """OTG `Flow.Port`: A container for a transmit port and 0..n intended receive ports."""

    tx_name: str
    rx_name: str | None = None
    rx_names: list[str] | None = None


class FlowRate(Part):
    """OTG `Flow.Rate`: The rate of packet transmission."""

    choice: Literal["pps", "bps", "kbps", "mbps", "gbps", "percentage"] = "pps"
    pps: Annotated[Long, Field(ge=1)] = 1000
    bps: Annotated[Long, Field(ge=672)] = 1000000000
    kbps: Annotated[Long, Field(ge=1)] = 1000000
    mbps: Annotated[Long, Field(ge=1)] = 1000
    gbps: Annotated[int, Field(ge=1)] = 1
    percentage: Annotated[float, Field(ge=0, le=100)] = 100


class FlowSize(Part):
    """OTG `Flow.Size`: The frame size which overrides the total length of the packet."""

    choice: Literal["fixed", "increment", "random", "weight_pairs"] = "fixed"
    fixed: Annotated[int, Field(ge=0)] = 64
    increment: FlowSizeIncrement | None = None
    random: FlowSizeRandom | None = None
    weight_pairs: FlowSizeWeightPairs | None = None


class FlowSizeIncrement(Part):
    """OTG `Flow.SizeIncrement`."""

    start: Annotated[int, Field(ge=1)] = 64
    end: Annotated[int, Field(ge=64)] = 1518
    step: Annotated[int, Field(ge=0)] = 1


class FlowSizeRandom(Part):
    """OTG `Flow.SizeRandom`: Random frame size from a min value to a max value."""

    min: Annotated[int, Field(ge=0)] = 64
    max: Annotated[int, Field(ge=0)] = 1518


class FlowSizeWeightPairs(Part):
    """OTG `Flow.SizeWeightPairs`."""

    choice: Literal["predefined", "custom"] = "predefined"
    predefined: Literal["imix"] = "imix"
    custom: list[FlowSizeWeightPairsCustom] | None = None


class FlowSizeWeightPairsCustom(Part):
    """OTG `Flow.SizeWeightPairs.Custom`: Custom frame size distribution <size, weight> pair."""

    size: Annotated[int, Field(ge=12, le=65535)] = 64
    weight: float = 1


class FlowTxRx(Part):
    """OTG `Flow.TxRx`."""

    choice: Literal["port"] = "port"
    port: FlowPort | None = None


class FlowUdp(Part):
    """OTG `Flow.Udp`: UDP packet header."""

    src_port: PatternFlowUdpSrcPort | None = None
    dst_port: PatternFlowUdpDstPort | None = None


class FlowVlan(Part):
    """OTG `Flow.Vlan`: VLAN packet header."""

    priority: PatternFlowVlanPriority | None = None
    cfi: PatternFlowVlanCfi | None = None
    id: PatternFlowVlanId | None = None


class FlowVxlan(Part):
    """OTG `Flow.Vxlan`: VXLAN packet header."""

    flags: PatternFlowVxlanFlags | None = None
    reserved0: PatternFlowVxlanReserved0 | None = None
    vni: PatternFlowVxlanVni | None = None
    reserved1: PatternFlowVxlanReserved1 | None = None


class Layer1(Part):
    """OTG `Layer1`: A container for layer1 settings."""

    port_names: list[str]
    speed: (
        Literal[
            "speed_10_fd_mbps",
            "speed_10_hd_mbps",
            "speed_100_fd_mbps",
            "speed_100_hd_mbps",
            "speed_1_gbps",
            "speed_10_gbps",
            "speed_25_gbps",
            "speed_40_gbps",
            "speed_50_gbps",
            "speed_100_gbps",
            "speed_200_gbps",
            "speed_400_gbps",
            "speed_800_gbps",
        ]
        | None
    ) = None
    promiscuous: bool = True
    mtu: Annotated[int, Field(ge=64, le=14000)] = 1500
    name: str


class MetricLatency(Part):
    """OTG `Metric.Latency`: The container for latency metrics."""

    minimum_ns: float | None = None
    maximum_ns: float | None = None
    average_ns: float | None = None


class MetricTimestamp(Part):
    """OTG `Metric.Timestamp`: The container for timestamp metrics."""

    first_timestamp_ns: float | None = None
    last_timestamp_ns: float | None = None


class MetricsRequest(Part):
    """OTG `Metrics.Request`: Request to traffic generator for metrics of choice."""

    choice: Literal["port", "flow"] = "port"
    port: PortMetricsRequest | None = None
    flow: FlowMetricsRequest | None = None


class MetricsResponse(Part):
    """OTG `Metrics.Response`: Response containing chosen traffic generator metrics."""

    choice: Literal["flow_metrics", "port_metrics"] = "port_metrics"
    port_metrics: list[PortMetric] | None = None
    flow_metrics: list[FlowMetric] | None = None


class PatternFlowEthernetDst(Part):
    """OTG `Pattern.Flow.Ethernet.Dst`: Destination MAC address."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: str = "00:00:00:00:00:00"
    values: list[str] = ["00:00:00:00:00:00"]
    increment: PatternFlowEthernetDstCounter | None = None
    decrement: PatternFlowEthernetDstCounter | None = None


class PatternFlowEthernetDstCounter(Part):
    """OTG `Pattern.Flow.Ethernet.Dst.Counter`: mac counter pattern."""

    start: str = "00:00:00:00:00:00"
    step: str = "00:00:00:00:00:01"
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowEthernetSrc(Part):
    """OTG `Pattern.Flow.Ethernet.Src`: Source MAC address."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: str = "00:00:00:00:00:00"
    values: list[str] = ["00:00:00:00:00:00"]
    increment: PatternFlowEthernetSrcCounter | None = None
    decrement: PatternFlowEthernetSrcCounter | None = None


class PatternFlowEthernetSrcCounter(Part):
    """OTG `Pattern.Flow.Ethernet.Src.Counter`: mac counter pattern."""

    start: str = "00:00:00:00:00:00"
    step: str = "00:00:00:00:00:01"
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv4DontFragment(Part):
    """OTG `Pattern.Flow.Ipv4.DontFragment`."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=1)] = 0
    values: list[Annotated[int, Field(ge=0, le=1)]] = [0]
    increment: PatternFlowIpv4DontFragmentCounter | None = None
    decrement: PatternFlowIpv4DontFragmentCounter | None = None


class PatternFlowIpv4DontFragmentCounter(Part):
    """OTG `Pattern.Flow.Ipv4.DontFragment.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=1)] = 0
    step: Annotated[int, Field(ge=0, le=1)] = 1
    count: Annotated[int, Field(ge=0, le=2)] = 1


class PatternFlowIpv4DscpEcn(Part):
    """OTG `Pattern.Flow.Ipv4.Dscp.Ecn`: Explicit congestion notification."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=3)] = 0
    values: list[Annotated[int, Field(ge=0, le=3)]] = [0]
    increment: PatternFlowIpv4DscpEcnCounter | None = None
    decrement: PatternFlowIpv4DscpEcnCounter | None = None


class PatternFlowIpv4DscpEcnCounter(Part):
    """OTG `Pattern.Flow.Ipv4.Dscp.Ecn.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=3)] = 0
    step: Annotated[int, Field(ge=0, le=3)] = 1
    count: Annotated[int, Field(ge=0, le=4)] = 1


class PatternFlowIpv4DscpPhb(Part):
    """OTG `Pattern.Flow.Ipv4.Dscp.Phb`: Per hop behavior."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=63)] = 0
    values: list[Annotated[int, Field(ge=0, le=63)]] = [0]
    increment: PatternFlowIpv4DscpPhbCounter | None = None
    decrement: PatternFlowIpv4DscpPhbCounter | None = None


class PatternFlowIpv4DscpPhbCounter(Part):
    """OTG `Pattern.Flow.Ipv4.Dscp.Phb.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=63)] = 0
    step: Annotated[int, Field(ge=0, le=63)] = 1
    count: Annotated[int, Field(ge=0, le=64)] = 1


class PatternFlowIpv4Dst(Part):
    """OTG `Pattern.Flow.Ipv4.Dst`: Destination address."""

    choice: Literal["value", "values", "increment", "decrement", "random"] = "value"
    value: str = "0.0.0.0"
    values: list[str] = ["0.0.0.0"]
    increment: PatternFlowIpv4DstCounter | None = None
    decrement: PatternFlowIpv4DstCounter | None = None
    random: PatternFlowIpv4DstRandom | None = None


class PatternFlowIpv4DstCounter(Part):
    """OTG `Pattern.Flow.Ipv4.Dst.Counter`: ipv4 counter pattern."""

    start: str = "0.0.0.0"
    step: str = "0.0.0.1"
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv4DstRandom(Part):
    """OTG `Pattern.Flow.Ipv4.Dst.Random`: ipv4 random pattern."""

    min: str = "0.0.0.0"
    max: str = "255.255.255.255"
    seed: Annotated[int, Field(ge=0)] = 1
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv4Identification(Part):
    """OTG `Pattern.Flow.Ipv4.Identification`: Identification."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=65535)] = 0
    values: list[Annotated[int, Field(ge=0, le=65535)]] = [0]
    increment: PatternFlowIpv4IdentificationCounter | None = None
    decrement: PatternFlowIpv4IdentificationCounter | None = None


class PatternFlowIpv4IdentificationCounter(Part):
    """OTG `Pattern.Flow.Ipv4.Identification.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=65535)] = 0
    step: Annotated[int, Field(ge=0, le=65535)] = 1
    count: Annotated[int, Field(ge=0, le=65536)] = 1


class PatternFlowIpv4PriorityRaw(Part):
    """OTG `Pattern.Flow.Ipv4.Priority.Raw`: Raw priority."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=255)] = 0
    values: list[Annotated[int, Field(ge=0, le=255)]] = [0]
    increment: PatternFlowIpv4PriorityRawCounter | None = None
    decrement: PatternFlowIpv4PriorityRawCounter | None = None


class PatternFlowIpv4PriorityRawCounter(Part):
    """OTG `Pattern.Flow.Ipv4.Priority.Raw.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=255)] = 0
    step: Annotated[int, Field(ge=0, le=255)] = 1
    count: Annotated[int, Field(ge=0, le=256)] = 1


class PatternFlowIpv4Src(Part):
    """OTG `Pattern.Flow.Ipv4.Src`: Source address."""

    choice: Literal["value", "values", "increment", "decrement", "random"] = "value"
    value: str = "0.0.0.0"
    values: list[str] = ["0.0.0.0"]
    increment: PatternFlowIpv4SrcCounter | None = None
    decrement: PatternFlowIpv4SrcCounter | None = None
    random: PatternFlowIpv4SrcRandom | None = None


class PatternFlowIpv4SrcCounter(Part):
    """OTG `Pattern.Flow.Ipv4.Src.Counter`: ipv4 counter pattern."""

    start: str = "0.0.0.0"
    step: str = "0.0.0.1"
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv4SrcRandom(Part):
    """OTG `Pattern.Flow.Ipv4.Src.Random`: ipv4 random pattern."""

    min: str = "0.0.0.0"
    max: str = "255.255.255.255"
    seed: Annotated[int, Field(ge=0)] = 1
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv4TimeToLive(Part):
    """OTG `Pattern.Flow.Ipv4.TimeToLive`: Time to live."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=255)] = 64
    values: list[Annotated[int, Field(ge=0, le=255)]] = [64]
    increment: PatternFlowIpv4TimeToLiveCounter | None = None
    decrement: PatternFlowIpv4TimeToLiveCounter | None = None


class PatternFlowIpv4TimeToLiveCounter(Part):
    """OTG `Pattern.Flow.Ipv4.TimeToLive.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=255)] = 64
    step: Annotated[int, Field(ge=0, le=255)] = 1
    count: Annotated[int, Field(ge=0, le=256)] = 1


class PatternFlowIpv6Dst(Part):
    """OTG `Pattern.Flow.Ipv6.Dst`: Destination address in IPv6 packet header."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: str = "::0"
    values: list[str] = ["::0"]
    increment: PatternFlowIpv6DstCounter | None = None
    decrement: PatternFlowIpv6DstCounter | None = None


class PatternFlowIpv6DstCounter(Part):
    """OTG `Pattern.Flow.Ipv6.Dst.Counter`: ipv6 counter pattern."""

    start: str = "::0"
    step: str = "::1"
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv6FlowLabel(Part):
    """OTG `Pattern.Flow.Ipv6.FlowLabel`: Flow label."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=1048575)] = 0
    values: list[Annotated[int, Field(ge=0, le=1048575)]] = [0]
    increment: PatternFlowIpv6FlowLabelCounter | None = None
    decrement: PatternFlowIpv6FlowLabelCounter | None = None


class PatternFlowIpv6FlowLabelCounter(Part):
    """OTG `Pattern.Flow.Ipv6.FlowLabel.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=1048575)] = 0
    step: Annotated[int, Field(ge=0, le=1048575)] = 1
    count: Annotated[int, Field(ge=0, le=1048576)] = 1


class PatternFlowIpv6HopLimit(Part):
    """OTG `Pattern.Flow.Ipv6.HopLimit`: Hop limit."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=255)] = 64
    values: list[Annotated[int, Field(ge=0, le=255)]] = [64]
    increment: PatternFlowIpv6HopLimitCounter | None = None
    decrement: PatternFlowIpv6HopLimitCounter | None = None


class PatternFlowIpv6HopLimitCounter(Part):
    """OTG `Pattern.Flow.Ipv6.HopLimit.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=255)] = 64
    step: Annotated[int, Field(ge=0, le=255)] = 1
    count: Annotated[int, Field(ge=0, le=256)] = 1


class PatternFlowIpv6Src(Part):
    """OTG `Pattern.Flow.Ipv6.Src`: Source address."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: str = "::0"
    values: list[str] = ["::0"]
    increment: PatternFlowIpv6SrcCounter | None = None
    decrement: PatternFlowIpv6SrcCounter | None = None


class PatternFlowIpv6SrcCounter(Part):
    """OTG `Pattern.Flow.Ipv6.Src.Counter`: ipv6 counter pattern."""

    start: str = "::0"
    step: str = "::1"
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowIpv6TrafficClass(Part):
    """OTG `Pattern.Flow.Ipv6.TrafficClass`: Traffic class."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=255)] = 0
    values: list[Annotated[int, Field(ge=0, le=255)]] = [0]
    increment: PatternFlowIpv6TrafficClassCounter | None = None
    decrement: PatternFlowIpv6TrafficClassCounter | None = None


class PatternFlowIpv6TrafficClassCounter(Part):
    """OTG `Pattern.Flow.Ipv6.TrafficClass.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=255)] = 0
    step: Annotated[int, Field(ge=0, le=255)] = 1
    count: Annotated[int, Field(ge=0, le=256)] = 1


class PatternFlowUdpDstPort(Part):
    """OTG `Pattern.Flow.Udp.DstPort`: Destination port."""

    choice: Literal["value", "values", "increment", "decrement", "random"] = "value"
    value: Annotated[int, Field(ge=0, le=65535)] = 0
    values: list[Annotated[int, Field(ge=0, le=65535)]] = [0]
    increment: PatternFlowUdpDstPortCounter | None = None
    decrement: PatternFlowUdpDstPortCounter | None = None
    random: PatternFlowUdpDstPortRandom | None = None


class PatternFlowUdpDstPortCounter(Part):
    """OTG `Pattern.Flow.Udp.DstPort.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=65535)] = 0
    step: Annotated[int, Field(ge=0, le=65535)] = 1
    count: Annotated[int, Field(ge=0, le=65536)] = 1


class PatternFlowUdpDstPortRandom(Part):
    """OTG `Pattern.Flow.Udp.DstPort.Random`: integer random pattern."""

    min: Annotated[int, Field(ge=0, le=65535)] = 0
    max: Annotated[int, Field(ge=0, le=65535)] = 65535
    seed: Annotated[int, Field(ge=0)] = 1
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowUdpSrcPort(Part):
    """OTG `Pattern.Flow.Udp.SrcPort`: Source port."""

    choice: Literal["value", "values", "increment", "decrement", "random"] = "value"
    value: Annotated[int, Field(ge=0, le=65535)] = 0
    values: list[Annotated[int, Field(ge=0, le=65535)]] = [0]
    increment: PatternFlowUdpSrcPortCounter | None = None
    decrement: PatternFlowUdpSrcPortCounter | None = None
    random: PatternFlowUdpSrcPortRandom | None = None


class PatternFlowUdpSrcPortCounter(Part):
    """OTG `Pattern.Flow.Udp.SrcPort.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=65535)] = 0
    step: Annotated[int, Field(ge=0, le=65535)] = 1
    count: Annotated[int, Field(ge=0, le=65536)] = 1


class PatternFlowUdpSrcPortRandom(Part):
    """OTG `Pattern.Flow.Udp.SrcPort.Random`: integer random pattern."""

    min: Annotated[int, Field(ge=0, le=65535)] = 0
    max: Annotated[int, Field(ge=0, le=65535)] = 65535
    seed: Annotated[int, Field(ge=0)] = 1
    count: Annotated[int, Field(ge=0)] = 1


class PatternFlowVlanCfi(Part):
    """OTG `Pattern.Flow.Vlan.Cfi`: Canonical format indicator or drop eligible indicator."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=1)] = 0
    values: list[Annotated[int, Field(ge=0, le=1)]] = [0]
    increment: PatternFlowVlanCfiCounter | None = None
    decrement: PatternFlowVlanCfiCounter | None = None


class PatternFlowVlanCfiCounter(Part):
    """OTG `Pattern.Flow.Vlan.Cfi.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=1)] = 0
    step: Annotated[int, Field(ge=0, le=1)] = 1
    count: Annotated[int, Field(ge=0, le=2)] = 1


class PatternFlowVlanId(Part):
    """OTG `Pattern.Flow.Vlan.Id`: Vlan identifier."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=4095)] = 0
    values: list[Annotated[int, Field(ge=0, le=4095)]] = [0]
    increment: PatternFlowVlanIdCounter | None = None
    decrement: PatternFlowVlanIdCounter | None = None


class PatternFlowVlanIdCounter(Part):
    """OTG `Pattern.Flow.Vlan.Id.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=4095)] = 0
    step: Annotated[int, Field(ge=0, le=4095)] = 1
    count: Annotated[int, Field(ge=0, le=4096)] = 1


class PatternFlowVlanPriority(Part):
    """OTG `Pattern.Flow.Vlan.Priority`: Priority code point."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=7)] = 0
    values: list[Annotated[int, Field(ge=0, le=7)]] = [0]
    increment: PatternFlowVlanPriorityCounter | None = None
    decrement: PatternFlowVlanPriorityCounter | None = None


class PatternFlowVlanPriorityCounter(Part):
    """OTG `Pattern.Flow.Vlan.Priority.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=7)] = 0
    step: Annotated[int, Field(ge=0, le=7)] = 1
    count: Annotated[int, Field(ge=0, le=8)] = 1


class PatternFlowVxlanFlags(Part):
    """OTG `Pattern.Flow.Vxlan.Flags`: Flags field with a bit format of RRRRIRRR."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=255)] = 8
    values: list[Annotated[int, Field(ge=0, le=255)]] = [8]
    increment: PatternFlowVxlanFlagsCounter | None = None
    decrement: PatternFlowVxlanFlagsCounter | None = None


class PatternFlowVxlanFlagsCounter(Part):
    """OTG `Pattern.Flow.Vxlan.Flags.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=255)] = 8
    step: Annotated[int, Field(ge=0, le=255)] = 1
    count: Annotated[int, Field(ge=0, le=256)] = 1


class PatternFlowVxlanReserved0(Part):
    """OTG `Pattern.Flow.Vxlan.Reserved0`: Reserved field."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=16777215)] = 0
    values: list[Annotated[int, Field(ge=0, le=16777215)]] = [0]
    increment: PatternFlowVxlanReserved0Counter | None = None
    decrement: PatternFlowVxlanReserved0Counter | None = None


class PatternFlowVxlanReserved0Counter(Part):
    """OTG `Pattern.Flow.Vxlan.Reserved0.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=16777215)] = 0
    step: Annotated[int, Field(ge=0, le=16777215)] = 1
    count: Annotated[int, Field(ge=0, le=16777216)] = 1


class PatternFlowVxlanReserved1(Part):
    """OTG `Pattern.Flow.Vxlan.Reserved1`: Reserved field."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=255)] = 0
    values: list[Annotated[int, Field(ge=0, le=255)]] = [0]
    increment: PatternFlowVxlanReserved1Counter | None = None
    decrement: PatternFlowVxlanReserved1Counter | None = None


class PatternFlowVxlanReserved1Counter(Part):
    """OTG `Pattern.Flow.Vxlan.Reserved1.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=255)] = 0
    step: Annotated[int, Field(ge=0, le=255)] = 1
    count: Annotated[int, Field(ge=0, le=256)] = 1


class PatternFlowVxlanVni(Part):
    """OTG `Pattern.Flow.Vxlan.Vni`: VXLAN network id."""

    choice: Literal["value", "values", "increment", "decrement"] = "value"
    value: Annotated[int, Field(ge=0, le=16777215)] = 0
    values: list[Annotated[int, Field(ge=0, le=16777215)]] = [0]
    increment: PatternFlowVxlanVniCounter | None = None
    decrement: PatternFlowVxlanVniCounter | None = None


class PatternFlowVxlanVniCounter(Part):
    """OTG `Pattern.Flow.Vxlan.Vni.Counter`: integer counter pattern."""

    start: Annotated[int, Field(ge=0, le=16777215)] = 0
    step: Annotated[int, Field(ge=0, le=16777215)] = 1
    count: Annotated[int, Field(ge=0, le=16777216)] = 1


class Port(Part):
    """OTG `Port`: An abstract test port."""

    location: str | None = None
    name: str


class PortMetric(Part):
    """OTG `Port.Metric`."""

    name: str | None = None
    location: str | None = None
    link: Literal["up", "down"] | None = None
    capture: Literal["started", "stopped"] | None = None
    frames_tx: Annotated[Long, Field(ge=0)] | None = None
    frames_rx: Annotated[Long, Field(ge=0)] | None = None
    bytes_tx: Annotated[Long, Field(ge=0)] | None = None
    bytes_rx: Annotated[Long, Field(ge=0)] | None = None
    frames_tx_rate: float | None = None
    frames_rx_rate: float | None = None
    bytes_tx_rate: float | None = None
    bytes_rx_rate: float | None = None
    transmit: Literal["started", "stopped"] | None = None


class PortMetricsRequest(Part):
    """OTG `Port.Metrics.Request`: The port result request to the traffic generator."""

    port_names: list[str] | None = None
    column_names: (
        list[
            Literal[
                "transmit",
                "location",
                "link",
                "capture",
                "frames_tx",
                "frames_rx",
                "bytes_tx",
                "bytes_rx",
                "frames_tx_rate",
                "frames_rx_rate",
                "bytes_tx_rate",
                "bytes_rx_rate",
            ]
        ]
        | None
    ) = None


class PortOptions(Part):
    """OTG `Port.Options`: Common port options that apply to all configured Port objects."""

    location_preemption: bool = False
    data_integrity: bool = False


class StatePort(Part):
    """OTG `State.Port`: States associated with configured ports."""

    choice: Literal["capture"]
    capture: StatePortCapture | None = None


class StatePortCapture(Part):
    """OTG `State.Port.Capture`: Sets the capture state of configured ports."""

    port_names: list[str] | None = None
    state: Literal["start", "stop"]


class StateTraffic(Part):
    """OTG `State.Traffic`: States associated with configured flows."""

    choice: Literal["flow_transmit"]
    flow_transmit: StateTrafficFlowTransmit | None = None


class StateTrafficFlowTransmit(Part):
    """OTG `State.Traffic.FlowTransmit`: Provides state control of flow transmission."""

    flow_names: list[str] | None = None
    state: Literal["start", "stop"]


class Version(Part):
    """OTG `Version`: Version details."""

    api_spec_version: str = ""
    sdk_version: str = ""
    app_version: str = ""


class Warning(Part):
    """OTG `Warning`: A list of warnings that have occurred while executing the request."""

    warnings: list[str] | None = None
